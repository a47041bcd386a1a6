/* A service's runs, as they are read while memory fails. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/service/fleet.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            fleet_submitted_run_is_kept_without_memory, scratch_make,
            scratch_remove),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
