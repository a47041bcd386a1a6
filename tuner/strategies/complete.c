/* Strategy `complete`: each setting is trained from the start to its end, and
 * only then is the searcher told how good it was.
 *
 * The way of Spearmint (Snoek et al. 2012) and of most tuners: Bayesian
 * optimization over whole runs. A trial ends as a run does, on a plateau or
 * after max_epochs, and its quality is the best validation metric (else loss)
 * that it had. One after another, so that each proposal knows all results. */
#include "base/mem.h"
#include "searchers/searcher.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/contest_alone.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

struct complete {
    struct board *c;
    struct contest ct;
    struct contestant *x; /* runs; NULL: the next is to begin */
    uint32_t best;        /* trial of the best quality; 0: none */
};

static void complete_close(void *state)
{
    struct complete *s = state;

    if (!s)
        return;
    contest_deinit(&s->ct);
    mem_free(s);
}

static enum err complete_open(struct board *c, const json_t *settings,
                              void **state, struct fault *f)
{
    struct complete *s = mem_calloc(1, sizeof(*s));
    enum err err;

    (void)settings;
    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    s->c = c;
    err = contest_init(&s->ct, c, f);
    if (err)
        complete_close(s);
    else
        *state = s;
    return err;
}

/* The trial that runs is over: it is judged by its best epoch. */
static void compare(struct complete *s, enum contest_state state)
{
    struct contestant *x = s->x, *old;
    struct record_decision *d;

    assert(x);
    s->x = NULL;
    contest_judge(&s->ct, x);
    if (state == CONTEST_OUT)
        return;
    d = board_decision(s->c, "complete",
                       "trial %u is trained to its end after %u epochs",
                       contest_number(x), x->last.e.epoch);
    board_decision_number(d, "epochs", x->last.e.epoch);
    if (!isnan(x->best))
        board_decision_number(d, "result", board_result(s->c, x->best));
    /* It cannot go on, and its best model is kept if it is the best of all. */
    contest_drop(&s->ct, x, "it is trained to its end");
    old = s->best ? contest_trial(&s->ct, s->best) : NULL;
    if (!old || isnan(old->best) || x->best < old->best)
        s->best = contest_number(x);
}

static void finish(struct complete *s)
{
    struct board *c = s->c;
    struct contestant *winner = s->best ? contest_trial(&s->ct, s->best) : NULL;
    char text[128];

    assert(!s->x);
    snprintf(text, sizeof(text), "all %u settings were trained to their ends",
             s->ct.trials.n);
    contest_end(&s->ct, winner, text);
    if (winner)
        lifecycle_end(c, RUN_FINISHED,
                      plateau_reached(&winner->plateau) ? "converged"
                                                        : "max_epochs",
                      "%s: trial %u is the best", text, contest_number(winner));
    else
        contest_failed(&s->ct);
}

static void complete_advance(void *state)
{
    struct complete *s = state;
    struct board *c = s->c;
    uint32_t max = 12 + 6 * (uint32_t)space_dims(board_space(c));
    enum contest_state now;

    if (board_max_trials(c))
        max = board_max_trials(c);
    if (contest_trains_adopted(&s->ct))
        return;
    if (!contest_start(&s->ct, max, "settings trained to their ends"))
        return;
    while (!lifecycle_ends(c)) {
        if (!s->x)
            s->x = contest_begin(&s->ct);
        if (!s->x)
            break;
        now = contest_run(&s->ct, s->x, CONTEST_TO_THE_END);
        if (now == CONTEST_BUSY)
            return;
        compare(s, now);
    }
    if (!lifecycle_ends(c) && contest_spent(&s->ct))
        finish(s);
}

static enum err complete_adopt(void *state, branch_id branch)
{
    struct complete *s = state;

    return contest_adopt(&s->ct, branch);
}

static enum err complete_save(void *state, branch_id *branch, json_t **out)
{
    const struct complete *s = state;

    return contest_save(&s->ct, branch, out);
}

static enum err complete_restore(void *state, const json_t *saved,
                                 branch_id branch)
{
    struct complete *s = state;

    return contest_restore(&s->ct, saved, branch);
}

const struct strategy_ops strategy_complete = {
    .name = "complete",
    .summary = "trains each setting to its end and tells the searcher its "
               "final quality (Snoek et al. 2012; resumed "
               "within the search it begins anew)",
    .settings = "{}",
    .open = complete_open,
    .close = complete_close,
    .advance = complete_advance,
    .adopt = complete_adopt,
    .save = complete_save,
    .restore = complete_restore,
};
