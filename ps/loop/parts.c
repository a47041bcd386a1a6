#include "ps/loop/parts.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>

/* ---- cuts ---------------------------------------------------------------- */

static void find_range(const struct loop_nest *n, const struct loop_axis *axis,
                       struct loop_cuts *c)
{
    int64_t high = INT64_MIN;

    c->low = INT64_MAX;
    for (uint64_t i = 0; i < n->iterations; i++) {
        int64_t value = plan_value(axis, n->dims, nest_key(n, i));

        c->low = value < c->low ? value : c->low;
        high = value > high ? value : high;
    }
    if (n->iterations == 0)
        c->low = high = 0;
    c->range = (uint64_t)(high - c->low) + 1;
    for (c->shift = 0; (c->range - 1) >> c->shift >= PARTS_BINS_MAX;)
        c->shift++;
    c->bins = ((c->range - 1) >> c->shift) + 1;
}

static uint64_t bin_of(const struct loop_cuts *c, int64_t value)
{
    return (uint64_t)(value - c->low) >> c->shift;
}

/* A bin goes to the part in which the middle of its mass lies. */
static void cut(struct loop_cuts *c, const uint32_t count[], uint64_t total,
                uint64_t seed)
{
    struct perm perm;
    double before = 0;

    if (seed)
        perm_init(&perm, c->bins, seed);
    for (uint64_t i = 0; i < c->bins; i++) {
        uint64_t bin = seed ? perm_at(&perm, i) : i;
        double middle = (before + count[bin] / 2.0) / (double)total;
        unsigned part = (unsigned)(middle * c->parts);

        c->part[bin] = (uint16_t)(part < c->parts ? part : c->parts - 1);
        before += count[bin];
    }
}

static enum err make_cuts(const struct loop_nest *n,
                          const struct loop_axis *axis, uint64_t seed,
                          struct loop_cuts *c)
{
    uint32_t *count;

    find_range(n, axis, c);
    c->shuffled = seed != 0;
    c->part = mem_calloc(c->bins, sizeof(*c->part));
    count = mem_calloc(c->bins, sizeof(*count));
    if (!c->part || !count) {
        mem_free(count);
        return ERR_NOMEM;
    }
    for (uint64_t i = 0; i < n->iterations; i++)
        count[bin_of(c, plan_value(axis, n->dims, nest_key(n, i)))]++;
    cut(c, count, n->iterations ? n->iterations : 1, seed);
    mem_free(count);
    return ERR_OK;
}

/* ---- order --------------------------------------------------------------- */

/* Iterations by key, those with the same key as given. */
static int by_key(const void *a, const void *b, void *arg)
{
    const struct loop_nest *n = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t *p = nest_key(n, x), *q = nest_key(n, y);

    for (unsigned d = 0; d < n->dims; d++)
        if (p[d] != q[d])
            return p[d] < q[d] ? -1 : 1;
    return (x > y) - (x < y);
}

static void sort_by_key(const struct loop_nest *n, uint32_t *order)
{
    bool sorted = true;

    for (uint64_t i = 0; i + 1 < n->iterations && sorted; i++)
        sorted = by_key(&order[i], &order[i + 1], (void *)n) < 0;
    if (!sorted)
        qsort_r(order, n->iterations, sizeof(*order), by_key, (void *)n);
}

static size_t block_of(const struct loop_nest *n, const struct loop_plan *plan,
                       const struct loop_parts *p, uint32_t i)
{
    const uint32_t *key = nest_key(n, i);
    int64_t a = plan_value(&plan->space, n->dims, key);
    int64_t b = plan_value(&plan->time, n->dims, key);

    return parts_block(p, p->space.part[bin_of(&p->space, a)],
                       p->time.part[bin_of(&p->time, b)]);
}

/* A stable counting sort by block. */
static enum err deal(const struct loop_nest *n, const struct loop_plan *plan,
                     struct loop_parts *p)
{
    size_t blocks = (size_t)p->space.parts * p->time.parts;
    uint32_t *given = mem_calloc(n->iterations + 1, sizeof(*given));
    uint64_t *next = mem_calloc(blocks, sizeof(*next));

    p->order = mem_calloc(n->iterations + 1, sizeof(*p->order));
    p->start = mem_calloc(blocks + 1, sizeof(*p->start));
    if (!given || !next || !p->order || !p->start) {
        mem_free(given);
        mem_free(next);
        return ERR_NOMEM;
    }
    for (uint64_t i = 0; i < n->iterations; i++)
        given[i] = (uint32_t)i;
    if (n->ordered)
        sort_by_key(n, given);
    for (uint64_t i = 0; i < n->iterations; i++)
        p->start[block_of(n, plan, p, given[i]) + 1]++;
    for (size_t b = 0; b < blocks; b++) {
        p->start[b + 1] += p->start[b];
        next[b] = p->start[b];
    }
    for (uint64_t i = 0; i < n->iterations; i++)
        p->order[next[block_of(n, plan, p, given[i])]++] = given[i];
    mem_free(given);
    mem_free(next);
    return ERR_OK;
}

enum err parts_make(const struct loop_nest *n, const struct loop_plan *plan,
                    uint64_t seed, struct loop_parts *out)
{
    struct loop_parts p = {.space.parts = plan->space_parts,
                           .time.parts = plan->time_parts};
    enum err err;

    assert(n->iterations < UINT32_MAX);
    assert(p.space.parts <= MLT_LOOP_PARTS_MAX &&
           p.time.parts <= MLT_LOOP_PARTS_MAX);
    if (plan_is_wavefront(plan) || plan->strategy == LOOP_SERIAL)
        seed = 0;
    err = make_cuts(n, &plan->space, seed, &p.space);
    if (!err)
        err = make_cuts(n, &plan->time, seed ? rng_mix(seed, 1) : 0, &p.time);
    if (!err)
        err = deal(n, plan, &p);
    if (err)
        parts_deinit(&p);
    else
        *out = p;
    return err;
}

void parts_deinit(struct loop_parts *p)
{
    mem_free(p->space.part);
    mem_free(p->time.part);
    mem_free(p->order);
    mem_free(p->start);
    *p = (struct loop_parts){0};
}

double parts_skew(const struct loop_parts *p, bool time)
{
    unsigned parts = time ? p->time.parts : p->space.parts;
    unsigned others = time ? p->space.parts : p->time.parts;
    uint64_t most = 0, total = p->start[(size_t)parts * others];

    for (unsigned i = 0; i < parts; i++) {
        uint64_t sum = 0;

        for (unsigned j = 0; j < others; j++) {
            size_t b = time ? parts_block(p, j, i) : parts_block(p, i, j);

            sum += p->start[b + 1] - p->start[b];
        }
        most = sum > most ? sum : most;
    }
    return total ? (double)most * parts / (double)total : 1;
}
