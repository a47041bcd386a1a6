#include "apps/nn/nn_layer.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static void expect_shape(struct nn_shape s, unsigned channels, unsigned height,
                         unsigned width)
{
    assert_int_equal(s.channels, channels);
    assert_int_equal(s.height, height);
    assert_int_equal(s.width, width);
}

/* LeNet-5 with 20, 50 and 500 units: the shapes of its layers and of their
 * tables. */
static void nn_layers_of_lenet_have_its_shapes(void **state)
{
    struct nn_layer l[] = {
        {.kind = NN_CONV, .units = 20, .kernel = 5, .stride = 1},
        {.kind = NN_MAX_POOL, .kernel = 2, .stride = 2},
        {.kind = NN_CONV, .units = 50, .kernel = 5, .stride = 1},
        {.kind = NN_MAX_POOL, .kernel = 2, .stride = 2},
        {.kind = NN_DENSE, .units = 500},
        {.kind = NN_RELU},
        {.kind = NN_DENSE, .units = 10},
    };
    struct fault f = {0};
    unsigned bad, r;
    uint32_t outputs = 0;

    (void)state;
    assert_int_equal(
        nn_layers_shape(l, 7, (struct nn_shape){1, 28, 28}, &bad, &f), ERR_OK);
    expect_shape(l[0].out, 20, 24, 24);
    expect_shape(l[1].out, 20, 12, 12);
    expect_shape(l[2].out, 50, 8, 8);
    expect_shape(l[3].out, 50, 4, 4);
    expect_shape(l[4].out, 500, 1, 1);
    expect_shape(l[6].out, 10, 1, 1);
    assert_int_equal(l[0].rows, 1);
    assert_int_equal(l[0].row_width, 20 * 26);
    assert_int_equal(l[1].rows, 0);
    assert_int_equal(l[2].fan_in, 500);
    assert_int_equal(l[5].rows, 0);
    assert_true(l[4].rows > 1);
    assert_true(l[4].row_width <= NN_ROW_VALUES + 8 * 801);
    for (r = 0; r < l[4].rows; r++)
        outputs += nn_row_outputs(&l[4], r);
    assert_int_equal(outputs, 500);
}

/* Rows hold at least eight outputs, however wide they are. */
static void nn_rows_of_wide_layers_hold_eight_outputs(void **state)
{
    struct nn_layer l = {.kind = NN_DENSE, .units = 17};
    struct fault f = {0};
    unsigned bad;

    (void)state;
    assert_int_equal(
        nn_layers_shape(&l, 1, (struct nn_shape){256, 256, 256}, &bad, &f),
        ERR_OK);
    assert_int_equal(l.row_units, 8);
    assert_int_equal(l.rows, 3);
    assert_int_equal(nn_row_outputs(&l, 2), 1);
}

struct refusal {
    struct nn_layer layer;
    const char *part; /* of the message */
};

/* An impossible layer is refused by its number, its kind, what was expected
 * and what was found. */
