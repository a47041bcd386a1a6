/* What earlier simulated runs found, for another one to begin with
 * (tuner/board/earlier.h). */
#ifndef TESTS_SIM_WARM_H
#define TESTS_SIM_WARM_H

#include "tests/sim/sim.h"

/* Runs @family with each of seed[n], of which none begins with anything, and
 * takes in what they found, the first as the newest. Aborts where that cannot
 * be read. */
void warm_from(const struct sim_family *family, const uint64_t seed[], size_t n,
               struct earlier *out);

#endif
