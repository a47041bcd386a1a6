/* Access knowledge in the runtime: several nodes, each in a thread of this
 * process, on real sockets. What is known changes what is sent, and no value.
 */
#include "base/mem.h"
#include "base/npy_io.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/restore_io.h"
#include "ps/rows/prefetch_list.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/rows_whole.h"
#include "tests/unit/fixture/scratch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NODES_MAX = 4,
    WORKERS = 4, /* over all nodes */
    ROWS = 1200,
    WIDTH = 4,
    READS = 80, /* of a worker in a clock */
    CLOCKS = 6,
    PARTS = 3,
    LONG = 20000,
    LONG_BATCH = 500
};

struct cluster;

struct node {
    struct cluster *cluster;
    unsigned number;
    struct mlt_ps *ps;
    struct mlt_error error;
    struct ps_traffic traffic, first; /* in the end; after the first run */
    int code;
};

struct cluster {
    const char *consistency, *access;
    unsigned nodes, staleness;
    enum { SILENT, EXACT, MISSING, WRONG } expect; /* what is said before */
    bool wanders; /* every clock reads other rows */
    bool parts;   /* clocks are of PARTS parts */
    double mbps;  /* budget; 0: none */
    char folder[64];
    pthread_barrier_t *written; /* all nodes have written their snapshots */
    struct node node[NODES_MAX];
    float values[ROWS * WIDTH]; /* each node its part */
};

/* ---- the program --------------------------------------------------------- */

/* Whole numbers, so that sums do not depend on the order. */
static float initial(uint64_t row)
{
    return (float)(row % 11);
}

/* The @i-th row that the worker reads in a clock; mostly its own. */
static uint64_t row_of(const struct cluster *c, unsigned worker, int clock,
                       int i)
{
    uint64_t at = worker * 300 + (uint64_t)i * 7 % 250;

    if (i % 10 == 0)
        at = (uint64_t)i * 31 + worker;
    if (c->wanders)
        at += (uint64_t)clock * 131;
    if (c->parts)
        at += (uint64_t)(clock % PARTS) * 97;
    return at * 17 % ROWS;
}

static bool is_as_it_must(const struct cluster *c, uint64_t row, const float *x)
{
    if (strcmp(c->consistency, "bsp") == 0)
        return true;                /* compared bit by bit in the end */
    for (int j = 0; j < WIDTH; j++) /* never torn: all columns move alike */
        if (x[j] - x[0] != (float)j || x[0] < initial(row))
            return false;
    return true;
}

/* Reads row by row, as a program does that knows nothing of nodes. */
static int visit(struct mlt_worker *w, const struct cluster *c, int clock)
{
    unsigned self = mlt_worker_index(w);
    bool bsp = strcmp(c->consistency, "bsp") == 0;

    for (int i = 0; i < READS; i++) {
        uint64_t row = row_of(c, self, clock, i);
        const float *x = mlt_get_row(w, 0, row);
        float delta[WIDTH];

        if (!x)
            return ERR_CANCELED;
        if (!is_as_it_must(c, row, x))
            return ERR_INVAL;
        for (int j = 0; j < WIDTH; j++)
            delta[j] = bsp ? x[j] / 3 - (float)i / 7 : 1;
        mlt_inc_row(w, 0, i % 3 ? row : row_of(c, self, clock, i / 2), delta);
    }
    return 0;
}

static int work(struct mlt_worker *w, void *arg)
{
    const struct cluster *c = ((struct node *)arg)->cluster;
    int code = 0;

    for (int clock = 0; clock < CLOCKS && !code; clock++) {
        if (c->parts)
            mlt_clock_part(w, (uint64_t)clock % PARTS);
        code = visit(w, c, clock);
        if (!code)
            code = mlt_clock(w);
    }
    return code;
}

/* Rows that the first clock of each part will touch; without every twentieth
 * row, or what it will not touch. */
