#include "tuner/search/search_time.h"

#include "tuner/search/pace.h"
#include "tuner/search/search_judge.h"
#include "tuner/search/search_run.h"
#include "tuner/search/search_stop.h"
#include "tuner/search/search_trials.h"

#include <math.h>

#define SEARCH_TIME_MIN_S 0.05 /* floor of the trial time */
#define SEARCH_SWITCHES 20     /* costs of a switch: floor of the trial time */

enum {
    SEARCH_EPOCHS_FIRST = 3, /* longest trials of a first search */
    SEARCH_FINE = 40         /* windows aimed at in the shortest trial */
};

/* Longest a trial may be, in units: an epoch (more where that was not enough),
 * but K windows at least. */
uint64_t search_time_bound(const struct search *s)
{
    uint64_t a = s->epochs_max * board_units(s->c);
    uint64_t b = SUMMARY_WINDOWS * s->window;

    if (search_by_samples(s))
        return UINT64_MAX; /* the user has said how long */
    return a > b ? a : b;
}

/* After the probe: windows of so many clocks that the shortest trial has a few
 * times K of them, as far as an epoch allows. */
void search_time_windows(struct search *s)
{
    double floor_s =
        fmax(SEARCH_TIME_MIN_S, SEARCH_SWITCHES * board_switch_cost(s->c));

    if (search_by_samples(s))
        return;
    while (s->unit_s * (double)s->window * SEARCH_FINE < floor_s &&
           s->window * 2 * SEARCH_FINE <= board_units(s->c))
        s->window *= 2;
}

static void raise_to(struct search *s, double least, const char *why)
{
    if (!(least > s->trial_time))
        return;
    s->trial_time = least;
    s->floor = why;
}

/* Raises the trial time to what K windows of @b take and to its other floors.
 */
void search_time_floor(struct search *s, const struct branch *b)
{
    double unit = search_time_of(s, b) / (double)search_units_run(s, b);

    if (search_by_samples(s)) {
        raise_to(s,
                 unit * (double)(board_options(s->c)->trial_clocks *
                                 search_largest_clock(s)),
                 "that is how long the configuration wants it");
        return;
    }
    raise_to(s, unit * (double)(SUMMARY_WINDOWS * s->window),
             "no less shows its speed");
    raise_to(s, SEARCH_TIME_MIN_S, "that is the least");
    raise_to(s, SEARCH_SWITCHES * board_switch_cost(s->c),
             "less would be lost in switching between trials");
    raise_to(s, s->decision_s,
             "that is how long the searcher takes to propose one");
}

/* Units a time unit: at the pace of its kind, where time is a clock's. */
static double rate_for_goal(const struct search *s, struct trial *t,
                            const struct branch *b)
{
    uint64_t units = search_units_run(s, b);
    double unit = units ? search_time_of(s, b) / (double)units : 0;

    if (search_by_samples(s) || (units && !(unit > 0)))
        return 1 / unit;
    t->pace = unit;
    return 1 / pace_pooled(s, t);
}

/* Windows that fill the trial time at the rate measured so far. */
void search_time_goal(struct search *s, struct trial *t, const struct branch *b)
{
    struct runner *r = &t->run;
    double rate = rate_for_goal(s, t, b);
    double windows = round(s->trial_time * rate / (double)s->window);
    uint64_t goal;

    if (search_units_run(s, b) == 0 && !isfinite(rate))
        return; /* its first windows will tell */
    if (!(windows >= SUMMARY_WINDOWS) && !search_by_samples(s))
        windows = SUMMARY_WINDOWS;
    goal = windows < (double)search_time_bound(s)
               ? (uint64_t)windows * s->window
               : search_time_bound(s);
    if (goal > search_time_bound(s))
        goal = search_time_bound(s);
    if (goal > r->goal)
        r->goal = goal;
    r->goal_time = s->trial_time;
    search_stop_slices(s, t);
}

