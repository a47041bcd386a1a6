/* Folders, copied. */
#ifndef BASE_FOLDER_COPY_IO_H
#define BASE_FOLDER_COPY_IO_H

#include "base/fault.h"

#include <stdbool.h>

/* Copies the files and folders in @from whose names are @wanted (NULL: all)
 * into the folder @to, made where it is missing; deeper ones all. Links,
 * sockets and the like are left out. What cannot be read is left out, too:
 * @lost is told of it, and why. Nothing is flushed to the disk. Errors: ERR_IO
 * (@to cannot be written), ERR_LIMIT, ERR_NOMEM. */
enum err folder_copy(const char *from, const char *to,
                     bool (*wanted)(const char *name),
                     void (*lost)(void *ctx, const char *path, const char *why),
                     void *ctx, struct fault *f);

/* The same for files of which a part is worth having, as of a database: where
 * the disk does not give a page of one there are zeros, and @lost is told how
 * many, and from which byte on. */
enum err folder_copy_torn(const char *from, const char *to,
                          bool (*wanted)(const char *name),
                          void (*lost)(void *ctx, const char *path,
                                       const char *why),
                          void *ctx, struct fault *f);

#endif
