/* Oracle of a cluster's parameters: a sequential reference.
 *
 * Two tables count: in every row each worker has a column of its own, to which
 * only it adds, whole numbers only. So a value read says exactly which of each
 * worker's updates it holds, and whether that is a set that the consistency
 * model allows. The third table learns (sgd with momentum): under barriers its
 * bits are compared with the rule applied to sums in the order of the workers'
 * tree.
 */
#ifndef TESTS_SIM_CLUSTER_ORACLE_H
#define TESTS_SIM_CLUSTER_ORACLE_H

#include "ps/nodes/shard.h"
#include "ps/rows/consistency.h"
#include "ps/rows/rule.h"
#include "ps/rows/table.h"

enum {
    ORACLE_COUNTERS = 2, /* tables 0 and 1 count */
    ORACLE_LEARNS = 2,   /* table 2 learns */
    ORACLE_TABLES = 3,
    ORACLE_CLOCKS_MAX = 10, /* of a worker in a slice, tables' included */
    ORACLE_BRANCHES_MAX = 64,
    ORACLE_LEARNS_WIDTH = 3
};

struct oracle_branch {
    bool live;
    enum branch_type type;
    int64_t *count[ORACLE_COUNTERS]; /* [rows * workers] */
    unsigned char *learned;          /* [rows * row_bytes] */
};

struct oracle {
    const struct table *table; /* [ORACLE_TABLES] */
    uint32_t workers;          /* over all nodes */
    const struct consistency_ops *model;
    struct oracle_branch branch[ORACLE_BRANCHES_MAX]; /* by branch */

    bool partial; /* rows may hold a part of what a worker adds in a clock */

    /* The slice that runs. */
    uint32_t active;
    int64_t base;
    unsigned staleness;
    struct rule_params params;
    int64_t *clock; /* [workers * ORACLE_TABLES] */
    bool *available;
    bool *ended; /* [workers * ORACLE_TABLES] a clock of its own, early */
    /* [((row * workers) + worker) * ORACLE_CLOCKS_MAX + clock - base] */
    int64_t *added[ORACLE_COUNTERS];
    float *gradient; /* [(worker * rows + row) * width] of its clock */
    bool *has;       /* [worker * rows + row] */
    int64_t applied; /* clock of table 2 */
};

/* @table, @model: borrowed. Aborts when out of memory. Branch 0 is there. */
void oracle_init(struct oracle *o, const struct table table[], uint32_t workers,
                 const struct consistency_ops *model);
void oracle_deinit(struct oracle *o);

void oracle_fork(struct oracle *o, uint32_t child, uint32_t parent,
                 enum branch_type type);
void oracle_free(struct oracle *o, uint32_t branch);

void oracle_begin(struct oracle *o, uint32_t branch, int64_t clock,
                  unsigned staleness, struct rule_params params);

/* Sums that a worker adds in its present clock. */
void oracle_count(struct oracle *o, uint32_t worker, uint32_t table,
                  uint64_t row, int64_t n);
void oracle_learn(struct oracle *o, uint32_t worker, uint64_t row,
                  const float gradient[ORACLE_LEARNS_WIDTH]);
void oracle_end_clock(struct oracle *o, uint32_t worker, uint32_t table);
void oracle_drain(struct oracle *o, uint32_t worker);

/* All have drained: what was added is the branch's. */
void oracle_end_slice(struct oracle *o);

/* Whether a worker may have read @values with clock @held at its present clock;
 * else false, and why. */
bool oracle_allows(const struct oracle *o, uint32_t worker, uint32_t table,
                   uint64_t row, const void *values, int64_t held, bool half,
                   char *why, size_t size);

/* Whether a branch's row between slices is what it must be. @bytes: values and
 * slots. Where the learned table is not determined, it is taken over with
 * @take, else compared with what was taken. */
bool oracle_equals(struct oracle *o, uint32_t branch, uint32_t table,
                   uint64_t row, const void *bytes, bool take);

#endif
