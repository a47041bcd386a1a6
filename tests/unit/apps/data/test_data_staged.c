#include "apps/data/staged.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

/* A committed file holds what was written and leaves nothing else. */
static void staged_file_holds_what_was_written(void **state)
{
    struct staged w;
    unsigned char *bytes;
    size_t n;

    (void)state;
    assert_int_equal(staged_begin(&w, scratch_path("a"), NULL), ERR_OK);
    assert_int_equal(staged_write(&w, "one ", 4, NULL), ERR_OK);
    assert_int_equal(staged_write(&w, "", 0, NULL), ERR_OK);
    assert_int_equal(staged_write(&w, "two", 3, NULL), ERR_OK);
    assert_int_equal(access(scratch_path("a"), F_OK), -1);
    assert_int_equal(staged_commit(&w, NULL), ERR_OK);
    bytes = scratch_read("a", &n);
    assert_non_null(bytes);
    assert_string_equal(bytes, "one two");
    free(bytes);
    assert_int_equal(access(scratch_path("a.tmp"), F_OK), -1);
}

/* A folder that is not there and each failed allocation are errors that leave
 * nothing. */
static void staged_file_failures_leave_nothing(void **state)
{
    int64_t before = mem_outstanding();
    struct fault f = {0};
    struct staged w;
    int nth;

    (void)state;
    assert_int_equal(staged_begin(&w, "/nonexistent/x", &f), ERR_IO);
    assert_non_null(strstr(f.text, "/nonexistent/x"));
    for (nth = 1; nth <= 2; nth++) {
        mem_fail_at(nth, 0);
        assert_int_equal(staged_begin(&w, scratch_path("a"), NULL), ERR_NOMEM);
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_int_equal(access(scratch_path("a.tmp"), F_OK), -1);
}

/* An abandoned file leaves what was there before; a full device is an error. */
static void staged_file_appears_whole_or_not_at_all(void **state)
{
    struct staged w;
    unsigned char *bytes;
    char block[4096] = {0};
    size_t n;
    enum err err = ERR_OK;
    int i;

    (void)state;
    scratch_text("a", "old");
    assert_int_equal(staged_begin(&w, scratch_path("a"), NULL), ERR_OK);
    assert_int_equal(staged_write(&w, "new", 3, NULL), ERR_OK);
    staged_abandon(&w);
    staged_abandon(&w);
    bytes = scratch_read("a", &n);
    assert_string_equal(bytes, "old");
    free(bytes);
    assert_int_equal(access(scratch_path("a.tmp"), F_OK), -1);
    assert_int_equal(symlink("/dev/full", scratch_path("full.tmp")), 0);
    assert_int_equal(staged_begin(&w, scratch_path("full"), NULL), ERR_OK);
    for (i = 0; i < 4 && !err; i++)
        err = staged_write(&w, block, sizeof(block), NULL);
    if (err)
        staged_abandon(&w);
    else
        err = staged_commit(&w, NULL);
    assert_int_equal(err, ERR_IO);
    assert_int_equal(access(scratch_path("full"), F_OK), -1);
}

/* A text is a file with an end of line; where that fails, the old one stays. */
static void staged_text_is_a_whole_file(void **state)
{
    struct fault f = {0};
    unsigned char *bytes;
    size_t n;

    (void)state;
    assert_int_equal(staged_text(scratch_path("t"), "{}", NULL), ERR_OK);
    assert_int_equal(staged_text("/nonexistent/t", "new", &f), ERR_IO);
    assert_non_null(strstr(f.text, "/nonexistent/t"));
    mem_fail_at(1, 0);
    assert_int_equal(staged_text(scratch_path("t"), "new", NULL), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(symlink("/dev/full", scratch_path("t.tmp")), 0);
    assert_int_equal(staged_text(scratch_path("t"), "new", NULL), ERR_IO);
    bytes = scratch_read("t", &n);
    assert_string_equal(bytes, "{}\n");
    free(bytes);
}

#define CASE(name)                                                             \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(staged_file_holds_what_was_written),
        CASE(staged_file_failures_leave_nothing),
        CASE(staged_file_appears_whole_or_not_at_all),
        CASE(staged_text_is_a_whole_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