static void nn_layers_that_cannot_be_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {{.kind = NN_DENSE}, "1 to 65536 units, found 0"},
        {{.kind = NN_DENSE, .units = 65537}, "found 65537"},
        {{.kind = NN_CONV, .kernel = 3, .stride = 1}, "units"},
        {{.kind = NN_CONV, .units = 1, .stride = 1}, "kernel of 1 to 16"},
        {{.kind = NN_CONV, .units = 1, .kernel = 17, .stride = 1}, "found 17"},
        {{.kind = NN_CONV, .units = 1, .kernel = 2}, "stride of 1 to 16"},
        {{.kind = NN_CONV, .units = 1, .kernel = 2, .stride = 17}, "found 17"},
        {{.kind = NN_CONV, .units = 1, .kernel = 2, .stride = 1, .padding = 2},
         "padding of at most 1"},
        {{.kind = NN_CONV, .units = 1, .kernel = 9, .stride = 1},
         "does not fit into 8 x 8"},
        {{.kind = NN_MAX_POOL, .kernel = 2, .stride = 1, .padding = 2},
         "padding of at most 1"},
        {{.kind = NN_AVG_POOL, .kernel = 9, .stride = 1}, "does not fit"},
        {{.kind = NN_NORM, .rate = 0, .epsilon = 1}, "rate above 0"},
        {{.kind = NN_NORM, .rate = 1.5f, .epsilon = 1}, "found 1.5"},
        {{.kind = NN_NORM, .rate = NAN, .epsilon = 1}, "found nan"},
        {{.kind = NN_NORM, .rate = 1}, "epsilon above 0"},
        {{.kind = NN_NORM, .rate = 1, .epsilon = INFINITY}, "found inf"},
        {{.kind = NN_DROPOUT, .rate = 1}, "below 1, found 1"},
        {{.kind = NN_DROPOUT, .rate = -0.5f}, "found -0.5"},
        {{.kind = NN_DROPOUT, .rate = NAN}, "found nan"},
    };
    char start[64];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nn_layer l[2] = {{.kind = NN_RELU}, cases[i].layer};
        struct fault f = {0};
        unsigned bad = 9;

        assert_int_equal(
            nn_layers_shape(l, 2, (struct nn_shape){3, 8, 8}, &bad, &f),
            ERR_INVAL);
        assert_int_equal(bad, 1);
        snprintf(start, sizeof(start),
                 "layer 1 (%s): ", nn_kind_name(l[1].kind));
        assert_memory_equal(f.text, start, strlen(start));
        if (!strstr(f.text, cases[i].part))
            fail_msg("%s: no \"%s\"", f.text, cases[i].part);
    }
}

/* Sizes over the limits: the input, the number of layers, a layer's output. */
static void nn_layers_over_the_limits_are_refused(void **state)
{
    struct nn_layer l[2] = {
        {.kind = NN_RELU},
        {.kind = NN_CONV, .units = 65536, .kernel = 1, .stride = 1}};
    static const struct nn_shape shapes[] = {
        {0, 1, 1},    {1, 0, 1},    {1, 1, 0},       {65537, 1, 1},
        {1, 4097, 1}, {1, 1, 4097}, {65536, 4096, 1}};
    static const char *const says[] = {
        "to 65536 channels, found 0",    "to 4096 rows, found 0",
        "to 4096 columns, found 0",      "to 65536 channels, found 65537",
        "to 4096 rows, found 4097",      "to 4096 columns, found 4097",
        "values in all, found 268435456"};
    struct fault f = {0};
    unsigned bad;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        assert_int_equal(nn_layers_shape(l, 1, shapes[i], &bad, &f), ERR_LIMIT);
        assert_non_null(strstr(f.text, says[i]));
        assert_int_equal(bad, 1);
    }
    assert_int_equal(
        nn_layers_shape(l, 0, (struct nn_shape){1, 1, 1}, &bad, &f), ERR_LIMIT);
    assert_int_equal(
        nn_layers_shape(l, 65, (struct nn_shape){1, 1, 1}, &bad, &f),
        ERR_LIMIT);
    assert_int_equal(
        nn_layers_shape(l, 2, (struct nn_shape){1, 32, 32}, &bad, &f),
        ERR_LIMIT);
    assert_int_equal(bad, 1);
    assert_non_null(strstr(f.text, "layer 1 (conv): its output: 65536 x 32"));
}

struct moments {
    double mean, variance, least, largest;
};

static struct moments weights_of(const struct nn_layer *l, const float *row,
                                 uint32_t outputs)
{
    size_t n = outputs * l->fan_in, k;
    struct moments m = {.least = INFINITY, .largest = -INFINITY};

    for (k = 0; k < n; k++) {
        m.mean += (double)row[k] / (double)n;
        m.least = fmin(m.least, (double)row[k]);
        m.largest = fmax(m.largest, (double)row[k]);
    }
    for (k = 0; k < n; k++)
        m.variance += pow((double)row[k] - m.mean, 2) / (double)n;
    return m;
}

/* He's weights are normal with variance 2 / fan_in, Glorot's uniform with
 * 2 / (fan_in + fan_out), where a convolution's fans count its kernel; biases
 * are 0. */
