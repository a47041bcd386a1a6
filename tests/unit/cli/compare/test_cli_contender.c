#include "base/json/json.h"
#include "base/mem.h"
#include "cli/compare/contender.h"
#include "cli/config/registry.h"

#include <stdio.h>

#include "tests/unit/fixture/check.h"

static enum err read_list(const char *strategies, const char *searchers,
                          struct contenders *out, struct fault *f)
{
    memset(out, 0, sizeof(*out));
    return contenders_read(strategies, searchers, out, f);
}

static struct run_config *config_of(const char *text)
{
    const struct config_env env = {.registry = cli_registry(), .cores = 1};
    struct problems problems = {0};
    struct run_config *c = NULL;

    assert_int_equal(
        run_config_parse(&env, text, strlen(text), "/", NULL, &c, &problems),
        ERR_OK);
    problems_deinit(&problems);
    return c;
}

/* A contender is a strategy, perhaps a searcher, perhaps settings: numbers,
 * booleans and texts. */
static void contenders_are_read(void **state)
{
    struct contenders cs;
    struct fault f = {0};

    (void)state;
    assert_int_equal(read_list("mltuner,mltuner:gp,fixed+schedule=cosine+floor="
                               "0.1,asha:tpe+eta=3+sampling=searcher",
                               NULL, &cs, &f),
                     ERR_OK);
    assert_int_equal(cs.len, 4);
    assert_string_equal(cs.item[0].strategy, "mltuner");
    assert_string_equal(cs.item[0].searcher, "");
    assert_null(cs.item[0].settings);
    assert_string_equal(cs.item[1].searcher, "gp");
    assert_string_equal(cs.item[2].label, "fixed+schedule=cosine+floor=0.1");
    assert_string_equal(
        json_string_value(json_object_get(cs.item[2].settings, "schedule")),
        "cosine");
    assert_true(
        json_real_value(json_object_get(cs.item[2].settings, "floor")) == 0.1);
    assert_string_equal(cs.item[3].searcher, "tpe");
    assert_int_equal(
        json_integer_value(json_object_get(cs.item[3].settings, "eta")), 3);
    contenders_deinit(&cs);
}

/* --searchers: every strategy with each, but `fixed` and those that say. */
static void contenders_are_crossed_with_searchers(void **state)
{
    static const char *const labels[] = {"mltuner:tpe",
                                         "mltuner:gp",
                                         "fixed+every=2",
                                         "complete:random",
                                         "asha:tpe+eta=3",
                                         "asha:gp+eta=3",
                                         "hyperband+sampling=random"};
    struct contenders cs;
    struct fault f = {0};

    (void)state;
    assert_int_equal(read_list("mltuner,fixed+every=2,complete:random,"
                               "asha+eta=3,hyperband+sampling=random",
                               "tpe,gp", &cs, &f),
                     ERR_OK);
    assert_int_equal(cs.len, 7);
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(cs.item[i].label, labels[i]);
    contenders_deinit(&cs);
}

/* An unreadable contender is refused with what was expected. */
static void contenders_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        const char *list, *says;
    } bad[] = {
        {"", "expected 1 to"},
        {"mltuner,,fixed", "expected 1 to"},
        {"mltuner,", "expected 1 to"},
        {"mltuner:", "STRATEGY[:SEARCHER]"},
        {":tpe", "STRATEGY[:SEARCHER]"},
        {"ML tuner", "STRATEGY[:SEARCHER]"},
        {"fixed+", "KEY=VALUE"},
        {"fixed+schedule", "KEY=VALUE"},
        {"fixed+=3", "KEY=VALUE"},
        {"fixed+a=", "KEY=VALUE"},
        {"fixed,fixed", "twice"},
        {"fixed+a=\xff", "UTF-8"},
        {"fixed+\xff=1", "UTF-8"},
        {"fixed:gp", "no searcher"},
        {"asha:gp+sampling=random", "leave"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct contenders cs;
        struct fault f = {0};

        assert_int_equal(read_list(bad[i].list, NULL, &cs, &f), ERR_INVAL);
        if (!strstr(f.text, bad[i].says))
            print_error("%s: %s\n", bad[i].list, f.text);
        assert_non_null(strstr(f.text, bad[i].says));
        contenders_deinit(&cs);
    }
}

