/* Files as snapshots need them: written whole or not at all, read exactly.
 *
 * The system is behind `struct disk_ops`, so that a test can have any call
 * fail, be interrupted, or do only part of its work.
 */
#ifndef BRANCHES_DISK_IO_H
#define BRANCHES_DISK_IO_H

#include "base/fault.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

/* As in POSIX: -1 and errno on failure. */
struct disk_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*read)(int fd, void *buffer, size_t n);
    ssize_t (*write)(int fd, const void *buffer, size_t n);
    int (*size)(int fd, uint64_t *bytes); /* of a regular file */
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
};

/* The system itself. Static storage. */
const struct disk_ops *disk_system(void);

/* ---- writing ------------------------------------------------------------- */

enum { DISK_BUFFER_BYTES = 128 * 1024 };

struct disk_out {
    const struct disk_ops *ops; /* borrowed */
    const char *path;           /* borrowed; what the file will be called */
    char *tmp;                  /* owned: PATH.tmp */
    unsigned char *buffer;      /* owned */
    size_t used;
    uint64_t offset; /* bytes put so far */
    int fd;
};

/* Begins PATH.tmp (one that a killed process left is overwritten).
 * Errors: ERR_IO, ERR_NOMEM. */
enum err disk_out_open(struct disk_out *o, const struct disk_ops *ops,
                       const char *path, struct fault *f);

/* Appends; large pieces are not copied. Errors: ERR_IO with path and offset. */
enum err disk_out_put(struct disk_out *o, const void *data, size_t n,
                      struct fault *f);

/* Flushes the file to the disk, gives it its name, flushes the folder. Releases
 * @o; on error nothing is left but, when only the folder could not be flushed,
 * the whole file under its name. Errors: ERR_IO. */
enum err disk_out_commit(struct disk_out *o, struct fault *f);

/* Gives the file up. */
void disk_out_abort(struct disk_out *o);

/* ---- reading ------------------------------------------------------------- */

struct disk_in {
    const struct disk_ops *ops; /* borrowed */
    char *path;                 /* owned */
    uint64_t bytes;             /* the file's length when it was opened */
    uint64_t offset;            /* bytes read so far */
    int fd;
};

/* Errors: ERR_NOENT (there is none), ERR_IO (unreadable, no regular file),
 * ERR_NOMEM. */
enum err disk_in_open(struct disk_in *in, const struct disk_ops *ops,
                      const char *path, struct fault *f);

/* The next @n bytes. Errors: ERR_IO; ERR_FORMAT where the file ends before. */
enum err disk_in_read(struct disk_in *in, void *data, size_t n,
                      struct fault *f);

/* Accepts a zeroed object. */
void disk_in_close(struct disk_in *in);

#endif
