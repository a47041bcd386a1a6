#include "tuner/search/hopeless.h"

#include "tuner/board/plateau.h"
#include "tuner/search/finalists.h"
#include "tuner/search/forecast.h"
#include "tuner/search/pace.h"
#include "tuner/search/summary.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* Probability, over a whole search, that noise stops a trial that would have
 * been worth a place in the finals. */
#define HOPELESS_ERROR 0.05
#define HOPELESS_SHARE (1.0 / 3) /* of a trial: never before */
#define HOPELESS_STEP (1.0 / 24) /* of a trial: between looks */
#define HOPELESS_PIECE_S 0.015   /* shortest slice worth its messages */

enum { HOPELESS_PIECES = 6 /* of a trial: slices end at these */ };

/* A trial's values as it went, and what it would have to come to. */
struct trial_progress {
    struct forecast_point point[TRACE_WINDOWS_MAX];
    size_t n;
    double share; /* of the trial */
};

static struct trials *all_of(const struct trial_time *t)
{
    return t->judge->trials;
}

/* Units after which a trial is over: while the trial time is not decided, as
 * far as it may be run. */
static uint64_t units_in_all(const struct trial_time *t, const struct trial *x)
{
    return t->decided ? x->run.goal : trial_time_bound(t);
}

/* Whether it can be known what @x would have to come to. */
static bool may_stop(const struct trial_time *t, const struct trial *x)
{
    const struct trials *all = all_of(t);

    if (board_trial_stops(all->c) == TRIAL_STOPS_OFF || x->incumbent)
        return false;
    return trials_incumbent(all) ||
           (t->decided && x - all->list >= FINALISTS_MAX);
}

void hopeless_slices(const struct trial_time *t, struct trial *x)
{
    double pace =
        x->figures.pace > 0 ? x->figures.pace : t->judge->probe.unit_s;
    double least = 1;

    assert(x->run.goal > 0);
    x->run.first = x->run.piece = 0;
    if (!may_stop(t, x))
        return;
    if (!units_by_samples(all_of(t)->c) && pace > 0)
        least = fmax(HOPELESS_PIECE_S / pace, 1);
    /* Nothing is decided before a third of a trial. */
    x->run.first = (uint64_t)fmax((double)x->run.goal / 3, least);
    x->run.piece = (uint64_t)fmax((double)x->run.goal / 6, least);
}

/* The fall of the loss, or in a re-tune its distance below that of the setting
 * in use, window by window on the same samples, up to @share. */
static void progress_of(const struct trial_time *t, const struct trial *x,
                        double share, struct trial_progress *out)
{
    const struct trials *all = all_of(t);
    const struct trial *incumbent = trials_incumbent(all);
    const struct branch *b = board_branch(all->c, x->branch);
    const struct branch *base = board_branch(
        all->c, incumbent ? incumbent->branch : t->judge->probe.branch);
    struct curve curve;
    double samples = 0, whole;

    assert(share >= 0);
    out->n = 0;
    out->share = 0;
    if (!b || !base || branch_is_nonfinite(b) || branch_is_nonfinite(base) ||
        branch_own_samples(b) == 0)
        return;
    whole = (double)branch_own_samples(b) * (double)units_in_all(t, x) /
            (double)board_units_run(all->c, b);
    trace_curve_against(branch_trace(b), branch_trace(base), 0, NAN, &curve);
    for (uint32_t i = 0; i < curve.len; i++) {
        double n = (double)curve.point[i].samples;

        if ((samples + n) / whole > share + 1e-9)
            break;
        out->point[out->n++] = (struct forecast_point){
            (samples + n / 2) / whole, -curve.point[i].loss};
        samples += n;
        out->share = samples / whole;
    }
}

/* Time that it takes, at the pace of its kind. */
static double time_in_all(const struct trial_time *t, const struct trial *x)
{
    const struct trials *all = all_of(t);
    const struct branch *b = board_branch(all->c, x->branch);
    double units = (double)units_in_all(t, x);
    double pace = units_by_samples(all->c) ? 0 : pace_pooled(all, x);

    assert(b);
    if (pace > 0)
        return pace * units;
    return units_time(all->c, b) / (double)board_units_run(all->c, b) * units;
}

/* Value that a trial must come to by its end to be worth a longer look: in a
 * re-tune, to be ahead of the setting in use at all; else a place among the
 * finalists: near the fastest, or third. False: that is not known yet. */
