/* Frames to and from the sockets. */
#include "base/log.h"
#include "base/mem.h"
#include "ps/wire/comm_internal_io.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FRAMES_MAX = 256 /* taken before anything is sent */ };

#define MS INT64_C(1000000)

void comm_break(struct comm *c, enum err code, const char *fmt, ...)
{
    char text[FAULT_TEXT_MAX];
    va_list ap;

    assert(code != ERR_OK);
    if (c->broken.code)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fault_set(&c->broken, code, "%s", text);
    log_event(LOG_WARN, "nodes_broken", "node=%u reason=\"%s\"", c->shape->node,
              text);
}

/* The first of each kind is logged. */
static void ignore(struct comm *c, enum comm_ignored kind, const char *reason)
{
    static const char *const names[] = {"malformed", "foreign", "replayed",
                                        "ahead"};

    c->ignored++;
    if (c->ignored_told & 1U << kind)
        return;
    c->ignored_told |= 1U << kind;
    log_event(LOG_WARN, "frame_ignored", "node=%u kind=%s reason=\"%s\"",
              c->shape->node, names[kind], reason);
}

/* ---- greetings ----------------------------------------------------------- */

/* Rows that this node will touch, as far as @p has not been told. */
static size_t tell_expected(struct comm *c, struct comm_peer *p)
{
    const struct ps_shape *shape = c->shape;
    size_t n = 0;

    for (; p->expect_table < shape->tables && !n; p->expect_table += !n) {
        n = placement_next(&shape->placement[p->expect_table], p->expect_table,
                           &p->expect_row, c->bytes, c->room);
        if (!n)
            p->expect_row = 0;
    }
    return n;
}

static size_t greet(struct comm *c, struct comm_peer *p)
{
    const struct ps_shape *shape = c->shape;
    struct frame hello = {
        .kind = FRAME_HELLO,
        .nodes = shape->nodes,
        .workers = shape->workers,
        .layout = shard_layout(shape->table, (uint32_t)shape->tables),
        .options = shape_options(shape)};
    struct frame fits = {.kind = FRAME_FITS, .fits = c->own_fits};
    struct frame placed = {.kind = FRAME_PLACED, .layout = c->layout};
    bool *due = p->hello_due  ? &p->hello_due
                : p->fits_due ? &p->fits_due
                              : &p->placed_due;
    struct frame_writer w;
    size_t n = due == &p->fits_due ? tell_expected(c, p) : 0;

    if (n)
        return n;
    frame_begin(&w,
                due == &p->hello_due  ? &hello
                : due == &p->fits_due ? &fits
                                      : &placed,
                c->bytes, c->room);
    *due = false;
    return frame_end(&w);
}

/* ---- frames that come ---------------------------------------------------- */

/* A greeting: what a node says of itself before anything else. */
static enum err take_greeting(struct comm *c, const struct frame *f,
                              struct fault *fault)
{
    struct comm_peer *p = &c->peer[f->from];
    enum err err;

    if (f->kind == FRAME_FITS) {
        p->fits = true;
        if (f->fits < c->fits)
            c->fits = f->fits;
        return ERR_OK;
    }
    err = shard_step(c->shard, f, fault);
    p->hello = !err;
    p->refusing = err != ERR_OK;
    if (err && p->hello_due) /* so that it sees what differs, too */
        comm_send(c, f->from, greet(c, p), false);
    return err;
}

/* Rows that a node will touch, told between its other greetings, and where rows
 * lie then. */
static enum err take_places(struct comm *c, const struct frame *f,
                            struct fault *fault)
{
    struct comm_peer *p = &c->peer[f->from];
    const struct ps_shape *shape = c->shape;

    if (!shape->places)
        return fault_set(fault, ERR_PROTO,
                         "node %u places rows, this one does not: start all "
                         "with the same ps.access",
                         f->from);
    if (f->kind == FRAME_PLACED) {
        p->placed = true;
        p->layout = f->layout;
        return ERR_OK;
    }
    if (!p->hello || p->fits || f->table >= shape->tables ||
        !shape_gathers(shape, &shape->table[f->table]))
        return fault_set(fault, ERR_PROTO,
                         "expect frame of node %u: after its start, or of no "
                         "table that is placed",
                         f->from);
    return placement_take(&shape->placement[f->table], f, fault);
}