static int expect(struct node *n)
{
    const struct cluster *c = n->cluster;
    int code = 0;

    for (unsigned w = 0; w < WORKERS; w++)
        for (int clock = 0; clock < (c->parts ? PARTS : 1); clock++)
            for (int i = 0; i < READS && !code; i++) {
                uint64_t row = row_of(c, w, clock, i);

                if (c->expect == MISSING && (i + (int)w) % 20 == 0)
                    continue;
                if (c->expect == WRONG)
                    row = ROWS - 1 - row;
                code = mlt_ps_expect(n->ps, 0, w, (uint64_t)clock,
                                     MLT_READS | MLT_UPDATES, 1, &row);
            }
    return code;
}

static int init(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    uint64_t first, count;
    float x[WIDTH];

    mlt_owned_rows(n->ps, 0, mlt_worker_index(w), &first, &count);
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t row = mlt_row_at(n->ps, 0, i);

        for (int j = 0; j < WIDTH; j++)
            x[j] = initial(row) + (float)j;
        mlt_init_row(w, 0, row, x);
    }
    return 0;
}

static void collect(struct node *n)
{
    double x[WIDTH];

    for (uint64_t r = 0; r < ROWS; r++)
        if (rows_read_whole(n->ps, ps_active(n->ps), "rows", r, 1, x) == ERR_OK)
            for (uint64_t j = 0; j < WIDTH; j++)
                n->cluster->values[r * WIDTH + j] = (float)x[j];
}

/* Writes the branch to the cluster's folder and goes on with what it reads
 * there: snapshots are of numbers, models of rows. */
static int write_and_read(struct node *n, int code)
{
    struct mlt_ps *ps = n->ps;
    branch_id id = ps_active(ps);
    struct fault f;
    char path[96];

    snprintf(path, sizeof(path), "%s/snapshot", n->cluster->folder);
    if (n->cluster->nodes > 1)
        mkdir(path, 0700); /* by whoever comes first */
    if (!code)
        code = (int)ps_fork(ps, 101, id, BRANCH_KEPT);
    if (!code)
        code = (int)ps_snapshot_begin(ps, 101, path, &f);
    if (!code)
        code = (int)ps_snapshot_end(ps, NULL, &f);
    pthread_barrier_wait(n->cluster->written);
    if (!code)
        code = (int)ps_drop(ps, 101);
    if (!code)
        code = (int)ps_restore(ps, 102, path, &f);
    if (!code)
        code = (int)ps_fork(ps, 103, 102, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(ps, 103);
    return code ? code : mlt_ps_save(ps, n->cluster->folder, &n->error);
}

/* Twice, the second time on a fork. */
static int program(struct node *n)
{
    struct mlt_ps *ps = n->ps;
    uint32_t child = 0;
    int code = mlt_ps_run(ps, init, n);

    if (!code)
        code = mlt_ps_run(ps, work, n);
    ps_traffic(ps, &n->first);
    if (!code)
        code = mlt_ps_fork(ps, 0, &child);
    if (!code)
        code = mlt_ps_switch(ps, child);
    if (!code)
        code = mlt_ps_run(ps, work, n);
    ps_traffic(ps, &n->traffic);
    code = write_and_read(n, code);
    collect(n);
    return code;
}

/* ---- clusters ------------------------------------------------------------ */

static int open_node(struct node *n)
{
    const struct cluster *c = n->cluster;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    const struct mlt_table_options rows = {.size = sizeof(rows),
                                           .name = "rows",
                                           .rows = ROWS,
                                           .width = WIDTH,
                                           .chunk_bytes = 512};
    mlt_table t;
    int code;

    opt.workers = WORKERS / c->nodes;
    opt.memory_limit = 64 << 20;
    opt.consistency = c->consistency;
    opt.staleness = c->staleness;
    opt.update_rule = "add";
    opt.nodes = c->nodes;
    opt.node = n->number;
    opt.meet = c->folder;
    opt.access = c->access;
    opt.bandwidth_mbps = c->mbps;
    code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (!code)
        code = mlt_ps_table(n->ps, &rows, &t, &n->error);
    if (!code && c->expect)
        code = expect(n);
    return code ? code : mlt_ps_start(n->ps, &n->error);
}

static void *node_main(void *arg)
{
    struct node *n = arg;

    n->code = open_node(n);
    if (!n->code)
        n->code = program(n);
    mlt_ps_free(n->ps);
    return NULL;
}

/* The model that the nodes have written together has the rows in order. */
static void read_model(const struct cluster *c)
{
    static float values[ROWS * WIDTH];
    struct npy_reader *r;
    struct npy_info info;
    struct fault f;
    char path[96];

    snprintf(path, sizeof(path), "%s/rows.npy", c->folder);
    assert_int_equal(npy_open(path, &info, &r, &f), ERR_OK);
    assert_int_equal(info.rows, ROWS);
    assert_int_equal(npy_read(r, values, sizeof(values), &f), ERR_OK);
    npy_close(r);
    assert_memory_equal(values, c->values, sizeof(values));
}

static void make_folder(struct cluster *c)
{
    snprintf(c->folder, sizeof(c->folder), "%s", scratch_path("XXXXXX"));
    assert_non_null(mkdtemp(c->folder));
}

static void run_cluster(struct cluster *c)
{
    pthread_t thread[NODES_MAX];
    pthread_barrier_t written;

    pthread_barrier_init(&written, NULL, c->nodes);
    c->written = &written;
    make_folder(c);
    for (unsigned i = 0; i < c->nodes; i++) {
        c->node[i] = (struct node){.cluster = c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, node_main, &c->node[i]), 0);
    }
    for (unsigned i = 0; i < c->nodes; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&written);
    for (unsigned i = 0; i < c->nodes; i++)
        if (c->node[i].code)
            fail_msg("node %u: %s (%s)", i, mlt_error_text(c->node[i].code),
                     c->node[i].error.text);
    read_model(c);
}

