/* Two couriers that say what they like to each other. */
#include "ps/nodes/courier.h"

#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

enum {
    NODES = 2,
    WORKERS = 2, /* a node */
    ROWS = 40,
    WIDTH = 12, /* words of a row */
    TOTALS = 2,
    STEPS = 2,
    EVENTS = STEPS + 1,
    ROOM = 1 << 10
};

/* Rows 0 to 9 leave node 0 when the pass begins; row 3 comes back after step 1
 * of worker 2, who waits for all; worker 3 waits for worker 1's first step. */
struct pair {
    struct table table[2];
    struct courier *courier[NODES];
    struct courier_pass pass[NODES];
    struct trips trips[NODES];
    uint64_t parcel_at[NODES][WORKERS * EVENTS + 1];
    uint64_t tell[NODES][WORKERS * EVENTS];
    uint64_t need_at[NODES][WORKERS * EVENTS + 2];
    struct trips_parcel parcel[NODES][1];
    struct trips_need need[NODES][4];
    uint64_t row[NODES][10];
    uint32_t value[NODES][ROWS][WIDTH];
};

static struct pair p;
static const uint32_t ids[2] = {1, 0};
static const bool carried[2] = {true, false};

static void *place_of(void *self, unsigned touch, uint64_t row, bool write)
{
    uint32_t(*value)[WIDTH] = self;

    (void)write;
    assert_int_equal(touch, 0);
    return value[row];
}

static void fill_trips(void)
{
    for (uint32_t i = 0; i < NODES; i++)
        p.trips[i] = (struct trips){WORKERS,      EVENTS,    p.parcel_at[i],
                                    p.parcel[i],  p.row[i],  p.tell[i],
                                    p.need_at[i], p.need[i], 11};
    /* Node 0: event 0 of worker 0; then told: event 1 of worker 1. */
    for (uint64_t i = 1; i <= WORKERS * EVENTS; i++)
        p.parcel_at[0][i] = 1;
    p.parcel[0][0] = (struct trips_parcel){1, 0, 0, 10};
    for (uint64_t i = 0; i < 10; i++)
        p.row[0][i] = i;
    p.tell[0][0] = 2;
    p.tell[0][EVENTS + 1] = 2;
    p.need[0][0] = (struct trips_need){2, 2};
    p.need_at[0][WORKERS * STEPS + 1] = 1; /* home */
    /* Node 1: event 1 of worker 2. */
    for (uint64_t i = 2; i <= WORKERS * EVENTS; i++)
        p.parcel_at[1][i] = 1;
    p.parcel[1][0] = (struct trips_parcel){0, 0, 0, 1};
    p.row[1][0] = 3;
    p.tell[1][1] = 1;
    p.need[1][0] = (struct trips_need){0, 1};
    p.need[1][1] = (struct trips_need){1, 2};
    p.need_at[1][1] = 1; /* step 0 of worker 2 */
    for (uint64_t i = 2; i <= WORKERS * EVENTS + 1; i++)
        p.need_at[1][i] = 2; /* step 0 of worker 3: the second */
}

static int set_up(void **state)
{
    (void)state;
    memset(&p, 0, sizeof(p));
    for (unsigned t = 0; t < 2; t++)
        p.table[t] = (struct table){.rows = ROWS,
                                    .width = WIDTH / 2,
                                    .access = t ? MLT_EXCLUSIVE : MLT_SHARED,
                                    .value_bytes = WIDTH * 2,
                                    .row_bytes = WIDTH * 4};
    fill_trips();
    for (uint32_t i = 0; i < NODES; i++) {
        struct courier_options o = {i, NODES, WORKERS, p.table, 2};

        p.pass[i] = (struct courier_pass){"this",  7,        &p.trips[i],
                                          2,       TOTALS,   ids,
                                          carried, place_of, p.value[i]};
        assert_int_equal(courier_new(&o, &p.courier[i]), ERR_OK);
        courier_enter_slice(p.courier[i], 1);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t j = 0; j < WIDTH; j++)
                p.value[i][r][j] = i ? 0 : r * 100 + j;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < NODES; i++)
        courier_free(p.courier[i]);
    return 0;
}

static void begin(uint32_t node)
{
    struct fault fault = {0};

    if (courier_begin(p.courier[node], &p.pass[node], &fault) != ERR_OK)
        fail_msg("%s", fault.text);
}

/* The next frame of @from; 0: none. */
static size_t next(uint32_t from, unsigned char *bytes)
{
    size_t n = courier_next(p.courier[from], !from, bytes,
                            courier_frame_bytes(p.courier[from]));

    assert_int_equal(courier_next(p.courier[from], from, bytes + ROOM, ROOM),
                     0);
    if (n)
        frame_stamp(bytes, from, 1, 1);
    return n;
}

static enum err take(uint32_t to, const unsigned char *bytes, size_t n,
                     struct fault *fault)
{
    struct frame f;

