#include "tuner/search/runner.h"

#include <assert.h>

bool units_by_samples(const struct board *c)
{
    return board_trial_clocks(c) > 0;
}

double units_time(const struct board *c, const struct branch *b)
{
    return units_by_samples(c) ? (double)branch_own_samples(b)
                               : branch_trace(b)->seconds;
}

static uint64_t clock_units(const struct board *c,
                            const struct setting *setting)
{
    uint64_t n;

    if (board_has_parts(c))
        return 1;
    n = board_samples_per_clock(c, setting);
    return n ? n : 1;
}

uint64_t units_largest_clock(const struct board *c, const struct space *space)
{
    int i = space_find(space, "batch_size");
    struct setting setting;

    assert(space->len <= TUNABLES_MAX);
    space_default(space, &setting);
    if (i >= 0 && !board_has_parts(c)) {
        const struct tunable *t = &space->tunable[i];

        setting.value[i] = t->fixed ? t->pinned : t->max;
    }
    return clock_units(c, &setting);
}

bool runner_queued(const struct board *c, const struct branch *b,
                   const struct runner *r)
{
    assert(b);
    return branch_is_live(b) && branch_slices_out(b) > 0 &&
           board_units_planned(c, b) >= r->goal;
}

/* Position where the next slice ends at the latest. */
static uint64_t piece_end(const struct board *c, const struct runner *r,
                          const struct branch *b)
{
    uint64_t from = board_units_planned(c, b);
    uint64_t piece = from == 0 ? r->first : r->piece;

    return piece == 0 || from + piece > r->goal ? r->goal : from + piece;
}

/* Clocks of the next slice: whole windows of @every clocks of @step units. */
static uint64_t next_clocks(const struct board *c, const struct runner *r,
                            const struct branch *b, uint64_t step,
                            uint64_t every)
{
    uint64_t odd = branch_plan(b) / step % every;
    uint64_t left = piece_end(c, r, b) - board_units_planned(c, b);

    assert(step > 0 && every > 0);
    /* Siblings' windows end at the same samples: a window that was left half
     * done (by a cut, or before the size was known) is filled up. */
    if (odd)
        return every - odd;
    return ((left + step - 1) / step + every - 1) / every * every;
}

enum runner_state runner_advance(struct board *c, const struct branch *b,
                                 const struct runner *r, uint64_t window)
{
    uint64_t step, every;
    uint32_t slices;

    assert(b);
    assert(r->goal > 0);
    if (branch_is_forking(b))
        return RUNNER_BUSY;
    if (branch_is_refused(b) || branch_is_nonfinite(b) || branch_error(b))
        return branch_slices_out(b) ? RUNNER_BUSY : RUNNER_BROKEN;
    if (branch_waits(b))
        return RUNNER_BUSY;
    step = clock_units(c, branch_setting(b));
    /* Windows of siblings hold equal samples, as far as clocks allow. */
    every = window ? (window + step / 2) / step : 1;
    if (every == 0)
        every = 1;
    /* While the size of a clock is not known: one slice at a time. */
    slices = board_samples_per_clock(c, branch_setting(b)) ? 2 : 1;
    while (branch_slices_out(b) < slices && board_units_planned(c, b) < r->goal)
        board_run(c, b, next_clocks(c, r, b, step, every), every);
    return branch_slices_out(b) ? RUNNER_BUSY : RUNNER_ARRIVED;
}
