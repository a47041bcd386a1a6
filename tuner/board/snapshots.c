#include "tuner/board/snapshots.h"

#include "tuner/board/board_state.h"
#include "tuner/board/resume.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Folder of snapshot @number, or of the best model that was written with it. */
static void folder_of(const struct board *c, uint32_t number, bool best,
                      char path[PROTO_PATH_MAX])
{
    /* The folder's name is checked for length when the run is made. */
    if (snprintf(path, PROTO_PATH_MAX, "%s/%06u%s", c->snapshot_dir, number,
                 best ? "-best" : "") >= PROTO_PATH_MAX)
        path[0] = '\0';
}

/* ---- what it is of ------------------------------------------------------- */

static void forget_taken(struct board *c)
{
    struct snapshotting *s = &c->snapshot;

    board_drop(c, s->best, "snapshot written");
    s->best = BRANCH_NONE;
    json_decref(s->saved);
    s->saved = NULL;
    s->taken = false;
}

bool snapshots_take(struct board *c)
{
    const struct strategy_ops *ops = c->options.strategy;
    struct snapshotting *s = &c->snapshot;
    branch_id of = c->base;
    json_t *saved = NULL;
    enum err err = ops->save(c->strategy, &of, &saved);
    struct branch *b = err ? NULL : ledger_branch(c, of);

    assert(!s->taken);
    if (err == ERR_NOMEM)
        board_retry(c);
    if (!b || b->state != BRANCH_LIVE || b->nonfinite) {
        json_decref(saved);
        return false;
    }
    s->of = of;
    s->saved = saved;
    s->best = c->best.branch;
    s->outcome = c->best;
    if (s->best != BRANCH_NONE)
        board_hold(c, s->best);
    s->taken = true;
    return true;
}

bool snapshots_need(const struct board *c, branch_id id)
{
    const struct snapshotting *s = &c->snapshot;

    return id == s->branch || (s->taken && (id == s->of || id == s->best));
}

/* ---- writing ------------------------------------------------------------- */

static void over(struct board *c)
{
    struct snapshotting *s = &c->snapshot;

    board_drop(c, s->branch, "snapshot written");
    s->branch = BRANCH_NONE;
    forget_taken(c);
    json_decref(s->state);
    s->state = NULL;
    s->phase = SNAPSHOT_IDLE;
    s->due_s = c->now_s + c->options.snapshot_every_s;
}

static bool written_already(const struct board *c, const struct branch *b)
{
    const struct snapshotting *s = &c->snapshot;

    return s->of_written == b->id && s->clock_written == b->clocks &&
           b->slices == 0 && s->best_written == s->best &&
           (!s->saved || json_equal(s->saved, s->saved_written));
}

/* Starts one, if none is under way. False if it cannot be now. */
static bool begin(struct board *c)
{
    struct snapshotting *s = &c->snapshot;
    const struct branch *b, *kept;

    if (!s->taken && !snapshots_take(c))
        return false;
    b = ledger_branch(c, s->of);
    assert(b);
    if (written_already(c, b)) {
        forget_taken(c);
        s->due_s = c->now_s + c->options.snapshot_every_s;
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
    struct msg *m = board_send(c, MSG_SNAPSHOT, kept);

    m->snapshot.branch = kept;
    folder_of(c, c->snapshot.number, best, m->snapshot.path);
}

static void refused(struct board *c, struct branch *b)
{
    /* It waits: memory comes back when a search or an epoch ends. */
    board_decision(c, "snapshot", "no memory for a snapshot now: %s",
                   err_text(b->error));
    board_free(c, b->id, "refused");
    c->snapshot.branch = BRANCH_NONE;
    forget_taken(c);
    c->snapshot.phase = SNAPSHOT_IDLE;
    c->snapshot.due_s = c->now_s + c->options.snapshot_every_s / 10;
}

/* The branch is there, and its numbers are known: they go with it. */
static void write(struct board *c)
{
    struct snapshotting *s = &c->snapshot;
    struct branch *b = ledger_branch(c, s->branch);
    struct branch *best = ledger_branch(c, s->best);

    assert(b);
    if (b->state == BRANCH_REFUSED) {
        refused(c, b);
        return;
    }
    if (b->state != BRANCH_LIVE || b->after)
        return;
    if (best && (best->state != BRANCH_LIVE || best->after))
        return;
    if (s->saved) {
        s->state = resume_state(c, s->saved, b, best, &s->outcome);
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
    struct snapshotting *s = &c->snapshot;

    if (c->resume.phase == RESUME_READING || c->resume.phase == RESUME_HANDING)
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
    struct snapshotting *s = &c->snapshot;
    uint32_t number = s->written[0].number, best = s->written[0].best;

    s->written_len--;
    memmove(s->written, s->written + 1, s->written_len * sizeof(s->written[0]));
    folder_of(c, number, false, board_action(c, TUNER_REMOVE)->path);
    if (best == 0 || best == s->best_number)
        return;
    for (uint32_t i = 0; i < s->written_len; i++)
        if (s->written[i].best == best)
            return;
    folder_of(c, best, true, board_action(c, TUNER_REMOVE)->path);
}

static void record_written(struct board *c)
{
    struct snapshotting *s = &c->snapshot;
    struct record_snapshot_written *r =
        &board_record(c, RECORD_SNAPSHOT_WRITTEN)->snapshot_written;

    r->branch = s->branch;
    r->clock = s->clock;
    r->epoch = s->epoch;
    r->bytes = s->bytes;
    folder_of(c, s->number, false, r->path);
    r->state = s->state;
    s->state = NULL;
    if (s->best == BRANCH_NONE || !s->saved)
        return;
    r->best_epoch = s->outcome.epoch;
    folder_of(c, s->best_number, true, r->best_path);
}

static void complete(struct board *c)
{
    struct snapshotting *s = &c->snapshot;
    uint32_t best = s->best == BRANCH_NONE || !s->saved ? 0 : s->best_number;

    record_written(c);
    s->of_written = s->of;
    s->clock_written = s->clock;
    json_decref(s->saved_written);
    s->saved_written = s->saved;
    s->saved = NULL;
    s->written[s->written_len].number = s->number;
    s->written[s->written_len++].best = best;
    while (s->written_len > c->options.snapshot_keep ||
           s->written_len == BOARD_SNAPSHOTS_MAX)
        remove_oldest(c);
    over(c);
}

void snapshots_written(struct board *c, const struct msg_done *m)
{
    struct snapshotting *s = &c->snapshot;

    if (s->phase == SNAPSHOT_WRITING) {
        s->bytes = m->bytes;
    } else {
        s->bytes += m->bytes;
        s->best_written = s->best;
        s->best_number = s->number;
    }
    if (!s->saved || s->best == BRANCH_NONE || s->best == s->best_written) {
        complete(c);
        return;
    }
    s->phase = SNAPSHOT_BEST;
    send_path(c, s->best, true);
}

void snapshots_not_written(struct board *c, const char *reason)
{
    struct snapshotting *s = &c->snapshot;

    board_decision(c, "snapshot", "the snapshot was not written: %s", reason);
    if (s->phase == SNAPSHOT_BEST) /* half of it is no snapshot */
        folder_of(c, s->number, false, board_action(c, TUNER_REMOVE)->path);
    over(c);
}
