#include "ps/loop/plan.h"

#include <assert.h>
#include <string.h>

enum {
    /* Parts a worker along the time dimension. Two: a worker's next part has
     * been free for a while when it asks for it (double buffering). A wavefront
     * of P parts keeps W workers busy P of P + W - 1 steps. */
    RING_PARTS = 2,
    WAVEFRONT_PARTS = 4
};

/* ---- what moves ---------------------------------------------------------- */

/* Whether the rows of access @a can be split along @axis: its subscripts have
 * the index, and no row of an updated table is touched at two of its places. */
static bool splits(const struct loop_access *a, const struct depends *ds,
                   const struct loop_axis *axis)
{
    if (axis->dim < 0 || !access_follows(a, (unsigned)axis->dim))
        return false;
    for (unsigned i = 0; i < ds->count; i++)
        if (ds->vector[i].table == a->id &&
            !depend_is_zero(&ds->vector[i], (unsigned)axis->dim))
            return false;
    return true;
}

static enum loop_place place_of_access(const struct loop_access *a,
                                       const struct depends *ds,
                                       const struct loop_plan *p)
{
    if (a->buffered)
        return LOOP_SERVED;
    if (splits(a, ds, &p->space))
        return LOOP_LOCAL;
    if (plan_has_time(p) && splits(a, ds, &p->time))
        return LOOP_ROTATED;
    return LOOP_SERVED;
}

/* Rows of an access that a pass needs, each worker's counted. */
static double served_rows(const struct loop_nest *n,
                          const struct loop_access *a, unsigned workers)
{
    double rows = 1, most = (double)n->iterations;

    for (unsigned i = 0; i < a->axes; i++)
        if (a->at[i].kind != MLT_SUBSCRIPT_FIXED)
            rows *= (double)a->at[i].size;
    rows *= workers;
    return rows < most ? rows : most;
}

/* Values that the access has moved in a pass: a table that goes round visits
 * every worker; of one that is served, each worker fetches and sends what it
 * touches. */
static double moved_by(const struct loop_nest *n, const struct loop_access *a,
                       enum loop_place place, unsigned workers)
{
    switch (place) {
    case LOOP_LOCAL:
        return 0;
    case LOOP_ROTATED:
        return (double)a->rows * a->width * workers;
    default:
        return served_rows(n, a, workers) * a->width * (a->reads + a->updates);
    }
}

/* Of several touches of a table, the dearest counts. */
static bool is_dearest(const struct loop_nest *n, const double cost[],
                       unsigned access)
{
    for (unsigned i = 0; i < n->accesses; i++) {
        bool dearer =
            cost[i] > cost[access] || (cost[i] == cost[access] && i < access);

        if (n->access[i].id == n->access[access].id && dearer)
            return false;
    }
    return true;
}

static void find_places(const struct loop_nest *n, const struct depends *ds,
                        struct loop_plan *p)
{
    double cost[MLT_LOOP_TOUCHES_MAX];

    for (unsigned i = 0; i < n->accesses; i++) {
        p->place[i] = place_of_access(&n->access[i], ds, p);
        cost[i] = moved_by(n, &n->access[i], p->place[i], p->workers);
    }
    p->moved = 0;
    for (unsigned i = 0; i < n->accesses; i++)
        if (is_dearest(n, cost, i))
            p->moved += cost[i];
}

/* ---- candidates ---------------------------------------------------------- */

static struct loop_axis plain_axis(unsigned dim)
{
    struct loop_axis axis = {.dim = (int)dim};

    axis.by[dim] = 1;
    return axis;
}

/* Different values of a dimension of the split, at most. Those of a skewed one
 * fit in an int64 (add_times). */
static int64_t values_of(const struct loop_nest *n,
                         const struct loop_axis *axis)
{
    int64_t values = 1;

    for (unsigned d = 0; d < n->dims; d++)
        values += axis->by[d] * (int64_t)(n->extent[d] - 1);
    return values;
}

