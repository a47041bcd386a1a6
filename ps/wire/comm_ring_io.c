/* Frames through shared memory. A ring carries bytes and nothing else: frames,
 * their numbers, acknowledgements and windows are the link's as over sockets,
 * and the sockets stay: their end says that a node is gone. */
#include "base/log.h"
#include "base/mem.h"
#include "ps/wire/comm_internal_io.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

enum {
    TAKEN_MAX = 256, /* frames of a node before anything is sent */
    OFFER_AGAIN_MS = 10,
    /* A worker that waits looks at the rings for so long; where waits are
     * longer than the next, half as long each time, down to a 16th. It wakes
     * those that it has written to after the third, since they may be about to
     * look themselves, and lets others have its processor after so many looks.
     */
    ATTEND_NS = 50 * 1000,
    ATTENDED_NS = 1000 * 1000,
    ATTENDS_LESS_MAX = 4,
    WAKE_AFTER_NS = 5 * 1000,
    LOOKS = 32,
    START_BYTES = RING_BYTES_MIN /* of a frame: so many leave at once */
};

#define MS INT64_C(1000000)

/* ---- whether there is one ------------------------------------------------ */

void comm_ring_open(struct comm *c)
{
    struct fault f = {0};
    size_t size = sizeof(c->endpoint);

    c->ring_bytes = shape_ring_bytes(c->shape);
    if (zmq_getsockopt(c->pull, ZMQ_LAST_ENDPOINT, c->endpoint, &size) != 0 ||
        strncmp(c->endpoint, "ipc://", 6) != 0 || !c->ring_bytes)
        return;
    if (ring_listen(c->endpoint, &c->offers_fd, &f) != ERR_OK)
        log_event(LOG_WARN, "rings_off", "node=%u reason=\"%s\"",
                  ps_node(c->ps), f.text);
}

void comm_ring_close_offers(struct comm *c)
{
    ring_stop_listening(c->endpoint, &c->offers_fd);
}

void comm_ring_close(struct comm *c)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    time_ns end = clock_monotonic() + DEADLINE_NODE_LINGER_MS * MS;
    bool left = c->peer != NULL;

    comm_ring_close_offers(c);
    while (left && !c->broken.code && clock_monotonic() < end) {
        left = false;
        comm_ring_go_on(c);
        for (uint32_t i = 0; i < ps_nodes(c->ps); i++)
            left |= c->peer[i].ring.rest && c->peer[i].connected;
        comm_ring_wake(c);
        if (left)
            nanosleep(&pause, NULL);
    }
    for (uint32_t i = 0; c->peer && i < ps_nodes(c->ps); i++) {
        struct comm_ring *r = &c->peer[i].ring;

        ring_pair_close(&r->pair);
        ring_message_deinit(&r->message);
        mem_free(r->rest);
    }
}

/* What has left by the socket comes first. */
static void lead(struct comm *c, uint32_t node)
{
    struct comm_peer *p = &c->peer[node];
    struct ring_shared *shared = p->ring.pair.out.shared;

    atomic_store(&shared->after, p->link.sent + 1);
    atomic_store(&shared->after_acks, p->link.acks_sent + 1);
    p->ring.leads = p->ring.settled = true;
    log_event(LOG_INFO, "ring_made", "node=%u peer=%u bytes=%llu",
              ps_node(c->ps), node, (unsigned long long)p->ring.pair.out.size);
}

/* Its frames go through the socket as before; what it writes into a ring that
 * it has is read all the same. */
static void do_without(struct comm *c, uint32_t node, const char *reason)
{
    struct comm_ring *r = &c->peer[node].ring;

    if (!r->without)
        log_event(LOG_WARN, "ring_missing", "node=%u peer=%u reason=\"%s\"",
                  ps_node(c->ps), node, reason);
    r->settled = r->without = true;
}

/* Where there can be none the other is told so: it waits for an offer. */
static void offer(struct comm *c, uint32_t node, time_ns now)
{
    struct comm_ring *r = &c->peer[node].ring;
    struct ring_offer o = {
        .run = c->meet.run,
        .from = ps_node(c->ps),
        .to = node,
        .size = c->offers_fd < 0 || r->without ? 0 : c->ring_bytes};
    const char *endpoint = c->meet.peer[node].endpoint;
    struct fault f = {0};
    enum err err = ring_offer(&o, endpoint, &r->pair, &f);

    if (o.size && err && err != ERR_AGAIN) {
        do_without(c, node, f.text);
        o.size = 0;
        err = ring_offer(&o, endpoint, &r->pair, &f);
    }
    r->again_at = err == ERR_AGAIN ? now + OFFER_AGAIN_MS * MS : 0;
    c->mapped += r->pair.map != NULL;
    if (!o.size)
        r->settled = err != ERR_AGAIN;
}

