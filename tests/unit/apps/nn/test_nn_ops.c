#include "apps/nn/nn_ops.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/nn_plain.h"

/* One layer on random data: the body in float beside the plain one in double.
 * The function that is differentiated is sum_j r[j] y[j] with random r. */
struct fixture {
    struct nn_layer layer;
    struct nn_batch batch;
    size_t in, out, params; /* values of a batch, parameters */
    float *x, *y, *dy, *dx, *param, *grad, moments[64], moved[64];
    double *px, *py, *pparam;
    void *work;
};

/* Coordinates of a gradient that are differentiated at most. */
enum { PROBES = 14 };

static const double tolerance = 1e-4;

static void near_to(double got, double wanted, double distance)
{
    if (!(fabs(got - wanted) <= distance))
        fail_msg("expected %.9g, found %.9g", wanted, got);
}

static float *floats(size_t n, struct rng *rng)
{
    float *p = calloc(n + NN_SLACK, sizeof(*p));
    size_t k;

    assert_non_null(p);
    for (k = 0; rng && k < n; k++)
        p[k] = (float)rng_normal(rng);
    return p;
}

static double *doubles(size_t n, const float *from)
{
    double *p = calloc(n + 1, sizeof(*p));
    size_t k;

    assert_non_null(p);
    for (k = 0; from && k < n; k++)
        p[k] = (double)from[k];
    return p;
}

static void make(struct fixture *t, const struct nn_layer *layer,
                 struct nn_shape in, size_t n, uint64_t seed)
{
    const struct nn_ops *ops = nn_ops_of(layer->kind);
    struct fault f = {0};
    struct rng rng;
    unsigned bad;
    size_t bytes;

    rng_init(&rng, seed);
    memset(t, 0, sizeof(*t));
    t->layer = *layer;
    if (nn_layers_shape(&t->layer, 1, in, &bad, &f))
        fail_msg("%s", f.text);
    t->batch = (struct nn_batch){
        .n = n, .train = true, .scale = 1, .seed = seed, .first = 5};
    t->in = n * nn_shape_size(t->layer.in);
    t->out = n * nn_shape_size(t->layer.out);
    t->params = (size_t)t->layer.rows * t->layer.row_width;
    t->x = floats(t->in, &rng);
    t->y = floats(t->out, NULL);
    t->dy = floats(t->out, &rng);
    t->dx = floats(t->in, &rng);
    t->param = floats(t->params, &rng);
    t->grad = floats(t->params, NULL);
    t->px = doubles(t->in, t->x);
    t->py = doubles(t->out, NULL);
    t->pparam = doubles(t->params, t->param);
    bytes = ops->work_bytes ? ops->work_bytes(&t->layer, n) : 0;
    t->work = calloc(1, bytes + 1);
}

static void drop(struct fixture *t)
{
    free(t->x);
    free(t->y);
    free(t->dy);
    free(t->dx);
    free(t->param);
    free(t->grad);
    free(t->px);
    free(t->py);
    free(t->pparam);
    free(t->work);
}

static void run(struct fixture *t, bool input_gradient)
{
    const struct nn_ops *ops = nn_ops_of(t->layer.kind);
    const float **row = calloc(t->layer.rows + 1, sizeof(*row));
    float **grad = calloc(t->layer.rows + 1, sizeof(*grad));
    struct nn_params params = {.row = row, .moments = t->moments};
    struct nn_grads grads = {.row = grad, .moments = t->moved};
    struct nn_state s = {.layer = &t->layer,
                         .number = 3,
                         .x = t->x,
                         .y = t->y,
                         .dy = t->dy,
                         .dx = input_gradient ? t->dx : NULL,
                         .work = t->work};
    uint32_t r;

    for (r = 0; r < t->layer.rows; r++) {
        row[r] = t->param + (size_t)r * t->layer.row_width;
        grad[r] = t->grad + (size_t)r * t->layer.row_width;
    }
    ops->forward(&s, &t->batch, &params);
    ops->backward(&s, &t->batch, &params, &grads);
    free(row);
    free(grad);
}

static double plain_sum(struct fixture *t)
{
    double sum = 0;
    size_t k;

    plain_forward(&t->layer, 3, &t->batch, t->pparam, t->px, t->py);
    for (k = 0; k < t->out; k++)
        sum += (double)t->dy[k] * t->py[k];
    return sum;
}

static void describe(const struct fixture *t, const char *what, char *text,
                     size_t size)
{
    const struct nn_layer *l = &t->layer;

    snprintf(text, size,
             "%s of %s: %zu samples of %ux%ux%u, units %u, kernel %u, stride "
             "%u, padding %u",
             what, nn_kind_name(l->kind), t->batch.n, l->in.height, l->in.width,
             l->in.channels, l->units, l->kernel, l->stride, l->padding);
}

