/* Shards: one node's part of the parameters, as the other nodes deal with it.
 *
 * A state machine: frames go in (shard_step), frames come out (shard_next), and
 * nothing else happens. What there is to send is not a queue but follows from
 * the state (whose reads may be answered, which rows a node does not have yet),
 * so it is bounded whatever the network does, and whoever sends asks for the
 * next frame when the way is free: pacing is the caller's.
 *
 * A slice begins (FRAME_BEGIN), workers of all nodes send updates and clocks,
 * read, and drain; when all have, what they sent is applied and the shard says
 * so to the node that controls. Forks and frees come between slices. In a
 * slice:
 *
 * - Sums are applied by the table's rule, once a clock, to the sum over all
 *   workers in the order of their tree (ps/rows/sum_tree.h), under a model
 * whose clocks are barriers (bsp: the result does not depend on who is faster);
 * else when they come, once for each worker's sum. Under barriers a node sends
 * the sums of each aligned block of its workers, in the name of the first. Of
 * large tables they come as streams (ps/nodes/sum_stream.h): a row is applied
 * as soon as all have passed it, which is when nobody reads it any more: all
 * workers have ended the table's clock.
 * - The table's clock here: all updates of clocks below are applied. It is the
 *   slowest worker's that has not drained. Under barriers and where rows are
 *   pushed, nodes are told when it moves.
 * - A read is answered as soon as the consistency model lets its worker read.
 * - Where the model pushes (essp; bsp too, since every reader will want every
 *   changed row): a node that has read a row once is registered for it. When
 *   the table's clock moves, changed rows go to the registered nodes, and only
 *   after them the new clock: a registered copy is then as fresh as the clock
 *   says (Dai et al. 2015, ESSPTable).
 *
 * - With a bandwidth budget, changed rows may go to registered nodes before the
 *   clock moves, while there is room (shard_next_early); those that have not
 *   changed since need not go again when it does.
 *
 * - Where the table's rule revises and clocks are no barriers, rows leave with
 *   their versions and sums come with those that they were computed on
 *   (ps/nodes/revision.h). Under barriers nothing is ever computed on an old
 * row.
 *
 * Rows of exclusive tables, which their owners change past the shard, are read
 * as they are at the moment of the answer and never pushed.
 *
 * Frames must come in order from each node (ps/nodes/link.h). One owner. Pure.
 */
#ifndef PS_SHARD_H
#define PS_SHARD_H

#include "base/proto/branch.h"
#include "ps/nodes/frame.h"
#include "ps/nodes/priority.h"
#include "ps/rows/consistency.h"
#include "ps/rows/rule.h"
#include "ps/rows/table.h"
#include "ps/rows/update.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SHARD_NODES_MAX = 1024,
    SHARD_READS_MAX = 4096, /* rows that one node waits for, at one shard */
    SHARD_OPS_MAX = 64,     /* operations not yet answered */
    SHARD_EARLY_ROWS = 4096
};

/* Where the rows are: a branch store (tests/sim/shard_store.h) or a
 * node's workers. */
struct shard_rows {
    /* As store_fork, store_drop. */
    enum err (*fork)(void *self, branch_id child, branch_id parent,
                     enum branch_type type);
    enum err (*drop)(void *self, branch_id id);

    /* apply and read act on this branch from now on. @writable: false for a
     * kept one. Errors: ERR_NOENT. */
    enum err (*activate)(void *self, branch_id id, bool *writable);

    /* Applies the table's rule to n <= RULE_ROW_BATCH rows (numbers in the
     * whole table, all of this node), in order; @seen: as rule_batch has it.
     * Never fails. */
    void (*apply)(void *self, uint32_t table, size_t n, const uint64_t row[],
                  const void *const sum[], const void *const seen[],
                  const struct rule_params *params);

    /* Copies the values of a row to @out, which may lie on any byte. */
    void (*read)(void *self, uint32_t table, uint64_t row, void *out);

    /* For a table whose rule revises: rule_gradient_sum of a row, borrowed
     * until the next apply. */
    const float *(*gradients)(void *self, uint32_t table, uint64_t row);
};

