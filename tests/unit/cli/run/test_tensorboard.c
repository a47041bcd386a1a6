/* TensorBoard files of a run under way. */
#include "base/disk_io.h"
#include "base/mem.h"
#include "cli/run/tensorboard.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct history h;
    struct tensorboard t;
    clock_no clock;
    double at_s;
    uint32_t trial;
};

static struct world w;

static void apply(struct record *r)
{
    r->at_s = w.at_s += 0.5;
    r->clock = w.clock;
    assert_int_equal(history_apply(&w.h, r), ERR_OK);
    record_deinit(r);
}

static void add_branch(branch_id branch, branch_id parent)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = branch;
    r.branch_created.parent = parent;
    r.branch_created.type =
        parent == BRANCH_NONE ? BRANCH_INIT : BRANCH_TRAINING;
    r.branch_created.setting = json_object();
    apply(&r);
}

/* @branch runs @n clocks from clock @from of its lineage on. */
static void add_progress(branch_id branch, clock_no from, uint32_t n)
{
    struct record r;

    record_init(&r, RECORD_PROGRESS);
    r.progress.branch = branch;
    r.progress.first = w.clock;
    r.progress.branch_clock = from;
    r.progress.windows = n;
    for (uint32_t i = 0; i < n; i++)
        r.progress.window[i] = (struct progress_window){
            .sum = 5, .samples = 10, .clocks = 1, .seconds = 0.25};
    w.clock += n;
    apply(&r);
}

static void choose(branch_id branch)
{
    struct record r;

    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.branch = branch;
    r.setting_chosen.clock = w.clock;
    r.setting_chosen.setting = json_pack("{s:f}", "learning_rate", 0.125);
    apply(&r);
}

static void end_epoch(branch_id branch, uint32_t epoch)
{
    struct record r;

    record_init(&r, RECORD_EPOCH_ENDED);
    r.epoch_ended = (struct record_epoch_ended){.epoch = epoch,
                                                .branch = branch,
                                                .surviving = true,
                                                .clock = w.clock,
                                                .loss = 0.5,
                                                .metric = NAN,
                                                .setting = json_object()};
    apply(&r);
}

static void add_trial(branch_id branch, bool ended)
{
    struct record r;

    record_init(&r, ended ? RECORD_TRIAL_ENDED : RECORD_TRIAL_STARTED);
    r.trial = (struct record_trial){
        .trial = ended ? w.trial : ++w.trial,
        .search = 1,
        .branch = branch,
        .setting = json_pack("{s:f}", "learning_rate", 0.125),
        .label = ended ? TRIAL_CONVERGING : TRIAL_RUNNING,
        .figures.speed = 1};
    apply(&r);
}

/* A search of which branch 1 wins, trained for an epoch. */
static void begin_run(void)
{
    struct record r;

    record_init(&r, RECORD_RUN_STARTED);
    r.run_started.started_unix_s = 1.7e9;
    apply(&r);
    add_branch(0, BRANCH_NONE);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 1;
    r.search_started.tunables = json_pack(
        "{s:{s:s,s:f,s:f},s:{s:s,s:[s,s]},s:{s:s,s:[s,i]},s:{s:s,s:f,s:f,s:f}}",
        "learning_rate", "type", "float", "min", 0.001, "max", 1.0, "rule",
        "type", "categorical", "values", "adam", "sgd", "mixed", "type",
        "categorical", "values", "none", 5, "pinned", "type", "float", "min",
        0.25, "max", 0.75, "fixed", 0.5);
    apply(&r);
    add_branch(1, 0);
    add_trial(1, false);
    add_progress(1, 0, 4);
    add_trial(1, true);
    choose(1);
    add_progress(1, 4, 4);
    end_epoch(1, 1);
}

static int make_world(void **state)
{
    memset(&w, 0, sizeof(w));
    history_init(&w.h);
    if (scratch_make(state))
        return -1;
    return tensorboard_init(&w.t, scratch_path("logs"), &w.h, 1.7e9);
}

static int end_world(void **state)
{
    disk_replace(NULL);
    tensorboard_deinit(&w.t);
    history_deinit(&w.h);
    return scratch_remove(state);
}

static void write_files(void)
{
    struct fault f = {0};

    if (tensorboard_write(&w.t, &f))
        fail_msg("%s", f.text);
}

/* ---- what is in a file --------------------------------------------------- */

/* Events of the only file of @run whose data contain @tag (of version:
 * "brain"); every byte belongs to one. */
