#include "ps/nodes/alike.h"
#include "ps/nodes/shard.h"

#include "base/mem.h"
#include "ps/rows/rowset.h"
#include "tests/sim/shard_store.h"
#include "tests/unit/fixture/check.h"

enum { ROWS = 8, WIDTH = 2, NODES = 2, CLOCK = 10, ROOM = 256 };

/* Node 0's shard of a cluster of two nodes with a worker each: rows 0 .. 3 of
 * one table that adds, or that learns without momentum. */
struct world {
    struct table table;
    struct shard_store store;
    struct shard *shard;
};

static struct shard_options options(struct world *w, const char *model)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "weights",
                                    .rows = ROWS,
                                    .width = WIDTH,
                                    .rule = "add",
                                    .chunk_bytes = 2 * WIDTH * 4};

    assert_int_equal(table_init(&w->table, &opt, NULL, NULL), ERR_OK);
    table_partition(&w->table, NODES);
    return (struct shard_options){.nodes = NODES,
                                  .workers = 1,
                                  .table = &w->table,
                                  .tables = 1,
                                  .consistency = consistency_find(model),
                                  .rows = &shard_store_rows,
                                  .rows_self = &w->store};
}

static void open_world(struct world *w, const char *model)
{
    struct shard_options opt = options(w, model);

    assert_int_equal(shard_store_init(&w->store, &opt, 1 << 20, 0), ERR_OK);
    assert_int_equal(shard_new(&opt, &w->shard), ERR_OK);
}

static void close_world(struct world *w)
{
    shard_free(w->shard);
    store_check(w->store.store);
    shard_store_deinit(&w->store);
}

/* A frame as it comes from a node, with records where @rows are given. */
static enum err give(struct world *w, struct frame f, uint32_t n,
                     const uint64_t rows[], const float values[][WIDTH],
                     struct fault *fault)
{
    unsigned char bytes[ROOM];
    struct frame_writer writer;
    struct frame got;
    size_t size;

    if (n && values)
        f.width = WIDTH, f.values = FRAME_F32;
    if (f.kind == FRAME_UPDATE && !n)
        f.width = WIDTH, f.values = FRAME_F32;
    frame_begin(&writer, &f, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < n; i++)
        assert_true(frame_add(&writer, rows[i], values ? values[i] : NULL));
    size = frame_end(&writer);
    frame_stamp(bytes, f.from, 0, 0);
    assert_int_equal(frame_decode(bytes, size, &got, NULL), ERR_OK);
    return shard_step(w->shard, &got, fault);
}

static struct frame take(struct world *w, uint32_t node)
{
    static unsigned char bytes[ROOM];
    size_t n = shard_next(w->shard, node, bytes, sizeof(bytes));
    struct frame f = {0};

    if (n)
        assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    return f;
}

/* The next frame for @node is of that kind. */
static struct frame expect(struct world *w, uint32_t node, enum frame_kind kind)
{
    struct frame f;

    assert_true(shard_has_next(w->shard, node));
    f = take(w, node);
    assert_string_equal(frame_kind_name(f.kind), frame_kind_name(kind));
    return f;
}

static void expect_nothing(struct world *w, uint32_t node)
{
    assert_false(shard_has_next(w->shard, node));
    assert_int_equal(take(w, node).kind, 0);
}

static void operate(struct world *w, struct frame f, enum err code)
{
    static uint64_t op;

    f.op = ++op;
    assert_int_equal(give(w, f, 0, NULL, NULL, NULL), ERR_OK);
    f = expect(w, 0, FRAME_DONE);
    assert_true(f.op == op);
    assert_int_equal(f.code, code);
}

static void begin(struct world *w, uint32_t branch, uint64_t slice,
                  int64_t clock, unsigned staleness)
{
    struct frame f = {.kind = FRAME_BEGIN,
                      .slice = slice,
                      .branch = branch,
                      .clock = clock,
                      .staleness = staleness};

    operate(w, f, ERR_OK);
    for (uint32_t node = 0; node < NODES; node++) {
        f = expect(w, node, FRAME_CLOCKS);
        assert_int_equal(f.count, 1);
        expect_nothing(w, node);
    }
}

static struct frame of_worker(enum frame_kind kind, uint32_t worker,
                              int64_t clock)
{
    return (struct frame){.kind = kind,
                          .from = worker,
                          .worker = worker,
                          .slice = 1,
                          .clock = clock};
}

