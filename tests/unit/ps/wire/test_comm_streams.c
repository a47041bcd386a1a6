/* Sums of a large table, which come as streams: several nodes, each in a thread
 * of this process, on real sockets. The bits are those of one node. */
#include "base/rng.h"
#include "mltune/ps.h"
#include "tests/unit/fixture/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum {
    WORKERS = 6,
    ROWS = 300000, /* of three nodes each has 3.2 MB of values */
    WIDTH = 8,
    CLOCKS = 3,
    BATCH = 512,
    NODES_MAX = 3
};

struct cluster {
    unsigned nodes;
    bool one_table; /* its clock ends alone */
    char folder[64];
    _Atomic uint64_t bits; /* of all rows in the end, whatever their order */
};

struct node {
    struct cluster *cluster;
    unsigned number;
    struct mlt_ps *ps;
    int code;
};

/* What a worker adds to a row depends on what it reads there, so that what one
 * clock rounds the next one shows. */
static int add_batch(struct mlt_worker *w, size_t n, const uint64_t row[])
{
    const void *at[BATCH];
    float delta[WIDTH];

    if (mlt_get_rows(w, 0, n, row, at))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const float *x = at[i];

        for (int j = 0; j < WIDTH; j++)
            delta[j] = x[j] / 3 +
                       (float)(row[i] % 1013 + mlt_worker_index(w) * 31) / 7;
        mlt_inc_row(w, 0, row[i], delta);
    }
    return 0;
}

static int add(struct mlt_worker *w, unsigned clock)
{
    uint64_t row[BATCH];
    size_t n = 0;
    int code = 0;

    for (uint64_t r = 0; r < ROWS && !code; r++) {
        if (rng_mix(r, mlt_worker_index(w) * 97 + clock % 2) % 16 < 3)
            row[n++] = r;
        if (n == BATCH || (r + 1 == ROWS && n)) {
            code = add_batch(w, n, row);
            n = 0;
        }
    }
    return code;
}

static uint64_t mixed(const float *x, uint64_t row)
{
    uint32_t bits;

    for (int j = 0; j < WIDTH; j++) {
        memcpy(&bits, &x[j], sizeof(bits));
        row = rng_mix(row, bits);
    }
    return row;
}

static int work(struct mlt_worker *w, void *arg)
{
    const struct node *n = arg;
    struct cluster *c = n->cluster;
    uint64_t first, count, sum = 0;
    int code = 0;

    for (unsigned clock = 0; clock < CLOCKS && !code; clock++) {
        code = add(w, clock);
        if (!code)
            code = c->one_table ? mlt_clock_table(w, 0) : mlt_clock(w);
    }
    mlt_owned_rows(n->ps, 0, mlt_worker_index(w), &first, &count);
    for (uint64_t row = first; row < first + count && !code; row++)
        sum += mixed(mlt_get_row(w, 0, row), row);
    atomic_fetch_add(&c->bits, sum);
    return code;
}

static void *run_node(void *arg)
{
    struct node *n = arg;
    struct cluster *c = n->cluster;
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "large",
                                      .rows = ROWS,
                                      .width = WIDTH,
                                      .rule = "sgd"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err = {0};
    mlt_table index;

    opt.workers = WORKERS / c->nodes;
    opt.consistency = "bsp";
    opt.memory_limit = (uint64_t)4 << 30;
    opt.nodes = c->nodes;
    opt.node = n->number;
    opt.meet = c->nodes > 1 ? c->folder : NULL;
    n->code = mlt_ps_new(&opt, &n->ps, &err);
    if (!n->code)
        n->code = mlt_ps_table(n->ps, &table, &index, &err);
    if (!n->code)
        n->code = mlt_ps_start(n->ps, &err);
    if (!n->code)
        n->code = mlt_ps_run(n->ps, work, n);
    if (n->code)
        printf("node %u: %s\n", n->number, err.text);
    mlt_ps_free(n->ps);
    return NULL;
}

static uint64_t bits_of(unsigned nodes, bool one_table)
{
    struct cluster c = {.nodes = nodes, .one_table = one_table};
    struct node node[NODES_MAX];
    pthread_t thread[NODES_MAX];

    snprintf(c.folder, sizeof(c.folder), "/tmp/test-streams-XXXXXX");
    assert_non_null(mkdtemp(c.folder));
    for (unsigned i = 0; i < nodes; i++) {
        node[i] = (struct node){.cluster = &c, .number = i};
        assert_int_equal(pthread_create(&thread[i], NULL, run_node, &node[i]),
                         0);
    }
    for (unsigned i = 0; i < nodes; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < nodes; i++)
        assert_int_equal(node[i].code, 0);
    rmdir(c.folder);
    return c.bits;
}

/* Two nodes of three workers are two blocks each, three of two one; where the
 * table's clock ends alone, nobody is limited. */
static void comm_streams_give_the_same_bits(void **state)
{
    uint64_t one = bits_of(1, false);

    (void)state;
    assert_true(bits_of(2, false) == one);
    assert_true(bits_of(3, false) == one);
    assert_true(bits_of(3, true) == one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_streams_give_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
