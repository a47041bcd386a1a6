#include "tuner/core/snapshots.h"

#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/outbox.h"
#include "tuner/board/run.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/core/alongs.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/snapshot_folders.h"
#include "tuner/core/snapshot_state.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Until one that was refused memory is tried again, at least. */
#define REFUSED_S 1.0
/* Until a strategy that has waited for the end of one is called again. */
#define SOON_S 1e-3

struct snapshots {
    /* IDLE, or what is under way: the fork of what is written, the branch's
     * folder, the best model's. */
    enum {
        SNAPSHOT_IDLE,
        SNAPSHOT_FORKING,
        SNAPSHOT_WRITING,
        SNAPSHOT_TRIALS,
        SNAPSHOT_BEST
    } phase;
    bool wanted;
    double due_s;
    struct strategy_waiting waiting; /* taken */
    struct alongs now, disk; /* of the one under way; of the last written */
    uint32_t left_out;       /* latest search of which that was told */
    struct along *writes;    /* TRIALS: of `now`, its folder is being written */
    bool taken;              /* what follows is set */
    json_t *saved;           /* owned: by the strategy; NULL: it cannot */
    branch_id of;            /* the branch it is taken from */
    branch_id best;          /* held; BRANCH_NONE: there is none */
    struct best outcome;     /* of `best` */
    bool last;               /* it says how the run ends */
    bool alone;              /* and nothing else: there is no other like it */
    branch_id branch;        /* held: what is written */
    json_t *state;           /* owned: for the record */
    uint32_t number;         /* of the last begun; names its folder */
    uint32_t epoch;
    clock_no clock;
    uint64_t bytes;
    bool ends;        /* the run does, by `end` */
    bool end_written; /* one that says it is on the disk */
    bool closed;      /* from before a resume: none is to follow it */
    struct tuner_finish end;
    /* State of the last one that was written: no second one of it is. */
    branch_id of_written;
    clock_no clock_written;
    uint64_t increments_written;
    json_t *saved_written;           /* owned */
    branch_id best_written;          /* on disk, with number best_number */
    uint32_t best_number;            /* 0: none */
    struct snapshot_folders folders; /* that are there */
};

/* ---- life ---------------------------------------------------------------- */

enum err snapshots_init(struct board *c)
{
    const struct history *h = board_history(c);
    struct snapshots *s = mem_calloc(1, sizeof(*s));

    assert(!c->owner->snapshots);
    if (!s)
        return ERR_NOMEM;
    c->owner->snapshots = s;
    s->branch = s->of = s->of_written = BRANCH_NONE;
    s->best = s->best_written = BRANCH_NONE;
    s->due_s = INFINITY;
    if (h && history_started(h)) {
        snapshot_folders_recall(&s->folders, h, run_options(c)->snapshot_keep);
        s->number = history_snapshot_next(h);
    }
    return ERR_OK;
}

void snapshots_deinit(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    if (!s)
        return;
    json_decref(s->saved);
    json_decref(s->state);
    json_decref(s->saved_written);
    alongs_deinit(&s->now);
    mem_free(s);
    c->owner->snapshots = NULL;
}

void snapshots_restored(struct board *c, branch_id best, uint32_t number)
{
    c->owner->snapshots->best_written = best;
    if (best != BRANCH_NONE)
        c->owner->snapshots->best_number = number;
}

void snapshots_pass_over(struct board *c, uint32_t number)
{
    snapshot_folders_pass_over(&c->owner->snapshots->folders, number);
}

/* ---- when ---------------------------------------------------------------- */

static void due_after(struct board *c, double seconds)
{
    c->owner->snapshots->due_s = clockwork_now(c) + seconds;
}

void snapshots_begin(struct board *c)
{
    assert(run_ready(c));
    due_after(c, run_options(c)->snapshot_every_s);
}

void snapshots_want(struct board *c)
{
    c->owner->snapshots->wanted = true;
}

void lifecycle_want_snapshot(struct board *c)
{
    if (isfinite(run_options(c)->snapshot_every_s))
        snapshots_want(c);
}

bool snapshots_wanted(const struct board *c)
{
    return c->owner->snapshots->wanted || snapshots_busy(c);
}

bool snapshots_busy(const struct board *c)
{
    return c->owner->snapshots->phase != SNAPSHOT_IDLE;
}

bool lifecycle_writes_trials(const struct board *c)
{
    const struct snapshots *s = c->owner->snapshots;

    return snapshots_busy(c) && s->saved && run_strategy(c)->waiting &&
           saved_search(s->saved) != 0;
}

