/* Rows as the control thread sees them: of any branch, between runs. */
#include "ps/core.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool ps_is_here(const struct mlt_ps *ps, mlt_table table, uint64_t row)
{
    const struct table *t = &ps->table[table];
    unsigned owner = table_owner(t, ps->all_workers, table_number(t, row));

    return owner / ps->workers == ps->node;
}

struct place place_of(const struct mlt_ps *ps, mlt_table table, uint64_t row)
{
    const struct table *t = &ps->table[table];
    const struct view *v;
    struct place p;
    uint64_t local, number = table_number(t, row);

    p.shard = &ps->worker[table_owner(t, ps->all_workers, number) -
                          ps->node * ps->workers];
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

static enum err check_rows(const struct mlt_ps *ps, branch_id branch,
                           const char *name, uint64_t first, uint64_t count,
                           mlt_table *table)
{
    if (!ps_has(ps, branch) || ps_table_find(ps, name, table))
        return ERR_NOENT;
    if (ps->table[*table].access == MLT_LOCAL)
        return ERR_UNSUPPORTED;
    if (first > ps->table[*table].rows ||
        count > ps->table[*table].rows - first)
        return ERR_INVAL;
    for (uint64_t i = 0; i < count && ps->nodes > 1; i++)
        if (!ps_is_here(ps, *table, first + i))
            return ERR_UNSUPPORTED;
    return ERR_OK;
}

enum err ps_read_rows(struct mlt_ps *ps, branch_id branch, const char *table,
                      uint64_t first, uint64_t count, double out[])
{
    const struct table *t;
    mlt_table index;
    enum err err = check_rows(ps, branch, table, first, count, &index);

    if (err)
        return err;
    t = &ps->table[index];
    for (uint64_t i = 0; i < count; i++) {
        struct place p = place_of(ps, index, first + i);
        const unsigned char *row =
            store_chunk(p.shard->store, branch, index, p.chunk) + p.offset;

        for (uint32_t j = 0; j < t->width; j++)
            out[i * t->width + j] = value_at(t, row, j);
    }
    return ERR_OK;
}

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
    const struct table *t = &ps->table[table];
    struct place p = place_of(ps, table, row);
    struct view *v = &p.shard->view[table];
    void *rows[1] = {
        view_write(p.shard, v, table_number(t, row), &p.shard->counters)};
    const void *sums[1] = {sum};
    struct rule_batch b = {1,       rows,     sums,       t->width,
                           t->type, t->slots, ps->params, NULL};

    for (uint32_t j = 0; j < t->width; j++)
        store_value(t, sum, j, delta[j]);
    t->rule->apply(&b);
}

/* The branch is made active for the time of the writing. */
enum err ps_inc_rows(struct mlt_ps *ps, branch_id branch, const char *table,
                     uint64_t first, uint64_t count, const double delta[])
{
    branch_id active = ps->active;
    bool failed = ps->active_failed;
    unsigned char *sum;
    mlt_table index;
    enum err err = check_rows(ps, branch, table, first, count, &index);

    if (err)
        return err;
    if (core_branch(ps, branch)->type == BRANCH_KEPT)
        return ERR_INVAL;
    for (uint64_t i = 0; i < count * ps->table[index].width; i++)
        if (!fits(&ps->table[index], delta[i]))
            return ERR_INVAL;
    sum = mem_alloc(ps->table[index].value_bytes);
    if (!sum)
        return ERR_NOMEM;
    if (branch != active)
        ps_activate(ps, branch);
    for (uint64_t i = 0; i < count; i++)
        inc_row(ps, index, first + i, sum, delta + i * ps->table[index].width);
    if (branch != active)
        ps_activate(ps, active);
    ps->active = active;
    ps->active_failed = failed;
    mem_free(sum);
    return ERR_OK;
}
