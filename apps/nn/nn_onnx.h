/* nn's model in ONNX: each layer as its operator.
 *
 * Channels come before rows and columns there, in values and in weights, so
 * weights are put into that order; nothing is turned while the model runs.
 *
 *   dense Gemm · conv Conv · max_pool MaxPool · avg_pool AveragePool · relu
 *   Relu · tanh Tanh · norm BatchNormalization (running moments) · dropout none
 */
#ifndef APPS_NN_ONNX_H
#define APPS_NN_ONNX_H

#include "apps/onnx/onnx_model.h"

onnx_form nn_onnx;

#endif
