/* A node's courier: while a loop runs over several nodes (ps/loop), rows that
 * are updated in place follow the workers, as the loop's trips say.
 *
 * A state machine like the cache (ps/nodes/cache.h). A pass begins on each node
 * by courier_begin, which says so to the others; when all have said it the pass
 * is going, and what was home may leave. Each event of an own worker
 * (courier_passed) is told to those whom it concerns, with the rows that leave
 * after it. They are read when the frame is made, straight from where they lie,
 * and what comes is written straight to where it belongs: trips say why that is
 * safe. Who waits asks courier_has_come. When a node's rows are home, it tells
 * the others what its workers have gathered; when all have, the pass is over.
 *
 * A node is at most one pass ahead of another, and then has only said so.
 *
 * One owner; in a node with threads, its lock's. Pure.
 */
#ifndef PS_COURIER_H
#define PS_COURIER_H

#include "base/fault.h"
#include "mltune/loop.h"
#include "ps/nodes/frame.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COURIER_NODES_MAX = 64,
    COURIER_ROW_BYTES_MAX = 256 << 10 /* values and slots: fits in a frame */
};

/* ---- trips: which rows leave for which node, and when -------------------- */

/* Rows that leave this node for another after an event of an own worker. */
struct trips_parcel {
    uint32_t to, touch;    /* first touch of the table */
    uint64_t first, count; /* trips.row */
};

/* What has to have come: so many events of that worker (over all nodes). */
struct trips_need {
    uint32_t worker, events;
};

/* One node's part (ps/loop/trips.h makes them). An event is the end of a
 * worker's step, or the beginning: number 0. */
struct trips {
    unsigned workers, events;    /* own workers; events of each: steps + 1 */
    uint64_t *parcel_at;         /* [workers * events + 1] owned */
    struct trips_parcel *parcel; /* owned */
    uint64_t *row;               /* owned; those of a parcel ascend */
    /* Nodes that are to be told of an event, a bit each: they get rows, or have
     * a worker that waits for it. [workers * events] owned */
    uint64_t *tell;
    /* Before step s of own worker w: those of place s * workers + w; of place
     * (events - 1) * workers: before all rows are home. */
    uint64_t *need_at;       /* [workers * events + 2] owned */
    struct trips_need *need; /* owned */
    uint64_t moved;          /* rows sent, by all nodes */
};

/* ---- a pass -------------------------------------------------------------- */

struct courier_pass {
    const char *name; /* the loop's */
    uint64_t layout;  /* hash of what all nodes must have alike */
    const struct trips *trips;
    unsigned touches, totals;
    const uint32_t *table; /* [touches] */
    const bool *carried;   /* [touches] its rows travel */
    /* Where a row lies in this node, at home or as a visitor; for @write it is
     * the caller's alone. */
    void *(*place)(void *self, unsigned touch, uint64_t row, bool write);
    void *self;
};

struct courier_options {
    uint32_t node, nodes, workers; /* workers: a node */
    const struct table *table;     /* [tables] borrowed */
    uint32_t tables;
};

struct courier;

/* Errors: ERR_NOMEM. */
enum err courier_new(const struct courier_options *opt, struct courier **out);
void courier_free(struct courier *c);

/* A slice begins; frames of those before it say nothing any more. */
void courier_enter_slice(struct courier *c, uint64_t slice);

/* The slice's next pass. @pass and what it points to are borrowed until
 * courier_end or courier_forget. Errors: ERR_PROTO, in words: another node has
 * begun a pass of another loop, which is told that this one begins, and nothing
 * more. */
enum err courier_begin(struct courier *c, const struct courier_pass *pass,
                       struct fault *fault);

/* All nodes have begun it: workers may step. */
bool courier_is_going(const struct courier *c);

/* @node has begun it: always true of this one. */
bool courier_has_said(const struct courier *c, uint32_t node);

/* Own worker @worker has ended its next step. */
void courier_passed(struct courier *c, uint32_t worker);

/* What the trips' place waits for has come; false without a pass. */
bool courier_has_come(const struct courier *c, uint64_t place);

/* All of this node's rows are home: what its workers have gathered,
 * @own[workers][totals]. */
void courier_tell_totals(struct courier *c, const double *own);

/* Every node has told its totals, and nothing is left to be said. */
bool courier_is_over(const struct courier *c);

/* @all[nodes * workers][totals], of a pass that is over; which is forgotten. */
void courier_end(struct courier *c, double *all);

/* The slice has failed: whatever of a pass is under way is of no use. */
void courier_forget(struct courier *c);

/* Takes a frame of another node. Errors, nothing changed: ERR_PROTO in words.
 */
enum err courier_step(struct courier *c, const struct frame *f,
                      struct fault *fault);

/* The next frame for @node into @bytes[room], complete but for the stamp; 0:
 * none. @room >= courier_frame_bytes. */
size_t courier_next(struct courier *c, uint32_t node, unsigned char *bytes,
                    size_t room);
size_t courier_frame_bytes(const struct courier *c);

#endif
