#include "ps/loop/parts.h"
#include "ps/loop/schedule.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_random.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) /* less of the same: it is slow */
enum { SEEDS = 1000 };
#else
enum { SEEDS = 10000 };
#endif

enum { WORKERS = 4, STEPS_MAX = 64 };

/* ---- which strategy ------------------------------------------------------ */

static struct loop_nest nest_2d(uint64_t rows, uint64_t columns)
{
    return (struct loop_nest){
        .dims = 2, .extent = {rows, columns}, .iterations = rows * columns};
}

static void touches(struct loop_nest *n, mlt_table id, uint64_t rows,
                    struct mlt_subscript at)
{
    struct loop_access *a = &n->access[n->accesses++];

    *a = (struct loop_access){.table = "t",
                              .id = id,
                              .rows = rows,
                              .width = 8,
                              .reads = true,
                              .updates = true,
                              .axes = 1,
                              .at = {at}};
    a->at[0].size = rows;
}

static struct loop_plan planned(const struct loop_nest *n)
{
    struct depends ds;
    struct loop_plan plan;

    assert_int_equal(depend_find(n, &ds), ERR_OK);
    plan_make(n, &ds, WORKERS, 0, &plan);
    return plan;
}

#define AT(...) ((struct mlt_subscript)__VA_ARGS__)

/* One table by one index: split along it, nothing moves. */
static void plan_of_one_index_is_one_dimension(void **state)
{
    struct loop_nest n = nest_2d(100, 50);
    struct loop_plan p;

    (void)state;
    touches(&n, 0, 50, AT(MLT_INDEX(1, 0)));
    p = planned(&n);
    assert_int_equal(p.strategy, LOOP_1D);
    assert_int_equal(p.space.dim, 1);
    assert_int_equal(p.place[0], LOOP_LOCAL);
    assert_true(p.moved == 0);
}

/* Matrix factorization: two dimensions; the smaller table goes round, whichever
 * it is. */
static void plan_of_factorization_moves_the_smaller_table(void **state)
{
    (void)state;
    for (unsigned small = 0; small < 2; small++) {
        struct loop_nest n = nest_2d(small ? 100 : 30, small ? 30 : 100);
        struct loop_plan p;

        touches(&n, 0, n.extent[0], AT(MLT_INDEX(0, 0)));
        touches(&n, 1, n.extent[1], AT(MLT_INDEX(1, 0)));
        p = planned(&n);
        assert_int_equal(p.strategy, LOOP_2D);
        assert_int_equal(p.time.dim, small);
        assert_int_equal(p.space.dim, !small);
        assert_int_equal(p.place[small], LOOP_ROTATED);
        assert_int_equal(p.place[!small], LOOP_LOCAL);
        assert_true(p.moved == 30.0 * 8 * WORKERS);
        assert_int_equal(p.time_parts, 2 * WORKERS);
        n.ordered = true;
        p = planned(&n);
        assert_int_equal(p.strategy, LOOP_WAVEFRONT);
    }
}

/* A[i, j] from A[i - 1, j + 1] and A[i, j - 1], distances (1, -1) and (0, 1):
 * j + i never falls: (1, 0) and (0, 1). */
static void plan_of_a_falling_distance_is_skewed(void **state)
{
    struct loop_nest n = nest_2d(20, 20);
    struct loop_plan p;

    (void)state;
    touches(&n, 0, 400, AT(MLT_INDEX(0, 1)));
    touches(&n, 0, 400, AT(MLT_INDEX(0, 0)));
    touches(&n, 0, 400, AT(MLT_INDEX(0, 1)));
    for (unsigned i = 0; i < 3; i++) {
        n.access[i].axes = 2;
        n.access[i].updates = i == 0;
        n.access[i].at[0].size = n.access[i].at[1].size = 20;
        n.access[i].at[1].kind = MLT_SUBSCRIPT_INDEX;
        n.access[i].at[1].dim = 1;
    }
    n.access[0].at[1].plus = 1;
    n.access[1].at[1].plus = 2;
    p = planned(&n);
    assert_int_equal(p.strategy, LOOP_UNIMODULAR);
    assert_int_equal(p.space.dim, 0);
    assert_int_equal(p.time.dim, -1);
    assert_int_equal(p.time.by[0], 1);
    assert_int_equal(p.time.by[1], 1);
}

