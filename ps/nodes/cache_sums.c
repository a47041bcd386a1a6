/* Sums that leave when a clock ends. */
#include "base/mem.h"
#include "ps/nodes/cache_internal.h"
#include "ps/rows/rule.h"
#include "ps/rows/sum_tree.h"

#include <assert.h>

/* Which workers send one sum: blocks that are aligned over all nodes. */
static void init_blocks(const struct cache *c)
{
    uint32_t first = c->opt.node * c->opt.workers, n;

    for (uint32_t i = 0; i < c->opt.workers; i += n) {
        n = c->opt.consistency->barrier
                ? sum_tree_block(first + i, first + c->opt.workers)
                : 1;
        for (uint32_t k = i; k < i + n; k++) {
            c->worker[k].block = i;
            c->worker[k].block_workers = n;
        }
    }
}

/* Room for own sums that have left for a node. */
static enum err init_own(const struct cache *c, uint32_t node)
{
    struct cache_node *n = &c->node[node];

    n->own = mem_calloc(c->opt.tables, sizeof(*n->own));
    if (!n->own)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < c->opt.tables; t++) {
        const struct table *table = c->table[t].t;
        uint64_t first, count;

        if (!c->table[t].keeps_own)
            continue;
        shard_part(table, c->opt.nodes, c->opt.workers, node, &first, &count);
        if (own_sums_init(&n->own[t],
                          own_sums_room(table, count, c->opt.workers),
                          table_value_bytes(table)) != ERR_OK)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

/* Which tables are streams to a node, and accounts of them. */
static enum err init_streams(const struct cache *c, uint32_t node)
{
    struct cache_node *n = &c->node[node];
    uint32_t tables = c->opt.tables, workers = c->opt.workers;

    n->stream_rows = mem_calloc(tables, sizeof(*n->stream_rows));
    n->stream = mem_calloc((size_t)tables * workers, sizeof(*n->stream));
    if (!n->stream_rows || !n->stream)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < tables; t++) {
        uint64_t first, count;

        if (!c->table[t].shared || !c->opt.consistency->barrier)
            continue;
        shard_part(c->table[t].t, c->opt.nodes, workers, node, &first, &count);
        n->stream_rows[t] =
            sum_stream_rows(c->table[t].t, count, c->opt.stream_bytes);
    }
    return ERR_OK;
}

enum err cache_sums_init(struct cache *c)
{
    uint32_t workers = c->opt.workers;

    init_blocks(c);
    c->buffer = mem_calloc((size_t)c->opt.tables * workers,
                           sizeof(const struct update *));
    for (uint32_t t = 0; c->buffer && t < c->opt.tables; t++)
        for (uint32_t i = 0; c->table[t].shared && i < workers; i++)
            c->buffer[t * workers + i] = &c->opt.update[i][t];
    for (uint32_t i = 0; i < c->opt.nodes; i++)
        if (init_streams(c, i) != ERR_OK || init_own(c, i) != ERR_OK)
            return ERR_NOMEM;
    return c->buffer ? ERR_OK : ERR_NOMEM;
}

void cache_sums_deinit(struct cache *c)
{
    mem_free(c->buffer);
    for (uint32_t i = 0; c->node && i < c->opt.nodes; i++) {
        for (uint32_t t = 0; c->node[i].own && t < c->opt.tables; t++)
            own_sums_deinit(&c->node[i].own[t]);
        mem_free(c->node[i].own);
        mem_free(c->node[i].stream_rows);
        mem_free(c->node[i].stream);
    }
}

/* The buffers of the worker's block, block_workers of them. */
static const struct update *const *buffers_of(const struct cache *c,
                                              uint32_t worker, uint32_t table)
{
    return c->buffer + (size_t)table * c->opt.workers + c->worker[worker].block;
}

static bool any_has(const struct update *const buffer[], uint32_t n,
                    uint64_t row)
{
    for (uint32_t i = 0; i < n; i++)
        if (update_has(buffer[i], row))
            return true;
    return false;
}

/* The next row of the table that is @node's, that the worker's block has sums
 * of, and that was not sent. A worker that fails clears its buffer while the
 * walk is under way, or a row waits. */
static bool next_update(const struct cache *c, uint32_t worker, uint32_t node,
                        struct cache_cursor *at)
{
    const struct update *const *buffer = buffers_of(c, worker, at->table);
    uint32_t n = c->worker[worker].block_workers;
    uint64_t first, count;

