#include "base/disk_io.h"

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

static ssize_t system_write_at(int fd, const void *buffer, size_t n,
                               uint64_t offset)
{
    return pwrite(fd, buffer, n, (off_t)offset);
}

static int system_resize(int fd, uint64_t bytes)
{
    return ftruncate(fd, (off_t)bytes);
}

static int system_exchange(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static int system_rename_new(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

static const struct disk_ops system_ops = {
    .open = system_open,
    .read = read,
    .write = write,
    .write_at = system_write_at,
    .size = system_size,
    .resize = system_resize,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .exchange = system_exchange,
    .rename_new = system_rename_new,
    .link = link,
    .unlink = unlink,
    .mkdir = mkdir,
    .rmdir = rmdir,
};

static const struct disk_ops *in_use = &system_ops;

const struct disk_ops *disk_system(void)
{
    return in_use;
}

void disk_replace(const struct disk_ops *ops)
{
    in_use = ops ? ops : &system_ops;
}

static int open_again(const struct disk_ops *ops, const char *path, int flags,
                      mode_t mode)
{
    int fd;

    do
        fd = ops->open(path, flags | O_CLOEXEC, mode);
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
    mem_free(o->path);
    mem_free(o->tmp);
    mem_free(o->buffer);
    memset(o, 0, sizeof(*o));
    o->fd = -1;
}

/* Begins a file that is written without a buffer. */
static enum err begin(struct disk_out *o, const struct disk_ops *ops,
                      const char *path, mode_t mode, struct fault *f)
{
    size_t size = strlen(path) + sizeof(".tmp");

    assert(mode == DISK_PRIVATE || mode == DISK_SHARED);
    assert(size > sizeof(".tmp"));
    *o = (struct disk_out){.ops = ops ? ops : in_use, .fd = -1};
    o->path = mem_strdup(path);
    o->tmp = mem_alloc(size);
    if (!o->path || !o->tmp) {
        out_release(o);
        fault_set(f, ERR_NOMEM, "%s: out of memory", path);
        return ERR_NOMEM;
    }
    snprintf(o->tmp, size, "%s.tmp", path);
    o->fd = open_again(o->ops, o->tmp,
                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode);
    if (o->fd >= 0)
        return ERR_OK;
    fault_errno(f, ERR_IO, errno, "create %s", o->tmp);
    out_release(o);
    return ERR_IO;
}

enum err disk_out_open(struct disk_out *o, const struct disk_ops *ops,
                       const char *path, mode_t mode, struct fault *f)
{
    unsigned char *buffer = mem_alloc(DISK_BUFFER_BYTES);
    enum err err;

    if (!buffer)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    err = begin(o, ops, path, mode, f);
    if (err)
        mem_free(buffer);
    else
        o->buffer = buffer;
    return err;
}

static const char *write_advice(int error)
{
    if (error == ENOSPC || error == EDQUOT)
        return " (make room, or name another folder)";
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

    assert(o->buffer && o->fd >= 0 && (data || n == 0));
    if (n == 0)
        return ERR_OK;
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
        assert(o->used <= DISK_BUFFER_BYTES);
        err = ERR_OK;
    }
    o->offset += n;
    return err;
}

static ssize_t stream_write(void *cookie, const char *bytes, size_t n)
{
    /* A failure is told by errno, which disk_out_put leaves as it was. */
    return disk_out_put(cookie, bytes, n, NULL) == ERR_OK ? (ssize_t)n : 0;
}

FILE *disk_out_stream(struct disk_out *o)
{
    const cookie_io_functions_t io = {.write = stream_write};

    assert(o->buffer);
    return fopencookie(o, "w", io);
}

/* Some file systems cannot flush a folder and say EINVAL: there is nothing more
 * to do then. */
enum err disk_flush_folder(const struct disk_ops *ops, const char *path,
                           struct fault *f)
{
    enum err err = ERR_OK;
    int fd;

    ops = ops ? ops : in_use;
    fd = open_again(ops, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "open folder %s", path);
    if (fsync_again(ops, fd) != 0 && errno != EINVAL)
        err =
            fault_errno(f, ERR_IO, errno, "flush folder %s to the disk", path);
    ops->close(fd);
    return err;
}

/* @folder: room for the name, strlen(@path) + 2 bytes. */
static enum err flush_parent(const struct disk_ops *ops, const char *path,
                             char *folder, struct fault *f)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;

    if (n == 0) {
        memcpy(folder, slash ? "/" : ".", 2);
    } else {
        memcpy(folder, path, n);
        folder[n] = '\0';
    }
    return disk_flush_folder(ops, folder, f);
}

enum err disk_flush_parent(const struct disk_ops *ops, const char *path,
                           struct fault *f)
{
    char *folder = mem_alloc(strlen(path) + 2);
    enum err err;

    if (!folder)
        return fault_set(f, ERR_NOMEM, "flush the folder of %s: out of memory",
                         path);
    err = flush_parent(ops, path, folder, f);
    mem_free(folder);
    return err;
}

enum err disk_out_commit(struct disk_out *o, struct fault *f)
{
    enum err err = out_flush(o, f);
    int fd = o->fd;

