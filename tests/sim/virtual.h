/* Programs on a cluster in virtual time: real shards, caches, links and frames
 * (as tests/sim/cluster.h has them), real mathematics in the workers, simulated
 * wires and work times. Nothing is checked here; what is asked is what a
 * program computes under delays, and what it costs in messages, bytes and time.
 *
 * One shared table. In a clock a worker visits rows in an order that the
 * program plans: it reads a row, computes, adds to any rows, and goes on with
 * the next. Everything follows from the options.
 */
#ifndef TESTS_SIM_VIRTUAL_H
#define TESTS_SIM_VIRTUAL_H

#include "ps/nodes/priority.h"
#include "ps/rows/rule.h"
#include "tests/sim/knowledge.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct virtual;

struct virtual_program {
    void *self;
    /* The rows that @worker (over all nodes) visits in its @clock-th clock, in
     * order: *rows[return], borrowed until the worker's next plan. */
    size_t (*plan)(void *self, uint32_t worker, int clock,
                   const uint64_t **rows);
    /* The @i-th of them, whose values are given; adds with virtual_add. Returns
     * the seconds that it takes. */
    double (*visit)(void *self, struct virtual *v, uint32_t worker, int clock,
                    size_t i, const void *values);
};

struct virtual_options {
    uint32_t nodes, workers; /* workers: a node */
    const char *consistency;
    unsigned staleness;
    const char *rule;
    uint64_t rows;
    uint32_t width;
    enum mlt_type type;
    struct rule_params params;
    double latency_s, bytes_s; /* between nodes; within one it costs nothing */
    double slow;               /* factor of the first worker's work time */
    double budget_bytes_s; /* of each node's sends; 0: none, and nothing leaves
                            * before it has to */
    enum priority priority;
    size_t frame_bytes; /* at most; 0: 16 KiB */
    /* All of a clock's rows are asked for when it begins: what the program
     * plans, or what is known of the worker. Else each when it is visited. */
    bool prefetch;
    struct knowledge *known;  /* or NULL; what was missing is added */
    struct knowledge *record; /* or NULL; what is touched is noted there, but
                               * for */
    unsigned missing_percent;
    /* NULL, or [rows]: where the program's row lies in the table, a permutation
     * (access_place). */
    const uint64_t *place;
    struct virtual_program program;
};

struct virtual_stats {
    uint64_t messages, bytes;    /* between nodes */
    uint64_t steps;              /* of the simulation */
    uint64_t visits, unforeseen; /* of rows that are not in `known` */
    uint64_t snapshots_peak, snapshots_missed;
    uint64_t early, pushed_early; /* rows that left before they had to */
    double time_s;
};

/* The rows of each node, for access_place: @first[nodes], @count[nodes]. */
void virtual_parts(const struct virtual_options *opt, uint64_t first[],
                   uint64_t count[]);

/* Aborts without memory and where the options are none. */
struct virtual *virtual_new(const struct virtual_options *opt);
void virtual_free(struct virtual *v);

/* Before the first run. */
void virtual_init_row(struct virtual *v, uint64_t row, const void *values);

/* A slice of so many clocks. Aborts if it does not end. */
void virtual_run(struct virtual *v, int clocks);

/* For a worker, while it visits: adds width values. */
void virtual_add(struct virtual *v, uint32_t worker, uint64_t row,
                 const void *values);

/* Seconds since it was made. */
double virtual_now(const struct virtual *v);

/* Values of a row, between runs. */
const void *virtual_row(const struct virtual *v, uint64_t row);

struct virtual_stats virtual_stats(const struct virtual *v);

#endif
