/* Scores against values worked out by hand. */
#include "ps/node/scores.h"
#include "tests/unit/fixture/check.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) < 1e-12))
        fail_msg("expected %.17g, got %.17g", want, got);
}

static double value_of(struct scores *s, const char *name)
{
    struct score got[METRICS_MAX];
    size_t n = scores_metrics(s, got);

    for (size_t i = 0; i < n; i++)
        if (strcmp(got[i].metric->name, name) == 0)
            return got[i].value;
    fail_msg("no %s", name);
    return NAN;
}

/* Class 2 of three never occurs and is said once: it counts in F1 and not in
 * recall. */
static void scores_of_classes(void **state)
{
    const double row[][4] = {
        {0, 0.5, 0.25, 0.25}, {0, 1, 0, 0}, {1, 0, 1, 0}, {2, 0, 0.25, 0.75}};
    const double truth[] = {0, 1, 1, 1};
    struct scores s;

    (void)state;
    assert_int_equal(scores_init(&s, 3, 4), ERR_OK);
    for (int i = 0; i < 4; i++)
        scores_add(&s, row[i], truth[i]);
    assert_near(value_of(&s, "accuracy"), 0.5);
    assert_near(value_of(&s, "balanced_accuracy"), (1 + 1. / 3) / 2);
    assert_near(value_of(&s, "macro_f1"), (2. / 3 + 0.5 + 0) / 3);
    assert_near(value_of(&s, "log_loss"),
                (log(2) - log(DBL_EPSILON) + log(4)) / 4);
    assert_int_equal(scores_of(&s, 1, 0), 1);
    assert_int_equal(scores_of(&s, 1, 2), 1);
    assert_int_equal(scores_of(&s, 2, 1), 0);
    scores_deinit(&s);
}

/* Equal probabilities count half; one class alone has no area. */
static void scores_of_two_classes(void **state)
{
    const double p[] = {0.1, 0.4, 0.4, 0.8, 0.7}, truth[] = {0, 0, 1, 1, 0};
    struct scores s;

    (void)state;
    assert_int_equal(scores_init(&s, 2, 5), ERR_OK);
    for (int i = 0; i < 5; i++) {
        const double row[3] = {p[i] > 0.5, 1 - p[i], p[i]};

        scores_add(&s, row, truth[i]);
        if (i == 1)
            assert_true(isnan(value_of(&s, "auc")));
    }
    assert_near(value_of(&s, "auc"), 4.5 / 6);
    scores_deinit(&s);
}

/* R2 has no value where the truth never changes. */
static void scores_of_numbers(void **state)
{
    const double said[] = {1, 2, 5}, truth[] = {1, 1, 1}, other[] = {1, 3, 4};
    struct scores s;

    (void)state;
    assert_int_equal(scores_init(&s, 0, 6), ERR_OK);
    for (int i = 0; i < 3; i++)
        scores_add(&s, &said[i], truth[i]);
    assert_near(value_of(&s, "rmse"), sqrt(17. / 3));
    assert_near(value_of(&s, "mae"), 5. / 3);
    assert_true(isnan(value_of(&s, "r2")));
    for (int i = 0; i < 3; i++)
        scores_add(&s, &said[i], other[i]);
    /* Truth 1 1 1 1 3 4: mean 11/6. */
    assert_near(value_of(&s, "r2"), 1 - 19 / (29 - 121. / 6));
    scores_deinit(&s);
}

/* What an application says may be anything: only classes are added. */
static void scores_fit_classes_alone(void **state)
{
    const double odd[] = {-1, 2, 0.5, 1e300, NAN, INFINITY, -INFINITY};
    struct scores s, numbers;

    (void)state;
    assert_int_equal(scores_init(&s, 2, 1), ERR_OK);
    assert_int_equal(scores_init(&numbers, 0, 1), ERR_OK);
    assert_true(scores_fit(&s, (const double[]){1, 0.2, 0.8}, 1));
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        assert_false(scores_fit(&s, (const double[]){odd[i], 0.2, 0.8}, 1));
        assert_false(scores_fit(&s, (const double[]){1, 0.2, 0.8}, odd[i]));
        assert_true(scores_fit(&numbers, &odd[i], odd[i]));
    }
    assert_false(scores_fit(&s, (const double[]){1, NAN, 0.8}, 0));
    assert_false(scores_fit(&s, (const double[]){1, 0.2, NAN}, 0));
    scores_deinit(&s);
    scores_deinit(&numbers);
}

/* Parts that are joined have the scores of the whole, however it is cut; what
 * was reset counts no more. */
static void scores_of_parts_are_those_of_the_whole(void **state)
{
    enum { N = 40 };
    static const unsigned kinds[] = {0, 2};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct score want[METRICS_MAX], got[METRICS_MAX];
        struct scores whole, part[3];
        size_t n;

        assert_int_equal(scores_init(&whole, kinds[k], N), ERR_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(scores_init(&part[i], kinds[k], N), ERR_OK);
        for (int i = 0; i < N; i++) {
            double p = (i * 7 % 11) / 11.0;
            double classes[3] = {p > 0.5, 1 - p, p};
            double truth = kinds[k] ? i * 5 % 3 == 0 : i * 0.25 - 3;
            const double *row = kinds[k] ? classes : &p;

            scores_add(&whole, row, truth);
            scores_add(&part[2], row, truth);
        }
        scores_reset(&part[2]);
        for (int i = 0; i < N; i++) {
            double p = (i * 7 % 11) / 11.0;
            double classes[3] = {p > 0.5, 1 - p, p};
            double truth = kinds[k] ? i * 5 % 3 == 0 : i * 0.25 - 3;

            scores_add(&part[i < 9 ? 0 : 2], kinds[k] ? classes : &p, truth);
        }
        scores_join(&part[0], &part[1]); /* empty */
        scores_join(&part[0], &part[2]);
        n = scores_metrics(&whole, want);
        assert_int_equal(scores_metrics(&part[0], got), n);
        for (size_t i = 0; i < n; i++) {
            assert_near(got[i].value, want[i].value);
            assert_near(scores_value(&part[0], want[i].metric), want[i].value);
        }
        scores_deinit(&whole);
        for (int i = 0; i < 3; i++)
            scores_deinit(&part[i]);
    }
}

/* No sample has no score, and too many classes are refused. */
static void scores_at_their_bounds(void **state)
{
    struct scores s;

    (void)state;
    assert_int_equal(scores_init(&s, 2, 0), ERR_OK);
    assert_true(isnan(value_of(&s, "accuracy")));
    assert_true(isnan(value_of(&s, "auc")));
    scores_deinit(&s);
    assert_int_equal(scores_init(&s, SCORES_CLASSES_MAX + 1, 1), ERR_LIMIT);
    scores_deinit(&s);
    scores_deinit(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_classes),
        cmocka_unit_test(scores_of_two_classes),
        cmocka_unit_test(scores_of_numbers),
        cmocka_unit_test(scores_fit_classes_alone),
        cmocka_unit_test(scores_of_parts_are_those_of_the_whole),
        cmocka_unit_test(scores_at_their_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
