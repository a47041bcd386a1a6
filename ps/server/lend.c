#include "ps/server/lend.h"

#include "ps/server/core.h"
#include "ps/server/errors.h"

#include <assert.h>

static struct mlt_worker *owner_of(struct mlt_ps *ps, mlt_table table,
                                   uint64_t row)
{
    const struct table *t = shape_table(&ps->shape, table);
    unsigned workers = shape_own_workers(&ps->shape);

    if (row >= table_rows(t))
        ps_misuse("table %s: row %llu is out of range (%llu rows)",
                  table_name(t), (unsigned long long)row,
                  (unsigned long long)table_rows(t));
    return ps_worker(ps, table_owner(t, workers, row));
}

/* Not through the owner's counters: those are its own thread's. */
void lend_rows(struct mlt_worker *w, mlt_table table, size_t n,
               const uint64_t rows[], void *out[])
{
    struct mlt_worker *owner = w;
    struct worker_view *v = &w->view[table];

    assert(table_is_exclusive(v->table) && !w->ps->peers);
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

void lend_guard(struct mlt_worker *w, const struct lend_guard *guard)
{
    w->guard = guard;
}
