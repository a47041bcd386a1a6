/* Two nodes of a parameter server with somebody between them who repeats,
 * shortens and forges what it hears, or a network that breaks connections: real
 * frames, on real sockets. */
#include "base/log.h"
#include "ps/nodes/frame.h"
#include "ps/server/ps.h"

#include <zmq.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/rows_whole.h"

enum {
    ROWS = 64,
    WIDTH = 4,
    CLOCKS = 30,
    NODES = 2,
    BREAK_BYTES = 3000 /* about three clocks */
};

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

struct node {
    char folder[64];
    unsigned number;
    bool places, tcp;
    int code;
    struct mlt_error error;
    float weights[ROWS * WIDTH]; /* its part */
    pthread_t thread;
};

/* ---- the nodes ----------------------------------------------------------- */

/* Sums added depend on what was read. */
static int work(struct mlt_worker *w, void *arg)
{
    unsigned self = mlt_worker_index(w);
    float gradient[WIDTH];
    int err = 0;

    (void)arg;
    for (int k = 0; k < CLOCKS && !err; k++) {
        for (uint64_t row = self; row < ROWS; row += 1 + self) {
            const float *x = mlt_get_row(w, 0, row);

            if (!x)
                return 1;
            for (int j = 0; j < WIDTH; j++)
                gradient[j] = 0.5F * x[j] - (float)(row + self) - (float)j;
            mlt_inc_row(w, 0, row, gradient);
        }
        err = mlt_clock(w);
    }
    return err;
}

static void keep_weights(struct node *n, struct mlt_ps *ps)
{
    double x[WIDTH];

    for (uint64_t row = 0; row < ROWS; row++)
        if (rows_read_whole(ps, 0, "weights", row, 1, x) == ERR_OK)
            for (uint64_t j = 0; j < WIDTH; j++)
                n->weights[row * WIDTH + j] = (float)x[j];
}

/* Node 0 touches a row more often than node 1. */
static int expect(struct node *n, struct mlt_ps *ps)
{
    const uint64_t row = 5;

    return mlt_ps_expect(ps, 0, n->number, 0,
                         n->number == 0 ? MLT_READS | MLT_UPDATES : MLT_READS,
                         1, &row);
}

static void *node_main(void *arg)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "weights",
                                      .rows = ROWS,
                                      .width = WIDTH,
                                      .chunk_bytes = 256};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps = NULL;
    struct node *n = arg;
    mlt_table index;

    opt.workers = 1;
    opt.memory_limit = 64 << 20;
    opt.learning_rate = 0.1;
    opt.nodes = NODES;
    opt.node = n->number;
    opt.meet = n->folder;
    opt.access = n->places ? "place" : NULL;
    opt.listen = n->tcp ? "tcp://127.0.0.1:*" : NULL;
    opt.ring_bytes = -1; /* past whoever is between them */
    n->code = mlt_ps_new(&opt, &ps, &n->error);
    if (!n->code)
        n->code = mlt_ps_table(ps, &table, &index, &n->error);
    if (!n->code && n->places)
        n->code = expect(n, ps);
    if (!n->code)
        n->code = mlt_ps_start(ps, &n->error);
    if (!n->code)
        n->code = mlt_ps_run(ps, work, n);
    if (!n->code)
        keep_weights(n, ps);
    mlt_ps_free(ps);
    return NULL;
}

static void start_node(struct node *n)
{
    assert_int_equal(pthread_create(&n->thread, NULL, node_main, n), 0);
}

/* ---- who is between them ------------------------------------------------- */

struct relay {
    void *context, *pull, *push;
    unsigned char *first; /* the first frame that came */
    size_t first_bytes;
    unsigned frames, forged;
    bool lies; /* of what node 1 touches, and does nothing else */
    _Atomic int stop;
    pthread_t thread;
};

static void send_bytes(struct relay *r, const void *bytes, size_t n)
{
    if (zmq_send(r->push, bytes, n, 0) != (int)n)
        abort();
    r->forged++;
}

/* A frame that came goes on as it is; then, with it: again, an older one again,
 * cut off, of another run, of nobody, longer than it says, rubbish. */
static void pass_on(struct relay *r, unsigned char *bytes, size_t n)
{
    if (!r->first) {
        r->first = malloc(n);
        memcpy(r->first, bytes, n);
        r->first_bytes = n;
    }
    r->frames++;
    send_bytes(r, bytes, n);
    send_bytes(r, bytes, n);
    send_bytes(r, r->first, r->first_bytes);
    send_bytes(r, bytes, n / 2);
    send_bytes(r, bytes, n - 1);
    send_bytes(r, "rubbish", 7);
    bytes[16] ^= 1;
    send_bytes(r, bytes, n);
    bytes[16] ^= 1;
    bytes[12] = 77;
    send_bytes(r, bytes, n);
}

/* The last record's count is the frame's end. */
static void pass_on_a_lie(struct relay *r, unsigned char *bytes, size_t n)
{
    if (bytes[5] == FRAME_EXPECT)
        bytes[n - 4] = 100;
    send_bytes(r, bytes, n);
}

