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
#define V_FIRST(a, b) (a)
#define V_ONE(v) (v)
#define V_OTHERS(v, square, lr) ((lr) / sqrtf((square) + RULE_RPCS_BEGIN))
#define V_SUM(v) (v)
#include "ps/rows/rule_lanes.inc"

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)

/* ---- eight --------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static inline __attribute__((always_inline)) float sum_8(__m256 v)
{
    __m128 a =
        _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));

    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
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
#define V_ROUGH_ROOT(x) _mm256_rsqrt_ps(x) /* 12 bits */
#define V_FIRST(a, b) _mm256_blend_ps(b, a, 1)
#define V_ONE(v) _mm256_cvtss_f32(v)
#define V_OTHERS(v, square, lr)                                                \
    _mm256_permutevar8x32_ps(v, _mm256_set1_epi32(1))
#define V_SUM(v) sum_8(v)
#include "ps/rows/rule_lanes.inc"

static bool works_8(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* ---- sixteen ------------------------------------------------------------- */

#define AVX512 __attribute__((target("avx512f,avx2,fma")))

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
#define V_ROUGH_ROOT(x) _mm512_rsqrt14_ps(x) /* 14 bits */
#define V_FIRST(a, b) _mm512_mask_mov_ps(b, 1, a)
#define V_ONE(v) _mm512_cvtss_f32(v)
#define V_OTHERS(v, square, lr) _mm512_permutexvar_ps(_mm512_set1_epi32(1), v)
#define V_SUM(v) _mm512_reduce_add_ps(v)
#include "ps/rows/rule_lanes.inc"

static bool works_16(void)
{
    return __builtin_cpu_supports("avx512f");
}
#endif

/* ---- which --------------------------------------------------------------- */

static const struct rule_lanes all[] = {
#if defined(__x86_64__)
    {16, works_16, adagrad_16, adagrad_mix_16, rpcs_16, rpcs_mix_16, sgd_mix_16,
     mix_sums_16, sgd_cross_16, adagrad_cross_16},
    {8, works_8, adagrad_8, adagrad_mix_8, rpcs_8, rpcs_mix_8, sgd_mix_8,
     mix_sums_8, sgd_cross_8, adagrad_cross_8},
#endif
    {1, always, adagrad_plain, adagrad_mix_plain, rpcs_plain, rpcs_mix_plain,
     sgd_mix_plain, mix_sums_plain, sgd_cross_plain, adagrad_cross_plain},
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
