#include "tuner/search/search_stop.h"

#include "tuner/board/plateau.h"
#include "tuner/search/forecast.h"
#include "tuner/search/pace.h"
#include "tuner/search/search_judge.h"
#include "tuner/search/search_run.h"
#include "tuner/search/search_time.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

/* Probability, over a whole search, that noise stops a trial that would have
 * been worth a place in the finals. */
#define SEARCH_STOP_ERROR 0.05
#define SEARCH_STOP_SHARE (1.0 / 3) /* of a trial: never before */
#define SEARCH_STOP_STEP (1.0 / 24) /* of a trial: between looks */
#define SEARCH_STOP_PIECE_S 0.015   /* shortest slice worth its messages */

enum { SEARCH_STOP_PIECES = 6 /* of a trial: slices end at these */ };

/* A trial's values as it went, and what it would have to come to. */
struct course {
    struct forecast_point point[TRACE_WINDOWS_MAX];
    size_t n;
    double share; /* of the trial */
};

/* Units after which a trial is over: while the trial time is not decided, as
 * far as it may be run. */
static uint64_t units_in_all(const struct search *s, const struct trial *t)
{
    return s->decided ? t->run.goal : search_time_bound(s);
}

/* Whether trials are compared with the setting in use. */
static bool against_incumbent(const struct search *s)
{
    return s->trials > 0 && s->trial[0].incumbent;
}

/* Whether it can be known what @t would have to come to. */
static bool may_stop(const struct search *s, const struct trial *t)
{
    if (board_options(s->c)->trial_stops == TRIAL_STOPS_OFF || t->incumbent)
        return false;
    return against_incumbent(s) ||
           (s->decided && t - s->trial >= SEARCH_FINALISTS_MAX);
}

void search_stop_slices(const struct search *s, struct trial *t)
{
    double pace = t->pace > 0 ? t->pace : s->unit_s;
    double least = 1;

    t->run.first = t->run.piece = 0;
    if (!may_stop(s, t))
        return;
    if (!search_by_samples(s) && pace > 0)
        least = fmax(SEARCH_STOP_PIECE_S / pace, 1);
    /* Nothing is decided before a third of a trial. */
    t->run.first = (uint64_t)fmax((double)t->run.goal / 3, least);
    t->run.piece = (uint64_t)fmax((double)t->run.goal / 6, least);
}

/* How far the loss has fallen, or in a re-tune how far it is below that of the
 * setting in use, window by window on the same samples, up to @share. */
static void course_of(struct search *s, const struct trial *t, double share,
                      struct course *out)
{
    const struct branch *b = board_branch(s->c, t->run.branch);
    const struct branch *base = board_branch(
        s->c, against_incumbent(s) ? s->trial[0].run.branch : s->probe.branch);
    struct curve curve;
    double samples = 0, whole;

