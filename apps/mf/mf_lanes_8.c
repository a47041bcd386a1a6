/* mf_lanes.inc with vectors of 8 floats. */
#include "apps/mf/mf_lanes.h"

#define MF_LANES 8
#define MF_SIZED(name) name##_8
#include "apps/mf/mf_lanes.inc"
