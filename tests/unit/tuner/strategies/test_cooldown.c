/* The cooldown of a run's last epochs: when it begins, and how far the rate
 * falls. */
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/strategies/cooldown.h"

#include <math.h>

#define RATE_RANGE                                                             \
    "\"learning_rate\": {\"type\": \"float\", \"min\": 0.001, \"max\": 1, "    \
    "\"scale\": \"log\", \"default\": 0.1"
#define DROPOUT                                                                \
    "\"dropout\": {\"type\": \"float\", \"min\": 0, \"max\": 0.5, "            \
    "\"default\": 0.1}"

static void expect_near(double a, double b)
{
    if (fabs(a - b) > 1e-6)
        fail_msg("%g is not %g", a, b);
}

static void space_of_text(const char *text, struct space *out)
{
    struct fault f = {0};

    if (space_from_text(text, out, &f))
        fail_msg("%s", f.text);
}

static bool possible(const char *text)
{
    struct space space;

    space_of_text(text, &space);
    return cooldown_possible(&space);
}

/* Only a learning rate that may be any number of a range falls. */
static void cooldown_needs_a_rate_that_may_fall(void **state)
{
    struct space space;

    (void)state;
    assert_true(possible("{" RATE_RANGE "}, " DROPOUT "}"));
    assert_false(possible("{" DROPOUT "}"));
    assert_false(possible("{" RATE_RANGE ", \"retune\": false}}"));
    assert_false(possible("{" RATE_RANGE ", \"fixed\": 0.1}}"));
    assert_false(possible("{\"learning_rate\": {\"type\": \"float\", "
                          "\"values\": [0.1, 1], \"default\": 1}}"));
    space_of_text("{" RATE_RANGE "}}", &space);
    space.tunable[0].acts = false;
    assert_false(cooldown_possible(&space));
}

/* It takes its share of the epochs, rounded up, and never the first one. */
static void cooldown_takes_its_share(void **state)
{
    static const struct {
        double share;
        uint32_t max, from; /* the first epochs after which it is near */
    } rows[] = {
        {0.25, 100, 75}, {0.25, 10, 7}, {0.25, 4, 3},  {0.25, 2, 1},
        {0.25, 1, 1},    {1, 5, 1},     {0, 100, 100},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cooldown d = {.share = rows[i].share};

        for (uint32_t e = 0; e <= rows[i].max; e++)
            assert_int_equal(cooldown_near(&d, e, rows[i].max),
                             e >= rows[i].from && e < rows[i].max);
    }
}

/* It may begin early in the second half, when no more epochs are left than the
 * patience. */
static void cooldown_may_begin_early(void **state)
{
    static const struct {
        double share;
        uint32_t max, patience, from;
    } rows[] = {
        {0.25, 10, 5, 5}, {0.25, 12, 5, 7},   {0.25, 6, 5, 3},
        {0.25, 3, 5, 2},  {0.25, 100, 5, 75}, {0.25, 40, 20, 20},
        {0.25, 1, 5, 1},  {0, 10, 5, 10},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cooldown d = {.share = rows[i].share};

        for (uint32_t e = 0; e <= rows[i].max; e++)
            assert_int_equal(
                cooldown_early(&d, e, rows[i].max, rows[i].patience),
                e >= rows[i].from && e < rows[i].max);
    }
}