static void *relay_main(void *arg)
{
    struct relay *r = arg;

    while (!r->stop) {
        zmq_pollitem_t item = {.socket = r->pull, .events = ZMQ_POLLIN};
        zmq_msg_t m;

        if (zmq_poll(&item, 1, 10) <= 0)
            continue;
        zmq_msg_init(&m);
        if (zmq_msg_recv(&m, r->pull, ZMQ_DONTWAIT) < 0)
            ;
        else if (r->lies)
            pass_on_a_lie(r, zmq_msg_data(&m), zmq_msg_size(&m));
        else
            pass_on(r, zmq_msg_data(&m), zmq_msg_size(&m));
        zmq_msg_close(&m);
    }
    return NULL;
}

/* Waits for node 0's file, says where it listens, and puts @mine into it. */
static void take_place(const char *folder, const char *mine, char real[256])
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[96], tmp[104];
    unsigned long long number;
    FILE *f;

    snprintf(path, sizeof(path), "%s/node-0", folder);
    snprintf(tmp, sizeof(tmp), "%s.relay", path);
    while (!(f = fopen(path, "r")))
        nanosleep(&pause, NULL);
    assert_int_equal(fscanf(f, "%255s %llx", real, &number), 2);
    fclose(f);
    f = fopen(tmp, "w");
    fprintf(f, "%s %016llx\n", mine, number);
    fclose(f);
    assert_int_equal(rename(tmp, path), 0);
}

static void start_relay(struct relay *r, const char *folder)
{
    char real[256], mine[256];
    size_t size = sizeof(mine);
    int none = 0;

    r->context = zmq_ctx_new();
    r->pull = zmq_socket(r->context, ZMQ_PULL);
    r->push = zmq_socket(r->context, ZMQ_PUSH);
    zmq_setsockopt(r->push, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(r->push, ZMQ_SNDHWM, &none, sizeof(none));
    assert_int_equal(zmq_bind(r->pull, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(r->pull, ZMQ_LAST_ENDPOINT, mine, &size);
    take_place(folder, mine, real);
    assert_int_equal(zmq_connect(r->push, real), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, relay_main, r), 0);
}

static void stop_relay(struct relay *r)
{
    r->stop = 1;
    pthread_join(r->thread, NULL);
    zmq_close(r->pull);
    zmq_close(r->push);
    zmq_ctx_term(r->context);
    free(r->first);
}

/* ---- a network that breaks connections ----------------------------------- */

/* Bytes between node 1 and node 0; once so many have passed the connection is
 * reset, at both ends or at node 1's alone, whose old one at node 0 then stays
 * and says nothing. */
struct network {
    int listener, from, to;
    struct sockaddr_in real;
    bool one_side;
    unsigned breaks_left, broken;
    size_t passed;
    int left[8]; /* ends that stay */
    unsigned n_left;
    _Atomic int stop;
    pthread_t thread;
};

static void reset(int *fd)
{
    const struct linger at_once = {.l_onoff = 1};

    if (*fd < 0)
        return;
    setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(*fd);
    *fd = -1;
}

static void break_connection(struct network *w)
{
    w->breaks_left--;
    w->broken++;
    w->passed = 0;
    reset(&w->from);
    if (w->one_side && w->n_left < 8) {
        w->left[w->n_left++] = w->to;
        w->to = -1;
    }
    reset(&w->to);
}

/* A try that is dropped is made again. */
static int reach(const struct network *w)
{
    struct pollfd item = {.events = POLLOUT};

    while (!w->stop) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        item.fd = fd;
        if (connect(fd, (const struct sockaddr *)&w->real, sizeof(w->real)) ==
                0 ||
            (poll(&item, 1, 200) == 1 && !(item.revents & POLLERR)))
            return fd;
        close(fd);
    }
    return -1;
}

/* False: the connection has ended. */
static bool pass_bytes(int from, int to, size_t *passed)
{
    char bytes[512];
    ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN;
    for (ssize_t at = 0, sent; at < n; at += sent) {
        struct pollfd item = {.fd = to, .events = POLLOUT};

        poll(&item, 1, 1000);
        sent = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent < 0)
            return false;
    }
    *passed += (size_t)n;
    return n > 0;
}

static void *network_main(void *arg)
{
    struct network *w = arg;
    size_t back = 0;

    while (!w->stop) {
        struct pollfd item[] = {{.fd = w->from, .events = POLLIN},
                                {.fd = w->to, .events = POLLIN}};
        struct pollfd knocks = {.fd = w->listener, .events = POLLIN};

        if (w->from < 0) {
            if (poll(&knocks, 1, 10) == 1 && (w->to = reach(w)) >= 0)
                w->from = accept(w->listener, NULL, NULL);
            continue;
        }
        poll(item, 2, 10);
        if (!pass_bytes(w->from, w->to, &w->passed) ||
            !pass_bytes(w->to, w->from, &back)) {
            reset(&w->from);
            reset(&w->to);
        } else if (w->passed >= BREAK_BYTES && w->breaks_left) {
            break_connection(w);
        }
    }
    return NULL;
}

