/* The communication's inside: what comm_io.c (life, control), comm_connect_io.c
 * (connections), comm_wire_io.c (frames), comm_work_io.c (what workers call)
 * and comm_carry_io.c (what loops call) share. */
#ifndef PS_COMM_INTERNAL_IO_H
#define PS_COMM_INTERNAL_IO_H

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/host/gate_io.h"
#include "ps/nodes/agreement.h"
#include "ps/nodes/cache.h"
#include "ps/nodes/courier.h"
#include "ps/nodes/link.h"
#include "ps/nodes/manager.h"
#include "ps/nodes/shard.h"
#include "ps/server/peers.h"
#include "ps/server/runtime.h"
#include "ps/wire/comm_io.h"
#include "ps/wire/meet_io.h"
#include "ps/wire/ring_io.h"

#include <zmq.h>

#include <pthread.h>

enum {
    COMM_WINDOW = 64, /* frames under way to a node */
    /* Messages of a node that wait to be taken: its window, and what is
     * acknowledged or greeted beside it. */
    COMM_WAITING_MAX = 4 * COMM_WINDOW,
    /* Room of a frame; and bytes of frames under way to all nodes, but to each
     * at least the second number (comm_way_bytes). */
    COMM_ROOM_BYTES = 512 << 10,
    COMM_WAY_BYTES = 4 << 20,
    COMM_WAY_LEAST = 1 << 20,
    /* That a process keeps of buffers it has freed: they come again. */
    COMM_FREED_BYTES = 64 << 20,
    COMM_CURVE_BYTES = 1 << 10, /* that a key adds to a frame, or more */
    COMM_COPY_BYTES = 16 << 10, /* of a frame: less is copied to be sent */
    COMM_MEET_S = 60,           /* for all nodes to be started */
    /* For all to have loaded their data; for a connection to come back. */
    COMM_HELLO_S = DEADLINE_NODES_HELLO_MS / 1000,
    COMM_AGAIN_MS = DEADLINE_NODES_AGAIN_MS,
    COMM_BACK_MS = DEADLINE_NODES_BACK_MS,
    COMM_REACH_MS = DEADLINE_NODES_REACH_MS,
    COMM_RING_MS = DEADLINE_NODES_RING_MS,
    COMM_ASK_MS =
        250 /* between two looks whether a lost one's port is closed */
};

/* Bytes of frames under way to one of the other nodes, which end with the first
 * frame that reaches them. Half of them are acknowledged. */
static inline uint64_t comm_way_bytes(uint32_t nodes)
{
    uint64_t share = nodes > 1 ? COMM_WAY_BYTES / (nodes - 1) : COMM_WAY_BYTES;

    return share < COMM_WAY_LEAST ? COMM_WAY_LEAST : share;
}

/* Why a frame changes nothing. */
enum comm_ignored { COMM_MALFORMED, COMM_FOREIGN, COMM_REPLAYED, COMM_AHEAD };

/* The rings of a pair of nodes: what this one knows of them. */
struct comm_ring {
    struct ring_pair pair; /* mapped: what comes by it is taken */
    bool settled;          /* whether there is one is known */
    bool leads;            /* frames leave by it, and by nothing else */
    bool follows;          /* frames of before it have come: it is read */
    bool without;          /* there is none: said, once */
    bool unrung;           /* written to since the bell was looked at */
    time_ns by;            /* settled by then; 0: not greeted yet */
    time_ns again_at;      /* offered again then; 0: not */
    struct ring_message message;
    /* While room is waited for: 1 more than what the other had read then. */
    _Atomic uint64_t full_at;
    /* A frame of which a part has left. Owned. */
    unsigned char *rest;
    size_t rest_at, rest_n;
};

/* Another node. */
struct comm_peer {
    struct comm_ring ring;
    struct link link;
    struct manager_peer pace; /* while there is a budget */
    void *push, *monitor;     /* owned */
    bool connected, was_connected;
    time_ns lost_at; /* not connected any more: since when */
    bool tcp;        /* its connection may break while it lives */
    /* Since then its port is closed, or another's, who has not the key; the
     * descriptor that asks, and 1; when to ask again. */
    bool refused;
    int asking;
    time_ns ask_at;
    /* Over tcp: frames that it has not acknowledged, by their numbers, those
     * above the number released; sent again after a break. */
    zmq_msg_t kept[COMM_WINDOW];
    uint64_t released;
    /* Bytes of frames by their numbers, those above the number settled; their
     * sum; bytes that have come and were not acknowledged. */
    uint32_t size[COMM_WINDOW];
    uint64_t settled, way, came;
    time_ns gap_by; /* a frame is missing: it is there by then; 0: none is */
    bool hello_due, fits_due, placed_due;
    bool
        refusing; /* is to see why it is not let in: a greeting is on its way */
    uint32_t expect_table; /* expectations: what it is to be told next */
    uint64_t expect_row;
    bool hello, fits, placed; /* has said so */
    uint64_t layout;          /* of where it has placed rows */
};

