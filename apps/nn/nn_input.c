#include "apps/nn/nn_input.h"

#include "base/simd.h"

KERNEL void nn_input_bytes(struct nn_shape shape, const uint8_t *planar,
                           const float scale[], const float offset[],
                           float *out)
{
    size_t plane = (size_t)shape.height * shape.width, p, c;

    if (shape.channels == 1) {
        const float factor = scale[0], shift = offset[0];

        for (p = 0; p < plane; p++)
            out[p] = factor * (float)planar[p] + shift;
        return;
    }
    for (p = 0; p < plane; p++)
        for (c = 0; c < shape.channels; c++)
            *out++ = scale[c] * (float)planar[c * plane + p] + offset[c];
}

KERNEL void nn_input_values(struct nn_shape shape, const float *planar,
                            float *out)
{
    size_t plane = (size_t)shape.height * shape.width, p, c;

    for (p = 0; p < plane; p++)
        for (c = 0; c < shape.channels; c++)
            *out++ = planar[c * plane + p];
}
