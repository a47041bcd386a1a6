#include "ps/loop/depend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool same_vector(const struct depend *a, const struct depend *b,
                        unsigned dims)
{
    for (unsigned d = 0; d < dims; d++)
        if (a->by[d].kind != b->by[d].kind ||
            a->by[d].number != b->by[d].number)
            return false;
    return a->table == b->table;
}

static enum err keep(struct depends *out, const struct depend *v)
{
    for (unsigned i = 0; i < out->count; i++)
        if (same_vector(&out->vector[i], v, out->dims))
            return ERR_OK;
    if (out->count == DEPEND_MAX)
        return ERR_LIMIT;
    out->vector[out->count++] = *v;
    return ERR_OK;
}

static void negate(struct depend *v, unsigned from, unsigned dims)
{
    for (unsigned d = from; d < dims; d++)
        v->by[d].number = -v->by[d].number;
}

/* Splits a vector, which stands for itself and its negative, into those that
 * lead with a positive element. */
static enum err keep_positive(struct depends *out, struct depend v)
{
    unsigned dims = out->dims;
    enum err err = ERR_OK;

    for (unsigned d = 0; d < dims && !err; d++) {
        struct depend leading = v;

        if (v.by[d].kind == DEPEND_NUMBER && v.by[d].number == 0)
            continue;
        if (v.by[d].kind == DEPEND_NUMBER) {
            if (v.by[d].number < 0)
                negate(&v, d, dims);
            return keep(out, &v);
        }
        assert(v.by[d].kind == DEPEND_ANY);
        leading.by[d].kind = DEPEND_PLUS;
        err = keep(out, &leading);
        negate(&leading, d + 1, dims);
        if (!err)
            err = keep(out, &leading);
        v.by[d] = (struct depend_element){DEPEND_NUMBER, 0};
    }
    return err;
}

/* What one axis says; false: the two never meet. */
static bool compare_axis(const struct mlt_subscript *a,
                         const struct mlt_subscript *b, struct depend *v)
{
    struct depend_element *by;
    int64_t distance;

    if (a->kind == MLT_SUBSCRIPT_FIXED && b->kind == MLT_SUBSCRIPT_FIXED)
        return a->plus == b->plus;
    if (a->kind != MLT_SUBSCRIPT_INDEX || b->kind != MLT_SUBSCRIPT_INDEX ||
        a->dim != b->dim)
        return true;
    distance = a->plus - b->plus;
    by = &v->by[a->dim];
    if (by->kind == DEPEND_NUMBER)
        return by->number == distance;
    *by = (struct depend_element){DEPEND_NUMBER, distance};
    return true;
}

static bool within(const struct loop_nest *n, const struct depend *v)
{
    for (unsigned d = 0; d < n->dims; d++) {
        int64_t number = v->by[d].number;

        if ((uint64_t)(number < 0 ? -number : number) >= n->extent[d])
            return false;
    }
    return true;
}

static bool same_axes(const struct loop_access *a, const struct loop_access *b)
{
    bool same = a->axes == b->axes;

    for (unsigned i = 0; i < a->axes && same; i++)
        same = a->at[i].size == b->at[i].size;
    return same;
}

static enum err take_pair(const struct loop_nest *n, unsigned i, unsigned j,
                          struct depends *out)
{
    const struct loop_access *a = &n->access[i], *b = &n->access[j];
    struct depend v = {
        .table = a->id, .first = (uint8_t)i, .second = (uint8_t)j};

    for (unsigned d = 0; d < n->dims; d++)
        v.by[d].kind = DEPEND_ANY;
    /* Axes of other sizes do not name the same places: nothing is known. */
    if (same_axes(a, b))
        for (unsigned x = 0; x < a->axes; x++)
            if (!compare_axis(&a->at[x], &b->at[x], &v))
                return ERR_OK;
    return within(n, &v) ? keep_positive(out, v) : ERR_OK;
}

/* Buffered updates come when they come: exempt. */
static bool conflict(const struct loop_access *a, const struct loop_access *b)
{
    return a->id == b->id && !a->buffered && !b->buffered &&
           (a->updates || b->updates);
}

enum err depend_find(const struct loop_nest *n, struct depends *out)
{
    enum err err = ERR_OK;

    assert(n->dims >= 1 && n->dims <= MLT_LOOP_DIMS_MAX);
    out->dims = n->dims;
    out->count = 0;
    for (unsigned i = 0; i < n->accesses; i++)
        for (unsigned j = i; j < n->accesses && !err; j++)
            if (conflict(&n->access[i], &n->access[j]))
                err = take_pair(n, i, j, out);
    return err;
}

size_t depend_text(const struct depend *v, unsigned dims, char *out,
                   size_t size)
{
    char one[32];
    size_t n = 0;

    assert(size >= 2);
    out[n++] = '(';
    for (unsigned d = 0; d < dims; d++) {
        const char *comma = d ? ", " : "";
        size_t len;

        if (v->by[d].kind == DEPEND_NUMBER)
            snprintf(one, sizeof(one), "%s%lld", comma,
                     (long long)v->by[d].number);
        else
            snprintf(one, sizeof(one), "%s%s", comma,
                     v->by[d].kind == DEPEND_PLUS ? "+" : "any");
        len = strlen(one);
        if (n + len + 2 > size)
            break;
        memcpy(out + n, one, len);
        n += len;
    }
    out[n++] = ')';
    out[n] = '\0';
    return n;
}
