/* Both widths of the innermost loops beside plain sums in double. */
#include "apps/nn/nn_tiles.h"
#include "apps/nn/nn_vec.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

#include "tests/unit/fixture/check.h"

enum { ROUNDS = 200 };

static struct rng rng;

static size_t some(size_t low, size_t high)
{
    return low + (size_t)(rng_next(&rng) % (high - low + 1));
}

/* [n] values in -1 .. 1; with slack behind them that may be read. */
static float *values(size_t n)
{
    float *p = mem_calloc(n + NN_LANES_MAX * 3, sizeof(*p));

    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(rng_uniform(&rng) * 2 - 1);
    return p;
}

static void assert_near(const float *got, const double *want, size_t n,
                        size_t terms)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 1e-6 * (double)(terms + 1)))
            fail_msg("value %zu: %g, not %g", i, (double)got[i], want[i]);
}

/* ---- dense --------------------------------------------------------------- */

typedef void dots(size_t n, size_t units, size_t depth, const float *x,
                  const float *w, const float *bias, struct nn_matrix y,
                  float *panel);

/* Few samples, and so many that the weights are turned. */
static void check_dots(dots *work)
{
    size_t n = some(1, 200), units = some(1, 100), depth = some(1, 70);
    size_t stride = units + some(0, 5);
    float *x = values(n * depth), *w = values(units * depth);
    float *bias = values(units), *y = values(n * stride);
    float *panel = values(depth * NN_PANEL);
    double *want = mem_calloc(n * stride, sizeof(*want));

    for (size_t i = 0; i < n; i++)
        for (size_t u = 0; u < stride; u++) {
            double sum =
                u < units ? (double)bias[u] : (double)y[i * stride + u];

            for (size_t k = 0; u < units && k < depth; k++)
                sum += (double)x[i * depth + k] * (double)w[u * depth + k];
            want[i * stride + u] = sum;
        }
    work(n, units, depth, x, w, bias, (struct nn_matrix){y, stride}, panel);
    assert_near(y, want, n * stride, depth);
    mem_free(panel);
    mem_free(x);
    mem_free(w);
    mem_free(bias);
    mem_free(y);
    mem_free(want);
}

typedef void panels(size_t rows, size_t terms, size_t columns,
                    struct nn_factor a, struct nn_matrix b, struct nn_matrix c,
                    bool add, float *panel);

static void check_panels(panels *work)
{
    size_t rows = some(1, 20), terms = some(1, 20), columns = some(1, 110);
    size_t stride = columns + some(0, 5);
    bool add = some(0, 1);
    float *a = values(rows * terms), *b = values(terms * stride);
    float *c = values(rows * stride), *panel = values(terms * NN_PANEL);
    double *want = mem_calloc(rows * stride, sizeof(*want));

    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < stride; k++) {
            double old = (double)c[r * stride + k];
            double sum = k >= columns || add ? old : 0;

            for (size_t j = 0; k < columns && j < terms; j++)
                sum += (double)a[j * rows + r] * (double)b[j * stride + k];
            want[r * stride + k] = sum;
        }
    work(rows, terms, columns, (struct nn_factor){a, 1, rows},
         (struct nn_matrix){b, stride}, (struct nn_matrix){c, stride}, add,
         panel);
    assert_near(c, want, rows * stride, terms);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(panel);
    mem_free(want);
}

/* ---- convolution --------------------------------------------------------- */

typedef void gather_group(const struct nn_gather *g,
                          const struct nn_group *group);

