/* Whole simulated runs that begin with what earlier ones found. */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/families.h"
#include "tests/sim/warm.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <string.h>

static const struct sim_family plain = {
    .name = "warm",
    .space = "{" RATE "}",
    .searcher = &searcher_tpe,
    .samples = 4096,
    .ball = 0.1,
    .cliff = 20,
    .max_epochs = 6,
    SIM_USUAL,
    SIM_QUICK,
};

/* What the run with @seed says, and the trials of its first search. */
struct told {
    char *trace;
    struct history h;
};

static void told_run(const struct sim_family *f, uint64_t seed,
                     struct told *out)
{
    json_t *journal = NULL;
    struct sim_result r;

    out->trace = NULL;
    sim_run(f, seed,
            &(struct sim_options){.journal = &journal, .trace = &out->trace},
            &r);
    assert_int_equal(r.finish.status, RUN_FINISHED);
    history_init(&out->h);
    for (size_t i = 0; i < json_array_size(journal); i++) {
        struct record x;

        assert_int_equal(record_from_json(json_array_get(journal, i), &x, NULL),
                         ERR_OK);
        assert_int_equal(history_apply(&out->h, &x), ERR_OK);
        record_deinit(&x);
    }
    json_decref(journal);
}

static void told_deinit(struct told *t)
{
    mem_free(t->trace);
    history_deinit(&t->h);
}

/* Learning rate of trial @number. */
static double rate_of(const struct told *t, uint32_t number)
{
    json_t *setting =
        history_trial_setting(&t->h, history_trial_index(&t->h, number));
    double rate = json_number_value(json_object_get(setting, "learning_rate"));

    json_decref(setting);
    return rate;
}

static uint32_t trials_of_first(const struct told *t)
{
    return history_search_at(&t->h, 0).end.trials;
}

/* After the default comes what won before; then fewer trials do. */
static void warm_search_tries_the_default_and_then_what_won(void **state)
{
    unsigned fewer = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        const uint64_t before[] = {seed + 100};
        struct sim_family f = plain;
        struct earlier earlier;
        struct told cold, warm;

        warm_from(&f, before, 1, &earlier);
        told_run(&f, seed, &cold);
        f.earlier = &earlier;
        told_run(&f, seed, &warm);
        assert_true(strstr(warm.trace, "what 1 earlier run found"));
        assert_false(strstr(cold.trace, "warm_start"));
        assert_true(strstr(history_warm_start(&warm.h), "1 best"));
        assert_float_equal(rate_of(&warm, 1), 0.01, 1e-12);
        for (size_t i = 0; i < earlier.len; i++)
            if (earlier.trial[i].best && trials_of_first(&warm) > 1 &&
                fabs(earlier.trial[i].setting.value[0] - 0.01) > 1e-9)
                assert_float_equal(rate_of(&warm, 2),
                                   earlier.trial[i].setting.value[0], 1e-9);
        fewer += trials_of_first(&warm) < trials_of_first(&cold);
        told_deinit(&cold);
        told_deinit(&warm);
    }
    assert_true(fewer >= 4);
}

/* Of a run on other data nothing is used, and that is said. */
static void warm_search_on_other_data_is_as_a_cold_one(void **state)
{
    const uint64_t before[] = {101};
    struct sim_family f = plain;
    struct earlier earlier;
    struct told cold, warm;

    (void)state;
    warm_from(&f, before, 1, &earlier);
    earlier.run[0].samples++;
    told_run(&f, 1, &cold);
    f.earlier = &earlier;
    told_run(&f, 1, &warm);
    assert_true(strstr(warm.trace, "it had 4097 and 512 samples"));
    assert_true(strstr(history_warm_start(&warm.h), "begins with nothing"));
    assert_int_equal(trials_of_first(&warm), trials_of_first(&cold));
    for (uint32_t n = 1; n <= trials_of_first(&cold); n++)
        assert_float_equal(rate_of(&warm, n), rate_of(&cold, n), 0);
    told_deinit(&cold);
    told_deinit(&warm);
}

/* Only what has a first search of mltuner that made progress is of use. */
static void warm_search_needs_a_first_search(void **state)
{
    static const struct {
        const char *strategy, *initial, *why;
    } useless[] = {
        {"fixed", NULL, "it had no first search"},
        {"asha", NULL, "its strategy was another"},
        {NULL, "{\"learning_rate\": 0.001}", "it had no first search"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(useless) / sizeof(*useless); i++) {
        struct sim_family f = plain;
        struct told t;
        const char *why = NULL;
        json_t *o = NULL;

        f.strategy = useless[i].strategy;
        f.initial = useless[i].initial;
        told_run(&f, 1, &t);
        assert_int_equal(earlier_of(&t.h, &o, &why), ERR_NOENT);
        assert_string_equal(why, useless[i].why);
        told_deinit(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_search_tries_the_default_and_then_what_won),
        cmocka_unit_test(warm_search_on_other_data_is_as_a_cold_one),
        cmocka_unit_test(warm_search_needs_a_first_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
