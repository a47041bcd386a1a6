/* The parameter server between node processes, each measurement beside bare
 * ZeroMQ sockets and a bare ring between the same two processes, round by
 * round. */
#include "tests/bench/ps_nodes.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "mltune/ps.h"
#include "ps/wire/ring.h"
#include "tests/bench/bench.h"

#include <zmq.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 20,
    BLOCKS = 32,       /* of a node, read or updated in a clock */
    DENSE_CLOCKS = 16, /* a round */
    ROW_BYTES = 64,
    ROWS = 1 << 16, /* of a node, updated in a clock */
    ROW_CLOCKS = 16,
    READS = 2000,  /* a round */
    CLOCKS = 2000, /* a round, of a tiny model */
    RING_BYTES = 1 << 20,
    SERVER = 0, /* the node that has the rows, and measures */
    CLIENT = 1
};

/* Memory that both processes see. */
struct common {
    pthread_barrier_t start;
    char endpoint[256]; /* of the peer's socket */
    double read_s;      /* measured by the client */
    double clock_s;
    struct ring_shared ring; /* from the client to the server */
    unsigned char bytes[RING_BYTES];
};

struct side {
    struct common *common;
    unsigned node, nodes;
    const char *transport; /* "ring", "ipc" or "tcp" */
    char folder[64];
    struct mlt_ps *ps;
    void *context, *socket;
    unsigned char *block;
};

static void wait_both(const struct side *s)
{
    pthread_barrier_wait(&s->common->start);
}

/* ---- bare ZeroMQ --------------------------------------------------------- */

static void open_peer(struct side *s, int server_kind, int client_kind)
{
    char endpoint[sizeof(s->common->endpoint)];
    size_t size = sizeof(endpoint);
    int none = 0;

    s->context = zmq_ctx_new();
    s->socket =
        zmq_socket(s->context, s->node == SERVER ? server_kind : client_kind);
    zmq_setsockopt(s->socket, ZMQ_SNDHWM, &none, sizeof(none));
    zmq_setsockopt(s->socket, ZMQ_RCVHWM, &none, sizeof(none));
    if (strcmp(s->transport, "tcp") == 0)
        snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:*");
    else
        snprintf(endpoint, sizeof(endpoint), "ipc://%s/peer", s->folder);
    if (s->node == SERVER) {
        bench_must(zmq_bind(s->socket, endpoint) == 0, "bind");
        zmq_getsockopt(s->socket, ZMQ_LAST_ENDPOINT, s->common->endpoint,
                       &size);
    }
    wait_both(s);
    if (s->node == CLIENT)
        bench_must(zmq_connect(s->socket, s->common->endpoint) == 0, "connect");
}

static void close_peer(struct side *s)
{
    char path[sizeof(s->folder) + 8];

    zmq_close(s->socket);
    zmq_ctx_term(s->context);
    snprintf(path, sizeof(path), "%s/peer", s->folder);
    if (s->node == SERVER)
        unlink(path);
}

static void leave_block(void *bytes, void *hint)
{
    (void)bytes, (void)hint;
}

/* As fast as the sockets can: nothing is copied, nothing is looked at. */
static double stream_blocks(struct side *s, int n)
{
    time_ns start;

    wait_both(s);
    start = clock_monotonic();
    for (int i = 0; i < n; i++) {
        zmq_msg_t m;

        zmq_msg_init(&m);
        if (s->node == CLIENT) {
            zmq_msg_init_data(&m, s->block, BLOCK_BYTES, leave_block, NULL);
            bench_must(zmq_msg_send(&m, s->socket, 0) == BLOCK_BYTES, "send");
        } else {
            bench_must(zmq_msg_recv(&m, s->socket, 0) == BLOCK_BYTES,
                       "receive");
            zmq_msg_close(&m);
        }
    }
    return (double)(clock_monotonic() - start) * 1e-9;
}

/* From an array into an array. */
static double copy_blocks(struct side *s, int n)
{
    time_ns start;

    wait_both(s);
    start = clock_monotonic();
    for (int i = 0; i < n; i++)
        bench_must((s->node == CLIENT
                        ? zmq_send(s->socket, s->block, BLOCK_BYTES, 0)
                        : zmq_recv(s->socket, s->block, BLOCK_BYTES, 0)) ==
                       BLOCK_BYTES,
                   "send");
    return (double)(clock_monotonic() - start) * 1e-9;
}

