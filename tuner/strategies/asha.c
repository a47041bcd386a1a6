/* Strategy `asha` (Li et al., MLSys 2020, algorithm 2): asynchronous successive
 * halving by promotion.
 *
 * Rung k is at r eta^k epochs. Whenever a place is free: a trial that is in the
 * best 1 / eta of the results recorded at its rung and was not promoted yet
 * goes on to the next rung, the highest rung first; where there is none, a new
 * setting begins. A promotion continues a paused branch. `concurrent` trials
 * share the machine as the paper's workers do, in turns of an epoch, one place
 * after another: so no order of results depends on time. */
#include "base/mem.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_alone.h"
#include "tuner/strategies/contest_saved.h"

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
    uint32_t turn;                 /* the place whose turn it is */
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
    a->ct.in_turns = true;
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

/* Where memory is short, fewer run at the same time. */
static void share_memory(struct asha *a)
{
    if (contest_shortages(&a->ct) == 0 || a->concurrent == 1)
        return;
    a->concurrent--;
    board_decision(a->c, "memory", "memory is short: %u trials at a time",
                   a->concurrent);
}

/* A job's rung is over, and its place free. */
static void job_over(struct asha *a, struct contestant *x, bool arrived)
{
    a->result[contest_index(&a->ct, x)][x->rung] =
        arrived && isfinite(x->score) ? x->score : INFINITY;
    x->rung++;
    contest_judge(&a->ct, x);
    trim(a);
}

enum turn { TURN_NONE, TURN_TAKEN, TURN_OVER };

/* The turn of place @i: an epoch of its job (units of clocks: the rung). NONE:
 * it has nothing to run now; TAKEN: it runs, and the others wait. */
static enum turn take_turn(struct asha *a, uint32_t i)
{
    enum contest_state state;
    struct contestant *x;
    uint32_t to;

    share_memory(a);
    if (!a->job[i] && i < a->concurrent) {
        x = next_job(a);
        a->job[i] = x ? contest_number(x) : 0;
    }
    if (!a->job[i])
        return TURN_NONE;
    x = contest_trial(&a->ct, a->job[i]);
    assert(x->rung < a->rungs);
    to = goal(a, x->rung);
    if (!a->ct.unit_clocks && x->spent + 1 < to)
        to = x->spent + 1;
    state = contest_run(&a->ct, x, to);
    if (state == CONTEST_BUSY || lifecycle_ends(a->c))
        return contest_lacks_memory(x) ? TURN_NONE : TURN_TAKEN;
    if (state == CONTEST_ARRIVED && !x->over && to < goal(a, x->rung)) {
        x->running = true; /* it is not where it was sent */
        return TURN_OVER;
    }
    job_over(a, x, state == CONTEST_ARRIVED);
    a->job[i] = 0;
    return TURN_OVER;
}

/* Turns, one after the other, until one is taken or nobody has anything to run.
 */
