#include "tuner/board/branches.h"

#include "base/mem.h"
#include "base/text.h"
#include "tuner/board/branch.h"
#include "tuner/board/operations.h"
#include "tuner/board/parts.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct branches {
    struct branch slot[TUNER_BRANCHES_MAX];
    branch_id next;
    json_t *empty;                /* owned: {} */
    char failure[PROTO_TEXT_MAX]; /* reason of the last slice or restore that
                                   * failed */
};

/* ---- the table ----------------------------------------------------------- */

struct branch *branches_any(struct board *c, branch_id id)
{
    struct branches *t = c->branches;

    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++)
        if (t->slot[i].state != BRANCH_FREE_SLOT && t->slot[i].id == id)
            return &t->slot[i];
    return NULL;
}

struct branch *branches_own(struct board *c, branch_id id)
{
    struct branch *b = branches_any(c, id);

    return b && b->state != BRANCH_FREEING ? b : NULL;
}

const struct branch *board_branch(const struct board *c, branch_id id)
{
    return branches_own((struct board *)c, id);
}

const struct branch *branches_slot(const struct board *c, size_t i)
{
    const struct branch *b = &c->branches->slot[i];

    assert(i < TUNER_BRANCHES_MAX);
    return b->state == BRANCH_FREE_SLOT ? NULL : b;
}

bool branches_trained(const struct board *c)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        const struct branch *b = &c->branches->slot[i];

        if (b->state == BRANCH_LIVE && b->type != BRANCH_KEPT &&
            b->own_clocks > 0)
            return true;
    }
    return false;
}

static struct branch *slot_take(struct branches *t, branch_id id)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        struct branch *b = &t->slot[i];

        if (b->state != BRANCH_FREE_SLOT)
            continue;
        memset(b, 0, offsetof(struct branch, trace));
        memset(&b->slices, 0, sizeof(*b) - offsetof(struct branch, slices));
        trace_init(&b->trace);
        b->id = id;
        return b;
    }
    return NULL;
}

static void slot_release(struct branch *b)
{
    json_decref(b->json);
    b->json = NULL;
    b->state = BRANCH_FREE_SLOT;
}

/* ---- lineages ------------------------------------------------------------ */

uint64_t branches_position(const struct board *c, const struct branch *b)
{
    return board_has_parts(c) ? b->now.clocks : b->now.samples;
}

void branches_plan_reset(const struct board *c, struct branch *b)
{
    b->plan = branches_position(c, b);
    b->plan_epochs = b->epochs;
}

static void take_own(struct branch *b, const struct branch *of)
{
    b->own_clocks = of->own_clocks;
    b->own_samples = of->own_samples;
    b->own_sum = of->own_sum;
    trace_copy(&b->trace, &of->trace);
}

void board_go_on(struct board *c, branch_id id, branch_id kept)
{
    struct branch *b = branches_own(c, id);

    assert(b && b->parent == kept && !b->scheduled);
    take_own(b, branches_own(c, kept));
}

static void inherit(struct branch *b, const struct branch *parent)
{
    if (b->type == BRANCH_KEPT)
        take_own(b, parent);
    b->clocks = parent->clocks;
    b->epochs = parent->epochs;
    b->now = parent->now;
    b->all_sum = parent->all_sum;
    b->all_samples = parent->all_samples;
    memcpy(b->result, parent->result, sizeof(b->result));
    b->nonfinite = parent->nonfinite;
    b->plan = parent->plan;
    b->plan_epochs = parent->plan_epochs;
    b->after = 0;
}

/* A child's number is above its parent's, so in ascending order parents come
 * first. */
void branches_settle(struct board *c, op_id op)
{
    for (;;) {
        struct branch *next = NULL;

        for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
            struct branch *b = &c->branches->slot[i];

            if (b->state != BRANCH_FREE_SLOT && b->after == op &&
                (!next || b->id < next->id))
                next = b;
        }
        if (!next)
            return;
        inherit(next, branches_any(c, next->parent));
        branches_plan_reset(c, next);
    }
}

