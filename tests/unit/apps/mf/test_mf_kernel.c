#include "apps/mf/mf_kernel.h"
#include "apps/mf/mf_lanes.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

enum { RANK_TRIED = 128, RUNS = 5 };

/* A block with everything it points to. */
struct fixture {
    struct mf_block b;
    float users[MF_BLOCK][RANK_TRIED], items[RUNS][RANK_TRIED];
    float item_gradients[RUNS][RANK_TRIED];
    float slope[MF_BLOCK];
    const float *with[MF_BLOCK];
    float value[MF_BLOCK];
    uint8_t run[RUNS];
    void *user[MF_BLOCK];
    const float *item[RUNS];
    float *item_gradient[RUNS];
};

/* @n ratings dealt to RUNS items, the last of them with what is left. */
static void make(struct fixture *f, size_t n, unsigned rank, uint64_t seed)
{
    struct rng rng;
    size_t i, left = n;
    unsigned k;

    memset(f, 0, sizeof(*f));
    rng_init(&rng, seed);
    for (i = 0; i < n; i++) {
        for (k = 0; k < rank; k++)
            f->users[i][k] = (float)(0.3 * rng_normal(&rng));
        f->value[i] = (float)rng_normal(&rng);
        f->user[i] = f->users[i];
    }
    for (i = 0; i < RUNS; i++) {
        size_t take = i + 1 == RUNS ? left : rng_below(&rng, left + 1);

        for (k = 0; k < rank; k++) {
            f->items[i][k] = (float)(0.3 * rng_normal(&rng));
            f->item_gradients[i][k] = (float)rng_normal(&rng);
        }
        f->run[i] = (uint8_t)take;
        left -= take;
        f->item[i] = f->items[i];
        f->item_gradient[i] = f->item_gradients[i];
    }
    f->b = (struct mf_block){.n = n,
                             .runs = RUNS,
                             .rank = rank,
                             .lambda = 0.05f,
                             .user = f->user,
                             .value = f->value,
                             .run = f->run,
                             .item = f->item,
                             .item_gradient = f->item_gradient,
                             .slope = f->slope,
                             .with = f->with};
}

static void expect_near(double a, double b, double tolerance, const char *what)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%s: %.9g and %.9g", what, a, b);
}

/* Value @k of the gradient of rating @i's user. */
static double user_gradient(const struct fixture *f, size_t i, unsigned k)
{
    return (double)f->b.lambda * (double)f->users[i][k] +
           (double)f->slope[i] * (double)f->with[i][k];
}

typedef double train_fn(const struct mf_block *b);

static void expect_plain(train_fn *kernel, unsigned rank, size_t n)
{
    static struct fixture fast, plain;
    char what[64];

    snprintf(what, sizeof(what), "rank %u, %zu ratings", rank, n);
    make(&fast, n, rank, 100 * n + rank);
    make(&plain, n, rank, 100 * n + rank);
    expect_near(kernel(&fast.b), mf_train_plain(&plain.b), 1e-5, what);
    for (size_t i = 0; i < n; i++)
        for (unsigned k = 0; k < rank; k++) {
            expect_near(user_gradient(&fast, i, k), user_gradient(&plain, i, k),
                        1e-5, what);
            assert_true(fast.with[i] - fast.items[0] ==
                        plain.with[i] - plain.items[0]);
        }
    for (size_t i = 0; i < RUNS; i++)
        for (unsigned k = 0; k < rank; k++)
            expect_near((double)fast.item_gradients[i][k],
                        (double)plain.item_gradients[i][k], 1e-5, what);
}

/* The kernel's errors and gradients are those of the plain reference, at the
 * ranks with vectors of their own, in each width, and at others. */
static void mf_kernel_equals_the_plain_reference(void **state)
{
    static const unsigned ranks[] = {1,  3,  7,  8,  16,  20,
                                     32, 33, 64, 96, 100, 128};

    (void)state;
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        for (size_t n = 1; n <= MF_BLOCK; n++) {
            expect_plain(mf_train, ranks[i], n);
            if (mf_in_vectors(ranks[i], 8))
                expect_plain(mf_train_8, ranks[i], n);
#if SIMD_HAS_16
            if (mf_in_vectors(ranks[i], 16) && simd_16())
                expect_plain(mf_train_16, ranks[i], n);
#endif
        }
}

/* Half the squared error and the penalty of one rating. */
static double objective(unsigned rank, const double *l, const double *r,
                        double value, double lambda)
{
    double e = value, squares = 0;
    unsigned k;

    for (k = 0; k < rank; k++) {
        e -= l[k] * r[k];
        squares += l[k] * l[k] + r[k] * r[k];
    }
    return 0.5 * e * e + 0.5 * lambda * squares;
}

/* The plain reference's gradients are the derivatives of that objective:
 * central differences in double. */
