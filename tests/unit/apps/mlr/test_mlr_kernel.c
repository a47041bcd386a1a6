#include "apps/mlr/mlr_values.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

enum { WIDTH_MAX = 800, CLASSES_TRIED = 13 };

/* A block with everything it points to. */
struct fixture {
    struct mlr_block b;
    uint8_t plain[MLR_BLOCK][WIDTH_MAX], packed[MLR_BLOCK][WIDTH_MAX];
    const uint8_t *plain_at[MLR_BLOCK], *packed_at[MLR_BLOCK];
    uint8_t label[MLR_BLOCK];
    float weight[CLASSES_TRIED][WIDTH_MAX + 1];
    float gradient[CLASSES_TRIED][WIDTH_MAX + 1];
    const float *weight_at[CLASSES_TRIED];
    float *gradient_at[CLASSES_TRIED];
    float z[MLR_BLOCK * CLASSES_TRIED];
    double w[CLASSES_TRIED * (WIDTH_MAX + 1)],
        g[CLASSES_TRIED * (WIDTH_MAX + 1)];
};

static struct fixture *make(size_t n, size_t width, unsigned classes,
                            double deviation, uint64_t seed)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct rng rng;
    size_t i, j;
    unsigned c;

    assert_non_null(f);
    rng_init(&rng, seed);
    for (i = 0; i < n; i++) {
        for (j = 0; j < width; j++)
            f->plain[i][j] = (uint8_t)rng_below(&rng, 256);
        mlr_pack(width, f->plain[i], f->packed[i]);
        f->plain_at[i] = f->plain[i];
        f->packed_at[i] = f->packed[i];
        f->label[i] = (uint8_t)rng_below(&rng, classes);
    }
    for (c = 0; c < classes; c++) {
        for (j = 0; j <= width; j++) {
            f->weight[c][j] = (float)(deviation * rng_normal(&rng));
            f->gradient[c][j] = (float)rng_normal(&rng);
            f->w[c * (width + 1) + j] = (double)f->weight[c][j];
            f->g[c * (width + 1) + j] = (double)f->gradient[c][j];
        }
        f->weight_at[c] = f->weight[c];
        f->gradient_at[c] = f->gradient[c];
    }
    f->b = (struct mlr_block){.n = n,
                              .width = width,
                              .classes = classes,
                              .pixel = f->packed_at,
                              .label = f->label,
                              .weight = f->weight_at,
                              .gradient = f->gradient_at,
                              .scale = 0.25f,
                              .z = f->z};
    return f;
}

static void expect_near(double a, double b, double tolerance, const char *what)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%s: %.9g and %.9g", what, a, b);
}

static void compare(size_t n, size_t width, unsigned classes)
{
    struct fixture *f = make(n, width, classes, 0.1, n * 31 + width + classes);
    double plain = mlr_train_plain(n, width, classes, f->plain_at, f->label,
                                   f->w, 0.25, f->g);
    char what[64];
    unsigned c;
    size_t j;

    snprintf(what, sizeof(what), "%zu images of %zu, %u classes", n, width,
             classes);
    expect_near(mlr_loss(&f->b), plain, 1e-5, what);
    expect_near(mlr_train(&f->b), plain, 1e-5, what);
    for (c = 0; c < classes; c++)
        for (j = 0; j <= width; j++)
            expect_near((double)f->gradient[c][j], f->g[c * (width + 1) + j],
                        1e-5, what);
    free(f);
}

/* The kernel's loss and gradient are those of the plain reference, for every
 * number of images, classes and pixels that the tiles leave a rest of. */
static void mlr_kernel_equals_the_plain_reference(void **state)
{
    static const size_t widths[] = {1,  5,  7,  8,  9,  15, 16,
                                    23, 24, 31, 32, 33, 40, 784};
    unsigned classes;
    size_t i, n;

    (void)state;
    for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        for (classes = 1; classes <= CLASSES_TRIED; classes++)
            compare(3, widths[i], classes);
    for (n = 1; n <= MLR_BLOCK; n++)
        compare(n, 43, 7);
}

static void compare_values(size_t n, size_t width, unsigned classes)
{
    struct fixture *f = make(n, width, classes, 0.1, n * 31 + width + classes);
    double plain = mlr_train_plain(n, width, classes, f->plain_at, f->label,
                                   f->w, 0.25, f->g);
    float *value = malloc(n * width * sizeof(*value));
    const float *row[MLR_BLOCK];
    unsigned c;
    size_t i, j;

    assert_non_null(value);
    for (i = 0; i < n; i++) {
        row[i] = value + i * width;
        for (j = 0; j < width; j++)
            value[i * width + j] = (float)f->plain[i][j] / 255;
    }
    expect_near(mlr_values_loss(&f->b, row), plain, 1e-5, "loss of rows");
    assert_int_equal(mlr_values_correct(&f->b, row), mlr_correct(&f->b));
    expect_near(mlr_values_train(&f->b, row), plain, 1e-5, "rows");
    for (c = 0; c < classes; c++)
        for (j = 0; j <= width; j++)
            expect_near((double)f->gradient[c][j], f->g[c * (width + 1) + j],
                        1e-5, "gradient of rows");
    f->weight[0][width / 2] = NAN;
    assert_false(isfinite(mlr_values_train(&f->b, row)));
    free(value);
    free(f);
}

/* So are those of the kernel for tables, on the same pixels as floats. */
static void mlr_values_equal_the_plain_reference(void **state)
{
    size_t width;
    unsigned classes;

    (void)state;
    for (width = 1; width <= 33; width++)
        for (classes = 1; classes <= CLASSES_TRIED; classes += 3)
            compare_values(5, width, classes);
    compare_values(MLR_BLOCK, 54, 7);
}

