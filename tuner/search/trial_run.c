#include "tuner/search/trial_run.h"

#include "tuner/core/lifecycle.h"
#include "tuner/search/hopeless.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define OVERLAP 0.01 /* of a trial: what takes more is overlapped */

enum { TROUBLES_MAX = 2 }; /* of a trial: tried again 1 and 2 s later */

/* Room for a trial whose fork found no memory: the slowest goes. False: there
 * is none that could. */
static bool makes_room(struct judge *j, const struct trial *x)
{
    struct board *c = j->trials->c;
    struct trial *worst = judge_slowest_live(j, x);

    if (!worst)
        return false;
    board_decision(c, "memory",
                   "no memory for trial %u: the slowest, trial %u, is freed",
                   x->number, worst->number);
    trial_free(c, worst, "memory");
    return true;
}

/* A refused fork costs the slowest trial; the setting is forked again. What is
 * known of the trial stays where only its branch was to come back. */
static void refused(struct judge *j, struct trial *x, branch_id parent)
{
    struct trials *all = j->trials;
    char why[RECORD_TEXT_MAX];

    snprintf(why, sizeof(why), "%s",
             branch_failure(board_branch(all->c, x->branch)));
    board_free(all->c, x->branch, "refused");
    x->branch = BRANCH_NONE;
    if (x->again)
        return;
    if (makes_room(j, x) && trial_fork(all->c, x, parent))
        return;
    trial_failed(x, why);
    x->judged = true;
    trial_end(all->c, x);
}

/* Whether some other trial was run without trouble; @trained: is what the run
 * trains on with, should no trial be better. */
static bool others_ran(const struct trials *all, const struct trial *x,
                       bool trained)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (&all->list[i] != x &&
            (trained
                 ? all->list[i].incumbent
                 : all->list[i].judged && all->list[i].label != TRIAL_FAILED))
            return true;
    return false;
}

/* A slice or the fork failed for trouble of the machine, which says nothing of
 * the setting: the trial is run again, after a while. What lasts interrupts the
 * run; but memory that this setting alone does not find is the setting's own
 * affair. A fork takes the same of each: where it finds none again and again,
 * the slowest trials go, one after another; then this one, if the run has
 * something to go on with. True: it is over. */
static bool troubled(struct judge *j, struct trial *x, const struct branch *b)
{
    struct board *c = j->trials->c;
    enum err err = branch_error(b);
    double wait_s = ldexp(1, (int)x->troubles);
    bool last = x->troubles == TROUBLES_MAX;
    bool room =
        last && err == ERR_NOMEM && branch_is_refused(b) && makes_room(j, x);

    if (last && err == ERR_NOMEM && !room &&
        others_ran(j->trials, x, branch_is_refused(b)))
        return true;
    if (last && !room) {
        lifecycle_end(c, RUN_INTERRUPTED, err_name(err),
                      "trial %u failed %d times, which is no fault of its "
                      "setting: %.240s",
                      x->number, TROUBLES_MAX + 1, branch_failure(b));
        return false;
    }
    board_decision(c, "trial",
                   "trial %u failed, and is run again in %g s: %.240s",
                   x->number, wait_s, branch_failure(b));
    x->troubles += !last;
    x->fork_at_s = board_active_s(c) + wait_s;
    board_free(c, x->branch, "failed, to be run again");
    x->branch = BRANCH_NONE;
    x->lost = true;
    board_retry_after(c, wait_s);
    return false;
}

/* A trial that cannot win: its slices are cut short, then it ends with what it
 * had. */
static bool wound_up(struct judge *j, struct trial *x, const struct branch *b)
{
    struct board *c = j->trials->c;
    enum trial_label *label = &x->label;
    char why[RECORD_TEXT_MAX];

    if (branch_slices_out(b)) {
        /* Where a cut falls depends on a clock. */
        if (!units_by_samples(c))
            board_cut(c, branch_number(b));
        return false;
    }
    memcpy(why, x->reason, sizeof(why));
    judge_trial(j, x, b);
    if (*label != TRIAL_DIVERGED &&
        (*label != TRIAL_FAILED || err_may_pass(branch_error(b)))) {
        *label = TRIAL_STOPPED;
        memcpy(x->reason, why, sizeof(x->reason));
    }
    x->news = true;
    trial_free(c, x, "it cannot win");
    return true;
}

/* Takes one trial as far as it goes. False while it is under way. */
static bool arrived(struct trial_time *t, struct trial *x, branch_id parent,
                    double decision_s)
{
    struct board *c = t->judge->trials->c;
    const struct branch *b = board_branch(c, x->branch);
    uint64_t window = t->judge->probe.window;
    enum runner_state state;

    if (!b)
        return !x->lost;
    if (x->stopped)
        return wound_up(t->judge, x, b);
    state = runner_advance(c, b, &x->run, window);
    if (branch_is_refused(b)) {
        if (!x->again && err_may_pass(branch_error(b)) &&
            !troubled(t->judge, x, b))
            return false;
        refused(t->judge, x, parent);
        return x->branch == BRANCH_NONE;
    }
    if (state == RUNNER_BROKEN && err_may_pass(branch_error(b)) &&
        !branch_is_nonfinite(b))
        return troubled(t->judge, x, b);
    if (state == RUNNER_BROKEN) { /* whatever was known of it before */
        x->again = x->judged = false;
        return true;
    }
    if (state != RUNNER_ARRIVED)
        return false;
    if ((x->run.goal_time >= t->length && t->length != 0) ||
        (x->again && !units_by_samples(c)))
        return true;
    x->judged = x->again;
    if (!t->decided)
        trial_time_floor(t, b, decision_s);
    trial_time_goal(t, x, b);
    if (!x->again)
        hopeless_slices(t, x);
    return runner_advance(c, b, &x->run, window) == RUNNER_ARRIVED;
}

bool trial_run_all(struct trial_time *t, branch_id parent, double decision_s)
{
    struct trials *all = t->judge->trials;
    uint64_t furthest = 0;
    bool there = true, probe;

    for (uint32_t i = 0; i < all->n; i++) {
        struct trial *x = &all->list[i];

        x->arrived = arrived(t, x, parent, decision_s);
        there &= x->arrived;
    }
    for (uint32_t i = 0; i < all->n; i++)
        if (all->list[i].branch != BRANCH_NONE &&
            all->list[i].run.goal > furthest)
            furthest = all->list[i].run.goal;
    probe = probe_follow(&t->judge->probe, all->c, furthest);
    for (uint32_t i = 0; i < all->n && !probe; i++)
        all->list[i].arrived = false;
    return there && probe;
}

bool trial_run_overlaps(const struct trial_time *t)
{
    const struct trials *all = t->judge->trials;
    const struct trial *last = &all->list[all->n - 1];
    const struct branch *b = board_branch(all->c, last->branch);

    assert(all->n > 0);
    /* No decision reads a clock where trial lengths are given in clocks. */
    if (units_by_samples(all->c) || last->arrived || last->stopped ||
        last->run.goal_time < t->length)
        return false;
    for (uint32_t i = 0; i + 1 < all->n; i++)
        if (!all->list[i].arrived)
            return false;
    return board_latest_wait_s(all->c) > OVERLAP * t->length && b &&
           runner_queued(all->c, b, &last->run);
}
