/* Compact indexes of rows, and the buffers that lie by them. */
#include "ps/rows/slots.h"

#include "base/mem.h"
#include "base/rng.h"
#include "ps/rows/update.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

enum { ROWS = 10000 };

/* Whatever order rows come in: each has one slot, slots are given in turn, and
 * a row keeps its own while others come. */
static void slots_are_kept(void **state)
{
    static uint32_t slot[ROWS];
    struct slots s;
    struct rng rng;
    uint32_t given = 0;

    (void)state;
    rng_init(&rng, 16);
    memset(slot, 0xff, sizeof(slot));
    assert_int_equal(slots_init(&s, ROWS, false), ERR_OK);
    for (int i = 0; i < 5 * ROWS; i++) {
        uint64_t row = rng_below(&rng, i % 3 ? ROWS : 700);
        uint64_t got;

        assert_int_equal(slots_has(&s, row), slot[row] != UINT32_MAX);
        got = slots_take(&s, row);
        if (slot[row] == UINT32_MAX)
            slot[row] = given++;
        assert_int_equal(got, slot[row]);
        if (i % 997 == 0 || i == 5 * ROWS - 1)
            for (uint64_t r = 0; r < ROWS; r++)
                if (slot[r] != UINT32_MAX)
                    assert_int_equal(slots_of(&s, r), slot[r]);
    }
    assert_int_equal(slots_used(&s), given);
    slots_deinit(&s);
}

/* What was outgrown is used again, and a forgotten index begins anew. */
static void slots_forgotten_begin_anew(void **state)
{
    struct slots s;

    (void)state;
    assert_int_equal(slots_init(&s, ROWS, false), ERR_OK);
    for (int round = 0; round < 3; round++) {
        for (uint64_t r = ROWS; r-- > 0;)
            assert_int_equal(slots_take(&s, r), ROWS - 1 - r);
        for (uint64_t r = 0; r < ROWS; r++)
            assert_int_equal(slots_of(&s, r), ROWS - 1 - r);
        slots_forget(&s);
        for (uint64_t r = 0; r < ROWS; r++)
            assert_false(slots_has(&s, r));
    }
    slots_deinit(&s);
}

/* Where an index would save less than half it becomes dense, and not before;
 * dense from the start it costs nothing. */
static void slots_settle_when_most_is_touched(void **state)
{
    int64_t before = mem_outstanding();
    struct slots s;

    (void)state;
    assert_int_equal(slots_init(&s, ROWS, false), ERR_OK);
    for (uint64_t r = 0; r < ROWS * 4 / 10; r++)
        (void)slots_take(&s, 2 * r);
    assert_false(slots_settle(&s, 64)); /* 4000 * 72 * 2 < 10000 * 64 */
    assert_true(slots_has(&s, 2) && !slots_has(&s, 3));
    for (uint64_t r = 0; r < ROWS / 10; r++)
        (void)slots_take(&s, 2 * r + 1);
    assert_true(slots_settle(&s, 64));
    for (uint64_t r = 0; r < ROWS; r++)
        assert_true(slots_has(&s, r) && slots_of(&s, r) == r);
    assert_false(slots_settle(&s, 64));
    slots_deinit(&s);
    assert_int_equal(slots_init(&s, ROWS, true), ERR_OK);
    assert_true(mem_outstanding() == before);
    assert_int_equal(slots_take(&s, 7), 7);
    slots_deinit(&s);
}

