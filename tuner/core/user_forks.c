#include "tuner/core/user_forks.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/space/space_json.h"
#include "tuner/board/branch.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/run.h"
#include "tuner/board/slices.h"
#include "tuner/board/strategy.h"
#include "tuner/board/training.h"
#include "tuner/core/answers.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/resume.h"
#include "tuner/core/user_setting.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { USER_FORKS_MAX = 8 }; /* at the same time */

struct user_fork {
    branch_id branch;     /* BRANCH_NONE: the place is free */
    branch_id instead_of; /* that was lost; BRANCH_NONE: none */
    bool asked;           /* somebody waits for its answer: */
    uint64_t ticket;
    bool known;      /* it exists, and is journaled */
    bool promoted;   /* to be adopted as soon as it is idle */
    uint32_t epochs; /* as asked for: one of them is 0, or both where it is only
                      * there to be promoted */
    uint64_t clocks;
    bool running;   /* the line is there */
    bool over;      /* has run as far as it was to */
    uint32_t until; /* epoch of the lineage at whose end it is */
    struct training line;
    double loss, metric; /* its last; NAN: none */
};

struct user_forks {
    struct user_fork fork[USER_FORKS_MAX];
    bool begun;     /* the strategy runs something: it comes first */
    bool made_room; /* by this event, for a fork of the strategy's */
    bool recalled;  /* those of before the run was resumed are forked again */
    bool cutting;   /* slices of branches that are given up are cut short */
};

static const struct user_fork no_fork = {
    .branch = BRANCH_NONE,
    .instead_of = BRANCH_NONE,
    .loss = NAN,
    .metric = NAN,
};

enum err user_forks_init(struct board *c)
{
    struct user_forks *u = mem_calloc(1, sizeof(*u));

    assert(!c->owner->user_forks);
    if (!u)
        return ERR_NOMEM;
    for (size_t i = 0; i < USER_FORKS_MAX; i++)
        u->fork[i] = no_fork;
    u->recalled = !board_history(c);
    c->owner->user_forks = u;
    return ERR_OK;
}

void user_forks_deinit(struct board *c)
{
    mem_free(c->owner->user_forks);
    c->owner->user_forks = NULL;
}

void user_forks_step(struct board *c)
{
    c->owner->user_forks->made_room = false;
}

bool lifecycle_made_room(const struct board *c)
{
    return c->owner->user_forks->made_room;
}

static struct user_fork *find(struct board *c, branch_id branch)
{
    for (size_t i = 0; i < USER_FORKS_MAX; i++)
        if (c->owner->user_forks->fork[i].branch == branch)
            return &c->owner->user_forks->fork[i];
    return NULL;
}

/* ---- answers ------------------------------------------------------------- */

/* The answer to FORK, to whoever waits for it. */
static struct tuner_answer *tell(struct board *c, struct user_fork *f,
                                 enum err err, const char *text)
{
    struct tuner_answer *a =
        answers_give_to(c, f->ticket, err, err == ERR_OK, text);

    assert(f->asked);
    f->asked = false;
    return a;
}

static void setting_line(const struct board *c, const struct branch *b,
                         char *out, size_t size)
{
    setting_text(board_space(c), &b->setting, out, size);
}

/* ---- forking ------------------------------------------------------------- */

/* Why no training branch can be forked from @b, as an answer; false: one can.
 */
static bool refuse_parent(struct board *c, const struct branch *b, branch_id id)
{
    if (!c->owner->user_forks->begun)
        answers_give(c, ERR_AGAIN, false,
                     "the run has not begun to train yet; try again");
    else if (!b || b->state == BRANCH_REFUSED)
        answers_give(c, ERR_NOENT, false,
                     "branch %u does not live: it was freed, or never was", id);
    else if (b->type == BRANCH_TESTING || b->type == BRANCH_PROBE)
        answers_give(c, ERR_UNSUPPORTED, false,
                     "branch %u is a %s branch: its state is not one to "
                     "train",
                     id, branch_type_name(b->type));
    else if (b->nonfinite || b->error)
        answers_give(c, ERR_DIVERGED, false,
                     "branch %u has %s: its state is of no use", id,
                     b->nonfinite ? "diverged" : "failed");
    else if (b->state != BRANCH_LIVE)
        answers_give(c, ERR_AGAIN, false,
                     "branch %u is only being forked; try again", id);
    else
        return false;
    return true;
}

