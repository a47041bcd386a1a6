/* Meeting at an address: node 0 is a ROUTER there, the others are DEALERs. */
#include "ps/wire/meet_io.h"

#include "base/clock_io.h"
#include "base/host/context_io.h"
#include "base/host/lookup_io.h"
#include "base/log.h"
#include "base/mem.h"

#include <zmq.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HOST_BYTES = 128,
    CURVE_BYTES = 64, /* that encryption adds to a message, or more */
    LINGER_MS = 2000, /* for the last word of node 0 to leave */
    ANSWER_MAX = MEET_NODES_MAX * (MEET_ENDPOINT_MAX + 1) + MEET_REPORT_MAX
};

/* A node that has reported, as the ROUTER knows it. */
struct reporter {
    uint8_t bytes, id[255]; /* bytes 0: none */
};

/* ---- this machine's address ---------------------------------------------- */

/* The host of "tcp://HOST:PORT". */
static enum err split_place(const char *place, char host[HOST_BYTES],
                            char port[8], struct fault *f)
{
    char end;

    if (sscanf(place, "tcp://%127[^:/]:%5[0-9]%c", host, port, &end) == 2 &&
        strcmp(host, "*") != 0)
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "cannot meet at \"%.200s\": expected tcp://HOST:PORT of "
                     "node 0's machine, the same for all nodes",
                     place);
}

/* 127.0.0.0/8, or a name that always means it. */
static bool says_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0;
}

/* The host's address. Nobody else gets to one that means every machine itself,
 * which is what Debian's /etc/hosts has for a machine's own name. */
static enum err find_host(const char *place, struct sockaddr_in *out,
                          struct fault *f)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
    char host[HOST_BYTES], port[8];
    struct addrinfo *found;
    struct fault why = {0};
    enum err err = split_place(place, host, port, f);

    if (err)
        return err;
    err = lookup_host(host, port, &hints, INFINITY, &found, &why);
    if (err)
        return fault_set(f, err == ERR_NODE ? ERR_INVAL : err,
                         "cannot meet at %.200s: %s", place, why.text);
    memcpy(out, found->ai_addr, sizeof(*out));
    freeaddrinfo(found);
    if (ntohl(out->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET ||
        says_loopback(host))
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "cannot meet at %.200s: %.100s is a loopback address on "
                     "this machine, which others cannot reach; give the "
                     "machine's address in the network in its place, or put "
                     "that into /etc/hosts",
                     place, host);
}

/* The address of this machine from which the host is reached. */
static enum err own_address(const char *place, char out[HOST_BYTES],
                            struct fault *f)
{
    struct sockaddr_in host = {0};
    struct fault why = {0};
    enum err err = find_host(place, &host, f);

    if (!err && lookup_source(&host, out, &why) != ERR_OK)
        err = fault_set(f, ERR_IO, "no way to %.200s: %s", place, why.text);
    return err;
}

/* Others reach this machine's loopback only where they are on it, as all are
 * when they meet there. */
static enum err check_told(const struct meet *m, const char *endpoint,
                           struct fault *f)
{
    char host[HOST_BYTES], port[8];
    enum err err = split_place(m->place, host, port, f);

    if (err || strncmp(endpoint, "tcp://127.", 10) != 0 || says_loopback(host))
        return err;
    return fault_set(f, ERR_INVAL,
                     "node %u would tell the others to reach it at %.200s, "
                     "which is on no other machine: let it listen at this "
                     "machine's address, or at tcp://*:PORT",
                     m->node, endpoint);
}

/* Binds, and says in this node's entry where the others reach it. */
static enum err bind_pull(struct meet *m, void *pull, const char *listen,
                          struct fault *f)
{
    char host[HOST_BYTES], endpoint[MEET_ENDPOINT_MAX];
    char bound[MEET_ENDPOINT_MAX];
    size_t size = sizeof(bound);
    enum err err = own_address(m->place, host, f);
    int n;

    if (err)
        return err;
    snprintf(endpoint, sizeof(endpoint), "tcp://%s:*", host);
    if (!listen)
        listen = endpoint;
    err = meet_bind(m, pull, listen, f);
    if (err)
        return err;
    if (zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        return fault_errno(f, ERR_IO, errno, "node %u", m->node);
    if (strncmp(bound, "tcp://0.0.0.0:", 14) == 0)
        n = snprintf(m->peer[m->node].endpoint, MEET_ENDPOINT_MAX,
                     "tcp://%s:%s", host, bound + 14);
    else
        n = snprintf(m->peer[m->node].endpoint, MEET_ENDPOINT_MAX, "%s", bound);
    assert(n > 0 && n < MEET_ENDPOINT_MAX);
    (void)n;
    return check_told(m, m->peer[m->node].endpoint, f);
}

/* ---- life ---------------------------------------------------------------- */

static enum err say_where(struct meet *m, struct fault *f)
{
    struct meet_report r = {
        .node = m->node, .nodes = m->nodes, .number = m->number};
    char *text;
    int sent;

