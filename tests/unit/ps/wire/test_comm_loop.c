/* Loops over several nodes of a parameter server, each in a thread of this
 * process, on real sockets. */
#include "base/mem.h"
#include "mltune/loop.h"
#include "ps/loop/loop_internal.h"
#include "ps/server/peers.h"
#include "ps/server/ps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_job.h"
#include "tests/unit/fixture/rows_whole.h"

enum { NODES_MAX = 4, BRANCH = 1, PASSES = 4, DIES_S = 120 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 24 }; /* less of the same: it is slow */
#else
enum { SEEDS = 96 };
#endif

struct cluster;

/* One node, driven by a thread of its own. */
struct node {
    struct cluster *cluster;
    unsigned number;
    struct mlt_ps *ps;
    struct mlt_loop *loop;
    mlt_table table[LOOP_RANDOM_TABLES];
    int code, failed; /* what its program returned; the run that failed */
    struct mlt_error error;
};

struct cluster {
    char folder[64];
    unsigned nodes, each;
    const char *model;
    uint64_t seed;
    struct loop_job job;
    bool odd;    /* node 1 has other values */
    bool clocks; /* ends a clock in place of a pass */
    uint32_t other_id[LOOP_RANDOM_ITERATIONS];
    pthread_barrier_t turn; /* of the nodes and the test */
    struct node node[NODES_MAX];
    int (*program)(struct node *n);
    /* What the nodes have in their parts after a pass. */
    row_values got[LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];
    double total[NODES_MAX][2];
};

/* ---- the nodes ----------------------------------------------------------- */

static int open_node(struct node *n)
{
    struct cluster *c = n->cluster;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    int code;

    opt.workers = c->each;
    opt.memory_limit = 64 << 20;
    opt.consistency = c->model;
    opt.nodes = c->nodes;
    opt.node = n->number;
    opt.meet = c->nodes > 1 ? c->folder : NULL;
    code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (code)
        return code;
    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        n->table[t] = loop_job_table(&c->job, n->ps, t);
    return mlt_ps_start(n->ps, &n->error);
}

static float first_value(uint64_t row, int j)
{
    return (float)(row % 7) * 0.125F - (float)j;
}

static int init(struct mlt_worker *w, void *arg)
{
    const struct node *n = arg;

    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++) {
        uint64_t first, count;

        mlt_owned_rows(n->ps, n->table[t], mlt_worker_index(w), &first, &count);
        for (uint64_t r = first; r < first + count; r++) {
            row_values x = {0};

            for (int j = 0; j < LOOP_FIXTURE_WIDTH; j++)
                x[j] = n->cluster->job.shared[t] ? 0 : first_value(r, j);
            mlt_init_row(w, n->table[t], r, x);
        }
    }
    return 0;
}

static int run_steps(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    unsigned steps = mlt_loop_steps(n->loop);
    double *total = n->cluster->total[n->number];
    unsigned turn = plan_is_wavefront(&n->loop->plan)
                        ? 0
                        : (unsigned)(n->cluster->seed % steps);
    int err = 0;

    for (unsigned i = 0; i < steps && !err; i++) {
        err = mlt_loop_step(w, n->loop, (i + turn) % steps, loop_job_body,
                            &n->cluster->job);
        if (mlt_worker_index(w) % n->cluster->each == 0) {
            total[0] += mlt_loop_total(n->loop, 0);
            total[1] = loop_job_larger(total[1], mlt_loop_total(n->loop, 1));
        }
        if (!err)
            err = mlt_clock(w);
    }
    return err;
}

static int run_pass(struct node *n, bool steps)
{
    double *total = n->cluster->total[n->number];
    int err;

    total[0] = 0, total[1] = -1;
    if (steps)
        return mlt_ps_run(n->ps, run_steps, n);
    err = mlt_loop_run(n->loop, loop_job_body, &n->cluster->job);
    for (unsigned i = 0; i < 2; i++)
        total[i] = mlt_loop_total(n->loop, i);
    return err;
}

/* Every row that lies in this node, to the cluster's. */
static void collect(const struct node *n)
{
    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        for (uint64_t r = 0; r < loop_job_rows(t); r++) {
            double x[LOOP_FIXTURE_WIDTH];

            if (rows_read_whole(n->ps, ps_active(n->ps), loop_job_name(t), r, 1,
                                x) != ERR_OK)
                continue;
            for (int j = 0; j < LOOP_FIXTURE_WIDTH; j++)
                n->cluster->got[t][r][j] = (float)x[j];
        }
}

/* Passes, the third and fourth on a fork, whose first writes copy chunks; the
 * last in steps where that may be. */
