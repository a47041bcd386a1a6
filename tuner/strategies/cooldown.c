#include "tuner/strategies/cooldown.h"

#include <assert.h>
#include <math.h>

static int rate_of(const struct space *space)
{
    return space_find(space, "learning_rate");
}

bool cooldown_possible(const struct space *space)
{
    int rate = rate_of(space);
    const struct tunable *t = rate < 0 ? NULL : &space->tunable[rate];

    return t && t->type == TUNABLE_FLOAT && t->values_len == 0 && !t->fixed &&
           t->acts && t->retune && t->when.on < 0;
}

bool cooldown_near(const struct cooldown *d, uint32_t epochs, uint32_t max)
{
    assert(d->share >= 0 && d->share <= 1);
    if (d->share == 0 || epochs == 0 || epochs >= max)
        return false;
    return (double)(max - epochs) <= ceil(d->share * (double)max);
}

bool cooldown_early(const struct cooldown *d, uint32_t epochs, uint32_t max,
                    uint32_t patience)
{
    if (cooldown_near(d, epochs, max))
        return true;
    return d->share > 0 && epochs >= 1 && epochs < max &&
           epochs >= max - epochs && max - epochs <= patience;
}

bool cooldown_certain(const struct cooldown *d, uint32_t max, uint32_t patience)
{
    assert(max >= 1 && patience >= 1);
    return d->share > 0 && max >= COOLDOWN_LONG && patience >= (max + 2) / 3;
}

void cooldown_begin(struct cooldown *d, const struct space *space,
                    uint32_t epochs, const struct setting *x)
{
    assert(epochs >= 1);
    assert(d->from == 0);
    assert(cooldown_possible(space));
    d->from = epochs;
    d->end = 0;
    d->rate = rate_of(space);
    d->first = d->now = x->value[d->rate];
}

uint32_t cooldown_last(const struct cooldown *d, uint32_t epochs, uint32_t max)
{
    uint32_t length = (uint32_t)ceil(d->share * epochs);

    assert(epochs >= 1);
    if (epochs >= max || length == 0)
        return 0;
    return epochs + (length < max - epochs ? length : max - epochs);
}

bool cooldown_over(const struct cooldown *d, uint32_t epochs, uint32_t since)
{
    uint32_t done = epochs - d->from;

    if (d->end == 0)
        return false;
    assert(epochs >= d->from);
    return epochs >= d->end || (2 * done >= d->end - d->from && since >= done);
}

struct setting cooldown_before(const struct cooldown *d,
                               const struct setting *x)
{
    struct setting before = *x;

    if (d->from)
        before.value[d->rate] = d->first;
    return before;
}

struct setting cooldown_setting(const struct cooldown *d,
                                const struct setting *x, uint32_t epochs,
                                uint32_t max)
{
    struct setting now = *x;
    uint32_t done = epochs - d->from;
    uint32_t end = d->end && d->end < max ? d->end : max;
    uint32_t length = end > epochs ? end - d->from : done + 1;

    assert(epochs >= d->from);
    if (d->from)
        now.value[d->rate] =
            fmin(d->first * (1 - sqrt((done + 0.5) / length)), d->now);
    return now;
}

void cooldown_takes(struct cooldown *d, const struct setting *x)
{
    if (d->from)
        d->now = x->value[d->rate];
}

void cooldown_reset(struct cooldown *d)
{
    d->from = d->end = 0;
    d->due = false;
}