/* A place for another; NULL, and an answer: there is none. */
static struct user_fork *take_place(struct board *c)
{
    struct user_fork *f = find(c, BRANCH_NONE);

    if (!f)
        answers_give(c, ERR_LIMIT, false,
                     "%d branches that were forked by hand live: free one",
                     USER_FORKS_MAX);
    return f;
}

static bool fork_into(struct board *c, struct user_fork *f,
                      const struct branch *parent,
                      const struct setting *setting, json_t *json)
{
    const struct branch *b =
        board_fork(c, parent, BRANCH_TRAINING, setting, json, "user");

    if (b)
        f->branch = b->id;
    return b != NULL;
}

/* "3 epochs", "100 clocks". */
static void length_text(uint32_t epochs, uint64_t clocks, char out[48])
{
    uint64_t n = clocks ? clocks : epochs;

    snprintf(out, 48, "%llu %s%s", (unsigned long long)n,
             clocks ? "clock" : "epoch", n == 1 ? "" : "s");
}

static void decide_fork(struct board *c, const struct user_fork *f)
{
    const struct branch *b = board_branch(c, f->branch);
    struct record_decision *d;
    char setting[160], length[48];

    setting_line(c, b, setting, sizeof(setting));
    length_text(f->epochs, f->clocks, length);
    d = board_decision(c, "fork",
                       "the user forks branch %u from branch %u with %s: it "
                       "runs beside the training for %s",
                       b->id, b->parent, setting, length);
    board_decision_number(d, "branch", b->id);
    board_decision_number(d, "parent", b->parent);
}

static void fork_with(struct board *c, struct user_fork *f,
                      const struct branch *parent,
                      const struct command_fork *want, const json_t *given)
{
    struct problems problems = {0};
    struct setting setting;
    json_t *json = NULL;
    enum err err = user_setting_complete(c, &parent->setting, given, "/setting",
                                         &setting, &json, &problems);

    if (err == ERR_INVAL) {
        user_setting_refuse(c, &problems);
    } else if (err) {
        answers_give(c, err, false, "out of memory; try again");
    } else if (!fork_into(c, f, parent, &setting, json)) {
        answers_give(c, ERR_LIMIT, false,
                     "as many branches live as the tuner can hold: free "
                     "one, or wait until the search ends");
    } else {
        f->asked = true;
        f->ticket = answers_ticket(c);
        f->epochs = want->epochs;
        f->clocks = want->clocks;
        decide_fork(c, f);
    }
    json_decref(json);
    problems_deinit(&problems);
}

void user_forks_fork(struct board *c, const struct command_fork *want)
{
    const struct branch *parent = board_branch(c, want->branch);
    struct user_fork *f;
    json_t *given = NULL;
    enum err err;

    assert(!want->epochs != !want->clocks);
    if (refuse_parent(c, parent, want->branch))
        return;
    f = take_place(c);
    if (!f)
        return;
    err = want->setting[0] ? json_load(want->setting, strlen(want->setting),
                                       &given, NULL, NULL)
                           : ERR_OK;
    if (err)
        answers_give(c, ERR_NOMEM, false, "out of memory; try again");
    else
        fork_with(c, f, parent, want, given);
    json_decref(given);
}

/* ---- promoting, freeing -------------------------------------------------- */

static void journal(struct board *c, const struct user_fork *f)
{
    struct record_user_branch *r = board_record_user_branch(c);

    r->branch = f->branch;
    r->instead_of = f->instead_of;
    r->promoted = f->promoted;
    r->epochs = f->epochs;
    r->clocks = f->clocks;
}

/* Only the one that was promoted last is trained. */
static void promote(struct board *c, struct user_fork *f)
{
    for (size_t i = 0; i < USER_FORKS_MAX; i++)
        c->owner->user_forks->fork[i].promoted = false;
    f->promoted = true;
}

