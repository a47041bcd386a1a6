#include "tuner/search/trial_time.h"

#include "tuner/search/pace.h"
#include "tuner/search/summary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    TRIAL_EPOCHS_FIRST = 3 /* longest trials of a first search */
};

void trial_time_init(struct trial_time *t, struct judge *j, branch_id parent)
{
    const struct branch *b = board_branch(j->trials->c, parent);

    memset(t, 0, sizeof(*t));
    t->judge = j;
    t->epochs_max = 1;
    t->base = b ? branch_epochs(b) : 0;
}

static struct board *board_of(const struct trial_time *t)
{
    return t->judge->trials->c;
}

/* ---- one trial's goal ---------------------------------------------------- */

/* The winner is trained on from where its trial ends, which is not to be beyond
 * the run's last epoch. */
static uint64_t end_of_run(const struct trial_time *t)
{
    uint32_t most = board_limits(board_of(t)).max_epochs;
    uint64_t left = most > t->base ? most - t->base : 1;

    return left * board_units(board_of(t));
}

uint64_t trial_time_bound(const struct trial_time *t)
{
    uint64_t a = t->epochs_max * board_units(board_of(t));
    uint64_t b = SUMMARY_WINDOWS * t->judge->probe.window;
    uint64_t end = end_of_run(t), most = a > b ? a : b;

    assert(t->epochs_max >= 1 && t->epochs_max <= TRIAL_EPOCHS_FIRST);
    /* The user has said how long. */
    if (units_by_samples(board_of(t)))
        return end;
    return most < end ? most : end;
}

/* Units that the user's trial_clocks are, of the setting with the largest
 * clocks. */
static uint64_t given_units(const struct trial_time *t)
{
    return board_trial_clocks(board_of(t)) *
           units_largest_clock(board_of(t), &t->judge->trials->space);
}

uint64_t trial_time_shortest(const struct trial_time *t)
{
    uint64_t window = t->judge->probe.window, bound = trial_time_bound(t);
    uint64_t goal = SUMMARY_WINDOWS * window;

    assert(window > 0);
    if (units_by_samples(board_of(t)))
        goal = (given_units(t) + window - 1) / window * window;
    return goal < bound ? goal : bound;
}

/* Units a time unit: at the pace of its kind, where time is a clock's. */
static double rate_for_goal(const struct trial_time *t, struct trial *x,
                            const struct branch *b)
{
    struct board *c = board_of(t);
    uint64_t units = board_units_run(c, b);
    double unit = units ? units_time(c, b) / (double)units : 0;

    if (units_by_samples(c) || (units && !(unit > 0)))
        return 1 / unit;
    x->figures.pace = unit;
    return 1 / pace_pooled(t->judge->trials, x);
}

void trial_time_goal(const struct trial_time *t, struct trial *x,
                     const struct branch *b)
{
    uint64_t window = t->judge->probe.window, bound = trial_time_bound(t), goal;
    double rate = rate_for_goal(t, x, b);
    double windows = round(t->length * rate / (double)window);

    assert(branch_number(b) == x->branch);
    if (board_units_run(board_of(t), b) == 0 && !isfinite(rate))
        return; /* its first windows will tell */
    if (!(windows >= SUMMARY_WINDOWS) && !units_by_samples(board_of(t)))
        windows = SUMMARY_WINDOWS;
    goal = windows < (double)bound ? (uint64_t)windows * window : bound;
    if (goal > bound)
        goal = bound;
    if (goal > x->run.goal)
        x->run.goal = goal;
    x->run.goal_time = t->length;
}

/* ---- the time of all ----------------------------------------------------- */

static void raise_to(struct trial_time *t, double least, const char *why)
{
    assert(why);
    if (!(least > t->length))
        return;
    t->length = least;
    t->floor = why;
}

