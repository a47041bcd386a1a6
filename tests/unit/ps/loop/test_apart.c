/* The order within parts: what it keeps, and how full it makes blocks. */
#include "base/mem.h"
#include "base/rng.h"
#include "ps/loop/apart.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_random.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) /* less of the same: it is slow */
enum { SEEDS = 300 };
#else
enum { SEEDS = 3000 };
#endif

static void make_parts(const struct loop_nest *n, unsigned workers,
                       unsigned time_parts, uint64_t seed,
                       struct loop_plan *plan, struct loop_parts *out)
{
    static struct depends ds;

    assert_int_equal(depend_find(n, &ds), ERR_OK);
    plan_make(n, &ds, workers, time_parts, plan);
    assert_int_equal(parts_make(n, plan, seed, out), ERR_OK);
}

/* ---- any loop ------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Each part has the iterations that it had, of any loop; of those without an
 * order the order is another one, but for 0 and 1. */
static void apart_keeps_parts(void **state)
{
    static struct loop_random r;
    unsigned moved[2] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned apart = (unsigned)(seed % 9);
        uint32_t before[LOOP_RANDOM_ITERATIONS];
        struct loop_parts p;
        struct loop_plan plan;
        size_t bytes, parts;

        loop_random_make(&r, seed);
        r.nest.ordered = false;
        make_parts(&r.nest, r.workers, r.time_parts, r.shuffle, &plan, &p);
        bytes = r.nest.iterations * sizeof(before[0]);
        memcpy(before, p.order, bytes);
        assert_int_equal(apart_order(&r.nest, apart, &p), ERR_OK);
        moved[apart > 1] += memcmp(before, p.order, bytes) != 0;
        parts = (size_t)p.space.parts * p.time.parts;
        for (size_t b = 0; b < parts; b++) {
            uint64_t first = p.start[b], n = p.start[b + 1] - first;

            qsort(before + first, n, sizeof(before[0]), by_number);
            qsort(p.order + first, n, sizeof(before[0]), by_number);
        }
        assert_memory_equal(before, p.order, bytes);
        parts_deinit(&p);
    }
    assert_int_equal(moved[0], 0);
    assert_true(moved[1] > SEEDS / 10);
}

/* ---- factorization ------------------------------------------------------- */

enum { MANY = 60000, USERS = 3000, ITEMS = 1000, PARTS = 12, APART = 16 };

static struct mlt_subscript index_of(unsigned dim, uint64_t rows)
{
    return (struct mlt_subscript){MLT_SUBSCRIPT_INDEX, dim, 0, rows};
}

static struct loop_access table_by(unsigned dim, uint64_t rows)
{
    return (struct loop_access){.table = dim ? "items" : "users",
                                .id = dim,
                                .rows = rows,
                                .width = 8,
                                .reads = true,
                                .updates = true,
                                .axes = 1,
                                .at = {index_of(dim, rows)}};
}

/* Some items have many ratings. */
static void draw(struct loop_nest *n, uint32_t key[][2])
{
    struct rng rng;

    rng_init(&rng, 5);
    for (int i = 0; i < MANY; i++) {
        double u = rng_uniform(&rng);

        key[i][0] = (uint32_t)rng_below(&rng, USERS);
        key[i][1] = (uint32_t)((u + u * u) / 2 * ITEMS);
    }
    *n = (struct loop_nest){.dims = 2,
                            .extent = {USERS, ITEMS},
                            .iterations = MANY,
                            .key = key[0],
                            .access = {table_by(0, USERS), table_by(1, ITEMS)},
                            .accesses = 2};
}

/* Runs of at most APART iterations of which no two have a row in common, part
 * by part. @items_only: users do not matter. */
static uint64_t count_runs(const struct loop_nest *n,
                           const struct loop_parts *p, bool items_only)
{
    uint64_t runs = 0;

    for (size_t b = 0; b < (size_t)p->space.parts * p->time.parts; b++) {
        uint64_t first = p->start[b];

        for (uint64_t i = p->start[b]; i < p->start[b + 1]; i++) {
            const uint32_t *key = nest_key(n, p->order[i]);
            bool ends = i == p->start[b] || i - first == APART;

            for (uint64_t j = first; j < i && !ends; j++) {
                const uint32_t *other = nest_key(n, p->order[j]);

                ends =
                    key[1] == other[1] || (!items_only && key[0] == other[0]);
            }
            if (ends) {
                runs++;
                first = i;
            }
        }
    }
    return runs;
}

/* The runs that are found: each part begins one, no two iterations of one have
 * a row in common, and they are as many as @want, which may be fewer where
 * @want is exact: two rows may share a place. */
