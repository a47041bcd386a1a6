/* Several nodes of a parameter server, each in a thread of this process, on
 * real sockets. */
#include "base/log.h"
#include "ps/node/slice.h"
#include "ps/nodes/frame.h"
#include "ps/server/peers.h"
#include "ps/server/ps.h"

#include <zmq.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/frame_whole.h"
#include "tests/unit/fixture/rows_whole.h"

enum { NODES_MAX = 4, ROWS = 300, WIDTH = 5, CLOCKS = 12 };

/* Tables that every node declares, in this order. */
enum { WEIGHTS, BIAS, USERS, COUNTER, MANY };

struct cluster;

/* One node, driven by a thread of its own. */
struct node {
    struct cluster *cluster;
    unsigned number;
    struct mlt_ps *ps;
    int code; /* what its program returned */
    struct staleness seen;
    struct mlt_error error;
};

struct cluster {
    char folder[64];
    const char *listen, *consistency;
    unsigned nodes, workers, staleness;
    double meet_s;
    bool add;         /* weights are summed, not stepped */
    unsigned odd_one; /* node that declares another table; 0: none */
    bool unlike;      /* each leaves other values of a table undecayed */
    bool no_rings;    /* frames go through sockets */
    bool many;        /* a table of so many rows that places are indexed */
    /* What the last node says of itself in place of what the others say. */
    void (*differ)(struct mlt_ps_options *opt);
    int (*program)(struct node *n);
    struct node node[NODES_MAX];
    /* Each node its part. */
    float weights[ROWS * WIDTH], users[ROWS * WIDTH];
    int32_t bias[ROWS * 2];
};

/* ---- the nodes ----------------------------------------------------------- */

static void declare(struct mlt_ps *ps, const char *name, uint32_t width,
                    enum mlt_type type, enum mlt_access access, unsigned flags)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = name,
                                    .rows = ROWS,
                                    .width = width,
                                    .type = type,
                                    .access = access,
                                    .rule = access == MLT_EXCLUSIVE ? "adagrad"
                                                                    : NULL,
                                    .flags = flags,
                                    .chunk_bytes = 512};
    mlt_table t;

    if (mlt_ps_table(ps, &opt, &t, NULL) != 0)
        abort();
}

enum { MANY_ROWS = 1 << 17, MANY_BATCH = 256, MANY_LOOKS = 8 };

static void declare_many(struct mlt_ps *ps)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "many",
                                    .rows = MANY_ROWS,
                                    .width = 4,
                                    .rule = "add"};
    mlt_table t;

    if (mlt_ps_table(ps, &opt, &t, NULL) != 0)
        abort();
}

static void declare_kept(struct mlt_ps *ps, uint32_t undecayed)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "kept",
                                    .rows = ROWS,
                                    .width = WIDTH,
                                    .undecayed = undecayed};
    mlt_table t;

    if (mlt_ps_table(ps, &opt, &t, NULL) != 0)
        abort();
}

static int open_node(struct node *n)
{
    const struct cluster *c = n->cluster;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    int code;

    opt.workers = c->workers;
    opt.memory_limit = 64 << 20;
    opt.consistency = c->consistency;
    opt.staleness = c->staleness;
    opt.learning_rate = 0.1;
    opt.momentum = 0.5;
    opt.weight_decay = 0.25;
    opt.nodes = c->nodes;
    opt.node = n->number;
    opt.meet = c->folder;
    opt.listen = c->listen;
    opt.meet_s = c->meet_s;
    opt.ring_bytes = c->no_rings ? -1 : 0;
    opt.update_rule = c->add ? "add" : "any";
    if (c->differ && n->number == c->nodes - 1)
        c->differ(&opt);
    code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (code)
        return code;
    declare(n->ps, "weights", WIDTH, MLT_F32, MLT_SHARED, 0);
    declare(n->ps, "bias", 2, MLT_I32, MLT_SHARED, MLT_OWN_CLOCK);
    declare(n->ps, "users", WIDTH, MLT_F32, MLT_EXCLUSIVE, 0);
    declare(n->ps, "counter", 1, MLT_I32, MLT_LOCAL, 0);
    if (c->many)
        declare_many(n->ps);
    if (c->unlike)
        declare_kept(n->ps, n->number);
    if (n->number && n->number == c->odd_one)
        declare(n->ps, "odd", 1, MLT_F32, MLT_SHARED, 0);
    return mlt_ps_start(n->ps, &n->error);
}

