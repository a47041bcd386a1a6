#include "ps/nodes/agreement.h"

#include "base/mem.h"

#include <string.h>

#include "tests/unit/fixture/check.h"

enum { NODES = 3 };

/* Accords that hear each other, in an order of the test's choice. */
struct world {
    struct agreement *node[NODES];
};

static void open_world(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(agreement_new(i, NODES, &w->node[i]), ERR_OK);
}

static void close_world(struct world *w)
{
    for (uint32_t i = 0; i < NODES; i++)
        agreement_free(w->node[i]);
}

static void begin_all(struct world *w, uint64_t slice)
{
    for (uint32_t i = 0; i < NODES; i++)
        agreement_begin(w->node[i], slice);
}

/* Moves one frame from @from to @to; false when there is none. */
static bool move(struct world *w, uint32_t from, uint32_t to)
{
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];
    size_t n = agreement_next(w->node[from], to, bytes, sizeof(bytes));
    struct fault fault = {0};
    struct frame f;

    if (!n)
        return false;
    frame_stamp(bytes, from, 7, 1);
    assert_int_equal(frame_decode(bytes, n, &f, &fault), ERR_OK);
    if (agreement_step(w->node[to], &f, &fault) != ERR_OK)
        fail_msg("%s", fault.text);
    return true;
}

static void move_all(struct world *w)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < NODES; i++)
            for (uint32_t k = 0; k < NODES; k++)
                moved |= move(w, i, k);
    }
}

static void expect_end(struct world *w, uint32_t node, uint64_t clocks)
{
    uint64_t got;

    assert_true(agreement_take_end(w->node[node], &got));
    assert_int_equal(got, clocks);
    assert_false(agreement_take_end(w->node[node], &got));
}

/* Whoever asks for a cut, all nodes stop where the furthest one is. */
static void agreement_cut_ends_all_after_the_same_clock(void **state)
{
    struct world w;
    uint64_t clocks;

    (void)state;
    open_world(&w);
    for (uint32_t asks = 0; asks < NODES; asks++) {
        begin_all(&w, asks + 1);
        agreement_cut(w.node[asks]);
        agreement_cut(w.node[asks]);
        agreement_cut(w.node[1]);
        move_all(&w);
        for (uint32_t i = 0; i < NODES; i++) {
            assert_true(agreement_must_hold(w.node[i]));
            assert_false(agreement_take_end(w.node[i], &clocks));
            agreement_held(w.node[i], 10 + (i * 2 + asks) % NODES);
            assert_false(agreement_must_hold(w.node[i]));
        }
        move_all(&w);
        for (uint32_t i = 0; i < NODES; i++)
            expect_end(&w, i, 12);
    }
    close_world(&w);
}

/* Nodes begin a slice at different times: a cut, and the question how far they
 * are, wait for those that are late. */
static void agreement_late_node_is_asked_when_it_begins(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    begin_all(&w, 1);
    agreement_begin(w.node[2], 2);
    agreement_cut(w.node[2]);
    move_all(&w);
    assert_false(agreement_must_hold(w.node[0]));
    agreement_begin(w.node[0], 2);
    move_all(&w);
    assert_true(agreement_must_hold(w.node[0]));
    assert_true(agreement_must_hold(w.node[2]));
    assert_false(agreement_must_hold(w.node[1]));
    agreement_held(w.node[0], 0);
    agreement_held(w.node[2], 5);
    move_all(&w);
    agreement_begin(w.node[1], 2);
    assert_true(agreement_must_hold(w.node[1]));
    agreement_held(w.node[1], 0);
    move_all(&w);
    for (uint32_t i = 0; i < NODES; i++)
        expect_end(&w, i, 5);
    close_world(&w);
}

/* Messages about a slice that is over here say nothing any more. */
static void agreement_earlier_slice_is_forgotten(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    begin_all(&w, 1);
    agreement_cut(w.node[1]);
    agreement_fail(w.node[2], ERR_APP);
    agreement_begin(w.node[0], 2);
    move_all(&w);
    assert_false(agreement_must_hold(w.node[0]));
    assert_int_equal(agreement_failed(w.node[0]), ERR_OK);
    assert_int_equal(agreement_failed(w.node[1]), ERR_APP);
    agreement_begin(w.node[1], 2);
    assert_int_equal(agreement_failed(w.node[1]), ERR_OK);
    close_world(&w);
}

/* A failure reaches all, also those that have not begun the slice; the first
 * one counts. */
static void agreement_failure_reaches_all(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    begin_all(&w, 1);
    agreement_begin(w.node[1], 2);
    agreement_begin(w.node[2], 2);
    agreement_fail(w.node[1], ERR_APP);
    agreement_fail(w.node[1], ERR_NOMEM);
    move_all(&w);
    assert_int_equal(agreement_failed(w.node[0]), ERR_OK);
    agreement_begin(w.node[0], 2);
    for (uint32_t i = 0; i < NODES; i++)
        assert_int_equal(agreement_failed(w.node[i]), ERR_APP);
    agreement_fail(w.node[0], ERR_IO);
    assert_false(move(&w, 0, 1));
    close_world(&w);
}

static void refuse(struct agreement *a, enum frame_kind kind, uint32_t from,
                   uint64_t slice, const char *word)
{
    struct frame f = {.kind = kind, .from = from, .slice = slice, .clocks = 1};
    struct fault fault = {0};

    assert_int_equal(agreement_step(a, &f, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, word));
}

/* Impossible requests are refused in words and change nothing. */
static void agreement_impossible_frames_are_refused(void **state)
{
    struct agreement *first, *other;

    (void)state;
    assert_int_equal(agreement_new(0, NODES, &first), ERR_OK);
    assert_int_equal(agreement_new(1, NODES, &other), ERR_OK);
    agreement_begin(first, 1);
    agreement_begin(other, 1);
    refuse(first, FRAME_HELD, 1, 1, "nobody asked");
    refuse(first, FRAME_CUT, NODES, 1, "node that there is not");
    refuse(first, FRAME_CUT, 1, 3, "cannot have begun");
    refuse(first, FRAME_UPDATE, 1, 1, "not about");
    refuse(first, FRAME_FAIL, 1, 1, "code");
    refuse(other, FRAME_CUT, 2, 1, "for node 0");
    refuse(other, FRAME_HOLD, 2, 1, "only node 0");
    refuse(other, FRAME_END, 2, 1, "only node 0");
    refuse(other, FRAME_HELD, 0, 1, "nobody asked");
    assert_false(agreement_must_hold(first));
    assert_false(agreement_must_hold(other));
    assert_int_equal(agreement_failed(first), ERR_OK);
    agreement_free(first);
    agreement_free(other);
    agreement_free(NULL);
}

/* Memory that is refused leaves nothing. */
static void agreement_allocation_failures_leave_nothing(void **state)
{
    int64_t before = mem_outstanding();
    struct agreement *a;
    enum err err = ERR_NOMEM;

    (void)state;
    for (int64_t nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = agreement_new(0, NODES, &a);
        mem_fail_at(0, 0);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
    }
    agreement_free(a);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agreement_cut_ends_all_after_the_same_clock),
        cmocka_unit_test(agreement_late_node_is_asked_when_it_begins),
        cmocka_unit_test(agreement_earlier_slice_is_forgotten),
        cmocka_unit_test(agreement_failure_reaches_all),
        cmocka_unit_test(agreement_impossible_frames_are_refused),
        cmocka_unit_test(agreement_allocation_failures_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
