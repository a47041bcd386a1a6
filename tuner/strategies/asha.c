/* Strategy `asha` (Li et al., MLSys 2020, algorithm 2): asynchronous successive
 * halving by promotion.
 *
 * Rung k is at r eta^k epochs. Whenever a place is free: a trial that is in the
 * best 1 / eta of the results recorded at its rung and was not promoted yet
 * goes on to the next rung, the highest rung first; where there is none, a new
 * setting begins. A promotion continues a paused branch. `concurrent` trials
 * share the machine in turns, as the paper's workers do. */
#include "base/mem.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_alone.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    ASHA_RUNGS_MAX = 20,
    ASHA_TRIALS = 64 /* unless the user says how many */
};

struct asha {
    struct board *c;
    struct contest ct;
    uint32_t min_resource, max_resource, eta, concurrent;
    uint32_t rungs; /* 1 .. ASHA_RUNGS_MAX */
    double (
        *result)[ASHA_RUNGS_MAX]; /* owned, [ct.trials.max]: score at each rung;
                                   * INFINITY: diverged or failed there */
    uint32_t job[TRIALS_LIVE_MAX]; /* [concurrent] trials; 0: free */
    uint32_t winner;
    bool training;
};

static void asha_close(void *state)
{
    struct asha *a = state;

    if (!a)
        return;
    contest_deinit(&a->ct);
    mem_free(a->result);
    mem_free(a);
}

static uint32_t count(const json_t *settings, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(settings, name));
}

static enum err read_settings(struct asha *a, const json_t *settings,
                              struct fault *f)
{
    uint64_t epochs;

    a->min_resource = count(settings, "min_resource");
    a->max_resource = count(settings, "max_resource");
    a->eta = count(settings, "eta");
    a->concurrent = count(settings, "concurrent");
    contest_unit(&a->ct, settings);
    if (a->max_resource == 0 && a->ct.unit_clocks)
        return fault_set(f, ERR_INVAL,
                         "strategy_settings: max_resource must be given where "
                         "the unit is clocks");
    if (a->max_resource == 0)
        a->max_resource = board_limits(a->c).max_epochs;
    if (a->max_resource < a->min_resource)
        return fault_set(f, ERR_INVAL,
                         "strategy_settings: max_resource (%u) must not "
                         "be below min_resource (%u)",
                         a->max_resource, a->min_resource);
    for (epochs = a->min_resource;
         epochs <= a->max_resource && a->rungs < ASHA_RUNGS_MAX; a->rungs++)
        epochs *= a->eta;
    contest_searcher(a->c, settings);
    return ERR_OK;
}

static enum err asha_open(struct board *c, const json_t *settings, void **state,
                          struct fault *f)
{
    struct asha *a = mem_calloc(1, sizeof(*a));
    json_t *own = NULL;
    enum err err;

    if (!a)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    a->c = c;
    err = choice_settings(&strategy_asha, settings, &own, f);
    if (!err)
        err = contest_init(&a->ct, c, f);
    if (!err)
        err = read_settings(a, own, f);
    json_decref(own);
    if (err)
        asha_close(a);
    else
        *state = a;
    return err;
}

/* ---- rungs --------------------------------------------------------------- */

static uint32_t goal(const struct asha *a, uint32_t rung)
{
    uint32_t epochs = a->min_resource;

    assert(rung < a->rungs);
    for (uint32_t i = 0; i < rung; i++)
        epochs *= a->eta;
    return epochs;
}

/* Results recorded at @rung; and how many of them are better than @x's. */
static uint32_t recorded(const struct asha *a, uint32_t rung,
                         const struct contestant *x, uint32_t *better)
{
    const double *own = x ? a->result[contest_index(&a->ct, x)] : NULL;
    uint32_t n = 0;

    assert(rung < a->rungs);
    *better = 0;
    for (uint32_t i = 0; i < a->ct.trials.n; i++) {
        if (a->ct.x[i].rung <= rung)
            continue;
        n++;
        if (own && (a->result[i][rung] < own[rung] ||
                    (a->result[i][rung] == own[rung] &&
                     contest_number(&a->ct.x[i]) < contest_number(x))))
            ++*better;
    }
    return n;
}

