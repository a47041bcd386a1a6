/* Kinds of data files, judged by their content and then by their name. */
#ifndef APPS_DATA_KIND_H
#define APPS_DATA_KIND_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum data_kind {
    DATA_RATINGS,
    DATA_IDX,
    DATA_LDAC,
    DATA_DOCWORD,
    /* Known by sight, so that a refusal can say what was found: */
    DATA_LIBSVM,
    DATA_EDGES,
    DATA_CSV,
    DATA_CIFAR,
    DATA_TEXT,
    DATA_BINARY,
    DATA_EMPTY,
    DATA_KIND_COUNT
};

/* "ratings", "idx", ... ; static storage. */
const char *data_kind_name(enum data_kind kind);

/* The kind in words, for messages. Static storage. */
const char *data_kind_text(enum data_kind kind);

enum { DATA_SNIFF_BYTES = 4096 };

/* Kind of the file @name that begins with @bytes (decompressed; @whole when
 * they are all of it). *@dims: of an IDX array, else 0. */
enum data_kind data_kind_of(const char *name, const void *bytes, size_t len,
                            bool whole, unsigned *dims);

/* Kind of the file @path. Errors: those of data_stream. */
enum err data_kind_of_file(const char *path, enum data_kind *kind,
                           unsigned *dims, struct fault *f);

#endif