/* ---- forks --------------------------------------------------------------- */

static void record_created(struct board *c, const struct branch *b)
{
    struct record_branch_created *r = board_record_branch_created(c);

    r->branch = b->id;
    r->parent = b->parent;
    r->type = b->type;
    r->setting = json_incref(b->json);
    memcpy(r->role, b->role, sizeof(r->role));
}

const struct branch *board_fork(struct board *c, const struct branch *parent,
                                enum branch_type type,
                                const struct setting *setting, json_t *json,
                                const char *role)
{
    struct branch *b = slot_take(c->branches, c->branches->next);
    struct msg *m;

    assert(parent->state == BRANCH_LIVE);
    if (!b || !operations_have_room(c))
        return NULL;
    c->branches->next++;
    b->parent = parent->id;
    b->type = type;
    b->state = BRANCH_FORKING;
    b->setting = *setting;
    b->json = json_incref(json);
    b->increments = parent->increments;
    snprintf(b->role, sizeof(b->role), "%s", role);
    b->after = operations_last_slice(c, parent->id);
    if (b->after == 0)
        b->after = parent->after;
    if (b->after == 0) {
        inherit(b, parent);
        branches_plan_reset(c, b);
    }
    record_created(c, b);
    m = operations_send(c, MSG_FORK, b->id);
    m->fork =
        (struct msg_fork){.branch = b->id, .parent = parent->id, .type = type};
    m->fork.setting = json_incref(json);
    return b;
}

const struct branch *board_keep(struct board *c, const struct branch *parent,
                                const char *role)
{
    const struct branch *b = board_fork(
        c, parent, BRANCH_KEPT, &parent->setting, c->branches->empty, role);

    if (b)
        branches_own(c, b->id)->holds = 1;
    return b;
}

const struct branch *branches_restore(struct board *c, const char *path,
                                      branch_id parent)
{
    struct branches *t = c->branches;
    struct branch *b = slot_take(t, t->next);
    struct msg *m;

    if (!b)
        return NULL;
    t->next++;
    b->parent = parent;
    b->type = BRANCH_KEPT;
    b->state = BRANCH_FORKING;
    b->holds = 1;
    space_default(board_space(c), &b->setting);
    b->json = json_incref(t->empty);
    snprintf(b->role, sizeof(b->role), "restored");
    record_created(c, b);
    m = operations_send(c, MSG_RESTORE, b->id);
    m->restore.branch = b->id;
    snprintf(m->restore.path, sizeof(m->restore.path), "%s", path);
    return b;
}

/* ---- guards -------------------------------------------------------------- */

void board_guard(struct board *c, branch_id id)
{
    struct branch *b = branches_own(c, id);

    assert(b && b->state == BRANCH_LIVE && b->slices == 0 && b->after == 0);
    assert(!b->guarded && id != 0);
    b->guarded = true;
}

void board_guard_end(struct board *c, branch_id id)
{
    struct branch *b = branches_own(c, id);

    if (b)
        b->guarded = false;
}

bool board_guarded(const struct board *c, branch_id id)
{
    const struct branch *b = board_branch(c, id);

    return b && b->guarded;
}

branch_id board_guard_fork(const struct board *c, branch_id id)
{
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++) {
        const struct branch *b = branches_slot(c, i);

        if (b && b->spare_of == id && b->state != BRANCH_FREEING)
            return b->id;
    }
    return BRANCH_NONE;
}

void board_guard_check(struct board *c, branch_id id)
{
    struct branch *b = branches_own(c, id);
    const struct branch *spare;

    if (!b || !b->guarded)
        return;
    b->guarded = false;
    spare = board_keep(c, b, "snapshot");
    if (spare)
        branches_own(c, spare->id)->spare_of = id;
}

/* ---- holds and frees ----------------------------------------------------- */

void board_hold(struct board *c, branch_id kept)
{
    struct branch *b = branches_own(c, kept);

    assert(b->type == BRANCH_KEPT || b->type == BRANCH_INIT);
    assert(b);
    b->holds++;
}