/* Workers that can be busy at one time, were there enough: they differ in both
 * dimensions of the split. */
static int64_t busy_at_once(const struct loop_nest *n,
                            const struct loop_plan *p)
{
    int64_t space = values_of(n, &p->space), time = values_of(n, &p->time);

    return plan_has_time(p) && time < space ? time : space;
}

/* Takes a candidate where it is the first, or moves less, or as much but has
 * work for more workers. */
static void offer(const struct loop_nest *n, const struct depends *ds,
                  const struct loop_plan *candidate, struct loop_plan *best)
{
    struct loop_plan p = *candidate;

    p.workers = best->workers;
    find_places(n, ds, &p);
    if (best->strategy == LOOP_SERIAL || p.moved < best->moved ||
        (p.moved == best->moved && busy_at_once(n, &p) > busy_at_once(n, best)))
        *best = p;
}

static bool all_zero(const struct depends *ds, unsigned dim)
{
    for (unsigned i = 0; i < ds->count; i++)
        if (!depend_is_zero(&ds->vector[i], dim))
            return false;
    return true;
}

static bool one_zero(const struct depends *ds, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < ds->count; i++)
        if (!depend_is_zero(&ds->vector[i], a) &&
            !depend_is_zero(&ds->vector[i], b))
            return false;
    return true;
}

static bool none_falls(const struct depends *ds, unsigned dim)
{
    for (unsigned i = 0; i < ds->count; i++)
        if (!depend_never_falls(&ds->vector[i], dim))
            return false;
    return true;
}

static void try_one_dimension(const struct loop_nest *n,
                              const struct depends *ds, struct loop_plan *best)
{
    for (unsigned d = 0; d < n->dims; d++) {
        struct loop_plan p = {
            .strategy = LOOP_1D, .space = plain_axis(d), .time = {.dim = -1}};

        if (all_zero(ds, d))
            offer(n, ds, &p, best);
    }
}

static void try_two_dimensions(const struct loop_nest *n,
                               const struct depends *ds, bool wavefront,
                               struct loop_plan *best)
{
    for (unsigned a = 0; a < n->dims; a++)
        for (unsigned b = 0; b < n->dims; b++) {
            struct loop_plan p = {.strategy =
                                      wavefront ? LOOP_WAVEFRONT : LOOP_2D,
                                  .space = plain_axis(a),
                                  .time = plain_axis(b)};

            if (a == b)
                continue;
            if (!wavefront && one_zero(ds, a, b))
                offer(n, ds, &p, best);
            if (wavefront && none_falls(ds, a) && none_falls(ds, b))
                offer(n, ds, &p, best);
        }
}

/* ---- skewing ------------------------------------------------------------- */

/* By how much a vector rises along an axis, at the least: any number > 0 is at
 * least 1, and axes have no negative coefficient. */
static int64_t times(const struct loop_axis *axis, const struct depend *v,
                     unsigned dims)
{
    int64_t sum = 0;

    for (unsigned d = 0; d < dims; d++) {
        assert(axis->by[d] >= 0);
        sum +=
            axis->by[d] * (v->by[d].kind == DEPEND_PLUS ? 1 : v->by[d].number);
    }
    return sum;
}

static bool has_any(const struct depends *ds)
{
    for (unsigned i = 0; i < ds->count; i++)
        for (unsigned d = 0; d < ds->dims; d++)
            if (ds->vector[i].by[d].kind == DEPEND_ANY)
                return true;
    return false;
}

/* Adds @factor times @what. False, an axis that is of no use: some value, or
 * what a vector rises along it, may leave an int64. No element of a vector is
 * as large as its dimension's extent, but for DEPEND_PLUS, which is 1. */
