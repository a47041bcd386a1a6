/* Strategy `pbt` (Jaderberg et al. 2017): population based training.
 *
 * `population` trials train side by side. After each `interval` epochs the
 * worst `quantile` of them give way: each is replaced by a fork of one of the
 * best (exploit), with a setting near that one's (explore). The fork is a
 * branch, so taking over a model costs what any fork costs, and the lineage of
 * the best model is a schedule of settings. All make each interval before any
 * begins the next, in turns: what is compared has run as long. */
#include "base/mem.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/strategies/choice.h"
#include "tuner/strategies/contest_alone.h"
#include "tuner/strategies/contest_saved.h"
#include "tuner/strategies/explore.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A place in the population. */
struct member {
    uint32_t trial;  /* 0: to be filled */
    uint32_t parent; /* what fills it goes on from this trial; 0: a new one */
    bool closed;     /* nothing is left to fill it with */
};

struct pbt {
    struct board *c;
    struct contest ct;
    struct explore explore;
    double quantile;
    uint32_t population, interval;
    uint32_t rounds; /* that are over */
    uint32_t room;   /* places: fewer than `population` where memory is short */
    struct member member[TRIALS_LIVE_MAX];
};

static void pbt_close(void *state)
{
    struct pbt *p = state;

    if (!p)
        return;
    contest_deinit(&p->ct);
    mem_free(p);
}

static enum err pbt_open(struct board *c, const json_t *settings, void **state,
                         struct fault *f)
{
    struct pbt *p = mem_calloc(1, sizeof(*p));
    json_t *own = NULL;
    enum err err;

    if (!p)
        return fault_set(f, ERR_NOMEM, "no memory for a strategy");
    p->c = c;
    err = choice_settings(&strategy_pbt, settings, &own, f);
    if (!err)
        err = contest_init(&p->ct, c, f);
    if (!err) {
        json_int_t n = json_integer_value(json_object_get(own, "population"));
        json_int_t k = json_integer_value(json_object_get(own, "interval"));

        p->ct.in_turns = true;
        p->population = p->room = (uint32_t)n;
        p->interval = (uint32_t)k;
        p->quantile = json_number_value(json_object_get(own, "quantile"));
        p->explore.factor = json_number_value(json_object_get(own, "factor"));
        p->explore.resample =
            json_number_value(json_object_get(own, "resample"));
        contest_searcher(c, own);
    }
    json_decref(own);
    if (err)
        pbt_close(p);
    else
        *state = p;
    return err;
}

/* ---- the population ------------------------------------------------------ */

/* The trial in a place; NULL: none is. */
static struct contestant *in(struct pbt *p, uint32_t i)
{
    uint32_t trial = p->member[i].trial;

    assert(i < p->population);
    return trial ? contest_trial(&p->ct, trial) : NULL;
}

/* The trial in a place that can be compared with others; NULL: none is. */
static struct contestant *alive(struct pbt *p, uint32_t i)
{
    struct contestant *x = in(p, i);

    return x && !x->out ? x : NULL;
}

/* Those that live, best first. Returns how many. */
static uint32_t ranked(struct pbt *p, struct contestant *out[TRIALS_LIVE_MAX],
                       uint32_t place[TRIALS_LIVE_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->population; i++) {
        struct contestant *x = alive(p, i);
        uint32_t k = n;

        if (!x)
            continue;
        for (; k > 0 && contest_before(x, out[k - 1]); k--) {
            out[k] = out[k - 1];
            place[k] = place[k - 1];
        }
        out[k] = x;
        place[k] = i;
        n++;
    }
    return n;
}

/* How many of @n give way after an interval, and to how many: with a quantile
 * at least one. */
static uint32_t tail(const struct pbt *p, uint32_t n)
{
    uint32_t k = (uint32_t)(p->quantile * n);

    return k > 0 || n < 2 || p->quantile == 0 ? k : 1;
}

/* ---- exploit and explore ------------------------------------------------- */

