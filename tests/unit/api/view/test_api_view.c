#include "api/view/view.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

static const struct view_options no_options;
static struct view *v;
static struct history h;

static int setup(void **state)
{
    (void)state;
    history_init(&h);
    return view_new(&no_options, &v) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    view_free(v);
    history_deinit(&h);
    return 0;
}

/* Runs are found by id and listed in the order in which they were added. */
static void view_runs_are_listed_in_order(void **state)
{
    char id[RECORD_NAME_MAX];

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "run-%d", i);
        assert_int_equal(view_add_run(v, id, "name", &h), ERR_OK);
    }
    view_lock(v);
    assert_string_equal(view_run_at(v, 42)->id, "run-42");
    assert_null(view_run_at(v, 100));
    assert_true(view_run_find(v, "run-7") == view_run_at(v, 7));
    assert_true(view_run_find(v, "run-7")->history == &h);
    assert_null(view_run_find(v, "run"));
    view_unlock(v);
}

/* An id is there once; the number of runs has its limit; a refused run changes
 * nothing. */
static void view_refuses_runs(void **state)
{
    char id[RECORD_NAME_MAX];
    struct view *none;
    uint64_t version;

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(view_add_run(v, "run-0", "", &h), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(view_add_run(v, "run-0", "", &h), ERR_OK);
    version = view_version(v);
    assert_int_equal(view_add_run(v, "run-0", "", &h), ERR_EXIST);
    assert_int_equal(view_version(v), version);
    for (int i = 1; i < VIEW_RUNS_MAX; i++) {
        snprintf(id, sizeof(id), "run-%d", i);
        assert_int_equal(view_add_run(v, id, "", &h), ERR_OK);
    }
    assert_int_equal(view_add_run(v, "one-more", "", &h), ERR_LIMIT);
    mem_fail_at(1, 0);
    assert_int_equal(view_new(&no_options, &none), ERR_NOMEM);
    mem_fail_at(0, 0);
}

/* The version grows with each change that may be seen. */
static void view_version_grows_with_changes(void **state)
{
    uint64_t version = view_version(v);

    (void)state;
    assert_int_equal(view_add_run(v, "run-1", "", &h), ERR_OK);
    assert_true(view_version(v) > version);
    version = view_version(v);
    view_lock(v);
    view_changed(v);
    view_unlock(v);
    assert_true(view_version(v) > version);
    version = view_version(v);
    assert_null(view_not_ready(v));
    view_set_ready(v, "about to end");
    assert_string_equal(view_not_ready(v), "about to end");
    assert_true(view_version(v) > version);
    view_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(view_runs_are_listed_in_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(view_refuses_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(view_version_grows_with_changes, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