/* A[j] from A[j + 1], again and again: (+, 0), (+, 1), (+, -1) and (0, 1). The
 * infinity is positive, at least 1: j + i never falls. */
static void plan_of_an_infinity_that_is_positive_is_skewed(void **state)
{
    struct loop_nest n = nest_2d(20, 20);
    struct loop_plan p;

    (void)state;
    touches(&n, 0, 21, AT(MLT_INDEX(1, 0)));
    touches(&n, 0, 21, AT(MLT_INDEX(1, 1)));
    n.access[0].reads = n.access[1].updates = false;
    p = planned(&n);
    assert_int_equal(p.strategy, LOOP_UNIMODULAR);
    assert_int_equal(p.workers, WORKERS);
    assert_int_equal(p.space.by[0] + p.time.by[0], 2);
    assert_int_equal(p.space.by[1] + p.time.by[1], 1);
}

/* Of choices that move as much, the longer dimension: all have work. */
static void plan_of_equal_choices_has_work_for_all(void **state)
{
    (void)state;
    for (unsigned small = 0; small < 2; small++) {
        struct loop_nest n = nest_2d(small ? 100 : 2, small ? 2 : 100);
        struct loop_plan p;

        touches(&n, 0, 50, AT(MLT_FROM_DATA));
        touches(&n, 1, 50, AT(MLT_FROM_DATA));
        n.access[0].updates = n.access[1].reads = false;
        n.access[1].buffered = true;
        p = planned(&n);
        assert_int_equal(p.strategy, LOOP_1D);
        assert_int_equal(p.space.dim, !small);
    }
}

/* A stencil of three dimensions: the two that are split are not the one that
 * has but two values. */
static void plan_of_equal_pairs_has_work_for_all(void **state)
{
    (void)state;
    for (int small = 0; small < 3; small++) {
        struct loop_nest n = {.dims = 3, .extent = {100, 100, 100}};
        struct depends ds = {.dims = 3, .count = 3};
        struct loop_plan p;

        n.extent[small] = 2;
        for (unsigned d = 0; d < 3; d++)
            ds.vector[d].by[d].number = 1;
        plan_make(&n, &ds, WORKERS, 0, &p);
        assert_int_equal(p.strategy, LOOP_2D);
        assert_int_not_equal(p.space.dim, small);
        assert_int_not_equal(p.time.dim, small);
    }
}

/* Distances (1, -far, 0, 0), (0, 1, -far, 0) and (0, 0, 1, -far): each skewed
 * dimension has numbers far times as large as the one before it. */
static struct loop_plan plan_of_far_distances(unsigned dims, int64_t far)
{
    struct loop_nest n = {.dims = dims, .ordered = true};
    struct depends ds = {.dims = dims, .count = dims - 1};
    struct loop_plan plan;

    for (unsigned d = 0; d < dims; d++)
        n.extent[d] = UINT32_MAX;
    for (unsigned d = 0; d + 1 < dims; d++) {
        ds.vector[d].by[d].number = 1;
        ds.vector[d].by[d + 1].number = -far;
    }
    plan_make(&n, &ds, WORKERS, 0, &plan);
    return plan;
}

/* Numbers that leave an int64 are not computed with: one worker. */
static void plan_of_distances_too_large_to_skew_is_serial(void **state)
{
    const int64_t far = UINT32_MAX - 1;

    (void)state;
    assert_int_equal(plan_of_far_distances(2, far / 4).strategy,
                     LOOP_UNIMODULAR);
    assert_int_equal(plan_of_far_distances(2, far).strategy, LOOP_SERIAL);
    assert_int_equal(plan_of_far_distances(3, far).strategy, LOOP_SERIAL);
    assert_int_equal(plan_of_far_distances(4, 1000).strategy, LOOP_UNIMODULAR);
    assert_int_equal(plan_of_far_distances(4, far).strategy, LOOP_SERIAL);
}

