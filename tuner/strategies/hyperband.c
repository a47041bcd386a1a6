/* Strategy `hyperband` (Li et al., JMLR 2018): brackets of successive halving,
 * from many settings with little training each to few with much.
 *
 * Finite horizon (algorithm 1): s_max = floor(log_eta R), B = (s_max + 1) R,
 * and for s = s_max .. 0 a bracket of n = ceil(B eta^s / (R (s + 1))) settings;
 * in rung i, floor(n eta^-i) of them have R eta^(i - s) epochs each. Infinite
 * horizon (section 5.1): for k = 1, 2, ... and every s >= 1 with k - s >= log2
 * s a bracket of n = 2^s settings and a budget of B = 2^k epochs, of which each
 * of its s rungs spends an equal part, and drops the worse half.
 *
 * Ours: survivors are branches that go on, so nothing is run twice. Of a rung
 * only as many are kept as may still survive it. */
#include "base/mem.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_alone.h"
#include "tuner/strategies/contest_saved.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    INFINITE_K_MAX = 30, /* a budget of a thousand million epochs */
    INFINITE_TRIALS = 1024
};

/* One bracket: rung i takes size[i] settings to goal[i] units. */
struct bracket {
    uint32_t s, k; /* k: 0 in the finite horizon */
    uint32_t n, rungs;
    uint32_t size[INFINITE_K_MAX + 2]; /* [rungs + 1]; after the last: 1 */
    uint32_t goal[INFINITE_K_MAX + 1]; /* units in all */
};

struct hyperband {
    struct board *c;
    struct contest ct;
    bool infinite, model;
    uint32_t max_resource, eta; /* R and eta of the finite horizon */
    enum { BRACKET_NEXT, BRACKET_RUNS, TRAINING } phase;
    struct bracket bracket;
    uint32_t number; /* brackets begun */
    uint32_t rung;
    uint32_t begun;  /* trials of the bracket */
    uint32_t winner; /* trial that training goes on with; 0: none */
};

/* ---- brackets ------------------------------------------------------------ */

/* floor(log_eta R): by counting, which no rounding can spoil. */
static uint32_t rungs_of(uint32_t resource, uint32_t eta)
{
    uint32_t s = 0;

    assert(eta >= 2);
    for (uint64_t x = eta; x <= resource; x *= eta)
        s++;
    return s;
}

static void finite_bracket(const struct hyperband *h, uint32_t s,
                           struct bracket *b)
{
    uint32_t s_max = rungs_of(h->max_resource, h->eta);
    double n = ceil((s_max + 1) * pow(h->eta, s) / (s + 1) - 1e-9);

    assert(s <= INFINITE_K_MAX);
    *b = (struct bracket){.s = s, .rungs = s + 1};
    b->n = (uint32_t)fmin(n, UINT32_MAX / 2);
    for (uint32_t i = 0; i <= s; i++) {
        double epochs = h->max_resource * pow(h->eta, (double)i - s);

        b->size[i] = (uint32_t)(b->n / pow(h->eta, i) + 1e-9);
        b->goal[i] = (uint32_t)fmax(1, floor(epochs + 1e-9));
    }
    b->size[s + 1] = 1;
}

static void infinite_bracket(uint32_t k, uint32_t s, struct bracket *b)
{
    uint32_t epochs = 0;

    assert(s >= 1 && s <= k && k <= INFINITE_K_MAX);
    *b = (struct bracket){.s = s, .k = k, .n = 1u << s, .rungs = s};
    for (uint32_t i = 0; i < s; i++) {
        b->size[i] = 1u << (s - i);
        epochs += (1u << k) / (b->size[i] * s);
        b->goal[i] = epochs;
    }
    b->size[s] = 1;
}

/* The bracket after the present one; false: that was the last. */
static bool following(const struct hyperband *h, struct bracket *b)
{
    uint32_t k = h->bracket.k, s = h->bracket.s;

    if (!h->infinite && h->number > 0 && s == 0)
        return false;
    if (!h->infinite) {
        s = h->number ? s - 1 : rungs_of(h->max_resource, h->eta);
        finite_bracket(h, s, b);
        return true;
    }
    s++;
    if (k == 0 || k < s || (1u << (k - s)) < s) { /* k - s < log2 s */
        k++;
        s = 1;
    }
    if (k > INFINITE_K_MAX)
        return false;
    infinite_bracket(k, s, b);
    return true;
}