static void start_network(struct network *w, const char *folder)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    char mine[64], real[256];
    unsigned short port;

    w->from = w->to = -1;
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(w->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(w->listener, 8), 0);
    getsockname(w->listener, (struct sockaddr *)&at, &size);
    snprintf(mine, sizeof(mine), "tcp://127.0.0.1:%hu", ntohs(at.sin_port));
    take_place(folder, mine, real);
    assert_int_equal(sscanf(real, "tcp://127.0.0.1:%hu", &port), 1);
    w->real = at;
    w->real.sin_port = htons(port);
    assert_int_equal(pthread_create(&w->thread, NULL, network_main, w), 0);
}

static void stop_network(struct network *w)
{
    w->stop = 1;
    pthread_join(w->thread, NULL);
    reset(&w->from);
    reset(&w->to);
    while (w->n_left)
        close(w->left[--w->n_left]);
    close(w->listener);
}

/* ---- the log ------------------------------------------------------------- */

static _Atomic int malformed, foreign, replayed, others;

static void count_lines(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (!strstr(line, "frame_ignored "))
        return;
    if (strstr(line, "kind=malformed"))
        malformed++;
    else if (strstr(line, "kind=foreign"))
        foreign++;
    else if (strstr(line, "kind=replayed"))
        replayed++;
    else
        others++;
}

/* ---- tests --------------------------------------------------------------- */

/* Runs both nodes; with a relay or a network on the way from node 1 to node 0.
 */
static void run_nodes(struct node n[NODES], struct relay *relay,
                      struct network *network)
{
    char folder[64] = "/tmp/mltune-replay-XXXXXX";

    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < NODES; i++) {
        n[i] = (struct node){.number = i,
                             .places = relay && relay->lies,
                             .tcp = network != NULL};
        snprintf(n[i].folder, sizeof(n[i].folder), "%s", folder);
    }
    start_node(&n[0]);
    if (relay)
        start_relay(relay, folder);
    if (network)
        start_network(network, folder);
    start_node(&n[1]);
    for (unsigned i = 0; i < NODES; i++)
        pthread_join(n[i].thread, NULL);
    if (relay)
        stop_relay(relay);
    if (network)
        stop_network(network);
    assert_int_equal(rmdir(folder), 0);
}

static void expect_success(const struct node n[NODES])
{
    for (unsigned i = 0; i < NODES; i++)
        if (n[i].code)
            fail_msg("node %u: %s (%s)", i, mlt_error_text(n[i].code),
                     n[i].error.text);
}

/* Frames that were heard on the way and come again, cut off, of another run or
 * of nobody, after each that is real: the result is the same to the last bit,
 * and of each kind one line is in the log. */
static void comm_replayed_frames_change_nothing(void **state)
{
    static struct node alone[NODES], disturbed[NODES];
    struct relay relay = {0};

    (void)state;
    run_nodes(alone, NULL, NULL);
    expect_success(alone);
    log_set_sink(count_lines, NULL);
    run_nodes(disturbed, &relay, NULL);
    log_set_sink(NULL, NULL);
    expect_success(disturbed);
    assert_true(relay.frames > CLOCKS);
    for (unsigned i = 0; i < NODES; i++)
        assert_memory_equal(alone[i].weights, disturbed[i].weights,
                            sizeof(alone[i].weights));
    assert_int_equal(malformed, 1);
    assert_int_equal(foreign, 1);
    assert_int_equal(replayed, 1);
    assert_int_equal(others, 0);
}

/* Nodes that come to place rows differently do not start. */
static void comm_places_that_differ_are_refused(void **state)
{
    static struct node n[NODES];
    struct relay relay = {.lies = true};
    bool told = false;

    (void)state;
    run_nodes(n, &relay, NULL);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(n[i].code, ERR_NODE);
        told |= strstr(n[i].error.text, "place rows differently") != NULL;
    }
    assert_true(told);
}

/* A network that breaks connections changes nothing: what was lost on the way
 * is sent again, and taken once. */
static void expect_the_same(struct network *network, unsigned breaks)
{
    static struct node alone[NODES], disturbed[NODES];

    run_nodes(alone, NULL, NULL);
    expect_success(alone);
    network->breaks_left = breaks;
    setenv("MLTUNE_KEY", KEY, 1);
    run_nodes(disturbed, NULL, network);
    unsetenv("MLTUNE_KEY");
    expect_success(disturbed);
    assert_int_equal(network->broken, breaks);
    for (unsigned i = 0; i < NODES; i++)
        assert_memory_equal(alone[i].weights, disturbed[i].weights,
                            sizeof(alone[i].weights));
}

static void comm_goes_on_where_connections_break(void **state)
{
    struct network network = {0};

    (void)state;
    expect_the_same(&network, 5);
}

/* Node 0 keeps the old connection, and its gate shut, until it misses a sign of
 * life on it. */
static void comm_goes_on_where_one_end_stays(void **state)
{
    struct network network = {.one_side = true};

    (void)state;
    expect_the_same(&network, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_replayed_frames_change_nothing),
        cmocka_unit_test(comm_places_that_differ_are_refused),
        cmocka_unit_test(comm_goes_on_where_connections_break),
        cmocka_unit_test(comm_goes_on_where_one_end_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
