/* What slow workers cost on four node processes of this machine, one worker
 * each: the training of stragglers.c, whose work is a pause here, longer for
 * the first worker by 0, 30, 60, 100 %.
 *
 * A line says how long the model took to an objective near the least one, as
 * the second worker reads it, and how long workers waited, a clock: medians of
 * some runs (BENCH_ROUNDS). SGD and SAGA are under bsp, ASGD and ASAGA under
 * async.
 */
#include "base/clock_io.h"
#include "mltune/ps.h"
#include "tests/bench/bench.h"
#include "tests/bench/straggler_model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    COLUMNS = STRAGGLER_COLUMNS,
    WIDTH = STRAGGLER_WIDTH,
    ROWS = STRAGGLER_ROWS,
    NODES = 4,
    JUDGE = 1, /* the worker that looks whether the target is reached */
    CLOCKS_MAX = 600
};

static const double work_s = 10e-3;

/* Memory that all processes see. */
struct common {
    struct straggler_model model; /* each writes slopes of its own samples */
    double factor[NODES];         /* of a worker's work's time */
    _Atomic double reached_s;     /* < 0: not yet */
    double waited_s[NODES];
    unsigned clocks[NODES];
};

/* A worker's, in its process. */
struct worker {
    struct common *common;
    unsigned index;
    double weight[COLUMNS], mean[COLUMNS];
};

static double now_s(void)
{
    return (double)clock_monotonic() * 1e-9;
}

static void pause_until(double end_s)
{
    double left = end_s - now_s();
    struct timespec t;

    if (left <= 0)
        return;
    t.tv_sec = (time_t)left;
    t.tv_nsec = (long)((left - floor(left)) * 1e9);
    nanosleep(&t, NULL);
}

/* ---- a worker ------------------------------------------------------------ */

static int read_rows(struct mlt_worker *w, uint64_t first, double to[COLUMNS])
{
    for (uint64_t r = 0; r < ROWS; r++) {
        const float *row = mlt_get_row(w, 0, first + r);

        if (!row)
            return 1;
        for (uint64_t c = 0; c < WIDTH; c++)
            to[r * WIDTH + c] = (double)row[c];
    }
    return 0;
}

static void add_rows(struct mlt_worker *w, uint64_t first,
                     const double by[COLUMNS])
{
    for (uint64_t r = 0; r < ROWS; r++) {
        float row[WIDTH];

        for (uint64_t c = 0; c < WIDTH; c++)
            row[c] = (float)by[r * WIDTH + c];
        mlt_inc_row(w, 0, first + r, row);
    }
}

/* Work that began at @since_s. */
static void compute(struct worker *k, struct mlt_worker *w, int clock,
                    double since_s)
{
    struct straggler_model *m = &k->common->model;
    double by[COLUMNS], mean[COLUMNS];

    straggler_step(m, k->index, clock, k->weight, k->mean, by, mean);
    pause_until(since_s + work_s * k->common->factor[k->index]);
    add_rows(w, 0, by);
    if (m->saga)
        add_rows(w, ROWS, mean);
}

static bool is_reached(const struct worker *k)
{
    return atomic_load(&k->common->reached_s) >= 0;
}

static int train(struct mlt_worker *w, void *arg)
{
    struct worker *k = arg;
    struct common *c = k->common;
    double start_s = now_s(), end_s = start_s;
    int err = 0;

    /* What remains once the target is reached costs nothing: under bsp all end
     * the same clocks. */
    for (int clock = 0; clock < CLOCKS_MAX && !err; clock++) {
        if (!is_reached(k)) {
            double since_s;

            if (read_rows(w, 0, k->weight) ||
                (c->model.saga && read_rows(w, ROWS, k->mean)))
                return 1;
            since_s = now_s();
            c->waited_s[k->index] += clock > 0 ? since_s - end_s : 0;
            c->clocks[k->index]++;
            if (k->index == JUDGE &&
                straggler_objective(&c->model, k->weight, NULL) <=
                    c->model.target)
                atomic_store(&c->reached_s, since_s - start_s);
            compute(k, w, clock, since_s);
            end_s = now_s();
        }
        err = mlt_clock(w);
    }
    return err;
}

