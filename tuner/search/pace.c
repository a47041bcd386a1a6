#include "tuner/search/pace.h"

#include <stdlib.h>
#include <string.h>

enum { PACE_POOL_MAX = 256 }; /* trials that a median is taken over */

static bool changes_cost(const struct tunable *t)
{
    return strcmp(t->name, "learning_rate") != 0 &&
           strcmp(t->name, "momentum") != 0;
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

double pace_pooled(const struct search *s, const struct trial *t)
{
    double pool[PACE_POOL_MAX];
    size_t n = 0;

    for (uint32_t i = 0; i < s->trials && n < PACE_POOL_MAX; i++) {
        const struct trial *u = &s->trial[i];

        if (u->pace > 0 && costs_the_same(&s->space, &u->setting, &t->setting))
            pool[n++] = u->pace;
    }
    if (n == 0)
        return t->pace;
    qsort(pool, n, sizeof(pool[0]), ascending);
    return n % 2 ? pool[n / 2] : (pool[n / 2 - 1] + pool[n / 2]) / 2;
}

double pace_apply(const struct search *s, struct trial *t)
{
    double pooled = pace_pooled(s, t), longer;

    if (!(pooled > 0) || !(t->paced > 0))
        return 1;
    longer = pooled / t->paced;
    for (uint32_t i = 0; i < t->summary.points; i++)
        t->summary.time_s[i] *= longer;
    t->summary.seconds *= longer;
    t->summary.speed /= longer;
    t->seconds *= longer;
    t->paced = pooled;
    return longer;
}