static unsigned count(const char *run, const char *tag)
{
    char name[600] = "", path[1024];
    unsigned found = 0;
    size_t n = 0, at = 0;
    unsigned char *bytes;
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/logs/%s", scratch_folder(), run);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            assert_string_equal(name, "");
            snprintf(name, sizeof(name), "logs/%s/%s", run, entry->d_name);
        }
    closedir(dir);
    bytes = scratch_read(name, &n);
    assert_non_null(bytes);
    while (at < n) {
        size_t len = bytes[at]; /* events are shorter than 256 bytes */

        assert_true(n - at >= 16 + len);
        found += memmem(bytes + at + 12, len, tag, strlen(tag)) != NULL;
        at += 16 + len;
    }
    free(bytes);
    return found;
}

static void assert_holds(unsigned points, unsigned epochs, unsigned settings)
{
    assert_int_equal(count("training", "brain"), 1);
    assert_int_equal(count("training", "\n\4loss"), points);
    assert_int_equal(count("training", "epoch/loss"), epochs);
    assert_int_equal(count("training", "setting/learning_rate"), settings);
}

/* ---- tests --------------------------------------------------------------- */

/* What is new is appended, once, however often it is asked for. */
static void tensorboard_appends_what_is_new(void **state)
{
    (void)state;
    write_files();
    assert_holds(0, 0, 0);
    begin_run();
    write_files();
    write_files();
    assert_holds(8, 1, 1);
    assert_int_equal(count("trials", "trial/speed"), 1);
    add_progress(1, 8, 4);
    end_epoch(1, 2);
    write_files();
    assert_holds(12, 2, 1);
    assert_int_equal(count("training", "\x3a\2\10\1"), 0);
}

/* What holds of a file of the folder hparams, and of a trial's. */
static unsigned char *file_of(const char *folder, size_t *n)
{
    char name[128];

    snprintf(name, sizeof(name), "logs/hparams%s/" SCALARS_FILE, folder, 1.7e9);
    return scratch_read(name, n);
}

static void assert_says(const char *folder, const char *bytes, size_t len,
                        bool says)
{
    size_t n = 0;
    unsigned char *file = file_of(folder, &n);

    assert_non_null(file);
    assert_int_equal(memmem(file, n, bytes, len) != NULL, says);
    free(file);
}

/* The tunables with their kinds: texts have type 1 and their values, numbers
 * type 3 and their ends; both together have no type, a fixed one no domain.
 * (tests/process/test_export.py reads all of it.) */
static void tensorboard_tells_what_tunables_are(void **state)
{
    static const char rule[] = "\n\4rule\x20\1\x2a\x0f\n\6\x1a\4"
                               "adam\n\5";
    static const char mixed[] = "\x22\7\n\5mixed";
    static const char pinned[] = "\x22\12\n\6pinned\x20\3";
    static const char rate[] = "\n\rlearning_rate\x20\3\x32\x12\t";

    (void)state;
    begin_run();
    write_files();
    assert_says("", rate, sizeof(rate) - 1, true);
    assert_says("", rule, sizeof(rule) - 1, true);
    assert_says("", mixed, sizeof(mixed) - 1, true);
    assert_says("", pinned, sizeof(pinned) - 1, true);
}

/* A trial's folder comes when it ends; more than TENSORBOARD_SESSIONS_MAX have
 * none. */
static void tensorboard_writes_a_session_once_it_ended(void **state)
{
    static const char start[] = "_hparams_/session_start_info",
                      end[] = "_hparams_/session_end_info";
    size_t n;

    (void)state;
    begin_run();
    add_branch(2, 0);
    add_trial(2, false);
    write_files();
    assert_says("/trial-1", start, sizeof(start) - 1, true);
    assert_says("/trial-1", end, sizeof(end) - 1, true);
    assert_null(file_of("/trial-2", &n));
    add_trial(2, true);
    while (w.trial < TENSORBOARD_SESSIONS_MAX + 1) {
        add_trial(2, false);
        add_trial(2, true);
    }
    write_files();
    assert_says("/trial-2", end, sizeof(end) - 1, true);
    assert_says("/trial-1024", end, sizeof(end) - 1, true);
    assert_null(file_of("/trial-1025", &n));
}

/* A lineage that went back is said anew, in a file that says so: of a branch
 * forked after clock 8, the parent's clocks up to there. */
static void tensorboard_begins_anew_with_another_lineage(void **state)
{
    (void)state;
    begin_run();
    add_progress(1, 8, 4);
    end_epoch(1, 2);
    write_files();
    assert_holds(12, 2, 1);
    add_branch(2, 1);
    choose(2);
    add_progress(2, 8, 2);
    end_epoch(2, 2);
    write_files();
    assert_holds(8 + 2, 2, 2);
    assert_int_equal(count("training", "\x3a\2\10\1"), 1);
    assert_int_equal(count("trials", "\x3a\2\10\1"), 0);
}