static bool trained(const struct board *c, const struct branch *b)
{
    return b && b->id == board_base(c) && b->type == BRANCH_TRAINING &&
           run_status_unpaused(c) == RUN_TRAINING;
}

static void accept_promotion(struct board *c, const struct branch *b,
                             const struct user_fork *f)
{
    char setting[160];

    setting_line(c, b, setting, sizeof(setting));
    if (f->known)
        journal(c, f);
    board_decision(c, "promote",
                   "the user promotes branch %u: training goes on from it, "
                   "with %s",
                   b->id, setting);
    answers_give(c, ERR_OK, true,
                 "branch %u is what is trained from the next clock on; what "
                 "was trained or searched before ends",
                 b->id)
        ->branch = f->branch;
}

/* A branch that is the strategy's own, or kept, is forked, and the fork
 * promoted.
 */
static void promote_fork_of(struct board *c, const struct branch *b)
{
    struct user_fork *f = take_place(c);
    json_t *json;

    if (!f)
        return;
    json = setting_to_json(board_space(c), &b->setting);
    if (!json) {
        answers_give(c, ERR_NOMEM, false, "out of memory; try again");
        return;
    }
    if (fork_into(c, f, b, &b->setting, json)) {
        promote(c, f);
        accept_promotion(c, b, f);
    } else {
        answers_give(c, ERR_LIMIT, false,
                     "as many branches live as the tuner can hold: free "
                     "one, or wait until the search ends");
    }
    json_decref(json);
}

void user_forks_promote(struct board *c, branch_id id)
{
    const struct branch *b = board_branch(c, id);
    struct user_fork *f = id == BRANCH_NONE ? NULL : find(c, id);

    if (refuse_parent(c, b, id))
        return;
    if (trained(c, b) || (f && f->promoted)) {
        answers_give(c, ERR_OK, false, "branch %u is what is trained already",
                     id);
    } else if (f) {
        promote(c, f);
        accept_promotion(c, b, f);
    } else {
        promote_fork_of(c, b);
    }
}

static void give_up(struct board *c, struct user_fork *f, const char *reason)
{
    branch_id branch = f->branch;

    assert(f->branch != BRANCH_NONE);
    if (f->running)
        training_deinit(&f->line);
    *f = no_fork;
    board_free(c, branch, reason);
    c->owner->user_forks->cutting = true;
}

void user_forks_free(struct board *c, branch_id id)
{
    const struct branch *b = board_branch(c, id);
    struct user_fork *f = id == BRANCH_NONE ? NULL : find(c, id);

    if (!b) {
        answers_give(c, ERR_NOENT, false,
                     "branch %u does not live: it was freed, or never was", id);
    } else if (!f) {
        answers_give(c, ERR_UNSUPPORTED, false,
                     "branch %u is the tuner's: only those that were forked "
                     "by hand can be freed by hand",
                     id);
    } else if (f->asked) {
        answers_give(c, ERR_AGAIN, false,
                     "branch %u is only being forked; try again", id);
    } else {
        give_up(c, f, "freed by the user");
        board_decision(c, "free", "the user frees branch %u", id);
        answers_give(c, ERR_OK, true, "branch %u is freed", id);
    }
}

void user_forks_make_room(struct board *c, const struct branch *b)
{
    struct user_fork *worst = NULL;

    assert(b->state == BRANCH_REFUSED);
    if (strcmp(b->role, "snapshot") == 0 || find(c, b->id) ||
        find(c, b->parent))
        return;
    for (size_t i = 0; i < USER_FORKS_MAX; i++) {
        struct user_fork *f = &c->owner->user_forks->fork[i];

        if (f->branch == BRANCH_NONE || !f->known || f->promoted)
            continue;
        if (!worst || (f->over && !worst->over) ||
            (f->over == worst->over && f->branch > worst->branch))
            worst = f;
    }
    if (!worst)
        return;
    board_decision(c, "fork",
                   "memory is short: branch %u, forked by hand, is freed so "
                   "that the training goes on",
                   worst->branch);
    give_up(c, worst, "memory");
    c->owner->user_forks->made_room = true;
}

