/* Programs of the user's own as the configuration names them. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/config/config.h"
#include "cli/config/config_table.h"
#include "cli/config/program.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/config_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct registry registry;
static const struct config_env env = {.registry = &registry, .cores = 4};

/* The folder has train.py, which may not be executed, run.sh, which may, and a
 * folder `code` with another of each. */
static int setup(void **state)
{
    if (scratch_make(state))
        return -1;
    scratch_mkdir("code");
    scratch_text("train.py", "");
    scratch_text("run.sh", "#!/bin/sh\n");
    scratch_text("code/my.net.py", "");
    scratch_text("code/go", "#!/bin/sh\n");
    setenv("PATH", "/usr/bin:/bin", 1);
    return chmod(scratch_path("run.sh"), 0700) |
           chmod(scratch_path("code/go"), 0700);
}

static enum err parse(const char *app, const char *rest,
                      struct run_config **out, struct problems *problems)
{
    char text[2048];

    snprintf(text, sizeof(text), "{\"app\": %s%s}", app, rest);
    memset(problems, 0, sizeof(*problems));
    *out = NULL;
    return run_config_parse(&env, text, strlen(text), scratch_folder(), NULL,
                            out, problems);
}

static struct run_config *good(const char *app, const char *rest)
{
    struct problems problems;
    struct run_config *c;
    char line[1024];

    if (parse(app, rest, &c, &problems) || problems.len)
        fail_msg("%s%s: %s", app, rest,
                 problem_text(&problems.item[0], "c", line, sizeof(line)));
    problems_deinit(&problems);
    return c;
}

/* @app has one problem, at @pointer, whose line has @want in it. */
static void bad(const char *app, const char *pointer, const char *want)
{
    struct problems problems;
    struct run_config *c;
    char line[1024] = "";

    assert_int_equal(parse(app, "", &c, &problems), ERR_INVAL);
    problem_text(&problems.item[0], "c", line, sizeof(line));
    if (problems.errors != 1 || !strstr(line, want) ||
        strcmp(problems.item[0].pointer, pointer) != 0)
        fail_msg("%zu problems, first at %s: %s", problems.errors,
                 problems.item[0].pointer, line);
    problems_deinit(&problems);
}

static void name_is(const char *app, const char *name)
{
    struct run_config *c = good(app, "");

    assert_string_equal(c->app_name, name);
    assert_string_equal(c->name, name);
    run_config_free(c);
}

/* The program is found in PATH or from its folder, the run is called as it. */
static void app_program_is_found(void **state)
{
    struct run_config *c = good("{\"command\": [\"sh\", \"train.py\"]}", "");

    (void)state;
    assert_true(config_is_program(c));
    assert_true(strcmp(c->program_path, "/usr/bin/sh") == 0 ||
                strcmp(c->program_path, "/bin/sh") == 0);
    assert_string_equal(c->program_folder, scratch_folder());
    assert_string_equal(c->name, "train");
    run_config_free(c);
    c = good("{\"command\": [\"./go\"], \"folder\": \"code\"}", "");
    assert_string_equal(c->program_path, scratch_path("code/go"));
    assert_string_equal(c->program_folder, scratch_path("code"));
    run_config_free(c);
}

/* It is called as the first argument that is a file, else as itself. */
static void app_program_has_a_name(void **state)
{
    (void)state;
    name_is("{\"command\": [\"sh\", \"-x\", \"train.py\", \"run.sh\"]}",
            "train");
    name_is("{\"command\": [\"sh\", \"code/my.net.py\"]}", "my.net");
    name_is("{\"command\": [\"./run.sh\", \"fast\"]}", "run");
    name_is("{\"command\": [\"sh\", \"-c\", \"exit\"]}", "sh");
    name_is("{\"command\": [\"sh\"], \"name\": \"my net\"}", "my net");
}

/* A program that cannot be started is named, with what may help. */
static void app_program_that_is_not_there_is_refused(void **state)
{
    (void)state;
    bad("{}", "/app", "\"command\", a program of your own");
    bad("{\"command\": []}", "/app/command", "a length from 1 to 60");
    bad("{\"command\": [\"\"]}", "/app/command/0", "the name of a program");
    bad("{\"command\": [\"none-of-these\"]}", "/app/command/0",
        "a program in PATH");
    bad("{\"command\": [\"run.sh\"]}", "/app/command/0",
        "did you mean \"./run.sh\"?");
    bad("{\"command\": [\"train.py\"]}", "/app/command/0",
        "[\"python3\", \"train.py\"]");
    bad("{\"command\": [\"./train.py\"]}", "/app/command/0",
        "[\"python3\", \"./train.py\"]");
    bad("{\"command\": [\"code/\"]}", "/app/command/0", "may be executed");
    bad("{\"command\": [\"sh\"], \"folder\": \"nowhere\"}", "/app/folder",
        "a folder that is there");
    bad("{\"command\": [\"sh\"], \"folder\": \"run.sh\"}", "/app/folder",
        "a folder that is there");
    bad("{\"command\": [\"sh\"], \"name\": \"toy\"}", "/app/name",
        "toy is built in");
    bad("{\"command\": [\"sh\"], \"name\": \"éééé"
        "ééééééééééé"
        "ééééééééééé"
        "éééééé\"}",
        "/app/name", "from 1 to 63");
    bad("{\"command\": [\"sh\"], \"depth\": 3}", "/app/depth", "depth");
    bad("{\"command\": [\"sh\"], \"settings\": 3}", "/app/settings", "object");
    bad("{\"command\": [\"sh\"], \"clock_timeout\": \"soon\"}",
        "/app/clock_timeout", "duration");
    bad("{\"name\": \"program\"}", "/app/name", "an app: toy");
    bad("{\"command\": [\"sh\"], \"plugin\": \"m.so\"}", "/app",
        "either \"command\"");
}

