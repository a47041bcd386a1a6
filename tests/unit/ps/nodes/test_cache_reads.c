/* Which reads leave a cache, and when: batches beside reads that are waited
 * for. */
#include "ps/nodes/cache.h"

#include "base/mem.h"
#include "tests/unit/fixture/check.h"

/* Node 0 of two, with two workers each; rows 0 .. 31 are its own. Of a worker 8
 * rows may be under way to a shard, of which batches take 6. */
enum {
    ROWS = 64,
    OTHERS = 32, /* the first of node 1's */
    NODES = 2,
    WORKERS = 2,
    CLOCK = 10,
    ROOM = 512,
    READS = 16,
    OF_BATCHES = 6
};

struct world {
    struct table table;
    struct update update[WORKERS];
    const struct update *updates[WORKERS];
    struct cache *cache;
};

static void come(struct world *w, struct frame f, uint64_t first, uint64_t n,
                 const void *values)
{
    unsigned char bytes[ROOM];
    struct frame_writer writer;
    struct frame got;
    size_t size;

    f.slice = 1;
    f.width = 1;
    frame_begin(&writer, &f, bytes, sizeof(bytes));
    for (uint64_t i = 0; i < n; i++)
        assert_true(frame_add(&writer, first + i, values));
    size = frame_end(&writer);
    frame_stamp(bytes, f.from, 0, 0);
    assert_int_equal(frame_decode(bytes, size, &got, NULL), ERR_OK);
    assert_int_equal(cache_step(w->cache, &got, NULL), ERR_OK);
}

static void shard_is_at(struct world *w, uint32_t node, int64_t clock)
{
    struct frame f = {.kind = FRAME_CLOCKS,
                      .from = node,
                      .worker = FRAME_NO_WORKER,
                      .values = FRAME_I64};

    come(w, f, 0, 1, &clock);
}

/* Answers to @worker. */
static void rows_come(struct world *w, uint32_t worker, uint64_t first,
                      uint64_t n)
{
    struct frame f = {.kind = FRAME_ROWS,
                      .from = first >= OTHERS,
                      .worker = worker,
                      .clock = cache_clock(w->cache, worker, 0),
                      .values = FRAME_F32};

    come(w, f, first, n, &(float){1});
}

static void open_world(struct world *w, const char *model)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "weights",
                                      .rows = ROWS,
                                      .width = 1,
                                      .rule = "add",
                                      .chunk_bytes = 4};
    struct cache_options opt = {.nodes = NODES,
                                .workers = WORKERS,
                                .table = &w->table,
                                .tables = 1,
                                .consistency = consistency_find(model),
                                .update = w->updates,
                                .reads_max = READS};

    assert_int_equal(table_init(&w->table, &table, NULL, NULL), ERR_OK);
    table_partition(&w->table, NODES * WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        w->updates[i] = &w->update[i];
        assert_int_equal(
            update_init(&w->update[i], ROWS, w->table.value_bytes, 0), ERR_OK);
    }
    assert_int_equal(cache_new(&opt, &w->cache), ERR_OK);
    cache_begin(w->cache, 1, CLOCK, 0);
    for (uint32_t node = 0; node < NODES; node++)
        shard_is_at(w, node, CLOCK);
}

static void close_world(struct world *w)
{
    cache_free(w->cache);
    for (int i = 0; i < WORKERS; i++)
        update_deinit(&w->update[i]);
}

/* The next frame for @node asks for these n rows and no others; 0: there is no
 * frame. */
static void asks_for(struct world *w, uint32_t node, uint32_t n, uint64_t first)
{
    unsigned char bytes[ROOM];
    size_t size = cache_next(w->cache, node, bytes, sizeof(bytes));
    struct frame f;

    assert_true((size == 0) == (n == 0));
    assert_true(n || !cache_has_next(w->cache, node));
    if (n == 0)
        return;
    assert_int_equal(frame_decode(bytes, size, &f, NULL), ERR_OK);
    assert_int_equal(f.kind, FRAME_READ);
    assert_int_equal(f.count, n);
    assert_true(f.flags & FRAME_SHORT); /* 4 bytes a number */
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(frame_row(&f, i), first + i);
}

static bool reads(struct world *w, uint32_t worker, uint64_t row)
{
    return cache_read(w->cache, worker, 0, row, NULL, NULL);
}

/* @n rows from @first on, in the caller's memory. */
static const uint64_t *rows_from(uint64_t row[], uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        row[i] = first + i;
    return row;
}

/* A batch asks for as many of its rows as may be under way, in their order, and
 * for more when some have come. */
static void cache_batch_goes_on_when_rows_come(void **state)
{
    uint64_t row[ROWS];
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    cache_fetch(w.cache, 0, 1, 0, 10, rows_from(row, OTHERS, 10));
    asks_for(&w, 1, OF_BATCHES, OTHERS);
    asks_for(&w, 1, 0, 0);
    rows_come(&w, 0, OTHERS, 1);
    asks_for(&w, 1, 1, OTHERS + 6);
    rows_come(&w, 0, OTHERS + 1, 6);
    asks_for(&w, 1, 3, OTHERS + 7);
    rows_come(&w, 0, OTHERS + 7, 3);
    asks_for(&w, 1, 0, 0);
    for (uint64_t i = 0; i < 10; i++)
        assert_true(reads(&w, 0, OTHERS + i));
    cache_fetch_end(w.cache, 0, 1);
    assert_true(cache_stats(w.cache).asked == 10);
    close_world(&w);
}

