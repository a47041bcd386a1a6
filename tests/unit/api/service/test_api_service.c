#include "api/service/service.h"
#include "api/web/web.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include <pthread.h>

#define RUN "/api/v1/runs/run-1"

static int setup(void **state)
{
    static struct http_fixture x;

    http_fixture_init(&x);
    http_fixture_run(&x);
    *state = &x;
    return 0;
}

static int setup_empty(void **state)
{
    static struct http_fixture x;

    http_fixture_init(&x);
    *state = &x;
    return 0;
}

static int teardown(void **state)
{
    http_fixture_deinit(*state);
    return 0;
}

/* Value at the JSON pointer @path; fails where there is none. */
static json_t *at(const json_t *json, const char *path)
{
    json_t *value = json_at(json, path);

    if (!value) {
        char *text = json_write(json, 2);

        fail_msg("nothing at %s in %s", path, text);
    }
    return value;
}

static const char *text_at(const json_t *json, const char *path)
{
    const char *s = json_string_value(at(json, path));

    if (!s)
        fail_msg("%s is no text", path);
    return s;
}

static json_int_t int_at(const json_t *json, const char *path)
{
    assert_true(json_is_integer(at(json, path)));
    return json_integer_value(at(json, path));
}

static double number_at(const json_t *json, const char *path)
{
    assert_true(json_is_number(at(json, path)));
    return json_number_value(at(json, path));
}

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.17g is not %.17g", a, b);
}

/* ---- runs ---------------------------------------------------------------- */

/* A run that has not started yet is listed, with its name and nothing made up.
 */
static void run_before_start_is_waiting(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, "/api/v1/runs", 200);

    assert_int_equal(int_at(json, "/total"), 1);
    assert_true(json_is_null(at(json, "/next_page_token")));
    assert_string_equal(text_at(json, "/runs/0/run"), "run-1");
    assert_string_equal(text_at(json, "/runs/0/name"), "digits");
    assert_string_equal(text_at(json, "/runs/0/status"), "waiting");
    assert_true(json_is_null(at(json, "/runs/0/job")));
    assert_true(json_is_null(at(json, "/runs/0/loss")));
    assert_true(json_is_null(at(json, "/runs/0/best")));
    assert_true(json_is_null(at(json, "/runs/0/branch")));
    assert_true(json_is_null(at(json, "/runs/0/started_at")));
    assert_true(json_is_null(at(json, "/runs/0/tuning/strategy")));
    json_decref(json);
}

/* A run shows status, loss, best epoch, setting, counts and times. */
static void run_shows_its_state(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN, 200);

    assert_string_equal(text_at(json, "/status"), "tuning");
    assert_string_equal(text_at(json, "/job/app"), "mlr");
    assert_string_equal(text_at(json, "/job/metric/name"), "accuracy");
    assert_int_equal(int_at(json, "/seed"), 7);
    assert_int_equal(int_at(json, "/branch"), 4);
    assert_int_equal(int_at(json, "/epochs"), 2);
    assert_near(number_at(json, "/loss"), 0.5, 1e-12);
    assert_near(number_at(json, "/best/loss"), 0.5, 1e-12);
    assert_int_equal(int_at(json, "/best/epoch"), 1);
    assert_int_equal(int_at(json, "/last_epoch/epoch"), 2);
    assert_near(number_at(json, "/setting/learning_rate"), 0.1, 1e-12);
    assert_int_equal(int_at(json, "/tuning/trials"), 3);
    assert_near(number_at(json, "/tuning/seconds"), 3.5, 1e-12);
    assert_int_equal(int_at(json, "/branches/total"), 6);
    assert_int_equal(int_at(json, "/branches/live"), 5);
    assert_string_equal(text_at(json, "/started_at"),
                        "2026-01-02T03:04:05.000Z");
    assert_true(json_is_null(at(json, "/finished_at")));
    assert_true(json_is_null(at(json, "/reason")));
    json_decref(json);
}

/* The end of a run shows with its reason, sentence and time. */
static void run_finished_shows_reason(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_finish(x);
    json = http_fixture_get(x->view, RUN, 200);
    assert_string_equal(text_at(json, "/status"), "finished");
    assert_string_equal(text_at(json, "/reason"), "converged");
    assert_string_equal(text_at(json, "/message"), "no better for 5 epochs");
    assert_string_equal(text_at(json, "/finished_at"),
                        text_at(json, "/updated_at"));
    json_decref(json);
}

/* Every route below a run answers 404 with a code and pointer for a run that
 * does not exist. */
static void run_unknown_is_404_everywhere(void **state)
{
    static const char *const rest[] = {
        "",          "/trials",     "/trials/1",
        "/branches", "/branches/1", "/branches/1/progress",
        "/schedule", "/slices",     "/epochs",
        "/searches", "/decisions",
    };
    struct http_fixture *x = *state;
    char target[128];

    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        json_t *json;

        snprintf(target, sizeof(target), "/api/v1/runs/other%s", rest[i]);
        json = http_fixture_get(x->view, target, 404);
        assert_string_equal(text_at(json, "/code"), "run_not_found");
        assert_string_equal(http_fixture_error(json, 0), "/path/run");
        json_decref(json);
    }
}

/* An id with other characters than ids have is refused before it is looked
 * up, however it is written. */
