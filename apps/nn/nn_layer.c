#include "apps/nn/nn_layer.h"

#include "apps/nn/nn_ops.h"
#include "base/rng.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { UNITS_STEP = 8 };

const struct nn_ops *nn_ops_of(enum nn_kind kind)
{
    static const struct nn_ops *const ops[NN_KINDS] = {
        [NN_DENSE] = &nn_dense,       [NN_CONV] = &nn_conv,
        [NN_MAX_POOL] = &nn_max_pool, [NN_AVG_POOL] = &nn_avg_pool,
        [NN_RELU] = &nn_relu,         [NN_TANH] = &nn_tanh,
        [NN_NORM] = &nn_norm,         [NN_DROPOUT] = &nn_dropout,
    };

    assert(kind < NN_KINDS);
    return ops[kind];
}

const char *nn_kind_name(enum nn_kind kind)
{
    return nn_ops_of(kind)->name;
}

/* ---- shapes -------------------------------------------------------------- */

/* Cuts the outputs into rows of about equal size. */
static void cut_rows(struct nn_layer *l)
{
    uint64_t values = l->units * (l->fan_in + 1);
    uint64_t wanted = 1 + (values - 1) / NN_ROW_VALUES;
    uint64_t units = (l->units + wanted - 1) / wanted;

    units = (units + UNITS_STEP - 1) / UNITS_STEP * UNITS_STEP;
    l->row_units = units < l->units ? (uint32_t)units : l->units;
    l->rows = (l->units + l->row_units - 1) / l->row_units;
    l->row_width = (uint32_t)(l->row_units * (l->fan_in + 1));
}

static enum err check_units(const struct nn_layer *l, struct fault *f)
{
    if (l->units >= 1 && l->units <= NN_CHANNELS_MAX)
        return ERR_OK;
    return fault_set(f, ERR_INVAL, "expected 1 to %d units, found %" PRIu32,
                     NN_CHANNELS_MAX, l->units);
}

static enum err shape_dense(struct nn_layer *l, struct fault *f)
{
    enum err err = check_units(l, f);

    if (err)
        return err;
    l->out = (struct nn_shape){l->units, 1, 1};
    l->fan_in = nn_shape_size(l->in);
    cut_rows(l);
    return ERR_OK;
}

static enum err check_window(const struct nn_layer *l, struct fault *f)
{
    uint32_t padding_max = l->kind == NN_CONV ? l->kernel - 1 : l->kernel / 2;

    if (l->kernel < 1 || l->kernel > NN_KERNEL_MAX)
        return fault_set(f, ERR_INVAL,
                         "expected a kernel of 1 to %d, found %" PRIu32,
                         NN_KERNEL_MAX, l->kernel);
    if (l->stride < 1 || l->stride > NN_KERNEL_MAX)
        return fault_set(f, ERR_INVAL,
                         "expected a stride of 1 to %d, found %" PRIu32,
                         NN_KERNEL_MAX, l->stride);
    if (l->padding > padding_max)
        return fault_set(f, ERR_INVAL,
                         "expected a padding of at most %" PRIu32
                         " with a kernel of %" PRIu32 ", found %" PRIu32,
                         padding_max, l->kernel, l->padding);
    return ERR_OK;
}

static enum err shape_window(struct nn_layer *l, struct fault *f)
{
    enum err err = check_window(l, f);
    uint32_t around = 2 * l->padding;

    if (err)
        return err;
    if (l->in.height + around < l->kernel || l->in.width + around < l->kernel)
        return fault_set(f, ERR_INVAL,
                         "a kernel of %" PRIu32 " with padding %" PRIu32
                         " does not fit into %" PRIu32 " x %" PRIu32,
                         l->kernel, l->padding, l->in.height, l->in.width);
    l->out.channels = l->in.channels;
    l->out.height = (l->in.height + around - l->kernel) / l->stride + 1;
    l->out.width = (l->in.width + around - l->kernel) / l->stride + 1;
    return ERR_OK;
}

static enum err shape_conv(struct nn_layer *l, struct fault *f)
{
    enum err err = check_units(l, f);

    if (!err)
        err = shape_window(l, f);
    if (err)
        return err;
    l->out.channels = l->units;
    l->fan_in = (uint64_t)l->kernel * l->kernel * l->in.channels;
    cut_rows(l);
    return ERR_OK;
}

static enum err shape_norm(struct nn_layer *l, struct fault *f)
{
    if (!(l->rate > 0 && l->rate <= 1))
        return fault_set(f, ERR_INVAL,
                         "expected a rate above 0 and at most 1, found %g",
                         (double)l->rate);
    if (!(l->epsilon > 0 && isfinite(l->epsilon)))
        return fault_set(f, ERR_INVAL, "expected an epsilon above 0, found %g",
                         (double)l->epsilon);
    l->rows = 1;
    l->row_width = l->moments = 2 * l->in.channels;
    return ERR_OK;
}

