/* The node's end of the control protocol: a ZeroMQ DEALER to one tuner.
 *
 * Messages that cannot go out at once are kept by the caller. Whether the tuner
 * is there is known from the connection itself: one that is closed and does not
 * come back is a tuner that is gone. Over tcp a silent peer is found by
 * ZeroMQ's heartbeats; on one machine a process that ends closes its socket,
 * and one that is merely stopped (Ctrl-Z) may be continued. Nothing here
 * blocks. One owner thread.
 */
#ifndef PS_NODE_LINK_IO_H
#define PS_NODE_LINK_IO_H

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* To connect for the first time; to come back after a connection was lost;
     * tcp: without a heartbeat. */
    LINK_FIRST_S = DEADLINE_TUNER_CONNECT_MS / 1000,
    LINK_AGAIN_S = DEADLINE_TUNER_AGAIN_MS / 1000,
    LINK_SILENT_S = DEADLINE_TUNER_BEAT_MS / 1000,
    /* For what is still to be sent, at the end. */
    LINK_LINGER_MS = DEADLINE_NODE_LINGER_MS
};

struct node_link {
    void *context, *dealer, *monitor; /* owned */
    bool once;            /* a connection that is lost is not made again */
    bool connected, lost; /* lost: it was, at some time */
    time_ns deadline;     /* while not connected: when the tuner is gone */
    uint64_t bytes_sent, bytes_received;
};

/* Starts to connect, under a name that no other link has. @once: when the
 * connection is lost the tuner is gone, however soon it may be back: what was
 * under way then may be lost. Errors: ERR_INVAL (not an endpoint), ERR_IO, with
 * the reason. */
enum err node_link_open(struct node_link *l, const char *endpoint,
                        uint32_t node, bool once, struct fault *f);

/* Waits at most LINK_LINGER_MS for messages on their way, not at all when the
 * tuner is gone. Accepts a zeroed link. */
void node_link_close(struct node_link *l);

/* Takes in what became of the connection. */
void node_link_watch(struct node_link *l);

/* After node_link_watch: the tuner is gone for good. */
bool node_link_lost(const struct node_link *l, time_ns now);

/* Next message, owned by the caller (mem_free). Errors: ERR_AGAIN none waits;
 * ERR_PROTO one of several parts was dropped; ERR_LIMIT one that is too long
 * was; ERR_NOMEM one was; ERR_IO. */
enum err node_link_receive(struct node_link *l, char **text, size_t *len);

/* Errors: ERR_AGAIN not now; ERR_IO. */
enum err node_link_send(struct node_link *l, const char *text, size_t len);

#endif
