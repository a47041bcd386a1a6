/* Connections to other nodes: made, watched, and made good where one broke. */
#include "base/log.h"
#include "ps/wire/comm_internal_io.h"

#include <zmq.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS INT64_C(1000000)

/* ---- made ---------------------------------------------------------------- */

static void set_int(void *socket, int option, int value)
{
    int failed = zmq_setsockopt(socket, option, &value, sizeof(value));

    assert(!failed);
    (void)failed;
}

/* A connection over tcp may be gone at one end alone, or carry nothing any
 * more. Who listens asks twice a second (meet_bind); who connected does too.
 * That is its word which the other's kernel has to take (TCP_MAXRT); for the
 * answer it waits longer, since what it asks may queue behind frames on a slow
 * network.
 */
static void watch_tcp(struct comm_peer *p)
{
    set_int(p->push, ZMQ_HEARTBEAT_IVL, MEET_BEAT_MS);
    set_int(p->push, ZMQ_HEARTBEAT_TIMEOUT, DEADLINE_NODES_ECHO_MS);
    set_int(p->push, ZMQ_TCP_MAXRT, DEADLINE_NODES_BEAT_MS);
}

/* No high-water mark: what is under way is bounded by the links' windows. */
static enum err connect_peer(struct comm *c, uint32_t node, struct fault *f)
{
    struct comm_peer *p = &c->peer[node];
    char events[64];
    enum err err;

    assert(node != c->shape->node);
    snprintf(events, sizeof(events), "inproc://events-%u", node);
    p->push = zmq_socket(c->context, ZMQ_PUSH);
    if (!p->push)
        return fault_errno(f, ERR_IO, errno, "connect to node %u", node);
    set_int(p->push, ZMQ_SNDHWM, 0);
    set_int(p->push, ZMQ_LINGER, 1000);
    p->tcp = strncmp(c->meet.peer[node].endpoint, "tcp://", 6) == 0;
    if (p->tcp)
        watch_tcp(p);
    if (zmq_socket_monitor(p->push, events,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                               ZMQ_EVENT_DISCONNECTED |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) == 0)
        p->monitor = zmq_socket(c->context, ZMQ_PAIR);
    err = run_key_apply(&c->meet.key, p->push, c->meet.peer[node].endpoint,
                        false, f);
    if (err)
        return err;
    if (!p->monitor || zmq_connect(p->monitor, events) != 0 ||
        zmq_connect(p->push, c->meet.peer[node].endpoint) != 0)
        return fault_set(f, ERR_IO, "connect to node %u at %s: %s", node,
                         c->meet.peer[node].endpoint, zmq_strerror(errno));
    link_init(&p->link, c->meet.run, c->shape->node, node, COMM_WINDOW);
    /* Acknowledged even without a budget of our own: the other may have one. */
    link_ack_every(&p->link, MANAGER_ACK_EVERY);
    p->hello_due = p->fits_due = true;
    return ERR_OK;
}

enum err comm_connect(struct comm *c, struct fault *f)
{
    enum err err = ERR_OK;

    c->met_at = clock_monotonic();
    for (uint32_t i = 0; i < c->shape->nodes && !err; i++)
        if (i != c->shape->node)
            err = connect_peer(c, i, f);
    return err;
}

/* ---- frames that may have to be sent again ------------------------------- */

void comm_release(struct comm *c, uint32_t node, uint64_t through)
{
    struct comm_peer *p = &c->peer[node];

    assert(through <= p->link.sent);
    while (p->tcp && p->released < through)
        zmq_msg_close(&p->kept[++p->released % COMM_WINDOW]);
}

/* It shares the message's bytes. */
int comm_keep(struct comm_peer *p, uint64_t number, zmq_msg_t *m)
{
    zmq_msg_t *kept = &p->kept[number % COMM_WINDOW];

    assert(number - p->released <= COMM_WINDOW);
    zmq_msg_init(kept);
    return zmq_msg_copy(kept, m);
}

/* ---- watched ------------------------------------------------------------- */

/* A monitor's event is two parts: number and value, then the address. */
static bool next_event(void *monitor, uint16_t *event)
{
    unsigned char head[6];
    char address[256];

    if (zmq_recv(monitor, head, sizeof(head), ZMQ_DONTWAIT) !=
        (int)sizeof(head))
        return false;
    if (zmq_recv(monitor, address, sizeof(address), ZMQ_DONTWAIT) < 0)
        return false;
    memcpy(event, head, sizeof(*event));
    return true;
}

/* All that the node has not acknowledged goes again, in order, and what has
 * come from it is acknowledged anew: frames and acknowledgements under way were
 * lost. What had come all the same it refuses, by its number. */
static void resume(struct comm *c, uint32_t node)
{
    struct comm_peer *p = &c->peer[node];
    struct link *l = &p->link;
    bool failed = false;

    log_event(LOG_WARN, "nodes_connected_again",
              "node=%u peer=%u after_ms=%lld frames=%llu", c->shape->node, node,
              (long long)((clock_monotonic() - p->lost_at) / MS),
              (unsigned long long)(l->sent + 1 - link_again(l)));
    assert(p->released + 1 == link_again(l));
    for (uint64_t i = link_again(l); i <= l->sent && !failed; i++) {
        zmq_msg_t m;

        zmq_msg_init(&m);
        failed = zmq_msg_copy(&m, &p->kept[i % COMM_WINDOW]) != 0;
        c->traffic.frames_sent++;
        c->traffic.bytes_sent += zmq_msg_size(&m);
        failed = failed || zmq_msg_send(&m, p->push, ZMQ_DONTWAIT) < 0;
        zmq_msg_close(&m);
    }
    if (failed)
        comm_break(c, ERR_NODE, "cannot send to node %u again: %s", node,
                   zmq_strerror(errno));
    else if (l->got)
        comm_send_ack(c, node, link_ack(l, c->bytes, c->room));
}

