#include "ps/node/node.h"

#include "base/mem.h"
#include "ps/node/node_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- rings --------------------------------------------------------------- */

/* Makes the ring *items of *room elements hold @need, moving what wraps. */
static enum err ring_grow(void **items, size_t *room, size_t size, size_t first,
                          size_t len, size_t need)
{
    size_t old = *room;
    char *base;

    assert(*room == 0 || first < *room);
    assert(len <= *room);
    if (mem_grow(items, room, size, need) != 0)
        return ERR_NOMEM;
    base = *items;
    if (*room > old &&
        first + len > old) /* the part at the front goes behind the old end */
        memcpy(base + old * size, base, (first + len - old) * size);
    return ERR_OK;
}

/* Room for @more messages beside the answers that the queue will need. */
static enum err reserve_out(struct node *n, size_t more)
{
    size_t need = n->out_len + n->queue_len + 1 + more;

    return ring_grow((void **)&n->out, &n->out_room, sizeof(*n->out),
                     n->out_first, n->out_len, need);
}

/* Room was reserved. */
static struct msg *push_out(struct node *n, enum msg_kind kind, op_id op)
{
    struct msg *m;

    assert(n->out_len < n->out_room);
    m = &n->out[(n->out_first + n->out_len++) % n->out_room];
    *m = (struct msg){.kind = kind, .op = op};
    return m;
}

bool node_peek(const struct node *n, struct msg *out)
{
    if (n->out_len == 0)
        return false;
    *out = n->out[n->out_first];
    return true;
}

bool node_pop(struct node *n, struct msg *out)
{
    if (!node_peek(n, out))
        return false;
    n->out_first = (n->out_first + 1) % n->out_room;
    n->out_len--;
    return true;
}

static struct entry *queue_at(const struct node *n, size_t i)
{
    assert(i < n->queue_len);
    return &n->queue[(n->queue_first + i) % n->queue_room];
}

static void queue_shift(struct node *n)
{
    assert(n->queue_len > 0);
    msg_deinit(&queue_at(n, 0)->msg);
    n->queue_first = (n->queue_first + 1) % n->queue_room;
    n->queue_len--;
    n->running = false;
}

static void queue_remove(struct node *n, size_t i)
{
    msg_deinit(&queue_at(n, i)->msg);
    for (; i + 1 < n->queue_len; i++)
        *queue_at(n, i) = *queue_at(n, i + 1);
    n->queue_len--;
}

/* Where operation @op waits. */
static size_t queue_find(const struct node *n, op_id op)
{
    size_t i = 0;

    assert(op > 0);
    while (queue_at(n, i)->msg.op != op)
        i++;
    return i;
}

/* ---- answers ------------------------------------------------------------- */

static void say_failed(struct node *n, op_id op, branch_id branch,
                       const struct fault *f)
{
    struct msg *m = push_out(n, MSG_FAILED, op);

    assert(f->code != ERR_OK);
    m->failed.branch = branch;
    m->failed.code = f->code;
    snprintf(m->failed.reason, sizeof(m->failed.reason), "%s", f->text);
}

static void say_done(struct node *n, op_id op, branch_id branch,
                     struct node_result *r)
{
    struct msg *m = push_out(n, MSG_DONE, op);

    m->done = (struct msg_done){.branch = branch,
                                .clocks = r->clocks,
                                .switch_s = r->switch_s,
                                .data_bytes = r->wire.bytes,
                                .reads = r->wire.reads,
                                .staleness = r->wire.staleness,
                                .bytes = r->bytes,
                                .data = r->data};
    r->data = NULL;
}

/* Branch that @m concerns. */
static branch_id branch_of(const struct msg *m)
{
    switch (m->kind) {
    case MSG_FORK:
        return m->fork.branch;
    case MSG_FREE:
        return m->free.branch;
    case MSG_SCHEDULE:
        return m->schedule.branch;
    case MSG_SNAPSHOT:
    case MSG_RESTORE:
    case MSG_SAVE:
        return m->save.branch;
    case MSG_ROWS:
        return m->rows.branch;
    default:
        return BRANCH_NONE;
    }
}

/* ---- requests ------------------------------------------------------------ */

