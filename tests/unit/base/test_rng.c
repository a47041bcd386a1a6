#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <math.h>

/* A permutation visits every element once, whatever its length. */
static void perm_any_length_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 300; n += 7) {
        unsigned char *seen = mem_calloc(n, 1);
        struct perm perm;

        assert_non_null(seen);
        perm_init(&perm, n, 42 + n);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = perm_at(&perm, i);

            assert_true(at < n);
            assert_int_equal(seen[at], 0);
            seen[at] = 1;
        }
        mem_free(seen);
    }
}

/* Two seeds give orders that agree about as often as chance has it. */
static void perm_other_seed_gives_another_order(void **state)
{
    struct perm a, b;
    int same = 0;

    (void)state;
    perm_init(&a, 10000, 1);
    perm_init(&b, 10000, 2);
    for (uint64_t i = 0; i < 10000; i++)
        same += perm_at(&a, i) == perm_at(&b, i);
    assert_true(same < 10);
}

/* Over many seeds each position holds each element equally often
 * (chi-square over 16 x 16 cells, 5 sigma). */
static void perm_over_seeds_is_uniform(void **state)
{
    enum { N = 16, SEEDS = 16000 };
    static int count[N][N];
    double chi = 0, expected = (double)SEEDS / N;

    (void)state;
    for (int s = 0; s < SEEDS; s++) {
        struct perm p;

        perm_init(&p, N, (uint64_t)s);
        for (uint64_t i = 0; i < N; i++)
            count[i][perm_at(&p, i)]++;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi += pow(count[i][j] - expected, 2) / expected;
    assert_true(fabs(chi - (N - 1) * (N - 1)) < 5 * sqrt(2.0 * 225));
}

/* Mean, variance and tail of the normal generator fit the normal law. */
static void rng_normal_has_unit_moments(void **state)
{
    struct rng rng;
    double sum = 0, squares = 0;
    int beyond_two = 0, n = 200000;

    (void)state;
    rng_init(&rng, 7);
    for (int i = 0; i < n; i++) {
        double x = rng_normal(&rng);

        sum += x;
        squares += x * x;
        beyond_two += fabs(x) > 2;
    }
    assert_true(fabs(sum / n) < 0.01);
    assert_true(fabs(squares / n - 1) < 0.02);
    assert_true(fabs((double)beyond_two / n - 0.0455) < 0.003);
}

/* Small ranges are hit without bias. */
static void rng_below_is_uniform(void **state)
{
    struct rng rng;
    int count[3] = {0};

    (void)state;
    rng_init(&rng, 9);
    for (int i = 0; i < 30000; i++)
        count[rng_below(&rng, 3)]++;
    for (int i = 0; i < 3; i++)
        assert_true(abs(count[i] - 10000) < 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perm_any_length_is_a_bijection),
        cmocka_unit_test(perm_other_seed_gives_another_order),
        cmocka_unit_test(perm_over_seeds_is_uniform),
        cmocka_unit_test(rng_normal_has_unit_moments),
        cmocka_unit_test(rng_below_is_uniform),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
