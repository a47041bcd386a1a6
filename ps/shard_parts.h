/* A shard's inside: what shard.c (life, sending) and shard_step.c (taking
 * frames) share. */
#ifndef PS_SHARD_PARTS_H
#define PS_SHARD_PARTS_H

#include "ps/rowset.h"
#include "ps/shard.h"
#include "ps/update.h"

/* A worker of any node, as its frames tell. */
struct shard_worker {
    int64_t all;    /* clocks of all tables, from the slice's first */
    int64_t *extra; /* [tables] clocks of that table alone; where the table has
                     * a clock of its own, 1 from its end to that of all */
    bool available; /* has not drained */
    double task_s;  /* mean work time of its clocks in this slice */
    uint64_t tasks;
    /* Under barriers, [tables]: its sums that are not applied yet, by rows of
     * this shard's part; none elsewhere and for tables that are not shared. */
    struct update *sum;
};

struct shard_table {
    const struct table *t;
    bool shared;
    bool own_clock;        /* MLT_OWN_CLOCK */
    uint64_t first, count; /* this node's rows */
    int64_t clock;
    struct rowset changed; /* by row - first, since the clock last moved */
};

struct shard_read {
    uint32_t table, worker;
    uint64_t row;
};

struct shard_done {
    uint64_t op;
    uint32_t code;
};

/* What a node is still to be sent, and what it has. */
struct shard_node {
    struct shard_read *read; /* [reads] in order of arrival */
    uint32_t reads, reads_room;
    struct rowset *has; /* [tables] registered rows, by row - first */
    struct rowset *due; /* [tables] of those, changed and not pushed yet */
    bool *clock_due;    /* [tables] */
    bool any_clock_due;
    bool half; /* wants FRAME_F16 */
};

struct shard {
    struct shard_options opt;
    struct shard_table *table; /* [opt.tables] */
    struct shard_worker *worker;
    uint32_t workers; /* over all nodes */
    struct shard_node *node;
    struct worker_status *status; /* [workers] scratch of a question */
    const struct update **buffer; /* [workers] scratch of a sum */
    unsigned char *values;        /* scratch: RULE_ROW_BATCH widest rows */
    uint32_t value_bytes_max;
    bool notifies; /* nodes are told when a clock moves */

    uint64_t slice; /* 0 before the first */
    bool running;   /* begun, and not all workers have drained */
    bool writable;
    unsigned staleness;
    struct rule_params params;

    struct shard_done done[SHARD_OPS_MAX]; /* answers not sent yet */
    uint32_t dones;
    bool drained_due;
    struct shard_stats stats;
};

/* A table's clock of one worker. */
static inline int64_t shard_worker_clock(const struct shard_worker *w,
                                         uint32_t table)
{
    return w->all + w->extra[table];
}

#endif
