/* The innermost loops of dense and convolution layers, in two widths of vector.
 *
 * Each exists with vectors of 8 floats (AVX2, or whatever the processor has)
 * and with vectors of 16 (AVX-512); nn_wide() says which this processor runs.
 * The order of sums differs between them, so the last bits of results do.
 * Contracts: apps/nn/nn_dense_kernel.h, apps/nn/nn_conv_kernel.h. Pure
 * functions.
 */
#ifndef APPS_NN_TILES_H
#define APPS_NN_TILES_H

#include "apps/nn/nn_conv_kernel.h"
#include "apps/nn/nn_dense_kernel.h"
#include "base/simd.h"

/* Runs that a tile sums over: floats from a position's base, floats into the
 * weights, length. */
struct nn_runs {
    size_t count, length;
    size_t from[NN_KERNEL_MAX], weight[NN_KERNEL_MAX];
};

/* A group of targets that meet the same weights: `run` of them in a row, in
 * each of @n images. */
struct nn_group {
    struct nn_runs runs;
    size_t n, run;
    const float *from;
    float *to;
};

#define NN_TILES(SIZED)                                                        \
    void SIZED(nn_dots)(size_t n, size_t units, size_t depth, const float *x,  \
                        const float *w, const float *bias, struct nn_matrix y, \
                        float *panel);                                         \
    void SIZED(nn_panels)(size_t rows, size_t terms, size_t columns,           \
                          struct nn_factor a, struct nn_matrix b,              \
                          struct nn_matrix c, bool add, float *panel);         \
    void SIZED(nn_gather_group)(const struct nn_gather *g,                     \
                                const struct nn_group *group);                 \
    void SIZED(nn_correlate)(const struct nn_correlate *c, size_t n,           \
                             size_t first, size_t end, const float *x,         \
                             const float *dy)

#define NN_NARROW(name) name##_narrow
#define NN_BROAD(name) name##_wide

NN_TILES(NN_NARROW);

#if SIMD_HAS_16
NN_TILES(NN_BROAD);

static inline bool nn_wide(void)
{
    return simd_16();
}

/* Calls the version for this processor. */
#define NN_CALL(name, ...)                                                     \
    (nn_wide() ? name##_wide(__VA_ARGS__) : name##_narrow(__VA_ARGS__))
#else
#define NN_CALL(name, ...) name##_narrow(__VA_ARGS__)
#endif

#endif
