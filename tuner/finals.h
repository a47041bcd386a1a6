/* Finals: the finalists of a search go on for the time of three epochs, and the
 * best of them is trained with.
 *
 * A trial's speed prefers learning rates that are wrong for the long run
 * (short-horizon bias, Wu et al. 2018; measured for matrix factorization: the
 * order of the rates reverses at epoch three). Branches make the longer look
 * cheap: the winner's epochs count as training. Finalists are compared at equal
 * time, as trials are, so that what a setting costs counts. Inside tuner/ only;
 * docs/algorithms.md has the measurements behind the rules.
 */
#ifndef TUNER_FINALS_H
#define TUNER_FINALS_H

#include "tuner/line.h"
#include "tuner/search.h"

enum {
    FINALS_EPOCHS = 3,        /* of the fastest finalist: the horizon */
    FINALS_EPOCHS_RETUNE = 2, /* the same in a re-tune, where what a setting is
                               * worth shows at once: the noise it saves */
    FINALS_EPOCHS_MAX = 12 /* of any: a cheap setting runs more in that time */
};

struct finalist {
    struct trial *trial; /* borrowed from the search */
    branch_id branch;
    bool out, started;
    uint32_t base;   /* epochs of the lineage before the search */
    uint32_t before; /* epochs that ended within its trial, untested */
    struct line line;
    /* Epochs that were tested, oldest first. */
    uint32_t epochs;
    struct line_epoch epoch[FINALS_EPOCHS_MAX];
    double time[FINALS_EPOCHS_MAX]; /* of training since the parent; seconds,
                                     * or epochs with trial_clocks */
    double run;                     /* the same, so far */
    branch_id kept;   /* end of its best epoch if that beats the run's best so
                       * far, held; else BRANCH_NONE */
    uint32_t kept_at; /* index of that epoch */
};

struct finals {
    struct board *c;
    size_t n;
    struct finalist f[SEARCH_FINALISTS_MAX];
    branch_id parent;
    uint32_t epochs;      /* of the fastest: the horizon */
    bool halved;          /* after an epoch each the better two go on */
    uint32_t epochs_left; /* that the run may still make */
    uint32_t stage;       /* 0: an epoch each; 1: two thirds of the time; 2: all
                           */
    double horizon;       /* time at which they are compared, from stage 1 */
    double step;          /* how far the outlook looks beyond it */
};

/* @trial[n], 1 <= n; their branches are live or gone. @retune: of two epochs,
 * of which all run the first and the better two the second. */
void finals_init(struct finals *f, struct board *c, branch_id parent,
                 struct trial *const trial[], size_t n, bool retune);

/* Goes on; returns the winner once there is one, else NULL. All finalists may
 * fall out (diverge): then *@none is set. */
struct finalist *finals_advance(struct finals *f, bool *none);

/* Releases all finalists but @winner (may be NULL): branches, lines, forks. */
void finals_deinit(struct finals *f, struct finalist *winner);

#endif
