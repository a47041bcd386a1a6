/* Series of windows, and how two of them compare. */
#include "cli/check/series.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

static struct check_series made(size_t n, const double *sum)
{
    struct check_series s = {0};

    for (size_t i = 0; i < n; i++)
        assert_int_equal(
            series_add(&s,
                       &(struct progress_window){.sum = sum[i], .samples = 8}),
            ERR_OK);
    return s;
}

#define MADE(...)                                                              \
    made(sizeof((double[]){__VA_ARGS__}) / sizeof(double),                     \
         (double[]){__VA_ARGS__})

typedef bool compare_fn(const struct check_series *,
                        const struct check_series *, struct mismatch *);

/* Both are released; @word: in what came, NULL: they compare. */
static void compares(compare_fn *f, struct check_series a,
                     struct check_series b, const char *word)
{
    struct mismatch m = {.came = ""};

    assert_int_equal(f(&a, &b, &m), !word);
    if (word && !strstr(m.came, word))
        fail_msg("%s, not %s", m.came, word);
    assert_int_equal(m.expected != NULL, word != NULL);
    series_deinit(&a);
    series_deinit(&b);
}

/* To the last bit: signs of zero count, a NaN is a NaN. */
static void the_same_is_to_the_last_bit(void **state)
{
    (void)state;
    compares(series_same, MADE(1, NAN, INFINITY), MADE(1, NAN, INFINITY), NULL);
    compares(series_same, MADE(1, 2), MADE(1, nextafter(2, 3)), "clock 2 of 2");
    compares(series_same, MADE(0.0), MADE(-0.0), "clock 1 of 1");
    compares(series_same, MADE(1, 2), MADE(1), "2 windows, and 1");
}

static void a_probe_and_a_branch_part_after_the_first(void **state)
{
    (void)state;
    compares(series_part, MADE(3, 3), MADE(3, 2), NULL);
    compares(series_part, MADE(3, 3), MADE(2, 2), "sum 3, and 2");
    compares(series_part, MADE(3, 2), MADE(3, 2), "2 equal clocks");
}

static void two_halves_make_one(void **state)
{
    (void)state;
    compares(series_halve, MADE(1, 2, 3, 4), MADE(3, 7), NULL);
    compares(series_halve, MADE(1, 2, 3), MADE(3, 7), NULL); /* no pair */
    compares(series_halve, MADE(1, 2, 3, 4), MADE(3, 8), "clocks 3 and 4: 7");
}

/* Means in place of sums are half as much with batches twice as large. */
static void totals_are_alike_whatever_the_batch(void **state)
{
    (void)state;
    compares(series_alike, MADE(2, 2, 2, 2), MADE(5, 4.5), NULL);
    compares(series_alike, MADE(2, 2, 2, 2), MADE(2, 2), "8 in 4 clocks");
    compares(series_alike, MADE(2, -2, 2, 2), MADE(1, 1),
             NULL); /* no telling */
}

static void steady_is_within_a_millionth(void **state)
{
    struct check_series a = MADE(1, 2), b = MADE(3 + 1e-7), c = MADE(3.001);

    (void)state;
    assert_true(series_steady(&a, &b));
    assert_false(series_steady(&a, &c));
    series_deinit(&a);
    series_deinit(&b);
    series_deinit(&c);
}

static void adding_survives_each_failing_allocation(void **state)
{
    struct check_series s = {0};
    struct progress_window w = {.sum = 1, .samples = 2};
    int64_t before = mem_outstanding();
    int n = 0;

    (void)state;
    do {
        mem_fail_at(++n, 0);
    } while (series_add(&s, &w) == ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(n, 3);
    assert_int_equal(s.len, 1);
    series_deinit(&s);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_is_to_the_last_bit),
        cmocka_unit_test(a_probe_and_a_branch_part_after_the_first),
        cmocka_unit_test(two_halves_make_one),
        cmocka_unit_test(totals_are_alike_whatever_the_batch),
        cmocka_unit_test(steady_is_within_a_millionth),
        cmocka_unit_test(adding_survives_each_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