static bool add_times(struct loop_axis *to, const struct loop_axis *what,
                      int64_t factor, const struct loop_nest *n)
{
    int64_t product, sum = 0;

    for (unsigned d = 0; d < n->dims; d++)
        if (__builtin_mul_overflow(factor, what->by[d], &product) ||
            __builtin_add_overflow(to->by[d], product, &to->by[d]) ||
            __builtin_mul_overflow(to->by[d], (int64_t)n->extent[d],
                                   &product) ||
            __builtin_add_overflow(sum, product, &sum))
            return false;
    return true;
}

/* Dimension @k plus as many times the sum of the skewed ones before it as it
 * takes for no vector to fall in it. A vector that falls in k leads with a
 * positive element before it, so that sum is at least 1. False: numbers too
 * large. */
static bool skew_dimension(const struct loop_nest *n, const struct depends *ds,
                           unsigned k, struct loop_axis axis[])
{
    struct loop_axis outer = {.dim = -1};
    int64_t factor = 0;

    axis[k] = plain_axis(k);
    for (unsigned j = 0; j < k; j++)
        if (!add_times(&outer, &axis[j], 1, n))
            return false;
    for (unsigned i = 0; i < ds->count; i++) {
        int64_t falls = -times(&axis[k], &ds->vector[i], ds->dims);
        int64_t rises = times(&outer, &ds->vector[i], ds->dims);

        if (falls <= 0)
            continue;
        assert(rises > 0);
        if ((falls - 1) / rises + 1 > factor)
            factor = (falls - 1) / rises + 1;
    }
    if (factor == 0)
        return true;
    axis[k].dim = -1;
    return add_times(&axis[k], &outer, factor, n);
}

static void try_skewed(const struct loop_nest *n, const struct depends *ds,
                       struct loop_plan *best)
{
    struct loop_axis axis[MLT_LOOP_DIMS_MAX];

    if (has_any(ds) || n->dims < 2)
        return;
    for (unsigned k = 0; k < n->dims; k++)
        if (!skew_dimension(n, ds, k, axis))
            return;
    for (unsigned a = 0; a < n->dims; a++)
        for (unsigned b = 0; b < n->dims; b++) {
            struct loop_plan p = {
                .strategy = LOOP_UNIMODULAR, .space = axis[a], .time = axis[b]};

            if (a != b)
                offer(n, ds, &p, best);
        }
}

/* ---- the plan ------------------------------------------------------------ */

static void find_parts(struct loop_plan *p, unsigned time_parts)
{
    unsigned each = time_parts;

    if (!each)
        each = p->strategy == LOOP_2D ? RING_PARTS : WAVEFRONT_PARTS;
    p->space_parts = p->workers;
    p->time_parts = 1;
    /* One worker gains nothing from parts, but may be asked for steps. */
    if (plan_has_time(p) && (p->workers > 1 || time_parts))
        p->time_parts = each * p->workers;
    if (p->time_parts > MLT_LOOP_PARTS_MAX) /* a multiple of the workers */
        p->time_parts = MLT_LOOP_PARTS_MAX / p->workers * p->workers;
}

void plan_make(const struct loop_nest *n, const struct depends *ds,
               unsigned workers, unsigned time_parts, struct loop_plan *out)
{
    struct loop_plan best = {.strategy = LOOP_SERIAL,
                             .space = plain_axis(0),
                             .time = {.dim = -1},
                             .workers = workers};

    assert(workers >= 1 && workers <= MLT_LOOP_PARTS_MAX);
    try_one_dimension(n, ds, &best);
    if (best.strategy == LOOP_SERIAL)
        try_two_dimensions(n, ds, n->ordered, &best);
    if (best.strategy == LOOP_SERIAL)
        try_two_dimensions(n, ds, true, &best);
    if (best.strategy == LOOP_SERIAL)
        try_skewed(n, ds, &best);
    if (best.strategy == LOOP_SERIAL) {
        best.workers = 1;
        find_places(n, ds, &best);
        best.moved = 0;
    }
    find_parts(&best, time_parts);
    *out = best;
}
