#include "ps/rows/rule_lanes.h"

#include "base/simd.h"

#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- one value ----------------------------------------------------------- */

/* Duchi, Hazan and Singer 2011, figure 1, diagonal; epsilon under the root, so
 * that one reciprocal root does. */
static inline __attribute__((always_inline)) void
adagrad_value(float lr, float g, float *w, float *s)
{
    *s += g * g;
    *w -= lr * g / sqrtf(*s + RULE_EPSILON);
}

static inline float mixed_value_plain(float own, float w, float scale,
                                      float with)
{
    return own * w + scale * with;
}

static inline float subtract_value_plain(float w, float lr, float g)
{
    return w - lr * g;
}

#define LANES 1
#define SIZED(name) name##_plain
#define TARGET
#define VEC float
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_ALL(x) (x)
#define V_MUL(a, b) ((a) * (b))
#define V_ADD(a, b) ((a) + (b))
#define V_MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define V_MULTIPLY_SUBTRACT(a, b, c) ((c) - (a) * (b))
#define V_ROOT(x) (1 / sqrtf(x))
#define V_MIXED_ONE(own, w, scale, with) mixed_value_plain(own, w, scale, with)
#define V_STEP_ONE(w, lr, g) subtract_value_plain(w, lr, g)
#include "ps/rows/rule_lanes.inc"

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)

/* ---- eight --------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static inline float mixed_value_8(float own, float w, float scale,
                                       float with)
{
    return __builtin_fmaf(own, w, scale * with);
}

AVX2 static inline float subtract_value_8(float w, float lr, float g)
{
    return __builtin_fmaf(-lr, g, w);
}

/* 1 / sqrt(x) from the processor's 12 bits and one step of Newton's method: 23
 * bits. Root and division proper take four times as long. */
AVX2 static inline __m256 root_8(__m256 x)
{
    __m256 y = _mm256_rsqrt_ps(x);
    __m256 half = _mm256_mul_ps(_mm256_mul_ps(x, _mm256_set1_ps(0.5f)), y);

    return _mm256_mul_ps(y, _mm256_fnmadd_ps(half, y, _mm256_set1_ps(1.5f)));
}

#define LANES 8
#define SIZED(name) name##_8
#define TARGET AVX2
#define VEC __m256
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_STORE(p, v) _mm256_storeu_ps(p, v)
#define V_ALL(x) _mm256_set1_ps(x)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_MULTIPLY_SUBTRACT(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define V_ROOT(x) root_8(x)
#define V_MIXED_ONE(own, w, scale, with) mixed_value_8(own, w, scale, with)
#define V_STEP_ONE(w, lr, g) subtract_value_8(w, lr, g)
#include "ps/rows/rule_lanes.inc"

static bool works_8(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* ---- sixteen ------------------------------------------------------------- */

#define AVX512 __attribute__((target("avx512f,avx2,fma")))

AVX512 static inline float mixed_value_16(float own, float w, float scale,
                                          float with)
{
    return __builtin_fmaf(own, w, scale * with);
}

AVX512 static inline float subtract_value_16(float w, float lr, float g)
{
    return __builtin_fmaf(-lr, g, w);
}

/* As root_8, from 14 bits. */
AVX512 static inline __m512 root_16(__m512 x)
{
    __m512 y = _mm512_rsqrt14_ps(x);
    __m512 half = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(0.5f)), y);

    return _mm512_mul_ps(y, _mm512_fnmadd_ps(half, y, _mm512_set1_ps(1.5f)));
}

#define LANES 16
#define SIZED(name) name##_16
#define TARGET AVX512
#define VEC __m512
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_STORE(p, v) _mm512_storeu_ps(p, v)
#define V_ALL(x) _mm512_set1_ps(x)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_MULTIPLY_SUBTRACT(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define V_ROOT(x) root_16(x)
#define V_MIXED_ONE(own, w, scale, with) mixed_value_16(own, w, scale, with)
#define V_STEP_ONE(w, lr, g) subtract_value_16(w, lr, g)
#include "ps/rows/rule_lanes.inc"

static bool works_16(void)
{
    return __builtin_cpu_supports("avx512f");
}
#endif

/* ---- which --------------------------------------------------------------- */

static const struct rule_lanes all[] = {
#if defined(__x86_64__)
    {16, works_16, adagrad_16, adagrad_mix_16, sgd_mix_16, mix_sums_16},
    {8, works_8, adagrad_8, adagrad_mix_8, sgd_mix_8, mix_sums_8},
#endif
    {1, always, adagrad_plain, adagrad_mix_plain, sgd_mix_plain,
     mix_sums_plain},
};

const struct rule_lanes *rule_lanes_at(size_t i)
{
    return i < sizeof(all) / sizeof(all[0]) ? &all[i] : NULL;
}

const struct rule_lanes *rule_lanes_best(void)
{
    size_t i = 0;

    while (!rule_lanes_at(i)->works())
        i++;
    return rule_lanes_at(i);
}
