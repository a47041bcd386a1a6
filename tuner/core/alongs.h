/* The trials that wait, as a snapshot takes them along: each in a folder of its
 * own, written one after the other.
 *
 * One that runs is forked at once, with the snapshot's own branch. One that
 * waits is guarded (board_guard), and forked when its turn comes: a second
 * model for each at the same time would be too much. A trial whose folder is on
 * the disk as it is needs no second one. Part of the core (tuner/core/parts.h);
 * pure.
 */
#ifndef TUNER_ALONGS_H
#define TUNER_ALONGS_H

#include "tuner/board/board.h"
#include "tuner/board/branch.h"
#include "tuner/board/strategy.h"
#include "tuner/core/snapshot_state.h"

struct along {
    struct snapshot_trial t;     /* its `state` is owned; NULL: not known yet */
    branch_id from;              /* the trial's own, as of the snapshot */
    branch_id fork;              /* held: what is written; or BRANCH_NONE */
    uint64_t clocks, increments; /* that are in it */
    bool guards;                 /* `from` */
    bool whole;                  /* its folder is there already */
};

struct alongs {
    uint32_t n, batch; /* of those that wait, forked at the same time */
    struct along x[STRATEGY_WAITING_MAX];
};

/* The branch as it will be when its slices are over, held. BRANCH_NONE: there
 * is no place for one. */
branch_id alongs_hold_end(struct board *c, branch_id id);

/* Takes the trials of @waiting along in snapshot @number; @disk: what the last
 * one wrote. False: not now, and @a is empty. */
bool alongs_take(struct board *c, struct alongs *a, const struct alongs *disk,
                 const struct strategy_waiting *waiting, uint32_t number);

/* Lets go of their branches and states; @a is empty. */
void alongs_drop(struct board *c, struct alongs *a);

/* Frees the states, where the board is going. */
void alongs_deinit(struct alongs *a);

/* The lineages of all are known. *@refused: one that was not made, or NULL. */
bool alongs_settled(const struct board *c, const struct alongs *a,
                    const struct branch **refused);

/* One has diverged since it was taken. */
bool alongs_diverged(const struct board *c, const struct alongs *a);

/* Makes the states that were not known when they were taken. False: out of
 * memory. All are settled. */
bool alongs_state(struct board *c, struct alongs *a);

/* Whether branch @id is needed by one of them. */
bool alongs_need(const struct board *c, const struct alongs *a, branch_id id);

/* A user has added to one of @waiting since @disk was written. */
bool alongs_added_to(const struct board *c, const struct alongs *disk,
                     const struct strategy_waiting *waiting);

/* Forks as many of those that wait as there may be. NULL, or why the snapshot
 * is to be given up. */
const char *alongs_fork(struct board *c, struct alongs *a);

/* The next whose branch can be written now; NULL: none, or all are @whole. */
struct along *alongs_next(struct board *c, struct alongs *a, bool *whole);

/* The folder of @x is there. */
void alongs_written(struct board *c, struct along *x);

#endif
