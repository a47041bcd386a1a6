#include "base/folder_copy_io.h"

#include "base/file_io.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16, DEPTH_MAX = 32 };

struct copying {
    bool (*wanted)(const char *name);
    void (*lost)(void *ctx, const char *path, const char *why);
    void *ctx;
    char *block; /* [BLOCK_BYTES] */
    int depth;
};

static void tell(const struct copying *c, const char *path, int number)
{
    if (c->lost)
        c->lost(c->ctx, path, strerror(number));
}

/* A file that turns out to be unreadable is not there in part. */
static enum err copy_bytes(const struct copying *c, int in, int out,
                           const char *from, const char *to, struct fault *f)
{
    for (;;) {
        ssize_t n = read(in, c->block, BLOCK_BYTES), done = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            tell(c, from, errno);
            unlink(to);
        }
        if (n <= 0)
            return ERR_OK;
        while (done < n) {
            ssize_t w = write(out, c->block + done, (size_t)(n - done));

            if (w < 0 && errno != EINTR)
                return fault_errno(f, ERR_IO, errno, "write %s", to);
            done += w > 0 ? w : 0;
        }
    }
}

static enum err copy_file(const struct copying *c, const char *from,
                          const char *to, mode_t mode, struct fault *f)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out;
    enum err err;

    if (in < 0) {
        tell(c, from, errno);
        return ERR_OK;
    }
    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    if (out < 0)
        err = fault_errno(f, ERR_IO, errno, "write %s", to);
    else
        err = copy_bytes(c, in, out, from, to, f);
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
    return S_ISREG(st.st_mode) ? copy_file(c, source, target, st.st_mode, f)
                               : ERR_OK;
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

enum err folder_copy(const char *from, const char *to,
                     bool (*wanted)(const char *name),
                     void (*lost)(void *ctx, const char *path, const char *why),
                     void *ctx, struct fault *f)
{
    struct copying c = {wanted, lost, ctx, mem_alloc(BLOCK_BYTES), 0};
    enum err err;

    assert(from && to);
    if (!c.block)
        return fault_set(f, ERR_NOMEM, "out of memory");
    err = copy_folder(&c, from, to, f);
    mem_free(c.block);
    return err;
}
