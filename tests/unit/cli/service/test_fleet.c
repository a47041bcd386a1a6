/* A service's runs, as they are read while memory or files fail. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/service/fleet.h"
#include "cli/state/removal.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct view *view;
static struct fleet fleet;

static void open_fleet(void)
{
    const struct view_options options = {.registry = NULL};
    struct fault f = {0};

    assert_int_equal(view_new(&options, &view), ERR_OK);
    assert_int_equal(fleet_open(&fleet, scratch_folder(), view, &f), ERR_OK);
}

static void close_fleet(void)
{
    fleet_close(&fleet);
    view_free(view);
}

static void make_journal(void)
{
    struct journal *j;

    scratch_mkdir("runs");
    assert_int_equal(journal_open(scratch_folder(), true, 1000, &j, NULL),
                     ERR_OK);
    journal_close(j);
}

/* The folder of a run that was submitted. */
static void make_job(const char *id, uint64_t number)
{
    const struct job job = {.number = number, .submitted_ns = 1};
    char path[64];

    snprintf(path, sizeof(path), "runs/%s", id);
    scratch_mkdir(path);
    assert_int_equal(job_write(scratch_folder(), id, &job, NULL), ERR_OK);
}

/* A run that was accepted is one that the service looks after, whichever
 * allocation fails while it is read: then, or at the next look. */
static void fleet_submitted_run_is_kept_without_memory(void **state)
{
    int64_t before;
    char id[32];
    int nth;

    (void)state;
    make_journal();
    before = mem_outstanding();
    for (nth = 1;; nth++) {
        const struct fleet_run *run;
        struct fault f = {0};
        bool failed;
        enum err err;

        snprintf(id, sizeof(id), "run-%06d", nth);
        open_fleet(); /* which sweeps folders that no journal knows */
        make_job(id, (uint64_t)nth);
        mem_fail_at(nth, 0);
        err = fleet_register(&fleet, id, "run", "{}", 1, &f);
        failed = mem_failed() != 0;
        mem_fail_at(0, 0);
        if (err) {
            assert_int_equal(err, ERR_NOMEM);
            assert_false(fleet_journaled(&fleet, id));
        } else {
            assert_int_equal(fleet_read(&fleet, &f), ERR_OK);
            run = fleet_find(&fleet, id);
            assert_non_null(run);
            assert_true(run->managed);
            assert_int_equal(run->job.number, nth);
            assert_int_equal(fleet_remove(&fleet, fleet_find(&fleet, id), &f),
                             ERR_OK);
        }
        close_fleet();
        assert_int_equal(mem_outstanding(), before);
        if (!failed)
            break;
    }
    assert_true(nth > 30);
}

/* ---- runs that end ------------------------------------------------------- */

static void append(struct journal *j, struct record *r)
{
    json_t *json = record_to_json(r);
    char *text = json_write(json, 0);
    struct fault f = {0};

    if (journal_append(j, record_kind_name(r->kind), text, strlen(text), 1, &f))
        fail_msg("%s", f.text);
    mem_free(text);
    json_decref(json);
    record_deinit(r);
}

static void append_start(struct journal *j, const char *id)
{
    struct record r;

    record_init(&r, RECORD_RUN_STARTED);
    snprintf(r.run_started.run, sizeof(r.run_started.run), "%s", id);
    append(j, &r);
}

static void append_resumed(struct journal *j)
{
    struct record r;

    record_init(&r, RECORD_RUN_RESUMED);
    append(j, &r);
}

static void append_end(struct journal *j)
{
    struct record r;

    record_init(&r, RECORD_RUN_FINISHED);
    r.run_finished.status = RUN_FINISHED;
    append(j, &r);
}

static struct journal *continue_run(const char *id)
{
    struct journal *j;

    assert_int_equal(journal_open(scratch_folder(), true, 1000, &j, NULL),
                     ERR_OK);
    assert_int_equal(journal_continue_run(j, id, NULL), ERR_OK);
    return j;
}

