/* glm's solvers under every consistency model, on one node and on two: what is
 * remembered agrees with itself, and the minimum is near. Nodes are threads of
 * this process, on real sockets. */
#include "apps/glm/glm.h"
#include "tests/unit/fixture/glm_plain.h"
#include "tests/unit/fixture/rows_whole.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { NODES_MAX = 2, SAMPLES = 600, PARTS = 10, ROWS = GLM_PLAIN_COLUMNS + 1 };

static const char *const models[] = {
    "\"bsp\"",
    "\"ssp\"",
    "\"essp\"",
    "\"async\"",
    "{\"barrier\": {\"k\": 1}}",
    "{\"barrier\": {\"fraction\": 0.5, \"slower_than\": 2}}",
};
enum { MODELS = sizeof(models) / sizeof(*models) };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EACH = 3 }; /* less of the same: it is slow */
#else
enum { EACH = 1 };
#endif

struct job;

struct node {
    const struct job *job;
    unsigned number;
    struct fault fault;
    enum err err;
};

/* A training, and what it came to: every node fills in its rows. */
struct job {
    const char *model, *solver;
    unsigned nodes, workers, staleness;
    unsigned slices, epochs; /* epochs of each; workers meet between two */
    double rate;
    char folder[256];
    struct node node[NODES_MAX];
    double weights[ROWS], mean[ROWS], slopes[SAMPLES];
};

static json_t *config_of(const struct job *j)
{
    char text[768];

    snprintf(text, sizeof(text),
             "{\"app\": {\"name\": \"glm\", \"data\": \"" GLM_PLAIN_SPEC "\","
             " \"test_fraction\": 0, \"lambda\": 0.01, \"solver\": \"%s\","
             " \"order\": \"parts\", \"clock\": %d},"
             " \"ps\": {\"consistency\": %s, \"staleness\": %u},"
             " \"cluster\": {\"nodes\": %u, \"workers\": %u}}",
             j->solver, PARTS, j->model, j->staleness, j->nodes, j->workers);
    return json_loads(text, 0, NULL);
}

static enum err train(struct node *n, struct host *host)
{
    struct node_setting setting = host_facts(host)->defaults;
    uint64_t clocks = (uint64_t)n->job->epochs * PARTS;
    struct host_slice s = {1, BRANCH_TRAINING, &setting, clocks, clocks};
    struct host_result result;
    enum err err = ps_fork(host_ps(host), 1, 0, BRANCH_TRAINING);

    setting.learning_rate = n->job->rate;
    setting.staleness = n->job->staleness;
    for (unsigned i = 0; i < n->job->slices && !err; i++) {
        err = host_slice_begin(host, &s, &n->fault);
        if (!err)
            err = host_slice_end(host, &result, &n->fault);
    }
    return err;
}

/* Those of the rows that this node has. */
static void collect(struct host *host, const char *table, uint64_t rows,
                    double *out)
{
    double x;

    for (uint64_t r = 0; r < rows; r++)
        if (rows_read_whole(host_ps(host), 1, table, r, 1, &x) == ERR_OK)
            out[r] = x;
}

static void *node_main(void *arg)
{
    struct node *n = arg;
    struct job *j = (struct job *)(uintptr_t)n->job;
    json_t *json = config_of(j);
    struct host_config c = {.app = &app_glm,
                            .config = json,
                            .folder = ".",
                            .seed = 1,
                            .node = n->number,
                            .meet = j->nodes > 1 ? j->folder : NULL};
    struct host *host = NULL;

    n->err = host_open(&c, &host, &n->fault);
    if (!n->err)
        n->err = train(n, host);
    if (!n->err) {
        collect(host, "weights", ROWS, j->weights);
        collect(host, "mean_gradient", ROWS, j->mean);
        collect(host, "slopes", SAMPLES, j->slopes);
    }
    host_close(host);
    json_decref(json);
    return NULL;
}

