#include "apps/mf/mf_kernel.h"

#include "base/simd.h"

#include <assert.h>

/* Ranks that are multiples of 8 up to 64 have a row in registers; others go
 * value by value, which the compiler vectorises as it can. */
enum { LANES = 8, VECTORS_MAX = 8, LINE = 64 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float vec_any
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

KERNEL_PART vec load(const float *p)
{
    return *(const vec_any *)(const void *)p;
}

KERNEL_PART void store(float *p, vec v)
{
    *(vec_any *)(void *)p = v;
}

KERNEL_PART float sum_lanes(vec v)
{
    float four[4];

#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        four[k] = v[k] + v[k + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

KERNEL_PART void fetch(void *const *row, size_t i, unsigned bytes)
{
    for (unsigned at = 0; at < bytes; at += LINE)
        __builtin_prefetch((const char *)row[i] + at, 1);
}

/* One run: @n ratings of the item row @item. */
KERNEL_PART float run_vectors(size_t n, const unsigned vectors, float lambda,
                              void *const *ahead, unsigned ahead_bytes,
                              void *const *user, const float *value,
                              const float *item, float *item_gradient,
                              float *user_gradient)
{
    vec r[VECTORS_MAX], sum[VECTORS_MAX];
    float squares = 0;
    unsigned v;

#pragma GCC unroll 8
    for (v = 0; v < vectors; v++) {
        r[v] = load(item + v * LANES);
        sum[v] = (vec){0};
    }
    for (size_t i = 0; i < n; i++) {
        const float *l = user[i];
        float *g = user_gradient + i * vectors * LANES;
        vec dot = load(l) * r[0];
        float e;

        fetch(ahead, i, ahead_bytes);

#pragma GCC unroll 8
        for (v = 1; v < vectors; v++)
            dot += load(l + v * LANES) * r[v];
        e = value[i] - sum_lanes(dot);
        squares += e * e;
#pragma GCC unroll 8
        for (v = 0; v < vectors; v++) {
            vec lv = load(l + v * LANES);

            store(g + v * LANES, lambda * lv - e * r[v]);
            sum[v] += e * lv;
        }
    }
#pragma GCC unroll 8
    for (v = 0; v < vectors; v++) {
        float *g = item_gradient + v * LANES;

        store(g, load(g) + ((float)n * lambda) * r[v] - sum[v]);
    }
    return squares;
}

KERNEL_PART float run_values(size_t n, unsigned rank, float lambda,
                             void *const *ahead, unsigned ahead_bytes,
                             void *const *user, const float *value,
                             const float *restrict item,
                             float *restrict item_gradient,
                             float *restrict user_gradient)
{
    float squares = 0;

    for (size_t i = 0; i < n; i++) {
        const float *l = user[i];
        float *g = user_gradient + i * rank;
        float e = value[i];

        fetch(ahead, i, ahead_bytes);
        for (unsigned k = 0; k < rank; k++)
            e -= l[k] * item[k];
        squares += e * e;
        for (unsigned k = 0; k < rank; k++) {
            g[k] = lambda * l[k] - e * item[k];
            item_gradient[k] += lambda * item[k] - e * l[k];
        }
    }
    return squares;
}

#define RUNS(call)                                                             \
    do {                                                                       \
        for (size_t k = 0, at = 0; k < b->runs; at += b->run[k++]) {           \
            const size_t n = b->run[k];                                        \
            void *const *user = b->user + at;                                  \
            const float *value = b->value + at;                                \
            float *gradient = b->user_gradient + at * b->rank;                 \
                                                                               \
            squares += (double)(call);                                         \
        }                                                                      \
    } while (0)

#define RUNS_OF(vectors)                                                       \
    RUNS(run_vectors(n, vectors, b->lambda, b->ahead + at, b->ahead_bytes,     \
                     user, value, b->item[k], b->item_gradient[k], gradient))

KERNEL double mf_train(const struct mf_block *b)
{
    double squares = 0;

    assert(b->n <= MF_BLOCK);
    switch (b->rank) {
    case 8:
        RUNS_OF(1);
        break;
    case 16:
        RUNS_OF(2);
        break;
    case 32:
        RUNS_OF(4);
        break;
    case 64:
        RUNS_OF(8);
        break;
    default:
        RUNS(run_values(n, b->rank, b->lambda, b->ahead + at, b->ahead_bytes,
                        user, value, b->item[k], b->item_gradient[k],
                        gradient));
    }
    return squares;
}

/* Several sums side by side: a single one would wait for each addition. */
KERNEL double mf_squared_error(size_t n, unsigned rank,
                               const float *const user[],
                               const float *const item[], const float value[])
{
    double squares = 0;

    for (size_t i = 0; i < n; i++) {
        const float *l = user[i], *r = item[i];
        vec dot = {0};
        float e = value[i];
        unsigned k = 0;

        for (; k + LANES <= rank; k += LANES)
            dot += load(l + k) * load(r + k);
        for (; k < rank; k++)
            e -= l[k] * r[k];
        e -= sum_lanes(dot);
        squares += (double)(e * e);
    }
    return squares;
}

/* ---- plain references ---------------------------------------------------- */

static double plain_error(unsigned rank, const float *l, const float *r,
                          float value)
{
    double e = (double)value;

    for (unsigned k = 0; k < rank; k++)
        e -= (double)l[k] * (double)r[k];
    return e;
}

double mf_train_plain(const struct mf_block *b)
{
    double squares = 0, lambda = (double)b->lambda;
    size_t at = 0;

    for (size_t k = 0; k < b->runs; k++) {
        const float *r = b->item[k];

        for (size_t end = at + b->run[k]; at < end; at++) {
            const float *l = b->user[at];
            double e = plain_error(b->rank, l, r, b->value[at]);

            squares += e * e;
            for (unsigned j = 0; j < b->rank; j++) {
                b->user_gradient[at * b->rank + j] =
                    (float)-(e * (double)r[j] - lambda * (double)l[j]);
                b->item_gradient[k][j] +=
                    (float)-(e * (double)l[j] - lambda * (double)r[j]);
            }
        }
    }
    return squares;
}

double mf_squared_error_plain(size_t n, unsigned rank,
                              const float *const user[],
                              const float *const item[], const float value[])
{
    double squares = 0;

    for (size_t i = 0; i < n; i++) {
        double e = plain_error(rank, user[i], item[i], value[i]);

        squares += e * e;
    }
    return squares;
}
