/* The files that the data came from, as they were read.
 *
 * Whoever loads data begins it; whoever reads a file notes what was in it.
 * While it is not begun nothing is noted and nothing is held. All of it is of
 * the calling thread: the one that loads.
 */
#ifndef BASE_FILES_READ_H
#define BASE_FILES_READ_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct file_read {
    char *path;     /* owned */
    uint64_t bytes; /* as they lie on the disk, compressed or not */
    uint32_t sum;   /* crc32c of these */
};

/* Begins; what was noted before is dropped. */
void files_read_begin(void);

/* Of a file that is noted more than once the note of most bytes counts. */
void files_read_note(const char *path, uint64_t bytes, uint32_t sum);

/* What was noted, each path once, in the order of the paths; the array is the
 * list's own until the end. ERR_NOMEM: there was no memory for one of them. */
enum err files_read_list(const struct file_read **out, size_t *n);

/* Ends, and releases all. */
void files_read_end(void);

#endif