/* ---- running ------------------------------------------------------------- */

/* The training system refused it. */
static void refused(struct board *c, struct user_fork *f,
                    const struct branch *b)
{
    static const char text[] =
        "no memory for another copy of the model: free a "
        "branch, wait until the search ends, or raise "
        "memory.limit";
    branch_id id = b->id;

    board_decision(c, "fork", "branch %u, forked by hand, was refused: %s", id,
                   err_text(b->error));
    if (f->asked)
        tell(c, f, ERR_LIMIT, text);
    *f = no_fork;
    board_free(c, id, "refused");
}

/* The fork exists from here on, whatever happens to the tuner. */
static void take_up(struct board *c, struct user_fork *f)
{
    char text[128], length[48];

    assert(!f->known);
    f->known = true;
    journal(c, f);
    if (!f->asked)
        return;
    length_text(f->epochs, f->clocks, length);
    snprintf(text, sizeof(text),
             "branch %u is forked: it runs beside the training for %s",
             f->branch, length);
    tell(c, f, ERR_OK, text)->branch = f->branch;
}

static void begin(struct board *c, struct user_fork *f, const struct branch *b)
{
    assert(!f->running);
    assert(!f->over);
    training_init(&f->line, c, b->id, false);
    f->running = true;
    f->until = b->epochs + f->epochs;
    f->line.pause_at = f->clocks ? b->clocks + f->clocks : 0;
    f->over = f->epochs == 0 && f->clocks == 0;
}

static void has_run(struct board *c, struct user_fork *f)
{
    struct record_decision *d;
    char length[48];

    assert(f->running);
    f->over = true;
    training_deinit(&f->line);
    f->running = false;
    length_text(f->epochs, f->clocks, length);
    d = board_decision(c, "fork",
                       "branch %u, forked by hand, has run for %s: it waits to "
                       "be promoted or freed",
                       f->branch, length);
    board_decision_number(d, "branch", f->branch);
    board_decision_number(d, "loss", f->loss);
    if (!isnan(f->metric))
        board_decision_number(d, "metric", f->metric);
}

static void lost(struct board *c, struct user_fork *f, const struct branch *b)
{
    const char *why = b->nonfinite            ? "diverged"
                      : b->error == ERR_LIMIT ? "no memory for its test"
                                              : "failed";

    board_decision(c, "fork", "branch %u, forked by hand, is freed: %s", b->id,
                   why);
    give_up(c, f, why);
}

static void take_result(struct user_fork *f, const struct training_epoch *e)
{
    f->loss = e->e.loss;
    f->metric = e->metric;
}

/* An epoch is over, and perhaps its time. */
static void take_epoch(struct board *c, struct user_fork *f,
                       const struct training_epoch *e)
{
    training_record(&f->line, e, false, false);
    take_result(f, e);
    if (f->epochs && f->line.epochs >= f->until)
        has_run(c, f);
    else
        training_go(&f->line);
}

static void run(struct board *c, struct user_fork *f)
{
    struct training_epoch e;
    enum training_state state = TRAINING_EPOCH;

    while (state == TRAINING_EPOCH && !f->over) {
        f->line.brief = run_status(c) == RUN_TUNING;
        state = training_advance(&f->line, &e);
        if (state == TRAINING_EPOCH) {
            take_epoch(c, f, &e);
        } else if (state == TRAINING_PAUSED) {
            take_result(f, &e);
            has_run(c, f);
        } else if (state == TRAINING_BROKEN) {
            lost(c, f, board_branch(c, f->branch));
            return;
        }
    }
}

/* The fork runs no more for itself; when it stands still the strategy gets it.
 */
static void hand_over(struct board *c, struct user_fork *f,
                      const struct branch *b)
{
    branch_id branch = b->id;

    if (f->running)
        training_deinit(&f->line);
    f->running = false;
    f->over = true;
    if (b->nonfinite || b->error) {
        lost(c, f, b);
        return;
    }
    board_cut(c, branch);
    if (!branch_idle(b) ||
        run_strategy(c)->adopt(c->owner->strategy, branch) != ERR_OK)
        return;
    *f = no_fork;
    c->owner->user_forks->cutting = true;
    lifecycle_want_snapshot(c);
}

