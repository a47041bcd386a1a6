/* What managed communication is worth: real `mf` on a cluster in virtual time,
 * a clock a data pass, with a bandwidth budget and without. For the test and
 * the benchmark of it (Wei et al. 2015, section 5.1). */
#ifndef TESTS_SIM_MANAGED_H
#define TESTS_SIM_MANAGED_H

#include "tests/sim/virtual.h"

struct managed_options {
    uint64_t seed;
    double mbps; /* of each node's sends; 0: not managed */
    enum priority priority;
    const char *consistency, *rule;
    unsigned staleness;
    double rate;        /* learning */
    double target_loss; /* mean squared error */
    int passes_max;
};

struct managed_result {
    int passes;  /* to the target; passes_max + 1: not reached */
    double loss; /* in the end */
    struct virtual_stats stats;
    double mbps; /* of a node, on average */
};

void managed_run(const struct managed_options *opt, struct managed_result *out);

#endif
