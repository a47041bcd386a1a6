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
#define HOPELESS_DEAR                                                          \
    1.5 /* times as long as a trial: looked at from the first                  \
         * window on */

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
    return trials_incumbent(all) || (t->decided && x > all->list);
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
    /* Nothing is decided before a third of a trial, unless it is dear. */
    x->run.first = (uint64_t)fmax((double)x->run.goal / 3, least);
    x->run.piece = (uint64_t)fmax((double)x->run.goal / 6, least);
    if (t->decided && !units_by_samples(all_of(t)->c) &&
        !(pace_pooled(all_of(t), x) > 0)) /* it may be dear: soon known */
        x->run.first = (uint64_t)fmax((double)t->judge->probe.window, least);
}

/* The progress of the loss (summary_progress), or in a re-tune its distance
 * below that of the setting in use, window by window on the same samples, up to
 * @share. */
static void progress_of(const struct trial_time *t, const struct trial *x,
                        double share, struct trial_progress *out)
{
    const struct trials *all = all_of(t);
    const struct trial *incumbent = trials_incumbent(all);
    const struct branch *b = board_branch(all->c, x->branch);
    const struct branch *base = board_branch(
        all->c, incumbent ? incumbent->branch : t->judge->probe.branch);
    double before = t->judge->probe.loss_before;
    double floor = incumbent ? NAN : board_loss_floor(all->c);
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
    trace_curve_against(branch_trace(b), branch_trace(base), before, NAN,
                        &curve);
    for (uint32_t i = 0; i < curve.len; i++) {
        double n = (double)curve.point[i].samples;

        if ((samples + n) / whole > share + 1e-9)
            break;
        out->point[out->n++] = (struct forecast_point){
            (samples + n / 2) / whole,
            summary_progress(before, curve.point[i].loss, floor)};
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

/* Whether @x takes so much longer than a trial that each of its windows costs
 * more than it tells, unless it learns more in it than others do. */
static bool is_dear(const struct trial_time *t, const struct trial *x)
{
    const struct trials *all = all_of(t);

    return t->decided && !trials_incumbent(all) && !units_by_samples(all->c) &&
           time_in_all(t, x) >= HOPELESS_DEAR * t->length;
}

/* The speed that is worth a longer look: near the fastest, or the fourth's; of
 * a dear trial, near the fastest. False: that is not known yet. */
static bool needed_speed(const struct trial_time *t, bool dear, double *speed)
{
    struct trial *top[FINALISTS_MAX];
    size_t n = judge_fastest(t->judge, top, FINALISTS_MAX);

    if (!t->decided || n < (dear ? 1 : FINALISTS_MAX))
        return false;
    *speed = JUDGE_NEAR * top[0]->figures.speed;
    if (!dear)
        *speed = fmin(*speed, top[FINALISTS_MAX - 1]->figures.speed);
    return true;
}

/* Progress that a trial must come to by its end to be worth a longer look: in a
 * re-tune, to be ahead of the setting in use at all; else a finalist's. False:
 * that is not known yet. */
static bool needed(const struct trial_time *t, const struct trial *x, bool dear,
                   double *need)
{
    const struct judge *j = t->judge;
    double speed;

    if (trials_incumbent(j->trials)) {
        double epochs =
            (double)units_in_all(t, x) / (double)board_units(j->trials->c);

        *need =
            PLATEAU_IMPROVEMENT * fmin(epochs, 1) * fabs(j->probe.loss_before);
        return true;
    }
    if (!needed_speed(t, dear, &speed))
        return false;
    *need = speed * time_in_all(t, x);
    return true;
}

/* The noise of a window, as other trials showed it, in units of progress where
 * nothing has been learnt. */
static double known_noise(const struct trial_time *t)
{
    const struct trials *all = all_of(t);
    double before = t->judge->probe.loss_before, noise = 0;
    double floor = board_loss_floor(all->c);

    for (uint32_t i = 0; i < all->n; i++)
        if (all->list[i].label == TRIAL_CONVERGING)
            noise = fmax(noise, all->list[i].figures.window_noise);
    return summary_is_relative(before, floor) ? noise / (before - floor)
                                              : noise;
}

static bool forecast_trial(const struct trial_time *t, const struct trial *x,
                           double share, bool dear, double error,
                           struct trial_progress *progress,
                           struct forecast *out)
{
    progress_of(t, x, share, progress);
    if (progress->n >= FORECAST_POINTS_MIN)
        forecast_of(progress->point, progress->n, progress->share, error, out);
    else if (dear && progress->n > 0)
        forecast_early(progress->point, progress->n, progress->share, error,
                       known_noise(t), out);
    else
        return false;
    return true;
}

/* Whether @x has made good: is ahead of the setting in use, or as fast as
 * is worth a longer look. *need: what it had to come to for that. */
static bool made_good(const struct trial_time *t, const struct trial *x,
                      bool dear, double *need)
{
    const struct branch *b = board_branch(all_of(t)->c, x->branch);
    double speed;

    if (!x->judged || x->incumbent || !b || branch_own_samples(b) == 0 ||
        !needed(t, x, dear, need))
        return false;
    if (trials_incumbent(all_of(t)))
        return judge_ahead(t->judge, x);
    return x->label == TRIAL_CONVERGING && needed_speed(t, dear, &speed) &&
           x->figures.speed >= speed;
}

/* Curves that begin flat, or cross: no look is trusted that would have taken a
 * trial for hopeless that has since made good. A dear trial is looked at when
 * it has run less of its own: they are asked after as many samples. */
static bool too_early(const struct trial_time *t, const struct trial *x,
                      double share, bool dear, double error)
{
    const struct trials *all = all_of(t);
    double units = share * (double)units_in_all(t, x);

    for (uint32_t i = 0; i < all->n; i++) {
        const struct trial *other = &all->list[i];
        double need, at = share;
        struct trial_progress progress;
        struct forecast reach;

        if (other == x || !made_good(t, other, dear, &need))
            continue;
        if (dear)
            at = fmin(units / (double)units_in_all(t, other), 1);
        if (forecast_trial(t, other, at, dear, error, &progress, &reach) &&
            reach.most < need)
            return true;
    }
    return false;
}

/* Progress as a fall of the loss. */
static double as_fall(const struct trial_time *t, double progress)
{
    const struct trials *all = all_of(t);

    return summary_fall(t->judge->probe.loss_before, progress,
                        trials_incumbent(all) ? NAN : board_loss_floor(all->c));
}

static void stop(const struct trial_time *t, struct trial *x, double share,
                 const struct forecast *reach, double need, double error)
{
    const struct trials *all = all_of(t);
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
             share * 100, as_fall(t, reach->most), as_fall(t, need));
    d = board_decision(all->c, "trial_stopped", "trial %u is %s", x->number,
                       x->reason);
    board_decision_number(d, "trial", x->number);
    board_decision_number(d, "share", share);
    board_decision_number(d, "now", as_fall(t, reach->now));
    board_decision_number(d, "at_most", as_fall(t, reach->most));
    board_decision_number(d, "needed", as_fall(t, need));
    board_decision_number(d, "window_noise", reach->noise);
    board_decision_number(d, "error", error);
    board_decision_number(d, "look", x->looks);
}

/* Whether @x has gone on far enough for another look. */
static bool is_due(const struct trial *x, const struct trial_progress *p,
                   bool dear)
{
    double step = dear ? 0 : HOPELESS_STEP;

    if (p->share > 1 - HOPELESS_STEP || p->share <= x->looked + step)
        return false;
    return dear ? p->n >= 1
                : p->n >= FORECAST_POINTS_MIN && p->share >= HOPELESS_SHARE;
}

static void look(const struct trial_time *t, struct trial *x)
{
    const struct trials *all = all_of(t);
    bool dear = is_dear(t, x);
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
    if (!is_due(x, &progress, dear) || !needed(t, x, dear, &need))
        return;
    x->looked = progress.share;
    error = forecast_share(HOPELESS_ERROR, all->max, ++x->looks);
    if (forecast_trial(t, x, progress.share, dear, error, &progress, &reach) &&
        reach.most < need && !too_early(t, x, progress.share, dear, error))
        stop(t, x, progress.share, &reach, need, error);
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
