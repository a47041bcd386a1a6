/* The bandwidth budget of a node: what leaves when, and what leaves early. */
#include "ps/wire/comm_internal_io.h"

#include <assert.h>

enum { EARLY_MS = 5 /* between two looks at what need not leave yet */ };

#define MS INT64_C(1000000)

/* ---- slices -------------------------------------------------------------- */

static void withdraw_offers(struct comm *c)
{
    for (unsigned i = 0; i < c->shape->workers; i++)
        atomic_store_explicit(&c->shape->worker[i].offered, false,
                              memory_order_relaxed);
}

static void begin_peer(struct comm_peer *p)
{
    uint64_t overused = p->pace.overused;

    manager_peer_init(&p->pace, COMM_WINDOW, p->link.sent);
    p->pace.overused = overused;
}

void comm_pace_begin(struct comm *c)
{
    const struct ps_shape *shape = c->shape;
    bool paced = manager_paces(&c->manager), paces;

    manager_set_budget(&c->manager, c->run.bandwidth_mbps * 1e6 / 8,
                       clock_monotonic());
    paces = manager_paces(&c->manager);
    for (uint32_t i = 0; i < shape->nodes; i++) {
        struct comm_peer *p = &c->peer[i];

        if (i == shape->node)
            continue;
        if (paces && !paced)
            begin_peer(p);
        manager_peer_allow(&p->pace, manager_queue_ns(&c->manager));
    }
    c->early = paces && !shape->consistency->barrier;
    c->suspended = false;
    shard_set_early(c->shard, c->early);
    withdraw_offers(c);
}

/* ---- sending ------------------------------------------------------------- */

size_t comm_pace_room(const struct comm *c)
{
    return manager_frame_bytes(&c->manager);
}

bool comm_may_send(struct comm *c, uint32_t node, bool ack)
{
    struct comm_peer *p = &c->peer[node];
    time_ns now;

    assert(node != c->shape->node);
    if (!ack &&
        (!link_open(&p->link) || p->way >= comm_way_bytes(c->shape->nodes)))
        return false;
    if (!comm_ring_may_send(c, node,
                            ack ? FRAME_FIXED_BYTES_MAX : comm_pace_room(c)))
        return false;
    if (!manager_paces(&c->manager))
        return true;
    now = clock_monotonic();
    if (!ack && !manager_peer_open(&p->pace, now))
        return false;
    if (ack ? manager_has_room_to_ack(&c->manager, now)
            : manager_has_room(&c->manager, now))
        return true;
    c->refused = true;
    return false;
}

static void charge(struct comm *c, const struct frame *f, size_t n)
{
    time_ns now = clock_monotonic();

    switch (f->kind) {
    case FRAME_UPDATE:
    case FRAME_CLOCK:
    case FRAME_READ:
    case FRAME_DRAIN:
    case FRAME_PASS:
    case FRAME_PART:
    case FRAME_TOTAL:
        manager_charge(&c->manager, MANAGER_CLIENT, n, now);
        break;
    case FRAME_ROWS:
    case FRAME_CLOCKS:
    case FRAME_TAKEN:
    case FRAME_APPLIED:
        manager_charge(&c->manager, MANAGER_SERVER, n, now);
        break;
    default:
        manager_charge_ack(&c->manager, n, now);
    }
    manager_peer_sent(&c->peer[f->from].pace, now);
}

void comm_send(struct comm *c, uint32_t node, size_t n, bool early)
{
    struct comm_peer *p = &c->peer[node];
    struct frame f;
    enum err err;

    assert(node < c->shape->nodes && node != c->shape->node);
    link_send(&p->link, c->bytes);
    p->size[p->link.sent % COMM_WINDOW] = (uint32_t)n;
    p->way += n;
    err = frame_decode(c->bytes, n, &f, NULL);
    assert(!err);
    (void)err;
    traffic_count_rows(&c->traffic, &f, early, c->shape->priority);
    f.from = node; /* whom it is for */
    if (manager_paces(&c->manager))
        charge(c, &f, n);
    comm_send_bytes(c, node, n, p->link.sent);
}

