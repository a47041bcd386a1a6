#include "ps/nodes/access.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

enum { ROWS = 40, NODES = 3, EACH = 2, WORKERS = NODES * EACH };

static struct access *open_access(void)
{
    struct access *a = NULL;

    assert_int_equal(access_new(ROWS, NODES, WORKERS, &a), ERR_OK);
    return a;
}

static void touch(struct access *a, uint32_t worker, uint64_t row,
                  uint32_t clocks)
{
    access_weigh(a, worker, row, clocks);
}

static const uint64_t first[NODES] = {0, 10, 30}, count[NODES] = {10, 20, 10};

static uint32_t node_of(uint64_t place)
{
    return place < 10 ? 0 : place < 30 ? 1 : 2;
}

static void assert_permutation(const uint64_t place[ROWS])
{
    bool taken[ROWS] = {false};

    for (uint64_t r = 0; r < ROWS; r++) {
        assert_true(place[r] < ROWS && !taken[place[r]]);
        taken[place[r]] = true;
    }
}

/* A row lies where it is touched in most clocks; without any knowledge rows
 * stay in order. */
static void access_place_is_where_rows_are_touched(void **state)
{
    struct access *a = open_access();
    uint64_t place[ROWS];

    (void)state;
    assert_int_equal(access_place(a, first, count, place), ERR_OK);
    for (uint64_t r = 0; r < ROWS; r++)
        assert_true(place[r] == r);
    touch(a, 0, 35, 1);
    touch(a, 5, 2, 3);
    touch(a, 1, 2, 2);
    touch(a, 2, 20, 2);
    touch(a, 4, 20, 1);
    assert_int_equal(access_place(a, first, count, place), ERR_OK);
    assert_permutation(place);
    assert_int_equal(node_of(place[35]), 0);
    assert_int_equal(node_of(place[2]), 2);
    assert_int_equal(node_of(place[20]), 1);
    access_free(a);
}

/* Where a node has no room for all that want it, those stay that would lose
 * most elsewhere. */
static void access_place_full_node_keeps_what_loses_most(void **state)
{
    struct access *a = open_access();
    uint64_t place[ROWS];

    (void)state;
    for (uint64_t r = 0; r < 14; r++) {
        touch(a, 0, r, 3);
        touch(a, 3, r, r < 4 ? 2 : 1);
    }
    assert_int_equal(access_place(a, first, count, place), ERR_OK);
    assert_permutation(place);
    for (uint64_t r = 0; r < 14; r++)
        assert_int_equal(node_of(place[r]), r < 4);
    access_free(a);
}

/* Cost of the rows' placement: clocks in which a node touches a row that
 * lies elsewhere. */
static uint64_t cost(const uint64_t place[ROWS], uint32_t clocks[WORKERS][ROWS])
{
    uint64_t sum = 0;

    for (uint32_t w = 0; w < WORKERS; w++)
        for (uint64_t r = 0; r < ROWS; r++)
            if (node_of(place[r]) != w / EACH)
                sum += clocks[w][r];
    return sum;
}

/* Whatever is touched: a permutation, never worse than rows in order. */
static void access_place_is_never_worse(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint32_t clocks[WORKERS][ROWS] = {{0}};
        struct access *a = open_access();
        uint64_t place[ROWS], in_order[ROWS];
        struct rng rng;

        rng_init(&rng, seed);
        for (int i = 0; i < 200; i++) {
            /* One worker a node, so that clocks of a node are a worker's. */
            uint32_t w = EACH * (uint32_t)rng_below(&rng, NODES);
            uint64_t r = rng_below(&rng, ROWS);

            touch(a, w, r, ++clocks[w][r]);
        }
        for (uint64_t r = 0; r < ROWS; r++)
            in_order[r] = r;
        assert_int_equal(access_place(a, first, count, place), ERR_OK);
        assert_permutation(place);
        assert_true(cost(place, clocks) <= cost(in_order, clocks));
        access_free(a);
    }
}

static enum err gather_and_use(void)
{
    uint64_t place[ROWS];
    struct access *a = NULL;
    enum err err = access_new(ROWS, NODES, WORKERS, &a);

    if (!err) {
        access_weigh(a, 0, 1, 3);
        err = access_place(a, first, count, place);
    }
    access_free(a);
    return err;
}

/* Wherever memory ends, it is said and nothing is kept. */
static void access_without_memory_fails_clean(void **state)
{
    int64_t before = mem_outstanding();
    enum err err;
    int64_t nth = 0;

    (void)state;
    do {
        mem_fail_at(++nth, 1);
        err = gather_and_use();
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    } while (err);
    assert_true(nth > WORKERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_place_is_where_rows_are_touched),
        cmocka_unit_test(access_place_full_node_keeps_what_loses_most),
        cmocka_unit_test(access_place_is_never_worse),
        cmocka_unit_test(access_without_memory_fails_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
