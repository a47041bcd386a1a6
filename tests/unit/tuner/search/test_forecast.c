#include "base/rng.h"
#include "tests/unit/fixture/check.h"
#include "tuner/search/forecast.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { POINTS = 48, TRACES = 20000 };

static const double need = 0.8;

/* True values by share of the time, all of which come to what is needed. */
static double as_good_as_the_best(double at)
{
    return at;
}

static double just_enough(double at)
{
    return need * at;
}

/* As late as the bound allows: from a third on it makes twice its pace. */
static double late(double at)
{
    double pace = need / (1.0 / 3 + FORECAST_HASTE * 2 / 3);

    return at < 1.0 / 3 ? pace * at
                        : pace * (1.0 / 3 + FORECAST_HASTE * (at - 1.0 / 3));
}

/* A jump to the bad that heals: too large a rate at first. */
static double jump(double at)
{
    return need * at - 0.5 * exp(-6 * at) + 0.5 * exp(-6);
}

static double flattening(double at)
{
    return need * (1 - exp(-5 * at)) / (1 - exp(-5));
}

/* True if any of the looks at a trace of a trial finds it hopeless. */
static bool stopped(double value(double), double noise, double memory,
                    double budget, struct rng *rng)
{
    struct forecast_point point[POINTS];
    double last = 0;
    uint32_t looks = 0;

    for (size_t i = 0; i < POINTS; i++) {
        double at = ((double)i + 0.5) / POINTS;

        last =
            memory * last + noise * sqrt(1 - memory * memory) * rng_normal(rng);
        point[i] = (struct forecast_point){at, value(at) + last};
        if (i + 1 >= POINTS / 3 && (i + 1) % 2 == 0 && i + 1 < POINTS) {
            struct forecast reach;

            forecast_of(point, i + 1, (double)(i + 1) / POINTS,
                        forecast_share(budget, 1, ++looks), &reach);
            if (reach.most < need)
                return true;
        }
    }
    return false;
}

static double share_stopped(double value(double), double noise, double memory,
                            double budget)
{
    struct rng rng;
    unsigned n = 0;

    rng_init(&rng, 7);
    for (unsigned i = 0; i < TRACES; i++)
        n += stopped(value, noise, memory, budget, &rng);
    return (double)n / TRACES;
}

/* A trial that comes to what is needed is stopped with at most the probability
 * budgeted, however often it is looked at, whatever the noise, and for every
 * shape that the bound allows. */
static void forecast_error_rate_stays_within_the_budget(void **state)
{
    static double (*const shape[])(double) = {as_good_as_the_best, just_enough,
                                              late, jump, flattening};
    static const double noise[] = {0.001, 0.05, 0.3, 2};

    (void)state;
    for (size_t s = 0; s < sizeof(shape) / sizeof(shape[0]); s++)
        for (size_t k = 0; k < sizeof(noise) / sizeof(noise[0]); k++) {
            double share = share_stopped(shape[s], noise[k], 0, 0.05);

            if (share > 0)
                printf("forecast_error shape=%zu noise=%g share=%.4f\n", s,
                       noise[k], share);
            assert_true(share <= 0.05);
        }
}

/* False alarms where a window's noise goes on in the next. */
static void forecast_error_rate_holds_for_noise_with_memory(void **state)
{
    (void)state;
    assert_true(share_stopped(just_enough, 0.1, 0.5, 0.05) <= 0.05);
    assert_true(share_stopped(late, 0.1, 0.5, 0.05) <= 0.05);
}

static double worse(double at)
{
    return -at;
}

enum { FEW = 10 };

/* Points after which looks from the first point on, with the noise of a point
 * known, find a trial hopeless; FEW: none does. */
static unsigned stopped_early(double value(double), double noise, double budget,
                              struct rng *rng)
{
    struct forecast_point point[FEW];

    for (unsigned i = 0; i < FEW; i++) {
        double at = (i + 0.5) / FEW;
        struct forecast reach;

        point[i] =
            (struct forecast_point){at, value(at) + noise * rng_normal(rng)};
        forecast_early(point, i + 1, (i + 1.0) / FEW,
                       forecast_share(budget, 1, i + 1), noise, &reach);
        if (reach.most < need)
            return i + 1;
    }
    return FEW;
}

