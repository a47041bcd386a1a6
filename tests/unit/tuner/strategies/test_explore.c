/* Exploring: values near another setting's, each within its tunable. */
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/strategies/explore.h"

#include <math.h>
#include <string.h>

static const char text[] =
    "{\"rate\": {\"type\": \"float\", \"min\": 1e-4, \"max\": 1, \"scale\": "
    "\"log\", \"default\": 0.01},"
    " \"layers\": {\"type\": \"int\", \"min\": 1, \"max\": 9, \"default\": 2},"
    " \"batch\": {\"type\": \"int\", \"values\": [16, 64, 256], \"default\": "
    "64},"
    " \"rule\": {\"type\": \"categorical\", \"values\": [\"sgd\", \"adam\", "
    "\"rmsprop\"], \"default\": \"adam\"},"
    " \"held\": {\"type\": \"float\", \"min\": 0, \"max\": 1, \"fixed\": 0.3}}";

static struct space space;
static struct setting start;

static int load(void **state)
{
    (void)state;
    assert_int_equal(space_from_text(text, &space, NULL), ERR_OK);
    space_default(&space, &start);
    return 0;
}

/* Without drawing anew each value moves by one step: the factor, one of an int,
 * the next in a list. All ways are taken. */
static void explore_moves_by_one_step(void **state)
{
    const struct explore e = {.factor = 1.25, .resample = 0};
    unsigned ups[4] = {0};
    struct rng rng;

    (void)state;
    rng_init(&rng, 7);
    for (int i = 0; i < 400; i++) {
        struct setting y;
        struct fault f;

        explore_setting(&e, &space, &start, &rng, &y);
        assert_int_equal(space_check(&space, &y, &f), ERR_OK);
        assert_true(fabs(y.value[0] - 0.0125) < 1e-12 ||
                    fabs(y.value[0] - 0.008) < 1e-12);
        assert_true(y.value[1] == 3 || y.value[1] == 1); /* 2.5, 1.6 -> 2 */
        assert_true(y.value[2] == 16 || y.value[2] == 256);
        assert_true(y.value[3] == 0 || y.value[3] == 2);
        assert_true(y.value[4] == 0.3);
        ups[0] += y.value[0] > 0.01;
        ups[1] += y.value[1] == 3;
        ups[2] += y.value[2] == 256;
        ups[3] += y.value[3] == 2;
    }
    for (int k = 0; k < 4; k++)
        assert_true(ups[k] > 150 && ups[k] < 250);
}

/* At an end of a list, and of a range. */
static void explore_stays_within(void **state)
{
    const struct explore e = {.factor = 2, .resample = 0};
    struct setting at = start;
    struct rng rng;

    (void)state;
    rng_init(&rng, 3);
    at.value[0] = 1;
    at.value[1] = 9;
    at.value[2] = 256;
    at.value[3] = 0;
    for (int i = 0; i < 100; i++) {
        struct setting y;
        struct fault f;

        explore_setting(&e, &space, &at, &rng, &y);
        assert_int_equal(space_check(&space, &y, &f), ERR_OK);
        assert_true(y.value[0] == 1 || y.value[0] == 0.5);
        assert_true(y.value[2] == 64);
        assert_true(y.value[3] == 1);
    }
}

/* Drawn anew: the whole of each scale, as often as it was asked for. */
static void explore_draws_anew(void **state)
{
    struct explore e = {.factor = 1.2, .resample = 1};
    unsigned low = 0, moved = 0;
    struct rng rng;
    struct setting y;

    (void)state;
    rng_init(&rng, 11);
    for (int i = 0; i < 1000; i++) {
        explore_setting(&e, &space, &start, &rng, &y);
        low += y.value[0] < 0.01; /* half of the logarithmic scale */
    }
    assert_true(low > 430 && low < 570);
    e.resample = 0.25;
    for (int i = 0; i < 1000; i++) {
        explore_setting(&e, &space, &start, &rng, &y);
        moved += fabs(y.value[0] - 0.012) < 1e-12 ||
                 fabs(y.value[0] - 0.01 / 1.2) < 1e-12;
    }
    assert_true(moved > 690 && moved < 810);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explore_moves_by_one_step),
        cmocka_unit_test(explore_stays_within),
        cmocka_unit_test(explore_draws_anew),
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
