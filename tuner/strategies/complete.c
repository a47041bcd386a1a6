/* Strategy `complete`: each setting is trained from the start to its end, and
 * only then is the searcher told how good it was.
 *
 * The way of Spearmint (Snoek et al. 2012) and of most tuners: Bayesian
 * optimization over whole runs. A trial ends as a run does, on a plateau or
 * after max_epochs, and its quality is the best validation metric (else loss)
 * that it had. One after another, so that each proposal knows all results.
 * Settings of the strategy let a pruner (tuner/strategies/pruner.h) give a
 * trial up before. */
#include "base/mem.h"
#include "searchers/searcher.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_alone.h"
#include "tuner/strategies/pruner.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct complete {
    struct board *c;
    struct contest ct;
    struct pruner pruner;
    struct contestant *x; /* runs; NULL: the next is to begin */
    uint32_t best;        /* trial of the best quality; 0: none */
};

static void complete_close(void *state)
{
    struct complete *s = state;

    if (!s)
        return;
    pruner_deinit(&s->pruner);
    contest_deinit(&s->ct);
    mem_free(s);
}

static uint32_t count(const json_t *settings, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(settings, name));
}

static void read_settings(struct pruner *p, const json_t *settings)
{
    const char *rule = json_string_value(json_object_get(settings, "pruner"));

    assert(rule);
    if (strcmp(rule, "median") == 0)
        p->rule = PRUNER_MEDIAN;
    else if (strcmp(rule, "halving") == 0)
        p->rule = PRUNER_HALVING;
    p->startup = count(settings, "startup");
    p->warmup = count(settings, "warmup");
    p->min_resource = count(settings, "min_resource");
    p->eta = count(settings, "eta");
}

static enum err complete_open(struct board *c, const json_t *settings,
                              void **state, struct fault *f)
{
    struct complete *s = mem_calloc(1, sizeof(*s));
    json_t *own = NULL;
    enum err err;

    if (!s)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    s->c = c;
    err = choice_settings(&strategy_complete, settings, &own, f);
    if (!err)
        err = contest_init(&s->ct, c, f);
    if (!err)
        read_settings(&s->pruner, own);
    json_decref(own);
    if (err)
        complete_close(s);
    else
        *state = s;
    return err;
}

/* Takes the trial under way as far as it goes: to its end, or to where it is
 * @pruned. */
static enum contest_state run(struct complete *s, bool *pruned)
{
    struct contestant *x = s->x;
    enum contest_state state;

    *pruned = false;
    if (s->pruner.rule == PRUNER_NONE)
        return contest_run(&s->ct, x, CONTEST_TO_THE_END);
    do {
        if (pruner_reserve(&s->pruner)) {
            board_retry(s->c);
            return CONTEST_BUSY;
        }
        state = contest_run(&s->ct, x, x->line.epochs + 1);
        if (state == CONTEST_BUSY || lifecycle_ends(s->c))
            return CONTEST_BUSY;
        *pruned = state == CONTEST_ARRIVED &&
                  pruner_epoch(&s->pruner, x->score) && !x->over;
    } while (state == CONTEST_ARRIVED && !x->over && !*pruned);
    pruner_over(&s->pruner, state == CONTEST_ARRIVED && !*pruned);
    return state;
}

/* The trial that runs is over: it is judged by its best epoch. */
static void compare(struct complete *s, enum contest_state state, bool pruned)
{
    struct contestant *x = s->x, *old;
    struct record_decision *d;

    assert(x);
    s->x = NULL;
    contest_judge(&s->ct, x);
    if (state == CONTEST_OUT)
        return;
    d = board_decision(
        s->c, "complete", "trial %u is %s after %u epochs", contest_number(x),
        pruned ? "pruned" : "trained to its end", x->last.e.epoch);
    board_decision_number(d, "epochs", x->last.e.epoch);
    if (!isnan(x->best))
        board_decision_number(d, "result", board_result(s->c, x->best));
    /* It cannot go on, and its best model is kept if it is the best of all. */
    contest_drop(&s->ct, x,
                 pruned ? "the others were better by then"
                        : "it is trained to its end");
    old = s->best ? contest_trial(&s->ct, s->best) : NULL;
    if (!old || isnan(old->best) || x->best < old->best)
        s->best = contest_number(x);
}

static void finish(struct complete *s)
{
    struct contestant *winner = s->best ? contest_trial(&s->ct, s->best) : NULL;
    char text[128];

    assert(!s->x);
    snprintf(text, sizeof(text), "all %u settings were %s",
             contest_begun(&s->ct),
             s->pruner.rule == PRUNER_NONE ? "trained to their ends"
                                           : "trained or pruned");
    contest_finish(&s->ct, winner, text);
}

static void complete_advance(void *state)
{
    struct complete *s = state;
    struct board *c = s->c;
    uint32_t max = 12 + 6 * (uint32_t)space_dims(board_space(c));
    enum contest_state now;
    bool pruned;

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
        now = run(s, &pruned);
        if (now == CONTEST_BUSY)
            return;
        compare(s, now, pruned);
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
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"pruner\": {\"enum\": [\"none\", \"median\", \"halving\"], "
        "\"default\": \"none\", \"description\": \"by what rule a trial is "
        "given up before its end: none; worse than the median of those before "
        "it; not in the best part of a rung\"}, "
        "\"startup\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 1000, \"default\": 5, \"description\": \"median: "
        "trials that are trained to their ends first\"}, "
        "\"warmup\": {\"type\": \"integer\", \"minimum\": 0, "
        "\"maximum\": 100000, \"default\": 0, \"description\": \"median: "
        "epochs in which no trial is given up\"}, "
        "\"min_resource\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 100000, \"default\": 1, \"description\": \"halving: "
        "epochs of the lowest rung\"}, "
        "\"eta\": {\"type\": \"integer\", \"minimum\": 2, \"maximum\": 100, "
        "\"default\": 4, \"description\": \"halving: one in so many goes on, "
        "to so many times the epochs\"}}}",
    .open = complete_open,
    .close = complete_close,
    .advance = complete_advance,
    .adopt = complete_adopt,
    .save = complete_save,
    .restore = complete_restore,
};
