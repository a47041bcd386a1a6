#include "base/log.h"
#include "base/mem.h"
#include "ps/rows/table.h"
#include "ps/rows/update.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = FIXTURE_ROWS, WIDTH = FIXTURE_WIDTH };

/* ---- options ------------------------------------------------------------- */

static void refused(struct mlt_ps_options opt, int code, const char *says)
{
    struct mlt_ps *ps = NULL;
    struct mlt_error err;

    assert_int_equal(mlt_ps_new(&opt, &ps, &err), code);
    assert_null(ps);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), code);
}

/* Options out of range are refused, and the error says which. */
static void ps_wrong_options_are_refused_by_name(void **state)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS, o;

    (void)state;
    o = opt;
    o.consistency = "bps";
    refused(o, ERR_INVAL, "\"bps\"; there are: bsp, ssp");
    o = opt;
    o.update_rule = "adam2";
    refused(o, ERR_INVAL, "\"adam2\"; there are: add, sgd");
    o = opt;
    o.learning_rate = -1;
    refused(o, ERR_INVAL, "learning rate -1");
    o.learning_rate = NAN;
    refused(o, ERR_INVAL, "learning rate");
    o.learning_rate = 1e39; /* no f32 */
    refused(o, ERR_INVAL, "learning rate");
    o = opt;
    o.momentum = 1;
    refused(o, ERR_INVAL, "momentum 1");
    o = opt;
    o.weight_decay = -0.1;
    refused(o, ERR_INVAL, "weight decay -0.1");
    o = opt;
    o.staleness = PS_STALENESS_MAX + 1;
    refused(o, ERR_INVAL, "staleness");
    o = opt;
    o.workers = 100000;
    refused(o, ERR_INVAL, "100000 workers");
    o = opt;
    o.size--;
    refused(o, ERR_VERSION, "version");
}

/* NULL names and zero counts take the defaults. */
static void ps_defaults_fill_in(void **state)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps;

    (void)state;
    opt.consistency = opt.update_rule = NULL;
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    assert_in_range(mlt_ps_workers(ps), 1, 256);
    assert_int_equal(mlt_ps_version(), MLT_PS_VERSION);
    fixture_table(ps, "t", MLT_F32, MLT_SHARED, 0);
    assert_string_equal(ps_table_info(ps, 0).rule, "sgd");
    fixture_start(ps);
    assert_true(ps_limit_bytes(ps) > 64 << 20);
    mlt_ps_free(ps);
    mlt_ps_free(NULL);
}

/* ---- tables -------------------------------------------------------------- */

static void table_refused(struct mlt_ps *ps, struct mlt_table_options opt,
                          int code, const char *says)
{
    struct mlt_error err;
    mlt_table t = 77;

    assert_int_equal(mlt_ps_table(ps, &opt, &t, &err), code);
    assert_int_equal(t, 77);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void table_wrong_options_are_refused_by_name(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "sgd");
    struct mlt_table_options opt = {
        .size = sizeof(opt), .name = "a", .rows = 4, .width = 2};
    struct mlt_table_options o;

    (void)state;
    o = opt;
    o.size = 8;
    table_refused(ps, o, ERR_VERSION, "version");
    o = opt;
    o.name = NULL;
    table_refused(ps, o, ERR_INVAL, "table name");
    o.name = "";
    table_refused(ps, o, ERR_INVAL, "table name");
    o.name = "../a";
    table_refused(ps, o, ERR_INVAL, "\"../a\"");
    o.name =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    table_refused(ps, o, ERR_INVAL, "1 to 64");
    o = opt;
    o.rows = 0;
    table_refused(ps, o, ERR_INVAL, "0 rows of 2 values");
    o = opt;
    o.width = 0;
    table_refused(ps, o, ERR_INVAL, "4 rows of 0 values");
    o = opt;
    o.rows = UINT64_MAX / 2;
    table_refused(ps, o, ERR_INVAL, "too large");
    o = opt;
    o.width = UINT32_MAX;
    table_refused(ps, o, ERR_INVAL, "too large");
    o = opt;
    o.type = (enum mlt_type)3;
    table_refused(ps, o, ERR_INVAL, "type");
    o = opt;
    o.flags = 1u << 20;
    table_refused(ps, o, ERR_INVAL, "flags 0x100000");
    o = opt;
    o.rule = "sdg";
    table_refused(ps, o, ERR_INVAL, "\"sdg\"; there are: add");
    o.rule = "sgd";
    o.type = MLT_I32;
    table_refused(ps, o, ERR_INVAL, "f32 values only");
    o = opt;
    o.flags = MLT_READ_MY_WRITES;
    table_refused(ps, o, ERR_INVAL, "MLT_READ_MY_WRITES");
    o = opt;
    o.access = MLT_LOCAL;
    o.rule = "add";
    table_refused(ps, o, ERR_INVAL, "no update rule");
    fixture_table(ps, "a", MLT_I32, MLT_SHARED, 0);
    table_refused(ps, opt, ERR_EXIST, "declared twice");
    assert_int_equal(ps_tables(ps), 1);
    assert_string_equal(ps_table_info(ps, 0).rule, "add");
    mlt_ps_free(ps);
}

