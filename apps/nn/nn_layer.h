/* Layers of a feed-forward network: kinds, sizes, shapes, parameters.
 *
 * Activations are float32 and sample-major, channels last:
 *
 *     a[n][height][width][channels]
 *
 * so that a convolution's window is `kernel` contiguous runs, channels fill
 * vector registers, and flattening for a dense layer is no work. (PyTorch has
 * channels first; for one channel the two are the same.)
 *
 * A layer with parameters has one table of `rows` rows of `row_width` values:
 *
 *   dense, conv  weight[row_units][fan_in], bias[row_units]
 *   norm         gamma[channels], beta[channels] in its one row
 *
 * A row of dense or conv has `row_units` outputs, the last one perhaps fewer:
 * what it leaves unused is and stays 0. fan_in is ordered kernel row, kernel
 * column, channel for conv, and height, width, channel for dense.
 *
 * A norm layer has a second table, of one row: the running moments,
 * mean[channels], variance[channels]: not trained by gradient, but moved by
 * what nn_net_backward adds up for it (update rule "add").
 */
#ifndef APPS_NN_LAYER_H
#define APPS_NN_LAYER_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum nn_kind {
    NN_DENSE,    /* y = W x + b over all of the input, flattened */
    NN_CONV,     /* 2-D convolution (correlation), zero padding */
    NN_MAX_POOL, /* over the positions inside the image */
    NN_AVG_POOL, /* mean over the positions inside the image */
    NN_RELU,
    NN_TANH,
    NN_NORM,    /* batch normalisation by channel (Ioffe and Szegedy 2015) */
    NN_DROPOUT, /* kept values are scaled by 1 / (1 - rate) */
    NN_KINDS
};

enum nn_init {
    NN_INIT_HE,     /* normal, variance 2 / fan_in (He et al. 2015) */
    NN_INIT_GLOROT, /* uniform, variance 2 / (fan_in + fan_out) (Glorot and
                       Bengio 2010) */
};

enum {
    NN_LAYERS_MAX = 64,
    NN_SIDE_MAX = 4096,       /* height, width */
    NN_CHANNELS_MAX = 65536,  /* units too */
    NN_KERNEL_MAX = 16,       /* kernel of conv and pooling; stride too */
    NN_WIDTH_MAX = 1 << 24,   /* values of one sample at any layer */
    NN_ROW_VALUES = 64 << 10, /* a parameter row is cut where it would have more
                                 values (at least 8 units a row) */
};

struct nn_shape {
    uint32_t channels, height, width;
};

static inline size_t nn_shape_size(struct nn_shape s)
{
    return (size_t)s.channels * s.height * s.width;
}

struct nn_layer {
    /* Said by the caller. */
    enum nn_kind kind;
    uint32_t units;    /* dense: outputs; conv: output channels */
    uint32_t kernel;   /* conv, pooling: side of the square window, >= 1 */
    uint32_t stride;   /* conv, pooling: >= 1 */
    uint32_t padding;  /* conv, pooling: on every side, < kernel; pooling: at
                          most kernel / 2 */
    float rate;        /* dropout: share that is dropped, 0 <= rate < 1;
                          norm: weight of a new batch in the running moments,
                          0 < rate <= 1 (usual: 0.1) */
    float epsilon;     /* norm: added to the variance, > 0 (usual: 1e-5) */
    enum nn_init init; /* dense, conv */

    /* Found by nn_layers_shape; 0 where a layer has none. */
    struct nn_shape in, out;
    uint64_t fan_in;    /* dense, conv: weights of an output */
    uint32_t row_units; /* dense, conv: outputs a parameter row */
    uint32_t rows;      /* of its parameter table; 0: no parameters */
    uint32_t row_width; /* values a row */
    uint32_t moments;   /* norm: values of the row of running moments */
};

/* Short name of @kind as it stands in descriptions: "dense", "conv",
 * "max_pool", "avg_pool", "relu", "tanh", "norm", "dropout". Static storage. */
const char *nn_kind_name(enum nn_kind kind);

/* Checks what the caller said of @layer[count] and fills in the rest, from the
 * shape of the input on. A window that would not fit is an error; sizes are
 * floor((size + 2 padding - kernel) / stride) + 1.
 *
 * Errors: ERR_INVAL, ERR_LIMIT: @f says "layer 3 (conv): ...", the number
 * counted from 0, which is also put into @bad (count where it is not one
 * layer's fault). @layer's found members may be changed then.
 */
enum err nn_layers_shape(struct nn_layer *layer, unsigned count,
                         struct nn_shape input, unsigned *bad, struct fault *f);

/* Outputs of row @row of a dense or conv layer: row_units but in the last. */
uint32_t nn_row_outputs(const struct nn_layer *layer, uint32_t row);

/* Initial values of row @row of the parameter table of layer number @number
 * into @values[row_width]: weights by layer->init, biases and beta 0, gamma 1.
 * They depend on @seed, the number and the output, not on how rows are cut. */
void nn_layer_init(const struct nn_layer *layer, unsigned number, uint64_t seed,
                   uint32_t row, float *values);

/* Initial running moments, @values[layer->moments]: means 0, variances 1. */
void nn_moments_init(const struct nn_layer *layer, float *values);

#endif
