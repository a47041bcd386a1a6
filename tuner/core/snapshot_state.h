/* A snapshot's state: the JSON that its record carries beside its folders.
 *
 * It holds what the strategy saved, the lineages of the two branches, and the
 * outcome of the best model. Inside tuner/board only; pure.
 */
#ifndef TUNER_SNAPSHOT_STATE_H
#define TUNER_SNAPSHOT_STATE_H

#include "tuner/board/board.h"

/* A new object of what the strategy @saved (borrowed), the branch to go on
 * from, and the best model (NULL: none) with its @outcome. NULL: out of memory.
 */
json_t *snapshot_state(const struct board *c, json_t *saved,
                       const struct branch *main, const struct branch *best,
                       const struct best *outcome);

struct snapshot_numbers {
    uint64_t samples_per_clock; /* 0: no clock ran */
    uint64_t workers;           /* 0: written by an older version */
    struct best best;           /* branch: as restored */
};

/* Gives the restored branches their lineages (NULL: that one has none), and
 * @out the rest. False where @state is not what snapshot_state makes, or does
 * not fit the training system: the branches are then of no use. */
bool snapshot_state_read(const struct board *c, const json_t *state,
                         struct branch *main, struct branch *best,
                         struct snapshot_numbers *out);

/* The strategy's part of @state; borrowed, NULL: it saved nothing. */
const json_t *snapshot_state_strategy(const json_t *state);

/* The branch to go on from is 0, which needs no folder. */
bool snapshot_state_begins(const json_t *state);

#endif
