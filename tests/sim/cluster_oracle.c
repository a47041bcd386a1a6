#include "tests/sim/cluster_oracle.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t n, size_t size)
{
    void *p = mem_calloc(n, size);

    if (!p)
        abort();
    return p;
}

static uint64_t rows_of(const struct oracle *o, uint32_t table)
{
    return o->table[table].rows;
}

static uint64_t learned_bytes(const struct oracle *o)
{
    return rows_of(o, ORACLE_LEARNS) * o->table[ORACLE_LEARNS].row_bytes;
}

static void new_branch(struct oracle *o, uint32_t id, enum branch_type type)
{
    struct oracle_branch *b = &o->branch[id];

    assert(id < ORACLE_BRANCHES_MAX && !b->live);
    b->live = true;
    b->type = type;
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        b->count[t] = zeroed(rows_of(o, t) * o->workers, sizeof(int64_t));
    b->learned = zeroed(1, learned_bytes(o));
}

void oracle_init(struct oracle *o, const struct table table[], uint32_t workers,
                 const struct consistency_ops *model)
{
    uint64_t rows;

    memset(o, 0, sizeof(*o));
    o->table = table;
    o->workers = workers;
    o->model = model;
    rows = rows_of(o, ORACLE_LEARNS);
    o->clock = zeroed((size_t)workers * ORACLE_TABLES, sizeof(*o->clock));
    o->available = zeroed(workers, sizeof(*o->available));
    o->ended = zeroed((size_t)workers * ORACLE_TABLES, sizeof(*o->ended));
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        o->added[t] = zeroed(rows_of(o, t) * workers * ORACLE_CLOCKS_MAX,
                             sizeof(int64_t));
    o->gradient = zeroed(rows * workers * ORACLE_LEARNS_WIDTH, sizeof(float));
    o->has = zeroed(rows * workers, sizeof(*o->has));
    new_branch(o, 0, BRANCH_INIT);
}

void oracle_deinit(struct oracle *o)
{
    for (uint32_t b = 0; b < ORACLE_BRANCHES_MAX; b++)
        if (o->branch[b].live)
            oracle_free(o, b);
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        mem_free(o->added[t]);
    mem_free(o->clock);
    mem_free(o->available);
    mem_free(o->ended);
    mem_free(o->gradient);
    mem_free(o->has);
}

void oracle_fork(struct oracle *o, uint32_t child, uint32_t parent,
                 enum branch_type type)
{
    struct oracle_branch *from = &o->branch[parent], *to = &o->branch[child];

    new_branch(o, child, type);
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        memcpy(to->count[t], from->count[t],
               rows_of(o, t) * o->workers * sizeof(int64_t));
    memcpy(to->learned, from->learned, learned_bytes(o));
}

void oracle_free(struct oracle *o, uint32_t branch)
{
    struct oracle_branch *b = &o->branch[branch];

    assert(b->live);
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        mem_free(b->count[t]);
    mem_free(b->learned);
    memset(b, 0, sizeof(*b));
}

/* ---- a slice ------------------------------------------------------------- */

void oracle_begin(struct oracle *o, uint32_t branch, int64_t clock,
                  unsigned staleness, struct rule_params params)
{
    o->active = branch;
    o->base = o->applied = clock;
    o->staleness = staleness;
    o->params = params;
    for (uint32_t w = 0; w < o->workers; w++) {
        o->available[w] = true;
        for (uint32_t t = 0; t < ORACLE_TABLES; t++)
            o->clock[w * ORACLE_TABLES + t] = clock;
    }
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        memset(o->added[t], 0,
               rows_of(o, t) * o->workers * ORACLE_CLOCKS_MAX *
                   sizeof(int64_t));
}

static int64_t *added_by(const struct oracle *o, uint32_t worker,
                         uint32_t table, uint64_t row)
{
    return o->added[table] + (row * o->workers + worker) * ORACLE_CLOCKS_MAX;
}

void oracle_count(struct oracle *o, uint32_t worker, uint32_t table,
                  uint64_t row, int64_t n)
{
    int64_t at = o->clock[worker * ORACLE_TABLES + table] - o->base;

    assert(at >= 0 && at < ORACLE_CLOCKS_MAX && n > 0);
    added_by(o, worker, table, row)[at] += n;
}

