#include "base/file_io.h"

#include "base/disk_io.h"
#include "base/mem.h"
#include "base/subprocess_io.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WALK_FDS_MAX = 16,
    PLAIN_BYTES = 2048 /* of a folder's entries, read at a time */
};

enum err file_join(char out[FILE_PATH_MAX], const char *dir, const char *name,
                   struct fault *f)
{
    int n = snprintf(out, FILE_PATH_MAX, "%s/%s", dir, name);

    assert(dir && name);
    if (n < 0 || n >= FILE_PATH_MAX)
        return fault_set(f, ERR_LIMIT, "path too long: %.200s.../%s", dir,
                         name);
    return ERR_OK;
}

/* ---- files --------------------------------------------------------------- */

enum err file_write(const char *path, const void *data, size_t len,
                    struct fault *f)
{
    return disk_write(NULL, path, DISK_PRIVATE, data, len, f);
}

enum err file_write_shared(const char *path, const void *data, size_t len,
                           struct fault *f)
{
    return disk_write(NULL, path, DISK_SHARED, data, len, f);
}

enum err file_write_line(const char *path, const char *text, struct fault *f)
{
    struct disk_out o;
    enum err err = disk_out_open(&o, NULL, path, DISK_SHARED, f);

    assert(path && text);
    if (err)
        return err;
    err = disk_out_put(&o, text, strlen(text), f);
    if (!err)
        err = disk_out_put(&o, "\n", 1, f);
    return disk_out_end(&o, err, f);
}

/* Written whole under a name of this process, then linked: a link never takes
 * the place of a file. */
enum err file_create(const char *path, const void *data, size_t len,
                     struct fault *f)
{
    const struct disk_ops *ops = disk_system();
    char own[FILE_PATH_MAX];
    enum err err;

    assert(path && (data || len == 0));
    if (snprintf(own, sizeof(own), "%s.%ld.tmp", path, (long)getpid()) >=
        FILE_PATH_MAX)
        return fault_set(f, ERR_LIMIT, "path too long: %.200s...", path);
    err = file_write(own, data, len, f);
    if (err)
        return err;
    if (ops->link(own, path) != 0)
        err = fault_errno(f, errno == EEXIST ? ERR_EXIST : ERR_IO, errno,
                          "write %s", path);
    ops->unlink(own);
    return err ? err : disk_flush_parent(ops, path, f);
}

/* Whether @name is @base with the number of a process that has ended, as
 * file_create and folder_begin name their own; or that name's own `.tmp`. */
static bool left_by_the_dead(const char *name, const char *base)
{
    size_t n = strlen(base);
    char *end;
    long pid;

    if (strncmp(name, base, n) != 0 || name[n] != '.' || name[n + 1] < '1' ||
        name[n + 1] > '9')
        return false;
    errno = 0;
    pid = strtol(name + n + 1, &end, 10);
    if (errno || pid > INT_MAX ||
        (strcmp(end, ".tmp") != 0 && strcmp(end, ".tmp.tmp") != 0))
        return false;
    return !subprocess_runs((pid_t)pid);
}

/* Removes what the dead left beside @path, each with @remove. */
static void sweep_beside(const char *path, void (*remove)(const char *path))
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    char folder[FILE_PATH_MAX], one[FILE_PATH_MAX];
    size_t n = slash ? (size_t)(slash - path) : 0;
    struct dirent *e;
    DIR *d;

    assert(*base);
    if (n >= sizeof(folder) - 1)
        return;
    memcpy(folder, path, n);
    memcpy(folder + n, slash ? "/" : ".", 2);
    d = opendir(folder);
    while (d && (e = readdir(d)))
        if (left_by_the_dead(e->d_name, base) &&
            file_join(one, folder, e->d_name, NULL) == ERR_OK)
            remove(one);
    if (d)
        closedir(d);
}

void file_create_sweep(const char *path)
{
    sweep_beside(path, file_remove);
}

static void remove_folder(const char *path)
{
    folder_remove(path, NULL);
}

enum err folder_begin(const char *path, char own[FILE_PATH_MAX],
                      struct fault *f)
{
    enum err err;

    assert(path[0] && own);
    if (snprintf(own, FILE_PATH_MAX, "%s.%ld.tmp", path, (long)getpid()) >=
        FILE_PATH_MAX)
        return fault_set(f, ERR_LIMIT, "path too long: %.200s...", path);
    sweep_beside(path, remove_folder);
    err = folder_remove(own, f); /* of one with the same number */
    return err ? err : folder_make(own, f);
}

enum err file_open_log(const char *path, int *fd, struct fault *f)
{
    int opened = disk_system()->open(
        path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, DISK_PRIVATE);

    assert(path[0] && fd);
    if (opened < 0)
        return fault_errno(f, ERR_IO, errno, "open %s", path);
    *fd = opened;
    return ERR_OK;
}

enum err file_rename(const char *from, const char *to, struct fault *f)
{
    assert(strcmp(from, to) != 0);
    if (disk_system()->rename(from, to) != 0)
        return fault_errno(f, ERR_IO, errno, "rename %s to %s", from, to);
    return ERR_OK;
}

