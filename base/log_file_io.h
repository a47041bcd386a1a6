/* Log files that other programs write into, kept within a bound.
 *
 * Whoever writes holds the file open and knows nothing of us, so it is neither
 * renamed nor rewritten: the older part becomes a hole. What is kept stays in
 * its place, for those who read as well.
 */
#ifndef BASE_LOG_FILE_IO_H
#define BASE_LOG_FILE_IO_H

#include "base/fault.h"

#include <stdint.h>

/* Bytes that a log may have: past them it keeps the newer half. */
enum { LOG_FILE_MAX = 64 * 1024 * 1024 };

/* Gives back the disk of the older part of the log @path (borrowed) where it
 * keeps more than LOG_FILE_MAX bytes. *@cut: bytes at its beginning that it
 * does not keep, as far as the caller knows; 0 at first. Little work where
 * there is nothing to do; to be called about once a second. A file that is not
 * there is fine. Errors: ERR_UNSUPPORTED a file system without holes, ERR_IO;
 * both name the file. */
enum err log_file_cut(const char *path, int64_t *cut, struct fault *f);

#endif