/* Whether an offer of @from is waited for. */
static bool awaits(const struct comm *c, uint32_t from)
{
    return from > ps_node(c->ps) && from < ps_nodes(c->ps) &&
           !c->peer[from].ring.settled && !c->peer[from].ring.pair.map;
}

static void take_offer(struct comm *c, const struct ring_offer *o,
                       struct ring_pair *pair)
{
    struct comm_ring *r;

    if (!awaits(c, o->from)) {
        ring_pair_close(pair);
        return;
    }
    r = &c->peer[o->from].ring;
    r->pair = *pair;
    c->mapped += r->pair.map != NULL;
    if (r->pair.map)
        lead(c, o->from);
    else
        do_without(c, o->from, "it offers none");
}

static void take_offers(struct comm *c)
{
    struct fault f = {0};
    struct ring_pair pair;
    struct ring_offer o;
    enum err err;

    if (c->offers_fd < 0)
        return;
    while ((err = ring_take_offer(c->offers_fd, c->meet.run, ps_node(c->ps), &o,
                                  &pair, &f)) != ERR_AGAIN)
        if (!err)
            take_offer(c, &o, &pair);
        else if (awaits(c, o.from))
            do_without(c, o.from, f.text);
        else
            log_event(LOG_WARN, "ring_turned_away", "node=%u reason=\"%s\"",
                      ps_node(c->ps), f.text);
}

/* The node of the higher number offers, once both have greeted. */
static void begin_to_settle(struct comm *c, uint32_t node, time_ns now)
{
    struct comm_ring *r = &c->peer[node].ring;

    if (c->peer[node].tcp || (c->offers_fd < 0 && node > ps_node(c->ps))) {
        r->settled = true;
        return;
    }
    if (!comm_has_greeted(&c->peer[node]))
        return;
    r->by = now + COMM_RING_MS * MS;
    if (node < ps_node(c->ps))
        offer(c, node, now);
}

static void settle(struct comm *c, uint32_t node, time_ns now, bool accepted)
{
    struct comm_ring *r = &c->peer[node].ring;

    if (!r->by)
        begin_to_settle(c, node, now);
    else if (r->again_at && now >= r->again_at)
        offer(c, node, now);
    if (accepted && !r->settled)
        lead(c, node);
    if (r->settled || !r->by)
        return;
    if (r->pair.map && r->pair.bell < 0)
        do_without(c, node, "it does not take it");
    else if (now >= r->by)
        do_without(c, node, "it has said nothing of it");
}

void comm_ring_watch(struct comm *c, uint32_t node, time_ns now)
{
    struct comm_ring *r = &c->peer[node].ring;
    bool accepted = r->pair.map && ring_pair_heard(&r->pair);

    if (r->settled || !c->starting || c->broken.code)
        return;
    take_offers(c);
    settle(c, node, now, accepted);
}

time_ns comm_ring_watch_at(const struct comm *c, uint32_t node)
{
    const struct comm_ring *r = &c->peer[node].ring;

    if (r->settled || !c->starting)
        return 0;
    return r->again_at ? r->again_at : r->by;
}

int comm_ring_items(const struct comm *c, zmq_pollitem_t item[])
{
    int n = 0;

    if (c->offers_fd >= 0)
        item[n++] = (zmq_pollitem_t){.fd = c->offers_fd, .events = ZMQ_POLLIN};
    for (uint32_t i = 0; c->mapped && i < ps_nodes(c->ps); i++) {
        const struct ring_pair *p = &c->peer[i].ring.pair;

        if (p->map && p->bell >= 0)
            item[n++] = (zmq_pollitem_t){.fd = p->bell, .events = ZMQ_POLLIN};
    }
    return n;
}

/* ---- frames that go ------------------------------------------------------ */

static void break_torn(struct comm *c, uint32_t node)
{
    comm_break(c, ERR_NODE,
               "node %u: what it has written into shared memory cannot be",
               node);
}

