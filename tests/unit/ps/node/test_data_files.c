/* A run goes on with the data that it began with. */
#include "base/file_io.h"
#include "base/files_read.h"
#include "base/mem.h"
#include "ps/node/data_files_io.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], keep[96], path[128];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-data-files-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(keep, sizeof(keep), "%s/kept", dir);
    snprintf(path, sizeof(path), "%s.json", keep);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static struct file_read of(char *name, uint64_t bytes, uint32_t sum)
{
    return (struct file_read){name, bytes, sum};
}

static void refused(const struct file_read *file, size_t n, const char *words)
{
    struct fault f = {0};

    assert_int_equal(data_files_check(keep, file, n, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "changed"));
    assert_non_null(strstr(f.text, "--other-data"));
    assert_non_null(strstr(f.text, words));
}

static void data_files_are_those_of_the_beginning(void **state)
{
    struct file_read file[3] = {of("/a", 5, 1), of("/b", 6, 2), of("/c", 7, 3)};

    (void)state;
    assert_int_equal(data_files_check(keep, file, 2, NULL), 0);
    assert_int_equal(data_files_check(keep, file, 2, NULL), 0);
    refused(file, 1, "/b is not among them any more");
    refused(file, 3, "/c was not among them");
    file[1].sum = 9;
    refused(file, 2, "/b has other content in its 6 bytes");
    file[1].bytes = 8;
    refused(file, 2, "/b had 6 bytes and has 8");
    file[1] = of("/z", 6, 2); /* it was moved */
    assert_int_equal(data_files_check(keep, file, 2, NULL), 0);
    refused(file, 0, "/a is not among them");
}

/* Training data and validation data, or two parts of one table. */
static void data_files_do_not_change_places(void **state)
{
    const struct file_read was[3] = {of("/a", 5, 1), of("/b", 5, 2),
                                     of("/c", 7, 3)};
    struct file_read is[3] = {of("/a", 5, 2), of("/b", 5, 1), of("/c", 7, 3)};

    (void)state;
    assert_int_equal(data_files_check(keep, was, 3, NULL), 0);
    refused(is, 3, "/a has other content in its 5 bytes");
    is[0] = of("/b", 5, 1);
    is[1] = of("/c", 5, 2);
    is[2] = of("/d", 7, 3);
    refused(is, 3, "/b has other content in its 5 bytes");
    is[0] = of("/b", 5, 2); /* behind the others, or before them */
    is[1] = of("/c", 7, 3);
    is[2] = of("/z", 5, 1);
    refused(is, 3, "/a is not among them any more");
    is[0] = of("/d/a", 5, 1);
    is[1] = of("/d/b", 5, 2);
    is[2] = of("/d/c", 7, 3);
    assert_int_equal(data_files_check(keep, is, 3, NULL), 0);
    is[1] = of("/d/b", 7, 3);
    is[2] = of("/d/c", 5, 2);
    refused(is, 3, "/b is not among them any more");
}

/* Two that hold the same are two. */
static void data_files_are_matched_one_to_one(void **state)
{
    struct file_read file[3] = {of("/a", 5, 1), of("/b", 5, 1), of("/c", 6, 2)};
    const struct file_read fewer[3] = {of("/b", 5, 1), of("/c", 6, 2),
                                       of("/z", 9, 9)};

    (void)state;
    assert_int_equal(data_files_check(keep, file, 3, NULL), 0);
    refused(file + 1, 2, "/a is not among them any more");
    refused(fewer, 3, "/a is not among them any more");
    file[2] = of("/c", 5, 1);
    refused(file, 3, "/c had 6 bytes and has 5");
    file[2] = of("/d", 5, 1);
    refused(file, 3, "/c is not among them any more");
    file[1] = of("/aa", 5, 1);
    file[2] = of("/c", 6, 2);
    assert_int_equal(data_files_check(keep, file, 3, NULL), 0);
}

/* What the run began with is known again from the next time on. */
static void data_files_that_are_not_known_are_written(void **state)
{
    struct file_read file = of("/a", 5, 1);
    static const char *const damaged[] = {
        "",
        "[",
        "{}",
        "7",
        "[7]",
        "[{\"path\": 7, \"bytes\": 5, \"sum\": 1}]",
        "[{\"path\": \"/a\", \"bytes\": -5, \"sum\": 1}]",
        "[{\"path\": \"/a\", \"bytes\": 5}]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(damaged) / sizeof(*damaged); i++) {
        file.sum = (uint32_t)i;
        assert_int_equal(file_write(path, damaged[i], strlen(damaged[i]), NULL),
                         0);
        assert_int_equal(data_files_check(keep, &file, 1, NULL), 0);
        file.sum = 100;
        refused(&file, 1, "/a has other content");
    }
}

static void data_files_may_have_any_name(void **state)
{
    struct file_read file = of("/\xff\xfe", 5, 1);

    (void)state;
    assert_int_equal(data_files_check(keep, &file, 1, NULL), 0);
    assert_int_equal(data_files_check(keep, &file, 1, NULL), 0);
    file.bytes = 6;
    refused(&file, 1, "whose name has the checksum");
}

/* Each counts, also those that do not stand alone. */
static void data_files_may_be_many(void **state)
{
    enum { MANY = DATA_FILES_MAX + 10 };
    static struct file_read file[MANY];
    static char name[MANY][16];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof(name[i]), "/%06d", i);
        file[i] = of(name[i], 10, (uint32_t)i);
    }
    assert_int_equal(data_files_check(keep, file, MANY, NULL), 0);
    assert_int_equal(data_files_check(keep, file, MANY, NULL), 0);
    for (int i = 0; i < MANY; i += MANY - 1) {
        file[i].sum += 5000;
        refused(file, MANY, i ? "11 further files" : "/000000");
        file[i].sum -= 5000;
    }
    assert_int_equal(data_files_check(keep, file, MANY, NULL), 0);
}

static void data_files_need_a_folder(void **state)
{
    struct file_read file = of("/a", 5, 1);

    (void)state;
    snprintf(keep, sizeof(keep), "%s/none/kept", dir);
    assert_int_equal(data_files_check(keep, &file, 1, NULL), ERR_IO);
}

static void data_files_survive_every_failed_allocation(void **state)
{
    struct file_read file = of("/a", 5, 1);
    enum err err = ERR_NOMEM;

    (void)state;
    for (int round = 0; round < 2; round++, err = ERR_NOMEM)
        for (int i = 1; err; i++) {
            mem_fail_at(i, 0);
            err = data_files_check(keep, &file, 1, NULL);
            assert_int_equal(err, mem_failed() ? ERR_NOMEM : ERR_OK);
            mem_fail_at(0, 0);
        }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(data_files_are_those_of_the_beginning),
        CASE(data_files_do_not_change_places),
        CASE(data_files_are_matched_one_to_one),
        CASE(data_files_that_are_not_known_are_written),
        CASE(data_files_may_have_any_name),
        CASE(data_files_may_be_many),
        CASE(data_files_need_a_folder),
        CASE(data_files_survive_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