/* At most STORE_TABLES_MAX tables. */
static void table_one_too_many_is_refused(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "sgd");
    char name[16];
    struct mlt_table_options opt = {
        .size = sizeof(opt), .name = name, .rows = 1, .width = 1};
    mlt_table t;

    (void)state;
    for (int i = 0; i < STORE_TABLES_MAX; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        assert_int_equal(mlt_ps_table(ps, &opt, &t, NULL), 0);
        assert_int_equal(t, i);
    }
    strcpy(name, "last");
    table_refused(ps, opt, ERR_LIMIT, "last");
    mlt_ps_free(ps);
}

/* Whatever the sizes, the parts of all workers are the table, without gap or
 * overlap, each row has the owner whose part it is in, and parts differ by no
 * more than a chunk. */
static void table_parts_partition_the_rows(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows < 5000; rows = rows * 3 / 2 + 1)
        for (uint32_t width = 1; width < 20000; width *= 11)
            for (unsigned workers = 1; workers <= 17; workers += 4) {
                struct mlt_table_options opt = {.size = sizeof(opt),
                                                .name = "a",
                                                .rows = rows,
                                                .width = width};
                struct table t;
                uint64_t next = 0, first, count, least = rows, most = 0;

                assert_int_equal(table_init(&t, &opt, rule_find("sgd"), NULL),
                                 ERR_OK);
                table_partition(&t, workers);
                for (unsigned w = 0; w < workers; w++) {
                    table_part(&t, workers, w, &first, &count);
                    assert_int_equal(first, next);
                    for (uint64_t r = first; r < first + count; r++)
                        assert_int_equal(table_owner(&t, workers, r), w);
                    next = first + count;
                    least = count < least ? count : least;
                    most = count > most ? count : most;
                }
                assert_int_equal(next, rows);
                assert_true(most - least <= (uint64_t)2 << t.row_shift);
            }
}

/* ---- update buffers ------------------------------------------------------ */

/* A walk over several buffers gives exactly the rows of its range that any of
 * them has, in order. */
static void update_walk_gives_every_touched_row_once(void **state)
{
    enum { N = 9000 };
    struct update u[3];
    const struct update *buffer[3] = {&u[0], &u[1], &u[2]};
    static const uint64_t ranges[][2] = {{0, N},     {0, 0},       {1, 2},
                                         {63, 65},   {64, 128},    {4095, 4097},
                                         {100, 100}, {8990, 9000}, {5, 8191}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(update_init(&u[i], N, 4, i == 0 ? N * 4 : 0), ERR_OK);
        assert_true(update_is_empty(&u[i]));
        for (uint64_t r = (uint64_t)i * 11; r < N; r += 1 + r / 3)
            (void)update_take(&u[i], r);
    }
    for (size_t k = 0; k < sizeof(ranges) / sizeof(ranges[0]); k++) {
        struct update_walk walk;
        uint64_t row;

        update_walk_init(&walk, ranges[k][0], ranges[k][1]);
        for (uint64_t r = ranges[k][0]; r < ranges[k][1]; r++) {
            if (!update_has(&u[0], r) && !update_has(&u[1], r) &&
                !update_has(&u[2], r))
                continue;
            assert_true(update_walk_next(&walk, buffer, 3, &row));
            assert_int_equal(row, r);
        }
        assert_false(update_walk_next(&walk, buffer, 3, &row));
    }
    for (int i = 0; i < 3; i++) {
        update_clear(&u[i]);
        assert_true(update_is_empty(&u[i]));
        for (uint64_t r = 0; r < N; r++)
            assert_false(update_has(&u[i], r));
        update_deinit(&u[i]);
    }
}