static void run(struct job *j)
{
    pthread_t thread[NODES_MAX];

    scratch_mkdir("meet");
    snprintf(j->folder, sizeof(j->folder), "%s", scratch_path("meet"));
    for (int i = 0; i < ROWS; i++)
        j->weights[i] = j->mean[i] = (double)NAN;
    for (int i = 0; i < SAMPLES; i++)
        j->slopes[i] = (double)NAN;
    for (unsigned i = 0; i < j->nodes; i++) {
        j->node[i] = (struct node){.job = j, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, node_main, &j->node[i]), 0);
    }
    for (unsigned i = 0; i < j->nodes; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < j->nodes; i++)
        if (j->node[i].err)
            fail_msg("node %u: %s", i, j->node[i].fault.text);
    scratch_remove(NULL);
    scratch_make(NULL);
}

/* The mean gradient is that of the slopes, to what floats lose of the sums. */
static void check_mean(const struct job *j, const struct sparse *s)
{
    double mean[ROWS] = {0};

    assert_int_equal(s->count, SAMPLES);
    for (uint64_t i = 0; i < s->count; i++) {
        double slope = j->slopes[i] / SAMPLES;

        for (uint64_t e = s->begin[i]; e < s->begin[i + 1]; e++)
            mean[s->index[e]] += slope * (double)s->value[e];
        mean[ROWS - 1] += slope;
    }
    for (int r = 0; r < ROWS; r++)
        if (!(fabs(j->mean[r] - mean[r]) < 2e-6))
            fail_msg("%s, %s, %u nodes: row %d has %.9g, the slopes %.9g",
                     j->solver, j->model, j->nodes, r, j->mean[r], mean[r]);
}

static void check_objective(const struct job *j, const struct sparse *s,
                            double within)
{
    double g[ROWS], best = glm_plain_minimum(s, 0.01, 0), got;

    got = glm_plain_loss(s, j->weights, g) +
          glm_plain_penalty(j->weights, 0.01, 0);
    if (!(got >= best - 1e-6 && got < best * (1 + within)))
        fail_msg("%s, %s, %u nodes: %.8f, least %.8f", j->solver, j->model,
                 j->nodes, got, best);
}

static struct job job_of(const char *model, const char *solver, unsigned nodes)
{
    return (struct job){.model = model,
                        .solver = solver,
                        .nodes = nodes,
                        .workers = nodes > 1 ? 2 : 3,
                        .staleness = strstr(model, "ssp") ? 2 : 0};
}

/* However far one worker is ahead of the others, in passes of another kind even
 * (svrg): each slope's change reaches the mean once. */
static void check_memory(const char *solver)
{
    struct sparse s;

    glm_plain_load(&s);
    for (unsigned nodes = 1; nodes <= NODES_MAX; nodes++)
        for (size_t i = 0; i < MODELS; i++) {
            struct job j = job_of(models[i], solver, nodes);

            j.slices = 2;
            j.epochs = 8;
            j.rate = 0.1;
            run(&j);
            check_mean(&j, &s);
        }
    sparse_deinit(&s);
}

/* Where workers meet once a pass, so that a loaded machine does not decide. */
static void check_minimum(const char *solver, double rate, double within)
{
    struct sparse s;

    glm_plain_load(&s);
    for (unsigned nodes = 1; nodes <= NODES_MAX; nodes++)
        for (size_t i = 0; i < MODELS; i += EACH) {
            struct job j = job_of(models[i], solver, nodes);

            j.slices = 36;
            j.epochs = 1;
            j.rate = rate;
            run(&j);
            check_objective(&j, &s, within);
        }
    sparse_deinit(&s);
}

static void asaga_remembers_what_it_says(void **state)
{
    (void)state;
    check_memory("saga");
}

static void asvrg_remembers_what_it_says(void **state)
{
    (void)state;
    check_memory("svrg");
}

static void asaga_comes_near_the_minimum(void **state)
{
    (void)state;
    check_minimum("saga", 0.3, 1e-4);
}

static void asvrg_comes_near_the_minimum(void **state)
{
    (void)state;
    check_minimum("svrg", 0.3, 1e-4);
}

static void asgd_comes_near_the_minimum(void **state)
{
    (void)state;
    check_minimum("sgd", 0.3, 3e-2);
}

static void alocal_comes_near_the_minimum(void **state)
{
    (void)state;
    check_minimum("local", 0.5, 3e-2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(asaga_remembers_what_it_says), CASE(asvrg_remembers_what_it_says),
        CASE(asaga_comes_near_the_minimum), CASE(asvrg_comes_near_the_minimum),
        CASE(asgd_comes_near_the_minimum),  CASE(alocal_comes_near_the_minimum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
