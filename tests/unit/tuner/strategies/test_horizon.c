/* The horizon: what an epoch takes, and how many fit into what is left
 * of the run's time. */
#include "tests/unit/fixture/check.h"
#include "tuner/strategies/horizon.h"

#include <math.h>

static void horizon_unknown_leaves_the_last_epoch(void **state)
{
    struct horizon p;

    (void)state;
    horizon_init(&p);
    assert_int_equal(horizon_last(&p, 3, 20, 1), 20);
    assert_int_equal(horizon_last(&p, 20, 20, 1), 20);
    assert_int_equal(horizon_last(&p, 21, 20, 1), 21);
    horizon_epoch(&p, 5, 0);
    assert_int_equal(horizon_last(&p, 3, 20, 1), 20);
}

/* The first epoch counts by its work, the next by the time between ends; one
 * that was held up moves it by half. */
static void horizon_is_the_time_between_ends(void **state)
{
    struct horizon p;

    (void)state;
    horizon_init(&p);
    horizon_epoch(&p, 10, 2);
    assert_true(p.epoch_s == 2);
    horizon_epoch(&p, 14, 3);
    assert_true(p.epoch_s == 3);
    horizon_epoch(&p, 23, 3);
    assert_true(p.epoch_s == 6);
}

static void horizon_leaves_searches_out(void **state)
{
    struct horizon p;

    (void)state;
    horizon_init(&p);
    horizon_epoch(&p, 10, 2);
    horizon_interrupt(&p);
    horizon_epoch(&p, 500, 2);
    assert_true(p.epoch_s == 2);
    horizon_change(&p, 7);
    assert_true(p.epoch_s == 7);
    horizon_epoch(&p, 900, 9);
    assert_true(p.epoch_s == 8);
    horizon_change(&p, 0);
    assert_int_equal(horizon_last(&p, 3, 20, 1), 20);
}

static void horizon_counts_whole_epochs(void **state)
{
    struct horizon p;

    (void)state;
    horizon_init(&p);
    horizon_epoch(&p, 10, 2);
    assert_int_equal(horizon_last(&p, 3, 20, 7.9), 6);
    assert_int_equal(horizon_last(&p, 3, 20, 1.9), 3);
    assert_int_equal(horizon_last(&p, 3, 20, -1), 3);
    assert_int_equal(horizon_last(&p, 3, 20, 34), 20);
    assert_int_equal(horizon_last(&p, 3, 20, INFINITY), 20);
    assert_int_equal(horizon_last(&p, 3, UINT32_MAX, 1e300), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(horizon_unknown_leaves_the_last_epoch),
        cmocka_unit_test(horizon_is_the_time_between_ends),
        cmocka_unit_test(horizon_leaves_searches_out),
        cmocka_unit_test(horizon_counts_whole_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