static void update(struct world *w, uint32_t worker, int64_t clock,
                   uint64_t row, float value)
{
    const float values[1][WIDTH] = {{value, -value}};

    assert_int_equal(
        give(w, of_worker(FRAME_UPDATE, worker, clock), 1, &row, values, NULL),
        ERR_OK);
}

static void end_clock(struct world *w, uint32_t worker, int64_t clock)
{
    struct frame f = of_worker(FRAME_CLOCK, worker, clock);

    f.table = FRAME_ALL_TABLES;
    f.seconds = 0.5;
    assert_int_equal(give(w, f, 0, NULL, NULL, NULL), ERR_OK);
}

static enum err ask(struct world *w, uint32_t worker, int64_t clock,
                    uint64_t row)
{
    return give(w, of_worker(FRAME_READ, worker, clock), 1, &row, NULL, NULL);
}

static float first_value(const struct frame *f, uint32_t i)
{
    float values[WIDTH];

    frame_row_values(f, i, values);
    assert_float_equal(values[1], -values[0], 0);
    return values[0];
}

static float stored(const struct world *w, uint32_t branch, uint64_t row)
{
    float value;

    memcpy(&value, shard_store_row(&w->store, branch, 0, row), sizeof(value));
    return value;
}

static void drain(struct world *w, uint32_t worker, int64_t clock)
{
    assert_int_equal(
        give(w, of_worker(FRAME_DRAIN, worker, clock), 0, NULL, NULL, NULL),
        ERR_OK);
}

/* bsp: nothing is applied until all workers have ended the clock, then the sum
 * once; a row that comes in two parts is summed; all nodes are told. */
static void shard_bsp_applies_whole_clocks(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    open_world(&w, "bsp");
    begin(&w, 0, 1, CLOCK, 0);
    update(&w, 0, CLOCK, 1, 1);
    update(&w, 0, CLOCK, 1, 2);
    end_clock(&w, 0, CLOCK + 1);
    update(&w, 1, CLOCK, 1, 4);
    assert_float_equal(stored(&w, 0, 1), 0, 0);
    expect_nothing(&w, 0);
    end_clock(&w, 1, CLOCK + 1);
    assert_float_equal(stored(&w, 0, 1), 7, 0);
    for (uint32_t node = 0; node < NODES; node++) {
        f = expect(&w, node, FRAME_CLOCKS);
        expect_nothing(&w, node);
    }
    assert_int_equal(ask(&w, 1, CLOCK + 1, 1), ERR_OK);
    f = expect(&w, 1, FRAME_ROWS);
    assert_true(f.clock == CLOCK + 1 && f.worker == 1);
    assert_float_equal(first_value(&f, 0), 7, 0);
    close_world(&w);
}

/* bsp: who has drained is not waited for, and what it sent is applied. */
static void shard_does_not_wait_for_the_drained(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, "bsp");
    begin(&w, 0, 1, CLOCK, 0);
    update(&w, 0, CLOCK, 2, 1);
    end_clock(&w, 0, CLOCK + 1);
    drain(&w, 0, CLOCK + 1);
    assert_float_equal(stored(&w, 0, 2), 0, 0);
    drain(&w, 1, CLOCK);
    assert_float_equal(stored(&w, 0, 2), 1, 0);
    expect(&w, 0, FRAME_CLOCKS);
    expect(&w, 0, FRAME_DRAINED);
    expect_nothing(&w, 0);
    close_world(&w);
}

/* ssp: updates are applied as they come; a read waits until the slowest worker
 * is within its staleness, and says what it holds. */
static void shard_ssp_read_waits_for_the_slowest(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    open_world(&w, "ssp");
    begin(&w, 0, 1, CLOCK, 1);
    update(&w, 0, CLOCK, 3, 1);
    end_clock(&w, 0, CLOCK + 1);
    assert_float_equal(stored(&w, 0, 3), 1, 0);
    assert_int_equal(ask(&w, 0, CLOCK + 1, 3), ERR_OK);
    f = expect(&w, 0, FRAME_ROWS);
    assert_true(f.clock == CLOCK);
    assert_float_equal(first_value(&f, 0), 1, 0);
    end_clock(&w, 0, CLOCK + 2);
    assert_int_equal(ask(&w, 0, CLOCK + 2, 3), ERR_OK);
    expect_nothing(&w, 0);
    assert_true(shard_stats(w.shard).waiting == 1);
    end_clock(&w, 1, CLOCK + 1);
    f = expect(&w, 0, FRAME_ROWS);
    assert_true(f.clock == CLOCK + 1);
    expect_nothing(&w, 1);
    close_world(&w);
}