void file_remove(const char *path)
{
    disk_system()->unlink(path);
}

enum err file_read(const char *path, size_t max, char **out, size_t *len,
                   struct fault *f)
{
    struct disk_in in;
    char *text = NULL;
    enum err err = disk_in_open(&in, NULL, path, f);

    assert(path && out && len);
    if (err)
        return err;
    if (in.bytes > max)
        err = fault_set(f, ERR_LIMIT, "%s has %llu bytes, at most %zu fit",
                        path, (unsigned long long)in.bytes, max);
    else if (!(text = mem_alloc(in.bytes + 1)))
        err = fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    else
        err = disk_in_read(&in, text, in.bytes, f);
    if (err) {
        mem_free(text);
    } else {
        assert(text);
        text[in.bytes] = '\0';
        *out = text;
        *len = (size_t)in.bytes;
    }
    disk_in_close(&in);
    return err;
}

/* ---- locks --------------------------------------------------------------- */

/* Locks of open files, not flock: they can be asked about without being held
 * for a moment, which would refuse them to who wants them. */
static int lock_call(int fd, int command, struct flock *lock)
{
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, command, lock);
}

enum err file_lock(const char *path, int *fd, struct fault *f)
{
    struct flock lock;
    enum err err;

    assert(path && fd);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, DISK_PRIVATE);
    if (*fd < 0)
        return fault_errno(f, ERR_IO, errno, "lock %s", path);
    if (lock_call(*fd, F_OFD_SETLK, &lock) == 0) {
        /* The number only helps people; the lock is what counts. */
        if (ftruncate(*fd, 0) == 0)
            dprintf(*fd, "%ld\n", (long)getpid());
        return ERR_OK;
    }
    if (errno == EAGAIN || errno == EACCES)
        err = fault_set(f, ERR_BUSY, "%s is locked by another process", path);
    else
        err = fault_errno(f, ERR_IO, errno, "lock %s", path);
    close(*fd);
    *fd = -1;
    return err;
}

bool file_locked(const char *path, pid_t *pid)
{
    struct flock lock;
    char text[24] = "";
    bool locked;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    locked = lock_call(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (locked && pid && pread(fd, text, sizeof(text) - 1, 0) >= 0)
        *pid = (pid_t)strtol(text, NULL, 10);
    close(fd);
    return locked;
}

/* ---- folders ------------------------------------------------------------- */

enum err folder_new(const char *path, mode_t mode, struct fault *f)
{
    if (disk_system()->mkdir(path, mode) == 0)
        return ERR_OK;
    return fault_errno(f, errno == EEXIST ? ERR_EXIST : ERR_IO, errno,
                       "make folder %s", path);
}

enum err folder_ensure(const char *path, mode_t mode, struct fault *f)
{
    struct stat st;

    if (disk_system()->mkdir(path, mode) == 0)
        return ERR_OK;
    if (errno != EEXIST)
        return fault_errno(f, ERR_IO, errno, "make folder %s", path);
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return fault_set(f, ERR_IO, "%s exists and is not a folder", path);
    return ERR_OK;
}

enum err folder_make(const char *path, struct fault *f)
{
    char part[FILE_PATH_MAX];
    size_t n = strlen(path);
    enum err err;

    if (n == 0 || n >= sizeof(part))
        return fault_set(f, n ? ERR_LIMIT : ERR_INVAL,
                         n ? "path too long: %.200s..." : "empty path%s", path);
    memcpy(part, path, n + 1);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        err = folder_ensure(part, FOLDER_PRIVATE, f);
        if (err)
            return err;
        *p = '/';
    }
    return folder_ensure(part, FOLDER_PRIVATE, f);
}

/* realpath into our buffer. */
static enum err resolve(const char *path, char out[FILE_PATH_MAX],
                        struct fault *f)
{
    char *real = realpath(path, NULL); /* malloc'd by the C library */
    size_t n;

    if (!real)
        return fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno, "%s",
                           path);
    n = strlen(real);
    if (n < FILE_PATH_MAX)
        memcpy(out, real, n + 1);
    free(real);
    return n < FILE_PATH_MAX
               ? ERR_OK
               : fault_set(f, ERR_LIMIT, "path too long: %.200s", path);
}

enum err folder_absolute(const char *path, char out[FILE_PATH_MAX],
                         struct fault *f)
{
    char parent[FILE_PATH_MAX], above[FILE_PATH_MAX], *slash;
    size_t n = strlen(path);
    enum err err = resolve(path, out, f);

    if (err != ERR_NOENT)
        return err;
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof(parent))
        return fault_set(f, ERR_INVAL, "\"%.200s\" names no folder", path);
    memcpy(parent, path, n);
    parent[n] = '\0';
    slash = strrchr(parent, '/');
    if (!slash) {
        err = resolve(".", above, f);
        return err ? err : file_join(out, above, parent, f);
    }
    *slash = '\0';
    err = folder_make(*parent ? parent : "/", f);
    if (!err)
        err = resolve(*parent ? parent : "/", above, f);
    return err ? err : file_join(out, above, slash + 1, f);
}

