/* What is counted of frames between nodes, and the priorities' names. */
#include "ps/priority.h"
#include "ps/traffic.h"
#include "tests/unit/check.h"

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

/* Nothing is left out of the sum of two nodes. */
static void traffic_of_two_nodes_is_their_sum(void **state)
{
    uint64_t a[sizeof(struct ps_traffic) / 8], b[sizeof(a) / 8];
    struct ps_traffic x, y;

    (void)state;
    for (size_t i = 0; i < sizeof(a) / 8; i++) {
        a[i] = i + 1;
        b[i] = 100 * i;
    }
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    traffic_add(&x, &y);
    memcpy(a, &x, sizeof(a));
    for (size_t i = 0; i < sizeof(a) / 8; i++)
        assert_int_equal(a[i], 101 * i + 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_rows_are_counted_by_reason),
        cmocka_unit_test(traffic_of_two_nodes_is_their_sum),
        cmocka_unit_test(priority_names_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
