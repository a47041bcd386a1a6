/* Two nodes of a parameter server with somebody between them who repeats,
 * shortens and forges what it hears: real frames, on real sockets. */
#include "base/log.h"
#include "ps/nodes/frame.h"
#include "ps/server/ps.h"

#include <zmq.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/rows_whole.h"

enum { ROWS = 64, WIDTH = 4, CLOCKS = 30, NODES = 2, FRAMES_MAX = 4096 };

struct node {
    char folder[64];
    unsigned number;
    bool places;
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

/* Waits for node 0's file and puts itself into it. */
static void start_relay(struct relay *r, const char *folder)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    char path[96], tmp[104], real[256], mine[256];
    size_t size = sizeof(mine);
    unsigned long long number;
    int none = 0;
    FILE *f;

    r->context = zmq_ctx_new();
    r->pull = zmq_socket(r->context, ZMQ_PULL);
    r->push = zmq_socket(r->context, ZMQ_PUSH);
    zmq_setsockopt(r->push, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(r->push, ZMQ_SNDHWM, &none, sizeof(none));
    assert_int_equal(zmq_bind(r->pull, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(r->pull, ZMQ_LAST_ENDPOINT, mine, &size);
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

/* Runs both nodes; with a relay on the way from node 1 to node 0. */
static void run_nodes(struct node n[NODES], struct relay *relay)
{
    char folder[64] = "/tmp/mltune-replay-XXXXXX";

    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < NODES; i++) {
        n[i] = (struct node){.number = i, .places = relay && relay->lies};
        snprintf(n[i].folder, sizeof(n[i].folder), "%s", folder);
    }
    start_node(&n[0]);
    if (relay)
        start_relay(relay, folder);
    start_node(&n[1]);
    for (unsigned i = 0; i < NODES; i++)
        pthread_join(n[i].thread, NULL);
    if (relay)
        stop_relay(relay);
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
    run_nodes(alone, NULL);
    expect_success(alone);
    log_set_sink(count_lines, NULL);
    run_nodes(disturbed, &relay);
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
    run_nodes(n, &relay);
    for (unsigned i = 0; i < NODES; i++) {
        assert_int_equal(n[i].code, ERR_NODE);
        told |= strstr(n[i].error.text, "place rows differently") != NULL;
    }
    assert_true(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_replayed_frames_change_nothing),
        cmocka_unit_test(comm_places_that_differ_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
