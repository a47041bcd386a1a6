/* Log files within a bound (base/log_file_io.h). What is kept, and its place,
 * tests of the launcher say. */
#include "base/log_file_io.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

static char bytes[PIECE];

static void append(const char *path, int pieces)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    for (int i = 0; i < pieces; i++)
        assert_int_equal(write(fd, bytes, PIECE), PIECE);
    close(fd);
}

static int64_t on_disk(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_blocks * 512;
}

/* A log that goes on growing takes no more than the bound, and what a log was
 * cut by is no reason to cut it again at once. */
static void log_file_stays_within_its_bound(void **state)
{
    const char *path = scratch_path("log");
    struct fault f = {0};
    int64_t cut = 0, before;

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(log_file_cut(path, &cut, &f), ERR_OK); /* none yet */
    append(path, LOG_FILE_MAX / PIECE + 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(log_file_cut(path, &cut, &f), ERR_OK);
        assert_true(on_disk(path) <= LOG_FILE_MAX / 2 + PIECE);
        before = cut;
        assert_int_equal(log_file_cut(path, &cut, &f), ERR_OK);
        assert_int_equal(cut, before);
        append(path, LOG_FILE_MAX / 2 / PIECE + 1);
        assert_true(on_disk(path) <= LOG_FILE_MAX + 2 * PIECE);
    }
}

/* A log that somebody has emptied begins anew. */
static void log_file_that_was_emptied_begins_anew(void **state)
{
    const char *path = scratch_path("emptied");
    struct fault f = {0};
    int64_t cut = 0;

    (void)state;
    append(path, LOG_FILE_MAX / PIECE + 1);
    assert_int_equal(log_file_cut(path, &cut, &f), ERR_OK);
    assert_true(cut > 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(log_file_cut(path, &cut, &f), ERR_OK);
    assert_int_equal(cut, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(log_file_stays_within_its_bound,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(log_file_that_was_emptied_begins_anew,
                                        scratch_make, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