    out->n = 0;
    out->share = 0;
    if (!b || !base || b->nonfinite || base->nonfinite || b->own_samples == 0)
        return;
    whole = (double)b->own_samples * (double)units_in_all(s, t) /
            (double)search_units_run(s, b);
    trace_curve_against(&b->trace, &base->trace, 0, &curve);
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
static double time_in_all(struct search *s, const struct trial *t)
{
    const struct branch *b = board_branch(s->c, t->run.branch);
    double units = (double)units_in_all(s, t);
    double pace = search_by_samples(s) ? 0 : pace_pooled(s, t);

    if (pace > 0)
        return pace * units;
    return search_time_of(s, b) / (double)search_units_run(s, b) * units;
}

/* What a trial must come to by its end to be worth a longer look: in a re-tune,
 * to be ahead of the setting in use at all; else a place among the finalists:
 * near the fastest, or third. False: that is not known yet. */
static bool needed(struct search *s, const struct trial *t, double *need)
{
    struct trial *top[SEARCH_FINALISTS_MAX];

    if (against_incumbent(s)) {
        double epochs = (double)units_in_all(s, t) / (double)board_units(s->c);

        *need = PLATEAU_IMPROVEMENT * fmin(epochs, 1) * fabs(s->loss_before);
        return true;
    }
    if (!s->decided ||
        search_fastest(s, top, SEARCH_FINALISTS_MAX) < SEARCH_FINALISTS_MAX)
        return false;
    *need =
        time_in_all(s, t) * fmin(SEARCH_NEAR * top[0]->summary.speed,
                                 top[SEARCH_FINALISTS_MAX - 1]->summary.speed);
    return true;
}

static bool is_rival(const struct search *s, const struct trial *t)
{
    if (!t->judged || t->incumbent || t->run.branch == BRANCH_NONE)
        return false;
    return against_incumbent(s) ? search_ahead(s, t)
                                : t->summary.label == TRIAL_CONVERGING;
}

/* Curves that begin flat, or cross: no look is trusted that would have taken a
 * trial for hopeless that has since made good. */
static bool too_early(struct search *s, const struct trial *t, double share,
                      double need, double error)
{
    for (uint32_t i = 0; i < s->trials; i++) {
        const struct trial *rival = &s->trial[i];
        struct course course;
        struct forecast reach;

        if (rival == t || !is_rival(s, rival))
            continue;
        course_of(s, rival, share, &course);
        if (course.n < FORECAST_POINTS_MIN)
            continue;
        forecast_of(course.point, course.n, course.share, error, &reach);
        if (reach.most < need)
            return true;
    }
    return false;
}

static void stop(struct search *s, struct trial *t, double share,
                 const struct forecast *reach, double need, double error)
{
    struct record_decision *d;

    t->stopped = board_options(s->c)->trial_stops == TRIAL_STOPS_ON;
    t->doomed = true;
    snprintf(t->reason, sizeof(t->reason),
             against_incumbent(s)
                 ? "stopped at %.0f %% of its time: it will not get ahead of "
                   "the setting in use"
                 : "stopped at %.0f %% of its time: at best its loss falls by "
                   "%.4g, and a place in the finals takes %.4g",
             share * 100, reach->most, need);
    d = board_decision(s->c, "trial_stopped", "trial %u is %s", t->number,
                       t->reason);
    board_decision_number(d, "trial", t->number);
    board_decision_number(d, "share", share);
    board_decision_number(d, "now", reach->now);
    board_decision_number(d, "at_most", reach->most);
    board_decision_number(d, "needed", need);
    board_decision_number(d, "window_noise", reach->noise);
    board_decision_number(d, "error", error);
    board_decision_number(d, "look", t->looks);
}

static void look(struct search *s, struct trial *t)
{
    struct course course;
    struct forecast reach;
    double need, error;

    course_of(s, t, 1, &course);
    /* When a report comes depends on a clock: there a trial is looked at where
     * its slices end. */
    if (search_by_samples(s))
        course_of(s, t,
                  floor(course.share * SEARCH_STOP_PIECES + 1e-9) /
                      SEARCH_STOP_PIECES,
                  &course);
    if (course.n < FORECAST_POINTS_MIN || course.share < SEARCH_STOP_SHARE ||
        course.share > 1 - SEARCH_STOP_STEP ||
        course.share < t->looked + SEARCH_STOP_STEP || !needed(s, t, &need))
        return;
    t->looked = course.share;
    error = forecast_share(SEARCH_STOP_ERROR, s->plan.trials_max, ++t->looks);
    forecast_of(course.point, course.n, course.share, error, &reach);
    if (reach.most < need && !too_early(s, t, course.share, need, error))
        stop(s, t, course.share, &reach, need, error);
}

void search_stop_look(struct search *s)
{
    if (board_options(s->c)->trial_stops == TRIAL_STOPS_OFF)
        return;
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        const struct branch *b = board_branch(s->c, t->run.branch);

        if (!b || t->incumbent || t->doomed || b->nonfinite ||
            b->own_samples == t->looked_samples)
            continue;
        t->looked_samples = b->own_samples;
        if (search_units_run(s, b) < t->run.goal)
            look(s, t);
    }
}
