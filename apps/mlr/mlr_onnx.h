/* mlr's model in ONNX: scaled values, one Gemm, class and probabilities. */
#ifndef APPS_MLR_ONNX_H
#define APPS_MLR_ONNX_H

#include "apps/onnx/onnx_model.h"

onnx_form mlr_onnx;

#endif