/* Trials of all brackets of the finite horizon; may be more than can be. */
static double trials_of_all(const struct hyperband *h)
{
    uint32_t s_max = rungs_of(h->max_resource, h->eta);
    struct bracket b;
    double n = 0;

    for (uint32_t s = 0; s <= s_max; s++) {
        finite_bracket(h, s, &b);
        n += b.n;
    }
    return n;
}

static uint32_t trials_max(const struct hyperband *h)
{
    return h->infinite ? INFINITE_TRIALS : (uint32_t)trials_of_all(h);
}

/* ---- life ---------------------------------------------------------------- */

static void hyperband_close(void *state)
{
    struct hyperband *h = state;

    if (!h)
        return;
    contest_deinit(&h->ct);
    mem_free(h);
}

static uint32_t count(const json_t *settings, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(settings, name));
}

static enum err hyperband_open(struct board *c, const json_t *settings,
                               void **state, struct fault *f)
{
    struct hyperband *h = mem_calloc(1, sizeof(*h));
    json_t *own = NULL;
    enum err err;

    if (!h)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    h->c = c;
    err = choice_settings(&strategy_hyperband, settings, &own, f);
    if (!err)
        err = contest_init(&h->ct, c, f);
    if (err)
        goto fail;
    h->ct.in_turns = true;
    h->infinite = strcmp(json_string_value(json_object_get(own, "horizon")),
                         "infinite") == 0;
    h->max_resource = count(own, "max_resource");
    h->eta = count(own, "eta");
    /* A contest that the user limits may be as large as it likes; and one that
     * was accepted once goes on. */
    if (!h->infinite && trials_of_all(h) > TUNER_TRIALS_MAX &&
        !board_max_trials(c) && !board_history(c)) {
        err = fault_set(f, ERR_INVAL,
                        "hyperband with max_resource %u and eta %u takes %.0f "
                        "trials, more than %d: choose a smaller max_resource "
                        "or a larger eta",
                        h->max_resource, h->eta, trials_of_all(h),
                        TUNER_TRIALS_MAX);
        goto fail;
    }
    h->model = contest_searcher(c, own);
    contest_unit(&h->ct, own);
    json_decref(own);
    *state = h;
    return ERR_OK;

fail:
    json_decref(own);
    hyperband_close(h);
    return err;
}

/* ---- one bracket after the other ------------------------------------------
 */

static void begin_bracket(struct hyperband *h, const struct bracket *b)
{
    struct record_decision *d;

    assert(b->n >= 1 && b->rungs >= 1);
    h->bracket = *b;
    h->number++;
    h->rung = 0;
    h->begun = 0;
    h->phase = BRACKET_RUNS;
    if (!h->model)
        contest_sample_anew(&h->ct);
    d = board_decision(h->c, "bracket",
                       "bracket %u: %u settings, %u %s each at first, the "
                       "best to %u",
                       h->number, b->n, b->goal[0], h->ct.unit,
                       b->goal[b->rungs - 1]);
    board_decision_number(d, "settings", b->n);
    board_decision_number(d, "resource_first", b->goal[0]);
    board_decision_number(d, "resource_last", b->goal[b->rungs - 1]);
    board_decision_number(d, "rungs", b->rungs);
}

/* ---- rungs --------------------------------------------------------------- */

static bool is_member(const struct hyperband *h, const struct contestant *x)
{
    return x->group == h->number && !x->out;
}

/* The member that is worst of those that have run the present rung. Their
 * number goes to *@n. */
static struct contestant *worst_arrived(struct hyperband *h, uint32_t *n)
{
    struct contestant *worst = NULL;

    assert(n);
    *n = 0;
    for (uint32_t i = 0; i < contest_begun(&h->ct); i++) {
        struct contestant *x = &h->ct.x[i];

        if (!is_member(h, x) || x->rung <= h->rung)
            continue;
        ++*n;
        if (!worst || contest_before(worst, x))
            worst = x;
    }
    return worst;
}

/* Drops a member that cannot survive the rung any more. */
static void trim(struct hyperband *h)
{
    uint32_t n, keep = h->bracket.size[h->rung + 1];
    struct contestant *worst = worst_arrived(h, &n);

    assert(h->rung < h->bracket.rungs);
    if (n <= keep)
        return;
    contest_drop(&h->ct, worst, "others of its rung are better");
}

/* The next member that has to run the rung; begins it in the first one. */
static struct contestant *next_member(struct hyperband *h)
{
    struct contestant *x;