/* The configuration's own settings of a strategy stay, those of another go. */
static void contenders_keep_the_settings_of_the_same_strategy(void **state)
{
    struct run_config *base = config_of(
        "{\"app\": {\"name\": \"mlr\", \"data\": \"gen:digits\"}, \"tuner\": "
        "{\"strategy\": \"asha\", \"strategy_settings\": {\"eta\": 5}, "
        "\"searcher\": \"gp\"}}");
    struct contenders cs;
    struct fault f = {0};

    (void)state;
    assert_int_equal(
        read_list("asha+concurrent=1,mltuner:gp,mltuner:tpe", NULL, &cs, &f),
        ERR_OK);
    assert_int_equal(contenders_sets(&cs, base, &f), ERR_OK);
    assert_string_equal(cs.item[0].set[0], "/tuner/strategy=\"asha\"");
    assert_non_null(strstr(cs.item[0].set[1], "\"eta\":5"));
    assert_non_null(strstr(cs.item[0].set[1], "\"concurrent\":1"));
    assert_int_equal(cs.item[0].sets_len, 2);
    assert_string_equal(cs.item[1].set[1], "/tuner/strategy_settings={}");
    assert_int_equal(cs.item[1].sets_len, 2); /* gp is what it has */
    assert_string_equal(cs.item[2].set[2], "/tuner/searcher=\"tpe\"");
    assert_string_equal(cs.item[2].set[3], "/tuner/searcher_settings={}");
    contenders_deinit(&cs);
    run_config_free(base);
}

/* Contenders begin with nothing that was found before, however it is given. */
static void contenders_begin_cold(void **state)
{
    static const struct {
        const char *warm;
        size_t sets;
    } given[] = {
        {"\"none\"", 2},
        {"\"auto\"", 3},
        {"{\"runs\": []}", 3},
        {"{\"runs\": [{\"run\": \"a-1\", \"trials\": []}]}", 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
        struct run_config *base;
        struct contenders cs;
        struct fault f = {0};
        char text[256];

        snprintf(text, sizeof(text),
                 "{\"app\": {\"name\": \"mlr\", \"data\": \"gen:digits\"}, "
                 "\"tuner\": {\"warm_start\": %s}}",
                 given[i].warm);
        base = config_of(text);
        assert_int_equal(read_list("mltuner", NULL, &cs, &f), ERR_OK);
        assert_int_equal(contenders_sets(&cs, base, &f), ERR_OK);
        assert_int_equal(cs.item[0].sets_len, given[i].sets);
        if (given[i].sets == 3)
            assert_string_equal(cs.item[0].set[2],
                                "/tuner/warm_start=\"none\"");
        contenders_deinit(&cs);
        run_config_free(base);
    }
}

static const char *sampling_of(const struct run_config *c)
{
    return json_string_value(json_object_get(c->strategy_settings, "sampling"));
}

/* A searcher that the user names is used, also where draws at random are the
 * default, and those that the configuration's completion wrote down. */
static void contenders_use_the_searcher_they_name(void **state)
{
    static const char *const uses[] = {"\"sampling\":\"searcher\"",
                                       "\"sampling\":\"searcher\"",
                                       "\"sampling\":\"random\"", "{}"};
    struct run_config *base = config_of(
        "{\"app\": {\"name\": \"mlr\", \"data\": \"gen:digits\"}, \"tuner\": "
        "{\"strategy\": \"asha\"}}");
    struct run_config *named = config_of(
        "{\"app\": {\"name\": \"mlr\", \"data\": \"gen:digits\"}, \"tuner\": "
        "{\"strategy\": \"asha\", \"searcher\": \"gp\"}}");
    struct contenders cs;
    struct fault f = {0};

    (void)state;
    assert_string_equal(sampling_of(base), "random");
    assert_string_equal(sampling_of(named), "searcher");
    assert_int_equal(
        read_list("asha:gp,hyperband:tpe,asha,mltuner:gp", NULL, &cs, &f),
        ERR_OK);
    assert_int_equal(contenders_sets(&cs, base, &f), ERR_OK);
    for (size_t i = 0; i < cs.len; i++)
        assert_non_null(strstr(cs.item[i].set[1], uses[i]));
    contenders_deinit(&cs);
    run_config_free(base);
    run_config_free(named);
}

/* Each allocation failing in turn leaves nothing behind. */
static void contenders_out_of_memory_leave_nothing(void **state)
{
    struct run_config *base =
        config_of("{\"app\": {\"name\": \"mlr\", \"data\": \"gen:digits\"}}");
    int64_t before;

    (void)state;
    before = mem_outstanding();
    for (int n = 1, failed = 1; failed; n++) {
        struct contenders cs;
        struct fault f = {0};
        enum err err;

        mem_fail_at(n, 0);
        err = read_list("asha+eta=3,mltuner:gp", "tpe,random", &cs, &f);
        if (!err)
            err = contenders_sets(&cs, base, &f);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(failed || err == ERR_OK);
        contenders_deinit(&cs);
        assert_int_equal(mem_outstanding(), before);
    }
    run_config_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contenders_are_read),
        cmocka_unit_test(contenders_are_crossed_with_searchers),
        cmocka_unit_test(contenders_that_make_no_sense_are_refused),
        cmocka_unit_test(contenders_keep_the_settings_of_the_same_strategy),
        cmocka_unit_test(contenders_begin_cold),
        cmocka_unit_test(contenders_use_the_searcher_they_name),
        cmocka_unit_test(contenders_out_of_memory_leave_nothing),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