/* Whoever sums, and whichever workers touched the row: the bits are those of
 * the workers' tree. */
static void update_sum_is_in_the_order_of_the_tree(void **state)
{
    static const float value[4] = {1e8f, 3.3f, -1e8f, 0.7f};

    (void)state;
    for (unsigned touched = 1; touched < 16; touched++)
        for (unsigned own = 0; own < 4; own++) {
            struct update u[4];
            const struct update *buffer[4] = {&u[0], &u[1], &u[2], &u[3]};
            const float *sum;
            float half[2] = {0, 0}, expected;

            for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(
                    update_init(&u[i], 2, sizeof(float), i == own ? 8 : 0),
                    ERR_OK);
                if (!(touched >> i & 1))
                    continue;
                memcpy(update_take(&u[i], 1), &value[i], sizeof(float));
                half[i / 2] += value[i];
            }
            expected = half[0] + half[1];
            sum = update_sum(MLT_F32, 1, buffer, 4, own, 1);
            assert_memory_equal(sum, &expected, sizeof(float));
            for (unsigned i = 0; i < 4; i++)
                update_deinit(&u[i]);
        }
}

/* ---- start --------------------------------------------------------------- */

static void add_three_tables(struct mlt_ps *ps)
{
    fixture_table(ps, "shared", MLT_F32, MLT_SHARED, 0);
    fixture_table(ps, "own", MLT_I32, MLT_EXCLUSIVE, 0);
    fixture_table(ps, "mine", MLT_F64, MLT_LOCAL, 0);
}

/* Whichever allocation fails while a server is made and started: the error says
 * so, nothing leaks, and what exists can be released. */
static void ps_any_failing_allocation_at_start_is_clean(void **state)
{
    static const char *const models[] = {"bsp", "ssp"};

    (void)state;
    for (int m = 0; m < 2; m++) {
        int64_t before = mem_outstanding();
        int failed, n = 0;

        do {
            struct mlt_ps *ps = fixture_ps(3, models[m], "sgd");
            struct mlt_error err = {0};
            int code;

            add_three_tables(ps);
            mem_fail_at(++n, 0);
            code = mlt_ps_start(ps, &err);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(code, failed ? ERR_NOMEM : ERR_OK);
            assert_int_equal(err.code, code);
            if (failed)
                assert_non_null(strstr(err.text, "memory"));
            mlt_ps_free(ps);
            assert_int_equal(mem_outstanding(), before);
        } while (failed);
        assert_true(n > 20);
    }
}

/* Memory fails while the server is made and its tables are declared. */
static void ps_any_failing_allocation_before_start_is_clean(void **state)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {
        .size = sizeof(table), .name = "a", .rows = 4, .width = 2};
    int64_t before = mem_outstanding();
    int failed, n = 0;

    (void)state;
    do {
        struct mlt_ps *ps = NULL;
        mlt_table t;
        int code;

        mem_fail_at(++n, 0);
        code = mlt_ps_new(&opt, &ps, NULL);
        if (!code)
            code = mlt_ps_table(ps, &table, &t, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(code, failed ? ERR_NOMEM : ERR_OK);
        mlt_ps_free(ps);
        assert_int_equal(mem_outstanding(), before);
    } while (failed);
    assert_true(n > 2);
}

static struct mlt_ps *limited_ps(uint64_t limit)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps = NULL;

    opt.workers = 2;
    opt.memory_limit = limit;
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    add_three_tables(ps);
    return ps;
}

