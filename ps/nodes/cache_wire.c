/* Frames of shards, and frames for them. */
#include "ps/nodes/cache.h"
#include "ps/nodes/cache_internal.h"

#include <assert.h>

/* ---- frames of shards ---------------------------------------------------- */

static enum err refuse(struct fault *fault, const struct frame *f,
                       const char *what)
{
    return fault_set(fault, ERR_PROTO, "%s frame of node %u: %s",
                     frame_kind_name(f->kind), f->from, what);
}

static enum err check_rows(const struct cache *c, const struct frame *f,
                           struct fault *fault)
{
    const struct table *t;

    if (f->table >= c->opt.tables || !c->table[f->table].readable)
        return refuse(fault, f, "of no table that others read");
    if (f->worker != FRAME_NO_WORKER &&
        f->worker / c->opt.workers != c->opt.node)
        return refuse(fault, f, "for another node's worker");
    t = c->table[f->table].t;
    if (f->width != t->width || (f->values != frame_values_of(t->type, false) &&
                                 f->values != frame_values_of(t->type, true)))
        return refuse(fault, f, "of other values than the table has");
    if (c->table[f->table].versions != ((f->flags & FRAME_VERSIONS) != 0))
        return refuse(fault, f,
                      "with versions or without, as the table's rule "
                      "is not");
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t row = frame_row(f, i);

        if (row >= t->rows || cache_node_of(c, f->table, row) != f->from)
            return refuse(fault, f, "of a row that is not there");
    }
    return ERR_OK;
}

/* Frames of one shard come in order, so the values are never older than those
 * that are here, even where the clock that they are marked with is. */
static enum err take_rows(struct cache *c, const struct frame *f,
                          struct fault *fault)
{
    enum err err = check_rows(c, f, fault);
    struct cache_table *t = &c->table[f->table];
    bool answer = f->worker != FRAME_NO_WORKER;
    uint32_t self = f->worker % c->opt.workers;

    if (err)
        return err;
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t row = frame_row(f, i);
        uint64_t slot = slots_take(&t->slots, row);

        frame_row_values(f, i, t->copy + slot * t->t->value_bytes);
        if (t->keeps_own)
            own_sums_put(&c->node[f->from].own[f->table], t->t, row,
                         t->own[slot], c->node[f->from].applied,
                         t->copy + slot * t->t->value_bytes);
        if (t->versions)
            t->version[slot] = frame_row_version(f, i);
        if (f->clock > t->held[slot])
            t->held[slot] = f->clock;
        if (answer && rowset_has(&c->worker[self].asked[f->table], row)) {
            rowset_remove(&c->worker[self].asked[f->table], row);
            c->worker[self].asks[f->from]--;
            c->node[f->from].asked--;
        }
    }
    c->node[f->from].row_frames++;
    c->stats.answers += f->count;
    if (answer)
        cache_fetch_more(c, self, f->from);
    return ERR_OK;
}

static enum err take_clocks(struct cache *c, const struct frame *f,
                            struct fault *fault)
{
    int64_t *clock = c->node[f->from].clock, value;

    if (f->width != 1)
        return refuse(fault, f, "of more than one clock a table");
    for (uint32_t i = 0; i < f->count; i++) {
        frame_row_values(f, i, &value);
        if (frame_row(f, i) >= c->opt.tables)
            return refuse(fault, f, "of no table");
        if (value < clock[frame_row(f, i)])
            return refuse(fault, f, "of a clock that goes back");
    }
    for (uint32_t i = 0; i < f->count; i++)
        frame_row_values(f, i, &clock[frame_row(f, i)]);
    return ERR_OK;
}

enum err cache_step(struct cache *c, const struct frame *f, struct fault *fault)
{
    if (f->from >= c->opt.nodes)
        return refuse(fault, f, "of a node that there is not");
    if (f->kind == FRAME_TAKEN) /* whatever the slice */
        return cache_sums_taken(c, f, fault);
    if (f->kind == FRAME_APPLIED) /* the same */
        return cache_sums_applied(c, f)
                   ? ERR_OK
                   : refuse(fault, f, "of sums that cannot have been applied");
    if (f->kind != FRAME_ROWS && f->kind != FRAME_CLOCKS)
        return refuse(fault, f, "not for a client");
    if (f->slice < c->slice)
        return ERR_OK;
    /* A shard begins the slice after the next when this node has drained that.
     */
    if (f->slice > c->begun + 1)
        return refuse(fault, f, "of a slice that cannot have begun");
    if (f->slice > c->slice) {
        for (uint32_t i = 0; i < c->opt.workers; i++)
            if (!c->worker[i].drained)
                return refuse(fault, f, "of a slice that cannot have begun");
        cache_enter_slice(c, f->slice);
    }
    return f->kind == FRAME_ROWS ? take_rows(c, f, fault)
                                 : take_clocks(c, f, fault);
}

/* ---- frames for shards --------------------------------------------------- */

bool cache_add_sum(const struct cache *c, uint32_t worker, uint32_t table,
                   uint64_t row, struct frame_writer *w)
{
    const struct cache_worker *self = &c->worker[worker];
    const void *sum = update_row(&c->opt.update[worker][table], row);
    uint32_t version = 0;

    if (!c->table[table].versions)
        return frame_add(w, row, sum);
    if (rowset_has(&self->read[table], row))
        version = self->basis[table][slots_of(&c->table[table].slots, row)];
    return frame_add_version(w, row, version, sum);
}

