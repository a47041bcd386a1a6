/* Where rows lie: what nodes tell each other, and what they make of it. */
#include "ps/nodes/placement.h"

#include "base/mem.h"
#include "ps/nodes/shard.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

enum { NODES = 3, EACH = 2, ROWS = 300, ROOM = 200 };

struct world {
    struct table table[NODES];
    struct placement node[NODES];
};

static void open_world(struct world *w)
{
    const struct mlt_table_options opt = {.size = sizeof(opt),
                                          .name = "rows",
                                          .rows = ROWS,
                                          .width = 4,
                                          .chunk_bytes = 64};

    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(table_init(&w->table[i], &opt, rule_find("add"), NULL),
                         ERR_OK);
        table_partition(&w->table[i], NODES * EACH);
        placement_init(&w->node[i], i, NODES, EACH, ROWS);
    }
}

static void close_world(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++)
        placement_deinit(&w->node[i]);
}

/* Row r is touched by node (r / 7) % NODES, where it is not one of the last. */
static enum err expect(struct world *w)
{
    enum err err = ERR_OK;

    for (uint64_t row = 0; row < ROWS - 20 && !err; row++)
        err = placement_expect(&w->node[row / 7 % NODES], row % EACH, row % 2,
                               row, true, true, true);
    return err;
}

static enum err tell(struct world *w, uint32_t from)
{
    unsigned char bytes[ROOM];
    uint64_t row = 0;
    enum err err = ERR_OK;
    size_t n;

    while ((n = placement_next(&w->node[from], 0, &row, bytes, ROOM)) && !err) {
        struct fault fault;
        struct frame f;

        frame_stamp(bytes, from, 1, 1);
        assert_int_equal(frame_decode(bytes, n, &f, &fault), ERR_OK);
        for (uint32_t to = 0; to < NODES && !err; to++)
            if (to != from)
                err = placement_take(&w->node[to], &f, &fault);
    }
    return err;
}

static enum err place(struct world *w)
{
    enum err err = expect(w);

    for (uint32_t i = 0; i < NODES && !err; i++)
        err = tell(w, i);
    for (uint32_t i = 0; i < NODES && !err; i++)
        err = placement_make(&w->node[i], &w->table[i]);
    return err;
}

/* All nodes come to the same permutation, which has most rows at the node that
 * touches them; what is known of rows is then known of their numbers. */
static void placement_all_nodes_agree(void **state)
{
    const struct table *t;
    struct world w;
    unsigned at_home = 0;

    (void)state;
    open_world(&w);
    assert_int_equal(place(&w), ERR_OK);
    t = &w.table[0];
    for (uint32_t i = 1; i < NODES; i++)
        assert_memory_equal(w.table[i].number, t->number,
                            ROWS * sizeof(*t->number));
    for (uint64_t row = 0; row < ROWS; row++) {
        assert_int_equal(table_row_at(t, table_number(t, row)), row);
        at_home +=
            shard_of(t, NODES, EACH, table_number(t, row)) == row / 7 % NODES;
    }
    assert_true(at_home > ROWS * 8 / 10);
    assert_int_equal(w.node[1].known[1].list[1].row[0], table_number(t, 7));
    assert_int_equal(t->placed, w.table[2].placed);
    assert_true(t->placed != 0);
    close_world(&w);
}

/* Memory that a node needs, at most at a time: the permutation and its inverse,
 * its own counts and all nodes', the places and what is sorted. */
static void placement_counts_what_it_takes(void **state)
{
    (void)state;
    assert_true(placement_bytes(1000, 4) >=
                1000 * (4 + 4 + 4 + 4 * 4 + 8 + 16));
    assert_true(placement_bytes(1000, 64) > placement_bytes(1000, 4));
}

/* Where nobody said anything, nothing is moved. */
static void placement_of_silence_is_none(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    assert_int_equal(placement_expect(&w.node[0], 0, 0, 5, true, true, false),
                     ERR_OK); /* known, but of no weight */
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(tell(&w, i), ERR_OK);
        assert_int_equal(placement_make(&w.node[i], &w.table[i]), ERR_OK);
        assert_int_equal(table_number(&w.table[i], 5), 5);
        assert_int_equal(table_row_at(&w.table[i], 5), 5);
        assert_int_equal(w.table[i].placed, 0);
    }
    assert_int_equal(w.node[0].known[0].entries, 1);
    close_world(&w);
}

/* Rows that there are not, counts that are none and records of another shape
 * are refused with a word. */
static void placement_refuses_what_cannot_be(void **state)
{
    static const struct {
        uint64_t row;
        int32_t count[2];
        uint32_t width;
    } bad[] = {{ROWS, {1}, 1}, {3, {0}, 1}, {3, {-1}, 1}, {3, {1, 1}, 2}};
    struct world w;

    (void)state;
    open_world(&w);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const struct frame f = {
            .kind = FRAME_EXPECT, .values = FRAME_I32, .width = bad[i].width};
        unsigned char bytes[ROOM];
        struct frame_writer writer;
        struct fault fault = {0};
        struct frame got;

        frame_begin(&writer, &f, bytes, ROOM);
        frame_add(&writer, bad[i].row, bad[i].count);
        assert_int_equal(frame_decode(bytes, frame_end(&writer), &got, &fault),
                         ERR_OK);
        assert_int_equal(placement_take(&w.node[1], &got, &fault), ERR_PROTO);
        assert_non_null(strstr(fault.text, "expect frame of node 0"));
    }
    close_world(&w);
}

/* Whichever allocation fails, it is said, and nothing is left behind. */
static void placement_survives_no_memory(void **state)
{
    int64_t before = mem_outstanding(), n = 1;
    bool failed = true;

    (void)state;
    for (; failed; n++) {
        struct world w;
        enum err err;

        open_world(&w);
        mem_fail_at(n, 0);
        err = place(&w);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_true(failed || err == ERR_OK);
        close_world(&w);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement_counts_what_it_takes),
        cmocka_unit_test(placement_all_nodes_agree),
        cmocka_unit_test(placement_of_silence_is_none),
        cmocka_unit_test(placement_refuses_what_cannot_be),
        cmocka_unit_test(placement_survives_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