static double largest(size_t n, const float *v)
{
    double max = 1e-3;
    size_t k;

    for (k = 0; k < n; k++)
        max = fmax(max, fabs((double)v[k]));
    return max;
}

/* @got[count] is the derivative by @at[count], by central differences. */
static void check_gradient(struct fixture *t, const char *what, size_t count,
                           double *at, const float *got)
{
    const double step = 1e-5;
    double scale = largest(count, got);
    size_t stride = count > PROBES ? count / PROBES : 1, k;
    char text[200];

    describe(t, what, text, sizeof(text));
    for (k = t->batch.seed % stride; k < count; k += stride) {
        double was = at[k], up, down;

        at[k] = was + step;
        up = plain_sum(t);
        at[k] = was - step;
        down = plain_sum(t);
        at[k] = was;
        if (!(fabs((up - down) / (2 * step) - (double)got[k]) <=
              tolerance * scale))
            fail_msg("%s: at %zu %.7g, found %.7g", text, k,
                     (up - down) / (2 * step), (double)got[k]);
    }
}

static void check_output(struct fixture *t)
{
    double scale = largest(t->out, t->y);
    char text[200];
    size_t k;

    describe(t, "output", text, sizeof(text));
    plain_sum(t);
    for (k = 0; k < t->out; k++)
        if (!(fabs(t->py[k] - (double)t->y[k]) <= 1e-5 * scale))
            fail_msg("%s: at %zu %.7g, found %.7g", text, k, t->py[k],
                     (double)t->y[k]);
}

static void check(const struct nn_layer *layer, struct nn_shape in, size_t n,
                  uint64_t seed)
{
    struct fixture t;

    make(&t, layer, in, n, seed);
    run(&t, true);
    check_output(&t);
    check_gradient(&t, "gradient of the input", t.in, t.px, t.dx);
    check_gradient(&t, "gradient of the parameters", t.params, t.pparam,
                   t.grad);
    drop(&t);
}

/* Dense layers whose parameters fill one row and several. */
static void nn_dense_gradient_is_the_derivative(void **state)
{
    static const uint32_t units[] = {1, 2, 7, 8, 50, 130};
    struct nn_layer l = {.kind = NN_DENSE};
    size_t k;

    (void)state;
    for (k = 0; k < 6; k++) {
        l.units = units[k];
        check(&l, (struct nn_shape){3, 2, 5}, k == 2 ? 1 : 2 + k, k);
    }
    l.units = 23;
    check(&l, (struct nn_shape){9, 25, 25}, 2, 9);
    l.units = 9;
    check(&l, (struct nn_shape){64, 17, 16}, 1, 10);
}

/* Convolutions of random shapes: odd sizes, every stride and padding, batch 1,
 * numbers of channels on both sides of each tile. */
static void nn_conv_gradient_is_the_derivative(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 0; seed < 80; seed++) {
        struct nn_layer l = {.kind = NN_CONV};
        bool deep = seed % 4 == 0;
        struct nn_shape in;
        struct rng rng;

        rng_init(&rng, seed);
        l.units = 1 + (uint32_t)rng_below(&rng, seed % 4 == 1 ? 60 : 9);
        l.kernel = 1 + (uint32_t)rng_below(&rng, deep ? 3 : 6);
        l.stride = 1 + (uint32_t)rng_below(&rng, seed % 2 ? 1 : 7);
        l.padding = (uint32_t)rng_below(&rng, l.kernel);
        in.channels = 1 + (uint32_t)rng_below(&rng, deep ? 60 : 4);
        in.height = l.kernel + (uint32_t)rng_below(&rng, 5);
        in.width = l.kernel + (uint32_t)rng_below(&rng, 5);
        check(&l, in, 1 + (size_t)rng_below(&rng, 3), seed);
    }
}

/* More images than the kernels take at once, and not a multiple of it. */
static void nn_conv_of_many_images(void **state)
{
    struct nn_layer l = {
        .kind = NN_CONV, .units = 5, .kernel = 3, .stride = 1, .padding = 1};

    (void)state;
    check(&l, (struct nn_shape){2, 4, 5}, 29, 1);
    l.units = 20;
    l.padding = 0;
    check(&l, (struct nn_shape){1, 5, 4}, 25, 2);
}

/* The largest kernel and one image that is larger than a block of the kernels;
 * parameters in several rows. */
