/* Finals: the finalists of a search go on for the time of an epoch of the
 * fastest, the better two for as much again, and the best is trained with.
 *
 * A trial's speed prefers learning rates that are wrong for the long run
 * (short-horizon bias, Wu et al. 2018; measured for matrix factorization: the
 * order of the rates reverses at epoch three). Branches make the longer look
 * cheap: the winner's epochs count as training. Finalists are compared at equal
 * time, as trials are, so that what a setting costs counts, and by the metric
 * only as far as that can tell (tuner/search/metric_noise.h). Inside tuner/
 * only; docs/algorithms.md has the measurements behind the rules.
 */
#ifndef TUNER_FINALS_H
#define TUNER_FINALS_H

#include "tuner/board/training.h"
#include "tuner/search/fallen.h"
#include "tuner/search/finalists.h"

enum {
    FINALS_EPOCHS_MAX = 12 /* of any: a cheap setting runs more in that time */
};

/* An epoch is dear that takes more than this many of the fastest's. */
#define FINALS_DEAR 1.1

/* Training losses within this factor of each other after an epoch are alike. */
#define FINALS_ALIKE 1.2

struct finalist {
    struct trial *trial; /* borrowed from the search */
    branch_id branch;
    bool out, started;
    uint32_t base;   /* epochs of the lineage before the search */
    uint32_t before; /* epochs that ended within its trial, untested */
    struct training line;
    /* A dear setting's result where an epoch of the fastest is over, and its
     * own is not; loss: the mean up to there. */
    bool looked;
    struct training_epoch look;
    double look_time;
    /* Epochs that were tested, oldest first. */
    uint32_t epochs;
    struct training_epoch epoch[FINALS_EPOCHS_MAX];
    double time[FINALS_EPOCHS_MAX]; /* of training since the parent; seconds,
                                     * or epochs with trial_clocks */
    double run;                     /* the same, so far */
    branch_id kept;   /* end of its best epoch if that beats the run's best so
                       * far, held, even when it is out where no other finalist
                       * has a better one; else BRANCH_NONE */
    uint32_t kept_at; /* index of that epoch */
    struct fallen fallen;
};

struct finals {
    struct board *c;
    size_t n;
    struct finalist f[FINALISTS_MAX];
    branch_id parent;
    uint32_t epochs_left; /* that the run may still make */
    uint32_t stage;   /* 0: to a first result each; 1: all as far as the latest
                       * of these; 2: the better two to the horizon; 3: a look
                       * at each of these with its rate fallen */
    bool falls;       /* the rate falls before the run ends, as is known by now:
                       * then there is a stage 3 */
    double step;      /* what an epoch of the fastest takes; 0: not known */
    double first;     /* time at which they are compared first */
    double horizon;   /* time at which they are compared in the end */
    enum err refused; /* the latest finalist's fork that was; ERR_OK: none */
};

/* @trial[n], 1 <= n; their branches are live or gone. @falls: the run hardly
 * ends before its learning rate falls; it has one. */
void finals_init(struct finals *f, struct board *c, branch_id parent,
                 struct trial *const trial[], size_t n, bool falls);

/* Goes on; returns the winner once there is one, else NULL. All finalists may
 * fall out (diverge): then *@none is set. */
struct finalist *finals_advance(struct finals *f, bool *none);

/* Whether the end of an epoch is being kept: only what is kept can be the run's
 * best model. */
bool finals_keeping(const struct finals *f);

/* The finalist whose kept epoch is the best of all, of those that are out too,
 * and beats the run's best so far; NULL: none does. */
struct finalist *finals_best_kept(struct finals *f);

/* Makes that epoch the run's best model unless it is @winner's (may be NULL),
 * whose own epochs are yet to be taken. True if it did. */
bool finals_save_best(struct finals *f, const struct finalist *winner);

/* Whether a finalist diverged: other finals of the same search do without its
 * trial (`fell`). */
bool finals_diverged(const struct finals *f);

/* Releases all finalists but @winner (may be NULL): branches, lines, forks. */
void finals_deinit(struct finals *f, struct finalist *winner);

#endif