/* Room is waited for. While a worker looks at the rings it looks for that too:
 * see comm_ring_sleep. */
static void wait_room(struct comm *c, struct comm_ring *r)
{
    atomic_store_explicit(&r->full_at, r->pair.out.other + 1,
                          memory_order_relaxed);
    if (!c->attended)
        ring_wait_room(&r->pair.out);
}

static bool has_room(struct comm_ring *r, size_t need)
{
    if (r->rest || ring_room(&r->pair.out) < need)
        return false;
    atomic_store_explicit(&r->full_at, 0, memory_order_relaxed);
    return true;
}

/* Room that is waited for has come; with or without the lock. */
static bool has_got_room(const struct comm_ring *r)
{
    uint64_t full_at = atomic_load_explicit(&r->full_at, memory_order_relaxed);

    return full_at && ring_moved_on(r->pair.out.shared, full_at - 1);
}

/* A long frame begins to leave once there is room for its first part: who reads
 * takes that while the rest is written. */
bool comm_ring_may_send(struct comm *c, uint32_t node, size_t n)
{
    struct comm_ring *r = &c->peer[node].ring;
    size_t need = n + RING_PREFIX_BYTES;

    if (!r->leads)
        return true;
    need = need < START_BYTES ? need : START_BYTES;
    if (has_room(r, need))
        return true;
    wait_room(c, r);
    if (has_room(r, need))
        return true;
    if (r->pair.out.torn)
        break_torn(c, node);
    return false;
}

void comm_ring_send(struct comm *c, uint32_t node, size_t n)
{
    struct comm_ring *r = &c->peer[node].ring;
    uint32_t length = (uint32_t)n;
    unsigned char *fresh;
    size_t written;

    assert(!r->rest);
    written = ring_write(&r->pair.out, &length, sizeof(length));
    assert(written == RING_PREFIX_BYTES || r->pair.out.torn);
    written = ring_write(&r->pair.out, c->bytes, n);
    r->unrung = c->unrung = true;
    if (written == n)
        return;
    fresh = mem_alloc(c->room);
    if (!fresh) {
        comm_break(c, ERR_NODE, "no memory to send to node %u", node);
        return;
    }
    r->rest = c->bytes;
    r->rest_at = written;
    r->rest_n = n;
    c->bytes = fresh;
    comm_ring_go_on(c);
}

/* What does not fit is asked for once more after the other was told. */
static void go_on(struct comm *c, struct comm_ring *r)
{
    struct ring *out = &r->pair.out;

    for (int i = 0; i < 2 && r->rest_at < r->rest_n; i++) {
        size_t n =
            ring_write(out, r->rest + r->rest_at, r->rest_n - r->rest_at);

        r->rest_at += n;
        if (n)
            r->unrung = c->unrung = true;
        if (r->rest_at < r->rest_n)
            wait_room(c, r);
    }
    if (r->rest_at < r->rest_n)
        return;
    atomic_store_explicit(&r->full_at, 0, memory_order_relaxed);
    mem_free(r->rest);
    r->rest = NULL;
}

void comm_ring_go_on(struct comm *c)
{
    for (uint32_t i = 0; c->mapped && i < ps_nodes(c->ps); i++) {
        struct comm_ring *r = &c->peer[i].ring;

        if (r->rest)
            go_on(c, r);
        else if (has_got_room(r)) /* whatever still waits for it asks again */
            atomic_store_explicit(&r->full_at, 0, memory_order_relaxed);
        if (r->rest && r->pair.out.torn)
            break_torn(c, i);
    }
}

void comm_ring_wake(struct comm *c)
{
    c->unrung = false;
    for (uint32_t i = 0; c->mapped && i < ps_nodes(c->ps); i++) {
        struct comm_ring *r = &c->peer[i].ring;

        if (r->unrung && ring_takes_wake(&r->pair.out))
            ring_pair_wake(&r->pair);
        r->unrung = false;
    }
}

/* ---- frames that come ---------------------------------------------------- */

/* What came by the socket is before all that comes by the ring. */
static bool follows(struct comm_peer *p)
{
    const struct ring_shared *shared = p->ring.pair.in.shared;

    if (!p->ring.pair.map)
        return false;
    if (!p->ring.follows && ring_filled(&p->ring.pair.in) > 0)
        p->ring.follows =
            p->link.got + 1 >= atomic_load(&shared->after) &&
            p->link.acks_got + 1 >= atomic_load(&shared->after_acks);
    return p->ring.follows;
}

