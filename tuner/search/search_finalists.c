#include "tuner/search/search_finalists.h"

#include "tuner/search/search_judge.h"

#include <math.h>

#define SEARCH_APART                                                           \
    0.03 /* of the range of learning rates: closer ones are alike */

static double unit_rate(const struct search *s, const struct trial *t, int rate)
{
    double u[TUNABLES_MAX];
    size_t axis[TUNABLES_MAX];
    size_t n = space_axes(&s->space, axis);

    space_to_unit(&s->space, &t->setting, u);
    for (size_t k = 0; k < n; k++)
        if (axis[k] == (size_t)rate)
            return u[k];
    return 0;
}

/* The learning rate, if this search moves it; else -1. */
static int moving_rate(const struct search *s)
{
    int rate = space_find(&s->space, "learning_rate");

    if (rate < 0 || s->space.tunable[rate].fixed ||
        !s->space.tunable[rate].acts)
        return -1;
    return rate;
}

/* Whether a trial is about as fast as the fastest, as far as can be told at
 * this horizon. */
static bool is_near(const struct trial *t, const struct trial *best,
                    bool converging)
{
    return search_eligible(t, converging) &&
           t->summary.speed >= SEARCH_NEAR * best->summary.speed;
}

/* Of the trials near the fastest whose learning rate is on one side of its
 * (@side +1 above, -1 below): the one nearest to the middle of their range in
 * the unit scale. */
static struct trial *beside(struct search *s, struct trial *best, int side)
{
    bool converging = search_any_converging(s);
    int rate = moving_rate(s);
    double from = unit_rate(s, best, rate), far = 0, gap = INFINITY;
    struct trial *middle = NULL;

    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < s->trials; i++) {
            struct trial *t = &s->trial[i];
            double d = side * (unit_rate(s, t, rate) - from);

            if (d <= 0 || !is_near(t, best, converging))
                continue;
            if (pass == 0) {
                far = fmax(far, d);
            } else if (fabs(d - far / 2) < gap) {
                gap = fabs(d - far / 2);
                middle = t;
            }
        }
    return middle;
}

/* Short-horizon bias (Wu et al. 2018): over a trial many learning rates are
 * about equally fast whose long runs differ, and the fastest may err to either
 * side. So beside the fastest, one of those near it goes on from each side. */
static size_t add_sides(struct search *s, struct trial *out[], size_t n)
{
    for (int side = 1; side >= -1 && moving_rate(s) >= 0; side -= 2) {
        struct trial *t = beside(s, out[0], side);

        if (t && search_is_distinct(s, t, out, n))
            out[n++] = t;
    }
    return n;
}

static size_t finalists_first(struct search *s,
                              struct trial *out[SEARCH_FINALISTS_MAX])
{
    struct trial *top[SEARCH_FINALISTS_FIRST * 2];
    size_t n = search_fastest(s, top, SEARCH_FINALISTS_FIRST * 2), got;

    if (n == 0)
        return 0;
    out[0] = top[0];
    got = add_sides(s, out, 1);
    for (size_t i = 1; i < n && got < SEARCH_FINALISTS_FIRST; i++)
        if (search_is_distinct(s, top[i], out, got))
            out[got++] = top[i];
    return got;
}

/* A re-tune's challengers by what they gain on the incumbent in equal time;
 * without an incumbent (it diverged) by speed. */
static double gain(struct search *s, const struct trial *t)
{
    struct trial *incumbent = search_incumbent(s);

    if (!incumbent)
        return t->summary.speed;
    return t->lead * search_rate_of(t) / search_rate_of(incumbent);
}

/* Whether a trial may replace the incumbent; after a divergence there is
 * none. */
bool search_challenges(struct search *s, const struct trial *t)
{
    if (t->incumbent)
        return false;
    return search_incumbent(s) ? search_ahead(s, t)
                               : search_eligible(t, search_any_converging(s));
}

static struct trial *best_challenger(struct search *s,
                                     struct trial *const others[], size_t n)
{
    struct trial *best = NULL;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        if (search_challenges(s, t) && search_is_distinct(s, t, others, n) &&
            (!best || gain(s, t) > gain(s, best)))
            best = t;
    }
    return best;
}

/* Whether it gains at least half as much as the best, and where the best gets
 * below the loss before, goes half as far below: the setting in use may by now
 * be so bad that all others gain alike on it. */
static bool gains_alike(struct search *s, const struct trial *t,
                        const struct trial *best)
{
    return search_challenges(s, t) && gain(s, t) >= 0.5 * gain(s, best) &&
           (best->summary.range >= 0 ||
            t->summary.range <= 0.5 * best->summary.range);
}

size_t search_challengers(struct search *s, struct trial *out[], size_t max)
{
    size_t n = 0;

    out[0] = best_challenger(s, out, 0);
    if (!out[0])
        return 0;
    n = 1;
    for (uint32_t i = 0; i < s->trials && n < max; i++)
        if (gains_alike(s, &s->trial[i], out[0]) &&
            search_is_distinct(s, &s->trial[i], out, n))
            out[n++] = &s->trial[i];
    return n;
}

static double rate_gap(const struct search *s, const struct trial *t,
                       struct trial *const others[], size_t n, int rate)
{
    double gap = INFINITY;

    for (size_t i = 0; i < n; i++)
        gap = fmin(gap,
                   fabs(unit_rate(s, t, rate) - unit_rate(s, others[i], rate)));
    return gap;
}

/* Of those that gain alike the one whose learning rate is farthest from those
 * chosen. Over a trial, rates a decade apart save about as much noise (it sees
 * that, and not the way that the smallest ones do not go); which of them is
 * best for the next epochs only those show. */
static struct trial *farthest(struct search *s, struct trial *const out[],
                              size_t n)
{
    int rate = moving_rate(s);
    struct trial *far = NULL;
    double gap = SEARCH_APART;

    for (uint32_t i = 0; i < s->trials && rate >= 0; i++) {
        struct trial *t = &s->trial[i];

        if (gains_alike(s, t, out[0]) && rate_gap(s, t, out, n, rate) > gap) {
            gap = rate_gap(s, t, out, n, rate);
            far = t;
        }
    }
    return far;
}

/* A re-tune: the best challenger and others of unlike learning rates; where
 * there are few, the incumbent. (It has lost to all of them on the same samples
 * beyond the standard error, and nothing is committed that does not beat the
 * best epoch.) */
static size_t finalists_retune(struct search *s,
                               struct trial *out[SEARCH_FINALISTS_MAX])
{
    struct trial *incumbent = search_incumbent(s), *next;
    size_t n = 1;

    out[0] = best_challenger(s, out, 0);
    if (!out[0])
        return 0;
    while (n < SEARCH_FINALISTS_MAX && (next = farthest(s, out, n)))
        out[n++] = next;
    if (n == 1 && (next = best_challenger(s, out, 1)))
        out[n++] = next;
    if (n < 3 && incumbent && incumbent->run.branch != BRANCH_NONE)
        out[n++] = incumbent;
    return n;
}

size_t search_finalists(struct search *s,
                        struct trial *out[SEARCH_FINALISTS_MAX])
{
    return s->plan.retune ? finalists_retune(s, out) : finalists_first(s, out);
}

size_t search_least_bad(struct search *s,
                        struct trial *out[SEARCH_FINALISTS_MAX])
{
    struct trial *best = NULL;

    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];

        if ((t->summary.label == TRIAL_UNSTABLE ||
             t->summary.label == TRIAL_CONVERGING) &&
            (!best || t->summary.range < best->summary.range))
            best = t;
    }
    out[0] = best;
    return best ? 1 : 0;
}
