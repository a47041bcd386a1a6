#include "ps/server/rows.h"

#include "base/mem.h"
#include "ps/server/apply.h"
#include "ps/server/core.h"
#include "ps/server/device.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool ps_is_here(const struct mlt_ps *ps, mlt_table table, uint64_t row)
{
    const struct table *t = &ps->shape.table[table];
    unsigned owner =
        table_owner(t, ps->shape.all_workers, table_number(t, row));

    assert(table < ps->shape.tables);
    return owner / ps->shape.workers == ps->shape.node;
}

struct place place_of(const struct mlt_ps *ps, mlt_table table, uint64_t row)
{
    const struct table *t = &ps->shape.table[table];
    const struct worker_view *v;
    struct place p;
    uint64_t local, number = table_number(t, row);

    p.shard = &ps->shape.worker[table_owner(t, ps->shape.all_workers, number) -
                                ps->shape.node * ps->shape.workers];
    v = &p.shard->view[table];
    local = number - v->first;
    assert(local < v->count);
    p.chunk = local >> t->row_shift;
    p.offset = (local & v->row_mask) * t->row_bytes;
    return p;
}

static double value_at(const struct table *t, const unsigned char *row,
                       uint32_t j)
{
    int32_t i32;
    float f32;
    double f64;

    switch (t->type) {
    case MLT_I32:
        memcpy(&i32, row + 4 * (size_t)j, sizeof(i32));
        return i32;
    case MLT_F64:
        memcpy(&f64, row + 8 * (size_t)j, sizeof(f64));
        return f64;
    default:
        memcpy(&f32, row + 4 * (size_t)j, sizeof(f32));
        return (double)f32;
    }
}

static enum err check_rows(const struct mlt_ps *ps, const struct ps_rows *r)
{
    const struct table *t = &ps->shape.table[r->table];

    if (!ps_has(ps, r->branch))
        return ERR_NOENT;
    if (t->access == MLT_LOCAL)
        return ERR_UNSUPPORTED;
    if (r->first > t->rows || r->count > t->rows - r->first ||
        r->from > t->width || r->values > t->width - r->from)
        return ERR_INVAL;
    for (uint64_t i = 0; i < r->count && ps->shape.nodes > 1; i++)
        if (!ps_is_here(ps, r->table, r->first + i))
            return ERR_UNSUPPORTED;
    return ERR_OK;
}

/* The values of @r of one row. */
static void take_values(const struct table *t, const struct ps_rows *r,
                        const unsigned char *row, double out[])
{
    for (uint32_t j = 0; j < r->values; j++)
        out[j] = value_at(t, row, r->from + j);
}

static const unsigned char *row_at(const struct place *p,
                                   const struct ps_rows *r)
{
    return store_chunk(p->shard->store, r->branch, r->table, p->chunk) +
           p->offset;
}

enum err ps_read_part(const struct mlt_ps *ps, const struct ps_rows *r,
                      double out[])
{
    enum err err = check_rows(ps, r);

    assert(r->table < ps->shape.tables);
    if (!err && device_has(ps->device, r->table))
        err = device_flush(ps, r->branch);
    for (uint64_t i = 0; i < r->count && !err; i++) {
        struct place p = place_of(ps, r->table, r->first + i);

        take_values(&ps->shape.table[r->table], r, row_at(&p, r),
                    out + i * r->values);
    }
    return err;
}

/* ---- in a run ------------------------------------------------------------ */

/* A row of another branch than the one that runs: nobody changes it, but the
 * store's trees while the lock of the shard is held. */
static const unsigned char *row_of_idle_branch(const struct place *p,
                                               const struct ps_rows *r)
{
    const unsigned char *row;

    stripe_lock(&p->shard->shard_lock);
    row = row_at(p, r);
    stripe_unlock(&p->shard->shard_lock);
    return row;
}

/* A row of the branch that runs. An exclusive one only its worker writes, a
 * shared one under barriers only its owner, at the end of its clock: that is
 * who asks. Else it is changed under its stripe; across nodes, under the
 * peers' lock. */