static int run_passes(struct node *n)
{
    struct cluster *c = n->cluster;
    struct mlt_touch touch[MLT_LOOP_TOUCHES_MAX];
    struct mlt_loop_options o;
    int code = mlt_ps_run(n->ps, init, n);

    loop_job_options(&c->job, c->seed, n->table, touch, &o);
    if (!code)
        code = mlt_loop_new(n->ps, &o, &n->loop, &n->error);
    for (int pass = 0; pass < PASSES; pass++) {
        if (pass == 2 && !code)
            code = (int)ps_fork(n->ps, BRANCH, 0, BRANCH_TRAINING);
        if (pass == 2 && !code)
            code = (int)ps_activate(n->ps, BRANCH);
        if (!code)
            code = run_pass(n, pass == 3 && o.buffer == 0);
        collect(n);
        pthread_barrier_wait(&c->turn);
        pthread_barrier_wait(&c->turn); /* it was looked at */
    }
    mlt_loop_free(n->loop);
    n->loop = NULL;
    return code;
}

static void *node_main(void *arg)
{
    struct node *n = arg;

    n->code = open_node(n);
    if (n->code) {
        fprintf(stderr, "node %u: %s\n", n->number, n->error.text);
        abort();
    }
    n->code = n->cluster->program(n);
    mlt_ps_free(n->ps);
    n->ps = NULL;
    return NULL;
}

static void start_cluster(struct cluster *c, pthread_t thread[])
{
    snprintf(c->folder, sizeof(c->folder), "/tmp/mltune-loop-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    assert_int_equal(pthread_barrier_init(&c->turn, NULL, c->nodes + 1), 0);
    for (unsigned i = 0; i < c->nodes; i++) {
        c->node[i] = (struct node){.cluster = c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, node_main, &c->node[i]), 0);
    }
}

static void stop_cluster(struct cluster *c, pthread_t thread[])
{
    for (unsigned i = 0; i < c->nodes; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&c->turn);
    assert_int_equal(rmdir(c->folder), 0);
}

/* ---- against the serial run ---------------------------------------------- */

static void compare(const struct cluster *c, int pass)
{
    double n = (double)c->job.r.nest.iterations;

    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        for (uint64_t r = 0; r < loop_job_rows(t); r++)
            for (int j = 0; j < LOOP_FIXTURE_WIDTH; j++)
                if (c->got[t][r][j] != c->job.plain[t][r][j])
                    fail_msg("seed %llu, pass %d: table %s, row %llu",
                             (unsigned long long)c->seed, pass,
                             loop_job_name(t), (unsigned long long)r);
    for (unsigned i = 0; i < c->nodes; i++) {
        assert_true(c->total[i][0] == n * (n - 1) / 2);
        assert_true(c->total[i][1] == n - 1);
    }
}

static void check_seed(struct cluster *c, uint64_t seed)
{
    pthread_t thread[NODES_MAX];

    c->seed = seed;
    c->nodes = 2 + (unsigned)(seed % 3);
    c->each = 1 + (unsigned)(seed / 3 % 3);
    c->model = seed % 4 ? "bsp" : seed % 8 ? "async" : "ssp";
    c->program = run_passes;
    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        for (uint64_t r = 0; r < loop_job_rows(t); r++)
            for (int j = 0; j < LOOP_FIXTURE_WIDTH && !c->job.shared[t]; j++)
                c->job.plain[t][r][j] = first_value(r, j);
    start_cluster(c, thread);
    for (int pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(&c->turn);
        loop_job_plain(&c->job);
        compare(c, pass);
        pthread_barrier_wait(&c->turn);
    }
    stop_cluster(c, thread);
    for (unsigned i = 0; i < c->nodes; i++)
        assert_int_equal(c->node[i].code, 0);
}

/* However the workers are spread over two to four nodes: an ordered loop gives
 * what the serial one gives, an unordered one what the order gives in which its
 * iterations began, to the last bit; each buffered update is applied once;
 * totals are whole on all nodes. Whole passes and steps, forks, tables that are
 * only read; with shared tables and without any. */
static void comm_loop_equals_a_serial_run(void **state)
{
    static struct cluster c;
    int64_t before = mem_outstanding();

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        memset(&c, 0, sizeof(c));
        if (loop_job_make(&c.job, seed))
            check_seed(&c, seed);
    }
    assert_int_equal(mem_outstanding(), before);
}

/* ---- what ends a pass ---------------------------------------------------- */

static int new_loop(struct node *n)
{
    struct cluster *c = n->cluster;
    struct mlt_touch touch[MLT_LOOP_TOUCHES_MAX];
    struct mlt_loop_options o;

    loop_job_options(&c->job, c->seed, n->table, touch, &o);
    if (c->odd && n->number == 1)
        o.value = c->other_id;
    return mlt_loop_new(n->ps, &o, &n->loop, &n->error);
}

