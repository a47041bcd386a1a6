/* A disk in memory behind branches/disk_io.h: any call may fail, be
 * interrupted, or do only part of its work; a power cut loses what was not
 * flushed.
 *
 * One folder, one disk a process. Descriptors are counted.
 */
#ifndef TESTS_UNIT_MEMORY_DISK_H
#define TESTS_UNIT_MEMORY_DISK_H

#include "branches/disk_io.h"

#include <stdbool.h>
#include <stddef.h>

/* An empty disk without failures. */
void memory_disk_reset(void);
void memory_disk_free(void);
const struct disk_ops *memory_disk(void);

/* The @nth call from now fails with @error, and with @forever all after it.
 * 0: none. */
void memory_disk_fail(unsigned nth, int error, bool forever);
bool memory_disk_failed(void);

/* Writes and reads do at most @n bytes (0: no bound), and every other call of
 * open, read, write and fsync is interrupted first. */
void memory_disk_be_slow(size_t n);

/* What was not flushed is lost: file contents, and with @names renames,
 * creations and removals, too. */
void memory_disk_power_cut(bool names);

void memory_disk_put(const char *name, const void *bytes, size_t n);
/* Borrowed until the next call; NULL where there is no such file. */
const unsigned char *memory_disk_get(const char *name, size_t *n);
unsigned memory_disk_files(void);
unsigned memory_disk_open(void); /* descriptors */

#endif
