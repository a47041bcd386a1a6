#include "ps/nodes/shard.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ps/nodes/shard_internal.h"

#include <assert.h>
#include <string.h>

/* ---- who has what -------------------------------------------------------- */

void shard_part(const struct table *t, uint32_t nodes, uint32_t workers,
                uint32_t node, uint64_t *first, uint64_t *count)
{
    uint64_t last_first, last_count;
    unsigned begin = node * workers;

    assert(node < nodes);
    table_part(t, nodes * workers, begin, first, count);
    table_part(t, nodes * workers, begin + workers - 1, &last_first,
               &last_count);
    *count = last_first + last_count - *first;
}

uint32_t shard_of(const struct table *t, uint32_t nodes, uint32_t workers,
                  uint64_t row)
{
    return table_owner(t, nodes * workers, row) / workers;
}

bool shard_keeps_clock(const struct table *t, const struct table table[],
                       uint32_t tables)
{
    bool any = false;

    for (uint32_t i = 0; i < tables; i++)
        any |= table_is_shared(&table[i]);
    return any ? table_is_shared(t) : !table_is_local(t);
}

uint64_t shard_layout(const struct table table[], uint32_t tables)
{
    uint64_t hash = tables;

    assert(table);
    for (uint32_t i = 0; i < tables; i++) {
        const struct table *t = &table[i];

        for (const char *c = t->name; *c; c++)
            hash = rng_mix(hash, (unsigned char)*c);
        hash = rng_mix(hash, t->rows);
        hash = rng_mix(hash, t->width);
        hash = rng_mix(hash, (uint64_t)t->flags << 32 |
                                 (uint64_t)t->type << 16 | (uint64_t)t->access);
        hash = rng_mix(hash, (uint64_t)t->row_bytes << 32 | t->row_shift);
        hash = rng_mix(hash, t->undecayed);
        for (const char *c = t->rule ? t->rule->name : ""; *c; c++)
            hash = rng_mix(hash, (unsigned char)*c);
    }
    return hash;
}

/* ---- life ---------------------------------------------------------------- */

static void free_worker(struct shard *s, struct shard_worker *w)
{
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        if (w->sum && w->sum[t].rows)
            update_deinit(&w->sum[t]);
        if (w->stream)
            sum_stream_deinit(&w->stream[t]);
    }
    mem_free(w->sum);
    mem_free(w->stream);
    mem_free(w->extra);
    mem_free(w->through);
}

static void free_node(struct shard *s, struct shard_node *n)
{
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        if (n->has)
            rowset_deinit(&n->has[t]);
        if (n->due)
            rowset_deinit(&n->due[t]);
    }
    mem_free(n->has);
    mem_free(n->due);
    mem_free(n->clock_due);
    mem_free(n->read);
}

void shard_free(struct shard *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->worker && i < s->workers; i++)
        free_worker(s, &s->worker[i]);
    shard_early_deinit(s);
    for (uint32_t i = 0; s->node && i < s->opt.nodes; i++)
        free_node(s, &s->node[i]);
    for (uint32_t t = 0; s->table && t < s->opt.tables; t++) {
        rowset_deinit(&s->table[t].changed);
        revision_free(s->table[t].revision);
    }
    mem_free(s->table);
    mem_free(s->worker);
    mem_free(s->node);
    mem_free(s->status);
    mem_free(s->buffer);
    mem_free(s->buffer_at);
    mem_free(s->stream);
    mem_free(s->values);
    mem_free(s);
}

static enum err init_tables(struct shard *s)
{
    const struct shard_options *o = &s->opt;

    for (uint32_t i = 0; i < o->tables; i++) {
        struct shard_table *t = &s->table[i];

        t->t = &o->table[i];
        t->shared = t->t->access == MLT_SHARED;
        t->readable = t->t->access != MLT_LOCAL;
        t->clocked = shard_keeps_clock(t->t, o->table, o->tables);
        t->own_clock = t->t->flags & MLT_OWN_CLOCK;
        if (!t->readable)
            continue;
        shard_part(t->t, o->nodes, o->workers, o->node, &t->first, &t->count);
        if (t->t->value_bytes > s->value_bytes_max)
            s->value_bytes_max = t->t->value_bytes;
        t->stream_rows = o->consistency->barrier
                             ? sum_stream_rows(t->t, t->count, o->stream_bytes)
                             : 0;
        s->streams |= t->stream_rows > 0;
        if (rowset_init(&t->changed, t->count) != ERR_OK ||
            shard_versions_init(s, t) != ERR_OK)
            return ERR_NOMEM;
    }
    return shard_frame_bytes(s) <= FRAME_BYTES_MAX ? ERR_OK : ERR_INVAL;
}