    assert_int_equal(frame_decode(bytes, n, &f, fault), ERR_OK);
    return courier_step(p.courier[to], &f, fault);
}

/* All that @from has to say; how many frames. */
static unsigned say(uint32_t from)
{
    unsigned char bytes[2 * ROOM];
    unsigned frames = 0;
    size_t n;

    while ((n = next(from, bytes)) > 0) {
        struct fault fault = {0};

        if (take(!from, bytes, n, &fault) != ERR_OK)
            fail_msg("%s", fault.text);
        frames++;
    }
    return frames;
}

/* Nothing leaves before all have begun, nobody waits for what has come, rows
 * are as they are when they leave; totals come to both, and the next pass may
 * begin while the other node ends this one. */
static void courier_carries_a_pass(void **state)
{
    const double own[NODES][WORKERS * TOTALS] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    double all[NODES * WORKERS * TOTALS];

    (void)state;
    assert_int_equal(say(0), 0);
    begin(0);
    assert_int_equal(say(0), 1); /* that it has begun */
    assert_false(courier_is_going(p.courier[0]));
    begin(1);
    assert_true(courier_is_going(p.courier[1]));
    assert_false(courier_has_come(p.courier[1], 0));
    say(1);
    assert_true(courier_is_going(p.courier[0]));
    p.value[0][9][0] = 77;
    assert_true(say(0) > 1); /* ten rows do not fit in one frame */
    assert_int_equal(p.value[1][9][0], 77);
    assert_memory_equal(p.value[0], p.value[1], sizeof(p.value[0][0]) * 10);
    assert_int_equal(p.value[1][10][0], 0);
    assert_true(courier_has_come(p.courier[1], 0));
    assert_false(courier_has_come(p.courier[1], 1));
    courier_passed(p.courier[0], 1);
    assert_int_equal(say(0), 1); /* no row, but somebody waits */
    assert_true(courier_has_come(p.courier[1], 1));
    courier_passed(p.courier[0], 1);
    assert_int_equal(say(0), 0);
    p.value[1][3][5] = 99;
    assert_false(courier_has_come(p.courier[0], STEPS * WORKERS));
    courier_passed(p.courier[1], 0);
    assert_int_equal(say(1), 1);
    assert_int_equal(p.value[0][3][5], 99);
    assert_true(courier_has_come(p.courier[0], STEPS * WORKERS));
    courier_tell_totals(p.courier[1], own[1]);
    say(1);
    assert_false(courier_is_over(p.courier[1]));
    assert_false(courier_is_over(p.courier[0]));
    courier_tell_totals(p.courier[0], own[0]);
    assert_false(courier_is_over(p.courier[0])); /* it is still to be said */
    say(0);
    assert_true(courier_is_over(p.courier[0]));
    courier_end(p.courier[0], all);
    for (int i = 0; i < NODES * WORKERS * TOTALS; i++)
        assert_true(all[i] == i + 1);
    begin(0);
    say(0);
    assert_true(courier_is_over(p.courier[1]));
    courier_end(p.courier[1], all);
    assert_true(all[7] == 8);
    begin(1);
    assert_true(courier_is_going(p.courier[1]));
    assert_false(courier_has_come(p.courier[1], 0));
}

/* Whichever begins first: the other is told apart, by its number and with the
 * loop's name. */
static void courier_refuses_another_loop(void **state)
{
    unsigned char bytes[2 * ROOM];
    struct fault fault = {0};
    size_t n;

    (void)state;
    p.pass[1].layout = 8;
    begin(0);
    n = next(0, bytes);
    assert_int_equal(take(1, bytes, n, &fault), ERR_OK);
    assert_int_equal(courier_begin(p.courier[1], &p.pass[1], &fault),
                     ERR_PROTO);
    assert_non_null(strstr(fault.text, "node 0 has begun another loop than "
                                       "this"));
    n = next(1, bytes);
    assert_int_equal(take(0, bytes, n, &fault), ERR_PROTO);
    assert_non_null(strstr(fault.text, "node 1 has begun another loop"));
    assert_false(courier_is_going(p.courier[0]));
    assert_int_equal(next(1, bytes), 0); /* no rows */
}

/* What is left of a pass is forgotten with it, and frames that still come say
 * nothing; the next slice begins with its first pass. */
static void courier_forgets_a_failed_slice(void **state)
{
    unsigned char bytes[2 * ROOM];
    struct fault fault = {0};
    size_t n;

    (void)state;
    begin(0);
    begin(1);
    say(0);
    say(1);
    n = next(0, bytes); /* with rows */
    courier_forget(p.courier[0]);
    courier_passed(p.courier[0], 0);
    courier_tell_totals(p.courier[0], NULL);
    assert_false(courier_has_come(p.courier[0], 0));
    assert_false(courier_is_over(p.courier[0]));
    assert_int_equal(say(0), 0);
    courier_forget(p.courier[1]);
    memset(p.value[1], 0, sizeof(p.value[1]));
    assert_int_equal(take(1, bytes, n, &fault), ERR_OK);
    assert_int_equal(p.value[1][1][1], 0);
    courier_enter_slice(p.courier[1], 2);
    assert_int_equal(take(1, bytes, n, &fault), ERR_OK);
    courier_enter_slice(p.courier[0], 2);
    begin(0);
    begin(1);
    say(0);
    say(1);
    say(0);
    assert_int_equal(p.value[1][1][1], 101);
}

