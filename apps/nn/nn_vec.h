/* Vectors of floats for the network's kernels (base/simd.h): eight, or as many
 * as whoever includes this has defined NN_LANES to be. */
#ifndef APPS_NN_VEC_H
#define APPS_NN_VEC_H

#include "base/simd.h"

#include <stddef.h>
#include <string.h>

#ifndef NN_LANES
#define NN_LANES 8
#endif
enum { NN_LANES_MAX = 16 }; /* rows are padded to a multiple */

typedef float nn_vec __attribute__((vector_size(NN_LANES * sizeof(float))));
typedef float nn_vec_any __attribute__((vector_size(NN_LANES * sizeof(float)),
                                        aligned(4), may_alias));

KERNEL_PART nn_vec nn_load(const float *p)
{
    return *(const nn_vec_any *)(const void *)p;
}

KERNEL_PART void nn_store(float *p, nn_vec v)
{
    *(nn_vec_any *)(void *)p = v;
}

/* The first @lanes of @v, 1 .. NN_LANES. */
KERNEL_PART void nn_store_part(float *p, nn_vec v, size_t lanes)
{
    if (lanes >= NN_LANES)
        nn_store(p, v);
    else
        memcpy(p, &v, lanes * sizeof(*p));
}

static inline size_t nn_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
