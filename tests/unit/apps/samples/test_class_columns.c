#include "apps/samples/class_columns.h"
#include "base/file_io.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static char dir[] = "/tmp/mltune-columns-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static void path_of(char path[FILE_PATH_MAX])
{
    assert_int_equal(file_join(path, dir, "classes.txt", NULL), ERR_OK);
}

static int remove_dir(void **state)
{
    char path[FILE_PATH_MAX];

    (void)state;
    path_of(path);
    unlink(path);
    return rmdir(dir);
}

static void write_names(const char *text)
{
    char path[FILE_PATH_MAX];

    path_of(path);
    unlink(path);
    if (text)
        assert_int_equal(file_write_line(path, text, NULL), ERR_OK);
}

/* Names of the file, numbers where it has none. */
static void columns_are_named_by_the_model(void **state)
{
    struct class_columns c;

    (void)state;
    write_names("no\nyes");
    assert_int_equal(class_columns_init(&c, dir, 3, NULL), ERR_OK);
    assert_int_equal(c.count, 4);
    assert_string_equal(c.column[0].name, "class");
    assert_int_equal(c.column[0].labels, 3);
    assert_string_equal(c.column[0].label[1], "yes");
    assert_string_equal(c.column[1].name, "probability_no");
    assert_null(c.column[1].label);
    assert_string_equal(c.column[3].name, "probability_2");
    class_columns_deinit(&c);
    write_names(NULL);
    assert_int_equal(class_columns_init(&c, dir, 2, NULL), ERR_OK);
    assert_string_equal(c.column[0].label[1], "1");
    class_columns_deinit(&c);
    class_columns_deinit(&c); /* nothing any more */
}

static void columns_of_another_model_are_refused(void **state)
{
    int64_t before = mem_outstanding();
    struct class_columns c;
    struct fault f = {0};

    (void)state;
    write_names("a\nb\nc");
    assert_int_equal(class_columns_init(&c, dir, 2, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "names of 3 classes"));
    assert_int_equal(mem_outstanding(), before);
    write_names("a\n\nc");
    assert_int_equal(class_columns_init(&c, dir, 3, &f), ERR_FORMAT);
    assert_int_equal(mem_outstanding(), before);
}

static void columns_without_memory_leave_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    write_names("a\nb");
    for (nth = 1; failed; nth++) {
        struct class_columns c;
        enum err err;

        mem_fail_at(nth, 0);
        err = class_columns_init(&c, dir, 2, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            class_columns_deinit(&c);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 8);
}

static void expect_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-15))
        fail_msg("%.17g, wanted %.17g", got, want);
}

/* The softmax, whatever is added to all scores; the lowest of equal ones wins;
 * scores of any size. */
static void rows_are_the_softmax(void **state)
{
    static const float z[3] = {1, 3, 3}, far[3] = {1e30f, -1e30f, 0};
    double row[4], shifted[4], all = exp(1) + 2 * exp(3);

    (void)state;
    class_columns_fill(z, 3, row);
    expect_near(row[0], 1);
    expect_near(row[1], exp(1) / all);
    expect_near(row[2], exp(3) / all);
    expect_near(row[3], row[2]);
    class_columns_fill((const float[3]){1001, 1003, 1003}, 3, shifted);
    assert_memory_equal(row, shifted, sizeof(row));
    class_columns_fill(far, 3, row);
    expect_near(row[0], 0);
    expect_near(row[1], 1);
    expect_near(row[3], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_named_by_the_model),
        cmocka_unit_test(columns_of_another_model_are_refused),
        cmocka_unit_test(columns_without_memory_leave_nothing),
        cmocka_unit_test(rows_are_the_softmax),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
