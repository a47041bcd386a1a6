/* An encoding as the file encoding.json of a model folder.
 *
 *   {"version": 1, "columns": [
 *     {"name": "age", "kind": "number", "fill": 38.25, "missing": true},
 *     {"name": "plan", "kind": "category", "categories": ["basic", "pro"],
 *      "missing": false}]}
 *
 * Columns in the order of the training data, without names where that had no
 * header. What becomes of them says encoding.h.
 */
#ifndef APPS_ENCODING_FILE_H
#define APPS_ENCODING_FILE_H

#include "apps/samples/encoding.h"
#include "base/fault.h"

#include <jansson.h>
#include <stddef.h>

enum { ENCODING_TEXT_MAX = 128 << 20 };

/* Errors: ERR_FORMAT, with the member that is wrong; ERR_LIMIT; ERR_NOMEM. */
enum err encoding_parse(const char *text, size_t len, struct encoding *out,
                        struct fault *f);

/* Owned by the caller; NULL when out of memory. */
json_t *encoding_json(const struct encoding *e);

/* DIR/encoding.json, whole or not there. Errors: ERR_IO, ERR_NOMEM, ERR_INVAL
 * (path). */
enum err encoding_save(const struct encoding *e, const char *dir,
                       struct fault *f);

/* Zeroed where that file is not there. Errors: as encoding_parse, ERR_IO,
 * ERR_INVAL (path). */
enum err encoding_load(const char *dir, struct encoding *out, struct fault *f);

/* The text of DIR/encoding.json, valid, on one line: owned by the caller, NULL
 * where it is not there. Errors: as encoding_load. */
enum err encoding_text(const char *dir, char **out, struct fault *f);

#endif
