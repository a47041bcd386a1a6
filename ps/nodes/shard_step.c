/* Steps of a shard: each frame that comes, checked and carried out. */
#include "base/mem.h"
#include "ps/nodes/alike.h"
#include "ps/nodes/own_sums.h"
#include "ps/nodes/shard.h"
#include "ps/nodes/shard_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define CLOCK_MAX ((int64_t)1 << 62) /* none is ever near it */

static enum err refuse(struct fault *fault, const struct frame *f,
                       const char *what)
{
    return fault_set(fault, ERR_PROTO, "%s frame of node %u: %s",
                     frame_kind_name(f->kind), f->from, what);
}

/* ---- clocks -------------------------------------------------------------- */

/* The slowest worker's that has not drained; where all have, the fastest's. */
static int64_t clock_of_table(const struct shard *s, uint32_t table)
{
    int64_t min = INT64_MAX, max = INT64_MIN;

    for (uint32_t i = 0; i < s->workers; i++) {
        int64_t clock = shard_worker_clock(&s->worker[i], table);

        if (s->worker[i].available && clock < min)
            min = clock;
        if (clock > max)
            max = clock;
    }
    return min < INT64_MAX ? min : max;
}

void shard_apply_batch(struct shard *s, uint32_t table, size_t n,
                       const uint64_t row[], const void *const sum[],
                       const uint32_t version[])
{
    struct shard_table *t = &s->table[table];
    const void *seen[RULE_ROW_BATCH];

    if (t->revision)
        shard_versions_seen(s, table, n, row, version, seen);
    if (s->early)
        shard_early_before(s, table, n, row);
    s->opt.rows->apply(s->opt.rows_self, table, n, row, sum,
                       t->revision ? seen : NULL, &s->now);
    for (size_t i = 0; i < n; i++)
        rowset_add(&t->changed, row[i] - t->first);
    if (s->early)
        shard_early_after(s, table, n, row);
}

static void tell_clock(struct shard *s, uint32_t table)
{
    for (uint32_t i = 0; i < s->opt.nodes; i++) {
        s->node[i].clock_due[table] = true;
        s->node[i].any_clock_due = true;
    }
}

static void push_to_all(struct shard *s, uint32_t table,
                        const struct rowset *changed)
{
    for (uint32_t i = 0; i < s->opt.nodes; i++) {
        struct shard_node *n = &s->node[i];

        rowset_add_both(&n->due[table], changed ? changed : &n->has[table],
                        &n->has[table]);
    }
}

/* When nobody reads any more: the branch may be freed before a slow link took
 * the last pushes and answers; the next slice pushes anew what nodes have. */
static void forget_due(struct shard *s)
{
    s->stats.waiting = 0;
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        s->node[i].reads = 0;
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        for (uint32_t t = 0; t < s->opt.tables; t++)
            if (s->table[t].shared)
                rowset_clear(&s->node[i].due[t]);
}

/* What a shared table's new clock does to its rows. */
static void apply_clock(struct shard *s, uint32_t table)
{
    struct shard_table *t = &s->table[table];

    if (s->opt.consistency->barrier)
        shard_sums_apply(s, table);
    if (s->opt.consistency->pushes)
        push_to_all(s, table, &t->changed);
    if (s->early)
        shard_early_clock(s, table);
    rowset_clear(&t->changed);
}

/* What is applied from now on was computed in clock @clock. (A table's own
 * clock is that of all, or the next one where it was ended early.) */
static void enter_clock(struct shard *s, int64_t clock)
{
    assert(clock >= s->begun);
    s->now = rule_params_at(&s->params, (uint64_t)(clock - s->begun));
}

static void move_clock(struct shard *s, uint32_t table)
{
    struct shard_table *t = &s->table[table];
    int64_t clock = clock_of_table(s, table);

    assert(clock >= t->clock);
    if (clock == t->clock) {
        enter_clock(s, clock);
        if (t->shared)
            shard_sums_advance(s, table);
        return;
    }
    enter_clock(s, clock - 1);
    t->clock = clock;
    if (t->shared)
        apply_clock(s, table);
    if (s->notifies)
        tell_clock(s, table);
}

static void move_clocks(struct shard *s, uint32_t table)
{
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (s->table[t].clocked && (table == FRAME_ALL_TABLES || table == t))
            move_clock(s, t);
}

/* ---- what workers send --------------------------------------------------- */

