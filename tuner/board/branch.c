#include "tuner/board/branch.h"

#include <assert.h>

branch_id branch_number(const struct branch *b)
{
    return b->id;
}

bool branch_is_forking(const struct branch *b)
{
    return b->state == BRANCH_FORKING;
}

bool branch_is_refused(const struct branch *b)
{
    return b->state == BRANCH_REFUSED;
}

bool branch_is_live(const struct branch *b)
{
    return b->state == BRANCH_LIVE;
}

enum err branch_error(const struct branch *b)
{
    return b->error;
}

const char *branch_failure(const struct branch *b)
{
    return b->failure[0] ? b->failure : err_text(b->error);
}

bool branch_is_nonfinite(const struct branch *b)
{
    return b->nonfinite;
}

bool branch_waits(const struct branch *b)
{
    return b->after != 0;
}

bool branch_idle(const struct branch *b)
{
    return b->state == BRANCH_LIVE && b->slices == 0 && b->after == 0;
}

uint32_t branch_slices_out(const struct branch *b)
{
    return b->slices;
}

const struct setting *branch_setting(const struct branch *b)
{
    return &b->setting;
}

json_t *branch_json(const struct branch *b)
{
    return b->json;
}

uint64_t branch_clocks(const struct branch *b)
{
    return b->clocks;
}

uint32_t branch_epochs(const struct branch *b)
{
    return b->epochs;
}

uint64_t branch_own_clocks(const struct branch *b)
{
    return b->own_clocks;
}

uint64_t branch_own_samples(const struct branch *b)
{
    return b->own_samples;
}

double branch_own_loss(const struct branch *b)
{
    assert(b->own_samples > 0);
    return b->own_sum / (double)b->own_samples;
}

const struct trace *branch_trace(const struct branch *b)
{
    return &b->trace;
}

clock_no branch_began(const struct board *c, const struct branch *b)
{
    return b->scheduled ? b->first_clock : board_next_clock(c);
}

bool branch_is_copy(const struct branch *copy, const struct branch *b)
{
    return copy->parent == b->id && copy->clocks == b->clocks &&
           copy->increments == b->increments;
}

const struct epoch_result *branch_epoch(const struct branch *b, uint32_t epoch)
{
    const struct epoch_result *r = &b->result[epoch % BOARD_EPOCHS_KEPT];

    assert(r->epoch == epoch);
    return r;
}

bool branch_had_epoch(const struct branch *b, uint32_t epoch, double loss)
{
    const struct epoch_result *r = &b->result[epoch % BOARD_EPOCHS_KEPT];

    return r->epoch == epoch && r->loss == loss;
}

uint64_t board_units_run(const struct board *c, const struct branch *b)
{
    return board_has_parts(c) ? b->own_clocks : b->own_samples;
}

/* Where @b is, in units from its beginning; where it is planned to be. */
static uint64_t units_now(const struct board *c, const struct branch *b)
{
    return b->epochs * board_units(c) +
           (board_has_parts(c) ? b->now.clocks : b->now.samples);
}

static uint64_t units_meant(const struct board *c, const struct branch *b)
{
    return b->plan_epochs * board_units(c) + b->plan;
}

/* Slices may run ahead of what was planned: while the samples of a clock are
 * not known none are planned, and a foreign program may run more than it told.
 */
uint64_t board_units_planned(const struct board *c, const struct branch *b)
{
    uint64_t ran = units_now(c, b);
    uint64_t planned = board_units_run(c, b) + units_meant(c, b);

    return planned > ran ? planned - ran : 0;
}

bool board_plan_is_behind(const struct board *c, const struct branch *b)
{
    return units_meant(c, b) < units_now(c, b);
}

uint64_t branch_plan(const struct branch *b)
{
    return b->plan;
}
