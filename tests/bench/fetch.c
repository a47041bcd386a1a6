/* Fetching rows in bulk and ahead beside one by one: sparse logistic regression
 * (one weight a row) over 2 and 4 node processes, one worker each, under ssp
 * with staleness 0, so that each pass fetches all that it touches anew.
 *
 *   fetch   seconds a pass, a clock: of "one", each row asked for when it is
 *           needed; of "bulk", all at once; of "ahead", all begun before the
 *           first sample, in batches that are waited for when their samples
 *           come. Of these two the first pass, which lists the rows, is told
 *           by itself; bytes of all nodes a pass beside what the
 *           rows of others that it touches, 4 bytes a value and 4 a number,
 * take when they are read and added to once each
 */
#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/server/ps.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NODES_MAX = 4,
    COLUMNS = 40000,
    SAMPLES = 1000, /* of a worker */
    ENTRIES = 40,   /* of a sample */
    PASSES = 6,     /* the last ones are measured together */
    ROW_BYTES = 8,
    PARTS = MLT_GETS_MAX
};

enum how { ONE, BULK, AHEAD };

struct outcome {
    double pass_s[PASSES];
    double bytes; /* that a node sent in the last pass */
    double bound; /* what it had to send */
};

struct node {
    unsigned index, nodes;
    enum how how;
    struct mlt_ps *ps;
    uint32_t column[SAMPLES][ENTRIES];
    float value[SAMPLES][ENTRIES], label[SAMPLES];
    uint64_t *rows; /* [count] that the worker touches, ascending, or in the
                     * order of the parts of its samples that need them first */
    size_t count, part_end[PARTS];
    float *weight, *sum; /* [COLUMNS] */
    double pass_s;
};

/* ---- the data ------------------------------------------------------------ */

static void draw(struct node *n)
{
    struct rng rng;

    rng_init(&rng, 1 + n->index);
    for (int i = 0; i < SAMPLES; i++) {
        n->label[i] = rng_uniform(&rng) < 0.5 ? 1 : -1;
        for (int e = 0; e < ENTRIES; e++) {
            /* Words are rarer the larger their number is. */
            double u = rng_uniform(&rng);

            n->column[i][e] = (uint32_t)(u * u * COLUMNS);
            n->value[i][e] = (float)rng_uniform(&rng);
        }
    }
}

/* Rows of samples @first .. @end - 1 that are not listed yet. */
static void list_part(struct node *n, unsigned char *has, int first, int end)
{
    for (int i = first; i < end; i++)
        for (int e = 0; e < ENTRIES; e++)
            if (!has[n->column[i][e]])
                has[n->column[i][e]] = 1;
    for (uint32_t c = 0; c < COLUMNS; c++)
        if (has[c] == 1) {
            n->rows[n->count++] = c;
            has[c] = 2;
        }
}

static void list_rows(struct node *n)
{
    unsigned char *has = mem_calloc(COLUMNS, 1);
    int parts = n->how == AHEAD ? PARTS : 1;

    bench_must(has != NULL, "memory");
    for (int p = 0; p < parts; p++) {
        list_part(n, has, SAMPLES * p / parts, SAMPLES * (p + 1) / parts);
        n->part_end[p] = n->count;
    }
    mem_free(has);
}

/* ---- a pass -------------------------------------------------------------- */

static void take_rows(struct node *n, size_t from, size_t end,
                      const void *const at[])
{
    for (size_t i = from; i < end; i++)
        n->weight[n->rows[i]] = *(const float *)at[i - from];
}

static int fetch_all(struct node *n, struct mlt_worker *w, const void *at[])
{
    int err = mlt_get_rows(w, 0, n->count, n->rows, at);

    if (!err)
        take_rows(n, 0, n->count, at);
    return err;
}

static size_t part_from(const struct node *n, int part)
{
    return part ? n->part_end[part - 1] : 0;
}

