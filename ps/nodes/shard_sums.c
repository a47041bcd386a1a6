/* Sums under barriers: kept as they come, added up and applied when a table's
 * clock moves; those of streams as soon as all have passed their rows. */
#include "ps/nodes/shard_internal.h"
#include "ps/rows/sum_tree.h"

#include <assert.h>

/* ---- frames -------------------------------------------------------------- */

bool shard_sums_come(const struct shard *s, uint32_t worker)
{
    uint32_t first = worker / s->opt.workers * s->opt.workers;
    uint32_t end = first + s->opt.workers;

    if (!s->opt.consistency->barrier ||
        (s->opt.own && first == s->opt.node * s->opt.workers))
        return false;
    while (first < worker)
        first += sum_tree_block(first, end);
    return first == worker;
}

/* Some worker of the block is still to end the clock. */
const char *shard_sums_refused(const struct shard *s, const struct frame *f)
{
    uint32_t end;

    if (f->slice != s->slice || !s->running)
        return "of a slice that does not run";
    if (f->worker >= s->workers || f->worker / s->opt.workers != f->from)
        return "of another node's worker";
    if (!s->worker[f->worker].sum)
        return "of a worker that sends no sums";
    if (!(f->table < s->opt.tables && s->table[f->table].shared))
        return "of no shared table";
    end = f->from * s->opt.workers + s->opt.workers;
    end = f->worker + sum_tree_block(f->worker, end);
    for (uint32_t i = f->worker; i < end; i++) {
        const struct shard_worker *w = &s->worker[i];

        if (w->available &&
            !(s->table[f->table].own_clock && w->extra[f->table] > 0) &&
            f->clock == shard_worker_clock(w, f->table))
            return NULL;
    }
    return "of a clock that its workers have ended";
}

bool shard_sums_in_order(const struct shard *s, const struct frame *f)
{
    const struct shard_table *t = &s->table[f->table];
    uint64_t passed = s->worker[f->worker].stream[f->table].passed;

    if (!t->stream_rows)
        return true;
    for (uint32_t i = 0; i < f->count; i++) {
        if (frame_row(f, i) - t->first < passed)
            return false;
        passed = frame_row(f, i) - t->first + 1;
    }
    return f->through >= t->first + passed && f->through <= t->first + t->count;
}

static void keep_stream(struct shard *s, const struct frame *f)
{
    uint64_t first = s->table[f->table].first;
    struct sum_stream *stream = &s->worker[f->worker].stream[f->table];

    for (uint32_t i = 0; i < f->count; i++)
        frame_row_values(f, i, sum_stream_add(stream, frame_row(f, i) - first));
    stream->passed = f->through - first;
    s->stats.kept += f->count;
    shard_sums_advance(s, f->table);
    if (s->stats.kept > s->stats.kept_peak)
        s->stats.kept_peak = s->stats.kept;
}

/* A row that comes twice in a clock is summed. */
void shard_sums_keep(struct shard *s, const struct frame *f)
{
    const struct shard_table *t = &s->table[f->table];
    struct update *u = &s->worker[f->worker].sum[f->table];

    if (t->stream_rows) {
        keep_stream(s, f);
        return;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        uint64_t row = frame_row(f, i) - t->first;

        if (!update_has(u, row)) {
            frame_row_values(f, i, update_take(u, row));
            continue;
        }
        rule_accumulate(table_value_type(t->t), table_width(t->t),
                        update_row(u, row), frame_row_place(f, i, s->values));
    }
}

/* ---- the end of a clock -------------------------------------------------- */

/* Sums of a table that are added up: of workers or blocks of them, in order. */
struct shard_sums {
    const struct update **buffer; /* [n] */
    uint32_t *at;                 /* [n] the (first) worker of each */
    struct sum_stream **stream;   /* [n] in the place of buffers */
    uint32_t n;
    uint64_t first; /* of the rows that they number from 0 on */
    uint64_t row;   /* in the table, the next that one of them has, or: */
    struct update_walk walk;
};
#define SHARD_NO_ROW UINT64_MAX

/* Of streams: the first that one of them has. */
static uint64_t stream_row(const struct shard_sums *k)
{
    uint64_t row = UINT64_MAX;

    for (uint32_t i = 0; i < k->n; i++)
        if (sum_stream_row(k->stream[i]) < row)
            row = sum_stream_row(k->stream[i]);
    return row;
}

static void sums_next(struct shard_sums *k)
{
    uint64_t row;

    if (k->stream)
        row = stream_row(k);
    else if (k->n == 0 || !update_walk_next(&k->walk, k->buffer, k->n, &row))
        row = UINT64_MAX;
    k->row = row == UINT64_MAX ? SHARD_NO_ROW : k->first + row;
}

