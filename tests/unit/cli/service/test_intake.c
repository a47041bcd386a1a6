/* Configurations that come over HTTP: what a service lets in. */
#include "apps/formats/data_root.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/service/intake.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/config_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static struct registry registry;
static char data[PATH_MAX];
static struct intake in;

static int setup(void **state)
{
    if (scratch_make(state))
        return -1;
    scratch_mkdir("data");
    scratch_mkdir("data/more");
    scratch_text("data/here.csv", "1,2\n");
    scratch_text("secret.csv", "3,4\n");
    if (!realpath(scratch_path("data"), data))
        return -1;
    in = (struct intake){.registry = &registry,
                         .data = data,
                         .workers = 2,
                         .workers_max = 4,
                         .memory = 1 << 20,
                         .memory_max = 4 << 20};
    return 0;
}

/* Number of errors; their pointers, with spaces between, in @pointers. */
static size_t faults_of(const char *body, char *pointers, size_t size)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    enum err err = intake_parse(&in, body, strlen(body), &c, &problems);
    size_t n = problems.errors, at = 0;

    pointers[0] = '\0';
    for (size_t i = 0; i < problems.len; i++)
        if (!problems.item[i].warning)
            at += (size_t)snprintf(pointers + at, size - at, "%s ",
                                   problems.item[i].pointer);
    assert_int_equal(err, n ? ERR_INVAL : ERR_OK);
    assert_int_equal(c == NULL, n > 0);
    run_config_free(c);
    problems_deinit(&problems);
    return n;
}

static void path_is(const char *path, bool fine)
{
    char body[3 * PATH_MAX], pointers[512];

    snprintf(body, sizeof(body),
             "{\"app\": {\"name\": \"toy\", \"data\": \"%s\"}}", path);
    if (faults_of(body, pointers, sizeof(pointers)) != !fine)
        fail_msg("%s: %s", path, pointers);
    if (!fine)
        assert_string_equal(pointers, "/app/data ");
}

/* Data are within the data folder, by whatever name; generated ones anywhere.
 */
static void intake_keeps_paths_to_the_data_folder(void **state)
{
    char path[2 * PATH_MAX];

    (void)state;
    assert_int_equal(symlink("/etc", scratch_path("data/out")), 0);
    assert_int_equal(symlink("more", scratch_path("data/in")), 0);
    path_is("here.csv", true);
    path_is("not-there-yet.csv", true);
    path_is("more/../here.csv", true);
    path_is("*.csv", true);
    path_is("in/x.csv", true);
    path_is("", true);
    path_is("gen:toy?x=1", true);
    /* Ones that are to fit into what a run gets, told before any is made. */
    path_is("gen:digits?samples=100&size=8", true);
    path_is("gen:digits?samples=1e8&size=256", false);
    path_is("gen:ratings?users=1e6&ratings=1e6", false);
    path_is("gen:bow?tokens=1e8", false);
    snprintf(path, sizeof(path), "%s/here.csv", data);
    path_is(path, true);
    path_is("../secret.csv", false);
    path_is("more/../../secret.csv", false);
    path_is("not-there/../../secret.csv", false);
    path_is("not-there/../here.csv", false); /* cannot be told */
    /* Patterns that match "..", or a link that leads out. */
    path_is("more/*.csv", true);
    path_is(".?/secret.csv", false);
    path_is("more/.*/../secret.csv", false);
    path_is("\\\\.\\\\./*.csv", false);
    path_is("more/x[/]y", false);
    path_is("o*/passwd", false);
    path_is("out/passwd", false);
    path_is("out", false);
    path_is("/etc/passwd", false);
    path_is("/", false);
    path_is("/nowhere/at/all", false);
    snprintf(path, sizeof(path), "%s2/here.csv", data);
    path_is(path, false);
}

