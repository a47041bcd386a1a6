/* The parameter server's own state. Only the files of this room include it:
 * others see the server's shape, its workers, and what ps/server/ps.h says.
 *
 * Threads: the control thread changes anything only while no worker runs.
 */
#ifndef PS_CORE_H
#define PS_CORE_H

#include "ps/rows/rule.h"
#include "ps/server/forks.h"
#include "ps/server/peers.h"
#include "ps/server/ps.h"
#include "ps/server/rules.h"
#include "ps/server/saving.h"
#include "ps/server/shape.h"
#include "ps/server/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CORE_STRIPES = 1024 /* locks of rows, over all tables */ };

struct stripe_line {
    _Alignas(WORKER_LINE_BYTES) struct stripe lock;
};

struct mlt_ps {
    struct ps_shape shape;
    size_t tables_room, placement_room;
    const struct peers_ops *wire; /* of several nodes */
    struct peers *peers;          /* owned; NULL: one node, or not open yet */
    struct ps_cut cut;

    /* Rates that act in the next run. */
    struct rule_params params;
    unsigned staleness;
    unsigned quorum; /* k of the model barrier; 0: as its rule says */
    struct consistency_ops own_model; /* a user's, where shape has that */
    int64_t run_base;        /* the clock that the present run began with */
    struct stripe asking;    /* its predicates are asked, who waits changes */
    struct fault stuck;      /* why workers waited for ever; under `asking` */
    _Atomic bool has_passes; /* of loops, once one has begun */
    double bandwidth_mbps;   /* 0: no budget */

    bool started;
    bool direct; /* one worker, or clocks are barriers: reads in place */
    const struct rule_ops *default_rule;
    struct own_rules rules; /* beside those that are built in */

    uint32_t fits;          /* branches that fit in every node */
    uint64_t memory_limit;  /* for everything */
    uint64_t buffers_bytes; /* update buffers, copies, pointers */
    uint64_t branch_bytes;  /* worst case of one branch, all shards */
    uint64_t fixed_bytes;   /* of the stores before any branch */
    uint64_t store_limit;   /* for all shards */

    branch_id active; /* BRANCH_NONE without one */
    enum branch_type active_type;
    branch_id next_id;           /* forks_next_id */
    struct branch_entry *branch; /* [branches] live ones; owned */
    size_t branches, branches_room;

    struct versions *history[STORE_TABLES_MAX]; /* owned; NULL: none */
    struct keys *keys[STORE_TABLES_MAX];        /* owned; NULL: not keyed */
    chunk_slot **chunk; /* [tables] node-wide pointers; NULL for local tables */
    struct stripe_line *stripe; /* [CORE_STRIPES] locks of rows */
    struct runtime *runtime;
    struct ps_saving saving;
    uint64_t device_memory; /* bytes that it may take; 0: what it has */
    struct device *device;  /* owned; NULL: all is in host memory */
};

/* The store of worker @index of this node. */
static inline struct store *ps_store(const struct mlt_ps *ps, unsigned index)
{
    return ps->shape.worker[index].store;
}

/* What acts in the clock that @w is in. */
static inline struct rule_params ps_params(const struct mlt_worker *w)
{
    return rule_params_at(&w->ps->params, w->clocks);
}

#endif
