#include "tuner/core/stops.h"

#include "tuner/board/run.h"
#include "tuner/core/lifecycle.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PLATEAU_EPOCHS_MAX = 20 }; /* that plateau_samples may ask for */

static bool metric_reached(const struct board *c, double metric)
{
    double target = board_limits(c).target_metric;

    if (isnan(target) || isnan(metric))
        return false;
    return board_system(c)->metric_higher_better ? metric >= target
                                                 : metric <= target;
}

bool stops_target(const struct board *c, const struct training_epoch *e)
{
    /* A NAN target compares false. */
    return e->e.loss <= board_limits(c).target_loss ||
           metric_reached(c, e->metric);
}

bool stops_check(struct board *c, const struct training_epoch *e)
{
    if (stops_target(c, e)) {
        bool loss = e->e.loss <= board_limits(c).target_loss;

        lifecycle_end(c, RUN_FINISHED, "target", "the target %s is reached: %g",
                      loss ? "loss" : "metric", loss ? e->e.loss : e->metric);
        return true;
    }
    if (e->e.epoch >= board_limits(c).max_epochs) {
        lifecycle_end(c, RUN_FINISHED, "max_epochs", "%u epochs are over",
                      e->e.epoch);
        return true;
    }
    return false;
}

static bool counts_hits(const struct msg_ready *m)
{
    return m->validation_samples > 0 && m->metric_higher_better &&
           strcmp(m->metric_reduction, "mean") == 0;
}

/* An epoch of a small table is a few dozen steps: five of them show nothing. */
uint32_t stops_patience(const struct board *c)
{
    const struct msg_ready *m = board_system(c);
    uint64_t given = board_limits(c).plateau_epochs;
    uint64_t wanted = run_options(c)->plateau_samples / m->samples;

    assert(m->samples > 0);
    if ((counts_hits(m) && !run_options(c)->plateau_hits) || wanted <= given)
        return (uint32_t)given;
    if (wanted > PLATEAU_EPOCHS_MAX)
        wanted = PLATEAU_EPOCHS_MAX;
    return (uint32_t)(wanted > given ? wanted : given);
}

bool stops_epochs_are_short(const struct board *c)
{
    return stops_patience(c) > board_limits(c).plateau_epochs;
}

void stops_converged(struct board *c, const struct plateau *p)
{
    assert(p->since > 0);
    lifecycle_end(c, RUN_FINISHED, "converged",
                  "no improvement of %s by 0.1 %% in %u epochs",
                  board_validates(c) ? "the validation metric" : "the loss",
                  p->since);
}

void stops_cooled(struct board *c, uint32_t epochs, uint32_t of)
{
    const char *what =
        board_validates(c) ? "the validation metric" : "the loss";

    assert(epochs >= 1);
    if (epochs < of)
        lifecycle_end(c, RUN_FINISHED, "converged",
                      "no improvement of %s at a steady learning rate, nor in "
                      "%u of the %u epochs of a cooldown, which is given up",
                      what, epochs, of);
    else
        lifecycle_end(c, RUN_FINISHED, "converged",
                      "no improvement of %s at a steady learning rate, and a "
                      "cooldown of %u epoch%s is over",
                      what, epochs, epochs == 1 ? "" : "s");
}

void stops_out_of_time(struct board *c, double epoch_s, double left_s)
{
    lifecycle_end(
        c, RUN_FINISHED, "max_time",
        "of %g s %.3g are left, and an epoch takes %.3g: the cooldown "
        "is over",
        board_limits(c).max_time_s, fmax(left_s, 0), epoch_s);
}

bool stops_impossible(const struct board *c, uint32_t epoch,
                      const struct plateau *p)
{
    uint32_t worst = p->since + 1;

    assert(p->limit > 0);
    return isnan(board_limits(c).target_loss) &&
           isnan(board_limits(c).target_metric) &&
           epoch < board_limits(c).max_epochs && worst < p->limit &&
           (worst + 1 < p->limit || p->searched);
}