/* A limit that cannot hold the model is refused with all sizes, however near;
 * above it the server starts, and needs no more than the limit says. */
static void ps_limit_below_the_model_is_refused(void **state)
{
    bool started = false;
    int refusals = 0;

    (void)state;
    for (uint64_t limit = 1 << 10; !started; limit += 2 << 10) {
        struct mlt_ps *ps = limited_ps(limit);
        struct mlt_error err = {0};
        int code = mlt_ps_start(ps, &err);

        if (code) {
            assert_int_equal(code, ERR_LIMIT);
            assert_non_null(strstr(err.text, "memory limit of"));
            assert_non_null(strstr(err.text, "buffers of 2 workers"));
            refusals++;
        } else {
            struct store_stats s;

            started = true;
            ps_stats(ps, &s);
            assert_true(s.reserved_bytes <= ps_limit_bytes(ps));
            assert_true(ps_limit_bytes(ps) < limit);
            assert_in_range(limit, 30 << 10, 300 << 10);
        }
        mlt_ps_free(ps);
    }
    assert_true(refusals > 5);
}

static uint64_t within_limit(const struct mlt_ps_memory *m)
{
    return m->branch + m->fixed + m->updates + m->caches + m->sums + m->access;
}

/* What the plan says is what the start wants, to the byte. */
static void ps_plan_is_what_the_start_wants(void **state)
{
    struct mlt_ps_memory m = {.size = sizeof(m)};
    struct mlt_ps *ps = limited_ps(1 << 20);
    uint64_t need;

    (void)state;
    assert_int_equal(mlt_ps_plan(ps, 1, &m), 0);
    assert_int_equal(m.limit, 1 << 20);
    assert_int_equal(m.sums + m.frames, 0);
    need = within_limit(&m);
    mlt_ps_free(ps);
    for (int less = 0; less < 2; less++) {
        struct mlt_error err;

        ps = limited_ps(need - (uint64_t)less);
        assert_int_equal(mlt_ps_start(ps, &err), less ? ERR_LIMIT : 0);
        if (less)
            assert_non_null(strstr(err.text, "(updates "));
        mlt_ps_free(ps);
    }
}

/* Where there is nothing to plan, or nothing that can be. */
static void ps_plan_refuses_what_it_cannot_say(void **state)
{
    static const double wrong[] = {0, -1, 1.5, NAN};
    struct mlt_ps_memory m = {.size = sizeof(m)};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps = limited_ps(1 << 20);

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(mlt_ps_plan(ps, wrong[i], &m), ERR_INVAL);
    m.size--;
    assert_int_equal(mlt_ps_plan(ps, 1, &m), ERR_VERSION);
    m.size++;
    mlt_ps_free(ps);
    opt.workers = 1;
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    assert_int_equal(mlt_ps_plan(ps, 1, &m), ERR_INVAL);
    mlt_ps_free(ps);
}

static struct mlt_ps_memory plan_of(unsigned nodes, const char *model,
                                    double touched)
{
    struct mlt_ps_memory m = {.size = sizeof(m)};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {
        .size = sizeof(table), .name = "rows", .rows = 1 << 22, .width = 16};
    struct mlt_ps *ps;
    mlt_table t;

    opt.workers = 4;
    opt.consistency = model;
    opt.nodes = nodes;
    opt.meet = nodes > 1 ? "nowhere" : NULL;
    opt.memory_limit = 1 << 20; /* a plan needs none */
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    assert_int_equal(mlt_ps_table(ps, &table, &t, NULL), 0);
    assert_int_equal(mlt_ps_plan(ps, touched, &m), 0);
    mlt_ps_free(ps);
    return m;
}

/* A table of 256 MiB on 1, 2 and 4 nodes, of which none is there: its part of
 * the table falls, the rest is by what is touched and by the model. */
