/* What workers of several nodes read, each node in a thread of this process, on
 * real sockets: their own updates. */
#include "mltune/ps.h"
#include "tests/unit/fixture/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So many rows that the sums of a clock do not all have room on their way. */
enum {
    NODES = 2,
    WORKERS = 2,
    ALL = NODES * WORKERS,
    ROWS = 18000,
    CLOCKS = 4
};

struct node {
    const char *folder, *model;
    unsigned number;
    int code;
    mlt_work *work;
};

/* Each worker has a column, and adds to some rows in each clock: what it reads
 * of its own is all that it has added, to the last update, when it has just
 * read, added again, or ended a clock. */
static int read_own(struct mlt_worker *w, void *arg)
{
    unsigned self = mlt_worker_index(w);
    int32_t one[ALL] = {0}, added[ROWS] = {0};

    (void)arg;
    one[self] = 1;
    for (int clock = 0; clock < CLOCKS; clock++) {
        for (uint64_t r = 0; r < ROWS; r++) {
            const int32_t *x;

            /* Some rows are read in all clocks, some seldom, some never. */
            if (r % 7 != 6 && (r % 7 < 4 || (r + (unsigned)clock) % 3 == 0)) {
                x = mlt_get_row(w, 0, r);
                if (!x)
                    return 1;
                if (x[self] != added[r])
                    return 1000 + clock;
            }
            if (r % 5 == 4)
                continue;
            mlt_inc_row(w, 0, r, one);
            added[r]++;
            x = r % 11 ? NULL : mlt_get_row(w, 0, r);
            if (r % 11 == 0 && (!x || x[self] != added[r]))
                return x ? 2000 + clock : 1;
        }
        if (mlt_clock(w))
            return 1;
    }
    return 0;
}

static void *be_node(void *arg)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "mine",
                                      .rows = ROWS,
                                      .width = ALL,
                                      .type = MLT_I32,
                                      .flags = MLT_READ_MY_WRITES};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct node *n = arg;
    struct mlt_ps *ps;
    uint32_t child;
    mlt_table t;

    opt.workers = WORKERS;
    opt.memory_limit = 256 << 20;
    opt.consistency = n->model;
    opt.staleness = 2;
    opt.nodes = NODES;
    opt.node = n->number;
    opt.meet = n->folder;
    n->code = mlt_ps_new(&opt, &ps, NULL);
    if (n->code)
        return NULL;
    n->code = mlt_ps_table(ps, &table, &t, NULL);
    if (!n->code)
        n->code = mlt_ps_start(ps, NULL);
    /* A second slice, of a branch as the first was at its beginning. */
    if (!n->code)
        n->code = mlt_ps_fork(ps, 0, &child);
    if (!n->code)
        n->code = mlt_ps_run(ps, n->work, n);
    if (!n->code)
        n->code = mlt_ps_switch(ps, child);
    if (!n->code)
        n->code = mlt_ps_run(ps, n->work, n);
    mlt_ps_free(ps);
    return NULL;
}

static void run_nodes(const char *model, mlt_work *work)
{
    char folder[] = "/tmp/mltune-reads-XXXXXX";
    struct node node[NODES];
    pthread_t thread[NODES];

    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < NODES; i++) {
        node[i] = (struct node){folder, model, i, 0, work};
        assert_int_equal(pthread_create(&thread[i], NULL, be_node, &node[i]),
                         0);
    }
    for (unsigned i = 0; i < NODES; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(rmdir(folder), 0);
    for (unsigned i = 0; i < NODES; i++)
        if (node[i].code)
            fail_msg("%s: node %u: %d", model, i, node[i].code);
}

/* MLT_READ_MY_WRITES, whatever a worker sees of others. */
static void comm_reads_hold_all_own_updates(void **state)
{
    static const char *const models[] = {"ssp", "essp", "async", "barrier"};

    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        run_nodes(models[i], read_own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_reads_hold_all_own_updates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
