/* Files of checkpoints: which of the two is read, and what a failed write
 * leaves. */
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"
#include "tuner/history/checkpoint_io.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

static const struct checkpoint_start start = {.run = (char *)"r-1",
                                              .name = (char *)"r",
                                              .config = (char *)"{}",
                                              .folder = (char *)"/home/me"};

/* Writes a checkpoint as of record @number. */
static enum err write_at(uint64_t number, struct fault *f)
{
    struct history h;
    struct record r;
    enum err err;

    history_init(&h);
    record_init(&r, RECORD_RUN_STARTED);
    snprintf(r.run_started.run, sizeof(r.run_started.run), "r-1");
    r.run_started.limits = (struct record_limits){NAN, 0.98, INFINITY, 5, 9};
    assert_int_equal(history_apply(&h, &r), ERR_OK);
    record_deinit(&r);
    history_skip(&h, number);
    err = checkpoint_write(scratch_folder(), &start, &h, HISTORY_PACK_ALL, NULL,
                           f);
    history_deinit(&h);
    return err;
}

/* The record of the checkpoint that is read; what is said of a damaged one. */
static uint64_t read_number(struct fault *told)
{
    struct checkpoint c;
    struct fault f = {0};
    uint64_t number = 0;

    if (checkpoint_read(scratch_folder(), &c, told, &f) != ERR_OK)
        return 0;
    assert_true(c.has_start && c.has_history);
    assert_string_equal(c.start.folder, "/home/me");
    number = history_records(&c.history);
    checkpoint_deinit(&c);
    return number;
}

static void two_are_written(void)
{
    assert_int_equal(write_at(10, NULL), ERR_OK);
    assert_int_equal(write_at(20, NULL), ERR_OK);
}

/* The newest is read, and nothing is said. */
static void checkpoint_newest_is_read(void **state)
{
    struct fault told;

    (void)state;
    assert_int_equal(read_number(&told), 0);
    two_are_written();
    assert_int_equal(read_number(&told), 20);
    assert_int_equal(told.code, ERR_OK);
}

/* One that is damaged, cut, or cannot be read at all is passed over, by name,
 * for the one before it. */
static void checkpoint_that_is_not_whole_is_passed_over(void **state)
{
    struct fault told;
    unsigned char *bytes;
    uint64_t number;
    size_t n;

    (void)state;
    two_are_written();
    bytes = scratch_read("checkpoint", &n);
    /* After what kind of file it is: that costs nothing. */
    for (size_t at = 12; at < n; at += at < 64 ? 1 : 7) {
        bytes[at] ^= 0x5a;
        scratch_write("checkpoint", bytes, n);
        /* Its history is whole where what the run began with is not. */
        number = read_number(&told);
        if ((number != 10 && number != 20) || !strstr(told.text, "checkpoint"))
            fail_msg("byte %zu: %d, \"%s\"", at, (int)number, told.text);
        bytes[at] ^= 0x5a;
    }
    scratch_write("checkpoint", bytes, n / 2);
    assert_int_equal(read_number(&told), 10);
    assert_non_null(strstr(told.text, "checkpoint"));
    free(bytes);
    file_remove(scratch_path("checkpoint"));
    scratch_mkdir("checkpoint");
    assert_int_equal(read_number(&told), 10);
    assert_int_equal(told.code, ERR_IO);
    assert_non_null(strstr(told.text, "checkpoint"));
}

/* Where neither can be read the error says so: it is not that there was none.
 */
static void checkpoint_of_which_none_is_whole_is_an_error(void **state)
{
    struct checkpoint c;
    struct fault f = {0};

    (void)state;
    assert_int_equal(checkpoint_read(scratch_folder(), &c, NULL, &f),
                     ERR_NOENT);
    scratch_text("checkpoint", "mltune");
    assert_int_equal(checkpoint_read(scratch_folder(), &c, NULL, &f),
                     ERR_FORMAT);
    file_remove(scratch_path("checkpoint"));
    scratch_mkdir("checkpoint");
    assert_int_equal(checkpoint_read(scratch_folder(), &c, NULL, &f), ERR_IO);
    assert_non_null(strstr(f.text, "checkpoint"));
}

/* Whatever call of a write fails, the newest that was there before can be read
 * still, or the new one; and the next write is as any. */
static void checkpoint_write_that_fails_leaves_a_whole_one(void **state)
{
    bool failed = true;

    (void)state;
    for (unsigned nth = 1; failed; nth++) {
        struct fault f = {0}, told;
        enum err err;
        uint64_t number;

        two_are_written();
        faulty_disk_on(NULL, nth, ENOSPC);
        err = write_at(30, &f);
        failed = faulty_disk_failed();
        faulty_disk_off();
        number = read_number(&told);
        assert_int_equal(told.code, ERR_OK);
        if (err)
            assert_true(number == 20 || number == 30);
        else
            assert_int_equal(number, 30);
        assert_int_equal(write_at(40, &f), ERR_OK);
        assert_int_equal(read_number(&told), 40);
        scratch_text("checkpoint", "damaged");
        number = read_number(&told);
        assert_true(number == 20 || number == 30);
        assert_true(nth < 100);
    }
}

int main(void)
{
#define CASE(test)                                                             \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        CASE(checkpoint_newest_is_read),
        CASE(checkpoint_that_is_not_whole_is_passed_over),
        CASE(checkpoint_of_which_none_is_whole_is_an_error),
        CASE(checkpoint_write_that_fails_leaves_a_whole_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
