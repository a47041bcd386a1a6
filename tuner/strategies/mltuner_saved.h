/* The part of strategy `mltuner` that is in snapshots: the line, the plateau,
 * barred settings, and the search that is under way.
 */
#ifndef TUNER_MLTUNER_SAVED_H
#define TUNER_MLTUNER_SAVED_H

#include "tuner/strategies/mltuner.h"

/* strategy_ops.save and .restore; @state is a struct mltuner. */
enum err mltuner_save(void *state, branch_id *branch, json_t **out);
enum err mltuner_restore(void *state, const json_t *saved, branch_id branch);

#endif
