#include "tuner/search/finals_judge.h"

#include "tuner/search/metric_noise.h"

#include <assert.h>
#include <math.h>

double finals_score(const struct finals *f, const struct training_epoch *e)
{
    return board_score(f->c, e->e.loss, e->metric);
}

static double loss_of(const struct finals *f, const struct training_epoch *e)
{
    (void)f;
    return e->e.loss;
}

/* A result of @x by time: that of its look, if it had one, then of its epochs.
 */
static double point(const struct finals *f, const struct finalist *x,
                    uint32_t i, double *time,
                    double (*value)(const struct finals *,
                                    const struct training_epoch *))
{
    if (x->looked && i == 0) {
        *time = x->look_time;
        return value(f, &x->look);
    }
    i -= x->looked;
    *time = x->time[i];
    return value(f, &x->epoch[i]);
}

/* Value at a time, between results on the line that joins them. A finalist that
 * ended before (a bound on epochs) has its last one. */
static double
value_at(const struct finals *f, const struct finalist *x, double time,
         double (*value)(const struct finals *, const struct training_epoch *))
{
    uint32_t n = x->epochs + x->looked;
    double a, b, from, to;

    assert(value);
    if (n == 0)
        return NAN;
    b = point(f, x, 0, &to, value);
    for (uint32_t i = 1; i < n && to < time; i++) {
        from = to;
        a = b;
        b = point(f, x, i, &to, value);
        if (to >= time)
            return a + (time - from) / (to - from) * (b - a);
    }
    return b;
}

/* Less is better. */
double finals_score_at(const struct finals *f, const struct finalist *x,
                       double time)
{
    return value_at(f, x, time, finals_score);
}

/* Mean training loss of an epoch that ends at @time. */
static double loss_at(const struct finals *f, const struct finalist *x,
                      double time)
{
    return value_at(f, x, time, loss_of);
}

static double metric_at(const struct finals *f, const struct finalist *x,
                        double time)
{
    return board_result(f->c, finals_score_at(f, x, time));
}

/* Whether the choice of validation samples alone may be what tells the two
 * apart. */
static bool in_doubt(const struct finals *f, const struct finalist *x,
                     const struct finalist *y, double time)
{
    return metric_noise_between(board_system(f->c), metric_at(f, x, time),
                                metric_at(f, y, time));
}

/* Where the score is going: each epoch brings about half of what the one before
 * brought, so as much again is to come as the last one brought. Of an error
 * that falls this is taken in proportion: an epoch from 10 to 2 does not lead
 * to -6. (The fraction
 * measured over three epochs instead chose slow settings with much left to
 * gain.) A rise is not carried on: so early it is the noise of a large rate,
 * which later falls. The training loss falls fastest where it began highest (a
 * rate that is too large starts with a jump), so there the value itself counts;
 * and where the metric has a sampling error, twice the value would be five
 * times its variance. */
static double outlook(const struct finals *f, const struct finalist *x,
                      double time)
{
    double now = finals_score_at(f, x, time);
    double before = finals_score_at(f, x, time - f->step);

    if (!board_validates(f->c) || isnan(before) ||
        metric_noise_of(board_system(f->c), metric_at(f, x, time)) > 0)
        return now;
    if (now > 0 && now < before)
        return now * now / before;
    return now >= before ? now : 2 * now - before;
}

/* NaN is worse than any number. */
static bool less(double a, double b)
{
    return !isnan(a) && (isnan(b) || a < b);
}

/* The finalist with the least training loss, which is far less noisy, of those
 * that the metric does not tell from the one that it puts first; @but (may be
 * NULL) is left out. */
struct finalist *finals_best(struct finals *f, double time,
                             const struct finalist *but)
{
    struct finalist *first = NULL, *best;

    assert(f->n > 0);
    for (size_t i = 0; i < f->n; i++) {
        struct finalist *x = &f->f[i];

        if (!x->out && x != but &&
            (!first || less(outlook(f, x, time), outlook(f, first, time))))
            first = x;
    }
    best = first;
    for (size_t i = 0; i < f->n; i++) {
        struct finalist *x = &f->f[i];

        if (!x->out && x != but && in_doubt(f, x, first, time) &&
            less(loss_at(f, x, time), loss_at(f, best, time)))
            best = x;
    }
    return best;
}

bool finals_has_outlook(const struct finals *f, const struct finalist *x)
{
    assert(x->epochs > 0);
    return board_validates(f->c) &&
           metric_noise_of(board_system(f->c),
                           x->epoch[x->epochs - 1].metric) == 0;
}

struct finalist *finals_best_fallen(struct finals *f)
{
    struct finalist *best = NULL;

    assert(f->n > 0);
    for (size_t i = 0; i < f->n; i++) {
        struct finalist *x = &f->f[i];

        if (x->out)
            continue;
        if (!x->fallen.seen)
            return NULL;
        if (!best || less(finals_score(f, &x->fallen.epoch),
                          finals_score(f, &best->fallen.epoch)))
            best = x;
    }
    return best && !isnan(finals_score(f, &best->fallen.epoch)) ? best : NULL;
}

/* Whether neither the metric nor the training loss tells the two apart: then it
 * does not matter which of them is trained with. */
bool finals_alike(const struct finals *f, const struct finalist *x,
                  const struct finalist *y, double time)
{
    double a = loss_at(f, x, time), b = loss_at(f, y, time);

    assert(x && y);
    return in_doubt(f, x, y, time) && fmax(a, b) <= FINALS_ALIKE * fmin(a, b);
}
