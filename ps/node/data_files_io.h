/* The data that a run began with, so that it does not go on with others.
 *
 * The file KEEP.json beside the folder KEEP of kept_io.h has, for each file
 * that the data were read from, its path, its bytes and their checksum. It is
 * written when the data were first loaded, and compared each time that they are
 * loaded again. Of more than DATA_FILES_MAX files the last entry stands for the
 * rest. Generated data have none, nor have programs of users' own.
 *
 *   [{"path": "/home/me/digits.csv", "bytes": 1234, "sum": 4711}, ...]
 */
#ifndef PS_DATA_FILES_IO_H
#define PS_DATA_FILES_IO_H

#include "base/fault.h"

#include <stddef.h>

struct file_read;

enum { DATA_FILES_MAX = 1024 };

/* Compares @file[n], in the order of their paths, with what lies beside @keep,
 * or writes that where there is nothing, or nothing that can be read. A path
 * that was there holds what it held. Files that were moved are the same where
 * the list, path by path, still holds the same contents in the same order: two
 * that change places are other data. Errors: ERR_INVAL other data (@f names the
 * first file that is not as it was, and says how to go on); ERR_NOMEM, ERR_IO.
 */
enum err data_files_check(const char *keep, const struct file_read *file,
                          size_t n, struct fault *f);

#endif
