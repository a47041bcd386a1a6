#include "base/rng.h"
#include "tuner/board/plateau.h"
#include "tuner/board/trace.h"

#include "tests/unit/fixture/check.h"

#include <math.h>

static double sum_of(const struct trace *t)
{
    double sum = 0;

    for (uint32_t i = 0; i < t->len; i++)
        sum += t->window[i].sum;
    return sum;
}

/* However many windows come, memory is bounded and nothing is lost. */
static void trace_keeps_everything_in_bounded_memory(void **state)
{
    struct trace t;
    double sum = 0, seconds = 0;

    (void)state;
    trace_init(&t);
    for (uint32_t i = 0; i < 10000; i++) {
        uint64_t samples = 0;
        double spent = 0;

        trace_add(&t, i, 10, 0.5, i / 117);
        sum += i;
        seconds += 0.5;
        assert_true(t.len <= TRACE_WINDOWS_MAX);
        for (uint32_t k = 0; k < t.len; k++) {
            samples += t.window[k].samples;
            spent += t.window[k].seconds;
        }
        assert_int_equal(samples, 10 * (i + 1));
        assert_true(fabs(spent - seconds) < 1e-6);
    }
    assert_true(fabs(sum_of(&t) - sum) < 1e-3);
    assert_int_equal(t.reported, 10000);
    assert_int_equal(t.samples, 100000);
}

/* Windows are not joined over the end of an epoch while an epoch has many, so
 * that siblings' windows go on ending at the same samples. */
static void trace_joins_within_epochs(void **state)
{
    struct trace t;

    (void)state;
    trace_init(&t);
    for (uint32_t e = 0; e < 3; e++)
        for (uint32_t i = 0; i < 117; i++)
            trace_add(&t, 1, 10, 1, e);
    for (uint32_t k = 0; k < t.len; k++)
        assert_true(t.window[k].reported <= t.merge);
    for (uint32_t e = 0; e < 3; e++) {
        uint64_t n = 0;

        for (uint32_t k = 0; k < t.len; k++)
            n += t.window[k].epoch == e ? t.window[k].reported : 0;
        assert_int_equal(n, 117);
    }
}

/* A trace is restored from its windows, and goes on as it would have. */
static void trace_is_restored_and_goes_on(void **state)
{
    struct trace t, r;

    (void)state;
    for (uint32_t n = 1; n < 400; n += 7) {
        trace_init(&t);
        for (uint32_t i = 0; i < n; i++)
            trace_add(&t, i, 10, 0.5, i / 117);
        assert_true(trace_restore(&r, t.merge, t.window, t.len));
        for (uint32_t i = n; i < n + 500; i++) {
            trace_add(&t, i, 10, 0.5, i / 117);
            trace_add(&r, i, 10, 0.5, i / 117);
        }
        assert_int_equal(r.len, t.len);
        assert_int_equal(r.merge, t.merge);
        assert_int_equal(r.samples, t.samples);
        assert_int_equal(r.reported, t.reported);
        assert_true(r.seconds == t.seconds);
        for (uint32_t k = 0; k < t.len; k++)
            assert_memory_equal(&r.window[k], &t.window[k],
                                sizeof(t.window[k]));
    }
}

/* What is no trace's is refused: whatever was added to it might never end. */
static void trace_is_not_restored_from_what_is_none(void **state)
{
    const struct trace_window good[2] = {{1, 0.5, 10, 2, 0},
                                         {1, 0.5, 10, 2, 1}};
    struct trace_window bad[2];
    struct trace t;

    (void)state;
    assert_true(trace_restore(&t, 2, good, 2));
    assert_true(trace_restore(&t, 1, good, 0));
    assert_true(trace_restore(&t, TRACE_MERGE_MAX, good, 2));
    assert_false(trace_restore(&t, 0, good, 2));
    assert_false(trace_restore(&t, 3, good, 2));
    assert_false(trace_restore(&t, TRACE_MERGE_MAX * 2, good, 2));
    assert_false(trace_restore(&t, 1, good, 2)); /* windows of two */
    assert_false(trace_restore(&t, 2, good, TRACE_WINDOWS_MAX + 1));
#define BAD(member, value)                                                     \
    memcpy(bad, good, sizeof(bad));                                            \
    bad[0].member = (value);                                                   \
    assert_false(trace_restore(&t, 2, bad, 2))
    BAD(sum, NAN);
    BAD(seconds, -1);
    BAD(seconds, INFINITY);
    BAD(reported, 0);
    BAD(epoch, 2); /* then comes 1 */
    BAD(samples, UINT64_MAX);
#undef BAD
}