enum err comm_take(struct comm *c, const struct frame *f, struct fault *fault)
{
    assert(f->from < c->shape->nodes);
    switch (f->kind) {
    case FRAME_ACK:
        comm_acknowledged(c, f->from, f->through);
        return ERR_OK;
    case FRAME_HELLO:
    case FRAME_FITS:
        return take_greeting(c, f, fault);
    case FRAME_EXPECT:
    case FRAME_PLACED:
        return take_places(c, f, fault);
    case FRAME_ROWS:
    case FRAME_CLOCKS:
    case FRAME_TAKEN:
    case FRAME_APPLIED:
        return cache_step(c->cache, f, fault);
    case FRAME_PASS:
    case FRAME_PART:
    case FRAME_TOTAL:
        return courier_step(c->courier, f, fault);
    case FRAME_CUT:
    case FRAME_HOLD:
    case FRAME_HELD:
    case FRAME_END:
    case FRAME_FAIL:
        return agreement_step(c->accord, f, fault);
    default:
        return shard_step(c->shard, f, fault);
    }
}

/* A frame came before one that was lost. Over tcp, where a connection broke,
 * its sender sends that again; else nobody does. */
static void await_lost(struct comm *c, uint32_t node)
{
    struct comm_peer *p = &c->peer[node];

    if (p->gap_by)
        return;
    p->gap_by = clock_monotonic() + (p->tcp ? COMM_BACK_MS * MS : 1);
    comm_wake(c);
}

/* A frame that is none. Of another version, but with the run's number, which
 * only its nodes know, it is a peer's that was started with another mltune: it
 * would be waited for in vain. */
static void take_malformed(struct comm *c, const unsigned char *bytes, size_t n,
                           const struct fault *fault)
{
    uint32_t from;

    if (fault->code == ERR_VERSION &&
        frame_is_of_run(bytes, n, c->meet.run, &from) &&
        from < c->shape->nodes && from != c->shape->node)
        comm_break(c, ERR_NODE, "node %u: %s", from, fault->text);
    else
        ignore(c, COMM_MALFORMED, fault->text);
}

/* A frame of a peer that is next in order is the peer's word: where it cannot
 * be, the two do not understand each other, and going on could only hang. */
void comm_take_bytes(struct comm *c, const unsigned char *bytes, size_t n)
{
    struct fault fault = {0};
    struct link *l;
    struct frame f;
    bool ahead;

    if (frame_decode(bytes, n, &f, &fault) != ERR_OK) {
        take_malformed(c, bytes, n, &fault);
        return;
    }
    if (f.from >= c->shape->nodes || f.from == c->shape->node) {
        ignore(c, COMM_FOREIGN, "of a node that there is not");
        return;
    }
    l = &c->peer[f.from].link;
    ahead = f.run == l->run && f.kind != FRAME_ACK && f.sequence > l->got + 1;
    if (ahead)
        await_lost(c, f.from);
    else if (f.kind != FRAME_ACK && f.sequence == l->got + 1)
        c->peer[f.from].gap_by = 0;
    if (link_take(l, &f, &fault) != ERR_OK)
        ignore(c,
               ahead             ? COMM_AHEAD
               : f.run == l->run ? COMM_REPLAYED
                                 : COMM_FOREIGN,
               fault.text);
    else if (comm_take(c, &f, &fault) != ERR_OK)
        comm_break(c, ERR_NODE, "%s", fault.text);
    else {
        c->peer[f.from].came += f.kind != FRAME_ACK ? n : 0;
        comm_received(c, n);
    }
}