/* ---- whether a port is closed -------------------------------------------- */

void comm_stop_asking(struct comm_peer *p)
{
    if (p->asking)
        close(p->asking - 1);
    p->asking = 0;
}

static void begin_to_ask(struct comm_peer *p, const char *endpoint)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[INET_ADDRSTRLEN];
    unsigned short port;
    int fd;

    if (sscanf(endpoint, "tcp://%15[0-9.]:%hu", host, &port) != 2 ||
        inet_pton(AF_INET, host, &to.sin_addr) != 1)
        return;
    to.sin_port = htons(port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    p->asking = fd + 1;
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ||
        errno == EINPROGRESS)
        return;
    p->refused = errno == ECONNREFUSED;
    comm_stop_asking(p);
}

/* A machine that refuses a connection lives, and its node does not. What a gate
 * drops, or a network that is away, says nothing. */
static void ask(struct comm_peer *p, const char *endpoint, time_ns now)
{
    struct pollfd item = {.fd = p->asking - 1, .events = POLLOUT};
    int code = 0;
    socklen_t size = sizeof(code);

    p->ask_at = now + COMM_ASK_MS * MS;
    if (!p->asking) {
        begin_to_ask(p, endpoint);
    } else if (poll(&item, 1, 0) == 1) {
        getsockopt(p->asking - 1, SOL_SOCKET, SO_ERROR, &code, &size);
        p->refused |= code == ECONNREFUSED;
        comm_stop_asking(p);
    }
}

/* ---- broken, and made good ------------------------------------------------
 */

/* Another in its place, who is turned away again and again, puts off nothing.
 */
static void take_event(struct comm *c, uint32_t node, uint16_t event,
                       time_ns now)
{
    struct comm_peer *p = &c->peer[node];
    bool was = p->connected;

    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
        event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
        p->refused = true;
        return;
    }
    p->connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    if (was && !p->connected) {
        p->lost_at = p->ask_at = now;
        p->refused = false;
    }
    if (p->connected)
        comm_stop_asking(p);
    if (p->connected && !was && p->was_connected && p->tcp)
        resume(c, node);
    p->was_connected |= p->connected;
}

/* When a node that is not connected any more is gone. */
static time_ns gone_at(const struct comm_peer *p)
{
    return p->lost_at +
           (!p->tcp || p->refused ? COMM_AGAIN_MS : COMM_BACK_MS) * MS;
}

/* All listen before any connects, so only what lies between can hinder it. */
static time_ns reach_by(const struct comm *c)
{
    return c->met_at + COMM_REACH_MS * MS;
}

/* Of a network that falls silent nobody knows who closed what. */
static void say_gone(struct comm *c, uint32_t node)
{
    const struct comm_peer *p = &c->peer[node];

    if (!p->tcp || p->refused)
        comm_break(c, ERR_NODE, "node %u is gone: it closed the connection",
                   node);
    else
        comm_break(c, ERR_NODE,
                   "node %u is gone: the connection was lost, and did not come "
                   "back within %d s",
                   node, COMM_BACK_MS / 1000);
}

static void watch_peer(struct comm *c, uint32_t node, time_ns now)
{
    struct comm_peer *p = &c->peer[node];
    uint16_t event;

    while (next_event(p->monitor, &event))
        take_event(c, node, event, now);
    comm_ring_watch(c, node, now);
    if (!c->running && !c->starting)
        return;
    if (p->was_connected && !p->connected && p->tcp && now >= p->ask_at)
        ask(p, c->meet.peer[node].endpoint, now);
    if (p->was_connected && !p->connected && now >= gone_at(p))
        say_gone(c, node);
    if (!p->was_connected && p->tcp && now >= reach_by(c))
        comm_break(
            c, ERR_NODE,
            "node %u cannot be reached at %s: no connection within %d s; "
            "a firewall between the machines may forbid it",
            node, c->meet.peer[node].endpoint, COMM_REACH_MS / 1000);
    if (p->gap_by && now >= p->gap_by)
        comm_break(c, ERR_NODE, "frames of node %u were lost on the way", node);
}

void comm_watch(struct comm *c)
{
    time_ns now = clock_monotonic();

    for (uint32_t i = 0; i < c->shape->nodes; i++)
        if (c->peer[i].monitor)
            watch_peer(c, i, now);
}

static long sooner(long least, time_ns left)
{
    long ms = left > 0 ? (long)(left / MS + 1) : 0;

    return least < 0 || ms < least ? ms : least;
}

long comm_watch_ms(const struct comm *c)
{
    time_ns now = clock_monotonic();
    long least = -1;

    if (c->broken.code || !(c->running || c->starting))
        return -1;
    for (uint32_t i = 0; i < c->shape->nodes; i++) {
        const struct comm_peer *p = &c->peer[i];

        if (p->monitor && p->tcp && !p->was_connected)
            least = sooner(least, reach_by(c) - now);
        if (p->gap_by)
            least = sooner(least, p->gap_by - now);
        if (comm_ring_watch_at(c, i))
            least = sooner(least, comm_ring_watch_at(c, i) - now);
        if (p->was_connected && !p->connected) {
            least = sooner(least, gone_at(p) - now);
            if (p->tcp)
                least = sooner(least, p->ask_at - now);
        }
    }
    return least;
}
