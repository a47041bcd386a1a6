#include "tuner/search/pace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PACE_POOL_MAX = 256 }; /* trials that a median is taken over */

/* These change the numbers that a clock computes with, not what it does. Some
 * are words that programs of users have for it. */
static const char *const numbers_only[] = {
    "learning_rate", "momentum",  "weight_decay",    "dropout", "clip",
    "clipping",      "clip_norm", "label_smoothing", "warmup",
};

static bool changes_cost(const struct tunable *t)
{
    for (size_t i = 0; i < sizeof(numbers_only) / sizeof(*numbers_only); i++)
        if (strcmp(t->name, numbers_only[i]) == 0)
            return false;
    return true;
}

static bool costs_the_same(const struct space *s, const struct setting *a,
                           const struct setting *b)
{
    for (size_t i = 0; i < s->len; i++)
        if (changes_cost(&s->tunable[i]) && a->value[i] != b->value[i])
            return false;
    return true;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double pace_pooled(const struct trials *t, const struct trial *x)
{
    double pool[PACE_POOL_MAX];
    size_t n = 0;

    assert(x);
    for (uint32_t i = 0; i < t->n && n < PACE_POOL_MAX; i++) {
        const struct trial *u = &t->list[i];

        if (u->figures.pace > 0 &&
            costs_the_same(&t->space, &u->setting, &x->setting))
            pool[n++] = u->figures.pace;
    }
    if (n == 0)
        return x->figures.pace;
    qsort(pool, n, sizeof(pool[0]), ascending);
    return n % 2 ? pool[n / 2] : (pool[n / 2 - 1] + pool[n / 2]) / 2;
}

double pace_apply(const struct trials *t, struct trial *x)
{
    struct trial_figures *f = &x->figures;
    double pooled = pace_pooled(t, x), longer;

    assert(x);
    if (!(pooled > 0) || !(f->paced > 0))
        return 1;
    longer = pooled / f->paced;
    for (uint32_t i = 0; i < f->points; i++)
        f->time_s[i] *= longer;
    x->resource *= longer;
    f->seconds *= longer;
    f->speed /= longer;
    f->run_s *= longer;
    f->paced = pooled;
    return longer;
}

double pace_of(const struct trial *x)
{
    return x->figures.paced;
}
