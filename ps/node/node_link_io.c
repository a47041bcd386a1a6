#include "ps/node/node_link_io.h"

#include "base/host/context_io.h"
#include "base/mem.h"
#include "base/proto/proto.h"
#include "base/run_key_io.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NS = 1000000000 };

static const char monitor_endpoint[] = "inproc://tuner-link";

static enum err zmq_fault(struct fault *f, const char *what)
{
    enum err err =
        errno == EINVAL || errno == EPROTONOSUPPORT ? ERR_INVAL : ERR_IO;

    return fault_set(f, err, "%s: %s", what, zmq_strerror(errno));
}

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value));
}

/* The process and when it opened the link are in its name: a process that its
 * tuner has left behind, and that finds the next one at the same place, must
 * not pass for the node that was started there. */
static int set_name(struct node_link *l, uint32_t node)
{
    char name[64];
    int n = snprintf(name, sizeof(name), "node-%u-%ld-%lld", node,
                     (long)getpid(), (long long)clock_monotonic());

    return zmq_setsockopt(l->dealer, ZMQ_ROUTING_ID, name, (size_t)n);
}

static int set_options(struct node_link *l, const char *endpoint, uint32_t node)
{
    int64_t max = PROTO_BYTES_MAX;
    int bad = set_name(l, node);

    bad |= zmq_setsockopt(l->dealer, ZMQ_MAXMSGSIZE, &max, sizeof(max));
    bad |= set_int(l->dealer, ZMQ_RECONNECT_IVL, 100);
    bad |= set_int(l->dealer, ZMQ_LINGER, LINK_LINGER_MS);
    if (strncmp(endpoint, "tcp://", 6) == 0) {
        bad |= set_int(l->dealer, ZMQ_HEARTBEAT_IVL, 2000);
        bad |= set_int(l->dealer, ZMQ_HEARTBEAT_TIMEOUT, LINK_SILENT_S * 1000);
    }
    return bad;
}

static enum err connect_all(struct node_link *l, const char *endpoint,
                            uint32_t node, struct fault *f)
{
    struct run_key key;
    enum err err;

    l->context = context_new();
    if (!l->context)
        return zmq_fault(f, "ZeroMQ context");
    l->dealer = zmq_socket(l->context, ZMQ_DEALER);
    l->monitor = zmq_socket(l->context, ZMQ_PAIR);
    if (!l->dealer || !l->monitor || set_options(l, endpoint, node) != 0)
        return zmq_fault(f, "ZeroMQ socket");
    if (zmq_socket_monitor(l->dealer, monitor_endpoint,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                               ZMQ_EVENT_DISCONNECTED) != 0 ||
        zmq_connect(l->monitor, monitor_endpoint) != 0)
        return zmq_fault(f, "ZeroMQ monitor");
    err = run_key_find(&key, f);
    if (!err)
        err = run_key_apply(&key, l->dealer, endpoint, false, f);
    if (!err && zmq_connect(l->dealer, endpoint) != 0)
        err = zmq_fault(f, endpoint);
    return err;
}

enum err node_link_open(struct node_link *l, const char *endpoint,
                        uint32_t node, bool once, struct fault *f)
{
    enum err err;

    assert(endpoint);
    memset(l, 0, sizeof(*l));
    l->once = once;
    l->deadline = clock_monotonic() + (time_ns)LINK_FIRST_S * NS;
    err = connect_all(l, endpoint, node, f);
    if (err)
        node_link_close(l);
    return err;
}

void node_link_close(struct node_link *l)
{
    if (l->dealer && !l->connected)
        set_int(l->dealer, ZMQ_LINGER, 0);
    /* The reader goes last: without one ZeroMQ's own thread would wait for it
     * with an event in hand, holding what stopping the monitor needs. Its queue
     * holds far more events than a connection has. */
    if (l->dealer)
        zmq_socket_monitor(l->dealer, NULL, 0);
    if (l->monitor) {
        set_int(l->monitor, ZMQ_LINGER, 0);
        zmq_close(l->monitor);
    }
    if (l->dealer)
        zmq_close(l->dealer);
    if (l->context)
        while (zmq_ctx_term(l->context) != 0 && errno == EINTR)
            ;
    memset(l, 0, sizeof(*l));
}

/* A monitor's event is two parts: number and value, then the address. */
static bool next_event(struct node_link *l, uint16_t *event)
{
    unsigned char head[6];
    char address[256];

    if (zmq_recv(l->monitor, head, sizeof(head), ZMQ_DONTWAIT) !=
        (int)sizeof(head))
        return false;
    if (zmq_recv(l->monitor, address, sizeof(address), ZMQ_DONTWAIT) < 0)
        return false;
    memcpy(event, head, sizeof(*event));
    return true;
}

void node_link_watch(struct node_link *l)
{
    uint16_t event;

    while (next_event(l, &event)) {
        bool was = l->connected;

        l->connected =
            event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && !(l->once && l->lost);
        l->lost |= was && !l->connected;
        if (was && !l->connected)
            l->deadline =
                clock_monotonic() + (l->once ? 0 : (time_ns)LINK_AGAIN_S * NS);
    }
}

bool node_link_lost(const struct node_link *l, time_ns now)
{
    return (!l->connected && now >= l->deadline) || (l->once && l->lost);
}

static enum err take_parts(struct node_link *l, zmq_msg_t *part, bool *several)
{
    int size;

    *several = false;
    do
        size = zmq_msg_recv(part, l->dealer, ZMQ_DONTWAIT);
    while (size < 0 && errno == EINTR);
    if (size < 0)
        return errno == EAGAIN ? ERR_AGAIN : ERR_IO;
    l->bytes_received += (uint64_t)size;
    while (zmq_msg_more(part)) {
        *several = true;
        if (zmq_msg_recv(part, l->dealer, ZMQ_DONTWAIT) < 0)
            return ERR_IO;
    }
    return ERR_OK;
}

enum err node_link_receive(struct node_link *l, char **text, size_t *len)
{
    enum err err;
    bool several;
    zmq_msg_t part;

    assert(l->dealer && text && len);
    zmq_msg_init(&part);
    err = take_parts(l, &part, &several);
    if (!err && several)
        err = ERR_PROTO;
    if (!err && zmq_msg_size(&part) > PROTO_BYTES_MAX)
        err = ERR_LIMIT;
    if (!err) {
        *len = zmq_msg_size(&part);
        *text = mem_alloc(*len + 1);
        err = *text ? ERR_OK : ERR_NOMEM;
    }
    if (!err) {
        memcpy(*text, zmq_msg_data(&part), *len);
        (*text)[*len] = 0;
    }
    zmq_msg_close(&part);
    return err;
}

enum err node_link_send(struct node_link *l, const char *text, size_t len)
{
    int n;

    assert(l->dealer);
    do
        n = zmq_send(l->dealer, text, len, ZMQ_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? ERR_AGAIN : ERR_IO;
    l->bytes_sent += len;
    return ERR_OK;
}