    if (at->found && any_has(buffer, n, at->row))
        return true;
    at->found = false;
    if (!at->walking) {
        shard_part(c->table[at->table].t, c->opt.nodes, c->opt.workers, node,
                   &first, &count);
        update_walk_init(&at->walk, first, first + count);
        at->walking = count > 0;
    }
    while (!at->found && at->walking &&
           update_walk_next(&at->walk, buffer, n, &at->row))
        at->found = any_has(buffer, n, at->row);
    return at->found;
}

/* That of its block. There is room for it: it must not be made twice. */
static void add_block_sum(const struct cache *c, uint32_t worker,
                          uint32_t table, uint64_t row, struct frame_writer *w)
{
    const struct table *t = c->table[table].t;
    uint32_t n = c->worker[worker].block_workers;
    bool added;

    if (n == 1)
        added = cache_add_sum(c, worker, table, row, w);
    else
        added = frame_add(w, row,
                          update_sum(table_value_type(t), table_width(t),
                                     buffers_of(c, worker, table), n, n, row));
    assert(added);
    (void)added;
}

/* ---- streams ------------------------------------------------------------- */

static struct cache_stream *stream_of(const struct cache *c, uint32_t worker,
                                      uint32_t node, uint32_t table)
{
    uint32_t block = c->worker[worker].block;

    return &c->node[node].stream[(size_t)block * c->opt.tables + table];
}

static uint64_t slice_of(const struct cache *c, const struct cache_worker *w)
{
    return w->drained ? w->drain_slice : c->slice;
}

/* Sums of a table that may leave for the shard now. Those of a table that ends
 * its clock alone leave in any case (ps/nodes/sum_stream.h says why). */
static uint64_t may_leave(const struct cache *c, uint32_t worker, uint32_t node,
                          uint32_t table)
{
    const struct cache_worker *w = &c->worker[worker];
    const struct cache_node *n = &c->node[node];
    const struct cache_stream *stream = stream_of(c, worker, node, table);
    uint64_t under_way = stream->sent - stream->taken;

    if (c->table[table].keeps_own)
        return own_sums_free(&n->own[table]);
    if (n->stream_rows[table] == 0 || n->unlimited == slice_of(c, w) ||
        (!w->drained && w->ends == table))
        return UINT64_MAX;
    return under_way < n->stream_rows[table] ? n->stream_rows[table] - under_way
                                             : 0;
}

enum err cache_sums_taken(struct cache *c, const struct frame *f,
                          struct fault *fault)
{
    uint32_t first = c->opt.node * c->opt.workers;
    struct cache_node *n = &c->node[f->from];
    struct cache_stream *stream;

    if (f->table == FRAME_ALL_TABLES) {
        n->unlimited = f->slice;
        return ERR_OK;
    }
    if (f->table >= c->opt.tables || n->stream_rows[f->table] == 0 ||
        f->worker - first >= c->opt.workers ||
        c->worker[f->worker - first].block != f->worker - first)
        return fault_set(fault, ERR_PROTO,
                         "taken frame of node %u: of no stream of this node",
                         f->from);
    stream = stream_of(c, f->worker - first, f->from, f->table);
    if (f->through < stream->taken || f->through > stream->sent)
        return fault_set(fault, ERR_PROTO,
                         "taken frame of node %u: of %llu sums, and %llu to "
                         "%llu may have been",
                         f->from, (unsigned long long)f->through,
                         (unsigned long long)stream->taken,
                         (unsigned long long)stream->sent);
    stream->taken = f->through;
    return ERR_OK;
}

/* Says how far the rows have left that the frame is of. */
static void say_passed(const struct cache *c, uint32_t worker, uint32_t node,
                       struct frame_writer *w)
{
    struct cache_cursor *at = &c->worker[worker].cursor[node];
    uint64_t first, count;

    at->said = !next_update(c, worker, node, at);
    shard_part(c->table[at->table].t, c->opt.nodes, c->opt.workers, node,
               &first, &count);
    frame_set_through(w, at->said ? first + count : at->row);
    stream_of(c, worker, node, at->table)->sent += w->count;
}

/* ---- own sums ------------------------------------------------------------ */

/* What leaves with the frame that is being made, whose number is the latest. */
static void keep_own(struct cache *c, uint32_t worker, uint32_t node,
                     uint32_t table, uint64_t row)
{
    const struct cache_table *t = &c->table[table];
    const void *sum = update_row(&c->opt.update[worker][table], row);
    uint64_t slot = slots_take(&t->slots, row);

    rule_accumulate(table_value_type(t->t), table_width(t->t),
                    t->copy + slot * table_value_bytes(t->t), sum);
    t->own[slot] = own_sums_add(&c->node[node].own[table],
                                c->node[node].updates, row, t->own[slot], sum);
}

