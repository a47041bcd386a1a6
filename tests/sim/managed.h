/* Worth of managed communication: real `mf` on a cluster in virtual time,
 * a clock a data pass, with a bandwidth budget and without. For the test and
 * the benchmark of it (Wei et al. 2015, section 5.1). */
#ifndef TESTS_SIM_MANAGED_H
#define TESTS_SIM_MANAGED_H

#include "tests/sim/virtual.h"

/* The ratings. */
struct managed_data {
    uint32_t users, items, ratings, rank;
    int rounds;  /* of a pass: virtual_mf_options */
    double skew; /* of the items' popularity: virtual_mf_options */
    double slow; /* of the work: virtual_mf_options */
};

/* Few items: what is pending fits in one frame. */
extern const struct managed_data managed_few;
/* Many items, some of them popular: rows compete for a small budget, and those
 * of one small frame are chosen among a hundred. */
extern const struct managed_data managed_many;
enum { MANAGED_MANY_FRAME_BYTES = 512 };

struct managed_options {
    uint64_t seed;
    struct managed_data data;
    size_t frame_bytes; /* at most; 0: 16 KiB */
    double mbps;        /* of each node's sends; 0: not managed */
    enum priority priority;
    const char *consistency, *rule;
    unsigned staleness;
    double rate;        /* learning */
    double target_loss; /* mean squared error */
    int passes_max;
};

struct managed_result {
    int passes;    /* to the target; passes_max + 1: not reached */
    double loss;   /* when it ended: there, or after passes_max */
    double time_s; /* to the target, or of the run */
    struct virtual_stats stats;
    double mbps; /* of a node, on average */
};

void managed_run(const struct managed_options *opt, struct managed_result *out);

#endif
