/* The data that a run began with, so that it does not go on with others.
 *
 * The file KEEP.json beside the folder KEEP of kept_io.h has the list of the
 * files that they were read from (base/proto/data_list.h), of at most
 * DATA_FILES_MAX entries. It is written when the data were first loaded, and
 * compared each time that they are loaded again. Generated data have none, nor
 * have programs of users' own.
 */
#ifndef PS_DATA_FILES_IO_H
#define PS_DATA_FILES_IO_H

#include "base/fault.h"

#include <stddef.h>

struct file_read;

enum { DATA_FILES_MAX = 1024 };

/* Compares @file[n], in the order of their paths, with what lies beside @keep,
 * or writes that where there is nothing, or nothing that can be read. Errors:
 * ERR_INVAL other data (@f names the first file that is not as it was, and says
 * how to go on); ERR_NOMEM, ERR_IO.
 */
enum err data_files_check(const char *keep, const struct file_read *file,
                          size_t n, struct fault *f);

#endif