static void mf_gradient_is_the_derivative_of_the_objective(void **state)
{
    enum { RANK = 9 };
    static struct fixture f;
    double row[2][RANK], dl[RANK], step = 1e-5, lambda;
    unsigned k, side;

    (void)state;
    make(&f, 1, RANK, 8);
    memset(f.item_gradients, 0, sizeof(f.item_gradients));
    memset(f.run, 0, sizeof(f.run));
    f.run[0] = 1;
    lambda = (double)f.b.lambda;
    mf_train_plain(&f.b);
    for (k = 0; k < RANK; k++) {
        row[0][k] = (double)f.users[0][k];
        row[1][k] = (double)f.items[0][k];
        dl[k] = user_gradient(&f, 0, k);
    }
    for (side = 0; side < 2; side++) {
        for (k = 0; k < RANK; k++) {
            double v = row[side][k], up, down;
            double g = side ? (double)f.item_gradients[0][k] : dl[k];

            row[side][k] = v + step;
            up = objective(RANK, row[0], row[1], (double)f.value[0], lambda);
            row[side][k] = v - step;
            down = objective(RANK, row[0], row[1], (double)f.value[0], lambda);
            row[side][k] = v;
            expect_near(g, (up - down) / (2 * step), 1e-6, "derivative");
        }
    }
}

typedef double squared_error(size_t n, unsigned rank, const float *const user[],
                             const float *const item[], const float value[],
                             float slope[]);

/* Sum and slopes; and without these the same sum. */
static void expect_plain_error(squared_error *kernel, unsigned rank,
                               const float *const user[],
                               const float *const item[], const float value[])
{
    float slope[MF_BLOCK], wanted[MF_BLOCK];
    double want =
        mf_squared_error_plain(MF_BLOCK, rank, user, item, value, wanted);
    double sum = kernel(MF_BLOCK, rank, user, item, value, slope);

    expect_near(sum, want, 1e-5, "squared error");
    for (size_t i = 0; i < MF_BLOCK; i++)
        expect_near((double)slope[i], (double)wanted[i], 1e-5, "slope");
    assert_true(kernel(MF_BLOCK, rank, user, item, value, NULL) == sum);
    assert_true(kernel(0, rank, user, item, value, slope) == 0);
}

/* Pairs' squared errors, and their slopes, are those of the plain reference. */
static void mf_squared_error_equals_the_plain_reference(void **state)
{
    static const unsigned ranks[] = {1, 7, 8, 17, 32, 100};
    static struct fixture f;
    const float *user[MF_BLOCK], *item[MF_BLOCK];
    size_t i, j;

    (void)state;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        make(&f, MF_BLOCK, ranks[i], i);
        for (j = 0; j < MF_BLOCK; j++) {
            user[j] = f.users[j];
            item[j] = f.items[j % RUNS];
        }
        expect_plain_error(mf_squared_error, ranks[i], user, item, f.value);
        expect_plain_error(mf_squared_error_8, ranks[i], user, item, f.value);
    }
}

/* With rows to fetch meanwhile errors are the same, to the bit, and so are
 * those rows. */
static void mf_pair_errors_are_the_squared_errors(void **state)
{
    static struct fixture f;
    const float *user[MF_BLOCK], *item[MF_BLOCK];
    float rows[2][MF_BLOCK][40] = {{{0}}}, slope[2][MF_BLOCK];
    void *next[2][MF_BLOCK];
    const struct mf_ahead ahead = {{next[0], next[1]}, sizeof(rows[0][0])};

    (void)state;
    for (unsigned rank = 1; rank <= 40; rank++) {
        make(&f, MF_BLOCK, rank, rank);
        for (size_t j = 0; j < MF_BLOCK; j++) {
            user[j] = f.users[j];
            item[j] = f.items[j % RUNS];
            next[0][j] = rows[0][j];
            next[1][j] = rows[1][j];
        }
        assert_true(
            mf_pair_errors(MF_BLOCK, rank, user, item, f.value, slope[0],
                           &ahead) ==
            mf_squared_error(MF_BLOCK, rank, user, item, f.value, slope[1]));
        assert_memory_equal(slope[0], slope[1], sizeof(slope[0]));
        assert_true(
            mf_pair_errors_8(MF_BLOCK, rank, user, item, f.value, slope[0],
                             &ahead) ==
            mf_squared_error_8(MF_BLOCK, rank, user, item, f.value, slope[1]));
        assert_memory_equal(slope[0], slope[1], sizeof(slope[0]));
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(float); i++)
        assert_true((&rows[0][0][0])[i] == 0);
}

/* A row that is no number makes the sum none either: divergence shows. */
static void mf_non_finite_rows_show_in_the_sum(void **state)
{
    static const unsigned ranks[] = {7, 32};
    static struct fixture f;
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        make(&f, MF_BLOCK, ranks[i], 1);
        f.users[3][2] = NAN;
        assert_false(isfinite(mf_train(&f.b)));
        make(&f, MF_BLOCK, ranks[i], 1);
        f.users[3][2] = 1e30f;
        f.items[0][2] = f.items[1][2] = f.items[4][2] = 1e30f;
        f.items[2][2] = f.items[3][2] = 1e30f;
        assert_false(isfinite(mf_train(&f.b)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mf_kernel_equals_the_plain_reference),
        cmocka_unit_test(mf_gradient_is_the_derivative_of_the_objective),
        cmocka_unit_test(mf_squared_error_equals_the_plain_reference),
        cmocka_unit_test(mf_pair_errors_are_the_squared_errors),
        cmocka_unit_test(mf_non_finite_rows_show_in_the_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
