/* A run as a searcher outside reads it: its search, and what became of what
 * it suggested. */
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <string.h>

#define RUN "/api/v1/runs/run-1"

static struct http_fixture *fixture(void)
{
    static struct http_fixture x;

    http_fixture_init(&x);
    return &x;
}

/* A run whose searcher is @searcher, in its first search, of 4 trials. */
static struct http_fixture *searching(const char *searcher)
{
    struct http_fixture *x = fixture();
    struct record begun = {.kind = RECORD_SEARCH_STARTED,
                           .search_started = {.search = 1, .trials_max = 4}};

    http_fixture_start(x);
    snprintf(x->h.run.searcher, sizeof(x->h.run.searcher), "%s", searcher);
    begun.search_started.tunables =
        json_pack("{s:{s:s}}", "learning_rate", "type", "float");
    http_fixture_feed(x, &begun);
    return x;
}

static void suggestion(struct http_fixture *x, uint32_t number,
                       enum suggestion_state state, uint32_t trial,
                       const char *reason)
{
    struct record r = {.kind = RECORD_SUGGESTION,
                       .suggestion = {number, state, trial}};

    r.suggestion.setting = json_pack("{s:f}", "learning_rate", 0.1 * number);
    snprintf(r.suggestion.reason, sizeof(r.suggestion.reason), "%s", reason);
    http_fixture_feed(x, &r);
}

static void trial(struct http_fixture *x, enum record_kind kind,
                  uint32_t number, uint32_t suggested, enum trial_label label,
                  double speed)
{
    struct record r = {.kind = kind,
                       .trial = {.trial = number,
                                 .search = 1,
                                 .branch = BRANCH_NONE,
                                 .label = label,
                                 .figures.speed = speed,
                                 .suggestion = suggested}};

    r.trial.setting = json_pack("{s:f}", "learning_rate", 0.1 * number);
    http_fixture_feed(x, &r);
}

static void asking(struct http_fixture *x, enum asking what, uint32_t search,
                   const char *reason)
{
    struct record r = {.kind = RECORD_ASKING,
                       .asking = {.asking = what, .search = search}};

    snprintf(r.asking.reason, sizeof(r.asking.reason), "%s", reason);
    http_fixture_feed(x, &r);
}

static void expect(struct http_fixture *x, const char *state, int wanted,
                   bool waits)
{
    json_t *json = http_fixture_get(x->view, RUN "/search", 200);

    assert_string_equal(json_string_value(json_object_get(json, "state")),
                        state);
    assert_int_equal(json_integer_value(json_object_get(json, "wanted")),
                     wanted);
    assert_int_equal(json_is_true(json_object_get(json, "waits")), waits);
    assert_true(json_string_length(json_object_get(json, "reason")) > 0);
    json_decref(json);
}

static int64_t int_at(const json_t *json, const char *pointer)
{
    return json_integer_value(json_at(json, pointer));
}

/* Before there is anything, nothing is wanted yet. */
static void search_of_an_empty_run_is_not_open(void **state)
{
    struct http_fixture *x = fixture();

    (void)state;
    expect(x, "not_now", 0, false);
    http_fixture_start(x);
    expect(x, "not_now", 0, false);
    http_fixture_deinit(x);
}

/* It shows what runs, what waits and what was found, each with its
 * suggestion. */
static void search_shows_what_was_found(void **state)
{
    struct http_fixture *x = searching("tpe");
    json_t *json;

    (void)state;
    expect(x, "open", 4, false);
    for (uint32_t n = 1; n <= 3; n++)
        suggestion(x, n, SUGGESTION_WAITING, 0, "");
    expect(x, "open", 1, false);
    trial(x, RECORD_TRIAL_STARTED, 1, 1, TRIAL_RUNNING, 0);
    trial(x, RECORD_TRIAL_ENDED, 1, 1, TRIAL_DIVERGED, 0);
    trial(x, RECORD_TRIAL_STARTED, 2, 0, TRIAL_RUNNING, 0);
    trial(x, RECORD_TRIAL_UPDATED, 2, 0, TRIAL_CONVERGING, 1.5);
    trial(x, RECORD_TRIAL_STARTED, 3, 2, TRIAL_RUNNING, 0);
    json = http_fixture_get(x->view, RUN "/search", 200);
    assert_int_equal(int_at(json, "/search"), 1);
    assert_string_equal(
        json_string_value(json_at(json, "/tunables/learning_rate/type")),
        "float");
    assert_int_equal(int_at(json, "/wanted"), 0);
    assert_int_equal(json_array_size(json_at(json, "/running")), 1);
    assert_int_equal(int_at(json, "/running/0/trial"), 3);
    assert_int_equal(int_at(json, "/running/0/suggestion"), 2);
    assert_int_equal(json_array_size(json_at(json, "/waiting")), 1);
    assert_int_equal(int_at(json, "/waiting/0/suggestion"), 3);
    assert_int_equal(json_array_size(json_at(json, "/trials")), 2);
    assert_string_equal(json_string_value(json_at(json, "/trials/0/outcome")),
                        "diverged");
    assert_true(json_is_null(json_at(json, "/trials/0/speed")));
    assert_string_equal(json_string_value(json_at(json, "/trials/1/outcome")),
                        "speed");
    assert_true(json_real_value(json_at(json, "/trials/1/speed")) == 1.5);
    assert_true(json_is_null(json_at(json, "/trials/1/suggestion")));
    json_decref(json);
    http_fixture_deinit(x);
}

