#include "searchers/model/sobol.h"

#include "base/rng.h"

#include <assert.h>

/* Each dimension after the first: a primitive polynomial over GF(2) (bit i:
 * the coefficient of x^i) and the initial odd numbers m_k < 2^k. The numbers
 * are from a search of our own, dimension by dimension, for the least sum of
 * 2^t - 1 over the two-dimensional projections on the dimensions before (the
 * nearest weighing most) of the first 8, 16, 32 and 64 points: searches are
 * that short. t is Niederreiter's quality parameter of a digital net. */
static const struct {
    uint8_t polynomial;
    uint8_t m[7];
} table[SOBOL_DIMS_MAX - 1] = {
    {3, {1}},
    {7, {1, 1}},
    {11, {1, 3, 1}},
    {13, {1, 3, 7}},
    {19, {1, 3, 3, 9}},
    {25, {1, 1, 5, 5}},
    {37, {1, 3, 3, 9, 21}},
    {41, {1, 3, 7, 5, 31}},
    {47, {1, 1, 3, 5, 31}},
    {55, {1, 1, 5, 1, 3}},
    {59, {1, 1, 3, 13, 7}},
    {61, {1, 3, 5, 15, 9}},
    {67, {1, 3, 1, 11, 9, 31}},
    {91, {1, 1, 1, 13, 21, 21}},
    {97, {1, 3, 1, 3, 11, 63}},
    {103, {1, 1, 5, 3, 7, 57}},
    {109, {1, 1, 7, 11, 21, 27}},
    {115, {1, 1, 3, 13, 5, 35}},
    {131, {1, 3, 1, 3, 9, 63, 47}},
    {137, {1, 3, 3, 11, 29, 19, 111}},
    {143, {1, 1, 7, 11, 27, 41, 49}},
    {145, {1, 1, 7, 9, 1, 11, 21}},
    {157, {1, 1, 3, 15, 23, 51, 103}},
    {167, {1, 1, 5, 1, 3, 51, 81}},
    {171, {1, 3, 5, 15, 17, 13, 13}},
    {185, {1, 3, 5, 15, 13, 39, 91}},
    {191, {1, 1, 1, 1, 27, 21, 125}},
    {193, {1, 3, 5, 1, 1, 23, 3}},
    {203, {1, 1, 1, 1, 3, 57, 89}},
    {211, {1, 1, 7, 9, 23, 29, 15}},
    {213, {1, 1, 1, 15, 13, 53, 21}},
};

static unsigned degree_of(unsigned polynomial)
{
    unsigned degree = 0;

    while (polynomial >> (degree + 1))
        degree++;
    return degree;
}

/* v_k = m_k / 2^k as 32-bit fractions; m_k by the polynomial's recurrence
 * (Bratley and Fox 1988, equation 2). */
static void fill_directions(uint32_t v[SOBOL_BITS], unsigned polynomial,
                            const uint8_t m[])
{
    unsigned degree = degree_of(polynomial);

    assert(degree >= 1 && degree <= 7);
    for (unsigned k = 0; k < SOBOL_BITS; k++) {
        if (k < degree) {
            assert(m[k] % 2 == 1 && m[k] >> k <= 1);
            v[k] = (uint32_t)m[k] << (31 - k);
            continue;
        }
        v[k] = v[k - degree] ^ (v[k - degree] >> degree);
        for (unsigned i = 1; i < degree; i++)
            if (polynomial >> (degree - i) & 1)
                v[k] ^= v[k - i];
    }
}

void sobol_init(struct sobol *s, size_t dims, uint64_t seed)
{
    assert(dims <= SOBOL_DIMS_MAX);
    s->seed = seed;
    s->dims = dims;
    for (unsigned k = 0; k < SOBOL_BITS; k++)
        s->direction[0][k] = (uint32_t)1 << (31 - k); /* van der Corput */
    for (size_t j = 1; j < dims; j++)
        fill_directions(s->direction[j], table[j - 1].polynomial,
                        table[j - 1].m);
}

/* Flips each bit by a coin that depends on the bits above it (Owen 1995). */
static uint32_t scramble(uint32_t x, uint64_t seed)
{
    uint32_t flips = 0;

    for (unsigned bit = 0; bit < SOBOL_BITS; bit++) {
        uint64_t above = bit > 0 ? x >> (32 - bit) : 0;
        uint64_t node = (uint64_t)1 << bit | above;

        flips |= (uint32_t)(rng_mix(seed, node) & 1) << (31 - bit);
    }
    return x ^ flips;
}

void sobol_point(const struct sobol *s, uint64_t index, double u[])
{
    assert(index >> SOBOL_BITS == 0);
    for (size_t j = 0; j < s->dims; j++) {
        uint32_t x = 0;

        for (unsigned k = 0; k < SOBOL_BITS; k++)
            if (index >> k & 1)
                x ^= s->direction[j][k];
        x = scramble(x, rng_mix(s->seed, j));
        u[j] = (x + 0.5) * 0x1p-32;
    }
}
