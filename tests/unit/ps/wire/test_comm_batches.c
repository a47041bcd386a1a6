/* Batched gets in two steps, on one node and on several (each in a thread of
 * this process, on real sockets). */
#include "base/err.h"
#include "base/mem.h"
#include "mltune/model.h"
#include "mltune/ps.h"
#include "tests/unit/fixture/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Batches of more rows than may be under way from a worker to a shard. */
enum {
    NODES = 2,
    WORKERS = 2,
    ALL_MAX = NODES * WORKERS,
    ROWS = 8000,
    BATCH = 5000,
    CLOCKS = 5,
    STALENESS = 2
};

enum { COUNTS, OWN_CLOCK, OWNED, TABLES };

struct node {
    const char *folder, *model;
    const struct mlt_model_ops *ops; /* of the user's model, or NULL */
    unsigned nodes, number;
    int code;
    mlt_work *work;
    struct mlt_ps *ps;
};

struct batch {
    uint64_t number, row[BATCH];
};

struct worker {
    struct batch batch[MLT_GETS_MAX];
    const void *out[BATCH], *again[BATCH];
};

#define DEMAND(x)                                                              \
    do                                                                         \
        if (!(x))                                                              \
            return __LINE__ * 1000;                                            \
    while (0)

static int begin(struct mlt_worker *w, mlt_table t, struct batch *b,
                 unsigned salt)
{
    for (uint64_t i = 0; i < BATCH; i++)
        b->row[i] = (i * 13 + salt * 1009) % ROWS;
    return mlt_get_rows_begin(w, t, BATCH, b->row, &b->number);
}

/* Each worker has a column of COUNTS, to which it adds one a clock: a row holds
 * the clocks that the model wants it to. */
static bool is_as_new(const struct node *n, const struct mlt_worker *w,
                      const int32_t *x, int clock)
{
    int least = strcmp(n->model, "bsp") == 0     ? clock
                : strcmp(n->model, "async") == 0 ? 0
                                                 : clock - STALENESS;

    for (unsigned i = 0; i < mlt_worker_count(w); i++)
        if (x[i] < least || x[i] > CLOCKS ||
            (strcmp(n->model, "bsp") == 0 && x[i] != clock))
            return false;
    return true;
}

static int wait(struct mlt_worker *w, const struct node *n, struct worker *own,
                struct batch *b, int clock)
{
    int code = mlt_get_rows_wait(w, b->number, own->out);

    if (code)
        return code;
    DEMAND(mlt_get_rows_wait(w, b->number, own->out) == ERR_NOENT);
    code = mlt_get_rows(w, COUNTS, BATCH, b->row, own->again);
    if (code)
        return code;
    for (int i = 0; i < BATCH; i++) {
        DEMAND(own->out[i] == own->again[i]);
        DEMAND(is_as_new(n, w, own->out[i], clock));
    }
    memset(b->row, 0xff, sizeof(b->row)); /* nobody looks at it any more */
    return 0;
}

static int add_one(struct mlt_worker *w)
{
    int32_t one[ALL_MAX] = {0};

    one[mlt_worker_index(w)] = 1;
    for (uint64_t r = 0; r < ROWS; r++)
        mlt_inc_row(w, COUNTS, r, one);
    return 0;
}

/* As many batches as may be; other reads and updates between; they are waited
 * for in an order of their own, and those of two are not. */
static int one_clock(struct mlt_worker *w, const struct node *n,
                     struct worker *own, int clock)
{
    unsigned salt = (unsigned)clock * 31 + mlt_worker_index(w) * 7;
    uint64_t none = 77;
    int code = 0;

    for (unsigned i = 0; i < MLT_GETS_MAX && !code; i++)
        code = begin(w, COUNTS, &own->batch[i], salt + i);
    if (code)
        return code;
    DEMAND(mlt_get_rows_begin(w, COUNTS, 0, NULL, &none) == ERR_LIMIT);
    DEMAND(none == 77);
    DEMAND(mlt_get_rows_wait(w, own->batch[7].number + 1, own->out) ==
           ERR_NOENT);
    for (uint64_t i = 0; i < 20; i++) {
        const int32_t *x = mlt_get_row(w, COUNTS, (i * 997 + salt) % ROWS);

        if (!x)
            return ERR_CANCELED;
        DEMAND(is_as_new(n, w, x, clock));
    }
    code = wait(w, n, own, &own->batch[5], clock);
    if (!code)
        code = add_one(w);
    for (int i = 0; i < MLT_GETS_MAX && !code; i++)
        if (i != 5 && i != 2 + clock % 2 && i != 6)
            code = wait(w, n, own, &own->batch[i], clock);
    return code;
}

