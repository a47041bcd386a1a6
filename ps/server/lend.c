#include "ps/server/lend.h"

#include "ps/nodes/shard.h"
#include "ps/server/core.h"
#include "ps/server/errors.h"
#include "ps/server/runtime.h"

#include <assert.h>

static struct mlt_worker *owner_of(struct mlt_ps *ps, mlt_table table,
                                   uint64_t row)
{
    const struct table *t = shape_table(&ps->shape, table);
    unsigned first = ps_node(ps) * shape_own_workers(&ps->shape);

    if (row >= table_rows(t))
        ps_misuse("table %s: row %llu is out of range (%llu rows)",
                  table_name(t), (unsigned long long)row,
                  (unsigned long long)table_rows(t));
    return ps_worker(ps,
                     table_owner(t, shape_workers(&ps->shape), row) - first);
}

/* Not through the owner's counters: those are its own thread's. */
void lend_rows(struct mlt_worker *w, mlt_table table, size_t n,
               const uint64_t rows[], void *out[])
{
    struct mlt_worker *owner = w;
    struct worker_view *v = &w->view[table];

    assert(table_is_exclusive(v->table));
    for (size_t i = 0; i < n; i++) {
        if (__builtin_expect(rows[i] - v->first >= v->count, 0)) {
            owner = owner_of(w->ps, table, rows[i]);
            v = &owner->view[table];
        }
        out[i] = view_write(owner, v, rows[i], &w->counters);
    }
}

struct lend_layout lend_layout(const struct mlt_ps *ps, mlt_table table)
{
    const struct table *t = shape_table(&ps->shape, table);

    assert(table < shape_tables(&ps->shape) && !table_is_local(t));
    return (struct lend_layout){table_chunks(t), table_row_shift(t),
                                table_row_bytes(t)};
}

bool lend_meets_at_clock(const struct mlt_ps *ps)
{
    return !ps->peers && shape_meets(&ps->shape);
}

uint32_t lend_home(const struct mlt_ps *ps, mlt_table table, uint64_t row)
{
    return shard_of(shape_table(&ps->shape, table), ps_nodes(ps),
                    shape_own_workers(&ps->shape), row);
}

void *lend_place(struct mlt_ps *ps, mlt_table table, uint64_t row, bool write)
{
    struct mlt_worker *owner = owner_of(ps, table, row);
    struct worker_view *v = view_of_worker(owner, table);
    struct ps_counters uncounted = {0};

    return write ? view_write(owner, v, row, &uncounted) : view_row(v, row);
}

int lend_begin(struct mlt_worker *w, const struct courier_pass *pass)
{
    struct peers *peers = w->ps->peers;
    struct fault f = {0};
    int err;

    assert(peers);
    err = peers->ops->carry_begin(peers, w, pass, &f);
    if (err == ERR_APP)
        runtime_pass_missed(w->ps, &f);
    return err;
}

int lend_passed(struct mlt_worker *w)
{
    struct peers *peers = w->ps->peers;

    assert(peers);
    return peers->ops->carry_passed(peers, w);
}

int lend_await(struct mlt_worker *w, uint64_t place)
{
    struct peers *peers = w->ps->peers;

    assert(peers);
    return peers->ops->carry_await(peers, w, place);
}

int lend_end(struct mlt_worker *w, uint64_t place, const double *own,
             double *all)
{
    struct peers *peers = w->ps->peers;

    assert(peers);
    return peers->ops->carry_end(peers, w, place, own, all);
}

void lend_guard(struct mlt_worker *w, const struct lend_guard *guard)
{
    w->guard = guard;
}
