#include "tuner/search/judge.h"

#include "tuner/board/plateau.h"
#include "tuner/search/forecast.h"
#include "tuner/search/pace.h"
#include "tuner/search/summary.h"

#include <assert.h>
#include <math.h>

enum {
    JUDGE_PAIRS = 5 /* least number of pairs whose standard error is
                     * believed */
};

/* The searcher hears of a trial again when its pace moved by more than this. */
#define JUDGE_PACE_NEWS 0.01

/* ---- one trial ----------------------------------------------------------- */

static void time_to_samples(struct curve *curve)
{
    double samples = 0;

    for (uint32_t i = 0; i < curve->len; i++) {
        samples += (double)curve->point[i].samples;
        curve->point[i].seconds = samples;
    }
}

/* The noise of a window's mean: its variation for no reason, measured on its
 * neighbours. */
static double window_noise(const struct curve *curve)
{
    struct forecast_point point[TRACE_WINDOWS_MAX];

    for (uint32_t i = 0; i < curve->len; i++)
        point[i] = (struct forecast_point){.value = curve->point[i].loss};
    return forecast_noise(point, curve->len);
}

/* The curve relative to the probe's, by differences or by ratios, whichever
 * leaves less noise: what the choice of samples adds is of the samples' own at
 * first, and shrinks with the loss where a model fits them. */
static void curve_against(const struct judge *j, const struct branch *b,
                          const struct branch *probe, struct curve *curve)
{
    double floor = board_loss_floor(j->trials->c);
    struct curve ratios;

    trace_curve_against(branch_trace(b), branch_trace(probe),
                        j->probe.loss_before, NAN, curve);
    trace_curve_against(branch_trace(b), branch_trace(probe),
                        j->probe.loss_before, floor, &ratios);
    if (window_noise(&ratios) < window_noise(curve))
        *curve = ratios;
}

/* The trial's losses by time, at the pace of its kind; what lies beyond
 * @seconds, a twentieth of it forgiven, is left out (0: nothing is). */
static void curve_of(struct judge *j, struct trial *x, const struct branch *b,
                     double seconds, struct curve *curve)
{
    struct board *c = j->trials->c;
    const struct branch *probe = board_branch(c, j->probe.branch);
    struct trial_figures *f = &x->figures;

    assert(b && curve);
    if (probe)
        curve_against(j, b, probe, curve);
    else
        trace_curve(branch_trace(b), curve);
    if (units_by_samples(c)) {
        time_to_samples(curve);
    } else {
        f->pace = units_time(c, b) / (double)board_units_run(c, b);
        f->paced = pace_pooled(j->trials, x);
        f->run_s = f->paced * (double)board_units_run(c, b);
        for (uint32_t i = 0; i < curve->len; i++)
            curve->point[i].seconds *= f->paced / f->pace;
    }
    while (seconds > 0 && curve->len > 1 &&
           curve->point[curve->len - 1].seconds > 1.05 * seconds)
        curve->len--;
}

enum speed_unit judge_speed_unit(const struct board *c,
                                 const struct trial_figures *f)
{
    assert(f->points > 0);
    return speed_unit_of(summary_is_relative(f->loss[0], board_loss_floor(c)),
                         units_by_samples(c));
}

/* Speed and label, from the curve. */
static void summarise(struct judge *j, struct trial *x, const struct branch *b)
{
    struct trial_figures *f = &x->figures;
    struct curve curve;

    assert(branch_number(b) == x->branch);
    summary_none(f);
    if (branch_is_refused(b) || branch_error(b)) {
        trial_failed(x, branch_failure(b));
    } else if (branch_is_nonfinite(b)) {
        x->label = TRIAL_DIVERGED;
    } else {
        curve_of(j, x, b, j->judged_s, &curve);
        f->window_noise = window_noise(&curve);
        x->label = summary_of(&curve, j->probe.loss_before,
                              board_loss_floor(j->trials->c), f);
        if (f->points > 1)
            f->speed_unit = judge_speed_unit(j->trials->c, f);
    }
}

/* Its lead: by how much its loss is lower than the incumbent's, on the same
 * samples. */
static void compare(struct judge *j, struct trial *x, const struct branch *b)
{
    struct trial *incumbent = trials_incumbent(j->trials);
    const struct branch *other;
    struct trial_figures *f = &x->figures;

    assert(b);
    if (!incumbent || incumbent == x)
        return;
    other = board_branch(j->trials->c, incumbent->branch);
    if (other && !branch_is_nonfinite(other))
        f->pairs = trace_paired(branch_trace(other), branch_trace(b), &f->lead,
                                &f->lead_se);
}

void judge_trial(struct judge *j, struct trial *x, const struct branch *b)
{
    struct board *c = j->trials->c;
    struct trial_figures *f = &x->figures;

    assert(b && branch_number(b) == x->branch);
    f->samples = branch_own_samples(b);
    f->clocks = branch_own_clocks(b);
    f->run_s = units_time(c, b);
    f->paced = 0;
    x->judged = true;
    summarise(j, x, b);
    x->resource = f->seconds;
    if (units_by_samples(c))
        f->seconds = branch_trace(b)->seconds;
}

