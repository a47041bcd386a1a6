#include "base/folder_copy_io.h"

#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16, DEPTH_MAX = 32, HOLE_BYTES = 4096 };

struct copying {
    bool (*wanted)(const char *name);
    void (*lost)(void *ctx, const char *path, const char *why);
    void *ctx;
    bool holes;  /* what cannot be read of a file becomes zeros */
    char *block; /* [BLOCK_BYTES] */
    int depth;
};

static void tell(const struct copying *c, const char *path, int number)
{
    if (c->lost)
        c->lost(c->ctx, path, strerror(number));
}

/* A file that cannot be read in whole, at @at for the first time. */
static void tell_holes(const struct copying *c, const char *path,
                       uint64_t bytes, uint64_t at, int number)
{
    char text[160];

    if (bytes == 0 || !c->lost)
        return;
    snprintf(text, sizeof(text), "%s: %llu bytes, from byte %llu on, are zeros",
             strerror(number), (unsigned long long)bytes,
             (unsigned long long)at);
    c->lost(c->ctx, path, text);
}

static enum err put_bytes(const struct copying *c, int out, size_t n,
                          const char *to, struct fault *f)
{
    size_t done = 0;

    while (done < n) {
        ssize_t w = write(out, c->block + done, n - done);

        if (w < 0 && errno != EINTR)
            return fault_errno(f, ERR_IO, errno, "write %s", to);
        done += w > 0 ? (size_t)w : 0;
    }
    return ERR_OK;
}

/* Zeros in the place of what the disk does not give at @at, to the end of that
 * page or of the file's @bytes; 0: it has ended. */
static size_t make_hole(const struct copying *c, int in, uint64_t at,
                        uint64_t bytes)
{
    uint64_t n = HOLE_BYTES - at % HOLE_BYTES;

    if (at >= bytes)
        return 0;
    n = n < bytes - at ? n : bytes - at;
    memset(c->block, 0, n);
    return lseek(in, (off_t)(at + n), SEEK_SET) < 0 ? 0 : n;
}

/* A file that turns out to be unreadable is not there in part, unless its holes
 * are. */
static enum err copy_bytes(const struct copying *c, int in, uint64_t bytes,
                           int out, const char *from, const char *to,
                           struct fault *f)
{
    uint64_t at = 0, lost = 0, first = 0;
    enum err err = ERR_OK;
    int number = 0;

    while (!err) {
        ssize_t n = disk_system()->read(in, c->block, BLOCK_BYTES);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !c->holes) {
            tell(c, from, errno);
            unlink(to);
        } else if (n < 0) {
            number = errno;
            n = (ssize_t)make_hole(c, in, at, bytes);
            first = lost ? first : at;
            lost += (uint64_t)n;
        }
        if (n <= 0)
            break;
        err = put_bytes(c, out, (size_t)n, to, f);
        at += (uint64_t)n;
    }
    tell_holes(c, from, lost, first, number);
    return err;
}

static enum err copy_file(const struct copying *c, const char *from,
                          const char *to, const struct stat *st,
                          struct fault *f)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out;
    enum err err;

    if (in < 0) {
        tell(c, from, errno);
        return ERR_OK;
    }
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
    if (out < 0)
        err = fault_errno(f, ERR_IO, errno, "write %s", to);
    else
        err = copy_bytes(c, in, (uint64_t)st->st_size, out, from, to, f);
    if (out >= 0 && close(out) != 0 && !err)
        err = fault_errno(f, ERR_IO, errno, "write %s", to);
    close(in);
    return err;
}

static enum err copy_folder(struct copying *c, const char *from, const char *to,
                            struct fault *f);

static enum err copy_entry(struct copying *c, const char *from, const char *to,
                           const char *name, struct fault *f)
{
    char source[FILE_PATH_MAX], target[FILE_PATH_MAX];
    struct stat st;
    enum err err = file_join(source, from, name, f);

    if (!err)
        err = file_join(target, to, name, f);
    if (err)
        return err;
    if (lstat(source, &st) != 0) {
        tell(c, source, errno);
        return ERR_OK;
    }
    if (S_ISDIR(st.st_mode))
        return copy_folder(c, source, target, f);
    return S_ISREG(st.st_mode) ? copy_file(c, source, target, &st, f) : ERR_OK;
}

static enum err copy_folder(struct copying *c, const char *from, const char *to,
                            struct fault *f)
{
    struct dirent *entry;
    enum err err;
    DIR *d;

    if (c->depth == DEPTH_MAX)
        return fault_set(f, ERR_LIMIT, "%s: more than %d folders deep", from,
                         DEPTH_MAX);
    err = folder_ensure(to, FOLDER_PRIVATE, f);
    if (err)
        return err;
    d = opendir(from);
    if (!d && (errno == ENOMEM || errno == EMFILE || errno == ENFILE))
        return fault_errno(f, errno == ENOMEM ? ERR_NOMEM : ERR_IO, errno,
                           "read the folder %s", from);
    if (!d) {
        tell(c, from, errno);
        return ERR_OK;
    }
    c->depth++;
    while (!err && (entry = readdir(d))) {
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (c->depth == 1 && c->wanted && !c->wanted(name)))
            continue;
        err = copy_entry(c, from, to, name, f);
    }
    c->depth--;
    closedir(d);
    return err;
}

static enum err copy(struct copying *c, const char *from, const char *to,
                     struct fault *f)
{
    enum err err;

    assert(from && to);
    c->block = mem_alloc(BLOCK_BYTES);
    if (!c->block)
        return fault_set(f, ERR_NOMEM, "out of memory");
    err = copy_folder(c, from, to, f);
    mem_free(c->block);
    return err;
}

enum err folder_copy(const char *from, const char *to,
                     bool (*wanted)(const char *name),
                     void (*lost)(void *ctx, const char *path, const char *why),
                     void *ctx, struct fault *f)
{
    struct copying c = {.wanted = wanted, .lost = lost, .ctx = ctx};

    assert(from && to);
    return copy(&c, from, to, f);
}

enum err folder_copy_torn(const char *from, const char *to,
                          bool (*wanted)(const char *name),
                          void (*lost)(void *ctx, const char *path,
                                       const char *why),
                          void *ctx, struct fault *f)
{
    struct copying c = {
        .wanted = wanted, .lost = lost, .ctx = ctx, .holes = true};

    assert(from && to);
    return copy(&c, from, to, f);
}
