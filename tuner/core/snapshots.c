#include "tuner/core/snapshots.h"

#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/outbox.h"
#include "tuner/board/run.h"
#include "tuner/board/saved.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/snapshot_state.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SNAPSHOTS_MAX = 16, /* remembered for `keep` */
    BATCH_MAX = 8       /* trials that wait and are forked at the same time */
};

/* A trial's branch that is taken along. One that runs is forked with the
 * snapshot's own; one that waits is guarded, and forked when its turn comes: a
 * second model for each at the same time would be too much. */
struct along {
    struct snapshot_trial t;     /* its `state` is owned; NULL: not known yet */
    branch_id from;              /* the trial's own, as of the snapshot */
    branch_id fork;              /* held: what is written; or BRANCH_NONE */
    uint64_t clocks, increments; /* that are in it */
    bool guards;                 /* `from` */
    bool whole;                  /* its folder is there already */
};
struct alongs {
    uint32_t n;
    struct along x[STRATEGY_WAITING_MAX];
};
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
    uint32_t batch;          /* of those that wait, forked at the same time */
    bool asked;              /* TRIALS: a folder is being written: */
    uint32_t writes;         /* of this one of `now` */
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
    json_t *saved_written;  /* owned */
    branch_id best_written; /* on disk, with number best_number */
    uint32_t best_number;   /* 0: none */
    struct written {
        uint32_t number, best; /* best: number of its folder; 0: none */
        uint32_t trials;
        struct {
            uint32_t number, trial;
        } trial[STRATEGY_WAITING_MAX]; /* [trials] */
    } written[SNAPSHOTS_MAX];          /* oldest first */
    uint32_t written_len;
};

/* ---- life ---------------------------------------------------------------- */

static void name_trials(struct snapshots *s, const struct snapshot_trial t[],
                        uint32_t n)
{
    uint32_t at = s->written_len;

    s->written[at].trials = n;
    for (uint32_t i = 0; i < n; i++) {
        s->written[at].trial[i].number = t[i].number;
        s->written[at].trial[i].trial = t[i].trial;
    }
}

static void recall_trials(struct snapshots *s, const json_t *state)
{
    struct snapshot_trial t[STRATEGY_WAITING_MAX];
    uint32_t n = 0;

    if (!snapshot_state_trials(state, t, STRATEGY_WAITING_MAX, &n) ||
        n > STRATEGY_WAITING_MAX)
        n = 0;
    name_trials(s, t, n);
}

/* The folders that are there, and a number for the next. */
static void recall(struct snapshots *s, const struct history *h, size_t keep)
{
    size_t all = history_snapshots_len(h);
    size_t from = all > keep ? all - keep : 0;

    for (size_t i = from; i < all; i++) {
        const struct record_snapshot_written *w = &history_snapshot_at(h, i)->s;

        if (s->written_len + 1 == SNAPSHOTS_MAX)
            break;
        recall_trials(s, w->state);
        s->written[s->written_len].number = history_snapshot_number(w->path);
        s->written[s->written_len++].best =
            history_snapshot_number(w->best_path);
    }
    s->number = history_snapshot_next(h);
}

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
    if (h && history_started(h))
        recall(s, h, run_options(c)->snapshot_keep);
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
    for (uint32_t i = 0; i < s->now.n; i++)
        json_decref(s->now.x[i].t.state);
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
    struct snapshots *s = c->owner->snapshots;
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->written_len; i++)
        if (s->written[i].number != number)
            s->written[n++] = s->written[i];
    s->written_len = n;
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

/* Folder of snapshot @number, or of the best model that was written with it. */
static void folder_of(const struct board *c, uint32_t number, bool best,
                      char path[PROTO_PATH_MAX])
{
    /* The folder's name is checked for length when the run is made. */
    if (snprintf(path, PROTO_PATH_MAX, "%s/%06u%s",
                 run_options(c)->snapshot_dir, number,
                 best ? "-best" : "") >= PROTO_PATH_MAX)
        path[0] = '\0';
}

static void folder_of_trial(const struct board *c, uint32_t number,
                            uint32_t trial, char path[PROTO_PATH_MAX])
{
    char name[HISTORY_TRIAL_FOLDER_MAX];

    history_trial_folder(number, trial, name);
    if (snprintf(path, PROTO_PATH_MAX, "%s/%s", run_options(c)->snapshot_dir,
                 name) >= PROTO_PATH_MAX)
        path[0] = '\0';
}

/* ---- what it is of ------------------------------------------------------- */

