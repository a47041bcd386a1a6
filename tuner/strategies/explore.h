/* Exploring: a setting near another one, as population based training changes
 * what a member has taken over (Jaderberg et al. 2017, section 3).
 *
 * Pure; inside tuner/ only.
 */
#ifndef TUNER_EXPLORE_H
#define TUNER_EXPLORE_H

#include "base/rng.h"
#include "searchers/space/space.h"

struct explore {
    double factor;   /* > 1: numbers are multiplied or divided by it */
    double resample; /* 0 .. 1: share of values that are drawn anew */
};

/* Of each tunable that is not pinned the value is drawn anew, evenly on its
 * scale, with probability `resample`; else a number is multiplied or divided by
 * `factor` (an int moves by 1 at least), and a listed value gives way to the
 * next or the one before. @out is in the space; it may be @x. */
void explore_setting(const struct explore *e, const struct space *s,
                     const struct setting *x, struct rng *rng,
                     struct setting *out);

#endif
