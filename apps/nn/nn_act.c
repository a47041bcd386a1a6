#include "apps/nn/nn_ops.h"
#include "base/rng.h"
#include "base/simd.h"

#include <math.h>
#include <string.h>

/* Layers that act on each value by itself. */

static size_t values_of(const struct nn_state *s, const struct nn_batch *batch)
{
    return batch->n * nn_shape_size(s->layer->out);
}

/* ---- relu ---------------------------------------------------------------- */

/* Written so that a NaN stays one. */
KERNEL static void relu_forward(const struct nn_state *s,
                                const struct nn_batch *batch,
                                const struct nn_params *params)
{
    size_t size = values_of(s, batch), i;
    const float *x = s->x;
    float *y = s->y;

    (void)params;
    for (i = 0; i < size; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

KERNEL static void relu_backward(const struct nn_state *s,
                                 const struct nn_batch *batch,
                                 const struct nn_params *params,
                                 const struct nn_grads *grads)
{
    size_t size = values_of(s, batch), i;
    const float *y = s->y, *dy = s->dy;
    float *dx = s->dx;

    (void)params;
    (void)grads;
    for (i = 0; i < size; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

const struct nn_ops nn_relu = {
    .name = "relu",
    .in_place = true,
    .forward = relu_forward,
    .backward = relu_backward,
};

/* ---- tanh ---------------------------------------------------------------- */

static void tanh_forward(const struct nn_state *s, const struct nn_batch *batch,
                         const struct nn_params *params)
{
    size_t size = values_of(s, batch), i;

    (void)params;
    for (i = 0; i < size; i++)
        s->y[i] = tanhf(s->x[i]);
}

KERNEL static void tanh_backward(const struct nn_state *s,
                                 const struct nn_batch *batch,
                                 const struct nn_params *params,
                                 const struct nn_grads *grads)
{
    size_t size = values_of(s, batch), i;
    const float *y = s->y, *dy = s->dy;
    float *dx = s->dx;

    (void)params;
    (void)grads;
    for (i = 0; i < size; i++)
        dx[i] = dy[i] * (1 - y[i] * y[i]);
}

const struct nn_ops nn_tanh = {
    .name = "tanh",
    .in_place = true,
    .keeps_output = true,
    .forward = tanh_forward,
    .backward = tanh_backward,
};

/* ---- dropout ------------------------------------------------------------- */

/* The mask of one sample: a 32-bit mix (the finaliser of MurmurHash3, Appleby
 * 2011, with a second key between its rounds) of the value's number, so that
 * lanes need nothing of one another. */
struct mask {
    uint32_t key[2];
    uint32_t threshold; /* dropped below */
    float factor;       /* of what is kept */
};

static struct mask mask_of(float rate, uint64_t seed, unsigned number,
                           uint64_t sample)
{
    uint64_t key = rng_mix(rng_mix(seed, number), sample);

    return (struct mask){.key = {(uint32_t)key, (uint32_t)(key >> 32)},
                         .threshold = (uint32_t)((double)rate * 4294967296.0),
                         .factor = 1 / (1 - rate)};
}

KERNEL_PART float mask_factor(const struct mask *m, uint32_t j)
{
    uint32_t h = j * 0x9e3779b1u + m->key[0];

    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) + m->key[1];
    h = (h ^ h >> 15) * 0xc2b2ae35u;
    h ^= h >> 16;
    return h < m->threshold ? 0 : m->factor;
}

bool nn_dropout_keeps(float rate, uint64_t seed, unsigned number,
                      uint64_t sample, uint32_t j)
{
    struct mask m = mask_of(rate, seed, number, sample);

    return mask_factor(&m, j) > 0;
}

/* A NaN that is dropped stays one: 0 NaN. */
KERNEL static void apply_mask(const struct mask *mask, uint32_t size,
                              const float *from, float *to)
{
    struct mask m = *mask;
    uint32_t j;

    for (j = 0; j < size; j++)
        to[j] = from[j] * mask_factor(&m, j);
}

static void apply_masks(const struct nn_state *s, const struct nn_batch *batch,
                        const float *from, float *to)
{
    float rate = batch->dropout ? *batch->dropout : s->layer->rate;
    size_t size = nn_shape_size(s->layer->out), i;

    for (i = 0; i < batch->n; i++) {
        struct mask m = mask_of(rate, batch->seed, s->number, batch->first + i);

        apply_mask(&m, (uint32_t)size, from + i * size, to + i * size);
    }
}

static void dropout_forward(const struct nn_state *s,
                            const struct nn_batch *batch,
                            const struct nn_params *params)
{
    (void)params;
    if (batch->train)
        apply_masks(s, batch, s->x, s->y);
    else if (s->y != s->x)
        memcpy(s->y, s->x, values_of(s, batch) * sizeof(*s->y));
}

static void dropout_backward(const struct nn_state *s,
                             const struct nn_batch *batch,
                             const struct nn_params *params,
                             const struct nn_grads *grads)
{
    (void)params;
    (void)grads;
    apply_masks(s, batch, s->dy, s->dx);
}

const struct nn_ops nn_dropout = {
    .name = "dropout",
    .in_place = true,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
