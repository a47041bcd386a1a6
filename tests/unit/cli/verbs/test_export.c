/* Writers of exports, on a journal of a few records: what each format says, and
 * that an archive holds the same files as a folder. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/export/export.h"
#include "cli/export/tar.h"
#include "tests/unit/fixture/scratch.h"

#include "tests/unit/fixture/check.h"

#include <errno.h>
#include <stdio.h>

enum { MANY = 3000 }; /* windows: more than an archive keeps in memory */

struct world {
    char state[FILE_PATH_MAX];
    struct journal *writer, *journal;
    struct replayed run;
    struct export_source source;
    double at_s;
    uint64_t clock;
};

static struct world w;

static void append(struct record *r)
{
    json_t *json;
    char *text;

    r->at_s = w.at_s += 0.5;
    json = record_to_json(r);
    assert_non_null(json);
    text = json_write(json, 0);
    assert_int_equal(journal_append(w.writer, record_kind_name(r->kind), text,
                                    strlen(text), 1, NULL),
                     ERR_OK);
    mem_free(text);
    json_decref(json);
    record_deinit(r);
}

static void add_branch(branch_id branch, branch_id parent, json_t *setting)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = branch;
    r.branch_created.parent = parent;
    r.branch_created.type =
        parent == BRANCH_NONE ? BRANCH_INIT : BRANCH_TRAINING;
    r.branch_created.setting = setting;
    strcpy(r.branch_created.role, "training");
    append(&r);
}

static void add_progress(branch_id branch, clock_no ran, uint32_t windows)
{
    struct record r;

    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = branch;
    r.progress.first = w.clock;
    r.progress.branch_clock = ran;
    r.progress.windows = windows;
    for (uint32_t i = 0; i < windows; i++)
        r.progress.window[i] = (struct progress_window){
            .sum = 5, .samples = 10, .clocks = 1, .seconds = 0.25};
    w.clock += windows;
    append(&r);
}

static void add_trial(enum record_kind kind, uint32_t trial, double speed)
{
    struct record r;

    record_init(&r, kind);
    r.trial = (struct record_trial){
        .trial = trial,
        .search = 1,
        .branch = 1,
        .setting = json_pack("{s:f, s:s}", "rate", 0.125, "rule", "a,\"b\""),
        .figures.speed = speed,
        .label = kind == RECORD_TRIAL_ENDED ? TRIAL_CONVERGING : TRIAL_RUNNING,
        .figures.seconds = 2,
    };
    append(&r);
}

static void add_records(void)
{
    struct record r;

    record_init(&r, RECORD_RUN_STARTED);
    strcpy(r.run_started.run, "a-1");
    strcpy(r.run_started.name, "a");
    r.run_started.started_unix_s = 1.7e9;
    append(&r);
    add_branch(0, BRANCH_NONE, json_object());
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 1;
    append(&r);
    add_branch(1, 0, json_pack("{s:f}", "rate", 0.125));
    add_trial(RECORD_TRIAL_STARTED, 1, 0);
    add_progress(1, 0, 2);
    add_trial(RECORD_TRIAL_ENDED, 1, 0.75);
    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.branch = 1;
    r.setting_chosen.clock = 2;
    r.setting_chosen.setting =
        json_pack("{s:f, s:s}", "rate", 0.125, "rule", "x");
    strcpy(r.setting_chosen.reason, "fastest, of all");
    append(&r);
    for (clock_no i = 0; i < MANY / 10; i++)
        add_progress(1, 2 + 10 * i, 10);
}

static const char config[] =
    "{\"tunables\": {\"rate\": {\"type\": \"float\", \"min\": 0.001, \"max\": "
    "1}, \"rule\": {\"type\": \"categorical\", \"values\": [\"a,\\\"b\\\"\", "
    "\"x\"]}}}";