static void take_running(struct mlt_worker *w, const struct ps_rows *r,
                         uint64_t number, double out[])
{
    const struct worker_view *v = &w->view[r->table];
    struct peers *peers = w->ps->peers;
    bool shared = v->table->access == MLT_SHARED;

    if (shared && peers) {
        peers->ops->hold(peers);
        take_values(v->table, r, view_row(v, number), out);
        peers->ops->let_go(peers);
    } else if (shared && !w->ps->shape.consistency->barrier) {
        struct stripe *stripe = apply_stripe(w->ps, r->table, number);

        stripe_lock(stripe);
        take_values(v->table, r, view_row(v, number), out);
        stripe_unlock(stripe);
    } else {
        take_values(v->table, r, view_row(v, number), out);
    }
}

void ps_read_own_part(struct mlt_worker *w, const struct ps_rows *r,
                      double out[])
{
    const struct mlt_ps *ps = w->ps;
    const struct table *t = &ps->shape.table[r->table];

    assert(r->table < ps->shape.tables);
    assert(out);
    if (device_has(ps->device, r->table) && device_flush(ps, r->branch))
        return;
    for (uint64_t i = 0; i < r->count; i++) {
        uint64_t number = table_number(t, r->first + i);
        double *to = out + i * r->values;
        struct place p;

        if (table_owner(t, ps->shape.all_workers, number) != w->number)
            continue;
        if (r->branch == ps->active) {
            take_running(w, r, number, to);
        } else {
            p = place_of(ps, r->table, r->first + i);
            take_values(t, r, row_of_idle_branch(&p, r), to);
        }
    }
}

/* ---- increments ---------------------------------------------------------- */

/* Whole and within the type for i32; anything goes for the others. */
static bool fits(const struct table *t, double x)
{
    if (t->type != MLT_I32)
        return true;
    return x >= INT32_MIN && x <= INT32_MAX && x == trunc(x);
}

static void store_value(const struct table *t, unsigned char *row, uint32_t j,
                        double x)
{
    int32_t i32;
    float f32;

    switch (t->type) {
    case MLT_I32:
        i32 = (int32_t)x;
        memcpy(row + 4 * (size_t)j, &i32, sizeof(i32));
        break;
    case MLT_F64:
        memcpy(row + 8 * (size_t)j, &x, sizeof(x));
        break;
    default:
        f32 = (float)x;
        memcpy(row + 4 * (size_t)j, &f32, sizeof(f32));
    }
}

static void inc_row(struct mlt_ps *ps, mlt_table table, uint64_t row,
                    unsigned char *sum, const double delta[])
{
    const struct table *t = &ps->shape.table[table];
    struct place p = place_of(ps, table, row);
    struct worker_view *v = &p.shard->view[table];
    void *rows[1] = {
        view_write(p.shard, v, table_number(t, row), &p.shard->counters)};
    const void *sums[1] = {sum};
    struct rule_batch b = {1,       rows,     sums,       t->width,
                           t->type, t->slots, ps->params, NULL};

    for (uint32_t j = 0; j < t->width; j++)
        store_value(t, sum, j, delta[j]);
    rule_apply(t->rule, &b, t->undecayed);
}

/* The branch is made active for the time of the writing. */
enum err ps_inc_rows(struct mlt_ps *ps, branch_id branch, const char *table,
                     uint64_t first, uint64_t count, const double delta[])
{
    struct ps_rows r = {.branch = branch, .first = first, .count = count};
    branch_id active = ps->active;
    unsigned char *sum;
    mlt_table index;
    enum err err;

    assert(table && delta);
    if (ps_table_find(ps, table, &index))
        return ERR_NOENT;
    r.table = index;
    err = check_rows(ps, &r);
    if (err)
        return err;
    if (forks_find(ps, branch)->type == BRANCH_KEPT)
        return ERR_INVAL;
    for (uint64_t i = 0; i < count * ps->shape.table[index].width; i++)
        if (!fits(&ps->shape.table[index], delta[i]))
            return ERR_INVAL;
    sum = mem_alloc(ps->shape.table[index].value_bytes);
    if (!sum)
        return ERR_NOMEM;
    if (device_has(ps->device, index))
        err = device_forget(ps, branch);
    if (branch != active)
        ps_activate(ps, branch);
    for (uint64_t i = 0; i < count && !err; i++)
        inc_row(ps, index, first + i, sum,
                delta + i * ps->shape.table[index].width);
    if (branch != active)
        ps_activate(ps, active);
    ps->active = active;
    mem_free(sum);
    return err;
}
