/* The table of the run configuration's fields, and what is made from it. */
#ifndef CLI_CONFIG_TABLE_H
#define CLI_CONFIG_TABLE_H

#include "base/json/config.h"
#include "base/json/registry.h"

/* The table; *@n gets its length. */
const struct config_field *config_table(size_t *n);

/* JSON schema (draft 2020-12) of the whole configuration, with the settings of
 * every app, searcher and strategy of @r. Owned by the caller. Errors:
 * ERR_NOMEM; ERR_INVAL for a malformed schema of an entry. */
enum err config_full_schema(const struct registry *r, json_t **out,
                            struct fault *f);

/* The settings schema of @e as an object with `name` allowed (for apps) and
 * unknown keys refused. Owned by the caller. */
enum err config_entry_schema(const struct registry_entry *e, json_t **out,
                             struct fault *f);

#endif