static void run_jobs(struct asha *a)
{
    uint32_t none = 0; /* places in a row */

    while (none < TRIALS_LIVE_MAX && !lifecycle_ends(a->c)) {
        enum turn turn = take_turn(a, a->turn);

        if (turn == TURN_TAKEN)
            return;
        none = turn == TURN_NONE ? none + 1 : 0;
        a->turn = (a->turn + 1) % TRIALS_LIVE_MAX;
    }
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

    if (contest_trains_adopted(&a->ct) || !contest_restored(&a->ct) ||
        !start(a))
        return;
    if (!a->training)
        run_jobs(a);
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

struct saved_place {
    uint32_t trial;
};

struct saved_asha {
    uint32_t concurrent, turn, places;
    struct saved_place place[TRIALS_LIVE_MAX];
    json_t *results; /* owned: a list of scores for each trial, by rung */
};

static const struct json_field place_fields[] = {
    {FIELD_OF(saved_place, U32, trial)},
    {.name = NULL},
};
static const struct field_list places = {
    .fields = place_fields,
    .item = sizeof(struct saved_place),
    .count = offsetof(struct saved_asha, places),
};
static const struct json_field saved_fields[] = {
    {FIELD_WITHIN(saved_asha, U32, concurrent, 1, TRIALS_LIVE_MAX)},
    {FIELD_WITHIN(saved_asha, U32, turn, 0, TRIALS_LIVE_MAX - 1)},
    {.name = "places",
     .kind = FIELD_OBJECTS,
     .offset = offsetof(struct saved_asha, place),
     .min = TRIALS_LIVE_MAX,
     .max = TRIALS_LIVE_MAX,
     .list = &places},
    {FIELD_OF(saved_asha, ARRAY, results)},
    {.name = NULL},
};

/* An infinite one, which JSON has not, is null. */
static json_t *results_to_json(const struct asha *a)
{
    json_t *all = json_array();
    int failed = all == NULL;

    for (uint32_t i = 0; i < a->ct.trials.n && !failed; i++) {
        json_t *own = json_array();

        for (uint32_t r = 0; r < a->ct.x[i].rung; r++)
            failed |= json_array_append_new(
                own, isfinite(a->result[i][r]) ? json_real(a->result[i][r])
                                               : json_null());
        failed |= json_array_append_new(all, own);
    }
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

static enum err asha_save(void *state, branch_id *branch, json_t **out)
{
    const struct asha *a = state;
    struct saved_asha own = {.concurrent = a->concurrent,
                             .turn = a->turn,
                             .places = TRIALS_LIVE_MAX};
    enum err err;

    if (!a->ct.open || a->ct.ended || a->ct.has_adopted)
        return contest_save(&a->ct, branch, out);
    if (!a->result)
        return ERR_AGAIN;
    err = contest_save_search(&a->ct, branch, out);
    if (err)
        return err;
    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++)
        own.place[i].trial = a->job[i];
    own.results = results_to_json(a);
    if (own.results) {
        *out = saved_add(*out, saved_fields, &own);
    } else {
        json_decref(*out);
        *out = NULL;
    }
    json_decref(own.results);
    return *out ? ERR_OK : ERR_NOMEM;
}

static void asha_waiting(const void *state, struct strategy_waiting *out)
{
    const struct asha *a = state;

    contest_waiting(&a->ct, out);
}

static bool take_results(struct asha *a, const json_t *all)
{
    for (uint32_t i = 0; i < a->ct.trials.n; i++) {
        const json_t *own = json_array_get(all, i);

        if (json_array_size(own) != a->ct.x[i].rung ||
            a->ct.x[i].rung > a->rungs)
            return false;
        for (uint32_t r = 0; r < a->ct.x[i].rung; r++) {
            const json_t *v = json_array_get(own, r);

            a->result[i][r] =
                json_is_number(v) ? json_number_value(v) : INFINITY;
        }
    }
    return true;
}

/* Each trial has one place at most, and a rung to run. */
static bool take_places(struct asha *a, const struct saved_asha *saved)
{
    for (uint32_t i = 0; i < TRIALS_LIVE_MAX; i++) {
        uint32_t trial = saved->place[i].trial;

        if (!contest_has(&a->ct, trial) ||
            (trial && contest_trial(&a->ct, trial)->rung >= a->rungs))
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (trial && a->job[k] == trial)
                return false;
        a->job[i] = trial;
    }
    a->concurrent = saved->concurrent;
    a->turn = saved->turn;
    return true;
}

static enum err restore_search(struct asha *a, const json_t *saved,
                               branch_id branch)
{
    struct saved_asha own = {0};
    enum err err = ERR_FORMAT;

    if (saved_read(saved, saved_fields, &own) &&
        own.concurrent <= a->concurrent)
        err = contest_restore_search(&a->ct, saved, branch);
    if (err)
        goto done;
    a->result = mem_calloc(a->ct.trials.max, sizeof(*a->result));
    if (!a->result)
        err = ERR_NOMEM;
    else if (!take_results(a, own.results) || !take_places(a, &own))
        err = ERR_FORMAT;
    if (!err)
        goto done;
    contest_forget_search(&a->ct);
    memset(a->job, 0, sizeof(a->job));
    mem_free(a->result);
    a->result = NULL;

done:
    fields_deinit(saved_fields, &own);
    return err;
}

static enum err asha_restore(void *state, const json_t *saved, branch_id branch)
{
    struct asha *a = state;

    if (contest_saved_search(saved))
        return restore_search(a, saved, branch);
    return contest_restore(&a->ct, saved, branch);
}

const struct strategy_ops strategy_asha = {
    .name = "asha",
    .summary = "asynchronous successive halving: the best of each rung are "
               "promoted to longer training (Li et al. 2020)",
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
    .waiting = asha_waiting,
    .restore = asha_restore,
};