static void drop_along(struct board *c, struct along *x)
{
    board_drop(c, x->fork, "snapshot written");
    x->fork = BRANCH_NONE;
    if (x->guards) {
        branch_id spare = board_guard_fork(c, x->from);

        board_guard_end(c, x->from);
        board_drop(c, spare, "snapshot written");
    }
    x->guards = false;
}

static void drop_alongs(struct board *c, struct alongs *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        drop_along(c, &a->x[i]);
        json_decref(a->x[i].t.state);
    }
    a->n = 0;
}

static const struct along *on_disk(const struct snapshots *s, uint32_t trial)
{
    for (uint32_t i = 0; i < s->disk.n; i++)
        if (s->disk.x[i].t.trial == trial)
            return &s->disk.x[i];
    return NULL;
}

static bool is_kept(const struct branch *b)
{
    return b->type == BRANCH_KEPT || b->type == BRANCH_INIT;
}

/* The branch as it will be when its slices are over, held; BRANCH_NONE: there
 * is no place for one. */
static branch_id hold_end(struct board *c, branch_id id)
{
    const struct branch *b = board_branch(c, id), *kept;

    assert(b);
    if (is_kept(b)) {
        board_hold(c, b->id);
        return b->id;
    }
    kept = board_keep(c, b, "snapshot");
    return kept ? kept->id : BRANCH_NONE;
}

/* Its folder is there, as it is. */
static bool is_whole(const struct along *disk, const struct branch *b)
{
    return disk && disk->from == b->id && disk->clocks == b->clocks &&
           disk->increments == b->increments && b->slices == 0;
}

/* @x of what its trial waits or runs as. False: not now. */
static bool take_one(struct board *c, struct along *x)
{
    struct snapshots *s = c->owner->snapshots;
    const struct branch *b = board_branch(c, x->from);
    const struct along *disk = on_disk(s, x->t.trial);

    if (!b)
        return false;
    x->whole = is_whole(disk, b);
    x->t.number = x->whole ? disk->t.number : s->number + 1;
    x->t.of = x->whole ? disk->t.of : b->id;
    x->clocks = b->clocks;
    x->increments = b->increments;
    if (is_kept(b) || b->slices > 0 || b->after) {
        x->fork = hold_end(c, b->id);
        return x->fork != BRANCH_NONE;
    }
    x->t.state = snapshot_state_trial(&x->t, b);
    if (!x->t.state) {
        board_retry(c);
        return false;
    }
    if (!x->whole)
        board_guard(c, b->id);
    x->guards = !x->whole;
    return true;
}

/* Takes the trials along. False: not now. */
static bool take_along(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    s->batch = BATCH_MAX;
    for (s->now.n = 0; s->now.n < s->waiting.n;) {
        struct along *x = &s->now.x[s->now.n++];

        *x = (struct along){.t.trial = s->waiting.x[s->now.n - 1].trial,
                            .from = s->waiting.x[s->now.n - 1].branch,
                            .fork = BRANCH_NONE};
        if (!take_one(c, x)) {
            drop_alongs(c, &s->now);
            return false;
        }
    }
    return true;
}

/* The lineages of all are known. *@refused: one that was not made. */
static bool alongs_settled(struct board *c, const struct branch **refused)
{
    struct snapshots *s = c->owner->snapshots;

    *refused = NULL;
    for (uint32_t i = 0; i < s->now.n; i++) {
        const struct branch *b = board_branch(c, s->now.x[i].fork);

        if (s->now.x[i].t.state)
            continue;
        if (!b || b->state == BRANCH_FORKING ||
            (b->state == BRANCH_LIVE && b->after))
            return false;
        if (b->state == BRANCH_REFUSED)
            *refused = b;
    }
    return true;
}

/* What was not known when they were taken. False: out of memory. */
static bool state_alongs(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    for (uint32_t i = 0; i < s->now.n; i++) {
        struct along *x = &s->now.x[i];
        const struct branch *b = board_branch(c, x->fork);

        if (x->t.state)
            continue;
        x->clocks = b->clocks;
        x->t.state = snapshot_state_trial(&x->t, b);
        if (!x->t.state)
            return false;
    }
    return true;
}

static void forget_taken(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    board_drop(c, s->best, "snapshot written");
    s->best = BRANCH_NONE;
    json_decref(s->saved);
    s->saved = NULL;
    s->taken = s->last = s->alone = false;
    drop_alongs(c, &s->now);
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

    for (uint32_t i = 0; i < s->now.n; i++)
        if (id == s->now.x[i].fork || id == s->now.x[i].from ||
            (s->now.x[i].guards && id == board_guard_fork(c, s->now.x[i].from)))
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
    s->asked = false;
    s->phase = SNAPSHOT_IDLE;
    due_after(c, run_options(c)->snapshot_every_s);
    board_retry_after(c, SOON_S);
}

