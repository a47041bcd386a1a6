/* Checkpoints: what writing one costs the training that goes on, and that what
 * is restored, on one, two and four nodes, is the state of its clock to the
 * bit.
 *
 * Two nodes, threads of this process with a server each, of a worker each; all
 * their state but a row is exclusive rows with a velocity, CHECKPOINT_MIB MiB
 * (1,024 by default) together. Rounds of as many clocks with a checkpoint and
 * without alternate.
 */
#include "base/clock_io.h"
#include "base/crc32c.h"
#include "mltune/ps.h"
#include "tests/bench/bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WRITERS = 2,
    NODES_MAX = 4,
    WIDTH = 512,
    ROW_BYTES = 2 * WIDTH * 4, /* values, velocities */
    STEP_ROWS = 2048,          /* a worker and clock */
    ROUND_S = 4,
    EVERY_S = 300, /* snapshot.every, if not said */
    PATH_BYTES = 256
};

static uint64_t rows;
static uint32_t *want, *got; /* [rows] checksum of each */
static char folder[64];
static pthread_barrier_t meeting;

/* Measured by node 0. */
static struct bench_series loss_wall, loss_cpu, write_s, restore_s[NODES_MAX];

struct node {
    unsigned number, nodes;
    void (*program)(struct node *n, struct mlt_ps *ps);
    char meet[64];
    uint32_t *crc;
    int clocks;
    uint64_t random;
};

enum { PARAMETERS, SHARED };

/* ---- work ---------------------------------------------------------------- */

static int train(struct mlt_worker *w, void *arg)
{
    static _Thread_local float gradient[WIDTH];
    struct node *n = arg;
    uint64_t first = rows * n->number / n->nodes;
    uint64_t count = rows * (n->number + 1) / n->nodes - first;
    float one = 1;
    int err = 0;

    for (int i = 0; i < WIDTH; i++)
        gradient[i] = (float)(i % 7) - 3;
    for (int c = 0; c < n->clocks && !err; c++) {
        for (int i = 0; i < STEP_ROWS; i++) {
            n->random = n->random * 6364136223846793005u + 1442695040888963407u;
            mlt_inc_row(w, PARAMETERS, first + (n->random >> 33) % count,
                        gradient);
        }
        mlt_inc_row(w, SHARED, 0, &one);
        err = mlt_clock(w);
    }
    return err;
}

static int sum_rows(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    uint64_t first = rows * n->number / n->nodes;
    uint64_t end = rows * (n->number + 1) / n->nodes;

    if (mlt_row_bytes(w, PARAMETERS) != ROW_BYTES)
        return 1;
    for (uint64_t r = first; r < end; r++)
        n->crc[r] = crc32c(0, mlt_get_row(w, PARAMETERS, r), ROW_BYTES);
    return 0;
}

/* ---- nodes --------------------------------------------------------------- */

static void *node_main(void *arg)
{
    struct node *n = arg;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options t = {.size = sizeof(t),
                                  .name = "parameters",
                                  .rows = rows,
                                  .width = WIDTH,
                                  .access = MLT_EXCLUSIVE};
    struct mlt_table_options one = {
        .size = sizeof(one), .name = "shared", .rows = 1, .width = 1};
    struct mlt_ps *ps = NULL;
    struct mlt_error e = {0};
    mlt_table table;
    int err;

    opt.workers = 1;
    opt.nodes = n->nodes;
    opt.node = n->number;
    opt.meet = n->meet;
    opt.momentum = 0.9;
    opt.memory_limit = 4 * rows * ROW_BYTES / n->nodes + (64 << 20);
    err = mlt_ps_new(&opt, &ps, &e);
    if (!err)
        err = mlt_ps_table(ps, &t, &table, &e);
    if (!err)
        err = mlt_ps_table(ps, &one, &table, &e);
    if (!err)
        err = mlt_ps_start(ps, &e);
    bench_must(!err, e.text);
    n->program(n, ps);
    mlt_ps_free(ps);
    return NULL;
}

