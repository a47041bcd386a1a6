/* Who may connect to a node: by counts, and at a real socket. */
#include "base/clock_io.h"
#include "base/host/gate.h"
#include "base/host/gate_io.h"
#include "base/run_key_io.h"

#include <zmq.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

#define LATER (GATE_TENURE_MS * INT64_C(1000000))

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

enum { PATIENCE_MS = 20000, DROPPED_MS = 200, STRANGERS = 80, CROWD = 300 };

/* ---- counts -------------------------------------------------------------- */

/* It is open until the last peer has come, and again once one is gone. */
static void gate_is_shut_while_all_peers_are_in(void **state)
{
    static struct gate d;

    (void)state;
    d.expected = 2;
    for (int fd = 10; fd < 12; fd++) {
        assert_int_equal(gate_wants(&d), GATE_OPEN);
        gate_accepted(&d, fd, 0);
        assert_int_equal(gate_wants(&d), GATE_OPEN);
        gate_shown(&d, fd, false);
        gate_shown(&d, fd, false);
    }
    assert_int_equal(gate_wants(&d), GATE_SHUT);
    assert_int_equal(d.strangers, 0);
    gate_accepted(&d, 99, 0);
    gate_gone(&d, 99);
    assert_int_equal(gate_wants(&d), GATE_SHUT);
    gate_gone(&d, 10);
    gate_shown(&d, 10, false); /* late */
    assert_int_equal(gate_wants(&d), GATE_OPEN);
    gate_shown(&d, 10, true); /* before it is told of */
    assert_int_equal(gate_wants(&d), GATE_OPEN);
    gate_accepted(&d, 10, 0);
    assert_int_equal(gate_wants(&d), GATE_SHUT);
    for (int fd = -1; fd <= GATE_FILES_MAX; fd += GATE_FILES_MAX + 1) {
        gate_accepted(&d, fd, 0);
        gate_shown(&d, fd, false);
        gate_gone(&d, fd);
    }
    assert_int_equal(d.peers, 2);
}

/* A crowd of strangers is told from peers who come at the same time, and has to
 * thin out before the gate opens again. */
static void gate_goes_to_when_strangers_crowd(void **state)
{
    enum { PEERS = 100 };
    static struct gate d;
    int fd = 0;

    (void)state;
    d.expected = PEERS;
    while (fd < PEERS + GATE_STRANGERS_MAX - 1)
        gate_accepted(&d, fd++, 0);
    assert_int_equal(gate_wants(&d), GATE_OPEN);
    gate_accepted(&d, fd++, 0);
    assert_int_equal(gate_wants(&d), GATE_KNOWN);
    for (int i = 0; i < PEERS; i++)
        gate_shown(&d, i, false);
    assert_int_equal(gate_wants(&d), GATE_SHUT);
    gate_gone(&d, 0);
    while (d.strangers > GATE_STRANGERS_AGAIN + 1) {
        assert_int_equal(gate_wants(&d), GATE_KNOWN);
        gate_gone(&d, --fd);
    }
    assert_int_equal(gate_wants(&d), GATE_OPEN);
}

/* The one that is to be cut, which goes then. */
static int cut(struct gate *d, int64_t now_ns)
{
    int fd = gate_cut(d, now_ns);

    gate_gone(d, fd);
    return fd;
}

/* One more than may be in, and who came first is cut; who has shown the key, or
 * has gone, is not. */
