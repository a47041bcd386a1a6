/* The innermost loops of mf in two widths of vector: 8 floats (AVX2, or
 * whatever the processor has) and 16 (AVX-512, where simd_16() says so). The
 * order of sums differs between them, so the last bits of results do.
 */
#ifndef APPS_MF_LANES_H
#define APPS_MF_LANES_H

#include "apps/mf/mf_kernel.h"
#include "base/simd.h"

#include <stdbool.h>

enum { VECTORS_MAX = 8, LINE = 64 };

/* Ranks with kernels: a row is 1, 2, 4 or 8 vectors. */
static inline bool mf_in_vectors(unsigned rank, unsigned lanes)
{
    unsigned n = rank / lanes;

    return rank % lanes == 0 && n >= 1 && n <= VECTORS_MAX &&
           (n & (n - 1)) == 0;
}

/* As mf_train, mf_squared_error and mf_pair_errors; mf_train of such ranks
 * alone. */
double mf_train_8(const struct mf_block *b);
double mf_squared_error_8(size_t n, unsigned rank, const float *const user[],
                          const float *const item[], const float value[],
                          float slope[]);
double mf_pair_errors_8(size_t n, unsigned rank, const float *const user[],
                        const float *const item[], const float value[],
                        float slope[], const struct mf_ahead *ahead);
#if SIMD_HAS_16
double mf_train_16(const struct mf_block *b);
double mf_squared_error_16(size_t n, unsigned rank, const float *const user[],
                           const float *const item[], const float value[],
                           float slope[]);
double mf_pair_errors_16(size_t n, unsigned rank, const float *const user[],
                         const float *const item[], const float value[],
                         float slope[], const struct mf_ahead *ahead);
#endif

#endif
