/* Kernels: inner loops that are worth a version for wide vector units.
 *
 *     KERNEL void add_f32(float *y, const float *x, size_t n) { ... }
 *
 * With gcc on x86-64 a KERNEL is compiled twice, for the baseline and for AVX2
 * with FMA (x86-64-v3: a name such as arch=haswell would match that processor
 * alone), and the loader picks one by the processor. Plain loops are enough:
 * the compiler vectorises them. clang and the sanitizers get one version (their
 * instrumentation runs before an ifunc can be resolved). The level is named
 * x86-64-v3 because gcc picks that by what the processor can do, while
 * "arch=haswell" asks for Intel's model and leaves AMD's with the baseline.
 *
 * FMA contracts a * b + c, so a kernel's last bit may differ between machines;
 * on one machine a kernel is deterministic.
 */
#ifndef BASE_SIMD_H
#define BASE_SIMD_H

#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&         \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&         \
    defined(__OPTIMIZE__)
#define KERNEL __attribute__((target_clones("arch=x86-64-v3", "default")))
#define KERNEL_VERSIONS 2
#else
#define KERNEL
#define KERNEL_VERSIONS 1 /* rounded otherwise than code that asks for FMA */
#endif

/* Whether this processor runs what is compiled for x86-64-v4: vectors of 16
 * floats (AVX-512). Kernels of that width are files or functions of their own;
 * clang and other processors have none. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SIMD_HAS_16 1
static inline bool simd_16(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#else
#define SIMD_HAS_16 0
static inline bool simd_16(void)
{
    return false;
}
#endif

/* Part of a kernel: inlined into it, and so compiled for the same machine. */
#define KERNEL_PART static inline __attribute__((always_inline))

#endif