static void gate_cuts_who_came_first(void **state)
{
    enum { FIRST = 10, LAST = FIRST + GATE_STRANGERS_MAX };
    static struct gate d;

    (void)state;
    d.expected = 2;
    for (int fd = FIRST; fd < LAST + 2; fd++)
        gate_accepted(&d, fd, 0);
    assert_int_equal(cut(&d, LATER), -1);
    gate_shown(&d, FIRST, false);
    assert_int_equal(cut(&d, LATER), -1);
    gate_accepted(&d, FIRST - 1, 0);
    assert_int_equal(cut(&d, LATER), FIRST + 1);
    assert_int_equal(cut(&d, LATER), -1);
    gate_gone(&d, FIRST + 1); /* what the socket says of it then */
    gate_gone(&d, FIRST + 2);
    gate_accepted(&d, FIRST + 1, 0);
    assert_int_equal(cut(&d, LATER), -1);
    gate_accepted(&d, FIRST + 2, 0);
    assert_int_equal(cut(&d, LATER), FIRST + 3);
    /* Who came last, while the first have not had their time. */
    gate_accepted(&d, LAST + 2, 0);
    assert_int_equal(cut(&d, LATER - 1), LAST + 2);
    assert_int_equal(cut(&d, LATER - 1), -1);
    /* Who is to be cut turns out to have shown the key: the next is named. */
    gate_accepted(&d, LAST + 2, 0);
    assert_int_equal(gate_cut(&d, LATER - 1), LAST + 2);
    gate_shown(&d, LAST + 2, true);
    assert_int_equal(gate_cut(&d, LATER), FIRST + 4);
    assert_int_equal(d.peers, 2);
    assert_int_equal(gate_wants(&d), GATE_SHUT);
    gate_gone(&d, LAST + 2);
    assert_int_equal(d.peers, 1);
    assert_int_equal(gate_wants(&d), GATE_KNOWN);
}

/* ---- at a socket --------------------------------------------------------- */

struct node {
    void *context, *pull;
    struct gate_keeper *gate;
    struct run_key key;
    char endpoint[64];
    uint16_t port;
};