/* At the end of a run its ending says which are written, and when. */
void snapshots_tick(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    if (lifecycle_ends(c)) {
        s->due_s = INFINITY;
        return;
    }
    if (s->due_s == INFINITY && !snapshots_wanted(c))
        s->due_s =
            clockwork_first_clock_at(c) + run_options(c)->snapshot_every_s;
    if (clockwork_now(c) >= s->due_s) {
        s->wanted = true;
        s->due_s = INFINITY;
    }
}

double snapshots_due_at(const struct board *c)
{
    return c->owner->snapshots->due_s;
}

/* ---- what it is of ------------------------------------------------------- */

static void forget_taken(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    board_drop(c, s->best, "snapshot written");
    s->best = BRANCH_NONE;
    json_decref(s->saved);
    s->saved = NULL;
    s->taken = s->last = s->alone = false;
    alongs_drop(c, &s->now);
    s->waiting.n = 0;
}

void snapshots_want_none(struct board *c)
{
    assert(!snapshots_busy(c));
    if (c->owner->snapshots->taken)
        forget_taken(c);
    c->owner->snapshots->wanted = false;
}

static void take(struct board *c, branch_id of, json_t *saved)
{
    struct snapshots *s = c->owner->snapshots;

    s->of = of;
    s->saved = saved;
    s->outcome = *board_best(c);
    s->best = s->outcome.branch;
    if (s->best != BRANCH_NONE)
        board_hold(c, s->best);
    /* A run that has neither has no model yet, but trials to go on
     * with. */
    s->last = s->ends && (of != 0 || s->best != BRANCH_NONE);
    s->taken = true;
}

/* The disk is short: a contest within its search is left out. */
static bool leaves_out(struct board *c, const json_t *saved)
{
    struct snapshots *s = c->owner->snapshots;
    uint32_t search = saved_search(saved);

    if (!run_strategy(c)->waiting || search == 0 ||
        run_options(c)->snapshot_trials)
        return false;
    if (search != s->left_out)
        board_decision(c, "snapshot",
                       "snapshot.trials is \"anew\": trials that wait are not "
                       "in snapshots, and a resume begins search %u anew",
                       search);
    s->left_out = search;
    return true;
}

bool snapshots_take(struct board *c)
{
    const struct strategy_ops *ops = run_strategy(c);
    struct snapshots *s = c->owner->snapshots;
    branch_id of = board_base(c);
    json_t *saved = NULL;
    enum err err = ops->save(c->owner->strategy, &of, &saved);
    const struct branch *b = err ? NULL : board_branch(c, of);

    assert(!s->taken);
    if (err == ERR_NOMEM)
        board_retry(c);
    if (!b || b->state != BRANCH_LIVE || b->nonfinite) {
        json_decref(saved);
        return false;
    }
    if (leaves_out(c, saved)) {
        json_decref(saved);
        saved = NULL;
        of = board_base(c);
    }
    take(c, of, saved);
    if (saved && ops->waiting)
        ops->waiting(c->owner->strategy, &s->waiting);
    return true;
}

void snapshots_end(struct board *c, const struct tuner_finish *end)
{
    c->owner->snapshots->end = *end;
    c->owner->snapshots->ends = true;
}

void snapshots_take_end(struct board *c, branch_id model)
{
    struct snapshots *s = c->owner->snapshots;

    assert(s->ends);
    assert(!s->taken);
    assert(model != 0);
    take(c, model, NULL);
    s->alone = true;
}

bool snapshots_end_written(const struct board *c)
{
    return c->owner->snapshots->end_written;
}

void snapshots_end_restored(struct board *c)
{
    c->owner->snapshots->end_written = true;
    c->owner->snapshots->closed = true;
}

bool snapshots_need(const struct board *c, branch_id id)
{
    const struct snapshots *s = c->owner->snapshots;

    if (alongs_need(c, &s->now, id))
        return true;
    for (uint32_t i = 0; i < s->waiting.n; i++)
        if (id == s->waiting.x[i].branch)
            return true;
    return id == s->branch || (s->taken && (id == s->of || id == s->best));
}

/* ---- writing ------------------------------------------------------------- */

static void over(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    board_drop(c, s->branch, "snapshot written");
    s->branch = BRANCH_NONE;
    forget_taken(c);
    json_decref(s->state);
    s->state = NULL;
    s->writes = NULL;
    s->phase = SNAPSHOT_IDLE;
    due_after(c, run_options(c)->snapshot_every_s);
    board_retry_after(c, SOON_S);
}

