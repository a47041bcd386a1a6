/* Samples as they are stored (planar: channel, row, column) into the network's
 * channels-last order (nn_layer.h). Pure functions. */
#ifndef APPS_NN_INPUT_H
#define APPS_NN_INPUT_H

#include "apps/nn/nn_layer.h"

/* @out[h][w][c] = scale[c] * @planar[c][h][w] + offset[c]; both [channels]. */
void nn_input_bytes(struct nn_shape shape, const uint8_t *planar,
                    const float scale[], const float offset[], float *out);

/* @out[h][w][c] = @planar[c][h][w]. */
void nn_input_values(struct nn_shape shape, const float *planar, float *out);

#endif