    assert(fd >= 0 && o->used == 0);
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
    /* A rename is on the disk when its folder is. PATH.tmp is long enough for
     * the folder's name, and not needed any more. */
    err = flush_parent(o->ops, o->path, o->tmp, f);
    if (err)
        fault_wrap(f, "%s is whole, but its name may be lost", o->path);
    out_release(o);
    return err;
}

void disk_out_abort(struct disk_out *o)
{
    assert(o->path);
    if (o->fd >= 0)
        o->ops->close(o->fd);
    o->ops->unlink(o->tmp);
    out_release(o);
}

enum err disk_out_end(struct disk_out *o, enum err err, struct fault *f)
{
    if (!err)
        return disk_out_commit(o, f);
    disk_out_abort(o);
    return err;
}

enum err disk_write(const struct disk_ops *ops, const char *path, mode_t mode,
                    const void *data, size_t len, struct fault *f)
{
    struct disk_out o;
    enum err err = begin(&o, ops, path, mode, f);

    assert(path && (data || len == 0));
    return err ? err : disk_out_end(&o, write_all(&o, data, len, 0, f), f);
}

/* ---- a part of a file ---------------------------------------------------- */

static void part_release(struct disk_part *p)
{
    mem_free(p->path);
    mem_free(p->buffer);
    memset(p, 0, sizeof(*p));
    p->fd = -1;
}

enum err disk_part_open(struct disk_part *p, const struct disk_ops *ops,
                        const char *path, mode_t mode, uint64_t bytes,
                        struct fault *f)
{
    enum err err;

    assert(mode == DISK_PRIVATE || mode == DISK_SHARED);
    *p = (struct disk_part){.ops = ops ? ops : in_use, .fd = -1};
    p->path = mem_strdup(path);
    p->buffer = mem_alloc(DISK_BUFFER_BYTES);
    if (!p->path || !p->buffer) {
        part_release(p);
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    }
    p->fd = open_again(p->ops, path, O_WRONLY | O_CREAT, mode);
    if (p->fd >= 0 && p->ops->resize(p->fd, bytes) == 0)
        return ERR_OK;
    err =
        fault_errno(f, ERR_IO, errno, "write %s%s", path, write_advice(errno));
    if (p->fd >= 0)
        p->ops->close(p->fd);
    part_release(p);
    return err;
}

static enum err part_flush(struct disk_part *p, struct fault *f)
{
    for (size_t at = 0; at < p->used;) {
        ssize_t done = p->ops->write_at(p->fd, p->buffer + at, p->used - at,
                                        p->offset + at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            int error = done < 0 ? errno : EIO;

            return fault_errno(f, ERR_IO, error,
                               "write %s at byte %" PRIu64 "%s", p->path,
                               p->offset + at, write_advice(error));
        }
        at += (size_t)done;
    }
    p->offset += p->used;
    p->used = 0;
    return ERR_OK;
}

enum err disk_part_put(struct disk_part *p, uint64_t offset, const void *data,
                       size_t n, struct fault *f)
{
    assert(p->fd >= 0 && n <= DISK_BUFFER_BYTES);
    if (offset != p->offset + p->used || n > DISK_BUFFER_BYTES - p->used) {
        enum err err = part_flush(p, f);

        if (err)
            return err;
        p->offset = offset;
    }
    memcpy(p->buffer + p->used, data, n);
    p->used += n;
    return ERR_OK;
}

enum err disk_part_end(struct disk_part *p, enum err err, struct fault *f)
{
    assert(p->fd >= 0);
    if (!err)
        err = part_flush(p, f);
    if (!err && fsync_again(p->ops, p->fd) != 0)
        err = fault_errno(f, ERR_IO, errno, "flush %s to the disk", p->path);
    if (p->ops->close(p->fd) != 0 && !err)
        err = fault_errno(f, ERR_IO, errno, "close %s", p->path);
    part_release(p);
    return err;
}

/* ---- reading ------------------------------------------------------------- */

enum err disk_in_open(struct disk_in *in, const struct disk_ops *ops,
                      const char *path, struct fault *f)
{
    enum err err;

    assert(in && path);
    *in = (struct disk_in){.ops = ops ? ops : in_use, .fd = -1};
    in->path = mem_strdup(path);
    if (!in->path)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    /* A pipe that nobody writes to is refused at once, not waited for. */
    in->fd = open_again(in->ops, path, O_RDONLY | O_NONBLOCK, 0);
    if (in->fd >= 0 && in->ops->size(in->fd, &in->bytes) == 0)
        return ERR_OK;
    if (in->fd >= 0 && errno == EINVAL)
        err = fault_set(f, ERR_IO, "open %s: it is no regular file", path);
    else
        err = fault_errno(f, errno == ENOENT ? ERR_NOENT : ERR_IO, errno,
                          "open %s", path);
    disk_in_close(in);
    return err;
}

enum err disk_in_read(struct disk_in *in, void *data, size_t n, struct fault *f)
{
    unsigned char *to = data;

    assert(data || n == 0);
    assert(in->path);
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
