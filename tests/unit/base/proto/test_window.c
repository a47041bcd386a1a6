#include "base/proto/window.h"

#include "tests/unit/fixture/check.h"

#include <math.h>

/* Two windows are one that ran as long as both. */
static void window_join_adds_up(void **state)
{
    struct progress_window a = {10, 4, 1, 0.5, 0.25, 0.125, 1};
    const struct progress_window b = {2, 2, 3, 1.5, 0.5, 0.25, 2};

    (void)state;
    window_join(&a, &b);
    assert_true(a.sum == 12 && a.samples == 6 && a.clocks == 4);
    assert_true(a.seconds == 2 && a.wait_s == 0.75);
    assert_true(a.copy_s == 0.375 && a.stalled_s == 3);
    assert_true(window_mean(&a) == 2);
}

/* The first sum that is not finite stays, whatever is joined. */
static void window_join_keeps_a_nonfinite_sum(void **state)
{
    struct progress_window a = {.sum = 1, .samples = 1};
    const struct progress_window up = {.sum = INFINITY, .samples = 1};
    const struct progress_window down = {.sum = -INFINITY, .samples = 1};

    (void)state;
    window_join(&a, &up);
    window_join(&a, &down);
    assert_true(isinf(a.sum) && a.sum > 0);
    assert_int_equal(a.samples, 3);
}

/* An empty window has no mean, but one that diverged says so. */
static void window_mean_of_none_is_none(void **state)
{
    const struct progress_window none = {.seconds = 1};
    const struct progress_window diverged = {.sum = -INFINITY};

    (void)state;
    assert_true(isnan(window_mean(&none)));
    assert_true(isinf(window_mean(&diverged)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_join_adds_up),
        cmocka_unit_test(window_join_keeps_a_nonfinite_sum),
        cmocka_unit_test(window_mean_of_none_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