static int begin_all(const struct node *n, struct mlt_worker *w,
                     uint64_t batch[])
{
    int err = 0;

    for (int p = 0; p < PARTS && !err; p++)
        err = mlt_get_rows_begin(w, 0, n->part_end[p] - part_from(n, p),
                                 n->rows + part_from(n, p), &batch[p]);
    return err;
}

static int fetch_part(struct node *n, struct mlt_worker *w, int part,
                      uint64_t batch, const void *at[])
{
    int err = mlt_get_rows_wait(w, batch, at);

    if (!err)
        take_rows(n, part_from(n, part), n->part_end[part], at);
    return err;
}

static int add_sample(struct node *n, struct mlt_worker *w, int i)
{
    float z = 0, d;

    for (int e = 0; e < ENTRIES; e++) {
        const float *row =
            n->how != ONE ? NULL : mlt_get_row(w, 0, n->column[i][e]);

        if (n->how == ONE && !row)
            return 1;
        z += (row ? *row : n->weight[n->column[i][e]]) * n->value[i][e];
    }
    d = -n->label[i] / (1 + expf(n->label[i] * z)) /
        (float)(SAMPLES * n->nodes);
    for (int e = 0; e < ENTRIES; e++)
        n->sum[n->column[i][e]] -= d * n->value[i][e];
    return 0;
}

static int add_samples(struct node *n, struct mlt_worker *w, const void *at[])
{
    uint64_t batch[PARTS];
    int err = 0;

    if (n->how != ONE && n->count == 0)
        list_rows(n);
    if (n->how == BULK)
        err = fetch_all(n, w, at);
    if (n->how == AHEAD)
        err = begin_all(n, w, batch);
    for (int p = 0; p < PARTS && !err; p++) {
        if (n->how == AHEAD)
            err = fetch_part(n, w, p, batch[p], at);
        for (int i = SAMPLES * p / PARTS; i < SAMPLES * (p + 1) / PARTS && !err;
             i++)
            err = add_sample(n, w, i);
    }
    return err;
}

static int pass(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    const void **at = mem_calloc(COLUMNS, sizeof(*at));
    time_ns since = clock_monotonic();
    int err = at ? add_samples(n, w, at) : 1;

    for (uint32_t c = 0; c < COLUMNS && !err; c++) {
        if (n->sum[c] != 0)
            mlt_inc_row(w, 0, c, &n->sum[c]);
        n->sum[c] = 0;
    }
    if (!err)
        err = mlt_clock(w);
    n->pass_s = (double)(clock_monotonic() - since) * 1e-9;
    mem_free(at);
    return err;
}

