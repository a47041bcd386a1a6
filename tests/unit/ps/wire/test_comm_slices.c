/* Slices on several nodes, on real sockets, whose sums come as streams: large
 * tables whose senders wait for credit, one with a clock of its own, workers
 * that end different numbers of clocks, and slices that a worker fails. What
 * follows a failed slice finds nothing of it: all sums are exact. */
#include "base/rng.h"
#include "mltune/ps.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WIDTH = 8,
    NODES_MAX = 3,
    WORKERS_MAX = 8, /* of all nodes */
    TABLES = 4,
    OWN_CLOCK = 2, /* this table has one */
    LAST = TABLES - 1,
    CLOCKS_MAX = 3,
    FAILS_AT = 1000, /* this row of the last table */
    FAILED_CLOCKS = 50,
    NAP_US = 20000
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLICES = 2, CLUSTERS = 1 }; /* less of the same: it is slow */
#else
enum { SLICES = 5, CLUSTERS = 2 };
#endif

/* Of the second and the last each node has more than senders may have under
 * way. */
static const uint64_t table_rows[TABLES] = {50, 210000, 60000, 250000};

struct cluster {
    unsigned nodes, workers;
    uint64_t seed;
    char folder[64];
};

struct node {
    struct cluster *cluster;
    unsigned number, slice;
    struct mlt_ps *ps;
    int code;
};

static uint64_t drawn(const struct cluster *c, unsigned slice, unsigned what)
{
    return rng_mix(rng_mix(c->seed, slice), what);
}

/* Every second slice is failed, by a worker in one of its clocks. */
static bool is_failed(unsigned slice)
{
    return slice % 2 == 0;
}

static bool fails(const struct node *n, unsigned worker, unsigned clock)
{
    const struct cluster *c = n->cluster;

    return is_failed(n->slice) &&
           drawn(c, n->slice, 1) % (c->nodes * c->workers) == worker &&
           drawn(c, n->slice, 2) % CLOCKS_MAX == clock;
}

static unsigned clocks_of(const struct node *n, unsigned worker)
{
    if (is_failed(n->slice))
        return FAILED_CLOCKS;
    return 1 +
           (unsigned)(drawn(n->cluster, n->slice, 10 + worker) % CLOCKS_MAX);
}

/* Three quarters of the rows. */
static bool touches(const struct cluster *c, unsigned worker, uint64_t row)
{
    return rng_mix(row, c->seed * 31 + worker) % 4 != 0;
}

static int add_all(struct mlt_worker *w, const struct node *n, unsigned clock)
{
    unsigned me = mlt_worker_index(w);
    float delta[WIDTH];

    for (int j = 0; j < WIDTH; j++)
        delta[j] = (float)(me + 1);
    for (mlt_table t = 0; t < TABLES; t++)
        for (uint64_t row = 0; row < table_rows[t]; row++) {
            if (t == LAST && row == FAILS_AT && fails(n, me, clock))
                return ERR_APP;
            if (touches(n->cluster, me, row + t))
                mlt_inc_row(w, t, row, delta);
        }
    return 0;
}

static int work(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    unsigned me = mlt_worker_index(w), clocks = clocks_of(n, me);
    uint64_t x = drawn(n->cluster, n->slice, 100 + me);
    int code = 0;

    for (unsigned k = 0; k < clocks && !code; k++) {
        if (x % 3 == 0)
            usleep((useconds_t)(rng_mix(x, k) % NAP_US));
        code = add_all(w, n, k);
        if (!code && rng_mix(x, 1000 + k) % 2)
            code = mlt_clock_table(w, OWN_CLOCK);
        if (!code)
            code = mlt_clock(w);
    }
    return code;
}

/* What a row must hold: every worker's number, so often as it ended a clock. */
static float wanted(const struct node *n, mlt_table table, uint64_t row)
{
    const struct cluster *c = n->cluster;
    float sum = 0;

    for (unsigned i = 0; i < c->nodes * c->workers; i++)
        if (touches(c, i, row + table))
            sum += (float)((i + 1) * clocks_of(n, i));
    return sum;
}

