/* Strategy `fixed`: trains with one setting, searches nothing.
 *
 * The setting is `initial` where it is given, else every tunable's default. */
#include "base/mem.h"
#include "searchers/space_json.h"
#include "tuner/choice.h"
#include "tuner/line.h"
#include "tuner/plateau.h"
#include "tuner/stops.h"
#include "tuner/strategy.h"

#include <assert.h>
#include <string.h>

struct fixed {
    struct board *c;
    struct setting setting;
    json_t *json;
    bool running;
    branch_id branch;
    struct line line;
    struct plateau plateau;
};

static void fixed_close(void *state)
{
    struct fixed *s = state;

    if (!s)
        return;
    json_decref(s->json);
    mem_free(s);
}

static enum err fixed_open(struct board *c, const json_t *settings,
                           void **state, struct fault *f)
{
    struct fixed *s = mem_calloc(1, sizeof(*s));
    enum err err;

    (void)settings;
    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    s->c = c;
    s->branch = BRANCH_NONE;
    plateau_init(&s->plateau, c->options.plateau_epochs);
    err = choice_initial(c, &s->setting, f);
    if (err)
        goto fail;
    s->json = setting_to_json(&c->space, &s->setting);
    if (!s->json) {
        err = fault_set(f, ERR_NOMEM, "no memory for a strategy");
        goto fail;
    }
    *state = s;
    return ERR_OK;

fail:
    fixed_close(s);
    return err;
}

/* Forks the training branch; true once it is there. */
static bool begin(struct fixed *s)
{
    struct board *c = s->c;
    struct branch *b = board_branch(c, s->branch);

    if (!b) {
        board_set_status(c, RUN_TRAINING, "training with a fixed setting");
        b = board_fork(c, board_branch(c, 0), BRANCH_TRAINING, &s->setting,
                       s->json, "training");
        assert(b);
        s->branch = b->id;
    }
    if (b->state == BRANCH_REFUSED)
        board_end(c, RUN_FAILED, "limit",
                  "no memory for a second copy of the model: %s",
                  err_text(b->error));
    if (b->state != BRANCH_LIVE)
        return false;
    choice_record(c, b, "the strategy is fixed");
    c->base = b->id;
    line_init(&s->line, c, b->id, true);
    s->running = true;
    return true;
}

static void take_epoch(struct fixed *s, const struct line_epoch *e)
{
    struct board *c = s->c;
    bool best = board_is_better(c, e->e.loss, e->metric);

    line_record(&s->line, e, true, best);
    if (best && s->line.kept != BRANCH_NONE)
        board_set_best(c, s->line.kept, &e->e, e->metric);
    plateau_add(&s->plateau, board_score(c, e->e.loss, e->metric));
    if (stops_check(c, e))
        return;
    if (plateau_reached(&s->plateau))
        stops_converged(c, &s->plateau);
    else
        line_go(&s->line);
}

static void fixed_advance(void *state)
{
    struct fixed *s = state;
    struct board *c = s->c;
    struct line_epoch e;
    enum line_state now;

    if (!s->running && !begin(s))
        return;
    board_set_status(c, RUN_TRAINING, "training with a fixed setting");
    do {
        s->line.ahead = stops_impossible(c, s->line.epochs + 1, &s->plateau);
        now = line_advance(&s->line, &e);
        if (now == LINE_EPOCH)
            take_epoch(s, &e);
    } while (now == LINE_EPOCH && c->ending.phase == ENDING_NOT);
    if (now == LINE_BROKEN)
        choice_broken(c, board_branch(c, s->branch));
}

const struct strategy_ops strategy_fixed = {
    .name = "fixed",
    .summary = "trains with one setting and tunes nothing",
    .settings = "{}",
    .open = fixed_open,
    .close = fixed_close,
    .advance = fixed_advance,
};
