#include "base/host/gate_io.h"

#include "base/clock_io.h"
#include "base/host/gate.h"
#include "base/log.h"
#include "base/mem.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
             ZMQ_EVENT_MONITOR_STOPPED,
    /* The address of the sender in the header of IPv4. */
    SOURCE = SKF_NET_OFF + 12,
    GREETING = 64, /* bytes, of ZMTP 3 */
    LISTENS_MS = 1000,
    ALL = -1, /* bytes of a packet that are kept */
    KNOWN_MAX = (BPF_MAXINSNS - 2) / 2
};

#define EVENTS_AT "inproc://gate"

struct gate_keeper {
    void *socket, *monitor; /* borrowed; owned, the thread's once it runs */
    pthread_t thread;
    bool has_thread;
    atomic_bool shut; /* state is GATE_SHUT */

    pthread_mutex_t lock; /* of everything below */
    struct gate gate;
    enum gate_state state;
    int listener;       /* -1: not known yet */
    bool refused, told; /* the kernel has no filters; strangers were told of */
    uint32_t known;
    struct sock_filter *filter; /* [2 * known + 2]; NULL: none are known */
    /* [GATE_FILES_MAX] of each stranger a descriptor of ours for its
     * connection, and 1; 0: none. The socket's own may be another's by the time
     * that we hear of it. */
    int *held;
};

/* ---- the filter ---------------------------------------------------------- */

static int attach(int fd, unsigned short n, struct sock_filter filter[])
{
    struct sock_fprog program = {.len = n, .filter = filter};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
                      sizeof(program));
}

static int detach(int fd)
{
    int unused = 0;

    return setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused,
                      sizeof(unused));
}

/* The kernel puts one filter in the place of another at once. One that is
 * detached and was not there is no error. */
static int apply(struct gate_keeper *k, enum gate_state state)
{
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);

    if (state == GATE_SHUT)
        return attach(k->listener, 1, &none);
    if (state == GATE_KNOWN && k->filter)
        return attach(k->listener, (unsigned short)(2 * k->known + 2),
                      k->filter);
    return detach(k->listener) == 0 || errno == ENOENT ? 0 : -1;
}

static void tell(struct gate_keeper *k)
{
    if (k->state != GATE_KNOWN || k->told)
        return;
    k->told = true;
    log_event(LOG_WARN, "strangers_crowd",
              "count=%u reason=\"connections without the key; more than these "
              "are cut, and %s\"",
              k->gate.strangers,
              k->filter ? "addresses of the run's nodes alone get in"
                        : "addresses of nodes are not known yet");
}

/* Under the lock. */
static void follow(struct gate_keeper *k)
{
    enum gate_state state = gate_wants(&k->gate);

    if (k->refused || k->listener < 0 || state == k->state)
        return;
    k->refused = apply(k, state) != 0;
    if (k->refused)
        log_event(LOG_WARN, "gate_stays_open", "reason=\"%s\"",
                  strerror(errno));
    k->state = state;
    atomic_store_explicit(&k->shut, state == GATE_SHUT, memory_order_relaxed);
    tell(k);
}

/* ---- strangers ----------------------------------------------------------- */

static bool same_port(const struct sockaddr_storage *a,
                      const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

    return a->ss_family == b->ss_family &&
           (a->ss_family == AF_INET || a->ss_family == AF_INET6) &&
           a4->sin_port == b4->sin_port;
}

/* Whether @fd is a connection to where the socket listens. */
static bool is_of_listener(const struct gate_keeper *k, int fd)
{
    struct sockaddr_storage own = {0}, at = {0}, peer;
    socklen_t own_size = sizeof(own), at_size = sizeof(at),
              peer_size = sizeof(peer);

    return getsockname(k->listener, (struct sockaddr *)&own, &own_size) == 0 &&
           getsockname(fd, (struct sockaddr *)&at, &at_size) == 0 &&
           same_port(&own, &at) &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0;
}

static void let_go(struct gate_keeper *k, int fd)
{
    if (fd < 0 || fd >= GATE_FILES_MAX || !k->held[fd])
        return;
    close(k->held[fd] - 1);
    k->held[fd] = 0;
}

/* Under the lock. */
static void hold(struct gate_keeper *k, int fd)
{
    int own;

    gate_accepted(&k->gate, fd, clock_monotonic());
    if (fd < 0 || fd >= GATE_FILES_MAX)
        return;
    let_go(k, fd);
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return;
    if (is_of_listener(k, own))
        k->held[fd] = own + 1;
    else
        close(own);
}

/* Whether we have said more to it than our greeting: only who has the key hears
 * more (CURVE, RFC 26 of ZeroMQ). The kernel knows before ZeroMQ's events do.
 * Said twice counts once. */
static bool has_key(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_bytes_sent - info.tcpi_bytes_retrans > GREETING;
}

/* ZeroMQ finds its end closed, and closes it: at once, with nothing of it left
 * with the kernel. */
static void hang_up(int fd)
{
    const struct linger at_once = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    shutdown(fd, SHUT_RDWR);
}

/* Under the lock. One that could not be held ends by its handshake's
 * deadline. */
static void cut(struct gate_keeper *k)
{
    int fd;

    while ((fd = gate_cut(&k->gate, clock_monotonic())) >= 0) {
        if (k->held[fd] && has_key(k->held[fd] - 1)) {
            gate_shown(&k->gate, fd, true);
            follow(k);
        } else {
            if (k->held[fd])
                hang_up(k->held[fd] - 1);
            gate_gone(&k->gate, fd);
        }
        let_go(k, fd);
    }
}

