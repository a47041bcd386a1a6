/* Data from within one folder: what was opened is looked at, not what it was
 * called. */
#include "apps/data/data_path.h"
#include "apps/formats/data_root.h"
#include "apps/formats/data_stream.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

/* A device is not opened: that alone may have an effect. This one is no
 * driver's, so whoever opens it is told ENXIO. */
static void data_root_opens_no_device(void **state)
{
    (void)state;
    if (mknod(scratch_path("data/device"), S_IFCHR | 0600, makedev(60, 0)))
        skip(); /* who is not root makes none */
    expect("data/device", ERR_INVAL, "not a regular file");
    data_confine(NULL, NULL);
    expect("data/device", ERR_INVAL, "not a regular file");
}

/* ---- names that lead elsewhere from one moment to the next --------------- */

enum { RACES = 10000, RACES_MAX = 100 * RACES };

/* What the thread that swaps has, from before it begins: scratch_path's texts
 * are its test's. */
struct swaps {
    char far[PATH_MAX], near[PATH_MAX], new[PATH_MAX], name[PATH_MAX];
    char folder[PATH_MAX], aside[PATH_MAX], out[PATH_MAX];
    atomic_bool over;
    unsigned long done;
};

/* `name` is a link into the folder or out of it; `folder` a folder within, or
 * a link to one outside. */
static void *swap(void *arg)
{
    struct swaps *s = arg;

    while (!atomic_load(&s->over)) {
        bool fine = symlink(s->done % 2 ? s->near : s->far, s->new) == 0 &&
                    rename(s->new, s->name) == 0 &&
                    rename(s->folder, s->aside) == 0 &&
                    symlink(s->out, s->folder) == 0 && unlink(s->folder) == 0 &&
                    rename(s->aside, s->folder) == 0;

        if (!fine)
            return (void *)"a swap failed";
        s->done++;
    }
    return NULL;
}

/* Reads @path; whether it was let in. What is read comes from within. */
static bool reads_within(const char *path)
{
    struct data_stream *s = NULL;
    struct fault f = {0};
    char bytes[8] = "";
    size_t n = 0;
    enum err err = data_stream_open(path, &s, &f);

    if (err) {
        assert_true(err == ERR_INVAL || err == ERR_NOENT);
        return false;
    }
    assert_int_equal(data_stream_read(s, bytes, sizeof(bytes), &n, &f), ERR_OK);
    data_stream_close(s);
    assert_int_equal(n, 4);
    assert_memory_equal(bytes, "1,2\n", 4);
    return true;
}

/* However a link, or a folder on the way, is swapped while files are opened,
 * what is read lies within. */
static void data_root_holds_while_names_are_swapped(void **state)
{
    struct swaps s = {.done = 0};
    char through[PATH_MAX];
    unsigned long in = 0, out = 0;
    pthread_t thread;
    void *failed = NULL;

    (void)state;
    scratch_mkdir("data/folder");
    scratch_text("data/folder/x.csv", "1,2\n");
    scratch_mkdir("outside");
    scratch_text("outside/x.csv", "3,4\n");
    snprintf(s.far, PATH_MAX, "%s", scratch_path("secret.csv"));
    snprintf(s.near, PATH_MAX, "%s", scratch_path("data/here.csv"));
    snprintf(s.new, PATH_MAX, "%s", scratch_path("data/new"));
    snprintf(s.name, PATH_MAX, "%s", scratch_path("data/name"));
    snprintf(s.folder, PATH_MAX, "%s", scratch_path("data/folder"));
    snprintf(s.aside, PATH_MAX, "%s", scratch_path("data/aside"));
    snprintf(s.out, PATH_MAX, "%s", scratch_path("outside"));
    snprintf(through, PATH_MAX, "%s", scratch_path("data/folder/x.csv"));
    assert_int_equal(symlink(s.near, s.name), 0);
    assert_int_equal(pthread_create(&thread, NULL, swap, &s), 0);
    for (int i = 0; i < RACES || (i < RACES_MAX && (!in || !out)); i++) {
        bool was = reads_within(i % 2 ? s.name : through);

        in += was;
        out += !was;
    }
    atomic_store(&s.over, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_true(in > 0 && out > 0);
    print_message("%lu swaps, %lu read, %lu refused\n", s.done, in, out);
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
        cmocka_unit_test_setup_teardown(data_root_opens_no_device, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(data_root_holds_while_names_are_swapped,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            data_root_holds_for_folders_and_patterns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
