/* pagerank against the plain step, in double, on generated and real graphs. */
#include "apps/data/data.h"
#include "apps/pagerank/pagerank.h"
#include "apps/pagerank/pagerank_graph.h"
#include "base/mem.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { STEPS_MAX = 500 };

static void near_to(double got, double wanted, double within)
{
    if (!(fabs(got - wanted) <= within))
        fail_msg("%.17g, wanted %.17g", got, wanted);
}

/* One step, plainly; returns the sum of absolute changes. */
static double plain_step(const struct pagerank_graph *g, double damping,
                         const double before[], double now[])
{
    double lost = 0, change = 0, base;

    for (uint32_t v = 0; v < g->nodes; v++)
        lost += g->out[v] ? 0 : before[v];
    base = (1 - damping + damping * lost) / g->nodes;
    for (uint32_t v = 0; v < g->nodes; v++) {
        double sum = 0;

        for (uint64_t e = g->begin[v]; e < g->begin[v + 1]; e++)
            sum += before[g->from[e]] / g->out[g->from[e]];
        now[v] = base + damping * sum;
        change += fabs(now[v] - before[v]);
    }
    return change;
}

/* The ranks of @spec by plain steps until they change by less than 1e-13:
 * *@rank [g->nodes], to be freed. */
static void plain_ranks(const char *spec, bool both, struct pagerank_graph *g,
                        double **rank)
{
    struct edges e = {0};
    struct fault f = {0};
    double *now, change = 1;

    if (data_load_edges(spec, NULL, &e, &f))
        fail_msg("%s", f.text);
    assert_int_equal(pagerank_graph_init(g, &e, both), ERR_OK);
    edges_deinit(&e);
    *rank = malloc(g->nodes * sizeof(double));
    now = malloc(g->nodes * sizeof(double));
    for (uint32_t v = 0; v < g->nodes; v++)
        (*rank)[v] = 1.0 / g->nodes;
    for (int i = 0; i < STEPS_MAX && change > 1e-13; i++) {
        double *before = *rank;

        change = plain_step(g, 0.85, before, now);
        *rank = now;
        now = before;
    }
    free(now);
}

static void expect_ranks(const char *spec, const char *more, unsigned workers,
                         const char *rest, double within)
{
    struct pagerank_graph g;
    double *rank, sum = 0, loss = 1;
    struct app_run r;

    plain_ranks(spec, strstr(more, "directed") != NULL, &g, &rank);
    app_run_open(&r, &app_pagerank, 1, "{}",
                 "{\"app\": {\"name\": \"pagerank\", \"data\": \"%s\"%s},"
                 " \"cluster\": {\"workers\": %u}%s}",
                 spec, more, workers, rest);
    for (int i = 0; i < STEPS_MAX && loss > 1e-12; i++)
        loss = app_run_train(&r, 1);
    assert_true(loss <= 1e-12);
    for (uint32_t v = 0; v < g.nodes; v++) {
        double got = app_run_value(&r, "ranks", v, 1, 0);

        sum += got;
        if (fabs(got - rank[v]) > within * rank[v])
            fail_msg("%s: node %u: %.12g, plainly %.12g", spec, v, got,
                     rank[v]);
    }
    near_to(sum, 1, 1e-9);
    app_run_close(&r);
    pagerank_graph_deinit(&g);
    free(rank);
}

/* The ranks are those of the plain iteration to 1e-6, dangling nodes and both
 * directions included, whatever the workers and the consistency model. */
static void pagerank_ranks_are_the_plain_ones(void **state)
{
    static const char spec[] = "gen:edges?nodes=300&edges=1500";

    (void)state;
    expect_ranks(spec, "", 1, "", 1e-6);
    expect_ranks(spec, "", 3, "", 1e-6);
    expect_ranks(spec, ", \"directed\": false", 2, "", 1e-6);
    expect_ranks(spec, "", 2, ", \"ps\": {\"consistency\": \"ssp\"}", 1e-6);
}

