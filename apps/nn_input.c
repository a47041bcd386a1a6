#include "apps/nn_input.h"

#include "base/simd.h"

KERNEL void nn_input_bytes(struct nn_shape shape, const uint8_t *planar,
                           float scale, float *out)
{
    size_t plane = (size_t)shape.height * shape.width, p, c;

    if (shape.channels == 1) {
        for (p = 0; p < plane; p++)
            out[p] = scale * (float)planar[p];
        return;
    }
    for (p = 0; p < plane; p++)
        for (c = 0; c < shape.channels; c++)
            *out++ = scale * (float)planar[c * plane + p];
}

KERNEL void nn_input_values(struct nn_shape shape, const float *planar,
                            float scale, float *out)
{
    size_t plane = (size_t)shape.height * shape.width, p, c;

    for (p = 0; p < plane; p++)
        for (c = 0; c < shape.channels; c++)
            *out++ = scale * planar[c * plane + p];
}
