#include "tuner/search/search_probe.h"

#include "searchers/space/space_json.h"
#include "tuner/search/search_run.h"
#include "tuner/search/search_time.h"

static bool start_probe(struct search *s)
{
    struct board *c = s->c;
    const struct branch *parent = board_branch(c, s->plan.parent), *b;
    struct setting setting = s->plan.incumbent;
    json_t *json;

    if (!s->plan.has_incumbent)
        space_default(&s->space, &setting);
    json = setting_to_json(&s->space, &setting);
    b = json ? board_fork(c, parent, BRANCH_PROBE, &setting, json, "probe")
             : NULL;
    json_decref(json);
    if (!b) {
        board_retry(c);
        return false;
    }
    s->probe.branch = b->id;
    s->probe.goal = 1; /* a clock: it tells how many samples a clock has */
    return true;
}

static bool probe_done(struct search *s, const struct branch *b)
{
    s->loss_before = b->own_sum / (double)b->own_samples;
    s->unit_s = search_time_of(s, b) / (double)search_units_run(s, b);
    search_time_windows(s);
    return true;
}

/* True when the loss before the trials is known. */
bool search_probe_advance(struct search *s)
{
    struct board *c = s->c;
    const struct branch *b = board_branch(c, s->probe.branch);
    enum runner_state state;

    if (!b && !start_probe(s))
        return false;
    state = runner_advance(s, &s->probe);
    b = board_branch(c, s->probe.branch);
    if (state == RUNNER_BROKEN && b->state == BRANCH_REFUSED) {
        board_end(c, RUN_FAILED, "limit",
                  "no memory for a second copy of the model: %s",
                  err_text(b->error));
        return false;
    }
    if (state == RUNNER_BROKEN) {
        board_end(c, RUN_FAILED, b->nonfinite ? "diverged" : "app",
                  b->nonfinite ? "the loss is not finite before any training"
                               : "the training application failed: %.300s",
                  board_failure(c));
        return false;
    }
    if (state == RUNNER_BUSY)
        return false;
    s->window = search_largest_clock(s);
    if (search_units_run(s, b) < s->window) {
        s->probe.goal = s->window;
        return runner_advance(s, &s->probe) == RUNNER_ARRIVED &&
               probe_done(s, b);
    }
    return probe_done(s, b);
}

/* The probe goes on as far as any trial: what it reports is the choice of
 * samples alone, and is taken off the trials' traces. */
bool search_probe_follows(struct search *s)
{
    uint64_t furthest = s->window;
    const struct branch *b = board_branch(s->c, s->probe.branch);

    if (!b)
        return true;
    for (uint32_t i = 0; i < s->trials; i++)
        if (s->trial[i].run.branch != BRANCH_NONE &&
            s->trial[i].run.goal > furthest)
            furthest = s->trial[i].run.goal;
    s->probe.goal = furthest;
    return runner_advance(s, &s->probe) != RUNNER_BUSY;
}
