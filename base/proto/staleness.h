/* The staleness that reads have seen, counted.
 *
 * As Dai et al. 2015, figure 2, have it: the parameter's age less the reader's
 * clock, where a parameter of age a holds all updates of clocks up to a. So -1
 * is all of the clocks before (bsp: always), lower is staler, from 0 on it
 * holds clocks that the reader has not ended itself. Plain data.
 */
#ifndef BASE_STALENESS_H
#define BASE_STALENESS_H

#include <stdint.h>

enum { STALENESS_LEAST = -32, STALENESS_MOST = 31 };

struct staleness {
    /* [difference - STALENESS_LEAST]; the ends count what lies beyond too. */
    uint64_t count[STALENESS_MOST - STALENESS_LEAST + 1];
    uint64_t reads;
    int64_t sum; /* of the differences; it stays at the ends of its range */
};

void staleness_add(struct staleness *s, int64_t difference);

/* @into gets the counts of @s besides its own. */
void staleness_merge(struct staleness *into, const struct staleness *s);

/* Reads with that difference; STALENESS_LEAST <= @difference <= _MOST. */
uint64_t staleness_at(const struct staleness *s, int difference);

/* The mean difference; NaN without reads. */
double staleness_mean(const struct staleness *s);

#endif
