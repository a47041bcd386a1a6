#include "tuner/core/alongs.h"

#include "tuner/board/branch.h"
#include "tuner/board/clockwork.h"

#include <assert.h>

enum { BATCH_MAX = 8 }; /* trials that wait and are forked at the same time */

static bool is_kept(const struct branch *b)
{
    return b->type == BRANCH_KEPT || b->type == BRANCH_INIT;
}

branch_id alongs_hold_end(struct board *c, branch_id id)
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

/* ---- taken --------------------------------------------------------------- */

static const struct along *on_disk(const struct alongs *disk, uint32_t trial)
{
    for (uint32_t i = 0; i < disk->n; i++)
        if (disk->x[i].t.trial == trial)
            return &disk->x[i];
    return NULL;
}

/* Its folder is there, as it is. */
static bool is_whole(const struct along *disk, const struct branch *b)
{
    return disk && disk->from == b->id && disk->clocks == b->clocks &&
           disk->increments == b->increments && b->slices == 0;
}

/* @x of what its trial waits or runs as. False: not now. */
static bool take_one(struct board *c, struct along *x, const struct along *disk,
                     uint32_t number)
{
    const struct branch *b = board_branch(c, x->from);

    if (!b)
        return false;
    x->whole = is_whole(disk, b);
    x->t.number = x->whole ? disk->t.number : number;
    x->t.of = x->whole ? disk->t.of : b->id;
    x->clocks = b->clocks;
    x->increments = b->increments;
    if (is_kept(b) || b->slices > 0 || b->after) {
        x->fork = alongs_hold_end(c, b->id);
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

bool alongs_take(struct board *c, struct alongs *a, const struct alongs *disk,
                 const struct strategy_waiting *waiting, uint32_t number)
{
    assert(a->n == 0);
    a->batch = BATCH_MAX;
    for (uint32_t i = 0; i < waiting->n; i++) {
        struct along *x = &a->x[a->n++];

        *x = (struct along){.t.trial = waiting->x[i].trial,
                            .from = waiting->x[i].branch,
                            .fork = BRANCH_NONE};
        if (!take_one(c, x, on_disk(disk, x->t.trial), number)) {
            alongs_drop(c, a);
            return false;
        }
    }
    return true;
}

static void drop_one(struct board *c, struct along *x)
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

void alongs_drop(struct board *c, struct alongs *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        drop_one(c, &a->x[i]);
    alongs_deinit(a);
}

void alongs_deinit(struct alongs *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        json_decref(a->x[i].t.state);
    a->n = 0;
}

/* ---- asked --------------------------------------------------------------- */

bool alongs_settled(const struct board *c, const struct alongs *a,
                    const struct branch **refused)
{
    *refused = NULL;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct branch *b = board_branch(c, a->x[i].fork);

        if (a->x[i].t.state)
            continue;
        if (!b || b->state == BRANCH_FORKING ||
            (b->state == BRANCH_LIVE && b->after))
            return false;
        if (b->state == BRANCH_REFUSED)
            *refused = b;
    }
    return true;
}

bool alongs_diverged(const struct board *c, const struct alongs *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const struct branch *b = board_branch(c, a->x[i].fork);

        if (b && b->nonfinite)
            return true;
    }
    return false;
}

bool alongs_state(struct board *c, struct alongs *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        struct along *x = &a->x[i];
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

bool alongs_need(const struct board *c, const struct alongs *a, branch_id id)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (id == a->x[i].fork || id == a->x[i].from ||
            (a->x[i].guards && id == board_guard_fork(c, a->x[i].from)))
            return true;
    return false;
}

bool alongs_added_to(const struct board *c, const struct alongs *disk,
                     const struct strategy_waiting *waiting)
{
    for (uint32_t i = 0; i < waiting->n; i++) {
        const struct branch *b = board_branch(c, waiting->x[i].branch);
        const struct along *x = on_disk(disk, waiting->x[i].trial);

        if (b && x && x->from == b->id && x->increments != b->increments)
            return true;
    }
    return false;
}

/* ---- written, one after the other ---------------------------------------- */

/* The fork of a trial that waits, or of what it was until it went on. False:
 * there is no place for one. */
static bool fork_one(struct board *c, struct along *x)
{
    branch_id spare = board_guard_fork(c, x->from);

    x->fork = spare != BRANCH_NONE        ? spare
              : board_guarded(c, x->from) ? alongs_hold_end(c, x->from)
                                          : BRANCH_NONE;
    if (x->fork == BRANCH_NONE)
        return false;
    board_guard_end(c, x->from);
    x->guards = false;
    return true;
}

/* Fewer at the same time: it is tried again when the others are written. */
static void take_back(struct board *c, struct alongs *a, struct along *x)
{
    board_drop(c, x->fork, "refused");
    x->fork = BRANCH_NONE;
    board_guard(c, x->from);
    x->guards = true;
    a->batch = 1;
}

static bool can_take_back(const struct board *c, const struct alongs *a,
                          const struct along *x)
{
    const struct branch *b = board_branch(c, x->from);

    return b && !is_kept(b) && b->clocks == x->clocks &&
           b->increments == x->increments && branch_idle(b) && a->batch > 1;
}

const char *alongs_fork(struct board *c, struct alongs *a)
{
    uint32_t forks = 0;

    for (uint32_t i = 0; i < a->n; i++) {
        struct along *x = &a->x[i];
        const struct branch *b = board_branch(c, x->fork);

        if (b && b->state == BRANCH_REFUSED) {
            if (!can_take_back(c, a, x))
                return "no memory for it now";
            take_back(c, a, x);
        }
        forks += !x->whole && x->fork != BRANCH_NONE;
    }
    for (uint32_t i = 0; i < a->n && forks < a->batch; i++) {
        struct along *x = &a->x[i];

        if (x->whole || x->fork != BRANCH_NONE)
            continue;
        if (!fork_one(c, x) && (forks == 0 || !board_guarded(c, x->from)))
            return "no branch was free for it";
        forks++;
    }
    return NULL;
}

struct along *alongs_next(struct board *c, struct alongs *a, bool *whole)
{
    *whole = true;
    for (uint32_t i = 0; i < a->n; i++) {
        struct along *x = &a->x[i];
        const struct branch *b = board_branch(c, x->fork);

        *whole &= x->whole;
        if (!x->whole && b && b->state == BRANCH_LIVE && !b->after)
            return x;
    }
    return NULL;
}

void alongs_written(struct board *c, struct along *x)
{
    x->whole = true;
    drop_one(c, x);
}