static void run_id_malformed_is_400(void **state)
{
    static const char *const ids[] = {
        "UPPER",
        "a_b",
        "..",
        "%2e%2e",
        "%252e%252e",
        "a%2fb",
        "a\\b",
        "%E2%82%AC",
        "a.b",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    struct http_fixture *x = *state;
    char target[160];

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        json_t *json;

        snprintf(target, sizeof(target), "/api/v1/runs/%s", ids[i]);
        json = http_fixture_get(x->view, target, 400);
        assert_string_equal(text_at(json, "/code"), "invalid_parameter");
        assert_string_equal(http_fixture_error(json, 0), "/path/run");
        json_decref(json);
    }
}

/* ---- trials -------------------------------------------------------------- */

/* Trials come in order with label, speed and trace; numbers that are not finite
 * are texts. */
static void trials_list_shows_traces(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/trials", 200);

    assert_int_equal(json_array_size(at(json, "/trials")), 3);
    assert_string_equal(text_at(json, "/trials/0/label"), "converging");
    assert_near(number_at(json, "/trials/0/speed"), 2.0, 1e-12);
    assert_near(number_at(json, "/trials/0/points/1/loss"), 1.0, 1e-12);
    assert_true(json_is_string(at(json, "/trials/0/ended_at")));
    assert_string_equal(text_at(json, "/trials/1/label"), "diverged");
    assert_string_equal(text_at(json, "/trials/1/speed"), "inf");
    assert_string_equal(text_at(json, "/trials/1/points/1/loss"), "nan");
    assert_string_equal(text_at(json, "/trials/2/label"), "running");
    assert_true(json_is_false(at(json, "/trials/2/ended")));
    assert_true(json_is_null(at(json, "/trials/2/ended_at")));
    json_decref(json);
}

/* One trial is what the list shows of it; 0 and numbers past the last are
 * unknown. */
static void trial_by_number(void **state)
{
    struct http_fixture *x = *state;
    json_t *list = http_fixture_get(x->view, RUN "/trials", 200);
    json_t *one = http_fixture_get(x->view, RUN "/trials/2", 200);

    assert_true(json_equal(one, at(list, "/trials/1")));
    json_decref(list);
    json_decref(one);

    one = http_fixture_get(x->view, RUN "/trials/4", 404);
    assert_string_equal(text_at(one, "/code"), "trial_not_found");
    json_decref(one);
    one = http_fixture_get(x->view, RUN "/trials/0", 400);
    assert_string_equal(http_fixture_error(one, 0), "/path/trial");
    json_decref(one);
    json_decref(http_fixture_get(x->view, RUN "/trials/1x", 400));
    json_decref(http_fixture_get(x->view, RUN "/trials/-1", 400));
    json_decref(
        http_fixture_get(x->view, RUN "/trials/99999999999999999999", 400));
}

/* The trials of a search that does not exist are none. */
static void trials_filter_by_search(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/trials?search=1", 200);

    assert_int_equal(json_array_size(at(json, "/trials")), 3);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/trials?search=2", 200);
    assert_int_equal(json_array_size(at(json, "/trials")), 0);
    json_decref(json);
}

/* ---- branches ------------------------------------------------------------ */

/* Branches show parent, type, role and life; the root has no parent. */
static void branches_list_shows_family(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/branches", 200);

    assert_int_equal(json_array_size(at(json, "/branches")), 6);
    assert_true(json_is_null(at(json, "/branches/0/parent")));
    assert_string_equal(text_at(json, "/branches/0/type"), "init");
    assert_true(json_is_false(at(json, "/branches/2/live")));
    assert_string_equal(text_at(json, "/branches/2/freed_reason"), "diverged");
    assert_int_equal(int_at(json, "/branches/4/parent"), 1);
    assert_string_equal(text_at(json, "/branches/4/role"), "training");
    assert_int_equal(int_at(json, "/branches/4/clocks"), 20);
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/branches?live=false", 200);
    assert_int_equal(json_array_size(at(json, "/branches")), 1);
    assert_int_equal(int_at(json, "/branches/0/branch"), 2);
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/branches/4", 200);
    assert_int_equal(int_at(json, "/branch"), 4);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/branches/77", 404);
    assert_string_equal(text_at(json, "/code"), "branch_not_found");
    json_decref(json);
}

/* Nodes show the latest beat, time split up, reads with their mean; their
 * course has a point a beat, or as many as are wanted, the newest among them.
 * A number without a beat is a node that has not been heard of. */
static void nodes_show_beats_and_their_course(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/nodes", 200);

    assert_int_equal(json_array_size(at(json, "/nodes")), 0);
    json_decref(json);
    for (uint64_t i = 1; i <= 5; i++)
        http_fixture_beat(x, 1, 100 * i);
    json = http_fixture_get(x->view, RUN "/nodes", 200);
    assert_int_equal(json_array_size(at(json, "/nodes")), 2);
    assert_true(json_is_false(at(json, "/nodes/0/alive")));
    assert_true(json_is_null(at(json, "/nodes/0/beat_at")));
    assert_true(json_is_null(at(json, "/nodes/0/staleness/mean")));
    assert_true(json_is_true(at(json, "/nodes/1/alive")));
    assert_int_equal(int_at(json, "/nodes/1/workers"), 2);
    assert_near(number_at(json, "/nodes/1/seconds/work"), 6, 1e-12);
    assert_int_equal(int_at(json, "/nodes/1/traffic/bytes_sent"), 500);
    assert_int_equal(int_at(json, "/nodes/1/staleness/reads"), 3);
    assert_near(number_at(json, "/nodes/1/staleness/mean"), -2, 1e-12);
    assert_int_equal(int_at(json, "/nodes/1/staleness/least"), -4);
    assert_int_equal(int_at(json, "/nodes/1/staleness/counts/3"), 2);
    assert_int_equal(int_at(json, "/nodes/1/branches/0/branch"), 4);
    assert_int_equal(int_at(json, "/nodes/1/branches/0/shared_bytes"), 600);
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/traffic", 200);
    assert_int_equal(json_array_size(at(json, "/nodes/0/bytes_sent")), 0);
    assert_int_equal(json_array_size(at(json, "/nodes/1/bytes_sent")), 5);
    assert_int_equal(int_at(json, "/nodes/1/bytes_sent/0"), 100);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/traffic?max_points=2", 200);
    assert_int_equal(json_array_size(at(json, "/nodes/1/memory_bytes")), 2);
    assert_int_equal(int_at(json, "/nodes/1/bytes_sent/1"), 500);
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/branches/1", 200);
    assert_int_equal(int_at(json, "/data_bytes"), 100);
    assert_int_equal(int_at(json, "/reads"), 10);
    assert_near(number_at(json, "/staleness"), -1.5, 1e-12);
    json_decref(json);
}