static void release_all(struct gate_keeper *k)
{
    for (int fd = 0; k->held && fd < GATE_FILES_MAX; fd++)
        let_go(k, fd);
    mem_free(k->held);
}

/* ---- the thread ---------------------------------------------------------- */

/* An event is two parts: number and value, then the address. False: it was the
 * last. */
static bool next_event(struct gate_keeper *k, uint16_t *event, int32_t *value)
{
    unsigned char head[sizeof(*event) + sizeof(*value)];
    char address[256];
    int n;

    do
        n = zmq_recv(k->monitor, head, sizeof(head), 0);
    while (n < 0 && errno == EINTR);
    if (n != (int)sizeof(head) ||
        zmq_recv(k->monitor, address, sizeof(address), 0) < 0)
        return false;
    memcpy(event, head, sizeof(*event));
    memcpy(value, head + sizeof(*event), sizeof(*value));
    return *event != ZMQ_EVENT_MONITOR_STOPPED;
}

/* Under the lock. */
static void take_event(struct gate_keeper *k, uint16_t event, int32_t fd)
{
    switch (event) {
    case ZMQ_EVENT_LISTENING:
        k->listener = fd;
        break;
    case ZMQ_EVENT_ACCEPTED:
        hold(k, fd);
        break;
    default:
        gate_gone(&k->gate, fd);
        let_go(k, fd);
    }
    follow(k);
    cut(k);
}

static void *thread_main(void *arg)
{
    struct gate_keeper *k = arg;
    uint16_t event;
    int32_t fd;

    pthread_setname_np(pthread_self(), "gate");
    while (next_event(k, &event, &fd)) {
        pthread_mutex_lock(&k->lock);
        take_event(k, event, fd);
        pthread_mutex_unlock(&k->lock);
    }
    return NULL;
}

/* The descriptor may be another's by now; then it is taken for a peer until
 * that one is cut. */
void gate_heard(struct gate_keeper *k, zmq_msg_t *message)
{
    int fd;

    if (atomic_load_explicit(&k->shut, memory_order_relaxed))
        return;
    fd = zmq_msg_get(message, ZMQ_SRCFD);
    pthread_mutex_lock(&k->lock);
    gate_shown(&k->gate, fd, is_of_listener(k, fd));
    let_go(k, fd);
    follow(k);
    pthread_mutex_unlock(&k->lock);
}

/* ---- life ---------------------------------------------------------------- */

enum err gate_open(void *context, void *socket, struct gate_keeper **out,
                   struct fault *f)
{
    struct gate_keeper *k = mem_calloc(1, sizeof(*k));

    assert(context && socket);
    if (k)
        k->held = mem_calloc(GATE_FILES_MAX, sizeof(*k->held));
    if (!k || !k->held) {
        mem_free(k);
        return fault_set(f, ERR_NOMEM, "no memory to keep a gate");
    }
    k->socket = socket;
    k->listener = -1;
    pthread_mutex_init(&k->lock, NULL);
    if (zmq_socket_monitor(socket, EVENTS_AT, EVENTS) == 0)
        k->monitor = zmq_socket(context, ZMQ_PAIR);
    if (!k->monitor || zmq_connect(k->monitor, EVENTS_AT) != 0) {
        fault_errno(f, ERR_IO, errno, "look who connects");
        gate_close(k);
        return ERR_IO;
    }
    *out = k;
    return ERR_OK;
}

/* Where it listens was said when the socket was bound. */
static void find_listener(struct gate_keeper *k)
{
    int soon = LISTENS_MS, ever = -1;
    uint16_t event;
    int32_t fd;

    zmq_setsockopt(k->monitor, ZMQ_RCVTIMEO, &soon, sizeof(soon));
    while (k->listener < 0 && next_event(k, &event, &fd))
        take_event(k, event, fd);
    zmq_setsockopt(k->monitor, ZMQ_RCVTIMEO, &ever, sizeof(ever));
}

enum err gate_keep(struct gate_keeper *k, uint32_t peers, struct fault *f)
{
    int errnum;

    assert(!k->has_thread && peers > 0);
    k->gate.expected = peers;
    find_listener(k);
    errnum = pthread_create(&k->thread, NULL, thread_main, k);
    if (errnum)
        return fault_errno(f, ERR_IO, errnum, "start the gate's thread");
    k->has_thread = true;
    return ERR_OK;
}

/* Each address is two steps: is it that one, then it is let in. */
enum err gate_know(struct gate_keeper *k, uint32_t n, const uint32_t ipv4[])
{
    struct sock_filter *filter;
    size_t at = 0;

    assert(n <= KNOWN_MAX && !k->filter);
    filter = mem_calloc(2 * (size_t)n + 2, sizeof(*filter));
    if (!filter)
        return ERR_NOMEM;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                (uint32_t)SOURCE);
    for (uint32_t i = 0; i < n; i++) {
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                    ipv4[i], 0, 1);
        filter[at++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (uint32_t)ALL);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    pthread_mutex_lock(&k->lock);
    k->filter = filter;
    k->known = n;
    pthread_mutex_unlock(&k->lock);
    return ERR_OK;
}

/* The reader goes last: without one ZeroMQ's own thread would wait for it. */
void gate_close(struct gate_keeper *k)
{
    int none = 0;

    if (!k)
        return;
    zmq_socket_monitor(k->socket, NULL, 0);
    if (k->has_thread)
        pthread_join(k->thread, NULL);
    if (k->monitor) {
        zmq_setsockopt(k->monitor, ZMQ_LINGER, &none, sizeof(none));
        zmq_close(k->monitor);
    }
    release_all(k);
    pthread_mutex_destroy(&k->lock);
    mem_free(k->filter);
    mem_free(k);
}
