#include "branches/disk_io.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the system ---------------------------------------------------------- */

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int system_size(int fd, uint64_t *bytes)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    *bytes = (uint64_t)st.st_size;
    return 0;
}

const struct disk_ops *disk_system(void)
{
    static const struct disk_ops ops = {system_open, read,  write,  system_size,
                                        fsync,       close, rename, unlink};

    return &ops;
}

static int open_again(const struct disk_ops *ops, const char *path, int flags)
{
    int fd;

    do
        fd = ops->open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int fsync_again(const struct disk_ops *ops, int fd)
{
    int result;

    do
        result = ops->fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

/* ---- writing ------------------------------------------------------------- */

static void out_release(struct disk_out *o)
{
    mem_free(o->tmp);
    mem_free(o->buffer);
    memset(o, 0, sizeof(*o));
    o->fd = -1;
}

enum err disk_out_open(struct disk_out *o, const struct disk_ops *ops,
                       const char *path, struct fault *f)
{
    size_t size = strlen(path) + sizeof(".tmp");

    *o = (struct disk_out){.ops = ops, .path = path, .fd = -1};
    o->tmp = mem_alloc(size);
    o->buffer = mem_alloc(DISK_BUFFER_BYTES);
    if (!o->tmp || !o->buffer) {
        out_release(o);
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    snprintf(o->tmp, size, "%s.tmp", path);
    o->fd = open_again(ops, o->tmp, O_WRONLY | O_CREAT | O_TRUNC);
    if (o->fd >= 0)
        return ERR_OK;
    fault_errno(f, ERR_IO, errno, "create %s", o->tmp);
    out_release(o);
    return ERR_IO;
}

static const char *write_advice(int error)
{
    if (error == ENOSPC || error == EDQUOT)
        return " (make room, or choose another --state folder)";
    return "";
}

/* All of @data, whatever portions the system takes. */
static enum err write_all(struct disk_out *o, const unsigned char *data,
                          size_t n, uint64_t offset, struct fault *f)
{
    while (n > 0) {
        ssize_t done = o->ops->write(o->fd, data, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            int error = done < 0 ? errno : EIO;

            return fault_errno(f, ERR_IO, error,
                               "write %s at byte %" PRIu64 "%s", o->tmp, offset,
                               write_advice(error));
        }
        data += done;
        n -= (size_t)done;
        offset += (uint64_t)done;
    }
    return ERR_OK;
}

static enum err out_flush(struct disk_out *o, struct fault *f)
{
    size_t n = o->used;

    o->used = 0;
    return write_all(o, o->buffer, n, o->offset - n, f);
}

enum err disk_out_put(struct disk_out *o, const void *data, size_t n,
                      struct fault *f)
{
    enum err err;

    if (n > DISK_BUFFER_BYTES - o->used) {
        err = out_flush(o, f);
        if (err)
            return err;
    }
    if (n > DISK_BUFFER_BYTES / 2) {
        err = out_flush(o, f);
        if (!err)
            err = write_all(o, data, n, o->offset, f);
    } else {
        memcpy(o->buffer + o->used, data, n);
        o->used += n;
        err = ERR_OK;
    }
    o->offset += n;
    return err;
}

/* The folder of @path, in @out[size]. */
static void folder_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        snprintf(out, size, ".");
    else if (slash == path)
        snprintf(out, size, "/");
    else
        snprintf(out, size, "%.*s", (int)(slash - path), path);
}

/* A rename is on the disk when its folder is. Some file systems cannot flush a
 * folder and say EINVAL: there is nothing more to do then. */
static enum err flush_folder(struct disk_out *o, struct fault *f)
{
    size_t size = strlen(o->path) + 2;
    char *folder = o->tmp; /* PATH.tmp: long enough, and not needed any more */
    enum err err = ERR_OK;
    int fd;

    folder_of(o->path, folder, size);
    fd = open_again(o->ops, folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "open folder %s", folder);
    if (fsync_again(o->ops, fd) != 0 && errno != EINVAL)
        err = fault_errno(f, ERR_IO, errno,
                          "flush folder %s to the disk (%s is whole)", folder,
                          o->path);
    o->ops->close(fd);
    return err;
}

enum err disk_out_commit(struct disk_out *o, struct fault *f)
{
    enum err err = out_flush(o, f);
    int fd = o->fd;

    if (!err && fsync_again(o->ops, fd) != 0)
        err = fault_errno(f, ERR_IO, errno, "flush %s to the disk", o->tmp);
    o->fd = -1;
    if (o->ops->close(fd) != 0 && !err)
        err = fault_errno(f, ERR_IO, errno, "close %s", o->tmp);
    if (!err && o->ops->rename(o->tmp, o->path) != 0)
        err = fault_errno(f, ERR_IO, errno, "rename %s to %s", o->tmp, o->path);
    if (err) {
        disk_out_abort(o);
        return err;
    }
    err = flush_folder(o, f);
    out_release(o);
    return err;
}

void disk_out_abort(struct disk_out *o)
{
    if (o->fd >= 0)
        o->ops->close(o->fd);
    o->ops->unlink(o->tmp);
    out_release(o);
}

/* ---- reading ------------------------------------------------------------- */

enum err disk_in_open(struct disk_in *in, const struct disk_ops *ops,
                      const char *path, struct fault *f)
{
    enum err err;

    *in = (struct disk_in){.ops = ops, .path = mem_strdup(path), .fd = -1};
    if (!in->path)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    in->fd = open_again(ops, path, O_RDONLY);
    if (in->fd >= 0 && ops->size(in->fd, &in->bytes) == 0)
        return ERR_OK;
    err = fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno, "open %s",
                      path);
    disk_in_close(in);
    return err;
}

enum err disk_in_read(struct disk_in *in, void *data, size_t n, struct fault *f)
{
    unsigned char *to = data;

    while (n > 0) {
        ssize_t got = in->ops->read(in->fd, to, n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fault_errno(f, ERR_IO, errno, "read %s at byte %" PRIu64,
                               in->path, in->offset);
        if (got == 0)
            return fault_set(f, ERR_FORMAT,
                             "%s: byte %" PRIu64 ": the file ends here, "
                             "%zu bytes too early",
                             in->path, in->offset, n);
        to += got;
        n -= (size_t)got;
        in->offset += (uint64_t)got;
    }
    return ERR_OK;
}

void disk_in_close(struct disk_in *in)
{
    if (in->path && in->fd >= 0)
        in->ops->close(in->fd);
    mem_free(in->path);
    memset(in, 0, sizeof(*in));
    in->fd = -1;
}