/* What a batch has under way leaves room for reads that are waited for, of its
 * worker and of others. */
static void cache_batch_leaves_room_for_reads(void **state)
{
    uint64_t row[ROWS];
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    cache_fetch(w.cache, 0, 1, 0, 20, rows_from(row, OTHERS, 20));
    asks_for(&w, 1, OF_BATCHES, OTHERS);
    assert_false(reads(&w, 0, 60));
    assert_false(reads(&w, 0, 61));
    assert_false(reads(&w, 0, 62)); /* that is all of its part */
    asks_for(&w, 1, 2, 60);
    assert_false(reads(&w, 1, 62));
    asks_for(&w, 1, 1, 62);
    rows_come(&w, 0, 60, 1); /* 7 are under way still */
    asks_for(&w, 1, 0, 0);
    assert_true(reads(&w, 0, 60));
    cache_fetch_end(w.cache, 0, 1);
    close_world(&w);
}

/* A shard that has as much as it may does not keep the batch from others. */
static void cache_batch_asks_each_shard_by_itself(void **state)
{
    uint64_t row[ROWS];
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    rows_from(row, OTHERS, 10);
    rows_from(row + 10, 5, 8);
    cache_fetch(w.cache, 0, 1, 0, 18, row);
    asks_for(&w, 1, OF_BATCHES, OTHERS);
    asks_for(&w, 0, OF_BATCHES, 5);
    rows_come(&w, 0, 5, 3);
    asks_for(&w, 0, 2, 11);
    asks_for(&w, 1, 0, 0);
    rows_come(&w, 0, OTHERS, 6);
    asks_for(&w, 1, 4, OTHERS + 6);
    asks_for(&w, 0, 0, 0);
    cache_fetch_end(w.cache, 0, 1);
    close_world(&w);
}

/* What is waited for leaves first, and so does what a batch that has ended
 * asked for; but a batch has its turn though reads never cease. */
static void cache_batch_leaves_behind_reads(void **state)
{
    uint64_t first[ROWS], second[ROWS];
    struct world w;

    (void)state;
    open_world(&w, "ssp");
    cache_fetch(w.cache, 0, 1, 0, 2, rows_from(first, OTHERS, 2));
    cache_fetch(w.cache, 0, 2, 0, 2, rows_from(second, OTHERS + 8, 2));
    assert_false(reads(&w, 0, 50));
    asks_for(&w, 1, 1, 50);
    cache_fetch_end(w.cache, 0, 2);
    asks_for(&w, 1, 2, OTHERS + 8);
    assert_false(reads(&w, 0, 51));
    asks_for(&w, 1, 1, 51);
    assert_false(reads(&w, 1, 52));
    asks_for(&w, 1, 2, OTHERS);
    asks_for(&w, 1, 1, 52);
    asks_for(&w, 1, 0, 0);
    cache_fetch_end(w.cache, 0, 1);
    close_world(&w);
}

/* No row is asked for that is here: one's own under barriers, or a copy that is
 * new enough; nor one twice. */
static void cache_batch_asks_for_what_is_missing(void **state)
{
    uint64_t row[ROWS] = {3, 40, 40, 41, 42};
    struct world w;

    (void)state;
    open_world(&w, "bsp");
    assert_false(reads(&w, 0, 41));
    asks_for(&w, 1, 1, 41);
    rows_come(&w, 0, 41, 1);
    assert_false(reads(&w, 1, 42)); /* another worker's will do */
    asks_for(&w, 1, 1, 42);
    cache_fetch(w.cache, 0, 1, 0, 5, row);
    asks_for(&w, 1, 1, 40);
    asks_for(&w, 0, 0, 0);
    cache_fetch_end(w.cache, 0, 1);
    close_world(&w);
}

/* From its end on a batch's rows are the caller's again, however many were
 * never asked for; those behind it go on. */
static void cache_batch_that_ends_is_forgotten(void **state)
{
    uint64_t *ended = mem_alloc(ROWS * sizeof(*ended)), row[ROWS];
    struct world w;

    (void)state;
    assert_non_null(ended);
    open_world(&w, "ssp");
    cache_fetch(w.cache, 0, 1, 0, 10, rows_from(ended, OTHERS, 10));
    cache_fetch(w.cache, 0, 2, 0, 2, rows_from(row, 60, 2));
    asks_for(&w, 1, OF_BATCHES, OTHERS);
    cache_fetch_end(w.cache, 0, 1);
    mem_free(ended);
    rows_come(&w, 0, OTHERS, 2);
    asks_for(&w, 1, 2, 60);
    rows_come(&w, 0, OTHERS + 2, 4);
    rows_come(&w, 0, 60, 2);
    asks_for(&w, 1, 0, 0);
    assert_true(cache_stats(w.cache).waiting == 0);
    cache_fetch_end(w.cache, 0, 2);
    cache_end_clock(w.cache, 0, FRAME_ALL_TABLES, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_batch_goes_on_when_rows_come),
        cmocka_unit_test(cache_batch_leaves_room_for_reads),
        cmocka_unit_test(cache_batch_asks_each_shard_by_itself),
        cmocka_unit_test(cache_batch_leaves_behind_reads),
        cmocka_unit_test(cache_batch_asks_for_what_is_missing),
        cmocka_unit_test(cache_batch_that_ends_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