/* Steps of a graph that is written out by hand, one node of which dangles. */
static void plain_step_is_as_written(void **state)
{
    struct edges e = {0};
    struct pagerank_graph g;
    const double before[3] = {0.5, 0.3, 0.2};
    double now[3], change;

    (void)state;
    /* 1 -> 2, 1 -> 2, 1 -> 3, 2 -> 1; 3 dangles */
    assert_int_equal(edges_add(&e, 1, 2), ERR_OK);
    assert_int_equal(edges_add(&e, 1, 2), ERR_OK);
    assert_int_equal(edges_add(&e, 1, 3), ERR_OK);
    assert_int_equal(edges_add(&e, 2, 1), ERR_OK);
    assert_int_equal(pagerank_graph_init(&g, &e, false), ERR_OK);
    change = plain_step(&g, 0.5, before, now);
    near_to(now[0], 0.5 / 3 + 0.5 * (0.3 + 0.2 / 3), 1e-15);
    near_to(now[1], 0.5 / 3 + 0.5 * (0.5 * 2 / 3 + 0.2 / 3), 1e-15);
    near_to(now[2], 0.5 / 3 + 0.5 * (0.5 / 3 + 0.2 / 3), 1e-15);
    near_to(now[0] + now[1] + now[2], 1, 1e-15);
    near_to(change,
            fabs(now[0] - 0.5) + fabs(now[1] - 0.3) + fabs(now[2] - 0.2),
            1e-15);
    pagerank_graph_deinit(&g);
    edges_deinit(&e);
}

/* The real graphs have the ranks of the plain iteration. */
static void pagerank_ranks_of_real_graphs(void **state)
{
    static const struct {
        const char *file, *more;
        unsigned workers;
    } graphs[] = {{"wiki-Vote.txt.xz", "", 1},
                  {"ego-Facebook.txt.xz", ", \"directed\": false", 2}};
    const char *real = scratch_real_data();
    char path[512];

    (void)state;
    for (size_t i = 0; real && i < sizeof(graphs) / sizeof(*graphs); i++) {
        snprintf(path, sizeof(path), "%s/%s", real, graphs[i].file);
        expect_ranks(path, graphs[i].more, graphs[i].workers, "", 1e-6);
    }
}

/* The model has a rank a node and the outside ids; what is no graph is refused.
 */
static void pagerank_saves_ids_and_refuses_what_is_none(void **state)
{
    struct app_run r;
    size_t n;
    void *bytes;
    char dir[512];

    (void)state;
    scratch_text("g", "# a graph\n7 9223372036854775807\n7\t8\n");
    scratch_text("bad", "1 2\n3\n");
    scratch_text("svm", "1 3:1\n-1 2:1\n");
    app_run_open(&r, &app_pagerank, 1, "{}",
                 "{\"app\": {\"name\": \"pagerank\", \"data\": \"%s\"}}",
                 scratch_path("g"));
    app_run_train(&r, 3);
    snprintf(dir, sizeof(dir), "%s", scratch_path("model"));
    scratch_mkdir("model");
    app_run_save(&r, dir);
    app_run_close(&r);
    bytes = scratch_read("model/node_ids.npy", &n);
    assert_non_null(bytes);
    assert_true(n > 24);
    free(bytes);
    bytes = scratch_read("model/ranks.npy", &n);
    assert_non_null(bytes);
    free(bytes);
    app_run_refused(&app_pagerank, ERR_FORMAT, "line 2: expected a blank",
                    "{\"app\": {\"name\": \"pagerank\", \"data\": \"%s\"}}",
                    scratch_path("bad"));
    app_run_refused(&app_pagerank, ERR_UNSUPPORTED, "expected a list of edges",
                    "{\"app\": {\"name\": \"pagerank\", \"data\": \"%s\"}}",
                    scratch_path("svm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pagerank_ranks_are_the_plain_ones),
        cmocka_unit_test(plain_step_is_as_written),
        cmocka_unit_test(pagerank_ranks_of_real_graphs),
        cmocka_unit_test_setup_teardown(
            pagerank_saves_ids_and_refuses_what_is_none, scratch_make,
            scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