static const struct tunable *find(const struct space *s, const char *name)
{
    for (size_t i = 0; i < s->len; i++)
        if (strcmp(s->tunable[i].name, name) == 0)
            return &s->tunable[i];
    return NULL;
}

/* Tunables may have any name; known ones are completed; no rule or consistency
 * of ours decides whether they act, and none is added to those listed. */
static void app_program_has_tunables_of_its_own(void **state)
{
    static const char app[] = "{\"command\": [\"sh\"]}";
    struct run_config *c = good(app, ""); /* nothing is listed */

    (void)state;
    assert_int_equal(c->space.len, 2);
    assert_non_null(find(&c->space, "learning_rate"));
    assert_non_null(find(&c->space, "batch_size"));
    assert_int_equal(space_dims(&c->space), 2);
    run_config_free(c);
    c = good(app, ", \"tunables\": {\"dropout\": {\"type\": \"float\","
                  " \"min\": 0, \"max\": 0.6, \"default\": 0.1},"
                  " \"momentum\": {}, \"staleness\": {}, \"kind\": {"
                  "\"type\": \"categorical\", \"values\": [\"adam\", \"sgd\"]}}"
                  ", \"cluster\": {\"workers\": 1}");
    assert_int_equal(c->space.len, 4);
    assert_int_equal(space_dims(&c->space), 4);
    assert_null(find(&c->space, "learning_rate"));
    assert_float_equal(find(&c->space, "momentum")->max, 0.99, 1e-12);
    run_config_free(c);
}

/* Settings of the parameter server mean something to one program in a hundred,
 * and are in what it gets only where the user has set them. */
static void app_program_has_no_parameter_server(void **state)
{
    struct problems problems;
    struct run_config *c;

    (void)state;
    assert_int_equal(parse("{\"command\": [\"sh\"]}",
                           ", \"ps\": {\"update_rule\": \"adagrad\"}", &c,
                           &problems),
                     ERR_OK);
    assert_int_equal(problems.len, 1);
    assert_true(problems.item[0].warning);
    assert_string_equal(problems.item[0].pointer, "/ps");
    assert_non_null(json_at(c->effective, "/ps"));
    problems_deinit(&problems);
    run_config_free(c);
    c = good("{\"command\": [\"sh\"]}", "");
    assert_null(json_at(c->effective, "/ps"));
    run_config_free(c);
}

/* The configuration with its defaults filled in means the same: a resume reads
 * it. */
static void app_program_is_read_again(void **state)
{
    struct run_config
        *c = good(
            "{\"command\": [\"sh\", \"train.py\"], \"settings\": {\"n\": 2}}",
            ""),
        *again;
    struct problems problems = {0};
    char *text = json_write(c->effective, 0);

    (void)state;
    assert_int_equal(run_config_parse(&env, text, strlen(text),
                                      scratch_folder(), NULL, &again,
                                      &problems),
                     ERR_OK);
    assert_int_equal(problems.len, 0);
    assert_true(json_equal(c->effective, again->effective));
    assert_string_equal(json_string_value(json_at(c->effective, "/app/name")),
                        "train");
    assert_int_equal(
        json_integer_value(json_at(c->effective, "/app/settings/n")), 2);
    mem_free(text);
    run_config_free(again);
    run_config_free(c);
}

/* The printed schema has programs beside what is built in. */
static void app_schema_has_programs(void **state)
{
    json_t *schema = NULL, *one;
    bool found = false;
    size_t i;

    (void)state;
    assert_int_equal(config_full_schema(&registry, &schema, NULL), ERR_OK);
    json_array_foreach(json_at(schema, "/properties/app/oneOf"), i, one)
    {
        found |= json_at(one, "/properties/command/maxItems") != NULL;
        assert_null(json_at(one, "/properties/name/const/program"));
    }
    assert_true(found);
    json_decref(schema);
}

/* Whichever allocation fails, it is said so and nothing is left. */
static void app_program_survives_want_of_memory(void **state)
{
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (unsigned n = 1; failed; n++) {
        struct problems problems;
        struct run_config *c;
        enum err err;

        mem_fail_at(n, 0);
        err = parse("{\"command\": [\"sh\", \"train.py\"]}", "", &c, &problems);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || failed);
        run_config_free(c);
        problems_deinit(&problems);
        assert_int_equal(mem_outstanding(), before);
    }
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, scratch_remove)
    const struct CMUnitTest tests[] = {
        WITH(app_program_is_found),
        WITH(app_program_has_a_name),
        WITH(app_program_that_is_not_there_is_refused),
        WITH(app_program_has_tunables_of_its_own),
        WITH(app_program_has_no_parameter_server),
        WITH(app_program_is_read_again),
        WITH(app_schema_has_programs),
        WITH(app_program_survives_want_of_memory),
    };

    config_fixture_fill(&registry);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