static void *node_main(void *arg)
{
    struct node *n = arg;

    n->code = open_node(n);
    if (!n->code)
        n->code = n->cluster->program(n);
    mlt_ps_free(n->ps);
    n->ps = NULL;
    return NULL;
}

static void run_cluster(struct cluster *c)
{
    pthread_t thread[NODES_MAX];
    char path[96];

    snprintf(c->folder, sizeof(c->folder), "/tmp/mltune-comm-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    for (unsigned i = 0; i < c->nodes; i++) {
        c->node[i] = (struct node){.cluster = c, .number = i};
        assert_int_equal(
            pthread_create(&thread[i], NULL, node_main, &c->node[i]), 0);
    }
    for (unsigned i = 0; i < c->nodes; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < c->nodes; i++) {
        snprintf(path, sizeof(path), "%s/node-%u", c->folder, i);
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_int_equal(rmdir(c->folder), 0);
}

static void expect_codes(const struct cluster *c, int code)
{
    for (unsigned i = 0; i < c->nodes; i++)
        if (c->node[i].code != code)
            fail_msg("node %u: %s (%s)", i, mlt_error_text(c->node[i].code),
                     c->node[i].error.text);
}

/* ---- work that depends on what is read ----------------------------------- */

static void add_users(struct mlt_worker *w, const struct mlt_ps *ps)
{
    float delta[WIDTH];
    uint64_t first, count;

    mlt_owned_rows(ps, USERS, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        const float *user = mlt_get_row(w, USERS, r);

        for (int j = 0; j < WIDTH; j++)
            delta[j] = 0.25F * user[j] + (float)(r % 7) - (float)j;
        mlt_inc_row(w, USERS, r, delta);
    }
}

/* Some rows one by one, others in a batch; every worker others. Three of four
 * workers add to a row, numbers whose sum depends on the order. */
static int add_weights(struct mlt_worker *w, int32_t clock)
{
    unsigned index = mlt_worker_index(w);
    const void *row[8];
    uint64_t rows[8];
    float delta[8 * WIDTH];
    int code;

    for (uint64_t r = 0; r < ROWS; r++) {
        const float *x;

        if ((r + index) % 4 == 0)
            continue;
        x = mlt_get_row(w, WEIGHTS, r);
        if (!x)
            return ERR_CANCELED;
        for (int j = 0; j < WIDTH; j++)
            delta[j] = x[j] / 3 + (float)((r + index) % 5) - 2 + (float)j / 7 +
                       (float)index / 3;
        mlt_inc_row(w, WEIGHTS, r, delta);
    }
    for (uint64_t i = 0; i < 8; i++)
        rows[i] = (uint64_t)(clock * 37 + (int32_t)index * 11) % ROWS + i < ROWS
                      ? (uint64_t)(clock * 37 + (int32_t)index * 11) % ROWS + i
                      : i;
    code = mlt_get_rows(w, WEIGHTS, 8, rows, row);
    if (code)
        return code;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < WIDTH; j++)
            delta[i * WIDTH + j] = ((const float *)row[i])[j] / 5 - 0.1F;
    mlt_inc_rows(w, WEIGHTS, 8, rows, delta);
    return 0;
}

static int add_bias(struct mlt_worker *w, int32_t clock)
{
    for (uint64_t r = 0; r < ROWS; r += 3) {
        const int32_t *x = mlt_get_row(w, BIAS, r);
        int32_t delta[2] = {clock, (int32_t)mlt_worker_index(w)};

        if (!x)
            return ERR_CANCELED;
        delta[0] += x[0] % 3;
        mlt_inc_row(w, BIAS, r, delta);
    }
    return clock % 2 ? mlt_clock_table(w, BIAS) : 0;
}