/* Warnings that @app gets. */
static void warns(const char *app, const char *pointer, const char *word)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    char body[PATH_MAX];

    snprintf(body, sizeof(body), "{\"app\": {\"name\": \"toy\", %s}}", app);
    assert_int_equal(intake_parse(&in, body, strlen(body), &c, &problems),
                     ERR_OK);
    assert_int_equal(problems.len, pointer ? 1 : 0);
    if (pointer) {
        assert_true(problems.item[0].warning);
        assert_string_equal(problems.item[0].pointer, pointer);
        assert_non_null(strstr(problems.item[0].expected, word));
    }
    run_config_free(c);
    problems_deinit(&problems);
}

/* What a run would not find is said; it may come before the run does. */
static void intake_says_what_is_not_there(void **state)
{
    (void)state;
    warns("\"data\": \"here.csv\"", NULL, "");
    warns("\"data\": \"*.csv\"", NULL, "");
    warns("\"data\": \"nowhere.csv\"", "/app/data", "nowhere.csv");
    warns("\"data\": \"more/*.csv\"", "/app/data", "*.csv");
    warns("\"data\": \"gen:digits?samples=9\"", NULL, "");
    warns("\"data\": \"gen:nothing\"", "/app/data", "digits");
}

/* A pattern and a folder are looked into: a link in them that leads out is as
 * one that is named itself, and so is the service's own folder. */
static void intake_looks_into_patterns_and_folders(void **state)
{
    char secret[PATH_MAX], own[PATH_MAX];

    (void)state;
    scratch_mkdir("data/state");
    scratch_text("data/state/token", "1,2\n");
    assert_non_null(realpath(scratch_path("secret.csv"), secret));
    assert_non_null(realpath(scratch_path("data/state"), own));
    assert_int_equal(data_confine(data, own), ERR_OK);
    path_is("more", true);
    path_is("h*.csv", true);
    assert_int_equal(symlink(secret, scratch_path("data/more/link.csv")), 0);
    assert_int_equal(symlink("../here.csv", scratch_path("data/near.csv")), 0);
    path_is("near.csv", true);
    path_is("n*.csv", true);
    path_is("more", false);
    path_is("more/link.csv", false);
    path_is("more/li*.csv", false);
    path_is("state/token", false);
    path_is("state", false);
    path_is("state/*", false);
    assert_int_equal(data_confine(NULL, NULL), ERR_OK);
}

/* A run gets its share where it does not say, and no more than there is. */
static void intake_gives_shares(void **state)
{
    static const char plain[] =
        "{\"app\": {\"name\": \"toy\", \"data\": \"d\"}}";
    static const char own[] =
        "{\"app\": {\"name\": \"toy\", \"data\": \"d\"},"
        " \"cluster\": {\"workers\": 4}, \"memory\": {\"limit\": \"4MiB\"}}";
    static const char large[] =
        "{\"app\": {\"name\": \"toy\", \"data\": \"d\"},"
        " \"cluster\": {\"workers\": 5}, \"memory\": {\"limit\": 4194305}}";
    struct problems problems = {0};
    struct run_config *c = NULL;
    char pointers[512];

    (void)state;
    assert_int_equal(intake_parse(&in, plain, sizeof(plain) - 1, &c, &problems),
                     0);
    assert_int_equal(c->workers, 2);
    assert_int_equal(c->memory_limit, 1 << 20);
    assert_string_equal(c->folder, data);
    run_config_free(c);
    assert_int_equal(intake_parse(&in, own, sizeof(own) - 1, &c, &problems), 0);
    assert_int_equal(c->workers, 4);
    assert_int_equal(c->memory_limit, 4 << 20);
    run_config_free(c);
    problems_deinit(&problems);
    assert_int_equal(faults_of(large, pointers, sizeof(pointers)), 2);
    assert_string_equal(pointers, "/cluster/workers /memory/limit ");
    in.memory = in.memory_max = 0; /* not limited */
    assert_int_equal(faults_of(large, pointers, sizeof(pointers)), 1);
}

/* Workers of the cluster @cluster, each node's; 0: it is refused, at its
 * nodes. */