/* Over all nodes. */
static struct ps_traffic traffic_of(const struct cluster *c, bool first)
{
    struct ps_traffic sum = {0};

    for (unsigned i = 0; i < c->nodes; i++) {
        const struct ps_traffic *t =
            first ? &c->node[i].first : &c->node[i].traffic;

        sum.frames_sent += t->frames_sent;
        sum.bytes_sent += t->bytes_sent;
        sum.rows_foreseen += t->rows_foreseen;
        sum.rows_unforeseen += t->rows_unforeseen;
    }
    return sum;
}

static void expect_same_bits(const struct cluster *a, const struct cluster *b)
{
    assert_memory_equal(a->values, b->values, sizeof(a->values));
}

/* ---- tests --------------------------------------------------------------- */

/* Under bsp, the same bits as on one node, whatever is known and wherever rows
 * lie: rows that are read again in each clock, in each third, and never. After
 * runs, forks, a snapshot written and read, and in the model. */
static void access_nodes_bsp_gives_the_same_bits(void **state)
{
    static struct cluster one, some;

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        one = (struct cluster){.nodes = 1,
                               .consistency = "bsp",
                               .access = "gather",
                               .wanders = kind == 1,
                               .parts = kind == 2};
        run_cluster(&one);
        for (unsigned nodes = 2; nodes <= 4; nodes += 2) {
            some = one;
            some.nodes = nodes;
            run_cluster(&some);
            expect_same_bits(&one, &some);
            some = one;
            some.nodes = nodes;
            some.access = "place";
            some.expect = EXACT + (unsigned)kind;
            run_cluster(&some);
            expect_same_bits(&one, &some);
        }
    }
}

/* Without barriers: no update lost or doubled, no row torn; rows of the first
 * clock are asked for together in all later ones, also in other runs, which
 * takes far fewer frames than one by one. */