/* The link keeps order, and a shard takes each frame when it comes. */
bool cache_sums_applied(struct cache *c, const struct frame *f)
{
    struct cache_node *n = &c->node[f->from];

    if (f->through < n->applied || f->through > n->updates)
        return false;
    n->applied = f->through;
    for (uint32_t t = 0; t < c->opt.tables; t++)
        if (c->table[t].keeps_own)
            own_sums_applied(&n->own[t], f->through);
    return true;
}

/* ---- frames -------------------------------------------------------------- */

/* Of the clock that the worker has ended, or in which it drains. */
size_t cache_send_sums(struct cache *c, uint32_t worker, uint32_t node,
                       unsigned char *bytes, size_t room)
{
    const struct cache_worker *self = &c->worker[worker];
    struct cache_cursor *at = &c->worker[worker].cursor[node];
    uint64_t most = may_leave(c, worker, node, at->table);
    struct frame_writer w;

    cache_begin_sums(c, self->block, node, at->table,
                     cache_clock(c, worker, at->table) - !self->drained, &w,
                     bytes, room);
    while (w.count < most && frame_fits(&w) &&
           next_update(c, worker, node, at)) {
        add_block_sum(c, worker, at->table, at->row, &w);
        if (c->table[at->table].keeps_own)
            keep_own(c, worker, node, at->table, at->row);
        at->found = false;
    }
    if (c->node[node].stream_rows[at->table])
        say_passed(c, worker, node, &w);
    assert(w.count > 0 || at->said);
    c->stats.updates += w.count;
    return frame_end(&w);
}

/* Whether @node knows that the worker adds no more to @table in @clock, or will
 * not hear of it by this worker: a drain that was sent in part is past it. */
static bool has_told(const struct cache *c, uint32_t worker, uint32_t node,
                     uint32_t table, int64_t clock)
{
    const struct cache_worker *w = &c->worker[worker];
    const struct cache_cursor *at = &w->cursor[node];

    if (w->drained)
        return !at->drain_due || at->table > table;
    return cache_clock(c, worker, table) > clock &&
           !(at->busy && cache_ends(w, table));
}

/* Whether the sums of a worker's block may leave: all the others have told of
 * their clocks before. */
static bool is_last(const struct cache *c, uint32_t worker, uint32_t node,
                    uint32_t table)
{
    const struct cache_worker *w = &c->worker[worker];
    int64_t clock = cache_clock(c, worker, table) - !w->drained;

    for (uint32_t i = w->block; i < w->block + w->block_workers; i++)
        if (i != worker && !has_told(c, i, node, table, clock))
            return false;
    return true;
}

/* Whether another worker of the block is under way to its clock: tables that it
 * passed as not the last of the block would be nobody's. */
static bool is_overtaking(const struct cache *c, uint32_t worker, uint32_t node)
{
    const struct cache_worker *w = &c->worker[worker];

    if (!c->opt.consistency->barrier)
        return false;
    for (uint32_t i = w->block; i < w->block + w->block_workers; i++)
        if (i != worker && c->worker[i].cursor[node].busy &&
            c->worker[i].cursor[node].begun)
            return true;
    return false;
}

enum cache_next_sums cache_find_sums(const struct cache *c, uint32_t worker,
                                     uint32_t node)
{
    const struct cache_worker *w = &c->worker[worker];
    struct cache_cursor *at = &c->worker[worker].cursor[node];

    if (is_overtaking(c, worker, node))
        return CACHE_SUMS_LATER;
    at->begun = true;
    if (c->opt.own_stay && node == c->opt.node)
        return CACHE_NO_SUMS;
    for (; at->table < c->opt.tables;
         at->table++, at->walking = at->said = false) {
        if (!c->table[at->table].shared ||
            !(w->drained || cache_ends(w, at->table)) ||
            !is_last(c, worker, node, at->table))
            continue;
        if (next_update(c, worker, node, at))
            return may_leave(c, worker, node, at->table) ? CACHE_SUMS
                                                         : CACHE_SUMS_WAIT;
        if (c->node[node].stream_rows[at->table] && !at->said)
            return CACHE_SUMS;
    }
    return CACHE_NO_SUMS;
}
