#include "ps/nodes/cache.h"

#include "base/mem.h"
#include "tests/unit/fixture/check.h"

enum {
    ROWS = 8,
    WIDTH = 2,
    WIDE = 16, /* the least frame holds one such row */
    NODES = 2,
    WORKERS = 2,
    CLOCK = 10,
    ROOM = 512
};

/* Node 0's cache of a cluster of two nodes with two workers each: rows 0 .. 3
 * of the table are its own, 4 .. 7 node 1's. */
struct world {
    struct table table;
    struct update update[WORKERS];
    const struct update *updates[WORKERS];
    struct cache *cache;
};

static void make_table(struct table *t, unsigned width, unsigned flags)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "weights",
                                    .rows = ROWS,
                                    .width = width,
                                    .rule = "add",
                                    .flags = flags,
                                    .chunk_bytes = width * 4};

    assert_int_equal(table_init(t, &opt, NULL, NULL), ERR_OK);
    table_partition(t, NODES * WORKERS);
}

static struct cache_options options(struct world *w, const char *model)
{
    make_table(&w->table, WIDTH, 0);
    for (int i = 0; i < WORKERS; i++)
        w->updates[i] = &w->update[i];
    return (struct cache_options){.nodes = NODES,
                                  .workers = WORKERS,
                                  .table = &w->table,
                                  .tables = 1,
                                  .consistency = consistency_find(model),
                                  .update = w->updates};
}

static struct frame of_shard(enum frame_kind kind, uint32_t node, int64_t clock)
{
    return (struct frame){.kind = kind,
                          .from = node,
                          .slice = 1,
                          .worker = FRAME_NO_WORKER,
                          .clock = clock};
}

static enum err give(struct world *w, struct frame f, uint64_t row,
                     const void *values, struct fault *fault)
{
    unsigned char bytes[ROOM];
    struct frame_writer writer;
    struct frame got;
    size_t n;

    if (f.kind == FRAME_ROWS)
        f.width = WIDTH, f.values = FRAME_F32;
    if (f.kind == FRAME_CLOCKS)
        f.width = 1, f.values = FRAME_I64;
    frame_begin(&writer, &f, bytes, sizeof(bytes));
    if (values)
        assert_true(frame_add(&writer, row, values));
    n = frame_end(&writer);
    frame_stamp(bytes, f.from, 0, 0);
    assert_int_equal(frame_decode(bytes, n, &got, NULL), ERR_OK);
    return cache_step(w->cache, &got, fault);
}

static void applied(struct world *w, uint32_t node, int64_t clock)
{
    assert_int_equal(give(w, of_shard(FRAME_CLOCKS, node, 0), 0, &clock, NULL),
                     ERR_OK);
}

static enum err row_comes(struct world *w, uint32_t worker, int64_t clock,
                          uint64_t row, float value)
{
    const float values[WIDTH] = {value, -value};
    struct frame f = of_shard(FRAME_ROWS, row >= ROWS / NODES, clock);

    f.worker = worker;
    return give(w, f, row, values, NULL);
}

static void open_world(struct world *w, const char *model, unsigned staleness)
{
    struct cache_options opt = options(w, model);

    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(
            update_init(&w->update[i], ROWS, w->table.value_bytes, 0), ERR_OK);
    assert_int_equal(cache_new(&opt, &w->cache), ERR_OK);
    cache_begin(w->cache, 1, CLOCK, staleness);
    assert_false(cache_begun(w->cache));
    applied(w, 0, CLOCK);
    assert_false(cache_begun(w->cache));
    applied(w, 1, CLOCK);
    assert_true(cache_begun(w->cache));
}

static void close_world(struct world *w)
{
    cache_free(w->cache);
    for (int i = 0; i < WORKERS; i++)
        update_deinit(&w->update[i]);
}

/* Of at most @room bytes. */
static struct frame take_of(struct world *w, uint32_t node, size_t room)
{
    static unsigned char bytes[ROOM];
    size_t n = cache_next(w->cache, node, bytes, room);
    struct frame f = {0};

    if (n)
        assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    return f;
}

static struct frame take(struct world *w, uint32_t node)
{
    return take_of(w, node, ROOM);
}

static struct frame expect(struct world *w, uint32_t node, enum frame_kind kind)
{
    struct frame f = take(w, node);

