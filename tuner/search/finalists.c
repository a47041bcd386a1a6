#include "tuner/search/finalists.h"

#include <assert.h>
#include <math.h>

#define FINALISTS_APART                                                        \
    0.03 /* of the range of learning rates: closer ones are alike */
#define FINALISTS_BELOW 0.5 /* of the fastest's learning rate */

static double unit_rate(const struct judge *j, const struct trial *t, int rate)
{
    double u[TUNABLES_MAX];
    size_t axis[TUNABLES_MAX];
    size_t n = space_axes(&j->trials->space, axis);

    assert(rate >= 0);
    space_to_unit(&j->trials->space, &t->setting, u);
    for (size_t k = 0; k < n; k++)
        if (axis[k] == (size_t)rate)
            return u[k];
    return 0;
}

/* The learning rate, if this search moves it; else -1. */
static int moving_rate(const struct judge *j)
{
    int rate = space_find(&j->trials->space, "learning_rate");

    if (rate < 0 || j->trials->space.tunable[rate].fixed ||
        !j->trials->space.tunable[rate].acts)
        return -1;
    return rate;
}

/* Whether a trial is about as fast as the fastest, as far as can be told at
 * this horizon. */
static bool is_near(const struct trial *t, const struct trial *best,
                    bool converging)
{
    return judge_eligible(t, converging) &&
           t->figures.speed >= JUDGE_NEAR * best->figures.speed;
}

/* The trial beside the fastest: of those near it whose learning rate is on one
 * side of its (@side +1 above, -1 below) the one nearest to the middle of their
 * range in the unit scale. */
static struct trial *beside(const struct judge *j, struct trial *best, int side)
{
    bool converging = judge_any_converging(j);
    int rate = moving_rate(j);
    double from = unit_rate(j, best, rate), far = 0, gap = INFINITY;
    struct trial *middle = NULL;

