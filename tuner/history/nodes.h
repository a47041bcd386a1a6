/* The nodes of a run, folded from their beats: what each is, holds and has sent
 * and read, over all processes that were the node of that number.
 *
 * Memory is bounded: of a node's past at most NODES_POINTS_MAX points are kept,
 * with twice the time between two whenever there would be more. Part of a run's
 * history; pure; one owner thread.
 */
#ifndef TUNER_NODES_H
#define TUNER_NODES_H

#include "base/err.h"
#include "base/proto/proto.h"

#include <stdbool.h>
#include <stddef.h>

enum { NODES_MAX = 64, NODES_POINTS_MAX = 512 };

/* A point of what grows over time, as of a beat. */
struct node_point {
    double at_s;
    uint64_t sent, received; /* bytes of the data protocol, in all */
    uint64_t memory;         /* in use by branches, bytes */
};

struct node_past {
    bool alive;          /* has beaten since the training system was started */
    double at_s;         /* of the latest beat */
    struct msg_beat now; /* the latest; what grows is zeroed by nodes_lost */
    struct msg_beat before;   /* what grows, of the processes before */
    struct node_point *point; /* owned; oldest first */
    size_t points, capacity;
    double spacing_s; /* least time between two points */
};

struct nodes {
    struct node_past *node; /* owned, [count], by number */
    size_t count, capacity;
};

/* Accepts a zeroed one. */
void nodes_deinit(struct nodes *n);

/* Errors: ERR_FORMAT (no such node can be), ERR_NOMEM; nothing changed. */
enum err nodes_take(struct nodes *n, double at_s, const struct msg_beat *beat);

/* The processes are gone; others will begin to count anew. */
void nodes_lost(struct nodes *n);

/* The latest beat with what grows as it is in all. */
struct msg_beat nodes_total(const struct node_past *n);

/* Staleness of reads, and bytes sent to each other, over all nodes. */
struct staleness nodes_staleness(const struct nodes *n);
uint64_t nodes_sent(const struct nodes *n);

/* Seconds between two beats of a node that are worth a record, @run_s after the
 * run began: so that a long run is not told second by second. */
double nodes_interval(double run_s);

#endif