static void advance(struct board *c, struct user_fork *f)
{
    const struct branch *b = board_branch(c, f->branch);

    if (!b) {
        *f = no_fork;
        return;
    }
    if (b->state == BRANCH_REFUSED) {
        refused(c, f, b);
        return;
    }
    if (b->state != BRANCH_LIVE)
        return;
    if (!f->known)
        take_up(c, f);
    if (clockwork_is_paused(c) || b->after)
        return;
    if (f->promoted) {
        hand_over(c, f, b);
        return;
    }
    if (!f->running && !f->over)
        begin(c, f, b);
    if (!f->over)
        run(c, f);
}

/* Branches that are given up need not run to the end of their slices. */
static void cut_given_up(struct board *c)
{
    const struct operation *running = operations_running(c);

    if (!running)
        c->owner->user_forks->cutting = false;
    else if (!board_branch(c, running->branch))
        board_cut(c, running->branch);
}

/* ---- after a loss -------------------------------------------------------- */

static void begin_again(struct board *c, const struct branch *base,
                        const struct history_branch *was)
{
    /* It is freed by now: its setting is in few bytes. */
    json_t *given = history_branch_setting(board_history(c), was), *json = NULL;
    struct user_fork *f = given ? find(c, BRANCH_NONE) : NULL;
    struct problems problems = {0};
    struct setting setting;

    if (f &&
        user_setting_complete(c, &base->setting, given, "/setting", &setting,
                              &json, &problems) == ERR_OK &&
        fork_into(c, f, base, &setting, json)) {
        f->instead_of = was->branch;
        f->epochs = was->wish_epochs;
        f->clocks = was->wish_clocks;
        f->promoted = was->wish == WISH_PROMOTE;
        board_decision(c, "fork",
                       "branch %u, forked by hand, was lost with the training "
                       "system: it begins again as branch %u",
                       was->branch, f->branch);
    } else {
        board_decision(c, "fork",
                       "branch %u, forked by hand, was lost with the training "
                       "system, and cannot be forked again now",
                       was->branch);
    }
    json_decref(given);
    json_decref(json);
    problems_deinit(&problems);
}

/* A promoted branch is in what the run goes on from, if that was written after
 * it took the lead. */
static bool is_lost(const struct board *c, const struct history_branch *b)
{
    if (b->wish == WISH_NONE || isnan(b->freed_at_s))
        return false;
    return b->wish != WISH_PROMOTE || b->kept_in == 0 ||
           b->kept_in > resume_from(c);
}

/* Once the state that the run goes on from is there. */
static void recall(struct board *c)
{
    const struct history *h = board_history(c);
    const struct branch *base = board_branch(c, board_base(c));

    assert(h);
    if (!base || base->state != BRANCH_LIVE || base->after)
        return;
    for (size_t i = 0; i < history_branches_len(h); i++)
        if (is_lost(c, history_branch_at(h, i)))
            begin_again(c, base, history_branch_at(h, i));
    c->owner->user_forks->recalled = true;
}

void user_forks_advance(struct board *c)
{
    struct user_forks *u = c->owner->user_forks;

    u->begun |= slices_out(c) > 0;
    if (!u->recalled && u->begun)
        recall(c);
    if (u->cutting)
        cut_given_up(c);
    for (size_t i = 0; i < USER_FORKS_MAX && !lifecycle_ends(c); i++)
        if (u->fork[i].branch != BRANCH_NONE)
            advance(c, &u->fork[i]);
    if (u->cutting)
        cut_given_up(c);
}

void user_forks_end(struct board *c)
{
    for (size_t i = 0; i < USER_FORKS_MAX; i++)
        if (c->owner->user_forks->fork[i].asked)
            tell(c, &c->owner->user_forks->fork[i], ERR_CANCELED,
                 "the run is ending");
}
