#include "base/json/json.h"
#include "base/json/schema.h"
#include "base/mem.h"
#include "base/ring_bytes.h"
#include "cli/config/config.h"
#include "cli/config/config_table.h"
#include "cli/config/config_tunables.h"
#include "cli/config/registry.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/config_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <sys/stat.h>

static struct registry registry;
static const struct config_env env = {.registry = &registry, .cores = 4};

static enum err parse_sets(const char *text, const struct option_list *sets,
                           struct run_config **out, struct problems *problems)
{
    memset(problems, 0, sizeof(*problems));
    *out = NULL;
    return run_config_parse(&env, text, strlen(text), "/home/me", sets, out,
                            problems);
}

/* @text as a valid configuration; its warnings are in @problems. */
static struct run_config *good(const char *text, struct problems *problems)
{
    struct run_config *c;
    char line[1024];

    if (parse_sets(text, NULL, &c, problems))
        fail_msg("%s: %s", text,
                 problem_text(&problems->item[0], "c", line, sizeof(line)));
    assert_int_equal(problems->errors, 0);
    return c;
}

static struct run_config *quiet_good(const char *text)
{
    struct problems problems;
    struct run_config *c = good(text, &problems);

    assert_int_equal(problems.len, 0);
    problems_deinit(&problems);
    return c;
}

/* What the server takes is what the configuration takes. */
static void expect_ring_bytes(uint64_t bytes, bool taken)
{
    struct problems problems;
    struct run_config *c;
    char text[256];

    snprintf(text, sizeof(text),
             "{\"app\": {\"name\": \"toy\", \"data\": \"d\"}, \"ps\": "
             "{\"ring_bytes\": %llu}}",
             (unsigned long long)bytes);
    assert_int_equal(parse_sets(text, NULL, &c, &problems) == ERR_OK, taken);
    run_config_free(c);
    problems_deinit(&problems);
}

/* @text has one problem, whose line has @want in it. */
static void expect_problem(const char *text, const char *want)
{
    struct problems problems;
    struct run_config *c;
    char line[1024] = "";

    assert_int_equal(parse_sets(text, NULL, &c, &problems), ERR_INVAL);
    assert_null(c);
    assert_true(problems.errors > 0);
    problem_text(&problems.item[0], "c", line, sizeof(line));
    if (problems.errors != 1 || !strstr(line, want))
        fail_msg("%zu problems, first: %s", problems.errors, line);
    problems_deinit(&problems);
}

static bool has_hint(const struct problems *problems, const char *want)
{
    for (size_t i = 0; i < problems->len; i++)
        if (strcmp(problems->item[i].hint, want) == 0)
            return true;
    return false;
}

#define TOY "\"app\": {\"name\": \"toy\", \"data\": \"d\"}"

/* Everything but the app has a default, and it is the contract's. */
static void config_defaults_are_the_contracts(void **state)
{
    struct run_config *c = quiet_good("{" TOY "}");

    (void)state;
    assert_string_equal(c->name, "toy");
    assert_string_equal(c->app->name, "toy");
    assert_int_equal(c->nodes, 1);
    assert_int_equal(c->workers, 4);
    assert_string_equal(c->update_rule->name, "sgd");
    assert_string_equal(c->consistency->name, "bsp");
    assert_false(c->float16);
    assert_string_equal(c->priority, "relative");
    assert_string_equal(c->strategy->name, "mltuner");
    assert_string_equal(c->searcher->name, "random");
    assert_true(c->retune);
    assert_int_equal(c->max_trials, 0);
    assert_int_equal(c->trial_clocks, 0);
    assert_false(c->starts_given);
    assert_true(isnan(c->target_loss) && isnan(c->target_metric));
    assert_int_equal(c->plateau_epochs, 5);
    assert_int_equal(c->max_epochs, 100);
    assert_true(isinf(c->max_time_s));
    assert_true(c->snapshot_every_s == 300);
    assert_int_equal(c->snapshot_keep, 2);
    assert_int_equal(c->memory_limit, 0);
    assert_string_equal(c->listen, "");
    assert_int_equal(c->seed, 1);
    assert_string_equal(c->folder, "/home/me");
    assert_true(json_number_value(json_object_get(c->app_settings, "lambda")) ==
                0.05);
    assert_int_equal(
        json_integer_value(json_object_get(c->strategy_settings, "windows")),
        10);
    run_config_free(c);
}

/* The rule is what the user says; else what the application prefers for its
 * settings, unless momentum is listed, which only sgd has here; else sgd. */
static void config_rule_follows_the_application(void **state)
{
    static const char *const rows[][2] = {
        {"", "sgd"},
        {", \"loss\": \"plain\"", "sgd"},
        {", \"loss\": \"squared\"", "adagrad"},
        {", \"loss\": \"squared\"}, \"ps\": {\"update_rule\": \"sgd\"", "sgd"},
        {", \"loss\": \"squared\"}, \"ps\": {\"float16\": false", "adagrad"},
        {", \"loss\": \"squared\"}, \"tunables\": {\"learning_rate\": {}, "
         "\"momentum\": {}",
         "sgd"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[400];
        struct problems warnings;
        struct run_config *c;

        snprintf(text, sizeof(text), "{\"app\": {\"name\": \"parts\"%s}}",
                 rows[i][0]);
        c = good(text, &warnings); /* momentum acts in no `parts` */
        problems_deinit(&warnings);
        assert_string_equal(c->update_rule->name, rows[i][1]);
        assert_string_equal(
            json_string_value(json_at(c->effective, "/ps/update_rule")),
            rows[i][1]);
        run_config_free(c);
    }
}

/* Of what `data` leads to, a table has the application's rule and patience for
 * tables; images, what is made, and what is not there have not. What is given
 * stays. */
static void config_rule_follows_the_data(void **state)
{
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0,
                                           0, 0, 1, 0, 0, 0, 1, 7};
    static const struct {
        const char *data, *more, *rule;
        bool patient;
    } rows[] = {
        {"table.csv", "", "adagrad", true},
        {"*.csv", "", "adagrad", true},
        {"table.csv", ", \"stop\": {\"plateau_hits\": false}", "adagrad",
         false},
        {"images-idx3-ubyte", ", \"stop\": {\"plateau_hits\": true}", "sgd",
         true},
        {"table.csv",
         ", \"tunables\": {\"learning_rate\": {}, \"momentum\": {}}", "sgd",
         true},
        {"table.csv", ", \"ps\": {\"update_rule\": \"sgd\"}", "sgd", true},
        {"images-idx3-ubyte", "", "sgd", false},
        {".", "", "sgd", false}, /* of both kinds: images are what is read */
        {"absent.csv", "", "sgd", false},
        {"gen:digits?samples=10", "", "sgd", false},
        {"pipe.csv", "", "sgd",
         false}, /* nobody writes: it is not waited for */
    };

    (void)state;
    scratch_text("table.csv", "1,2,a\n3,4,b\n5,6,a\n");
    scratch_write("images-idx3-ubyte", images, sizeof(images));
    assert_int_equal(mkfifo(scratch_path("pipe.csv"), 0600), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *data = rows[i].data;
        bool made = strncmp(data, "gen:", 4) == 0;
        char text[800];
        struct problems warnings;
        struct run_config *c;

        snprintf(text, sizeof(text),
                 "{\"app\": {\"name\": \"parts\", \"data\": \"%s\"}%s}",
                 made ? data : scratch_path(data), rows[i].more);
        c = good(text, &warnings); /* momentum acts in no `parts` */
        problems_deinit(&warnings);
        assert_string_equal(c->update_rule->name, rows[i].rule);
        assert_int_equal(c->plateau_hits, rows[i].patient);
        assert_int_equal(
            json_is_true(json_at(c->effective, "/stop/plateau_hits")),
            rows[i].patient);
        run_config_free(c);
    }
}