    assert_string_equal(frame_kind_name(f.kind), frame_kind_name(kind));
    return f;
}

static void expect_nothing(struct world *w, uint32_t node)
{
    assert_int_equal(take(w, node).kind, 0);
}

/* The row's first value, or -1 where the worker has to wait. */
static float read_row(struct world *w, uint32_t worker, uint64_t row,
                      int64_t *clock)
{
    float values[WIDTH] = {-1};

    if (!cache_read(w->cache, worker, 0, row, values, clock))
        return -1;
    assert_float_equal(values[1], -values[0], 0);
    return values[0];
}

static void end_clock(struct world *w, uint32_t worker)
{
    struct frame f;

    cache_end_clock(w->cache, worker, FRAME_ALL_TABLES, 0.5);
    assert_false(cache_sent(w->cache, worker));
    for (uint32_t node = 0; node < NODES; node++) {
        do
            f = take(w, node);
        while (f.kind == FRAME_UPDATE);
        assert_int_equal(f.kind, FRAME_CLOCK);
        assert_true(f.clock == cache_clock(w->cache, worker, 0));
    }
    assert_true(cache_sent(w->cache, worker));
    update_clear(&w->update[worker]);
}

/* A row is asked for once however often it is read; the copy serves all workers
 * until one needs a newer. */
static void cache_asks_once_for_a_row(void **state)
{
    struct world w;
    struct frame f;
    int64_t clock;

    (void)state;
    open_world(&w, "ssp", 1);
    assert_true(read_row(&w, 0, 5, NULL) == -1);
    assert_true(read_row(&w, 0, 6, NULL) == -1);
    assert_true(read_row(&w, 1, 5, NULL) == -1);
    expect_nothing(&w, 0);
    f = expect(&w, 1, FRAME_READ);
    assert_int_equal(f.count, 2);
    assert_true(frame_row(&f, 0) == 5 && frame_row(&f, 1) == 6);
    expect_nothing(&w, 1);
    assert_true(cache_stats(w.cache).waiting == 2);
    assert_int_equal(row_comes(&w, 0, CLOCK, 5, 7), ERR_OK);
    assert_true(cache_stats(w.cache).waiting == 1);
    assert_true(read_row(&w, 0, 5, &clock) == 7 && clock == CLOCK);
    assert_true(read_row(&w, 1, 5, NULL) == 7);
    end_clock(&w, 0);
    assert_true(read_row(&w, 0, 5, NULL) == 7); /* one clock old: allowed */
    end_clock(&w, 0);
    assert_true(read_row(&w, 0, 5, NULL) == -1);
    f = expect(&w, 1, FRAME_READ);
    assert_true(f.clock == CLOCK + 2);
    assert_true(read_row(&w, 1, 5, NULL) == 7);
    close_world(&w);
}

/* A worker that is behind does not wait for the read of one that is ahead,
 * which may wait for it. */
static void cache_asks_again_for_one_behind(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    open_world(&w, "ssp", 0);
    end_clock(&w, 1);
    assert_true(read_row(&w, 1, 4, NULL) == -1);
    expect(&w, 1, FRAME_READ);
    assert_true(read_row(&w, 0, 4, NULL) == -1);
    f = expect(&w, 1, FRAME_READ);
    assert_int_equal(f.worker, 0);
    assert_int_equal(row_comes(&w, 0, CLOCK, 4, 1), ERR_OK);
    assert_true(read_row(&w, 0, 4, NULL) == 1);
    assert_true(read_row(&w, 1, 4, NULL) == -1);
    expect_nothing(&w, 1); /* its own is under way still */
    close_world(&w);
}

/* Where rows are pushed, the shard's clock makes a copy as new as it says. */
static void cache_pushed_copies_age_with_the_shard(void **state)
{
    struct world w;
    int64_t clock;

    (void)state;
    open_world(&w, "essp", 0);
    assert_true(read_row(&w, 0, 4, NULL) == -1);
    expect(&w, 1, FRAME_READ);
    assert_int_equal(row_comes(&w, 0, CLOCK, 4, 3), ERR_OK);
    end_clock(&w, 0);
    assert_true(read_row(&w, 0, 4, NULL) == -1);
    assert_int_equal(row_comes(&w, FRAME_NO_WORKER, CLOCK + 1, 4, 5), ERR_OK);
    assert_true(read_row(&w, 0, 4, &clock) == 5 && clock == CLOCK + 1);
    end_clock(&w, 0);
    applied(&w, 1, CLOCK + 2);
    assert_true(read_row(&w, 0, 4, &clock) == 5 && clock == CLOCK + 2);
    close_world(&w);
}