static void nn_conv_of_large_shapes(void **state)
{
    struct nn_layer l = {
        .kind = NN_CONV, .units = 3, .kernel = 16, .stride = 3, .padding = 15};

    (void)state;
    check(&l, (struct nn_shape){1, 9, 11}, 2, 1);
    l = (struct nn_layer){
        .kind = NN_CONV, .units = 17, .kernel = 3, .stride = 1, .padding = 1};
    check(&l, (struct nn_shape){4, 43, 31}, 1, 2);
    l = (struct nn_layer){
        .kind = NN_CONV, .units = 70, .kernel = 4, .stride = 4};
    check(&l, (struct nn_shape){72, 4, 8}, 2, 3);
}

static void check_pool(enum nn_kind kind)
{
    uint64_t seed;

    for (seed = 0; seed < 30; seed++) {
        struct nn_layer l = {.kind = kind};
        struct nn_shape in;
        struct rng rng;

        rng_init(&rng, seed);
        l.kernel = 1 + (uint32_t)rng_below(&rng, 5);
        l.stride = 1 + (uint32_t)rng_below(&rng, 6);
        l.padding = (uint32_t)rng_below(&rng, l.kernel / 2 + 1);
        in.channels = 1 + (uint32_t)rng_below(&rng, 20);
        in.height = l.kernel + (uint32_t)rng_below(&rng, 6);
        in.width = l.kernel + (uint32_t)rng_below(&rng, 6);
        check(&l, in, 1 + (size_t)rng_below(&rng, 3), seed);
    }
}

/* Pooling of random shapes: overlapping windows, gaps, padding. */
static void nn_pool_gradient_is_the_derivative(void **state)
{
    (void)state;
    check_pool(NN_MAX_POOL);
    check_pool(NN_AVG_POOL);
}

/* Layers that act on each value. */
static void nn_act_gradient_is_the_derivative(void **state)
{
    struct nn_layer relu = {.kind = NN_RELU}, tanh = {.kind = NN_TANH};
    struct nn_layer dropout = {.kind = NN_DROPOUT, .rate = 0.4f};

    (void)state;
    check(&relu, (struct nn_shape){3, 5, 7}, 3, 1);
    check(&tanh, (struct nn_shape){3, 5, 7}, 3, 2);
    check(&dropout, (struct nn_shape){3, 5, 7}, 3, 3);
    dropout.rate = 0;
    check(&dropout, (struct nn_shape){3, 5, 7}, 1, 4);
}

/* Batch normalisation over images and over single values, and of one value a
 * channel, whose gradient is 0. */
static void nn_norm_gradient_is_the_derivative(void **state)
{
    struct nn_layer l = {.kind = NN_NORM, .rate = 0.1f, .epsilon = 1e-5f};

    (void)state;
    check(&l, (struct nn_shape){3, 5, 7}, 3, 1);
    check(&l, (struct nn_shape){17, 1, 1}, 9, 2);
    check(&l, (struct nn_shape){8, 13, 11}, 2, 3);
    check(&l, (struct nn_shape){30, 1, 1}, 1, 4);
}

/* The mean and variance of a channel far from 0 are as exact as of one near. */
static void nn_norm_is_exact_far_from_zero(void **state)
{
    struct nn_layer l = {.kind = NN_NORM, .rate = 1, .epsilon = 1e-5f};
    struct fixture t;
    size_t k;

    (void)state;
    make(&t, &l, (struct nn_shape){2, 20, 20}, 8, 1);
    for (k = 0; k < t.in; k++)
        t.x[k] = 1000 + (float)(k / 2 % 2);
    t.batch.scale = 1 / 8.0f;
    run(&t, true);
    for (k = 0; k < 2; k++) {
        near_to((double)t.moved[k], 1000.5, 1e-3);
        near_to((double)t.moved[2 + k], 0.25 * 3200 / 3199, 1e-6);
    }
    drop(&t);
}

/* The running moments move by rate towards the batch's (the unbiased variance),
 * and by each sub-batch's share of the clock. */
static void nn_norm_moves_the_running_moments(void **state)
{
    struct nn_layer l = {.kind = NN_NORM, .rate = 0.25f, .epsilon = 1e-5f};
    struct fixture t;

    (void)state;
    make(&t, &l, (struct nn_shape){1, 1, 1}, 2, 1);
    t.x[0] = 1;
    t.x[1] = 5;
    t.moments[0] = 7;
    t.moments[1] = 4;
    t.moved[0] = 100;
    t.batch.scale = 0.25f; /* two of the clock's four samples */
    run(&t, true);
    near_to((double)t.moved[0], 100 + 0.25 * 0.5 * (3 - 7), 1e-5);
    near_to((double)t.moved[1], 0.25 * 0.5 * (8 - 4), 1e-5);
    drop(&t);
}

/* A running variance below 0, as late updates may leave it, counts as 0; one
 * that is no number stays none. */