static int work(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    int code = 0;

    for (int i = 0; i < CLOCKS && !code; i++) {
        int32_t *counter = mlt_row(w, COUNTER, 0);

        counter[0]++;
        add_users(w, n->ps);
        code = add_bias(w, counter[0]);
        if (!code)
            code = add_weights(w, counter[0]);
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

    mlt_owned_rows(n->ps, WEIGHTS, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        for (int j = 0; j < WIDTH; j++)
            x[j] = (float)((r * 31 + (uint64_t)j * 7) % 11) / 11 - 0.5F;
        mlt_init_row(w, WEIGHTS, r, x);
    }
    return 0;
}

/* Every row of the branch that lies in this node, to the cluster's arrays. */
static void collect(struct node *n, branch_id id)
{
    struct cluster *c = n->cluster;
    double x[WIDTH];

    for (uint64_t r = 0; r < ROWS; r++) {
        if (rows_read_whole(n->ps, id, "weights", r, 1, x) == ERR_OK)
            for (int j = 0; j < WIDTH; j++)
                c->weights[r * WIDTH + (uint64_t)j] = (float)x[j];
        if (rows_read_whole(n->ps, id, "users", r, 1, x) == ERR_OK)
            for (int j = 0; j < WIDTH; j++)
                c->users[r * WIDTH + (uint64_t)j] = (float)x[j];
        if (rows_read_whole(n->ps, id, "bias", r, 1, x) == ERR_OK)
            for (int j = 0; j < 2; j++)
                c->bias[r * 2 + (uint64_t)j] = (int32_t)x[j];
    }
}

/* Two branches in turns, one of them forked from the other on its way. */
static int train(struct node *n)
{
    struct mlt_ps *ps = n->ps;
    int code = mlt_ps_run(ps, init, n);

    if (!code)
        code = (int)ps_fork(ps, 1, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(ps, 1);
    if (!code)
        code = mlt_ps_run(ps, work, n);
    if (!code)
        code = (int)ps_fork(ps, 2, 1, BRANCH_TRAINING);
    if (!code)
        code = mlt_ps_run(ps, work, n); /* of branch 1: 2 stays behind */
    if (!code)
        code = (int)ps_drop(ps, 1);
    if (!code)
        code = (int)ps_activate(ps, 2);
    if (!code)
        code = mlt_ps_set_learning_rate(ps, 0.05);
    if (!code)
        code = mlt_ps_run(ps, work, n);
    collect(n, 2);
    return code;
}

static void expect_same_bits(const struct cluster *a, const struct cluster *b)
{
    assert_memory_equal(a->weights, b->weights, sizeof(a->weights));
    assert_memory_equal(a->users, b->users, sizeof(a->users));
    assert_memory_equal(a->bias, b->bias, sizeof(a->bias));
}

/* ---- tests --------------------------------------------------------------- */

/* bsp gives the same bits however four workers are spread over nodes: shared
 * tables with momentum, tables that end their clock early, exclusive rows,
 * forks and branch switches. */
static void comm_bsp_any_number_of_nodes_gives_the_same_bits(void **state)
{
    static struct cluster one, two, four;

    (void)state;
    one = (struct cluster){.nodes = 1, .workers = 4, .consistency = "bsp"};
    two = (struct cluster){.nodes = 2, .workers = 2, .consistency = "bsp"};
    four = (struct cluster){.nodes = 4, .workers = 1, .consistency = "bsp"};
    one.program = two.program = four.program = train;
    run_cluster(&one);
    expect_codes(&one, 0);
    run_cluster(&two);
    expect_codes(&two, 0);
    expect_same_bits(&one, &two);
    four.listen = "tcp://127.0.0.1:*";
    run_cluster(&four);
    expect_codes(&four, 0);
    expect_same_bits(&one, &four);
}

/* Six workers too, of which neither three nor two are an aligned block. */
static void comm_bsp_of_odd_nodes_gives_the_same_bits(void **state)
{
    static struct cluster one, two, three;

    (void)state;
    one = (struct cluster){.nodes = 1, .workers = 6, .consistency = "bsp"};
    two = (struct cluster){.nodes = 2, .workers = 3, .consistency = "bsp"};
    three = (struct cluster){.nodes = 3, .workers = 2, .consistency = "bsp"};
    one.program = two.program = three.program = train;
    run_cluster(&one);
    expect_codes(&one, 0);
    run_cluster(&two);
    expect_codes(&two, 0);
    expect_same_bits(&one, &two);
    run_cluster(&three);
    expect_codes(&three, 0);
    expect_same_bits(&one, &three);
}

/* ---- many rows ----------------------------------------------------------- */

static int init_many(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    uint64_t first, count;
    float x[4] = {0};

    mlt_owned_rows(n->ps, MANY, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        x[0] = (float)r;
        mlt_init_row(w, MANY, r, x);
    }
    return 0;
}

/* Reads a batch, and each of its rows again and again while rows of other
 * workers come, which are neighbours of these. */
static int look_again(struct mlt_worker *w, uint64_t begin)
{
    const void *row[MANY_BATCH];
    uint64_t rows[MANY_BATCH];
    int code;

    for (uint64_t i = 0; i < MANY_BATCH; i++)
        rows[i] = begin + i * 4 + mlt_worker_index(w) % 4;
    code = mlt_get_rows(w, MANY, MANY_BATCH, rows, row);
    for (int look = 0; look < MANY_LOOKS && !code; look++)
        for (int i = 0; i < MANY_BATCH; i++) {
            const float *x = mlt_get_row(w, MANY, rows[i]);

            if (!x || x[0] != (float)rows[i])
                return x ? ERR_INVAL : ERR_CANCELED;
        }
    return code;
}

static int look_at_many(struct mlt_worker *w, void *arg)
{
    int code = 0;

    (void)arg;
    for (uint64_t r = 0; r < MANY_ROWS && !code; r += MANY_BATCH * 4)
        code = look_again(w, r);
    return code ? code : mlt_clock(w);
}

static int read_many(struct node *n)
{
    int code = mlt_ps_run(n->ps, init_many, n);

    return code ? code : mlt_ps_run(n->ps, look_at_many, n);
}

/* Rows that a worker has had are found without a lock, while the node's cache
 * takes others in. */
static void comm_rows_are_found_while_others_come(void **state)
{
    static struct cluster c;

    (void)state;
    c = (struct cluster){.nodes = 2,
                         .workers = 4,
                         .consistency = "bsp",
                         .many = true,
                         .program = read_many};
    run_cluster(&c);
    expect_codes(&c, 0);
}

/* ---- models without barriers --------------------------------------------- */

enum { COUNTED = 20 }; /* rows 0, 15, 30, ... */

/* Adds one to some rows' column of this worker, which so says how many clocks
 * of it the row holds; and checks what the model promises of the others. */
static int count_clocks(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    const struct cluster *c = n->cluster;
    unsigned all = mlt_worker_count(w), self = mlt_worker_index(w);
    bool bounds = strcmp(c->consistency, "ssp") == 0 ||
                  strcmp(c->consistency, "essp") == 0;
    float one[WIDTH] = {0};
    const void *row[COUNTED];
    uint64_t rows[COUNTED];
    int code = 0;

    one[self] = 1;
    for (uint64_t r = 0; r < COUNTED; r++)
        rows[r] = r * 15;
    for (int clock = 0; clock < 2 * CLOCKS && !code; clock++) {
        code = mlt_get_rows(w, WEIGHTS, COUNTED, rows, row);
        for (uint64_t r = 0; r < COUNTED && !code; r++) {
            const float *x = row[r];

            for (unsigned i = 0; i < all; i++)
                if (bounds && x[i] < (float)clock - (float)c->staleness)
                    return ERR_INVAL; /* staler than allowed */
            mlt_inc_row(w, WEIGHTS, rows[r], one);
        }
        if (!code)
            code = mlt_clock(w);
    }
    return code;
}

static int declare_sums(struct node *n)
{
    struct mlt_ps *ps = n->ps;
    int code = (int)ps_fork(ps, 1, 0, BRANCH_TRAINING);

    if (!code)
        code = (int)ps_activate(ps, 1);
    for (int i = 0; i < 2 && !code; i++) {
        code = mlt_ps_run(ps, count_clocks, n);
        if (code)
            break;
        collect(n, 1);
        code = (int)ps_drop(ps, 1);
        if (!code)
            code = (int)ps_fork(ps, 1, 0, BRANCH_TRAINING);
        if (!code)
            code = (int)ps_activate(ps, 1);
    }
    ps_staleness(ps, &n->seen);
    return code;
}

/* Each read is counted where the model bounds what it may miss, none beyond
 * that bound. */
static void expect_fresh(const struct cluster *c, bool bounds)
{
    for (unsigned i = 0; i < c->nodes; i++) {
        const struct staleness *seen = &c->node[i].seen;

        assert_int_equal(seen->reads > 0, bounds);
        for (int d = STALENESS_LEAST; d < -1 - (int)c->staleness; d++)
            assert_int_equal(staleness_at(seen, d), 0);
    }
}

/* No update is lost or doubled under any model, and none is staler than its
 * bound: each worker's column counts exactly its clocks. */
static void comm_every_model_keeps_every_update(void **state)
{
    static const char *const models[] = {"ssp", "essp", "async", "barrier"};
    static struct cluster c;

    (void)state;
    for (unsigned m = 0; m < 4; m++) {
        c = (struct cluster){.nodes = 2,
                             .workers = 2,
                             .consistency = models[m],
                             .staleness = 2,
                             .add = true,
                             .program = declare_sums};
        run_cluster(&c);
        expect_codes(&c, 0);
        expect_fresh(&c, m < 2);
        for (uint64_t r = 0; r < ROWS; r++)
            for (uint64_t j = 0; j < 4; j++)
                assert_true(c.weights[r * WIDTH + j] ==
                            (r % 15 ? 0 : 2 * CLOCKS));
    }
}

/* ---- ends ---------------------------------------------------------------- */

/* The others go on until they are told: where nobody waits for anybody (async)
 * they could be done before. */
static int fail_in_one(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    int code = 0;

    for (int i = 0; !code; i++) {
        if (i == 5 && mlt_worker_index(w) == 3)
            return ERR_APP;
        code = add_weights(w, i);
        if (!code)
            code = mlt_clock(w);
    }
    (void)n;
    return code;
}

/* The branch of a run that has failed is dropped; the next run succeeds. */
static int fail_and_go_on(struct node *n)
{
    struct mlt_ps *ps = n->ps;
    int code = (int)ps_fork(ps, 1, 0, BRANCH_TRAINING);

    if (!code)
        code = (int)ps_activate(ps, 1);
    if (!code)
        code = mlt_ps_run(ps, fail_in_one, n);
    if (code != (n->number == 1 ? ERR_APP : ERR_CANCELED))
        return code ? code : ERR_INVAL;
    code = (int)ps_drop(ps, 1);
    if (!code)
        code = (int)ps_fork(ps, 2, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(ps, 2);
    if (!code)
        code = mlt_ps_run(ps, work, n);
    collect(n, 2);
    return code;
}

/* A worker's error ends the run of all nodes, there with its code, and does
 * not touch the next run: the same bits as without it. */
static void comm_failure_ends_the_run_everywhere(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "async"};
    static struct cluster c;

    (void)state;
    for (unsigned m = 0; m < 3; m++) {
        c = (struct cluster){.nodes = 2,
                             .workers = 2,
                             .consistency = models[m],
                             .program = fail_and_go_on};
        run_cluster(&c);
        expect_codes(&c, 0);
    }
}

/* Answers of hold and release, of a run whose workers count their own clocks.
 */
struct held {
    struct slice *slice;
    struct node *node;
    _Atomic uint64_t clocks; /* run by worker 0 of the node */
};

static uint64_t hold(void *arg)
{
    struct held *h = arg;

    return slice_hold(h->slice);
}

static void release(void *arg, uint64_t clocks)
{
    struct held *h = arg;

    slice_release(h->slice, clocks);
}

static int until_cut(struct mlt_worker *w, void *arg)
{
    struct held *h = arg;
    struct mlt_ps *ps = h->node->ps;
    struct slice_tick tick = {0};
    unsigned local = ps_worker_local(w);
    int code = 0;

    slice_enter(h->slice, local, &tick);
    while (!code) {
        uint32_t ticket = ps_ticket(ps);
        enum slice_turn turn = slice_start_clock(h->slice, local);

        if (turn == SLICE_OVER)
            break;
        if (turn == SLICE_HELD) {
            if (!ps_await(w, ticket))
                return ERR_CANCELED;
            continue;
        }
        code = add_weights(w, (int32_t)h->clocks);
        /* Cut from inside, by one node, after some clocks. */
        if (local == 0 && ++h->clocks == 4 + h->node->number &&
            h->node->number == 1)
            ps_cut(ps);
        if (!code)
            code = mlt_clock(w);
        slice_end_clock(h->slice, local, &tick);
    }
    slice_leave(h->slice, local);
    return code;
}

static uint64_t ran[NODES_MAX];

static int run_until_cut(struct node *n)
{
    struct held h = {.node = n};
    struct ps_cut cut = {hold, release, &h};
    int code = (int)slice_new(n->cluster->workers, &h.slice);

    if (!code)
        code = (int)slice_begin(h.slice, 1000000, 1000000, false);
    ps_set_cut(n->ps, &cut);
    if (!code)
        code = (int)ps_fork(n->ps, 1, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(n->ps, 1);
    if (!code)
        code = mlt_ps_run(n->ps, until_cut, &h);
    ran[n->number] = slice_clocks(h.slice);
    slice_free(h.slice);
    return code;
}

/* A run that one node cuts ends after the same clock on all of them. */
static void comm_cut_ends_all_after_the_same_clock(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "async"};
    static struct cluster c;

    (void)state;
    for (unsigned m = 0; m < 3; m++) {
        c = (struct cluster){.nodes = 3,
                             .workers = 2,
                             .consistency = models[m],
                             .staleness = 1,
                             .program = run_until_cut};
        run_cluster(&c);
        expect_codes(&c, 0);
        assert_true(ran[1] >= 4);
        assert_int_equal(ran[0], ran[1]);
        assert_int_equal(ran[2], ran[1]);
    }
}

/* ---- who is not there, or not the same ----------------------------------- */

/* Somebody who is missing is named. */
static void comm_missing_node_is_named(void **state)
{
    static struct cluster c;
    struct node *n = &c.node[1];
    char folder[] = "/tmp/mltune-comm-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    c = (struct cluster){.nodes = 3, .workers = 1, .consistency = "bsp"};
    c.meet_s = 0.05;
    snprintf(c.folder, sizeof(c.folder), "%s", folder);
    *n = (struct node){.cluster = &c, .number = 1};
    assert_int_equal(open_node(n), ERR_NODE);
    assert_non_null(strstr(n->error.text, "2 of 3 are missing (0, 2)"));
    mlt_ps_free(n->ps);
    assert_int_equal(rmdir(folder), 0);
}

static int never(struct node *n)
{
    (void)n;
    return ERR_INVAL; /* it should not have started */
}

/* Nodes with other tables do not start, and say so: with one more, with one
 * that weight decay leaves alone otherwise. */
static void comm_other_tables_are_refused(void **state)
{
    static struct cluster c;

    (void)state;
    for (unsigned unlike = 0; unlike < 2; unlike++) {
        c = (struct cluster){.nodes = 2,
                             .workers = 1,
                             .consistency = "bsp",
                             .odd_one = unlike ? 0 : 1,
                             .unlike = unlike,
                             .program = never};
        run_cluster(&c);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(c.node[i].code, ERR_NODE);
            assert_true(strstr(c.node[i].error.text, "other tables") ||
                        (!unlike && strstr(c.node[i].error.text,
                                           "closed the connection")));
        }
    }
}

static void other_model(struct mlt_ps_options *opt)
{
    opt->consistency = "ssp";
}

static void other_barrier(struct mlt_ps_options *opt)
{
    opt->consistency = "barrier?k=2";
}

static void other_access(struct mlt_ps_options *opt)
{
    opt->access = "off";
}

static void placing(struct mlt_ps_options *opt)
{
    opt->access = "place";
}

static void other_rate(struct mlt_ps_options *opt)
{
    opt->learning_rate = 0.2;
}

static void other_momentum(struct mlt_ps_options *opt)
{
    opt->momentum = 0;
}

static void other_decay(struct mlt_ps_options *opt)
{
    opt->weight_decay = 0;
}

static void other_staleness(struct mlt_ps_options *opt)
{
    opt->staleness = 3;
}

static void other_workers(struct mlt_ps_options *opt)
{
    opt->workers = 2;
}

static void other_rule(struct mlt_ps_options *opt)
{
    opt->update_rule = "adam";
}

/* Nodes that were started with other options do not start, whichever option it
 * is; both sides say which, and nobody waits for the other in vain. */
static void comm_other_options_are_refused(void **state)
{
    static const struct {
        const char *consistency, *says;
        void (*differ)(struct mlt_ps_options *opt);
    } all[] = {
        {"bsp", "another consistency model", other_model},
        {"barrier?k=1", "another consistency model or barrier", other_barrier},
        {"bsp", "another use of access", other_access},
        {"bsp", "another use of access", placing},
        {"bsp", "another learning rate", other_rate},
        {"bsp", "another learning rate, momentum", other_momentum},
        {"bsp", "momentum, weight decay", other_decay},
        {"ssp", "weight decay, update rule or staleness", other_staleness},
        {"bsp", "workers, this one", other_workers},
        {"bsp", "other tables", other_rule},
    };
    static struct cluster c;

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        c = (struct cluster){.nodes = 2,
                             .workers = 1,
                             .consistency = all[i].consistency,
                             .differ = all[i].differ,
                             .program = never};
        run_cluster(&c);
        for (unsigned n = 0; n < 2; n++) {
            assert_int_equal(c.node[n].code, ERR_NODE);
            if (!strstr(c.node[n].error.text, all[i].says))
                fail_msg("node %u: expected \"%s\", got \"%s\"", n, all[i].says,
                         c.node[n].error.text);
        }
    }
}