static bool written_already(const struct board *c, const struct branch *b)
{
    const struct snapshots *s = c->owner->snapshots;
    bool with_best = s->saved || s->last; /* as write and complete have it */

    return s->of_written == b->id && s->clock_written == b->clocks &&
           s->increments_written == b->increments && b->slices == 0 &&
           !alongs_added_to(c, &s->disk, &s->waiting) &&
           (!with_best || s->best_written == s->best) &&
           (!s->saved || json_equal(s->saved, s->saved_written));
}

/* No branch is free: what a contest saves is too much to be made in every step.
 * At the end of the run there is no later. */
static bool not_now(struct board *c)
{
    forget_taken(c);
    due_after(c, fmax(run_options(c)->snapshot_every_s / 10, REFUSED_S));
    return !lifecycle_ends(c);
}

/* Starts one, if none is under way. False if it cannot be now. */
static bool begin(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    const struct branch *b;
    branch_id kept;

    assert(s->phase == SNAPSHOT_IDLE);
    if (!s->taken && !snapshots_take(c))
        return false;
    b = board_branch(c, s->of);
    assert(b);
    if (!s->alone && written_already(c, b)) {
        forget_taken(c);
        due_after(c, run_options(c)->snapshot_every_s);
        return true;
    }
    kept = alongs_hold_end(c, b->id);
    if (kept == BRANCH_NONE)
        return not_now(c);
    if (!alongs_take(c, &s->now, &s->disk, &s->waiting, s->number + 1)) {
        board_drop(c, kept, "not needed");
        return not_now(c);
    }
    s->branch = kept;
    s->phase = SNAPSHOT_FORKING;
    return true;
}

static void send_path(struct board *c, branch_id kept, bool best)
{
    snapshot_folder(c, c->owner->snapshots->number, best,
                    operations_send_path(c, MSG_SNAPSHOT, kept)->path);
}

static void refused(struct board *c, const struct branch *b)
{
    struct snapshots *s = c->owner->snapshots;

    /* It waits: memory comes back when a search or an epoch ends. A node that
     * refuses everything is not asked all the time. */
    board_decision(c, "snapshot", "no memory for a snapshot now: %s",
                   err_text(b->error));
    board_drop(c, s->branch, "not needed");
    s->branch = BRANCH_NONE;
    forget_taken(c);
    s->phase = SNAPSHOT_IDLE;
    board_retry_after(c, SOON_S);
    due_after(c, fmax(run_options(c)->snapshot_every_s / 10, REFUSED_S));
}

/* A slice that was out when it was begun has diverged: nobody could go on from
 * that. It is taken again at once, when the strategy knows. */
static void spoilt(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    board_drop(c, s->branch, "diverged");
    s->branch = BRANCH_NONE;
    forget_taken(c);
    s->phase = SNAPSHOT_IDLE;
    s->wanted = true;
    board_retry_after(c, SOON_S);
}

static bool has_diverged(const struct board *c)
{
    const struct snapshots *s = c->owner->snapshots;

    return board_branch(c, s->branch)->nonfinite || alongs_diverged(c, &s->now);
}

/* The branch is there, and its numbers are known: they go with it. */
static void write(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    const struct branch *b = board_branch(c, s->branch);
    const struct branch *best = board_branch(c, s->best), *no;

    assert(b);
    if (b->state == BRANCH_REFUSED) {
        refused(c, b);
        return;
    }
    if (b->state != BRANCH_LIVE || b->after)
        return;
    if (best && (best->state != BRANCH_LIVE || best->after))
        return;
    if (!alongs_settled(c, &s->now, &no))
        return;
    if (no) {
        refused(c, no);
        return;
    }
    if (has_diverged(c)) {
        spoilt(c);
        return;
    }
    if (s->saved || s->last) {
        struct snapshot_parts parts = {.saved = s->saved,
                                       .main = b,
                                       .own = lifecycle_writes_trials(c),
                                       .best = best,
                                       .outcome = &s->outcome,
                                       .end = s->last ? &s->end : NULL,
                                       .trials = s->now.n};

        bool known = alongs_state(c, &s->now);

        for (uint32_t i = 0; i < s->now.n; i++)
            parts.trial[i] = s->now.x[i].t.state;
        s->state = known ? snapshot_state(c, &parts) : NULL;
        if (!s->state) {
            board_retry(c);
            return;
        }
    }
    s->epoch = b->epochs;
    s->clock = b->clocks;
    s->number++;
    s->phase = SNAPSHOT_WRITING;
    send_path(c, b->id, false);
}