/* Patience by samples holds until the user says how many epochs; what was
 * completed is read back the same. */
static void config_patience_is_the_users(void **state)
{
    static const struct {
        const char *stop;
        uint64_t samples;
    } rows[] = {
        {"", 200000},
        {", \"stop\": {\"max_epochs\": 7}", 200000},
        {", \"stop\": {\"plateau_epochs\": 5}", 0},
        {", \"stop\": {\"plateau_epochs\": 5, \"plateau_samples\": 9}", 9},
        {", \"stop\": {\"plateau_epochs\": 5, \"plateau_samples\": 200000}",
         200000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[400];
        struct run_config *c;

        snprintf(text, sizeof(text), "{" TOY "%s}", rows[i].stop);
        c = quiet_good(text);
        assert_int_equal(c->plateau_samples, rows[i].samples);
        assert_int_equal(
            json_integer_value(json_at(c->effective, "/stop/plateau_samples")),
            rows[i].samples);
        run_config_free(c);
    }
}

static const char full[] =
    "{\"name\": \"movies\", \"app\": {\"name\": \"toy\", \"data\": \"r.dat\","
    " \"lambda\": 0.5, \"clock\": \"batch\"},"
    "\"cluster\": {\"launcher\": \"local\", \"nodes\": 2, \"workers\": 2},"
    "\"ps\": {\"update_rule\": \"sgd\", \"consistency\": \"ssp\","
    " \"float16\": false, \"priority\": \"absolute\"},"
    "\"tunables\": {"
    " \"learning_rate\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1,"
    "  \"scale\": \"log\", \"default\": 0.01},"
    " \"momentum\": {\"type\": \"float\", \"min\": 0, \"max\": 0.99,"
    "  \"default\": 0.9, \"retune\": false},"
    " \"batch_size\": {\"type\": \"int\", \"values\": [16, 64, 256],"
    "  \"default\": 64},"
    " \"staleness\": {\"type\": \"int\", \"values\": [0, 1, 3, 7],"
    "  \"default\": 0},"
    " \"width\": {\"type\": \"int\", \"min\": 1, \"max\": 8}},"
    "\"tuner\": {\"strategy\": \"mltuner\", \"searcher\": \"grid\","
    " \"retune\": false, \"max_trials\": 7, \"trial_clocks\": 40,"
    " \"initial\": {\"learning_rate\": 0.1, \"width\": 3},"
    " \"strategy_settings\": {\"windows\": 12},"
    " \"searcher_settings\": {\"points\": 5}},"
    "\"stop\": {\"target_loss\": 0.8, \"target_metric\": 0.98,"
    " \"plateau_epochs\": 3, \"max_epochs\": 9, \"max_time\": \"1h30m\"},"
    "\"snapshot\": {\"every\": 60, \"keep\": 4},"
    "\"memory\": {\"limit\": \"2GiB\"},"
    "\"api\": {\"listen\": \"127.0.0.1:8080\"}, \"seed\": 42}";

/* Every field arrives where it belongs. */
static void config_every_field_is_read(void **state)
{
    struct run_config *c = quiet_good(full);
    int momentum = space_find(&c->space, "momentum");

    (void)state;
    assert_string_equal(c->name, "movies");
    assert_int_equal(c->workers, 2);
    assert_string_equal(c->consistency->name, "ssp");
    assert_string_equal(c->priority, "absolute");
    assert_int_equal(c->space.len, 5);
    assert_int_equal(space_dims(&c->space), 5);
    assert_false(c->space.tunable[momentum].retune);
    assert_string_equal(c->searcher->name, "grid");
    assert_false(c->retune);
    assert_int_equal(c->max_trials, 7);
    assert_int_equal(c->trial_clocks, 40);
    assert_true(setting_number(&c->space, &c->initial, "learning_rate", 0) ==
                0.1);
    assert_true(setting_number(&c->space, &c->initial, "momentum", 0) == 0.9);
    assert_true(c->starts_given);
    assert_int_equal(json_object_size(json_at(c->effective, "/tuner/initial")),
                     5);
    assert_int_equal(
        json_integer_value(json_object_get(c->strategy_settings, "windows")),
        12);
    assert_int_equal(
        json_integer_value(json_object_get(c->searcher_settings, "points")), 5);
    assert_true(c->target_loss == 0.8 && c->target_metric == 0.98);
    assert_int_equal(c->plateau_epochs, 3);
    assert_int_equal(c->max_epochs, 9);
    assert_true(c->max_time_s == 5400);
    assert_true(c->snapshot_every_s == 60);
    assert_int_equal(c->snapshot_keep, 4);
    assert_int_equal(c->memory_limit, 2147483648);
    assert_string_equal(c->listen, "127.0.0.1:8080");
    assert_int_equal(c->seed, 42);
    run_config_free(c);
}

/* Schemas that are kept say what those that are made anew say, of what is right
 * and of what is wrong. */
static void config_kept_schemas_say_the_same(void **state)
{
    static const char *const texts[] = {
        full, "{" TOY "}", "{\"app\": {\"name\": \"parts\", \"clock\": \"x\"}}",
        "{" TOY ", \"seed\": -1, \"tuner\": {\"searcher\": \"grid\", "
        "\"searcher_settings\": {\"point\": 3}}}"};
    struct config_env kept = env;
    struct config_schemas *schemas;

    (void)state;
    assert_int_equal(config_schemas_new(&registry, &schemas), ERR_OK);
    kept.schemas = schemas;
    for (size_t i = 0; i < 8; i++) { /* each twice: they do not change */
        const char *text = texts[i % 4];
        struct problems problems, others = {0};
        struct run_config *c, *other = NULL;
        enum err err = parse_sets(text, NULL, &c, &problems);
        json_t *said, *said_too;

        assert_int_equal(run_config_parse(&kept, text, strlen(text), "/home/me",
                                          NULL, &other, &others),
                         err);
        said = problems_to_json(&problems);
        said_too = problems_to_json(&others);
        assert_true(json_equal(said, said_too));
        assert_true(err || json_equal(c->effective, other->effective));
        json_decref(said);
        json_decref(said_too);
        run_config_free(c);
        run_config_free(other);
        problems_deinit(&problems);
        problems_deinit(&others);
    }
    config_schemas_free(schemas);
}

/* Each allocation that fails leaves no schema behind. */
static void config_schemas_leave_nothing(void **state)
{
    int64_t before = mem_outstanding();
    struct config_schemas *schemas = NULL;
    enum err err = ERR_NOMEM;

    (void)state;
    for (int64_t nth = 1; err; nth++) {
        mem_fail_at(nth, nth % 2 == 1);
        err = config_schemas_new(&registry, &schemas);
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        if (err)
            assert_int_equal(mem_outstanding(), before);
    }
    config_schemas_free(schemas);
    assert_int_equal(mem_outstanding(), before);
}

/* The effective configuration, written and parsed again on another machine,
 * gives itself, without a warning. */
static void config_effective_parses_to_itself(void **state)
{
    static const char *const texts[] = {
        full, "{" TOY "}", "{\"app\": {\"name\": \"parts\"}}",
        "{" TOY ", \"cluster\": {\"workers\": 1}, \"tunables\": "
        "{\"momentum\": {}, \"staleness\": {}, \"learning_rate\": "
        "{\"fixed\": 3}}, \"ps\": {\"update_rule\": \"adagrad\"}}"};
    static const struct config_env other = {.registry = &registry, .cores = 64};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct problems problems, none = {0};
        struct run_config *c = good(texts[i], &problems), *again;
        char *text = json_write(c->effective, 2);

        assert_int_equal(run_config_parse(&other, text, strlen(text), "/x",
                                          NULL, &again, &none),
                         ERR_OK);
        assert_int_equal(none.len, 0);
        assert_true(json_equal(c->effective, again->effective));
        assert_int_equal(c->workers, again->workers);
        assert_int_equal(space_dims(&c->space), space_dims(&again->space));
        mem_free(text);
        run_config_free(c);
        run_config_free(again);
        problems_deinit(&problems);
    }
}

