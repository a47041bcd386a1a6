/* What a history tells later runs (tuner/board/earlier.h). */
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/earlier.h"
#include "tuner/history/history.h"

#include <string.h>

static void apply(struct history *h, struct record *r)
{
    assert_int_equal(history_apply(h, r), ERR_OK);
    record_deinit(r);
}

static void add_trial(struct history *h, uint32_t trial, enum trial_label label,
                      double speed)
{
    for (int ended = 0; ended < 2; ended++) {
        struct record r;

        record_init(&r, ended ? RECORD_TRIAL_ENDED : RECORD_TRIAL_STARTED);
        r.trial = (struct record_trial){
            .trial = trial,
            .search = 1,
            .branch = trial,
            .setting = json_pack("{s:f}", "learning_rate", 1e-4 * trial),
            .label = ended ? label : TRIAL_RUNNING,
            .figures.speed = ended ? speed : 0};
        apply(h, &r);
    }
}

static void begin(struct history *h)
{
    struct record r;

    history_init(h);
    record_init(&r, RECORD_RUN_STARTED);
    strcpy(r.run_started.run, "a-1");
    strcpy(r.run_started.name, "a");
    strcpy(r.run_started.strategy, "mltuner");
    apply(h, &r);
    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started.search = 1;
    apply(h, &r);
}

static void end(struct history *h, uint32_t trials, uint32_t winner)
{
    struct record r;

    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended.search = 1;
    r.search_ended.trials = trials;
    r.search_ended.winner = winner;
    apply(h, &r);
}

static json_t *trials_of(const struct history *h, json_t **found)
{
    const char *why = NULL;

    *found = NULL;
    assert_int_equal(earlier_of(h, found, &why), ERR_OK);
    return json_object_get(*found, "trials");
}

/* The trial that @o is, by its setting. */
static uint32_t number_of(const json_t *o)
{
    return (uint32_t)(json_number_value(json_object_get(
                          json_object_get(o, "setting"), "learning_rate")) /
                          1e-4 +
                      0.5);
}

static bool is(const json_t *o, const char *outcome)
{
    return strcmp(json_string_value(json_object_get(o, "outcome")), outcome) ==
           0;
}

/* For want of memory, say, which the next run may have. */
static void earlier_trials_that_failed_are_not_told(void **state)
{
    json_t *found, *trials;
    struct history h;

    (void)state;
    begin(&h);
    add_trial(&h, 1, TRIAL_CONVERGING, 2);
    add_trial(&h, 2, TRIAL_FAILED, 0);
    add_trial(&h, 3, TRIAL_DIVERGED, 0);
    end(&h, 3, 1);
    trials = trials_of(&h, &found);
    assert_int_equal(json_array_size(trials), 2);
    assert_int_equal(number_of(json_array_get(trials, 0)), 1);
    assert_true(is(json_array_get(trials, 1), "diverged"));
    json_decref(found);
    history_deinit(&h);
}

/* Nor from a list that an older mltune wrote. */
static void earlier_lists_that_name_failures_are_read_without(void **state)
{
    static const char text[] =
        "{\"runs\": [{\"run\": \"a-1\", \"samples\": 1, "
        "\"validation_samples\": 1, \"trials\": ["
        "{\"setting\": {\"learning_rate\": 0.01}, \"share\": 0, "
        "\"outcome\": \"failed\", \"best\": false}, "
        "{\"setting\": {\"learning_rate\": 0.02}, \"share\": 1, "
        "\"outcome\": \"speed\", \"best\": true}]}]}";
    static struct earlier e;
    struct space space;
    json_t *json = json_known(text);
    struct fault f = {0};

    (void)state;
    assert_int_equal(space_from_text("{\"learning_rate\": {\"type\": "
                                     "\"float\", \"min\": 0.001, \"max\": 1}}",
                                     &space, NULL),
                     ERR_OK);
    assert_int_equal(earlier_from_json(&space, json, &e, &f), ERR_OK);
    assert_int_equal(e.len, 1);
    assert_int_equal(e.trial[0].outcome, OUTCOME_SPEED);
    json_decref(json);
}

/* Of many trials: the winner, the first that diverged, the fastest others. */
static void earlier_trials_are_the_fastest_and_the_first_diverged(void **state)
{
    const uint32_t all = 100, winner = 1;
    unsigned diverged = 0, fast = 0, won = 0;
    json_t *found, *trials, *o;
    struct history h;
    size_t i;

    (void)state;
    begin(&h);
    for (uint32_t n = 1; n <= all; n++)
        add_trial(&h, n, n % 2 ? TRIAL_CONVERGING : TRIAL_DIVERGED,
                  n % 2 ? n : 0);
    end(&h, all, winner);
    trials = trials_of(&h, &found);
    assert_int_equal(json_array_size(trials), EARLIER_OF_RUN_MAX);
    json_array_foreach(trials, i, o)
    {
        uint32_t n = number_of(o);

        if (n % 2 == 0) {
            assert_true(is(o, "diverged") && n <= 2 * EARLIER_DIVERGED_MAX);
            diverged++;
        } else if (n == winner) {
            assert_true(json_is_true(json_object_get(o, "best")));
            won++;
        } else {
            assert_true(
                n > all - 2 * (EARLIER_OF_RUN_MAX - 1 - EARLIER_DIVERGED_MAX));
            fast++;
        }
    }
    assert_int_equal(won, 1);
    assert_int_equal(diverged, EARLIER_DIVERGED_MAX);
    assert_int_equal(fast, EARLIER_OF_RUN_MAX - 1 - EARLIER_DIVERGED_MAX);
    json_decref(found);
    history_deinit(&h);
}

/* The places that nothing diverged for are the fastest ones'. */
static void earlier_trials_of_one_speed_are_the_first(void **state)
{
    json_t *found, *trials;
    struct history h;

    (void)state;
    begin(&h);
    for (uint32_t n = 1; n <= 40; n++)
        add_trial(&h, n, TRIAL_CONVERGING, 1);
    end(&h, 40, 40);
    trials = trials_of(&h, &found);
    assert_int_equal(json_array_size(trials), EARLIER_OF_RUN_MAX);
    for (size_t i = 0; i + 1 < EARLIER_OF_RUN_MAX; i++)
        assert_int_equal(number_of(json_array_get(trials, i)), i + 1);
    assert_int_equal(number_of(json_array_get(trials, EARLIER_OF_RUN_MAX - 1)),
                     40);
    json_decref(found);
    history_deinit(&h);
}

/* Out of memory is not the same as nothing to tell. */
static void earlier_trials_without_memory_are_an_error(void **state)
{
    struct history h;

    (void)state;
    begin(&h);
    add_trial(&h, 1, TRIAL_CONVERGING, 2);
    add_trial(&h, 2, TRIAL_DIVERGED, 0);
    end(&h, 2, 1);
    for (int n = 1, failed = 1; failed; n++) {
        int64_t before = mem_outstanding();
        json_t *found = NULL;
        const char *why = NULL;
        enum err err;

        mem_fail_at(n, 0);
        err = earlier_of(&h, &found, &why);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_null(why);
        json_decref(found);
        assert_int_equal(mem_outstanding(), before);
    }
    history_deinit(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_trials_that_failed_are_not_told),
        cmocka_unit_test(earlier_lists_that_name_failures_are_read_without),
        cmocka_unit_test(earlier_trials_are_the_fastest_and_the_first_diverged),
        cmocka_unit_test(earlier_trials_of_one_speed_are_the_first),
        cmocka_unit_test(earlier_trials_without_memory_are_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