/* A clock's updates go to the shards that have the rows, before the clock. */
static void cache_sends_rows_then_the_clock(void **state)
{
    static const float delta[WIDTH] = {2, 3};
    float values[WIDTH];
    struct world w;
    struct frame f;

    (void)state;
    open_world(&w, "ssp", 0);
    for (uint64_t row = 3; row < 6; row++) {
        memcpy(update_take(&w.update[1], row), delta, sizeof(delta));
    }
    cache_end_clock(w.cache, 1, FRAME_ALL_TABLES, 0.25);
    f = expect(&w, 1, FRAME_UPDATE);
    assert_int_equal(f.count, 2);
    assert_true(f.worker == 1 && f.clock == CLOCK && frame_row(&f, 0) == 4);
    frame_row_values(&f, 1, values);
    assert_memory_equal(values, delta, sizeof(delta));
    f = expect(&w, 1, FRAME_CLOCK);
    assert_true(f.clock == CLOCK + 1 && f.seconds == 0.25);
    assert_false(cache_sent(w.cache, 1));
    f = expect(&w, 0, FRAME_UPDATE);
    assert_true(f.count == 1 && frame_row(&f, 0) == 3);
    expect(&w, 0, FRAME_CLOCK);
    assert_true(cache_sent(w.cache, 1));
    assert_true(cache_may_go_on(w.cache, 1));
    assert_true(cache_stats(w.cache).updates == 3);
    close_world(&w);
}

/* Row 4 from worker 0, rows 4 and 5 from worker 1. */
static void add_to_both(struct world *w)
{
    static const float delta[WIDTH] = {2, 3};

    memcpy(update_take(&w->update[0], 4), delta, sizeof(delta));
    memcpy(update_take(&w->update[1], 4), delta, sizeof(delta));
    memcpy(update_take(&w->update[1], 5), delta, sizeof(delta));
}

static void expect_sums_of_both(struct world *w)
{
    struct frame f = expect(w, 1, FRAME_UPDATE);
    float values[WIDTH];

    assert_int_equal(f.count, 2);
    assert_true(f.worker == 0 && f.clock == CLOCK);
    frame_row_values(&f, 0, values);
    assert_true(values[0] == 4 && values[1] == 6);
    frame_row_values(&f, 1, values);
    assert_true(values[0] == 2 && values[1] == 3);
}

/* Under barriers a node's workers send one sum a row: the last of them to tell
 * of its clock sends it, before it does. */
static void cache_sends_one_sum_of_a_nodes_workers(void **state)
{
    struct world w;
    struct frame f;

    (void)state;
    open_world(&w, "bsp", 0);
    add_to_both(&w);
    cache_end_clock(w.cache, 1, FRAME_ALL_TABLES, 0.25);
    f = expect(&w, 1, FRAME_CLOCK);
    assert_true(f.worker == 1 && f.clock == CLOCK + 1);
    expect_nothing(&w, 1);
    cache_end_clock(w.cache, 0, FRAME_ALL_TABLES, 0.25);
    expect_sums_of_both(&w);
    f = expect(&w, 1, FRAME_CLOCK);
    assert_true(f.worker == 0 && f.clock == CLOCK + 1);
    for (int i = 0; i < WORKERS; i++)
        expect(&w, 0, FRAME_CLOCK);
    expect_nothing(&w, 0);
    applied(&w, 0, CLOCK + 1);
    assert_false(cache_may_go_on(w.cache, 1));
    applied(&w, 1, CLOCK + 1);
    assert_true(cache_may_go_on(w.cache, 1));
    assert_true(cache_stats(w.cache).updates == 2);
    close_world(&w);
}