void trial_time_floor(struct trial_time *t, const struct branch *b,
                      double decision_s)
{
    struct board *c = board_of(t);
    double unit = units_time(c, b) / (double)board_units_run(c, b);

    assert(b && board_units_run(c, b) > 0);
    assert(!t->decided);
    if (units_by_samples(c)) {
        raise_to(t, unit * (double)given_units(t),
                 "that is how long the configuration wants it");
        return;
    }
    raise_to(t, unit * (double)(SUMMARY_WINDOWS * t->judge->probe.window),
             "a shorter one would not show its speed");
    raise_to(t, TRIAL_TIME_MIN_S, "that is the least");
    raise_to(t, TRIAL_SWITCHES * board_switch_cost(c),
             "less would be lost in switching between trials");
    raise_to(t, decision_s,
             "that is how long the searcher takes to propose one");
}

bool trial_time_can_double(const struct trial_time *t)
{
    const struct trials *all = t->judge->trials;

    if (units_by_samples(all->c))
        return false; /* lengths are given */
    for (uint32_t i = 0; i < all->n; i++)
        if (all->list[i].branch != BRANCH_NONE &&
            all->list[i].run.goal < trial_time_bound(t))
            return true;
    return false;
}

bool trial_time_raise_bound(struct trial_time *t, bool retune)
{
    if (retune || units_by_samples(board_of(t)) ||
        t->epochs_max == TRIAL_EPOCHS_FIRST ||
        trials_live(t->judge->trials) == 0)
        return false;
    t->epochs_max++;
    return true;
}

void trial_time_double(struct trial_time *t)
{
    uint32_t made = trials_made(t->judge->trials);
    struct record_decision *d;

    assert(!t->decided);
    d = board_decision(board_of(t), "trial_time",
                       "trials are doubled from %.4g to %.4g s: of %u settings "
                       "tried none converges clearly yet",
                       t->length, 2 * t->length, made);
    board_decision_number(d, "before", t->length);
    board_decision_number(d, "trial_time", 2 * t->length);
    board_decision_number(d, "trials", made);
    board_decision_number(d, "epochs_max", t->epochs_max);
    t->length *= 2;
    t->floor = NULL;
}

/* While no good setting had been proposed, the time was doubled in vain; a
 * converging trial shows how much of it was needed. Algorithm 6 keeps the time;
 * here it is halved as long as that trial would have been converging by then,
 * and all are judged by so much of their traces. */
bool trial_time_shorten(struct trial_time *t, double decision_s)
{
    struct board *c = board_of(t);
    const struct probe *probe = &t->judge->probe;
    double least =
        fmax(fmax(TRIAL_TIME_MIN_S, decision_s),
             fmax(TRIAL_SWITCHES * board_switch_cost(c),
                  probe->unit_s * (double)(SUMMARY_WINDOWS * probe->window)));
    double length = t->length;
    struct record_decision *d;

    assert(!t->decided);
    if (units_by_samples(c))
        return false;
    while (length / 4 >= least && judge_converging_within(t->judge, length / 4))
        length /= 2;
    if (length == t->length)
        return false;
    d = board_decision(c, "trial_time",
                       "trials are shortened from %.4g to %.4g s: that shows "
                       "as well that a setting converges",
                       t->length, length);
    board_decision_number(d, "before", t->length);
    board_decision_number(d, "trial_time", length);
    t->length = length;
    t->floor = NULL;
    judge_again(t->judge, length);
    return true;
}

/* Why trials are as long as they are. */
static const char *reason(const struct trial_time *t)
{
    if (t->floor)
        return t->floor;
    return judge_any_converging(t->judge)
               ? "that is how long it took for a setting to converge clearly"
               : "that is how long it took for a setting to get clearly ahead "
                 "of the one in use";
}

void trial_time_decide(struct trial_time *t)
{
    struct board *c = board_of(t);
    struct record_search_decided *r;
    struct record_decision *d;

    assert(!t->decided);
    t->decided = true;
    r = board_record_search_decided(c);
    r->search = t->judge->trials->search;
    r->trial_s = t->length;
    r->judged_s = t->judge->judged_s;
    d = board_decision(c, "trial_time", "a trial takes %.4g %s: %s", t->length,
                       units_by_samples(c) ? "samples" : "s", reason(t));
    board_decision_number(d, "trial_time", t->length);
    board_decision_number(d, "trials", trials_made(t->judge->trials));
}
