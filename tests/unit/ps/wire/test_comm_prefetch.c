/* Reads of rows that a worker has said it will read, on two nodes of threads in
 * this process, on real sockets. */
#include "ps/nodes/shard.h"
#include "ps/server/ps.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

/* Known rows of the first node's shard: many times as many as may be under
 * way at once, and some are not. */
enum {
    NODES = 2,
    WORKERS = 2,
    KNOWN = 8 * SHARD_READS_MAX,
    UNKNOWN = 4,
    ROWS = NODES * (KNOWN + UNKNOWN)
};

struct node {
    unsigned number;
    const char *folder;
    struct mlt_ps *ps;
    atomic_uint *finished;
    int code;
    struct ps_traffic traffic;
    struct mlt_error error;
};

static int read_one(struct mlt_worker *w, uint64_t row)
{
    return mlt_get_row(w, 0, row) ? 0 : ERR_CANCELED;
}

/* The first worker's clock is the last of all: once it has had a few answers of
 * the other node, nothing comes any more that would send what it asks for.
 * Then each row that is not known is needed when all the reads that may be
 * under way are taken up by known ones that have not left yet. */
static int read_when_all_have_ended(struct mlt_worker *w, void *arg)
{
    struct node *n = arg;
    int code = 0;

    if (mlt_worker_index(w) != 0) {
        code = mlt_clock(w);
        atomic_fetch_add(n->finished, 1);
        return code;
    }
    while (atomic_load(n->finished) < NODES * WORKERS - 1)
        sched_yield();
    for (uint64_t i = 0; i < UNKNOWN && !code; i++)
        code = read_one(w, ROWS - 1 - i);
    for (uint64_t i = 0; i < UNKNOWN && !code; i++)
        code = read_one(w, i);
    return code ? code : mlt_clock(w);
}

static int open_node(struct node *n)
{
    static uint64_t known[KNOWN];
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = ROWS,
                                      .width = 1,
                                      .type = MLT_F32,
                                      .access = MLT_SHARED,
                                      .chunk_bytes = 512};
    mlt_table t;
    int code;

    opt.workers = WORKERS;
    opt.memory_limit = 64 << 20;
    opt.consistency = "ssp";
    opt.staleness = 3;
    opt.nodes = NODES;
    opt.node = n->number;
    opt.meet = n->folder;
    code = mlt_ps_new(&opt, &n->ps, &n->error);
    if (!code)
        code = mlt_ps_table(n->ps, &table, &t, &n->error);
    if (!code && n->number == 0) {
        for (uint64_t i = 0; i < KNOWN; i++)
            known[i] = UNKNOWN + i;
        code = mlt_ps_expect(n->ps, t, 0, 0, MLT_READS, KNOWN, known);
    }
    return code ? code : mlt_ps_start(n->ps, &n->error);
}

static void *node_main(void *arg)
{
    struct node *n = arg;

    n->code = open_node(n);
    if (!n->code)
        n->code = mlt_ps_run(n->ps, read_when_all_have_ended, n);
    if (!n->code)
        ps_traffic(n->ps, &n->traffic);
    mlt_ps_free(n->ps);
    return NULL;
}

/* A read that is asked for while the node sends what was asked for before
 * leaves as well, though nothing else moves the node any more; and rows that
 * were announced before the start are foreseen in the first clock. */
static void comm_last_reader_gets_rows_it_did_not_announce(void **state)
{
    char folder[] = "/tmp/mltune-comm-XXXXXX";
    atomic_uint finished = 0;
    struct node node[NODES];
    pthread_t thread[NODES];

    (void)state;
    alarm(60); /* a reader that nobody answers stands still for ever */
    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < NODES; i++) {
        node[i] =
            (struct node){.number = i, .folder = folder, .finished = &finished};
        assert_int_equal(pthread_create(&thread[i], NULL, node_main, &node[i]),
                         0);
    }
    for (unsigned i = 0; i < NODES; i++) {
        pthread_join(thread[i], NULL);
        if (node[i].code)
            fail_msg("node %u: %s (%s)", i, mlt_error_text(node[i].code),
                     node[i].error.text);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(node[0].traffic.rows_foreseen, KNOWN);
    assert_int_equal(node[1].traffic.rows_foreseen, 0);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_last_reader_gets_rows_it_did_not_announce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