/* Enters what @m changes in the branches as they will be once the queue is
 * empty. It was checked, and there is room; @setting is transferred. */
static void foresee(struct node *n, const struct msg *m,
                    struct node_setting *setting)
{
    struct node_branch *b = node_ledger_find(&n->ledger, branch_of(m));
    uint32_t group;

    switch (m->kind) {
    case MSG_FORK:
        b = node_ledger_find(&n->ledger, m->fork.parent);
        group = node_ledger_shares(b, m->fork.type)
                    ? b->group
                    : node_ledger_group(&n->ledger);
        node_ledger_add(&n->ledger, m->fork.branch, m->fork.type, group,
                        setting);
        push_out(n, MSG_FORKED, m->op)->forked.branch = m->fork.branch;
        break;
    case MSG_FREE:
        node_ledger_end(&n->ledger, b);
        break;
    case MSG_SCHEDULE:
        n->next_clock = m->schedule.first + m->schedule.count;
        break;
    case MSG_SNAPSHOT:
        n->snapshot_asked = true;
        /* A kept fork of it is written; of branch 0, one that it pays for. */
        n->snapshot_group =
            b->type == BRANCH_KEPT ? b->group : node_ledger_group(&n->ledger);
        node_ledger_take(&n->ledger, n->snapshot_group);
        break;
    case MSG_RESTORE:
        node_ledger_add(&n->ledger, m->restore.branch, BRANCH_KEPT,
                        node_ledger_group(&n->ledger), NULL);
        break;
    default:
        break;
    }
}

static enum err take_request(struct node *n, struct msg *m)
{
    bool runs = m->kind == MSG_FORK && m->fork.type != BRANCH_KEPT;
    struct node_setting *setting = NULL;
    struct fault f = {0};

    assert(m->kind != MSG_CONFIG);
    if (reserve_out(n, 2) || node_ledger_reserve(&n->ledger) ||
        ring_grow((void **)&n->queue, &n->queue_room, sizeof(*n->queue),
                  n->queue_first, n->queue_len, n->queue_len + 1) ||
        (runs && !(setting = mem_alloc(sizeof(*setting)))))
        return ERR_NOMEM;
    if (node_check(n, m, setting, &f)) {
        mem_free(setting);
        say_failed(n, m->op, branch_of(m), &f);
        return ERR_OK;
    }
    n->last_op = m->op;
    foresee(n, m, setting);
    n->queue_len++;
    *queue_at(n, n->queue_len - 1) = (struct entry){.msg = *m};
    memset(m, 0, sizeof(*m));
    return ERR_OK;
}

static enum err take_config(struct node *n, struct msg *m)
{
    struct fault f = {0};

    if (reserve_out(n, 2) ||
        ring_grow((void **)&n->queue, &n->queue_room, sizeof(*n->queue),
                  n->queue_first, n->queue_len, n->queue_len + 1))
        return ERR_NOMEM;
    if (n->phase != NODE_WAITING) {
        fault_set(&f, ERR_EXIST, "this node has its configuration");
        say_failed(n, m->op, BRANCH_NONE, &f);
        return ERR_OK;
    }
    n->phase = NODE_LOADING;
    n->last_op = m->op;
    n->queue_len++;
    *queue_at(n, n->queue_len - 1) = (struct entry){.msg = *m};
    memset(m, 0, sizeof(*m));
    return ERR_OK;
}

/* A cut that finds nothing came too late: the slice's `done` is on its way. */
static void cut_slice(struct node *n, op_id target)
{
    for (size_t i = 0; i < n->queue_len; i++) {
        struct entry *e = queue_at(n, i);

        if (e->msg.op != target || e->msg.kind != MSG_SCHEDULE || e->cut)
            continue;
        e->cut = true;
        n->cut_due = n->cut_due || (i == 0 && n->running);
    }
}

static enum err take_cut(struct node *n, op_id op, op_id target)
{
    struct node_result none = {0};

    if (reserve_out(n, 1))
        return ERR_NOMEM;
    cut_slice(n, target);
    if (op)
        say_done(n, op, BRANCH_NONE, &none);
    return ERR_OK;
}

