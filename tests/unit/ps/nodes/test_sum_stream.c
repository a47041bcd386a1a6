#include "ps/nodes/sum_stream.h"

#include "base/mem.h"
#include "ps/nodes/cache.h"
#include "ps/nodes/shard.h"
#include "tests/sim/shard_store.h"
#include "tests/unit/fixture/check.h"

enum { WIDTH = 2, LIMIT = 3, CLOCK = 10, ROOM = 512 };

/* ---- the queue ----------------------------------------------------------- */

static void put(struct sum_stream *s, uint64_t row)
{
    const float value[WIDTH] = {(float)row, -(float)row};

    memcpy(sum_stream_add(s, row), value, sizeof(value));
}

static void expect_sum(struct sum_stream *s, uint64_t row)
{
    float value[WIDTH];

    assert_true(sum_stream_row(s) == row);
    memcpy(value, sum_stream_take(s), sizeof(value));
    assert_float_equal(value[0], (float)row, 0);
    assert_float_equal(value[1], -(float)row, 0);
}

/* Sums come out in order, however the ring goes round, and however far it grows
 * beyond its limit when it has gone round. */
static void sum_stream_keeps_order(void **state)
{
    struct sum_stream s;

    (void)state;
    for (uint64_t ahead = 1; ahead <= 40; ahead++)
        for (uint64_t shift = 0; shift < LIMIT; shift++) {
            assert_int_equal(sum_stream_init(&s, 100, WIDTH * 4, LIMIT),
                             ERR_OK);
            for (uint64_t row = 0; row < shift; row++) {
                put(&s, row);
                expect_sum(&s, row);
            }
            for (uint64_t row = shift; row < 100 + ahead; row++) {
                if (row < 100)
                    put(&s, row);
                if (row >= shift + ahead - 1 && row + 1 - ahead < 100)
                    expect_sum(&s, row + 1 - ahead);
            }
            assert_true(sum_stream_row(&s) == UINT64_MAX && s.taken == 100);
            sum_stream_deinit(&s);
        }
}

/* The sender is told when half of the limit is taken; what a new clock drops is
 * taken, too. */
static void sum_stream_tells_what_was_taken(void **state)
{
    struct sum_stream s;

    (void)state;
    assert_int_equal(sum_stream_init(&s, 100, WIDTH * 4, 4), ERR_OK);
    put(&s, 1);
    put(&s, 5);
    assert_false(sum_stream_owes(&s));
    expect_sum(&s, 1);
    assert_false(sum_stream_owes(&s));
    sum_stream_reset(&s);
    assert_true(sum_stream_owes(&s) && sum_stream_tell(&s) == 2);
    assert_false(sum_stream_owes(&s));
    put(&s, 0); /* of another clock */
    expect_sum(&s, 0);
    sum_stream_deinit(&s);
    assert_int_equal(sum_stream_init(&s, 100, WIDTH * 4, 1), ERR_OK);
    put(&s, 7);
    expect_sum(&s, 7);
    assert_true(sum_stream_owes(&s) && sum_stream_tell(&s) == 1);
    sum_stream_deinit(&s);
}

/* A table whose part is no more than the bytes has no limit, nor one whose
 * clocks end in any order; else there is always one sum at least. */
static void sum_stream_is_of_large_tables(void **state)
{
    struct table t = {.access = MLT_SHARED, .value_bytes = 56};

    (void)state;
    assert_true(sum_stream_rows(&t, 100, 6400) == 0);
    assert_true(sum_stream_rows(&t, 101, 6400) == 100);
    assert_true(sum_stream_rows(&t, 2, 1) == 1);
    assert_true(sum_stream_rows(&t, 101, 0) == 0);
    assert_true(sum_stream_bytes(&t, 100) == 6400);
    t.flags = MLT_OWN_CLOCK;
    assert_true(sum_stream_rows(&t, 101, 6400) == 0);
    t.flags = 0;
    t.access = MLT_EXCLUSIVE;
    assert_true(sum_stream_rows(&t, 101, 6400) == 0);
}

