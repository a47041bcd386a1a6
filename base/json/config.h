/* Configuration tables: one table of fields makes validation, defaults, help
 * and JSON schema.
 *
 * A table lists every field with its path, type, default, bounds, unit and help
 * text. config_schema turns it into a JSON schema, and it is the schema that
 * values are checked against and completed from (base/json/schema.h); so the
 * schemas that apps, searchers and strategies state for their settings go the
 * same way.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum config_type {
    CONFIG_BOOL,
    CONFIG_INT,
    CONFIG_NUMBER,
    CONFIG_STRING,
    CONFIG_DURATION, /* seconds */
    CONFIG_SIZE,     /* bytes */
    CONFIG_OBJECT,   /* described by `schema`, or free-form */
    CONFIG_ANY       /* described by `schema` */
};

struct config_field {
    const char *path; /* "stop.max_epochs" */
    enum config_type type;
    const char *fallback; /* default as JSON text; NULL: none (stays absent) */
    double min, max;      /* numbers; both 0: unbounded */
    const char *choices;  /* "a|b|c"; NULL: any */
    const char *unit;     /* "epochs"; NULL */
    const char *help;     /* one line */
    const char *schema;   /* more schema members, as JSON text; NULL */
    bool required;
};

/* JSON schema of the table @fields[n]; owned by the caller. Errors: ERR_NOMEM;
 * ERR_FORMAT for a table that is malformed (a programmer's error, found by the
 * table's test). */
enum err config_schema(const struct config_field fields[], size_t n,
                       json_t **out, struct fault *f);

/* The table as help text, one field a line with type, default and range. Owned
 * by the caller (mem_free); NULL when out of memory. */
char *config_help(const struct config_field fields[], size_t n);

#endif
