/* mf_lanes.inc with vectors of 16 floats, for processors with AVX-512. */
#include "apps/mf/mf_lanes.h"

#if SIMD_HAS_16
#pragma GCC target("arch=x86-64-v4", "prefer-vector-width=512")
#undef KERNEL /* one version is all there is */
#define KERNEL
#define MF_LANES 16
#define MF_SIZED(name) name##_16
#include "apps/mf/mf_lanes.inc"
#endif