static void open_node(struct node *n, const char *folder)
{
    const struct mlt_table_options table = {.size = sizeof(table),
                                            .name = "weights",
                                            .rows = COLUMNS,
                                            .width = 1,
                                            .rule = "add"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err;
    mlt_table index;
    int ok;

    opt.workers = 1;
    opt.consistency = "ssp";
    opt.memory_limit = (uint64_t)1 << 28;
    opt.nodes = n->nodes;
    opt.node = n->index;
    opt.meet = folder;
    opt.access = n->how == ONE ? "off" : "gather";
    ok = mlt_ps_new(&opt, &n->ps, &err) == 0 &&
         mlt_ps_table(n->ps, &table, &index, &err) == 0 &&
         mlt_ps_start(n->ps, &err) == 0;
    bench_must(ok, err.text);
}

/* Bytes of what this node has to send: sums of others' rows, and values of its
 * own that another node asks for, which come to as many over all nodes. */
static double bound_of(struct node *n)
{
    uint64_t first, own;
    size_t others = 0;

    if (n->count == 0)
        list_rows(n);
    mlt_owned_rows(n->ps, 0, n->index, &first, &own);
    for (size_t i = 0; i < n->count; i++)
        others += n->rows[i] - first >= own;
    return 2.0 * ROW_BYTES * (double)others;
}

static void run_node(struct node *n, const char *folder, struct outcome *out)
{
    struct ps_traffic before = {0}, after = {0};

    n->rows = mem_calloc(COLUMNS, sizeof(*n->rows));
    n->weight = mem_calloc(COLUMNS, sizeof(*n->weight));
    n->sum = mem_calloc(COLUMNS, sizeof(*n->sum));
    bench_must(n->rows && n->weight && n->sum, "memory");
    draw(n);
    open_node(n, folder);
    for (int i = 0; i < PASSES; i++) {
        ps_traffic(n->ps, &before);
        bench_must(mlt_ps_run(n->ps, pass, n) == 0, "run");
        out->pass_s[i] = n->pass_s;
    }
    ps_traffic(n->ps, &after);
    out->bytes = (double)(after.bytes_sent - before.bytes_sent);
    out->bound = bound_of(n);
    mlt_ps_free(n->ps);
}

/* ---- all nodes ----------------------------------------------------------- */

/* The slowest node's passes; bytes of all. */
static struct outcome measure(unsigned nodes, enum how how,
                              struct outcome shared[])
{
    static struct node n;
    struct outcome all = {.bytes = 0};
    char folder[] = "/tmp/mltune-bench-XXXXXX";

    bench_must(mkdtemp(folder) != NULL, "folder");
    for (unsigned i = 0; i < nodes; i++) {
        pid_t pid = fork();

        bench_must(pid >= 0, "fork");
        if (pid > 0)
            continue;
        n = (struct node){.index = i, .nodes = nodes, .how = how};
        run_node(&n, folder, &shared[i]);
        _exit(0);
    }
    for (unsigned i = 0; i < nodes; i++) {
        int status;

        bench_must(wait(&status) > 0 && status == 0, "a node failed");
    }
    for (unsigned i = 0; i < nodes; i++) {
        for (int k = 0; k < PASSES; k++)
            all.pass_s[k] = fmax(all.pass_s[k], shared[i].pass_s[k]);
        all.bytes += shared[i].bytes;
        all.bound += shared[i].bound;
    }
    rmdir(folder);
    return all;
}

static void later(struct bench_series *s, const struct outcome *o)
{
    for (int k = 1; k < PASSES; k++)
        bench_add(s, o->pass_s[k]);
}

static void print_listed(unsigned nodes, const char *how,
                         const struct outcome *o,
                         const struct bench_series *ones)
{
    struct bench_series listed = {.n = 0}, *s = &listed;
    char params[160];

    later(s, o);
    snprintf(params, sizeof(params),
             "nodes=%u how=%s first=%.4fs bytes=%.0f of_bound=%.2f", nodes, how,
             o->pass_s[0], o->bytes, o->bytes / o->bound);
    bench_print("fetch", params, s, "s");
    snprintf(params, sizeof(params), "nodes=%u how=%s", nodes, how);
    bench_print_ratio("fetch", params, "one", s, ones, 1);
}

static void compare(unsigned nodes, struct outcome shared[])
{
    struct outcome one = measure(nodes, ONE, shared),
                   bulk = measure(nodes, BULK, shared),
                   ahead = measure(nodes, AHEAD, shared);
    struct bench_series ones = {.n = 0};
    char params[160];

    later(&ones, &one);
    snprintf(params, sizeof(params),
             "nodes=%u how=one bytes=%.0f of_bound=%.2f", nodes, one.bytes,
             one.bytes / one.bound);
    bench_print("fetch", params, &ones, "s");
    print_listed(nodes, "bulk", &bulk, &ones);
    print_listed(nodes, "ahead", &ahead, &ones);
}

int main(void)
{
    struct outcome *shared =
        mmap(NULL, NODES_MAX * sizeof(*shared), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    bench_must(shared != MAP_FAILED, "memory");
    setvbuf(stdout, NULL, _IOLBF, 0);
    compare(2, shared);
    compare(4, shared);
    return 0;
}