bool folder_is_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    bool empty = true;

    if (!dir)
        return false;
    while (empty && (e = readdir(dir)))
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(dir);
    return empty;
}

/* nftw takes no context: errno is the only way out. After a failed fsync the
 * pages may be marked clean although they never reached the disk, so nothing is
 * flushed a second time but given up. */
static int sync_entry(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    const struct disk_ops *ops = disk_system();
    int fd, err = 0;

    (void)st;
    (void)ftw;
    if (type != FTW_F && type != FTW_DP)
        return 0;
    fd = ops->open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0)
        return -1;
    if (ops->fsync(fd) != 0)
        err = errno;
    ops->close(fd);
    errno = err;
    return err ? -1 : 0;
}

static int exchange(const char *from, const char *to)
{
    const struct disk_ops *ops = disk_system();

    if (ops->exchange(from, to) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A file system without exchange: there is a moment without the folder. */
    if (folder_remove(to, NULL) != ERR_OK)
        return -1;
    return ops->rename(from, to);
}

enum err folder_publish(const char *from, const char *to, struct fault *f)
{
    struct stat st;
    enum err err;
    int failed;

    assert(strcmp(from, to) != 0);
    if (nftw(from, sync_entry, WALK_FDS_MAX, FTW_PHYS | FTW_DEPTH) != 0)
        return fault_errno(f, ERR_IO, errno, "flush %s", from);
    failed = lstat(to, &st) == 0 && S_ISDIR(st.st_mode)
                 ? exchange(from, to)
                 : disk_system()->rename(from, to);
    if (failed)
        return fault_errno(f, ERR_IO, errno, "rename %s to %s", from, to);
    err = disk_flush_parent(NULL, to, f);
    return err ? err : folder_remove(from, f); /* what was exchanged, if any */
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw)
{
    const struct disk_ops *ops = disk_system();

    (void)st;
    (void)ftw;
    return type == FTW_DP || type == FTW_DNR ? ops->rmdir(path)
                                             : ops->unlink(path);
}

static int remove_plainly(char path[FILE_PATH_MAX], dev_t device);

/* What is in the folder @path, open as @fd. */
static int empty_plainly(int fd, char path[FILE_PATH_MAX], dev_t device)
{
    _Alignas(struct dirent64) char bytes[PLAIN_BYTES];
    size_t len = strlen(path);
    ssize_t n;

    while ((n = getdents64(fd, bytes, sizeof(bytes))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(bytes + at);
            int failed;

            at += e->d_reclen;
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                continue;
            if (snprintf(path + len, FILE_PATH_MAX - len, "/%s", e->d_name) >=
                (int)(FILE_PATH_MAX - len)) {
                errno = ENAMETOOLONG;
                return -1;
            }
            failed = remove_plainly(path, device);
            path[len] = '\0';
            if (failed)
                return -1;
        }
    return n < 0 ? -1 : 0;
}

/* As nftw with remove_entry, but without memory. Nothing of another file system
 * than @device is touched. */
static int remove_plainly(char path[FILE_PATH_MAX], dev_t device)
{
    struct stat st;
    int fd, failed, saved;

    if (lstat(path, &st) != 0)
        return -1;
    if (st.st_dev != device)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return disk_system()->unlink(path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        failed = empty_plainly(fd, path, device);
        saved = errno;
        close(fd);
        errno = saved;
        if (failed)
            return -1;
    }
    return disk_system()->rmdir(path);
}

/* @path without the memory that nftw needs. */
static int remove_in_want(const char *path)
{
    char own[FILE_PATH_MAX];
    struct stat st;

    if (snprintf(own, sizeof(own), "%s", path) >= (int)sizeof(own)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return lstat(own, &st) == 0 ? remove_plainly(own, st.st_dev) : -1;
}

enum err folder_remove(const char *path, struct fault *f)
{
    int failed;

    assert(strcmp(path, "/") != 0);
    failed = nftw(path, remove_entry, WALK_FDS_MAX,
                  FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
    if (failed && errno == ENOMEM)
        failed = remove_in_want(path);
    if (failed && errno != ENOENT)
        return fault_errno(f, ERR_IO, errno, "remove %s", path);
    return ERR_OK;
}

void folder_clear(const char *path, bool (*ours)(const char *name))
{
    char name[FILE_PATH_MAX];
    DIR *dir = opendir(path);
    struct dirent *e;

    assert(path && ours);
    if (!dir)
        return;
    while ((e = readdir(dir)))
        if (ours(e->d_name) && file_join(name, path, e->d_name, NULL) == ERR_OK)
            file_remove(name);
    closedir(dir);
    disk_system()->rmdir(path);
}

static int sweep_entry(const char *path, const struct stat *st, int type,
                       struct FTW *ftw)
{
    size_t n = strlen(path);

    (void)type;
    if (ftw->level > 0 && n > 4 && strcmp(path + n - 4, ".tmp") == 0)
        folder_remove(path, NULL);
    else if (S_ISSOCK(st->st_mode))
        file_remove(path);
    return 0;
}

void folder_sweep(const char *path)
{
    assert(path);
    nftw(path, sweep_entry, WALK_FDS_MAX, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
}