/* Where sums of a table are kept. */
static enum err init_sums(const struct shard *s, struct shard_worker *w,
                          uint32_t table)
{
    const struct shard_table *t = &s->table[table];

    if (!t->shared || !t->count)
        return ERR_OK;
    if (t->stream_rows)
        return sum_stream_init(&w->stream[table], t->count, t->t->value_bytes,
                               t->stream_rows);
    return update_init(&w->sum[table], t->count, t->t->value_bytes,
                       s->opt.dense_bytes);
}

static enum err init_worker(const struct shard *s, struct shard_worker *w)
{
    w->extra = mem_calloc(s->opt.tables, sizeof(*w->extra));
    w->through = mem_calloc(s->opt.tables, sizeof(*w->through));
    if (!w->extra || !w->through)
        return ERR_NOMEM;
    if (!shard_sums_come(s, (uint32_t)(w - s->worker)))
        return ERR_OK;
    w->sum = mem_calloc(s->opt.tables, sizeof(*w->sum));
    w->stream = mem_calloc(s->opt.tables, sizeof(*w->stream));
    if (!w->sum || !w->stream)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < s->opt.tables; i++)
        if (init_sums(s, w, i) != ERR_OK)
            return ERR_NOMEM;
    return ERR_OK;
}

static enum err init_node(const struct shard *s, struct shard_node *n)
{
    uint32_t tables = s->opt.tables;

    n->clock_due = mem_calloc(tables, sizeof(*n->clock_due));
    n->has = mem_calloc(tables, sizeof(*n->has));
    n->due = mem_calloc(tables, sizeof(*n->due));
    if (!n->clock_due || !n->has || !n->due)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < tables; t++)
        if (s->table[t].shared &&
            (rowset_init(&n->has[t], s->table[t].count) != ERR_OK ||
             rowset_init(&n->due[t], s->table[t].count) != ERR_OK))
            return ERR_NOMEM;
    return ERR_OK;
}

static enum err init_parts(struct shard *s)
{
    enum err err;

    s->table = mem_calloc(s->opt.tables, sizeof(*s->table));
    s->worker = mem_calloc(s->workers, sizeof(*s->worker));
    s->node = mem_calloc(s->opt.nodes, sizeof(*s->node));
    s->status = mem_calloc(s->workers, sizeof(*s->status));
    s->buffer = mem_calloc(s->workers, sizeof(const struct update *));
    s->buffer_at = mem_calloc(s->workers, sizeof(*s->buffer_at));
    s->stream = mem_calloc(s->workers, sizeof(struct sum_stream *));
    if (!s->table || !s->worker || !s->node || !s->status || !s->buffer ||
        !s->buffer_at || !s->stream)
        return ERR_NOMEM;
    err = init_tables(s);
    for (uint32_t i = 0; i < s->workers && !err; i++)
        err = init_worker(s, &s->worker[i]);
    for (uint32_t i = 0; i < s->opt.nodes && !err; i++)
        err = init_node(s, &s->node[i]);
    if (!err)
        err = shard_early_init(s);
    if (err)
        return err;
    s->values = mem_alloc((size_t)RULE_ROW_BATCH * (s->value_bytes_max + 8));
    return s->values ? ERR_OK : ERR_NOMEM;
}

enum err shard_new(const struct shard_options *opt, struct shard **out)
{
    struct shard *s;
    enum err err;

    assert(opt->consistency && opt->table && opt->rows);
    if (opt->nodes < 1 || opt->nodes > SHARD_NODES_MAX || opt->workers < 1 ||
        opt->tables < 1 || opt->node >= opt->nodes ||
        opt->control >= opt->nodes || opt->workers > UINT32_MAX / opt->nodes)
        return ERR_INVAL;
    s = mem_calloc(1, sizeof(*s));
    if (!s)
        return ERR_NOMEM;
    s->opt = *opt;
    s->workers = opt->nodes * opt->workers;
    s->notifies = opt->consistency->barrier || opt->consistency->pushes;
    err = init_parts(s);
    if (err)
        shard_free(s);
    else
        *out = s;
    return err;
}

size_t shard_frame_bytes(const struct shard *s)
{
    return FRAME_FIXED_BYTES_MAX +
           frame_record_bytes(FRAME_VERSIONS, FRAME_NOTHING, 0) +
           s->value_bytes_max;
}

struct shard_stats shard_stats(const struct shard *s)
{
    struct shard_stats stats = s->stats;