    memcpy(r.endpoint, m->peer[m->node].endpoint, sizeof(r.endpoint));
    text = meet_report_write(&r);
    if (!text)
        return fault_set(f, ERR_NOMEM, "no memory to meet the other nodes");
    sent = zmq_send(m->socket, text, strlen(text), 0);
    mem_free(text);
    return sent < 0 ? fault_errno(f, ERR_IO, errno, "meet at %.200s", m->place)
                    : ERR_OK;
}

/* ZeroMQ binds addresses and takes no names. */
static enum err bind_place(struct meet *m, struct fault *f)
{
    char address[INET_ADDRSTRLEN], endpoint[64];
    struct sockaddr_in host = {0};
    enum err err = find_host(m->place, &host, f);

    if (err)
        return err;
    inet_ntop(AF_INET, &host.sin_addr, address, sizeof(address));
    snprintf(endpoint, sizeof(endpoint), "tcp://%s:%u", address,
             ntohs(host.sin_port));
    err = run_key_apply(&m->key, m->socket, endpoint, true, f);
    if (!err && m->key.given && m->nodes > 1)
        err = gate_open(m->context, m->socket, &m->gate, f);
    if (err)
        return err;
    if (zmq_bind(m->socket, endpoint) == 0)
        return m->gate ? gate_keep(m->gate, m->nodes - 1, f) : ERR_OK;
    return fault_set(f, ERR_IO,
                     "node 0 cannot meet the others at %.200s (%s): %s; it "
                     "must be an address of node 0's machine, with a port that "
                     "is free",
                     m->place, endpoint, zmq_strerror(errno));
}

static enum err open_socket(struct meet *m, struct fault *f)
{
    int64_t size_max = MEET_REPORT_MAX + CURVE_BYTES;
    int linger = LINGER_MS;
    enum err err;

    m->context = context_new();
    m->socket = m->context
                    ? zmq_socket(m->context, m->node ? ZMQ_DEALER : ZMQ_ROUTER)
                    : NULL;
    if (!m->socket)
        return fault_errno(f, context_error(), errno, "meet at %.200s",
                           m->place);
    if (m->node) {
        linger = 0;
        size_max = ANSWER_MAX;
    }
    zmq_setsockopt(m->socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(m->socket, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max));
    if (m->node == 0)
        return bind_place(m, f);
    err = run_key_apply(&m->key, m->socket, m->place, false, f);
    if (err || zmq_connect(m->socket, m->place) == 0)
        return err;
    return fault_set(f, ERR_IO, "node %u cannot meet the others at %.200s: %s",
                     m->node, m->place, zmq_strerror(errno));
}

enum err meet_address_open(struct meet *m, void *pull, const char *listen,
                           struct fault *f)
{
    enum err err = bind_pull(m, pull, listen, f);

    assert(pull);
    m->peer[m->node].number = m->number;
    if (!err)
        err = open_socket(m, f);
    if (!err && m->node)
        err = say_where(m, f);
    return err;
}

void meet_address_close(struct meet *m)
{
    gate_close(m->gate);
    m->gate = NULL;
    if (m->socket)
        zmq_close(m->socket);
    if (m->context)
        while (zmq_ctx_term(m->context) != 0 && errno == EINTR)
            continue;
    m->socket = m->context = NULL;
}

/* Whether a message has come before @end. */
static bool wait_message(void *socket, time_ns end)
{
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};

    for (;;) {
        time_ns left = end - clock_monotonic();
        long ms = left > 0 ? (long)(left / 1000000 + 1) : 0;
        int n = zmq_poll(&item, 1, ms);

        if (n > 0)
            return true;
        if (left <= 0)
            return false;
    }
}

/* ---- node 0 -------------------------------------------------------------- */