void comm_send_ack(struct comm *c, uint32_t node, size_t n)
{
    assert(node != c->shape->node);
    c->peer[node].came = 0;
    if (manager_paces(&c->manager))
        manager_charge_ack(&c->manager, n, clock_monotonic());
    comm_send_bytes(c, node, n, 0);
}

void comm_received(struct comm *c, size_t n)
{
    c->traffic.frames_received++;
    if (manager_paces(&c->manager))
        manager_charge_received(&c->manager, n, clock_monotonic());
}

void comm_acknowledged(struct comm *c, uint32_t node, uint64_t through)
{
    struct comm_peer *p = &c->peer[node];

    assert(node != c->shape->node && through <= p->link.sent);
    while (p->settled < through)
        p->way -= p->size[++p->settled % COMM_WINDOW];
    comm_release(c, node, through);
    if (manager_paces(&c->manager))
        manager_peer_acked(&c->peer[node].pace, through, clock_monotonic());
}

/* ---- what need not leave yet --------------------------------------------- */

/* At the cap of row versions each row that leaves costs one more. */
static bool is_suspended(struct comm *c)
{
    bool full = shard_versions_full(c->shard);

    c->traffic.early_suspended += full && !c->suspended;
    c->suspended = full;
    return full;
}

/* A frame of this node to itself costs no budget. */
static void take_own(struct comm *c, size_t n)
{
    struct fault fault = {0};
    struct frame f;
    enum err err;

    if (!n)
        return;
    frame_stamp(c->bytes, c->shape->node, c->meet.run, 0);
    err = frame_decode(c->bytes, n, &f, &fault);
    assert(!err);
    err = comm_take(c, &f, &fault);
    if (err)
        comm_break(c, ERR_NODE, "%s", fault.text);
}

/* A frame of changed rows to the next node that lacks some. */
static bool push_early(struct comm *c)
{
    for (uint32_t i = 0; i < c->shape->nodes; i++) {
        size_t n;

        c->turn = (c->turn + 1) % c->shape->nodes;
        if (c->turn == c->shape->node || !comm_may_send(c, c->turn, false))
            continue;
        n = shard_next_early(c->shard, c->turn, c->shape->priority, c->bytes,
                             comm_pace_room(c));
        if (n) {
            comm_send(c, c->turn, n, true);
            return true;
        }
    }
    return false;
}

/* True: some worker has not taken up the last offer. */
static bool has_offered(const struct comm *c)
{
    for (unsigned i = 0; i < c->shape->workers; i++)
        if (atomic_load_explicit(&c->shape->worker[i].offered,
                                 memory_order_relaxed))
            return true;
    return false;
}

static void offer_all(struct comm *c)
{
    for (unsigned i = 0; i < c->shape->workers; i++)
        atomic_store_explicit(&c->shape->worker[i].offered, true,
                              memory_order_relaxed);
}

/* Workers first where it is their turn; what they do not take, servers do. */
static void share_room(struct comm *c)
{
    bool offered = has_offered(c);

    take_own(c, shard_next_early(c->shard, c->shape->node, c->shape->priority,
                                 c->bytes, comm_pace_room(c)));
    while (manager_has_room(&c->manager, clock_monotonic())) {
        if (!offered && manager_turn(&c->manager) == MANAGER_CLIENT)
            break;
        if (c->broken.code || !push_early(c))
            break;
    }
    if (!offered && manager_has_room(&c->manager, clock_monotonic()))
        offer_all(c);
}

static bool is_due(struct comm *c, enum manager_stream stream)
{
    for (uint32_t i = 0; i < c->shape->nodes; i++)
        if (i != c->shape->node &&
            (stream == MANAGER_CLIENT ? cache_has_next(c->cache, i)
                                      : shard_has_next(c->shard, i)))
            return true;
    return false;
}

