#include "base/files_read.h"
#include "tests/unit/fixture/check.h"

/* Each path stands once, in order, as it was read to the farthest. */
static void files_read_are_listed(void **state)
{
    const struct file_read *file;
    size_t n;

    (void)state;
    files_read_begin();
    assert_int_equal(files_read_list(&file, &n), 0);
    assert_int_equal(n, 0);
    files_read_note("b", 5, 50);
    files_read_note("a", 7, 70);
    files_read_note("b", 9, 90);
    files_read_note("b", 2, 20);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(files_read_list(&file, &n), 0);
        assert_int_equal(n, 2);
        assert_string_equal(file[0].path, "a");
        assert_int_equal(file[0].bytes, 7);
        assert_int_equal(file[0].sum, 70);
        assert_string_equal(file[1].path, "b");
        assert_int_equal(file[1].bytes, 9);
        assert_int_equal(file[1].sum, 90);
    }
    files_read_end();
    files_read_note("c", 1, 10); /* nobody loads */
    files_read_begin();
    assert_int_equal(files_read_list(&file, &n), 0);
    assert_int_equal(n, 0);
    files_read_note("c", 1, 10);
    files_read_begin(); /* what was before is dropped */
    assert_int_equal(files_read_list(&file, &n), 0);
    assert_int_equal(n, 0);
    files_read_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_read_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
