#include "base/rng.h"
#include "tuner/search/summary.h"

#include "tests/unit/fixture/check.h"

#include <math.h>

static struct curve line_curve(uint32_t n, double from, double slope)
{
    struct curve c = {.len = n};

    for (uint32_t i = 0; i < n; i++)
        c.point[i] = (struct curve_point){i + 1, 10, from + slope * (i + 1)};
    return c;
}

/* A straight fall converges, and its speed is its slope. */
static void summary_straight_fall_converges_at_its_slope(void **state)
{
    struct curve c = line_curve(10, 5, -0.1);
    struct trial_figures s;

    (void)state;
    assert_int_equal(summary_of(&c, 5, NAN, &s), TRIAL_CONVERGING);
    assert_int_equal(s.points, SUMMARY_WINDOWS + 1);
    assert_true(fabs(s.speed - 0.1) < 1e-12);
    assert_true(s.noise == 0);
    assert_true(fabs(s.range + 1) < 1e-12);
    assert_true(s.loss[0] == 5 && s.time_s[0] == 0);
}

/* Every point of the trace is in some window: the newest are not dropped. */
static void summary_windows_cover_the_whole_curve(void **state)
{
    (void)state;
    for (uint32_t n = 10; n <= TRACE_WINDOWS_MAX; n++) {
        struct curve c = line_curve(n, 0, 0);
        struct trial_figures s;
        double sum = 0, counted = 0;

        for (uint32_t i = 0; i < n; i++) {
            c.point[i].loss = i + 1;
            sum += i + 1;
        }
        summary_of(&c, 0, NAN, &s);
        assert_int_equal(s.points, SUMMARY_WINDOWS + 1);
        for (uint32_t k = 1; k < s.points; k++) {
            uint32_t size = k * n / 10 - (k - 1) * n / 10;

            counted += s.loss[k] * size;
        }
        assert_true(fabs(counted - sum) < 1e-9 * sum);
        assert_true(s.seconds == n);
    }
}

/* A rise of more than a tenth of the fall makes a trace unstable, and its
 * speed pays for the rise. */
static void summary_rise_makes_unstable_and_slower(void **state)
{
    struct curve c = line_curve(10, 2, -0.1);
    struct trial_figures s;

    (void)state;
    c.point[4].loss = c.point[3].loss + 0.05;
    assert_int_equal(summary_of(&c, 2, NAN, &s), TRIAL_CONVERGING);
    c.point[4].loss = c.point[3].loss + 0.2;
    assert_int_equal(summary_of(&c, 2, NAN, &s), TRIAL_UNSTABLE);
    assert_true(fabs(s.noise - 0.2) < 1e-12);
    assert_true(fabs(s.speed - (1 - 0.2) / 10) < 1e-12);
}

/* A jump at the start that heals within the first windows is no noise; one that
 * comes or lasts later is. */
static void summary_jump_at_the_start_may_heal(void **state)
{
    struct curve c = line_curve(10, 2.5, -0.2);
    struct trial_figures s;

    (void)state;
    assert_int_equal(summary_of(&c, 2, NAN, &s), TRIAL_CONVERGING);
    assert_true(s.noise == 0);
    c.point[2].loss = 2.6; /* again above, within the transient */
    assert_int_equal(summary_of(&c, 2, NAN, &s), TRIAL_CONVERGING);
    assert_true(s.noise == 0);
    c = line_curve(10, 2, -0.2);
    c.point[3].loss = 2.6;
    assert_int_equal(summary_of(&c, 2, NAN, &s), TRIAL_UNSTABLE);
    assert_true(fabs(s.noise - (2.6 - 1.4)) < 1e-12);
}

/* Where the floor is known speed counts e-folds above it: the second fall from
 * 1 to 0.1 is worth as much as the first from 10 to 1, and noise is taken off
 * at the end. */
static void summary_speed_is_relative_above_a_floor(void **state)
{
    static const double floors[] = {0, -3, 7};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        double floor = floors[k];
        struct curve c = line_curve(10, 0, 0);
        struct trial_figures s;

        for (uint32_t i = 0; i < 10; i++)
            c.point[i].loss = floor + 10 * exp(-0.5 * (i + 1));
        assert_int_equal(summary_of(&c, floor + 10, floor, &s),
                         TRIAL_CONVERGING);
        assert_true(fabs(s.speed - 0.5) < 1e-9);
        assert_true(fabs(s.range - 10 * expm1(-5)) < 1e-9);
        c.point[9].loss = c.point[8].loss + 0.1;
        summary_of(&c, floor + 10, floor, &s);
        assert_true(fabs(s.speed - (4.5 - log1p(0.2 / 10 * exp(4.5))) / 10) <
                    1e-9);
    }
}