/* Operations that wait are dropped unanswered: the tuner has no more questions.
 * The one that is being carried out ends as the shell makes it. */
static enum err take_stop(struct node *n, op_id op)
{
    struct node_result none = {0};

    if (reserve_out(n, 1))
        return ERR_NOMEM;
    if (op)
        say_done(n, op, BRANCH_NONE, &none);
    n->phase = NODE_STOPPED;
    n->read_op = 0;
    for (; n->queue_len > (n->running ? 1 : 0); n->queue_len--)
        msg_deinit(&queue_at(n, n->queue_len - 1)->msg);
    return ERR_OK;
}

enum err node_receive(struct node *n, struct msg *m, struct fault *f)
{
    enum err err = ERR_OK;

    assert(m);
    switch (n->phase == NODE_STOPPED ? MSG_BEAT : m->kind) {
    case MSG_CONFIG:
        err = take_config(n, m);
        break;
    case MSG_CUT:
        err = take_cut(n, m->op, m->cut.target);
        break;
    case MSG_STOP:
        err = take_stop(n, m->op);
        break;
    case MSG_FORK:
    case MSG_FREE:
    case MSG_SCHEDULE:
    case MSG_SNAPSHOT:
    case MSG_RESTORE:
    case MSG_SAVE:
    case MSG_ROWS:
        err = take_request(n, m);
        break;
    default:
        if (n->phase != NODE_STOPPED)
            err = fault_set(f, ERR_PROTO, "a node is not sent `%s`",
                            msg_kind_name(m->kind));
    }
    msg_deinit(m);
    return err;
}

/* ---- carrying out -------------------------------------------------------- */

/* Why the first of the queue cannot be carried out after all, by what became of
 * the operations before it; @out is untouched where it can. */
static enum err late_refusal(const struct node *n, const struct msg *m,
                             struct fault *out)
{
    const struct node_branch *b = node_ledger_find(&n->ledger, branch_of(m));

    if (m->kind == MSG_FORK) /* of a broken one: broken too, but granted */
        b = node_ledger_find(&n->ledger, m->fork.parent);
    if (!b)
        return fault_set(out, ERR_NOENT,
                         "branch %u does not exist: its fork failed",
                         m->kind == MSG_FORK ? m->fork.parent : branch_of(m));
    if (b->broken && m->kind != MSG_FREE && m->kind != MSG_FORK)
        /* With the slice's own code: where memory ran out it is not the
         * application that failed. */
        return fault_set(out, b->broken,
                         "branch %u cannot be used: a slice of it, or of a "
                         "branch it was forked from, failed",
                         b->id);
    return ERR_OK;
}

/* Answers the first of the queue without the shell, where that can be done. */
static bool settle_first(struct node *n)
{
    struct entry *e = queue_at(n, 0);
    struct node_result r = {0};

    if (e->msg.kind == MSG_CONFIG)
        return false;
    late_refusal(n, &e->msg, &r.fault);
    if (e->msg.kind == MSG_FREE && r.fault.code == ERR_NOENT)
        r.fault.code = ERR_OK; /* it is gone, which is what was asked */
    else if (!r.fault.code &&
             (n->model.many || !e->cut || e->msg.kind != MSG_SCHEDULE))
        return false;
    n->running = true;
    node_finish(n, e->msg.op, &r);
    return true;
}

void node_take(struct node *n, struct node_task *out)
{
    const struct node_branch *b;
    const struct msg *m;

    *out = (struct node_task){0};
    if (n->running || n->phase == NODE_STOPPED)
        return;
    while (n->queue_len && settle_first(n))
        ;
    if (!n->queue_len)
        return;
    m = &queue_at(n, 0)->msg;
    assert(m->op != n->read_op || m->op == 0);
    b = node_ledger_find(&n->ledger, branch_of(m));
    n->running = true;
    n->cut_due = queue_at(n, 0)->cut;
    n->reported = 0;
    out->msg = m;
    out->type = b ? b->type : BRANCH_INIT;
    out->setting = b ? b->setting : NULL;
}

/* Whether the branch of @read exists before @e has been carried out, and @e
 * adds nothing to it. */
