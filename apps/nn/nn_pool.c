#include "apps/nn/nn_ops.h"
#include "base/simd.h"

#include <math.h>
#include <string.h>

/* A window's part inside the image: rows y0 .. y1 - 1, columns x0 .. x1 - 1. */
struct window {
    size_t y0, y1, x0, x1;
};

KERNEL_PART void clip(size_t at, const struct nn_layer *l, size_t side,
                      size_t *begin, size_t *end)
{
    size_t from = at * l->stride, to = from + l->kernel;

    *begin = from > l->padding ? from - l->padding : 0;
    *end = to - l->padding < side ? to - l->padding : side;
}

KERNEL_PART struct window window_at(const struct nn_layer *l, size_t oy,
                                    size_t ox)
{
    struct window w;

    clip(oy, l, l->in.height, &w.y0, &w.y1);
    clip(ox, l, l->in.width, &w.x0, &w.x1);
    return w;
}

/* ---- maximum ------------------------------------------------------------- */

/* y = the larger of both, @place where it came from; a NaN counts as larger
 * than all and stays. */
KERNEL_PART void take_larger(size_t channels, const float *restrict x,
                             int32_t place, float *restrict y,
                             int32_t *restrict from)
{
    size_t c;

    for (c = 0; c < channels; c++) {
        int larger = (x[c] > y[c]) | (x[c] != x[c]);

        y[c] = larger ? x[c] : y[c];
        from[c] = larger ? place : from[c];
    }
}

KERNEL_PART void max_window(const struct nn_layer *l, const struct window *w,
                            const float *x, float *y, int32_t *from)
{
    size_t channels = l->in.channels, iy, ix, c;

    for (c = 0; c < channels; c++) {
        y[c] = -INFINITY;
        from[c] = (int32_t)(w->y0 * l->in.width + w->x0);
    }
    for (iy = w->y0; iy < w->y1; iy++)
        for (ix = w->x0; ix < w->x1; ix++) {
            size_t place = iy * l->in.width + ix;

            take_larger(channels, x + place * channels, (int32_t)place, y,
                        from);
        }
}

/* work: the place [n][out] in the input that each output came from. */
KERNEL static void max_forward(const struct nn_state *s,
                               const struct nn_batch *batch,
                               const struct nn_params *params)
{
    const struct nn_layer *l = s->layer;
    size_t in = nn_shape_size(l->in), at = 0, i, oy, ox;

    (void)params;
    for (i = 0; i < batch->n; i++)
        for (oy = 0; oy < l->out.height; oy++)
            for (ox = 0; ox < l->out.width; ox++) {
                struct window w = window_at(l, oy, ox);

                max_window(l, &w, s->x + i * in, s->y + at,
                           (int32_t *)s->work + at);
                at += l->out.channels;
            }
}

KERNEL_PART void give_back(size_t channels, int32_t place,
                           const int32_t *restrict from,
                           const float *restrict dy, float *restrict dx)
{
    size_t c;

    for (c = 0; c < channels; c++)
        dx[c] += from[c] == place ? dy[c] : 0;
}

KERNEL_PART void max_window_back(const struct nn_layer *l,
                                 const struct window *w, const int32_t *from,
                                 const float *dy, float *dx)
{
    size_t channels = l->in.channels, iy, ix;

    for (iy = w->y0; iy < w->y1; iy++)
        for (ix = w->x0; ix < w->x1; ix++) {
            size_t place = iy * l->in.width + ix;

            give_back(channels, (int32_t)place, from, dy,
                      dx + place * channels);
        }
}

KERNEL static void max_backward(const struct nn_state *s,
                                const struct nn_batch *batch,
                                const struct nn_params *params,
                                const struct nn_grads *grads)
{
    const struct nn_layer *l = s->layer;
    size_t in = nn_shape_size(l->in), at = 0, i, oy, ox;

    (void)params;
    (void)grads;
    if (!s->dx)
        return;
    memset(s->dx, 0, batch->n * in * sizeof(*s->dx));
    for (i = 0; i < batch->n; i++)
        for (oy = 0; oy < l->out.height; oy++)
            for (ox = 0; ox < l->out.width; ox++) {
                struct window w = window_at(l, oy, ox);

                max_window_back(l, &w, (const int32_t *)s->work + at,
                                s->dy + at, s->dx + i * in);
                at += l->out.channels;
            }
}

static uint64_t max_work_bytes(const struct nn_layer *l, size_t batch_max)
{
    return batch_max * nn_shape_size(l->out) * sizeof(int32_t);
}

const struct nn_ops nn_max_pool = {
    .name = "max_pool",
    .work_bytes = max_work_bytes,
    .forward = max_forward,
    .backward = max_backward,
};

/* ---- mean ---------------------------------------------------------------- */

KERNEL_PART void add_scaled(size_t channels, float factor,
                            const float *restrict from, float *restrict to)
{
    size_t c;

    for (c = 0; c < channels; c++)
        to[c] += factor * from[c];
}

/* Forward adds the window of @big to one place of @small, backward the other
 * way round, each with 1 / positions. */
KERNEL_PART void avg_window(const struct nn_layer *l, const struct window *w,
                            float *big, float *small, const bool forward)
{
    float factor = 1 / (float)((w->y1 - w->y0) * (w->x1 - w->x0));
    size_t channels = l->in.channels, iy, ix;

    for (iy = w->y0; iy < w->y1; iy++)
        for (ix = w->x0; ix < w->x1; ix++) {
            float *at = big + (iy * l->in.width + ix) * channels;

            if (forward)
                add_scaled(channels, factor, at, small);
            else
                add_scaled(channels, factor, small, at);
        }
}

KERNEL_PART void avg_all(const struct nn_layer *l, size_t n, float *big,
                         float *small, const bool forward)
{
    size_t in = nn_shape_size(l->in), i, oy, ox;

    for (i = 0; i < n; i++)
        for (oy = 0; oy < l->out.height; oy++)
            for (ox = 0; ox < l->out.width; ox++) {
                struct window w = window_at(l, oy, ox);

                avg_window(l, &w, big + i * in, small, forward);
                small += l->out.channels;
            }
}

KERNEL static void avg_forward(const struct nn_state *s,
                               const struct nn_batch *batch,
                               const struct nn_params *params)
{
    (void)params;
    memset(s->y, 0, batch->n * nn_shape_size(s->layer->out) * sizeof(*s->y));
    avg_all(s->layer, batch->n, (float *)(uintptr_t)s->x, s->y, true);
}

KERNEL static void avg_backward(const struct nn_state *s,
                                const struct nn_batch *batch,
                                const struct nn_params *params,
                                const struct nn_grads *grads)
{
    (void)params;
    (void)grads;
    if (!s->dx)
        return;
    memset(s->dx, 0, batch->n * nn_shape_size(s->layer->in) * sizeof(*s->dx));
    avg_all(s->layer, batch->n, s->dx, s->dy, false);
}

const struct nn_ops nn_avg_pool = {
    .name = "avg_pool",
    .forward = avg_forward,
    .backward = avg_backward,
};
