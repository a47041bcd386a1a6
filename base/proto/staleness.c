#include "base/proto/staleness.h"

#include <assert.h>
#include <math.h>

/* A peer may say any age. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

void staleness_add(struct staleness *s, int64_t difference)
{
    s->reads++;
    s->sum = sum_of(s->sum, difference);
    if (difference < STALENESS_LEAST)
        difference = STALENESS_LEAST;
    if (difference > STALENESS_MOST)
        difference = STALENESS_MOST;
    s->count[difference - STALENESS_LEAST]++;
}

void staleness_merge(struct staleness *into, const struct staleness *s)
{
    for (int i = 0; i <= STALENESS_MOST - STALENESS_LEAST; i++)
        into->count[i] += s->count[i];
    into->reads += s->reads;
    into->sum = sum_of(into->sum, s->sum);
}

uint64_t staleness_at(const struct staleness *s, int difference)
{
    assert(difference >= STALENESS_LEAST && difference <= STALENESS_MOST);
    return s->count[difference - STALENESS_LEAST];
}

double staleness_mean(const struct staleness *s)
{
    return s->reads ? (double)s->sum / (double)s->reads : (double)NAN;
}
