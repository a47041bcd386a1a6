/* The pulse: numbers that a node tells about itself once a second, and at the
 * end of a slice: memory of the store and of its branches, time of its slices,
 * what went to other nodes, how fresh what its workers read was.
 *
 * Memory is looked at when no worker runs, at most once in half a second and
 * with at most a hundredth of the time. One owner thread.
 */
#ifndef PS_NODE_PULSE_IO_H
#define PS_NODE_PULSE_IO_H

#include "base/clock_io.h"
#include "base/proto/proto.h"
#include "ps/node/node.h"
#include "ps/server/ps.h"

struct pulse {
    struct msg_beat beat; /* as of the last look and the last windows */
    time_ns due;          /* of the next look */
    /* As of the end of the slice before. */
    uint64_t bytes, reads;
    int64_t sum;
};

/* Looks at the memory, if that is due. No worker runs, and nobody else works
 * on the stores. */
void pulse_look(struct pulse *p, const struct mlt_ps *ps);

/* Windows of a slice have been reported. */
void pulse_windows(struct pulse *p, const struct progress_window windows[],
                   uint32_t count);

/* Counts what a slice that has ended sent and read. */
void pulse_slice(struct pulse *p, struct mlt_ps *ps, struct node_wire *out);

/* A beat, but for the members that the link and the node know. @ps NULL: it
 * still loads. */
struct msg_beat pulse_beat(const struct pulse *p, struct mlt_ps *ps);

#endif