static void record_child(struct pbt *p, const struct contestant *x)
{
    struct record_decision *d;
    char text[160];

    setting_text(board_space(p->c), &x->t->setting, text, sizeof(text));
    d = board_decision(p->c, "explore",
                       "trial %u goes on from trial %u's epoch %u with %s",
                       contest_number(x), x->parent, x->last.e.epoch, text);
    board_decision_number(d, "trial", contest_number(x));
    board_decision_number(d, "from", x->parent);
}

/* A fork of a place's chosen parent, with a setting near its own. NULL: not
 * now. */
static struct contestant *child(struct pbt *p, struct member *m)
{
    const struct contestant *parent = contest_trial(&p->ct, m->parent);
    struct contestant *x;
    struct setting setting;
    struct rng rng;

    rng_init(&rng, rng_mix(board_seed(p->c), contest_begun(&p->ct) + 1));
    explore_setting(&p->explore, board_space(p->c), &parent->t->setting, &rng,
                    &setting);
    x = contest_inherit(&p->ct, parent, &setting);
    if (x)
        record_child(p, x);
    return x;
}

/* Whether the trial can be forked: memory may have taken its branch. */
static bool can_be_parent(const struct contestant *x)
{
    return !x->out && x->started && !x->parked;
}

static void fill(struct pbt *p, struct member *m)
{
    bool inherits =
        m->parent && can_be_parent(contest_trial(&p->ct, m->parent));
    struct contestant *x = NULL;

    assert(!m->trial && !m->closed);
    /* What it was to go on from may be gone: until somebody gives way again. */
    m->closed = (m->parent && !inherits) || contest_left(&p->ct) == 0 ||
                (!inherits && contest_spent(&p->ct));
    if (m->closed)
        return;
    if (inherits)
        x = child(p, m);
    else
        x = contest_begin(&p->ct);
    if (x)
        m->trial = contest_number(x);
    else /* whoever was asked may have said that nothing follows */
        m->closed = !inherits && contest_spent(&p->ct);
}

/* Where memory is short the population is smaller from then on. True if it has
 * just become so. */
static bool shares_memory(struct pbt *p)
{
    if (contest_shortages(&p->ct) == 0 || p->room == 1)
        return false;
    p->room--;
    board_decision(p->c, "memory", "memory is short: a population of %u",
                   p->room);
    return true;
}

/* Fills a place. True: it is closed, or has a trial that may run. One that goes
 * on from another's model must have its branch before that other one runs. */
static bool fill_place(struct pbt *p, uint32_t i)
{
    struct member *m = &p->member[i];
    bool ready;

    if (!m->trial && !m->closed)
        fill(p, m);
    if (!m->parent)
        ready = m->trial || m->closed;
    else
        ready = m->closed ||
                (m->trial && contest_ready(&p->ct, in(p, i)) != CONTEST_BUSY);
    if (ready || !shares_memory(p))
        return ready;
    if (m->trial)
        contest_drop(&p->ct, in(p, i), "memory is short");
    *m = (struct member){.closed = true};
    return true;
}

enum filled { FILLED_NOT, FILLED_IN_PART, FILLED_ALL };

/* Fills the places. IN_PART: those that are there may run, while others wait
 * for a setting. */
static enum filled fill_all(struct pbt *p)
{
    for (uint32_t i = 0; i < p->population; i++) {
        bool ready = fill_place(p, i);

        if (lifecycle_ends(p->c) || (!ready && p->member[i].parent))
            return FILLED_NOT;
        if (!ready)
            return FILLED_IN_PART; /* those behind it begin after it */
    }
    return FILLED_ALL;
}

/* Takes all to the end of the interval, one after another. True: they are
 * there; @any: one of them only now. */
static bool ran(struct pbt *p, bool *any)
{
    uint32_t goal = (p->rounds + 1) * p->interval;

    *any = false;
    for (uint32_t i = 0; i < p->population; i++) {
        struct contestant *x = alive(p, i);
        bool was_there = x && (x->over || x->spent >= goal);

        if (!x || was_there)
            continue;
        if (contest_run(&p->ct, x, goal) == CONTEST_BUSY ||
            lifecycle_ends(p->c))
            return false;
        contest_judge(&p->ct, x);
        *any = true;
    }
    return true;
}

