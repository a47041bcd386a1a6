/* Shape of a server: which nodes and workers there are, which tables, and how
 * they are kept alike. All that is fixed from mlt_ps_start on, in one place for
 * the server, the wire and the files of training state.
 *
 * The start fills it in; from then on it is read by any thread without a lock.
 */
#ifndef PS_SHAPE_H
#define PS_SHAPE_H

#include "ps/nodes/placement.h"
#include "ps/nodes/priority.h"
#include "ps/rows/consistency.h"
#include "ps/rows/prefetch_list.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

    bool gathers; /* what workers read is known for their next clocks */
    bool places;  /* rows lie where they are touched */
    bool float16;
    enum priority priority;
    char *meet, *listen; /* owned; NULL: one node; a Unix socket */
    double meet_s;
};

/* Whether it remembers what each worker reads of @t. */
static inline bool shape_gathers(const struct ps_shape *s,
                                 const struct table *t)
{
    return s->gathers && s->nodes > 1 && t->access == MLT_SHARED &&
           t->rows <= PREFETCH_LIST_ROWS_MAX;
}

#endif