static unsigned workers_of(const char *cluster)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    unsigned workers = 0;
    char body[512];
    enum err err;

    snprintf(body, sizeof(body),
             "{\"app\": {\"name\": \"toy\", \"data\": \"*.csv\"},"
             " \"cluster\": {%s}}",
             cluster);
    err = intake_parse(&in, body, strlen(body), &c, &problems);
    if (!err)
        workers = c->workers;
    else
        assert_string_equal(problems.item[0].pointer, "/cluster/nodes");
    run_config_free(c);
    problems_deinit(&problems);
    return workers;
}

/* All nodes of a run share what there is. */
static void intake_counts_all_nodes(void **state)
{
    (void)state;
    assert_int_equal(workers_of("\"nodes\": 1"), 2);
    assert_int_equal(workers_of("\"nodes\": 2"), 1);
    assert_int_equal(workers_of("\"nodes\": 4"), 1);
    assert_int_equal(workers_of("\"nodes\": 5"), 0);
    assert_int_equal(workers_of("\"nodes\": 2, \"workers\": 2"), 2);
    assert_int_equal(workers_of("\"nodes\": 3, \"workers\": 2"), 0);
    assert_int_equal(workers_of("\"nodes\": 2, \"workers\": 3"), 0);
}

static void secret_is(const char *path, bool fine)
{
    char body[3 * PATH_MAX], pointers[512];
    size_t n;

    snprintf(body, sizeof(body),
             "{\"app\": {\"name\": \"toy\", \"data\": \"d\"}, \"hooks\": "
             "{\"url\": \"https://h.example/\", \"secret\": \"%s\"}}",
             path);
    n = faults_of(body, pointers, sizeof(pointers));
    if (n != !fine)
        fail_msg("%s: %s", path, pointers);
    if (!fine)
        assert_string_equal(pointers, "/hooks/secret ");
}

/* What events are signed with is data: a run could else learn, one guess after
 * the other, what the service's own files hold. */
static void intake_signs_with_data_alone(void **state)
{
    const struct option_list hosts = {.item = {"h.example"}, .len = 1};
    char own[PATH_MAX];

    (void)state;
    in.hook_hosts = &hosts;
    scratch_mkdir("data/state");
    scratch_text("data/state/token", "0123456789abcdef0123456789abcdef\n");
    scratch_text("data/key", "0123456789abcdef0123456789abcdef\n");
    assert_non_null(realpath(scratch_path("data/state"), own));
    assert_int_equal(data_confine(data, own), ERR_OK);
    secret_is("key", true);
    secret_is("not-there-yet", true);
    secret_is("state/token", false);
    secret_is("more/../state/token", false);
    assert_int_equal(symlink("state/token", scratch_path("data/link")), 0);
    secret_is("link", false);
    secret_is("../secret.csv", false);
    assert_int_equal(data_confine(NULL, NULL), ERR_OK);
}

/* A searcher that is a program is not even tried; all else that is wrong is
 * told along with it. */
static void intake_runs_no_programs(void **state)
{
    char body[2 * PATH_MAX], pointers[512];

    (void)state;
    snprintf(body, sizeof(body),
             "{\"app\": {\"name\": \"toy\", \"data\": \"../d\"}, \"sede\": 1,"
             " \"tuner\": {\"searcher\": {\"command\": [\"touch\", \"%s/ran\"]"
             "}}}",
             scratch_folder());
    assert_int_equal(faults_of(body, pointers, sizeof(pointers)), 3);
    assert_string_equal(pointers, "/app/data /sede /tuner/searcher ");
    assert_int_equal(access(scratch_path("ran"), F_OK), -1);
}

