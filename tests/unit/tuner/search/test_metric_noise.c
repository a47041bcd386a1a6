/* Sampling errors of validation metrics. */
#include "base/rng.h"
#include "tests/unit/fixture/check.h"
#include "tuner/search/metric_noise.h"

#include <math.h>
#include <stdio.h>

static struct msg_ready accuracy_of(uint64_t samples)
{
    return (struct msg_ready){
        .validation_samples = samples,
        .metric = "accuracy",
        .metric_higher_better = true,
        .metric_reduction = "mean",
    };
}

/* The error of a share is that of a binomial distribution. */
static void metric_noise_of_hits_is_binomial(void **state)
{
    struct msg_ready system = accuracy_of(2000);

    (void)state;
    assert_true(fabs(metric_noise_of(&system, 0.96) / sqrt(0.96 * 0.04 / 2000) -
                     1) < 0.03);
    assert_true(fabs(metric_noise_of(&system, 0.5) / sqrt(0.25 / 2000) - 1) <
                0.01);
}

/* No miss at all among few samples does not mean that there are none. */
static void metric_noise_without_a_miss_is_not_zero(void **state)
{
    struct msg_ready system = accuracy_of(10);

    (void)state;
    assert_true(metric_noise_of(&system, 1) > 0.05);
    assert_true(metric_noise_of(&system, 0) > 0.05);
}

/* Nothing is known of other reductions, of numbers that are no shares, of
 * losses, and without validation. */
static void metric_noise_of_others_is_unknown(void **state)
{
    struct msg_ready system = accuracy_of(2000);

    (void)state;
    assert_true(metric_noise_of(&system, 1.01) == 0);
    assert_true(metric_noise_of(&system, -0.1) == 0);
    assert_true(metric_noise_of(&system, NAN) == 0);
    assert_false(metric_noise_between(&system, NAN, NAN));
    system.metric_higher_better = false;
    assert_true(metric_noise_of(&system, 0.5) == 0);
    system = accuracy_of(0);
    assert_true(metric_noise_of(&system, 0.5) == 0);
    system = accuracy_of(2000);
    snprintf(system.metric_reduction, sizeof(system.metric_reduction),
             "sqrt_mean");
    assert_true(metric_noise_of(&system, 0.5) == 0);
    assert_false(metric_noise_between(&system, 0.5, 0.5));
}

/* One pair of equal models in about twenty is told apart by chance; of
 * models four errors apart nearly all are. */
static void metric_noise_tells_apart_what_chance_does_not(void **state)
{
    enum { RUNS = 4000, N = 500 };
    struct msg_ready system = accuracy_of(N);
    unsigned equal = 0, unlike = 0;
    struct rng rng;

    (void)state;
    rng_init(&rng, 11);
    for (int run = 0; run < RUNS; run++) {
        unsigned a = 0, b = 0, c = 0;

        for (int i = 0; i < N; i++) {
            a += rng_uniform(&rng) < 0.9;
            b += rng_uniform(&rng) < 0.9;
            c += rng_uniform(&rng) < 0.82;
        }
        equal += !metric_noise_between(&system, (double)a / N, (double)b / N);
        unlike += !metric_noise_between(&system, (double)a / N, (double)c / N);
    }
    assert_true(equal < RUNS * 0.06);
    assert_true(unlike > RUNS * 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metric_noise_of_hits_is_binomial),
        cmocka_unit_test(metric_noise_without_a_miss_is_not_zero),
        cmocka_unit_test(metric_noise_of_others_is_unknown),
        cmocka_unit_test(metric_noise_tells_apart_what_chance_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