/* Place @i is to be filled with a fork of @parent. */
static void replace(struct pbt *p, uint32_t i, const struct contestant *parent)
{
    struct contestant *x = in(p, i);
    char text[64];

    if (x && !x->out) {
        board_decision(p->c, "exploit",
                       "trial %u gives way to a fork of trial %u, which is "
                       "better after %u epochs",
                       contest_number(x), contest_number(parent),
                       parent->last.e.epoch);
        snprintf(text, sizeof(text), "trial %u is better",
                 contest_number(parent));
        contest_drop(&p->ct, x, text);
    }
    p->member[i] = (struct member){.parent = contest_number(parent)};
}

/* The worst give way to the best; so do places whose trial is out. Whoever has
 * made the last epoch is nobody's parent. */
static void exploit(struct pbt *p)
{
    struct contestant *x[TRIALS_LIVE_MAX];
    uint32_t place[TRIALS_LIVE_MAX];
    uint32_t n = ranked(p, x, place), k = tail(p, n), best = 0;
    uint32_t empty;
    struct rng rng;

    shares_memory(p);
    empty = n < p->room ? p->room - n : 0;
    rng_init(&rng, rng_mix(board_seed(p->c) + 1, p->rounds + 1));
    while (best < (k ? k : 1) && best < n && can_be_parent(x[best]) &&
           x[best]->last.e.epoch < board_limits(p->c).max_epochs)
        best++;
    if (best == 0 || contest_left(&p->ct) == 0)
        return;
    for (uint32_t i = 0; i < p->population && empty > 0; i++)
        if (!alive(p, i) && (p->member[i].trial || p->member[i].closed)) {
            replace(p, i, x[rng_below(&rng, best)]);
            empty--;
        }
    for (uint32_t i = 0; i < k; i++) {
        const struct contestant *parent = x[rng_below(&rng, best)];

        if (contest_before(parent, x[n - 1 - i]) &&
            parent->score < x[n - 1 - i]->score)
            replace(p, place[n - 1 - i], parent);
    }
}

/* Nobody can go on. */
static bool all_over(struct pbt *p)
{
    for (uint32_t i = 0; i < p->population; i++) {
        const struct contestant *x = alive(p, i);

        if (p->member[i].trial == 0 ? !p->member[i].closed : x && !x->over)
            return false;
    }
    return true;
}

/* ---- the run ------------------------------------------------------------- */

static void finish(struct pbt *p)
{
    struct contest *ct = &p->ct;

    contest_finish(ct, ct->leader ? contest_trial(ct, ct->leader) : NULL,
                   "the population has trained to its end");
}

/* The trials of a whole run: the first ones, and all that take their places. */
static uint32_t trials_of_run(const struct pbt *p)
{
    uint64_t rounds = board_limits(p->c).max_epochs / p->interval + 1;
    uint64_t n = p->population * (rounds + 1);

    if (board_max_trials(p->c))
        return board_max_trials(p->c);
    return n < TUNER_TRIALS_MAX ? (uint32_t)n : TUNER_TRIALS_MAX;
}

static void pbt_advance(void *state)
{
    struct pbt *p = state;

    if (contest_trains_adopted(&p->ct) || !contest_restored(&p->ct) ||
        !contest_start(&p->ct, trials_of_run(p), "a population of settings"))
        return;
    for (;;) {
        enum filled filled = fill_all(p);
        bool any;

        if (filled == FILLED_NOT || !ran(p, &any))
            return;
        /* While one ran, nobody waited for a setting: now somebody does. */
        if (filled == FILLED_IN_PART && any)
            continue;
        if (filled == FILLED_IN_PART)
            return;
        p->rounds++;
        exploit(p);
        if (!all_over(p))
            continue;
        finish(p);
        return;
    }
}

static enum err pbt_adopt(void *state, branch_id branch)
{
    struct pbt *p = state;

    return contest_adopt(&p->ct, branch);
}

struct saved_pbt {
    uint32_t rounds, room, members;
    struct member member[TRIALS_LIVE_MAX];
};