/* An app that is a program is not looked at unless the service allows it. */
static void intake_forbids_apps_of_others(void **state)
{
    static const char *const bodies[] = {
        "{\"app\": {\"command\": [\"true\"], \"folder\": 7}}",
        "{\"app\": {\"plugin\": \"libmine.so\"}}",
        "{\"app\": {\"name\": \"toy\"}, \"cluster\": {\"launcher\": "
        "\"slurm\"}}",
        "{\"app\": {\"name\": \"toy\"}, \"cluster\": {\"hosts\": [\"a\"]}}",
        "{\"app\": {\"name\": \"toy\"}, \"cluster\": {\"command\": "
        "\"/bin/x\"}}",
        "{\"app\": {\"name\": \"toy\"}, \"cluster\": {\"address\": "
        "\"10.0.0.1\"}}"};
    static const char *const pointers[] = {
        "/app/command",   "/app/plugin",      "/cluster/launcher",
        "/cluster/hosts", "/cluster/command", "/cluster/address"};
    struct run_config *c = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        struct problems problems = {0};
        struct response out = {0};

        assert_int_equal(
            intake_parse(&in, bodies[i], strlen(bodies[i]), &c, &problems),
            ERR_UNSUPPORTED);
        assert_int_equal(problems.errors, 1);
        assert_string_equal(problems.item[0].pointer, pointers[i]);
        assert_int_equal(problems.item[0].place.line, 1);
        intake_refuse(ERR_UNSUPPORTED, &problems, &out);
        assert_int_equal(out.status, 403);
        problems_deinit(&problems);
        response_deinit(&out);
    }
}

/* One that allows them takes them, and starts them in its data folder. */
static void intake_takes_programs_where_allowed(void **state)
{
    static const char body[] = "{\"app\": {\"command\": [\"true\"]}}";
    struct problems problems = {0};
    struct run_config *c = NULL;

    (void)state;
    in.programs = true;
    assert_int_equal(intake_parse(&in, body, strlen(body), &c, &problems),
                     ERR_OK);
    assert_string_equal(c->program_folder, data);
    run_config_free(c);
    problems_deinit(&problems);
}

/* The refusal has every error, with pointer, place and what was expected. */
static void intake_refusal_lists_every_fault(void **state)
{
    static const char body[] = "{\n\"app\": {\"name\": \"toy\", \"data\": 1},\n"
                               "\"sede\": 1}";
    struct problems problems = {0};
    struct run_config *c = NULL;
    struct response out = {0};
    json_t *json;

    (void)state;
    assert_int_equal(intake_parse(&in, body, sizeof(body) - 1, &c, &problems),
                     ERR_INVAL);
    intake_refuse(ERR_INVAL, &problems, &out);
    problems_deinit(&problems);
    assert_int_equal(out.status, 422);
    json = json_loadb(out.body, out.len, 0, NULL);
    assert_string_equal(json_string_value(json_at(json, "/code")),
                        "invalid_configuration");
    assert_int_equal(json_array_size(json_at(json, "/errors")), 2);
    assert_string_equal(json_string_value(json_at(json, "/errors/1/pointer")),
                        "/sede");
    assert_non_null(strstr(json_string_value(json_at(json, "/errors/1/detail")),
                           "line 3, column 1: expected"));
    json_decref(json);
    response_deinit(&out);
}

/* Whichever allocation fails, it is said so and nothing is left. */
static void intake_survives_want_of_memory(void **state)
{
    static const char body[] =
        "{\"app\": {\"name\": \"toy\", \"data\": \"d\"}}";
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (unsigned n = 1; failed; n++) {
        struct problems problems = {0};
        struct run_config *c = NULL;
        enum err err;

        mem_fail_at(n, 0);
        err = intake_parse(&in, body, sizeof(body) - 1, &c, &problems);
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
        WITH(intake_keeps_paths_to_the_data_folder),
        WITH(intake_says_what_is_not_there),
        WITH(intake_looks_into_patterns_and_folders),
        WITH(intake_gives_shares),
        WITH(intake_counts_all_nodes),
        WITH(intake_signs_with_data_alone),
        WITH(intake_runs_no_programs),
        WITH(intake_forbids_apps_of_others),
        WITH(intake_takes_programs_where_allowed),
        WITH(intake_refusal_lists_every_fault),
        WITH(intake_survives_want_of_memory),
    };

    json_count_memory();
    config_fixture_fill(&registry);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