static void expect_runs(const struct loop_nest *n, const struct loop_parts *p,
                        uint64_t want)
{
    uint64_t *found, runs = 0, at = 0;
    size_t part = 0;

    assert_int_equal(apart_runs(n, APART, p, &found), ERR_OK);
    for (; at < n->iterations; runs++) {
        unsigned run = apart_run(found, at);

        for (unsigned k = 1; k < run; k++)
            assert_int_equal(apart_run(found, at + k), run - k);
        for (; part < (size_t)p->space.parts * p->time.parts &&
               p->start[part] <= at;
             part++)
            continue;
        assert_true(run >= 1 && run <= APART);
        assert_true(at + run <= p->start[part]);
        for (uint64_t i = at; i < at + run; i++)
            for (uint64_t j = at; j < i; j++)
                for (unsigned d = 0; d < 2; d++)
                    assert_int_not_equal(nest_key(n, p->order[i])[d],
                                         nest_key(n, p->order[j])[d]);
        at += run;
    }
    assert_int_equal(at, n->iterations);
    assert_true(runs >= want && runs <= want + want / 20);
    mem_free(found);
}

/* Runs are nearly full in the parts of one worker and of several, where an
 * order drawn at random has half of that. */
static void apart_fills_blocks(void **state)
{
    static uint32_t key[MANY][2];
    static struct loop_nest n;

    (void)state;
    draw(&n, key);
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        struct loop_parts p;
        struct loop_plan plan;
        uint64_t before, after;

        make_parts(&n, workers, PARTS / workers, 0, &plan, &p);
        assert_int_equal(plan.strategy, LOOP_2D);
        assert_int_equal(p.time.parts, PARTS);
        before = count_runs(&n, &p, false);
        assert_int_equal(apart_order(&n, APART, &p), ERR_OK);
        after = count_runs(&n, &p, false);
        if (!(MANY < 12 * before && MANY > 15 * after))
            fail_msg("%u workers: %llu runs, %llu before", workers,
                     (unsigned long long)after, (unsigned long long)before);
        expect_runs(&n, &p, after);
        parts_deinit(&p);
    }
}

/* Without a number of iterations there are no runs; without memory, an error
 * and nothing left. */
static void apart_runs_without_memory_leave_nothing(void **state)
{
    static uint32_t key[MANY][2];
    static struct loop_nest n;
    struct loop_parts p;
    struct loop_plan plan;
    uint64_t *found;

    (void)state;
    draw(&n, key);
    make_parts(&n, 1, 1, 0, &plan, &p);
    assert_int_equal(apart_runs(&n, 1, &p, &found), ERR_OK);
    assert_null(found);
    for (int at = 1; at <= 2; at++) {
        int64_t held = mem_outstanding();

        mem_fail_at(at, 0);
        assert_int_equal(apart_runs(&n, APART, &p, &found), ERR_NOMEM);
        mem_fail_at(0, 0);
        assert_null(found);
        assert_int_equal(mem_outstanding(), held);
    }
    parts_deinit(&p);
}

/* Rows that nobody updates, or whose updates are buffered, may be shared. */
static void apart_looks_at_updated_tables_alone(void **state)
{
    static uint32_t key[MANY][2];
    static struct loop_nest n;

    (void)state;
    draw(&n, key);
    for (int i = 0; i < MANY; i++)
        key[i][0] = (uint32_t)i % 5;
    for (int buffered = 0; buffered < 2; buffered++) {
        struct loop_parts p;
        struct loop_plan plan;

        n.access[0].buffered = n.access[0].updates = buffered;
        n.access[0].reads = !buffered;
        make_parts(&n, 1, 1, 0, &plan, &p);
        assert_int_equal(apart_order(&n, APART, &p), ERR_OK);
        assert_true(MANY > 15 * count_runs(&n, &p, true));
        assert_true(MANY < 5 * count_runs(&n, &p, false));
        parts_deinit(&p);
    }
}

/* Without memory parts are what they were. */
static void apart_without_memory_changes_nothing(void **state)
{
    static struct loop_random r;
    uint32_t before[LOOP_RANDOM_ITERATIONS];
    struct loop_parts p;
    struct loop_plan plan;
    size_t bytes;

    (void)state;
    loop_random_make(&r, 3);
    r.nest.ordered = false;
    make_parts(&r.nest, 2, 0, 0, &plan, &p);
    bytes = r.nest.iterations * sizeof(before[0]);
    memcpy(before, p.order, bytes);
    for (int at = 1; at <= 2; at++) {
        int64_t held = mem_outstanding();

        mem_fail_at(at, 0);
        assert_int_equal(apart_order(&r.nest, 8, &p), ERR_NOMEM);
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), held);
        assert_memory_equal(before, p.order, bytes);
    }
    parts_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(apart_keeps_parts),
        cmocka_unit_test(apart_fills_blocks),
        cmocka_unit_test(apart_runs_without_memory_leave_nothing),
        cmocka_unit_test(apart_looks_at_updated_tables_alone),
        cmocka_unit_test(apart_without_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