static void nn_initial_weights_have_their_variance(void **state)
{
    struct nn_layer l = {.kind = NN_CONV,
                         .units = 32,
                         .kernel = 5,
                         .stride = 1,
                         .init = NN_INIT_HE};
    struct fault f = {0};
    struct moments m;
    unsigned bad, u;
    float *row;

    (void)state;
    assert_int_equal(
        nn_layers_shape(&l, 1, (struct nn_shape){48, 5, 5}, &bad, &f), ERR_OK);
    assert_int_equal(l.rows, 1);
    row = mem_alloc(l.row_width * sizeof(*row));
    nn_layer_init(&l, 3, 1, 0, row);
    m = weights_of(&l, row, 32);
    assert_true(fabs(m.mean) < 5 * sqrt(2.0 / 1200 / 38400));
    assert_true(fabs(m.variance * 1200 / 2 - 1) < 0.05);
    assert_true(m.largest > 3 * sqrt(2.0 / 1200));
    for (u = 0; u < 32; u++)
        assert_true(row[32 * 1200 + u] == 0);
    l.init = NN_INIT_GLOROT;
    nn_layer_init(&l, 3, 1, 0, row);
    m = weights_of(&l, row, 32);
    assert_true(fabs(m.mean) < 5 * sqrt(2.0 / 2000 / 38400));
    assert_true(fabs(m.variance * 2000 / 2 - 1) < 0.05);
    assert_true(m.largest <= sqrt(6.0 / 2000) && m.largest > 0.05);
    assert_true(m.least >= -sqrt(6.0 / 2000) && m.least < -0.05);
    mem_free(row);
}

/* An output's initial weights are the same however the rows are cut, and differ
 * between outputs, layers and seeds; unused places of the last row are 0. */
static void nn_initial_weights_do_not_depend_on_rows(void **state)
{
    struct nn_layer whole = {.kind = NN_DENSE, .units = 10}, cut;
    struct fault f = {0};
    float one[80], two[48];
    unsigned bad, k;

    (void)state;
    assert_int_equal(
        nn_layers_shape(&whole, 1, (struct nn_shape){7, 1, 1}, &bad, &f),
        ERR_OK);
    nn_layer_init(&whole, 2, 5, 0, one);
    cut = whole;
    cut.row_units = 6;
    cut.rows = 2;
    cut.row_width = 48;
    nn_layer_init(&cut, 2, 5, 1, two);
    assert_memory_equal(two, one + 42, 28 * sizeof(float));
    for (k = 28; k < 48; k++)
        assert_true(two[k] == 0);
    assert_memory_not_equal(one, one + 7, 7 * sizeof(float));
    nn_layer_init(&cut, 3, 5, 1, two);
    assert_memory_not_equal(two, one + 42, 28 * sizeof(float));
    nn_layer_init(&cut, 2, 6, 1, two);
    assert_memory_not_equal(two, one + 42, 28 * sizeof(float));
}

/* Normalisation starts as the identity. */
static void nn_initial_norm_is_the_identity(void **state)
{
    struct nn_layer l = {.kind = NN_NORM, .rate = 0.1f, .epsilon = 1e-5f};
    static const float wanted[2][4] = {{1, 1, 0, 0}, {0, 0, 1, 1}};
    struct fault f = {0};
    float got[4];
    unsigned bad;

    (void)state;
    assert_int_equal(
        nn_layers_shape(&l, 1, (struct nn_shape){2, 3, 3}, &bad, &f), ERR_OK);
    nn_layer_init(&l, 0, 1, 0, got);
    assert_memory_equal(got, wanted[0], sizeof(got));
    assert_int_equal(l.moments, 4);
    nn_moments_init(&l, got);
    assert_memory_equal(got, wanted[1], sizeof(got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_layers_of_lenet_have_its_shapes),
        cmocka_unit_test(nn_rows_of_wide_layers_hold_eight_outputs),
        cmocka_unit_test(nn_layers_that_cannot_be_are_refused),
        cmocka_unit_test(nn_layers_over_the_limits_are_refused),
        cmocka_unit_test(nn_initial_weights_have_their_variance),
        cmocka_unit_test(nn_initial_weights_do_not_depend_on_rows),
        cmocka_unit_test(nn_initial_norm_is_the_identity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
