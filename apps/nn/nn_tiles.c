#include "apps/nn/nn_tiles.h"

#define NN_SIZED NN_NARROW
#include "apps/nn/nn_tiles.inc"