    shard_versions_count(s, &stats);
    return stats;
}

bool shard_is_past(const struct shard *s, uint32_t node, int64_t clock)
{
    assert(node < s->opt.nodes);
    for (uint32_t i = 0; i < s->opt.workers; i++) {
        const struct shard_worker *w = &s->worker[node * s->opt.workers + i];

        if (!w->available || w->all > clock)
            return true;
    }
    return false;
}

/* Worker status as this shard knows it, for @table: @out[nodes * workers]. */
static void fill_status(const struct shard *s, uint32_t table,
                        struct worker_status out[])
{
    for (uint32_t i = 0; i < s->workers; i++) {
        out[i].clock = shard_worker_clock(&s->worker[i], table);
        out[i].available = s->worker[i].available;
        out[i].task_s = s->worker[i].task_s;
    }
    consistency_rank(out, s->workers);
}

/* ---- answers ------------------------------------------------------------- */

/* Whether @worker may read @table now, and what a copy taken now holds. One
 * that has drained does not care any more. */
static bool may_read(struct shard *s, uint32_t table, uint32_t worker,
                     int64_t *holds)
{
    struct consistency_view v = {.worker = s->status,
                                 .workers = s->workers,
                                 .self = worker,
                                 .staleness = s->staleness,
                                 .rule = s->rule};

    fill_status(s, table, s->status);
    *holds = s->opt.consistency->holds(&v);
    return !s->worker[worker].available || s->opt.consistency->may_read(&v);
}

/* The first read of @n that may be answered now. */
static bool find_answer(struct shard *s, const struct shard_node *n,
                        uint32_t *index, int64_t *holds)
{
    uint32_t table = UINT32_MAX, worker = UINT32_MAX;

    for (uint32_t i = 0; i < n->reads; i++) {
        const struct shard_read *r = &n->read[i];

        if (r->table == table && r->worker == worker)
            continue; /* the same question as the one before */
        table = r->table;
        worker = r->worker;
        if (may_read(s, table, worker, holds)) {
            *index = i;
            return true;
        }
    }
    return false;
}

unsigned shard_row_flags(const struct shard_table *t)
{
    return frame_flags_of(t->t->rows) | (t->revision ? FRAME_VERSIONS : 0);
}

void shard_begin_rows(const struct shard *s, struct shard_node *n,
                      uint32_t table, int64_t holds, uint32_t worker,
                      struct frame_writer *w, unsigned char *bytes, size_t room)
{
    const struct table *t = s->table[table].t;
    struct frame f = {.kind = FRAME_ROWS,
                      .values = frame_values_of(t->type, n->half),
                      .flags = shard_row_flags(&s->table[table]),
                      .slice = s->slice,
                      .table = table,
                      .worker = worker,
                      .clock = holds,
                      .width = t->width};

    frame_begin(w, &f, bytes, room);
    n->row_frames++;
}

/* Reads a row that fits straight into the frame, unless it is to be shortened.
 */
static void add_values(struct shard *s, uint32_t table, uint64_t row,
                       uint32_t version, struct frame_writer *w)
{
    bool half = w->values == FRAME_F16;
    void *place = half ? s->values : frame_add_place(w, row, version);

    s->opt.rows->read(s->opt.rows_self, table, row, place);
    if (!half)
        return;
    if (w->flags & FRAME_VERSIONS)
        frame_add_version(w, row, version, s->values);
    else
        frame_add(w, row, s->values);
}

/* Adds the present values of a row. What @n then has is all there is. */
bool shard_add_row(struct shard *s, struct shard_node *n, uint32_t table,
                   uint64_t row, struct frame_writer *w)
{
    struct shard_table *t = &s->table[table];
    uint32_t version = 0;

    if (!frame_fits(w))
        return false;
    if (t->revision)
        version = revision_give(t->revision, (uint32_t)(n - s->node),
                                row - t->first, n->row_frames);
    add_values(s, table, row, version, w);
    if (s->opt.consistency->pushes && t->shared) {
        rowset_add(&n->has[table], row - t->first);
        rowset_remove(&n->due[table], row - t->first);
        shard_early_given(s, n, table, row - t->first);
    }
    return true;
}