/* Progress shows each window's place and mean; `after` leaves out what is
 * known already. */
static void progress_shows_windows_after(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/branches/4/progress", 200);

    assert_int_equal(json_array_size(at(json, "/points")), 2);
    assert_int_equal(int_at(json, "/points/0/branch_clock"), 20);
    assert_near(number_at(json, "/points/0/loss"), 1.0, 1e-12);
    assert_int_equal(int_at(json, "/points/0/samples"), 100);
    assert_int_equal(int_at(json, "/next_after"), 30);
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/branches/4/progress?after=20", 200);
    assert_int_equal(json_array_size(at(json, "/points")), 1);
    assert_near(number_at(json, "/points/0/loss"), 0.5, 1e-12);
    json_decref(json);

    json = http_fixture_get(x->view, RUN "/branches/4/progress?after=30", 200);
    assert_int_equal(json_array_size(at(json, "/points")), 0);
    assert_int_equal(int_at(json, "/next_after"), 30);
    json_decref(json);
}

/* A lineage is what led to the branch's state: its ancestors' points up to the
 * forks, not what they ran after. */
static void progress_of_lineage_stops_at_forks(void **state)
{
    struct http_fixture *x = *state;
    json_t *json =
        http_fixture_get(x->view, RUN "/branches/4/progress?lineage=true", 200);

    assert_int_equal(json_array_size(at(json, "/points")), 3);
    assert_int_equal(int_at(json, "/points/0/branch"), 1);
    assert_near(number_at(json, "/points/0/loss"), 1.5, 1e-12);
    assert_int_equal(int_at(json, "/points/1/branch"), 4);
    json_decref(json);
}

/* A loss that is not finite and a metric of a testing branch are shown as what
 * they are. */
static void progress_shows_nonfinite_and_metric(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/branches/2/progress", 200);

    assert_string_equal(text_at(json, "/points/0/loss"), "nan");
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/branches/5/progress", 200);
    assert_near(number_at(json, "/points/0/metric"), 0.9, 1e-12);
    assert_null(json_at(json, "/points/0/loss"));
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/branches/0/progress", 200);
    assert_int_equal(json_array_size(at(json, "/points")), 0);
    json_decref(json);
}

/* However few points are asked for, they hold all samples, and their mean is
 * that of all. */
static void progress_merges_without_loss(void **state)
{
    struct http_fixture *x = *state;
    double want = 0;

    http_fixture_branch(x, 6, 4, BRANCH_TRAINING, "training");
    for (unsigned i = 0; i < 700; i++) {
        http_fixture_window(x, 6, 30 + i, 1, i);
        want += i * 10.0;
    }
    for (unsigned max = 1; max <= 1000; max = max * 3 + 1) {
        double sum = 0, samples = 0;
        char target[128];
        json_t *json, *point;
        size_t i, n;

        snprintf(target, sizeof(target),
                 RUN "/branches/6/progress?max_points=%u", max);
        json = http_fixture_get(x->view, target, 200);
        n = json_array_size(at(json, "/points"));
        assert_true(n >= 1 && n <= max);
        assert_true(n * 2 > (max < 700 ? max : 700) || max == 1);
        json_array_foreach(at(json, "/points"), i, point)
        {
            samples += number_at(point, "/samples");
            sum += number_at(point, "/loss") * number_at(point, "/samples");
        }
        assert_near(samples, 7000, 0);
        assert_near(sum, want, 1e-6 * want);
        json_decref(json);
    }
}

/* More points than a first reading has room for are read all the same. */
static void progress_of_long_lineage_is_whole(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;
    branch_id b = 6;

    for (unsigned k = 0; k < 3; k++, b++) {
        http_fixture_branch(x, b, b == 6 ? 4 : b - 1, BRANCH_TRAINING,
                            "training");
        for (unsigned i = 0; i < 1000; i++)
            http_fixture_window(x, b, 30 + k * 1000 + i, 1, 1.0);
    }
    json = http_fixture_get(
        x->view, RUN "/branches/8/progress?lineage=true&max_points=10000", 200);
    assert_int_equal(json_array_size(at(json, "/points")), 3 + 3000);
    json_decref(json);
}