static void ps_plan_knows_nodes_models_and_what_is_touched(void **state)
{
    static const unsigned nodes[] = {1, 2, 4};
    const uint64_t table = (uint64_t)256 << 20;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mlt_ps_memory all = plan_of(nodes[i], "bsp", 1);
        struct mlt_ps_memory tenth = plan_of(nodes[i], "bsp", 0.1);
        struct mlt_ps_memory ssp = plan_of(nodes[i], "ssp", 0.1);

        /* momentum's slot too; page tables are little */
        assert_in_range(all.branch, 2 * table / nodes[i],
                        2 * table / nodes[i] + table / 50);
        assert_int_equal(tenth.branch, all.branch);
        assert_in_range(all.updates, 4 * table, 6 * table);
        assert_in_range(tenth.updates, all.updates / 12, all.updates / 8);
        assert_int_equal(all.sums > 0, nodes[i] > 1);
        /* Streams: whatever is touched, 2 MiB of each other node. */
        assert_in_range(all.sums, (uint64_t)(nodes[i] - 1) * 2000000,
                        (uint64_t)(nodes[i] - 1) << 21);
        assert_int_equal(tenth.sums, all.sums);
        assert_true(tenth.caches <= all.caches);
        assert_int_equal(ssp.sums, 0);
        assert_true(ssp.caches > tenth.caches + table / 4);
        assert_int_equal(tenth.frames > 0, nodes[i] > 1);
    }
}

static char rings_meet[] = "/tmp/mltune-test-rings-XXXXXX";

static struct mlt_ps *with_rings(unsigned nodes, int64_t ring_bytes,
                                 const char *listen, uint64_t limit)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps;

    opt.workers = 1;
    opt.nodes = nodes;
    opt.meet = rings_meet;
    opt.listen = listen;
    opt.ring_bytes = ring_bytes;
    opt.memory_limit = limit;
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    add_three_tables(ps);
    return ps;
}

static struct mlt_ps_memory plan_with_rings(unsigned nodes, int64_t ring_bytes,
                                            const char *listen)
{
    struct mlt_ps *ps = with_rings(nodes, ring_bytes, listen, 64 << 20);
    struct mlt_ps_memory m = {.size = sizeof(m)};

    assert_int_equal(mlt_ps_plan(ps, 1, &m), 0);
    mlt_ps_free(ps);
    return m;
}

/* Each node has one ring for each other, whatever the tables are, and the
 * limit counts them; over tcp there are none. */
static void ps_plan_counts_rings(void **state)
{
    static const struct {
        unsigned nodes;
        int64_t given;
        uint64_t bytes; /* of one ring */
    } is[] = {{2, 0, 1 << 20},         {5, 0, 1 << 20},
              {6, 0, 512 << 10},       {64, 0, 64 << 10},
              {2, 64 << 10, 64 << 10}, {64, 2 << 20, 2 << 20}};

    (void)state;
    assert_non_null(mkdtemp(rings_meet));
    for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
        struct mlt_ps_memory none = plan_with_rings(is[i].nodes, -1, NULL);
        struct mlt_ps_memory some =
            plan_with_rings(is[i].nodes, is[i].given, NULL);
        struct mlt_ps_memory tcp =
            plan_with_rings(is[i].nodes, is[i].given, "tcp://127.0.0.1:*");
        struct mlt_error err;
        struct mlt_ps *ps;

        assert_int_equal(some.fixed - none.fixed,
                         (is[i].nodes - 1) * is[i].bytes);
        assert_int_equal(some.frames, none.frames);
        assert_int_equal(tcp.fixed, none.fixed);
        ps =
            with_rings(is[i].nodes, is[i].given, NULL, within_limit(&some) - 1);
        assert_int_equal(mlt_ps_start(ps, &err), ERR_LIMIT);
        mlt_ps_free(ps);
    }
    assert_int_equal(rmdir(rings_meet), 0); /* nothing is left there */
}

static int add_to_only_row(struct mlt_worker *w, void *arg)
{
    float one = 1;

    (void)arg;
    mlt_inc_row(w, 0, 0, &one);
    return mlt_clock(w);
}

/* More workers than rows: the shards without rows ask for no memory and do no
 * harm. */