/* A learning table's rows after a clock of each worker, the second ahead by one
 * under models without barriers, with a rate that rises. */
static void warm_up(const char *model, float ahead, float whole)
{
    struct frame f = {.kind = FRAME_BEGIN, .slice = 1, .clock = CLOCK};
    const struct rule_ops *sgd = rule_find("sgd");
    struct world w;

    open_world(&w, model);
    w.table.rule = sgd;
    f.learning_rate = 1;
    f.staleness = 2;
    f.warmup = 8;
    f.warmed = 1;
    operate(&w, f, ERR_OK);
    end_clock(&w, 1, CLOCK + 1);
    if (consistency_find(model)->barrier) {
        end_clock(&w, 0, CLOCK + 1);
        update(&w, 1, CLOCK + 1, 1, -8);
        end_clock(&w, 1, CLOCK + 2);
        update(&w, 0, CLOCK + 1, 2, -8);
    } else {
        update(&w, 1, CLOCK + 1, 1, -8);
        update(&w, 0, CLOCK, 2, -8);
    }
    end_clock(&w, 0, CLOCK + 1 + consistency_find(model)->barrier);
    assert_float_equal(stored(&w, 0, 1), ahead, 0);
    assert_float_equal(stored(&w, 0, 2), whole, 0);
    close_world(&w);
}

/* Warm-up: an update has the rate of the clock that it was computed in: its
 * worker's; under barriers that of all. */
static void shard_rate_is_of_the_updates_clock(void **state)
{
    (void)state;
    warm_up("ssp", 3, 2);
    warm_up("bsp", 3, 3);
}

/* essp: rows that a node has read are pushed to it when the clock moves and
 * only if they changed, before the clock; others are not. */
static void shard_essp_pushes_before_the_clock(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    open_world(&w, "essp");
    begin(&w, 0, 1, CLOCK, 2);
    assert_int_equal(ask(&w, 1, CLOCK, 0), ERR_OK);
    assert_int_equal(ask(&w, 1, CLOCK, 1), ERR_OK);
    f = expect(&w, 1, FRAME_ROWS);
    assert_int_equal(f.count, 2);
    update(&w, 0, CLOCK, 1, 5);
    update(&w, 0, CLOCK, 2, 5);
    end_clock(&w, 0, CLOCK + 1);
    expect_nothing(&w, 1);
    end_clock(&w, 1, CLOCK + 1);
    f = expect(&w, 1, FRAME_ROWS);
    assert_true(f.worker == FRAME_NO_WORKER && f.clock == CLOCK + 1);
    assert_int_equal(f.count, 1);
    assert_true(frame_row(&f, 0) == 1);
    assert_float_equal(first_value(&f, 0), 5, 0);
    expect(&w, 1, FRAME_CLOCKS);
    expect_nothing(&w, 1);
    expect(&w, 0, FRAME_CLOCKS); /* never read anything */
    expect_nothing(&w, 0);
    close_world(&w);
}

/* Forks, frees and slices are answered, in order and only between slices; a
 * slice changes its own branch alone. */
static void shard_operations_come_between_slices(void **state)
{
    struct frame fork = {.kind = FRAME_FORK, .branch = 1, .type = 1};
    struct frame drop = {.kind = FRAME_FREE, .branch = 1};
    struct frame keep = {.kind = FRAME_FORK, .branch = 2, .type = BRANCH_KEPT};
    struct frame next = {
        .kind = FRAME_BEGIN, .slice = 2, .branch = 2, .clock = 2 * CLOCK};
    struct fault fault;
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    operate(&w, fork, ERR_OK);
    operate(&w, fork, ERR_EXIST);
    begin(&w, 1, 1, CLOCK, 0);
    operate(&w, drop, ERR_BUSY);
    update(&w, 0, CLOCK, 0, 1);
    drain(&w, 0, CLOCK);
    drain(&w, 1, CLOCK);
    operate(&w, drop, ERR_BUSY); /* before it has said that it is drained */
    expect(&w, 0, FRAME_DRAINED);
    assert_float_equal(stored(&w, 0, 0), 0, 0);
    assert_float_equal(stored(&w, 1, 0), 1, 0);
    keep.parent = 1;
    operate(&w, keep, ERR_OK);
    operate(&w, drop, ERR_OK);
    operate(&w, drop, ERR_NOENT);
    next.branch = 1;
    operate(&w, next, ERR_NOENT);
    next.branch = 2;
    operate(&w, next, ERR_OK);
    fork = of_worker(FRAME_UPDATE, 0, 2 * CLOCK);
    fork.slice = 2;
    assert_int_equal(give(&w, fork, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "kept"));
    close_world(&w);
}