static enum err shape_dropout(const struct nn_layer *l, struct fault *f)
{
    if (l->rate >= 0 && l->rate < 1)
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "expected a rate of at least 0 and below 1, found %g",
                     (double)l->rate);
}

static enum err shape_layer(struct nn_layer *l, struct fault *f)
{
    l->out = l->in;
    l->fan_in = 0;
    l->row_units = l->rows = l->row_width = l->moments = 0;
    switch (l->kind) {
    case NN_DENSE:
        return shape_dense(l, f);
    case NN_CONV:
        return shape_conv(l, f);
    case NN_MAX_POOL:
    case NN_AVG_POOL:
        return shape_window(l, f);
    case NN_NORM:
        return shape_norm(l, f);
    case NN_DROPOUT:
        return shape_dropout(l, f);
    default:
        return ERR_OK;
    }
}

/* Names the limit that a shape breaks. */
static enum err check_shape(struct nn_shape s, struct fault *f)
{
    const struct {
        const char *name;
        uint64_t found, most;
    } limits[] = {{"channels", s.channels, NN_CHANNELS_MAX},
                  {"rows", s.height, NN_SIDE_MAX},
                  {"columns", s.width, NN_SIDE_MAX},
                  {"values in all", nn_shape_size(s), NN_WIDTH_MAX}};

    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (limits[i].found < 1 || limits[i].found > limits[i].most)
            return fault_set(f, ERR_LIMIT,
                             "%" PRIu32 " x %" PRIu32 " x %" PRIu32
                             " values: expected 1 to %" PRIu64
                             " %s, found %" PRIu64,
                             s.channels, s.height, s.width, limits[i].most,
                             limits[i].name, limits[i].found);
    return ERR_OK;
}

static enum err check_input(struct nn_shape s, unsigned count, struct fault *f)
{
    if (count < 1 || count > NN_LAYERS_MAX)
        return fault_set(f, ERR_LIMIT, "expected 1 to %d layers, found %u",
                         NN_LAYERS_MAX, count);
    if (!check_shape(s, f))
        return ERR_OK;
    fault_wrap(f, "samples");
    return ERR_LIMIT;
}

enum err nn_layers_shape(struct nn_layer *layer, unsigned count,
                         struct nn_shape input, unsigned *bad, struct fault *f)
{
    enum err err = check_input(input, count, f);
    unsigned i;

    *bad = count;
    for (i = 0; !err && i < count; i++) {
        struct nn_layer *l = &layer[i];

        assert(l->kind < NN_KINDS);
        l->in = i ? layer[i - 1].out : input;
        err = shape_layer(l, f);
        if (!err && check_shape(l->out, f)) {
            err = ERR_LIMIT;
            fault_wrap(f, "its output");
        }
        if (err) {
            *bad = i;
            fault_wrap(f, "layer %u (%s)", i, nn_kind_name(l->kind));
        }
    }
    return err;
}

uint32_t nn_row_outputs(const struct nn_layer *layer, uint32_t row)
{
    uint32_t left = layer->units - row * layer->row_units;

    assert(row < layer->rows);
    return left < layer->row_units ? left : layer->row_units;
}

/* ---- initial values ------------------------------------------------------ */

/* Outputs that an input value of the layer feeds, on the whole: what Glorot's
 * variance needs of the backward pass. */
static double fan_out(const struct nn_layer *l)
{
    return l->kind == NN_CONV ? (double)l->kernel * l->kernel * l->units
                              : (double)l->units;
}

static void init_weights(const struct nn_layer *l, struct rng *rng, float *w)
{
    double fan_in = (double)l->fan_in, deviation = sqrt(2 / fan_in);
    double bound = sqrt(6 / (fan_in + fan_out(l)));
    uint64_t k;

    for (k = 0; k < l->fan_in; k++)
        w[k] =
            (float)(l->init == NN_INIT_HE ? deviation * rng_normal(rng)
                                          : bound * (2 * rng_uniform(rng) - 1));
}

void nn_layer_init(const struct nn_layer *layer, unsigned number, uint64_t seed,
                   uint32_t row, float *values)
{
    uint64_t own = rng_mix(seed, number);
    uint32_t outputs, u, c;

    assert(row < layer->rows);
    memset(values, 0, layer->row_width * sizeof(*values));
    if (layer->kind == NN_NORM) {
        for (c = 0; c < layer->in.channels; c++)
            values[c] = 1;
        return;
    }
    outputs = nn_row_outputs(layer, row);
    for (u = 0; u < outputs; u++) {
        struct rng rng;

        rng_init(&rng, rng_mix(own, row * layer->row_units + u));
        init_weights(layer, &rng, values + u * layer->fan_in);
    }
}

void nn_moments_init(const struct nn_layer *layer, float *values)
{
    uint32_t channels = layer->moments / 2, c;

    for (c = 0; c < channels; c++) {
        values[c] = 0;
        values[channels + c] = 1;
    }
}