    for (uint32_t i = 0; i < contest_begun(&h->ct); i++)
        if (is_member(h, &h->ct.x[i]) && h->ct.x[i].rung == h->rung)
            return &h->ct.x[i];
    if (h->rung > 0 || h->begun == h->bracket.n)
        return NULL;
    x = contest_begin(&h->ct);
    if (x) {
        x->group = h->number;
        h->begun++;
    }
    return x;
}

static bool rung_over(const struct hyperband *h)
{
    return h->rung > 0 || h->begun == h->bracket.n || contest_spent(&h->ct);
}

static void record_rung(struct hyperband *h)
{
    uint32_t n;
    struct contestant *worst = worst_arrived(h, &n);
    struct record_decision *d = board_decision(
        h->c, "rung",
        "bracket %u, rung %u: after %u %s %u of %u settings go on", h->number,
        h->rung + 1, h->bracket.goal[h->rung], h->ct.unit, n,
        h->bracket.size[h->rung]);

    board_decision_number(d, "resource", h->bracket.goal[h->rung]);
    board_decision_number(d, "go_on", n);
    if (worst)
        board_decision_number(d, "worst_result",
                              board_result(h->c, worst->score));
}

/* Takes all members through the rung. False while they are under way. */
static bool run_rung(struct hyperband *h)
{
    struct contestant *x;

    assert(h->rung < h->bracket.rungs);
    while ((x = next_member(h))) {
        enum contest_state state =
            contest_run(&h->ct, x, h->bracket.goal[h->rung]);

        if (state == CONTEST_BUSY || lifecycle_ends(h->c))
            return false;
        contest_judge(&h->ct, x);
        x->rung = h->rung + 1;
        if (state == CONTEST_ARRIVED)
            trim(h);
    }
    return rung_over(h);
}

/* ---- what comes of it ---------------------------------------------------- */

/* NULL too where it was given up for want of memory. */
static struct contestant *trial_or_none(struct hyperband *h, uint32_t number)
{
    struct contestant *x = number ? contest_trial(&h->ct, number) : NULL;

    return x && !x->out ? x : NULL;
}

/* The bracket's winner against the best of those before. True if it was trained
 * to its end, and so was the best of all: a setting that is too slow to show
 * anything ends on a plateau as well. */
static bool crown(struct hyperband *h)
{
    struct contestant *old = trial_or_none(h, h->winner), *winner;
    uint32_t n;

    winner = worst_arrived(h, &n);
    assert(n <= 1);
    if (!winner)
        return false;
    if (old && contest_before(old, winner)) {
        contest_drop(&h->ct, winner, "an earlier bracket's winner is better");
        return winner->over && old->over;
    }
    if (old)
        contest_drop(&h->ct, old, "a later bracket's winner is better");
    h->winner = h->ct.champion = contest_number(winner);
    return winner->over;
}

static void finish_search(struct hyperband *h, const char *reason)
{
    struct contestant *winner = trial_or_none(h, h->winner);

    assert(h->phase != TRAINING);
    contest_end(&h->ct, winner, reason);
    h->phase = TRAINING;
    if (!winner)
        contest_failed(&h->ct);
}

static void end_bracket(struct hyperband *h)
{
    bool whole = crown(h);

    if (h->infinite && whole)
        finish_search(h, "the best setting was trained to its end: larger "
                         "budgets have nothing to add");
    else if (contest_spent(&h->ct))
        finish_search(h, "there is no other setting to try");
    else
        h->phase = BRACKET_NEXT;
}

static void run_bracket(struct hyperband *h)
{
    if (!run_rung(h))
        return;
    record_rung(h);
    if (h->rung + 1 == h->bracket.rungs)
        end_bracket(h);
    else
        h->rung++;
}

static void next_bracket(struct hyperband *h)
{
    struct bracket b;

    if (!contest_start(&h->ct, trials_max(h), "brackets of settings"))
        return;
    if (following(h, &b))
        begin_bracket(h, &b);
    else
        finish_search(h, "all brackets are over");
}

static void hyperband_advance(void *state)
{
    struct hyperband *h = state;
    uint32_t number, rung;
    int phase;

    if (contest_trains_adopted(&h->ct) || !contest_restored(&h->ct))
        return;
    do {
        number = h->number;
        rung = h->rung;
        phase = h->phase;
        if (h->phase == BRACKET_NEXT)
            next_bracket(h);
        else if (h->phase == BRACKET_RUNS)
            run_bracket(h);
        else
            contest_train(&h->ct, trial_or_none(h, h->winner));
    } while (
        (h->number != number || h->rung != rung || (int)h->phase != phase) &&
        !lifecycle_ends(h->c));
}