static void run_node(struct common *c, unsigned node, const char *consistency,
                     const char *folder)
{
    const struct mlt_table_options table = {.size = sizeof(table),
                                            .name = "weights",
                                            .rows = 2 * ROWS,
                                            .width = WIDTH,
                                            .rule = "add"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct worker k = {.common = c, .index = node};
    struct mlt_error err;
    struct mlt_ps *ps;
    mlt_table index;
    int ok;

    opt.workers = 1;
    opt.consistency = consistency;
    opt.memory_limit = (uint64_t)1 << 28;
    opt.nodes = NODES;
    opt.node = node;
    opt.meet = folder;
    ok = mlt_ps_new(&opt, &ps, &err) == 0 &&
         mlt_ps_table(ps, &table, &index, &err) == 0 &&
         mlt_ps_start(ps, &err) == 0;
    bench_must(ok, err.text);
    bench_must(mlt_ps_run(ps, train, &k) == 0, "run");
    mlt_ps_free(ps);
}

/* ---- measuring ----------------------------------------------------------- */

struct outcome {
    double time_s, wait_s; /* to the target; a clock and worker */
};

static struct outcome measure(struct common *c, const char *consistency)
{
    char folder[] = "/tmp/stragglers-XXXXXX";
    struct outcome out = {.time_s = (double)INFINITY};
    unsigned clocks = 0;
    pid_t pid[NODES];

    bench_must(mkdtemp(folder) != NULL, "folder");
    memset(c->model.slope, 0, sizeof(c->model.slope));
    memset(c->waited_s, 0, sizeof(c->waited_s));
    memset(c->clocks, 0, sizeof(c->clocks));
    atomic_store(&c->reached_s, -1);
    for (unsigned n = 0; n < NODES; n++) {
        pid[n] = fork();
        bench_must(pid[n] >= 0, "fork");
        if (pid[n] == 0) {
            run_node(c, n, consistency, folder);
            _exit(0);
        }
    }
    for (unsigned n = 0; n < NODES; n++) {
        int status;

        bench_must(waitpid(pid[n], &status, 0) == pid[n] && status == 0,
                   "a node");
        out.wait_s += c->waited_s[n];
        clocks += c->clocks[n];
    }
    rmdir(folder);
    out.wait_s /= clocks;
    if (atomic_load(&c->reached_s) >= 0)
        out.time_s = atomic_load(&c->reached_s);
    return out;
}

static void compare(struct common *c, double delay)
{
    struct bench_series time[2] = {{.n = 0}}, wait[2] = {{.n = 0}};
    char params[160];

    c->factor[0] = 1 + delay;
    for (size_t i = 0; i < bench_rounds(); i++)
        for (int async = 0; async < 2; async++) {
            struct outcome o = measure(c, async ? "async" : "bsp");

            bench_add(&time[async], o.time_s);
            bench_add(&wait[async], 1e3 * o.wait_s);
        }
    snprintf(params, sizeof(params),
             "nodes=%d solver=%s delay=%.1f bsp=%.2fs async=%.2fs "
             "bsp_wait=%.2fms async_wait=%.2fms",
             NODES, c->model.saga ? "saga" : "sgd", delay,
             bench_median(&time[0]), bench_median(&time[1]),
             bench_median(&wait[0]), bench_median(&wait[1]));
    bench_print_ratio("stragglers_nodes", params, "bsp", &time[1], &time[0], 1);
}

int main(void)
{
    static const double delay[] = {0, 0.3, 0.6, 1};
    struct common *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    bench_must(c != MAP_FAILED, "memory");
    setvbuf(stdout, NULL, _IOLBF, 0);
    straggler_init(&c->model);
    c->model.workers = NODES;
    c->model.rate = 0.4;
    for (unsigned n = 0; n < NODES; n++)
        c->factor[n] = 1;
    for (int saga = 0; saga < 2; saga++)
        for (size_t i = 0; i < sizeof(delay) / sizeof(*delay); i++) {
            c->model.saga = saga;
            compare(c, delay[i]);
        }
    return 0;
}
