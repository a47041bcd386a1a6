/* Access knowledge in the runtime: several nodes, each in a thread of this
 * process, on real sockets. What is known changes what is sent, and no value.
 */
#include "base/mem.h"
#include "ps/known.h"
#include "ps/ps.h"
#include "tests/unit/check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
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
    bool wanders; /* every clock reads other rows */
    bool parts;   /* clocks are of PARTS parts */
    char folder[64];
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

static int init(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    uint64_t first, count;
    float x[WIDTH];

    mlt_owned_rows(n->ps, 0, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        for (int j = 0; j < WIDTH; j++)
            x[j] = initial(r) + (float)j;
        mlt_init_row(w, 0, r, x);
    }
    return 0;
}

static void collect(struct node *n)
{
    double x[WIDTH];

    for (uint64_t r = 0; r < ROWS; r++)
        if (ps_read_rows(n->ps, ps_active(n->ps), "rows", r, 1, x) == ERR_OK)
            for (uint64_t j = 0; j < WIDTH; j++)
                n->cluster->values[r * WIDTH + j] = (float)x[j];
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
    code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (!code)
        code = mlt_ps_table(n->ps, &rows, &t, &n->error);
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

static void run_cluster(struct cluster *c)
{
    pthread_t thread[NODES_MAX];

    snprintf(c->folder, sizeof(c->folder), "/tmp/mltune-access-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    for (unsigned i = 0; i < c->nodes; i++) {
        c->node[i] = (struct node){.cluster = c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, node_main, &c->node[i]), 0);
    }
    for (unsigned i = 0; i < c->nodes; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(rmdir(c->folder), 0);
    for (unsigned i = 0; i < c->nodes; i++)
        if (c->node[i].code)
            fail_msg("node %u: %s (%s)", i, mlt_error_text(c->node[i].code),
                     c->node[i].error.text);
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

/* Under bsp, the same bits as on one node, whatever is known: rows that are
 * read again in each clock, in each third, and never. */
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

/* What is known is all wrong: what a clock reads is not read again soon. Then
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
    snprintf(c.folder, sizeof(c.folder), "/tmp/mltune-access-XXXXXX");
    assert_non_null(mkdtemp(c.folder));
    for (unsigned i = 0; i < 2; i++) {
        c.node[i] = (struct node){.cluster = &c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, large_main, &c.node[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(c.node[0].code | c.node[1].code, 0);
    assert_int_equal(rmdir(c.folder), 0);
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
    assert_non_null(strstr(error.text, "\"guess\"; there are: off, gather"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_nodes_bsp_gives_the_same_bits),
        cmocka_unit_test(access_nodes_gather_in_the_first_clock),
        cmocka_unit_test(access_nodes_parts_are_known_apart),
        cmocka_unit_test(access_nodes_wrong_knowledge_changes_nothing),
        cmocka_unit_test(access_nodes_long_lists_go_in_turns),
        cmocka_unit_test(access_nodes_unknown_kind_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