/* A user has added to a trial since its folder was written. */
static bool added_to(const struct board *c)
{
    const struct snapshots *s = c->owner->snapshots;

    for (uint32_t i = 0; i < s->waiting.n; i++) {
        const struct branch *b = board_branch(c, s->waiting.x[i].branch);
        const struct along *disk = on_disk(s, s->waiting.x[i].trial);

        if (b && disk && disk->from == b->id &&
            disk->increments != b->increments)
            return true;
    }
    return false;
}

static bool written_already(const struct board *c, const struct branch *b)
{
    const struct snapshots *s = c->owner->snapshots;
    bool with_best = s->saved || s->last; /* as write and complete have it */

    return s->of_written == b->id && s->clock_written == b->clocks &&
           s->increments_written == b->increments && b->slices == 0 &&
           !added_to(c) && (!with_best || s->best_written == s->best) &&
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
    const struct branch *b, *kept;

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
    if (b->type == BRANCH_KEPT || b->type == BRANCH_INIT) {
        board_hold(c, b->id);
        kept = b;
    } else {
        kept = board_keep(c, b, "snapshot");
        if (!kept)
            return not_now(c);
    }
    if (!take_along(c)) {
        board_drop(c, kept->id, "not needed");
        return not_now(c);
    }
    s->branch = kept->id;
    s->phase = SNAPSHOT_FORKING;
    return true;
}

