#include "tuner/board/trace.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void trace_init(struct trace *t)
{
    /* The windows themselves are not touched: len says which are valid. */
    memset(t, 0, offsetof(struct trace, window));
    t->merge = 1;
}

static void window_join(struct trace_window *to, const struct trace_window *w)
{
    to->sum += w->sum;
    to->seconds += w->seconds;
    to->samples += w->samples;
    to->reported += w->reported;
    to->epoch = w->epoch;
}

/* Joins neighbours while they stay within @merge reported windows and, if
 * @within, within an epoch. */
static void compact(struct trace *t, bool within)
{
    uint32_t n = 0;

    for (uint32_t i = 1; i < t->len; i++) {
        struct trace_window *last = &t->window[n];
        const struct trace_window *w = &t->window[i];

        if (last->reported + w->reported <= t->merge &&
            (!within || last->epoch == w->epoch))
            window_join(last, w);
        else
            t->window[++n] = *w;
    }
    t->len = n + 1;
}

static uint32_t epochs_in(const struct trace *t)
{
    uint32_t n = 1;

    for (uint32_t i = 1; i < t->len; i++)
        n += t->window[i].epoch != t->window[i - 1].epoch;
    return n;
}

static void make_room(struct trace *t)
{
    /* Many short epochs: only then are windows of several epochs joined. */
    bool within = epochs_in(t) <= TRACE_WINDOWS_MAX / 2;

    compact(t, within);
    while (t->len > TRACE_WINDOWS_MAX * 3 / 4) {
        t->merge *= 2;
        compact(t, within);
    }
}

void trace_add(struct trace *t, double sum, uint64_t samples, double seconds,
               uint32_t epoch)
{
    struct trace_window w = {sum, seconds, samples, 1, epoch};
    struct trace_window *last = t->len ? &t->window[t->len - 1] : NULL;

    t->seconds += seconds;
    t->samples += samples;
    if (!isfinite(sum)) {
        t->nonfinite = true;
        return;
    }
    t->reported++;
    if (last && samples == 0) {
        last->seconds += seconds;
        return;
    }
    if (last && last->epoch == epoch && last->reported < t->merge) {
        window_join(last, &w);
        return;
    }
    if (t->len == TRACE_WINDOWS_MAX)
        make_room(t);
    assert(t->len < TRACE_WINDOWS_MAX);
    t->window[t->len++] = w;
}

static bool may_follow(const struct trace *t, const struct trace_window *w)
{
    return isfinite(w->sum) && isfinite(w->seconds) && w->seconds >= 0 &&
           w->reported >= 1 && w->reported <= t->merge &&
           w->samples <= UINT64_MAX / 2 - t->samples &&
           (t->len == 0 || w->epoch >= t->window[t->len - 1].epoch);
}

bool trace_restore(struct trace *t, uint32_t merge,
                   const struct trace_window window[], uint32_t n)
{
    trace_init(t);
    if (n > TRACE_WINDOWS_MAX || merge < 1 || merge > TRACE_MERGE_MAX ||
        (merge & (merge - 1)))
        return false;
    t->merge = merge;
    for (uint32_t i = 0; i < n; i++) {
        if (!may_follow(t, &window[i]))
            return false;
        t->window[t->len++] = window[i];
        t->seconds += window[i].seconds;
        t->samples += window[i].samples;
        t->reported += window[i].reported;
    }
    return true;
}

void trace_copy(struct trace *to, const struct trace *from)
{
    memcpy(to, from,
           offsetof(struct trace, window) +
               from->len * sizeof(from->window[0]));
}

void trace_curve(const struct trace *t, struct curve *out)
{
    double seconds = 0;

    out->len = 0;
    for (uint32_t i = 0; i < t->len; i++) {
        const struct trace_window *w = &t->window[i];

        seconds += w->seconds;
        if (w->samples == 0)
            continue;
        out->point[out->len++] = (struct curve_point){
            seconds, w->samples, w->sum / (double)w->samples};
    }
}

/* Walks two traces from one common window end to the next. */
struct stretch {
    const struct trace *a, *b;
    uint32_t i, j;
    uint64_t samples; /* of the stretch */
    double mean_a, mean_b, seconds_a;
};

static bool stretch_next(struct stretch *s)
{
    uint64_t na = 0, nb = 0;
    double sum_a = 0, sum_b = 0;

    s->seconds_a = 0;
    do {
        if (na <= nb) {
            const struct trace_window *w = &s->a->window[s->i];

            if (s->i == s->a->len)
                return false;
            na += w->samples;
            sum_a += w->sum;
            s->seconds_a += w->seconds;
            s->i++;
        } else {
            const struct trace_window *w = &s->b->window[s->j];

            if (s->j == s->b->len)
                return false;
            nb += w->samples;
            sum_b += w->sum;
            s->j++;
        }
    } while (na != nb || na == 0);
    s->samples = na;
    s->mean_a = sum_a / (double)na;
    s->mean_b = sum_b / (double)nb;
    return true;
}

static double against(const struct stretch *s, double level, double floor)
{
    if (!isfinite(floor) || !(level > floor) || !(s->mean_b > floor))
        return s->mean_a - s->mean_b + level;
    return floor + (s->mean_a - floor) / (s->mean_b - floor) * (level - floor);
}

void trace_curve_against(const struct trace *t, const struct trace *base,
                         double level, double floor, struct curve *out)
{
    struct stretch s = {.a = t, .b = base};
    double seconds = 0;

    out->len = 0;
    while (stretch_next(&s)) {
        seconds += s.seconds_a;
        out->point[out->len++] =
            (struct curve_point){seconds, s.samples, against(&s, level, floor)};
    }
}

uint32_t trace_paired(const struct trace *a, const struct trace *b,
                      double *mean, double *se)
{
    double d[TRACE_WINDOWS_MAX], sum = 0, squares = 0;
    struct stretch s = {.a = a, .b = b};
    uint32_t n = 0, from;

    while (stretch_next(&s))
        d[n++] = s.mean_a - s.mean_b;
    from = n / 2;
    for (uint32_t i = from; i < n; i++)
        sum += d[i];
    *mean = n > from ? sum / (n - from) : 0;
    for (uint32_t i = from; i < n; i++)
        squares += (d[i] - *mean) * (d[i] - *mean);
    n -= from;
    *se = n < 2 ? INFINITY : sqrt(squares / (n - 1) / n);
    return n;
}