/* All faults are told at once, in the order of the file, whatever part finds
 * them. */
static void config_all_faults_at_once(void **state)
{
    static const char text[] =
        "{\n"
        "  \"nmae\": \"x\",\n"
        "  \"app\": {\"name\": \"toy\", \"lambda\": -1},\n"
        "  \"ps\": {\"update_rule\": \"sdg\"},\n"
        "  \"tunables\": {\"learning_rte\": {\"type\": \"float\", \"min\": 0,"
        " \"max\": 1},\n"
        "    \"momentum\": {\"max\": 1}},\n"
        "  \"tuner\": {\"searcher\": \"gird\", \"strategy\": \"grid\"},\n"
        "  \"stop\": {\"max_epochs\": 0},\n"
        "  \"api\": {\"listen\": \"0.0.0.0:80\"}\n"
        "}";
    static const struct {
        const char *pointer;
        unsigned line;
        const char *hint;
    } want[] = {
        {"/nmae", 2, "did you mean \"name\"?"},
        {"/app/data", 3, ""},
        {"/app/lambda", 3, ""},
        {"/ps/update_rule", 4, "did you mean \"sgd\"?"},
        {"/tunables/learning_rte", 5, "did you mean \"learning_rate\"?"},
        {"/tunables/momentum/max", 6, ""},
        {"/tuner/searcher", 7, "did you mean \"grid\"?"},
        {"/tuner/strategy", 7, "grid is a searcher"},
        {"/stop/max_epochs", 8, ""},
        {"/api/listen", 9, ""}};
    struct problems problems;
    struct run_config *c;

    (void)state;
    assert_int_equal(parse_sets(text, NULL, &c, &problems), ERR_INVAL);
    assert_int_equal(problems.errors, 10);
    for (size_t i = 0; i < 10; i++) {
        const struct problem *p = &problems.item[i];

        assert_string_equal(p->pointer, want[i].pointer);
        assert_int_equal(p->place.line, want[i].line);
        assert_string_equal(p->hint, want[i].hint);
    }
    problems_deinit(&problems);
}

/* Every name that the program has built in is refused where another kind is
 * asked for, with what it is: so that no message says of it that it is not
 * there. What is nowhere is called nothing. */
