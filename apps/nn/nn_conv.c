#include "apps/nn/nn_conv_kernel.h"
#include "apps/nn/nn_ops.h"
#include "apps/nn/nn_vec.h"

#include <string.h>

/* Convolution of a layer: weights are put into the kernels' order, the gradient
 * is summed transposed and added to the rows at the end. */

/* Data that a block of windows and images reads in the gradient of the weights
 * is to stay in the first cache. */
enum { BLOCK_BYTES = 24 << 10 };

/* The parts of work, sizes in floats. */
struct parts {
    size_t columns; /* units, rounded up */
    size_t depth;   /* input channels, rounded up */
    size_t forward; /* [fan_in][columns], then the bias */
    size_t backward;
    size_t sum;    /* [fan_in + NN_TILE_ROWS][columns] */
    size_t padded; /* block of images with their padding; 0: no padding */
    size_t images; /* in a block */
    size_t rows;   /* of windows, in a block */
};

static struct nn_shape padded_shape(const struct nn_layer *l)
{
    return (struct nn_shape){l->in.channels, l->in.height + 2 * l->padding,
                             l->in.width + 2 * l->padding};
}

/* Whole images while they fit, else a part of one. */
static void choose_block(const struct nn_layer *l, struct parts *p)
{
    size_t row = padded_shape(l).width * (size_t)l->in.channels;
    size_t windows = (size_t)l->out.width * l->units;
    size_t image = nn_shape_size(padded_shape(l)) + nn_shape_size(l->out);
    size_t floats = BLOCK_BYTES / sizeof(float), over = l->kernel * row;
    size_t rows =
        floats > over ? (floats - over) / (l->stride * row + windows) : 0;

    p->images = floats / image > 0 ? floats / image : 1;
    p->rows = rows > 0 ? rows : 1;
    if (p->images > 1 || p->rows > l->out.height)
        p->rows = l->out.height;
}

static struct parts parts_of(const struct nn_layer *l)
{
    struct parts p = {.columns = nn_round_up(l->units, NN_LANES_MAX),
                      .depth = nn_round_up(l->in.channels, NN_LANES_MAX)};

    choose_block(l, &p);
    p.forward = (l->fan_in + 1) * p.columns;
    p.backward = (size_t)l->kernel * l->kernel * l->units * p.depth;
    p.sum = (l->fan_in + NN_TILE_ROWS) * p.columns;
    p.padded =
        l->padding ? p.images * nn_shape_size(padded_shape(l)) + NN_SLACK : 0;
    return p;
}

static uint64_t conv_work_bytes(const struct nn_layer *l, size_t batch_max)
{
    struct parts p = parts_of(l);

    (void)batch_max;
    return (p.forward + p.backward + p.sum + p.padded) * sizeof(float) +
           (l->fan_in + NN_TILE_ROWS) * sizeof(size_t);
}

/* The places come first, for their alignment. */
struct work {
    size_t *place;
    float *forward, *backward, *sum, *padded;
};

static struct work work_of(const struct nn_state *s, const struct parts *p)
{
    size_t *place = s->work;
    float *at = (float *)(place + s->layer->fan_in + NN_TILE_ROWS);

    return (struct work){.place = place,
                         .forward = at,
                         .backward = at + p->forward,
                         .sum = at + p->forward + p->backward,
                         .padded = at + p->forward + p->backward + p->sum};
}

/* ---- forward ------------------------------------------------------------- */

/* @to[k][stride] = @from[u][k]: the weights of @units outputs as columns. */
static void transpose(size_t units, size_t fan_in, const float *from,
                      size_t stride, float *to)
{
    size_t u, k;

    for (u = 0; u < units; u++)
        for (k = 0; k < fan_in; k++)
            to[k * stride + u] = from[u * fan_in + k];
}

static void conv_forward(const struct nn_state *s, const struct nn_batch *batch,
                         const struct nn_params *params)
{
    const struct nn_layer *l = s->layer;
    struct parts p = parts_of(l);
    struct work w = work_of(s, &p);
    float *bias = w.forward + l->fan_in * p.columns;
    struct nn_gather g = {.layer = l,
                          .forward = true,
                          .source = l->in,
                          .target = l->out,
                          .step = l->stride,
                          .weight = w.forward,
                          .stride = p.columns,
                          .bias = bias,
                          .from = s->x,
                          .to = s->y};
    uint32_t r;

    for (r = 0; r < l->rows; r++) {
        size_t units = nn_row_outputs(l, r), at = r * l->row_units;

        transpose(units, l->fan_in, params->row[r], p.columns, w.forward + at);
        memcpy(bias + at, params->row[r] + l->row_units * l->fan_in,
               units * sizeof(*bias));
    }
    nn_gather(&g, batch->n);
}

/* ---- gradient of the input ----------------------------------------------- */

/* Weights as [kernel row][kernel column][output][depth]. */
static void turn_weights(const struct nn_layer *l,
                         const struct nn_params *params, size_t depth,
                         float *to)
{
    size_t channels = l->in.channels, u, y, x;

    for (u = 0; u < l->units; u++) {
        const float *from =
            params->row[u / l->row_units] + u % l->row_units * l->fan_in;

        for (y = 0; y < l->kernel; y++)
            for (x = 0; x < l->kernel; x++) {
                size_t place = nn_kernel_place(l, false, y) * l->kernel +
                               nn_kernel_place(l, false, x);

                memcpy(to + (place * l->units + u) * depth, from,
                       channels * sizeof(*to));
                from += channels;
            }
    }
}