void board_drop(struct board *c, branch_id kept, const char *reason)
{
    struct branch *b = branches_own(c, kept);

    if (!b)
        return;
    assert(b->holds > 0);
    if (--b->holds == 0)
        board_free(c, kept, reason);
}

static void record_freed(struct board *c, branch_id id, const char *reason)
{
    struct record_branch_freed *r = board_record_branch_freed(c);

    r->branch = id;
    snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

void board_free(struct board *c, branch_id id, const char *reason)
{
    struct branch *b = branches_own(c, id);

    assert(reason);
    if (!b)
        return;
    if (b->state == BRANCH_REFUSED && !b->partly) {
        slot_release(b);
        return;
    }
    board_guard_check(c, id);
    if (b->state != BRANCH_REFUSED)
        record_freed(c, id, reason);
    b->state = BRANCH_FREEING;
    operations_send(c, MSG_FREE, id)->free.branch = id;
}

/* ---- answers ------------------------------------------------------------- */

static void say_failure(struct branch *b, const char *reason)
{
    if (reason == b->failure)
        return;
    snprintf(b->failure, sizeof(b->failure), "%.470s", reason);
    text_to_utf8(b->failure);
}

void branches_made(struct board *c, branch_id id)
{
    struct branch *b = branches_any(c, id);

    if (b && b->state == BRANCH_FORKING)
        b->state = BRANCH_LIVE;
}

bool branches_refused(struct board *c, branch_id id, const struct msg_failed *m)
{
    struct branch *b = branches_any(c, id);

    if (!b || b->state != BRANCH_FORKING)
        return false; /* told to be freed meanwhile; that fails as well */
    b->error = m->code;
    say_failure(b, m->reason);
    b->partly = m->partly;
    b->state = BRANCH_REFUSED;
    record_freed(c, b->id, "refused");
    return true;
}

void branches_freed(struct board *c, branch_id id)
{
    struct branch *b = branches_any(c, id);

    assert(id != 0);
    if (b)
        slot_release(b);
}

void branches_note_failure(struct board *c, const char *reason)
{
    struct branches *t = c->branches;

    snprintf(t->failure, sizeof(t->failure), "%s", reason);
}

void branches_failed(struct board *c, struct branch *b, enum err error,
                     const char *reason)
{
    assert(error && reason);
    branches_note_failure(c, reason);
    say_failure(b, reason);
    b->error = error;
}

const char *board_failure(const struct board *c)
{
    return c->branches->failure;
}

void board_set_error(struct board *c, branch_id id, enum err error,
                     const char *why)
{
    struct branch *b = branches_own(c, id);

    assert(b);
    assert(error && why);
    say_failure(b, why);
    b->error = error;
}

/* ---- life ---------------------------------------------------------------- */

static void make_root(struct board *c)
{
    struct branch *root = slot_take(c->branches, 0);

    assert(root);
    root->type = BRANCH_INIT;
    root->state = BRANCH_LIVE;
    root->parent = BRANCH_NONE;
    root->holds = 1;
    space_default(board_space(c), &root->setting);
    root->json = json_incref(c->branches->empty);
}

enum err branches_init(struct board *c)
{
    const struct history *h = board_history(c);
    struct branches *t = mem_calloc(1, sizeof(*t));

    assert(!c->branches);
    if (!t)
        return ERR_NOMEM;
    c->branches = t;
    t->empty = json_object();
    if (!t->empty)
        return ERR_NOMEM;
    t->next = 1;
    make_root(c);
    if (h && history_started(h) && history_branches_len(h))
        t->next = history_branch_at(h, history_branches_len(h) - 1)->branch + 1;
    return ERR_OK;
}

void branches_deinit(struct board *c)
{
    struct branches *t = c->branches;

    if (!t)
        return;
    for (size_t i = 0; i < TUNER_BRANCHES_MAX; i++)
        json_decref(t->slot[i].json);
    json_decref(t->empty);
    mem_free(t);
    c->branches = NULL;
}