/* Whether any live trial would run longer in twice the time. */
bool search_time_can_double(const struct search *s)
{
    if (search_by_samples(s))
        return false; /* lengths are given */
    for (uint32_t i = 0; i < s->trials; i++)
        if (s->trial[i].run.branch != BRANCH_NONE &&
            s->trial[i].run.goal < search_time_bound(s))
            return true;
    return false;
}

/* A first search may take trials of up to three epochs to find something that
 * converges. */
bool search_time_raise_bound(struct search *s)
{
    if (s->plan.retune || search_by_samples(s) ||
        s->epochs_max == SEARCH_EPOCHS_FIRST || search_trials_live(s) == 0)
        return false;
    s->epochs_max++;
    return true;
}

/* Whether a shorter look would have shown a converging trial to be one. */
static bool converging_within(struct search *s, double seconds)
{
    for (uint32_t i = 0; i < s->trials; i++) {
        struct trial *t = &s->trial[i];
        const struct branch *b = board_branch(s->c, t->run.branch);
        struct summary summary;
        struct curve curve;

        if (!b || t->summary.label != TRIAL_CONVERGING)
            continue;
        search_curve(s, t, b, &curve);
        search_curve_cut(&curve, seconds);
        summary_of(&curve, s->loss_before, board_system(s->c)->loss_floor,
                   &summary);
        if (summary.label == TRIAL_CONVERGING)
            return true;
    }
    return false;
}

/* While no good setting had been proposed, the time was doubled in vain; a
 * converging trial shows how much of it was needed. Algorithm 6 keeps the time;
 * here it is halved as long as that trial would have been converging by then,
 * and all are judged by so much of their traces. True if it was shortened. */
bool search_time_shorten(struct search *s)
{
    double least =
        fmax(fmax(SEARCH_TIME_MIN_S, s->decision_s),
             fmax(SEARCH_SWITCHES * board_switch_cost(s->c),
                  s->unit_s * (double)(SUMMARY_WINDOWS * s->window)));
    double time = s->trial_time;
    struct record_decision *d;

    if (search_by_samples(s))
        return false;
    while (time / 4 >= least && converging_within(s, time / 4))
        time /= 2;
    if (time == s->trial_time)
        return false;
    d = board_decision(s->c, "trial_time",
                       "trials are shortened from %.4g to %.4g s: that shows "
                       "as well that a setting converges",
                       s->trial_time, time);
    board_decision_number(d, "before", s->trial_time);
    board_decision_number(d, "trial_time", time);
    s->trial_time = s->judged_s = time;
    s->floor = NULL;
    for (uint32_t i = 0; i < s->trials; i++)
        s->trial[i].judged = false;
    return true;
}

void search_time_double(struct search *s)
{
    struct record_decision *d;

    d = board_decision(s->c, "trial_time",
                       "trials are doubled from %.4g to %.4g s: of %u settings "
                       "tried none converges clearly yet",
                       s->trial_time, 2 * s->trial_time, search_made(s));
    board_decision_number(d, "before", s->trial_time);
    board_decision_number(d, "trial_time", 2 * s->trial_time);
    board_decision_number(d, "trials", search_made(s));
    board_decision_number(d, "epochs_max", s->epochs_max);
    s->trial_time *= 2;
    s->floor = NULL;
}

/* Why trials are as long as they are. */
static const char *time_reason(const struct search *s)
{
    if (s->floor)
        return s->floor;
    return search_any_converging(s)
               ? "that is how long it took for a setting to converge clearly"
               : "that is how long it took for a setting to get clearly ahead "
                 "of the one in use";
}

void search_time_decide(struct search *s)
{
    struct record_search_decided *r;
    struct record_decision *d;

    s->decided = true;
    r = &board_record(s->c, RECORD_SEARCH_DECIDED)->search_decided;
    r->search = s->plan.number;
    r->trial_s = s->trial_time;
    r->judged_s = s->judged_s;
    d = board_decision(s->c, "trial_time", "a trial takes %.4g %s: %s",
                       s->trial_time, search_by_samples(s) ? "samples" : "s",
                       time_reason(s));
    board_decision_number(d, "trial_time", s->trial_time);
    board_decision_number(d, "trials", search_made(s));
}