static void access_nodes_gather_in_the_first_clock(void **state)
{
    static const char *const models[] = {"ssp", "essp", "async", "barrier"};
    static struct cluster off, on;

    (void)state;
    for (unsigned m = 0; m < 4; m++) {
        struct ps_traffic t, first;

        off = (struct cluster){
            .nodes = 2, .consistency = models[m], .access = "off"};
        on = off;
        on.access = NULL; /* the default */
        run_cluster(&off);
        run_cluster(&on);
        expect_same_bits(&off, &on);
        assert_int_equal(traffic_of(&off, false).rows_foreseen, 0);
        t = traffic_of(&on, false);
        first = traffic_of(&on, true);
        assert_true(first.rows_unforeseen > 0);
        assert_int_equal(t.rows_unforeseen, first.rows_unforeseen);
        assert_true(t.rows_foreseen > first.rows_foreseen &&
                    first.rows_foreseen > 0);
        if (m == 0) /* every row anew in each clock */
            assert_true(t.frames_sent * 4 <
                        traffic_of(&off, false).frames_sent);
    }
}

/* With a budget rows that were fetched are read anew, since they may be fresher
 * now; they are no less known for that. */
static void access_nodes_budget_knows_the_same(void **state)
{
    static struct cluster off, on;
    struct ps_traffic t;

    (void)state;
    off = (struct cluster){
        .nodes = 2, .consistency = "essp", .access = "off", .mbps = 1000};
    on = off;
    on.access = "gather";
    run_cluster(&off);
    run_cluster(&on);
    expect_same_bits(&off, &on);
    t = traffic_of(&on, false);
    assert_int_equal(t.rows_unforeseen, traffic_of(&on, true).rows_unforeseen);
    assert_true(t.rows_unforeseen <= (uint64_t)WORKERS * READS);
    assert_true(t.rows_foreseen > 0);
}

/* Rows that are known of a part are asked for in its clocks only. */
static void access_nodes_parts_are_known_apart(void **state)
{
    static struct cluster off, on;
    struct ps_traffic t;

    (void)state;
    off = (struct cluster){
        .nodes = 2, .consistency = "ssp", .access = "off", .parts = true};
    on = off;
    on.access = "gather";
    run_cluster(&off);
    run_cluster(&on);
    expect_same_bits(&off, &on);
    t = traffic_of(&on, false);
    assert_int_equal(t.rows_unforeseen, traffic_of(&on, true).rows_unforeseen);
    assert_true(t.rows_unforeseen <= (uint64_t)PARTS * WORKERS * READS);
    assert_true(t.rows_foreseen >=
                (uint64_t)(2 * CLOCKS / PARTS - 1) * t.rows_unforeseen);
}

/* Knowledge is all wrong: what a clock reads is not read again soon. Then
 * rows are fetched in vain, and everything comes out as it must. */
static void access_nodes_wrong_knowledge_changes_nothing(void **state)
{
    static const char *const models[] = {"ssp", "async"};
    static struct cluster off, on;

    (void)state;
    for (unsigned m = 0; m < 2; m++) {
        off = (struct cluster){.nodes = 4,
                               .consistency = models[m],
                               .access = "off",
                               .staleness = 2,
                               .wanders = true};
        on = off;
        on.access = "gather";
        run_cluster(&off);
        run_cluster(&on);
        expect_same_bits(&off, &on);
    }
}

/* Rows said before the start are asked for from the first clock on; placed,
 * most of it lies where it is touched. Without a twentieth of it nearly as much
 * is saved; wrong from end to end, only speed is lost. */
static void access_nodes_expected_rows_are_placed(void **state)
{
    static struct cluster off, on;
    uint64_t bytes[WRONG + 1];

    (void)state;
    off = (struct cluster){.nodes = 4, .consistency = "ssp", .access = "off"};
    run_cluster(&off);
    for (unsigned how = SILENT; how <= WRONG; how++) {
        struct ps_traffic t;

        on = off;
        on.access = "place";
        on.expect = how;
        run_cluster(&on);
        expect_same_bits(&off, &on);
        t = traffic_of(&on, false);
        bytes[how] = t.bytes_sent;
        assert_int_equal(t.rows_unforeseen > 0, how != EXACT);
        assert_int_equal(t.rows_unforeseen,
                         traffic_of(&on, true).rows_unforeseen);
    }
    assert_true(3 * bytes[EXACT] < 2 * bytes[SILENT]);
    assert_true(4 * bytes[MISSING] < 3 * bytes[SILENT]);
}