/* What each node may have as it likes is not compared. */
static void of_its_own(struct mlt_ps_options *opt)
{
    opt->memory_limit *= 2;
    opt->bandwidth_mbps = 1000;
    opt->priority = "random";
    opt->seed = 9;
}

static void comm_own_options_are_let_in(void **state)
{
    static struct cluster c;

    (void)state;
    c = (struct cluster){.nodes = 2,
                         .workers = 1,
                         .consistency = "bsp",
                         .differ = of_its_own,
                         .program = train};
    run_cluster(&c);
    expect_codes(&c, 0);
}

static int leave_early(struct node *n)
{
    int code = mlt_ps_run(n->ps, init, n);

    if (!code && n->number == 1)
        return 0; /* and frees its server: gone */
    if (!code)
        code = (int)ps_fork(n->ps, 1, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(n->ps, 1);
    return code ? code : mlt_ps_run(n->ps, work, n);
}

/* A node that is gone ends the others' waits, in words. */
static void comm_node_that_is_gone_ends_all_waits(void **state)
{
    static struct cluster c;

    (void)state;
    c = (struct cluster){
        .nodes = 2, .workers = 2, .consistency = "bsp", .program = leave_early};
    run_cluster(&c);
    assert_int_equal(c.node[1].code, 0);
    assert_int_equal(c.node[0].code, ERR_NODE);
}

/* Whether ZeroMQ finds no memory for what this thread is to send. */
static _Thread_local bool no_memory;

/* In ZeroMQ's place. */
int zmq_msg_init_size(zmq_msg_t *m, size_t size)
{
    union {
        void *found;
        int (*call)(zmq_msg_t *, size_t);
    } next = {dlsym(RTLD_NEXT, "zmq_msg_init_size")};

    if (!no_memory)
        return next.call(m, size);
    errno = ENOMEM;
    return -1;
}

static int ask_in_vain(struct mlt_worker *w, void *arg)
{
    const struct node *n = arg;
    int code = 0;

    for (int i = 0; i < CLOCKS && !code; i++) {
        no_memory = n->number == 0 && i == 3;
        code = add_weights(w, i);
        if (!code)
            code = mlt_clock(w);
    }
    no_memory = false;
    return code;
}

static int run_out(struct node *n)
{
    int code = mlt_ps_run(n->ps, init, n);

    if (!code)
        code = (int)ps_fork(n->ps, 1, 0, BRANCH_TRAINING);
    if (!code)
        code = (int)ps_activate(n->ps, 1);
    return code ? code : mlt_ps_run(n->ps, ask_in_vain, n);
}

/* A worker that cannot send its question, and breaks the run off itself, does
 * not wait for an answer. */
static void comm_question_that_cannot_be_sent_ends_the_wait(void **state)
{
    static struct cluster c;

    (void)state;
    c = (struct cluster){.nodes = 2,
                         .workers = 1,
                         .consistency = "bsp",
                         .no_rings = true,
                         .program = run_out};
    run_cluster(&c);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(c.node[i].code, ERR_NODE);
}

/* ---- what does not belong ------------------------------------------------ */

enum { POLLS_MAX = 60000 /* a millisecond each, or more */ };

static void send_to(const char *endpoint, const void *bytes, size_t n)
{
    void *context = zmq_ctx_new(), *push = zmq_socket(context, ZMQ_PUSH);

    if (zmq_connect(push, endpoint) != 0 ||
        zmq_send(push, "a part", 6, ZMQ_SNDMORE) != 6 ||
        zmq_send(push, bytes, n, 0) != (int)n ||
        zmq_send(push, bytes, n, 0) != (int)n)
        abort();
    zmq_close(push);
    zmq_ctx_term(context);
}

/* Node 1 says a word to node 0 as a node of another mltune would. */
static int be_of_another_version(struct node *n)
{
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];
    char endpoint[160];
    struct frame f = {.kind = FRAME_ACK, .from = 1, .run = ps_number(n->ps)};
    struct fault fault = {0};
    size_t size;

    if (n->number == 1) {
        snprintf(endpoint, sizeof(endpoint), "ipc://%s/node-0.socket",
                 n->cluster->folder);
        size = frame_whole(&f, bytes, sizeof(bytes));
        bytes[4] = FRAME_VERSION + 1;
        send_to(endpoint, bytes, size);
        return train(n) ? ERR_NODE : 0; /* without node 0 */
    }
    for (int i = 0; i < POLLS_MAX && ps_lost(n->ps, &fault) == ERR_OK; i++)
        usleep(1000);
    snprintf(n->error.text, sizeof(n->error.text), "%s", fault.text);
    return fault.code;
}

