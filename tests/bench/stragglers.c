/* What slow workers cost, with barriers and without: logistic regression by
 * mini-batches on a cluster in virtual time (tests/sim/virtual.h: real shards,
 * caches and frames, one worker a node), as Soori et al., section VI-C, have
 * it.
 *
 *   delay     8 workers, the first one slower by 0, 30, 60, 100 %
 *   pattern   32 workers: 6 slower by 150 to 250 %, 2 by 250 to 1000 %, drawn
 *             by the seed
 *
 * A line says how long the model took to an objective near the least one, as
 * the second worker reads it, and how long workers waited, a clock. SGD and
 * SAGA are under bsp, ASGD and ASAGA under async. On processes:
 * stragglers_nodes.c.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "tests/bench/straggler_model.h"
#include "tests/sim/virtual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = STRAGGLER_COLUMNS,
    WIDTH = STRAGGLER_WIDTH,
    ROWS = STRAGGLER_ROWS,
    WORKERS_MAX = 32,
    CLOCKS_MAX = 600,
    SEEDS = 3
};

static const double work_s = 10e-3;

struct worker {
    double factor;                         /* of its work's time */
    double end_s;                          /* of its last work */
    double weight[COLUMNS], mean[COLUMNS]; /* as it has read them */
    double waited_s;
    unsigned clocks;
};

struct job {
    struct straggler_model model;
    double reached_s; /* < 0: not yet */
    struct worker worker[WORKERS_MAX];
};

/* ---- the program --------------------------------------------------------- */

static size_t plan(void *self, uint32_t worker, int clock,
                   const uint64_t **rows)
{
    static const uint64_t all[2 * ROWS] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct job *j = self;

    (void)worker;
    (void)clock;
    *rows = all;
    if (j->reached_s >= 0)
        return 0; /* what remains of the slice costs nothing */
    return j->model.saga ? 2 * ROWS : ROWS;
}

static void add(struct virtual *v, uint32_t worker, uint64_t first,
                const double by[COLUMNS])
{
    for (uint64_t r = 0; r < ROWS; r++) {
        float row[WIDTH];

        for (int c = 0; c < WIDTH; c++)
            row[c] = (float)by[r * WIDTH + (uint64_t)c];
        virtual_add(v, worker, first + r, row);
    }
}

static void step(struct job *j, struct virtual *v, uint32_t worker, int clock)
{
    const struct worker *k = &j->worker[worker];
    double by[COLUMNS], mean[COLUMNS];

    straggler_step(&j->model, worker, clock, k->weight, k->mean, by, mean);
    add(v, worker, 0, by);
    if (j->model.saga)
        add(v, worker, ROWS, mean);
}

static double visit(void *self, struct virtual *v, uint32_t worker, int clock,
                    size_t i, const void *values)
{
    struct job *j = self;
    struct worker *k = &j->worker[worker];
    double *to = i < ROWS ? k->weight : k->mean;
    const float *from = values;

    for (size_t c = 0; c < WIDTH; c++)
        to[i % ROWS * WIDTH + c] = (double)from[c];
    if (i + 1 < (j->model.saga ? 2 * ROWS : ROWS))
        return 0;
    if (worker == 1 && j->reached_s < 0 &&
        straggler_objective(&j->model, k->weight, NULL) <= j->model.target)
        j->reached_s = virtual_now(v);
    if (k->clocks++ > 0)
        k->waited_s += virtual_now(v) - k->end_s;
    k->end_s = virtual_now(v) + work_s * k->factor;
    step(j, v, worker, clock);
    return work_s * k->factor;
}

/* ---- measuring ----------------------------------------------------------- */

struct outcome {
    double time_s, wait_s; /* to the target; a clock and worker */
};

static struct outcome train(struct job *j, const char *consistency)
{
    struct virtual_options o = {
        .nodes = j->model.workers,
        .workers = 1,
        .consistency = consistency,
        .rule = "add",
        .rows = 2 * ROWS,
        .width = WIDTH,
        .type = MLT_F32,
        .latency_s = 100e-6,
        .bytes_s = 125e6, /* 1 Gb/s */
        .slow = 1,
        .prefetch = true,
        .program = {j, plan, visit},
    };
    struct virtual *v = virtual_new(&o);
    const float zero[WIDTH] = {0};
    struct outcome out = {0};
    unsigned clocks = 0;

    j->reached_s = -1;
    memset(j->model.slope, 0, sizeof(j->model.slope));
    for (unsigned w = 0; w < j->model.workers; w++)
        j->worker[w] = (struct worker){.factor = j->worker[w].factor};
    for (uint64_t r = 0; r < 2 * ROWS; r++)
        virtual_init_row(v, r, zero);
    virtual_run(v, CLOCKS_MAX);
    for (unsigned w = 0; w < j->model.workers; w++) {
        out.wait_s += j->worker[w].waited_s;
        clocks += j->worker[w].clocks;
    }
    out.wait_s /= clocks;
    out.time_s = j->reached_s >= 0 ? j->reached_s : (double)INFINITY;
    virtual_free(v);
    return out;
}

static void compare(struct job *j, const char *name, const char *what)
{
    for (int saga = 0; saga < 2; saga++) {
        struct outcome sync, async;

        j->model.saga = saga;
        sync = train(j, "bsp");
        async = train(j, "async");
        printf("stragglers %s workers=%u solver=%s %s bsp=%.2f s async=%.2f s "
               "bsp_wait=%.2f ms async_wait=%.2f ms speedup %.2f ratio\n",
               what, j->model.workers, saga ? "saga" : "sgd", name, sync.time_s,
               async.time_s, 1e3 * sync.wait_s, 1e3 * async.wait_s,
               sync.time_s / async.time_s);
    }
}

static void delays(struct job *j)
{
    static const double delay[] = {0, 0.3, 0.6, 1};
    char name[32];

    j->model.workers = 8;
    for (size_t i = 0; i < sizeof(delay) / sizeof(*delay); i++) {
        for (unsigned w = 0; w < j->model.workers; w++)
            j->worker[w].factor = w == 0 ? 1 + delay[i] : 1;
        snprintf(name, sizeof(name), "delay=%.1f", delay[i]);
        compare(j, name, "delay");
    }
}

static void pattern(struct job *j)
{
    char name[32];

    j->model.workers = 32;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rng rng;

        rng_init(&rng, seed);
        for (unsigned w = 0; w < j->model.workers; w++) {
            double u = rng_uniform(&rng);

            j->worker[w].factor = w >= 4 && w < 10    ? 2.5 + u
                                  : w >= 10 && w < 12 ? 3.5 + 7.5 * u
                                                      : 1;
        }
        snprintf(name, sizeof(name), "seed=%u", (unsigned)seed);
        compare(j, name, "pattern");
    }
}

int main(void)
{
    struct job *j = mem_calloc(1, sizeof(*j));
    const char *rate = getenv("RATE");

    if (!j)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    j->model.rate = rate ? atof(rate) : 0.4;
    straggler_init(&j->model);
    delays(j);
    pattern(j);
    mem_free(j);
    return 0;
}
