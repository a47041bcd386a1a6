/* A disk of one file, for targets that read by path: whatever is opened for
 * reading has the input's bytes, and what is written replaces them.
 *
 * Behind base/disk_io.h, so an input costs no system call.
 */
#ifndef FUZZ_ONE_FILE_H
#define FUZZ_ONE_FILE_H

#include "base/disk_io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { ONE_FILE_READ = 1000, ONE_FILE_WRITE, ONE_FILE_FOLDER };

static struct {
    const uint8_t *in; /* borrowed, or out */
    size_t in_bytes, at;
    uint8_t *out; /* owned */
    size_t out_bytes;
} one_file;

static int one_file_open(const char *path, int flags, mode_t mode)
{
    (void)path;
    (void)mode;
    if (flags & O_DIRECTORY)
        return ONE_FILE_FOLDER;
    if (flags & O_CREAT) {
        one_file.out_bytes = 0;
        return ONE_FILE_WRITE;
    }
    one_file.at = 0;
    return ONE_FILE_READ;
}

static ssize_t one_file_read(int fd, void *buffer, size_t n)
{
    size_t left = one_file.in_bytes - one_file.at;

    (void)fd;
    n = n < left ? n : left;
    if (n)
        memcpy(buffer, one_file.in + one_file.at, n);
    one_file.at += n;
    return (ssize_t)n;
}

static ssize_t one_file_write(int fd, const void *buffer, size_t n)
{
    uint8_t *grown = realloc(one_file.out, one_file.out_bytes + n + 1);

    (void)fd;
    if (!grown)
        abort();
    memcpy(grown + one_file.out_bytes, buffer, n);
    one_file.out = grown;
    one_file.out_bytes += n;
    return (ssize_t)n;
}

static int one_file_size(int fd, uint64_t *bytes)
{
    (void)fd;
    *bytes = one_file.in_bytes;
    return 0;
}

static int one_file_fd(int fd)
{
    (void)fd;
    return 0;
}

/* What was written is what is read from now on. */
static int one_file_rename(const char *from, const char *to)
{
    (void)from;
    (void)to;
    one_file.in = one_file.out;
    one_file.in_bytes = one_file.out_bytes;
    return 0;
}

static int one_file_unlink(const char *path)
{
    (void)path;
    return 0;
}

static const struct disk_ops one_file_ops = {.open = one_file_open,
                                             .read = one_file_read,
                                             .write = one_file_write,
                                             .size = one_file_size,
                                             .fsync = one_file_fd,
                                             .close = one_file_fd,
                                             .rename = one_file_rename,
                                             .unlink = one_file_unlink};

/* From here on every file is @data[@n]; to be followed by one_file_end. */
static void one_file_begin(const uint8_t *data, size_t n)
{
    one_file.in = data;
    one_file.in_bytes = n;
    disk_replace(&one_file_ops);
}

static void one_file_end(void)
{
    disk_replace(NULL);
    free(one_file.out);
    one_file.out = NULL;
    one_file.out_bytes = 0;
}

#endif
