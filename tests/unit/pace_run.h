/* Nodes of a parameter server with a bandwidth budget, each in a thread of this
 * process, on real sockets; their workers send as much as they can. For the
 * test and the benchmark of the budget. */
#ifndef TESTS_UNIT_PACE_RUN_H
#define TESTS_UNIT_PACE_RUN_H

#include "ps/traffic.h"

#include <stdbool.h>

struct pace_run_options {
    const char *consistency, *priority, *rule;
    double mbps;
    uint64_t rows;
    uint32_t width;
    int clocks; /* of each of two workers in each of two nodes */
    /* The first clock goes on until rows have left early (and, where the model
     * pushes, were pushed early) from each node, for so long. */
    double wait_early_s;
};

struct pace_run_result {
    int code; /* of the first node that failed */
    char text[512];
    struct ps_traffic traffic; /* of both nodes */
    uint64_t samples;
    /* The most by which what a node sent in some time up to a second was above
     * the budget for that time, in bytes: at most a queue. Taken from counters
     * and clocks so that no pause of the machine makes it more. */
    double most_above;
    double queue; /* bytes */
    double used;  /* part of the budget, from the first byte to the last */
    double seconds;
    bool exact; /* every row's sum is what was added */
};

/* Aborts without memory or threads. */
void pace_run(const struct pace_run_options *opt, struct pace_run_result *out);

#endif
