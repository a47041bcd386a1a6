#include "tuner/board/operations.h"

#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/outbox.h"
#include "tuner/board/parts.h"

#include <assert.h>
#include <string.h>

enum { OPERATIONS_MAX = 256, OPERATIONS_SPARE = 8 };

struct operations {
    struct operation op[OPERATIONS_MAX];
    uint32_t len;
    op_id next;
};

enum err operations_init(struct board *c)
{
    assert(!c->operations);
    c->operations = mem_calloc(1, sizeof(*c->operations));
    if (!c->operations)
        return ERR_NOMEM;
    c->operations->next = TUNER_CONFIG_OP + 1;
    return ERR_OK;
}

void operations_deinit(struct board *c)
{
    mem_free(c->operations);
    c->operations = NULL;
}

struct msg *operations_send(struct board *c, enum msg_kind kind,
                            branch_id branch)
{
    struct msg *m = &outbox_add(c, TUNER_SEND)->message;
    struct operations *o = c->operations;

    assert(o->len < OPERATIONS_MAX);
    memset(m, 0, offsetof(struct msg, config));
    m->kind = kind;
    m->op = o->next++;
    o->op[o->len++] =
        (struct operation){.id = m->op, .kind = kind, .branch = branch};
    return m;
}

struct msg_stop *operations_send_stop(struct board *c)
{
    return &operations_send(c, MSG_STOP, BRANCH_NONE)->stop;
}

struct msg_path *operations_send_path(struct board *c, enum msg_kind kind,
                                      branch_id branch)
{
    struct msg *m = operations_send(c, kind, branch);
    struct msg_path *path = kind == MSG_SAVE ? &m->save : &m->snapshot;

    assert(kind == MSG_SAVE || kind == MSG_SNAPSHOT);
    path->branch = branch;
    return path;
}

bool operations_have_room(const struct board *c)
{
    return c->operations->len + OPERATIONS_SPARE <= OPERATIONS_MAX;
}

struct operation *operations_find(struct board *c, op_id id)
{
    struct operations *o = c->operations;

    for (uint32_t i = 0; i < o->len; i++)
        if (o->op[i].id == id)
            return &o->op[i];
    return NULL;
}

struct operation operations_take(struct board *c, struct operation *op)
{
    struct operations *o = c->operations;
    struct operation taken = *op;
    uint32_t i = (uint32_t)(op - o->op);

    assert(i < o->len);
    memmove(op, op + 1, (o->len - i - 1) * sizeof(*op));
    o->len--;
    return taken;
}

/* ---- slices -------------------------------------------------------------- */

const struct operation *operations_running(const struct board *c)
{
    const struct operations *o = c->operations;

    for (uint32_t i = 0; i < o->len; i++)
        if (o->op[i].kind == MSG_SCHEDULE)
            return &o->op[i];
    return NULL;
}

struct operation *operations_slice_at(struct board *c, branch_id branch,
                                      clock_no clock)
{
    struct operations *o = c->operations;

    for (uint32_t i = 0; i < o->len; i++)
        if (o->op[i].kind == MSG_SCHEDULE && o->op[i].branch == branch &&
            o->op[i].first + o->op[i].reported == clock)
            return &o->op[i];
    return NULL;
}

op_id operations_last_slice(const struct board *c, branch_id branch)
{
    const struct operations *o = c->operations;

    for (uint32_t i = o->len; i > 0; i--)
        if (o->op[i - 1].kind == MSG_SCHEDULE && o->op[i - 1].branch == branch)
            return o->op[i - 1].id;
    return 0;
}

bool operations_work(const struct board *c)
{
    const struct operations *o = c->operations;

    for (uint32_t i = 0; i < o->len; i++)
        if (o->op[i].kind == MSG_SCHEDULE || o->op[i].kind == MSG_FORK)
            return true;
    return false;
}

bool operations_any(const struct board *c)
{
    return c->operations->len > 0;
}

uint64_t board_clocks_out(const struct board *c, const struct branch *b)
{
    const struct operations *o = c->operations;
    uint64_t clocks = 0;

    for (uint32_t i = 0; i < o->len; i++)
        if (o->op[i].kind == MSG_SCHEDULE && o->op[i].branch == b->id)
            clocks += o->op[i].count - o->op[i].reported;
    return clocks;
}

void board_cut(struct board *c, branch_id branch)
{
    struct operation *op = (struct operation *)operations_running(c);
    op_id target;

    if (!op || op->cut || (branch != BRANCH_NONE && op->branch != branch))
        return;
    op->cut = true;
    target = op->id;
    operations_send(c, MSG_CUT, op->branch)->cut.target = target;
}