/* The same through a ring; who has to wait lets others have its processor. */
static double ring_blocks(struct side *s, int n)
{
    struct ring_shared *shared = &s->common->ring;
    const size_t all = (size_t)n * BLOCK_BYTES;
    struct ring r;
    time_ns start;

    wait_both(s);
    if (s->node == SERVER)
        memset(shared, 0, sizeof(*shared));
    ring_init(&r, shared, s->common->bytes, RING_BYTES);
    wait_both(s);
    start = clock_monotonic();
    for (size_t at = 0; at < all;) {
        size_t in = at % BLOCK_BYTES, left = BLOCK_BYTES - in;
        size_t moved = s->node == CLIENT ? ring_write(&r, s->block + in, left)
                                         : ring_read(&r, s->block + in, left);

        at += moved;
        if (!moved)
            sched_yield();
    }
    return (double)(clock_monotonic() - start) * 1e-9;
}

static double ping_pong(struct side *s, int n)
{
    char row[ROW_BYTES] = {0};
    time_ns start;

    wait_both(s);
    start = clock_monotonic();
    for (int i = 0; i < n; i++) {
        if (s->node == CLIENT)
            zmq_send(s->socket, row, ROW_BYTES, 0);
        bench_must(zmq_recv(s->socket, row, ROW_BYTES, 0) == ROW_BYTES,
                   "receive");
        if (s->node == SERVER)
            zmq_send(s->socket, row, ROW_BYTES, 0);
    }
    return (double)(clock_monotonic() - start) * 1e-9;
}

/* ---- the parameter server ------------------------------------------------ */

static void open_ps(struct side *s, const char *model, uint64_t rows,
                    uint32_t width)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = rows,
                                      .width = width,
                                      .rule = "add"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err;
    mlt_table index;
    int ok;

    opt.workers = 1;
    opt.consistency = model;
    opt.memory_limit = (uint64_t)1 << 30;
    opt.nodes = s->nodes;
    opt.node = s->node;
    opt.meet = s->folder;
    opt.listen = strcmp(s->transport, "tcp") == 0 ? "tcp://127.0.0.1:*" : NULL;
    opt.ring_bytes = strcmp(s->transport, "ring") == 0 ? 0 : -1;
    opt.access = "off"; /* rows are read one by one: none is foreseen */
    ok = mlt_ps_new(&opt, &s->ps, &err) == 0 &&
         mlt_ps_table(s->ps, &table, &index, &err) == 0 &&
         mlt_ps_start(s->ps, &err) == 0;
    bench_must(ok, err.text);
}

static double run_ps(struct side *s, mlt_work *work)
{
    time_ns start;

    wait_both(s);
    start = clock_monotonic();
    bench_must(mlt_ps_run(s->ps, work, s) == 0, "run");
    return (double)(clock_monotonic() - start) * 1e-9;
}

/* The server's part of the table is its first half. */
static int push_blocks(struct mlt_worker *w, void *arg)
{
    const struct side *s = arg;
    int err = 0;

    for (int k = 0; k < DENSE_CLOCKS && !err && s->node == CLIENT; k++) {
        for (uint64_t row = 0; row < BLOCKS; row++)
            mlt_inc_row(w, 0, row, s->block);
        err = mlt_clock(w);
    }
    return err;
}

static int pull_blocks(struct mlt_worker *w, void *arg)
{
    const struct side *s = arg;
    const void *out[BLOCKS];
    uint64_t row[BLOCKS];
    int err = 0;

    for (uint64_t i = 0; i < BLOCKS; i++)
        row[i] = i;
    for (int k = 0; k < DENSE_CLOCKS && !err; k++) {
        if (s->node == CLIENT)
            err = mlt_get_rows(w, 0, BLOCKS, row, out);
        if (!err)
            err = mlt_clock(w);
    }
    return err;
}

