/* What a node's process takes for a table of 256 MiB of which each of its four
 * workers touches a tenth of the rows, at random: 1, 2 and 4 nodes, processes
 * of their own on this machine; the high-water mark of the kernel (VmHWM).
 *
 * The bound is what issue 16 asks for: the node's part of the state, and beside
 * it (rows touched) x (width + 8 bytes) x 2 + 64 MiB. */
#include "base/mem.h"
#include "base/rng.h"
#include "mltune/ps.h"
#include "tests/bench/bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TABLE_BYTES ((uint64_t)256 << 20)
#define MIB (1024.0 * 1024.0)

enum { WORKERS = 4, CLOCKS = 3, BATCH = 256, TENTH = 10, NODES_MAX = 4 };

struct work {
    const char *model;
    unsigned nodes, node;
    uint64_t rows, width;
    char *folder;
    /* [NODES_MAX], seen by all processes: what one took; what it had planned
     * beside the table and frames; rows that some worker of it touched. */
    double *taken_mib, *planned_mib;
    uint64_t *touched;
};

/* Whether worker @number touches @row. */
static bool touches(uint64_t row, unsigned number)
{
    return rng_mix(row, number + 1) % TENTH == 0;
}

static int pass(struct mlt_worker *w, const struct work *k, const float *ones)
{
    uint64_t row[BATCH];
    const void *at[BATCH];
    size_t n = 0;
    int err = 0;

    for (uint64_t r = 0; r <= k->rows && !err; r++) {
        if (r < k->rows && touches(r, mlt_worker_index(w)))
            row[n++] = r;
        if (n < BATCH && r < k->rows)
            continue;
        err = mlt_get_rows(w, 0, n, row, at);
        for (size_t i = 0; i < n && !err; i++)
            mlt_inc_row(w, 0, row[i], ones);
        n = 0;
    }
    return err ? err : mlt_clock(w);
}

static int work(struct mlt_worker *w, void *arg)
{
    const struct work *k = arg;
    float *ones = mem_calloc(k->width, sizeof(float));
    int err = 0;

    bench_must(ones != NULL, "allocate");
    for (int c = 0; c < CLOCKS && !err; c++)
        err = pass(w, k, ones);
    mem_free(ones);
    return err;
}

/* In MiB. */
static double high_water(void)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    bench_must(f != NULL, "read /proc/self/status");
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    fclose(f);
    return kib / 1024;
}

static void run_node(struct work *k)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = k->rows,
                                      .width = (uint32_t)k->width,
                                      .rule = "add"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps_memory plan = {.size = sizeof(plan)};
    struct mlt_error err = {0};
    double before = high_water();
    struct mlt_ps *ps;
    mlt_table index;
    int ok;

    opt.workers = WORKERS;
    opt.consistency = k->model;
    opt.memory_limit = (uint64_t)16 << 30;
    opt.nodes = k->nodes;
    opt.node = k->node;
    opt.meet = k->nodes > 1 ? k->folder : NULL;
    ok = mlt_ps_new(&opt, &ps, &err) == 0 &&
         mlt_ps_table(ps, &table, &index, &err) == 0 &&
         mlt_ps_plan(ps, 1.0 / TENTH, &plan) == 0 &&
         mlt_ps_start(ps, &err) == 0;
    bench_must(ok, err.text);
    bench_must(mlt_ps_run(ps, work, k) == 0, "run");
    mlt_ps_free(ps);
    k->taken_mib[k->node] = high_water() - before;
    k->planned_mib[k->node] =
        (double)(plan.updates + plan.caches + plan.sums + plan.access) / MIB;
    k->touched[k->node] = 0;
    for (uint64_t r = 0; r < k->rows; r++)
        for (unsigned i = 0; i < WORKERS; i++)
            if (touches(r, k->node * WORKERS + i)) {
                k->touched[k->node]++;
                break;
            }
}

static void print(const struct work *k)
{
    struct bench_series buffers = {.n = 0}, bound = {.n = 0}, plan = {.n = 0};
    double part = (double)TABLE_BYTES / MIB / k->nodes;
    char params[128];

    for (unsigned i = 0; i < k->nodes; i++) {
        bench_add(&buffers, k->taken_mib[i] - part);
        bench_add(&plan, k->planned_mib[i]);
        bench_add(&bound, (double)k->touched[i] *
                                  (double)(k->width * sizeof(float) + 8) * 2 /
                                  MIB +
                              64);
    }
    snprintf(params, sizeof(params),
             "nodes=%u workers=%d width=%d consistency=%s", k->nodes, WORKERS,
             (int)k->width, k->model);
    bench_print("ps_buffers_a_node", params, &buffers, "MiB");
    bench_print("ps_buffers_planned", params, &plan, "MiB");
    bench_print("ps_buffers_bound", params, &bound, "MiB");
}

static void measure(const char *model, unsigned nodes, uint64_t width)
{
    size_t bytes = NODES_MAX * (2 * sizeof(double) + sizeof(uint64_t));
    char folder[] = "/tmp/bench-ps-XXXXXX";
    struct work k = {.model = model,
                     .nodes = nodes,
                     .rows = TABLE_BYTES / sizeof(float) / width,
                     .width = width,
                     .folder = folder};

    k.taken_mib = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bench_must(k.taken_mib != MAP_FAILED && mkdtemp(folder), "prepare");
    k.planned_mib = k.taken_mib + NODES_MAX;
    k.touched = (uint64_t *)(void *)(k.planned_mib + NODES_MAX);
    for (k.node = 0; k.node < nodes; k.node++) {
        pid_t pid = fork();

        bench_must(pid >= 0, "fork");
        if (pid == 0) {
            run_node(&k);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < nodes; i++) {
        int status;

        bench_must(wait(&status) > 0 && status == 0, "a node");
    }
    print(&k);
    bench_must(rmdir(folder) == 0, "remove the folder");
    munmap(k.taken_mib, bytes);
}

/* With the arguments MODEL NODES WIDTH, that case alone. */
int main(int argc, char **argv)
{
    static const char *const model[] = {"bsp", "ssp", "essp"};
    static const uint64_t width[] = {16, 256};
    static const unsigned nodes[] = {1, 2, 4};

    if (argc == 4) {
        measure(argv[1], (unsigned)strtoul(argv[2], NULL, 10),
                strtoul(argv[3], NULL, 10));
        return 0;
    }
    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 2; w++)
            for (int n = 0; n < 3; n++)
                measure(model[m], nodes[n], width[w]);
    return 0;
}