/* Checks that all frames of workers have in common. */
static enum err check_worker(const struct shard *s, const struct frame *f,
                             struct fault *fault)
{
    if (f->slice != s->slice || !s->running)
        return refuse(fault, f, "of a slice that does not run");
    if (f->worker >= s->workers || f->worker / s->opt.workers != f->from)
        return refuse(fault, f, "of another node's worker");
    if (!s->worker[f->worker].available)
        return refuse(fault, f, "of a worker that has drained");
    return ERR_OK;
}

static bool is_shared(const struct shard *s, uint32_t table)
{
    return table < s->opt.tables && s->table[table].shared;
}

/* A clock of its own ends at most once before the next of all. */
static bool has_ended_early(const struct shard *s, uint32_t worker,
                            uint32_t table)
{
    return s->table[table].own_clock && s->worker[worker].extra[table] > 0;
}

/* Rows of a table that others read, ours. */
static enum err check_rows(const struct shard *s, const struct frame *f,
                           struct fault *fault)
{
    const struct shard_table *t;

    if (f->table >= s->opt.tables || !s->table[f->table].readable)
        return refuse(fault, f, "of no table that others read");
    t = &s->table[f->table];
    for (uint32_t i = 0; i < f->count; i++)
        if (frame_row(f, i) - t->first >= t->count)
            return refuse(fault, f, "of a row that is not here");
    return ERR_OK;
}

/* At its worker's own clock. */
static enum err check_clock(const struct shard *s, const struct frame *f,
                            struct fault *fault)
{
    enum err err = check_worker(s, f, fault);

    if (err)
        return err;
    if (f->table < s->opt.tables &&
        f->clock != shard_worker_clock(&s->worker[f->worker], f->table))
        return refuse(fault, f, "of another clock than its worker is at");
    if (f->kind == FRAME_UPDATE && is_shared(s, f->table) &&
        has_ended_early(s, f->worker, f->table))
        return refuse(fault, f, "of a table whose clock its worker has ended");
    return ERR_OK;
}

static enum err check_update(const struct shard *s, const struct frame *f,
                             struct fault *fault)
{
    bool barrier = s->opt.consistency->barrier;
    const char *reason = barrier ? shard_sums_refused(s, f) : NULL;
    enum err err = reason    ? refuse(fault, f, reason)
                   : barrier ? ERR_OK
                             : check_clock(s, f, fault);
    const struct table *t;

    if (!err)
        err = check_rows(s, f, fault);
    if (err)
        return err;
    t = s->table[f->table].t;
    if (!is_shared(s, f->table))
        return refuse(fault, f, "of no shared table");
    /* The end of a stream is told all the same. */
    if (!s->writable && (f->count || !s->table[f->table].stream_rows))
        return refuse(fault, f, "to a branch that is kept");
    if (f->width != t->width || (f->values != frame_values_of(t->type, false) &&
                                 f->values != frame_values_of(t->type, true)))
        return refuse(fault, f, "of other values than the table has");
    if (!shard_versions_are_known(s, f))
        return refuse(fault, f, "of versions that its rows never had");
    if (barrier && !shard_sums_in_order(s, f))
        return refuse(fault, f, "of rows out of their order");
    return ERR_OK;
}

static void apply_now(struct shard *s, const struct frame *f)
{
    size_t stride = (s->value_bytes_max + 7u) / 8 * 8;
    const void *sum[RULE_ROW_BATCH];
    uint64_t row[RULE_ROW_BATCH];
    uint32_t version[RULE_ROW_BATCH];
    size_t n = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        row[n] = frame_row(f, i);
        version[n] = frame_row_version(f, i);
        sum[n] = frame_row_place(f, i, s->values + n * stride);
        if (++n == RULE_ROW_BATCH || i + 1 == f->count) {
            shard_apply_batch(s, f->table, n, row, sum, version);
            n = 0;
        }
    }
}

static enum err take_update(struct shard *s, const struct frame *f,
                            struct fault *fault)
{
    enum err err = check_update(s, f, fault);

    if (err)
        return err;
    s->node[f->from].updates++;
    if (s->opt.consistency->barrier) {
        enter_clock(s, s->table[f->table].clock);
        shard_sums_keep(s, f);
        return ERR_OK;
    }
    enter_clock(s, f->clock);
    apply_now(s, f);
    s->node[f->from].applied_due |=
        own_sums_are_kept(s->table[f->table].t, false);
    return ERR_OK;
}

/* Tables whose own clock was ended before are at this clock already. */
static void end_all(const struct shard *s, struct shard_worker *w)
{
    w->all++;
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (s->table[t].own_clock)
            w->extra[t] = 0;
}