static void config_names_of_another_kind_are_told(void **state)
{
    static const char *const pointers[REGISTRY_KIND_COUNT] = {
        [REGISTRY_RULE] = "{" TOY ", \"ps\": {\"update_rule\": \"%s\"}}",
        [REGISTRY_CONSISTENCY] = "{" TOY ", \"ps\": {\"consistency\": \"%s\"}}",
        [REGISTRY_SEARCHER] = "{" TOY ", \"tuner\": {\"searcher\": \"%s\"}}",
        [REGISTRY_STRATEGY] = "{" TOY ", \"tuner\": {\"strategy\": \"%s\"}}",
    };
    static struct registry built_in;
    const struct registry_entry *e;
    char text[256], want[256];
    size_t told = 0;

    (void)state;
    assert_int_equal(cli_registry_fill(&built_in, NULL), ERR_OK);
    for (int asked = 0; asked < REGISTRY_KIND_COUNT; asked++)
        for (int is = 0; pointers[asked] && is < REGISTRY_KIND_COUNT; is++)
            for (size_t i = 0; (e = registry_at(&built_in, is, i)); i++) {
                const struct config_env all = {.registry = &built_in,
                                               .cores = 4};
                struct problems problems = {0};
                struct run_config *c = NULL;
                const char *noun = registry_kind_name(is);

                if (registry_find(&built_in, asked, e->name))
                    continue;
                snprintf(text, sizeof(text), pointers[asked], e->name);
                snprintf(want, sizeof(want), "%s is %s %s", e->name,
                         strchr("aeiou", *noun) ? "an" : "a", noun);
                assert_int_equal(run_config_parse(&all, text, strlen(text), "/",
                                                  NULL, &c, &problems),
                                 ERR_INVAL);
                told += has_hint(&problems, want);
                if (!has_hint(&problems, want))
                    fail_msg("%s: no hint that %s", text, want);
                problems_deinit(&problems);
            }
    assert_true(told > 50);
}

/* A fault that an app finds beyond its schema is told like the rest, with its
 * place; where the schema has complained the app is not asked. */
static void config_apps_may_check_more_than_the_schema(void **state)
{
    static const char text[] =
        "{\"app\": {\"name\": \"toy\", \"data\": \"x\",\n"
        "  \"lambda\": 0.25}}";
    static const char both[] = "{\"app\": {\"name\": \"toy\", \"data\": 1,\n"
                               "  \"lambda\": 0.25}}";
    struct problems problems;
    struct run_config *c;

    (void)state;
    assert_int_equal(parse_sets(text, NULL, &c, &problems), ERR_INVAL);
    assert_int_equal(problems.errors, 1);
    assert_string_equal(problems.item[0].pointer, "/app/lambda");
    assert_string_equal(problems.item[0].expected, "no quarter");
    assert_int_equal(problems.item[0].place.line, 2);
    problems_deinit(&problems);
    assert_int_equal(parse_sets(both, NULL, &c, &problems), ERR_INVAL);
    assert_int_equal(problems.errors, 1);
    assert_string_equal(problems.item[0].pointer, "/app/data");
    problems_deinit(&problems);
}

/* Each part refuses what it cannot do, and says what it can. */
static void config_refusals_say_what_is_possible(void **state)
{
    (void)state;
    expect_problem("", "expected valid JSON");
    expect_problem("{" TOY ",}", "c:1:");
    expect_problem("[]", "expected an object, found []");
    expect_problem("{}", "/app: expected an object, found nothing");
    expect_problem("{\"app\": {}}",
                   "/app: expected \"name\", an app that is built in, "
                   "\"command\", a program");
    expect_problem("{\"app\": {\"name\": \"toi\", \"data\": \"d\"}}",
                   "/app/name: expected an app: toy, parts, found \"toi\"; did "
                   "you mean \"toy\"?");
    expect_problem("{\"app\": {\"name\": \"toy\", \"data\": \"d\", \"rank\": "
                   "1}}",
                   "/app/rank: expected one of the keys");
    expect_problem(
        "{" TOY ", \"cluster\": {\"nodes\": 65}}",
        "/cluster/nodes: expected a whole number from 1 to 64, found "
        "65");
    expect_problem("{" TOY ", \"cluster\": {\"workers\": 2}, \"ps\": "
                   "{\"consistency\": {\"barrier\": {\"k\": 3}}}}",
                   "/ps/consistency/barrier/k: expected at most the 2 workers");
    expect_problem("{" TOY ", \"ps\": {\"ring_bytes\": 65535}}",
                   "/ps/ring_bytes: expected 0 for none, or 65536 at least, "
                   "found 65535");
    expect_ring_bytes(0, true);
    expect_ring_bytes(RING_BYTES_MIN - 1, false);
    expect_ring_bytes(RING_BYTES_MIN, true);
    expect_ring_bytes(RING_BYTES_MAX, true);
    expect_ring_bytes(RING_BYTES_MAX + 1, false);
    expect_problem("{" TOY ", \"cluster\": {\"launcher\": \"pigeon\"}}",
                   "expected one of \"local\", \"ssh\", \"slurm\", \"mpi\", "
                   "\"kubernetes\"");
    expect_problem("{" TOY ", \"cluster\": {\"workers\": 0}}", "from 1 to 256");
    expect_problem("{" TOY ", \"tuner\": {\"searcher\": {\"plugin\": \"x\"}}}",
                   "a searcher that is built in");
    expect_problem("{" TOY ", \"tuner\": {\"searcher\": {\"plugin\": \"x\", "
                   "\"command\": [\"y\"]}}}",
                   "either \"plugin\", a shared object, or \"command\"");
    expect_problem("{" TOY ", \"tuner\": {\"searcher\": {}}}",
                   "either \"plugin\", a shared object, or \"command\"");
    expect_problem("{" TOY ", \"tuner\": {\"searcher\": 5}}",
                   "/tuner/searcher: expected a text, or an object");
    expect_problem("{" TOY ", \"tuner\": {\"strategy_settings\": {\"x\": 1}}}",
                   "/tuner/strategy_settings/x: expected one of the keys "
                   "windows");
    expect_problem("{" TOY ", \"tuner\": {\"max_trials\": 0}}",
                   "from 1 to 16384");
    expect_problem("{" TOY ", \"tuner\": {\"initial\": {\"learning_rate\": "
                   "5}}}",
                   "/tuner/initial/learning_rate: expected a number from 1e-05 "
                   "to 1, found 5");
    expect_problem("{" TOY ", \"stop\": {\"max_time\": \"soon\"}}",
                   "expected a duration such as \"10m\"");
    expect_problem("{" TOY ", \"memory\": {\"limit\": \"1k\"}}",
                   "expected a size such as \"8GiB\"");
    expect_problem("{" TOY ", \"name\": \"a\\nb\"}", "control characters");
    expect_problem("{" TOY ", \"tuner\": {\"searcher\": \"grid\", "
                   "\"searcher_settings\": {\"points\": 2000}}}",
                   "/tuner/searcher: expected a searcher that can search these "
                   "tunables: ");
    expect_problem("{" TOY ", \"tunables\": 5}", "/tunables: expected an "
                                                 "object");
}