/* A journal that says that a branch descends from itself ends no reader. */
static void progress_of_circular_lineage_ends(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_branch(x, 6, 7, BRANCH_TRAINING, "training");
    http_fixture_branch(x, 7, 6, BRANCH_TRAINING, "training");
    http_fixture_window(x, 7, 30, 10, 1.0);
    json =
        http_fixture_get(x->view, RUN "/branches/7/progress?lineage=true", 200);
    assert_int_equal(json_array_size(at(json, "/points")), 1);
    json_decref(json);
}

/* ---- other lists --------------------------------------------------------- */

/* Schedule, slices, epochs, searches and decisions show what was recorded. */
static void lists_show_what_was_recorded(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, RUN "/schedule", 200);

    assert_int_equal(int_at(json, "/schedule/0/clock"), 20);
    assert_int_equal(int_at(json, "/schedule/0/branch"), 4);
    assert_string_equal(text_at(json, "/schedule/0/reason"), "fastest");
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/slices", 200);
    assert_int_equal(int_at(json, "/slices/0/first_clock"), 0);
    assert_int_equal(int_at(json, "/slices/0/clocks"), 10);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/epochs", 200);
    assert_int_equal(json_array_size(at(json, "/epochs")), 2);
    assert_near(number_at(json, "/epochs/0/metric"), 0.9, 1e-12);
    assert_true(json_is_true(at(json, "/epochs/0/best")));
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/epochs?surviving=false", 200);
    assert_int_equal(json_array_size(at(json, "/epochs")), 0);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/searches", 200);
    assert_int_equal(int_at(json, "/searches/0/result/winner"), 1);
    assert_string_equal(text_at(json, "/searches/0/reason"), "the first");
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/decisions?order=desc", 200);
    assert_int_equal(int_at(json, "/decisions/0/number"), 2);
    assert_string_equal(text_at(json, "/decisions/0/text"), "training goes on");
    assert_string_equal(text_at(json, "/decisions/0/numbers/seconds"), "inf");
    json_decref(json);
}

/* Without anything recorded every list is empty, none an error. */
static void lists_of_an_empty_run_are_empty(void **state)
{
    static const char *const lists[] = {"trials",   "branches", "schedule",
                                        "slices",   "epochs",   "searches",
                                        "decisions"};
    struct http_fixture *x = *state;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char target[64], pointer[32];
        json_t *json;

        snprintf(target, sizeof(target), RUN "/%s?order=desc", lists[i]);
        snprintf(pointer, sizeof(pointer), "/%s", lists[i]);
        json = http_fixture_get(x->view, target, 200);
        assert_int_equal(json_array_size(at(json, pointer)), 0);
        assert_int_equal(int_at(json, "/total"), 0);
        assert_true(json_is_null(at(json, "/next_page_token")));
        json_decref(json);
    }
}

/* A metric is null where the application has no validation. */
static void epochs_without_validation_have_no_metric(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    x->h.run.metric[0] = '\0';
    json = http_fixture_get(x->view, RUN "/epochs", 200);
    assert_true(json_is_null(at(json, "/epochs/0/metric")));
    json_decref(json);
    json = http_fixture_get(x->view, RUN, 200);
    assert_true(json_is_null(at(json, "/job/metric")));
    assert_true(json_is_null(at(json, "/best/metric")));
    json_decref(json);
}

/* A text that a record's field cut within a character loses only that. */
static void text_cut_within_a_character_is_shown(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    http_fixture_decision(x, "no more \xe2\x82");
    json = http_fixture_get(x->view, RUN "/decisions?order=desc", 200);
    assert_string_equal(text_at(json, "/decisions/0/text"), "no more ");
    json_decref(json);
}

/* ---- pages --------------------------------------------------------------- */

/* Walks a list page by page; every item must come once, in order. */
static void walk(struct view *view, size_t size, const char *order,
                 size_t expected)
{
    char target[256];
    json_t *json = NULL, *item;
    size_t seen = 0, pages = 0, i;

    do {
        const char *token = json ? text_at(json, "/next_page_token") : NULL;

        snprintf(target, sizeof(target),
                 RUN "/decisions?page_size=%zu&order=%s%s%s", size, order,
                 token ? "&page_token=" : "", token ? token : "");
        json_decref(json);
        json = http_fixture_get(view, target, 200);
        assert_true(json_array_size(at(json, "/decisions")) <= size);
        json_array_foreach(at(json, "/decisions"), i, item)
        {
            json_int_t number = int_at(item, "/number");

            seen++;
            assert_int_equal(number,
                             order[0] == 'a' ? seen : expected + 1 - seen);
        }
        pages++;
    } while (!json_is_null(at(json, "/next_page_token")));
    json_decref(json);
    assert_int_equal(seen, expected);
    assert_int_equal(pages, (expected + size - 1) / size);
}

/* At every page size around the list's length a walk in either order sees each
 * item once, and there is no empty page at the end. */
static void pages_walk_sees_every_item_once(void **state)
{
    struct http_fixture *x = *state;
    char text[32];

    for (int i = 3; i <= 10; i++) {
        snprintf(text, sizeof(text), "number %d", i);
        http_fixture_decision(x, text);
    }
    for (size_t size = 1; size <= 11; size++) {
        walk(x->view, size, "asc", 10);
        walk(x->view, size, "desc", 10);
    }
    walk(x->view, 1000, "asc", 10);
}

