#include "apps/nn/nn_ops.h"
#include "apps/nn/nn_vec.h"

#include <math.h>

/* Batch normalisation by channel (Ioffe and Szegedy 2015, algorithms 1 and 2):
 *
 *   y = gamma xh + beta,  xh = (x - mean) / sqrt(variance + epsilon)
 *   dgamma = sum dy xh,  dbeta = sum dy
 *   dx = gamma / (m sqrt(variance + epsilon)) (m dy - dbeta - xh dgamma)
 *
 * over the m = n height width positions of a channel. Sums are taken in float
 * over short runs of positions and in double over those.
 */

enum { RUN = 64 };

/* Parts of work, each of `channels`. */
struct norm_work {
    double *sum[2];
    float *mean, *variance, *inverse; /* inverse: 1 / sqrt(variance + epsilon)*/
    float *run[2];
};

static uint64_t norm_work_bytes(const struct nn_layer *l, size_t batch_max)
{
    (void)batch_max;
    return l->in.channels * (2 * sizeof(double) + 5 * sizeof(float));
}

static struct norm_work work_of(const struct nn_state *s)
{
    size_t channels = s->layer->in.channels;
    double *sum = s->work;
    float *rest = (float *)(sum + 2 * channels);

    return (struct norm_work){
        .sum = {sum, sum + channels},
        .mean = rest,
        .variance = rest + channels,
        .inverse = rest + 2 * channels,
        .run = {rest + 3 * channels, rest + 4 * channels}};
}

static size_t positions_of(const struct nn_state *s,
                           const struct nn_batch *batch)
{
    return batch->n * s->layer->in.height * s->layer->in.width;
}

/* Moves what a run of positions gave into the sums. */
static void flush(const struct norm_work *w, size_t channels)
{
    size_t c;
    int k;

    for (k = 0; k < 2; k++)
        for (c = 0; c < channels; c++) {
            w->sum[k][c] += (double)w->run[k][c];
            w->run[k][c] = 0;
        }
}

static void clear(const struct norm_work *w, size_t channels)
{
    size_t c;
    int k;

    for (k = 0; k < 2; k++)
        for (c = 0; c < channels; c++) {
            w->sum[k][c] = 0;
            w->run[k][c] = 0;
        }
}

/* run[0] += x - mean, run[1] += (x - mean)^2. */
KERNEL static void add_deviations(size_t m, size_t channels,
                                  const float *restrict x,
                                  const float *restrict mean,
                                  float *restrict first, float *restrict second)
{
    size_t p, c;

    for (p = 0; p < m; p++, x += channels)
        for (c = 0; c < channels; c++) {
            float d = x[c] - mean[c];

            first[c] += d;
            second[c] += d * d;
        }
}

static void sum_deviations(const struct nn_state *s, size_t m,
                           const struct norm_work *w)
{
    size_t channels = s->layer->in.channels, at, count;

    clear(w, channels);
    for (at = 0; at < m; at += count) {
        count = m - at < RUN ? m - at : RUN;
        add_deviations(count, channels, s->x + at * channels, w->mean,
                       w->run[0], w->run[1]);
        flush(w, channels);
    }
}

/* The batch's moments in two passes: deviations from the first sample give the
 * mean, deviations from the mean the variance. */
static void find_moments(const struct nn_state *s, size_t m,
                         const struct norm_work *w)
{
    size_t channels = s->layer->in.channels, c;

    for (c = 0; c < channels; c++)
        w->mean[c] = s->x[c];
    sum_deviations(s, m, w);
    for (c = 0; c < channels; c++)
        w->mean[c] = (float)((double)s->x[c] + w->sum[0][c] / (double)m);
    sum_deviations(s, m, w);
    for (c = 0; c < channels; c++)
        w->variance[c] = (float)(w->sum[1][c] / (double)m);
}

/* y = scale (x - mean) + beta by channel. */
KERNEL static void normalise(size_t m, size_t channels, const float *restrict x,
                             const float *restrict mean,
                             const float *restrict scale,
                             const float *restrict beta, float *restrict y)
{
    size_t p, c;

    for (p = 0; p < m; p++, x += channels, y += channels)
        for (c = 0; c < channels; c++)
            y[c] = scale[c] * (x[c] - mean[c]) + beta[c];
}