/* It is certain where patience is a third of the run, and there is one. */
static void cooldown_is_certain_where_patience_is_long(void **state)
{
    static const struct {
        double share;
        uint32_t max, patience;
        bool certain;
    } rows[] = {
        {0.25, 60, 20, true},  {0.25, 61, 20, false}, {0.25, 30, 10, true},
        {0.25, 31, 10, false}, {0.25, 30, 5, false},  {0.25, 29, 29, false},
        {0.25, 1, 1, false},   {0, 60, 20, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cooldown d = {.share = rows[i].share};

        assert_int_equal(cooldown_certain(&d, rows[i].max, rows[i].patience),
                         rows[i].certain);
    }
}

/* The rate falls as 1 - sqrt, from below the first to almost nothing; all else
 * stays. A later end makes it fall more slowly. */
static void cooldown_falls_to_nearly_nothing(void **state)
{
    struct space space;
    struct setting x, y;
    struct cooldown d = {.share = 0.25};

    (void)state;
    space_of_text("{" DROPOUT ", " RATE_RANGE "}}", &space);
    space_default(&space, &x);
    y = cooldown_setting(&d, &x, 5, 10);
    assert_true(space_equal(&space, &x, &y)); /* it has not begun */
    cooldown_begin(&d, &space, 6, &x);
    expect_near(cooldown_setting(&d, &x, 6, 10).value[1],
                0.1 * (1 - sqrt(1.0 / 8)));
    expect_near(cooldown_setting(&d, &x, 7, 10).value[1],
                0.1 * (1 - sqrt(3.0 / 8)));
    y = cooldown_setting(&d, &x, 9, 10);
    expect_near(y.value[1], 0.1 * (1 - sqrt(7.0 / 8)));
    expect_near(y.value[0], 0.1);
    expect_near(cooldown_before(&d, &y).value[1], 0.1);
    assert_true(cooldown_setting(&d, &x, 9, 20).value[1] > y.value[1]);
    assert_true(cooldown_setting(&d, &x, 9, 8).value[1] > 0);
    cooldown_reset(&d);
    expect_near(cooldown_before(&d, &y).value[1], y.value[1]);
}

/* What epochs take is estimated anew after each: where more of them fit than
 * was thought the rate stays where it is until it would be there. */
static void cooldown_never_rises(void **state)
{
    struct space space;
    struct setting x, y;
    struct cooldown d = {.share = 0.5};

    (void)state;
    space_of_text("{" DROPOUT ", " RATE_RANGE "}}", &space);
    space_default(&space, &x);
    cooldown_begin(&d, &space, 5, &x);
    y = cooldown_setting(&d, &x, 8, 10);
    cooldown_takes(&d, &y);
    expect_near(cooldown_setting(&d, &x, 9, 30).value[1], y.value[1]);
    assert_true(cooldown_setting(&d, &x, 28, 30).value[1] < y.value[1]);
    y = cooldown_before(&d, &y);
    expect_near(y.value[1], x.value[1]);
}

/* Without progress it takes its share of the epochs that are over, and no more
 * than are left. */
static void cooldown_ends_a_run_without_progress(void **state)
{
    static const struct {
        double share;
        uint32_t epochs, max, last;
    } rows[] = {
        {0.25, 20, 100, 25}, {0.25, 1, 100, 2}, {0.25, 9, 100, 12},
        {0.25, 20, 22, 22},  {0.25, 20, 20, 0}, {0, 20, 100, 0},
        {1, 7, 100, 14},     {0.25, 1, 2, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cooldown d = {.share = rows[i].share};

        assert_int_equal(cooldown_last(&d, rows[i].epochs, rows[i].max),
                         rows[i].last);
    }
}

/* It is over with its last epoch, or at its half if it brings nothing; its rate
 * falls over its own epochs. That of the run's last epochs ends by these. */
static void cooldown_without_gain_is_over_at_its_half(void **state)
{
    struct space space;
    struct setting x;
    struct cooldown d = {.share = 0.25};

    (void)state;
    space_of_text("{" DROPOUT ", " RATE_RANGE "}}", &space);
    space_default(&space, &x);
    cooldown_begin(&d, &space, 20, &x);
    assert_false(cooldown_over(&d, 100, 100));
    d.end = 25;
    assert_false(cooldown_over(&d, 20, 5));
    assert_false(cooldown_over(&d, 22, 7)); /* not yet at its half */
    assert_true(cooldown_over(&d, 23, 8));
    assert_false(cooldown_over(&d, 23, 2)); /* it has brought something */
    assert_true(cooldown_over(&d, 25, 0));
    expect_near(cooldown_setting(&d, &x, 24, 100).value[1],
                0.1 * (1 - sqrt(9.0 / 10)));
    expect_near(cooldown_setting(&d, &x, 21, 22).value[1],
                0.1 * (1 - sqrt(3.0 / 4)));
    cooldown_reset(&d);
    assert_false(cooldown_over(&d, 25, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cooldown_needs_a_rate_that_may_fall),
        cmocka_unit_test(cooldown_takes_its_share),
        cmocka_unit_test(cooldown_may_begin_early),
        cmocka_unit_test(cooldown_is_certain_where_patience_is_long),
        cmocka_unit_test(cooldown_falls_to_nearly_nothing),
        cmocka_unit_test(cooldown_never_rises),
        cmocka_unit_test(cooldown_ends_a_run_without_progress),
        cmocka_unit_test(cooldown_without_gain_is_over_at_its_half),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