/* Holds the lock of a run, as its tuner does; to be closed. */
static int hold(const char *id)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char name[64];
    int fd;

    snprintf(name, sizeof(name), "runs/%s/lock", id);
    scratch_text(name, "");
    fd = open(scratch_path(name), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

static void expect_status(const char *id, const char *status)
{
    view_lock(view);
    assert_string_equal(view_run_find(view, id)->job.status, status);
    view_unlock(view);
}

/* Its tuner has written the end, and lives: the records say that it is over. A
 * tuner that has written nothing yet goes on with what is over. */
static void
fleet_run_that_has_ended_waits_only_where_it_is_resumed(void **state)
{
    static const char id[] = "run-000001";
    struct journal *j;
    struct fault f = {0};
    int tuner;

    (void)state;
    make_journal();
    open_fleet();
    make_job(id, 1);
    assert_int_equal(fleet_register(&fleet, id, "run", "{}", 1, &f), ERR_OK);
    expect_status(id, RUN_STATUS_QUEUED);
    tuner = hold(id);
    j = continue_run(id);
    append_start(j, id);
    assert_int_equal(journal_commit(j, true, &f), ERR_OK);
    assert_int_equal(fleet_read(&fleet, &f), ERR_OK);
    expect_status(id, "");
    append_end(j);
    assert_int_equal(journal_commit(j, true, &f), ERR_OK);
    assert_int_equal(fleet_read(&fleet, &f), ERR_OK);
    assert_true(fleet_find(&fleet, id)->alive);
    expect_status(id, "");
    assert_int_equal(journal_end_run(j, "finished", "max_epochs", NULL, 1, &f),
                     ERR_OK);
    journal_close(j);
    close(tuner);
    assert_int_equal(fleet_read(&fleet, &f), ERR_OK);
    assert_true(fleet_over(fleet_find(&fleet, id)));

    tuner = hold(id);
    j = continue_run(id);
    close_fleet();
    open_fleet();
    expect_status(id, run_status_name(RUN_WAITING));
    append_resumed(j);
    assert_int_equal(journal_commit(j, true, &f), ERR_OK);
    assert_int_equal(fleet_read(&fleet, &f), ERR_OK);
    expect_status(id, "");
    journal_close(j);
    close(tuner);
    close_fleet();
}

enum { ENDS = 100 };

/* What another thread sees of the run of the moment. */
struct glance {
    _Atomic(const char *) id; /* NULL: none */
    atomic_bool over;
    atomic_ulong looks, queued;
};

static void *glance_all_the_time(void *arg)
{
    struct glance *g = arg;

    while (!atomic_load(&g->over)) {
        const struct view_run *run;
        const char *id;

        view_lock(view);
        id = atomic_load(&g->id);
        run = id ? view_run_find(view, id) : NULL;
        if (run)
            atomic_fetch_add(&g->looks, 1);
        if (run && strcmp(run->job.status, RUN_STATUS_QUEUED) == 0)
            atomic_fetch_add(&g->queued, 1);
        view_unlock(view);
    }
    return NULL;
}

/* Not for a moment, while its end is read, is it in the queue again. */
static void fleet_run_that_ends_is_never_queued(void **state)
{
    struct glance g = {NULL};
    struct fault f = {0};
    pthread_t thread;
    char id[32];

    (void)state;
    make_journal();
    open_fleet();
    assert_int_equal(pthread_create(&thread, NULL, glance_all_the_time, &g), 0);
    for (int i = 1; i <= ENDS; i++) {
        struct fleet_run *run;
        struct journal *j;

        snprintf(id, sizeof(id), "run-%06d", i);
        make_job(id, (uint64_t)i);
        assert_int_equal(fleet_register(&fleet, id, "run", "{}", 1, &f),
                         ERR_OK);
        run = fleet_find(&fleet, id);
        run->alive = true; /* its tuner is begun */
        fleet_show(&fleet, run);
        atomic_store(&g.id, id);
        j = continue_run(id);
        append_start(j, id);
        append_end(j);
        assert_int_equal(
            journal_end_run(j, "finished", "max_epochs", NULL, 1, &f), ERR_OK);
        journal_close(j);
        run->alive = false; /* and has ended */
        assert_int_equal(fleet_read_end(&fleet, run, &f), ERR_OK);
        assert_true(fleet_over(run));
        view_lock(view);
        atomic_store(&g.id, NULL);
        view_unlock(view);
    }
    atomic_store(&g.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(g.looks > 0);
    assert_int_equal(g.queued, 0);
    close_fleet();
}

/* ---- runs that cannot be read -------------------------------------------- */

/* Nobody can read the job of run @id while a folder stands in its place. */
static void hide_job(const char *id, bool hide)
{
    char job[FILE_PATH_MAX], aside[FILE_PATH_MAX + 8];

    snprintf(job, sizeof(job), "%s/runs/%s/job.json", scratch_folder(), id);
    snprintf(aside, sizeof(aside), "%s.aside", job);
    if (hide) {
        assert_int_equal(rename(job, aside), 0);
        assert_int_equal(mkdir(job, 0700), 0);
    } else {
        assert_int_equal(rmdir(job), 0);
        assert_int_equal(rename(aside, job), 0);
    }
}

/* Job and place of run @id, as the view lists it. */
static struct view_run shown(const char *id)
{
    const struct view_run *run;
    struct view_run copy = {.history = NULL};

    view_lock(view);
    run = view_run_find(view, id);
    if (run)
        copy = *run;
    view_unlock(view);
    assert_non_null(run);
    return copy;
}

static void register_run(const char *id)
{
    struct fault f = {0};

    make_job(id, 1);
    hide_job(id, true);
    assert_int_equal(fleet_register(&fleet, id, "given", "{}", 1, &f), ERR_OK);
}

static void look_again(const char *id)
{
    struct fault f = {0};

    fleet_find(&fleet, id)->read_at = 0;
    assert_int_equal(fleet_read(&fleet, &f), ERR_OK);
}

/* A run that was accepted and cannot be read stands in the list with the
 * reason, is not begun, and is whole once its files open. */
static void fleet_run_that_does_not_open_is_listed_with_the_reason(void **state)
{
    static const char id[] = "run-000001";
    struct view_run run;

    (void)state;
    make_journal();
    open_fleet();
    register_run(id);
    for (int look = 0; look < 20; look++) { /* it is never given up */
        run = shown(id);
        assert_string_equal(run.name, "given");
        assert_string_equal(run.job.status, RUN_STATUS_QUEUED);
        assert_non_null(strstr(run.job.reason, "cannot be read"));
        assert_non_null(strstr(run.job.reason, "job.json"));
        assert_true(run.rests);
        assert_int_equal(fleet_find(&fleet, id)->not_before, FLEET_ASKED);
        look_again(id);
        assert_true(fleet_find(&fleet, id)->read_at > 0);
    }
    hide_job(id, false);
    look_again(id);
    run = shown(id);
    assert_string_equal(run.job.reason, "");
    assert_false(run.rests);
    assert_false(fleet_find(&fleet, id)->unread);
    assert_int_equal(fleet_find(&fleet, id)->job.number, 1);
    close_fleet();
}

/* The same of a service that finds it so when it begins; of one that has ended
 * the list says how, and with what trouble. */
static void fleet_unread_run_is_found_at_the_start(void **state)
{
    static const char id[] = "run-000001";
    struct fault f = {0};
    struct journal *j;

    (void)state;
    make_journal();
    open_fleet();
    register_run(id);
    close_fleet();
    j = continue_run(id);
    append_start(j, id);
    append_end(j);
    assert_int_equal(journal_end_run(j, "finished", "max_epochs", NULL, 1, &f),
                     ERR_OK);
    journal_close(j);
    open_fleet();
    assert_string_equal(shown(id).name, "given");
    assert_string_equal(shown(id).job.status, "finished");
    assert_non_null(strstr(shown(id).job.reason, "cannot be read"));
    close_fleet();
}

/* One that is removed while it cannot be read is listed no more. */
static void fleet_unread_run_that_is_removed_is_gone(void **state)
{
    static const char id[] = "run-000001";
    struct fault f = {0};

    (void)state;
    make_journal();
    open_fleet();
    register_run(id);
    assert_int_equal(fleet_remove(&fleet, fleet_find(&fleet, id), &f), ERR_OK);
    assert_null(fleet_find(&fleet, id));
    register_run(id);
    assert_int_equal(removal_of_run(scratch_folder(), id, NULL, &f), ERR_OK);
    look_again(id);
    assert_null(fleet_find(&fleet, id));
    close_fleet();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            fleet_submitted_run_is_kept_without_memory, scratch_make,
            scratch_remove),
        cmocka_unit_test_setup_teardown(
            fleet_run_that_has_ended_waits_only_where_it_is_resumed,
            scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(fleet_run_that_ends_is_never_queued,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(
            fleet_run_that_does_not_open_is_listed_with_the_reason,
            scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(fleet_unread_run_is_found_at_the_start,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(
            fleet_unread_run_that_is_removed_is_gone, scratch_make,
            scratch_remove),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