/* The plain reference's gradient is the derivative of its loss: central
 * differences in double. */
static void mlr_gradient_is_the_derivative_of_the_loss(void **state)
{
    enum { N = 6, WIDTH = 11, CLASSES = 4, ALL = CLASSES * (WIDTH + 1) };
    struct fixture *f = make(N, WIDTH, CLASSES, 0.5, 99);
    double g[ALL] = {0}, step = 1e-5;
    int k;

    (void)state;
    mlr_train_plain(N, WIDTH, CLASSES, f->plain_at, f->label, f->w, 1, g);
    for (k = 0; k < ALL; k++) {
        double w = f->w[k], up, down;

        f->w[k] = w + step;
        up = mlr_train_plain(N, WIDTH, CLASSES, f->plain_at, f->label, f->w, 1,
                             NULL);
        f->w[k] = w - step;
        down = mlr_train_plain(N, WIDTH, CLASSES, f->plain_at, f->label, f->w,
                               1, NULL);
        f->w[k] = w;
        expect_near((up - down) / (2 * step), g[k], 1e-7, "derivative");
    }
    free(f);
}

/* Weights of any size give the right finite loss as long as float holds it: the
 * largest z is taken off before exp. */
static void mlr_softmax_is_stable(void **state)
{
    static const double deviations[] = {1, 30, 1000, 1e6};
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        struct fixture *f = make(16, 40, 5, deviations[i], 7 + i);
        double plain =
            mlr_train_plain(16, 40, 5, f->plain_at, f->label, f->w, 0.25, NULL);

        assert_true(isfinite(plain));
        expect_near(mlr_train(&f->b), plain, 1e-4, "loss");
        free(f);
    }
}

/* A weight that is no number, or infinite, makes the sum no finite number,
 * which is how divergence shows. */
static void mlr_non_finite_weights_show_in_the_loss(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        struct fixture *f = make(4, 40, 5, 0.1, 5);

        f->weight[2][17] = bad[i];
        f->weight[1][17] = -bad[i];
        memset(f->plain, 255, sizeof(f->plain));
        memset(f->packed, 255, sizeof(f->packed));
        assert_false(isfinite(mlr_train(&f->b)) && i < 3);
        assert_false(isfinite(mlr_loss(&f->b)) && i < 3);
        free(f);
    }
}

/* Accuracy counts images whose largest z is at their label, the lowest class of
 * equal ones; a z that is no number is never the largest. */
static void mlr_correct_counts_the_likeliest(void **state)
{
    struct fixture *f = make(MLR_BLOCK, 40, 6, 1, 3);
    size_t correct = 0, i, j;
    unsigned c;

    (void)state;
    for (i = 0; i < MLR_BLOCK; i++) {
        double best = -INFINITY;
        unsigned guess = 0;

        for (c = 0; c < 6; c++) {
            double z = (double)f->weight[c][40];

            for (j = 0; j < 40; j++)
                z += (double)f->weight[c][j] * f->plain[i][j] / 255;
            if (z > best) {
                best = z;
                guess = c;
            }
        }
        correct += guess == f->label[i];
    }
    assert_true(correct > 0 && correct < MLR_BLOCK);
    assert_int_equal(mlr_correct(&f->b), correct);
    memset(f->weight, 0, sizeof(f->weight));
    memset(f->label, 0, sizeof(f->label));
    assert_int_equal(mlr_correct(&f->b), MLR_BLOCK);
    memset(f->label, 1, sizeof(f->label));
    assert_int_equal(mlr_correct(&f->b), 0);
    for (c = 0; c < 6; c++)
        f->weight[c][40] = NAN;
    assert_int_equal(mlr_correct(&f->b), 0);
    free(f);
}

/* The penalty adds factor times the weight. */
static void mlr_penalty_adds_scaled_weights(void **state)
{
    float w[21], g[21];
    int j;

    (void)state;
    for (j = 0; j < 21; j++) {
        w[j] = (float)j - 10;
        g[j] = 1;
    }
    mlr_penalty(20, 0.5f, w, g);
    for (j = 0; j < 20; j++)
        assert_float_equal(g[j], 1 + 0.5f * w[j], 1e-6);
    assert_float_equal(g[20], 1, 0);
}

/* Packing keeps every pixel once and fills up with zeros. */
static void mlr_pack_permutes(void **state)
{
    uint8_t in[45], out[64];
    int seen[256] = {0}, j;

    (void)state;
    assert_int_equal(mlr_packed_bytes(45), 64);
    assert_int_equal(mlr_packed_bytes(64), 64);
    for (j = 0; j < 45; j++)
        in[j] = (uint8_t)(j + 1);
    mlr_pack(45, in, out);
    for (j = 0; j < 64; j++)
        seen[out[j]]++;
    assert_int_equal(seen[0], 64 - 45);
    for (j = 1; j <= 45; j++)
        assert_int_equal(seen[j], 1);
    assert_int_equal(out[0], 1);
    assert_int_equal(out[1], 9);
    assert_int_equal(out[4], 2);
    assert_int_equal(out[32], 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlr_kernel_equals_the_plain_reference),
        cmocka_unit_test(mlr_values_equal_the_plain_reference),
        cmocka_unit_test(mlr_gradient_is_the_derivative_of_the_loss),
        cmocka_unit_test(mlr_softmax_is_stable),
        cmocka_unit_test(mlr_non_finite_weights_show_in_the_loss),
        cmocka_unit_test(mlr_correct_counts_the_likeliest),
        cmocka_unit_test(mlr_penalty_adds_scaled_weights),
        cmocka_unit_test(mlr_pack_permutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