/* ---- a shard ------------------------------------------------------------- */

enum { NODES = 4, ROWS = 16, PART = ROWS / NODES };

/* Node 0's shard, of nodes with one worker each; two sums of a stream may be
 * under way. */
struct world {
    struct table table;
    struct shard_store store;
    struct shard *shard;
    struct update own; /* what its worker adds, where it stays */
    const struct update *owns[1];
};

static void make_table(struct table *t, unsigned workers)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "weights",
                                    .rows = ROWS,
                                    .width = WIDTH,
                                    .rule = "add",
                                    .chunk_bytes = WIDTH * 4};

    assert_int_equal(table_init(t, &opt, NULL, NULL), ERR_OK);
    table_partition(t, workers);
}

static void open_world(struct world *w, bool stays)
{
    struct shard_options opt = {.nodes = NODES,
                                .workers = 1,
                                .table = &w->table,
                                .tables = 1,
                                .consistency = consistency_find("bsp"),
                                .stream_bytes = 2 * (WIDTH * 4 + 8),
                                .rows = &shard_store_rows,
                                .rows_self = &w->store};

    make_table(&w->table, NODES);
    assert_int_equal(update_init(&w->own, ROWS, WIDTH * 4, 0), ERR_OK);
    w->owns[0] = &w->own;
    opt.own = stays ? w->owns : NULL;
    assert_int_equal(shard_store_init(&w->store, &opt, 1 << 20, 0), ERR_OK);
    assert_int_equal(shard_new(&opt, &w->shard), ERR_OK);
}

static void close_world(struct world *w)
{
    shard_free(w->shard);
    store_check(w->store.store);
    shard_store_deinit(&w->store);
    update_deinit(&w->own);
}

static struct frame next_of(struct world *w, uint32_t node)
{
    static unsigned char bytes[ROOM];
    bool has = shard_has_next(w->shard, node);
    size_t n = shard_next(w->shard, node, bytes, sizeof(bytes));
    struct frame f = {0};

    assert_true(has == (n > 0));
    if (n)
        assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    return f;
}

static enum err give(struct world *w, const struct frame *f, uint64_t through,
                     uint32_t n, const uint64_t rows[], float value)
{
    const float values[WIDTH] = {value, -value};
    unsigned char bytes[ROOM];
    struct frame_writer writer;
    struct frame got;
    size_t size;

    frame_begin(&writer, f, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < n; i++)
        assert_true(frame_add(&writer, rows[i], values));
    if (f->kind == FRAME_UPDATE)
        frame_set_through(&writer, through);
    size = frame_end(&writer);
    frame_stamp(bytes, f->from, 0, 0);
    assert_int_equal(frame_decode(bytes, size, &got, NULL), ERR_OK);
    return shard_step(w->shard, &got, NULL);
}

static void begin(struct world *w, uint32_t branch, uint64_t slice,
                  int64_t clock)
{
    struct frame f = {
        .kind = FRAME_BEGIN, .slice = slice, .branch = branch, .clock = clock};

    assert_int_equal(give(w, &f, 0, 0, NULL, 0), ERR_OK);
    assert_int_equal(next_of(w, 0).kind, FRAME_DONE);
    for (uint32_t node = 0; node < NODES; node++)
        assert_int_equal(next_of(w, node).kind, FRAME_CLOCKS);
}

static struct frame of_worker(enum frame_kind kind, uint32_t worker,
                              uint64_t slice, int64_t clock)
{
    return (struct frame){.kind = kind,
                          .from = worker,
                          .worker = worker,
                          .slice = slice,
                          .clock = clock};
}