/* Each node's worker updates the rows of the other. */
static int push_rows(struct mlt_worker *w, void *arg)
{
    const struct side *s = arg;
    uint64_t first = s->node == SERVER ? ROWS : 0;
    int err = 0;

    for (int k = 0; k < ROW_CLOCKS && !err; k++) {
        for (uint64_t i = 0; i < ROWS; i++)
            mlt_inc_row(w, 0, first + i, s->block);
        err = mlt_clock(w);
    }
    return err;
}

static int read_rows(struct mlt_worker *w, void *arg)
{
    const struct side *s = arg;
    time_ns start = clock_monotonic();

    for (uint64_t i = 0; i < READS && s->node == CLIENT; i++)
        if (!mlt_get_row(w, 0, i))
            return 1;
    if (s->node == CLIENT)
        s->common->read_s = (double)(clock_monotonic() - start) * 1e-9;
    return 0;
}

/* A clock in which each worker reads one row and updates it. */
static int tick(struct mlt_worker *w, void *arg)
{
    const struct side *s = arg;
    time_ns start = clock_monotonic();
    int err = 0;

    for (int k = 0; k < CLOCKS && !err; k++) {
        if (!mlt_get_row(w, 0, 0))
            return 1;
        mlt_inc_row(w, 0, 0, s->block);
        err = mlt_clock(w);
    }
    if (s->node == SERVER)
        s->common->clock_s = (double)(clock_monotonic() - start) * 1e-9;
    return err;
}

/* ---- two processes ------------------------------------------------------- */

typedef void measurement(struct side *s);

/* Runs @measure in so many processes; this one is the server. */
static void in_all(const char *transport, unsigned nodes, measurement *measure)
{
    struct side s = {.node = SERVER, .nodes = nodes, .transport = transport};
    pthread_barrierattr_t shared;
    int status;

    s.common = mmap(NULL, sizeof(*s.common), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s.block = mem_aligned(64, BLOCK_BYTES);
    bench_must(s.common != MAP_FAILED && s.block, "allocate");
    memset(s.block, 0, BLOCK_BYTES);
    snprintf(s.folder, sizeof(s.folder), "/tmp/bench-ps-XXXXXX");
    bench_must(mkdtemp(s.folder) != NULL, "make a folder");
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&s.common->start, &shared, nodes);
    for (unsigned i = CLIENT; i < nodes; i++) {
        pid_t pid = fork();

        bench_must(pid >= 0, "fork");
        if (pid == 0) {
            s.node = i;
            measure(&s);
            _exit(0);
        }
    }
    measure(&s);
    for (unsigned i = CLIENT; i < nodes; i++)
        bench_must(wait(&status) > 0 && status == 0, "another node");
    bench_must(rmdir(s.folder) == 0, "remove the folder");
    munmap(s.common, sizeof(*s.common));
    mem_free(s.block);
}

static void in_both(const char *transport, measurement *measure)
{
    in_all(transport, 2, measure);
}

/* Bytes per second, in GB/s, of @work beside blocks streamed and copied. */
static void measure_blocks(struct side *s, const char *op, const char *model,
                           mlt_work *work)
{
    const int blocks = BLOCKS * DENSE_CLOCKS;
    const double bytes = (double)blocks * BLOCK_BYTES;
    struct bench_series ours = {.n = 0}, bare = {.n = 0}, copied = {.n = 0};
    struct bench_series ring = {.n = 0};
    char params[96];

    open_ps(s, model, 2 * (uint64_t)BLOCKS, BLOCK_BYTES / sizeof(float));
    open_peer(s, ZMQ_PULL, ZMQ_PUSH);
    run_ps(s, work);
    stream_blocks(s, blocks);
    for (size_t r = 0; r < bench_rounds(); r++) {
        bench_add(&bare, bytes * 1e-9 / stream_blocks(s, blocks));
        bench_add(&ours, bytes * 1e-9 / run_ps(s, work));
        bench_add(&copied, bytes * 1e-9 / copy_blocks(s, blocks));
        bench_add(&ring, bytes * 1e-9 / ring_blocks(s, blocks));
    }
    snprintf(params, sizeof(params),
             "nodes=2 op=%s transport=%s block_bytes=%d", op, s->transport,
             BLOCK_BYTES);
    if (s->node == SERVER) {
        bench_print("ps_dense", params, &ours, "GB/s");
        bench_print_ratio("ps_dense", params, "zmq", &ours, &bare, 0);
        bench_print_ratio("ps_dense", params, "zmq_copied", &ours, &copied, 0);
        bench_print("ps_dense", params, &ring, "GB/s_ring");
        bench_print_ratio("ps_dense", params, "ring", &ours, &ring, 0);
    }
    close_peer(s);
    mlt_ps_free(s->ps);
}

