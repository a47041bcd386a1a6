/* Counters of frames between nodes, and the priorities' names. */
#include "base/rng.h"
#include "ps/nodes/priority.h"
#include "ps/nodes/traffic.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <string.h>

/* A row is counted once, by why it left. */
static void traffic_rows_are_counted_by_reason(void **state)
{
    struct frame update = {.kind = FRAME_UPDATE, .count = 2, .worker = 1};
    struct frame answer = {.kind = FRAME_ROWS, .count = 3, .worker = 1};
    struct frame push = {
        .kind = FRAME_ROWS, .count = 4, .worker = FRAME_NO_WORKER};
    struct frame clocks = {.kind = FRAME_CLOCKS, .count = 5};
    struct ps_traffic t = {0}, want = {.rows_due = 2,
                                       .rows_answered = 3,
                                       .rows_pushed = 4};

    (void)state;
    traffic_count_rows(&t, &update, false, PRIORITY_COUNT);
    traffic_count_rows(&t, &answer, false, PRIORITY_COUNT);
    traffic_count_rows(&t, &push, false, PRIORITY_COUNT);
    traffic_count_rows(&t, &clocks, false, PRIORITY_COUNT);
    assert_memory_equal(&t, &want, sizeof(t));
    traffic_count_rows(&t, &update, true, PRIORITY_RELATIVE);
    traffic_count_rows(&t, &push, true, PRIORITY_RANDOM);
    want.rows_early[PRIORITY_RELATIVE] = 2;
    want.rows_pushed_early[PRIORITY_RANDOM] = 4;
    assert_memory_equal(&t, &want, sizeof(t));
}

/* Each is found by its name, and nothing else is. */
static void priority_names_are_found(void **state)
{
    (void)state;
    for (unsigned p = 0; p < PRIORITY_COUNT; p++)
        assert_int_equal(priority_find(priority_name((enum priority)p)), p);
    assert_int_equal(priority_find("relativ"), PRIORITY_COUNT);
    assert_int_equal(priority_find(""), PRIORITY_COUNT);
}

/* The best are found as sorting finds them, of equal ones the lowest rows. */
static void priority_chooses_the_best(void **state)
{
    struct candidate c[200];
    struct rng rng;

    (void)state;
    rng_init(&rng, 5);
    for (size_t n = 1; n <= 200; n++) {
        size_t want = rng_below(&rng, n + 1);

        for (size_t i = 0; i < n; i++)
            c[i] = (struct candidate){(double)rng_below(&rng, 1 + n / 3), i};
        priority_choose(c, n, want);
        for (size_t i = 0; i < want; i++)
            for (size_t k = want; k < n; k++)
                assert_true(c[i].key > c[k].key ||
                            (c[i].key == c[k].key && c[i].row < c[k].row));
    }
}

/* Value of each priority for a change of a row, and for no change. */
static void priority_keys_are_what_they_say(void **state)
{
    const float a[] = {3, 4}, b[] = {3, 1};
    const int32_t i[] = {5, -12};
    const double x[] = {1e200, 0}, zero[] = {0, 0};
    uint64_t random = 1, other = 1;

    (void)state;
    assert_true(priority_norm(MLT_F32, 2, a) == 5);
    assert_true(priority_distance(MLT_F32, 2, a, b) == 3);
    assert_true(priority_norm(MLT_I32, 2, i) == 13);
    assert_true(priority_distance(MLT_I32, 1, i, i + 1) == 17);
    assert_true(priority_norm(MLT_F64, 2, zero) == 0);
    assert_true(priority_distance(MLT_F64, 2, zero, zero) == 0);
    assert_true(isinf(priority_norm(MLT_F64, 2, x))); /* first, too */
    assert_true(priority_key(PRIORITY_ABSOLUTE, 6, 3, &random) == 6);
    assert_true(priority_key(PRIORITY_RELATIVE, 6, 3, &random) == 2);
    assert_true(priority_key(PRIORITY_RELATIVE, 6, 0, &random) == 6);
    assert_true(priority_key(PRIORITY_RELATIVE, NAN, 3, &random) == INFINITY);
    assert_true(priority_key(PRIORITY_ROUND_ROBIN, 6, 3, &random) ==
                priority_key(PRIORITY_ROUND_ROBIN, 1, 1, &random));
    assert_true(priority_key(PRIORITY_RANDOM, 6, 3, &random) !=
                priority_key(PRIORITY_RANDOM, 6, 3, &random));
    priority_key(PRIORITY_RANDOM, 1, 1, &other);
    priority_key(PRIORITY_RANDOM, 2, 2, &other);
    assert_int_equal(random, other); /* a seed decides */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_rows_are_counted_by_reason),
        cmocka_unit_test(priority_names_are_found),
        cmocka_unit_test(priority_chooses_the_best),
        cmocka_unit_test(priority_keys_are_what_they_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