/* Only loopback addresses with a port are listened on. */
static void config_listen_is_loopback(void **state)
{
    static const char *const good_ones[] = {"127.0.0.1:0", "localhost:65535",
                                            "[::1]:80", "127.1.2.3:8080"};
    static const char *const bad[] = {"0.0.0.0:80",    "127.0.0.1",
                                      "127.0.0.1:",    "127.0.0.1:65536",
                                      "127.0.0.1:-1",  "example.com:80",
                                      "[::]:80",       "127.evil.com:80",
                                      ":80",           "127.0.0.1:99999999999",
                                      "localhost.x:1", ""};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(good_ones) / sizeof(*good_ones); i++) {
        snprintf(text, sizeof(text), "{" TOY ", \"api\": {\"listen\": \"%s\"}}",
                 good_ones[i]);
        run_config_free(quiet_good(text));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        snprintf(text, sizeof(text), "{" TOY ", \"api\": {\"listen\": \"%s\"}}",
                 bad[i]);
        expect_problem(text, "/api/listen: expected a");
    }
}

/* Other addresses come with a certificate and its key, and only with both. */
static void config_listen_elsewhere_needs_tls(void **state)
{
    static const char tls[] = "{" TOY ", \"api\": {\"listen\": \"0.0.0.0:80\","
                              "\"tls\": {\"cert\": \"c.pem\", \"key\": "
                              "\"/k.pem\"}}}";
    struct run_config *c = quiet_good(tls);

    (void)state;
    assert_string_equal(c->listen, "0.0.0.0:80");
    assert_string_equal(c->tls_cert, "c.pem");
    assert_string_equal(c->tls_key, "/k.pem");
    run_config_free(c);
    expect_problem("{" TOY ", \"api\": {\"listen\": \"0.0.0.0:80\"}}",
                   "/api/listen: expected a loopback address");
    expect_problem("{" TOY ", \"api\": {\"tls\": {\"cert\": \"c.pem\"}}}",
                   "/api/tls: expected both");
    expect_problem("{" TOY ", \"api\": {\"tls\": {\"kye\": \"c.pem\"}}}",
                   "/api/tls/kye");
}

/* Values set from outside are put in before anything is checked: numbers,
 * texts, whole objects, by dotted path or pointer. */
static void config_sets_come_before_checks(void **state)
{
    struct option_list sets = {
        .len = 6,
        .item = {"stop.max_epochs=3", "/ps/consistency=ssp", "name=my run",
                 "tunables={\"learning_rate\": {}}",
                 "tunables.learning_rate.max=0.5", "stop.max_time=\"2m\""}};
    struct problems problems;
    struct run_config *c;

    (void)state;
    assert_int_equal(parse_sets("{" TOY ", \"stop\": {\"max_epochs\": -5}}",
                                &sets, &c, &problems),
                     ERR_OK);
    assert_int_equal(c->max_epochs, 3);
    assert_string_equal(c->consistency->name, "ssp");
    assert_string_equal(c->name, "my run");
    assert_true(c->space.tunable[0].max == 0.5);
    assert_true(c->max_time_s == 120);
    run_config_free(c);
    problems_deinit(&problems);
}

/* A wrong value that was set says so and claims no place in the file; a path
 * that leads nowhere is refused. */
static void config_wrong_sets_are_told(void **state)
{
    struct option_list sets = {
        .len = 4,
        .item = {"stop.max_epochs=none", "seed.x=1", "novalue", "=5"}};
    struct problems problems;
    struct run_config *c;
    char line[1024];

    (void)state;
    assert_int_equal(parse_sets("{" TOY ", \"seed\": 3}", &sets, &c, &problems),
                     ERR_INVAL);
    assert_int_equal(problems.errors, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(problems.item[i].place.line, 0);
        problem_text(&problems.item[i], "c", line, sizeof(line));
        assert_non_null(strstr(line, "--set"));
    }
    problems_deinit(&problems);
}

/* A metric is one of the application's task, which a setting may decide; where
 * nothing is known of that, its node will say. */
static void config_metric_is_one_of_the_task(void **state)
{
    struct run_config *c = quiet_good("{" TOY ", \"metric\": \"own\"}");

    (void)state;
    assert_string_equal(c->metric, "own");
    run_config_free(c);
    c = quiet_good("{" TOY "}");
    assert_null(c->metric);
    run_config_free(c);
    c = quiet_good("{\"app\": {\"name\": \"parts\", \"loss\": \"squared\"},"
                   " \"metric\": \"r2\"}");
    assert_string_equal(c->metric, "r2");
    assert_string_equal(json_string_value(json_at(c->effective, "/metric")),
                        "r2");
    run_config_free(c);
    expect_problem("{\"app\": {\"name\": \"parts\"}, \"metric\": \"r2\"}",
                   "/metric: expected a metric of classes: accuracy, "
                   "balanced_accuracy, macro_f1, log_loss, auc, found \"r2\"");
    expect_problem("{\"app\": {\"name\": \"parts\", \"loss\": \"squared\"},"
                   " \"metric\": \"auc\"}",
                   "a metric of numbers: rmse, mae, r2, found \"auc\"");
}

/* ---- tunables ------------------------------------------------------------ */

static const struct tunable *find(const struct run_config *c, const char *name)
{
    int i = space_find(&c->space, name);

    return i < 0 ? NULL : &c->space.tunable[i];
}

/* Without a section, the known tunables that can act are searched over the
 * contract's ranges. */
static void tunables_absent_are_those_that_act(void **state)
{
    struct run_config *c = quiet_good("{" TOY "}");
    const struct tunable *rate = find(c, "learning_rate");

    (void)state;
    assert_int_equal(c->space.len, 3);
    assert_int_equal(space_dims(&c->space), 3);
    assert_true(rate->min == 1e-5 && rate->max == 1 && rate->preset == 0.01);
    assert_int_equal(rate->scale, SCALE_LOG);
    assert_int_equal(find(c, "batch_size")->values_len, 3);
    assert_true(find(c, "momentum")->max == 0.99);
    run_config_free(c);
    c = quiet_good("{" TOY ", \"ps\": {\"consistency\": \"ssp\", "
                   "\"update_rule\": \"adagrad\"}}");
    assert_int_equal(c->space.len, 3);
    assert_non_null(find(c, "staleness"));
    assert_null(find(c, "momentum"));
    run_config_free(c);
    c = quiet_good("{\"app\": {\"name\": \"parts\"}}");
    assert_int_equal(c->space.len, 1);
    run_config_free(c);
}