/* Impossible requests are refused in words and change nothing. */
static void shard_refuses_what_cannot_be(void **state)
{
    static const float values[1][WIDTH] = {{1, -1}};
    static const uint64_t here = 0, elsewhere = 5;
    struct frame f, good = of_worker(FRAME_UPDATE, 1, CLOCK);
    struct fault fault;
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    begin(&w, 0, 1, CLOCK, 0);
#define REFUSED(change, row, word)                                             \
    do {                                                                       \
        f = good;                                                              \
        change;                                                                \
        assert_int_equal(give(&w, f, 1, &(row), values, &fault), ERR_PROTO);   \
        if (!strstr(fault.text, word))                                         \
            fail_msg("%s: %s", #change, fault.text);                           \
    } while (0)
    REFUSED(f.from = 7, here, "node that there is not");
    REFUSED(f.slice = 2, here, "slice");
    REFUSED(f.worker = 0, here, "another node's");
    REFUSED(f.worker = 2, here, "another node's");
    REFUSED(f.table = 1, here, "table");
    REFUSED(f.clock++, here, "clock");
    REFUSED((void)f, elsewhere, "row");
#undef REFUSED
    f = of_worker(FRAME_CLOCK, 1, CLOCK + 2);
    f.table = FRAME_ALL_TABLES;
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f.clock = CLOCK + 1;
    f.seconds = -1;
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f.table = 3;
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    assert_int_equal(
        give(&w, of_worker(FRAME_DRAIN, 1, CLOCK + 1), 0, NULL, NULL, NULL),
        ERR_PROTO);
    f = (struct frame){.kind = FRAME_FORK, .from = 1};
    assert_int_equal(give(&w, f, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "controls"));
    f = (struct frame){.kind = FRAME_FORK, .type = BRANCH_TYPE_COUNT};
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f = (struct frame){.kind = FRAME_BEGIN, .slice = 1, .clock = 99};
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f.slice = 2;
    f.momentum = 1;
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f.momentum = 0;
    f.learning_rate = -1;
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f.learning_rate = 0;
    f.clock = CLOCK;
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    f = (struct frame){.kind = FRAME_DRAINED};
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_PROTO);
    for (uint32_t node = 0; node < NODES; node++)
        expect_nothing(&w, node);
    for (uint64_t row = 0; row < ROWS / 2; row++)
        assert_float_equal(stored(&w, 0, row), 0, 0);
    drain(&w, 1, CLOCK);
    f = of_worker(FRAME_READ, 1, CLOCK);
    assert_int_equal(give(&w, f, 1, &here, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "drained"));
    close_world(&w);
}

/* Nodes of another cluster, with other tables or other options are told so, and
 * which. */
static void shard_knows_its_own_by_the_hello(void **state)
{
    struct frame f = {.kind = FRAME_HELLO, .nodes = NODES, .workers = 1};
    struct fault fault;
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    f.layout = shard_layout(&w.table, 1);
    assert_int_equal(give(&w, f, 0, NULL, NULL, NULL), ERR_OK);
    f.options = alike_with(0, ALIKE_RATES, 1);
    assert_int_equal(give(&w, f, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "another learning rate"));
    assert_null(strstr(fault.text, "model"));
    f.options = alike_with(f.options, ALIKE_MODEL, 1);
    assert_int_equal(give(&w, f, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "model or barrier, another learning"));
    f.options = (uint64_t)1 << 63;
    assert_int_equal(give(&w, f, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "another version"));
    f.layout ^= 1;
    assert_int_equal(give(&w, f, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "tables"));
    f.nodes = 3;
    assert_int_equal(give(&w, f, 0, NULL, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "3 nodes"));
    close_world(&w);
}

/* Tables of other values that weight decay leaves alone are others. */
static void shard_layout_tells_what_is_undecayed(void **state)
{
    struct world w;
    uint64_t before;

    (void)state;
    open_world(&w, "ssp");
    before = shard_layout(&w.table, 1);
    w.table.undecayed++;
    assert_true(shard_layout(&w.table, 1) != before);
    w.table.undecayed--;
    assert_true(shard_layout(&w.table, 1) == before);
    close_world(&w);
}

