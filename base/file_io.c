#include "base/file_io.h"

#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WALK_FDS_MAX = 16 };

enum err file_join(char out[FILE_PATH_MAX], const char *dir, const char *name,
                   struct fault *f)
{
    int n = snprintf(out, FILE_PATH_MAX, "%s/%s", dir, name);

    if (n < 0 || n >= FILE_PATH_MAX)
        return fault_set(f, ERR_LIMIT, "path too long: %.200s.../%s", dir,
                         name);
    return ERR_OK;
}

static enum err temporary_name(char out[FILE_PATH_MAX], const char *path,
                               struct fault *f)
{
    int n = snprintf(out, FILE_PATH_MAX, "%s.tmp", path);

    if (n < 0 || n >= FILE_PATH_MAX)
        return fault_set(f, ERR_LIMIT, "path too long: %.200s...", path);
    return ERR_OK;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* fsync of a file or folder by name. */
static int sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), err = 0;

    if (fd < 0)
        return -1;
    if (fsync(fd) != 0)
        err = errno;
    close(fd);
    errno = err;
    return err ? -1 : 0;
}

/* fsync of the folder that holds @path, so that its entry survives. */
static int sync_parent(const char *path)
{
    char dir[FILE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;

    if (!slash)
        return sync_path(".");
    if (n == 0)
        return sync_path("/");
    assert(n < sizeof(dir));
    memcpy(dir, path, n);
    dir[n] = '\0';
    return sync_path(dir);
}

/* After a failed fsync the pages may be marked clean although they never
 * reached the disk, so a file is never synced a second time but given up. */
static int write_synced(const char *path, const void *data, size_t len)
{
    int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int err = 0;

    if (fd < 0)
        return -1;
    if (write_all(fd, data, len) != 0 || fsync(fd) != 0)
        err = errno;
    if (close(fd) != 0 && !err)
        err = errno;
    errno = err;
    return err ? -1 : 0;
}

enum err file_write(const char *path, const void *data, size_t len,
                    struct fault *f)
{
    char tmp[FILE_PATH_MAX];
    enum err err = temporary_name(tmp, path, f);
    int saved;

    if (err)
        return err;
    if (write_synced(tmp, data, len) != 0 || rename(tmp, path) != 0) {
        saved = errno;
        unlink(tmp);
        return fault_errno(f, ERR_IO, saved, "write %s", path);
    }
    if (sync_parent(path) != 0)
        return fault_errno(f, ERR_IO, errno, "flush the folder of %s", path);
    return ERR_OK;
}

/* Reads at most @size bytes; fewer only at the end of the file. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t n = read(fd, buf + got, size - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static enum err read_open(int fd, const char *path, size_t max, char **out,
                          size_t *len, struct fault *f)
{
    struct stat st;
    ssize_t n;
    char *buf;

    if (fstat(fd, &st) != 0)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    if (!S_ISREG(st.st_mode))
        return fault_set(f, ERR_IO, "read %s: not a regular file", path);
    if ((uint64_t)st.st_size > max)
        return fault_set(f, ERR_LIMIT, "%s has %lld bytes, at most %zu fit",
                         path, (long long)st.st_size, max);
    buf = mem_alloc((size_t)st.st_size + 1);
    if (!buf)
        return fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    n = read_all(fd, buf, (size_t)st.st_size);
    if (n < 0) {
        mem_free(buf);
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    }
    buf[n] = '\0';
    *out = buf;
    *len = (size_t)n;
    return ERR_OK;
}

enum err file_read(const char *path, size_t max, char **out, size_t *len,
                   struct fault *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum err err;

    if (fd < 0)
        return fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno,
                           "read %s", path);
    err = read_open(fd, path, max, out, len, f);
    close(fd);
    return err;
}

static enum err make_one(const char *path, struct fault *f)
{
    struct stat st;

    if (mkdir(path, 0700) == 0)
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
        err = make_one(part, f);
        if (err)
            return err;
        *p = '/';
    }
    return make_one(part, f);
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

/* nftw takes no context: errno is the only way out. */
static int sync_entry(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    if (type == FTW_F || type == FTW_DP)
        return sync_path(path);
    return 0;
}

static int exchange(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A file system without exchange: there is a moment without the folder. */
    if (folder_remove(to, NULL) != ERR_OK)
        return -1;
    return rename(from, to);
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

    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        return fault_errno(f, ERR_IO, errno, "lock %s", path);
    if (lock_call(*fd, F_OFD_SETLK, &lock) == 0) {
        /* Who it is, is a help; that somebody is, is what counts. */
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

enum err folder_publish(const char *from, const char *to, struct fault *f)
{
    struct stat st;
    int failed;

    if (nftw(from, sync_entry, WALK_FDS_MAX, FTW_PHYS | FTW_DEPTH) != 0)
        return fault_errno(f, ERR_IO, errno, "flush %s", from);
    failed = lstat(to, &st) == 0 && S_ISDIR(st.st_mode) ? exchange(from, to)
                                                        : rename(from, to);
    if (failed)
        return fault_errno(f, ERR_IO, errno, "rename %s to %s", from, to);
    if (sync_parent(to) != 0)
        return fault_errno(f, ERR_IO, errno, "flush the folder of %s", to);
    return folder_remove(from, f); /* what was exchanged, if anything */
}

static int remove_entry(const char *path, const struct stat *st, int type,
                        struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

enum err folder_remove(const char *path, struct fault *f)
{
    if (nftw(path, remove_entry, WALK_FDS_MAX,
             FTW_PHYS | FTW_DEPTH | FTW_MOUNT) != 0 &&
        errno != ENOENT)
        return fault_errno(f, ERR_IO, errno, "remove %s", path);
    return ERR_OK;
}

static int sweep_entry(const char *path, const struct stat *st, int type,
                       struct FTW *ftw)
{
    size_t n = strlen(path);

    (void)st;
    (void)type;
    if (ftw->level > 0 && n > 4 && strcmp(path + n - 4, ".tmp") == 0)
        folder_remove(path, NULL);
    return 0;
}

void folder_sweep(const char *path)
{
    nftw(path, sweep_entry, WALK_FDS_MAX, FTW_PHYS | FTW_DEPTH | FTW_MOUNT);
}