void oracle_learn(struct oracle *o, uint32_t worker, uint64_t row,
                  const float gradient[ORACLE_LEARNS_WIDTH])
{
    uint64_t at = worker * rows_of(o, ORACLE_LEARNS) + row;
    float *g = o->gradient + at * ORACLE_LEARNS_WIDTH;

    for (int j = 0; j < ORACLE_LEARNS_WIDTH; j++)
        g[j] = o->has[at] ? g[j] + gradient[j] : gradient[j];
    o->has[at] = true;
}

/* The sum over workers first .. first + n - 1, n a power of two, each half by
 * itself; false where none of them has one. */
static bool sum_of(struct oracle *o, uint64_t row, uint32_t first, uint32_t n,
                   float sum[ORACLE_LEARNS_WIDTH])
{
    uint64_t at = first * rows_of(o, ORACLE_LEARNS) + row;
    float right[ORACLE_LEARNS_WIDTH];
    bool has;

    if (first >= o->workers)
        return false;
    if (n == 1) {
        memcpy(sum, o->gradient + at * ORACLE_LEARNS_WIDTH, sizeof(right));
        has = o->has[at];
        o->has[at] = false;
        return has;
    }
    has = sum_of(o, row, first, n / 2, sum);
    if (!sum_of(o, row, first + n / 2, n / 2, right))
        return has;
    for (int j = 0; j < ORACLE_LEARNS_WIDTH; j++)
        sum[j] = has ? sum[j] + right[j] : right[j];
    return true;
}

/* One row of the learned table: the rule once, to the sum over all workers. */
static void learn_row(struct oracle *o, uint64_t row)
{
    const struct table *t = &o->table[ORACLE_LEARNS];
    void *place = o->branch[o->active].learned + row * t->row_bytes;
    float sum[ORACLE_LEARNS_WIDTH];
    const void *sums = sum;
    struct rule_batch batch = {1,       &place,   &sums,     t->width,
                               t->type, t->slots, o->params, NULL};
    uint32_t n = 1;

    batch.params = rule_params_at(&o->params, (uint64_t)(o->applied - o->base));

    while (n < o->workers)
        n *= 2;
    if (sum_of(o, row, 0, n, sum))
        rule_apply(t->rule, &batch, t->undecayed);
}

static int64_t slowest(const struct oracle *o, uint32_t table)
{
    int64_t min = INT64_MAX, max = o->base;

    for (uint32_t w = 0; w < o->workers; w++) {
        int64_t clock = o->clock[w * ORACLE_TABLES + table];

        if (o->available[w] && clock < min)
            min = clock;
        if (clock > max)
            max = clock;
    }
    return min < INT64_MAX ? min : max;
}

static void learn(struct oracle *o)
{
    int64_t clock = slowest(o, ORACLE_LEARNS);

    if (!o->model->barrier || clock == o->applied)
        return;
    for (uint64_t r = 0; r < rows_of(o, ORACLE_LEARNS); r++)
        learn_row(o, r);
    o->applied = clock;
}

void oracle_end_clock(struct oracle *o, uint32_t worker, uint32_t table)
{
    for (uint32_t t = 0; t < ORACLE_TABLES; t++) {
        uint32_t at = worker * ORACLE_TABLES + t;
        bool own = o->table[t].flags & MLT_OWN_CLOCK;

        if (table != FRAME_ALL_TABLES && table != t)
            continue;
        if (!own || !o->ended[at])
            o->clock[at]++;
        o->ended[at] = own && table == t;
    }
    learn(o);
}

void oracle_drain(struct oracle *o, uint32_t worker)
{
    o->available[worker] = false;
    learn(o);
}

void oracle_end_slice(struct oracle *o)
{
    for (uint32_t t = 0; t < ORACLE_COUNTERS; t++)
        for (uint64_t r = 0; r < rows_of(o, t); r++)
            for (uint32_t w = 0; w < o->workers; w++)
                for (int i = 0; i < ORACLE_CLOCKS_MAX; i++)
                    o->branch[o->active].count[t][r * o->workers + w] +=
                        added_by(o, w, t, r)[i];
}

/* ---- what may be --------------------------------------------------------- */