/* Waits of a node are bounded: rows, and answers to operations. */
static void shard_bounds_what_waits(void **state)
{
    struct frame fork = {.kind = FRAME_FORK, .branch = 1, .type = 1};
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    for (int i = 0; i < SHARD_OPS_MAX; i++)
        assert_int_equal(give(&w, fork, 0, NULL, NULL, NULL), ERR_OK);
    assert_int_equal(give(&w, fork, 0, NULL, NULL, NULL), ERR_LIMIT);
    for (int i = 0; i < SHARD_OPS_MAX; i++)
        expect(&w, 0, FRAME_DONE);
    begin(&w, 0, 1, CLOCK, 0);
    end_clock(&w, 0, CLOCK + 1);
    for (int i = 0; i < SHARD_READS_MAX; i++)
        assert_int_equal(ask(&w, 0, CLOCK + 1, 0), ERR_OK);
    assert_int_equal(ask(&w, 0, CLOCK + 1, 0), ERR_LIMIT);
    assert_int_equal(ask(&w, 1, CLOCK, 0), ERR_OK);
    assert_true(shard_stats(w.shard).waiting == SHARD_READS_MAX + 1);
    close_world(&w);
}

/* Whichever allocation fails, nothing is left behind. */
static void shard_failed_allocation_leaves_nothing(void **state)
{
    static const char *const models[] = {"bsp", "essp"};
    int64_t before = mem_outstanding();

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int nth = 1;; nth++) {
            struct shard *s = NULL;
            struct world w;
            struct shard_options opt = options(&w, models[i]);
            enum err shard, store;

            mem_fail_at(nth, 0);
            shard = shard_new(&opt, &s);
            store = shard_store_init(&w.store, &opt, 1 << 20, 0);
            mem_fail_at(0, 0);
            if (shard == ERR_OK)
                shard_free(s);
            if (store == ERR_OK)
                shard_store_deinit(&w.store);
            assert_int_equal(mem_outstanding(), before);
            if (shard == ERR_OK && store == ERR_OK)
                break;
        }
}

/* A shard in no such cluster is refused. */
static void shard_impossible_cluster_is_refused(void **state)
{
    struct world w;
    struct shard_options opt = options(&w, "bsp");
    struct shard *s;

    (void)state;
    opt.node = NODES;
    assert_int_equal(shard_new(&opt, &s), ERR_INVAL);
    opt.node = 0;
    opt.workers = 0;
    assert_int_equal(shard_new(&opt, &s), ERR_INVAL);
}

/* Sets of rows give their rows in order, whatever is added and removed. */
static void rowset_gives_rows_in_order(void **state)
{
    struct rowset a, b, c;

    (void)state;
    assert_int_equal(rowset_init(&a, 200), ERR_OK);
    assert_int_equal(rowset_init(&b, 200), ERR_OK);
    assert_int_equal(rowset_init(&c, 200), ERR_OK);
    assert_true(rowset_first(&a) == 200);
    rowset_add(&a, 199);
    rowset_add(&a, 64);
    rowset_add(&a, 3);
    assert_true(rowset_first(&a) == 3);
    rowset_remove(&a, 3);
    assert_true(rowset_first(&a) == 64);
    rowset_add(&b, 199);
    rowset_add(&b, 5);
    rowset_add_both(&c, &a, &b);
    assert_true(rowset_first(&c) == 199 && !rowset_has(&c, 64));
    rowset_clear(&c);
    assert_true(rowset_first(&c) == 200);
    rowset_deinit(&a);
    rowset_deinit(&b);
    rowset_deinit(&c);
    assert_int_equal(rowset_init(&a, 0), ERR_OK);
    assert_true(rowset_first(&a) == 0);
    rowset_deinit(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shard_bsp_applies_whole_clocks),
        cmocka_unit_test(shard_does_not_wait_for_the_drained),
        cmocka_unit_test(shard_rate_is_of_the_updates_clock),
        cmocka_unit_test(shard_ssp_read_waits_for_the_slowest),
        cmocka_unit_test(shard_essp_pushes_before_the_clock),
        cmocka_unit_test(shard_operations_come_between_slices),
        cmocka_unit_test(shard_refuses_what_cannot_be),
        cmocka_unit_test(shard_knows_its_own_by_the_hello),
        cmocka_unit_test(shard_layout_tells_what_is_undecayed),
        cmocka_unit_test(shard_bounds_what_waits),
        cmocka_unit_test(shard_failed_allocation_leaves_nothing),
        cmocka_unit_test(shard_impossible_cluster_is_refused),
        cmocka_unit_test(rowset_gives_rows_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