/* Files that an earlier process left give way to new ones. */
static void tensorboard_takes_the_place_of_earlier_files(void **state)
{
    (void)state;
    begin_run();
    write_files();
    tensorboard_deinit(&w.t);
    assert_int_equal(tensorboard_init(&w.t, scratch_path("logs"), &w.h, 1.7e9),
                     ERR_OK);
    write_files();
    assert_holds(8, 1, 1);
    assert_int_equal(count("trials", "trial/speed"), 1);
    assert_int_equal(count("trials", "\x3a\2\10\1"), 1);
}

/* Trials that end out of order come when they end. */
static void tensorboard_writes_trials_as_they_end(void **state)
{
    (void)state;
    begin_run();
    add_branch(2, 0);
    add_trial(2, false);
    write_files();
    assert_int_equal(count("trials", "trial/speed"), 1);
    add_trial(2, true);
    write_files();
    assert_int_equal(count("trials", "trial/speed"), 2);
}

static const struct disk_ops *real;
static unsigned room; /* bytes that the disk has left */

static ssize_t write_into_room(int fd, const void *data, size_t n,
                               uint64_t offset)
{
    if (room == 0) {
        errno = ENOSPC;
        return -1;
    }
    n = n < room ? n : room;
    room -= (unsigned)n;
    return real->write_at(fd, data, n, offset);
}

/* A disk that is full, after any number of bytes: whole records are there, and
 * what is missing comes when there is room. */
static void tensorboard_outlives_a_full_disk(void **state)
{
    struct disk_ops full = *disk_system();

    (void)state;
    real = disk_system();
    full.write_at = write_into_room;
    begin_run();
    write_files();
    add_progress(1, 8, 4);
    end_epoch(1, 2);
    add_branch(2, 0);
    add_trial(2, false);
    add_trial(2, true);
    disk_replace(&full);
    for (unsigned most = 0; most < 200; most += 7) {
        struct fault f = {0};

        room = most;
        assert_int_equal(tensorboard_write(&w.t, &f), ERR_IO);
        assert_non_null(strstr(f.text, strerror(ENOSPC)));
        assert_holds(8, 1, 1);
    }
    disk_replace(NULL);
    write_files();
    assert_holds(12, 2, 1);
    assert_int_equal(count("trials", "trial/speed"), 2);
}

/* The same of a file that begins: none is left behind. */
static void tensorboard_cannot_begin_on_a_full_disk(void **state)
{
    struct disk_ops full = *disk_system();

    (void)state;
    real = disk_system();
    full.write_at = write_into_room;
    begin_run();
    disk_replace(&full);
    room = 30;
    assert_int_equal(tensorboard_write(&w.t, NULL), ERR_IO);
    disk_replace(NULL);
    write_files();
    assert_holds(8, 1, 1);
    assert_int_equal(count("trials", "trial/speed"), 1);
}

/* Each allocation may fail: nothing is lost or there twice. */
static void tensorboard_outlives_want_of_memory(void **state)
{
    enum err err = ERR_NOMEM;

    (void)state;
    begin_run();
    write_files();
    add_progress(1, 8, 4);
    end_epoch(1, 2);
    add_branch(2, 0);
    add_trial(2, false);
    add_trial(2, true);
    for (unsigned nth = 1; err && nth < 1000; nth++) {
        mem_fail_at(nth, 0);
        err = tensorboard_write(&w.t, NULL);
        mem_fail_at(0, 0);
    }
    assert_int_equal(err, ERR_OK);
    assert_holds(12, 2, 1);
    assert_int_equal(count("trials", "trial/speed"), 2);
}

int main(void)
{
#define BOARD_TEST(name)                                                       \
    cmocka_unit_test_setup_teardown(name, make_world, end_world)
    const struct CMUnitTest tests[] = {
        BOARD_TEST(tensorboard_appends_what_is_new),
        BOARD_TEST(tensorboard_tells_what_tunables_are),
        BOARD_TEST(tensorboard_writes_a_session_once_it_ended),
        BOARD_TEST(tensorboard_begins_anew_with_another_lineage),
        BOARD_TEST(tensorboard_takes_the_place_of_earlier_files),
        BOARD_TEST(tensorboard_writes_trials_as_they_end),
        BOARD_TEST(tensorboard_outlives_a_full_disk),
        BOARD_TEST(tensorboard_cannot_begin_on_a_full_disk),
        BOARD_TEST(tensorboard_outlives_want_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