/* A node of another version of the frames is not waited for: it is named, with
 * both versions. */
static void comm_other_version_is_refused(void **state)
{
    static struct cluster c;

    (void)state;
    c = (struct cluster){.nodes = 2,
                         .workers = 1,
                         .consistency = "bsp",
                         .program = be_of_another_version};
    run_cluster(&c);
    expect_codes(&c, ERR_NODE);
    assert_non_null(strstr(c.node[0].error.text,
                           "node 1: frame of version 10, expected 9"));
}

/* To node 0: rubbish, a frame cut off, one of another run, one of nobody. */
static int be_a_stranger(struct node *n)
{
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];
    char path[96], endpoint[128];
    struct frame f = {.kind = FRAME_DRAIN, .slice = 1, .worker = 2};
    struct ps_traffic traffic = {0};
    size_t size;

    if (n->number == 0) {
        snprintf(path, sizeof(path), "%s/node-0.socket", n->cluster->folder);
        snprintf(endpoint, sizeof(endpoint), "ipc://%s", path);
        send_to(endpoint, "rubbish", 7);
        f.from = 1;
        f.run = 99;
        size = frame_whole(&f, bytes, sizeof(bytes));
        send_to(endpoint, bytes, size);
        send_to(endpoint, bytes, size - 3);
        f.from = 77;
        size = frame_whole(&f, bytes, sizeof(bytes));
        send_to(endpoint, bytes, size);
        for (int i = 0; i < POLLS_MAX && traffic.frames_ignored < 8; i++) {
            usleep(1000); /* leaves the lock to the thread that takes them */
            ps_traffic(n->ps, &traffic);
        }
        if (traffic.frames_ignored < 8)
            return ERR_TIMEOUT;
    }
    return train(n);
}