/* Nodes that disagree on whether rows are placed do not start. */
static void *half_main(void *arg)
{
    struct node *n = arg;

    n->code = open_node(n);
    mlt_ps_free(n->ps);
    return NULL;
}

static void access_nodes_disagreement_is_refused(void **state)
{
    static struct cluster c[2];
    pthread_t thread[2];
    const struct node *other = &c[1].node[1];

    (void)state;
    c[0] = (struct cluster){
        .nodes = 2, .consistency = "ssp", .access = "place", .expect = EXACT};
    make_folder(&c[0]);
    c[1] = c[0];
    c[1].access = "gather";
    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &c[i].node[i];

        *n = (struct node){.cluster = &c[i], .number = i};
        assert_int_equal(pthread_create(&thread[i], NULL, half_main, n), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(other->code, ERR_NODE);
    assert_non_null(strstr(other->error.text, "(access)"));
}

/* More known rows than may be under way at a time, under a model where one
 * worker's wait for another of the same node's. In batches first, so that it
 * does not take long. */
static int read_all(struct mlt_worker *w, void *arg)
{
    uint64_t all = *(uint64_t *)arg, rows[LONG_BATCH];
    const void *row[LONG_BATCH];
    float one = 1;
    int code = 0;

    for (int clock = 0; clock < 3 && !code; clock++) {
        for (uint64_t r = 0; r < all && !code; r += LONG_BATCH) {
            for (uint64_t i = 0; i < LONG_BATCH; i++)
                rows[i] = r + i;
            code = mlt_get_rows(w, 0, clock ? 1 : LONG_BATCH, rows, row);
            if (!code && *(const float *)row[0] < (float)(clock * WORKERS))
                return ERR_INVAL;
            for (uint64_t i = 0; i < LONG_BATCH && !code; i++)
                mlt_inc_row(w, 0, rows[i], &one);
        }
        if (!code)
            code = mlt_clock(w);
    }
    return code;
}

static void *large_main(void *arg)
{
    struct node *n = arg;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options rows = {
        .size = sizeof(rows), .name = "rows", .rows = LONG, .width = 1};
    mlt_table t;

    opt.workers = 2;
    opt.memory_limit = 64 << 20;
    opt.consistency = "ssp";
    opt.update_rule = "add";
    opt.nodes = 2;
    opt.node = n->number;
    opt.meet = n->cluster->folder;
    n->code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (!n->code)
        n->code = mlt_ps_table(n->ps, &rows, &t, &n->error);
    if (!n->code)
        n->code = mlt_ps_start(n->ps, &n->error);
    if (!n->code)
        n->code = mlt_ps_run(n->ps, read_all, &rows.rows);
    mlt_ps_free(n->ps);
    return NULL;
}

static void access_nodes_long_lists_go_in_turns(void **state)
{
    static struct cluster c;
    pthread_t thread[2];

    (void)state;
    make_folder(&c);
    for (unsigned i = 0; i < 2; i++) {
        c.node[i] = (struct node){.cluster = &c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, large_main, &c.node[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(c.node[0].code | c.node[1].code, 0);
}

/* A name that there is not. */
static void access_nodes_unknown_kind_is_refused(void **state)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps = NULL;
    struct mlt_error error;

    (void)state;
    opt.access = "guess";
    assert_int_equal(mlt_ps_new(&opt, &ps, &error), ERR_INVAL);
    assert_non_null(strstr(error.text, "\"guess\"; there are: off, gather, "
                                       "place"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(access_nodes_bsp_gives_the_same_bits,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_gather_in_the_first_clock,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_budget_knows_the_same,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_parts_are_known_apart,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(
            access_nodes_wrong_knowledge_changes_nothing, scratch_make,
            scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_expected_rows_are_placed,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_disagreement_is_refused,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_long_lists_go_in_turns,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(access_nodes_unknown_kind_is_refused,
                                        scratch_make, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