static int64_t number(const struct table *t, const void *values, uint32_t j)
{
    int32_t i32;
    float f32;
    double f64;

    switch (t->type) {
    case MLT_I32:
        memcpy(&i32, (const char *)values + 4 * j, sizeof(i32));
        return i32;
    case MLT_F32:
        memcpy(&f32, (const char *)values + 4 * j, sizeof(f32));
        return (int64_t)f32;
    default:
        memcpy(&f64, (const char *)values + 8 * j, sizeof(f64));
        return (int64_t)f64;
    }
}

/* Check of updates that leave before the clock ends: all of clocks below
 * @least, and no more than were made. */
static bool holds_a_part(const struct oracle *o, const int64_t *added,
                         int64_t sum, int64_t value, int64_t least)
{
    for (int64_t i = 0; i < ORACLE_CLOCKS_MAX && o->base + i < least; i++)
        sum += *added++;
    if (value < sum)
        return false;
    for (int64_t i = least > o->base ? least - o->base : 0;
         i < ORACLE_CLOCKS_MAX; i++)
        sum += *added++;
    return value <= sum;
}

/* The values hold worker @w's updates of how many clocks? Each of them, some
 * above none: the sum of a part of a clock is no such sum. */
static bool allowed_of(const struct oracle *o, uint32_t w, uint32_t table,
                       uint64_t row, int64_t value, int64_t least, bool exact)
{
    const int64_t *added = added_by(o, w, table, row);
    int64_t sum = o->branch[o->active].count[table][row * o->workers + w];

    if (o->partial && !(o->table[table].flags & MLT_READ_MY_WRITES))
        return holds_a_part(o, added, sum, value, least);
    for (int64_t i = 0; i <= ORACLE_CLOCKS_MAX; i++) {
        /* sum: all of clocks below base + i */
        if (sum == value && o->base + i >= least)
            return true;
        if (i == ORACLE_CLOCKS_MAX || (exact && o->base + i >= least))
            return false;
        sum += added[i];
    }
    return false;
}

bool oracle_allows(const struct oracle *o, uint32_t worker, uint32_t table,
                   uint64_t row, const void *values, int64_t held, bool half,
                   char *why, size_t size)
{
    const struct table *t = &o->table[table];
    int64_t clock = o->clock[worker * ORACLE_TABLES + table];
    int64_t least = o->base;

    if (o->model->barrier)
        least = clock;
    else if (o->model->bounds)
        least = held > clock - (int64_t)o->staleness
                    ? held
                    : clock - (int64_t)o->staleness;
    if (table == ORACLE_LEARNS) {
        if (!o->model->barrier || half ||
            memcmp(values, o->branch[o->active].learned + row * t->row_bytes,
                   t->value_bytes) == 0)
            return true;
        snprintf(why, size, "row %" PRIu64 " that learns, clock %" PRId64, row,
                 clock);
        return false;
    }
    for (uint32_t w = 0; w < o->workers; w++) {
        int64_t value = number(t, values, w);
        bool own = w == worker && t->flags & MLT_READ_MY_WRITES;

        if (allowed_of(o, w, table, row, value, own ? clock : least,
                       own || o->model->barrier))
            continue;
        snprintf(why, size,
                 "worker %u at clock %" PRId64 " reads row %" PRIu64
                 " of table %u: %" PRId64 " of worker %u is not what it had "
                 "added by any clock from %" PRId64,
                 worker, clock - o->base, row, table, value, w,
                 least - o->base);
        return false;
    }
    return true;
}

bool oracle_equals(struct oracle *o, uint32_t branch, uint32_t table,
                   uint64_t row, const void *bytes, bool take)
{
    const struct table *t = &o->table[table];
    struct oracle_branch *b = &o->branch[branch];
    unsigned char *learned = b->learned + row * t->row_bytes;

    if (table == ORACLE_LEARNS) {
        if (take && !o->model->barrier)
            memcpy(learned, bytes, t->row_bytes);
        return memcmp(learned, bytes, t->row_bytes) == 0;
    }
    for (uint32_t w = 0; w < o->workers; w++)
        if (number(t, bytes, w) != b->count[table][row * o->workers + w])
            return false;
    return true;
}