/* "Not now" differs from "ended": paused, comparing, training, interrupted
 * against over and finished. */
static void search_says_whether_it_is_open(void **state)
{
    struct http_fixture *x = searching("rest");
    struct record status = {.kind = RECORD_RUN_STATUS,
                            .run_status = {.status = RUN_PAUSED}};
    struct record ended = {.kind = RECORD_SEARCH_ENDED,
                           .search_ended = {.search = 1}};

    (void)state;
    expect(x, "open", 4, true);
    asking(x, ASKING_EXHAUSTED, 0, "that was all");
    expect(x, "open", 4, false);
    asking(x, ASKING_OPEN, 0, "");
    trial(x, RECORD_TRIAL_STARTED, 1, 0, TRIAL_RUNNING, 0);
    expect(x, "open", 3, false);
    trial(x, RECORD_TRIAL_ENDED, 1, 0, TRIAL_CONVERGING, 1);
    expect(x, "open", 3, true);
    http_fixture_feed(x, &status);
    expect(x, "not_now", 0, false);
    status.run_status.status = RUN_TUNING;
    http_fixture_feed(x, &status);
    asking(x, ASKING_CLOSED, 1, "");
    expect(x, "not_now", 0, false);
    http_fixture_feed(x, &ended);
    expect(x, "not_now", 0, false);
    asking(x, ASKING_OVER, 0, "it searches once");
    expect(x, "ended", 0, false);
    http_fixture_deinit(x);

    x = searching("rest");
    http_fixture_finish(x);
    expect(x, "ended", 0, false);
    http_fixture_deinit(x);
}

/* States of all suggestions, and of one. */
static void suggestions_show_what_became_of_them(void **state)
{
    struct http_fixture *x = searching("rest");
    json_t *json;

    (void)state;
    for (uint32_t n = 1; n <= 4; n++)
        suggestion(x, n, SUGGESTION_WAITING, 0, "");
    trial(x, RECORD_TRIAL_STARTED, 1, 1, TRIAL_RUNNING, 0);
    suggestion(x, 2, SUGGESTION_KNOWN, 1, "trial 1 has it");
    suggestion(x, 3, SUGGESTION_DROPPED, 0, "it diverged");
    json = http_fixture_get(x->view, RUN "/suggestions", 200);
    assert_int_equal(int_at(json, "/total"), 4);
    assert_string_equal(
        json_string_value(json_at(json, "/suggestions/0/state")), "begun");
    assert_int_equal(int_at(json, "/suggestions/0/trial"), 1);
    assert_string_equal(
        json_string_value(json_at(json, "/suggestions/1/state")), "known");
    assert_string_equal(
        json_string_value(json_at(json, "/suggestions/2/reason")),
        "it diverged");
    assert_true(json_is_null(json_at(json, "/suggestions/3/settled_at")));
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/suggestions/2", 200);
    assert_int_equal(int_at(json, "/trial"), 1);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/suggestions/5", 404);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/trials/1", 200);
    assert_int_equal(int_at(json, "/suggestion"), 1);
    json_decref(json);
    json = http_fixture_get(x->view, RUN "/searches", 200);
    assert_true(json_is_object(json_at(json, "/searches/0/tunables")));
    json_decref(json);
    http_fixture_deinit(x);
}

/* Whatever allocation fails, it answers 503 and leaks nothing. */
static void search_survives_failing_memory(void **state)
{
    static const char *const targets[] = {RUN "/search", RUN "/suggestions",
                                          RUN "/suggestions/1",
                                          RUN "/searches"};
    struct http_fixture *x = searching("rest");

    (void)state;
    suggestion(x, 1, SUGGESTION_WAITING, 0, "");
    suggestion(x, 2, SUGGESTION_WAITING, 0, "");
    trial(x, RECORD_TRIAL_STARTED, 1, 1, TRIAL_RUNNING, 0);
    trial(x, RECORD_TRIAL_STARTED, 2, 0, TRIAL_RUNNING, 0);
    trial(x, RECORD_TRIAL_ENDED, 2, 0, TRIAL_CONVERGING, 1);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        int64_t before = mem_outstanding();
        int nth = 0, failed;

        do {
            struct response r = {0};

            mem_fail_at(++nth, 0);
            service_respond(x->view, "GET", targets[i], &r);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(r.status, failed ? 503 : 200);
            response_deinit(&r);
            assert_int_equal(mem_outstanding(), before);
        } while (failed);
        assert_true(nth > 3);
    }
    http_fixture_deinit(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_of_an_empty_run_is_not_open),
        cmocka_unit_test(search_shows_what_was_found),
        cmocka_unit_test(search_says_whether_it_is_open),
        cmocka_unit_test(suggestions_show_what_became_of_them),
        cmocka_unit_test(search_survives_failing_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
