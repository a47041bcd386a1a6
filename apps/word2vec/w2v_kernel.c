#include "apps/word2vec/w2v_kernel.h"

#include "base/simd.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

typedef float vec __attribute__((vector_size(W2V_LANES * sizeof(float))));
typedef float vec_any __attribute__((vector_size(W2V_LANES * sizeof(float)),
                                     aligned(4), may_alias));

KERNEL_PART vec load(const float *p)
{
    return *(const vec_any *)(const void *)p;
}

KERNEL_PART void store(float *p, vec v)
{
    *(vec_any *)(void *)p = v;
}

/* Two sums, so that one does not wait for the other. */
KERNEL_PART float dot(unsigned stride, const float *a, const float *b)
{
    vec even = {0}, odd = {0};
    float sum = 0;
    unsigned j = 0;

    for (; j + 2 * W2V_LANES <= stride; j += 2 * W2V_LANES) {
        even += load(a + j) * load(b + j);
        odd += load(a + j + W2V_LANES) * load(b + j + W2V_LANES);
    }
    if (j < stride)
        even += load(a + j) * load(b + j);
    even += odd;
    for (unsigned k = 0; k < W2V_LANES; k++)
        sum += even[k];
    return sum;
}

KERNEL float w2v_dot(unsigned stride, const float *a, const float *b)
{
    return dot(stride, a, b);
}

/* ---- s and its logarithm ------------------------------------------------- */

static double s_of(double x)
{
    return 1 / (1 + exp(-x));
}

/* -log s(x), without overflow. */
static double loss_of(double x)
{
    return x > 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
}

void w2v_curve_init(struct w2v_curve *c)
{
    for (int i = 0; i < W2V_CELLS + 2; i++) {
        double x = (double)i * 2 * W2V_RANGE / W2V_CELLS - W2V_RANGE;

        c->at[i].s = (float)s_of(x);
        c->at[i].loss = (float)loss_of(x);
    }
}

/* s(x) and -log s(x). */
KERNEL_PART float look_up(const struct w2v_curve *c, float x, float *loss)
{
    const int cells_a_unit = W2V_CELLS / (2 * W2V_RANGE);
    float place = (x + W2V_RANGE) * (float)cells_a_unit, part;
    unsigned i;

    if (!(x > -W2V_RANGE && x < W2V_RANGE)) {
        *loss = (float)loss_of((double)x);
        return (float)s_of((double)x);
    }
    i = (unsigned)place;
    part = place - (float)i;
    *loss = c->at[i].loss + part * (c->at[i + 1].loss - c->at[i].loss);
    return c->at[i].s + part * (c->at[i + 1].s - c->at[i].s);
}

/* ---- steps --------------------------------------------------------------- */

/* The loss of a pair with one target, whose row moves; what the vector is to
 * move by is added to the change. @positive: it is to be predicted. */
KERNEL_PART float step_target(const struct w2v_step *b, const float *v,
                              float *u, bool positive)
{
    float x = dot(b->stride, v, u), loss, by;

    by = look_up(b->curve, positive ? x : -x, &loss);
    by = positive ? (1 - by) * b->rate : (by - 1) * b->rate;
    for (unsigned j = 0; j < b->stride; j += W2V_LANES) {
        vec row = load(u + j);

        store(b->change + j, load(b->change + j) + by * row);
        store(u + j, row + by * load(v + j));
    }
    return loss;
}

KERNEL double w2v_train(const struct w2v_step *b)
{
    double sum = 0;

    for (size_t i = 0; i < b->pairs; i++) {
        float *v = b->vectors + (size_t)b->in[i] * b->stride, loss = 0;
        const uint32_t *out = b->out + i * b->targets;

        for (unsigned j = 0; j < b->stride; j += W2V_LANES)
            store(b->change + j, (vec){0});
        for (unsigned k = 0; k < b->targets; k++)
            if (out[k] != W2V_NONE)
                loss += step_target(
                    b, v, b->contexts + (size_t)out[k] * b->stride, k == 0);
        for (unsigned j = 0; j < b->stride; j += W2V_LANES)
            store(v + j, load(v + j) + load(b->change + j));
        sum += (double)loss;
    }
    return sum;
}

KERNEL double w2v_loss(const struct w2v_step *b)
{
    double sum = 0;

    for (size_t i = 0; i < b->pairs; i++) {
        const float *v = b->vectors + (size_t)b->in[i] * b->stride;
        const uint32_t *out = b->out + i * b->targets;
        float all = 0, loss;

        for (unsigned k = 0; k < b->targets; k++) {
            float x;

            if (out[k] == W2V_NONE)
                continue;
            x = dot(b->stride, v, b->contexts + (size_t)out[k] * b->stride);
            look_up(b->curve, k == 0 ? x : -x, &loss);
            all += loss;
        }
        sum += (double)all;
    }
    return sum;
}
