/* The folder that data may come from, where there is such a bound.
 *
 * A service keeps the runs of others to its data folder. A path cannot be
 * checked first and opened later: a link on it may lead elsewhere by then. So
 * each file and folder is opened, it is then seen where what was opened lies,
 * and that is what is read. The bound is in the environment, so that a run and
 * its nodes have it from the service that starts them.
 */
#ifndef APPS_DATA_ROOT_H
#define APPS_DATA_ROOT_H

#include "base/fault.h"

#include <stdbool.h>
#include <sys/stat.h>

/* From here on this process and those that it starts take data from @root
 * alone, and not from @hidden in it (NULL: all of it may be had). Both are
 * absolute, without links. @root NULL: from anywhere again. Before any thread.
 * Errors: ERR_NOMEM. */
enum err data_confine(const char *root, const char *hidden);

/* Facts of what @path leads to, links followed. Errors: ERR_NOENT, ERR_IO,
 * ERR_INVAL it leads out of the bound; in words. */
enum err data_look(const char *path, struct stat *st, struct fault *f);

/* Opens the regular file (a folder: @folder) that @path leads to, for reading;
 * the descriptor is the caller's. Nothing else is opened, so nothing waits.
 * Errors: as data_look's; ERR_INVAL also what is of another kind. */
enum err data_open(const char *path, bool folder, int *out, struct fault *f);

#endif