/* A row that the data chooses, updated: one worker. Buffered: any split. */
static void plan_of_data_is_serial_unless_buffered(void **state)
{
    struct loop_nest n = nest_2d(20, 20);
    struct loop_plan p;

    (void)state;
    touches(&n, 0, 400, AT(MLT_FROM_DATA));
    p = planned(&n);
    assert_int_equal(p.strategy, LOOP_SERIAL);
    assert_int_equal(p.workers, 1);
    n.access[0].buffered = true;
    n.access[0].reads = false;
    p = planned(&n);
    assert_int_equal(p.strategy, LOOP_1D);
    assert_int_equal(p.place[0], LOOP_SERVED);
}

/* ---- cuts ---------------------------------------------------------------- */

/* Half of all iterations have index 0: ranges of equal length would give one
 * worker of four most of the work; cuts by the histogram do not. */
static void parts_are_even_where_data_is_not(void **state)
{
    enum { N = 1000 };
    static uint32_t key[N];
    struct loop_nest n = {
        .dims = 1, .extent = {N}, .iterations = N, .key = key};
    struct loop_parts parts;
    struct loop_plan p;
    uint64_t first, moved = 0;

    (void)state;
    for (uint32_t i = 0; i < N; i++)
        key[i] = i * i / N; /* dense near 0, thin near N */
    p = planned(&n);
    assert_int_equal(parts_make(&n, &p, 0, &parts), ERR_OK);
    assert_true(parts_skew(&parts, false) < 1.1);
    first = parts.start[1];
    assert_true(first > N / 4 - 40 && first < N / 4 + 40);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(parts.order[i], i); /* ranges: as given */
    parts_deinit(&parts);
    assert_int_equal(parts_make(&n, &p, 5, &parts), ERR_OK);
    assert_true(parts_skew(&parts, false) < 1.1);
    for (uint64_t i = 0; i < N; i++)
        moved += parts.order[i] != i;
    assert_true(moved > N / 2); /* dealt */
    parts_deinit(&parts);
}

/* ---- all pairs of small loops -------------------------------------------- */

/* Steps of each worker that have ended before a step begins, whatever the
 * timing: those of its own, of whom it waits for, and what those knew. */
struct known {
    unsigned steps, workers;
    unsigned ended[STEPS_MAX][8][8]; /* [step][worker][of worker] */
};

static void find_known(const struct loop_schedule *s, struct known *k)
{
    k->steps = schedule_steps(s);
    k->workers = s->workers;
    assert_true(k->steps <= STEPS_MAX && k->workers <= 8);
    for (unsigned t = 0; t < k->steps; t++)
        for (unsigned w = 0; w < k->workers; w++) {
            unsigned *ended = k->ended[t][w], other = 0;
            unsigned needs = schedule_needs(s, w, t, &other);

            for (unsigned v = 0; v < k->workers; v++) {
                ended[v] = t ? k->ended[t - 1][w][v] : 0;
                if (needs && k->ended[needs - 1][other][v] > ended[v])
                    ended[v] = k->ended[needs - 1][other][v];
            }
            if (needs && needs > ended[other])
                ended[other] = needs;
            ended[w] = t;
            assert_true(needs <= t + 1 && (!needs || other != w));
        }
}

struct placed_at {
    unsigned worker, step;
    uint64_t place;
};

/* Where each iteration runs; that each runs once. */
static void find_places(const struct loop_random *r,
                        const struct loop_parts *parts,
                        const struct loop_schedule *s, struct placed_at at[])
{
    unsigned seen[LOOP_RANDOM_ITERATIONS] = {0};

    for (unsigned w = 0; w < s->workers; w++)
        for (unsigned t = 0; t < schedule_steps(s); t++) {
            int part = schedule_part(s, w, t);
            size_t b;

            if (part < 0)
                continue;
            b = parts_block(parts, w, (unsigned)part);
            for (uint64_t i = parts->start[b]; i < parts->start[b + 1]; i++) {
                at[parts->order[i]] = (struct placed_at){w, t, i};
                seen[parts->order[i]]++;
            }
        }
    for (uint64_t i = 0; i < r->nest.iterations; i++)
        assert_int_equal(seen[i], 1);
}

