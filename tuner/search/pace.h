/* Pace: what a unit of work costs, pooled over trials that cost the same.
 *
 * Learning rate, momentum and their like (dropout, weight decay, clipping)
 * change what a clock achieves, not what it takes, so trials that differ in
 * nothing else share one pace: the median of what they
 * measured. Speeds then compare losses, not the moments at which other tenants
 * of the machine were busy (measured: 300 equal clocks took 0.35 to 0.63 s on a
 * loaded machine, which alone decided the search). All other tunables are taken
 * to change the cost. Inside tuner/ only; pure.
 */
#ifndef TUNER_PACE_H
#define TUNER_PACE_H

#include "tuner/search/trials.h"

/* Seconds a unit of @x, pooled over the trials of @t that have a measured pace,
 * @x's own included; 0 where nothing was measured. */
double pace_pooled(const struct trials *t, const struct trial *x);

/* Expresses @x's summary (times, speed) in the pooled pace. Returns how much
 * longer its seconds are now: 1 where nothing changed. */
double pace_apply(const struct trials *t, struct trial *x);

/* Seconds a unit in which @x's summary is expressed; 0: not known. */
double pace_of(const struct trial *x);

#endif