/* Number of results that rung @rung will have at most. */
static uint32_t at_most(const struct asha *a, uint32_t rung)
{
    uint32_t n = contest_spent(&a->ct) ? a->ct.trials.n : a->ct.trials.max;

    for (uint32_t i = 0; i < rung; i++)
        n /= a->eta;
    return n;
}

/* Has run rung @rung, and waits there. */
static bool waits_at(const struct contestant *x, uint32_t rung)
{
    return !x->out && !x->running && x->rung == rung + 1;
}

/* A trial that is to be promoted; NULL: none. */
static struct contestant *promotable(struct asha *a)
{
    for (uint32_t rung = a->rungs - 1; rung-- > 0;)
        for (uint32_t i = 0; i < a->ct.trials.n; i++) {
            struct contestant *x = &a->ct.x[i];
            uint32_t better, n;

            if (!waits_at(x, rung))
                continue;
            n = recorded(a, rung, x, &better);
            if (better < n / a->eta && isfinite(a->result[i][rung]))
                return x;
        }
    return NULL;
}

/* The trial with the best latest result; NULL: none has any. */
static struct contestant *best_of_all(struct asha *a)
{
    struct contestant *best = NULL;

    for (uint32_t i = 0; i < a->ct.trials.n; i++) {
        struct contestant *x = &a->ct.x[i];

        if (!x->out && x->rung > 0 && (!best || contest_before(x, best)))
            best = x;
    }
    return best;
}

/* Frees the branches of those that can never be promoted: results of a rung
 * only ever move down in rank. The best of all stays. */
static void trim(struct asha *a)
{
    struct contestant *best = best_of_all(a);

    a->ct.champion = best ? contest_number(best) : 0;
    for (uint32_t i = 0; i < a->ct.trials.n; i++) {
        struct contestant *x = &a->ct.x[i];
        uint32_t rung = x->rung - 1, better;

        if (x == best || x->rung == 0 || !waits_at(x, rung))
            continue;
        recorded(a, rung, x, &better);
        if (rung + 1 >= a->rungs || better >= at_most(a, rung) / a->eta)
            contest_drop(&a->ct, x, "others of its rung are better");
    }
}

/* ---- jobs ---------------------------------------------------------------- */

static void promote(struct asha *a, struct contestant *x)
{
    struct record_decision *d = board_decision(
        a->c, "promotion", "trial %u is promoted to rung %u: up to %u %s",
        contest_number(x), x->rung + 1, goal(a, x->rung), a->ct.unit);

    assert(!x->out && !x->running);
    board_decision_number(d, "rung", x->rung + 1);
    board_decision_number(d, "resource", goal(a, x->rung));
    board_decision_number(d, "result", board_result(a->c, x->score));
    x->running = true;
}

/* Something for a free place; NULL: nothing now. */
static struct contestant *next_job(struct asha *a)
{
    struct contestant *x = promotable(a);

    if (x)
        promote(a, x);
    else
        x = contest_begin(&a->ct);
    return x;
}

/* Takes a job as far as it goes. True when its place is free again. */
static bool job_over(struct asha *a, struct contestant *x)
{
    enum contest_state state = contest_run(&a->ct, x, goal(a, x->rung));

    assert(x->rung < a->rungs);
    if (state == CONTEST_BUSY || lifecycle_ends(a->c))
        return false;
    a->result[contest_index(&a->ct, x)][x->rung] =
        state == CONTEST_ARRIVED && isfinite(x->score) ? x->score : INFINITY;
    x->rung++;
    contest_judge(&a->ct, x);
    trim(a);
    return true;
}