/* The fall that a progress takes is what makes that progress, with a floor and
 * without; below the floor there is only so much of it. */
static void summary_fall_reverses_progress(void **state)
{
    static const double floors[] = {0, 1.5, NAN, -INFINITY, 4};

    (void)state;
    for (size_t k = 0; k < 5; k++)
        for (double loss = 1.6; loss < 3; loss += 0.1) {
            double p = summary_progress(3, loss, floors[k]);

            assert_true(p > 0);
            assert_true(fabs(summary_fall(3, p, floors[k]) - (3 - loss)) <
                        1e-9);
        }
    assert_true(summary_progress(3, -1, 0) == summary_progress(3, -2, 0));
    assert_true(summary_progress(3, 4, 0) < 0);
}

/* A trace that ends higher has no speed, never a negative one. */
static void summary_rising_trace_has_no_speed(void **state)
{
    struct curve c = line_curve(20, 1, 0.01);
    struct trial_figures s;

    (void)state;
    assert_int_equal(summary_of(&c, 1, NAN, &s), TRIAL_UNSTABLE);
    assert_true(s.speed == 0);
}

/* NaN compares false with everything: it must be caught by name, wherever it
 * stands (MLtuner's own code took such branches for converging ones). */
static void summary_nonfinite_is_diverged_anywhere(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (int b = 0; b < 3; b++)
        for (uint32_t i = 0; i <= 10; i++) {
            struct curve c = line_curve(10, 5, -0.1);
            struct trial_figures s;

            if (i < 10)
                c.point[i].loss = bad[b];
            assert_int_equal(summary_of(&c, i < 10 ? 5 : bad[b], NAN, &s),
                             TRIAL_DIVERGED);
            assert_true(s.speed == 0);
        }
}

/* With a known floor, ten times the distance from it is divergence; without
 * one it is not. */
static void summary_floor_tells_divergence(void **state)
{
    struct curve c = line_curve(10, 1, 0.95);
    struct trial_figures s;

    (void)state;
    assert_int_equal(summary_of(&c, 1, 0, &s), TRIAL_DIVERGED);
    assert_int_equal(summary_of(&c, 1, NAN, &s), TRIAL_UNSTABLE);
    assert_int_equal(summary_of(&c, 1, -10, &s), TRIAL_UNSTABLE);
}

/* Fewer points than K never converge: they cannot tell noise from a fall. */
static void summary_few_points_never_converge(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 10; n++) {
        struct curve c = line_curve(n, 5, -0.1);
        struct trial_figures s;

        assert_int_equal(summary_of(&c, 5, NAN, &s), TRIAL_UNSTABLE);
        assert_int_equal(s.points, n + 1);
    }
}

/* Pure noise is called converging in less than one of a thousand traces. */
static void summary_noise_seldom_converges(void **state)
{
    struct rng rng;
    int wrong = 0, n = 20000;

    (void)state;
    rng_init(&rng, 5);
    for (int k = 0; k < n; k++) {
        struct curve c = line_curve(40, 1, 0);
        struct trial_figures s;

        for (uint32_t i = 0; i < c.len; i++)
            c.point[i].loss = rng_normal(&rng);
        wrong += summary_of(&c, rng_normal(&rng), NAN, &s) == TRIAL_CONVERGING;
    }
    assert_true(wrong < n / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_straight_fall_converges_at_its_slope),
        cmocka_unit_test(summary_windows_cover_the_whole_curve),
        cmocka_unit_test(summary_rise_makes_unstable_and_slower),
        cmocka_unit_test(summary_jump_at_the_start_may_heal),
        cmocka_unit_test(summary_speed_is_relative_above_a_floor),
        cmocka_unit_test(summary_fall_reverses_progress),
        cmocka_unit_test(summary_rising_trace_has_no_speed),
        cmocka_unit_test(summary_nonfinite_is_diverged_anywhere),
        cmocka_unit_test(summary_floor_tells_divergence),
        cmocka_unit_test(summary_few_points_never_converge),
        cmocka_unit_test(summary_noise_seldom_converges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