static double tenth(double at)
{
    return need * at / 10;
}

/* False alarms of looks from the first point on stay within the budget, for
 * whatever shape the bound allows, jumps that heal among them. */
static void forecast_early_error_rate_stays_within_the_budget(void **state)
{
    double (*const shape[])(double) = {as_good_as_the_best, just_enough, late,
                                       jump, flattening};
    static const double noise[] = {0.001, 0.05, 0.3, 2};
    struct rng rng;

    (void)state;
    rng_init(&rng, 8);
    for (size_t s = 0; s < sizeof(shape) / sizeof(shape[0]); s++)
        for (size_t k = 0; k < sizeof(noise) / sizeof(noise[0]); k++) {
            unsigned wrong = 0;

            for (unsigned i = 0; i < TRACES; i++)
                wrong += stopped_early(shape[s], noise[k], 0.05, &rng) < FEW;
            if (wrong > 0)
                printf("forecast_early_error shape=%zu noise=%g share=%.4f\n",
                       s, noise[k], (double)wrong / TRACES);
            assert_true(wrong <= 0.05 * TRACES);
        }
}

/* A trial that makes a tenth of what is needed is found out by its first point,
 * one that only gets worse by its fourth; noise delays it. */
static void forecast_early_finds_the_hopeless_at_once(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 9);
    assert_int_equal(stopped_early(tenth, 0, 0.05, &rng), 1);
    assert_int_equal(stopped_early(worse, 0, 0.05, &rng), 4);
    assert_true(stopped_early(tenth, 0.05, 0.05, &rng) > 1);
}

static double nothing(double at)
{
    (void)at;
    return 0;
}

/* A trial that makes nothing, or that gets worse, is found out. */
static void forecast_hopeless_trials_are_found(void **state)
{
    (void)state;
    assert_true(share_stopped(nothing, 0.02, 0, 0.05) > 0.99);
    assert_true(share_stopped(worse, 0.1, 0, 0.05) > 0.99);
}

/* A trial out of reach is told with numbers that mean something. */
static void forecast_tells_where_it_stands(void **state)
{
    struct forecast_point point[12];
    struct forecast reach;

    (void)state;
    for (int i = 0; i < 12; i++)
        point[i] = (struct forecast_point){(i + 0.5) / 24, (i + 0.5) / 24};
    forecast_of(point, 12, 0.5, 0.01, &reach);
    assert_true(fabs(reach.now - 0.5) < 1e-9);
    assert_true(reach.most >= 0.5 + FORECAST_HASTE * 0.5);
    assert_true(fabs(reach.noise) < 1e-9);
}

/* Budgets of all looks of all trials add up to no more than the whole. */
static void forecast_shares_add_up(void **state)
{
    double sum = 0;

    (void)state;
    for (uint32_t look = 1; look <= 100000; look++)
        sum += 30 * forecast_share(0.05, 30, look);
    assert_true(sum <= 0.05);
    assert_true(sum > 0.0499);
}

/* Quantiles of Student's distribution, from tables. */
static void forecast_quantiles_are_those_of_student(void **state)
{
    static const struct {
        double error, freedom, value;
    } table[] = {{0.05, 5, 2.015}, {0.01, 8, 2.896},  {1e-3, 12, 3.930},
                 {1e-4, 8, 6.442}, {1e-5, 26, 5.197}, {0.5, 10, 0},
                 {1e-5, 5, 15.547}};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_true(fabs(forecast_quantile(table[i].error, table[i].freedom) -
                         table[i].value) <= 0.05 * table[i].value + 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forecast_error_rate_stays_within_the_budget),
        cmocka_unit_test(forecast_error_rate_holds_for_noise_with_memory),
        cmocka_unit_test(forecast_early_error_rate_stays_within_the_budget),
        cmocka_unit_test(forecast_early_finds_the_hopeless_at_once),
        cmocka_unit_test(forecast_hopeless_trials_are_found),
        cmocka_unit_test(forecast_tells_where_it_stands),
        cmocka_unit_test(forecast_shares_add_up),
        cmocka_unit_test(forecast_quantiles_are_those_of_student),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