/* "auto" is all that can act, what is off where nothing is listed too; the
 * run's own rule is among those it may have, and momentum acts under others;
 * what it came to is what the run goes on with. */
static void tunables_auto_are_all_that_act(void **state)
{
    struct run_config *c = quiet_good(
        "{" TOY ", \"ps\": {\"update_rule\": \"adagrad\"}, \"tunables\": "
        "\"auto\"}");
    const struct tunable *rule = find(c, "update_rule");
    char *text;

    (void)state;
    assert_int_equal(c->space.len, 5);
    assert_int_equal(space_dims(&c->space), 5);
    assert_true(find(c, "learning_rate")->min == 1e-5);
    assert_true(find(c, "momentum")->acts && find(c, "batch_size")->acts);
    assert_true(find(c, "warmup")->acts && find(c, "warmup")->max == 5);
    assert_true(find(c, "warmup")->preset == 0);
    assert_string_equal(tunable_text(rule, (size_t)rule->preset), "adagrad");
    text = json_write(c->effective, 0);
    run_config_free(c);
    c = quiet_good(text);
    assert_int_equal(space_dims(&c->space), 5);
    mem_free(text);
    run_config_free(c);
    c = quiet_good("{\"app\": {\"name\": \"parts\"}, \"tunables\": "
                   "\"auto\"}");
    assert_int_equal(space_dims(&c->space), 2);
    assert_true(find(c, "clip_norm")->preset == 10);
    assert_null(find(c, "dropout"));
    run_config_free(c);
    expect_problem("{" TOY ", \"tunables\": \"all\"}",
                   "/tunables: expected an object, or \"auto\", found \"all\"");
}

/* What can only hold a run back, or the settings say already, auto leaves out:
 * the cap between nodes, and the barrier's k. */
static void tunables_auto_leave_out_what_only_harms(void **state)
{
    struct run_config *c = quiet_good(
        "{" TOY ", \"cluster\": {\"nodes\": 2}, \"tunables\": \"auto\"}");

    (void)state;
    assert_null(find(c, "bandwidth_mbps"));
    assert_non_null(find(c, "warmup"));
    run_config_free(c);
    c = quiet_good("{" TOY ", \"ps\": {\"consistency\": {\"barrier\": "
                   "{\"k\": 3}}}, \"tunables\": \"auto\"}");
    assert_null(find(c, "k"));
    assert_true(find(c, "staleness")->acts);
    assert_string_equal(c->consistency->name, "barrier");
    run_config_free(c);
}

/* A known name needs to say only what differs from what is known. */
static void tunables_known_names_are_completed(void **state)
{
    struct run_config *c = quiet_good(
        "{" TOY ", \"tunables\": {\"learning_rate\": {\"min\": 0.1}, "
        "\"momentum\": {\"values\": [0.5, 0.95]}, \"batch_size\": {}}}");
    const struct tunable *rate = find(c, "learning_rate");

    (void)state;
    assert_true(rate->min == 0.1 && rate->max == 1);
    assert_int_equal(rate->scale, SCALE_LOG);
    /* The known default is out of range: the middle of the scale. */
    assert_true(fabs(rate->preset - sqrt(0.1)) < 1e-9);
    assert_int_equal(find(c, "momentum")->type, TUNABLE_FLOAT);
    assert_true(find(c, "momentum")->preset == 0.5);
    assert_true(find(c, "batch_size")->preset == 64);
    run_config_free(c);
}

/* Tunables that act but are not listed are pinned at a plain value: no
 * momentum, not the default of a search. */
static void tunables_unlisted_are_pinned_plainly(void **state)
{
    struct run_config *c =
        quiet_good("{" TOY ", \"tunables\": {\"learning_rate\": {}}}");

    (void)state;
    assert_int_equal(c->space.len, 3);
    assert_int_equal(space_dims(&c->space), 1);
    assert_true(find(c, "momentum")->fixed);
    assert_true(find(c, "momentum")->pinned == 0);
    assert_true(find(c, "batch_size")->pinned == 64);
    run_config_free(c);
    c = quiet_good("{" TOY ", \"tunables\": {}}");
    assert_int_equal(space_dims(&c->space), 0);
    run_config_free(c);
}

static void expect_pinned(const char *text, const char *name, const char *why)
{
    struct problems problems;
    struct run_config *c = good(text, &problems);
    const struct tunable *t = find(c, name);

    assert_int_equal(problems.len, 1);
    assert_true(problems.item[0].warning);
    if (!strstr(problems.item[0].expected, why))
        fail_msg("%s", problems.item[0].expected);
    assert_true(t->fixed && !t->acts);
    assert_true(t->pinned == t->preset);
    run_config_free(c);
    problems_deinit(&problems);
}

/* A tunable that cannot act is pinned at its default, and a warning says why.
 */
static void tunables_that_cannot_act_are_pinned(void **state)
{
    (void)state;
    expect_pinned("{" TOY ", \"tunables\": {\"bandwidth_mbps\": {}}}",
                  "bandwidth_mbps", "on one node");
    expect_pinned("{" TOY ", \"tunables\": {\"staleness\": {}}}", "staleness",
                  "under consistency bsp");
    expect_pinned("{" TOY ", \"tunables\": {\"dropout\": {}}}", "dropout",
                  "in app toy");
    expect_pinned("{" TOY ", \"cluster\": {\"workers\": 1}, \"ps\": "
                  "{\"consistency\": \"ssp\"}, \"tunables\": "
                  "{\"staleness\": {}}}",
                  "staleness", "with one worker");
    expect_pinned("{" TOY ", \"ps\": {\"update_rule\": \"adagrad\"}, "
                  "\"tunables\": {\"momentum\": {}}}",
                  "momentum", "under update rule adagrad");
    expect_pinned("{" TOY ", \"tunables\": {\"momentum\": {}, "
                  "\"update_rule\": {\"values\": [\"adam\", \"adagrad\"]}}}",
                  "momentum", "under the rules of update_rule");
    expect_pinned("{" TOY ", \"tunables\": {\"momentum\": {}, "
                  "\"update_rule\": {\"fixed\": \"adagrad\"}}}",
                  "momentum", "under the rules of update_rule");
    expect_pinned("{\"app\": {\"name\": \"parts\"}, \"tunables\": "
                  "{\"update_rule\": {}}}",
                  "update_rule", "in app parts");
    expect_pinned("{" TOY ", \"tunables\": {\"weight_decay\": {}}}",
                  "weight_decay", "in app toy");
    expect_pinned("{\"app\": {\"name\": \"parts\"}, \"tunables\": "
                  "{\"momentum\": {}}}",
                  "momentum", "in app parts");
    expect_pinned("{\"app\": {\"name\": \"parts\"}, \"ps\": "
                  "{\"consistency\": \"ssp\"}, \"tunables\": "
                  "{\"staleness\": {}}}",
                  "staleness", "in app parts");
    expect_pinned("{\"app\": {\"name\": \"parts\"}, \"tunables\": "
                  "{\"batch_size\": {}}}",
                  "batch_size", "no mini-batch");
    expect_pinned("{\"app\": {\"name\": \"toy\", \"data\": \"d\", \"clock\": "
                  "\"pass\"}, \"tunables\": {\"batch_size\": {}}}",
                  "batch_size", "no mini-batch");
}

