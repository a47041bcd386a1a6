/* Which worker works on which time part in which step, and for whom it waits
 * (Wei 2018, section 3.4.2). Worker w has space part w throughout.
 *
 *   1-D, serial   one step
 *   2-D           step t of worker w: time part (w * k + t) mod P, of P = k *
 * W. Worker w + 1, its predecessor in the ring, had that part k steps before;
 * nobody else is waited for wavefront     step t of worker w: time part t - w;
 * worker w - 1 had it in the step before
 *
 * The serial order that it equals: by step, and within a step in any order, by
 * worker say; of a wavefront also the loop's own. Pure.
 */
#ifndef PS_LOOP_SCHEDULE_H
#define PS_LOOP_SCHEDULE_H

#include "ps/loop/plan.h"

struct loop_schedule {
    bool wavefront, ring;
    unsigned workers, time_parts;
};

void schedule_init(struct loop_schedule *s, const struct loop_plan *plan);

unsigned schedule_steps(const struct loop_schedule *s);

/* The time part, or -1: none in this step. @worker of those who take part. */
int schedule_part(const struct loop_schedule *s, unsigned worker,
                  unsigned step);

/* Whom it waits for before @step: worker *@other is to have ended so many of
 * its steps. 0: for nobody. */
unsigned schedule_needs(const struct loop_schedule *s, unsigned worker,
                        unsigned step, unsigned *other);

#endif