static void ps_one_row_for_many_workers(void **state)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "a",
                                      .rows = 1,
                                      .width = 1,
                                      .rule = "add"};
    struct mlt_ps *ps;
    uint32_t child;
    double value = 0;
    mlt_table t;

    (void)state;
    opt.workers = 5;
    opt.memory_limit = 1 << 20;
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    assert_int_equal(mlt_ps_table(ps, &table, &t, NULL), 0);
    fixture_start(ps);
    assert_int_equal(mlt_ps_fork(ps, 0, &child), 0);
    assert_int_equal(mlt_ps_switch(ps, child), 0);
    fixture_run(ps, add_to_only_row, NULL, 0);
    assert_int_equal(rows_read_whole(ps, child, "a", 0, 1, &value), ERR_OK);
    assert_true(value == 5);
    mlt_ps_free(ps);
}

/* Five models are refused where forks of five would be; the sizes are told. */
static void ps_models_that_do_not_fit_are_refused(void **state)
{
    struct mlt_ps *ps = limited_ps(8 << 20);
    struct fault f;
    unsigned models = 1, forks = 1;

    (void)state;
    fixture_start(ps);
    while (ps_require_models(ps, models + 1, &f) == ERR_OK)
        models++;
    assert_int_equal(f.code, ERR_LIMIT);
    assert_non_null(strstr(f.text, "copies of the training state"));
    while (ps_fork(ps, forks, 0, BRANCH_TRAINING) == ERR_OK)
        forks++;
    assert_int_equal(models, forks);
    mlt_ps_free(ps);
}

/* ---- programmer's errors ------------------------------------------------- */

static void sink(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    _exit(strstr(line, ctx) ? 42 : 43);
}

/* Whether @work, run by all workers, is stopped with a message that has @says;
 * in a child, because it aborts. */
static bool aborts(mlt_work *work, const char *says)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct mlt_ps *ps = fixture_ps(2, "bsp", "sgd");

        add_three_tables(ps);
        fixture_start(ps);
        log_set_sink(sink, (void *)says);
        ps_fork(ps, 1, 0, BRANCH_KEPT);
        mlt_ps_run(ps, work, ps);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 42)
        print_message("exit %d, expected \"%s\"\n", WEXITSTATUS(status), says);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

static int bad_table(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_get_row(w, 3, 0);
    return 0;
}

static int bad_row(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_get_row(w, 0, ROWS);
    return 0;
}

static int bad_row_in_batch(struct mlt_worker *w, void *arg)
{
    uint64_t rows[2] = {0, ROWS};
    const void *out[2];

    (void)arg;
    mlt_get_rows(w, 0, 2, rows, out);
    return 0;
}

static int bad_update(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_update_row(w, 0, UINT64_MAX);
    return 0;
}

static int not_the_owner(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_row(w, 1, mlt_worker_index(w) ? 0 : ROWS - 1);
    return 0;
}

static int not_the_owners_init(struct mlt_worker *w, void *arg)
{
    float values[WIDTH] = {0};

    (void)arg;
    mlt_init_row(w, 0, mlt_worker_index(w) ? 0 : ROWS - 1, values);
    return 0;
}

static int shared_in_place(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_row(w, 0, 0);
    return 0;
}

/* Each with the table that is wrong. */
static int cross_of(struct mlt_worker *w, mlt_table table)
{
    mlt_step_rows_cross(w, &(struct mlt_cross){.table = {table, table}}, NULL);
    return 0;
}

static int cross_of_shared(struct mlt_worker *w, void *arg)
{
    (void)arg;
    return cross_of(w, 0);
}

static int cross_of_integers(struct mlt_worker *w, void *arg)
{
    (void)arg;
    return cross_of(w, 1);
}

static int local_by_get_row(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_get_row(w, 2, 0);
    return 0;
}

static int local_increment(struct mlt_worker *w, void *arg)
{
    double delta[WIDTH] = {0};

    (void)arg;
    mlt_inc_row(w, 2, 0, delta);
    return 0;
}

static int exclusive_update_row(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_update_row(w, 1, 0);
    return 0;
}

#ifdef MLT_DEBUG
static int others_row(struct mlt_worker *w, void *arg)
{
    mlt_get_row(ps_worker(arg, 1 - mlt_worker_index(w)), 0, 0);
    return 0;
}
#endif