/* A priority chooses among rows that go to other nodes: with one, a word. */
static void config_priority_on_one_node_is_warned_of(void **state)
{
    struct problems problems;
    struct run_config *c =
        good("{" TOY ", \"ps\": {\"priority\": \"random\"}}", &problems);

    (void)state;
    assert_int_equal(problems.len, 1);
    assert_true(problems.item[0].warning);
    assert_non_null(strstr(problems.item[0].expected, "between nodes"));
    run_config_free(c);
    problems_deinit(&problems);
    c = quiet_good("{" TOY ", \"cluster\": {\"nodes\": 2}, \"ps\": "
                   "{\"priority\": \"random\"}}");
    run_config_free(c);
}

/* Those of networks have ranges of their own, and are none where nobody lists
 * them. */
static void tunables_of_networks_are_completed(void **state)
{
    struct run_config *c = quiet_good(
        "{\"app\": {\"name\": \"parts\"}, \"tunables\": {\"clip_norm\": {}, "
        "\"dropout\": {\"max\": 0.5}}}");
    const struct tunable *clip = find(c, "clip_norm");
    const struct tunable *dropout = find(c, "dropout");

    (void)state;
    assert_true(clip->acts && !clip->fixed && clip->preset == 1);
    assert_true(dropout->acts && !dropout->fixed && dropout->preset == 0.2);
    assert_null(find(c, "label_smoothing"));
    assert_int_equal(space_dims(&c->space), 2);
    run_config_free(c);
}

/* An update rule that is searched starts from the run's, lets momentum act, and
 * has rules alone that a branch can change. */
static void tunables_update_rule_starts_from_the_runs(void **state)
{
    struct run_config *c = quiet_good(
        "{" TOY ", \"ps\": {\"update_rule\": \"adagrad\"}, \"tunables\": "
        "{\"update_rule\": {\"values\": [\"sgd\", \"adagrad\"]}, "
        "\"momentum\": {}}}");
    const struct tunable *rule = find(c, "update_rule");

    (void)state;
    assert_int_equal(rule->type, TUNABLE_CATEGORICAL);
    assert_true(rule->acts && !rule->fixed);
    assert_string_equal(tunable_text(rule, (size_t)rule->preset), "adagrad");
    assert_true(find(c, "momentum")->acts && !find(c, "momentum")->fixed);
    run_config_free(c);
    c = quiet_good("{" TOY ", \"tunables\": {\"update_rule\": {\"default\": "
                   "\"adagrad\", \"values\": [\"sgd\", \"adagrad\"]}}}");
    assert_string_equal(c->update_rule->name, "adagrad");
    run_config_free(c);
    expect_problem("{" TOY ", \"tunables\": {\"update_rule\": {\"values\": "
                   "[\"sgd\", \"add\"]}}}",
                   "/tunables/update_rule/values/1: expected one of sgd,");
    expect_problem("{" TOY ", \"tunables\": {\"update_rule\": {\"fixed\": "
                   "\"adarevision\"}}}",
                   "/tunables/update_rule/fixed: expected one of sgd,");
}

/* A bandwidth budget acts between nodes, in any app, and is searched. */
static void tunables_bandwidth_acts_between_nodes(void **state)
{
    struct run_config *c =
        quiet_good("{" TOY ", \"cluster\": {\"nodes\": 2}, \"tunables\": "
                   "{\"bandwidth_mbps\": {}}}");
    const struct tunable *t = find(c, "bandwidth_mbps");

    (void)state;
    assert_true(t->acts && !t->fixed && t->preset == 1000);
    assert_int_equal(space_dims(&c->space), 1);
    run_config_free(c);
}

/* `free` searches it all the same, without counting it; `fixed` is silent. */
static void tunables_free_and_fixed_are_not_warned_of(void **state)
{
    struct run_config *c = quiet_good(
        "{" TOY ", \"tunables\": {\"staleness\": {\"free\": true}, "
        "\"bandwidth_mbps\": {\"fixed\": 50}, \"learning_rate\": {}}}");
    size_t axis[TUNABLES_MAX];

    (void)state;
    assert_int_equal(space_dims(&c->space), 1);
    assert_int_equal(space_axes(&c->space, axis), 2);
    assert_false(find(c, "staleness")->fixed);
    assert_true(find(c, "bandwidth_mbps")->pinned == 50);
    run_config_free(c);
}

/* Known names keep their type and stay within what they can mean. */
static void tunables_known_names_have_hard_bounds(void **state)
{
    (void)state;
    expect_problem("{" TOY ", \"tunables\": {\"learning_rate\": {\"min\": -1, "
                   "\"max\": 1, \"scale\": \"linear\"}}}",
                   "/tunables/learning_rate/min: expected at least 0, found "
                   "-1");
    expect_problem("{" TOY ", \"tunables\": {\"momentum\": {\"fixed\": 1}}}",
                   "/tunables/momentum/fixed: expected at least 0 and below 1, "
                   "found 1");
    expect_problem("{" TOY ", \"tunables\": {\"batch_size\": {\"values\": "
                   "[0, 16]}}}",
                   "/tunables/batch_size/values/0: expected at least 1");
    expect_problem("{" TOY ", \"tunables\": {\"batch_size\": {\"type\": "
                   "\"float\"}}}",
                   "/tunables/batch_size/type: expected \"int\", found "
                   "\"float\"");
    expect_problem("{" TOY ", \"tunables\": {\"wdith\": {\"type\": \"int\", "
                   "\"min\": 0, \"max\": 1}}}",
                   "expected one of the tunables learning_rate, momentum, "
                   "batch_size, staleness, k, bandwidth_mbps, dropout, "
                   "label_smoothing, clip_norm, weight_decay, "
                   "update_rule, warmup, width, found "
                   "\"wdith\"; did you mean \"width\"?");
}

