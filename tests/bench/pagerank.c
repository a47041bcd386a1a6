/* pagerank beside a plain power iteration: one worker, everything through host
 * and parameter server, CPU seconds of training alone.
 *
 *   pagerank_edges   edges a CPU second of steps, beside a loop on flat arrays
 *                    that divides a rank once a node, as ours does; how far the
 *                    hundred largest ranks lie from the plain ones, at most,
 * and how far their sum from 1
 *
 * The graphs are those of MLTUNE_DATA or ../shared/data, and a generated one.
 * Run from the root of the tree.
 */
#include "apps/pagerank/pagerank.h"
#include "apps/data/data.h"
#include "apps/pagerank/pagerank_graph.h"
#include "base/clock_io.h"
#include "base/mem.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 120, TOP = 100, PATH_BYTES = 4096 };

static const double damping = 0.85;

struct plain {
    struct pagerank_graph graph;
    double *rank, *share; /* [nodes] */
};

static double seconds(time_ns since)
{
    return (double)(bench_cpu() - since) / 1e9;
}

/* ---- plainly ------------------------------------------------------------- */

static void plain_init(struct plain *p, const char *spec, bool directed)
{
    struct edges e = {0};
    struct fault f = {0};

    bench_must(data_load_edges(spec, NULL, &e, &f) == ERR_OK, f.text);
    bench_must(pagerank_graph_init(&p->graph, &e, !directed) == ERR_OK,
               "memory");
    edges_deinit(&e);
    p->rank = mem_calloc(p->graph.nodes, sizeof(*p->rank));
    p->share = mem_calloc(p->graph.nodes, sizeof(*p->share));
    bench_must(p->rank && p->share, "memory");
}

static void plain_deinit(struct plain *p)
{
    pagerank_graph_deinit(&p->graph);
    mem_free(p->rank);
    mem_free(p->share);
}

/* Returns the sum of absolute changes. */
static double plain_step(struct plain *p)
{
    const struct pagerank_graph *g = &p->graph;
    double lost = 0, change = 0, base;

    for (uint32_t v = 0; v < g->nodes; v++) {
        lost += g->out[v] ? 0 : p->rank[v];
        p->share[v] = g->out[v] ? p->rank[v] / g->out[v] : 0;
    }
    base = (1 - damping + damping * lost) / g->nodes;
    for (uint32_t v = 0; v < g->nodes; v++) {
        double sum = 0, now;

        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++)
            sum += p->share[g->from[e]];
        now = base + damping * sum;
        change += fabs(now - p->rank[v]);
        p->rank[v] = now;
    }
    return change;
}

static double plain_time(struct plain *p, double *change)
{
    time_ns since = bench_cpu();

    for (uint32_t v = 0; v < p->graph.nodes; v++)
        p->rank[v] = 1.0 / p->graph.nodes;
    for (int i = 0; i < STEPS; i++)
        *change = plain_step(p);
    return seconds(since);
}

/* ---- ours ---------------------------------------------------------------- */

static struct host *hosted_open(const char *spec, bool directed)
{
    struct host_config c = {.app = &app_pagerank, .folder = ".", .seed = 1};
    struct host *host;
    struct fault f = {0};
    json_t *json =
        json_pack("{s:{s:s, s:s, s:b}, s:{s:i}}", "app", "name", "pagerank",
                  "data", spec, "directed", directed, "cluster", "workers", 1);

    bench_must(json != NULL, "configuration");
    c.config = json;
    bench_must(host_open(&c, &host, &f) == ERR_OK, f.text);
    json_decref(json);
    bench_must(ps_fork(host_ps(host), 1, 0, BRANCH_TRAINING) == ERR_OK, "fork");
    return host;
}

static double hosted_time(struct host *host, double *change)
{
    struct node_setting setting = host_facts(host)->defaults;
    struct host_slice slice = {1, BRANCH_TRAINING, &setting, STEPS, 1};
    struct host_result result;
    struct fault f = {0};
    const struct progress_window *w;
    time_ns since = bench_cpu();
    double time;

    bench_must(host_slice_begin(host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(host, &result, &f) == ERR_OK, f.text);
    time = seconds(since);
    w = host_slice_window(host, STEPS - 1);
    *change = w->sum / (double)w->samples;
    return time;
}

/* ---- beside each other --------------------------------------------------- */

struct rank {
    uint32_t node;
    double plain;
};

static int by_rank(const void *a, const void *b)
{
    double x = ((const struct rank *)a)->plain,
           y = ((const struct rank *)b)->plain;

    return (x < y) - (x > y);
}

/* The largest relative difference of the TOP largest, and |sum - 1|. */
static void differ(struct host *host, const struct plain *p, double *top,
                   double *sum)
{
    uint32_t nodes = p->graph.nodes;
    struct rank *r = mem_calloc(nodes, sizeof(*r));
    struct mlt_ps *ps = host_ps(host);
    struct ps_rows ranks = {.branch = 1, .count = 1, .values = 1};

    bench_must(r != NULL, "memory");
    bench_must(ps_table_find(ps, "ranks", &ranks.table) == ERR_OK, "ranks");
    for (uint32_t v = 0; v < nodes; v++)
        r[v] = (struct rank){v, p->rank[v]};
    qsort(r, nodes, sizeof(*r), by_rank);
    *top = 0;
    *sum = -1;
    for (uint32_t i = 0; i < nodes; i++) {
        double got;

        ranks.first = r[i].node;
        bench_must(ps_read_part(ps, &ranks, &got) == ERR_OK, "ranks");
        *sum += got;
        if (i < TOP)
            *top = fmax(*top, fabs(got - r[i].plain) / r[i].plain);
    }
    *sum = fabs(*sum);
    mem_free(r);
}

static void compare(const char *name, const char *spec, bool directed)
{
    struct bench_series ours = {.n = 0}, theirs = {.n = 0};
    struct plain p = {.rank = NULL};
    double change = 0, plain = 0, top = 0, sum = 0, edges;
    char params[256];

    plain_init(&p, spec, directed);
    edges = (double)p.graph.edges * STEPS;
    for (size_t i = 0; i < bench_rounds(); i++) {
        struct host *host = hosted_open(spec, directed);

        bench_add(&theirs, edges / plain_time(&p, &plain));
        bench_add(&ours, edges / hosted_time(host, &change));
        differ(host, &p, &top, &sum);
        host_close(host);
    }
    snprintf(params, sizeof(params),
             "data=%s nodes=%" PRIu32 " edges=%" PRIu64
             " change=%.2e plain=%.2e top=%.1e sum=%.1e",
             name, p.graph.nodes, p.graph.edges, change, plain, top, sum);
    bench_print("pagerank_edges", params, &ours, "edges/s");
    bench_print_ratio("pagerank_edges", params, "plain", &ours, &theirs, 0);
    plain_deinit(&p);
}

static void compare_file(const char *file, bool directed)
{
    const char *folder = getenv("MLTUNE_DATA");
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s/%s", folder ? folder : "../shared/data",
             file);
    if (access(path, R_OK) == 0)
        compare(file, path, directed);
    else
        bench_skip("pagerank_edges", file, "there is no %s", path);
}

int main(void)
{
    compare("gen:edges", "gen:edges?nodes=100000&edges=1000000", true);
    compare_file("wiki-Vote.txt.xz", true);
    compare_file("ego-Facebook.txt.xz", false);
    compare_file("soc-Slashdot0902.txt.xz", true);
    return 0;
}