/* The read at @first and those of the same worker and table behind it. */
static size_t answer(struct shard *s, struct shard_node *n, uint32_t first,
                     int64_t holds, unsigned char *bytes, size_t room)
{
    struct shard_read like = n->read[first];
    struct frame_writer w;
    uint32_t kept = first;
    bool full = false;

    shard_begin_rows(s, n, like.table, holds, like.worker, &w, bytes, room);
    for (uint32_t i = first; i < n->reads; i++) {
        struct shard_read r = n->read[i];
        bool same = r.table == like.table && r.worker == like.worker;

        if (same && !full)
            full = !shard_add_row(s, n, r.table, r.row, &w);
        if (!same || full)
            n->read[kept++] = r;
    }
    assert(w.count > 0);
    s->stats.waiting -= n->reads - kept;
    n->reads = kept;
    return frame_end(&w);
}

/* ---- pushes and clocks --------------------------------------------------- */

/* Changed rows of the first table that has any; below the table's clock they
 * hold everything. */
static size_t push(struct shard *s, struct shard_node *n, uint32_t table,
                   unsigned char *bytes, size_t room)
{
    struct shard_table *t = &s->table[table];
    struct frame_writer w;
    uint64_t row;

    shard_begin_rows(s, n, table, t->clock, FRAME_NO_WORKER, &w, bytes, room);
    while ((row = rowset_first(&n->due[table])) < t->count)
        if (!shard_add_row(s, n, table, t->first + row, &w))
            break;
    assert(w.count > 0);
    s->stats.pushes += w.count;
    return frame_end(&w);
}

/* A table's clock waits until the rows that it speaks of have left. */
static size_t send_clocks(struct shard *s, struct shard_node *n,
                          unsigned char *bytes, size_t room)
{
    struct frame f = {.kind = FRAME_CLOCKS,
                      .values = FRAME_I64,
                      .slice = s->slice,
                      .width = 1};
    struct frame_writer w;

    n->any_clock_due = false;
    frame_begin(&w, &f, bytes, room);
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        if (!n->clock_due[t])
            continue;
        n->clock_due[t] = !frame_add(&w, t, &s->table[t].clock);
        n->any_clock_due |= n->clock_due[t];
    }
    return frame_end(&w);
}

/* A table with rows to push to @n, or tables. */
static uint32_t table_with_due(const struct shard *s, struct shard_node *n)
{
    uint32_t t = 0;

    while (t < s->opt.tables && (!s->table[t].shared ||
                                 rowset_first(&n->due[t]) == s->table[t].count))
        t++;
    return t;
}

/* ---- what to send next --------------------------------------------------- */

static size_t send_done(struct shard *s, unsigned char *bytes, size_t room)
{
    struct frame f = {.kind = FRAME_DONE,
                      .slice = s->slice,
                      .op = s->done[0].op,
                      .code = s->done[0].code};
    struct frame_writer w;

    s->dones--;
    memmove(s->done, s->done + 1, s->dones * sizeof(*s->done));
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}

static size_t send_drained(struct shard *s, unsigned char *bytes, size_t room)
{
    struct frame f = {.kind = FRAME_DRAINED, .slice = s->slice};
    struct frame_writer w;

    s->drained_due = false;
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}

static size_t send_applied(const struct shard *s, struct shard_node *n,
                           unsigned char *bytes, size_t room)
{
    struct frame f = {
        .kind = FRAME_APPLIED, .slice = s->slice, .through = n->updates};
    struct frame_writer w;

    n->applied_due = false;
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}

size_t shard_next(struct shard *s, uint32_t node, unsigned char *bytes,
                  size_t room)
{
    struct shard_node *n = &s->node[node];
    uint32_t index, table;
    int64_t holds;

    assert(node < s->opt.nodes && room >= shard_frame_bytes(s));
    if (node == s->opt.control && s->dones)
        return send_done(s, bytes, room);
    if (n->applied_due) /* before any row that holds it */
        return send_applied(s, n, bytes, room);
    if (n->taken_due)
        return shard_sums_tell(s, n, bytes, room);
    if (find_answer(s, n, &index, &holds))
        return answer(s, n, index, holds, bytes, room);
    table = table_with_due(s, n);
    if (table < s->opt.tables)
        return push(s, n, table, bytes, room);
    if (n->any_clock_due)
        return send_clocks(s, n, bytes, room);
    if (node == s->opt.control && s->drained_due)
        return send_drained(s, bytes, room);
    return 0;
}

bool shard_has_next(struct shard *s, uint32_t node)
{
    struct shard_node *n = &s->node[node];
    bool control = node == s->opt.control;
    uint32_t index;
    int64_t holds;

    assert(node < s->opt.nodes);
    return (control && (s->dones || s->drained_due)) || n->any_clock_due ||
           n->taken_due || n->applied_due ||
           table_with_due(s, n) < s->opt.tables ||
           find_answer(s, n, &index, &holds);
}