static void send_path(struct board *c, branch_id kept, bool best)
{
    folder_of(c, c->owner->snapshots->number, best,
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

static bool has_diverged(struct board *c)
{
    const struct snapshots *s = c->owner->snapshots;

    if (board_branch(c, s->branch)->nonfinite)
        return true;
    for (uint32_t i = 0; i < s->now.n; i++) {
        const struct branch *b = board_branch(c, s->now.x[i].fork);

        if (b && b->nonfinite)
            return true;
    }
    return false;
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
    if (!alongs_settled(c, &no))
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

        for (uint32_t i = 0; i < s->now.n && state_alongs(c); i++)
            parts.trial[i] = s->now.x[i].t.state;
        s->state = state_alongs(c) ? snapshot_state(c, &parts) : NULL;
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

static bool is_named(const struct snapshots *s, uint32_t number, uint32_t trial)
{
    for (uint32_t i = 0; i < s->written_len; i++)
        for (uint32_t k = 0; k < s->written[i].trials; k++)
            if (s->written[i].trial[k].number == number &&
                s->written[i].trial[k].trial == trial)
                return true;
    return false;
}

/* Folders of trials that no later one counts on. */
static void remove_trials(struct board *c, const struct written *oldest)
{
    for (uint32_t k = 0; k < oldest->trials; k++)
        if (!is_named(c->owner->snapshots, oldest->trial[k].number,
                      oldest->trial[k].trial))
            folder_of_trial(c, oldest->trial[k].number, oldest->trial[k].trial,
                            outbox_add(c, TUNER_REMOVE)->path);
}

/* The oldest goes; the best model that was written with it stays as long as a
 * later one counts on it. */
static void remove_oldest(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    uint32_t number = s->written[0].number, best = s->written[0].best;
    const struct written oldest = s->written[0];

    assert(s->written_len > 0);
    s->written_len--;
    memmove(s->written, s->written + 1, s->written_len * sizeof(s->written[0]));
    folder_of(c, number, false, outbox_add(c, TUNER_REMOVE)->path);
    remove_trials(c, &oldest);
    if (best == 0 || best == s->best_number)
        return;
    for (uint32_t i = 0; i < s->written_len; i++)
        if (s->written[i].best == best)
            return;
    folder_of(c, best, true, outbox_add(c, TUNER_REMOVE)->path);
}

static void record_written(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    struct record_snapshot_written *r = board_record_snapshot_written(c);

    r->branch = s->branch;
    r->clock = s->clock;
    r->epoch = s->epoch;
    r->best_of = BRANCH_NONE;
    r->bytes = s->bytes;
    folder_of(c, s->number, false, r->path);
    r->state = s->state;
    s->state = NULL;
    if (s->best == BRANCH_NONE || !r->state)
        return;
    r->best_epoch = s->outcome.epoch;
    r->best_of = s->outcome.of;
    folder_of(c, s->best_number, true, r->best_path);
}

static void complete(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    uint32_t best = s->best == BRANCH_NONE || !s->state ? 0 : s->best_number;

    assert(s->written_len < SNAPSHOTS_MAX);
    record_written(c);
    s->end_written |= s->last;
    s->of_written = s->of;
    s->clock_written = s->clock;
    s->increments_written = board_branch(c, s->branch)->increments;
    json_decref(s->saved_written);
    s->saved_written = s->saved;
    s->saved = NULL;
    s->written[s->written_len].trials = s->now.n;
    for (uint32_t i = 0; i < s->now.n; i++) {
        s->written[s->written_len].trial[i].number = s->now.x[i].t.number;
        s->written[s->written_len].trial[i].trial = s->now.x[i].t.trial;
    }
    s->disk = s->now;
    for (uint32_t i = 0; i < s->disk.n; i++)
        s->disk.x[i].t.state = NULL;
    s->written[s->written_len].number = s->number;
    s->written[s->written_len++].best = best;
    while (s->written_len > run_options(c)->snapshot_keep ||
           s->written_len == SNAPSHOTS_MAX)
        remove_oldest(c);
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
            folder_of_trial(c, s->number, s->now.x[i].t.trial,
                            outbox_add(c, TUNER_REMOVE)->path);
    if (s->phase != SNAPSHOT_WRITING)
        folder_of(c, s->number, false, outbox_add(c, TUNER_REMOVE)->path);
    over(c);
}

/* The fork of a trial that waits, or of what it was until it went on. False:
 * there is no place for one. */
static bool fork_along(struct board *c, struct along *x)
{
    branch_id spare = board_guard_fork(c, x->from);

    x->fork = spare != BRANCH_NONE        ? spare
              : board_guarded(c, x->from) ? hold_end(c, x->from)
                                          : BRANCH_NONE;
    if (x->fork == BRANCH_NONE)
        return false;
    board_guard_end(c, x->from);
    x->guards = false;
    return true;
}

/* Fewer at the same time: it is tried again when the others are written. */
static void take_back(struct board *c, struct along *x)
{
    struct snapshots *s = c->owner->snapshots;

    board_drop(c, x->fork, "refused");
    x->fork = BRANCH_NONE;
    board_guard(c, x->from);
    x->guards = true;
    s->batch = 1;
}

static bool can_take_back(const struct board *c, const struct along *x)
{
    const struct branch *b = board_branch(c, x->from);

    return b && !is_kept(b) && b->clocks == x->clocks &&
           b->increments == x->increments && branch_idle(b) &&
           c->owner->snapshots->batch > 1;
}

/* Forks as many as there may be. False: the snapshot was given up. */
static bool fork_batch(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    uint32_t forks = 0;

    for (uint32_t i = 0; i < s->now.n; i++) {
        struct along *x = &s->now.x[i];
        const struct branch *b = board_branch(c, x->fork);

        if (b && b->state == BRANCH_REFUSED) {
            if (!can_take_back(c, x)) {
                give_up(c, "no memory for it now");
                due_after(
                    c, fmax(run_options(c)->snapshot_every_s / 10, REFUSED_S));
                return false;
            }
            take_back(c, x);
        }
        forks += !x->whole && x->fork != BRANCH_NONE;
    }
    for (uint32_t i = 0; i < s->now.n && forks < s->batch; i++) {
        struct along *x = &s->now.x[i];

        if (x->whole || x->fork != BRANCH_NONE)
            continue;
        if (!fork_along(c, x) && (forks == 0 || !board_guarded(c, x->from))) {
            give_up(c, "no branch was free for it");
            due_after(c,
                      fmax(run_options(c)->snapshot_every_s / 10, REFUSED_S));
            return false;
        }
        forks++;
    }
    return true;
}

/* Asks for the next folder. True: all are there. */
static bool write_trials(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    bool all = true;

    if (s->asked || !fork_batch(c))
        return false;
    for (uint32_t i = 0; i < s->now.n; i++) {
        struct along *x = &s->now.x[i];
        const struct branch *b = board_branch(c, x->fork);

        all &= x->whole;
        if (x->whole || !b || b->state != BRANCH_LIVE || b->after)
            continue;
        folder_of_trial(c, s->number, x->t.trial,
                        operations_send_path(c, MSG_SNAPSHOT, b->id)->path);
        s->asked = true;
        s->writes = i;
        return false;
    }
    return all;
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
        s->asked = false;
        s->now.x[s->writes].whole = true;
        drop_along(c, &s->now.x[s->writes]);
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
    else if (s->phase == SNAPSHOT_TRIALS && !s->asked)
        next_folder(c);
}
