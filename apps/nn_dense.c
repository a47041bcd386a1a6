#include "apps/nn_ops.h"
#include "base/simd.h"

#include <cblas.h>

/* Y = X W^T + b, block by block of outputs as the rows have them:
 *   X [n][in], W [units][in], Y [n][out]
 *   dW += dY^T X, db += sum_n dY, dX = dY W
 */

/* @y[n][stride] += bias[count], a value a column. */
KERNEL static void add_bias(size_t n, size_t stride, size_t count,
                            const float *bias, float *y)
{
    size_t i, j;

    for (i = 0; i < n; i++)
        for (j = 0; j < count; j++)
            y[i * stride + j] += bias[j];
}

KERNEL static void sum_columns(size_t n, size_t stride, size_t count,
                               const float *dy, float *sum)
{
    size_t i, j;

    for (i = 0; i < n; i++)
        for (j = 0; j < count; j++)
            sum[j] += dy[i * stride + j];
}

static void dense_forward(const struct nn_state *s,
                          const struct nn_batch *batch,
                          const struct nn_params *params)
{
    const struct nn_layer *l = s->layer;
    int in = (int)l->fan_in, out = (int)l->units, n = (int)batch->n;
    uint32_t r;

    for (r = 0; r < l->rows; r++) {
        uint32_t units = nn_row_outputs(l, r);
        const float *w = params->row[r];
        float *y = s->y + r * l->row_units;

        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, (int)units, in,
                    1, s->x, in, w, in, 0, y, out);
        add_bias(batch->n, l->units, units, w + l->row_units * l->fan_in, y);
    }
}

static void dense_backward(const struct nn_state *s,
                           const struct nn_batch *batch,
                           const struct nn_params *params,
                           const struct nn_grads *grads)
{
    const struct nn_layer *l = s->layer;
    int in = (int)l->fan_in, out = (int)l->units, n = (int)batch->n;
    uint32_t r;

    for (r = 0; r < l->rows; r++) {
        uint32_t units = nn_row_outputs(l, r);
        const float *dy = s->dy + r * l->row_units;
        float *g = grads->row[r];

        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)units, in, n,
                    1, dy, out, s->x, in, 1, g, in);
        sum_columns(batch->n, l->units, units, dy,
                    g + l->row_units * l->fan_in);
        if (s->dx)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, in,
                        (int)units, 1, dy, out, params->row[r], in, r > 0,
                        s->dx, in);
    }
}

const struct nn_ops nn_dense = {
    .name = "dense",
    .forward = dense_forward,
    .backward = dense_backward,
};