/* Each allocation may fail, and leaves nothing. */
static void slots_without_memory_are_refused(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (int n = 1;; n++) {
        struct update u;
        enum err err;

        mem_fail_at(n, 0);
        err = update_init(&u, ROWS, 8, 0);
        mem_fail_at(0, 0);
        if (err == ERR_OK) {
            update_deinit(&u);
            assert_true(n > 4);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_true(mem_outstanding() == before);
    }
    assert_true(mem_outstanding() == before);
}

/* A buffer that is sparse, becomes dense, or was so from the start: the sums of
 * each clock are the same, and none moves within a clock. */
static void update_is_the_same_in_all_forms(void **state)
{
    struct update sparse, dense;
    struct rng rng;
    bool became = false;

    (void)state;
    rng_init(&rng, 3);
    assert_int_equal(update_init(&sparse, ROWS, 8, 0), ERR_OK);
    assert_int_equal(update_init(&dense, ROWS, 8, ROWS * 8), ERR_OK);
    for (int clock = 0; clock < 12; clock++) {
        struct update *u[2] = {&sparse, &dense};
        const struct update *one[1] = {&sparse};
        struct update_walk walk;
        uint64_t row, n = 0;
        double *first = NULL;
        uint64_t first_row = 0;

        for (int i = 0; i < 1500; i++) {
            double add = (double)rng_below(&rng, 1000) / 7;

            row = rng_below(&rng, clock < 4 ? ROWS / 8 : ROWS);
            for (int k = 0; k < 2; k++) {
                bool has = update_has(u[k], row);
                double *sum =
                    has ? update_row(u[k], row) : update_take(u[k], row);

                *sum = has ? *sum + add : add;
                if (!first && k == 0) {
                    first = sum;
                    first_row = row;
                }
            }
        }
        assert_ptr_equal(first, update_row(&sparse, first_row));
        update_walk_init(&walk, 0, ROWS);
        while (update_walk_next(&walk, one, 1, &row)) {
            assert_true(update_has(&dense, row));
            assert_memory_equal(update_row(&sparse, row),
                                update_row(&dense, row), 8);
            n++;
        }
        assert_true(n > 500);
        update_clear(&sparse);
        update_clear(&dense);
        became |= sparse.slots.state->dense;
        assert_true(clock >= 3 || !became);
    }
    assert_true(became);
    update_deinit(&sparse);
    update_deinit(&dense);
}

/* Rows of a run are touched, and no others, and the walk gives them as the run
 * that they are, in words, and before an end; a run with a row that has a sum,
 * and one of a buffer by slots, is refused and changes nothing. */
static void update_takes_and_gives_runs(void **state)
{
    static const uint64_t runs[][2] = {{0, 64}, {100, 1}, {127, 130}, {300, 7}};
    static const uint64_t given[][2] = {{0, 64},   {100, 1},  {127, 1},
                                        {128, 64}, {192, 64}, {256, 1},
                                        {300, 4},  {304, 3}};
    struct update sparse, dense;
    const struct update *one[1] = {&dense};
    struct update_walk walk;
    uint64_t row = 0;

    (void)state;
    assert_int_equal(update_init(&sparse, ROWS, 8, 0), ERR_OK);
    assert_int_equal(update_init(&dense, ROWS, 8, ROWS * 8), ERR_OK);
    assert_null(update_take_run(&sparse, 0, 64));
    assert_true(update_is_empty(&sparse));
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(update_take_run(&dense, runs[i][0], runs[i][1]),
                         update_row(&dense, runs[i][0]));
    assert_null(update_take_run(&dense, 250, 7));
    assert_null(update_take_run(&dense, 60, 41));
    update_walk_init(&walk, 0, ROWS);
    for (size_t i = 0; i < 8; i++) {
        assert_true(update_walk_next(&walk, one, 1, &row));
        assert_int_equal(row, given[i][0]);
        assert_int_equal(update_walk_run(&walk, row, row < 304 ? 304 : ROWS),
                         given[i][1]);
    }
    assert_false(update_walk_next(&walk, one, 1, &row));
    update_deinit(&sparse);
    update_deinit(&dense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_kept),
        cmocka_unit_test(slots_forgotten_begin_anew),
        cmocka_unit_test(slots_settle_when_most_is_touched),
        cmocka_unit_test(slots_without_memory_are_refused),
        cmocka_unit_test(update_is_the_same_in_all_forms),
        cmocka_unit_test(update_takes_and_gives_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