/* Many epochs of one window each fit as well. */
static void trace_takes_many_short_epochs(void **state)
{
    struct trace t;

    (void)state;
    trace_init(&t);
    for (uint32_t e = 0; e < 5000; e++)
        trace_add(&t, 2, 10, 1, e);
    assert_true(t.len <= TRACE_WINDOWS_MAX);
    assert_true(sum_of(&t) == 10000);
}

/* Something that is not finite marks the trace and stays out of its sums. */
static void trace_marks_what_is_not_finite(void **state)
{
    struct trace t;

    (void)state;
    trace_init(&t);
    trace_add(&t, 1, 10, 1, 0);
    trace_add(&t, NAN, 10, 1, 0);
    assert_true(t.nonfinite);
    assert_true(isfinite(sum_of(&t)));
    assert_true(t.seconds == 2);
}

/* A window without samples adds its time to the one before. */
static void trace_empty_window_only_takes_time(void **state)
{
    struct trace t;
    struct curve c;

    (void)state;
    trace_init(&t);
    trace_add(&t, 5, 10, 1, 0);
    trace_add(&t, 0, 0, 3, 0);
    trace_add(&t, 4, 10, 1, 0);
    trace_curve(&t, &c);
    assert_int_equal(c.len, 2);
    assert_true(c.point[0].seconds == 4);
    assert_true(c.point[1].loss == 0.4);
}

/* Against a sibling over the same samples, what the choice of samples adds
 * cancels, at whatever granularity each was reported. */
static void trace_against_a_sibling_cancels_noise(void **state)
{
    struct trace probe, fine, coarse;
    struct curve c;
    struct rng rng;

    (void)state;
    rng_init(&rng, 3);
    trace_init(&probe);
    trace_init(&fine);
    trace_init(&coarse);
    for (uint32_t i = 0; i < 60; i++) {
        double noise = 100 * rng_normal(&rng), more = 100 * rng_normal(&rng);
        double fall = -0.01 * i;

        trace_add(&probe, (5 + noise) * 10, 10, 1, 0);
        trace_add(&probe, (5 + more) * 10, 10, 1, 0);
        trace_add(&fine, (5 + fall + noise) * 10, 10, 1, 0);
        trace_add(&fine, (5 + fall + more) * 10, 10, 1, 0);
        trace_add(&coarse, (10 + 2 * fall + noise + more) * 10, 20, 2, 0);
    }
    trace_curve_against(&fine, &probe, 5, NAN, &c);
    assert_true(c.len >= 30);
    assert_true(fabs(c.point[c.len - 1].loss - (5 - 0.59)) < 0.02);
    trace_curve_against(&coarse, &probe, 5, NAN, &c);
    assert_true(c.len >= 15);
    for (uint32_t i = 1; i < c.len; i++)
        assert_true(c.point[i].loss < c.point[i - 1].loss + 1e-9);
}

/* With a floor the ratio cancels what the samples add to a loss in proportion,
 * which the difference does not; without one nothing changes. */
static void trace_against_by_ratio_cancels_in_proportion(void **state)
{
    struct trace probe, fallen;
    struct curve ratios, differences;
    struct rng rng;

    (void)state;
    rng_init(&rng, 3);
    trace_init(&probe);
    trace_init(&fallen);
    for (uint32_t i = 0; i < 40; i++) {
        double hard = exp(0.3 * rng_normal(&rng));

        trace_add(&probe, (1 + 8 * hard) * 10, 10, 1, 0);
        trace_add(&fallen, (1 + 0.08 * hard) * 10, 10, 1, 0);
    }
    trace_curve_against(&fallen, &probe, 9, 1, &ratios);
    trace_curve_against(&fallen, &probe, 9, NAN, &differences);
    assert_int_equal(ratios.len, differences.len);
    for (uint32_t i = 0; i < ratios.len; i++)
        assert_true(fabs(ratios.point[i].loss - 1.08) < 1e-9);
    assert_true(differences.point[0].loss != ratios.point[0].loss);
    trace_curve_against(&fallen, &probe, 0.5, 1, &ratios); /* below it */
    trace_curve_against(&fallen, &probe, 0.5, NAN, &differences);
    assert_true(ratios.point[7].loss == differences.point[7].loss);
}

