/* Values as the HTTP interface shows them. Each returns a new reference, NULL
 * when out of memory, so that they go into json_pack's "o" directly. Pure. */
#ifndef API_VALUE_H
#define API_VALUE_H

#include <jansson.h>

/* @s as text; where it was cut within a character, without the piece. */
json_t *value_text(const char *s);

/* A text as value_text makes it, and null for "". */
json_t *value_text_or_null(const char *s);

/* A number; non-finite ones are the strings "nan", "inf", "-inf". */
json_t *value_number(double number);

/* A number as value_number makes it, and null for NAN: a figure that may not be
 * there yet. */
json_t *value_number_or_null(double number);

/* Seconds since the epoch as RFC 3339 UTC with milliseconds; null where they
 * are not finite or out of the years 1970 to 9999. */
json_t *value_time(double unix_s);

/* A copy of @value that shares nothing with it: what is read under the view's
 * lock is released outside it. JSON null for NULL; NULL: out of memory. */
json_t *value_own(const json_t *value);

#endif