struct comm {
    struct peers peers; /* first: what the server knows of it */
    struct mlt_ps *ps;  /* for runtime_progress and runtime_fail alone */
    const struct ps_shape *shape; /* borrowed */
    struct meet meet;
    void *context, *pull;     /* owned; the thread's once it runs */
    struct gate_keeper *gate; /* owned; NULL: strangers cannot connect */
    int wake_fd;              /* readable: the thread is to end */
    int offers_fd;            /* where rings are offered; -1: nowhere */
    char endpoint[MEET_ENDPOINT_MAX]; /* of pull */
    uint64_t ring_bytes;              /* of a direction; 0: no rings */
    pthread_t thread;
    bool has_thread;
    zmq_pollitem_t *item; /* [2 nodes + 3] the thread's */

    pthread_mutex_t lock;   /* of everything below */
    struct comm_peer *peer; /* [nodes]; this node's is not used */
    struct shard *shard;
    struct cache *cache;
    struct courier *courier;
    struct agreement *accord;
    struct update **update;      /* [workers][tables] as the views' */
    struct ps_counters counters; /* of rows written for others */
    unsigned char *bytes;        /* [room] a frame that is being made */
    size_t room;
    uint64_t slice;
    struct peers_run run;    /* of this slice; changed between slices */
    uint32_t own_fits, fits; /* branches that fit here; in every node */
    uint64_t layout;         /* of where this node has placed rows */
    bool stop;               /* the thread is to end */
    bool starting;           /* until all others have been heard of */
    time_ns met_at;          /* when all had said where they listen */
    bool running;        /* until all workers of all nodes have drained here */
    bool failed_told;    /* the runtime knows that the slice has failed */
    struct fault broken; /* code ERR_OK: not */
    uint64_t ignored;
    unsigned ignored_told; /* bit of each kind that was logged */
    struct ps_traffic traffic;

    struct manager manager;
    bool early;     /* this slice's rows may leave before they have to */
    bool suspended; /* but row versions have no room */
    bool unrung;    /* a ring was written to: others may have to be woken */
    bool attended;  /* a worker that waits looks at the rings itself, */
    unsigned attends_less; /* for so many times half as long */
    unsigned mapped;       /* rings */
    uint32_t turn;         /* node that is sent a frame next; */
    uint32_t own_turn;     /* that a worker sends early rows to next */
    bool refused;          /* something found no room since the last plan */
    time_ns early_at;      /* what need not leave is looked at again */
    time_ns wake_at;       /* when there may be room again; MANAGER_NEVER */
    time_ns sleeps_to;     /* the thread, unless something comes */
};

static inline struct comm *comm_of(struct peers *p)
{
    return (struct comm *)p;
}

/* Under the lock: sends all that may leave, also to this node's own shard and
 * cache, and does what follows from it. The caller wakes those that wait
 * (runtime_progress) once it has let the lock go. */
void comm_pump(struct comm *c);

/* Under the lock: takes what has come to the socket. */
void comm_receive(struct comm *c);

/* Under the lock: connects to everybody. */
enum err comm_connect(struct comm *c, struct fault *f);
/* Under the lock: what became of the connections; when to look again, in ms, or
 * -1. */
void comm_watch(struct comm *c);
long comm_watch_ms(const struct comm *c);

/* No descriptor of @p asks for its port any more. */
void comm_stop_asking(struct comm_peer *p);

/* Under the lock: a frame has come as bytes. */
void comm_take_bytes(struct comm *c, const unsigned char *bytes, size_t n);

/* Under the lock: does with a frame that has come what it says. */
enum err comm_take(struct comm *c, const struct frame *f, struct fault *fault);

/* Under the lock: a whole frame in c->bytes leaves for @node; one with a
 * @number is kept until it is acknowledged (0: it has none). */
void comm_send_bytes(struct comm *c, uint32_t node, size_t n, uint64_t number);

/* Under the lock: a message with a number, which is kept; it shares its bytes.
 * Returns 0, or -1 and errno. */
int comm_keep(struct comm_peer *p, uint64_t number, zmq_msg_t *m);
/* Under the lock: what @node has acknowledged is let go. */
void comm_release(struct comm *c, uint32_t node, uint64_t through);

/* The thread looks anew. */
void comm_wake(struct comm *c);

/* ---- comm_ring_io.c: frames through shared memory, under the lock ---------
 */

/* Listens for offers, where nodes meet on one host. */
void comm_ring_open(struct comm *c);
/* No more offers: all that come are settled. */
void comm_ring_close_offers(struct comm *c);
void comm_ring_close(struct comm *c);

/* Offers, answers, and what became of them, until all are settled; when to look
 * again, in ns, or 0. */
void comm_ring_watch(struct comm *c, uint32_t node, time_ns now);
time_ns comm_ring_watch_at(const struct comm *c, uint32_t node);