static int train(struct mlt_worker *w, void *arg)
{
    struct worker *own = malloc(sizeof(*own));
    uint64_t last = 0;
    int code = 0;

    for (int clock = 0; clock < CLOCKS && !code; clock++) {
        code = one_clock(w, arg, own, clock);
        if (!code && own->batch[0].number <= last)
            code = __LINE__ * 1000;
        last = own->batch[MLT_GETS_MAX - 1].number;
        if (!code)
            code = mlt_clock(w);
        if (!code &&
            mlt_get_rows_wait(w, own->batch[6].number, own->out) != ERR_NOENT)
            code = __LINE__ * 1000;
    }
    if (!code) /* the run's end drops it; its rows were copied */
        code = begin(w, COUNTS, &own->batch[0], 0);
    free(own);
    return code;
}

/* A table whose clock ends by itself loses its batches, and no others do. */
static int end_a_tables_clock(struct mlt_worker *w, void *arg)
{
    struct worker *own = malloc(sizeof(*own));
    struct batch *b = own->batch;
    int code = 0;

    for (int clock = 0; clock < CLOCKS && !code; clock++) {
        code = begin(w, OWN_CLOCK, &b[0], 1);
        if (!code)
            code = begin(w, COUNTS, &b[1], 2);
        if (!code)
            code = begin(w, OWNED, &b[2], 3);
        if (!code)
            code = mlt_clock_table(w, OWN_CLOCK);
        if (!code && mlt_get_rows_wait(w, b[0].number, own->out) != ERR_NOENT)
            code = __LINE__ * 1000;
        if (!code)
            code = mlt_get_rows_wait(w, b[2].number, own->out);
        for (int i = 0; i < BATCH && !code; i++)
            if (*(const int32_t *)own->out[i] != (int32_t)b[2].row[i])
                code = __LINE__ * 1000;
        if (!code)
            code = wait(w, arg, own, &b[1], clock);
        if (!code)
            code = add_one(w);
        if (!code)
            code = mlt_clock(w);
    }
    free(own);
    return code;
}

/* A worker waits for rows of a clock that another never ends. */
static int fail_in_the_end(struct mlt_worker *w, void *arg)
{
    struct worker *own;
    int code;

    (void)arg;
    if (mlt_worker_index(w) == mlt_worker_count(w) - 1)
        return ERR_APP;
    own = malloc(sizeof(*own));
    do {
        code = begin(w, COUNTS, &own->batch[0], 0);
        if (!code)
            code = mlt_get_rows_wait(w, own->batch[0].number, own->out);
        if (code &&
            mlt_get_rows_wait(w, own->batch[0].number, own->out) != ERR_NOENT)
            code = __LINE__ * 1000;
        if (!code)
            code = mlt_clock(w);
    } while (!code);
    free(own);
    return code;
}

/* Where there is no memory for the copy of its rows, none begins. */
static int begin_without_memory(struct mlt_worker *w, void *arg)
{
    uint64_t row[3] = {5, 6, 7}, number = 77;
    const void *out[3];
    int code;

    (void)arg;
    if (mlt_worker_index(w) != 0)
        return 0;
    mem_fail_at(1, 1);
    code = mlt_get_rows_begin(w, COUNTS, 3, row, &number);
    mem_fail_at(0, 0);
    DEMAND(code == ERR_NOMEM && number == 77);
    for (int i = 0; i < 2 * MLT_GETS_MAX; i++) {
        DEMAND(mlt_get_rows_begin(w, COUNTS, 3, row, &number) == 0);
        DEMAND(mlt_get_rows_wait(w, number, out) == 0);
    }
    return 0;
}

static int begin_rows(struct mlt_worker *w, void *arg)
{
    const struct node *n = arg;
    uint64_t first, count;

    mlt_owned_rows(n->ps, OWNED, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++)
        mlt_init_row(w, OWNED, r, &(int32_t){(int32_t)r});
    return 0;
}