/* Sums of one value of a worker's stream in the first clock of slice 1. */
static enum err sums(struct world *w, uint32_t worker, uint64_t through,
                     uint32_t n, const uint64_t rows[], float value)
{
    struct frame f = of_worker(FRAME_UPDATE, worker, 1, CLOCK);

    f.values = FRAME_F32;
    f.width = WIDTH;
    return give(w, &f, through, n, rows, value);
}

static void end_clock(struct world *w, uint32_t worker, uint32_t table)
{
    struct frame f = of_worker(FRAME_CLOCK, worker, 1, CLOCK + 1);

    f.table = table;
    assert_int_equal(give(w, &f, 0, 0, NULL, 0), ERR_OK);
}

static float stored(const struct world *w, uint64_t row)
{
    float value;

    memcpy(&value, shard_store_row(&w->store, 0, 0, row), sizeof(value));
    return value;
}

static void expect_taken(struct world *w, uint32_t node, uint64_t through)
{
    struct frame f = next_of(w, node);

    assert_int_equal(f.kind, FRAME_TAKEN);
    assert_true(f.table == 0 && f.worker == node && f.through == through);
    assert_int_equal(next_of(w, node).kind, 0);
}

static const uint64_t rows[] = {0, 1, 2, 3};

/* A row is applied as soon as all blocks have passed it, by rows or by the end
 * of their clocks, and not before; each node is told what was taken of its. */
static void shard_stream_rows_are_applied_when_all_have_passed(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, false);
    begin(&w, 0, 1, CLOCK);
    assert_int_equal(sums(&w, 1, 2, 2, rows, 1), ERR_OK);
    assert_int_equal(sums(&w, 2, PART, 0, NULL, 0), ERR_OK); /* has none */
    end_clock(&w, 3, FRAME_ALL_TABLES);
    assert_true(shard_stats(w.shard).kept == 2);
    assert_float_equal(stored(&w, 0), 0, 0);
    for (uint32_t node = 0; node < NODES; node++)
        assert_int_equal(next_of(&w, node).kind, 0);

    assert_int_equal(sums(&w, 0, 1, 1, rows, 2), ERR_OK);
    assert_float_equal(stored(&w, 0), 3, 0);
    assert_float_equal(stored(&w, 1), 0, 0);
    assert_true(shard_stats(w.shard).kept == 1);
    expect_taken(&w, 0, 1);
    expect_taken(&w, 1, 1);
    assert_int_equal(next_of(&w, 2).kind, 0);

    end_clock(&w, 0, FRAME_ALL_TABLES);
    assert_float_equal(stored(&w, 1), 1, 0);
    expect_taken(&w, 1, 2);
    assert_int_equal(sums(&w, 1, PART, 1, rows + 3, 4), ERR_OK);
    assert_float_equal(stored(&w, 3), 4, 0);
    expect_taken(&w, 1, 3);
    end_clock(&w, 1, FRAME_ALL_TABLES);
    assert_int_equal(next_of(&w, 0).kind, 0); /* the clock is not over */
    end_clock(&w, 2, FRAME_ALL_TABLES);
    for (uint32_t node = 0; node < NODES; node++)
        assert_int_equal(next_of(&w, node).kind, FRAME_CLOCKS);
    close_world(&w);
}

/* The sums of this node's worker stay with it: nothing is applied until it has
 * ended the clock, or has drained; the order is that of the tree, in which 1 is
 * lost in 1e8 on both sides. One after another would give 1. */