/* A worker that drains in place of ending the clock is the last, too. */
static void cache_drain_lets_the_others_sums_leave(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, "bsp", 0);
    add_to_both(&w);
    update_clear(&w.update[0]);
    memset(update_take(&w.update[1], 4), 0, sizeof(float) * WIDTH);
    cache_end_clock(w.cache, 1, FRAME_ALL_TABLES, 0.25);
    expect(&w, 1, FRAME_CLOCK);
    cache_drain(w.cache, 0);
    assert_int_equal(expect(&w, 1, FRAME_UPDATE).count, 2);
    expect(&w, 1, FRAME_DRAIN);
    expect_nothing(&w, 1);
    close_world(&w);
}

/* Two tables, of which the second has clocks of its own. */
struct pair {
    struct world w;
    struct table table[2];
    struct update update[WORKERS][2];
};

static void open_pair(struct pair *p)
{
    struct cache_options opt = options(&p->w, "bsp");

    for (int t = 0; t < 2; t++)
        make_table(&p->table[t], WIDE, t ? MLT_OWN_CLOCK : 0);
    for (int i = 0; i < WORKERS; i++) {
        p->w.updates[i] = p->update[i];
        for (int t = 0; t < 2; t++)
            assert_int_equal(
                update_init(&p->update[i][t], ROWS, p->table[t].value_bytes, 0),
                ERR_OK);
    }
    opt.table = p->table;
    opt.tables = 2;
    assert_int_equal(cache_new(&opt, &p->w.cache), ERR_OK);
    cache_begin(p->w.cache, 1, CLOCK, 0);
    for (uint32_t node = 0; node < NODES; node++)
        for (uint64_t t = 0; t < 2; t++)
            assert_int_equal(give(&p->w, of_shard(FRAME_CLOCKS, node, 0), t,
                                  &(int64_t){CLOCK}, NULL),
                             ERR_OK);
}

static void close_pair(struct pair *p)
{
    cache_free(p->w.cache);
    for (int i = 0; i < WORKERS; i++)
        for (int t = 0; t < 2; t++)
            update_deinit(&p->update[i][t]);
}

/* A drain that is sent in parts has passed a table before its others have ended
 * their clock: then they are the last, and nothing is left behind. */
static void cache_drain_that_is_overtaken_loses_no_sums(void **state)
{
    struct pair p;
    struct frame f;
    uint32_t rest;

    (void)state;
    open_pair(&p);
    memset(update_take(&p.update[0][0], 4), 0, sizeof(float) * WIDE);
    for (uint64_t row = 4; row < 8; row++)
        memset(update_take(&p.update[1][1], row), 0, sizeof(float) * WIDE);
    cache_end_clock(p.w.cache, 0, 1, 0.25);
    for (uint32_t node = 0; node < NODES; node++)
        expect(&p.w, node, FRAME_CLOCK);
    cache_drain(p.w.cache, 1);
    f = take_of(&p.w, 1, cache_frame_bytes(p.w.cache));
    assert_true(f.kind == FRAME_UPDATE && f.table == 1 && f.count == 1);
    rest = 4 - f.count;
    cache_end_clock(p.w.cache, 0, FRAME_ALL_TABLES, 0.25);
    f = expect(&p.w, 1, FRAME_UPDATE);
    assert_true(f.table == 0 && f.count == 1 && frame_row(&f, 0) == 4);
    expect(&p.w, 1, FRAME_CLOCK);
    assert_int_equal(expect(&p.w, 1, FRAME_UPDATE).count, rest);
    expect(&p.w, 1, FRAME_DRAIN);
    expect_nothing(&p.w, 1);
    close_pair(&p);
}

/* A new slice makes all copies useless; its frames may come before it begins
 * here, those of the last one say nothing any more. */
