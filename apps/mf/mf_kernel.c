#include "apps/mf/mf_kernel.h"

#include "apps/mf/mf_lanes.h"

#include <assert.h>

/* Ranks without a kernel go value by value, which the compiler vectorises as it
 * can. */
KERNEL_PART float run_values(const struct mf_block *b, size_t k, size_t at)
{
    const float *restrict item = b->item[k];
    float *restrict gradient = b->item_gradient[k];
    float squares = 0;

    for (size_t end = at + b->run[k]; at < end; at++) {
        const float *l = b->user[at];
        float e = b->value[at];

        for (unsigned ahead = 0; ahead < b->ahead_bytes; ahead += LINE)
            __builtin_prefetch((const char *)b->ahead[at] + ahead, 1);
        for (unsigned j = 0; j < b->rank; j++)
            e -= l[j] * item[j];
        squares += e * e;
        b->slope[at] = -e;
        b->with[at] = item;
        for (unsigned j = 0; j < b->rank; j++)
            gradient[j] += b->lambda * item[j] - e * l[j];
    }
    return squares;
}

KERNEL static double train_values(const struct mf_block *b)
{
    double squares = 0;

    for (size_t k = 0, at = 0; k < b->runs; at += b->run[k++])
        squares += (double)run_values(b, k, at);
    return squares;
}

double mf_train(const struct mf_block *b)
{
    assert(b->n <= MF_BLOCK);
#if SIMD_HAS_16
    if (mf_in_vectors(b->rank, 16) && simd_16())
        return mf_train_16(b);
#endif
    return mf_in_vectors(b->rank, 8) ? mf_train_8(b) : train_values(b);
}

double mf_squared_error(size_t n, unsigned rank, const float *const user[],
                        const float *const item[], const float value[],
                        float slope[])
{
#if SIMD_HAS_16
    if (simd_16())
        return mf_squared_error_16(n, rank, user, item, value, slope);
#endif
    return mf_squared_error_8(n, rank, user, item, value, slope);
}

double mf_pair_errors(size_t n, unsigned rank, const float *const user[],
                      const float *const item[], const float value[],
                      float slope[], const struct mf_ahead *ahead)
{
#if SIMD_HAS_16
    if (simd_16())
        return mf_pair_errors_16(n, rank, user, item, value, slope, ahead);
#endif
    return mf_pair_errors_8(n, rank, user, item, value, slope, ahead);
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
            b->slope[at] = (float)-e;
            b->with[at] = r;
            for (unsigned j = 0; j < b->rank; j++)
                b->item_gradient[k][j] +=
                    (float)-(e * (double)l[j] - lambda * (double)r[j]);
        }
    }
    return squares;
}

double mf_squared_error_plain(size_t n, unsigned rank,
                              const float *const user[],
                              const float *const item[], const float value[],
                              float slope[])
{
    double squares = 0;

    for (size_t i = 0; i < n; i++) {
        double e = plain_error(rank, user[i], item[i], value[i]);

        squares += e * e;
        if (slope)
            slope[i] = (float)-e;
    }
    return squares;
}
