/* The probe: a branch that learns nothing. It shows the loss before the trials
 * and what the choice of samples alone does to it; and it measures the clock,
 * from which the window follows.
 *
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_PROBE_H
#define TUNER_PROBE_H

#include "tuner/search/runner.h"

#define TRIAL_TIME_MIN_S 0.05 /* floor of the trial time */
#define TRIAL_SWITCHES 20     /* costs of a switch: floor of the trial time */

struct probe {
    branch_id branch; /* BRANCH_NONE: none (any more) */
    struct runner run;
    double loss_before;
    uint64_t window; /* units; siblings report windows of equal samples */
    double unit_s;   /* seconds a unit took */
};

void probe_init(struct probe *p);

/* Goes on from idle @parent with @setting (NULL: the defaults). True when all
 * of @p is known. May end the run. */
bool probe_advance(struct probe *p, struct board *c, branch_id parent,
                   const struct space *space, const struct setting *setting);

/* Takes it as far as any trial goes, which is @furthest: its report is the
 * choice of samples alone, and is taken off the trials' traces. True when it is
 * there. */
bool probe_follow(struct probe *p, struct board *c, uint64_t furthest);

#endif
