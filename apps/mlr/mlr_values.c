#include "apps/mlr/mlr_values.h"

#include "base/simd.h"

#include <assert.h>
#include <math.h>

enum { LANES = 8 };

/* Sums in lanes: one chain of additions would wait for each. */
KERNEL_PART float dot(size_t n, const float *x, const float *y)
{
    float sum[LANES] = {0}, rest = 0;
    size_t j;
    int k;

    for (j = 0; j + LANES <= n; j += LANES) {
        for (k = 0; k < LANES; k++)
            sum[k] += x[j + k] * y[j + k];
    }
    for (; j < n; j++)
        rest += x[j] * y[j];
    for (k = 0; k < LANES; k++)
        rest += sum[k];
    return rest;
}

KERNEL_PART void add_multiple(size_t n, float factor, const float *x, float *y)
{
    size_t j;

    for (j = 0; j < n; j++)
        y[j] += factor * x[j];
}

KERNEL_PART void forward_row(const struct mlr_block *b, const float *x,
                             float *z)
{
    unsigned c;

    for (c = 0; c < b->classes; c++)
        z[c] = dot(b->width, b->weight[c], x) + b->weight[c][b->width];
}

/* Loss of one row; z becomes exp(z - max), *sum theirs. */
KERNEL_PART double loss_of(float *z, unsigned classes, unsigned label,
                           float *sum)
{
    float max = z[0], own;
    unsigned c;

    for (c = 1; c < classes; c++)
        max = z[c] > max ? z[c] : max;
    own = z[label] - max;
    *sum = 0;
    for (c = 0; c < classes; c++) {
        z[c] = expf(z[c] - max);
        *sum += z[c];
    }
    return (double)(logf(*sum) - own);
}

KERNEL double mlr_values_train(const struct mlr_block *b,
                               const float *const *value)
{
    double loss = 0;
    size_t i;
    unsigned c;

    assert(b->n <= MLR_BLOCK);
    for (i = 0; i < b->n; i++) {
        float *z = b->z + i * b->classes, sum;

        forward_row(b, value[i], z);
        loss += loss_of(z, b->classes, b->label[i], &sum);
        for (c = 0; c < b->classes; c++) {
            float d = b->scale * (z[c] / sum - (float)(c == b->label[i]));

            add_multiple(b->width, d, value[i], b->gradient[c]);
            b->gradient[c][b->width] += d;
        }
    }
    return loss;
}

KERNEL double mlr_values_loss(const struct mlr_block *b,
                              const float *const *value)
{
    double loss = 0;
    float sum;
    size_t i;

    assert(b->n <= MLR_BLOCK);
    for (i = 0; i < b->n; i++) {
        float *z = b->z + i * b->classes;

        forward_row(b, value[i], z);
        loss += loss_of(z, b->classes, b->label[i], &sum);
    }
    return loss;
}

KERNEL void mlr_values_scores(const struct mlr_block *b,
                              const float *const *value)
{
    assert(b->n <= MLR_BLOCK);
    for (size_t i = 0; i < b->n; i++)
        forward_row(b, value[i], b->z + i * b->classes);
}

KERNEL size_t mlr_values_correct(const struct mlr_block *b,
                                 const float *const *value)
{
    size_t correct = 0, i;
    unsigned c;

    assert(b->n <= MLR_BLOCK);
    for (i = 0; i < b->n; i++) {
        float *z = b->z + i * b->classes, best = -INFINITY;
        unsigned guess = MLR_CLASSES_MAX;

        forward_row(b, value[i], z);
        for (c = 0; c < b->classes; c++) {
            if (z[c] > best) {
                best = z[c];
                guess = c;
            }
        }
        correct += guess == b->label[i];
    }
    return correct;
}
