#include "ps/core.h"

#include <string.h>

/* Rows on their way to the rule. */
struct pending {
    void *row[RULE_ROW_BATCH];
    const void *sum[RULE_ROW_BATCH];
    struct rule_batch batch;
};

static void pending_init(struct pending *p, const struct mlt_ps *ps,
                         const struct table *t)
{
    p->batch = (struct rule_batch){0,       p->row,   p->sum,    t->width,
                                   t->type, t->slots, ps->params};
}

static void pending_flush(struct pending *p, const struct table *t)
{
    if (p->batch.n == 0)
        return;
    t->rule->apply(&p->batch);
    p->batch.n = 0;
}

void apply_own_part(struct mlt_worker *w, mlt_table table)
{
    struct mlt_ps *ps = w->ps;
    struct view *v = &w->view[table];
    const struct update *buffer[CORE_WORKERS_MAX];
    struct update_walk walk;
    struct pending p;
    uint64_t row;

    for (unsigned i = 0; i < ps->workers; i++)
        buffer[i] = &ps->worker[i].view[table].update;
    pending_init(&p, ps, v->table);
    update_walk_init(&walk, v->first, v->first + v->count);
    while (update_walk_next(&walk, buffer, ps->workers, &row)) {
        p.row[p.batch.n] = view_write(w, v, row, &w->counters);
        p.sum[p.batch.n] = update_sum(v->table->type, v->table->width, buffer,
                                      ps->workers, row);
        if (++p.batch.n == RULE_ROW_BATCH)
            pending_flush(&p, v->table);
    }
    pending_flush(&p, v->table);
}

static struct stripe *stripe_of(struct mlt_ps *ps, mlt_table table,
                                uint64_t row)
{
    return &ps->stripe[(row + 37 * (uint64_t)table) % CORE_STRIPES].lock;
}

void apply_everywhere(struct mlt_worker *w, mlt_table table)
{
    struct mlt_ps *ps = w->ps;
    const struct update *own = &w->view[table].update;
    const struct table *t = w->view[table].table;
    struct pending p;

    pending_init(&p, ps, t);
    for (unsigned i = 0; i < ps->workers; i++) {
        struct mlt_worker *shard =
            &ps->worker[(w->index + i) % ps->workers]; /* own shard first */
        struct view *v = &shard->view[table];
        struct update_walk walk;
        uint64_t row;

        update_walk_init(&walk, v->first, v->first + v->count);
        while (update_walk_next(&walk, &own, 1, &row)) {
            struct stripe *stripe = stripe_of(ps, table, row);

            p.sum[0] = update_row(own, row);
            p.batch.n = 1;
            stripe_lock(stripe);
            p.row[0] = view_write(shard, v, row, &w->counters);
            pending_flush(&p, t);
            stripe_unlock(stripe);
        }
    }
}

void apply_read(struct mlt_worker *w, const struct view *v, uint64_t row,
                void *out)
{
    struct stripe *stripe = stripe_of(w->ps, v->index, row);

    stripe_lock(stripe);
    memcpy(out, view_row(v, row), v->value_bytes);
    stripe_unlock(stripe);
}
