/* A branch as the board keeps it: what it is, how far it has run, what is out.
 *
 * For the files of tuner/board alone; strategies ask by the functions that
 * board.h declares (branch_...), which branch.c holds. Pure.
 */
#ifndef TUNER_BRANCH_H
#define TUNER_BRANCH_H

#include "tuner/board/board.h"

enum { BOARD_ROLE_MAX = 16 };

/* FORKING: not answered yet. REFUSED: the fork failed, nothing exists (or
 * `partly`); to be forgotten with board_free. FREEING: told to be freed, not
 * answered yet; no strategy sees it any more. */
enum branch_state {
    BRANCH_FREE_SLOT,
    BRANCH_FORKING,
    BRANCH_LIVE,
    BRANCH_REFUSED,
    BRANCH_FREEING
};

/* Sums that the running epoch has gathered. */
struct epoch_sums {
    double sum, seconds;
    uint64_t samples, clocks;
};

/* Changed by branches.c and slices.c alone. */
struct branch {
    branch_id id, parent;
    enum branch_type type;
    enum branch_state state;
    char role[BOARD_ROLE_MAX];
    struct setting setting;
    json_t *json;   /* owned: the setting as the messages carry it */
    uint32_t holds; /* of kept branches: freed with the last board_drop */

    uint64_t clocks; /* run by the lineage */
    uint32_t epochs; /* finished by the lineage */
    struct epoch_sums now;
    struct epoch_result result[BOARD_EPOCHS_KEPT]; /* epoch e at e % KEPT */
    double all_sum; /* of finite windows of the lineage */
    uint64_t all_samples;

    /* Since the fork; of a kept fork as of what it was made of. */
    clock_no first_clock; /* global, of its first slice; valid when clocks > 0
                           * or a slice is out */
    bool scheduled;       /* had a slice */
    uint64_t own_clocks, own_samples;
    double own_sum; /* of finite windows */
    struct trace trace;

    uint32_t slices; /* scheduled and not answered */
    uint64_t plan;   /* position in the epoch after them (see board_units) */
    uint32_t plan_epochs; /* epochs finished after them */

    uint64_t increments; /* number of the last one that is in it; 0: none */

    bool guarded;       /* see board_guard */
    branch_id spare_of; /* of a kept fork: the guarded branch that it is of; 0:
                         * it is none */

    op_id after; /* the lineage's numbers follow when the parent's slice of this
                  * operation has ended; 0: they are there */

    enum err error;                /* a slice failed; ERR_OK otherwise */
    char failure[RECORD_TEXT_MAX]; /* why, or why it was refused; "" */
    bool partly;    /* REFUSED: some nodes have it all the same */
    bool nonfinite; /* reported something that is not finite */
};

#endif