/* A part frame of worker 0, as it should be. */
static struct frame part_of_worker_0(void)
{
    return (struct frame){.kind = FRAME_PART,
                          .values = FRAME_I32,
                          .flags = FRAME_SHORT,
                          .slice = 1,
                          .table = 1,
                          .op = 1,
                          .through = 1,
                          .width = WIDTH};
}

static const char *refused(const struct frame *f, uint64_t row, uint32_t rows)
{
    static const double values[16];
    static struct fault fault;
    unsigned char bytes[ROOM];
    struct frame_writer w;
    size_t n;

    frame_begin(&w, f, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < rows; i++)
        frame_add(&w, row + i, values);
    n = frame_end(&w);
    frame_stamp(bytes, f->from, 1, 1);
    fault = (struct fault){0};
    return take(1, bytes, n, &fault) == ERR_PROTO ? fault.text : NULL;
}

static void expect_refused(struct frame f, uint64_t row, uint32_t rows,
                           const char *why)
{
    const char *text = refused(&f, row, rows);

    if (!text || !strstr(text, why))
        fail_msg("not refused as %s: %s", why, text ? text : "taken");
}

/* What cannot be is refused, and changes nothing. */
static void courier_refuses_what_cannot_be(void **state)
{
    struct frame f = part_of_worker_0(), total, pass;

    (void)state;
    expect_refused(f, 0, 1, "of a pass that does not run");
    begin(1);
    f.op = 2;
    expect_refused(f, 0, 1, "of a pass that does not run");
    f = part_of_worker_0(), f.from = 1;
    expect_refused(f, 0, 1, "of a node that there is not");
    f = part_of_worker_0(), f.slice = 2;
    expect_refused(f, 0, 1, "of a slice that has not begun");
    f = part_of_worker_0(), f.worker = 2;
    expect_refused(f, 0, 1, "of another node's worker");
    f = part_of_worker_0(), f.through = EVENTS + 1;
    expect_refused(f, 0, 1, "of a step that is not the next");
    f = part_of_worker_0(), f.table = 0;
    expect_refused(f, 0, 1, "of a table whose rows stay");
    f = part_of_worker_0(), f.table = 9;
    expect_refused(f, 0, 1, "of a table whose rows stay");
    f = part_of_worker_0(), f.width = WIDTH - 1;
    expect_refused(f, 0, 1, "of other rows than the table has");
    expect_refused(part_of_worker_0(), ROWS - 1, 2, "of a row that there is");
    f = part_of_worker_0(), f.values = FRAME_NOTHING, f.width = 0;
    expect_refused(f, 0, 1, "of rows without values");
    f = part_of_worker_0(), f.kind = FRAME_UPDATE;
    expect_refused(f, 0, 1, "not for a courier");
    total = (struct frame){.kind = FRAME_TOTAL,
                           .values = FRAME_F64,
                           .slice = 1,
                           .op = 1,
                           .width = TOTALS};
    expect_refused(total, 0, WORKERS, "of a pass that is over");
    pass = (struct frame){.kind = FRAME_PASS, .slice = 1, .op = 2, .layout = 7};
    expect_refused(pass, 0, 0, "of a pass that is not the next");
    begin(0);
    say(0);
    pass.op = 2;
    expect_refused(pass, 0, 0, "of a pass that is not the next");
    total.width = 1;
    expect_refused(total, 0, WORKERS, "of other numbers than the loop gathers");
    total.width = TOTALS;
    expect_refused(total, 0, 1, "of other numbers than the loop gathers");
    expect_refused(total, 1, WORKERS, "of another node's worker");
    assert_null(refused(&total, 0, WORKERS));
    expect_refused(total, 0, WORKERS, "of a pass that is over");
    f = part_of_worker_0();
    assert_null(refused(&f, 0, 1));
    expect_refused(f, 0, 1, "of a step that is not the next");
}

/* No memory: nothing is left. */
static void courier_without_memory_is_none(void **state)
{
    struct courier_options o = {0, NODES, WORKERS, p.table, 2};
    int64_t before = mem_outstanding();
    enum err err = ERR_NOMEM;

    (void)state;
    for (int64_t n = 1; err == ERR_NOMEM; n++) {
        struct courier *c = NULL;

        mem_fail_at(n, 0);
        err = courier_new(&o, &c);
        mem_fail_at(0, 0);
        courier_free(c);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_int_equal(err, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(courier_carries_a_pass, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(courier_refuses_another_loop, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(courier_forgets_a_failed_slice, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(courier_refuses_what_cannot_be, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(courier_without_memory_is_none, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
