/* A simulated cluster: the real shards, caches, links and branch stores of many
 * nodes in one thread and in virtual time.
 *
 * Everything that is not simulated on purpose is the code that will run:
 * ps/nodes/shard.h on tests/sim/shard_store.h, ps/nodes/cache.h,
 * ps/nodes/link.h, ps/nodes/frame.h. Simulated are the wires (delay, bandwidth,
 * partitions that heal; order is kept and, in two thirds, nothing is lost, as
 * ZeroMQ promises), the workers' programs (reads, updates, clocks of a table or
 * of all, work of any length), and the node that controls (forks, frees,
 * slices). Frames are replayed, damaged and sent by strangers besides. One seed
 * decides everything.
 *
 * In a third of the clusters connections break, again and again: what is under
 * way is lost, perhaps what is sent until it is there again, too. Then all that
 * is not acknowledged is sent again, as ps/wire/comm_connect_io.c does it.
 *
 * In three quarters of the clusters workers fetch batches of rows besides,
 * mostly with so few reads allowed that they come to that bound.
 *
 * In half of the clusters each node has a bandwidth budget
 * (ps/nodes/manager.h), and rows leave before they have to. The budget is
 * checked over every tenth of a millisecond to every second
 * (tests/sim/budget.h).
 *
 * Checked after every step, against a sequential reference
 * (tests/sim/cluster_oracle.h): what each read may hold under its model, forks,
 * sums, bounds of what waits, and that all programs end.
 */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "base/proto/staleness.h"

#include <stdbool.h>
#include <stdint.h>

struct cluster_options {
    uint64_t seed;
    const char *consistency; /* NULL: by the seed */
    unsigned nodes;          /* 2 .. 100; 0: by the seed, mostly few */
    bool calm;     /* an even cluster: nobody is slow, no way is cut or narrow,
                    * workers end the same clocks and read much */
    int staleness; /* of all slices, less 1; 0: by the seed */
    double
        budget_bytes_s; /* of each node; 0: by the seed, or none; < 0: none */
};

struct cluster_result {
    bool failed;
    char why[512]; /* with the seed */
    /* Counters of what happened. */
    const char *consistency;
    unsigned nodes, workers; /* workers: a node */
    uint64_t steps, frames, bytes, reads, waits, updates, pushes;
    uint64_t batches, batches_waited; /* begun; not there when waited for */
    uint64_t forks, forks_refused, slices, refused;
    uint64_t breaks, lost, again, passed_over; /* connections; frames */
    struct staleness seen;
    uint64_t kept; /* sums that a shard's streams kept, the most */
    uint64_t early, pushed_early; /* rows that left before they had to */
    uint64_t overused;
    double waited_s, waited_bytes; /* for the budget; what was used of it */
    double budget_bytes_s;
    double time_s; /* virtual */
};

void cluster_run(const struct cluster_options *opt, struct cluster_result *out);

#endif