    assert(side == 1 || side == -1);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < j->trials->n; i++) {
            struct trial *t = &j->trials->list[i];
            double d = side * (unit_rate(j, t, rate) - from);

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

/* Whether @t's learning rate is so far below @best's that it is another choice,
 * not the same one. */
static bool is_far_below(const struct trial *t, const struct trial *best,
                         int rate)
{
    return t->setting.value[rate] <=
           FINALISTS_BELOW * best->setting.value[rate];
}

/* The trial below the fastest. Near the largest rate that trains at all, speed
 * over a trial grows with the rate so steeply that none but such rates are near
 * the fastest: finalists that are all unstable over an epoch. So where the one
 * beside it is about the same, the fastest of those far below has the place. */
static struct trial *below(const struct judge *j, struct trial *best)
{
    bool converging = judge_any_converging(j);
    int rate = moving_rate(j);
    struct trial *near = beside(j, best, -1), *far = NULL;

    if (near && is_far_below(near, best, rate))
        return near;
    for (uint32_t i = 0; i < j->trials->n; i++) {
        struct trial *t = &j->trials->list[i];

        if (judge_eligible(t, converging) && is_far_below(t, best, rate) &&
            (!far || t->figures.speed > far->figures.speed))
            far = t;
    }
    return far ? far : near;
}

/* Short-horizon bias (Wu et al. 2018): over a trial many learning rates are
 * about equally fast whose long runs differ, and the fastest may err to either
 * side. So beside the fastest, one goes on from each side. */
static size_t add_sides(const struct judge *j, struct trial *out[], size_t n)
{
    assert(n == 1);
    if (moving_rate(j) < 0)
        return n;
    for (int side = 1; side >= -1; side -= 2) {
        struct trial *t = side > 0 ? beside(j, out[0], side) : below(j, out[0]);

        if (t && trials_distinct(j->trials, t, out, n))
            out[n++] = t;
    }
    return n;
}

static size_t finalists_first(const struct judge *j,
                              struct trial *out[FINALISTS_MAX])
{
    struct trial *top[FINALISTS_FIRST * 2];
    size_t n = judge_fastest(j, top, FINALISTS_FIRST * 2), got;

    if (n == 0)
        return 0;
    out[0] = top[0];
    got = add_sides(j, out, 1);
    for (size_t i = 1; i < n && got < FINALISTS_FIRST; i++)
        if (trials_distinct(j->trials, top[i], out, got))
            out[got++] = top[i];
    return got;
}

/* Samples a second. */
static double rate_of(const struct trial *t)
{
    return (double)t->figures.samples / fmax(t->figures.run_s, 1e-12);
}

/* A re-tune's challengers by what they gain on the incumbent in equal time;
 * without an incumbent (it diverged) by speed. */
static double gain(const struct judge *j, const struct trial *t)
{
    struct trial *incumbent = trials_incumbent(j->trials);

    if (!incumbent)
        return t->figures.speed;
    return t->figures.lead * rate_of(t) / rate_of(incumbent);
}

static struct trial *best_challenger(const struct judge *j,
                                     struct trial *const others[], size_t n)
{
    struct trial *best = NULL;

    for (uint32_t i = 0; i < j->trials->n; i++) {
        struct trial *t = &j->trials->list[i];

        if (judge_challenges(j, t) &&
            trials_distinct(j->trials, t, others, n) &&
            (!best || gain(j, t) > gain(j, best)))
            best = t;
    }
    return best;
}

/* Whether it gains at least half as much as the best, and where the best gets
 * below the loss before, goes half as far below: the setting in use may by now
 * be so bad that all others gain alike on it. */
static bool gains_alike(const struct judge *j, const struct trial *t,
                        const struct trial *best)
{
    return judge_challenges(j, t) && gain(j, t) >= 0.5 * gain(j, best) &&
           (best->figures.range >= 0 ||
            t->figures.range <= 0.5 * best->figures.range);
}

size_t finalists_challengers(const struct judge *j, struct trial *out[],
                             size_t max)
{
    size_t n = 0;

    assert(out && max >= 1);
    out[0] = best_challenger(j, out, 0);
    if (!out[0])
        return 0;
    n = 1;
    for (uint32_t i = 0; i < j->trials->n && n < max; i++)
        if (gains_alike(j, &j->trials->list[i], out[0]) &&
            trials_distinct(j->trials, &j->trials->list[i], out, n))
            out[n++] = &j->trials->list[i];
    return n;
}

static double rate_gap(const struct judge *j, const struct trial *t,
                       struct trial *const others[], size_t n, int rate)
{
    double gap = INFINITY;

    assert(n > 0);
    for (size_t i = 0; i < n; i++)
        gap = fmin(gap,
                   fabs(unit_rate(j, t, rate) - unit_rate(j, others[i], rate)));
    return gap;
}

/* The trial that gains alike and whose learning rate is farthest from those
 * chosen. Over a trial, rates a decade apart save about as much noise (it sees
 * that, and not the way that the smallest ones do not go); which of them is
 * best for the next epochs only those show. */
static struct trial *farthest(const struct judge *j, struct trial *const out[],
                              size_t n)
{
    int rate = moving_rate(j);
    struct trial *far = NULL;
    double gap = FINALISTS_APART;

    assert(n > 0);
    for (uint32_t i = 0; i < j->trials->n && rate >= 0; i++) {
        struct trial *t = &j->trials->list[i];

        if (gains_alike(j, t, out[0]) && rate_gap(j, t, out, n, rate) > gap) {
            gap = rate_gap(j, t, out, n, rate);
            far = t;
        }
    }
    return far;
}

/* A re-tune: the best challenger and others of unlike learning rates; where
 * there are few, the incumbent. (It has lost to all of them on the same samples
 * beyond the standard error, and nothing is committed that does not beat the
 * best epoch.) */
static size_t finalists_retune(const struct judge *j,
                               struct trial *out[FINALISTS_MAX])
{
    struct trial *incumbent = trials_incumbent(j->trials), *next;
    size_t n = 1;

    out[0] = best_challenger(j, out, 0);
    if (!out[0])
        return 0;
    while (n < FINALISTS_MAX && (next = farthest(j, out, n)))
        out[n++] = next;
    if (n == 1 && (next = best_challenger(j, out, 1)))
        out[n++] = next;
    if (n < 3 && incumbent && incumbent->branch != BRANCH_NONE)
        out[n++] = incumbent;
    return n;
}

size_t finalists_of(const struct judge *j, bool retune,
                    struct trial *out[FINALISTS_MAX])
{
    assert(out);
    return retune ? finalists_retune(j, out) : finalists_first(j, out);
}

size_t finalists_least_bad(const struct judge *j,
                           struct trial *out[FINALISTS_MAX])
{
    struct trial *best = NULL;

    for (uint32_t i = 0; i < j->trials->n; i++) {
        struct trial *t = &j->trials->list[i];

        enum trial_label label = judge_label(t);

        if ((label == TRIAL_UNSTABLE || label == TRIAL_CONVERGING) &&
            (!best || t->figures.range < best->figures.range))
            best = t;
    }
    out[0] = best;
    return best ? 1 : 0;
}
