/* Folders that nodes write appear whole or not at all. */
#include "base/file_io.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/folders_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char dir[64], model[FILE_PATH_MAX], snapshot[FILE_PATH_MAX];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-folders-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    return file_join(model, dir, "model", NULL) ||
           file_join(snapshot, dir, "000001", NULL);
}

static int remove_dir(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

static void put(const char *folder, const char *name)
{
    char path[FILE_PATH_MAX];

    assert_int_equal(file_join(path, folder, name, NULL), ERR_OK);
    assert_int_equal(file_write(path, "x", 1, NULL), ERR_OK);
}

static struct msg save(void)
{
    return (struct msg){.kind = MSG_SAVE, .op = 7};
}

static struct msg snapshot_to(const char *path)
{
    struct msg m = {.kind = MSG_SNAPSHOT, .op = 8};

    snprintf(m.snapshot.path, sizeof(m.snapshot.path), "%.1000s", path);
    return m;
}

/* The node writes beside the model's folder, which is there when it is whole.
 */
static void folders_model_appears_whole(void **state)
{
    struct folders d;
    struct msg m = save();

    (void)state;
    folders_init(&d, model, FOLDERS_NODE);
    assert_int_equal(folders_redirect(&d, &m, NULL), ERR_OK);
    assert_int_equal(d.model_op, 7);
    assert_true(exists(m.save.path));
    assert_string_not_equal(m.save.path, model);
    put(m.save.path, "weights.npy");
    assert_false(exists(model));
    assert_int_equal(folders_publish_model(&d, NULL), ERR_OK);
    assert_true(exists(model));
    assert_false(exists(m.save.path));
    assert_int_equal(d.model_op, 0);
}

/* A folder half written goes, and what an earlier try left is not in the next.
 */
static void folders_half_a_model_goes(void **state)
{
    struct folders d;
    struct msg m = save();
    char left[FILE_PATH_MAX];

    (void)state;
    folders_init(&d, model, FOLDERS_NODE);
    assert_int_equal(folders_redirect(&d, &m, NULL), ERR_OK);
    put(m.save.path, "left");
    assert_int_equal(file_join(left, m.save.path, "left", NULL), ERR_OK);
    assert_int_equal(folders_redirect(&d, &m, NULL), ERR_OK);
    assert_true(exists(m.save.path));
    assert_false(exists(left));
    folders_drop_model(&d);
    assert_false(exists(m.save.path));
    folders_drop_model(&d);
}

/* One node publishes its snapshot itself; of several it gets its name when the
 * manifest says that it is whole. */
static void folders_snapshot_of_several_needs_its_manifest(void **state)
{
    struct folders d;
    struct msg m = snapshot_to(snapshot);
    struct fault f = {0};

    (void)state;
    folders_init(&d, model, FOLDERS_NODE);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_string_equal(m.snapshot.path, snapshot);
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_OK);

    folders_init(&d, model, FOLDERS_NODES);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_string_not_equal(m.snapshot.path, snapshot);
    put(m.snapshot.path, "part-0");
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_IO);
    assert_non_null(strstr(f.text, "all nodes have written their parts, but"));
    assert_false(exists(m.snapshot.path));
    assert_false(exists(snapshot));

    m = snapshot_to(snapshot);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    put(m.snapshot.path, "manifest.json");
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_OK);
    assert_true(exists(snapshot));
    assert_int_equal(d.snapshot_op, 0);
}

/* A folder that a program's processes write has its name when all have
 * answered; no manifest is asked of them, unless they are nodes of ours. */
static void folders_snapshot_of_a_program_appears_whole(void **state)
{
    struct folders d;
    struct msg m = snapshot_to(snapshot);
    struct fault f = {0};
    char part[FILE_PATH_MAX];

    (void)state;
    folders_init(&d, model, FOLDERS_PROGRAMS);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_true(exists(m.snapshot.path));
    assert_int_equal(file_join(part, m.snapshot.path, "node-0", &f), ERR_OK);
    assert_int_equal(mkdir(part, 0777), 0);
    put(part, "state.npz");
    assert_false(exists(snapshot));
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_OK);
    assert_true(exists(snapshot));
    assert_false(exists(m.snapshot.path));

    assert_int_equal(folder_remove(snapshot, &f), ERR_OK);
    m = snapshot_to(snapshot);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_int_equal(mkdir(part, 0777), 0);
    put(part, "manifest.json");
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_IO);
    assert_false(exists(snapshot));
}

/* One process of a program makes the folder itself. Without it there is no
 * snapshot, and of one that was not answered nothing is left. */
static void folders_program_of_one_process_makes_its_folder(void **state)
{
    struct folders d;
    struct msg m = snapshot_to(snapshot);
    struct fault f = {0};

    (void)state;
    folders_init(&d, model, FOLDERS_PROGRAM);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_string_not_equal(m.snapshot.path, snapshot);
    assert_false(exists(m.snapshot.path));
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_IO);
    assert_false(exists(snapshot));

    m = snapshot_to(snapshot);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_int_equal(mkdir(m.snapshot.path, 0777), 0);
    put(m.snapshot.path, "half");
    folders_drop_snapshot(&d);
    assert_false(exists(m.snapshot.path));

    m = snapshot_to(snapshot);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_OK);
    assert_int_equal(mkdir(m.snapshot.path, 0777), 0);
    put(m.snapshot.path, "state.npz");
    assert_int_equal(folders_publish_snapshot(&d, &f), ERR_OK);
    assert_true(exists(snapshot));
}

/* A name that is too long, and a place that cannot be written to. */
static void folders_tell_what_cannot_be_made(void **state)
{
    char name[PROTO_PATH_MAX];
    struct folders d;
    struct msg m = save();
    struct fault f = {0};

    (void)state;
    memset(name, 'm', sizeof(name) - 1);
    name[0] = '/';
    name[sizeof(name) - 1] = '\0';
    folders_init(&d, name, FOLDERS_NODE);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_LIMIT);
    folders_drop_model(&d);
    folders_init(&d, "/proc/mltune/model", FOLDERS_NODE);
    assert_int_equal(folders_redirect(&d, &m, &f), ERR_IO);
    folders_drop_model(&d);
}

/* Messages that write nothing are left alone. */
static void folders_leave_other_messages_alone(void **state)
{
    struct folders d;
    struct msg m = {.kind = MSG_FREE, .op = 9};

    (void)state;
    folders_init(&d, model, FOLDERS_NODES);
    assert_int_equal(folders_redirect(&d, &m, NULL), ERR_OK);
    assert_int_equal(d.model_op, 0);
    assert_int_equal(d.snapshot_op, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_model_appears_whole, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(folders_half_a_model_goes, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(
            folders_snapshot_of_several_needs_its_manifest, make_dir,
            remove_dir),
        cmocka_unit_test_setup_teardown(
            folders_snapshot_of_a_program_appears_whole, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(
            folders_program_of_one_process_makes_its_folder, make_dir,
            remove_dir),
        cmocka_unit_test_setup_teardown(folders_tell_what_cannot_be_made,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(folders_leave_other_messages_alone,
                                        make_dir, remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