/* Several parts are no frame of ours. */
static bool receive_one(struct comm *c, zmq_msg_t *m)
{
    bool several = false;
    int n;

    do
        n = zmq_msg_recv(m, c->pull, ZMQ_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return false;
    c->traffic.bytes_received += (uint64_t)n;
    if (c->gate)
        gate_heard(c->gate, m);
    while (zmq_msg_more(m)) {
        several = true;
        if (zmq_msg_recv(m, c->pull, ZMQ_DONTWAIT) < 0)
            break;
    }
    if (several)
        ignore(c, COMM_MALFORMED, "a message of several parts");
    else
        comm_take_bytes(c, zmq_msg_data(m), zmq_msg_size(m));
    return true;
}

void comm_receive(struct comm *c)
{
    zmq_msg_t m;

    for (int i = 0; i < FRAMES_MAX; i++) {
        bool more;

        zmq_msg_init(&m);
        more = receive_one(c, &m);
        zmq_msg_close(&m);
        if (!more)
            break;
    }
    comm_ring_receive(c);
}

/* ---- frames that go ------------------------------------------------------ */

/* Rows of the two sides that share the budget: first of the one whose turn it
 * is.
 */
static size_t next_rows(struct comm *c, uint32_t node, size_t room)
{
    bool client = manager_paces(&c->manager) &&
                  manager_turn(&c->manager) == MANAGER_CLIENT;
    size_t n = client ? cache_next(c->cache, node, c->bytes, room) : 0;

    if (!n)
        n = shard_next(c->shard, node, c->bytes, room);
    if (!n && !client)
        n = cache_next(c->cache, node, c->bytes, room);
    return n ? n : courier_next(c->courier, node, c->bytes, room);
}

static size_t next_frame(struct comm *c, uint32_t node, size_t room)
{
    struct comm_peer *p = &c->peer[node];
    size_t n;

    if (p->hello_due || p->fits_due || p->placed_due)
        return greet(c, p);
    n = agreement_next(c->accord, node, c->bytes, c->room);
    return n ? n : next_rows(c, node, room);
}

static void free_sent(void *bytes, void *hint)
{
    (void)hint;
    mem_free(bytes);
}

/* A large frame leaves in the buffer that it was made in; where there is no
 * memory for another buffer, as a copy. */
static int send_message(struct comm *c, uint32_t node, size_t n,
                        uint64_t number)
{
    unsigned char *fresh = n >= COMM_COPY_BYTES ? mem_alloc(c->room) : NULL;
    struct comm_peer *p = &c->peer[node];
    zmq_msg_t m;
    int failed;

    if (fresh) {
        failed = zmq_msg_init_data(&m, c->bytes, n, free_sent, NULL);
        c->bytes = failed ? c->bytes : fresh;
    } else {
        failed = zmq_msg_init_size(&m, n);
        if (!failed)
            memcpy(zmq_msg_data(&m), c->bytes, n);
    }
    if (!failed && p->tcp && number)
        failed = comm_keep(p, number, &m);
    if (!failed)
        failed = zmq_msg_send(&m, p->push, ZMQ_DONTWAIT) < 0;
    return failed;
}

void comm_send_bytes(struct comm *c, uint32_t node, size_t n, uint64_t number)
{
    assert(n > 0 && n <= c->room);
    assert(node != c->shape->node);
    if (c->peer[node].ring.leads) {
        comm_ring_send(c, node, n);
    } else if (send_message(c, node, n, number)) {
        comm_break(c, ERR_NODE, "cannot send to node %u: %s", node,
                   zmq_strerror(errno));
        return;
    }
    c->traffic.frames_sent++;
    c->traffic.bytes_sent += n;
}

static bool send_next(struct comm *c, uint32_t node)
{
    struct comm_peer *p = &c->peer[node];
    struct link *l = &p->link;
    size_t n = 0;

    assert(node != c->shape->node);
    if ((link_owes_ack(l) || p->came >= comm_way_bytes(c->shape->nodes) / 2) &&
        comm_may_send(c, node, true)) {
        n = link_ack(l, c->bytes, c->room);
        comm_send_ack(c, node, n);
        return true;
    }
    if (comm_may_send(c, node, false))
        n = next_frame(c, node, comm_pace_room(c));
    if (n)
        comm_send(c, node, n, false);
    return n > 0;
}

/* A frame of this node to itself. */
static bool move_own(struct comm *c)
{
    uint32_t self = c->shape->node;
    struct fault fault = {0};
    struct frame f;
    size_t n = next_frame(c, self, c->room);
    enum err err;

    if (!n)
        return false;
    frame_stamp(c->bytes, self, c->meet.run, 0);
    err = frame_decode(c->bytes, n, &f, &fault);
    assert(!err);
    if (f.kind == FRAME_DRAINED)
        c->running = false;
    else if (f.kind != FRAME_DONE)
        err = comm_take(c, &f, &fault);
    if (err)
        comm_break(c, ERR_NODE, "%s", fault.text);
    return true;
}

/* Tells those whom it concerns what the nodes have agreed on. */
static bool settle(struct comm *c)
{
    const struct ps_cut *cut = &c->run.cut;
    enum err failed = agreement_failed(c->accord);
    uint64_t clocks;
    bool held = false;

    if (c->running && agreement_must_hold(c->accord)) {
        agreement_held(c->accord, cut->hold ? cut->hold(cut->arg) : 0);
        held = true;
    }
    if (c->running && agreement_take_end(c->accord, &clocks) && cut->release)
        cut->release(cut->arg, clocks);
    if (c->broken.code)
        failed = ERR_NODE;
    if (c->running && failed && !c->failed_told) {
        c->failed_told = true;
        runtime_fail(c->ps, failed == ERR_NODE ? ERR_NODE : ERR_CANCELED);
    }
    return held;
}

/* A frame to each node, so that a budget is not the first one's alone. */
static bool send_round(struct comm *c)
{
    bool sent = false;

    for (uint32_t i = 0; i < c->shape->nodes && !c->broken.code; i++) {
        c->turn = (c->turn + 1) % c->shape->nodes;
        if (c->turn != c->shape->node)
            sent |= send_next(c, c->turn);
    }
    return sent;
}

void comm_pump(struct comm *c)
{
    bool moved;

    comm_ring_go_on(c);
    do {
        /* A node's failure came before its last word, with which this node's
         * run may be over. */
        settle(c);
        while (!c->broken.code && move_own(c))
            ;
        while (!c->broken.code && send_round(c))
            ;
        moved = settle(c);
    } while (moved);
    comm_send_early(c);
}