static void check_gather(gather_group *work)
{
    size_t depth = some(1, 5), channels = some(1, 70), n = some(1, 4);
    size_t run = some(1, 9), count = some(1, 3), length = some(1, 7);
    size_t step = some(1, 2), stride = nn_round_up(channels, NN_LANES_MAX);
    struct nn_shape source = {.channels = (uint32_t)depth,
                              .height = 1,
                              .width = (uint32_t)(run * step + 10)};
    struct nn_shape target = {
        .channels = (uint32_t)channels, .height = 1, .width = (uint32_t)run};
    float *from = values(n * nn_shape_size(source) + 3 * length);
    float *to = values(n * nn_shape_size(target));
    float *weight = values(count * length * stride), *bias = values(stride);
    double *want = mem_calloc(n * nn_shape_size(target), sizeof(*want));
    struct nn_gather g = {.source = source,
                          .target = target,
                          .step = step,
                          .weight = weight,
                          .stride = stride,
                          .bias = some(0, 1) ? bias : NULL};
    struct nn_group group = {.runs = {.count = count, .length = length},
                             .n = n,
                             .run = run,
                             .from = from,
                             .to = to};

    for (size_t s = 0; s < count; s++) {
        group.runs.from[s] = some(0, 3);
        group.runs.weight[s] = s * length * stride;
    }
    for (size_t p = 0; p < n * run; p++)
        for (size_t c = 0; c < channels; c++) {
            const float *x =
                from + p / run * nn_shape_size(source) + p % run * step * depth;
            double sum = g.bias ? (double)bias[c] : 0;

            for (size_t s = 0; s < count; s++)
                for (size_t k = 0; k < length; k++)
                    sum += (double)x[group.runs.from[s] + k] *
                           (double)weight[(s * length + k) * stride + c];
            want[p * channels + c] = sum;
        }
    work(&g, &group);
    assert_near(to, want, n * run * channels, count * length);
    mem_free(from);
    mem_free(to);
    mem_free(weight);
    mem_free(bias);
    mem_free(want);
}

typedef void correlate(const struct nn_correlate *c, size_t n, size_t first,
                       size_t end, const float *x, const float *dy);

static void check_correlate(correlate *work)
{
    size_t n = some(1, 3), width = some(1, 6), height = some(2, 4);
    size_t channels = some(1, 70), rows = some(1, 30), step = some(1, 3);
    size_t stride = nn_round_up(channels, NN_LANES_MAX), first = 1;
    size_t row_floats = width * step + 40, image_floats = row_floats * height;
    float *x = values(n * image_floats + 64);
    float *dy = values(n * height * width * channels);
    float *sum = values((rows + NN_TILE_ROWS) * stride);
    double *want = mem_calloc(rows * stride, sizeof(*want));
    size_t *place = mem_calloc(rows + NN_TILE_ROWS, sizeof(*place));
    struct nn_correlate c = {.rows = rows,
                             .place = place,
                             .row_floats = row_floats,
                             .image_floats = image_floats,
                             .step = step,
                             .step_rows = 1,
                             .width = width,
                             .height = height,
                             .channels = channels,
                             .stride = stride,
                             .sum = sum};

    for (size_t r = 0; r < rows; r++)
        place[r] = some(0, 30);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < channels; k++) {
            double s = (double)sum[r * stride + k];

            for (size_t i = 0; i < n; i++)
                for (size_t y = first; y < height; y++)
                    for (size_t v = 0; v < width; v++)
                        s += (double)x[i * image_floats + y * row_floats +
                                       v * step + place[r]] *
                             (double)
                                 dy[((i * height + y) * width + v) * channels +
                                    k];
            want[r * stride + k] = s;
        }
    work(&c, n, first, height, x, dy);
    for (size_t r = 0; r < rows; r++)
        assert_near(sum + r * stride, want + r * stride, channels,
                    n * width * height);
    mem_free(x);
    mem_free(dy);
    mem_free(sum);
    mem_free(want);
    mem_free(place);
}

/* ---- tests --------------------------------------------------------------- */

/* Vectors of 8 floats give the sums of all shapes, and write nothing else. */
static void tiles_narrow_are_the_sums(void **state)
{
    (void)state;
    rng_init(&rng, 8);
    for (int i = 0; i < ROUNDS; i++) {
        check_dots(nn_dots_narrow);
        check_panels(nn_panels_narrow);
        check_gather(nn_gather_group_narrow);
        check_correlate(nn_correlate_narrow);
    }
}

/* So do vectors of 16, where the processor has them. */
static void tiles_wide_are_the_sums(void **state)
{
    (void)state;
#if SIMD_HAS_16
    rng_init(&rng, 16);
    for (int i = 0; i < ROUNDS && nn_wide(); i++) {
        check_dots(nn_dots_wide);
        check_panels(nn_panels_wide);
        check_gather(nn_gather_group_wide);
        check_correlate(nn_correlate_wide);
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_narrow_are_the_sums),
        cmocka_unit_test(tiles_wide_are_the_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
