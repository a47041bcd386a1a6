/* The run's time: pauses, limits, waits, retries. */
#include "tests/unit/fixture/check.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/parts.h"
#include "tuner/history/history.h"

#include <math.h>
#include <string.h>

static struct board board;

static int make(void **state)
{
    (void)state;
    memset(&board, 0, sizeof(board));
    return clockwork_init(&board, NULL, 0) == ERR_OK ? 0 : -1;
}

static int release(void **state)
{
    (void)state;
    clockwork_deinit(&board);
    return 0;
}

/* Time 0 is the first event, wherever the events' time line begins. */
static void clockwork_begins_with_the_first_event(void **state)
{
    (void)state;
    clockwork_step(&board, 1000, 0);
    assert_true(clockwork_run_s(&board) == 0);
    clockwork_step(&board, 1003, 0.25);
    assert_true(clockwork_run_s(&board) == 3);
    assert_true(clockwork_record_s(&board) == 3);
    assert_true(board_step_s(&board) == 0.25);
}

/* Records of a resumed run go on as if loading had taken no time, and rounding
 * never sets them back. Its time limit counts all that its process has lived
 * for. */
static void clockwork_goes_on_after_the_last_record(void **state)
{
    struct history h = {
        .started = true,
        .at_s = 50,
        .clock = 400,
        .first_clock_at_s = 10,
        .paused_at_s = NAN,
    };

    (void)state;
    clockwork_deinit(&board);
    assert_int_equal(clockwork_init(&board, &h, 4), ERR_OK);
    assert_int_equal(board_next_clock(&board), 400);
    clockwork_step(&board, 7, 0);
    assert_true(clockwork_record_s(&board) == 50);
    assert_true(clockwork_time_is_up(&board, 60) == 13);
    clockwork_step(&board, 30, 0);
    clockwork_resume(&board, &h);
    assert_true(clockwork_run_s(&board) == 50);
    assert_true(clockwork_tuner_s(&board) == 23);
    assert_true(clockwork_first_clock_at(&board) == -10);
    assert_true(clockwork_time_is_up(&board, 60) == 13);
    assert_true(clockwork_time_left(&board, 60) == -17);
}

/* The clocks are numbered through. The time limit counts from the beginning. */
static void clockwork_limit_counts_from_the_beginning(void **state)
{
    (void)state;
    assert_false(clockwork_begun(&board));
    clockwork_step(&board, 5, 0);
    assert_true(clockwork_begun(&board));
    assert_true(clockwork_time_is_up(&board, 10) == 15);
    clockwork_step(&board, 8, 0);
    assert_int_equal(clockwork_schedule(&board, 3), 0);
    clockwork_step(&board, 9, 0);
    assert_int_equal(clockwork_schedule(&board, 2), 3);
    assert_int_equal(board_next_clock(&board), 5);
    assert_true(clockwork_time_is_up(&board, 10) == 15);
}

/* A pause lasts from when nothing runs; that time is not the run's. */
static void clockwork_pause_is_no_time_of_the_run(void **state)
{
    (void)state;
    clockwork_step(&board, 0, 0);
    clockwork_schedule(&board, 1);
    clockwork_pause(&board);
    assert_true(clockwork_is_paused(&board));
    clockwork_step(&board, 2, 0);
    clockwork_stand_still(&board);
    clockwork_step(&board, 7, 0);
    assert_true(board_active_s(&board) == 2);
    assert_true(isinf(clockwork_time_is_up(&board, 10)));
    assert_true(clockwork_continue(&board) == 5);
    assert_false(clockwork_is_paused(&board));
    assert_true(board_active_s(&board) == 2);
    assert_true(clockwork_time_is_up(&board, 10) == 15);
}

/* One that ends before anything stood still took no time. */
static void clockwork_pause_without_standstill_takes_nothing(void **state)
{
    (void)state;
    clockwork_step(&board, 0, 0);
    clockwork_pause(&board);
    clockwork_step(&board, 3, 0);
    assert_true(clockwork_continue(&board) == 0);
    assert_true(board_active_s(&board) == 3);
}

/* The training system waited between two slices, but for what the second took;
 * slices that were queued waited for nothing, nor did one after a pause. */
static void clockwork_measures_waits_between_slices(void **state)
{
    (void)state;
    clockwork_step(&board, 1, 0);
    clockwork_slice_ended(&board, true, 1, 0);
    assert_true(isnan(board_latest_wait_s(&board)));
    clockwork_step(&board, 5, 0);
    clockwork_slice_ended(&board, true, 2, 0.5);
    assert_true(board_latest_wait_s(&board) == 1.5);
    clockwork_step(&board, 9, 0);
    clockwork_slice_ended(&board, false, 1, 0);
    assert_true(board_waited_s(&board) == 1.5);
    clockwork_pause(&board);
    clockwork_step(&board, 10, 0);
    clockwork_slice_ended(&board, true, 1, 0);
    clockwork_continue(&board);
    clockwork_step(&board, 20, 0);
    clockwork_slice_ended(&board, true, 1, 0);
    assert_true(board_waited_s(&board) == 1.5);
}

/* The earliest retry counts, once. */
static void clockwork_retry_comes_once(void **state)
{
    (void)state;
    clockwork_step(&board, 1, 0);
    board_retry_after(&board, 5);
    board_retry_after(&board, 2);
    assert_true(clockwork_retry_at(&board) == 3);
    clockwork_retry_take(&board);
    assert_true(clockwork_retry_at(&board) == 3);
    clockwork_step(&board, 3, 0);
    clockwork_retry_take(&board);
    assert_true(isinf(clockwork_retry_at(&board)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, release)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clockwork_begins_with_the_first_event),
        TEST(clockwork_goes_on_after_the_last_record),
        TEST(clockwork_limit_counts_from_the_beginning),
        TEST(clockwork_pause_is_no_time_of_the_run),
        TEST(clockwork_pause_without_standstill_takes_nothing),
        TEST(clockwork_measures_waits_between_slices),
        TEST(clockwork_retry_comes_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
