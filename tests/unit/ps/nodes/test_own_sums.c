#include "ps/nodes/own_sums.h"

#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

enum { WIDTH = 2, ROWS = 7, SUMS = 2000 };

static struct table ints(uint64_t rows)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "mine",
                                    .rows = rows,
                                    .width = WIDTH,
                                    .type = MLT_I32,
                                    .flags = MLT_READ_MY_WRITES};
    struct table t;

    assert_int_equal(table_init(&t, &opt, NULL, NULL), ERR_OK);
    return t;
}

/* All that was ever added, and by which frame: what a ring forgets, this does
 * not. */
struct book {
    uint32_t n;
    uint64_t frame[SUMS], row[SUMS];
    int32_t value[SUMS];
};

static int32_t expected(const struct book *b, uint64_t row, uint64_t through)
{
    int32_t sum = 0;

    for (uint32_t i = 0; i < b->n; i++)
        if (b->row[i] == row && b->frame[i] > through)
            sum += b->value[i];
    return sum;
}

static void add(struct own_sums *s, struct book *b, uint32_t last[],
                uint64_t frame, uint64_t row, int32_t value)
{
    int32_t sum[WIDTH] = {value, -value};

    last[row] = own_sums_add(s, frame, row, last[row], sum);
    b->frame[b->n] = frame;
    b->row[b->n] = row;
    b->value[b->n++] = value;
}

/* Whatever leaves and is applied, in whatever sizes of frames, rows that are
 * sent anew get exactly the sums that left later: of rings of one sum and of
 * many, which go round many times. */
static void own_sums_give_what_is_not_applied(void **state)
{
    struct table t = ints(ROWS);

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t last[ROWS] = {0};
        uint64_t sent = 0, applied = 0;
        struct book b = {0};
        struct own_sums s;
        struct rng rng;

        rng_init(&rng, seed);
        assert_int_equal(
            own_sums_init(&s, 1 + (uint32_t)(seed % 19), WIDTH * 4), ERR_OK);
        while (b.n < SUMS) {
            uint64_t through, row = rng_below(&rng, ROWS);
            int32_t values[WIDTH] = {5, 5};

            sent++;
            for (uint64_t k = rng_below(&rng, 6);
                 k && own_sums_free(&s) && b.n < SUMS; k--)
                add(&s, &b, last, sent, rng_below(&rng, ROWS),
                    (int32_t)(1 + rng_below(&rng, 1000)));
            if (rng_below(&rng, 2)) {
                applied += rng_below(&rng, sent - applied + 1);
                own_sums_applied(&s, applied);
            }
            /* The shard's next row holds all of these, or more. */
            through = applied + rng_below(&rng, sent - applied + 1);
            own_sums_put(&s, &t, row, last[row], through, values);
            assert_int_equal(values[0], 5 + expected(&b, row, through));
            assert_int_equal(values[1], 5 - expected(&b, row, through));
        }
        own_sums_deinit(&s);
    }
}

/* A clock of all workers has room, and large tables no more than so many bytes;
 * a row that is wider has room for one. */
static void own_sums_have_bounded_room(void **state)
{
    struct table t = ints(ROWS);

    (void)state;
    assert_int_equal(own_sums_room(&t, ROWS, 3), ROWS * 3);
    assert_int_equal(own_sums_room(&t, 0, 3), 1);
    assert_true(own_sums_bytes(&t, own_sums_room(&t, 1 << 30, 3)) <=
                OWN_SUMS_BYTES);
    assert_true(own_sums_bytes(&t, own_sums_room(&t, 1 << 30, 3) + 1) >
                OWN_SUMS_BYTES);
    t.value_bytes = 2 * (uint32_t)OWN_SUMS_BYTES;
    assert_int_equal(own_sums_room(&t, ROWS, 3), 1);
}

/* They are kept where the flag is and nobody waits for all. */
static void own_sums_are_of_tables_that_ask_for_them(void **state)
{
    struct table t = ints(ROWS);

    (void)state;
    assert_true(own_sums_are_kept(&t, false));
    assert_false(own_sums_are_kept(&t, true));
    t.flags = 0;
    assert_false(own_sums_are_kept(&t, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_sums_give_what_is_not_applied),
        cmocka_unit_test(own_sums_have_bounded_room),
        cmocka_unit_test(own_sums_are_of_tables_that_ask_for_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