static void run_nodes(unsigned nodes, uint32_t crc[],
                      void (*program)(struct node *n, struct mlt_ps *ps))
{
    struct node node[NODES_MAX];
    pthread_t thread[NODES_MAX];
    char meet[64] = "/tmp/mltune-bench-XXXXXX";

    bench_must(mkdtemp(meet) != NULL, "make a folder");
    pthread_barrier_init(&meeting, NULL, nodes);
    for (unsigned i = 0; i < nodes; i++) {
        node[i] = (struct node){
            .number = i, .nodes = nodes, .program = program, .crc = crc};
        memcpy(node[i].meet, meet, sizeof(meet));
        bench_must(!pthread_create(&thread[i], NULL, node_main, &node[i]),
                   "start a thread");
    }
    for (unsigned i = 0; i < nodes; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&meeting);
    rmdir(meet);
}

/* ---- writing ------------------------------------------------------------- */

static double now_s(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void remove_checkpoint(const struct node *n)
{
    char command[PATH_BYTES];

    pthread_barrier_wait(&meeting);
    if (n->number == 0) {
        for (unsigned i = 0; i < WRITERS; i++) {
            snprintf(command, sizeof(command), "%s/c/node-%u/shard-%u", folder,
                     i, i);
            unlink(command);
            snprintf(command, sizeof(command), "%s/c/node-%u/manifest.json",
                     folder, i);
            unlink(command);
            snprintf(command, sizeof(command), "%s/c/node-%u", folder, i);
            rmdir(command);
        }
        snprintf(command, sizeof(command), "%s/c/manifest.json", folder);
        unlink(command);
        snprintf(command, sizeof(command), "%s/c", folder);
        rmdir(command);
    }
    pthread_barrier_wait(&meeting);
}

/* Wall and processor seconds of a round, the same for all nodes. */
static void one_round(struct node *n, struct mlt_ps *ps, int checkpoint,
                      double out[3])
{
    char path[PATH_BYTES];
    struct mlt_error e;
    double wall, cpu;

    snprintf(path, sizeof(path), "%s/c", folder);
    pthread_barrier_wait(&meeting);
    wall = now_s(CLOCK_MONOTONIC);
    cpu = now_s(CLOCK_PROCESS_CPUTIME_ID);
    pthread_barrier_wait(&meeting);
    if (checkpoint)
        bench_must(!mlt_ps_checkpoint(ps, path, &e), "checkpoint");
    bench_must(!mlt_ps_run(ps, train, n), "train");
    pthread_barrier_wait(&meeting);
    out[0] = now_s(CLOCK_MONOTONIC) - wall;
    if (checkpoint)
        bench_must(!mlt_ps_checkpoint_end(ps, &e), "write a checkpoint");
    pthread_barrier_wait(&meeting);
    out[1] = now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    out[2] = now_s(CLOCK_MONOTONIC) - wall;
}

static void measure_round(struct node *n, struct mlt_ps *ps)
{
    double gib = (double)rows * ROW_BYTES / (1 << 30), without[3], with[3];

    one_round(n, ps, 0, without);
    one_round(n, ps, 1, with);
    if (n->number != 0)
        return;
    bench_add(&loss_wall, (with[0] - without[0]) / gib);
    bench_add(&loss_cpu, (with[1] - without[1]) / gib);
    bench_add(&write_s, with[2]);
}

static int clocks; /* of a round, found by node 0 */

static void find_clocks(struct node *n, struct mlt_ps *ps)
{
    double t[3];

    n->clocks = 20;
    one_round(n, ps, 0, t); /* touches memory */
    one_round(n, ps, 0, t);
    if (n->number == 0)
        clocks = 20 * (int)(1 + ROUND_S / t[0]);
    pthread_barrier_wait(&meeting);
    n->clocks = clocks;
}

static void write_program(struct node *n, struct mlt_ps *ps)
{
    char path[PATH_BYTES];
    struct mlt_error e;

    find_clocks(n, ps);
    for (size_t i = 0; i < bench_rounds(); i++) {
        if (i > 0)
            remove_checkpoint(n);
        measure_round(n, ps);
    }
    remove_checkpoint(n);
    /* One more: what is restored is of the clock before training went on. */
    bench_must(!mlt_ps_run(ps, sum_rows, n), "sum");
    snprintf(path, sizeof(path), "%s/c", folder);
    bench_must(!mlt_ps_checkpoint(ps, path, &e), "checkpoint");
    bench_must(!mlt_ps_run(ps, train, n), "train");
    bench_must(!mlt_ps_checkpoint_end(ps, &e), "write a checkpoint");
}

/* ---- restoring ----------------------------------------------------------- */

static void restore_program(struct node *n, struct mlt_ps *ps)
{
    char path[PATH_BYTES];
    struct mlt_error e;
    uint32_t branch;
    double begin;

    snprintf(path, sizeof(path), "%s/c", folder);
    pthread_barrier_wait(&meeting);
    begin = now_s(CLOCK_MONOTONIC);
    if (mlt_ps_restore(ps, path, &branch, &e))
        bench_must(0, e.text);
    pthread_barrier_wait(&meeting);
    if (n->number == 0)
        bench_add(&restore_s[n->nodes - 1], now_s(CLOCK_MONOTONIC) - begin);
    bench_must(!mlt_ps_switch(ps, branch), "switch");
    bench_must(!mlt_ps_run(ps, sum_rows, n), "sum");
}

static void print(const char *what, unsigned nodes,
                  const struct bench_series *s, const char *unit)
{
    char params[128];

    snprintf(params, sizeof(params), "what=%s mib=%llu nodes=%u", what,
             (unsigned long long)(rows * ROW_BYTES >> 20), nodes);
    bench_print("checkpoint", params, s, unit);
}

int main(void)
{
    const char *mib = getenv("CHECKPOINT_MIB");
    static const unsigned onto[] = {1, 2, 4};
    struct bench_series percent = {.n = 0};
    struct node cleaner = {.number = 0};

    rows = (mib ? strtoull(mib, NULL, 10) : 1024) * (1 << 20) / ROW_BYTES;
    rows -= rows % (64 * NODES_MAX); /* whole chunks: alike in all parts */
    if (bench_available_bytes() < 5 * rows * ROW_BYTES) {
        bench_skip("checkpoint", "", "needs five times the state in memory");
        return 0;
    }
    want = calloc(rows, sizeof(*want));
    got = calloc(rows, sizeof(*got));
    strcpy(folder, "/tmp/mltune-checkpoint-XXXXXX");
    bench_must(want && got && mkdtemp(folder), "memory and a folder");
    run_nodes(WRITERS, want, write_program);
    print("loss_wall", WRITERS, &loss_wall, "s/GiB");
    print("loss_cpu", WRITERS, &loss_cpu, "s/GiB");
    print("round_and_write", WRITERS, &write_s, "s");
    for (size_t i = 0; i < loss_wall.n; i++)
        bench_add(&percent, 100 * loss_wall.value[i] *
                                ((double)rows * ROW_BYTES / (1 << 30)) /
                                EVERY_S);
    print("loss_at_5_min", WRITERS, &percent, "percent");
    for (size_t i = 0; i < sizeof(onto) / sizeof(*onto); i++) {
        memset(got, 0, rows * sizeof(*got));
        run_nodes(onto[i], got, restore_program);
        bench_must(memcmp(want, got, rows * sizeof(*got)) == 0,
                   "the same bits as when it was written");
        print("restore_same_bits", onto[i], &restore_s[onto[i] - 1], "s");
    }
    pthread_barrier_init(&meeting, NULL, 1);
    remove_checkpoint(&cleaner);
    rmdir(folder);
    free(want);
    free(got);
    return 0;
}
