/* JSON schema, the part of draft 2020-12 that settings need.
 *
 * What a schema may say: type (one or a list), properties,
 * additionalProperties (false or a schema), required, items, minItems,
 * maxItems, minLength, maxLength, enum, const, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, anyOf, default, description, title,
 * x-unit (shown in messages), and format `seconds` ("10m" or a number) or
 * `bytes` ("8GiB" or a number), whose bounds are in seconds and bytes. Anything
 * else is ignored.
 *
 * Unlike in plain JSON schema, an object with `properties` and without
 * additionalProperties takes no others: unknown keys are errors.
 */
#ifndef BASE_SCHEMA_H
#define BASE_SCHEMA_H

#include "base/json/problems.h"

/* Checks @value against @schema; every fault goes to @out with a pointer that
 * starts with @pointer. */
void schema_check(const json_t *schema, const json_t *value,
                  const char *pointer, struct problems *out);

/* Adds the default of every absent property to the object @value, recursively
 * (an absent object whose properties have defaults is made).
 * Errors: ERR_NOMEM. */
enum err schema_complete(const json_t *schema, json_t *value);

/* Puts the members of the object @value into the schema's order, recursively;
 * others keep theirs, behind. The members themselves stay where they are in
 * memory. Errors: ERR_NOMEM (then some may be missing). */
enum err schema_order(const json_t *schema, json_t *value);

#endif