/* A page that was dropped in the meantime leads to the oldest that is left. */
static void pages_survive_dropped_items(void **state)
{
    struct http_fixture *x = *state;
    json_t *json;

    for (int i = 0; i < 3 * HISTORY_DECISIONS_MAX; i++)
        http_fixture_decision(x, "again");
    assert_true(x->h.decisions_dropped > 0);
    json = http_fixture_get(
        x->view, RUN "/decisions?page_size=1&page_token=decisions.asc.2", 200);
    assert_int_equal(int_at(json, "/decisions/0/number"),
                     x->h.decisions_dropped + 1);
    json_decref(json);
    json = http_fixture_get(
        x->view,
        RUN "/decisions?page_size=1&order=desc&page_token=decisions.desc.2",
        200);
    assert_int_equal(json_array_size(at(json, "/decisions")), 0);
    assert_true(json_is_null(at(json, "/next_page_token")));
    json_decref(json);
}

/* Parameters out of their bounds, unknown or doubled are refused, all of them
 * at once, each with its pointer. */
static void parameters_bad_are_all_listed(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(
        x->view,
        "/api/v1/runs/A/trials?page_size=0&order=up&order=asc&colour=red", 400);

    assert_string_equal(text_at(json, "/code"), "invalid_parameter");
    assert_int_equal(json_array_size(at(json, "/errors")), 5);
    assert_string_equal(http_fixture_error(json, 0), "/path/run");
    assert_string_equal(http_fixture_error(json, 1), "/query/page_size");
    assert_string_equal(http_fixture_error(json, 2), "/query/order");
    assert_string_equal(http_fixture_error(json, 3), "/query/order");
    assert_string_equal(http_fixture_error(json, 4), "/query/colour");
    json_decref(json);
}

/* Each way to write a parameter wrong is refused with its pointer. */
static void parameters_malformed_are_400(void **state)
{
    static const char *const rows[][2] = {
        {"/trials?page_size=", "/query/page_size"},
        {"/trials?page_size=1001", "/query/page_size"},
        {"/trials?page_size=+5", "/query/page_size"},
        {"/trials?page_size=5.0", "/query/page_size"},
        {"/trials?page_size=0x10", "/query/page_size"},
        {"/trials?page_size", "/query/page_size"},
        {"/trials?page_token=x", "/query/page_token"},
        {"/trials?page_token=", "/query/page_token"},
        {"/trials?page_token=branches.asc.1", "/query/page_token"},
        {"/trials?page_token=trials.desc.1", "/query/page_token"},
        {"/trials?page_token=trials.asc.1x", "/query/page_token"},
        {"/trials?page_token=trials.asc.99999999999999999999",
         "/query/page_token"},
        {"/trials?run=run-1", "/query/run"},
        {"/branches?live=yes", "/query/live"},
        {"/branches/4294967295", "/path/branch"},
        {"/branches/1/progress?max_points=0", "/query/max_points"},
        {"/branches/1/progress?max_points=10001", "/query/max_points"},
        {"/branches/1/progress?after=-1", "/query/after"},
    };
    struct http_fixture *x = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char target[160];
        json_t *json;

        snprintf(target, sizeof(target), RUN "%s", rows[i][0]);
        json = http_fixture_get(x->view, target, 400);
        assert_string_equal(http_fixture_error(json, 0), rows[i][1]);
        json_decref(json);
    }
}

/* ---- the program --------------------------------------------------------- */

/* Health, readiness and version answer at the root and under the prefix. */
static void about_answers_at_both_places(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, "/healthz", 200);

    assert_string_equal(text_at(json, "/status"), "ok");
    json_decref(json);
    json_decref(http_fixture_get(x->view, "/api/v1/healthz", 200));
    json = http_fixture_get(x->view, "/version", 200);
    assert_string_equal(text_at(json, "/version"), MLT_VERSION);
    json_decref(json);
    json_decref(http_fixture_get(x->view, "/api/v1/version", 200));
    json_decref(http_fixture_get(x->view, "/readyz", 200));
    view_set_ready(x->view, "it is about to end");
    json = http_fixture_get(x->view, "/readyz", 503);
    assert_string_equal(text_at(json, "/code"), "not_ready");
    json_decref(json);
}

/* While a service reads its runs a list of some is no answer, nor is it one
 * that a run is not there; of those that are there all is told. */
static void runs_that_may_come_are_waited_for(void **state)
{
    static const char *const early[] = {
        "/api/v1/runs", "/api/v1/runs/run-9", "/api/v1/runs/run-9/trials",
        "/api/v1/runs/run-9/events?after=0", "/api/v1/tables"};
    struct http_fixture *x = *state;
    json_t *json;

    view_set_filling(x->view, true);
    for (size_t i = 0; i < sizeof(early) / sizeof(*early); i++) {
        json = http_fixture_get(x->view, early[i], 503);
        assert_string_equal(text_at(json, "/code"), "not_ready");
        json_decref(json);
    }
    json_decref(http_fixture_get(x->view, RUN, 200));
    json_decref(http_fixture_get(x->view, "/api/v1/version", 200));
    json_decref(http_fixture_get(x->view, "/api/v1/runs/run-9/nothing", 404));
    view_set_filling(x->view, false);
    json_decref(http_fixture_get(x->view, "/api/v1/runs/run-9", 404));
    json_decref(http_fixture_get(x->view, "/api/v1/runs", 200));
}

/* Entries of the registry are listed with the schema of its settings, page by
 * page; without a registry the lists are empty and there is no schema. */
