/* What a field of a table says: a number, a text, or that it is missing.
 * Pure functions.
 */
#ifndef APPS_CSV_FIELD_H
#define APPS_CSV_FIELD_H

#include "base/text.h"

#include <stdbool.h>

/* A class or a category: bytes, and with its end. */
enum { CSV_NAME_BYTES_MAX = 255, CSV_NAME_ROOM = CSV_NAME_BYTES_MAX + 1 };

/* What messages show of a field, with its end. */
enum { CSV_EXCERPT_MAX = 40, CSV_EXCERPT_ROOM = CSV_EXCERPT_MAX + 4 };

/* Nothing, ?, NA, N/A, NaN, null; upper and lower case alike. */
bool csv_is_missing(const char *text);

/* A decimal number, the whole of @text; as strtod reads it. */
bool csv_number(const char *text, double *out);

/* No number here, but meant as one: with a comma for the point, hexadecimal, or
 * infinite. A column of such is a mistake, not one of categories. */
bool csv_is_almost_number(const char *text);

/* Whether @text can name a class or a category: one line of at most
 * CSV_NAME_BYTES_MAX bytes. */
bool csv_is_name(const char *text);

/* The name of the class or category @text (csv_is_name): that text, or for a
 * number the shortest one that reads back the same, so that 1 and 1.0 are one.
 */
void csv_name(const char *text, char out[CSV_NAME_ROOM]);

/* The beginning of @text as ASCII; returns @out. */
const char *csv_excerpt(const char *text, char out[CSV_EXCERPT_ROOM]);

/* Orders names (pointers to texts, as qsort has them): where all @name[n] are
 * numbers by value, else byte by byte. */
void csv_sort_names(char **name, unsigned n);

#endif
