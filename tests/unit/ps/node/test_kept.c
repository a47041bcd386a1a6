/* What a run keeps of its data: a model of a snapshot without them is the one
 * that the run itself would have saved. */
#include "base/file_io.h"
#include "base/mem.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/reopen_io.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_io.h"
#include "ps/node/kept_io.h"
#include "tests/unit/fixture/lsq.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static char folder[] = "/tmp/mltune-kept-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][FILE_PATH_MAX];
    static int next;
    char *out = path[next++ % 4];

    snprintf(out, FILE_PATH_MAX, "%s/%s", folder, name);
    return out;
}

/* lsq, whose model has the number of its dimensions. */
static struct mlt_app_ops keeper(void)
{
    struct mlt_app_ops ops = lsq_app;

    ops.version = MLT_APP_VERSION;
    ops.keep = ops.save;
    return ops;
}

static struct host *open_host(const struct mlt_app_ops *ops)
{
    json_t *config = json_loads("{\"app\": {\"name\": \"lsq\"}, "
                                "\"cluster\": {\"workers\": 3}}",
                                0, NULL);
    struct host_config c = {
        .app = ops, .config = config, .folder = "/", .seed = 11};
    struct host *h = NULL;
    struct fault f = {0};

    assert_non_null(config);
    if (host_open(&c, &h, &f) != ERR_OK)
        fail_msg("%s", f.text);
    json_decref(config);
    return h;
}

/* Branch 1 of @h as the snapshot "snapshot", and as a model. */
static json_t *snapshot_and_model(struct host *h, const char *model)
{
    struct fault f = {0};
    json_t *data = NULL;
    enum err err;

    assert_int_equal(ps_fork(host_ps(h), 1, 0, BRANCH_KEPT), ERR_OK);
    err = ps_snapshot_begin(host_ps(h), 1, in_folder("snapshot"), &f);
    if (!err)
        err = ps_snapshot_end(host_ps(h), NULL, &f);
    if (!err)
        err = host_save(h, 1, in_folder(model), NULL, &data, &f);
    if (err)
        fail_msg("%s", f.text);
    return data;
}

static void check_same_file(const char *a, const char *b)
{
    char *bytes[2];
    size_t len[2];

    assert_int_equal(file_read(in_folder(a), 1 << 20, &bytes[0], &len[0], NULL),
                     ERR_OK);
    assert_int_equal(file_read(in_folder(b), 1 << 20, &bytes[1], &len[1], NULL),
                     ERR_OK);
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(bytes[0], bytes[1], len[0]);
    mem_free(bytes[0]);
    mem_free(bytes[1]);
}

/* Tables, and what model.json says, are those that the run itself saves. */
static void kept_makes_the_runs_own_model(void **state)
{
    const struct mlt_app_ops ops = keeper();
    struct host *h = open_host(&ops);
    json_t *own = snapshot_and_model(h, "own"), *made = NULL;
    struct mlt_ps *ps = NULL;
    struct fault f = {0};

    (void)state;
    host_keep(h, in_folder("kept"));
    host_close(h);
    assert_true(kept_there(in_folder("kept")));
    if (ps_reopen(in_folder("snapshot"), 5, 0, &ps, &f) ||
        kept_save(&ops, in_folder("kept"), ps, 5, in_folder("made"), &made, &f))
        fail_msg("%s", f.text);
    mlt_ps_free(ps);
    assert_true(json_equal(own, made));
    check_same_file("own/w.npy", "made/w.npy");
    json_decref(own);
    json_decref(made);
    assert_int_equal(folder_remove(in_folder("own"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_folder("made"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_folder("kept"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_folder("snapshot"), NULL), ERR_OK);
}

/* Whatever allocation fails, what is kept is there whole, or not at all, and
 * nothing half written beside it. */
static void kept_is_whole_or_not_there(void **state)
{
    const struct mlt_app_ops ops = keeper();
    struct host *h = open_host(&ops);
    int nth = 1;

    (void)state;
    for (;; nth++) {
        mem_fail_at(nth, 0);
        host_keep(h, in_folder("kept"));
        mem_fail_at(0, 0);
        if (kept_there(in_folder("kept")))
            break;
        assert_true(folder_is_empty(folder));
    }
    assert_true(nth > 1);
    host_close(h);
    assert_int_equal(folder_remove(in_folder("kept"), NULL), ERR_OK);
}

/* What is there already, of the run's beginning, stays as it is. */
static void kept_is_written_once(void **state)
{
    const struct mlt_app_ops ops = keeper();
    struct host *h = open_host(&ops);

    (void)state;
    assert_int_equal(folder_make(in_folder("kept"), NULL), ERR_OK);
    assert_int_equal(
        file_write_line(in_folder("kept/app.json"), "{\"of\": 1}", NULL),
        ERR_OK);
    assert_int_equal(file_write_line(in_folder("first"), "{\"of\": 1}", NULL),
                     ERR_OK);
    host_keep(h, in_folder("kept"));
    host_close(h);
    check_same_file("first", "kept/app.json");
    assert_int_equal(unlink(in_folder("first")), 0);
    assert_int_equal(folder_remove(in_folder("kept"), NULL), ERR_OK);
}

/* A damaged file is named; nothing is made of it. */
static void kept_damage_is_named(void **state)
{
    const struct mlt_app_ops ops = keeper();
    struct host *h = open_host(&ops);
    json_t *own = snapshot_and_model(h, "own"), *made = NULL;
    struct fault f = {0};

    (void)state;
    json_decref(own);
    assert_int_equal(folder_make(in_folder("kept"), NULL), ERR_OK);
    assert_int_equal(file_write_line(in_folder("kept/app.json"), "[1]", NULL),
                     ERR_OK);
    assert_int_equal(kept_save(&ops, in_folder("kept"), host_ps(h), 1,
                               in_folder("made"), &made, &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "app.json"));
    assert_null(made);
    assert_int_not_equal(access(in_folder("made"), F_OK), 0);
    host_close(h);
    assert_int_equal(folder_remove(in_folder("own"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_folder("kept"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_folder("snapshot"), NULL), ERR_OK);
}

/* What an older application lacks is not looked at. */
static void kept_of_an_older_application(void **state)
{
    struct mlt_app_ops ops = keeper();
    struct host *h;

    (void)state;
    assert_true(app_keeps(&ops));
    ops.version = 5;
    ops.save = NULL;
    assert_true(app_keeps(&ops)); /* what it saves is of no data */
    ops.save = lsq_app.save;
    assert_false(app_keeps(&ops));
    h = open_host(&ops);
    host_keep(h, in_folder("kept"));
    host_close(h);
    assert_true(folder_is_empty(folder));
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_makes_the_runs_own_model),
        cmocka_unit_test(kept_is_whole_or_not_there),
        cmocka_unit_test(kept_is_written_once),
        cmocka_unit_test(kept_damage_is_named),
        cmocka_unit_test(kept_of_an_older_application),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