static bool needed(const struct trial_time *t, const struct trial *x,
                   double *need)
{
    const struct judge *j = t->judge;
    struct trial *top[FINALISTS_MAX];

    if (trials_incumbent(j->trials)) {
        double epochs =
            (double)units_in_all(t, x) / (double)board_units(j->trials->c);

        *need =
            PLATEAU_IMPROVEMENT * fmin(epochs, 1) * fabs(j->probe.loss_before);
        return true;
    }
    if (!t->decided || judge_fastest(j, top, FINALISTS_MAX) < FINALISTS_MAX)
        return false;
    *need = summary_fall(j->probe.loss_before,
                         time_in_all(t, x) *
                             fmin(JUDGE_NEAR * top[0]->figures.speed,
                                  top[FINALISTS_MAX - 1]->figures.speed),
                         board_loss_floor(j->trials->c));
    return true;
}

static bool is_rival(const struct judge *j, const struct trial *x)
{
    if (!x->judged || x->incumbent || x->branch == BRANCH_NONE)
        return false;
    return trials_incumbent(j->trials) ? judge_ahead(j, x)
                                       : x->label == TRIAL_CONVERGING;
}

/* Curves that begin flat, or cross: no look is trusted that would have taken a
 * trial for hopeless that has since made good. */
static bool too_early(const struct trial_time *t, const struct trial *x,
                      double share, double need, double error)
{
    const struct trials *all = all_of(t);

    for (uint32_t i = 0; i < all->n; i++) {
        const struct trial *rival = &all->list[i];
        struct trial_progress progress;
        struct forecast reach;

        if (rival == x || !is_rival(t->judge, rival))
            continue;
        progress_of(t, rival, share, &progress);
        if (progress.n < FORECAST_POINTS_MIN)
            continue;
        forecast_of(progress.point, progress.n, progress.share, error, &reach);
        if (reach.most < need)
            return true;
    }
    return false;
}

static void stop(const struct trials *all, struct trial *x, double share,
                 const struct forecast *reach, double need, double error)
{
    struct record_decision *d;

    assert(!x->doomed);
    x->stopped = board_trial_stops(all->c) == TRIAL_STOPS_ON;
    x->doomed = true;
    snprintf(x->reason, sizeof(x->reason),
             trials_incumbent(all)
                 ? "stopped at %.0f %% of its time: it will not get ahead of "
                   "the setting in use"
                 : "stopped at %.0f %% of its time: at best its loss falls by "
                   "%.4g, and a place in the finals takes %.4g",
             share * 100, reach->most, need);
    d = board_decision(all->c, "trial_stopped", "trial %u is %s", x->number,
                       x->reason);
    board_decision_number(d, "trial", x->number);
    board_decision_number(d, "share", share);
    board_decision_number(d, "now", reach->now);
    board_decision_number(d, "at_most", reach->most);
    board_decision_number(d, "needed", need);
    board_decision_number(d, "window_noise", reach->noise);
    board_decision_number(d, "error", error);
    board_decision_number(d, "look", x->looks);
}

static void look(const struct trial_time *t, struct trial *x)
{
    const struct trials *all = all_of(t);
    struct trial_progress progress;
    struct forecast reach;
    double need, error;

    assert(!x->doomed && !x->incumbent);
    progress_of(t, x, 1, &progress);
    /* When a report comes depends on a clock: there a trial is looked at where
     * its slices end. */
    if (units_by_samples(all->c))
        progress_of(t, x,
                    floor(progress.share * HOPELESS_PIECES + 1e-9) /
                        HOPELESS_PIECES,
                    &progress);
    if (progress.n < FORECAST_POINTS_MIN || progress.share < HOPELESS_SHARE ||
        progress.share > 1 - HOPELESS_STEP ||
        progress.share < x->looked + HOPELESS_STEP || !needed(t, x, &need))
        return;
    x->looked = progress.share;
    error = forecast_share(HOPELESS_ERROR, all->max, ++x->looks);
    forecast_of(progress.point, progress.n, progress.share, error, &reach);
    if (reach.most < need && !too_early(t, x, progress.share, need, error))
        stop(all, x, progress.share, &reach, need, error);
}

void hopeless_look(const struct trial_time *t)
{
    struct trials *all = all_of(t);

    if (board_trial_stops(all->c) == TRIAL_STOPS_OFF)
        return;
    for (uint32_t i = 0; i < all->n; i++) {
        struct trial *x = &all->list[i];
        const struct branch *b = board_branch(all->c, x->branch);

        if (!b || x->incumbent || x->again || x->doomed ||
            branch_is_nonfinite(b) ||
            branch_own_samples(b) == x->looked_samples)
            continue;
        x->looked_samples = branch_own_samples(b);
        if (board_units_run(all->c, b) < x->run.goal)
            look(t, x);
    }
}
