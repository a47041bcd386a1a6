#include "cli/check/series.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void series_deinit(struct check_series *s)
{
    mem_free(s->sum);
    mem_free(s->samples);
    memset(s, 0, sizeof(*s));
}

enum err series_add(struct check_series *s, const struct progress_window *w)
{
    if (mem_grow((void **)&s->sum, &s->room, sizeof(*s->sum), s->len + 1) ||
        mem_grow((void **)&s->samples, &s->samples_room, sizeof(*s->samples),
                 s->len + 1))
        return ERR_NOMEM;
    s->sum[s->len] = w->sum;
    s->samples[s->len++] = w->samples;
    return ERR_OK;
}

static bool same_sum(double a, double b)
{
    return (a == b && signbit(a) == signbit(b)) || (isnan(a) && isnan(b));
}

/* The first window in which they differ; SIZE_MAX: none. */
static size_t first_difference(const struct check_series *a,
                               const struct check_series *b)
{
    for (size_t i = 0; i < a->len && i < b->len; i++)
        if (!same_sum(a->sum[i], b->sum[i]) || a->samples[i] != b->samples[i])
            return i;
    return a->len == b->len ? SIZE_MAX : a->len < b->len ? a->len : b->len;
}

bool series_same(const struct check_series *a, const struct check_series *b,
                 struct mismatch *out)
{
    size_t i = first_difference(a, b);

    if (i == SIZE_MAX)
        return true;
    if (i >= a->len || i >= b->len) {
        out->expected = "two series of equal length";
        snprintf(out->came, sizeof(out->came), "%zu windows, and %zu", a->len,
                 b->len);
        return false;
    }
    out->expected = "the same sums and samples to the last bit, clock by clock";
    snprintf(out->came, sizeof(out->came),
             "clock %zu of %zu: sum %.17g over %llu samples, and %.17g over "
             "%llu",
             i + 1, a->len, a->sum[i], (unsigned long long)a->samples[i],
             b->sum[i], (unsigned long long)b->samples[i]);
    return false;
}

bool series_part(const struct check_series *a, const struct check_series *b,
                 struct mismatch *out)
{
    size_t i = first_difference(a, b);

    assert(a->len > 0);
    assert(b->len > 0);
    if (i == 0) {
        out->expected = "the same first sum, of a probe and a training branch";
        snprintf(out->came, sizeof(out->came), "sum %.17g, and %.17g",
                 a->sum[0], b->sum[0]);
    } else if (i == SIZE_MAX) {
        out->expected = "sums of a probe that differ from a training branch's "
                        "from the second clock on";
        snprintf(out->came, sizeof(out->came),
                 "%zu equal clocks: the probe learns, or training does not",
                 a->len);
    }
    return i != 0 && i != SIZE_MAX;
}

static bool near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (fabs(a) + fabs(b)) + 1e-12;
}

bool series_halve(const struct check_series *a, const struct check_series *b,
                  struct mismatch *out)
{
    for (size_t i = 0; i < b->len && 2 * i + 1 < a->len; i++) {
        double two = a->sum[2 * i] + a->sum[2 * i + 1];

        if (near(two, b->sum[i], 1e-4))
            continue;
        out->expected =
            "two clocks of a probe add up to one with twice the batch size";
        snprintf(out->came, sizeof(out->came),
                 "clocks %zu and %zu: %.9g; clock %zu of the other: %.9g",
                 2 * i + 1, 2 * i + 2, two, i + 1, b->sum[i]);
        return false;
    }
    return true;
}

static double total(const struct check_series *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->len; i++)
        sum += s->sum[i];
    return sum;
}

static bool all_above_zero(const struct check_series *s)
{
    for (size_t i = 0; i < s->len; i++)
        if (!(s->sum[i] > 0))
            return false;
    return true;
}

bool series_alike(const struct check_series *a, const struct check_series *b,
                  struct mismatch *out)
{
    /* |a - b| <= 0.2 (a + b) is a factor of 1.5. */
    if (!all_above_zero(a) || !all_above_zero(b) ||
        near(total(a), total(b), 0.2))
        return true;
    out->expected = "sums over an epoch's samples, whatever the batch size";
    snprintf(out->came, sizeof(out->came),
             "%.9g in %zu clocks, and %.9g in %zu: a mean, perhaps", total(a),
             a->len, total(b), b->len);
    return false;
}

bool series_steady(const struct check_series *a, const struct check_series *b)
{
    return near(total(a), total(b), 1e-6);
}
