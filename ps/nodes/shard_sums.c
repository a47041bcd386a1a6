/* Sums under barriers: kept as they come, added up and applied when a table's
 * clock moves. */
#include "ps/nodes/shard_internal.h"
#include "ps/rows/sum_tree.h"

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

/* A row that comes twice in a clock is summed. */
void shard_sums_keep(struct shard *s, const struct frame *f)
{
    const struct shard_table *t = &s->table[f->table];
    struct update *u = &s->worker[f->worker].sum[f->table];

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
    uint32_t n;
    uint64_t first; /* of the rows that they number from 0 on */
    uint64_t row;   /* in the table, the next that one of them has, or: */
    struct update_walk walk;
};
#define SHARD_NO_ROW UINT64_MAX

static void sums_next(struct shard_sums *k)
{
    uint64_t row;

    k->row = k->n && update_walk_next(&k->walk, k->buffer, k->n, &row)
                 ? k->first + row
                 : SHARD_NO_ROW;
}

static void sums_take(struct shard_sums *k, const struct update *u,
                      uint32_t worker)
{
    if (update_is_empty(u))
        return;
    k->buffer[k->n] = u;
    k->at[k->n++] = worker;
}

static void sums_begin(struct shard_sums *k, uint64_t first, uint64_t count)
{
    update_walk_init(&k->walk, first, first + count);
    sums_next(k);
}

/* Those of workers below @end, from the @i-th on; returns the next. */
static uint32_t sums_add(const struct shard_sums *k, uint64_t row, uint32_t i,
                         uint32_t end, struct sum_tree *tree)
{
    for (; i < k->n && k->at[i] < end; i++)
        if (k->row == row && update_has(k->buffer[i], row - k->first))
            sum_tree_add(tree, k->at[i],
                         update_row(k->buffer[i], row - k->first), false);
    return i;
}

/* What came in frames, and what this node's workers have. */
static void collect_sums(struct shard *s, uint32_t table,
                         struct shard_sums *came, struct shard_sums *own)
{
    const struct shard_table *t = &s->table[table];
    uint32_t others = s->workers - s->opt.workers;
    uint32_t self = s->opt.node * s->opt.workers;

    *came = (struct shard_sums){
        .buffer = s->buffer, .at = s->buffer_at, .first = t->first};
    *own = (struct shard_sums){.buffer = s->buffer + others,
                               .at = s->buffer_at + others};
    for (uint32_t i = 0; i < s->workers; i++)
        if (s->worker[i].sum)
            sums_take(came, &s->worker[i].sum[table], i);
    for (uint32_t i = 0; s->opt.own && i < s->opt.workers; i++)
        sums_take(own, &s->opt.own[i][table], self + i);
    sums_begin(came, 0, t->count);
    sums_begin(own, t->first, t->count);
}

/* The next row and its sum over all workers. */
static bool next_sum(const struct shard *s, uint32_t table,
                     struct shard_sums *came, struct shard_sums *own,
                     uint64_t *row, const void **sum)
{
    const struct table *t = s->table[table].t;
    struct sum_tree tree;
    uint32_t i;

    *row = came->row < own->row ? came->row : own->row;
    if (*row == SHARD_NO_ROW)
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

void shard_sums_apply(struct shard *s, uint32_t table)
{
    struct shard_sums came, own;
    const void *sum[RULE_ROW_BATCH];
    uint64_t row[RULE_ROW_BATCH];
    size_t n = 0;

    if (s->table[table].count == 0)
        return;
    collect_sums(s, table, &came, &own);
    while (next_sum(s, table, &came, &own, &row[n], &sum[n]))
        if (++n == RULE_ROW_BATCH) {
            shard_apply_batch(s, table, n, row, sum, NULL);
            n = 0;
        }
    if (n)
        shard_apply_batch(s, table, n, row, sum, NULL);
    for (uint32_t i = 0; i < s->workers; i++)
        if (s->worker[i].sum)
            update_clear(&s->worker[i].sum[table]);
}