static void sums_take(struct shard_sums *k, const struct update *u,
                      uint32_t worker)
{
    if (update_is_empty(u))
        return;
    k->buffer[k->n] = u;
    k->at[k->n++] = worker;
}

/* Where the @i-th has the sum of a row; NULL: it has none. What a stream has is
 * taken from it. */
static void *sum_at(const struct shard_sums *k, uint64_t row, uint32_t i)
{
    if (k->stream)
        return sum_stream_row(k->stream[i]) == row - k->first
                   ? sum_stream_take(k->stream[i])
                   : NULL;
    return update_has(k->buffer[i], row - k->first)
               ? update_row(k->buffer[i], row - k->first)
               : NULL;
}

/* Those of workers below @end, from the @i-th on; returns the next. */
static uint32_t sums_add(const struct shard_sums *k, uint64_t row, uint32_t i,
                         uint32_t end, struct sum_tree *tree)
{
    for (; i < k->n && k->at[i] < end; i++) {
        void *sum = k->row == row ? sum_at(k, row, i) : NULL;

        if (sum)
            sum_tree_add(tree, k->at[i], sum, false);
    }
    return i;
}

/* What came in frames, and what this node's workers have, of rows [first, end)
 * of this shard's part. */
static void collect_sums(struct shard *s, uint32_t table, uint64_t first,
                         uint64_t end, struct shard_sums *came,
                         struct shard_sums *own)
{
    const struct shard_table *t = &s->table[table];
    uint32_t others = s->workers - s->opt.workers;
    uint32_t self = s->opt.node * s->opt.workers;

    *came = (struct shard_sums){.buffer = s->buffer,
                                .at = s->buffer_at,
                                .stream = t->stream_rows ? s->stream : NULL,
                                .first = t->first};
    *own = (struct shard_sums){.buffer = s->buffer + others,
                               .at = s->buffer_at + others};
    for (uint32_t i = 0; i < s->workers; i++) {
        if (!s->worker[i].sum)
            continue;
        if (!t->stream_rows) {
            sums_take(came, &s->worker[i].sum[table], i);
            continue;
        }
        came->stream[came->n] = &s->worker[i].stream[table];
        came->at[came->n++] = i;
    }
    for (uint32_t i = 0; s->opt.own && i < s->opt.workers; i++)
        sums_take(own, &s->opt.own[i][table], self + i);
    update_walk_init(&came->walk, first, end);
    update_walk_init(&own->walk, t->first + first, t->first + end);
    sums_next(came);
    sums_next(own);
}

/* The next row below @end and its sum over all workers. */
static bool next_sum(const struct shard *s, uint32_t table, uint64_t end,
                     struct shard_sums *came, struct shard_sums *own,
                     uint64_t *row, const void **sum)
{
    const struct table *t = s->table[table].t;
    struct sum_tree tree;
    uint32_t i;

    *row = came->row < own->row ? came->row : own->row;
    if (*row == SHARD_NO_ROW || *row >= end)
        return false;
    sum_tree_init(&tree, table_value_type(t), table_width(t));
    i = sums_add(came, *row, 0, s->opt.node * s->opt.workers, &tree);
    sums_add(own, *row, 0, UINT32_MAX, &tree);
    sums_add(came, *row, i, UINT32_MAX, &tree);
    *sum = sum_tree_end(&tree);
    if (came->row == *row)
        sums_next(came);
    if (own->row == *row)
        sums_next(own);
    return true;
}

/* Those of rows [t->applied, end) of this shard's part. */
static void apply_until(struct shard *s, uint32_t table, uint64_t end)
{
    struct shard_table *t = &s->table[table];
    struct shard_sums came, own;
    const void *sum[RULE_ROW_BATCH];
    uint64_t row[RULE_ROW_BATCH];
    size_t n = 0;

    collect_sums(s, table, t->applied, end, &came, &own);
    while (next_sum(s, table, t->first + end, &came, &own, &row[n], &sum[n]))
        if (++n == RULE_ROW_BATCH) {
            shard_apply_batch(s, table, n, row, sum, NULL);
            n = 0;
        }
    if (n)
        shard_apply_batch(s, table, n, row, sum, NULL);
    t->applied = end;
}

/* A node is told of streams of which it should be. */
static void note_taken(struct shard *s, uint32_t table)
{
    for (uint32_t i = 0; i < s->workers; i++) {
        const struct shard_worker *w = &s->worker[i];

        if (w->sum && s->table[table].stream_rows &&
            sum_stream_owes(&w->stream[table]))
            s->node[i / s->opt.workers].taken_due = true;
    }
}

