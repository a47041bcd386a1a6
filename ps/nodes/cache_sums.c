/* Sums that leave when a clock ends. */
#include "base/mem.h"
#include "ps/nodes/cache_internal.h"
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

enum err cache_sums_init(struct cache *c)
{
    uint32_t workers = c->opt.workers;

    init_blocks(c);
    c->buffer = mem_calloc((size_t)c->opt.tables * workers,
                           sizeof(const struct update *));
    for (uint32_t t = 0; c->buffer && t < c->opt.tables; t++)
        for (uint32_t i = 0; c->table[t].shared && i < workers; i++)
            c->buffer[t * workers + i] = &c->opt.update[i][t];
    return c->buffer ? ERR_OK : ERR_NOMEM;
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
 * walk is under way. */
static bool next_update(const struct cache *c, uint32_t worker, uint32_t node,
                        struct cache_cursor *at)
{
    const struct update *const *buffer = buffers_of(c, worker, at->table);
    uint32_t n = c->worker[worker].block_workers;
    uint64_t first, count;

    if (at->found)
        return true;
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

/* Of the clock that the worker has ended, or in which it drains. */
static size_t send_updates(struct cache *c, uint32_t worker, uint32_t node,
                           unsigned char *bytes, size_t room)
{
    const struct cache_worker *self = &c->worker[worker];
    struct cache_cursor *at = &c->worker[worker].cursor[node];
    struct frame_writer w;

    cache_begin_sums(c, self->block, at->table,
                     cache_clock(c, worker, at->table) - !self->drained, &w,
                     bytes, room);
    while (frame_fits(&w) && next_update(c, worker, node, at)) {
        add_block_sum(c, worker, at->table, at->row, &w);
        at->found = false;
    }
    c->stats.updates += w.count;
    assert(w.count > 0);
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

size_t cache_send_sums(struct cache *c, uint32_t worker, uint32_t node,
                       unsigned char *bytes, size_t room)
{
    const struct cache_worker *w = &c->worker[worker];
    struct cache_cursor *at = &c->worker[worker].cursor[node];

    if (c->opt.own_stay && node == c->opt.node)
        return 0;
    for (; at->table < c->opt.tables; at->table++, at->walking = false)
        if (c->table[at->table].shared &&
            (w->drained || cache_ends(w, at->table)) &&
            is_last(c, worker, node, at->table) &&
            next_update(c, worker, node, at))
            return send_updates(c, worker, node, bytes, room);
    return 0;
}