static void shard_stream_sums_are_added_in_the_order_of_the_tree(void **state)
{
    static const float value[NODES] = {1, 1e8f, -1e8f, 1};

    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        struct world w;

        open_world(&w, stays);
        begin(&w, 0, 1, CLOCK);
        for (uint32_t i = NODES - 1; i > 0; i--)
            assert_int_equal(sums(&w, i, 2, 1, rows + 1, value[i]), ERR_OK);
        assert_float_equal(stored(&w, 1), 0, 0);
        if (stays) {
            memcpy(update_take(&w.own, 1), (float[WIDTH]){value[0], 0},
                   sizeof(float) * WIDTH);
            assert_true(shard_stats(w.shard).kept == NODES - 1);
            end_clock(&w, 0, FRAME_ALL_TABLES);
        } else {
            assert_int_equal(sums(&w, 0, 2, 1, rows + 1, value[0]), ERR_OK);
        }
        assert_true(shard_stats(w.shard).kept == 0);
        assert_float_equal(stored(&w, 1), 0, 0);
        assert_float_equal((value[0] + value[1]) + value[2] + value[3], 1, 0);
        assert_int_equal(sums(&w, 1, PART, 1, rows + 2, 7), ERR_OK);
        for (uint32_t i = 2; i < NODES; i++) {
            struct frame f = of_worker(FRAME_DRAIN, i, 1, CLOCK);

            assert_int_equal(give(&w, &f, 0, 0, NULL, 0), ERR_OK);
        }
        assert_float_equal(stored(&w, 2), stays ? 7 : 0, 0);
        close_world(&w);
    }
}

/* Rows that do not follow those that have come, and an end that does not follow
 * its rows, are refused and change nothing. */
static void shard_stream_refuses_rows_out_of_order(void **state)
{
    static const uint64_t twice[] = {2, 2}, back[] = {3, 2};
    struct world w;

    (void)state;
    open_world(&w, false);
    begin(&w, 0, 1, CLOCK);
    assert_int_equal(sums(&w, 1, 2, 1, rows, 1), ERR_OK);
    assert_int_equal(sums(&w, 1, 3, 1, rows + 1, 1), ERR_PROTO);
    assert_int_equal(sums(&w, 1, 3, 2, twice, 1), ERR_PROTO);
    assert_int_equal(sums(&w, 1, 4, 2, back, 1), ERR_PROTO);
    assert_int_equal(sums(&w, 1, 2, 1, rows + 2, 1), ERR_PROTO);
    assert_int_equal(sums(&w, 1, 1, 0, NULL, 0), ERR_PROTO);
    assert_int_equal(sums(&w, 1, PART + 1, 0, NULL, 0), ERR_PROTO);
    assert_true(shard_stats(w.shard).kept == 1);
    assert_int_equal(sums(&w, 1, PART, 2, rows + 2, 1), ERR_OK);
    assert_true(shard_stats(w.shard).kept == 3);
    close_world(&w);
}

/* A worker that ends the clock of this table alone may be waited for by others
 * that wait with it: from then on nobody is limited in this slice. What comes
 * is kept, and applied. */
static void shard_stream_clock_of_one_table_lifts_limits(void **state)
{
    struct world w;

    (void)state;
    open_world(&w, false);
    begin(&w, 0, 1, CLOCK);
    end_clock(&w, 2, 0);
    for (uint32_t node = 0; node < NODES; node++) {
        struct frame f = next_of(&w, node);

        assert_int_equal(f.kind, FRAME_TAKEN);
        assert_true(f.table == FRAME_ALL_TABLES && f.slice == 1);
        assert_int_equal(next_of(&w, node).kind, 0);
    }
    assert_int_equal(sums(&w, 1, PART, 4, rows, 1), ERR_OK);
    assert_true(shard_stats(w.shard).kept == 4);
    for (uint32_t i = 0; i < NODES; i++)
        if (i != 2)
            end_clock(&w, i, 0);
    for (uint64_t r = 0; r < PART; r++)
        assert_float_equal(stored(&w, r), 1, 0);
    assert_true(next_of(&w, 1).through == 4);
    assert_int_equal(next_of(&w, 1).kind, FRAME_CLOCKS);
    assert_true(shard_stats(w.shard).kept == 0);
    close_world(&w);
}

/* What a slice leaves behind is none of the next one's, and its sender is told
 * that it was taken. */
