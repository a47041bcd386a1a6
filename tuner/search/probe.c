#include "tuner/search/probe.h"

#include "searchers/space/space_json.h"
#include "tuner/core/lifecycle.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    PROBE_FINE = 40 /* windows aimed at in the shortest trial */
};

void probe_init(struct probe *p)
{
    memset(p, 0, sizeof(*p));
    p->branch = BRANCH_NONE;
}

static bool start(struct probe *p, struct board *c, branch_id parent,
                  const struct space *space, const struct setting *setting)
{
    const struct branch *b = NULL;
    struct setting defaults;
    json_t *json;

    assert(p->branch == BRANCH_NONE);
    space_default(space, &defaults);
    if (!setting)
        setting = &defaults;
    json = setting_to_json(space, setting);
    if (json)
        b = board_fork(c, board_branch(c, parent), BRANCH_PROBE, setting, json,
                       "probe");
    json_decref(json);
    if (!b) {
        board_retry(c);
        return false;
    }
    p->branch = branch_number(b);
    p->run.goal = 1; /* a clock: it tells how many samples a clock has */
    return true;
}

static void fail(struct board *c, const struct branch *b)
{
    bool passes = err_may_pass(branch_error(b));

    if (branch_is_refused(b))
        lifecycle_refused(c, branch_error(b), board_has_progress(c),
                          "a second copy of the model");
    else if (branch_is_nonfinite(b))
        lifecycle_end(c, RUN_FAILED, "diverged",
                      "the loss is not finite before any training");
    else
        lifecycle_end(c, passes ? RUN_INTERRUPTED : RUN_FAILED,
                      passes ? err_name(branch_error(b)) : "app",
                      "the training application failed: %.300s",
                      board_failure(c));
}

/* Windows of so many clocks that the shortest trial has a few times K of them,
 * as far as an epoch allows. */
static void set_window(struct probe *p, struct board *c)
{
    double floor_s =
        fmax(TRIAL_TIME_MIN_S, TRIAL_SWITCHES * board_switch_cost(c));

    assert(p->window > 0);
    if (units_by_samples(c))
        return;
    while (p->unit_s * (double)p->window * PROBE_FINE < floor_s &&
           p->window * 2 * PROBE_FINE <= board_units(c))
        p->window *= 2;
}

bool probe_advance(struct probe *p, struct board *c, branch_id parent,
                   const struct space *space, const struct setting *setting)
{
    const struct branch *b = board_branch(c, p->branch);
    enum runner_state state;

    assert(c && space);
    if (!b && !start(p, c, parent, space, setting))
        return false;
    b = board_branch(c, p->branch);
    state = runner_advance(c, b, &p->run, p->window);
    if (state == RUNNER_BROKEN)
        fail(c, b);
    if (state != RUNNER_ARRIVED)
        return false;
    /* The size of a clock is known by now: a whole window. */
    p->window = units_largest_clock(c, space);
    if (board_units_run(c, b) < p->window) {
        p->run.goal = p->window;
        if (runner_advance(c, b, &p->run, p->window) != RUNNER_ARRIVED)
            return false;
    }
    p->loss_before = branch_own_loss(b);
    p->unit_s = units_time(c, b) / (double)board_units_run(c, b);
    set_window(p, c);
    return true;
}

bool probe_follow(struct probe *p, struct board *c, uint64_t furthest)
{
    const struct branch *b = board_branch(c, p->branch);

    assert(p->window > 0);
    if (!b)
        return true;
    p->run.goal = furthest > p->window ? furthest : p->window;
    return runner_advance(c, b, &p->run, p->window) != RUNNER_BUSY;
}
