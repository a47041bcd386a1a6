#include "apps/nn/nn_ops.h"

#include <assert.h>
#include <math.h>

/* Number of the largest of @z[count], the lowest of equal ones; count where all
 * are NaN. */
static size_t largest(const float *z, size_t count)
{
    float best = -INFINITY;
    size_t guess = count, j;

    for (j = 0; j < count; j++) {
        if (z[j] > best || (guess == count && z[j] == best)) {
            best = z[j];
            guess = j;
        }
    }
    return guess;
}

/* Loss of one sample; the largest output is taken off first, so that nothing
 * overflows. @dz may be z. */
static double sample_cross_entropy(const struct nn_batch *batch, size_t outputs,
                                   uint32_t label, const float *z, float *dz)
{
    float spread = batch->smoothing / (float)outputs;
    float max = z[0], own, sum = 0;
    size_t j;

    for (j = 1; j < outputs; j++)
        max = z[j] > max ? z[j] : max;
    own = z[label] - max;
    for (j = 0; j < outputs; j++)
        sum += expf(z[j] - max);
    if (dz) {
        for (j = 0; j < outputs; j++)
            dz[j] = (expf(z[j] - max) / sum - spread) * batch->scale;
        dz[label] -= (1 - batch->smoothing) * batch->scale;
    }
    return (double)(logf(sum) - own);
}

void nn_loss_cross_entropy(const struct nn_batch *batch, size_t outputs,
                           const float *z, float *dz, struct nn_result *out)
{
    size_t i;

    *out = (struct nn_result){0};
    for (i = 0; i < batch->n; i++) {
        const float *own = z + i * outputs;

        assert(batch->label[i] < outputs);
        out->correct += largest(own, outputs) == batch->label[i];
        out->loss += sample_cross_entropy(batch, outputs, batch->label[i], own,
                                          dz ? dz + i * outputs : NULL);
    }
}

void nn_loss_squared(const struct nn_batch *batch, size_t outputs,
                     const float *z, float *dz, struct nn_result *out)
{
    size_t size = batch->n * outputs, k;

    *out = (struct nn_result){0};
    for (k = 0; k < size; k++) {
        float d = z[k] - batch->target[k];

        out->loss += 0.5 * (double)d * (double)d;
        if (dz)
            dz[k] = d * batch->scale;
    }
}