/* A node that waits for one other, which comes from 127.0.0.2 as it says. */
static void open_node(struct node *n, bool known)
{
    const uint32_t from = INADDR_LOOPBACK + 1;
    size_t size = sizeof(n->endpoint);
    struct fault f = {0};

    setenv("MLTUNE_KEY", KEY, 1);
    assert_int_equal(run_key_find(&n->key, &f), ERR_OK);
    unsetenv("MLTUNE_KEY");
    n->context = zmq_ctx_new();
    n->pull = zmq_socket(n->context, ZMQ_PULL);
    assert_int_equal(gate_open(n->context, n->pull, &n->gate, &f), ERR_OK);
    assert_int_equal(
        run_key_apply(&n->key, n->pull, "tcp://127.0.0.1:*", true, &f), ERR_OK);
    assert_int_equal(zmq_bind(n->pull, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(n->pull, ZMQ_LAST_ENDPOINT, n->endpoint, &size);
    assert_int_equal(sscanf(n->endpoint, "tcp://127.0.0.1:%hu", &n->port), 1);
    assert_int_equal(gate_keep(n->gate, 1, &f), ERR_OK);
    if (known)
        assert_int_equal(gate_know(n->gate, 1, &from), ERR_OK);
}

static void close_node(struct node *n)
{
    gate_close(n->gate);
    zmq_close(n->pull);
    zmq_ctx_term(n->context);
}

static void *open_peer(const struct node *n)
{
    void *push = zmq_socket(n->context, ZMQ_PUSH);
    struct fault f = {0};
    zmq_msg_t m;
    int none = 0, patience = PATIENCE_MS;

    zmq_setsockopt(push, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(n->pull, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(run_key_apply(&n->key, push, n->endpoint, false, &f),
                     ERR_OK);
    assert_int_equal(zmq_connect(push, n->endpoint), 0);
    assert_int_equal(zmq_send(push, "x", 1, 0), 1);
    zmq_msg_init(&m);
    assert_int_equal(zmq_msg_recv(&m, n->pull, 0), 1);
    gate_heard(n->gate, &m);
    zmq_msg_close(&m);
    return push;
}

/* A connection from 127.0.0.@last; -1: it is not there after @ms. */
static int knock(const struct node *n, uint32_t last, int ms)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(n->port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}},
                       from = {.sin_family = AF_INET,
                               .sin_addr = {htonl(0x7f000000 + last)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd item = {.fd = fd, .events = POLLOUT};

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ||
        (errno == EINPROGRESS && poll(&item, 1, ms) == 1))
        return fd;
    close(fd);
    return -1;
}

static bool gets_in(const struct node *n, uint32_t last)
{
    int fd = knock(n, last, DROPPED_MS);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The gate's thread follows within some time. */
static bool comes_to(const struct node *n, uint32_t last, bool in)
{
    time_ns end = clock_monotonic() + PATIENCE_MS * INT64_C(1000000);

    while (clock_monotonic() < end) {
        if (gets_in(n, last) == in)
            return true;
        poll(NULL, 0, 10);
    }
    return false;
}

/* While the peer is in nobody else gets in; when it has gone, one does. */
static void gate_keeps_strangers_out_while_the_peer_is_in(void **state)
{
    struct node n;
    void *peer;

    (void)state;
    open_node(&n, true);
    assert_true(gets_in(&n, 1));
    peer = open_peer(&n);
    assert_true(comes_to(&n, 1, false));
    assert_false(gets_in(&n, 2));
    zmq_close(peer);
    assert_true(comes_to(&n, 1, true));
    zmq_close(open_peer(&n));
    close_node(&n);
}

/* Strangers hold as many connections as they may: those who come from elsewhere
 * than peers are dropped, the peer is not. */
static void gate_lets_the_known_in_while_strangers_crowd(void **state)
{
    int held[STRANGERS], n_held = 0;
    struct node n;

    (void)state;
    open_node(&n, true);
    while (n_held < GATE_STRANGERS_MAX + 1)
        held[n_held++] = knock(&n, 1, PATIENCE_MS);
    assert_true(comes_to(&n, 1, false));
    assert_true(gets_in(&n, 2));
    while (n_held > 0)
        close(held[--n_held]);
    assert_true(comes_to(&n, 1, true));
    close_node(&n);
}

/* How many of @held were cut. */
static int count_cut(int n, const int held[])
{
    char byte[64];
    int cut = 0;

    for (int i = 0; i < n; i++) {
        ssize_t got;

        do
            got = recv(held[i], byte, sizeof(byte), MSG_DONTWAIT);
        while (got > 0); /* its greeting */
        cut += got == 0 || errno != EAGAIN;
    }
    return cut;
}

/* Before peers are known a crowd is let in, all but some are cut, and the peer
 * gets in all the same. */
static void gate_bounds_a_crowd_before_peers_are_known(void **state)
{
    static int held[CROWD];
    time_ns end = clock_monotonic() + PATIENCE_MS * INT64_C(1000000);
    struct node n;
    void *peer;

    (void)state;
    open_node(&n, false);
    for (int i = 0; i < CROWD; i++) {
        struct pollfd item = {.events = POLLIN};

        item.fd = held[i] = knock(&n, 1, PATIENCE_MS);
        assert_int_equal(poll(&item, 1, PATIENCE_MS), 1); /* its greeting */
    }
    while (count_cut(CROWD, held) < CROWD - GATE_STRANGERS_MAX - 1 &&
           clock_monotonic() < end)
        poll(NULL, 0, 5);
    assert_int_equal(count_cut(CROWD, held), CROWD - GATE_STRANGERS_MAX - 1);
    peer = open_peer(&n);
    assert_true(comes_to(&n, 1, false));
    zmq_close(peer);
    for (int i = 0; i < CROWD; i++)
        close(held[i]);
    close_node(&n);
}

/* A socket that never has a gate kept. */
static void gate_that_is_not_kept_is_closed(void **state)
{
    void *context = zmq_ctx_new(), *pull = zmq_socket(context, ZMQ_PULL);
    struct gate_keeper *k;
    struct fault f = {0};

    (void)state;
    assert_int_equal(gate_open(context, pull, &k, &f), ERR_OK);
    assert_int_equal(zmq_bind(pull, "tcp://127.0.0.1:*"), 0);
    gate_close(k);
    gate_close(NULL);
    zmq_close(pull);
    zmq_ctx_term(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_is_shut_while_all_peers_are_in),
        cmocka_unit_test(gate_goes_to_when_strangers_crowd),
        cmocka_unit_test(gate_cuts_who_came_first),
        cmocka_unit_test(gate_keeps_strangers_out_while_the_peer_is_in),
        cmocka_unit_test(gate_lets_the_known_in_while_strangers_crowd),
        cmocka_unit_test(gate_bounds_a_crowd_before_peers_are_known),
        cmocka_unit_test(gate_that_is_not_kept_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
