/* A zip archive of files as they are, uncompressed (PKWARE's APPNOTE 6.3.3):
 * the bytes that stand around what the files hold. Names are UTF-8. Files, and
 * archives, of 4 GiB and more have the fields of ZIP64. Pure.
 */
#ifndef CLI_ZIP_H
#define CLI_ZIP_H

#include "base/err.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

enum { ZIP_NAME_MAX = 65535 };

/* Zeroed: an empty archive. */
struct zip {
    struct text central; /* what the end will list; owned */
    uint64_t at;         /* bytes of the archive so far */
    uint64_t entries;
};

void zip_deinit(struct zip *z);

/* Appends to @out what stands before the @size bytes of file @name (relative,
 * '/' between folders), whose checksum (zip_crc) is @crc, last changed @mtime_s
 * after the epoch. The bytes follow as they are. Errors: ERR_LIMIT the name is
 * too long; ERR_NOMEM. */
enum err zip_file(struct zip *z, const char *name, uint64_t size, uint32_t crc,
                  int64_t mtime_s, struct text *out);

/* Appends the end to @out, after the last file. Errors: ERR_NOMEM. */
enum err zip_end(struct zip *z, struct text *out);

/* The checksum of @data[@n] behind bytes whose checksum is @crc (0: none). */
uint32_t zip_crc(uint32_t crc, const void *data, size_t n);

#endif