static void about_lists_the_registry(void **state)
{
    static struct registry registry;
    static const char *const tunables[] = {"learning_rate", NULL};
    struct registry_entry random = {.kind = REGISTRY_SEARCHER,
                                    .name = "random",
                                    .summary = "uniform",
                                    .settings = "{\"properties\": {}}"};
    struct registry_entry grid = {
        .kind = REGISTRY_SEARCHER, .name = "grid", .summary = "all points"};
    struct registry_entry app = {.kind = REGISTRY_APP,
                                 .name = "mlr",
                                 .summary = "softmax",
                                 .tunables = tunables};
    struct view_options options = {.registry = &registry};
    struct http_fixture *x = *state;
    struct view *view;
    json_t *json;

    registry_init(&registry);
    assert_int_equal(registry_add(&registry, &random, NULL), ERR_OK);
    assert_int_equal(registry_add(&registry, &app, NULL), ERR_OK);
    assert_int_equal(registry_add(&registry, &grid, NULL), ERR_OK);
    options.schema = json_pack("{s:s}", "type", "object");
    assert_int_equal(view_new(&options, &view), ERR_OK);

    json = http_fixture_get(view, "/api/v1/searchers?page_size=1", 200);
    assert_string_equal(text_at(json, "/searchers/0/name"), "random");
    assert_true(json_is_object(at(json, "/searchers/0/settings")));
    assert_string_equal(text_at(json, "/next_page_token"), "searchers.asc.1");
    json_decref(json);
    json = http_fixture_get(
        view, "/api/v1/searchers?page_size=1&page_token=searchers.asc.1", 200);
    assert_string_equal(text_at(json, "/searchers/0/name"), "grid");
    assert_true(json_is_null(at(json, "/searchers/0/settings")));
    assert_true(json_is_null(at(json, "/next_page_token")));
    json_decref(json);
    json = http_fixture_get(view, "/api/v1/apps", 200);
    assert_string_equal(text_at(json, "/apps/0/tunables/0"), "learning_rate");
    json_decref(json);
    json = http_fixture_get(view, "/api/v1/schema", 200);
    assert_string_equal(text_at(json, "/type"), "object");
    json_decref(json);
    json = http_fixture_get(view, "/api/v1/runs", 200);
    assert_int_equal(int_at(json, "/total"), 0);
    json_decref(json);
    json_decref((json_t *)options.schema);
    view_free(view);

    json = http_fixture_get(x->view, "/api/v1/strategies", 200);
    assert_int_equal(int_at(json, "/total"), 0);
    json_decref(json);
    json_decref(http_fixture_get(x->view, "/api/v1/schema", 404));
}

/* The index names every route, and each of them that takes no parameter in its
 * path answers. */
static void index_lists_routes_that_answer(void **state)
{
    struct http_fixture *x = *state;
    json_t *json = http_fixture_get(x->view, "/api/v1", 200);
    json_t *route;
    size_t i, tried = 0;

    json_decref(http_fixture_get(x->view, "/api/v1/", 200));
    json_array_foreach(at(json, "/routes"), i, route)
    {
        const char *path = text_at(route, "/path");
        struct response r = {0};

        if (strchr(path, '{') || strcmp(text_at(route, "/method"), "GET") != 0)
            continue;
        if (strcmp(path, "/api/v1/data") == 0)
            continue; /* the service's desk answers it: test_new_run */
        service_respond(x->view, "GET", path, &r);
        assert_true(r.status == 200 || strcmp(path, "/api/v1/schema") == 0);
        assert_true(r.len > 0);
        response_deinit(&r);
        tried++;
    }
    assert_true(i >= 20 && tried >= 10);
    json_decref(json);
}

/* The page and its parts come as what they are, with the policy that lets them
 * load each other and nothing else. */
static void page_is_served_with_its_policy(void **state)
{
    static const char *const rows[][2] = {
        {"/", "text/html"},
        {"/web/app.js", "text/javascript"},
        {"/web/uplot.js", "text/javascript"},
        {"/web/style.css", "text/css"},
    };
    struct http_fixture *x = *state;

    for (size_t i = 0; i < 4; i++) {
        struct response_header header[RESPONSE_HEADERS_MAX];
        struct response r = {0};

        service_respond(x->view, "GET", rows[i][0], &r);
        assert_int_equal(r.status, 200);
        assert_true(strncmp(r.type, rows[i][1], strlen(rows[i][1])) == 0);
        assert_true(r.len > 200);
        response_headers(&r, header);
        assert_string_equal(header[1].name, "Content-Security-Policy");
        assert_non_null(strstr(header[1].value, "script-src 'self'"));
        response_deinit(&r);
    }
}

/* Only the files that are compiled in are there. */
static void page_has_no_other_files(void **state)
{
    static const char *const paths[] = {"/web/none.js", "/web/..",
                                        "/web/%2e%2e%2fweb.c", "/web/"};
    struct http_fixture *x = *state;

    for (size_t i = 0; i < 4; i++) {
        struct response r = {0};

        service_respond(x->view, "GET", paths[i], &r);
        assert_true(r.status == 404 || r.status == 400);
        response_deinit(&r);
    }
}

/* Whatever the page and its modules load is served. */
static void page_loads_what_there_is(void **state)
{
    static const char *const before[] = {"\"/web/", "from \"./"};
    char name[64];

    (void)state;
    for (size_t i = 0; web_file_at(i); i++) {
        const struct web_file *f = web_file_at(i);

        for (size_t k = 0; k < 2; k++) {
            const char *at = f->begin;

            while ((at = memmem(at, (size_t)(f->end - at), before[k],
                                strlen(before[k])))) {
                at += strlen(before[k]);
                snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "\""),
                         at);
                if (!web_file(name))
                    fail_msg("%s loads %s", f->name, name);
            }
        }
    }
}

