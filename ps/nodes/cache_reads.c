/* Reads: rows that are asked for, and batches of those that will be. */
#include "ps/nodes/cache.h"
#include "ps/nodes/cache_internal.h"

#include <assert.h>
#include <string.h>

/* ---- one row ------------------------------------------------------------- */

/* Whether a read of the row is under way that will be answered no later than
 * one of this worker's would be. Another's need not be enough: the shard lets
 * it wait as long as its own worker is too far ahead, and it may be this very
 * worker that all wait for. */
static bool is_asked(const struct cache *c, uint32_t worker, uint32_t table,
                     uint64_t row)
{
    int64_t clock = cache_clock(c, worker, table);

    for (uint32_t i = 0; i < c->opt.workers; i++) {
        const struct cache_worker *w = &c->worker[i];

        if (rowset_has(&w->asked[table], row) &&
            (w->drained || cache_clock(c, i, table) <= clock))
            return true;
    }
    return false;
}

/* Each worker has its part of what may be under way: one that is ahead may have
 * to wait for all of its rows until another of this node has had its own. */
static uint32_t part(const struct cache *c)
{
    return c->opt.reads_max / c->opt.workers;
}

void cache_ask(struct cache *c, uint32_t worker, uint32_t table, uint64_t row,
               uint16_t batch)
{
    uint32_t node = cache_node_of(c, table, row);
    struct cache_node *n = &c->node[node];
    uint32_t *asks = &c->worker[worker].asks[node];

    if (*asks >= part(c) || is_asked(c, worker, table, row))
        return;
    rowset_add(&c->worker[worker].asked[table], row);
    ++*asks;
    n->asked++;
    n->want[n->wants++] = (struct want){table, (uint16_t)worker, batch, row};
    c->stats.asked++;
}

/* ---- batches ------------------------------------------------------------- */

/* What tells the wants of a worker's batches apart. */
static uint16_t mark_of(uint64_t batch)
{
    return (uint16_t)(1 + batch % UINT16_MAX);
}

/* Whether the worker has no need to ask: it reads the row where it lies, or the
 * copy that is here will do. */
static bool is_here(const struct cache *c, uint32_t worker, uint32_t table,
                    uint64_t row, uint32_t node)
{
    int64_t holds;

    if (c->table[table].in_place && node == c->opt.node)
        return true;
    holds = cache_holds(c, table, row);
    return holds >= c->base && holds >= cache_needed(c, worker, table);
}

static bool has_room(const struct cache *c, uint32_t worker, uint32_t node)
{
    return c->worker[worker].asks[node] < part(c) * CACHE_BATCH_QUARTERS / 4;
}

/* Looks at the batch's row @i for the shard of @node; false where it has to
 * wait for room. */
static bool look_at(struct cache *c, uint32_t worker,
                    const struct cache_batch *b, uint64_t row, uint32_t node)
{
    if (is_here(c, worker, b->table, row, node))
        return true;
    if (!has_room(c, worker, node))
        return false;
    cache_ask(c, worker, b->table, row, mark_of(b->number));
    return true;
}

/* In one pass over the rows: a shard's first that has to wait is where the
 * batch will go on with that shard. */
static void begin(struct cache *c, uint32_t worker, struct cache_batch *b)
{
    const struct table *t = c->table[b->table].t;

    for (uint32_t k = 0; k < c->opt.nodes; k++)
        b->at[k] = b->n;
    for (size_t i = 0; i < b->n; i++) {
        uint64_t row = table_number(t, b->row[i]);
        uint32_t node = cache_node_of(c, b->table, row);

        if (b->at[node] == b->n && !look_at(c, worker, b, row, node))
            b->at[node] = i;
    }
}

static void go_on(struct cache *c, uint32_t worker, struct cache_batch *b,
                  uint32_t node)
{
    const struct table *t = c->table[b->table].t;

    for (; b->at[node] < b->n; b->at[node]++) {
        uint64_t row = table_number(t, b->row[b->at[node]]);

        if (cache_node_of(c, b->table, row) == node &&
            !look_at(c, worker, b, row, node))
            return;
    }
}