static void shard_stream_ends_with_its_slice(void **state)
{
    struct frame f;
    struct world w;

    (void)state;
    open_world(&w, false);
    begin(&w, 0, 1, CLOCK);
    assert_int_equal(sums(&w, 1, 2, 2, rows, 1), ERR_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        f = of_worker(FRAME_DRAIN, i, 1, CLOCK);
        assert_int_equal(give(&w, &f, 0, 0, NULL, 0), ERR_OK);
    }
    expect_taken(&w, 1, 2); /* all have passed all rows: they were applied */
    assert_float_equal(stored(&w, 0), 1, 0);
    assert_int_equal(next_of(&w, 0).kind, FRAME_DRAINED);
    begin(&w, 0, 2, CLOCK + 1);
    f = of_worker(FRAME_UPDATE, 1, 2, CLOCK + 1);
    f.values = FRAME_F32;
    f.width = WIDTH;
    assert_int_equal(give(&w, &f, 1, 1, rows, 5), ERR_OK);
    assert_true(shard_stats(w.shard).kept == 1);
    close_world(&w);
}

/* ---- a cache ------------------------------------------------------------- */

enum { WORKERS = 2, CACHE_NODES = 2, OTHER = ROWS / CACHE_NODES };

/* Node 0's cache, of two nodes with two workers each. */
struct client {
    struct table table;
    struct update update[WORKERS];
    const struct update *updates[WORKERS];
    struct cache *cache;
};

static void say(struct client *k, enum frame_kind kind, uint64_t slice,
                uint32_t from, const int64_t *clock)
{
    struct frame f = {.kind = kind, .from = from, .slice = slice};
    unsigned char bytes[ROOM];
    struct frame_writer writer;
    size_t n;

    f.values = FRAME_I64;
    f.width = 1;
    frame_begin(&writer, &f, bytes, sizeof(bytes));
    assert_true(frame_add(&writer, 0, clock));
    n = frame_end(&writer);
    assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    f.from = from;
    assert_int_equal(cache_step(k->cache, &f, NULL), ERR_OK);
}

static void open_client(struct client *k, uint64_t bytes)
{
    struct cache_options opt = {.nodes = CACHE_NODES,
                                .workers = WORKERS,
                                .table = &k->table,
                                .tables = 1,
                                .consistency = consistency_find("bsp"),
                                .own_stay = true,
                                .stream_bytes = bytes,
                                .update = k->updates};
    const int64_t clock = CLOCK;

    make_table(&k->table, CACHE_NODES * WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(update_init(&k->update[i], ROWS, WIDTH * 4, 0),
                         ERR_OK);
        k->updates[i] = &k->update[i];
    }
    assert_int_equal(cache_new(&opt, &k->cache), ERR_OK);
    cache_begin(k->cache, 1, CLOCK, 0);
    for (uint32_t node = 0; node < CACHE_NODES; node++)
        say(k, FRAME_CLOCKS, 1, node, &clock);
}

static void close_client(struct client *k)
{
    cache_free(k->cache);
    for (int i = 0; i < WORKERS; i++)
        update_deinit(&k->update[i]);
}

static void add(struct client *k, uint32_t worker, uint64_t row)
{
    memset(update_take(&k->update[worker], row), 0, sizeof(float) * WIDTH);
}

static struct frame next_for(struct client *k, uint32_t node)
{
    static unsigned char bytes[ROOM];
    bool has = cache_has_next(k->cache, node);
    size_t n = cache_next(k->cache, node, bytes, sizeof(bytes));
    struct frame f = {0};

    assert_true(has == (n > 0));
    if (n)
        assert_int_equal(frame_decode(bytes, n, &f, NULL), ERR_OK);
    return f;
}

static enum err taken(struct client *k, uint64_t slice, uint32_t worker,
                      uint64_t through)
{
    struct frame f = {.kind = FRAME_TAKEN,
                      .from = 1,
                      .slice = slice,
                      .worker = worker,
                      .through = through};

    return cache_step(k->cache, &f, NULL);
}