static enum err take_clock(struct shard *s, const struct frame *f,
                           struct fault *fault)
{
    enum err err = check_worker(s, f, fault);
    bool all = f->table == FRAME_ALL_TABLES;
    struct shard_worker *w;

    if (err)
        return err;
    w = &s->worker[f->worker];
    if (!all && !is_shared(s, f->table))
        return refuse(fault, f, "of no shared table");
    if (!all && has_ended_early(s, f->worker, f->table))
        return refuse(fault, f, "of a clock that its worker has ended");
    if (f->clock != (all ? w->all : shard_worker_clock(w, f->table)) + 1)
        return refuse(fault, f, "not the clock after the last");
    if (!(f->seconds >= 0))
        return refuse(fault, f, "of a time that is none");
    if (f->through > s->node[f->from].row_frames)
        return refuse(fault, f, "of more rows than were sent");
    shard_versions_clock(s, f);
    if (!all && !s->table[f->table].own_clock)
        shard_sums_lift(s);
    if (all)
        end_all(s, w);
    else
        w->extra[f->table]++;
    w->tasks += all;
    if (all)
        w->task_s += (f->seconds - w->task_s) / (double)w->tasks;
    move_clocks(s, f->table);
    return ERR_OK;
}

static enum err take_read(struct shard *s, const struct frame *f,
                          struct fault *fault)
{
    enum err err = check_clock(s, f, fault);
    struct shard_node *n = &s->node[f->from];

    if (!err)
        err = check_rows(s, f, fault);
    if (err)
        return err;
    if (f->count > SHARD_READS_MAX - n->reads)
        return fault_set(fault, ERR_LIMIT,
                         "node %u waits for more than %d rows", f->from,
                         SHARD_READS_MAX);
    if (n->reads + f->count > n->reads_room) {
        size_t room = n->reads_room;

        if (mem_grow((void **)&n->read, &room, sizeof(*n->read),
                     n->reads + f->count) != 0)
            return fault_set(fault, ERR_NOMEM, "no memory for a read");
        n->reads_room = (uint32_t)room;
    }
    for (uint32_t i = 0; i < f->count; i++)
        n->read[n->reads++] =
            (struct shard_read){f->table, f->worker, frame_row(f, i)};
    n->half = f->flags & FRAME_HALF;
    s->stats.waiting += f->count;
    return ERR_OK;
}

static enum err take_drain(struct shard *s, const struct frame *f,
                           struct fault *fault)
{
    enum err err = check_worker(s, f, fault);
    bool available = false;

    if (err)
        return err;
    if (f->clock != s->worker[f->worker].all)
        return refuse(fault, f, "of another clock than its worker is at");
    s->worker[f->worker].available = false;
    shard_versions_drain(s, f->from);
    move_clocks(s, FRAME_ALL_TABLES);
    for (uint32_t i = 0; i < s->workers; i++)
        available |= s->worker[i].available;
    s->running = available;
    s->drained_due = !available;
    if (!available)
        forget_due(s);
    return ERR_OK;
}

/* ---- operations ---------------------------------------------------------- */

static void begin_slice(struct shard *s, const struct frame *f, bool writable)
{
    s->slice = f->slice;
    s->running = true;
    s->writable = writable;
    s->staleness = f->staleness;
    s->rule = barrier_rule_with(s->opt.rule, f->quorum);
    s->params.learning_rate = (float)f->learning_rate;
    s->params.momentum = (float)f->momentum;
    s->params.weight_decay = (float)f->weight_decay;
    s->params.rule = f->rule;
    s->params.warmup = f->warmup;
    s->params.warmed = f->warmed;
    s->begun = f->clock;
    for (uint32_t i = 0; i < s->workers; i++) {
        struct shard_worker *w = &s->worker[i];

        w->all = f->clock;
        memset(w->extra, 0, s->opt.tables * sizeof(*w->extra));
        w->available = true;
        w->task_s = 0;
        w->tasks = 0;
    }
    shard_versions_begin(s);
    shard_sums_begin(s);
    shard_early_begin(s);
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        s->node[i].reads = 0;
    s->stats.waiting = 0;
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        if (!s->table[t].clocked)
            continue;
        s->table[t].clock = f->clock;
        rowset_clear(&s->table[t].changed);
        /* Whoever had a row has an old one. */
        if (s->opt.consistency->pushes && s->table[t].shared)
            push_to_all(s, t, NULL);
        tell_clock(s, t);
    }
}