/* What the streams of a table keep. */
static uint64_t kept(const struct shard *s, uint32_t table)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->workers; i++)
        if (s->worker[i].sum)
            n += s->worker[i].stream[table].n;
    return n;
}

/* No row of the table's present clock has come any more. */
static void forget_sums(struct shard *s, uint32_t table)
{
    s->table[table].applied = 0;
    for (uint32_t i = 0; i < s->workers; i++) {
        struct shard_worker *w = &s->worker[i];

        if (w->sum && s->table[table].stream_rows)
            sum_stream_reset(&w->stream[table]);
        else if (w->sum)
            update_clear(&w->sum[table]);
    }
}

void shard_sums_apply(struct shard *s, uint32_t table)
{
    uint64_t before = kept(s, table);

    if (s->table[table].count == 0)
        return;
    apply_until(s, table, s->table[table].count);
    forget_sums(s, table);
    s->stats.kept -= before;
    note_taken(s, table);
}

/* ---- streams ------------------------------------------------------------- */

static bool has_told(const struct shard *s, uint32_t worker, uint32_t table)
{
    const struct shard_worker *w = &s->worker[worker];

    return !w->available ||
           shard_worker_clock(w, table) > s->table[table].clock;
}

/* Rows that workers [first, end) have passed in the present clock: a stream by
 * what it says, workers without one when they have ended the clock. */
static uint64_t passed_by(const struct shard *s, uint32_t table, uint32_t first,
                          uint32_t end)
{
    while (first < end && has_told(s, first, table))
        first++;
    return first == end ? s->table[table].count : 0;
}

/* Rows that all have passed. */
static uint64_t frontier(const struct shard *s, uint32_t table)
{
    uint32_t workers = s->opt.workers, self = s->opt.node * workers, end;
    uint64_t least = s->table[table].count, passed;

    if (s->opt.own)
        least = passed_by(s, table, self, self + workers);
    for (uint32_t i = 0; i < s->workers && least; i++) {
        if (!s->worker[i].sum)
            continue;
        end = (i / workers + 1) * workers;
        passed = passed_by(s, table, i, i + sum_tree_block(i, end));
        if (passed < s->worker[i].stream[table].passed)
            passed = s->worker[i].stream[table].passed;
        least = passed < least ? passed : least;
    }
    return least;
}

void shard_sums_advance(struct shard *s, uint32_t table)
{
    uint64_t end, before;

    if (!s->table[table].stream_rows)
        return;
    end = frontier(s, table);
    if (end <= s->table[table].applied)
        return;
    before = kept(s, table);
    apply_until(s, table, end);
    s->stats.kept -= before - kept(s, table);
    note_taken(s, table);
}

void shard_sums_lift(struct shard *s)
{
    if (!s->opt.consistency->barrier || !s->streams || s->unlimited)
        return;
    s->unlimited = true;
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        s->node[i].taken_due = s->node[i].unlimited_due = true;
}

void shard_sums_begin(struct shard *s)
{
    s->unlimited = false;
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        s->node[i].unlimited_due = s->node[i].taken_due = false;
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        if (!s->table[t].stream_rows)
            continue;
        forget_sums(s, t);
        note_taken(s, t);
    }
    s->stats.kept = 0;
}

/* The first stream of a node of which it is to be told; NULL: of none. */
static struct sum_stream *owed(const struct shard *s, uint32_t node,
                               struct frame *f)
{
    uint32_t end = (node + 1) * s->opt.workers;

    for (uint32_t i = node * s->opt.workers; i < end; i++)
        for (uint32_t t = 0; s->worker[i].sum && t < s->opt.tables; t++)
            if (s->table[t].stream_rows &&
                sum_stream_owes(&s->worker[i].stream[t])) {
                f->worker = i;
                f->table = t;
                return &s->worker[i].stream[t];
            }
    return NULL;
}

size_t shard_sums_tell(struct shard *s, struct shard_node *n,
                       unsigned char *bytes, size_t room)
{
    uint32_t node = (uint32_t)(n - s->node);
    struct frame f = {.kind = FRAME_TAKEN,
                      .slice = s->slice,
                      .table = FRAME_ALL_TABLES,
                      .worker = FRAME_NO_WORKER};
    struct sum_stream *stream = n->unlimited_due ? NULL : owed(s, node, &f);
    struct frame_writer w;

    assert(stream || n->unlimited_due);
    if (stream)
        f.through = sum_stream_tell(stream);
    n->unlimited_due = false;
    n->taken_due = owed(s, node, &(struct frame){0}) != NULL;
    frame_begin(&w, &f, bytes, room);
    return frame_end(&w);
}
