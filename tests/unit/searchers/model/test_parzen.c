#include "base/mem.h"
#include "searchers/model/normal.h"
#include "searchers/model/parzen.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"

#include <math.h>

static const char mixed_space[] =
    "{\"lr\": {\"type\": \"float\", \"min\": 0, \"max\": 1},"
    " \"n\": {\"type\": \"int\", \"values\": [1, 2, 4, 8]},"
    " \"c\": {\"type\": \"categorical\", \"values\": [\"a\", \"b\", \"d\"]}}";

enum { AXES = 3 };

/* Mass by the numbers: against values of 50-digit arithmetic (mpmath). */
static void normal_log_mass_is_right_in_the_tails(void **state)
{
    static const double cases[][3] = {
#include "tests/unit/fixture/log_mass.inc"
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double got = normal_log_mass(cases[i][0], cases[i][1]);

        assert_true(fabs(got - cases[i][2]) <
                    1e-9 * fmax(1, fabs(cases[i][2])));
    }
}

/* The quantile undoes the distribution function, and stays in its bounds. */
static void normal_truncated_inverts_its_distribution(void **state)
{
    (void)state;
    for (double u = 0; u <= 1; u += 0.05) {
        double x = normal_truncated(-0.7, 2.5, u);
        double all = exp(normal_log_mass(-0.7, 2.5));

        assert_true(x >= -0.7 && x <= 2.5);
        if (u > 0 && u < 1)
            assert_true(fabs(exp(normal_log_mass(-0.7, x)) / all - u) < 1e-9);
    }
}

static struct parzen *make_parzen(struct space *space, size_t n, uint64_t seed)
{
    double u[64 * AXES];
    struct parzen *p;
    struct rng rng;

    assert_true(n <= 64);
    assert_int_equal(space_from_text(mixed_space, space, NULL), ERR_OK);
    rng_init(&rng, seed);
    for (size_t i = 0; i < n; i++) {
        u[i * AXES] = 0.3 + 0.1 * rng_normal(&rng);
        u[i * AXES] = fmin(fmax(u[i * AXES], 0), 1);
        u[i * AXES + 1] = ((double)rng_below(&rng, 2) + 0.5) / 4;
        u[i * AXES + 2] = (rng_below(&rng, 4) ? 0.5 : 2.5) / 3;
    }
    assert_int_equal(parzen_new(space, n, u, &p), ERR_OK);
    return p;
}

/* The density sums to one over cells and categories and the interval. */
static void parzen_density_integrates_to_one(void **state)
{
    struct space space;

    (void)state;
    for (size_t n = 0; n < 60; n += 13) {
        struct parzen *p = make_parzen(&space, n, 5 + n);
        double sum = 0;

        for (int i = 0; i < 400; i++)
            for (int v = 0; v < 4; v++)
                for (int c = 0; c < 3; c++) {
                    double u[AXES] = {(i + 0.5) / 400, (v + 0.5) / 4,
                                      (c + 0.5) / 3};

                    sum += exp(parzen_log_density(p, u)) / 400;
                }
        assert_true(fabs(sum - 1) < 1e-3);
        parzen_free(p);
    }
}

/* Draws follow the density: the histogram of many has its shape. */
static void parzen_draws_follow_the_density(void **state)
{
    enum { DRAWS = 40000, BINS = 10 };
    struct space space;
    struct parzen *p = make_parzen(&space, 20, 3);
    double count[BINS][4][3] = {{{0}}};
    struct rng rng;

    (void)state;
    rng_init(&rng, 1);
    for (int i = 0; i < DRAWS; i++) {
        double u[TUNABLES_MAX];

        parzen_draw(p, &rng, u);
        count[(int)fmin(u[0] * BINS, BINS - 1)][(int)(u[1] * 4)]
             [(int)(u[2] * 3)] += 1.0 / DRAWS;
    }
    for (int b = 0; b < BINS; b++)
        for (int v = 0; v < 4; v++)
            for (int c = 0; c < 3; c++) {
                double mass = 0;

                for (int i = 0; i < 50; i++) {
                    double u[AXES] = {(b + (i + 0.5) / 50) / BINS,
                                      (v + 0.5) / 4, (c + 0.5) / 3};

                    mass += exp(parzen_log_density(p, u)) / (50.0 * BINS);
                }
                assert_true(fabs(count[b][v][c] - mass) <
                            5 * sqrt(mass / DRAWS) + 5e-4);
            }
    parzen_free(p);
}

/* Each allocation failing gives ERR_NOMEM and leaves nothing behind. */
static void parzen_out_of_memory_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    double u[AXES] = {0.5, 0.125, 0.5};
    struct space space;
    struct parzen *p;
    enum err err;
    int nth = 0;

    (void)state;
    assert_int_equal(space_from_text(mixed_space, &space, NULL), ERR_OK);
    do {
        mem_fail_at(++nth, 0);
        err = parzen_new(&space, 1, u, &p);
        mem_fail_at(0, 0);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
    } while (err);
    assert_true(nth > 3);
    parzen_free(p);
    parzen_free(NULL);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normal_log_mass_is_right_in_the_tails),
        cmocka_unit_test(normal_truncated_inverts_its_distribution),
        cmocka_unit_test(parzen_density_integrates_to_one),
        cmocka_unit_test(parzen_draws_follow_the_density),
        cmocka_unit_test(parzen_out_of_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