static void expect_sums(struct client *k, uint32_t n, uint64_t through)
{
    struct frame f = next_for(k, 1);

    assert_int_equal(f.kind, FRAME_UPDATE);
    assert_int_equal(f.count, n);
    assert_true(f.through == through && f.worker == 0);
}

/* What a worker has added to rows of the other node, 8 to 15. */
static void open_waiting(struct client *k)
{
    open_client(k, 2 * (WIDTH * 4 + 8));
    for (uint64_t row = OTHER; row < OTHER + 5; row++)
        add(k, row % WORKERS, row);
    for (uint32_t i = 0; i < WORKERS; i++)
        cache_end_clock(k->cache, i, FRAME_ALL_TABLES, 0.25);
    assert_int_equal(next_for(k, 1).kind, FRAME_CLOCK); /* not the last */
    expect_sums(k, 2, OTHER + 2);
    assert_int_equal(next_for(k, 1).kind, 0);
}

/* No more sums leave than the shard has said to have taken, and the limit; the
 * end of a stream is told, with its last sums. */
static void cache_stream_waits_for_the_shard(void **state)
{
    struct client k;

    (void)state;
    open_waiting(&k);
    assert_int_equal(taken(&k, 1, 0, 1), ERR_OK);
    expect_sums(&k, 1, OTHER + 3);
    assert_int_equal(next_for(&k, 1).kind, 0);
    assert_false(cache_sent(k.cache, 1));
    assert_int_equal(taken(&k, 1, 0, 3), ERR_OK);
    expect_sums(&k, 2, ROWS);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    assert_int_equal(next_for(&k, 1).kind, 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(next_for(&k, 0).kind, FRAME_CLOCK);
    assert_true(cache_sent(k.cache, 0) && cache_sent(k.cache, 1));
    assert_true(cache_stats(k.cache).updates == 5);
    close_client(&k);
}

/* Once a shard has said so, its slice has no limit; the next one has. */
static void cache_stream_limit_is_lifted_for_a_slice(void **state)
{
    struct frame f = {
        .kind = FRAME_TAKEN, .from = 1, .slice = 1, .table = FRAME_ALL_TABLES};
    const int64_t clock = CLOCK + 5;
    struct client k;

    (void)state;
    open_waiting(&k);
    assert_int_equal(cache_step(k.cache, &f, NULL), ERR_OK);
    expect_sums(&k, 3, ROWS);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    while (next_for(&k, 0).kind)
        ;
    for (uint32_t i = 0; i < WORKERS; i++) {
        update_clear(&k.update[i]);
        cache_drain(k.cache, i);
    }
    for (uint32_t node = 0; node < CACHE_NODES; node++)
        while (next_for(&k, node).kind)
            ;
    cache_begin(k.cache, 2, clock, 0);
    for (uint32_t node = 0; node < CACHE_NODES; node++)
        say(&k, FRAME_CLOCKS, 2, node, &clock);
    add(&k, 0, OTHER);
    for (uint32_t i = 0; i < WORKERS; i++)
        cache_end_clock(k.cache, i, FRAME_ALL_TABLES, 0.25);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    assert_int_equal(next_for(&k, 1).kind, 0);    /* 5 are under way */
    assert_int_equal(taken(&k, 1, 0, 4), ERR_OK); /* of the slice before */
    expect_sums(&k, 1, ROWS);
    close_client(&k);
}

/* Sums of a table that ends its clock alone never wait. */
static void cache_stream_of_one_tables_clock_never_waits(void **state)
{
    struct client k;

    (void)state;
    open_client(&k, 1);
    for (uint64_t row = OTHER; row < OTHER + 5; row++)
        add(&k, 0, row);
    for (uint32_t i = 0; i < WORKERS; i++)
        cache_end_clock(k.cache, i, 0, 0.25);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    expect_sums(&k, 5, ROWS);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    close_client(&k);
}

/* A buffer that is cleared while its sums wait has no row to send: the stream
 * ends, and the clock leaves. */
static void cache_stream_of_a_failed_worker_ends(void **state)
{
    struct client k;

    (void)state;
    open_waiting(&k);
    for (int i = 0; i < WORKERS; i++)
        update_clear(&k.update[i]);
    expect_sums(&k, 0, ROWS);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    assert_int_equal(next_for(&k, 1).kind, 0);
    close_client(&k);
}

/* A read of a worker that has ended its clock waits until the shard knows of
 * that; one that computes on reads meanwhile. */
static void cache_stream_lets_reads_pass(void **state)
{
    struct client k;

    (void)state;
    open_client(&k, 1);
    add(&k, 0, OTHER);
    add(&k, 0, OTHER + 1);
    assert_false(cache_read(k.cache, 1, 0, OTHER + 7, NULL, NULL));
    for (uint32_t i = 0; i < WORKERS; i++)
        cache_end_clock(k.cache, i, FRAME_ALL_TABLES, 0.25);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK); /* worker 0's */
    expect_sums(&k, 1, OTHER + 1);
    assert_int_equal(next_for(&k, 1).kind, 0);
    assert_int_equal(taken(&k, 1, 0, 1), ERR_OK);
    expect_sums(&k, 1, ROWS);
    assert_int_equal(next_for(&k, 1).kind, FRAME_CLOCK);
    assert_int_equal(next_for(&k, 1).kind, FRAME_READ);
    close_client(&k);
}

