/* Which runs a service keeps. */
#include "cli/service/retention.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

static const int64_t DAY = INT64_C(86400) * 1000000000;

enum { RUNS = 6 };

/* Runs that ended @age[i] days ago, in that order. */
static void make(struct retention_run run[], const double age[], size_t n)
{
    memset(run, 0, n * sizeof(*run));
    for (size_t i = 0; i < n; i++) {
        snprintf(run[i].id, sizeof(run[i].id), "run-%zu", i);
        run[i].ended_ns = 100 * DAY - (int64_t)(age[i] * (double)DAY);
    }
}

static size_t kept(struct retention r, const double age[], size_t n)
{
    struct retention_run run[RUNS];
    size_t first;

    make(run, age, n);
    first = retention_first(&r, 100 * DAY, run, n);
    for (size_t i = 1; i < n; i++)
        assert_true(run[i - 1].ended_ns >= run[i].ended_ns);
    return first;
}

/* As many stay as were said, the newest; fewer all stay. */
static void retention_number_keeps_the_newest(void **state)
{
    const double age[RUNS] = {5, 1, 4, 2, 6, 3};
    const struct retention r = {.number = 2};
    struct retention_run run[RUNS];

    (void)state;
    make(run, age, RUNS);
    assert_int_equal(retention_first(&r, 100 * DAY, run, RUNS), 2);
    assert_string_equal(run[0].id, "run-1");
    assert_string_equal(run[1].id, "run-3");
    assert_int_equal(kept((struct retention){.number = 7}, age, RUNS), RUNS);
    assert_int_equal(kept(r, age, 0), 0);
}

/* Those that ended longer ago than was said go; both limits hold at once. */
static void retention_days_and_number_hold_both(void **state)
{
    const double age[RUNS] = {1, 2, 3, 4, 5, 6};

    (void)state;
    assert_int_equal(kept((struct retention){.age_ns = 3 * DAY}, age, RUNS), 3);
    assert_int_equal(kept((struct retention){.age_ns = 9 * DAY}, age, RUNS),
                     RUNS);
    assert_int_equal(
        kept((struct retention){.age_ns = 3 * DAY, .number = 2}, age, 6), 2);
    assert_int_equal(
        kept((struct retention){.age_ns = 1 * DAY, .number = 2}, age, 6), 1);
    assert_int_equal(kept((struct retention){0}, age, RUNS), RUNS);
}

/* One that ended a moment ago stays, however many there are: somebody may be
 * about to read how it went. */
static void retention_spares_those_that_have_just_ended(void **state)
{
    const double age[4] = {0, 1e-5, 1e-4, 1};

    (void)state;
    assert_int_equal(kept((struct retention){.number = 1}, age, 4), 3);
    assert_int_equal(kept((struct retention){.number = 1}, age + 2, 2), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retention_number_keeps_the_newest),
        cmocka_unit_test(retention_days_and_number_hold_both),
        cmocka_unit_test(retention_spares_those_that_have_just_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
