/* The schemas of a run configuration, made once where many are parsed: that of
 * the table, and that of each entry's settings.
 *
 * Making them takes longer than parsing a configuration by them. One owner
 * thread, which may not free them while a parse goes on.
 */
#ifndef CLI_CONFIG_SCHEMAS_H
#define CLI_CONFIG_SCHEMAS_H

#include "base/json/registry.h"

#include <jansson.h>

struct config_schemas;
struct tunables_known;

/* Of all entries of @r, which outlives them, as it is now. @out is owned by the
 * caller. Errors: ERR_NOMEM. */
enum err config_schemas_new(const struct registry *r,
                            struct config_schemas **out);

/* Accepts NULL. */
void config_schemas_free(struct config_schemas *s);

/* The schema of the configuration's table: kept in @s, or made anew where that
 * is NULL. @out is a reference, the caller's to drop, and not to be changed.
 * Errors: ERR_NOMEM. */
enum err config_schemas_table(const struct config_schemas *s, json_t **out);

/* The same for the settings of @e, an entry that was made later too (an app
 * from a shared object). Errors: of config_entry_schema. */
enum err config_schemas_entry(const struct config_schemas *s,
                              const struct registry_entry *e, json_t **out,
                              struct fault *f);

/* The known tunables that @s keeps; NULL where that is. */
const struct tunables_known *
config_schemas_tunables(const struct config_schemas *s);

#endif