static enum err hyperband_adopt(void *state, branch_id branch)
{
    struct hyperband *h = state;

    return contest_adopt(&h->ct, branch);
}

/* What follows from the settings is not saved. */
struct saved_hyperband {
    uint32_t s, k, number, rung, begun, winner;
    bool runs;
};

static const struct json_field saved_fields[] = {
    {FIELD_WITHIN(saved_hyperband, U32, s, 0, INFINITE_K_MAX)},
    {FIELD_WITHIN(saved_hyperband, U32, k, 0, INFINITE_K_MAX)},
    {FIELD_OF(saved_hyperband, U32, number)},
    {FIELD_OF(saved_hyperband, U32, rung)},
    {FIELD_OF(saved_hyperband, U32, begun)},
    {FIELD_OF(saved_hyperband, U32, winner)},
    {FIELD_OF(saved_hyperband, BOOL, runs)},
    {.name = NULL},
};

static bool searches(const struct contest *ct)
{
    return ct->open && !ct->ended && !ct->has_adopted;
}

static enum err hyperband_save(void *state, branch_id *branch, json_t **out)
{
    const struct hyperband *h = state;
    const struct saved_hyperband own = {h->bracket.s,
                                        h->bracket.k,
                                        h->number,
                                        h->rung,
                                        h->begun,
                                        h->winner,
                                        h->phase == BRACKET_RUNS};
    enum err err;

    if (!searches(&h->ct))
        return contest_save(&h->ct, branch, out);
    err = contest_save_search(&h->ct, branch, out);
    if (!err)
        *out = saved_add(*out, saved_fields, &own);
    return err || *out ? err : ERR_NOMEM;
}

static void hyperband_waiting(const void *state, struct strategy_waiting *out)
{
    const struct hyperband *h = state;

    contest_waiting(&h->ct, out);
}

static bool is_bracket(const struct hyperband *h,
                       const struct saved_hyperband *own)
{
    if (own->number == 0)
        return true;
    if (h->infinite)
        return own->s >= 1 && own->s <= own->k && own->rung < own->s;
    return own->s <= rungs_of(h->max_resource, h->eta) && own->rung <= own->s;
}

static enum err restore_search(struct hyperband *h, const json_t *saved,
                               branch_id branch)
{
    struct saved_hyperband own = {0};
    enum err err;

    if (!saved_read(saved, saved_fields, &own) || !is_bracket(h, &own))
        return ERR_FORMAT;
    err = contest_restore_search(&h->ct, saved, branch);
    if (err)
        return err;
    if (!contest_has(&h->ct, own.winner)) {
        contest_forget_search(&h->ct);
        return ERR_FORMAT;
    }
    if (own.number > 0 && h->infinite)
        infinite_bracket(own.k, own.s, &h->bracket);
    else if (own.number > 0)
        finite_bracket(h, own.s, &h->bracket);
    h->number = own.number;
    h->rung = own.rung;
    h->begun = own.begun;
    h->winner = own.winner;
    h->phase = own.runs ? BRACKET_RUNS : BRACKET_NEXT;
    return ERR_OK;
}

static enum err hyperband_restore(void *state, const json_t *saved,
                                  branch_id branch)
{
    struct hyperband *h = state;

    if (contest_saved_search(saved))
        return restore_search(h, saved, branch);
    return contest_restore(&h->ct, saved, branch);
}

const struct strategy_ops strategy_hyperband = {
    .name = "hyperband",
    .summary = "brackets of successive halving: many settings with little "
               "training, few with much (Li et al. 2018)",
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"horizon\": {\"enum\": [\"infinite\", \"finite\"], "
        "\"default\": \"infinite\", \"description\": \"infinite: budgets "
        "double until a setting was trained to its end; finite: one round of "
        "brackets up to max_resource\"}, "
        "\"max_resource\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 100000, \"default\": 81, \"description\": \"R of the "
        "finite horizon: units that the last rung of a bracket has\"}, "
        "\"eta\": {\"type\": \"integer\", \"minimum\": 2, \"maximum\": 100, "
        "\"default\": 3, \"description\": \"of the finite horizon: one in so "
        "many settings goes on from a rung; the infinite one "
        "halves\"}, " CONTEST_SETTINGS "}}",
    .proposer = PROPOSER_SAMPLING,
    .open = hyperband_open,
    .close = hyperband_close,
    .advance = hyperband_advance,
    .adopt = hyperband_adopt,
    .save = hyperband_save,
    .waiting = hyperband_waiting,
    .restore = hyperband_restore,
};
