/* nn_tiles.c again with vectors of 16 floats, for processors with AVX-512. */
#include "apps/nn/nn_tiles.h"

#if SIMD_HAS_16
#pragma GCC target("arch=x86-64-v4", "prefer-vector-width=512")
#define NN_LANES 16
#include "apps/nn/nn_vec.h"
#undef KERNEL /* one version is all there is */
#define KERNEL
#define NN_SIZED NN_BROAD
#include "apps/nn/nn_tiles.inc"
#endif