static void norm_forward(const struct nn_state *s, const struct nn_batch *batch,
                         const struct nn_params *params)
{
    size_t m = positions_of(s, batch), channels = s->layer->in.channels, c;
    const float *gamma = params->row[0];
    struct norm_work w = work_of(s);

    if (batch->train) {
        find_moments(s, m, &w);
    } else {
        for (c = 0; c < channels; c++) {
            w.mean[c] = params->moments[c];
            /* Late shares of many clocks at once may take it below 0. */
            w.variance[c] = params->moments[channels + c] < 0
                                ? 0
                                : params->moments[channels + c];
        }
    }
    for (c = 0; c < channels; c++) {
        w.inverse[c] = 1 / sqrtf(w.variance[c] + s->layer->epsilon);
        w.run[0][c] = gamma[c] * w.inverse[c];
    }
    normalise(m, channels, s->x, w.mean, w.run[0], params->row[0] + channels,
              s->y);
}

/* run[0] += dy, run[1] += dy (x - mean). */
KERNEL static void add_gradients(size_t m, size_t channels,
                                 const float *restrict x,
                                 const float *restrict dy,
                                 const float *restrict mean,
                                 float *restrict first, float *restrict second)
{
    size_t p, c;

    for (p = 0; p < m; p++, x += channels, dy += channels)
        for (c = 0; c < channels; c++) {
            first[c] += dy[c];
            second[c] += dy[c] * (x[c] - mean[c]);
        }
}

static void sum_gradients(const struct nn_state *s, size_t m,
                          const struct norm_work *w)
{
    size_t channels = s->layer->in.channels, at, count;

    clear(w, channels);
    for (at = 0; at < m; at += count) {
        count = m - at < RUN ? m - at : RUN;
        add_gradients(count, channels, s->x + at * channels,
                      s->dy + at * channels, w->mean, w->run[0], w->run[1]);
        flush(w, channels);
    }
}

/* dx = factor (dy - mean_dy - (x - mean) slope) by channel. */
KERNEL static void input_gradient(const struct nn_state *s, size_t m,
                                  const struct norm_work *w,
                                  const float *restrict factor,
                                  const float *restrict slope)
{
    size_t channels = s->layer->in.channels, p, c;
    const float *restrict x = s->x, *restrict dy = s->dy;
    const float *restrict mean = w->mean, *restrict mean_dy = w->run[0];
    float *restrict dx = s->dx;

    for (p = 0; p < m; p++, x += channels, dy += channels, dx += channels)
        for (c = 0; c < channels; c++)
            dx[c] =
                factor[c] * (dy[c] - mean_dy[c] - (x[c] - mean[c]) * slope[c]);
}

static void moments_gradient(const struct nn_state *s,
                             const struct nn_batch *batch, size_t m,
                             const struct norm_work *w, const float *running,
                             float *delta)
{
    size_t channels = s->layer->in.channels, c;
    float share = s->layer->rate * (float)batch->n * batch->scale;
    float unbiased = m > 1 ? (float)((double)m / (double)(m - 1)) : 1;

    for (c = 0; c < channels; c++) {
        delta[c] += share * (w->mean[c] - running[c]);
        delta[channels + c] +=
            share * (w->variance[c] * unbiased - running[channels + c]);
    }
}

static void norm_backward(const struct nn_state *s,
                          const struct nn_batch *batch,
                          const struct nn_params *params,
                          const struct nn_grads *grads)
{
    size_t m = positions_of(s, batch), channels = s->layer->in.channels, c;
    const float *gamma = params->row[0];
    struct norm_work w = work_of(s);
    float *dgamma = grads->row[0], *dbeta = dgamma + channels;

    moments_gradient(s, batch, m, &w, params->moments, grads->moments);
    sum_gradients(s, m, &w);
    for (c = 0; c < channels; c++) {
        double inverse = (double)w.inverse[c];

        dgamma[c] += (float)(w.sum[1][c] * inverse);
        dbeta[c] += (float)w.sum[0][c];
        w.run[0][c] = (float)(w.sum[0][c] / (double)m);
        w.run[1][c] = (float)(w.sum[1][c] * inverse * inverse / (double)m);
        /* The variance is not needed any more. */
        w.variance[c] = gamma[c] * w.inverse[c];
    }
    if (s->dx)
        input_gradient(s, m, &w, w.variance, w.run[1]);
}

const struct nn_ops nn_norm = {
    .name = "norm",
    .work_bytes = norm_work_bytes,
    .forward = norm_forward,
    .backward = norm_backward,
};