static bool surely_before(const struct known *k, const struct placed_at *a,
                          const struct placed_at *b)
{
    if (a->worker == b->worker && a->step == b->step)
        return a->place < b->place;
    return k->ended[b->step][b->worker][a->worker] > a->step;
}

static void check_pairs(const struct loop_random *r, uint64_t seed,
                        const struct known *k, const struct placed_at at[])
{
    for (uint64_t i = 0; i < r->nest.iterations; i++)
        for (uint64_t j = 0; j < i; j++) {
            bool before, after;

            if (!loop_random_conflict(r, i, j))
                continue;
            before = surely_before(k, &at[i], &at[j]);
            after = surely_before(k, &at[j], &at[i]);
            if (before == after ||
                (r->nest.ordered && before != loop_random_before(r, i, j)))
                fail_msg("seed %llu: iterations %llu and %llu",
                         (unsigned long long)seed, (unsigned long long)i,
                         (unsigned long long)j);
        }
}

static bool has_infinity(const struct depends *ds)
{
    for (unsigned i = 0; i < ds->count; i++)
        for (unsigned d = 0; d < ds->dims; d++)
            if (ds->vector[i].by[d].kind == DEPEND_PLUS)
                return true;
    return false;
}

/* No two iterations that touch a common row can run at one time, whatever the
 * timing; in ordered loops they run in the serial order. Each runs once. Every
 * strategy comes up often, skewing by numbers and by infinities. */
static void plan_keeps_iterations_in_conflict_apart(void **state)
{
    static struct loop_random r;
    static struct known k;
    unsigned used[LOOP_SERIAL + 1] = {0}, infinite = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct placed_at at[LOOP_RANDOM_ITERATIONS];
        struct loop_schedule schedule;
        struct loop_parts parts;
        struct loop_plan plan;
        struct depends ds;

        loop_random_make(&r, seed);
        assert_int_equal(nest_check(&r.nest, NULL), ERR_OK);
        assert_int_equal(depend_find(&r.nest, &ds), ERR_OK);
        plan_make(&r.nest, &ds, r.workers, r.time_parts, &plan);
        assert_int_equal(parts_make(&r.nest, &plan, r.shuffle, &parts), ERR_OK);
        schedule_init(&schedule, &plan);
        find_known(&schedule, &k);
        find_places(&r, &parts, &schedule, at);
        check_pairs(&r, seed, &k, at);
        parts_deinit(&parts);
        used[plan.strategy]++;
        infinite += plan.strategy == LOOP_UNIMODULAR && has_infinity(&ds);
    }
    for (unsigned s = 0; s <= LOOP_SERIAL; s++)
        if (used[s] <= SEEDS / 200)
            fail_msg("strategy %u: %u of %d", s, used[s], SEEDS);
    if (infinite <= SEEDS / 200)
        fail_msg("skewed, with infinities: %u of %d", infinite, SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_of_one_index_is_one_dimension),
        cmocka_unit_test(plan_of_factorization_moves_the_smaller_table),
        cmocka_unit_test(plan_of_a_falling_distance_is_skewed),
        cmocka_unit_test(plan_of_an_infinity_that_is_positive_is_skewed),
        cmocka_unit_test(plan_of_equal_choices_has_work_for_all),
        cmocka_unit_test(plan_of_equal_pairs_has_work_for_all),
        cmocka_unit_test(plan_of_distances_too_large_to_skew_is_serial),
        cmocka_unit_test(plan_of_data_is_serial_unless_buffered),
        cmocka_unit_test(parts_are_even_where_data_is_not),
        cmocka_unit_test(plan_keeps_iterations_in_conflict_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
