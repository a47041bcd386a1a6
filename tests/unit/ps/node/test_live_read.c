/* Rows that are read while workers run. */
#include "base/mem.h"
#include "ps/node/live_read_io.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

enum {
    ROWS = 40,
    WIDTH = 96, /* so that a row takes several cache lines */
    NODES_MAX = 2,
    GLANCES = 8,
    WAIT_MS = 60000, /* for a hang, no measure */
    CLOCKS_MAX = 1000000000
};
enum { SHARED, EXCLUSIVE };
enum { TRAINED = 1, KEPT = 2 };

struct cluster;

struct node {
    struct cluster *cluster;
    unsigned number;
    struct mlt_ps *ps;
    struct live_read *glance;
};

struct cluster {
    const char *consistency;
    unsigned nodes, workers; /* of each */
    char folder[64];
    _Atomic unsigned satisfied; /* nodes that have glanced often enough */
    _Atomic int end;            /* the clock that all end before */
    struct node node[NODES_MAX];
};

/* ---- what workers do ----------------------------------------------------- */

/* The values of a row are all the same, whenever nobody is writing it. */
static void add_one(struct mlt_worker *w, const struct mlt_ps *ps)
{
    uint64_t first, count;
    float one[WIDTH];

    for (int j = 0; j < WIDTH; j++)
        one[j] = 1;
    for (uint64_t r = 0; r < ROWS; r++)
        mlt_inc_row(w, SHARED, r, one);
    mlt_owned_rows(ps, EXCLUSIVE, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++)
        mlt_inc_row(w, EXCLUSIVE, r, one);
}

/* Until the control threads have seen enough: worker 0 says when, two clocks
 * ahead, so that under barriers all hear it in time. */
static int work(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    struct cluster *c = n->cluster;
    int code = 0;

    for (int clock = 0; clock < atomic_load(&c->end) && !code; clock++) {
        live_read_take(n->glance, w);
        if (mlt_worker_index(w) == 0 && atomic_load(&c->end) == CLOCKS_MAX &&
            atomic_load(&c->satisfied) == c->nodes)
            atomic_store(&c->end, clock + 2);
        add_one(w, n->ps);
        code = mlt_clock(w);
    }
    return code;
}

static int idle(struct mlt_worker *w, void *arg)
{
    (void)w;
    (void)arg;
    return 0;
}

/* ---- what the control thread does ---------------------------------------- */

static void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

/* All rows of a table, -1 where they are another node's. */
static void glance(struct node *n, branch_id branch, mlt_table table,
                   double out[ROWS * WIDTH])
{
    struct ps_rows r = {branch, table, 0, ROWS, 0, WIDTH};

    for (int i = 0; i < ROWS * WIDTH; i++)
        out[i] = -1;
    live_read_begin(n->glance, &r, out);
    wait_readable(live_read_fd(n->glance));
    assert_true(live_read_end(n->glance));
}

/* No row is torn or missing, and none goes back. */
static void check_rows(const struct node *n, mlt_table table,
                       const double rows[ROWS * WIDTH], double last[ROWS])
{
    for (uint64_t r = 0; r < ROWS; r++) {
        bool here = n->cluster->nodes == 1 || ps_is_here(n->ps, table, r);

        for (int j = 1; j < WIDTH; j++)
            if (rows[r * WIDTH + (uint64_t)j] != rows[r * WIDTH])
                fail_msg("%s: row %d of table %d is torn",
                         n->cluster->consistency, (int)r, (int)table);
        assert_int_equal(rows[r * WIDTH] >= 0, here);
        assert_true(!here || rows[r * WIDTH] >= last[r]);
        last[r] = rows[r * WIDTH];
    }
}

static void live_read_around(struct node *n)
{
    static const struct ps_rows part = {TRAINED, SHARED, 3, 2, 5, 7};
    double *rows = mem_calloc(ROWS * WIDTH, sizeof(*rows));
    double last[2][ROWS] = {{0}};
    double few[2 * 7];

    assert_non_null(rows);
    for (int i = 0; i < GLANCES; i++) {
        glance(n, TRAINED, SHARED, rows);
        check_rows(n, SHARED, rows, last[0]);
        glance(n, TRAINED, EXCLUSIVE, rows);
        check_rows(n, EXCLUSIVE, rows, last[1]);
        glance(n, KEPT, SHARED, rows); /* as it was when it was forked */
        for (int k = 0; k < ROWS * WIDTH; k++)
            assert_true(rows[k] <= 0);
    }
    for (int k = 0; k < 14; k++)
        few[k] = -1;
    live_read_begin(n->glance, &part, few);
    wait_readable(live_read_fd(n->glance));
    assert_true(live_read_end(n->glance));
    for (int k = 0; k < 14; k++)
        assert_true(few[k] == few[k < 7 ? 0 : 7]);
    mem_free(rows);
}

static struct mlt_ps *open_ps(const struct node *n)
{
    const struct cluster *c = n->cluster;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error e = {0};
    struct mlt_ps *ps = NULL;

