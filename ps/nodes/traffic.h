/* Traffic: what one node has said to the others and heard from them, counted
 * since its start.
 *
 * Only what goes between nodes counts as sent; what a node says to its own
 * shard is in `rows_updated`, `rows_asked` and `rows_got` besides. Plain data,
 * all of it sums: those of several nodes can be added. Pure.
 */
#ifndef PS_TRAFFIC_H
#define PS_TRAFFIC_H

#include "ps/nodes/frame.h"
#include "ps/nodes/priority.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_traffic {
    uint64_t frames_sent, frames_received, frames_ignored;
    uint64_t bytes_sent, bytes_received; /* of frames */

    /* Rows with sums that went to a shard: a worker's, under barriers a
     * block's, and those to other nodes alone; rows that workers asked for;
     * rows with values that came, asked for or not. */
    uint64_t rows_updated, rows_asked, rows_got;
    /* Rows that workers were known to need in a clock, and that they needed
     * without being known to (ps/rows/prefetch_list.h). */
    uint64_t rows_foreseen, rows_unforeseen;

    /* Client: rows with sums that left because a clock ended, and before it
     * while there was room, by the priority that chose them. */
    uint64_t rows_due, rows_early[PRIORITY_COUNT];
    /* Server: rows with values that left because somebody waited for them,
     * because a clock had moved, and before it. */
    uint64_t rows_answered, rows_pushed, rows_pushed_early[PRIORITY_COUNT];

    /* The bandwidth budget: bytes that were charged to it, headers of the
     * network included; time in which a client's or a server's frame was ready
     * and had to wait for it. */
    uint64_t bytes_charged;
    uint64_t client_wait_ns, server_wait_ns;
    uint64_t overused; /* times that acknowledgements came so late that sending
                        * paused */
    /* Server: rows asked for that wait now. Snapshots of row versions: the most
     * that were kept at a time; those that there was no room for. */
    uint64_t rows_waiting, snapshots_peak, snapshots_missed;
    uint64_t early_suspended; /* times that nothing left early because row
                               * versions had no room */
};

/* Counts the rows of a decoded frame that has left for another node. @early:
 * before it had to, chosen by @p. */
void traffic_count_rows(struct ps_traffic *t, const struct frame *f, bool early,
                        enum priority p);

#endif