/* A name that nothing knows is searched where it is free, beside those that
 * act. */
static void tunables_free_ones_need_no_owner(void **state)
{
    struct run_config *c =
        quiet_good("{" TOY ", \"tunables\": {\"learning_rate\": {},"
                   " \"copy\": {\"type\": \"float\", \"min\": 1e-5,"
                   " \"max\": 1, \"scale\": \"log\", \"default\": 0.1,"
                   " \"free\": true}}}");

    (void)state;
    assert_false(find(c, "copy")->fixed);
    assert_false(find(c, "copy")->acts);
    run_config_free(c);
    expect_problem("{" TOY ", \"tunables\": {\"copy\": {\"type\": \"int\", "
                   "\"min\": 0, \"max\": 1, \"free\": false}}}",
                   "expected one of the tunables");
}

/* ---- the table ----------------------------------------------------------- */

/* The table's own defaults pass the table's checks, and the schema of the whole
 * accepts what the parser accepts (its conditional parts aside). */
static void config_full_schema_fits_the_parser(void **state)
{
    struct problems problems = {0};
    struct run_config *c = quiet_good(full);
    struct fault f = {0};
    json_t *schema;
    char *help;
    size_t n;

    (void)state;
    if (config_full_schema(&registry, &schema, &f))
        fail_msg("%s", f.text);
    schema_check(schema, c->effective, "", &problems);
    assert_int_equal(problems.len, 0);
    assert_non_null(
        json_at(schema, "/properties/app/oneOf/1/properties/clock"));
    assert_int_equal(
        json_array_size(json_at(schema, "/properties/tuner/allOf")), 4);
    assert_string_equal(
        json_string_value(json_at(schema, "/properties/ps/properties/"
                                          "update_rule/anyOf/0/enum/0")),
        "sgd");
    config_table(&n);
    help = config_help(config_table(&n), n);
    assert_non_null(strstr(help, "stop.max_epochs integer 1..1000000000"));
    mem_free(help);
    help = tunables_help();
    assert_non_null(strstr(help, "bandwidth_mbps"));
    mem_free(help);
    json_decref(schema);
    run_config_free(c);
}

/* With any allocation failing, parsing either works or says that memory ran
 * out; a wrong configuration is never accepted for it; nothing leaks. */
static void config_allocation_failures_leave_nothing(void **state)
{
    static const char bad[] = "{" TOY ", \"seed\": -1, \"zz\": 1, "
                              "\"tunables\": {\"staleness\": {}}}";
    struct option_list sets = {.len = 1, .item = {"stop.max_epochs=3"}};
    int64_t before = mem_outstanding();

    (void)state;
    for (int which = 0; which < 2; which++) {
        int failed = 1;

        for (int nth = 1; failed; nth++) {
            struct problems problems;
            struct run_config *c;
            enum err err;

            mem_fail_at(nth, 0);
            err = parse_sets(which ? bad : full, &sets, &c, &problems);
            failed = mem_failed();
            mem_fail_at(0, 0);
            if (which)
                assert_true(err == ERR_INVAL || (failed && err == ERR_NOMEM));
            else
                assert_true(err == ERR_OK || (failed && err == ERR_NOMEM));
            run_config_free(c);
            problems_deinit(&problems);
            assert_int_equal(mem_outstanding(), before);
        }
    }
}

static int prepare(void **state)
{
    (void)state;
    json_count_memory();
    config_fixture_fill(&registry);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_defaults_are_the_contracts),
        cmocka_unit_test(config_rule_follows_the_application),
        cmocka_unit_test_setup_teardown(config_rule_follows_the_data,
                                        scratch_make, scratch_remove),
        cmocka_unit_test(config_patience_is_the_users),
        cmocka_unit_test(config_every_field_is_read),
        cmocka_unit_test(config_effective_parses_to_itself),
        cmocka_unit_test(config_kept_schemas_say_the_same),
        cmocka_unit_test(config_schemas_leave_nothing),
        cmocka_unit_test(config_all_faults_at_once),
        cmocka_unit_test(config_names_of_another_kind_are_told),
        cmocka_unit_test(config_apps_may_check_more_than_the_schema),
        cmocka_unit_test(config_refusals_say_what_is_possible),
        cmocka_unit_test(config_listen_is_loopback),
        cmocka_unit_test(config_listen_elsewhere_needs_tls),
        cmocka_unit_test(config_sets_come_before_checks),
        cmocka_unit_test(config_wrong_sets_are_told),
        cmocka_unit_test(config_metric_is_one_of_the_task),
        cmocka_unit_test(tunables_absent_are_those_that_act),
        cmocka_unit_test(tunables_auto_are_all_that_act),
        cmocka_unit_test(tunables_auto_leave_out_what_only_harms),
        cmocka_unit_test(tunables_known_names_are_completed),
        cmocka_unit_test(tunables_unlisted_are_pinned_plainly),
        cmocka_unit_test(tunables_that_cannot_act_are_pinned),
        cmocka_unit_test(config_priority_on_one_node_is_warned_of),
        cmocka_unit_test(tunables_of_networks_are_completed),
        cmocka_unit_test(tunables_update_rule_starts_from_the_runs),
        cmocka_unit_test(tunables_bandwidth_acts_between_nodes),
        cmocka_unit_test(tunables_free_and_fixed_are_not_warned_of),
        cmocka_unit_test(tunables_known_names_have_hard_bounds),
        cmocka_unit_test(tunables_free_ones_need_no_owner),
        cmocka_unit_test(config_full_schema_fits_the_parser),
        cmocka_unit_test(config_allocation_failures_leave_nothing),
    };

    return cmocka_run_group_tests(tests, prepare, NULL);
}
