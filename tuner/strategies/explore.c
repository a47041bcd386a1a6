#include "tuner/strategies/explore.h"

#include <assert.h>
#include <math.h>

/* The listed value beside @value, up or down; at an end the other way. */
static double neighbour(const struct tunable *t, double value, bool up)
{
    uint64_t n = tunable_count(t), i = 0;

    assert(n > 0);
    if (n == 1)
        return value;
    while (i + 1 < n && tunable_at(t, i) != value)
        i++;
    if (up)
        return tunable_at(t, i + 1 < n ? i + 1 : i - 1);
    return tunable_at(t, i > 0 ? i - 1 : i + 1);
}

static double moved(const struct explore *e, const struct tunable *t,
                    double value, bool up)
{
    double to = up ? value * e->factor : value / e->factor;

    if (t->type == TUNABLE_CATEGORICAL || t->values_len > 0)
        return neighbour(t, value, up);
    if (t->type == TUNABLE_INT && round(to) == value)
        to = value + (up ? 1 : -1);
    return to;
}

void explore_setting(const struct explore *e, const struct space *s,
                     const struct setting *x, struct rng *rng,
                     struct setting *out)
{
    size_t axis[TUNABLES_MAX], n = space_axes(s, axis);
    struct setting y = *x;

    assert(e->factor > 1);
    assert(e->resample >= 0 && e->resample <= 1);
    for (size_t i = 0; i < n; i++) {
        const struct tunable *t = space_tunable(s, axis[i]);
        double *value = &y.value[axis[i]];

        /* Three draws whatever comes of them: what one tunable gets does not
         * hang on the others. */
        bool anew = rng_uniform(rng) < e->resample;
        double u = rng_uniform(rng);
        bool up = rng_below(rng, 2) == 1;

        *value = anew ? tunable_from_unit(t, u) : moved(e, t, *value, up);
    }
    space_clamp(s, &y);
    *out = y;
}
