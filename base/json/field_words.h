/* Words for people about a member: what it was expected to be, and what was
 * found. Pure. */
#ifndef BASE_FIELD_WORDS_H
#define BASE_FIELD_WORDS_H

#include "base/json/fields.h"

/* As "an integer from 1 to 100": @f's own words, or by its kind and bounds;
 * @out[size], cut off where it is too short. */
void field_say_expected(const struct json_field *f, char *out, size_t size);

/* As "7", "an object"; NULL: "nothing". */
void field_say_found(const json_t *v, char *out, size_t size);

#endif