/* Each worker looks at the rows that it owns. */
static int look(struct mlt_worker *w, void *arg)
{
    const struct node *n = arg;

    for (mlt_table t = 0; t < TABLES; t++) {
        uint64_t first, count;

        mlt_owned_rows(n->ps, t, mlt_worker_index(w), &first, &count);
        for (uint64_t row = first; row < first + count; row++) {
            const float *x = mlt_get_row(w, t, row);
            float want = wanted(n, t, row);

            if (x && x[0] == want && x[WIDTH - 1] == want)
                continue;
            print_error("slice %u, worker %u, table %u, row %llu: %g, "
                        "wanted %g\n",
                        n->slice, mlt_worker_index(w), t,
                        (unsigned long long)row, x ? (double)x[0] : -1,
                        (double)want);
            return ERR_INVAL;
        }
    }
    return 0;
}

static int run_slice(struct node *n)
{
    branch_id branch = n->slice + 1;
    int code = (int)ps_fork(n->ps, branch, 0, BRANCH_TRAINING);

    if (!code)
        code = (int)ps_activate(n->ps, branch);
    if (code)
        return code;
    code = mlt_ps_run(n->ps, work, n);
    if (is_failed(n->slice))
        code = code == ERR_APP || code == ERR_CANCELED ? 0 : ERR_INVAL;
    else if (!code)
        code = mlt_ps_run(n->ps, look, n);
    return code ? code : (int)ps_drop(n->ps, branch);
}

static int start(struct node *n)
{
    static const char *const name[TABLES] = {"few", "many", "own", "more"};
    const struct cluster *c = n->cluster;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err = {0};
    mlt_table index;
    int code;

    opt.workers = c->workers;
    opt.consistency = "bsp";
    opt.nodes = c->nodes;
    opt.node = n->number;
    opt.meet = c->folder;
    opt.memory_limit = (uint64_t)1 << 30;
    code = mlt_ps_new(&opt, &n->ps, &err);
    for (unsigned t = 0; t < TABLES && !code; t++) {
        struct mlt_table_options table = {
            .size = sizeof(table),
            .name = name[t],
            .rows = table_rows[t],
            .width = WIDTH,
            .rule = "add",
            .flags = t == OWN_CLOCK ? MLT_OWN_CLOCK : 0};

        code = mlt_ps_table(n->ps, &table, &index, &err);
    }
    if (!code)
        code = mlt_ps_start(n->ps, &err);
    if (code)
        print_error("node %u: %s\n", n->number, err.text);
    return code;
}

static void *run_node(void *arg)
{
    struct node *n = arg;

    n->code = start(n);
    for (n->slice = 0; n->slice < SLICES && !n->code; n->slice++)
        n->code = run_slice(n);
    mlt_ps_free(n->ps);
    return NULL;
}

static void run_cluster(unsigned nodes, unsigned workers, uint64_t seed)
{
    struct cluster c = {.nodes = nodes, .workers = workers, .seed = seed};
    struct node node[NODES_MAX];
    pthread_t thread[NODES_MAX];

    assert_true(nodes <= NODES_MAX && nodes * workers <= WORKERS_MAX);
    snprintf(c.folder, sizeof(c.folder), "/tmp/mltune-unit-XXXXXX");
    assert_non_null(mkdtemp(c.folder));
    for (unsigned i = 0; i < nodes; i++) {
        node[i] = (struct node){.cluster = &c, .number = i};
        assert_int_equal(pthread_create(&thread[i], NULL, run_node, &node[i]),
                         0);
    }
    for (unsigned i = 0; i < nodes; i++)
        pthread_join(thread[i], NULL);
    rmdir(c.folder);
    for (unsigned i = 0; i < nodes; i++)
        if (node[i].code)
            fail_msg("%u nodes, node %u, slice %u: error %d", nodes, i,
                     node[i].slice, node[i].code);
}

static void slices_with_streams_are_exact(void **state)
{
    (void)state;
    run_cluster(3, 2, 1);
    if (CLUSTERS > 1)
        run_cluster(2, 4, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_with_streams_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
