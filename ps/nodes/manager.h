/* The communication manager of a node: when the next frame may leave.
 *
 * A leaky bucket holds the node's bandwidth budget (Wei et al. 2015, section
 * 3.3.1). Each frame pours its bytes in, headers of the network included, and
 * the bucket leaks at the budget; a frame may leave while it finds room. So the
 * bytes that leave in any time t are at most budget * t + queue, where the
 * queue is the bucket's size. Departure: there a frame waits until the bucket
 * is empty. Here several fit, so that whoever sends may come late by most of a
 * queue (about 15 ms) and still uses the whole budget.
 *
 * Frames of clients and of servers share the bucket: while both have something
 * to send, each has half of it; else the one that has.
 *
 * A network that carries less than the budget is noticed by acknowledgements:
 * where they come late, nothing leaves for that node until those are there that
 * are due, and then only half as much may be under way as before; with each
 * acknowledgement in time one frame more. (There: "waits until the
 * window becomes clear". The delay that is late is RFC 6817's, section 2.4.2.)
 *
 * Without a budget nothing waits. Time is passed in: nanoseconds that never go
 * back. Plain data, one owner. Pure.
 */
#ifndef PS_MANAGER_H
#define PS_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MANAGER_QUEUE_MS = 20, /* of budget: the queue, unless rows are too wide */
    MANAGER_FRAMES = 4,    /* that fit in it */
    MANAGER_ACK_EVERY = 8, /* frames: so do receivers, with a budget or not */
    MANAGER_WINDOW_MAX = 64,
    MANAGER_LATE_MS = 100,  /* for an acknowledgement, above the least delay */
    MANAGER_PAUSE_MS = 1000 /* at most: then it is tried again */
};

#define MANAGER_NEVER INT64_MAX

enum manager_stream { MANAGER_CLIENT, MANAGER_SERVER, MANAGER_STREAMS };

struct manager {
    size_t frame_min, frame_max;
    double bytes_s; /* budget; 0: none */
    double queue;   /* bytes */
    double level;   /* in the bucket at `at_ns` */
    int64_t at_ns;
    double ahead; /* bytes that clients have sent above servers' */
    int64_t waits_since[MANAGER_STREAMS]; /* < 0: does not wait */
    uint64_t wait_ns[MANAGER_STREAMS];
    uint64_t charged;
};

/* Without a budget. @frame_min: room that any frame needs; @frame_max: the most
 * that it is given. */
void manager_init(struct manager *m, size_t frame_min, size_t frame_max);

/* @bytes_s > 0, or 0 for none. What is in the bucket stays there. */
void manager_set_budget(struct manager *m, double bytes_s, int64_t now);

static inline bool manager_paces(const struct manager *m)
{
    return m->bytes_s > 0;
}

/* Time in which a queue leaks; 0 without a budget. */
int64_t manager_queue_ns(const struct manager *m);

/* Room of the next frame: frame_max, less where the queue is small. */
size_t manager_frame_bytes(const struct manager *m);

/* Bytes that a frame of @n costs: with the headers of TCP over Ethernet and of
 * ZeroMQ. */
size_t manager_cost(size_t n);

/* Whether a frame of manager_frame_bytes may leave; whether an acknowledgement
 * may, for which a little room is left always. */
bool manager_has_room(const struct manager *m, int64_t now);
bool manager_has_room_to_ack(const struct manager *m, int64_t now);

/* When manager_has_room; @now or earlier where it has. */
int64_t manager_room_at(const struct manager *m);

/* A frame of @n bytes leaves, for which there was room. */
void manager_charge(struct manager *m, enum manager_stream stream, size_t n,
                    int64_t now);
/* An acknowledgement leaves; or what is of neither side. */
void manager_charge_ack(struct manager *m, size_t n, int64_t now);

/* A frame of @n bytes has come: TCP acknowledges its segments, two at a time,
 * and asks nobody, so that the bucket may run over by that much. */
void manager_charge_received(struct manager *m, size_t n, int64_t now);

/* The side that is to send next, if both have something. */
enum manager_stream manager_turn(const struct manager *m);

/* @waits: has a frame ready and finds no room. */
void manager_note_wait(struct manager *m, enum manager_stream stream,
                       bool waits, int64_t now);

/* ---- one other node ------------------------------------------------------ */

/* Frames under way to it: numbers as in ps/nodes/link.h, sent above acked. */
struct manager_peer {
    int64_t sent_ns[MANAGER_WINDOW_MAX]; /* of frame i at i % max */
    uint64_t sent, acked;
    uint32_t window_max, window; /* frames that may be under way */
    uint64_t halved_after;       /* sent when it last shrank: once for all that
                                  * was under way */
    int64_t queue_ns;            /* as manager_peer_allow says */
    int64_t least_ns;            /* delay of an acknowledgement so far; < 0 */
    int64_t paused_at;           /* < 0: not */
    uint64_t overused;           /* times that it was paused */
};

/* @window_max: the link's, from 1 to MANAGER_WINDOW_MAX; frames @sent so far,
 * all of them acknowledged or not of interest. */
void manager_peer_init(struct manager_peer *p, uint32_t window_max,
                       uint64_t sent);

/* An acknowledgement may come later by the time of a queue, manager_queue_ns:
 * the rows of a narrow budget may be wide. 0 until it is said. */
void manager_peer_allow(struct manager_peer *p, int64_t queue_ns);

/* Frame sent + 1 leaves. */
void manager_peer_sent(struct manager_peer *p, int64_t now);

/* All up to @through have come. */
void manager_peer_acked(struct manager_peer *p, uint64_t through, int64_t now);

/* Whether a frame may leave for it: to be asked before each. */
bool manager_peer_open(struct manager_peer *p, int64_t now);

/* When to ask again though nothing has come; MANAGER_NEVER: no need. */
int64_t manager_peer_wake_at(const struct manager_peer *p);

#endif
