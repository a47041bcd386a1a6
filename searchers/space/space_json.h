/* Spaces and settings as JSON: the configuration's "tunables" object, and a
 * setting as it goes over the wire and into journals.
 */
#ifndef SEARCHERS_SPACE_JSON_H
#define SEARCHERS_SPACE_JSON_H

#include "base/json/problems.h"
#include "searchers/space/space.h"

/* Space from the configuration's "tunables" object. All
 * faults go to @problems, with pointers that start with @pointer. After an
 * error @out is empty.
 * Errors: ERR_INVAL (see @problems), ERR_NOMEM. */
enum err space_from_json(const json_t *tunables, const char *pointer,
                         struct space *out, struct problems *problems);

/* The same where space_json_schema was read before, into @schema (borrowed),
 * for whoever reads many. */
enum err space_from_json_by(const json_t *schema, const json_t *tunables,
                            const char *pointer, struct space *out,
                            struct problems *problems);

/* As the configuration would say it, with all defaults filled in; what
 * space_from_json reads back to an equal space (but for `acts`). NULL when out
 * of memory. */
json_t *space_to_json(const struct space *s);

/* JSON schema of one member of "tunables"; static storage. */
const char *space_json_schema(void);

/* Whether a tunable may have the type @name. */
bool space_type_known(const char *name);

/* Object name -> number or text; NULL when out of memory. */
json_t *setting_to_json(const struct space *s, const struct setting *x);

/* The reverse; absent tunables get their defaults, the result is canonical (a
 * value for a pinned tunable is checked, then overruled). All faults go to
 * @problems with pointers that start with @pointer. Errors: ERR_INVAL. */
enum err setting_from_json(const struct space *s, const json_t *object,
                           const char *pointer, struct setting *out,
                           struct problems *problems);

/* Reads a setting like setting_from_json, but absent tunables have the values
 * of @base. */
enum err setting_over_json(const struct space *s, const struct setting *base,
                           const json_t *object, const char *pointer,
                           struct setting *out, struct problems *problems);

#endif