static void measure_push(struct side *s)
{
    measure_blocks(s, "push", "async", push_blocks);
}

static void measure_pull(struct side *s)
{
    measure_blocks(s, "pull", "ssp", pull_blocks);
}

static void measure_updates(struct side *s, const char *model)
{
    struct bench_series ours = {.n = 0};
    char params[96];

    open_ps(s, model, 2 * (uint64_t)ROWS, ROW_BYTES / sizeof(float));
    run_ps(s, push_rows);
    for (size_t r = 0; r < bench_rounds(); r++)
        bench_add(&ours,
                  (double)ROWS * ROW_CLOCKS * 1e-6 / run_ps(s, push_rows));
    snprintf(params, sizeof(params),
             "nodes=2 op=update transport=%s row_bytes=%d consistency=%s",
             s->transport, ROW_BYTES, model);
    if (s->node == SERVER)
        bench_print("ps_rows", params, &ours, "million_rows/s/node");
    mlt_ps_free(s->ps);
}

static void measure_updates_bsp(struct side *s)
{
    measure_updates(s, "bsp");
}

static void measure_updates_async(struct side *s)
{
    measure_updates(s, "async");
}

static void measure_reads(struct side *s)
{
    struct bench_series ours = {.n = 0}, bare = {.n = 0};
    char params[96];

    open_ps(s, "ssp", 2 * (uint64_t)READS, ROW_BYTES / sizeof(float));
    open_peer(s, ZMQ_DEALER, ZMQ_DEALER);
    run_ps(s, read_rows);
    ping_pong(s, READS);
    for (size_t r = 0; r < bench_rounds(); r++) {
        bench_add(&bare, ping_pong(s, READS) * 1e6 / READS);
        run_ps(s, read_rows);
        bench_add(&ours, s->common->read_s * 1e6 / READS);
    }
    snprintf(params, sizeof(params),
             "nodes=2 op=read transport=%s row_bytes=%d", s->transport,
             ROW_BYTES);
    if (s->node == SERVER) {
        bench_print("ps_rows", params, &bare, "us_zmq");
        bench_print("ps_rows", params, &ours, "us");
        bench_print_ratio("ps_rows", params, "zmq_round_trip", &ours, &bare, 1);
    }
    close_peer(s);
    mlt_ps_free(s->ps);
}

static void measure_clocks(struct side *s)
{
    struct bench_series ours = {.n = 0};
    char params[96];

    open_ps(s, "bsp", s->nodes, ROW_BYTES / sizeof(float));
    run_ps(s, tick);
    for (size_t r = 0; r < bench_rounds(); r++) {
        run_ps(s, tick);
        bench_add(&ours, s->common->clock_s * 1e6 / CLOCKS);
    }
    snprintf(params, sizeof(params),
             "nodes=%u op=clock transport=%s row_bytes=%d consistency=bsp",
             s->nodes, s->transport, ROW_BYTES);
    if (s->node == SERVER)
        bench_print("ps_clock", params, &ours, "us");
    mlt_ps_free(s->ps);
}

void bench_ps_nodes(void)
{
    static const char *const transport[] = {"ring", "ipc", "tcp"};

    for (int i = 0; i < 3; i++) {
        in_all(transport[i], 2, measure_clocks);
        in_all(transport[i], 4, measure_clocks);
        in_both(transport[i], measure_push);
        in_both(transport[i], measure_pull);
        in_both(transport[i], measure_updates_async);
        in_both(transport[i], measure_updates_bsp);
        in_both(transport[i], measure_reads);
    }
}
