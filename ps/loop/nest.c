#include "ps/loop/nest.h"

#include <assert.h>

static enum err take_axis(struct loop_access *a, unsigned i,
                          const struct mlt_subscript *at, struct fault *f)
{
    struct mlt_subscript *axis = &a->at[i];

    *axis = *at;
    if (axis->kind > MLT_SUBSCRIPT_DATA)
        return fault_set(f, ERR_INVAL, "table %s: subscript %u is of no kind",
                         a->table, i);
    if (axis->size == 0 && i == 0 && a->axes == 1)
        axis->size = a->rows;
    if (axis->size == 0)
        return fault_set(f, ERR_INVAL,
                         "table %s: subscript %u of %u has no size: with "
                         "several, each says how long its axis is",
                         a->table, i, a->axes);
    return ERR_OK;
}

enum err nest_access(struct loop_access *out, const struct mlt_touch *touch,
                     const char *table, uint64_t rows, uint32_t width,
                     struct fault *f)
{
    struct loop_access a = {.table = table,
                            .id = touch->table,
                            .rows = rows,
                            .width = width,
                            .reads = touch->touch & MLT_READS,
                            .updates = touch->touch & MLT_UPDATES,
                            .buffered = touch->touch & MLT_BUFFERED};
    uint64_t places = 1;

    while (a.axes < MLT_LOOP_AXES_MAX &&
           touch->at[a.axes].kind != MLT_SUBSCRIPT_NONE)
        a.axes++;
    if (a.axes == 0)
        return fault_set(f, ERR_INVAL, "table %s: no subscript", table);
    if ((touch->touch & ~7U) || !(a.reads || a.updates))
        return fault_set(f, ERR_INVAL,
                         "table %s: expected MLT_READS, MLT_UPDATES or both",
                         table);
    if (a.buffered && (a.reads || !a.updates))
        return fault_set(f, ERR_INVAL,
                         "table %s: MLT_BUFFERED goes with MLT_UPDATES alone; "
                         "declare reads as a touch of their own",
                         table);
    for (unsigned i = 0; i < a.axes; i++) {
        enum err err = take_axis(&a, i, &touch->at[i], f);

        if (err)
            return err;
        if (__builtin_mul_overflow(places, a.at[i].size, &places))
            places = 0;
    }
    if (places != rows)
        return fault_set(f, ERR_INVAL,
                         "table %s: its axes have %llu places, the table %llu "
                         "rows",
                         table, (unsigned long long)places,
                         (unsigned long long)rows);
    *out = a;
    return ERR_OK;
}

/* ---- checks -------------------------------------------------------------- */

struct index_range {
    uint32_t low, high;
    uint64_t low_at, high_at; /* iterations */
};

static enum err check_keys(const struct loop_nest *n,
                           struct index_range range[], struct fault *f)
{
    for (unsigned d = 0; d < n->dims; d++)
        range[d] = (struct index_range){UINT32_MAX, 0, 0, 0};
    for (uint64_t i = 0; i < n->iterations; i++) {
        const uint32_t *key = nest_key(n, i);

        for (unsigned d = 0; d < n->dims; d++) {
            if (key[d] >= n->extent[d])
                return fault_set(f, ERR_INVAL,
                                 "iteration %llu: index %u is %u, expected "
                                 "less than its extent %llu",
                                 (unsigned long long)i, d, key[d],
                                 (unsigned long long)n->extent[d]);
            if (key[d] < range[d].low)
                range[d].low = key[d], range[d].low_at = i;
            if (key[d] >= range[d].high)
                range[d].high = key[d], range[d].high_at = i;
        }
    }
    return ERR_OK;
}

static enum err outside(const struct loop_access *a, unsigned touch, int64_t at,
                        uint64_t iteration, struct fault *f)
{
    return fault_set(f, ERR_INVAL,
                     "touch %u, of table %s: subscript %lld in iteration %llu, "
                     "outside the table",
                     touch, a->table, (long long)at,
                     (unsigned long long)iteration);
}

static enum err check_axis(const struct loop_nest *n, unsigned touch,
                           const struct mlt_subscript *at,
                           const struct index_range range[], struct fault *f)
{
    const struct loop_access *a = &n->access[touch];
    const struct index_range *r;
    int64_t limit =
        at->size > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)at->size;

    if (at->kind == MLT_SUBSCRIPT_DATA)
        return ERR_OK;
    if (at->kind == MLT_SUBSCRIPT_FIXED)
        return at->plus >= 0 && at->plus < limit
                   ? ERR_OK
                   : outside(a, touch, at->plus, 0, f);
    if (at->dim >= n->dims)
        return fault_set(f, ERR_INVAL,
                         "touch %u, of table %s: index %u, expected less than "
                         "the loop's %u dimensions",
                         touch, a->table, at->dim, n->dims);
    if (at->plus <= -limit || at->plus >= limit)
        return outside(a, touch, at->plus, 0, f);
    r = &range[at->dim];
    if (n->iterations && (int64_t)r->low + at->plus < 0)
        return outside(a, touch, (int64_t)r->low + at->plus, r->low_at, f);
    if (n->iterations && (int64_t)r->high + at->plus >= limit)
        return outside(a, touch, (int64_t)r->high + at->plus, r->high_at, f);
    return ERR_OK;
}

enum err nest_check(const struct loop_nest *n, struct fault *f)
{
    struct index_range range[MLT_LOOP_DIMS_MAX];
    enum err err = check_keys(n, range, f);

    for (unsigned t = 0; t < n->accesses && !err; t++)
        for (unsigned i = 0; i < n->access[t].axes && !err; i++)
            err = check_axis(n, t, &n->access[t].at[i], range, f);
    return err;
}

/* ---- rows ---------------------------------------------------------------- */

bool access_is_static(const struct loop_access *a)
{
    for (unsigned i = 0; i < a->axes; i++)
        if (a->at[i].kind == MLT_SUBSCRIPT_DATA)
            return false;
    return true;
}

static uint64_t place_on(const struct mlt_subscript *at, const uint32_t *key)
{
    int64_t place = at->plus;

    assert(at->kind != MLT_SUBSCRIPT_DATA);
    if (at->kind == MLT_SUBSCRIPT_INDEX)
        place += key[at->dim];
    return (uint64_t)place;
}

uint64_t access_row(const struct loop_access *a, const uint32_t *key)
{
    uint64_t row = place_on(&a->at[0], key);

    for (unsigned i = 1; i < a->axes; i++)
        row = row * a->at[i].size + place_on(&a->at[i], key);
    return row;
}

bool access_admits(const struct loop_access *a, const uint32_t *key,
                   uint64_t row)
{
    if (row >= a->rows)
        return false;
    for (unsigned i = a->axes; i-- > 0;) {
        uint64_t place = row % a->at[i].size;

        row /= a->at[i].size;
        if (a->at[i].kind != MLT_SUBSCRIPT_DATA &&
            place != place_on(&a->at[i], key))
            return false;
    }
    return true;
}

bool access_follows(const struct loop_access *a, unsigned dim)
{
    for (unsigned i = 0; i < a->axes; i++)
        if (a->at[i].kind == MLT_SUBSCRIPT_INDEX && a->at[i].dim == dim)
            return true;
    return false;
}
