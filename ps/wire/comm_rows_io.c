/* This node's part of the rows, as its shard works on them: in the workers'
 * stores, on the branch that is active. Under the communication's lock. */
#include "ps/wire/comm_internal_io.h"

#include <assert.h>
#include <string.h>

static enum err not_here(void *self, branch_id child, branch_id parent,
                         enum branch_type type)
{
    (void)self, (void)child, (void)parent, (void)type;
    return ERR_UNSUPPORTED; /* forks go past the shard: ps_fork */
}

static enum err not_dropped(void *self, branch_id id)
{
    (void)self, (void)id;
    return ERR_UNSUPPORTED;
}

/* The control thread has made it active. */
static enum err activate(void *self, branch_id id, bool *writable)
{
    const struct comm *c = self;

    assert(writable);
    *writable = c->run.type != BRANCH_KEPT;
    return id == c->run.branch ? ERR_OK : ERR_NOENT;
}

static struct mlt_worker *owner_of(const struct ps_shape *shape, uint32_t table,
                                   uint64_t row)
{
    unsigned owner = table_owner(&shape->table[table], shape->all_workers, row);

    return &shape->worker[owner - shape->node * shape->workers];
}

static void apply(void *self, uint32_t table, size_t n, const uint64_t row[],
                  const void *const sum[], const void *const seen[],
                  const struct rule_params *params)
{
    struct comm *c = self;
    const struct table *t = &c->shape->table[table];
    void *place[RULE_ROW_BATCH];
    struct rule_batch batch = {n,       place,    sum,     t->width,
                               t->type, t->slots, *params, seen};

    assert(n <= RULE_ROW_BATCH);
    for (size_t i = 0; i < n; i++) {
        struct mlt_worker *w = owner_of(c->shape, table, row[i]);

        place[i] = view_write(w, &w->view[table], row[i], &c->counters);
    }
    rule_apply(t->rule, &batch, t->undecayed);
}

static void read_row(void *self, uint32_t table, uint64_t row, void *out)
{
    const struct comm *c = self;
    const struct worker_view *v = &c->shape->worker[0].view[table];

    memcpy(out, view_row(v, row), v->value_bytes);
}

static const float *gradients(void *self, uint32_t table, uint64_t row)
{
    const struct comm *c = self;
    const struct worker_view *v = &c->shape->worker[0].view[table];

    return rule_gradient_sum(view_row(v, row), v->table->width,
                             v->table->slots);
}

const struct shard_rows comm_rows = {
    not_here, not_dropped, activate, apply, read_row, gradients,
};
