#include "ps/nodes/float16.h"

#include "base/bytes.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum {
    SIGN = 0x8000,
    INFINITE = 0x7c00, /* exponent all ones */
    QUIET = 0x0200,
    F32_BIAS = 127,
    F16_BIAS = 15,
    DROPPED = 23 - 10 /* bits of the mantissa that binary16 has not */
};

/* @bits / 2^@shift, to nearest, ties to even; 1 <= @shift <= 31. */
static uint32_t round_shift(uint32_t bits, unsigned shift)
{
    uint32_t kept = bits >> shift;
    uint32_t rest = bits & (((uint32_t)1 << shift) - 1);
    uint32_t tie = (uint32_t)1 << (shift - 1);

    return kept + (rest > tie || (rest == tie && (kept & 1)));
}

uint16_t float16_from_float(float x)
{
    uint32_t bits, sign, mantissa, half;
    int exponent;

    memcpy(&bits, &x, sizeof(bits));
    sign = bits >> 16 & SIGN;
    mantissa = bits & 0x7fffff;
    exponent = (int)(bits >> 23 & 0xff) - F32_BIAS + F16_BIAS;
    if (exponent == 0xff - F32_BIAS + F16_BIAS) { /* infinite or NaN */
        half = mantissa ? QUIET | mantissa >> DROPPED : 0;
        return (uint16_t)(sign | INFINITE | half);
    }
    if (exponent >= 31)
        return (uint16_t)(sign | INFINITE);
    if (exponent < -10) /* below half of the smallest */
        return (uint16_t)sign;
    if (exponent <= 0) /* subnormal: the leading one is written out */
        half = round_shift(mantissa | 0x800000,
                           (unsigned)(DROPPED + 1 - exponent));
    else /* a carry goes into the exponent, and at its end to infinity */
        half = round_shift((uint32_t)exponent << 23 | mantissa, DROPPED);
    return (uint16_t)(sign | half);
}

float float16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & SIGN) << 16;
    uint32_t exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    uint32_t bits;
    float x;

    if (exponent == 0) { /* mantissa * 2^-24, exact */
        x = (float)mantissa * 0x1p-24F;
        return sign ? -x : x;
    }
    if (exponent == 0x1f)
        bits = (uint32_t)0xff << 23 | mantissa << DROPPED;
    else
        bits = (exponent + F32_BIAS - F16_BIAS) << 23 | mantissa << DROPPED;
    bits |= sign;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* ---- many at once -------------------------------------------------------- */

#ifdef __x86_64__
/* clang cannot ask for F16C by name. */
static int has_conversion(void)
{
#ifdef __clang__
    return 0;
#else
    return __builtin_cpu_supports("f16c");
#endif
}

/* As many of the @n values as fill whole vectors; returns how many. */
__attribute__((target("avx,f16c"))) static size_t
pack_vectors(size_t n, const float in[], unsigned char *out)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i),
                                         _MM_FROUND_TO_NEAREST_INT));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t
unpack_vectors(size_t n, const unsigned char *in, float out[])
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(
                             (const __m128i *)(const void *)(in + 2 * i))));
    return i;
}
#else
static int has_conversion(void)
{
    return 0;
}

static size_t pack_vectors(size_t n, const float in[], unsigned char *out)
{
    (void)n, (void)in, (void)out;
    return 0;
}

static size_t unpack_vectors(size_t n, const unsigned char *in, float out[])
{
    (void)n, (void)in, (void)out;
    return 0;
}
#endif

void float16_pack(size_t n, const float in[], unsigned char *out)
{
    size_t i = has_conversion() ? pack_vectors(n, in, out) : 0;

    for (; i < n; i++)
        bytes_put16(out + 2 * i, float16_from_float(in[i]));
}

void float16_unpack(size_t n, const unsigned char *in, float out[])
{
    size_t i = has_conversion() ? unpack_vectors(n, in, out) : 0;

    for (; i < n; i++)
        out[i] = float16_to_float(bytes_get16(in + 2 * i));
}