static int others_clock(struct mlt_worker *w, void *arg)
{
    return mlt_clock(ps_worker(arg, 1 - mlt_worker_index(w)));
}

static int clocks_of_two_tables(struct mlt_worker *w, void *arg)
{
    (void)arg;
    return mlt_worker_index(w) ? mlt_clock_table(w, 0) : mlt_clock(w);
}

static int forgotten_clock(struct mlt_worker *w, void *arg)
{
    float delta[WIDTH] = {1};

    (void)arg;
    mlt_inc_row(w, 0, 3, delta);
    return 0;
}

/* Misuse ends the program with a message that says what was misused. */
static void ps_misuse_aborts_with_a_message(void **state)
{
    (void)state;
    assert_true(aborts(bad_table, "table 3: there are 3 tables"));
    assert_true(aborts(bad_row, "table shared: row 300 is out of range"));
    assert_true(aborts(bad_row_in_batch, "row 300 is out of range"));
    assert_true(aborts(bad_update, "is out of range"));
    assert_true(aborts(not_the_owner, "table own: row"));
    assert_true(aborts(not_the_owners_init, "not the worker's own"));
    assert_true(aborts(shared_in_place, "mlt_row: not for table shared"));
    assert_true(aborts(cross_of_shared, "_cross: not for table shared"));
    assert_true(aborts(cross_of_integers, "table own is not of floats"));
    assert_true(aborts(local_by_get_row, "mlt_get_row: not for table mine"));
    assert_true(aborts(local_increment, "not for table mine, which is local"));
    assert_true(aborts(exclusive_update_row, "mlt_update_row: not for table"));
    assert_true(aborts(others_clock, "not this worker's"));
#ifdef MLT_DEBUG /* others do not look */
    assert_true(aborts(others_row, "its handle is used by another thread"));
#endif
    assert_true(aborts(clocks_of_two_tables, "clocks of different tables"));
    assert_true(aborts(forgotten_clock, "after its last mlt_clock"));
}

static int write_exclusive(struct mlt_worker *w, void *arg)
{
    uint64_t first, count;

    mlt_owned_rows(arg, 1, mlt_worker_index(w), &first, &count);
    mlt_row(w, 1, first);
    return 0;
}

static int switch_and_write(struct mlt_ps *ps)
{
    ps_activate(ps, 1);
    return mlt_ps_run(ps, write_exclusive, ps);
}

/* A kept branch is read-only, and a write to it says so. */
static void kept_branch_write_aborts(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct mlt_ps *ps = fixture_ps(2, "bsp", "sgd");

        add_three_tables(ps);
        fixture_start(ps);
        ps_fork(ps, 1, 0, BRANCH_KEPT);
        log_set_sink(sink, (void *)"branch 1, which is kept");
        switch_and_write(ps);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ps_wrong_options_are_refused_by_name),
        cmocka_unit_test(ps_defaults_fill_in),
        cmocka_unit_test(table_wrong_options_are_refused_by_name),
        cmocka_unit_test(table_one_too_many_is_refused),
        cmocka_unit_test(table_parts_partition_the_rows),
        cmocka_unit_test(update_walk_gives_every_touched_row_once),
        cmocka_unit_test(update_sum_is_in_the_order_of_the_tree),
        cmocka_unit_test(ps_any_failing_allocation_at_start_is_clean),
        cmocka_unit_test(ps_any_failing_allocation_before_start_is_clean),
        cmocka_unit_test(ps_limit_below_the_model_is_refused),
        cmocka_unit_test(ps_plan_is_what_the_start_wants),
        cmocka_unit_test(ps_plan_refuses_what_it_cannot_say),
        cmocka_unit_test(ps_plan_knows_nodes_models_and_what_is_touched),
        cmocka_unit_test(ps_plan_counts_rings),
        cmocka_unit_test(ps_one_row_for_many_workers),
        cmocka_unit_test(ps_models_that_do_not_fit_are_refused),
        cmocka_unit_test(ps_misuse_aborts_with_a_message),
        cmocka_unit_test(kept_branch_write_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
