/* Sums that leave before a clock ends (Wei et al. 2015, section 3.3.2). */
#include "ps/nodes/cache.h"
#include "ps/nodes/cache_internal.h"

#include <assert.h>

/* Rows looked at for each that leaves. Departure: there all rows of the buffer
 * are sorted; here the best of so many in turn, since a worker waits for it. */
enum { LOOKED_AT = 16 };

static double key_of(struct cache *c, uint32_t worker, uint32_t table,
                     uint64_t row, enum priority p)
{
    const struct cache_table *t = &c->table[table];
    enum mlt_type type = table_value_type(t->t);
    uint32_t width = table_width(t->t);
    double change = 0, size = 0;

    if (p == PRIORITY_ABSOLUTE || p == PRIORITY_RELATIVE)
        change = priority_norm(type, width,
                               update_row(&c->opt.update[worker][table], row));
    if (p == PRIORITY_RELATIVE && cache_held(t, row) >= c->base)
        size = priority_norm(type, width, cache_place(c, table, row));
    return priority_key(p, change, size, &c->random);
}

/* Candidates of rows [first, end) that the worker has added to. */
static size_t collect(struct cache *c, uint32_t worker, uint32_t table,
                      uint64_t first, uint64_t end, enum priority p, size_t n,
                      size_t most)
{
    const struct update *update = &c->opt.update[worker][table];
    struct update_walk walk;
    uint64_t row;

    if (first >= end)
        return n;
    update_walk_init(&walk, first, end);
    while (n < most && update_walk_next(&walk, &update, 1, &row))
        c->candidate[n++] =
            (struct candidate){key_of(c, worker, table, row, p), row};
    return n;
}

/* Rows that a frame of @room bytes holds. */
static size_t rows_in(const struct cache *c, uint32_t table, size_t room)
{
    const struct cache_table *t = &c->table[table];
    enum frame_values values =
        frame_values_of(table_value_type(t->t), c->opt.half);
    uint64_t record =
        frame_record_bytes(cache_row_flags(t), values, table_width(t->t));

    return (size_t)((room - FRAME_FIXED_BYTES_MAX) / record);
}

/* The best rows of @table into a frame; 0 without any. */
static size_t send_best(struct cache *c, uint32_t worker, uint32_t node,
                        uint32_t table, enum priority p, unsigned char *bytes,
                        size_t room)
{
    uint64_t *at = &c->worker[worker].early_row[node * c->opt.tables + table];
    uint64_t first, count, from;
    size_t want = rows_in(c, table, room), most = want, n;
    struct frame_writer w;

    if (p != PRIORITY_ROUND_ROBIN)
        most = want < CACHE_EARLY_ROWS / LOOKED_AT ? want * LOOKED_AT
                                                   : CACHE_EARLY_ROWS;
    if (most > CACHE_EARLY_ROWS)
        most = CACHE_EARLY_ROWS;
    shard_part(c->table[table].t, c->opt.nodes, c->opt.workers, node, &first,
               &count);
    from = *at - first < count ? *at : first;
    n = collect(c, worker, table, from, first + count, p, 0, most);
    n = collect(c, worker, table, first, from, p, n, most);
    if (n == 0)
        return 0;
    *at = c->candidate[n - 1].row + 1;
    want = n < want ? n : want;
    priority_choose(c->candidate, n, want);
    cache_begin_sums(c, worker, node, table, cache_clock(c, worker, table), &w,
                     bytes, room);
    for (size_t i = 0; i < want; i++) {
        bool added = cache_add_sum(c, worker, table, c->candidate[i].row, &w);

        assert(added);
        (void)added;
        update_unmark(&c->opt.update[worker][table], c->candidate[i].row);
        if (c->table[table].versions)
            rowset_add(&c->worker[worker].left[table], c->candidate[i].row);
    }
    c->stats.updates += want;
    c->stats.early += want;
    return frame_end(&w);
}

size_t cache_next_early(struct cache *c, uint32_t worker, uint32_t node,
                        enum priority p, unsigned char *bytes, size_t room)
{
    struct cache_worker *w = &c->worker[worker];
    uint32_t begin = w->early_table[node];

    assert(worker < c->opt.workers && node < c->opt.nodes);
    assert(room >= cache_frame_bytes(c));
    if (w->drained || w->sending)
        return 0;
    for (uint32_t i = 0; i < c->opt.tables; i++) {
        uint32_t table = (begin + i) % c->opt.tables;
        size_t n;

        if (!c->table[table].early ||
            (c->table[table].own_clock && w->extra[table]))
            continue;
        n = send_best(c, worker, node, table, p, bytes, room);
        if (n == 0)
            continue;
        w->early_table[node] = table + 1; /* the others have their turn */
        return n;
    }
    return 0;
}