/* Of sums that never left, fewer than before, or of no stream. */
static void cache_stream_refuses_what_cannot_be(void **state)
{
    struct frame f = {.kind = FRAME_TAKEN, .from = 1, .slice = 1, .table = 1};
    struct client k;

    (void)state;
    open_waiting(&k);
    assert_int_equal(taken(&k, 1, 0, 3), ERR_PROTO);
    assert_int_equal(taken(&k, 1, 0, 1), ERR_OK);
    assert_int_equal(taken(&k, 1, 0, 0), ERR_PROTO);
    assert_int_equal(taken(&k, 1, 1, 1), ERR_PROTO); /* not a block's first */
    assert_int_equal(taken(&k, 1, WORKERS, 1), ERR_PROTO);
    assert_int_equal(taken(&k, 1, UINT32_MAX, 1), ERR_PROTO);
    assert_int_equal(cache_step(k.cache, &f, NULL), ERR_PROTO);
    close_client(&k);
}

/* ---- memory -------------------------------------------------------------- */

static void sum_stream_failed_allocation_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (int n = 1;; n++) {
        struct sum_stream s;
        enum err err;

        mem_fail_at(n, 0);
        err = sum_stream_init(&s, 100, WIDTH * 4, LIMIT);
        mem_fail_at(0, 0);
        if (!err) {
            sum_stream_deinit(&s);
            assert_true(n > 2);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_stream_keeps_order),
        cmocka_unit_test(sum_stream_tells_what_was_taken),
        cmocka_unit_test(sum_stream_is_of_large_tables),
        cmocka_unit_test(shard_stream_rows_are_applied_when_all_have_passed),
        cmocka_unit_test(shard_stream_sums_are_added_in_the_order_of_the_tree),
        cmocka_unit_test(shard_stream_refuses_rows_out_of_order),
        cmocka_unit_test(shard_stream_clock_of_one_table_lifts_limits),
        cmocka_unit_test(shard_stream_ends_with_its_slice),
        cmocka_unit_test(cache_stream_waits_for_the_shard),
        cmocka_unit_test(cache_stream_limit_is_lifted_for_a_slice),
        cmocka_unit_test(cache_stream_of_one_tables_clock_never_waits),
        cmocka_unit_test(cache_stream_of_a_failed_worker_ends),
        cmocka_unit_test(cache_stream_lets_reads_pass),
        cmocka_unit_test(cache_stream_refuses_what_cannot_be),
        cmocka_unit_test(sum_stream_failed_allocation_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
