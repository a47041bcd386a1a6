#include "ps/node/node_rows.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Bytes that a number takes in a message, with its comma, at least. */
enum { READ_BYTES = sizeof("0.0,") - 1, ADDED_BYTES = sizeof("0,") - 1 };

/* Rows that no message can hold take no memory, whatever is asked for. */
static enum err check_size(const struct msg_rows *m, const struct ps_rows *r,
                           struct fault *f)
{
    uint64_t most = PROTO_BYTES_MAX / (m->increment ? ADDED_BYTES : READ_BYTES);

    if (r->count <= most / r->values)
        return ERR_OK;
    return fault_set(f, ERR_LIMIT,
                     "%llu rows of %u values: a message holds at most %llu "
                     "values; ask for parts of them",
                     (unsigned long long)r->count, r->values,
                     (unsigned long long)most);
}

enum err node_rows_find(const struct mlt_ps *ps, const struct msg_rows *m,
                        struct ps_rows *out, struct fault *f)
{
    struct ps_table_info info;
    mlt_table t;

    assert(out);
    if (ps_table_find(ps, m->table, &t) != ERR_OK)
        return fault_set(f, ERR_NOENT, "there is no table %s", m->table);
    info = ps_table_info(ps, t);
    if (info.access == MLT_LOCAL)
        return fault_set(f, ERR_UNSUPPORTED,
                         "table %s is local: each worker has its own rows",
                         m->table);
    if (m->first >= info.rows || m->count > info.rows - m->first)
        return fault_set(f, ERR_INVAL, "table %s has %llu rows", m->table,
                         (unsigned long long)info.rows);
    if (m->from >= info.width || m->values > info.width - m->from)
        return fault_set(f, ERR_INVAL, "a row of %s has %u values", m->table,
                         info.width);
    *out = (struct ps_rows){
        .branch = m->branch,
        .table = t,
        .first = m->first,
        .count = m->count,
        .from = m->from,
        .values = m->values ? m->values : info.width - m->from,
    };
    return check_size(m, out, f);
}

double *node_rows_alloc(const struct ps_rows *r)
{
    assert(r->values > 0);
    return mem_calloc((size_t)r->count * r->values, sizeof(double));
}

/* ---- answers ------------------------------------------------------------- */

static json_t *row_json(const double *value, uint32_t n)
{
    json_t *row = json_array();

    for (uint32_t k = 0; row && k < n; k++)
        if (json_array_append_new(row, json_of_number(value[k])) != 0) {
            json_decref(row);
            return NULL;
        }
    return row;
}

static bool is_here(const struct mlt_ps *ps, const struct ps_rows *r,
                    uint64_t row)
{
    return ps_nodes(ps) == 1 || ps_is_here(ps, r->table, row);
}

json_t *node_rows_json(const struct mlt_ps *ps, const struct ps_rows *r,
                       const double values[])
{
    json_t *out = json_array();

    for (uint64_t i = 0; out && i < r->count; i++) {
        bool here = is_here(ps, r, r->first + i);

        if (json_array_append_new(
                out, here ? row_json(values + i * r->values, r->values)
                          : json_null()) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* ---- between slices ------------------------------------------------------ */

/* All of them, or of several nodes those that lie in this one. */
static enum err read_here(const struct mlt_ps *ps, const struct ps_rows *r,
                          double values[])
{
    struct ps_rows one = *r;
    enum err err = ERR_OK;

    if (ps_nodes(ps) == 1)
        return ps_read_part(ps, r, values);
    one.count = 1;
    for (uint64_t i = 0; i < r->count && !err; i++) {
        one.first = r->first + i;
        if (ps_is_here(ps, r->table, one.first))
            err = ps_read_part(ps, &one, values + i * r->values);
    }
    return err;
}

static enum err add_here(struct mlt_ps *ps, const struct msg_rows *m,
                         const struct ps_rows *r, const double values[])
{
    enum err err = ERR_OK;

    if (ps_nodes(ps) == 1)
        return ps_inc_rows(ps, m->branch, m->table, m->first, m->count, values);
    for (uint32_t i = 0; i < m->count && !err; i++)
        if (ps_is_here(ps, r->table, m->first + i))
            err = ps_inc_rows(ps, m->branch, m->table, m->first + i, 1,
                              values + (size_t)i * r->values);
    return err;
}

static enum err take_increments(const struct msg_rows *m,
                                const struct ps_rows *r, double values[],
                                struct fault *f)
{
    assert(m->increment);
    for (uint32_t i = 0; i < m->count; i++) {
        const json_t *row = json_array_get(m->increment, i);

        if (json_array_size(row) != r->values)
            return fault_set(f, ERR_INVAL,
                             "increment: a row of %s has %u values", m->table,
                             r->values);
        for (uint32_t k = 0; k < r->values; k++)
            values[(size_t)i * r->values + k] =
                json_number_value(json_array_get(row, k));
    }
    return ERR_OK;
}

enum err node_rows_carry_out(struct mlt_ps *ps, const struct msg_rows *m,
                             json_t **data, struct fault *f)
{
    struct ps_rows r = {0};
    double *values = NULL;
    enum err err = node_rows_find(ps, m, &r, f);

    assert(data);
    if (err)
        return err;
    values = node_rows_alloc(&r);
    if (!values)
        return fault_set(f, ERR_NOMEM, "rows: %s", err_text(ERR_NOMEM));
    if (m->increment) {
        err = take_increments(m, &r, values, f);
        if (err)
            goto done;
        err = add_here(ps, m, &r, values); /* after which nothing may fail */
    } else {
        err = read_here(ps, &r, values);
        if (!err && !(*data = node_rows_json(ps, &r, values)))
            err = ERR_NOMEM;
    }
    if (err)
        fault_set(f, err, "rows of %s: %s", m->table, err_text(err));
done:
    mem_free(values);
    return err;
}
