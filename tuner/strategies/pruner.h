/* Pruners: rules by which a setting that is trained to its end is given up
 * before it.
 *
 * A pruner sees the score of each epoch of one trial after another and says
 * when a trial is not worth going on:
 *
 *   median   (Vizier, Golovin et al. 2017) at epoch e its best
 *            score so far is worse than the median, over the trials that were
 *            trained to their ends, of their mean scores of epochs 1 .. e.
 *            Never before `startup` such trials, nor in the first `warmup`
 *            epochs.
 *   halving  (Li et al. 2020, by stopping) at epochs min_resource eta^k: its
 *            score is not among the best 1 / eta of those that were recorded
 *            there, of which one always is.
 *
 * Scores: less is better; NaN is the worst. Pure; inside tuner/ only.
 */
#ifndef TUNER_PRUNER_H
#define TUNER_PRUNER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { PRUNER_RUNGS_MAX = 20 };

enum pruner_rule { PRUNER_NONE, PRUNER_MEDIAN, PRUNER_HALVING };

/* Numbers that grow. */
struct pruner_list {
    double *value; /* owned */
    uint32_t n, room;
};

struct pruner {
    enum pruner_rule rule;
    uint32_t startup, warmup;   /* of `median` */
    uint32_t min_resource, eta; /* of `halving`: >= 1, >= 2 */
    /* The trial under way: means of its scores by epoch, and its best one. */
    struct pruner_list means;
    double sum, best;
    /* Of the trials that were trained to their ends. */
    struct pruner_list *past; /* owned */
    uint32_t past_n, past_room;
    struct pruner_list rung[PRUNER_RUNGS_MAX]; /* scores, ascending */
};

/* Gives the memory back. Accepts a zeroed one. */
void pruner_deinit(struct pruner *p);

/* Makes room for the next call of each of the others. Errors: ERR_NOMEM,
 * nothing changed: call again. */
enum err pruner_reserve(struct pruner *p);

/* Takes in the score of the next epoch of the trial under way. True: it is not
 * worth going on. */
bool pruner_epoch(struct pruner *p, double score);

/* The trial under way is over; where it was @whole, trained to its end, others
 * are compared with it. */
void pruner_over(struct pruner *p, bool whole);

#endif