static bool may_pass(const struct msg_rows *read, const struct msg *e)
{
    switch (e->kind) {
    case MSG_FORK:
        return e->fork.branch != read->branch;
    case MSG_RESTORE:
        return e->restore.branch != read->branch;
    case MSG_ROWS:
        return !e->rows.increment || e->rows.branch != read->branch;
    default:
        return true;
    }
}

static bool may_read_now(const struct node *n, size_t i)
{
    const struct msg *m = &queue_at(n, i)->msg;
    struct fault unused;

    if (m->kind != MSG_ROWS || m->rows.increment ||
        late_refusal(n, m, &unused) != ERR_OK)
        return false;
    for (size_t k = 0; k < i; k++)
        if (!may_pass(&m->rows, &queue_at(n, k)->msg))
            return false;
    return true;
}

void node_take_read(struct node *n, struct node_task *out)
{
    *out = (struct node_task){0};
    assert(n->read_op == 0);
    if (!n->running || n->phase == NODE_STOPPED ||
        queue_at(n, 0)->msg.kind != MSG_SCHEDULE)
        return;
    for (size_t i = 1; i < n->queue_len; i++) {
        if (!may_read_now(n, i))
            continue;
        out->msg = &queue_at(n, i)->msg;
        n->read_op = out->msg->op;
        return;
    }
}

void node_leave_read(struct node *n, op_id op)
{
    assert(op > 0 && n->read_op == op);
    n->read_op = 0;
}

void node_detach(struct node *n)
{
    struct entry *e = queue_at(n, 0);

    assert(n->running && e->msg.kind == MSG_SNAPSHOT);
    assert(n->snapshot.msg.op == 0);
    n->snapshot = *e;
    memset(e, 0, sizeof(*e)); /* an empty config: nothing to release */
    queue_shift(n);
}

bool node_cut_due(struct node *n)
{
    bool due = n->cut_due && n->running;

    n->cut_due = false;
    return due;
}

/* Enters in the branches what the result changes. */
static void conclude(struct node *n, const struct msg *m,
                     const struct node_result *r)
{
    struct node_branch *b = node_ledger_find(&n->ledger, branch_of(m)), *parent;

    switch (m->kind) {
    case MSG_FORK:
        parent = node_ledger_find(&n->ledger, m->fork.parent);
        if (r->fault.code)
            node_ledger_remove(&n->ledger, b);
        else
            b->broken = parent ? parent->broken : ERR_OK;
        break;
    case MSG_RESTORE:
        if (r->fault.code)
            node_ledger_remove(&n->ledger, b);
        break;
    case MSG_FREE:
        if (b)
            node_ledger_remove(&n->ledger, b);
        break;
    case MSG_SCHEDULE:
        if (b && r->broken)
            b->broken = r->fault.code;
        break;
    case MSG_SNAPSHOT:
        n->snapshot_asked = false;
        node_ledger_give(&n->ledger, n->snapshot_group);
        break;
    default:
        break;
    }
}

/* Fork was answered when it was granted; it speaks again only if it failed. */
static void answer(struct node *n, const struct msg *m, struct node_result *r)
{
    if (r->fault.code)
        say_failed(n, m->op, branch_of(m), &r->fault);
    else if (m->kind != MSG_FORK)
        say_done(n, m->op, branch_of(m), r);
    json_decref(r->data);
    r->data = NULL;
}

static void finish_read(struct node *n, struct node_result *r)
{
    size_t i = queue_find(n, n->read_op);

    n->read_op = 0;
    answer(n, &queue_at(n, i)->msg, r);
    queue_remove(n, i);
}

static void finish_in_turn(struct node *n, op_id op, struct node_result *r)
{
    bool background = n->snapshot.msg.op == op;
    struct entry *e = background ? &n->snapshot : queue_at(n, 0);

    assert(e->msg.op == op);
    assert(background || n->running);
    conclude(n, &e->msg, r);
    answer(n, &e->msg, r);
    if (!background) {
        queue_shift(n);
        return;
    }
    msg_deinit(&e->msg);
    *e = (struct entry){0};
}

