/* The inner loops of convolution, without unfolding the image into a matrix.
 *
 * With channels last, what a window reads of one row of an image is one
 * contiguous run, and so are the weights that it meets. An output position is
 * then a sum over a few such runs; positions that meet the same weights are
 * computed in tiles of several positions and up to three vectors of channels
 * (apps/nn/nn_tiles.h). The gradient of the input is the same sum with the
 * roles of the ends exchanged. Nothing is computed for the padding.
 *
 * Shapes: source [n][height][width][depth], target likewise; matrices of
 * weights have rows of `stride` floats, a multiple of NN_LANES_MAX, zero behind
 * the target's depth. Pure functions.
 */
#ifndef APPS_NN_CONV_KERNEL_H
#define APPS_NN_CONV_KERNEL_H

#include "apps/nn/nn_layer.h"

/* Where one axis of a target position reads: `count` source positions from
 * `source` on meet as many weights from place `weight` on. */
struct nn_reach {
    size_t source, weight, count;
};

struct nn_gather {
    const struct nn_layer *layer;
    bool forward; /* false: gradient of the input */
    struct nn_shape source, target;
    size_t step;         /* sources between two like targets */
    const float *weight; /* [kernel][kernel][source channels][stride], kernel
                            rows and columns by nn_kernel_place */
    size_t stride;
    const float *bias; /* [stride], or NULL: 0 */
    const float *from; /* [n] source */
    float *to;         /* [n] target */
};

/* Place of row or column @k of the kernel in nn_gather's weights: in order for
 * forward; for the gradient of the input by phase of the stride, falling in
 * each. */
size_t nn_kernel_place(const struct nn_layer *l, bool forward, size_t k);

/* @to = the sums of all targets of @n samples. */
void nn_gather(const struct nn_gather *g, size_t n);

struct nn_correlate {
    size_t rows;         /* of the sum: kernel kernel channels */
    const size_t *place; /* [rows + NN_TILE_ROWS]: where in a window */
    size_t row_floats;   /* of an image row of x */
    size_t image_floats; /* of an image of x */
    size_t step;         /* floats from a window to the next, in x */
    size_t step_rows;    /* image rows from a window to the one below */
    size_t width;        /* windows a row */
    size_t height;       /* windows a column */
    size_t channels;     /* of dy */
    size_t stride;       /* of sum, a multiple of NN_LANES_MAX */
    float *sum;          /* [rows + NN_TILE_ROWS][stride] */
};

enum { NN_TILE_ROWS = 12 }; /* at most */

/* sum[r][c] += x[window + place[r]] dy[window][c] over the windows of the rows
 * @first .. @end - 1 of @n images; NN_SLACK floats behind dy may be read. */
void nn_correlate(const struct nn_correlate *c, size_t n, size_t first,
                  size_t end, const float *x, const float *dy);

#endif
