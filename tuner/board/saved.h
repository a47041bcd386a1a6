/* Saved: what strategies put into snapshots, as JSON (strategy_ops.save).
 *
 * Writing collects failures, so that a caller checks once. Inside tuner/ only.
 */
#ifndef TUNER_SAVED_H
#define TUNER_SAVED_H

#include "base/err.h"
#include "searchers/space/space.h"
#include "tuner/board/plateau.h"

#include <jansson.h>

/* Adds @value (a new reference) to @o; non-zero: out of memory, @value is
 * released. @value NULL fails. */
int saved_put(json_t *o, const char *name, json_t *value);
int saved_put_count(json_t *o, const char *name, uint64_t n);
int saved_put_plateau(json_t *o, const struct plateau *p);

/* Readers: false where the member is missing or not what it is to be. */
bool saved_count(const json_t *o, const char *name, uint32_t *out);
bool saved_flag(const json_t *o, const char *name, bool *out);
/* Limit stays as it is. */
bool saved_plateau(const json_t *o, struct plateau *p);
/* Errors: ERR_FORMAT, ERR_NOMEM. */
enum err saved_setting(const struct space *space, const json_t *setting,
                       struct setting *out);

#endif
