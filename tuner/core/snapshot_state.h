/* A snapshot's state: the JSON that its record carries beside its folders.
 *
 * It holds what the strategy saved, the lineages of the two branches, and the
 * outcome of the best model. Inside tuner/board only; pure.
 */
#ifndef TUNER_SNAPSHOT_STATE_H
#define TUNER_SNAPSHOT_STATE_H

#include "tuner/board/board.h"
#include "tuner/board/strategy.h"

/* A trial's branch, in a folder of its own: NNNNNN-trial-K, of the snapshot
 * @number that wrote it, this one or one before. */
struct snapshot_trial {
    uint32_t trial, number;
    branch_id of; /* that was written */
    json_t *state;
};

struct snapshot_parts {
    json_t *saved;                  /* borrowed: by the strategy; or NULL */
    const struct branch *main;      /* to go on from */
    const struct branch *best;      /* the best model; or NULL */
    const struct best *outcome;     /* of `best` */
    const struct tuner_finish *end; /* the run is over: how; or NULL */
    bool own; /* `main` with what its trial has run since its fork */
    uint32_t trials;
    json_t *trial[STRATEGY_WAITING_MAX]; /* borrowed: snapshot_state_trial */
};

/* A trial's part: @t but for its `state`, and the lineage of @b. NULL: out of
 * memory. */
json_t *snapshot_state_trial(const struct snapshot_trial *t,
                             const struct branch *b);

/* A new object of that: `saved` or `end` is there. NULL: out of memory. */
json_t *snapshot_state(const struct board *c, const struct snapshot_parts *of);

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

/* Whether the run was over, so that only its model is to be written: how goes
 * to @out. */
bool snapshot_state_end(const json_t *state, struct tuner_finish *out);

/* The branch to go on from is 0, which needs no folder. */
bool snapshot_state_begins(const json_t *state);

/* The trials that @state names; how many there are. Pass max 0 to count. False
 * where it is not what snapshot_state makes. */
bool snapshot_state_trials(const json_t *state, struct snapshot_trial *out,
                           uint32_t max, uint32_t *n);

/* Gives trial @i of @state its lineage. */
bool snapshot_state_read_trial(const struct board *c, const json_t *state,
                               uint32_t i, struct branch *b);

#endif
