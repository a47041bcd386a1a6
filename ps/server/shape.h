/* Shape of a server: which nodes and workers there are, which tables, and how
 * they are kept alike. All that is fixed from mlt_ps_start on, in one place for
 * the server, the wire and the files of training state.
 *
 * The start fills it in; from then on it is read by any thread without a lock.
 */
#ifndef PS_SHAPE_H
#define PS_SHAPE_H

#include "base/ring_bytes.h"
#include "base/rng.h"
#include "ps/nodes/alike.h"
#include "ps/nodes/placement.h"
#include "ps/nodes/priority.h"
#include "ps/rows/consistency.h"
#include "ps/rows/prefetch_list.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mlt_worker;

struct ps_shape {
    uint32_t node, nodes;
    unsigned workers;          /* of this node */
    unsigned all_workers;      /* of all nodes */
    struct mlt_worker *worker; /* [workers] once started; owned */

    struct table *table;         /* [tables] owned; placed rows get their
                                  * numbers while the wire starts */
    struct placement *placement; /* [tables] owned */
    size_t tables;
    const struct consistency_ops *consistency;
    struct barrier_rule rule; /* of the model barrier */

    bool gathers; /* what workers read is known for their next clocks */
    bool places;  /* rows lie where they are touched */
    bool float16;
    enum priority priority;
    char *meet, *listen; /* owned; NULL: one node; a Unix socket */
    double meet_s;
    uint64_t ring_bytes; /* to and from a node of this host; 0: none */
    uint64_t rates;      /* hash of those that act at the start */
};

static inline const struct table *shape_table(const struct ps_shape *s,
                                              size_t table)
{
    return &s->table[table];
}

static inline size_t shape_tables(const struct ps_shape *s)
{
    return s->tables;
}

/* Of all nodes. */
static inline unsigned shape_workers(const struct ps_shape *s)
{
    return s->all_workers;
}

/* Of this node. */
static inline unsigned shape_own_workers(const struct ps_shape *s)
{
    return s->workers;
}

static inline const struct consistency_ops *
shape_consistency(const struct ps_shape *s)
{
    return s->consistency;
}

/* Whether clocks are barriers. */
static inline bool shape_meets(const struct ps_shape *s)
{
    return s->consistency->barrier;
}

static inline struct barrier_rule shape_rule(const struct ps_shape *s)
{
    return s->rule;
}

/* A user's model (ps/server/ask.h), borrowed. */
static inline void shape_set_model(struct ps_shape *s,
                                   const struct consistency_ops *m)
{
    s->consistency = m;
    s->rule = (struct barrier_rule){0};
}

/* The consistency model's name. */
static inline const char *shape_model(const struct ps_shape *s)
{
    return s->consistency->name;
}

/* The name of a user's model; NULL: it is a built-in one. */
static inline const char *shape_user_model(const struct ps_shape *s)
{
    return s->consistency->user ? s->consistency->name : NULL;
}

/* A number of the options that all nodes must have alike, beside the tables. */
static inline uint64_t shape_options(const struct ps_shape *s)
{
    uint64_t hash = 0, all = 0;

    for (const char *c = s->consistency->name; *c; c++)
        hash = rng_mix(hash, (uint64_t)*c);
    hash = rng_mix(hash, s->rule.k);
    hash = rng_mix(hash, (uint64_t)(s->rule.fraction * 1e6));
    hash = rng_mix(hash, (uint64_t)(s->rule.slower_than * 1e6));
    all = alike_with(all, ALIKE_MODEL, hash);
    all = alike_with(all, ALIKE_ACCESS,
                     (uint64_t)s->places << 1 | (uint64_t)s->gathers);
    return alike_with(all, ALIKE_RATES, s->rates);
}

/* Bytes of a ring, of one direction; 0: none, frames go through sockets, as
 * those of nodes that listen over tcp do. */
static inline uint64_t shape_ring_bytes(const struct ps_shape *s)
{
    const char *at = s->listen ? s->listen : s->meet;

    return s->nodes > 1 && at && strncmp(at, "tcp://", 6) != 0 ? s->ring_bytes
                                                               : 0;
}

/* Whether it remembers what each worker reads of @t. */
static inline bool shape_gathers(const struct ps_shape *s,
                                 const struct table *t)
{
    return s->gathers && s->nodes > 1 && t->access == MLT_SHARED &&
           t->rows <= PREFETCH_LIST_ROWS_MAX;
}

#endif