static void say_room(struct comm_ring *r)
{
    if (ring_takes_room(&r->pair.in))
        ring_pair_wake(&r->pair);
}

static void receive_from(struct comm *c, uint32_t node)
{
    struct comm_ring *r = &c->peer[node].ring;
    struct ring *in = &r->pair.in;
    struct ring_message *m = &r->message;
    enum err err = ERR_OK;

    for (int i = 0; i < TAKEN_MAX && !err; i++) {
        err = ring_next(in, m, FRAME_BYTES_MAX);
        if (err)
            break;
        if (2 * ring_filled(in) <= in->size)
            say_room(r);
        c->traffic.bytes_received += m->n;
        comm_take_bytes(c, m->bytes, m->n);
    }
    say_room(r);
    if (err == ERR_NOMEM)
        comm_break(c, ERR_NODE, "no memory for a frame of node %u", node);
    else if (in->torn)
        break_torn(c, node);
}

void comm_ring_receive(struct comm *c)
{
    for (uint32_t i = 0; c->mapped && i < ps_nodes(c->ps); i++)
        if (follows(&c->peer[i]))
            receive_from(c, i);
}

/* ---- who looks ----------------------------------------------------------- */

bool comm_ring_sleep(struct comm *c)
{
    bool some = false;

    if (c->attended)
        return false;
    for (uint32_t i = 0; c->mapped && i < ps_nodes(c->ps); i++) {
        struct comm_peer *p = &c->peer[i];

        if (!p->ring.pair.map)
            continue;
        ring_sleep(&p->ring.pair.in);
        some |= follows(p) && ring_filled(&p->ring.pair.in) > 0;
        if (p->ring.full_at)
            ring_wait_room(&p->ring.pair.out);
        some |= !p->ring.pair.out.torn && has_got_room(&p->ring);
    }
    return some;
}

static bool has_news(const struct comm *c)
{
    const uint32_t nodes = ps_nodes(c->ps);

    for (uint32_t i = 0; i < nodes; i++) {
        const struct comm_ring *r = &c->peer[i].ring;

        if (r->pair.map &&
            (ring_has_news(r->pair.in.shared) || has_got_room(r)))
            return true;
    }
    return false;
}

/* Without the lock. True: there is something, or somebody else knows of some.
 */
static bool look(struct comm *c, uint32_t ticket, time_ns begin,
                 time_ns attend_ns, bool unrung)
{
    time_ns now = begin;

    for (unsigned n = 0; now - begin < attend_ns; n++) {
        if (runtime_ticket(c->ps) != ticket || has_news(c))
            return true;
        if (n < LOOKS)
            continue;
        sched_yield();
        now = clock_monotonic();
        if (unrung && now - begin >= WAKE_AFTER_NS) {
            comm_lock(c);
            comm_unlock(c); /* wakes them */
            unrung = false;
        }
    }
    return false;
}

bool comm_ring_attend(struct comm *c, struct mlt_worker *w, uint32_t ticket,
                      time_ns begin)
{
    time_ns attend_ns = ATTEND_NS >> c->attends_less;
    bool some, unrung;

    assert(!c->attended);
    c->attended = true;
    for (uint32_t i = 0; i < ps_nodes(c->ps); i++)
        if (c->peer[i].ring.pair.map)
            ring_stay_awake(&c->peer[i].ring.pair.in);
    unrung = c->unrung;
    pthread_mutex_unlock(&c->lock); /* wakes nobody yet */
    some = look(c, ticket, begin, attend_ns, unrung);
    comm_lock(c);
    c->attended = false;
    if (some && has_news(c)) {
        comm_ring_receive(c);
        comm_pump(c);
        runtime_progress(c->ps);
    }
    if (some && c->unrung) /* it may attend again before it unlocks */
        comm_ring_wake(c);
    if (comm_ring_sleep(c))
        comm_wake(c);
    if (some)
        runtime_waited(w, begin);
    return some;
}

void comm_ring_waited(struct comm *c, time_ns waited)
{
    if (waited <= ATTENDED_NS)
        c->attends_less = 0;
    else if (c->attends_less < ATTENDS_LESS_MAX)
        c->attends_less++;
}