static void cache_slices_are_kept_apart(void **state)
{
    struct frame late = of_shard(FRAME_ROWS, 1, CLOCK);
    static const float values[WIDTH] = {9, -9};
    struct frame early;
    struct world w;
    int64_t clock = 2 * CLOCK;

    (void)state;
    open_world(&w, "essp", 3);
    assert_true(read_row(&w, 0, 4, NULL) == -1);
    expect(&w, 1, FRAME_READ);
    assert_int_equal(row_comes(&w, 0, CLOCK, 4, 1), ERR_OK);
    assert_true(read_row(&w, 0, 5, NULL) == -1); /* never sent */
    cache_drain(w.cache, 0);
    early = of_shard(FRAME_CLOCKS, 1, 0);
    early.slice = 2;
    assert_int_equal(give(&w, early, 0, &clock, NULL), ERR_PROTO);
    cache_drain(w.cache, 1);
    for (int i = 0; i < WORKERS * NODES; i++)
        expect(&w, i % NODES, FRAME_DRAIN);
    expect_nothing(&w, 1);
    assert_true(cache_stats(w.cache).waiting == 0);
    early.slice = 3; /* nobody has begun the one before */
    assert_int_equal(give(&w, early, 0, &clock, NULL), ERR_PROTO);
    early.slice = 2;
    assert_int_equal(give(&w, early, 0, &clock, NULL), ERR_OK);
    early.slice = 3;
    assert_int_equal(give(&w, early, 0, &clock, NULL), ERR_PROTO);
    early.slice = 2;
    assert_int_equal(give(&w, late, 4, values, NULL), ERR_OK);
    cache_begin(w.cache, 2, clock, 3);
    assert_false(cache_begun(w.cache));
    early.from = 0;
    assert_int_equal(give(&w, early, 0, &clock, NULL), ERR_OK);
    assert_true(cache_begun(w.cache));
    assert_true(read_row(&w, 0, 4, NULL) == -1);
    close_world(&w);
}

/* A frame that no shard sends is refused in words and changes nothing. */
static void cache_refuses_what_cannot_be(void **state)
{
    static const float values[WIDTH] = {9, -9};
    struct frame f, good = of_shard(FRAME_ROWS, 1, CLOCK);
    struct fault fault;
    int64_t clock = 1;
    struct world w;

    (void)state;
    open_world(&w, "essp", 0);
#define REFUSED(change, row, word)                                             \
    do {                                                                       \
        f = good;                                                              \
        change;                                                                \
        assert_int_equal(give(&w, f, row, values, &fault), ERR_PROTO);         \
        if (!strstr(fault.text, word))                                         \
            fail_msg("%s: %s", #change, fault.text);                           \
    } while (0)
    REFUSED(f.from = 9, 4, "node");
    REFUSED(f.table = 1, 4, "table");
    REFUSED(f.worker = 2, 4, "worker");
    REFUSED((void)f, 3, "row");
    REFUSED((void)f, 99, "row");
#undef REFUSED
    f = of_shard(FRAME_CLOCKS, 1, 0);
    assert_int_equal(give(&w, f, 0, &clock, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "back"));
    assert_int_equal(give(&w, f, 1, &clock, &fault), ERR_PROTO);
    f.kind = FRAME_DRAINED;
    assert_int_equal(give(&w, f, 0, NULL, &fault), ERR_PROTO);
    f = of_shard(FRAME_APPLIED, 1, 0);
    f.through = 1;
    assert_int_equal(give(&w, f, 0, NULL, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "applied"));
    assert_true(read_row(&w, 0, 4, NULL) == -1);
    assert_true(cache_stats(w.cache).answers == 0);
    close_world(&w);
}

/* Whichever allocation fails, nothing is left behind. */
static void cache_failed_allocation_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    struct world w;
    struct cache_options opt = options(&w, "bsp");
    enum err err = ERR_NOMEM;

    (void)state;
    for (int nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = cache_new(&opt, &w.cache);
        mem_fail_at(0, 0);
        if (!err)
            cache_free(w.cache);
        assert_int_equal(mem_outstanding(), before);
    }
    opt.node = NODES;
    assert_int_equal(cache_new(&opt, &w.cache), ERR_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_asks_once_for_a_row),
        cmocka_unit_test(cache_asks_again_for_one_behind),
        cmocka_unit_test(cache_pushed_copies_age_with_the_shard),
        cmocka_unit_test(cache_sends_rows_then_the_clock),
        cmocka_unit_test(cache_sends_one_sum_of_a_nodes_workers),
        cmocka_unit_test(cache_drain_lets_the_others_sums_leave),
        cmocka_unit_test(cache_drain_that_is_overtaken_loses_no_sums),
        cmocka_unit_test(cache_slices_are_kept_apart),
        cmocka_unit_test(cache_refuses_what_cannot_be),
        cmocka_unit_test(cache_failed_allocation_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