/* Where memory is short, fewer run at the same time. */
static void share_memory(struct asha *a)
{
    if (contest_shortages(&a->ct) == 0 || a->concurrent == 1)
        return;
    a->concurrent--;
    board_decision(a->c, "memory", "memory is short: %u trials at a time",
                   a->concurrent);
}

/* One round over all places. True if any was freed. */
static bool run_jobs(struct asha *a)
{
    bool freed = false;

    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++) {
        struct contestant *x;

        share_memory(a);
        if (!a->job[i] && i < a->concurrent) {
            x = next_job(a);
            a->job[i] = x ? contest_number(x) : 0;
        }
        if (a->job[i] && job_over(a, contest_trial(&a->ct, a->job[i]))) {
            a->job[i] = 0;
            freed = true;
        }
        if (lifecycle_ends(a->c))
            return false;
    }
    return freed;
}

static bool idle(const struct asha *a)
{
    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++)
        if (a->job[i])
            return false;
    return true;
}

static void finish(struct asha *a)
{
    struct contestant *winner = best_of_all(a);

    assert(!a->training);
    contest_end(&a->ct, winner, "no trial is left to promote");
    a->training = true;
    a->winner = winner ? contest_number(winner) : 0;
    if (!winner)
        contest_failed(&a->ct);
}

static bool start(struct asha *a)
{
    struct board *c = a->c;
    uint32_t max = board_max_trials(c) ? board_max_trials(c) : ASHA_TRIALS;

    if (!contest_start(&a->ct, max, "rungs of settings"))
        return false;
    if (!a->result)
        a->result = mem_calloc(a->ct.trials.max, sizeof(*a->result));
    if (!a->result)
        board_retry(c);
    return a->result != NULL;
}

static void asha_advance(void *state)
{
    struct asha *a = state;
    struct board *c = a->c;

    if (contest_trains_adopted(&a->ct) || !start(a))
        return;
    while (!a->training && run_jobs(a))
        ;
    if (lifecycle_ends(c))
        return;
    if (!a->training && contest_spent(&a->ct) && idle(a) && !promotable(a))
        finish(a);
    if (a->training && !lifecycle_ends(c))
        contest_train(&a->ct, contest_trial(&a->ct, a->winner));
}

static enum err asha_adopt(void *state, branch_id branch)
{
    struct asha *a = state;

    return contest_adopt(&a->ct, branch);
}

static enum err asha_save(void *state, branch_id *branch, json_t **out)
{
    const struct asha *a = state;

    return contest_save(&a->ct, branch, out);
}

static enum err asha_restore(void *state, const json_t *saved, branch_id branch)
{
    struct asha *a = state;

    return contest_restore(&a->ct, saved, branch);
}

const struct strategy_ops strategy_asha = {
    .name = "asha",
    .summary = "asynchronous successive halving: the best of each rung are "
               "promoted to longer training (Li et al. 2020; resumed "
               "within the search it begins anew)",
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"min_resource\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 100000, \"default\": 1, \"description\": \"r: units of "
        "the lowest rung\"}, "
        "\"max_resource\": {\"type\": \"integer\", \"minimum\": 0, "
        "\"maximum\": 100000, \"default\": 0, \"description\": \"R: no rung "
        "is above so many units; 0: stop.max_epochs\"}, "
        "\"eta\": {\"type\": \"integer\", \"minimum\": 2, \"maximum\": 100, "
        "\"default\": 4, \"description\": \"one in so many is promoted, to "
        "so many times the resource\"}, "
        "\"concurrent\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 16, \"default\": 4, \"description\": \"trials that "
        "share the machine in turns\"}, " CONTEST_SETTINGS "}}",
    .proposer = PROPOSER_SAMPLING,
    .open = asha_open,
    .close = asha_close,
    .advance = asha_advance,
    .adopt = asha_adopt,
    .save = asha_save,
    .restore = asha_restore,
};