bool judge_arrived(struct judge *j)
{
    struct trials *t = j->trials;
    bool fresh[TUNER_TRIALS_MAX + 1] = {false}, any = false;

    for (uint32_t i = 0; i < t->n; i++) {
        struct trial *x = &t->list[i];
        const struct branch *b = board_branch(t->c, x->branch);

        if (!b || !x->arrived || x->again ||
            (x->judged && x->figures.samples == branch_own_samples(b)))
            continue;
        judge_trial(j, x, b);
        compare(j, x, b);
        fresh[i] = any = true;
    }
    if (!any)
        return false;
    /* The latest measurements have moved the pooled paces of all. */
    for (uint32_t i = 0; i < t->n; i++) {
        struct trial *x = &t->list[i];
        double longer = units_by_samples(t->c) ? 1 : pace_apply(t, x);

        x->news |= fresh[i] || fabs(longer - 1) > JUDGE_PACE_NEWS;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        struct trial *x = &t->list[i];
        enum trial_label label = x->label;

        if (!fresh[i])
            continue;
        if (label == TRIAL_DIVERGED || label == TRIAL_FAILED)
            trial_free(t->c, x, trial_label_name(label));
        else
            trial_record(t->c, x, RECORD_TRIAL_UPDATED);
    }
    return true;
}

void judge_again(struct judge *j, double seconds)
{
    assert(seconds > 0);
    j->judged_s = seconds;
    for (uint32_t i = 0; i < j->trials->n; i++)
        j->trials->list[i].judged = false;
}

bool judge_converging_within(struct judge *j, double seconds)
{
    struct trials *t = j->trials;

    assert(seconds > 0);
    for (uint32_t i = 0; i < t->n; i++) {
        struct trial *x = &t->list[i];
        const struct branch *b = board_branch(t->c, x->branch);
        struct trial_figures then;
        struct curve curve;

        if (!b || x->label != TRIAL_CONVERGING)
            continue;
        curve_of(j, x, b, seconds, &curve);
        if (summary_of(&curve, j->probe.loss_before, board_loss_floor(t->c),
                       &then) == TRIAL_CONVERGING)
            return true;
    }
    return false;
}

/* ---- their order --------------------------------------------------------- */

enum trial_label judge_label(const struct trial *x)
{
    return x->fell ? TRIAL_DIVERGED : x->label;
}

bool judge_any_converging(const struct judge *j)
{
    for (uint32_t i = 0; i < j->trials->n; i++)
        if (judge_label(&j->trials->list[i]) == TRIAL_CONVERGING)
            return true;
    return false;
}

/* (MLtuner's code ignored the label once the trial time was decided, so that an
 * unstable setting could win.) */
bool judge_eligible(const struct trial *x, bool any_converging)
{
    if (judge_label(x) == TRIAL_CONVERGING)
        return true;
    return !any_converging && judge_label(x) == TRIAL_UNSTABLE &&
           x->figures.speed > 0;
}

/* Where its own trace rises now and then, clearly so. */
bool judge_ahead(const struct judge *j, const struct trial *x)
{
    const struct trial_figures *f = &x->figures;
    double share =
        fmin((double)f->samples / (double)board_samples(j->trials->c), 1);

    /* Less than what counts as an improvement is not worth a change. */
    if (f->lead < PLATEAU_IMPROVEMENT * share * fabs(j->probe.loss_before))
        return false;
    if (judge_label(x) == TRIAL_CONVERGING)
        return f->lead > f->lead_se;
    /* Where none is clear in the longest trial, those that seem ahead go on to
     * the finals: the validation metric sees what the noise of training hides.
     */
    return judge_label(x) == TRIAL_UNSTABLE && f->pairs >= JUDGE_PAIRS &&
           f->lead > (j->lenient ? 1 : 3) * f->lead_se;
}

bool judge_challenges(const struct judge *j, const struct trial *x)
{
    if (x->incumbent)
        return false;
    return trials_incumbent(j->trials)
               ? judge_ahead(j, x)
               : judge_eligible(x, judge_any_converging(j));
}

bool judge_any_clear(const struct judge *j)
{
    for (uint32_t i = 0; i < j->trials->n; i++) {
        const struct trial *x = &j->trials->list[i];

        if (judge_label(x) == TRIAL_CONVERGING ||
            (!x->incumbent && judge_ahead(j, x)))
            return true;
    }
    return false;
}

size_t judge_fastest(const struct judge *j, struct trial *out[], size_t max)
{
    bool converging = judge_any_converging(j);
    struct trials *t = j->trials;
    size_t n = 0;

    assert(out || max == 0);
    while (n < max) {
        struct trial *best = NULL;

        for (uint32_t i = 0; i < t->n; i++) {
            struct trial *x = &t->list[i];

            if (judge_eligible(x, converging) &&
                trials_distinct(t, x, out, n) &&
                (!best || x->figures.speed > best->figures.speed))
                best = x;
        }
        if (!best)
            break;
        out[n++] = best;
    }
    return n;
}

struct trial *judge_slowest_live(const struct judge *j, const struct trial *but)
{
    struct trials *t = j->trials;
    struct trial *worst = NULL;

    for (uint32_t i = 0; i < t->n; i++) {
        struct trial *x = &t->list[i];
        const struct branch *b = board_branch(t->c, x->branch);

        if (!b || x == but || x->incumbent || !x->judged ||
            branch_slices_out(b))
            continue;
        if (!worst || x->figures.speed < worst->figures.speed)
            worst = x;
    }
    return worst;
}

/* ---- what the searcher hears --------------------------------------------- */

void judge_results(const struct judge *j)
{
    for (uint32_t i = 0; i < j->trials->n; i++) {
        struct trial *x = &j->trials->list[i];
        enum trial_label label = x->label;

        x->outcome = label == TRIAL_DIVERGED  ? OUTCOME_DIVERGED
                     : label == TRIAL_FAILED  ? OUTCOME_FAILED
                     : label == TRIAL_STOPPED ? OUTCOME_STOPPED
                                              : OUTCOME_SPEED;
        x->speed = x->outcome == OUTCOME_SPEED || x->outcome == OUTCOME_STOPPED
                       ? x->figures.speed
                       : 0;
    }
}
