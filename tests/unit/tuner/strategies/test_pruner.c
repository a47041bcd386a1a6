/* Pruners, beside rules written down as plainly as can be. */
#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"
#include "tuner/strategies/pruner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 40, EPOCHS = 30 };

/* What was seen of each trial: scores, and how far it came. */
static struct {
    double score[TRIALS][EPOCHS];
    uint32_t epochs[TRIALS];
    bool whole[TRIALS];
} seen;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double mean_to(uint32_t trial, uint32_t epoch)
{
    double sum = 0;

    for (uint32_t e = 0; e < epoch; e++)
        sum += seen.score[trial][e];
    return sum / epoch;
}

/* Whether trial @trial is to be given up at @epoch, by the median rule. */
static bool median_rule(uint32_t trial, uint32_t epoch, uint32_t startup,
                        uint32_t warmup)
{
    double best = INFINITY, means[TRIALS];
    uint32_t n = 0;

    for (uint32_t i = 0; i < trial; i++)
        if (seen.whole[i] && seen.epochs[i] >= epoch)
            means[n++] = mean_to(i, epoch);
    for (uint32_t e = 0; e < epoch; e++)
        best = fmin(best, seen.score[trial][e]);
    if (n < startup || epoch <= warmup)
        return false;
    qsort(means, n, sizeof(*means), ascending);
    return best >
           (n % 2 ? means[n / 2] : (means[n / 2 - 1] + means[n / 2]) / 2);
}

/* By halving: among the best 1 / eta at a rung's end, or the best. */
static bool halving_rule(uint32_t trial, uint32_t epoch, uint32_t least,
                         uint32_t eta)
{
    uint32_t n = 0, better = 0, end = least;

    while (end < epoch)
        end *= eta;
    if (end != epoch)
        return false;
    for (uint32_t i = 0; i <= trial; i++) {
        if (i < trial && seen.epochs[i] < epoch)
            continue;
        n++;
        better += seen.score[i][epoch - 1] < seen.score[trial][epoch - 1];
    }
    return better >= (n / eta > 1 ? n / eta : 1);
}

static void compare(struct pruner *p, uint32_t seed)
{
    uint32_t stopped = 0;
    struct rng rng;

    rng_init(&rng, seed);
    for (uint32_t t = 0; t < TRIALS; t++) {
        uint32_t length = 1 + (uint32_t)rng_below(&rng, EPOCHS);
        double level = rng_uniform(&rng);
        bool stop = false;

        for (uint32_t e = 1; e <= length && !stop; e++) {
            seen.score[t][e - 1] = level + rng_normal(&rng) / e;
            assert_int_equal(pruner_reserve(p), ERR_OK);
            stop = pruner_epoch(p, seen.score[t][e - 1]);
            assert_int_equal(stop,
                             p->rule == PRUNER_MEDIAN
                                 ? median_rule(t, e, p->startup, p->warmup)
                                 : halving_rule(t, e, p->min_resource, p->eta));
            seen.epochs[t] = e;
        }
        seen.whole[t] = !stop;
        pruner_over(p, !stop);
        stopped += stop;
    }
    assert_true(stopped > 3 && stopped < TRIALS);
}

static void pruner_median_is_the_rule(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 50; seed++) {
        struct pruner p = {
            .rule = PRUNER_MEDIAN, .startup = 1 + seed % 6, .warmup = seed % 3};

        compare(&p, seed);
        pruner_deinit(&p);
    }
}

static void pruner_halving_is_the_rule(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 50; seed++) {
        struct pruner p = {.rule = PRUNER_HALVING,
                           .min_resource = 1 + seed % 3,
                           .eta = 2 + seed % 4};

        compare(&p, seed);
        pruner_deinit(&p);
    }
}

/* A score that is no number is the worst; where all are, nobody is better. */
static void pruner_nan_is_the_worst(void **state)
{
    struct pruner p = {.rule = PRUNER_MEDIAN, .startup = 1};

    (void)state;
    assert_int_equal(pruner_reserve(&p), ERR_OK);
    assert_false(pruner_epoch(&p, 1));
    pruner_over(&p, true);
    assert_int_equal(pruner_reserve(&p), ERR_OK);
    assert_true(pruner_epoch(&p, NAN));
    pruner_over(&p, false);
    pruner_deinit(&p);
    p = (struct pruner){.rule = PRUNER_MEDIAN, .startup = 1};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pruner_reserve(&p), ERR_OK);
        assert_false(pruner_epoch(&p, NAN));
        pruner_over(&p, true);
    }
    pruner_deinit(&p);
}

/* Without memory nothing changes, and the next try has it. */
static void pruner_without_memory(void **state)
{
    static const enum pruner_rule rules[] = {PRUNER_MEDIAN, PRUNER_HALVING};

    (void)state;
    for (int k = 0; k < 2; k++) {
        struct pruner p = {.rule = rules[k], .min_resource = 1, .eta = 2};
        int64_t before = mem_outstanding();

        for (int n = 1, failed = 1; failed; n++) {
            mem_fail_at(n, 0);
            if (pruner_reserve(&p))
                assert_int_equal(pruner_reserve(&p), ERR_OK);
            failed = mem_failed();
            mem_fail_at(0, 0);
            pruner_epoch(&p, 1);
            pruner_over(&p, true);
            pruner_deinit(&p);
            p = (struct pruner){.rule = rules[k], .min_resource = 1, .eta = 2};
        }
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pruner_median_is_the_rule),
        cmocka_unit_test(pruner_halving_is_the_rule),
        cmocka_unit_test(pruner_nan_is_the_worst),
        cmocka_unit_test(pruner_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