static void nn_norm_reads_no_negative_variance(void **state)
{
    struct nn_layer l = {.kind = NN_NORM, .rate = 0.25f, .epsilon = 0.25f};
    struct fixture t;

    (void)state;
    make(&t, &l, (struct nn_shape){2, 1, 1}, 1, 1);
    t.batch.train = false;
    t.x[0] = t.x[1] = 5;
    t.moments[0] = t.moments[1] = 4;
    t.moments[2] = -3;
    t.moments[3] = NAN;
    t.param[0] = t.param[1] = 1;
    t.param[2] = t.param[3] = 0;
    run(&t, true);
    near_to((double)t.y[0], 2, 1e-6);
    assert_true(isnan(t.y[1]));
    drop(&t);
}

/* One value that is no number stays one, wherever in a window it is. */
static void nn_layers_pass_on_a_nan(void **state)
{
    static const struct nn_layer layers[] = {
        {.kind = NN_MAX_POOL, .kernel = 2, .stride = 1},
        {.kind = NN_AVG_POOL, .kernel = 2, .stride = 1},
        {.kind = NN_RELU},
        {.kind = NN_TANH},
        {.kind = NN_DROPOUT, .rate = 0.5f},
    };
    size_t i, k, j;

    (void)state;
    for (i = 0; i < 5; i++)
        for (k = 0; k < 4; k++) {
            struct fixture t;
            int found = 0;

            make(&t, &layers[i], (struct nn_shape){1, 2, 2}, 1, 1);
            t.x[k] = NAN;
            run(&t, true);
            for (j = 0; j < t.out; j++)
                found += isnan(t.y[j]) != 0;
            assert_int_equal(found, 1);
            drop(&t);
        }
}

/* Without a use for the gradient of the input, that of the parameters is the
 * same, and it is added to what is there. */
static void nn_gradients_are_added(void **state)
{
    static const struct nn_layer layers[] = {
        {.kind = NN_DENSE, .units = 9},
        {.kind = NN_CONV, .units = 9, .kernel = 3, .stride = 1, .padding = 1},
        {.kind = NN_NORM, .rate = 0.1f, .epsilon = 1e-5f},
    };
    size_t i, k;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct fixture one, two;

        make(&one, &layers[i], (struct nn_shape){3, 5, 4}, 3, 7);
        make(&two, &layers[i], (struct nn_shape){3, 5, 4}, 3, 7);
        run(&one, true);
        for (k = 0; k < two.params; k++)
            two.grad[k] = 10;
        run(&two, false);
        for (k = 0; k < two.params; k++)
            near_to((double)two.grad[k], 10 + (double)one.grad[k],
                    1e-5 * largest(one.params, one.grad) + 1e-5);
        drop(&one);
        drop(&two);
    }
}

/* Dropout drops its share, anew for each sample, layer and seed; neighbours and
 * samples are independent. */
static void nn_dropout_masks_are_random(void **state)
{
    enum { SAMPLES = 100, VALUES = 1000 };
    double kept = 0, pairs = 0, over = 0, share = 0.7;
    uint64_t i;
    uint32_t j;

    (void)state;
    for (i = 0; i < SAMPLES; i++)
        for (j = 0; j < VALUES; j++) {
            bool now = nn_dropout_keeps(0.3f, 1, 2, i, j);

            kept += now;
            pairs += now && nn_dropout_keeps(0.3f, 1, 2, i, j + 1);
            over += now && nn_dropout_keeps(0.3f, 1, 2, i + 1, j);
        }
    /* Five standard deviations of a hundred thousand draws. */
    near_to(kept / (SAMPLES * VALUES), share, 0.008);
    near_to(pairs / (SAMPLES * VALUES), share * share, 0.01);
    near_to(over / (SAMPLES * VALUES), share * share, 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_dense_gradient_is_the_derivative),
        cmocka_unit_test(nn_conv_gradient_is_the_derivative),
        cmocka_unit_test(nn_conv_of_many_images),
        cmocka_unit_test(nn_conv_of_large_shapes),
        cmocka_unit_test(nn_pool_gradient_is_the_derivative),
        cmocka_unit_test(nn_act_gradient_is_the_derivative),
        cmocka_unit_test(nn_norm_gradient_is_the_derivative),
        cmocka_unit_test(nn_norm_is_exact_far_from_zero),
        cmocka_unit_test(nn_norm_moves_the_running_moments),
        cmocka_unit_test(nn_norm_reads_no_negative_variance),
        cmocka_unit_test(nn_layers_pass_on_a_nan),
        cmocka_unit_test(nn_gradients_are_added),
        cmocka_unit_test(nn_dropout_masks_are_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