void node_finish(struct node *n, op_id op, struct node_result *r)
{
    assert(r);
    assert(op > 0);
    if (n->read_op == op)
        finish_read(n, r);
    else
        finish_in_turn(n, op, r);
}

/* ---- loading ------------------------------------------------------------- */

enum err node_loaded(struct node *n, struct node_model *model)
{
    struct entry *e = queue_at(n, 0);
    struct msg *m;

    assert(model->branches_max > 0);
    assert(n->running && e->msg.kind == MSG_CONFIG);
    if (node_ledger_reserve(&n->ledger))
        return ERR_NOMEM;
    n->model = *model;
    n->ledger.units_max = model->branches_max;
    n->validation_samples = model->ready.validation_samples;
    node_ledger_add(&n->ledger, 0, BRANCH_INIT, node_ledger_group(&n->ledger),
                    NULL);
    m = push_out(n, MSG_READY, e->msg.op);
    m->ready = model->ready;
    memset(&model->ready, 0, sizeof(model->ready));
    memset(&n->model.ready, 0, sizeof(n->model.ready));
    queue_shift(n);
    if (n->phase == NODE_LOADING)
        n->phase = NODE_SERVING;
    return ERR_OK;
}

void node_load_failed(struct node *n, const struct fault *fault)
{
    assert(fault->code != ERR_OK);
    assert(n->running && queue_at(n, 0)->msg.kind == MSG_CONFIG);
    say_failed(n, queue_at(n, 0)->msg.op, BRANCH_NONE, fault);
    queue_shift(n);
    n->phase = NODE_STOPPED;
}

/* ---- reports ------------------------------------------------------------- */

enum err node_report(struct node *n, const struct progress_window *windows,
                     uint32_t count)
{
    const struct msg *slice = &queue_at(n, 0)->msg;
    struct progress_window *copy;
    struct msg *m;

    assert(n->running && slice->kind == MSG_SCHEDULE);
    assert(count >= 1 && count <= PROTO_WINDOWS_MAX);
    if (reserve_out(n, 1))
        return ERR_NOMEM;
    copy = mem_alloc(count * sizeof(*copy));
    if (!copy)
        return ERR_NOMEM;
    memcpy(copy, windows, count * sizeof(*copy));
    m = push_out(n, MSG_REPORT, slice->op);
    m->report = (struct msg_report){
        .branch = slice->schedule.branch,
        .first = slice->schedule.first + n->reported,
        .windows = count,
        .window = copy,
    };
    for (uint32_t i = 0; i < count; i++)
        n->reported += windows[i].clocks;
    assert(n->reported <= slice->schedule.count);
    return ERR_OK;
}

void node_beat(struct node *n, const struct msg_beat *beat)
{
    assert(beat);
    if (n->out_len >= NODE_BEATS_WAIT_MAX || n->phase == NODE_STOPPED ||
        reserve_out(n, 1))
        return;
    push_out(n, MSG_BEAT, 0)->beat = *beat;
}

/* ---- life ---------------------------------------------------------------- */

enum err node_new(const struct msg_hello *hello, struct node **out)
{
    struct node *n = mem_calloc(1, sizeof(*n));

    assert(hello && out);
    if (!n)
        return ERR_NOMEM;
    if (reserve_out(n, 1)) {
        node_free(n);
        return ERR_NOMEM;
    }
    push_out(n, MSG_HELLO, 0)->hello = *hello;
    *out = n;
    return ERR_OK;
}

void node_free(struct node *n)
{
    struct msg m;

    if (!n)
        return;
    while (node_pop(n, &m))
        msg_deinit(&m);
    for (size_t i = 0; i < n->queue_len; i++)
        msg_deinit(&queue_at(n, i)->msg);
    msg_deinit(&n->snapshot.msg);
    node_ledger_deinit(&n->ledger);
    mem_free(n->queue);
    mem_free(n->out);
    mem_free(n);
}

enum node_phase node_phase(const struct node *n)
{
    return n->phase;
}

size_t node_waiting(const struct node *n)
{
    return n->queue_len + (n->snapshot.msg.op != 0);
}

uint32_t node_branches(const struct node *n)
{
    return n->ledger.live;
}

uint32_t node_units(const struct node *n)
{
    return n->ledger.units;
}
