#include "ps/server/apply.h"

#include "ps/server/core.h"
#include "ps/server/versions.h"

#include <assert.h>
#include <string.h>

/* Rows on their way to the rule. */
struct pending {
    void *row[RULE_ROW_BATCH];
    const void *sum[RULE_ROW_BATCH];
    const void *seen[1]; /* of what is applied row by row */
    struct rule_batch batch;
};

/* Of the clock that @w ends: all whose sums it applies are in that one. */
static void pending_init(struct pending *p, const struct mlt_worker *w,
                         const struct table *t)
{
    p->batch = (struct rule_batch){0,       p->row,   p->sum,       t->width,
                                   t->type, t->slots, ps_params(w), NULL};
}

static void pending_flush(struct pending *p, const struct table *t)
{
    if (p->batch.n == 0)
        return;
    rule_apply(t->rule, &p->batch, t->undecayed);
    p->batch.n = 0;
}

/* Whether the touched rows of the shard may be applied by runs: those side by
 * side, and their sums, are one long row and its sum. */
static bool rows_join(const struct worker_view *v, unsigned workers)
{
    return workers == 1 && v->table->rule->joins && v->update.dense &&
           !v->history && v->stride == v->value_bytes;
}

/* The same bits as row by row. */
static void apply_own_runs(struct mlt_worker *w, struct worker_view *v)
{
    const struct update *own = &v->update;
    struct pending p;
    struct update_walk walk;
    uint64_t row;

    pending_init(&p, w, v->table);
    update_walk_init(&walk, v->first, v->first + v->count);
    while (update_walk_next(&walk, &own, 1, &row)) {
        uint64_t in_chunk = (row - v->first) & v->row_mask;
        uint64_t chunk_end = row - in_chunk + v->row_mask + 1;
        uint64_t n = update_walk_run(&walk, row, chunk_end);

        p.row[0] = view_write(w, v, row, &w->counters);
        p.sum[0] = update_row(own, row);
        p.batch.width = v->table->width * (uint32_t)n;
        p.batch.n = 1;
        pending_flush(&p, v->table);
    }
}

void apply_own_part(struct mlt_worker *w, mlt_table table)
{
    struct mlt_ps *ps = w->ps;
    struct worker_view *v = &w->view[table];
    const struct update *buffer[WORKERS_MAX];
    const unsigned workers = ps->shape.workers;
    struct update_walk walk;
    struct pending p;
    uint64_t row;

    assert(v->updates);
    if (rows_join(v, workers)) {
        apply_own_runs(w, v);
        return;
    }
    for (unsigned i = 0; i < workers; i++)
        buffer[i] = &ps->shape.worker[i].view[table].update;
    pending_init(&p, w, v->table);
    update_walk_init(&walk, v->first, v->first + v->count);
    while (update_walk_next(&walk, buffer, workers, &row)) {
        p.row[p.batch.n] = view_write(w, v, row, &w->counters);
        if (v->history)
            versions_before(v->history, row, p.row[p.batch.n]);
        p.sum[p.batch.n] = workers == 1
                               ? update_row(buffer[0], row)
                               : update_sum(v->table->type, v->table->width,
                                            buffer, workers, w->index, row);
        if (++p.batch.n == RULE_ROW_BATCH)
            pending_flush(&p, v->table);
    }
    pending_flush(&p, v->table);
    if (v->history)
        versions_changed(v->history);
}

struct stripe *apply_stripe(struct mlt_ps *ps, mlt_table table, uint64_t row)
{
    return &ps->stripe[(row + 37 * (uint64_t)table) % CORE_STRIPES].lock;
}

/* The gradient sum as of the copy that @w computed on in this clock; NULL where
 * it read no such copy. */
static const void *seen_by(const struct worker_view *v, uint64_t row)
{
    uint64_t slot;

    if (!v->seen || v->asked < 0 || !slots_has(&v->slots, row))
        return NULL;
    slot = slots_of(&v->slots, row);
    return v->held[slot] >= v->needs ? v->seen + slot * v->value_bytes : NULL;
}

void apply_everywhere(struct mlt_worker *w, mlt_table table)
{
    struct mlt_ps *ps = w->ps;
    const struct worker_view *mine = &w->view[table];
    const struct update *own = &mine->update;
    const struct table *t = mine->table;
    struct pending p;

    assert(mine->updates);
    pending_init(&p, w, t);
    p.batch.seen = p.seen;
    for (unsigned i = 0; i < ps->shape.workers; i++) {
        struct mlt_worker *shard =
            &ps->shape.worker[(w->index + i) %
                              ps->shape.workers]; /* own shard first */
        struct worker_view *v = &shard->view[table];
        struct update_walk walk;
        uint64_t row;

        update_walk_init(&walk, v->first, v->first + v->count);
        while (update_walk_next(&walk, &own, 1, &row)) {
            struct stripe *stripe = apply_stripe(ps, table, row);

            p.sum[0] = update_row(own, row);
            p.seen[0] = seen_by(mine, row);
            p.batch.n = 1;
            stripe_lock(stripe);
            p.row[0] = view_write(shard, v, row, &w->counters);
            if (v->history)
                versions_before(v->history, row, p.row[0]);
            pending_flush(&p, t);
            stripe_unlock(stripe);
        }
    }
    if (mine->history)
        versions_changed(mine->history);
}

void apply_read(struct mlt_worker *w, struct worker_view *v, uint64_t row,
                uint64_t slot)
{
    struct stripe *stripe = apply_stripe(w->ps, v->index, row);
    const struct table *t = v->table;
    uint64_t at = slot * v->value_bytes;
    const unsigned char *from;

    stripe_lock(stripe);
    from = view_row(v, row);
    memcpy(v->copy + at, from, v->value_bytes);
    if (v->seen)
        memcpy(v->seen + at, rule_gradient_sum(from, t->width, t->slots),
               v->value_bytes);
    stripe_unlock(stripe);
}
