#include "base/log_file_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOG_BLOCK = 64 * 1024 }; /* at least those of file systems */

/* Leaves the newer half of LOG_FILE_MAX of the file's @size bytes, or a block
 * more: only whole blocks can be given back. */
static enum err cut_file(const char *path, int fd, off_t size, int64_t *cut,
                         struct fault *f)
{
    off_t first = lseek(fd, 0, SEEK_DATA), to = size - LOG_FILE_MAX / 2;

    if (first < 0)
        first = errno == ENXIO ? size : 0; /* ENXIO: nothing is kept */
    *cut = first;
    if (size - first <= LOG_FILE_MAX)
        return ERR_OK;
    to -= to % LOG_BLOCK;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, to) != 0)
        return fault_errno(f, errno == EOPNOTSUPP ? ERR_UNSUPPORTED : ERR_IO,
                           errno, "give back the beginning of %s", path);
    *cut = to;
    return ERR_OK;
}

enum err log_file_cut(const char *path, int64_t *cut, struct fault *f)
{
    struct stat st;
    enum err err;
    int fd;

    assert(path && cut);
    assert(*cut >= 0);
    if (stat(path, &st) != 0)
        return ERR_OK;
    if (st.st_size < *cut)
        *cut = 0; /* somebody has emptied it */
    if (st.st_size - *cut <= LOG_FILE_MAX)
        return ERR_OK;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? ERR_OK
                               : fault_errno(f, ERR_IO, errno, "open %s", path);
    err = cut_file(path, fd, st.st_size, cut, f);
    close(fd);
    return err;
}
