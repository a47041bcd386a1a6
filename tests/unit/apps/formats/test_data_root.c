/* Data from within one folder: what was opened is looked at, not what it was
 * called. */
#include "apps/data/data_path.h"
#include "apps/formats/data_root.h"
#include "apps/formats/data_stream.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int setup(void **state)
{
    char root[PATH_MAX], hidden[PATH_MAX];

    if (scratch_make(state))
        return -1;
    scratch_mkdir("data");
    scratch_mkdir("data/own");
    scratch_text("data/here.csv", "1,2\n");
    scratch_text("data/own/token", "x");
    scratch_text("secret.csv", "3,4\n");
    if (!realpath(scratch_path("data"), root) ||
        !realpath(scratch_path("data/own"), hidden))
        return -1;
    return data_confine(root, hidden) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    data_confine(NULL, NULL);
    return scratch_remove(state);
}

static void expect(const char *name, enum err err, const char *words)
{
    struct data_stream *s = NULL;
    struct fault f = {0};
    enum err got = data_stream_open(scratch_path(name), &s, &f);

    if (!got)
        data_stream_close(s);
    if (got != err || (err && !strstr(f.text, words)))
        fail_msg("%s: %s (%s)", name, err_text(got), f.text);
}

/* By its own name, "..", or a link: it is read where it lies within. */
static void data_root_lets_nothing_else_be_read(void **state)
{
    char path[PATH_MAX];

    (void)state;
    assert_non_null(realpath(scratch_path("data/here.csv"), path));
    assert_int_equal(symlink("here.csv", scratch_path("data/near")), 0);
    assert_int_equal(symlink(path, scratch_path("data/whole")), 0);
    assert_int_equal(symlink("../secret.csv", scratch_path("data/far")), 0);
    assert_int_equal(symlink("../data", scratch_path("data/round")), 0);
    assert_int_equal(symlink("nothing", scratch_path("data/dangling")), 0);
    expect("data/here.csv", ERR_OK, "");
    expect("data/own/../here.csv", ERR_OK, "");
    expect("data/near", ERR_OK, "");
    expect("data/whole", ERR_OK, "");
    expect("data/round/here.csv", ERR_OK, "");
    expect("data/far", ERR_INVAL, "leads out of");
    expect("data/../secret.csv", ERR_INVAL, "leads out of");
    expect("secret.csv", ERR_INVAL, "leads out of");
    expect("data/own/token", ERR_INVAL, "state folder");
    expect("data/dangling", ERR_NOENT, "dangling");
    expect("data/own", ERR_INVAL, "state folder");
    expect("data", ERR_INVAL, "not a regular file");
    data_confine(NULL, NULL);
    expect("data/far", ERR_OK, "");
}

/* A pipe is not opened: nobody may ever write to it. */
static void data_root_waits_for_no_pipe(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(scratch_path("data/pipe"), 0600), 0);
    expect("data/pipe", ERR_INVAL, "not a regular file");
    data_confine(NULL, NULL);
    expect("data/pipe", ERR_INVAL, "not a regular file");
}

static void expect_found(const char *spec, enum err err, size_t count)
{
    struct data_files files = {0};
    struct fault f = {0};
    enum err got = data_files_find(spec, scratch_path("data"), &files, &f);

    if (got != err || (!err && files.count != count))
        fail_msg("%s: %s (%s), %zu", spec, err_text(got), f.text, files.count);
    data_files_deinit(&files);
}

/* Folders and patterns: one link that leads out refuses them. */
static void data_root_holds_for_folders_and_patterns(void **state)
{
    (void)state;
    scratch_mkdir("data/set");
    scratch_text("data/set/a.csv", "1\n");
    scratch_text("data/set/b.csv", "1\n");
    expect_found("set", ERR_OK, 2);
    expect_found("set/*.csv", ERR_OK, 2);
    assert_int_equal(
        symlink("../../secret.csv", scratch_path("data/set/c.csv")), 0);
    expect_found("set", ERR_INVAL, 0);
    expect_found("set/*.csv", ERR_INVAL, 0);
    expect_found("set/a*", ERR_OK, 1);
    expect_found("set/c.csv", ERR_INVAL, 0);
    expect_found("own", ERR_INVAL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_root_lets_nothing_else_be_read,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(data_root_waits_for_no_pipe, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            data_root_holds_for_folders_and_patterns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