struct shard_options {
    uint32_t node, nodes;
    uint32_t workers;          /* a node; numbered node by node */
    uint32_t control;          /* the node whose operations are obeyed */
    const struct table *table; /* [tables] partitioned for nodes * workers */
    uint32_t tables;
    const struct consistency_ops *consistency;
    struct barrier_rule rule; /* of the model barrier */
    uint64_t options; /* as FRAME_HELLO has it; all nodes have the same */
    /* Snapshots of gradient sums, a table; 0: two a row
     * and node, at most 16 (ps/nodes/revision.h). */
    uint32_t snapshots_max;
    uint64_t dense_bytes; /* of update_init, for sums under barriers */
    /* Of sum_stream_rows, alike in all nodes; 0: no streams. */
    uint64_t stream_bytes;
    /* Borrowed; NULL, or under barriers what worker i of this node has added to
     * table t: own[i][t], for every shared table. Then no frame of this node
     * brings its sums; they are read there when a clock is applied. */
    const struct update *const *own;
    const struct shard_rows *rows;
    void *rows_self;
};

struct shard;

/* @opt is copied; what it points to is borrowed for life. Errors: ERR_INVAL (no
 * such cluster, or a row too wide for a frame), ERR_NOMEM. */
enum err shard_new(const struct shard_options *opt, struct shard **out);
void shard_free(struct shard *s);

/* Takes one frame. @f->from is to be trusted (link_take). Errors, nothing
 * changed: ERR_PROTO, what the frame says cannot be (in words); ERR_LIMIT, more
 * waits than the sender may have. An operation that cannot be carried out is no
 * error but answered in its FRAME_DONE. */
enum err shard_step(struct shard *s, const struct frame *f,
                    struct fault *fault);

/* The next frame for @node, complete but for the stamp, into @bytes[room];
 * returns its bytes, 0 when there is none now. @room >= shard_frame_bytes: more
 * makes frames with more rows. */
size_t shard_next(struct shard *s, uint32_t node, unsigned char *bytes,
                  size_t room);

/* Whether shard_next has one. */
bool shard_has_next(struct shard *s, uint32_t node);

/* Whether rows may be pushed before they have to. Between slices. */
void shard_set_early(struct shard *s, bool early);

/* A frame of rows that @node is registered for and that have changed since it
 * had them, before the clock says so: those of most priority among at most
 * SHARD_EARLY_ROWS (and 16 times what a frame holds), tried in turn; a change
 * is counted since the clock last moved. 0 without any, unless shard_set_early,
 * where the model does not push or its clocks are barriers, and while row
 * versions have no room (shard_versions_full). */
size_t shard_next_early(struct shard *s, uint32_t node, enum priority p,
                        unsigned char *bytes, size_t room);

/* The least room for a frame: the widest table's row. */
size_t shard_frame_bytes(const struct shard *s);

/* A number of the tables' layout, which all nodes must agree on: to be sent
 * first (FRAME_HELLO). */
uint64_t shard_layout(const struct table table[], uint32_t tables);

/* Rows first .. first + count - 1 of a shared table are node @node's. */
void shard_part(const struct table *t, uint32_t nodes, uint32_t workers,
                uint32_t node, uint64_t *first, uint64_t *count);

/* Whether a worker of @node has ended a clock of all tables above @clock, or
 * has drained in the slice that runs. */
bool shard_is_past(const struct shard *s, uint32_t node, int64_t clock);

/* Whether the nodes keep each other's clocks of @t, of @table [tables]: of the
 * shared ones; where none is shared, of those that others read. */
bool shard_keeps_clock(const struct table *t, const struct table table[],
                       uint32_t tables);

/* The node that has @row of a shared table. */
uint32_t shard_of(const struct table *t, uint32_t nodes, uint32_t workers,
                  uint64_t row);

struct shard_stats {
    uint64_t pushes;  /* rows sent that nobody had asked for */
    uint64_t early;   /* of these, before the clock moved */
    uint64_t waiting; /* rows asked for that wait now */
    /* Sums that streams keep now, and the most that they have kept. */
    uint64_t kept, kept_peak;
    /* Row versions, over all tables. */
    uint64_t snapshots, snapshots_peak, snapshots_missed;
};
struct shard_stats shard_stats(const struct shard *s);

/* Whether versions have no room for more: rows that need not leave now should
 * not, because each that leaves and changes costs a snapshot. */
bool shard_versions_full(const struct shard *s);

#endif
