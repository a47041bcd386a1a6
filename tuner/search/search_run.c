#include "tuner/search/search_run.h"

#include <assert.h>

/* Time is samples where the trial lengths are given in clocks. */
bool search_by_samples(const struct search *s)
{
    return board_options(s->c)->trial_clocks > 0;
}

/* Units of position that a branch has run since its fork, and will have when
 * its slices are over. */
uint64_t search_units_run(const struct search *s, const struct branch *b)
{
    return board_system(s->c)->parts ? b->own_clocks : b->own_samples;
}

static uint64_t units_planned(const struct search *s, const struct branch *b)
{
    uint64_t units = board_units(s->c);
    uint64_t now = board_system(s->c)->parts ? b->now.clocks : b->now.samples;

    return search_units_run(s, b) + (b->plan_epochs - b->epochs) * units +
           b->plan - now;
}

double search_time_of(const struct search *s, const struct branch *b)
{
    return search_by_samples(s) ? (double)b->own_samples : b->trace.seconds;
}

static uint64_t clock_units(const struct search *s,
                            const struct setting *setting)
{
    uint64_t n;

    if (board_system(s->c)->parts)
        return 1;
    n = board_samples_per_clock(s->c, setting);
    return n ? n : 1;
}

/* Largest number of units that a clock of any setting takes. */
uint64_t search_largest_clock(const struct search *s)
{
    int i = space_find(&s->space, "batch_size");
    struct setting setting;

    space_default(&s->space, &setting);
    if (i >= 0 && !board_system(s->c)->parts) {
        const struct tunable *t = &s->space.tunable[i];

        setting.value[i] = t->fixed ? t->pinned : t->max;
    }
    return clock_units(s, &setting);
}

/* Clocks a window of @setting takes: windows of siblings hold equal samples. */
static uint64_t window_clocks(const struct search *s,
                              const struct setting *setting)
{
    uint64_t step = clock_units(s, setting);
    uint64_t clocks = (s->window + step / 2) / step;

    return clocks ? clocks : 1;
}

/* Clocks that are missing to the end of the window that is begun in the running
 * epoch; 0: none is. */
static uint64_t windows_begun(const struct branch *b, uint64_t step,
                              uint64_t every)
{
    uint64_t clocks = b->plan / step;

    return clocks % every ? every - clocks % every : 0;
}

bool runner_queued(struct search *s, const struct runner *r)
{
    const struct branch *b = board_branch(s->c, r->branch);

    return b && b->state == BRANCH_LIVE && b->slices > 0 &&
           units_planned(s, b) >= r->goal;
}

/* Where the next slice ends at the latest. */
static uint64_t piece_end(const struct search *s, const struct runner *r,
                          const struct branch *b)
{
    uint64_t from = units_planned(s, b);
    uint64_t piece = from == 0 ? r->first : r->piece;

    return piece == 0 || from + piece > r->goal ? r->goal : from + piece;
}

/* Queues slices up to the goal. */
enum runner_state runner_advance(struct search *s, struct runner *r)
{
    const struct branch *b = board_branch(s->c, r->branch);
    uint64_t step, every;
    uint32_t slices;

    assert(b);
    if (b->state == BRANCH_FORKING)
        return RUNNER_BUSY;
    if (b->state == BRANCH_REFUSED || b->nonfinite || b->error)
        return b->slices ? RUNNER_BUSY : RUNNER_BROKEN;
    if (b->after)
        return RUNNER_BUSY;
    step = clock_units(s, &b->setting);
    every = s->window ? window_clocks(s, &b->setting) : 1;
    /* While the size of a clock is not known: one slice at a time. */
    slices = board_samples_per_clock(s->c, &b->setting) ? 2 : 1;
    while (b->slices < slices && units_planned(s, b) < r->goal) {
        uint64_t count =
            (piece_end(s, r, b) - units_planned(s, b) + step - 1) / step;
        uint64_t odd = windows_begun(b, step, every);

        /* Siblings' windows end at the same samples: a window that was left
         * half done (by a cut, or before the size was known) is filled up. */
        count = odd ? odd : (count + every - 1) / every * every;
        board_run(s->c, b, count, every);
    }
    return b->slices ? RUNNER_BUSY : RUNNER_ARRIVED;
}