void cache_fetch_more(struct cache *c, uint32_t worker, uint32_t node)
{
    struct cache_worker *w = &c->worker[worker];

    for (uint32_t i = 0; i < w->batches && has_room(c, worker, node); i++)
        go_on(c, worker, &w->batch[i], node);
}

void cache_fetch(struct cache *c, uint32_t worker, uint64_t batch,
                 uint32_t table, size_t n, const uint64_t row[])
{
    struct cache_worker *w = &c->worker[worker];
    struct cache_batch *b = &w->batch[w->batches];

    assert(worker < c->opt.workers && table < c->opt.tables);
    assert(c->table[table].readable && !w->drained);
    assert(w->batches < CACHE_BATCHES_MAX);
    for (uint32_t i = 0; i < w->batches; i++)
        assert(w->batch[i].number != batch);
    for (size_t i = 0; i < n; i++)
        assert(row[i] < table_rows(c->table[table].t));
    b->number = batch;
    b->row = row;
    b->n = n;
    b->table = table;
    w->batches++;
    begin(c, worker, b);
}

/* What it has asked for and has not left is waited for, or nobody's. */
static void raise_wants(struct cache *c, uint32_t worker, uint16_t mark)
{
    for (uint32_t k = 0; k < c->opt.nodes; k++) {
        struct cache_node *n = &c->node[k];

        for (uint32_t i = 0; i < n->wants; i++)
            if (n->want[i].worker == worker && n->want[i].batch == mark)
                n->want[i].batch = 0;
    }
}

void cache_fetch_end(struct cache *c, uint32_t worker, uint64_t batch)
{
    struct cache_worker *w = &c->worker[worker];
    struct cache_batch ended;
    uint32_t i = 0;

    assert(worker < c->opt.workers);
    while (i < w->batches && w->batch[i].number != batch)
        i++;
    assert(i < w->batches);
    ended = w->batch[i];
    w->batches--;
    memmove(&w->batch[i], &w->batch[i + 1],
            (w->batches - i) * sizeof(w->batch[i]));
    w->batch[w->batches] = (struct cache_batch){.at = ended.at};
    raise_wants(c, worker, mark_of(batch));
}

/* ---- what leaves first --------------------------------------------------- */

/* The shard is to know of a worker's clock first: one that has ended it may
 * wait with sums. */
static bool may_leave(const struct cache *c, uint32_t node,
                      const struct want *want)
{
    return !c->worker[want->worker].cursor[node].busy;
}

uint32_t cache_first_want(const struct cache *c, uint32_t node)
{
    const struct cache_node *n = &c->node[node];
    uint32_t of_batch = n->wants;

    for (uint32_t i = 0; i < n->wants; i++) {
        if (!may_leave(c, node, &n->want[i]))
            continue;
        if (!n->want[i].batch || n->passed >= CACHE_PASSED_MAX)
            return i;
        if (of_batch == n->wants)
            of_batch = i;
    }
    return of_batch;
}

size_t cache_send_reads(struct cache *c, uint32_t node, uint32_t first,
                        unsigned char *bytes, size_t room)
{
    struct cache_node *n = &c->node[node];
    struct want like = n->want[first];
    struct frame f = {.kind = FRAME_READ,
                      .flags =
                          frame_flags_of(table_rows(c->table[like.table].t)) |
                          (c->opt.half ? FRAME_HALF : 0),
                      .slice = c->slice,
                      .table = like.table,
                      .worker = c->opt.node * c->opt.workers + like.worker,
                      .clock = cache_clock(c, like.worker, like.table)};
    struct frame_writer w;
    uint32_t kept = first;

    frame_begin(&w, &f, bytes, room);
    for (uint32_t i = first; i < n->wants; i++) {
        struct want want = n->want[i];
        bool same = want.table == like.table && want.worker == like.worker &&
                    want.batch == like.batch;

        if (!same || !frame_add(&w, want.row, NULL))
            n->want[kept++] = want;
    }
    n->wants = kept;
    n->passed = like.batch ? 0 : n->passed + (n->passed < CACHE_PASSED_MAX);
    return frame_end(&w);
}
