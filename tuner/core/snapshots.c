#include "tuner/core/snapshots.h"

#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/outbox.h"
#include "tuner/board/run.h"
#include "tuner/board/strategy.h"
#include "tuner/core/lifecycle.h"
#include "tuner/core/parts.h"
#include "tuner/core/snapshot_state.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SNAPSHOTS_MAX = 16 }; /* remembered for `keep` */
/* Until one that was refused memory is tried again, at least. */
#define REFUSED_S 1.0

struct snapshots {
    /* IDLE, or what is under way: the fork of what is written, the branch's
     * folder, the best model's. */
    enum {
        SNAPSHOT_IDLE,
        SNAPSHOT_FORKING,
        SNAPSHOT_WRITING,
        SNAPSHOT_BEST
    } phase;
    bool wanted;
    double due_s;
    bool taken;          /* what follows is set */
    json_t *saved;       /* owned: by the strategy; NULL: it cannot */
    branch_id of;        /* the branch it is taken from */
    branch_id best;      /* held; BRANCH_NONE: there is none */
    struct best outcome; /* of `best` */
    bool last;           /* it says how the run ends */
    bool alone;          /* and nothing else: there is no other like it */
    branch_id branch;    /* held: what is written */
    json_t *state;       /* owned: for the record */
    uint32_t number;     /* of the last begun; names its folder */
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
    json_t *saved_written;  /* owned */
    branch_id best_written; /* on disk, with number best_number */
    uint32_t best_number;   /* 0: none */
    struct {
        uint32_t number, best; /* best: number of its folder; 0: none */
    } written[SNAPSHOTS_MAX];  /* oldest first */
    uint32_t written_len;
};

/* ---- life ---------------------------------------------------------------- */

/* The folders that are there, and a number for the next. */
static void recall(struct snapshots *s, const struct history *h, size_t keep)
{
    size_t all = history_snapshots_len(h);
    size_t from = all > keep ? all - keep : 0;

    for (size_t i = from; i < all; i++) {
        const struct record_snapshot_written *w = &history_snapshot_at(h, i)->s;

        if (s->written_len + 1 == SNAPSHOTS_MAX)
            break;
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

/* ---- what it is of ------------------------------------------------------- */

static void forget_taken(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    board_drop(c, s->best, "snapshot written");
    s->best = BRANCH_NONE;
    json_decref(s->saved);
    s->saved = NULL;
    s->taken = s->last = s->alone = false;
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
    take(c, of, saved);
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

    return id == s->branch || (s->taken && (id == s->of || id == s->best));
}

void snapshots_branch_changed(struct board *c, branch_id branch)
{
    if (c->owner->snapshots->of_written == branch)
        c->owner->snapshots->of_written = BRANCH_NONE;
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
    s->phase = SNAPSHOT_IDLE;
    due_after(c, run_options(c)->snapshot_every_s);
}

static bool written_already(const struct board *c, const struct branch *b)
{
    const struct snapshots *s = c->owner->snapshots;
    bool with_best = s->saved || s->last; /* as write and complete have it */

    return s->of_written == b->id && s->clock_written == b->clocks &&
           b->slices == 0 && (!with_best || s->best_written == s->best) &&
           (!s->saved || json_equal(s->saved, s->saved_written));
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
        if (!kept) {
            forget_taken(c);
            return false;
        }
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
    /* It waits: memory comes back when a search or an epoch ends. A node that
     * refuses everything is not asked all the time. */
    board_decision(c, "snapshot", "no memory for a snapshot now: %s",
                   err_text(b->error));
    board_free(c, b->id, "refused");
    c->owner->snapshots->branch = BRANCH_NONE;
    forget_taken(c);
    c->owner->snapshots->phase = SNAPSHOT_IDLE;
    due_after(c, fmax(run_options(c)->snapshot_every_s / 10, REFUSED_S));
}

/* The branch is there, and its numbers are known: they go with it. */
static void write(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    const struct branch *b = board_branch(c, s->branch);
    const struct branch *best = board_branch(c, s->best);

    assert(b);
    if (b->state == BRANCH_REFUSED) {
        refused(c, b);
        return;
    }
    if (b->state != BRANCH_LIVE || b->after)
        return;
    if (best && (best->state != BRANCH_LIVE || best->after))
        return;
    if (s->saved || s->last) {
        const struct snapshot_parts parts = {s->saved, b, best, &s->outcome,
                                             s->last ? &s->end : NULL};

        s->state = snapshot_state(c, &parts);
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

void snapshots_advance(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;

    if (!run_begun(c) || s->closed)
        return;
    if (s->phase == SNAPSHOT_IDLE && s->wanted)
        s->wanted = !begin(c);
    if (s->phase == SNAPSHOT_FORKING)
        write(c);
}

/* ---- written ------------------------------------------------------------- */

/* The oldest goes; the best model that was written with it stays as long as a
 * later one counts on it. */
static void remove_oldest(struct board *c)
{
    struct snapshots *s = c->owner->snapshots;
    uint32_t number = s->written[0].number, best = s->written[0].best;

    assert(s->written_len > 0);
    s->written_len--;
    memmove(s->written, s->written + 1, s->written_len * sizeof(s->written[0]));
    folder_of(c, number, false, outbox_add(c, TUNER_REMOVE)->path);
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
    json_decref(s->saved_written);
    s->saved_written = s->saved;
    s->saved = NULL;
    s->written[s->written_len].number = s->number;
    s->written[s->written_len++].best = best;
    while (s->written_len > run_options(c)->snapshot_keep ||
           s->written_len == SNAPSHOTS_MAX)
        remove_oldest(c);
    over(c);
}

void snapshots_written(struct board *c, const struct msg_done *m)
{
    struct snapshots *s = c->owner->snapshots;

    assert(s->phase == SNAPSHOT_WRITING || s->phase == SNAPSHOT_BEST);
    if (s->phase == SNAPSHOT_WRITING) {
        s->bytes = m->bytes;
    } else {
        s->bytes += m->bytes;
        s->best_written = s->best;
        s->best_number = s->number;
    }
    if (!s->state || s->best == BRANCH_NONE || s->best == s->best_written) {
        complete(c);
        return;
    }
    s->phase = SNAPSHOT_BEST;
    send_path(c, s->best, true);
}

void snapshots_not_written(struct board *c, const char *reason)
{
    struct snapshots *s = c->owner->snapshots;

    assert(s->phase == SNAPSHOT_WRITING || s->phase == SNAPSHOT_BEST);
    board_decision(c, "snapshot", "the snapshot was not written: %s", reason);
    if (s->phase == SNAPSHOT_BEST) /* half of it is no snapshot */
        folder_of(c, s->number, false, outbox_add(c, TUNER_REMOVE)->path);
    over(c);
}
