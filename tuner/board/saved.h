/* Saved: what strategies put into snapshots, as JSON (strategy_ops.save).
 *
 * A strategy has a struct of what it saves and a table of its members
 * (base/json/fields.h); here is what they share. Inside tuner/ only.
 */
#ifndef TUNER_SAVED_H
#define TUNER_SAVED_H

#include "base/err.h"
#include "base/json/fields.h"
#include "searchers/space/space.h"
#include "tuner/board/plateau.h"

#include <jansson.h>

/* A new object of the struct at @base; NULL: out of memory. */
json_t *saved_new(const struct json_field fields[], const void *base);

/* @o (transferred) with those members as well; NULL: out of memory. */
json_t *saved_add(json_t *o, const struct json_field fields[],
                  const void *base);

/* Reads what saved_new writes into @base (zeroed). False where @saved is
 * something else; the caller releases @base either way (fields_deinit). */
bool saved_read(const json_t *saved, const struct json_field fields[],
                void *base);

/* A plateau, to be PART of a table. Its limit is not saved: it is an option. */
extern const struct json_field saved_plateau[];

/* The search that goes on, in whichever strategy saved it as its member
 * `search`; 0: none. */
uint32_t saved_search(const json_t *saved);

/* The number of that search's next trial, where the strategy saved all before
 * it, as its members `first` and `trials`; 0: it did not. */
uint32_t saved_next_trial(const json_t *saved);

/* A setting as it was in an older run. Errors: ERR_FORMAT, ERR_NOMEM. */
enum err saved_setting(const struct space *space, const json_t *setting,
                       struct setting *out);

#endif
