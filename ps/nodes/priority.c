#include "ps/nodes/priority.h"

#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static const char *const names[PRIORITY_COUNT] = {
    [PRIORITY_RANDOM] = "random",
    [PRIORITY_ROUND_ROBIN] = "round_robin",
    [PRIORITY_ABSOLUTE] = "absolute",
    [PRIORITY_RELATIVE] = "relative",
};

const char *priority_name(enum priority p)
{
    assert(p < PRIORITY_COUNT);
    return names[p];
}

enum priority priority_find(const char *name)
{
    unsigned p = 0;

    while (p < PRIORITY_COUNT && strcmp(names[p], name) != 0)
        p++;
    return (enum priority)p;
}

/* ---- how much ------------------------------------------------------------ */

static double square(double x)
{
    return x * x;
}

double priority_norm(enum mlt_type type, uint32_t width, const void *values)
{
    const double *f64 = values;
    const int32_t *i32 = values;
    const float *f32 = values;
    double sum = 0;

    for (uint32_t j = 0; j < width; j++)
        sum += square(type == MLT_F32   ? (double)f32[j]
                      : type == MLT_I32 ? (double)i32[j]
                                        : f64[j]);
    return sqrt(sum);
}

double priority_distance(enum mlt_type type, uint32_t width, const void *a,
                         const void *b)
{
    double sum = 0;

    for (uint32_t j = 0; j < width; j++) {
        if (type == MLT_F32)
            sum += square((double)((const float *)a)[j] -
                          (double)((const float *)b)[j]);
        else if (type == MLT_I32)
            sum += square((double)((const int32_t *)a)[j] -
                          (double)((const int32_t *)b)[j]);
        else
            sum += square(((const double *)a)[j] - ((const double *)b)[j]);
    }
    return sqrt(sum);
}

double priority_key(enum priority p, double change, double size,
                    uint64_t *random)
{
    double key = 0;

    if (p == PRIORITY_RANDOM)
        key = (double)((*random = rng_mix(*random, 1)) >> 11);
    else if (p == PRIORITY_ABSOLUTE)
        key = change;
    else if (p == PRIORITY_RELATIVE)
        key = size > 0 ? change / size : change;
    return isnan(key) ? INFINITY : key;
}

/* ---- the best ------------------------------------------------------------ */

static bool is_before(const struct candidate *a, const struct candidate *b)
{
    return a->key > b->key || (a->key == b->key && a->row < b->row);
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate c = *a;

    *a = *b;
    *b = c;
}

/* Orders them as those before the middle one, it, the others; returns its
 * place.
 */
static size_t part(struct candidate c[], size_t n)
{
    size_t kept = 0;

    swap(&c[n / 2], &c[n - 1]);
    for (size_t i = 0; i + 1 < n; i++)
        if (is_before(&c[i], &c[n - 1]))
            swap(&c[i], &c[kept++]);
    swap(&c[kept], &c[n - 1]);
    return kept;
}

void priority_choose(struct candidate c[], size_t n, size_t want)
{
    assert(want <= n);
    while (want > 0 && want < n) {
        size_t at = part(c, n);

        if (at >= want) {
            n = at;
            continue;
        }
        c += at + 1;
        n -= at + 1;
        want -= at + 1;
    }
}
