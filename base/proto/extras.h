/* Further metrics: figures that a program reports beside its loss and metric.
 *
 * Each has a name. A run has at most EXTRAS_MAX of them; names have 1 to
 * EXTRAS_NAME_MAX characters of A-Z a-z 0-9 _ - . : / and space, begin with a
 * letter, a digit or _, and have no "..", so that they can stand in files and
 * in their names. Values travel as an object of columns: name -> array, a
 * number or null a window; those that are not finite are the usual strings.
 * Pure.
 */
#ifndef BASE_EXTRAS_H
#define BASE_EXTRAS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXTRAS_MAX = 16, EXTRAS_NAME_MAX = 32 };

/* Names in the order in which they came. Zeroed is empty. */
struct extras {
    uint32_t len;
    char name[EXTRAS_MAX][EXTRAS_NAME_MAX + 1];
};

bool extras_name_fits(const char *name);

/* Index of @name; -1: it is not there; extras_add: nor is there room. @name
 * fits. */
int extras_find(const struct extras *e, const char *name);
int extras_add(struct extras *e, const char *name);

/* The fault of the array of names @names; of the columns @values of @windows
 * entries; NULL: nothing. Both may be NULL. */
const char *extras_check_names(const json_t *names);
const char *extras_check(const json_t *values, size_t windows);

/* Value @index of column @name of @values; NAN where there is none. */
double extras_at(const json_t *values, const char *name, size_t index);

/* Appends the columns @more of @windows entries to those in *@to (NULL: none
 * yet), which have @before entries; names that one of them lacks get nulls.
 * Errors: ERR_NOMEM. */
enum err extras_append(json_t **to, size_t before, const json_t *more,
                       size_t windows);

/* New columns in *@out: entries @from .. @from + @count of those of @values
 * that
 * @e names; NULL where none has a value there. Errors: ERR_NOMEM. */
enum err extras_part(const struct extras *e, const json_t *values, size_t from,
                     size_t count, json_t **out);

#endif