/* The body of the last node's last worker. */
static int fails(const struct mlt_block *b, void *arg)
{
    struct cluster *c = arg;

    if (mlt_worker_index(b->worker) == mlt_worker_count(b->worker) - 1)
        return ERR_APP;
    return loop_job_body(b, &c->job);
}

/* A pass that fails, another on another branch, which does not. */
static int run_failing(struct node *n)
{
    struct cluster *c = n->cluster;
    int code = mlt_ps_run(n->ps, init, n);

    if (!code)
        code = new_loop(n);
    if (!code)
        code = (int)ps_fork(n->ps, 1, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(n->ps, 1);
    n->failed = mlt_loop_run(n->loop, fails, c);
    pthread_barrier_wait(&c->turn); /* all iterations that began are counted */
    pthread_barrier_wait(&c->turn);
    if (!code)
        code = (int)ps_fork(n->ps, 2, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(n->ps, 2);
    if (!code)
        code = run_pass(n, false);
    collect(n);
    mlt_loop_free(n->loop);
    return code;
}

/* Seeds whose loops are split in two dimensions over four workers. */
static void make_rotated(struct cluster *c, uint64_t seed)
{
    memset(c, 0, sizeof(*c));
    for (;; seed++) {
        struct depends ds;
        struct loop_plan plan;

        if (!loop_job_make(&c->job, seed))
            continue;
        assert_int_equal(depend_find(&c->job.r.nest, &ds), ERR_OK);
        plan_make(&c->job.r.nest, &ds, 4, c->job.r.time_parts, &plan);
        if (plan.strategy == LOOP_2D && plan.workers == 4)
            break;
    }
    c->seed = seed;
    c->nodes = 2;
    c->each = 2;
    c->model = "bsp";
    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        for (uint64_t r = 0; r < loop_job_rows(t); r++)
            for (int j = 0; j < LOOP_FIXTURE_WIDTH && !c->job.shared[t]; j++)
                c->job.plain[t][r][j] = first_value(r, j);
}

/* A body's error ends the pass on all workers of all nodes: the others do not
 * wait for rows that never come. The loop can be run again. */
static void comm_loop_that_fails_ends_on_all_nodes(void **state)
{
    static struct cluster c;
    pthread_t thread[NODES_MAX];

    (void)state;
    make_rotated(&c, 1);
    c.program = run_failing;
    start_cluster(&c, thread);
    pthread_barrier_wait(&c.turn);
    c.job.count = 0;
    pthread_barrier_wait(&c.turn);
    stop_cluster(&c, thread);
    assert_int_equal(c.node[0].failed, ERR_CANCELED);
    assert_int_equal(c.node[1].failed, ERR_APP);
    for (unsigned i = 0; i < c.nodes; i++)
        assert_int_equal(c.node[i].code, 0);
    loop_job_plain(&c.job);
    compare(&c, 0);
}

/* Node 1 leaves out the second pass. */
static int some_pass(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    int code = mlt_loop_pass(w, n->loop, loop_job_body, &n->cluster->job);

    if (code || n->number == 0)
        return code
                   ? code
                   : mlt_loop_pass(w, n->loop, loop_job_body, &n->cluster->job);
    return n->cluster->clocks ? mlt_clock(w) : 0;
}

static int run_absent(struct node *n)
{
    int code = new_loop(n), why;

    if (!code)
        code = mlt_loop_run(n->loop, loop_job_body, &n->cluster->job);
    n->failed = mlt_ps_run(n->ps, some_pass, n);
    why = mlt_ps_model_error(n->ps, &n->error);
    mlt_loop_free(n->loop);
    return n->number == 0 && why != ERR_APP ? ERR_INVAL : code;
}

/* A node that ends its work, or the next clock, without a pass in which others
 * wait for it: the run ends, and they say who does not come. */
static void comm_loop_names_a_node_that_does_not_come(void **state)
{
    static struct cluster c;

    (void)state;
    for (int clocks = 0; clocks < 2; clocks++) {
        pthread_t thread[NODES_MAX];

        make_rotated(&c, 1);
        c.program = run_absent;
        c.odd = false;
        c.clocks = clocks;
        start_cluster(&c, thread);
        stop_cluster(&c, thread);
        for (unsigned i = 0; i < c.nodes; i++)
            assert_int_equal(c.node[i].code, 0);
        assert_int_equal(c.node[0].failed, ERR_APP);
        assert_int_equal(c.node[1].failed, ERR_CANCELED);
        assert_non_null(strstr(c.node[0].error.text,
                               "node 1 ends its clock, or the run, without the "
                               "pass of loop loop, in which node 0 waits"));
    }
}

/* Of each node one worker ends a clock while the other waits in a pass. */
static int half_pass(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    int code = mlt_loop_pass(w, n->loop, loop_job_body, &n->cluster->job);

    for (int i = 0; i < 3 && !code; i++) /* in step */
        code = mlt_clock(w);
    if (code)
        return code;
    return mlt_worker_index(w) % 2
               ? mlt_clock(w)
               : mlt_loop_pass(w, n->loop, loop_job_body, &n->cluster->job);
}

static int run_half(struct node *n)
{
    int code = new_loop(n);

    n->failed = mlt_ps_run(n->ps, half_pass, n);
    (void)mlt_ps_model_error(n->ps, &n->error);
    mlt_loop_free(n->loop);
    return code;
}

/* No node has all its workers in the pass: it is found within one. */
static void comm_loop_names_a_worker_that_does_not_come(void **state)
{
    static struct cluster c;
    pthread_t thread[NODES_MAX];
    bool said = false;

    (void)state;
    make_rotated(&c, 1);
    c.program = run_half;
    start_cluster(&c, thread);
    stop_cluster(&c, thread);
    for (unsigned i = 0; i < c.nodes; i++) {
        assert_int_equal(c.node[i].code, 0);
        assert_true(c.node[i].failed == ERR_APP ||
                    c.node[i].failed == ERR_CANCELED);
        said |= strstr(c.node[i].error.text,
                       "ends its clock without the pass of loop loop") != NULL;
    }
    assert_true(said);
}

static int run_odd(struct node *n)
{
    struct fault f = {0};
    int code = new_loop(n);

    if (!code)
        code = mlt_loop_run(n->loop, loop_job_body, &n->cluster->job);
    if (ps_lost(n->ps, &f) != ERR_OK)
        snprintf(n->error.text, sizeof(n->error.text), "%s", f.text);
    mlt_loop_free(n->loop);
    return code;
}

/* A node whose loop has other data: both end, and both say why. */
static void comm_loop_that_differs_is_refused(void **state)
{
    static struct cluster c;
    pthread_t thread[NODES_MAX];

    (void)state;
    make_rotated(&c, 1);
    memcpy(c.other_id, c.job.id, sizeof(c.other_id));
    c.other_id[0]++;
    c.odd = true;
    c.program = run_odd;
    start_cluster(&c, thread);
    stop_cluster(&c, thread);
    assert_int_equal(c.job.count, 0);
    for (unsigned i = 0; i < c.nodes; i++) {
        assert_int_equal(c.node[i].code, ERR_NODE);
        assert_non_null(strstr(c.node[i].error.text,
                               "has begun another loop than loop, or the same "
                               "over other iterations"));
    }
}

static int dies(const struct mlt_block *b, void *arg)
{
    struct cluster *c = arg;

    if (mlt_worker_index(b->worker) == mlt_worker_count(b->worker) - 1)
        _exit(0);
    return loop_job_body(b, &c->job);
}

/* In a process of its own: 0 where all is as it should be. */
static int be_node(struct cluster *c, unsigned number)
{
    struct node *n = &c->node[number];
    struct fault f = {0};

    alarm(DIES_S); /* rather than hang */
    *n = (struct node){.cluster = c, .number = number};
    if (open_node(n) || new_loop(n))
        return 1;
    if (mlt_loop_run(n->loop, dies, c) != ERR_NODE ||
        ps_lost(n->ps, &f) != ERR_NODE || !strstr(f.text, "node 1"))
        return 2;
    mlt_loop_free(n->loop);
    mlt_ps_free(n->ps);
    return 0;
}

/* A node that dies within a pass ends it on the others, and is named. */
static void comm_loop_without_a_node_ends(void **state)
{
    static struct cluster c;
    pid_t pid[2];

    (void)state;
    make_rotated(&c, 1);
    snprintf(c.folder, sizeof(c.folder), "/tmp/mltune-loop-XXXXXX");
    assert_non_null(mkdtemp(c.folder));
    for (unsigned i = 0; i < 2; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            _exit(be_node(&c, i));
    }
    for (unsigned i = 0; i < 2; i++) {
        char path[96];
        int status;

        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
        snprintf(path, sizeof(path), "%s/node-%u", c.folder, i);
        unlink(path); /* the dead one's */
        snprintf(path, sizeof(path), "%s/node-%u.socket", c.folder, i);
        unlink(path);
    }
    assert_int_equal(rmdir(c.folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_loop_equals_a_serial_run),
        cmocka_unit_test(comm_loop_that_fails_ends_on_all_nodes),
        cmocka_unit_test(comm_loop_names_a_node_that_does_not_come),
        cmocka_unit_test(comm_loop_names_a_worker_that_does_not_come),
        cmocka_unit_test(comm_loop_that_differs_is_refused),
        cmocka_unit_test(comm_loop_without_a_node_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