/* The page fits its policy: nothing inline, nothing from elsewhere, and no
 * markup made of what the server says. */
static void page_keeps_to_its_policy(void **state)
{
    static const char *const banned[] = {
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "onclick",
        "onload",
        "style=",
        "<style",
        "javascript:",
        "https://",
        "<script>",
        "srcdoc",
        "setAttribute(\"style",
    };

    (void)state;
    for (size_t i = 0; web_file_at(i); i++) {
        const struct web_file *f = web_file_at(i);

        if (strstr(f->name, "uplot")) /* not ours */
            continue;
        for (size_t k = 0; k < sizeof(banned) / sizeof(banned[0]); k++) {
            if (memmem(f->begin, (size_t)(f->end - f->begin), banned[k],
                       strlen(banned[k])))
                fail_msg("%s has %s", f->name, banned[k]);
        }
    }
}

/* ---- runs that rest ------------------------------------------------------ */

static void assert_rests_alike(struct http_fixture *x)
{
    json_t *all, *one, *after;

    all = http_fixture_get(x->view, "/api/v1/runs", 200);
    one = http_fixture_get(x->view, RUN, 200);
    view_lock(x->view);
    history_rest(&x->h);
    view_changed(x->view);
    view_unlock(x->view);
    after = http_fixture_get(x->view, "/api/v1/runs", 200);
    assert_true(json_equal(all, after));
    json_decref(after);
    after = http_fixture_get(x->view, RUN, 200);
    assert_true(json_equal(one, after));
    json_decref(after);
    after = http_fixture_get(x->view, RUN "/trials", 200);
    assert_int_equal(json_array_size(json_object_get(after, "trials")), 0);
    json_decref(after);
    json_decref(all);
    json_decref(one);
}

/* Further metrics, of which the newest value is not in the last window. */
static void feed_extras(struct http_fixture *x)
{
    for (int i = 0; i < 2; i++) {
        struct record r = {.kind = RECORD_PROGRESS,
                           .progress = {.branch = 4,
                                        .first = 60 + (clock_no)i,
                                        .branch_clock = 40 + (clock_no)i,
                                        .windows = 1}};

        r.progress.window[0] = (struct progress_window){1, 10, 1, .5, 0, 0, 0};
        r.progress.values = json_pack("{s:[f]}", i ? "b" : "a", 2.5 + i);
        http_fixture_feed(x, &r);
    }
}

/* Of a run that rests its row in the list is as it was, to the last member,
 * whether it ended or was killed; what it did is not there. */
static void run_that_rests_is_listed_the_same(void **state)
{
    struct http_fixture *x = *state;

    feed_extras(x);
    http_fixture_finish(x);
    assert_rests_alike(x);
    assert_rests_alike(x); /* again */
}

static void run_killed_that_rests_is_listed_the_same(void **state)
{
    struct http_fixture *x = *state;

    feed_extras(x);
    assert_rests_alike(x);
}

static enum err reread_err;
static _Atomic unsigned rereads;

/* All of the run, as the journal has it. */
static enum err reread(void *ctx, const char *id, struct view_whole *out,
                       struct fault *f)
{
    struct http_fixture all;

    assert_null(ctx);
    assert_string_equal(id, "run-1");
    rereads++;
    if (reread_err)
        return fault_set(f, reread_err, "no");
    http_fixture_init(&all);
    http_fixture_run(&all);
    out->history = all.h;
    history_init(&all.h);
    http_fixture_deinit(&all);
    return ERR_OK;
}

/* The run @x in a view of its own, where it rests. */
static struct view *rested(struct http_fixture *x)
{
    const struct view_options options = {.fetch = reread};
    struct view *view;

    reread_err = ERR_OK;
    rereads = 0;
    assert_int_equal(view_new(&options, &view), ERR_OK);
    assert_int_equal(view_add_run(view, "run-1", "digits", &x->h), ERR_OK);
    view_lock(view);
    history_rest(&x->h);
    view_rest_run(view, "run-1", true);
    view_unlock(view);
    return view;
}

static void assert_code_of(struct view *view, const char *target, int status,
                           const char *code)
{
    json_t *problem = http_fixture_get(view, target, status);

    assert_string_equal(json_string_value(json_object_get(problem, "code")),
                        code);
    json_decref(problem);
}

/* A rested list is never told as the run's: it is read again, or is said to be
 * gone or not readable. */
static void run_that_rests_is_read_or_refused(void **state)
{
    struct view *view = rested(*state);
    json_t *got;

    reread_err = ERR_IO;
    assert_code_of(view, RUN "/trials", 503, "run_not_read");
    reread_err = ERR_NOENT;
    assert_code_of(view, RUN "/trials", 404, "run_not_found");
    assert_code_of(view, RUN "/branches", 404, "run_not_found");
    reread_err = ERR_OK;
    got = http_fixture_get(view, RUN "/trials", 200);
    assert_int_equal(json_array_size(json_object_get(got, "trials")), 3);
    json_decref(got);
    view_free(view);
}

/* Where no run is named the only one is meant, and read; not for what lists
 * runs, nor where there are two. */