static const struct json_field member_fields[] = {
    {FIELD_OF(member, U32, trial)},
    {FIELD_OF(member, U32, parent)},
    {FIELD_OF(member, BOOL, closed)},
    {.name = NULL},
};
static const struct field_list members = {
    .fields = member_fields,
    .item = sizeof(struct member),
    .count = offsetof(struct saved_pbt, members),
};
static const struct json_field saved_fields[] = {
    {FIELD_OF(saved_pbt, U32, rounds)},
    {FIELD_WITHIN(saved_pbt, U32, room, 1, TRIALS_LIVE_MAX)},
    {.name = "members",
     .kind = FIELD_OBJECTS,
     .offset = offsetof(struct saved_pbt, member),
     .max = TRIALS_LIVE_MAX,
     .list = &members},
    {.name = NULL},
};

static enum err pbt_save(void *state, branch_id *branch, json_t **out)
{
    const struct pbt *p = state;
    struct saved_pbt own = {
        .rounds = p->rounds, .room = p->room, .members = p->population};
    enum err err;

    if (!p->ct.open || p->ct.ended || p->ct.has_adopted)
        return contest_save(&p->ct, branch, out);
    memcpy(own.member, p->member, sizeof(own.member));
    err = contest_save_search(&p->ct, branch, out);
    if (!err)
        *out = saved_add(*out, saved_fields, &own);
    return err || *out ? err : ERR_NOMEM;
}

static void pbt_waiting(const void *state, struct strategy_waiting *out)
{
    const struct pbt *p = state;

    contest_waiting(&p->ct, out);
}

static enum err restore_search(struct pbt *p, const json_t *saved,
                               branch_id branch)
{
    struct saved_pbt own = {0};
    enum err err;

    if (!saved_read(saved, saved_fields, &own) ||
        own.members != p->population || own.room > p->population)
        return ERR_FORMAT;
    err = contest_restore_search(&p->ct, saved, branch);
    if (err)
        return err;
    for (uint32_t i = 0; i < own.members; i++)
        if (!contest_has(&p->ct, own.member[i].trial) ||
            !contest_has(&p->ct, own.member[i].parent)) {
            contest_forget_search(&p->ct);
            return ERR_FORMAT;
        }
    p->rounds = own.rounds;
    p->room = own.room;
    memcpy(p->member, own.member, sizeof(p->member));
    return ERR_OK;
}

static enum err pbt_restore(void *state, const json_t *saved, branch_id branch)
{
    struct pbt *p = state;

    if (contest_saved_search(saved))
        return restore_search(p, saved, branch);
    return contest_restore(&p->ct, saved, branch);
}

const struct strategy_ops strategy_pbt = {
    .name = "pbt",
    .summary = "population based training: the worst take over the models of "
               "the best, with settings near theirs (Jaderberg et al. 2017)",
    .settings =
        "{\"type\": \"object\", \"properties\": {"
        "\"population\": {\"type\": \"integer\", \"minimum\": 2, "
        "\"maximum\": 16, \"default\": 8, \"description\": \"trials that train "
        "side by side\"}, "
        "\"interval\": {\"type\": \"integer\", \"minimum\": 1, "
        "\"maximum\": 100000, \"default\": 1, \"description\": \"epochs "
        "between "
        "two exchanges\"}, "
        "\"quantile\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": "
        "0.5, "
        "\"default\": 0.25, \"description\": \"the worst share of the "
        "population gives way to forks of the best one\"}, "
        "\"factor\": {\"type\": \"number\", \"minimum\": 1.001, \"maximum\": "
        "10, \"default\": 1.2, \"description\": \"numbers that are taken over "
        "are multiplied or divided by it\"}, "
        "\"resample\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 1, "
        "\"default\": 0.25, \"description\": \"share of values that are drawn "
        "anew instead\"}, " CONTEST_SAMPLING "}}",
    .proposer = PROPOSER_SAMPLING,
    .open = pbt_open,
    .close = pbt_close,
    .advance = pbt_advance,
    .adopt = pbt_adopt,
    .save = pbt_save,
    .waiting = pbt_waiting,
    .restore = pbt_restore,
};