static enum err check_begin(const struct shard *s, const struct frame *f,
                            struct fault *fault)
{
    if (f->slice <= s->slice)
        return refuse(fault, f, "not a slice after the last");
    if (f->clock < 0 || f->clock > CLOCK_MAX)
        return refuse(fault, f, "of a clock that is none");
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (f->clock <= s->table[t].clock)
            return refuse(fault, f, "of a clock that was before");
    if (!(f->learning_rate >= 0 && isfinite((float)f->learning_rate)))
        return refuse(fault, f, "of a learning rate that is none");
    if (!(f->momentum >= 0 && f->momentum < 1))
        return refuse(fault, f, "of a momentum that is none");
    if (!(f->weight_decay >= 0 && isfinite((float)f->weight_decay)))
        return refuse(fault, f, "of a weight decay that is none");
    if (!rule_is_choice(f->rule))
        return refuse(fault, f, "of an update rule that is none");
    if (f->warmup >= FRAME_WARMUP_END || f->warmed >= FRAME_WARMUP_END)
        return refuse(fault, f, "of a warm-up that is none");
    return ERR_OK;
}

static enum err begin(struct shard *s, const struct frame *f)
{
    bool writable;
    enum err err =
        s->opt.rows->activate(s->opt.rows_self, f->branch, &writable);

    if (!err)
        begin_slice(s, f, writable);
    return err;
}

/* Between slices only: in clock order. */
static enum err operate(struct shard *s, const struct frame *f)
{
    const struct shard_rows *rows = s->opt.rows;

    if (s->running || s->drained_due)
        return ERR_BUSY;
    if (f->kind == FRAME_FORK)
        return rows->fork(s->opt.rows_self, f->branch, f->parent,
                          (enum branch_type)f->type);
    if (f->kind == FRAME_FREE)
        return rows->drop(s->opt.rows_self, f->branch);
    return begin(s, f);
}

static enum err take_operation(struct shard *s, const struct frame *f,
                               struct fault *fault)
{
    enum err err = ERR_OK;

    if (f->from != s->opt.control)
        return refuse(fault, f, "only the node that controls may say so");
    if (s->dones == SHARD_OPS_MAX)
        return fault_set(fault, ERR_LIMIT, "%d operations are not answered yet",
                         SHARD_OPS_MAX);
    if (f->kind == FRAME_BEGIN)
        err = check_begin(s, f, fault);
    else if (f->kind == FRAME_FORK && f->type >= BRANCH_TYPE_COUNT)
        err = refuse(fault, f, "of a type of branch that there is not");
    if (err)
        return err;
    err = operate(s, f);
    s->done[s->dones++] = (struct shard_done){f->op, (uint32_t)err};
    return ERR_OK;
}

static enum err take_hello(const struct shard *s, const struct frame *f,
                           struct fault *fault)
{
    char differ[ALIKE_TEXT_MAX];

    if (f->nodes != s->opt.nodes || f->workers != s->opt.workers)
        return fault_set(fault, ERR_PROTO,
                         "node %u knows %u nodes of %u workers, this one %u of "
                         "%u: start all with one configuration",
                         f->from, f->nodes, f->workers, s->opt.nodes,
                         s->opt.workers);
    if (f->layout != shard_layout(s->opt.table, s->opt.tables))
        return fault_set(fault, ERR_PROTO,
                         "node %u has other tables: start all with one "
                         "configuration and the same data",
                         f->from);
    if (f->options != s->opt.options)
        return fault_set(
            fault, ERR_PROTO,
            "node %u has another %s: start all with one configuration", f->from,
            alike_differs(f->options, s->opt.options, differ));
    return ERR_OK;
}

enum err shard_step(struct shard *s, const struct frame *f, struct fault *fault)
{
    if (f->from >= s->opt.nodes)
        return refuse(fault, f, "of a node that there is not");
    switch (f->kind) {
    case FRAME_HELLO:
        return take_hello(s, f, fault);
    case FRAME_UPDATE:
        return take_update(s, f, fault);
    case FRAME_CLOCK:
        return take_clock(s, f, fault);
    case FRAME_READ:
        return take_read(s, f, fault);
    case FRAME_DRAIN:
        return take_drain(s, f, fault);
    case FRAME_FORK:
    case FRAME_FREE:
    case FRAME_BEGIN:
        return take_operation(s, f, fault);
    default:
        return refuse(fault, f, "not for a shard");
    }
}