static void only_run_that_rests_is_read_unnamed(void **state)
{
    struct http_fixture *x = *state;
    struct view *view = rested(x);

    json_decref(http_fixture_get(view, "/api/v1/runs", 200));
    json_decref(http_fixture_get(view, "/api/v1", 200));
    assert_int_equal(rereads, 0);
    json_decref(http_fixture_get(view, "/api/v1/tables", 200));
    assert_int_equal(rereads, 1);
    assert_int_equal(view_add_run(view, "run-2", "", &x->h), ERR_OK);
    json_decref(http_fixture_get(view, "/api/v1/tables", 400));
    assert_int_equal(rereads, 1);
    view_free(view);
}

static _Atomic bool disturbed;

static void *disturb(void *view)
{
    while (disturbed) {
        view_lock(view);
        view_rest_run(view, "run-1", true);
        view_unlock(view);
        sched_yield();
    }
    return NULL;
}

/* However often it is put to rest while it is read: all of it or 503. */
static void run_put_to_rest_while_it_is_read_is_whole_or_503(void **state)
{
    static const char *const targets[] = {RUN "/trials", RUN "/searches",
                                          RUN "/branches"};
    struct view *view = rested(*state);
    struct response whole[3] = {0};
    pthread_t thread;

    for (int i = 0; i < 3; i++)
        assert_true(service_respond(view, "GET", targets[i], &whole[i]));
    disturbed = true;
    assert_int_equal(pthread_create(&thread, NULL, disturb, view), 0);
    for (int n = 0; n < 150; n++) {
        struct response r = {0};

        assert_true(service_respond(view, "GET", targets[n % 3], &r));
        if (r.status == 200)
            assert_string_equal(r.body, whole[n % 3].body);
        else
            assert_int_equal(r.status, 503);
        response_deinit(&r);
    }
    disturbed = false;
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++) {
        struct response r = {0};

        assert_true(service_respond(view, "GET", targets[i], &r));
        assert_int_equal(r.status, 200);
        assert_string_equal(r.body, whole[i].body);
        response_deinit(&r);
        response_deinit(&whole[i]);
    }
    view_free(view);
}

/* ---- memory -------------------------------------------------------------- */

/* Whatever allocation fails, a route answers 503, leaks nothing, and answers
 * as ever once there is memory. */
static void memory_failing_at_each_allocation_is_503(void **state)
{
    static const char *const targets[] = {
        "/api/v1/runs",      RUN,
        RUN "/trials",       RUN "/trials/2",
        RUN "/branches",     RUN "/branches/4/progress?lineage=true",
        RUN "/schedule",     RUN "/slices",
        RUN "/epochs",       RUN "/searches",
        RUN "/decisions",    RUN "/curve",
        RUN "/survey",       RUN "/tree?all=true",
        RUN "/nodes",        RUN "/traffic",
        RUN "/search",       RUN "/suggestions",
        "/api/v1",           "/version",
        "/api/v1/runs/none", RUN "/trials?page_size=0",
        "/nothing",
    };
    struct http_fixture *x = *state;

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        int64_t before = mem_outstanding();
        int nth = 0, failed;

        do {
            struct response r = {0};

            mem_fail_at(++nth, 0);
            service_respond(x->view, "GET", targets[i], &r);
            failed = mem_failed();
            mem_fail_at(0, 0);
            if (failed)
                assert_int_equal(r.status, 503);
            else
                assert_int_not_equal(r.status, 503);
            response_deinit(&r);
            /* The list of routes is kept from its first answer on. */
            if (failed || strcmp(targets[i], "/api/v1") != 0)
                assert_int_equal(mem_outstanding(), before);
        } while (failed);
        assert_true(nth > 1);
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define EMPTY(test) cmocka_unit_test_setup_teardown(test, setup_empty, teardown)
    const struct CMUnitTest tests[] = {
        EMPTY(run_before_start_is_waiting),
        WITH(run_shows_its_state),
        WITH(run_finished_shows_reason),
        WITH(run_unknown_is_404_everywhere),
        WITH(run_id_malformed_is_400),
        WITH(trials_list_shows_traces),
        WITH(trial_by_number),
        WITH(trials_filter_by_search),
        WITH(branches_list_shows_family),
        WITH(nodes_show_beats_and_their_course),
        WITH(progress_shows_windows_after),
        WITH(progress_of_lineage_stops_at_forks),
        WITH(progress_shows_nonfinite_and_metric),
        WITH(progress_merges_without_loss),
        WITH(progress_of_long_lineage_is_whole),
        WITH(progress_of_circular_lineage_ends),
        WITH(lists_show_what_was_recorded),
        EMPTY(lists_of_an_empty_run_are_empty),
        WITH(epochs_without_validation_have_no_metric),
        WITH(text_cut_within_a_character_is_shown),
        WITH(pages_walk_sees_every_item_once),
        WITH(pages_survive_dropped_items),
        WITH(parameters_bad_are_all_listed),
        WITH(parameters_malformed_are_400),
        WITH(about_answers_at_both_places),
        WITH(runs_that_may_come_are_waited_for),
        WITH(about_lists_the_registry),
        WITH(index_lists_routes_that_answer),
        WITH(page_has_no_other_files),
        WITH(page_loads_what_there_is),
        WITH(page_is_served_with_its_policy),
        WITH(page_keeps_to_its_policy),
        WITH(run_that_rests_is_listed_the_same),
        WITH(run_killed_that_rests_is_listed_the_same),
        WITH(run_that_rests_is_read_or_refused),
        WITH(only_run_that_rests_is_read_unnamed),
        WITH(run_put_to_rest_while_it_is_read_is_whole_or_503),
        WITH(memory_failing_at_each_allocation_is_503),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
