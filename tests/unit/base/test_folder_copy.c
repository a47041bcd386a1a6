/* Folders are copied whole; what cannot be read is told, and nothing of it is
 * there in part. */
#include "base/file_io.h"
#include "base/folder_copy_io.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static int make_tree(void **state)
{
    int failed = scratch_make(state);

    if (failed)
        return failed;
    scratch_mkdir("from");
    scratch_mkdir("from/deep");
    scratch_text("from/a", "first");
    scratch_text("from/deep/b", "second");
    scratch_text("from/lock", "");
    return symlink("/etc/passwd", scratch_path("from/link"));
}

static bool no_lock(const char *name)
{
    return strcmp(name, "lock") != 0;
}

static void expect_text(const char *name, const char *text)
{
    size_t n = 0;
    unsigned char *bytes = scratch_read(name, &n);

    assert_non_null(bytes);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, n);
    free(bytes);
}

/* Files and folders arrive with their modes; links, and what is not wanted, do
 * not. */
static void folder_copy_takes_files_and_folders(void **state)
{
    struct fault f = {0};
    struct stat st;

    (void)state;
    assert_int_equal(chmod(scratch_path("from/a"), 0640), 0);
    assert_int_equal(folder_copy(scratch_path("from"), scratch_path("to"),
                                 no_lock, NULL, NULL, &f),
                     ERR_OK);
    expect_text("to/a", "first");
    expect_text("to/deep/b", "second");
    assert_int_equal(stat(scratch_path("to/a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_not_equal(lstat(scratch_path("to/link"), &st), 0);
    assert_int_not_equal(lstat(scratch_path("to/lock"), &st), 0);
}

static void count_lost(void *ctx, const char *path, const char *why)
{
    unsigned *lost = ctx;

    assert_non_null(strstr(path, "from"));
    assert_true(why[0]);
    ++*lost;
}

/* A folder that is not there is told of; one that cannot be written ends it. */
static void folder_copy_tells_what_is_lost(void **state)
{
    struct fault f = {0};
    unsigned lost = 0;

    (void)state;
    assert_int_equal(folder_copy(scratch_path("from-none"), scratch_path("to"),
                                 NULL, count_lost, &lost, &f),
                     ERR_OK);
    assert_int_equal(lost, 1);
    assert_int_equal(folder_copy(scratch_path("from"), scratch_path("from/a/x"),
                                 NULL, count_lost, &lost, &f),
                     ERR_IO);
    assert_true(f.text[0]);
}

/* A page that the disk does not give: of a file that is to be whole nothing is
 * there, of another all the rest. */
static void folder_copy_of_torn_files_has_zeros(void **state)
{
    static unsigned char bytes[200000];
    struct fault f = {0};
    unsigned char *copy;
    unsigned lost = 0;
    size_t n, zeros = 0;

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    scratch_mkdir("from-torn");
    scratch_write("from-torn/db", bytes, sizeof(bytes));
    faulty_disk_on("read", 2, EIO);
    assert_int_equal(folder_copy_torn(scratch_path("from-torn"),
                                      scratch_path("to"), NULL, count_lost,
                                      &lost, &f),
                     ERR_OK);
    faulty_disk_off();
    assert_int_equal(lost, 1);
    copy = scratch_read("to/db", &n);
    assert_int_equal(n, sizeof(bytes));
    for (size_t i = 0; i < n; i++) {
        zeros += copy[i] == 0;
        assert_true(copy[i] == (i / 4096 == 16 ? 0 : 'x'));
    }
    assert_int_equal(zeros, 4096);
    free(copy);
    faulty_disk_on("read", 2, EIO);
    assert_int_equal(folder_copy(scratch_path("from-torn"),
                                 scratch_path("whole"), NULL, count_lost, &lost,
                                 &f),
                     ERR_OK);
    faulty_disk_off();
    assert_int_equal(lost, 2);
    assert_null(scratch_read("whole/db", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folder_copy_takes_files_and_folders,
                                        make_tree, scratch_remove),
        cmocka_unit_test_setup_teardown(folder_copy_of_torn_files_has_zeros,
                                        make_tree, scratch_remove),
        cmocka_unit_test_setup_teardown(folder_copy_tells_what_is_lost,
                                        make_tree, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
