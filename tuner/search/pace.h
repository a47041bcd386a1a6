/* Pace: what a unit of work costs, pooled over trials that cost the same.
 *
 * Learning rate and momentum change what a clock achieves, not what it takes,
 * so trials that differ in nothing else share one pace: the median of what they
 * measured. Speeds then compare losses, not the moments at which other tenants
 * of the machine were busy (measured: 300 equal clocks took 0.35 to 0.63 s on a
 * loaded machine, which alone decided the search). All other tunables are taken
 * to change the cost. Inside tuner/ only; pure.
 */
#ifndef TUNER_PACE_H
#define TUNER_PACE_H

#include "tuner/search/search.h"

/* Seconds a unit of @t, pooled over the search's trials that have a measured
 * pace, @t's own included; 0 where nothing was measured. */
double pace_pooled(const struct search *s, const struct trial *t);

/* Expresses @t's summary (times, speed) in the pooled pace. Returns how much
 * longer its seconds are now: 1 where nothing changed. */
double pace_apply(const struct search *s, struct trial *t);

#endif