static void tell(const struct meet *m, const struct reporter *to,
                 const char *text)
{
    zmq_msg_t part;

    /* Its memory first: an address that left alone would spoil the next one's.
     */
    if (!text || !to->bytes || zmq_msg_init_size(&part, strlen(text)) != 0)
        return;
    memcpy(zmq_msg_data(&part), text, strlen(text));
    if (zmq_send(m->socket, to->id, to->bytes, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_msg_send(&part, m->socket, ZMQ_DONTWAIT);
    zmq_msg_close(&part);
}

static void refuse(const struct meet *m, const struct reporter *to,
                   const char *reason)
{
    char *text = meet_refusal_write(reason);

    log_event(LOG_WARN, "meet_refused", "reason=\"%s\"", reason);
    tell(m, to, text);
    mem_free(text);
}

/* The next part of a message, copied as far as there is room: its bytes, or -1.
 */
static int next_part(const struct meet *m, void *out, size_t room, int *more)
{
    zmq_msg_t part;
    int n;

    zmq_msg_init(&part);
    n = zmq_msg_recv(&part, m->socket, ZMQ_DONTWAIT);
    *more = n >= 0 && zmq_msg_more(&part);
    if (n > 0)
        memcpy(out, zmq_msg_data(&part), (size_t)n < room ? (size_t)n : room);
    if (n >= 0 && m->gate)
        gate_heard(m->gate, &part);
    zmq_msg_close(&part);
    return n;
}

/* Sender and text; messages of another form are taken away. */
static bool receive(const struct meet *m, struct reporter *from, char *text,
                    size_t *len)
{
    int more, n = -1, parts = 1,
              id = next_part(m, from->id, sizeof(from->id), &more);

    if (id < 0)
        return false;
    from->bytes = (uint8_t)id;
    while (more) {
        n = next_part(m, text, MEET_REPORT_MAX, &more);
        parts++;
    }
    *len = (size_t)(n > 0 ? n : 0);
    return parts == 2 && n >= 0 && n <= MEET_REPORT_MAX;
}

static void take_report(struct meet *m, struct reporter reporter[])
{
    struct reporter from = {0};
    char text[MEET_REPORT_MAX];
    struct fault fault = {0};
    struct meet_report r;
    enum err err = ERR_FORMAT;
    size_t len = 0;

    fault_set(&fault, ERR_FORMAT, "a message of another form");
    if (receive(m, &from, text, &len))
        err = meet_report_read(text, len, &r, &fault);
    if (!err)
        err = meet_take(&r, m->nodes, m->peer, &fault);
    if (err)
        refuse(m, &from, fault.text);
    else
        reporter[r.node] = from;
}

static void refuse_all(const struct meet *m, const struct reporter reporter[],
                       const char *reason)
{
    for (uint32_t i = 1; i < m->nodes; i++)
        if (reporter[i].bytes)
            refuse(m, &reporter[i], reason);
}

static enum err answer_all(struct meet *m, const struct reporter reporter[],
                           struct fault *f)
{
    char *text;

    m->run = meet_run(m->nodes, m->peer);
    text = meet_answer_write(m->run, m->nodes, m->peer);
    if (!text) {
        fault_set(f, ERR_NOMEM, "node 0 has no memory to meet %u nodes",
                  m->nodes);
        refuse_all(m, reporter, f->text);
        return ERR_NOMEM;
    }
    for (uint32_t i = 1; i < m->nodes; i++)
        tell(m, &reporter[i], text);
    mem_free(text);
    return ERR_OK;
}

static enum err gather(struct meet *m, double timeout_s,
                       struct reporter reporter[], struct fault *f)
{
    time_ns end = clock_monotonic() + (time_ns)(timeout_s * 1e9);
    char names[128];
    uint32_t missing;

    while ((missing = meet_missing(m->nodes, m->peer, names, sizeof(names)))) {
        if (wait_message(m->socket, end)) {
            take_report(m, reporter);
            continue;
        }
        fault_set(f, ERR_NODE,
                  "node 0 waited %g s for the others at %.200s: %u of %u %s "
                  "missing (%s); start every node, each with its own number "
                  "and with the same address%s",
                  timeout_s, m->place, missing, m->nodes,
                  missing == 1 ? "is" : "are", names,
                  m->key.given ? " and key" : "");
        refuse_all(m, reporter, f->text);
        return ERR_NODE;
    }
    return answer_all(m, reporter, f);
}

static enum err wait_as_first(struct meet *m, double timeout_s, struct fault *f)
{
    struct reporter *reporter = mem_calloc(m->nodes, sizeof(*reporter));
    enum err err;

    if (!reporter)
        return fault_set(f, ERR_NOMEM, "no memory to meet %u nodes", m->nodes);
    err = gather(m, timeout_s, reporter, f);
    mem_free(reporter);
    return err;
}

/* ---- the others ---------------------------------------------------------- */

static enum err wait_as_other(struct meet *m, double timeout_s, struct fault *f)
{
    time_ns end = clock_monotonic() + (time_ns)(timeout_s * 1e9);
    struct fault reason = {0};
    zmq_msg_t message;
    enum err err = ERR_OK;

    if (!wait_message(m->socket, end))
        return fault_set(f, ERR_NODE,
                         "node %u waited %g s for node 0 at %.200s: is it "
                         "started, with this address, and not without this "
                         "node already%s?",
                         m->node, timeout_s, m->place,
                         m->key.given ? ", and has it the same key" : "");
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, m->socket, ZMQ_DONTWAIT) < 0)
        err = fault_errno(f, ERR_IO, errno, "meet at %.200s", m->place);
    else
        err = meet_answer_read(zmq_msg_data(&message), zmq_msg_size(&message),
                               m->nodes, &m->run, m->peer, &reason);
    zmq_msg_close(&message);
    if (reason.code)
        fault_set(f, err, "node %u, from node 0 at %.100s: %.350s", m->node,
                  m->place, reason.text);
    return err;
}

enum err meet_address_wait(struct meet *m, double timeout_s, struct fault *f)
{
    enum err err = m->node ? wait_as_other(m, timeout_s, f)
                           : wait_as_first(m, timeout_s, f);

    assert(timeout_s >= 0);
    meet_address_close(m);
    return err;
}
