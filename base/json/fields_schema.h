/* Tables of fields as JSON schemas: what fields_put writes, described by the
 * same table. Pure. */
#ifndef BASE_FIELDS_SCHEMA_H
#define BASE_FIELDS_SCHEMA_H

#include "base/json/fields.h"

/* Adds the members of @fields to @properties, and the names of those that are
 * always written to the array @required. False: out of memory. */
bool fields_schema(const struct json_field fields[], json_t *properties,
                   json_t *required);

/* New schema of one field's value, which stands under its own name (no PART, no
 * COLUMNS). NULL: out of memory. */
json_t *field_schema(const struct json_field *f);

/* New schema of the words that @name_of gives for @min .. @max, each once.
 * NULL: out of memory. */
json_t *words_schema(const char *(*name_of)(unsigned), unsigned min,
                     unsigned max);

#endif
