/* The disk: its calls as a table, and files that are whole or absent.
 *
 * The calls are behind `struct disk_ops`, so that a test can have any of them
 * fail, be interrupted, or do only part of its work. Every file and folder that
 * mltune writes is written through them: here, or by base/file_io.h on top.
 *
 * A file is written as PATH.tmp, flushed to the disk, renamed to PATH, and the
 * folder is flushed: a crash leaves the whole file or none, and maybe PATH.tmp.
 */
#ifndef BASE_DISK_IO_H
#define BASE_DISK_IO_H

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sys/types.h>

/* As in POSIX: -1 and errno on failure. */
struct disk_ops {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*read)(int fd, void *buffer, size_t n);
    ssize_t (*write)(int fd, const void *buffer, size_t n);
    ssize_t (*write_at)(int fd, const void *buffer, size_t n, uint64_t offset);
    int (*size)(int fd, uint64_t *bytes); /* of a regular file */
    int (*resize)(int fd, uint64_t bytes);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*exchange)(const char *a, const char *b); /* in one step */
    /* Never takes the place of a file: EEXIST. EINVAL, ENOSYS: the file system
     * cannot do it. */
    int (*rename_new)(const char *from, const char *to);
    int (*link)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rmdir)(const char *path);
};

/* The table in use where a caller names none: the system's, or the test's.
 * Static storage. */
const struct disk_ops *disk_system(void);

/* For tests: puts @ops in the system's place; NULL gives it back. To be called
 * while no other thread writes files. */
void disk_replace(const struct disk_ops *ops);

/* Modes of files, before the umask. */
enum { DISK_PRIVATE = 0600, DISK_SHARED = 0666 };

/* ---- writing ------------------------------------------------------------- */

enum { DISK_BUFFER_BYTES = 128 * 1024 };

struct disk_out {
    const struct disk_ops *ops; /* borrowed */
    char *path;                 /* owned; what the file will be called */
    char *tmp;                  /* owned: PATH.tmp */
    unsigned char *buffer;      /* owned */
    size_t used;
    uint64_t offset; /* bytes put so far */
    int fd;
};

/* Begins PATH.tmp (one that a killed process left is overwritten; a symbolic
 * link is not followed). @ops NULL: disk_system. Errors: ERR_IO, ERR_NOMEM. */
enum err disk_out_open(struct disk_out *o, const struct disk_ops *ops,
                       const char *path, mode_t mode, struct fault *f);

/* Appends; large pieces are not copied. Errors: ERR_IO with path and offset. */
enum err disk_out_put(struct disk_out *o, const void *data, size_t n,
                      struct fault *f);

/* A stream that appends to @o; the caller closes it before @o is committed or
 * aborted. A write that fails sets the stream's error and errno. NULL: out of
 * memory. */
FILE *disk_out_stream(struct disk_out *o);

/* Flushes the file to the disk, gives it its name, flushes the folder. Releases
 * @o; on error nothing is left but, when only the folder could not be flushed,
 * the whole file under its name. Errors: ERR_IO. */
enum err disk_out_commit(struct disk_out *o, struct fault *f);

/* Gives the file up. */
void disk_out_abort(struct disk_out *o);

/* Commits after ERR_OK; after an error aborts and returns @err. */
enum err disk_out_end(struct disk_out *o, enum err err, struct fault *f);

/* A file of @data[len] at once. Errors: ERR_IO, ERR_NOMEM; then the file that
 * was there before still is. */
enum err disk_write(const struct disk_ops *ops, const char *path, mode_t mode,
                    const void *data, size_t len, struct fault *f);

/* Flushes the entries of the folder @path; those of the folder that holds
 * @path. A file system that cannot do that has nothing to flush. Errors:
 * ERR_IO, ERR_NOMEM. */
enum err disk_flush_folder(const struct disk_ops *ops, const char *path,
                           struct fault *f);
enum err disk_flush_parent(const struct disk_ops *ops, const char *path,
                           struct fault *f);

/* ---- a part of a file ---------------------------------------------------- */

/* The part that one of several writers puts into a file that all share, under
 * its own name: for a folder that is whole or absent (folder_publish). */
struct disk_part {
    const struct disk_ops *ops; /* borrowed */
    char *path;                 /* owned */
    unsigned char *buffer;      /* owned: the file's bytes from @offset on */
    size_t used;
    uint64_t offset;
    int fd;
};

/* Opens or makes the file, which is to have @bytes in the end. @ops NULL:
 * disk_system. Errors: ERR_IO, ERR_NOMEM. */
enum err disk_part_open(struct disk_part *p, const struct disk_ops *ops,
                        const char *path, mode_t mode, uint64_t bytes,
                        struct fault *f);

/* @data[@n], n up to DISK_BUFFER_BYTES, at @offset of the file; in rising
 * order it is gathered. Errors: ERR_IO with path and offset. */
enum err disk_part_put(struct disk_part *p, uint64_t offset, const void *data,
                       size_t n, struct fault *f);

/* After ERR_OK flushes the part to the disk; releases @p. Returns @err, or
 * ERR_IO. */
enum err disk_part_end(struct disk_part *p, enum err err, struct fault *f);

/* ---- reading ------------------------------------------------------------- */

struct disk_in {
    const struct disk_ops *ops; /* borrowed */
    char *path;                 /* owned */
    uint64_t bytes;             /* the file's length when it was opened */
    uint64_t offset;            /* bytes read so far */
    int fd;
};

/* @ops NULL: disk_system. Errors: ERR_NOENT (there is none), ERR_IO
 * (unreadable, no regular file), ERR_NOMEM. */
enum err disk_in_open(struct disk_in *in, const struct disk_ops *ops,
                      const char *path, struct fault *f);

/* The next @n bytes. Errors: ERR_IO; ERR_FORMAT where the file ends before. */
enum err disk_in_read(struct disk_in *in, void *data, size_t n,
                      struct fault *f);

/* Accepts a zeroed object. */
void disk_in_close(struct disk_in *in);

#endif