/* When there may be room for what waits: the budget, or a network that was
 * overused. Room that has come since something was refused is news to whoever
 * waits, so that the time may be over already; a pause that is over ends when
 * the link is open, which an acknowledgement may have to say. */
static void plan_wake(struct comm *c, time_ns now)
{
    bool full = c->refused || !manager_has_room(&c->manager, now), client,
         server;
    bool early = c->early && c->running && !c->suspended;

    client = full && is_due(c, MANAGER_CLIENT);
    server = full && is_due(c, MANAGER_SERVER);
    manager_note_wait(&c->manager, MANAGER_CLIENT, client, now);
    manager_note_wait(&c->manager, MANAGER_SERVER, server, now);
    c->wake_at = MANAGER_NEVER;
    if (full)
        c->wake_at = manager_room_at(&c->manager);
    else if (early)
        c->wake_at = c->early_at;
    for (uint32_t i = 0; i < c->shape->nodes; i++) {
        time_ns at = manager_peer_wake_at(&c->peer[i].pace);

        if (i == c->shape->node || at == MANAGER_NEVER)
            continue;
        at = at > now + MS ? at : now + MS;
        c->wake_at = at < c->wake_at ? at : c->wake_at;
    }
    c->refused = false;
}

/* Not at every occasion: a frame's headers are worth several rows, and each
 * part of a sum is a step of its rule. */
static bool is_early_time(struct comm *c, time_ns now)
{
    if (now < c->early_at)
        return false;
    c->early_at = now + EARLY_MS * MS;
    return true;
}

void comm_send_early(struct comm *c)
{
    if (!manager_paces(&c->manager)) {
        c->wake_at = MANAGER_NEVER;
        return;
    }
    if (c->early && c->running && !c->broken.code &&
        is_early_time(c, clock_monotonic()) && !is_suspended(c) &&
        !is_due(c, MANAGER_CLIENT))
        share_room(c);
    plan_wake(c, clock_monotonic());
    if (c->wake_at < c->sleeps_to)
        comm_wake(c);
}

static bool hand_to(struct comm *c, uint32_t node, unsigned worker)
{
    size_t n;

    assert(worker < c->shape->workers);
    if (!comm_may_send(c, node, false))
        return false;
    n = cache_next_early(c->cache, worker, node, c->shape->priority, c->bytes,
                         comm_pace_room(c));
    if (n)
        comm_send(c, node, n, true);
    return n > 0;
}

/* A frame to each node in turn, while there is room: if that was more than
 * clients' share, servers have theirs before the next offer. */
static void hand_over(struct comm *c, unsigned worker)
{
    bool more = true;

    take_own(c,
             cache_next_early(c->cache, worker, c->shape->node,
                              c->shape->priority, c->bytes, comm_pace_room(c)));
    while (more && !c->broken.code) {
        more = false;
        for (uint32_t i = 0; i < c->shape->nodes; i++) {
            c->own_turn = (c->own_turn + 1) % c->shape->nodes;
            if (c->own_turn != c->shape->node)
                more |= hand_to(c, c->own_turn, worker);
        }
    }
}

void comm_offer(struct peers *p, struct mlt_worker *w)
{
    struct comm *c = comm_of(p);

    if (pthread_mutex_trylock(&c->lock) != 0)
        return; /* somebody sends: there will be another time */
    atomic_store_explicit(&w->offered, false, memory_order_relaxed);
    if (c->early && c->running && !c->broken.code && !is_suspended(c)) {
        hand_over(c, w->index);
        comm_send_early(c);
    }
    comm_unlock(c);
}

/* ---- counters ------------------------------------------------------------ */

void comm_pace_traffic(const struct comm *c, struct ps_traffic *out)
{
    const struct manager *m = &c->manager;

    out->bytes_charged = m->charged;
    out->client_wait_ns = m->wait_ns[MANAGER_CLIENT];
    out->server_wait_ns = m->wait_ns[MANAGER_SERVER];
    for (uint32_t i = 0; i < c->shape->nodes; i++)
        out->overused += c->peer[i].pace.overused;
}
