/* Training lines: a training branch run epoch by epoch.
 *
 * A line keeps slices queued up to the end of the epoch it may run, forks what
 * is wanted of the epoch's end (a kept fork to return to, a testing branch over
 * the validation data) in clock order before anything runs on, and hands the
 * finished epoch to its owner. Every strategy trains with
 * lines, and each finalist of a search is one. Inside tuner/ only.
 */
#ifndef TUNER_TRAINING_H
#define TUNER_TRAINING_H

#include "tuner/board/board.h"

struct training_epoch {
    struct epoch_result e;
    double metric; /* NAN without validation */
};

struct training {
    struct board *c;
    branch_id branch;
    bool keeps;      /* a kept fork of each epoch's end */
    bool brief;      /* slices are short: others wait for their turn */
    bool ahead;      /* may start the next epoch before the owner has seen this
                      * one's result */
    uint32_t epochs; /* handed over, of the lineage */
    uint32_t goal;   /* may run to the end of this epoch */
    /* Within an epoch: where to pause, in clocks of the lineage; 0: nowhere.
     * `ahead` must be false then. */
    uint64_t pause_at;
    double leg_sum; /* of losses, up to the last pause */
    uint64_t leg_samples;
    branch_id kept; /* end of the last epoch handed over, held by the line; or
                     * BRANCH_NONE */
    struct training_closing {
        bool begun;
        bool asked; /* the test was scheduled */
        branch_id kept, test;
        uint32_t tries;
    } closing;
};

/* PAUSED: `pause_at` is reached, and tested as an epoch's end is. BROKEN:
 * diverged, or the application or the memory failed (branch->error); no slice
 * of it is out any more. */
enum training_state {
    TRAINING_BUSY,
    TRAINING_EPOCH,
    TRAINING_PAUSED,
    TRAINING_BROKEN
};

/* Starts with a live training branch; epochs of its lineage that are already
 * over are handed over as well if they are no more than one behind. */
void training_init(struct training *l, struct board *c, branch_id branch,
                   bool keeps);

/* The branch that a snapshot of the line is taken from, so that the line is
 * restored with the same number of epochs handed over: its branch, or, where
 * that has gone ahead, the end of the epoch that is being tested or of the one
 * before. BRANCH_NONE: not now. */
branch_id training_restorable(const struct training *l);

/* Whether a line on the restored branch @b may have handed over @epochs. */
bool training_may_restore(const struct branch *b, uint32_t epochs);

/* Starts like training_init, with @epochs handed over, on a branch forked from
 * a restored one,
 * @kept: to return to (held by the caller; the line takes a hold). */
void training_restore(struct training *l, struct board *c, branch_id branch,
                      uint32_t epochs, branch_id kept);

/* Releases the kept forks and what an unfinished epoch has forked; the branch
 * itself stays. */
void training_deinit(struct training *l);

/* Goes on. TRAINING_EPOCH: @out is the next finished epoch; call again.
 * TRAINING_PAUSED: @out has the metric by now (NAN without validation), and as
 * loss the mean since the last pause; its epoch is 0. Call again with another
 * pause_at. */
enum training_state training_advance(struct training *l,
                                     struct training_epoch *out);

/* Allows the line to run the epoch after those handed over. */
void training_go(struct training *l);

/* Records @e as finished. */
void training_record(const struct training *l, const struct training_epoch *e,
                     bool surviving, bool best);

/* The same of @branch, which may be gone, with its setting @json (borrowed). */
void training_record_of(struct board *c, branch_id branch, json_t *json,
                        const struct training_epoch *e, bool surviving,
                        bool best);

#endif