    opt.workers = c->workers;
    opt.consistency = c->consistency;
    opt.staleness = 1;
    opt.update_rule = "add";
    opt.memory_limit = 64 << 20;
    if (c->nodes > 1) {
        opt.nodes = c->nodes;
        opt.node = n->number;
        opt.meet = c->folder;
    }
    if (mlt_ps_new(&opt, &ps, &e))
        fail_msg("%s", e.text);
    for (int t = 0; t < 2; t++) {
        struct mlt_table_options table = {.size = sizeof(table),
                                          .name = t ? "users" : "weights",
                                          .rows = ROWS,
                                          .width = WIDTH,
                                          .access =
                                              t ? MLT_EXCLUSIVE : MLT_SHARED,
                                          .chunk_bytes = 1024};
        mlt_table index;

        assert_int_equal(mlt_ps_table(ps, &table, &index, &e), 0);
    }
    if (mlt_ps_start(ps, &e))
        fail_msg("%s", e.text);
    return ps;
}

static void *run_node(void *arg)
{
    struct node *n = arg;

    n->ps = open_ps(n);
    assert_int_equal(live_read_open(n->cluster->workers, &n->glance, NULL), 0);
    assert_int_equal(ps_fork(n->ps, TRAINED, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_fork(n->ps, KEPT, TRAINED, BRANCH_KEPT), ERR_OK);
    assert_int_equal(ps_activate(n->ps, TRAINED), ERR_OK);
    assert_int_equal(ps_run_begin(n->ps, work, n), ERR_OK);
    live_read_around(n);
    atomic_fetch_add(&n->cluster->satisfied, 1);
    assert_int_equal(ps_run_end(n->ps), 0);
    live_read_close(n->glance);
    mlt_ps_free(n->ps);
    return NULL;
}

static void run_cluster(const char *consistency, unsigned nodes,
                        unsigned workers)
{
    struct cluster c = {
        .consistency = consistency, .nodes = nodes, .workers = workers};
    pthread_t thread[NODES_MAX];

    atomic_store(&c.end, CLOCKS_MAX);
    snprintf(c.folder, sizeof(c.folder), "/tmp/mltune-glance-XXXXXX");
    assert_non_null(mkdtemp(c.folder));
    for (unsigned i = 0; i < nodes; i++) {
        c.node[i] = (struct node){.cluster = &c, .number = i};
        assert_int_equal(pthread_create(&thread[i], NULL, run_node, &c.node[i]),
                         0);
    }
    for (unsigned i = 0; i < nodes; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(rmdir(c.folder), 0);
}

/* ---- tests --------------------------------------------------------------- */

/* Under every consistency model, while all workers add to all shared rows and
 * to exclusive ones of their own, each row that is read is whole, and no read
 * is older than the one before; another branch is as it was. */
static void live_read_of_one_node_is_never_torn(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async",
                                         "barrier"};

    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        run_cluster(models[i], 1, 3);
    run_cluster("async", 1, 1);
}

/* Two nodes each give the rows that they have. */
static void live_read_of_two_nodes_is_never_torn(void **state)
{
    (void)state;
    run_cluster("bsp", 2, 2);
    run_cluster("essp", 2, 2);
}

/* Where workers end before they have read, nothing is said to be read, and the
 * next glance is not mixed up with that one. */
static void live_read_that_nobody_takes_is_given_back(void **state)
{
    struct cluster c = {.consistency = "bsp", .nodes = 1, .workers = 2};
    struct node *n = &c.node[0];
    struct ps_rows all = {0, SHARED, 0, ROWS, 0, WIDTH};
    double *rows = mem_calloc(ROWS * WIDTH, sizeof(*rows));

    (void)state;
    assert_non_null(rows);
    n->cluster = &c;
    n->ps = open_ps(n);
    assert_int_equal(live_read_open(c.workers, &n->glance, NULL), 0);
    assert_int_equal(ps_fork(n->ps, TRAINED, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(n->ps, TRAINED), ERR_OK);
    assert_int_equal(ps_run_begin(n->ps, idle, n), ERR_OK);
    live_read_begin(n->glance, &all, NULL); /* would be written to */
    assert_int_equal(ps_run_end(n->ps), 0);
    assert_false(live_read_end(n->glance));

    atomic_store(&c.end, CLOCKS_MAX);
    assert_int_equal(ps_run_begin(n->ps, work, n), ERR_OK);
    glance(n, TRAINED, SHARED, rows);
    assert_true(rows[0] >= 0);
    atomic_store(&c.satisfied, 1);
    assert_int_equal(ps_run_end(n->ps), 0);
    live_read_close(n->glance);
    mlt_ps_free(n->ps);
    mem_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_read_of_one_node_is_never_torn),
        cmocka_unit_test(live_read_of_two_nodes_is_never_torn),
        cmocka_unit_test(live_read_that_nobody_takes_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
