#include "tuner/search/search_judge.h"

#include "tuner/board/plateau.h"
#include "tuner/search/forecast.h"
#include "tuner/search/pace.h"
#include "tuner/search/search_run.h"

#include <math.h>

enum {
    SEARCH_PAIRS = 5 /* least number of pairs whose standard error is
                      * believed */
};

static void time_to_samples(struct curve *curve)
{
    double samples = 0;

    for (uint32_t i = 0; i < curve->len; i++) {
        samples += (double)curve->point[i].samples;
        curve->point[i].seconds = samples;
    }
}

struct trial *search_incumbent(struct search *s)
{
    return s->trials && s->trial[0].incumbent ? &s->trial[0] : NULL;
}

/* The trial's losses by time, at the pace of its kind. */
void search_curve(struct search *s, struct trial *t, const struct branch *b,
                  struct curve *curve)
{
    const struct branch *probe = board_branch(s->c, s->probe.branch);

    if (probe)
        trace_curve_against(&b->trace, &probe->trace, s->loss_before, curve);
    else
        trace_curve(&b->trace, curve);
    if (search_by_samples(s)) {
        time_to_samples(curve);
        return;
    }
    t->pace = search_time_of(s, b) / (double)search_units_run(s, b);
    t->paced = pace_pooled(s, t);
    t->seconds = t->paced * (double)search_units_run(s, b);
    for (uint32_t i = 0; i < curve->len; i++)
        curve->point[i].seconds *= t->paced / t->pace;
}

/* Drops what lies beyond @seconds, a twentieth of it forgiven. */
void search_curve_cut(struct curve *curve, double seconds)
{
    while (curve->len > 1 &&
           curve->point[curve->len - 1].seconds > 1.05 * seconds)
        curve->len--;
}

/* How much a window's mean varies for no reason, measured on its neighbours. */
static double window_noise(const struct curve *curve)
{
    struct forecast_point point[TRACE_WINDOWS_MAX];

    for (uint32_t i = 0; i < curve->len; i++)
        point[i] = (struct forecast_point){.value = curve->point[i].loss};
    return forecast_noise(point, curve->len);
}

void search_judge(struct search *s, struct trial *t, const struct branch *b)
{
    static const struct summary zero;
    struct curve curve;

    t->samples = b->own_samples;
    t->clocks = b->own_clocks;
    t->seconds = search_time_of(s, b);
    t->own_s = b->trace.seconds;
    t->judged = true;
    t->summary = zero;
    t->paced = 0;
    if (b->state == BRANCH_REFUSED || b->error) {
        t->summary.label = TRIAL_FAILED;
        return;
    }
    if (b->nonfinite) {
        summary_diverged(&t->summary);
        return;
    }
    search_curve(s, t, b, &curve);
    if (s->judged_s > 0)
        search_curve_cut(&curve, s->judged_s);
    t->window_noise = window_noise(&curve);
    summary_of(&curve, s->loss_before, board_system(s->c)->loss_floor,
               &t->summary);
}

/* How much lower than the incumbent's its loss is, on the same samples. */
void search_compare(struct search *s, struct trial *t, const struct branch *b)
{
    struct trial *incumbent = search_incumbent(s);
    const struct branch *other;

    if (!incumbent || incumbent == t)
        return;
    other = board_branch(s->c, incumbent->run.branch);
    if (!other || other->nonfinite)
        return;
    t->pairs = trace_paired(&other->trace, &b->trace, &t->lead, &t->lead_se);
}

bool search_is_distinct(const struct search *s, const struct trial *t,
                        struct trial *const others[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (space_same(&s->space, &t->setting, &others[i]->setting))
            return false;
    return true;
}

/* A trial that may win: converging; or, where none is, one that got anywhere.
 * (MLtuner's code ignored the label once the trial time was decided, so that an
 * unstable setting could win.) */
bool search_eligible(const struct trial *t, bool any_converging)
{
    if (t->summary.label == TRIAL_CONVERGING)
        return true;
    return !any_converging && t->summary.label == TRIAL_UNSTABLE &&
           t->summary.speed > 0;
}

bool search_any_converging(const struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        if (s->trial[i].summary.label == TRIAL_CONVERGING)
            return true;
    return false;
}

/* Samples a second. */
double search_rate_of(const struct trial *t)
{
    return (double)t->samples / fmax(t->seconds, 1e-12);
}

/* Ahead of the incumbent on the same samples, beyond the standard error of the
 * difference; where its own trace rises now and then, clearly so. */
bool search_ahead(const struct search *s, const struct trial *t)
{
    double share =
        fmin((double)t->samples / (double)board_system(s->c)->samples, 1);

    /* Less than what counts as an improvement is not worth a change. */
    if (t->lead < PLATEAU_IMPROVEMENT * share * fabs(s->loss_before))
        return false;
    if (t->summary.label == TRIAL_CONVERGING)
        return t->lead > t->lead_se;
    /* Where none is clear in the longest trial, those that seem ahead go on to
     * the finals: the validation metric sees what the noise of training hides.
     */
    return t->summary.label == TRIAL_UNSTABLE && t->pairs >= SEARCH_PAIRS &&
           t->lead > (s->gave_up ? 1 : 3) * t->lead_se;
}

/* Whether this trial settles how long trials have to be. */
static bool is_clear(const struct search *s, const struct trial *t)
{
    return t->summary.label == TRIAL_CONVERGING ||
           (!t->incumbent && search_ahead(s, t));
}

bool search_any_clear(const struct search *s)
{
    for (uint32_t i = 0; i < s->trials; i++)
        if (is_clear(s, &s->trial[i]))
            return true;
    return false;
}

/* The fastest distinct eligible trials, best first. */
size_t search_fastest(struct search *s, struct trial *out[], size_t max)
{
    bool converging = search_any_converging(s);
    size_t n = 0;

    while (n < max) {
        struct trial *best = NULL;

        for (uint32_t i = 0; i < s->trials; i++) {
            struct trial *t = &s->trial[i];

            if (search_eligible(t, converging) &&
                search_is_distinct(s, t, out, n) &&
                (!best || t->summary.speed > best->summary.speed))
                best = t;
        }
        if (!best)
            break;
        out[n++] = best;
    }
    return n;
}