static void input_gradient(const struct nn_state *s,
                           const struct nn_batch *batch,
                           const struct nn_params *params,
                           const struct parts *p, const struct work *w)
{
    const struct nn_layer *l = s->layer;
    struct nn_gather g = {.layer = l,
                          .forward = false,
                          .source = l->out,
                          .target = l->in,
                          .step = 1,
                          .weight = w->backward,
                          .stride = p->depth,
                          .from = s->dy,
                          .to = s->dx};

    turn_weights(l, params, p->depth, w->backward);
    nn_gather(&g, batch->n);
}

/* ---- gradient of the parameters ------------------------------------------ */

/* @n images with zeros around them; the zeros are there from the start. */
static const float *pad_images(const struct nn_layer *l, size_t n,
                               const float *x, float *out)
{
    struct nn_shape big = padded_shape(l);
    size_t row = (size_t)l->in.width * l->in.channels, i, y;

    for (i = 0; i < n; i++)
        for (y = 0; y < l->in.height; y++)
            memcpy(out + i * nn_shape_size(big) +
                       ((y + l->padding) * big.width + l->padding) *
                           big.channels,
                   x + i * nn_shape_size(l->in) + y * row, row * sizeof(*x));
    return out;
}

static void find_places(const struct nn_layer *l, size_t *place)
{
    size_t row = padded_shape(l).width * (size_t)l->in.channels;
    size_t run = (size_t)l->kernel * l->in.channels, k;

    for (k = 0; k < l->fan_in; k++)
        place[k] = k / run * row + k % run;
    for (; k < l->fan_in + NN_TILE_ROWS; k++)
        place[k] = place[l->fan_in - 1];
}

static void sum_weights(const struct nn_state *s, const struct nn_batch *batch,
                        const struct parts *p, const struct work *w)
{
    const struct nn_layer *l = s->layer;
    struct nn_shape big = padded_shape(l);
    struct nn_correlate c = {.rows = l->fan_in,
                             .place = w->place,
                             .row_floats = (size_t)big.width * big.channels,
                             .image_floats = nn_shape_size(big),
                             .step = (size_t)l->stride * big.channels,
                             .step_rows = l->stride,
                             .width = l->out.width,
                             .height = l->out.height,
                             .channels = l->units,
                             .stride = p->columns,
                             .sum = w->sum};
    size_t image, n, y;

    find_places(l, w->place);
    memset(w->sum, 0, p->sum * sizeof(*w->sum));
    for (image = 0; image < batch->n; image += n) {
        const float *x = s->x + image * nn_shape_size(l->in);
        const float *dy = s->dy + image * nn_shape_size(l->out);

        n = batch->n - image < p->images ? batch->n - image : p->images;
        if (l->padding)
            x = pad_images(l, n, x, w->padded);
        for (y = 0; y < l->out.height; y += p->rows)
            nn_correlate(&c, n, y,
                         y + p->rows < l->out.height ? y + p->rows
                                                     : l->out.height,
                         x, dy);
    }
}

KERNEL static void sum_bias(size_t m, size_t units, const float *restrict dy,
                            float *restrict sum)
{
    size_t p, u;

    for (p = 0; p < m; p++, dy += units)
        for (u = 0; u < units; u++)
            sum[u] += dy[u];
}

/* The sum's columns into the rows of the parameters. */
static void add_weights(const struct nn_layer *l, const struct parts *p,
                        const float *sum, const struct nn_grads *grads)
{
    size_t u, k;

    for (u = 0; u < l->units; u++) {
        float *to = grads->row[u / l->row_units] + u % l->row_units * l->fan_in;

        for (k = 0; k < l->fan_in; k++)
            to[k] += sum[k * p->columns + u];
    }
}

static void add_bias(const struct nn_state *s, const struct nn_batch *batch,
                     const struct parts *p, float *sum,
                     const struct nn_grads *grads)
{
    const struct nn_layer *l = s->layer;
    size_t u;

    memset(sum, 0, p->columns * sizeof(*sum));
    sum_bias(batch->n * l->out.height * l->out.width, l->units, s->dy, sum);
    for (u = 0; u < l->units; u++)
        grads->row[u / l->row_units]
                  [l->row_units * l->fan_in + u % l->row_units] += sum[u];
}

static void conv_backward(const struct nn_state *s,
                          const struct nn_batch *batch,
                          const struct nn_params *params,
                          const struct nn_grads *grads)
{
    struct parts p = parts_of(s->layer);
    struct work w = work_of(s, &p);

    sum_weights(s, batch, &p, &w);
    add_weights(s->layer, &p, w.sum, grads);
    add_bias(s, batch, &p, w.sum, grads);
    if (s->dx)
        input_gradient(s, batch, params, &p, &w);
}

const struct nn_ops nn_conv = {
    .name = "conv",
    .work_bytes = conv_work_bytes,
    .forward = conv_forward,
    .backward = conv_backward,
};
