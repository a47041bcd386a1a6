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

/* ---- runs that rest ------------------------------------------------------ */

static enum err fetch_err;
static unsigned fetched;

static enum err fetch(void *ctx, const char *id, struct view_whole *out,
                      struct fault *f)
{
    assert_true(ctx == &fetched);
    fetched++;
    if (fetch_err)
        return fault_set(f, fetch_err, "no");
    history_init(&out->history);
    out->config = json_pack("{s:s}", "name", id);
    return ERR_OK;
}

static int setup_rest(void **state)
{
    const struct view_options options = {.fetch = fetch, .fetch_ctx = &fetched};

    (void)state;
    fetched = 0;
    fetch_err = ERR_OK;
    history_init(&h);
    return view_new(&options, &v) == ERR_OK ? 0 : -1;
}

static size_t awake(void)
{
    size_t n = 0;

    view_lock(v);
    for (size_t i = 0; view_run_at(v, i); i++) {
        const struct view_run *run = view_run_at(v, i);

        n += run->whole != NULL;
        assert_true((run->whole != NULL) == (run->history != &h));
        assert_true((run->whole != NULL) == (run->config != NULL));
    }
    view_unlock(v);
    return n;
}

static void rest(const char *id, bool rests)
{
    view_lock(v);
    view_rest_run(v, id, rests);
    view_unlock(v);
}

/* A run that rests is read for who asks for it, the one read longest ago goes
 * for it, and one that goes on is its owner's again. */
static void view_run_that_rests_is_read_again(void **state)
{
    static const char *const id[] = {"a", "b", "c", "d", "e", "f",
                                     "g", "h", "i", "j", "k"};
    struct fault f = {0};
    uint64_t mark, of_d, version;

    (void)state;
    for (int i = 0; i < 11; i++) {
        assert_int_equal(view_add_run(v, id[i], "", &h), ERR_OK);
        if (i < 10)
            rest(id[i], true);
    }
    assert_int_equal(view_wake_run(v, "k", &mark, &f), ERR_OK);
    assert_int_equal(view_wake_run(v, "none", &mark, &f), ERR_OK);
    assert_int_equal(fetched, 0);
    version = view_version(v);
    for (int i = 0; i < 10; i++)
        assert_int_equal(view_wake_run(v, id[i], &mark, &f), ERR_OK);
    assert_true(view_version(v) >= version + 10);
    assert_int_equal(awake(), VIEW_AWAKE_MAX);
    assert_int_equal(view_wake_run(v, "d", &of_d, &f), ERR_OK);
    assert_int_equal(view_wake_run(v, "c", &mark, &f), ERR_OK); /* used */
    assert_int_equal(fetched, 10);
    for (int i = 4; i < 10; i++)
        assert_int_equal(view_wake_run(v, id[i], &mark, &f), ERR_OK);
    assert_false(view_slept_since(v, "d", of_d));
    assert_int_equal(view_wake_run(v, "a", &mark, &f), ERR_OK); /* for d */
    assert_int_equal(fetched, 11);
    assert_true(view_slept_since(v, "d", of_d));
    assert_false(view_slept_since(v, "none", 0));
    view_lock(v);
    assert_non_null(view_run_find(v, "c")->whole);
    assert_null(view_run_find(v, "d")->whole);
    view_unlock(v);
    rest("a", false);
    assert_false(view_slept_since(v, "a", mark)); /* whole all the time */
    rest("a", true);
    assert_true(view_slept_since(v, "a", mark));
    view_remove_run(v, "c");
    assert_int_equal(awake(), VIEW_AWAKE_MAX - 2);
}

/* What cannot be read is said, and that a run is gone. */
static void view_run_that_cannot_be_read_is_said(void **state)
{
    struct fault f = {0};
    uint64_t mark;

    (void)state;
    assert_int_equal(view_add_run(v, "a", "", &h), ERR_OK);
    rest("a", true);
    fetch_err = ERR_IO;
    assert_int_equal(view_wake_run(v, "a", &mark, &f), ERR_IO);
    fetch_err = ERR_NOENT;
    assert_int_equal(view_wake_run(v, "a", &mark, &f), ERR_NOENT);
    fetch_err = ERR_OK;
    mem_fail_at(1, 0);
    assert_int_equal(view_wake_run(v, "a", &mark, &f), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(awake(), 0);
    assert_int_equal(view_wake_run(v, "a", &mark, &f), ERR_OK);
    assert_int_equal(awake(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(view_runs_are_listed_in_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(view_refuses_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(view_version_grows_with_changes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(view_run_that_rests_is_read_again,
                                        setup_rest, teardown),
        cmocka_unit_test_setup_teardown(view_run_that_cannot_be_read_is_said,
                                        setup_rest, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
