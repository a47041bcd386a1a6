/* Benchmarks of the parameter server, each beside the same loop on plain
 * arrays: clocks, dense updates, rows at random. Between nodes: ps_nodes.c. */
#include "ps/server/ps.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"
#include "ps/rows/rule.h"
#include "tests/bench/bench.h"
#include "tests/bench/ps_nodes.h"

#include <stdio.h>
#include <string.h>

enum {
    CLOCKS = 2000,       /* a round, empty or dense */
    VISITS = 512 * 1024, /* rows a round, at random */
    BATCH = 16,
    WIDTH_MAX = 64
};

static struct mlt_ps *new_ps(unsigned workers, const char *model,
                             struct mlt_table_options table)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err;
    struct mlt_ps *ps;
    mlt_table index;
    int ok;

    table.size = sizeof(table);
    table.name = "rows";
    opt.workers = workers;
    opt.consistency = model;
    opt.learning_rate = 1e-3;
    opt.memory_limit = (uint64_t)1 << 30;
    ok = mlt_ps_new(&opt, &ps, &err) == 0 &&
         mlt_ps_table(ps, &table, &index, &err) == 0 &&
         mlt_ps_start(ps, &err) == 0;
    bench_must(ok, err.text);
    return ps;
}

/* Wall or processor seconds of one run of @work; the latter, over all threads,
 * say what it costs on a machine that others use too. */
static double time_run(struct mlt_ps *ps, mlt_work *work, void *arg,
                       time_ns (*clock_now)(void))
{
    time_ns start = clock_now();

    bench_must(mlt_ps_run(ps, work, arg) == 0, "run");
    return (double)(clock_now() - start) * 1e-9;
}

/* ---- clocks -------------------------------------------------------------- */

static int empty_clocks(struct mlt_worker *w, void *arg)
{
    int err = 0;

    (void)arg;
    for (int i = 0; i < CLOCKS && !err; i++)
        err = mlt_clock(w);
    return err;
}

static void bench_clocks(unsigned workers, const char *model)
{
    struct mlt_table_options table = {.rows = 8, .width = 8};
    struct mlt_ps *ps = new_ps(workers, model, table);
    struct bench_series ns = {.n = 0};
    char params[64];

    time_run(ps, empty_clocks, NULL, clock_monotonic);
    for (size_t r = 0; r < bench_rounds(); r++)
        bench_add(&ns, time_run(ps, empty_clocks, NULL, clock_monotonic) * 1e9 /
                           CLOCKS);
    snprintf(params, sizeof(params), "workers=%u consistency=%s", workers,
             model);
    bench_print("ps_clock", params, &ns, "ns");
    mlt_ps_free(ps);
}

/* ---- dense updates ------------------------------------------------------- */

struct dense {
    uint32_t rows, width;
    const float *gradient; /* [rows * width] */
};

/* Every row gets a gradient in every clock, as in a linear model. */
static int dense_clocks(struct mlt_worker *w, void *arg)
{
    const struct dense *d = arg;
    int err = 0;

    for (int i = 0; i < CLOCKS && !err; i++) {
        for (uint32_t row = 0; row < d->rows; row++) {
            float *sum = mlt_update_row(w, 0, row);
            const float *g = d->gradient + (size_t)row * d->width;

            for (uint32_t j = 0; j < d->width; j++)
                sum[j] += g[j];
        }
        err = mlt_clock(w);
    }
    return err;
}

/* The update on arrays: buffer, sum, velocity, weights. */
static void plain_dense_clocks(const struct dense *d, float *sum, float *v,
                               float *weights)
{
    size_t n = (size_t)d->rows * d->width;

    for (int i = 0; i < CLOCKS; i++) {
        memset(sum, 0, n * sizeof(*sum));
        for (uint32_t row = 0; row < d->rows; row++)
            for (uint32_t j = 0; j < d->width; j++)
                sum[row * d->width + j] += d->gradient[row * d->width + j];
        for (size_t k = 0; k < n; k++) {
            v[k] = 0.0f * v[k] + sum[k];
            weights[k] -= 1e-3f * v[k];
        }
        bench_keep(weights);
    }
}

static void bench_dense(unsigned workers, uint32_t rows, uint32_t width)
{
    struct mlt_table_options table = {.rows = rows, .width = width};
    struct mlt_ps *ps = new_ps(workers, "bsp", table);
    size_t n = (size_t)rows * width;
    float *arrays = mem_calloc(4 * n, sizeof(*arrays));
    struct dense d = {rows, width, arrays};
    struct bench_series ours = {.n = 0}, theirs = {.n = 0};
    double work = (double)CLOCKS * rows * 1e-6;
    char params[64];

    bench_must(arrays != NULL, "allocate");
    for (size_t r = 0; r < bench_rounds(); r++) {
        time_ns start = bench_cpu();

        plain_dense_clocks(&d, arrays + n, arrays + 2 * n, arrays + 3 * n);
        bench_add(&theirs, work / ((double)(bench_cpu() - start) * 1e-9));
        bench_add(&ours,
                  work * workers / time_run(ps, dense_clocks, &d, bench_cpu));
    }
    snprintf(params, sizeof(params), "rows=%u width=%u workers=%u", rows, width,
             workers);
    bench_print("ps_dense", params, &ours, "million_rows/cpu_s");
    bench_print_ratio("ps_dense", params, "plain_one_thread", &ours, &theirs,
                      0);
    mem_free(arrays);
    mlt_ps_free(ps);
}

/* ---- rows at random ------------------------------------------------------ */