/* Beyond the end of the sibling there is nothing to compare with. */
static void trace_against_stops_where_the_sibling_ends(void **state)
{
    struct trace a, b;
    struct curve c;

    (void)state;
    trace_init(&a);
    trace_init(&b);
    for (int i = 0; i < 20; i++)
        trace_add(&a, 1, 10, 1, 0);
    for (int i = 0; i < 7; i++)
        trace_add(&b, 1, 10, 1, 0);
    trace_curve_against(&a, &b, 0, NAN, &c);
    assert_int_equal(c.len, 7);
}

/* The mean difference and its standard error, over the last half. */
static void trace_paired_difference_has_its_error(void **state)
{
    struct trace a, b;
    struct rng rng;
    double mean, se;
    uint32_t n;

    (void)state;
    rng_init(&rng, 4);
    trace_init(&a);
    trace_init(&b);
    for (int i = 0; i < 64; i++) {
        double common = 50 * rng_normal(&rng);

        trace_add(&a, (3 + common) * 10, 10, 1, 0);
        trace_add(&b, (2.5 + common + 0.1 * rng_normal(&rng)) * 10, 10, 1, 0);
    }
    n = trace_paired(&a, &b, &mean, &se);
    assert_int_equal(n, 32);
    assert_true(fabs(mean - 0.5) < 4 * se);
    assert_true(se > 0.008 && se < 0.03);
    trace_init(&b);
    trace_add(&b, 1, 10, 1, 0);
    assert_int_equal(trace_paired(&a, &b, &mean, &se), 1);
    assert_true(isinf(se));
}

/* An improvement is 0.1 % better than the last improvement's value, so that
 * many small ones count when they add up. */
static void plateau_counts_what_adds_up(void **state)
{
    struct plateau p;

    (void)state;
    plateau_init(&p, 5);
    assert_true(plateau_add(&p, 1.0));
    assert_false(plateau_add(&p, 0.9995));
    assert_true(plateau_add(&p, 0.9989));
    assert_false(plateau_add(&p, NAN));
    assert_false(plateau_add(&p, INFINITY));
    assert_int_equal(p.since, 2);
}

/* Scores may be negative (an accuracy, turned over). */
static void plateau_takes_negative_scores(void **state)
{
    struct plateau p;

    (void)state;
    plateau_init(&p, 5);
    plateau_add(&p, -0.90);
    assert_false(plateau_add(&p, -0.9005));
    assert_true(plateau_add(&p, -0.9010));
}

/* A re-tune is due one epoch before the end; a commit gives two more, once. */
static void plateau_commit_gives_time_once(void **state)
{
    struct plateau p;

    (void)state;
    plateau_init(&p, 5);
    plateau_add(&p, 1);
    for (int i = 0; i < 4; i++) {
        assert_false(plateau_due(&p));
        plateau_add(&p, 1);
    }
    assert_true(plateau_due(&p));
    assert_false(plateau_reached(&p));
    plateau_commit(&p);
    assert_int_equal(p.since, 2);
    plateau_add(&p, 1);
    plateau_add(&p, 1);
    assert_true(plateau_due(&p));
    plateau_commit(&p);
    assert_int_equal(p.since, 4);
    plateau_add(&p, 1);
    assert_true(plateau_reached(&p));
}

/* With a limit of one epoch the re-tune comes before the end. */
static void plateau_of_one_epoch_still_retunes(void **state)
{
    struct plateau p;

    (void)state;
    plateau_init(&p, 1);
    plateau_add(&p, 1);
    assert_false(plateau_due(&p));
    plateau_add(&p, 1);
    assert_true(plateau_due(&p));
    p.searched = true;
    assert_false(plateau_due(&p));
    assert_true(plateau_reached(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_keeps_everything_in_bounded_memory),
        cmocka_unit_test(trace_joins_within_epochs),
        cmocka_unit_test(trace_is_restored_and_goes_on),
        cmocka_unit_test(trace_is_not_restored_from_what_is_none),
        cmocka_unit_test(trace_takes_many_short_epochs),
        cmocka_unit_test(trace_marks_what_is_not_finite),
        cmocka_unit_test(trace_empty_window_only_takes_time),
        cmocka_unit_test(trace_against_a_sibling_cancels_noise),
        cmocka_unit_test(trace_against_by_ratio_cancels_in_proportion),
        cmocka_unit_test(trace_against_stops_where_the_sibling_ends),
        cmocka_unit_test(trace_paired_difference_has_its_error),
        cmocka_unit_test(plateau_counts_what_adds_up),
        cmocka_unit_test(plateau_takes_negative_scores),
        cmocka_unit_test(plateau_commit_gives_time_once),
        cmocka_unit_test(plateau_of_one_epoch_still_retunes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