static int declare(struct mlt_ps *ps, unsigned all)
{
    static const char *const names[] = {"counts", "own_clock", "owned"};
    static const unsigned flags[] = {0, MLT_OWN_CLOCK, 0};
    int code = 0;

    for (unsigned i = 0; i < TABLES && !code; i++) {
        struct mlt_table_options table = {.size = sizeof(table),
                                          .name = names[i],
                                          .rows = ROWS,
                                          .width = i == COUNTS ? all : 1,
                                          .type = MLT_I32,
                                          .access = i == OWNED ? MLT_EXCLUSIVE
                                                               : MLT_SHARED,
                                          .flags = flags[i]};
        mlt_table t;

        code = mlt_ps_table(ps, &table, &t, NULL);
    }
    return code;
}

static void *be_node(void *arg)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct node *n = arg;

    opt.workers = WORKERS;
    opt.memory_limit = 256 << 20;
    opt.staleness = STALENESS;
    opt.nodes = n->nodes;
    opt.node = n->number;
    if (!n->ops)
        opt.consistency = n->model;
    if (n->nodes > 1)
        opt.meet = n->folder;
    n->code = mlt_ps_new(&opt, &n->ps, NULL);
    if (n->code)
        return NULL;
    if (n->ops)
        n->code = mlt_ps_set_model(n->ps, n->ops, NULL, NULL);
    if (!n->code)
        n->code = declare(n->ps, n->nodes * WORKERS);
    if (!n->code)
        n->code = mlt_ps_start(n->ps, NULL);
    if (!n->code)
        n->code = mlt_ps_run(n->ps, begin_rows, n);
    if (!n->code)
        n->code = mlt_ps_run(n->ps, n->work, n);
    mlt_ps_free(n->ps);
    return NULL;
}

static void run_nodes(unsigned nodes, const char *model,
                      const struct mlt_model_ops *ops, mlt_work *work, int want)
{
    char folder[] = "/tmp/mltune-batches-XXXXXX";
    struct node node[NODES];
    pthread_t thread[NODES];

    assert_non_null(mkdtemp(folder));
    alarm(300); /* who waits for rows that nobody sends stands still for ever */
    for (unsigned i = 0; i < nodes; i++) {
        node[i] = (struct node){folder, model, ops, nodes, i, 0, work, NULL};
        assert_int_equal(pthread_create(&thread[i], NULL, be_node, &node[i]),
                         0);
    }
    for (unsigned i = 0; i < nodes; i++)
        pthread_join(thread[i], NULL);
    alarm(0);
    assert_int_equal(rmdir(folder), 0);
    for (unsigned i = 0; i < nodes; i++)
        if (node[i].code != want && (!want || node[i].code != ERR_CANCELED))
            fail_msg("%s, node %u of %u: %d", model, i, nodes, node[i].code);
}

/* Whatever the model and the number of nodes, a wait gives what mlt_get_rows
 * would. */
static void comm_batches_hold_what_reads_would(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async"};

    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        for (unsigned nodes = 1; nodes <= NODES; nodes++)
            run_nodes(nodes, models[i], NULL, train, 0);
}

static int level(const struct mlt_model_view *v, void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < v->workers; i++)
        if (v->worker[i].alive &&
            v->worker[i].clock + STALENESS < v->worker[v->self].clock)
            return 0;
    return 1;
}

/* So it is under a model of a user's. */
static void comm_batches_obey_a_users_model(void **state)
{
    static const struct mlt_model_ops ops = {.version = MLT_MODEL_VERSION,
                                             .name = "level",
                                             .summary = "nobody far ahead",
                                             .may_read = level};

    (void)state;
    run_nodes(1, "level", &ops, train, 0);
}

/* A table's own clock, and rows of an exclusive table. */
static void comm_batches_end_with_their_tables_clock(void **state)
{
    static const char *const models[] = {"bsp", "ssp"};

    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        for (unsigned nodes = 1; nodes <= NODES; nodes++)
            run_nodes(nodes, models[i], NULL, end_a_tables_clock, 0);
}

/* Who waits when a run fails is released, and its batch is dropped. */
static void comm_batches_end_when_the_run_fails(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp"};

    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        for (unsigned nodes = 1; nodes <= NODES; nodes++)
            run_nodes(nodes, models[i], NULL, fail_in_the_end, ERR_APP);
}

/* A batch that cannot begin takes no place. */
static void comm_batches_need_memory_to_begin(void **state)
{
    (void)state;
    run_nodes(1, "bsp", NULL, begin_without_memory, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comm_batches_hold_what_reads_would),
        cmocka_unit_test(comm_batches_obey_a_users_model),
        cmocka_unit_test(comm_batches_end_with_their_tables_clock),
        cmocka_unit_test(comm_batches_end_when_the_run_fails),
        cmocka_unit_test(comm_batches_need_memory_to_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