/* Descriptors that say that there is something. Returns how many. */
int comm_ring_items(const struct comm *c, zmq_pollitem_t item[]);

/* Whether a frame of at most @n bytes may leave for the node: true without a
 * ring. Where not, the node wakes this one once it may. */
bool comm_ring_may_send(struct comm *c, uint32_t node, size_t n);
/* The frame in c->bytes[n] leaves by the ring, or begins to. */
void comm_ring_send(struct comm *c, uint32_t node, size_t n);
/* What has begun to leave goes on. */
void comm_ring_go_on(struct comm *c);

/* Takes what has come. */
void comm_ring_receive(struct comm *c);

/* Nobody here looks at the rings any more unless woken; true: there is
 * something all the same. */
bool comm_ring_sleep(struct comm *c);

/* Wakes those that were written to and sleep. */
void comm_ring_wake(struct comm *c);

/* A worker waits for a change, and looks at the rings meanwhile: without a
 * thread in between a frame is there at once. Lets the lock go and has it
 * again. False: for too long nothing came. */
bool comm_ring_attend(struct comm *c, struct mlt_worker *w, uint32_t ticket,
                      time_ns begin);
/* Its wait was so long all the same. */
void comm_ring_waited(struct comm *c, time_ns waited);

/* ---- comm_pace_io.c: the bandwidth budget ------------------------------- */

/* A slice begins, with a budget or none. */
void comm_pace_begin(struct comm *c);

/* Room of the next frame. */
size_t comm_pace_room(const struct comm *c);

/* Whether a frame (@ack: an acknowledgement) may leave for @node now. */
bool comm_may_send(struct comm *c, uint32_t node, bool ack);

/* Numbers the frame in c->bytes[n], counts its rows and sends it. @early: it
 * need not have left yet. */
void comm_send(struct comm *c, uint32_t node, size_t n, bool early);

/* An acknowledgement in c->bytes[n] leaves. */
void comm_send_ack(struct comm *c, uint32_t node, size_t n);

/* A frame of @n bytes has come and was taken. */
void comm_received(struct comm *c, size_t n);
/* The node has acknowledged all up to @through. */
void comm_acknowledged(struct comm *c, uint32_t node, uint64_t through);

/* As peers_ops.offer. */
void comm_offer(struct peers *p, struct mlt_worker *w);

/* Once all rows that had to leave have left, as far as they may: other rows
 * leave while there is room, workers are told, and the thread comes again when
 * there is. */
void comm_send_early(struct comm *c);

void comm_pace_traffic(const struct comm *c, struct ps_traffic *out);

/* ---- comm_work_io.c: as peers_ops ---------------------------------------- */

int comm_enter(struct peers *p, struct mlt_worker *w);
int comm_get_rows(struct peers *p, struct mlt_worker *w, struct worker_view *v,
                  size_t n, const uint64_t rows[], const void *out[]);
void comm_begin_batch(struct peers *p, struct mlt_worker *w,
                      struct worker_view *v, const struct get_batch *b);
void comm_end_batch(struct peers *p, const struct mlt_worker *w,
                    uint64_t number);
int comm_end_clock(struct peers *p, struct mlt_worker *w, mlt_table table);
int comm_end_early(struct peers *p, struct mlt_worker *w, mlt_table table);
void comm_finish(struct peers *p, struct mlt_worker *w);

/* Under the lock: lets it go until something has changed. */
void comm_wait_change(struct comm *c, struct mlt_worker *w);

/* Under the lock: sends what there is, and lets those know that wait for this
 * node. */
void comm_say(struct comm *c);

/* Under the lock: why waiting for the run is in vain, or 0. */
int comm_run_error(const struct comm *c);

/* ---- comm_carry_io.c: as peers_ops --------------------------------------- */

int comm_carry_begin(struct peers *p, struct mlt_worker *w,
                     const struct courier_pass *pass, struct fault *f);
int comm_carry_passed(struct peers *p, struct mlt_worker *w);
int comm_carry_await(struct peers *p, struct mlt_worker *w, uint64_t place);
int comm_carry_end(struct peers *p, struct mlt_worker *w, uint64_t place,
                   const double *own, double *all);

/* Under the lock. The first reason stays. */
void comm_break(struct comm *c, enum err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For shard_options.rows; rows_self is the struct comm. */
extern const struct shard_rows comm_rows;

static inline void comm_lock(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
}

static inline void comm_unlock(struct comm *c)
{
    if (c->unrung)
        comm_ring_wake(c);
    pthread_mutex_unlock(&c->lock);
}

/* It has said all of itself and been told all. */
static inline bool comm_has_greeted(const struct comm_peer *p)
{
    return p->hello && p->fits && !p->hello_due && !p->fits_due;
}

/* Whether all workers end each clock together (bsp). */
bool comm_has_barriers(const struct comm *c);

#endif