/* ---- written ------------------------------------------------------------- */

static void record_written(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    struct record_snapshot_written *r = board_record_snapshot_written(c);

    r->branch = s->branch;
    r->clock = s->clock;
    r->epoch = s->epoch;
    r->best_of = BRANCH_NONE;
    r->bytes = s->bytes;
    snapshot_folder(c, s->number, false, r->path);
    r->state = s->state;
    s->state = NULL;
    if (s->best == BRANCH_NONE || !r->state)
        return;
    r->best_epoch = s->outcome.epoch;
    r->best_of = s->outcome.of;
    snapshot_folder(c, s->best_number, true, r->best_path);
}

static void complete(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    uint32_t best = s->best == BRANCH_NONE || !s->state ? 0 : s->best_number;
    struct snapshot_trial trial[STRATEGY_WAITING_MAX];

    record_written(c);
    s->end_written |= s->last;
    s->of_written = s->of;
    s->clock_written = s->clock;
    s->increments_written = board_branch(c, s->branch)->increments;
    json_decref(s->saved_written);
    s->saved_written = s->saved;
    s->saved = NULL;
    s->disk = s->now;
    for (uint32_t i = 0; i < s->disk.n; i++) {
        s->disk.x[i].t.state = NULL;
        trial[i] = s->disk.x[i].t;
    }
    snapshot_folders_add(&s->folders, s->number, best, trial, s->now.n);
    snapshot_folders_trim(c, &s->folders, s->best_number);
    over(c);
}

/* ---- trials, one after the other ----------------------------------------- */

/* What was written of the one under way goes: half of it is no snapshot. */
static void give_up(struct board *c, const char *reason)
{
    struct snapshots *s = c->owner->snapshots;

    board_decision(c, "snapshot", "the snapshot was not written: %s", reason);
    for (uint32_t i = 0; i < s->now.n; i++)
        if (s->now.x[i].whole && s->now.x[i].t.number == s->number)
            snapshot_folder_of_trial(c, s->number, s->now.x[i].t.trial,
                                     outbox_add(c, TUNER_REMOVE)->path);
    if (s->phase != SNAPSHOT_WRITING)
        snapshot_folder(c, s->number, false, outbox_add(c, TUNER_REMOVE)->path);
    over(c);
}

/* Asks for the next folder. True: all are there. */
static bool write_trials(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    const char *why;
    bool whole;

    if (s->writes)
        return false;
    why = alongs_fork(c, &s->now);
    if (why) {
        give_up(c, why);
        due_after(c, fmax(run_options(c)->snapshot_every_s / 10, REFUSED_S));
        return false;
    }
    s->writes = alongs_next(c, &s->now, &whole);
    if (s->writes)
        snapshot_folder_of_trial(
            c, s->number, s->writes->t.trial,
            operations_send_path(c, MSG_SNAPSHOT, s->writes->fork)->path);
    return whole;
}

static void next_folder(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    if (s->state && s->now.n > 0) {
        s->phase = SNAPSHOT_TRIALS;
        if (!write_trials(c))
            return;
    }
    if (!s->state || s->best == BRANCH_NONE || s->best == s->best_written) {
        complete(c);
        return;
    }
    s->phase = SNAPSHOT_BEST;
    send_path(c, s->best, true);
}

void snapshots_written(struct board *c, const struct msg_done *m)
{
    struct snapshots *s = c->owner->snapshots;

    assert(s->phase != SNAPSHOT_IDLE && s->phase != SNAPSHOT_FORKING);
    if (s->phase == SNAPSHOT_WRITING) {
        s->bytes = m->bytes;
        next_folder(c);
        return;
    }
    s->bytes += m->bytes;
    if (s->phase == SNAPSHOT_TRIALS) {
        alongs_written(c, s->writes);
        s->writes = NULL;
        next_folder(c);
        return;
    }
    s->best_written = s->best;
    s->best_number = s->number;
    complete(c);
}

void snapshots_not_written(struct board *c, const char *reason)
{
    assert(c->owner->snapshots->phase != SNAPSHOT_IDLE &&
           c->owner->snapshots->phase != SNAPSHOT_FORKING);
    give_up(c, reason);
}

void snapshots_advance(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    if (!run_begun(c) || s->closed)
        return;
    if (s->phase == SNAPSHOT_IDLE && s->wanted)
        s->wanted = !begin(c);
    if (s->phase == SNAPSHOT_FORKING)
        write(c);
    else if (s->phase == SNAPSHOT_TRIALS && !s->writes)
        next_folder(c);
}