static _Atomic int logged;

static void count_lines(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    logged += strstr(line, "frame_ignored ") != NULL;
}

/* A frame malformed, cut off, of another run or of nobody is logged once and
 * changes nothing. */
static void comm_strange_frames_are_ignored(void **state)
{
    static struct cluster one, two;

    (void)state;
    one = (struct cluster){.nodes = 1, .workers = 2, .consistency = "bsp"};
    two = (struct cluster){.nodes = 2, .workers = 1, .consistency = "bsp"};
    one.program = train;
    two.program = be_a_stranger;
    run_cluster(&one);
    logged = 0;
    log_set_sink(count_lines, NULL);
    run_cluster(&two);
    log_set_sink(NULL, NULL);
    expect_codes(&two, 0);
    expect_same_bits(&one, &two);
    assert_int_equal(logged, 2); /* malformed, foreign */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_bsp_any_number_of_nodes_gives_the_same_bits),
        cmocka_unit_test(comm_bsp_of_odd_nodes_gives_the_same_bits),
        cmocka_unit_test(comm_rows_are_found_while_others_come),
        cmocka_unit_test(comm_every_model_keeps_every_update),
        cmocka_unit_test(comm_failure_ends_the_run_everywhere),
        cmocka_unit_test(comm_cut_ends_all_after_the_same_clock),
        cmocka_unit_test(comm_missing_node_is_named),
        cmocka_unit_test(comm_other_tables_are_refused),
        cmocka_unit_test(comm_other_options_are_refused),
        cmocka_unit_test(comm_own_options_are_let_in),
        cmocka_unit_test(comm_node_that_is_gone_ends_all_waits),
        cmocka_unit_test(comm_question_that_cannot_be_sent_ends_the_wait),
        cmocka_unit_test(comm_other_version_is_refused),
        cmocka_unit_test(comm_strange_frames_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
