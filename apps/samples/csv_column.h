/* Columns of a table as settings name them: a name of the header, "first",
 * "last", a number from 1, or from the end below 0. Pure functions.
 */
#ifndef APPS_CSV_COLUMN_H
#define APPS_CSV_COLUMN_H

#include <stdbool.h>
#include <stddef.h>

/* Whether @column (NULL: the last) is a name, which only a header can have. */
bool csv_column_is_name(const char *column);

/* Field of @column (NULL: the last) in a record of @n fields, of which @name[n]
 * are the names (NULL: there are none). False: there is none such. */
bool csv_column_find(char *const *name, size_t n, const char *column,
                     size_t *out);

#endif
