/* The files that a data setting means, each with what it holds. */
#ifndef APPS_DATA_FIND_H
#define APPS_DATA_FIND_H

#include "apps/data/data_kind.h"
#include "apps/data/data_path.h"
#include "base/fault.h"

enum { DATA_LIST_MAX = 320 };

/* Zeroed: nothing. */
struct data_found {
    struct data_files files;
    enum data_kind *kind; /* [files.count]: owned */
    unsigned *dims;       /* [files.count] of an IDX array: owned */
};

void data_found_deinit(struct data_found *fd);

/* Errors: those of data_files_find; where one file was named itself, those of
 * reading its beginning; ERR_NOMEM. */
enum err data_find(const char *spec, const char *folder, struct data_found *out,
                   struct fault *f);

/* Looks into the files of @fd, which has none of its other members yet. What
 * files of a folder hold that cannot be read does not matter; a single file
 * must be readable. Errors: as data_find; fit for data_found_deinit then. */
enum err data_found_sniff(struct data_found *fd, struct fault *f);

/* "a (csv), b (text), ..." of the files of @kind, or of all for
 * DATA_KIND_COUNT; the first few. Returns @out. */
const char *data_found_list(const struct data_found *fd, enum data_kind kind,
                            char out[DATA_LIST_MAX]);

#endif