static int make_world(void **state)
{
    struct fault f = {0};

    memset(&w, 0, sizeof(w));
    if (scratch_make(state))
        return -1;
    snprintf(w.state, sizeof(w.state), "%s", scratch_folder());
    assert_int_equal(journal_open(w.state, true, 100, &w.writer, &f), ERR_OK);
    assert_int_equal(journal_begin_run(w.writer, "a-1", "a", config, 1, &f),
                     ERR_OK);
    add_records();
    assert_int_equal(journal_commit(w.writer, false, &f), ERR_OK);
    assert_int_equal(journal_open(w.state, false, 100, &w.journal, &f), ERR_OK);
    assert_int_equal(replay_run(w.journal, w.state, "a-1", &w.run, &f), ERR_OK);
    assert_int_equal(export_open(&w.source, w.journal, &w.run), ERR_OK);
    return 0;
}

static int free_world(void **state)
{
    export_close(&w.source);
    replayed_deinit(&w.run);
    journal_close(w.journal);
    journal_close(w.writer);
    return scratch_remove(state);
}

/* Text that @ops writes to a file, the caller's (free). */
static char *write_one(const struct export_ops *ops, size_t *size)
{
    struct export_target t = {.prefix = "p", .mtime_s = 5};
    struct fault f = {0};
    char *text = NULL;

    t.out = open_memstream(&text, size);
    assert_non_null(t.out);
    assert_int_equal(ops->write(&w.source, &t, &f), ERR_OK);
    if (ops->folder)
        assert_int_equal(export_archive_end(&t, &f), ERR_OK);
    fclose(t.out);
    return text;
}

static void write_folder(const struct export_ops *ops)
{
    const struct export_target t = {.path = scratch_path("out"),
                                    .place = "p"}; /* as in the archive */
    struct fault f = {0};

    scratch_mkdir("out");
    if (ops->write(&w.source, &t, &f))
        fail_msg("%s", f.text);
}

/* Its header is right, and file "out/NAME" says the same; returns where the
 * next one begins. */
static size_t compare_member(const char *at)
{
    unsigned char header[TAR_BLOCK];
    char full[260], name[320];
    size_t size = strtoul(at + 124, NULL, 8), len;
    unsigned char *file;

    snprintf(full, sizeof(full), "%.155s%s%.100s", at + 345, at[345] ? "/" : "",
             at);
    assert_memory_equal(full, "p/", 2);
    assert_int_equal(tar_header(full, size, 5, header), ERR_OK);
    assert_memory_equal(at, header, TAR_BLOCK);
    snprintf(name, sizeof(name), "out/%s", full + 2);
    file = scratch_read(name, &len);
    if (!file)
        fail_msg("%s is only in the archive", name);
    assert_int_equal(len, size);
    assert_memory_equal(file, at + TAR_BLOCK, size);
    free(file);
    return TAR_BLOCK + size + tar_padding(size);
}

/* An archive has the files that a folder has, those that are too long to be
 * kept in memory as well, and ends as archives do. */
static void export_archive_is_the_folder(void **state)
{
    const struct export_ops *const all[] = {&export_csv, &export_tensorboard,
                                            &export_mlflow};
    const size_t files[] = {4, 3, 16};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t size = 0, at = 0, n = 0, largest = 0;
        char *tar = write_one(all[i], &size);

        write_folder(all[i]);
        while (at + TAR_BLOCK <= size && tar[at]) {
            size_t step = compare_member(tar + at);

            largest = step > largest ? step : largest;
            at += step;
            n++;
        }
        assert_int_equal(n, files[i]);
        assert_true(largest > 64 * 1024);
        assert_int_equal(at + 2 * TAR_BLOCK, size);
        free(tar);
        assert_int_equal(folder_remove(scratch_path("out"), NULL), ERR_OK);
    }
}

/* Texts are quoted, numbers read back the same, missing ones are empty. */
static void export_csv_says_what_happened(void **state)
{
    unsigned char *text;
    size_t n;

    (void)state;
    write_folder(&export_csv);
    text = scratch_read("out/trials.csv", &n);
    assert_non_null(text);
    assert_non_null(strstr((char *)text, "ended_at_s,rate,rule\r\n1,1,1,"
                                         "converging,false,0.75,"));
    assert_non_null(strstr((char *)text, ",0.125,\"a,\"\"b\"\"\"\r\n"));
    free(text);
    text = scratch_read("out/schedule.csv", &n);
    assert_non_null(strstr((char *)text, "\"fastest, of all\",0.125,x\r\n"));
    free(text);
    text = scratch_read("out/progress.csv", &n);
    assert_non_null(strstr((char *)text, "\r\n1,0,1,true,0.5,10,1,0.25,"));
    free(text);
}

