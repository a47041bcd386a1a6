#include "tuner/search/runner.h"

#include <assert.h>

bool units_by_samples(const struct board *c)
{
    return board_options(c)->trial_clocks > 0;
}

uint64_t units_run(const struct board *c, const struct branch *b)
{
    return board_system(c)->parts ? b->own_clocks : b->own_samples;
}

double units_time(const struct board *c, const struct branch *b)
{
    return units_by_samples(c) ? (double)b->own_samples : b->trace.seconds;
}

static uint64_t clock_units(const struct board *c,
                            const struct setting *setting)
{
    uint64_t n;

    if (board_system(c)->parts)
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
    if (i >= 0 && !board_system(c)->parts) {
        const struct tunable *t = &space->tunable[i];

        setting.value[i] = t->fixed ? t->pinned : t->max;
    }
    return clock_units(c, &setting);
}

/* Units that a branch will have run when its slices are over. */
static uint64_t units_planned(const struct board *c, const struct branch *b)
{
    uint64_t now = board_system(c)->parts ? b->now.clocks : b->now.samples;

    assert(b->plan_epochs >= b->epochs);
    return units_run(c, b) + (b->plan_epochs - b->epochs) * board_units(c) +
           b->plan - now;
}

bool runner_queued(const struct board *c, const struct branch *b,
                   const struct runner *r)
{
    assert(b);
    return b->state == BRANCH_LIVE && b->slices > 0 &&
           units_planned(c, b) >= r->goal;
}

/* Position where the next slice ends at the latest. */
static uint64_t piece_end(const struct board *c, const struct runner *r,
                          const struct branch *b)
{
    uint64_t from = units_planned(c, b);
    uint64_t piece = from == 0 ? r->first : r->piece;

    return piece == 0 || from + piece > r->goal ? r->goal : from + piece;
}

/* Clocks of the next slice: whole windows of @every clocks of @step units. */
static uint64_t next_clocks(const struct board *c, const struct runner *r,
                            const struct branch *b, uint64_t step,
                            uint64_t every)
{
    uint64_t odd = b->plan / step % every;
    uint64_t left = piece_end(c, r, b) - units_planned(c, b);

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
    if (b->state == BRANCH_FORKING)
        return RUNNER_BUSY;
    if (b->state == BRANCH_REFUSED || b->nonfinite || b->error)
        return b->slices ? RUNNER_BUSY : RUNNER_BROKEN;
    if (b->after)
        return RUNNER_BUSY;
    step = clock_units(c, &b->setting);
    /* Windows of siblings hold equal samples, as far as clocks allow. */
    every = window ? (window + step / 2) / step : 1;
    if (every == 0)
        every = 1;
    /* While the size of a clock is not known: one slice at a time. */
    slices = board_samples_per_clock(c, &b->setting) ? 2 : 1;
    while (b->slices < slices && units_planned(c, b) < r->goal)
        board_run(c, b, next_clocks(c, r, b, step, every), every);
    return b->slices ? RUNNER_BUSY : RUNNER_ARRIVED;
}
