#include "apps/nn/nn_dense_kernel.h"
#include "apps/nn/nn_ops.h"
#include "base/simd.h"

/* Y = X W^T + b, block by block of outputs as the rows have them:
 *   X [n][in], W [units][in], Y [n][out]
 *   dW += dY^T X, db += sum_n dY, dX = dY W
 */

/* work: a panel, whose terms are inputs (nn_dots), samples or outputs of a row
 * (nn_panels). */
static uint64_t dense_work_bytes(const struct nn_layer *l, size_t batch_max)
{
    uint64_t terms = batch_max > l->row_units ? batch_max : l->row_units;

    if (terms < l->fan_in)
        terms = l->fan_in;
    return terms * NN_PANEL * sizeof(float);
}

static void dense_forward(const struct nn_state *s,
                          const struct nn_batch *batch,
                          const struct nn_params *params)
{
    const struct nn_layer *l = s->layer;
    uint32_t r;

    for (r = 0; r < l->rows; r++) {
        const float *w = params->row[r];
        struct nn_matrix y = {s->y + r * l->row_units, l->units};

        nn_dots(batch->n, nn_row_outputs(l, r), l->fan_in, s->x, w,
                w + l->row_units * l->fan_in, y, s->work);
    }
}

KERNEL static void sum_columns(size_t n, size_t stride, size_t count,
                               const float *dy, float *sum)
{
    size_t i, j;

    for (i = 0; i < n; i++)
        for (j = 0; j < count; j++)
            sum[j] += dy[i * stride + j];
}

static void dense_backward(const struct nn_state *s,
                           const struct nn_batch *batch,
                           const struct nn_params *params,
                           const struct nn_grads *grads)
{
    const struct nn_layer *l = s->layer;
    struct nn_matrix x = {(float *)(uintptr_t)s->x, l->fan_in};
    struct nn_matrix dx = {s->dx, l->fan_in};
    uint32_t r;

    for (r = 0; r < l->rows; r++) {
        uint32_t units = nn_row_outputs(l, r);
        const float *dy = s->dy + r * l->row_units;
        struct nn_matrix g = {grads->row[r], l->fan_in};
        struct nn_matrix w = {(float *)(uintptr_t)params->row[r], l->fan_in};

        nn_panels(units, batch->n, l->fan_in,
                  (struct nn_factor){dy, 1, l->units}, x, g, true, s->work);
        sum_columns(batch->n, l->units, units, dy,
                    g.at + l->row_units * l->fan_in);
        if (s->dx)
            nn_panels(batch->n, units, l->fan_in,
                      (struct nn_factor){dy, l->units, 1}, w, dx, r > 0,
                      s->work);
    }
}

const struct nn_ops nn_dense = {
    .name = "dense",
    .work_bytes = dense_work_bytes,
    .forward = dense_forward,
    .backward = dense_backward,
};
