/* Headers of a tar archive (POSIX.1-1988 ustar). Pure. */
#ifndef CLI_TAR_H
#define CLI_TAR_H

#include "base/err.h"

#include <stdint.h>

enum { TAR_BLOCK = 512 };

/* The header of file @name (relative, '/' between folders), a regular one of
 * @size bytes that all may read, last changed @mtime_s after the epoch. Its
 * bytes follow, filled up with zeros to whole blocks; two blocks of zeros end
 * the archive. A size of 8 GiB and more is written in base 256, as GNU tar and
 * all that read pax do. Errors: ERR_LIMIT the name is too long (100 bytes, 155
 * more of folders). */
enum err tar_header(const char *name, uint64_t size, int64_t mtime_s,
                    unsigned char out[TAR_BLOCK]);

/* Bytes that fill @size up to whole blocks. */
unsigned tar_padding(uint64_t size);

#endif