/* Records that came after the run was read are left out, in all passes. */
static void export_ends_where_the_history_does(void **state)
{
    size_t before = 0, after = 0;
    char *first = write_one(&export_jsonl, &before), *second;

    (void)state;
    add_progress(1, 2 + MANY, 10);
    assert_int_equal(journal_commit(w.writer, false, NULL), ERR_OK);
    second = write_one(&export_jsonl, &after);
    assert_int_equal(before, after);
    assert_memory_equal(first, second, before);
    free(first);
    free(second);
    second = write_one(&export_csv, &after);
    free(second);
}

/* A study, and the trial with the index of its category. */
static void export_optuna_has_studies_and_trials(void **state)
{
    size_t size = 0;
    char *text = write_one(&export_optuna, &size);

    (void)state;
    assert_non_null(strstr(text, "\"study_name\":\"a-1/search-1\""));
    assert_non_null(strstr(text, "\"rule\":0"));
    assert_non_null(strstr(text, "\"value\":0.75"));
    free(text);
}

/* A disk that is full is an error of every format, named; so is the lack of
 * memory, after which nothing is left. */
static void export_failures_are_said(void **state)
{
    const struct export_ops *const all[] = {&export_csv, &export_jsonl,
                                            &export_tensorboard, &export_mlflow,
                                            &export_optuna};
    int64_t before = mem_outstanding();

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct export_target t = {.out = fopen("/dev/full", "w"),
                                  .prefix = "p"};
        struct fault f = {0};
        enum err err = ERR_OK;
        bool failed;

        assert_non_null(t.out);
        err = all[i]->write(&w.source, &t, &f);
        failed = fflush(t.out) != 0 || ferror(t.out);
        assert_true(failed);
        assert_true(!err || err == ERR_IO);
        fclose(t.out);
        for (int64_t nth = 1; nth < 40; nth++) {
            char *text = NULL;
            size_t size;

            t.out = open_memstream(&text, &size);
            mem_fail_at(nth, 0);
            err = all[i]->write(&w.source, &t, &f);
            mem_fail_at(0, 0);
            fclose(t.out);
            free(text);
            assert_true(!err || err == ERR_NOMEM);
            assert_int_equal(mem_outstanding(), before);
        }
    }
}

static enum err write_more_each_time(const void *ctx, FILE *out,
                                     struct fault *f)
{
    static const char block[1000];
    int *calls = *(int *const *)ctx;

    (void)f;
    for (int i = 0; i < 100 + *calls; i++)
        fwrite(block, 1, sizeof(block), out);
    (*calls)++;
    return ERR_OK;
}

/* A file that is not the same when it is written again does not pass for one.
 */
static void export_that_changes_is_refused(void **state)
{
    struct export_target t = {.prefix = "p"};
    struct fault f = {0};
    char *text = NULL;
    size_t size;
    int calls = 0, *at = &calls;

    (void)state;
    t.out = open_memstream(&text, &size);
    assert_int_not_equal(export_file(&t, "x", write_more_each_time, &at, &f),
                         ERR_OK);
    assert_int_equal(calls, 2);
    assert_non_null(strstr(f.text, "x"));
    fclose(t.out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(export_archive_is_the_folder,
                                        make_world, free_world),
        cmocka_unit_test_setup_teardown(export_csv_says_what_happened,
                                        make_world, free_world),
        cmocka_unit_test_setup_teardown(export_ends_where_the_history_does,
                                        make_world, free_world),
        cmocka_unit_test_setup_teardown(export_optuna_has_studies_and_trials,
                                        make_world, free_world),
        cmocka_unit_test_setup_teardown(export_failures_are_said, make_world,
                                        free_world),
        cmocka_unit_test(export_that_changes_is_refused),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