unsigned cache_row_flags(const struct cache_table *t)
{
    return frame_flags_of(t->t->rows) | (t->versions ? FRAME_VERSIONS : 0);
}

void cache_begin_sums(struct cache *c, uint32_t worker, uint32_t node,
                      uint32_t table, int64_t clock, struct frame_writer *w,
                      unsigned char *bytes, size_t room)
{
    const struct table *t = c->table[table].t;
    /* Another shard may have begun the next slice already. */
    uint64_t slice =
        c->worker[worker].drained ? c->worker[worker].drain_slice : c->slice;
    struct frame f = {.kind = FRAME_UPDATE,
                      .values = frame_values_of(t->type, c->opt.half),
                      .flags = cache_row_flags(&c->table[table]),
                      .slice = slice,
                      .table = table,
                      .worker = c->opt.node * c->opt.workers + worker,
                      .clock = clock,
                      .width = t->width};

    frame_begin(w, &f, bytes, room);
    c->node[node].updates++;
}

/* All sums have left: the next are computed on what is read from now on. */
static void forget_read(const struct cache *c, struct cache_worker *w)
{
    for (uint32_t t = 0; t < c->opt.tables; t++)
        if (c->table[t].versions &&
            (w->ends == FRAME_ALL_TABLES || w->ends == t))
            cache_forget_read(w, t);
}

static size_t send_clock(struct cache *c, uint32_t worker, uint32_t node,
                         unsigned char *bytes, size_t room)
{
    struct cache_worker *w = &c->worker[worker];
    bool all = w->ends == FRAME_ALL_TABLES;
    struct frame f = {.kind = FRAME_CLOCK,
                      .slice = c->slice,
                      .table = w->ends,
                      .worker = c->opt.node * c->opt.workers + worker,
                      .clock = all ? w->all : cache_clock(c, worker, w->ends),
                      .seconds = w->seconds,
                      .through = c->node[node].row_frames};
    struct frame_writer writer;

    w->cursor[node].busy = false;
    if (--w->sending == 0)
        forget_read(c, w);
    frame_begin(&writer, &f, bytes, room);
    return frame_end(&writer);
}

static size_t send_drain(struct cache *c, uint32_t worker, uint32_t node,
                         unsigned char *bytes, size_t room)
{
    struct frame f = {.kind = FRAME_DRAIN,
                      .slice = c->worker[worker].drain_slice,
                      .worker = c->opt.node * c->opt.workers + worker,
                      .clock = c->worker[worker].all};
    struct frame_writer w;

    c->worker[worker].cursor[node].drain_due = false;
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}

/* Under barriers when all of the worker has left: who is the last of a block
 * sends its sums. */
static void pass_turn(const struct cache *c, struct cache_node *n,
                      uint32_t worker, uint32_t node)
{
    bool stays =
        c->opt.consistency->barrier && c->worker[worker].cursor[node].busy;

    n->turn = stays ? worker : (worker + 1) % c->opt.workers;
}

static bool may_say(enum cache_next_sums next)
{
    return next == CACHE_SUMS || next == CACHE_NO_SUMS;
}

/* A worker whose sums, clock or drain may leave for @node: in turn of those
 * that end a clock; else of those that drain. UINT32_MAX: none. */
static uint32_t next_worker(const struct cache *c, uint32_t node, bool drains,
                            enum cache_next_sums *next)
{
    uint32_t turn = drains ? 0 : c->node[node].turn;

    for (uint32_t i = 0; i < c->opt.workers; i++) {
        uint32_t worker = (turn + i) % c->opt.workers;
        const struct cache_cursor *at = &c->worker[worker].cursor[node];

        if (!(drains ? at->drain_due : at->busy))
            continue;
        *next = cache_find_sums(c, worker, node);
        if (may_say(*next))
            return worker;
    }
    return UINT32_MAX;
}

size_t cache_next(struct cache *c, uint32_t node, unsigned char *bytes,
                  size_t room)
{
    struct cache_node *n = &c->node[node];
    enum cache_next_sums next;
    uint32_t worker, want;
    size_t size;

    assert(node < c->opt.nodes && room >= cache_frame_bytes(c));
    worker = next_worker(c, node, false, &next);
    if (worker < c->opt.workers) {
        size = next == CACHE_SUMS
                   ? cache_send_sums(c, worker, node, bytes, room)
                   : send_clock(c, worker, node, bytes, room);
        pass_turn(c, n, worker, node);
        return size;
    }
    want = cache_first_want(c, node);
    if (want < n->wants)
        return cache_send_reads(c, node, want, bytes, room);
    worker = next_worker(c, node, true, &next);
    if (worker == UINT32_MAX)
        return 0;
    return next == CACHE_SUMS ? cache_send_sums(c, worker, node, bytes, room)
                              : send_drain(c, worker, node, bytes, room);
}

bool cache_has_next(const struct cache *c, uint32_t node)
{
    enum cache_next_sums next;

    assert(node < c->opt.nodes);
    return cache_first_want(c, node) < c->node[node].wants ||
           next_worker(c, node, false, &next) < c->opt.workers ||
           next_worker(c, node, true, &next) < c->opt.workers;
}
