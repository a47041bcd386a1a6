#include "tests/unit/nn_plain.h"

#include "apps/nn_ops.h"

#include <assert.h>
#include <math.h>

/* Weight @k of output @u; its bias is k == fan_in. */
static double weight_of(const struct nn_layer *l, const double *param, size_t u,
                        size_t k)
{
    const double *row = param + u / l->row_units * l->row_width;

    u %= l->row_units;
    return k == l->fan_in ? row[l->row_units * l->fan_in + u]
                          : row[u * l->fan_in + k];
}

/* Value at (y, x) of one sample, in coordinates that include the padding. */
static const double *pixel(const struct nn_layer *l, const double *x, long row,
                           long col)
{
    row -= (long)l->padding;
    col -= (long)l->padding;
    if (row < 0 || col < 0 || row >= (long)l->in.height ||
        col >= (long)l->in.width)
        return NULL;
    return x + ((size_t)row * l->in.width + (size_t)col) * l->in.channels;
}

static double dense_value(const struct nn_layer *l, const double *param,
                          const double *x, size_t u)
{
    double sum = weight_of(l, param, u, l->fan_in);

    for (size_t k = 0; k < l->fan_in; k++)
        sum += weight_of(l, param, u, k) * x[k];
    return sum;
}

static double conv_value(const struct nn_layer *l, const double *param,
                         const double *x, size_t oy, size_t ox, size_t u)
{
    double sum = weight_of(l, param, u, l->fan_in);

    for (size_t ky = 0; ky < l->kernel; ky++)
        for (size_t kx = 0; kx < l->kernel; kx++) {
            const double *p = pixel(l, x, (long)(oy * l->stride + ky),
                                    (long)(ox * l->stride + kx));

            for (size_t c = 0; p && c < l->in.channels; c++)
                sum += p[c] *
                       weight_of(l, param, u,
                                 (ky * l->kernel + kx) * l->in.channels + c);
        }
    return sum;
}

static double pool_value(const struct nn_layer *l, const double *x, size_t oy,
                         size_t ox, size_t c)
{
    double max = -INFINITY, sum = 0;
    int inside = 0;

    for (size_t ky = 0; ky < l->kernel; ky++)
        for (size_t kx = 0; kx < l->kernel; kx++) {
            const double *p = pixel(l, x, (long)(oy * l->stride + ky),
                                    (long)(ox * l->stride + kx));

            if (!p)
                continue;
            max = fmax(max, p[c]);
            sum += p[c];
            inside++;
        }
    return l->kind == NN_MAX_POOL ? max : sum / inside;
}

static void place_values(const struct nn_layer *l, const double *param,
                         const double *x, double *y)
{
    for (size_t oy = 0; oy < l->out.height; oy++)
        for (size_t ox = 0; ox < l->out.width; ox++)
            for (size_t c = 0; c < l->out.channels; c++) {
                double v = l->kind == NN_DENSE ? dense_value(l, param, x, c)
                           : l->kind == NN_CONV
                               ? conv_value(l, param, x, oy, ox, c)
                               : pool_value(l, x, oy, ox, c);

                *y++ = v;
            }
}

static void norm_values(const struct nn_layer *l, size_t n, const double *param,
                        const double *x, double *y)
{
    size_t channels = l->in.channels;
    size_t m = n * l->in.height * l->in.width;

    for (size_t c = 0; c < channels; c++) {
        double mean = 0, variance = 0;

        for (size_t p = 0; p < m; p++)
            mean += x[p * channels + c] / (double)m;
        for (size_t p = 0; p < m; p++)
            variance += pow(x[p * channels + c] - mean, 2) / (double)m;
        for (size_t p = 0; p < m; p++)
            y[p * channels + c] = param[c] * (x[p * channels + c] - mean) /
                                      sqrt(variance + (double)l->epsilon) +
                                  param[channels + c];
    }
}

static double act_value(const struct nn_layer *l, unsigned number,
                        const struct nn_batch *batch, size_t i, size_t j,
                        double x)
{
    switch (l->kind) {
    case NN_RELU:
        return x > 0 ? x : 0;
    case NN_TANH:
        return tanh(x);
    case NN_DROPOUT:
        return nn_dropout_keeps(l->rate, batch->seed, number, batch->first + i,
                                (uint32_t)j)
                   ? x / (1 - (double)l->rate)
                   : 0;
    default:
        assert(!"a layer that acts on each value");
        return 0;
    }
}

void plain_forward(const struct nn_layer *l, unsigned number,
                   const struct nn_batch *batch, const double *param,
                   const double *x, double *y)
{
    size_t in = nn_shape_size(l->in), out = nn_shape_size(l->out);

    if (l->kind == NN_NORM) {
        norm_values(l, batch->n, param, x, y);
        return;
    }
    for (size_t i = 0; i < batch->n; i++) {
        if (l->kind <= NN_AVG_POOL) {
            place_values(l, param, x + i * in, y + i * out);
            continue;
        }
        for (size_t j = 0; j < out; j++)
            y[i * out + j] = act_value(l, number, batch, i, j, x[i * in + j]);
    }
}

double plain_loss(enum nn_loss loss, const struct nn_batch *batch,
                  size_t outputs, const double *z)
{
    double sum = 0;

    for (size_t i = 0; i < batch->n; i++, z += outputs) {
        double exps = 0;

        for (size_t j = 0; j < outputs; j++) {
            exps += exp(z[j]);
            if (loss == NN_SQUARED)
                sum +=
                    0.5 * pow(z[j] - (double)batch->target[i * outputs + j], 2);
        }
        if (loss == NN_CROSS_ENTROPY)
            sum += log(exps) - z[batch->label[i]];
    }
    return sum;
}