struct visits {
    uint32_t width;
    const uint64_t *row; /* [VISITS] */
    float *plain;        /* [rows * stride] */
    uint32_t stride;     /* floats */
    const struct rule_ops *rule;
};

/* Stand-in for an application's computing: a step towards 1. */
KERNEL static void make_gradients(size_t n, uint32_t width,
                                  const void *const row[], float *out)
{
    for (size_t i = 0; i < n; i++) {
        const float *restrict w = row[i];
        float *restrict g = out + i * width;

        for (uint32_t j = 0; j < width; j++)
            g[j] = w[j] - 1;
    }
}

/* Reads and updates rows in batches, each asked for one batch ahead. */
static int visit_rows(struct mlt_worker *w, void *arg)
{
    const struct visits *v = arg;
    const void *row[2][BATCH];
    float gradient[BATCH * WIDTH_MAX];
    int err = mlt_get_rows(w, 0, BATCH, v->row, row[0]);

    for (size_t at = 0, k = 0; at < VISITS && !err; at += BATCH, k = !k) {
        if (at + BATCH < VISITS)
            err = mlt_get_rows(w, 0, BATCH, v->row + at + BATCH, row[!k]);
        make_gradients(BATCH, v->width, row[k], gradient);
        mlt_inc_rows(w, 0, BATCH, v->row + at, gradient);
    }
    return err ? err : mlt_clock(w);
}

static void find_plain(const struct visits *v, size_t at, void *row[])
{
    for (size_t i = 0; i < BATCH; i++) {
        char *p = (char *)(v->plain + v->row[at + i] * v->stride);

        row[i] = p;
        for (uint32_t byte = 0; byte < v->stride * 4; byte += 64)
            __builtin_prefetch(p + byte);
    }
}

static void visit_plain_rows(const struct visits *v)
{
    void *row[2][BATCH];
    const void *sum[BATCH];
    float gradient[BATCH * WIDTH_MAX];
    struct rule_batch b = {BATCH,
                           NULL,
                           sum,
                           v->width,
                           MLT_F32,
                           v->rule->slots(MLT_NO_MOMENTUM),
                           {1e-3f, 0, 0, 0, 0, 0},
                           NULL};

    for (size_t i = 0; i < BATCH; i++)
        sum[i] = gradient + i * v->width;
    find_plain(v, 0, row[0]);
    for (size_t at = 0, k = 0; at < VISITS; at += BATCH, k = !k) {
        if (at + BATCH < VISITS)
            find_plain(v, at + BATCH, row[!k]);
        make_gradients(BATCH, v->width, (const void *const *)row[k], gradient);
        b.row = row[k];
        v->rule->apply(&b);
    }
}

static void fill_visits(uint64_t *row, uint64_t rows)
{
    struct rng rng;

    rng_init(&rng, 1);
    for (size_t i = 0; i < VISITS; i++)
        row[i] = rng_below(&rng, rows);
}

static void bench_visits(const char *rule, uint64_t rows)
{
    struct mlt_table_options table = {.rows = rows,
                                      .width = 32,
                                      .access = MLT_EXCLUSIVE,
                                      .rule = rule,
                                      .flags = MLT_NO_MOMENTUM};
    struct mlt_ps *ps = new_ps(1, "bsp", table);
    uint64_t *row = mem_calloc(VISITS, sizeof(*row));
    struct visits v = {.width = 32, .row = row, .rule = rule_find(rule)};
    struct bench_series ours = {.n = 0}, theirs = {.n = 0};
    char params[64];

    v.stride = v.width * (1 + v.rule->slots(MLT_NO_MOMENTUM));
    v.plain = mem_calloc(rows * v.stride, sizeof(*v.plain));
    bench_must(row && v.plain, "allocate");
    fill_visits(row, rows);
    visit_plain_rows(&v);
    time_run(ps, visit_rows, &v, bench_cpu);
    for (size_t r = 0; r < bench_rounds(); r++) {
        time_ns start = bench_cpu();

        visit_plain_rows(&v);
        bench_add(&theirs, VISITS * 1e3 / (double)(bench_cpu() - start));
        bench_add(&ours,
                  VISITS * 1e-6 / time_run(ps, visit_rows, &v, bench_cpu));
    }
    snprintf(params, sizeof(params), "rule=%s width=32 rows=%llu", rule,
             (unsigned long long)rows);
    bench_print("ps_rows", params, &ours, "million_rows/cpu_s");
    bench_print_ratio("ps_rows", params, "plain", &ours, &theirs, 0);
    mem_free(v.plain);
    mem_free(row);
    mlt_ps_free(ps);
}

static void bench_one_process(void)
{
    static const char *const models[] = {"bsp", "ssp", "async"};

    for (unsigned workers = 1; workers <= 2; workers++)
        for (int m = 0; m < 3; m++)
            bench_clocks(workers, models[m]);
    for (unsigned workers = 1; workers <= 2; workers++) {
        bench_dense(workers, 785, 10);
        bench_dense(workers, 10, 785);
        bench_dense(workers, 1024, 256);
    }
    for (uint64_t rows = 4000; rows <= 1000000; rows *= 16) {
        bench_visits("sgd", rows);
        bench_visits("adagrad", rows);
    }
}

/* With the argument "nodes" or "process", that half alone. */
int main(int argc, char **argv)
{
    const char *half = argc > 1 ? argv[1] : "";

    if (strcmp(half, "nodes") != 0)
        bench_one_process();
    if (strcmp(half, "process") != 0)
        bench_ps_nodes();
    return 0;
}
