#include "base/json/config.h"
#include "base/json/schema.h"
#include "base/mem.h"

#include "tests/unit/fixture/check.h"

#include <math.h>

static const struct config_field fields[] = {
    {.path = "name", .type = CONFIG_STRING, .help = "what to call it"},
    {.path = "app", .type = CONFIG_OBJECT, .required = true, .help = "app"},
    {.path = "app.name", .type = CONFIG_STRING, .required = true},
    {.path = "stop.max_epochs",
     .type = CONFIG_INT,
     .fallback = "100",
     .min = 1,
     .max = 1e6,
     .unit = "epochs",
     .help = "end after this many"},
    {.path = "stop.max_time", .type = CONFIG_DURATION, .min = 1, .max = 1e9},
    {.path = "memory.limit", .type = CONFIG_SIZE, .min = 1024, .max = INFINITY},
    {.path = "ps.priority",
     .type = CONFIG_STRING,
     .choices = "random|relative",
     .fallback = "\"relative\""},
    {.path = "ps.float16", .type = CONFIG_BOOL, .fallback = "false"},
    {.path = "searcher",
     .type = CONFIG_ANY,
     .schema = "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"object\", "
               "\"properties\": {\"plugin\": {\"type\": \"string\"}}}]}"},
    {.path = "list",
     .type = CONFIG_ANY,
     .schema = "{\"type\": \"array\", \"minItems\": 1, \"items\": {\"type\": "
               "\"number\", \"exclusiveMinimum\": 0}}"},
    {.path = "clock",
     .type = CONFIG_ANY,
     .schema = "{\"anyOf\": [{\"enum\": [\"pass\"]}, {\"type\": \"integer\", "
               "\"minimum\": 1}]}"},
};
enum { FIELDS = sizeof(fields) / sizeof(*fields) };

static json_t *load(const char *text)
{
    json_t *value = NULL;

    assert_int_equal(json_load(text, strlen(text), &value, NULL, NULL), ERR_OK);
    return value;
}

static json_t *make_schema(void)
{
    json_t *schema = NULL;
    struct fault f = {0};

    if (config_schema(fields, FIELDS, &schema, &f))
        fail_msg("%s", f.text);
    return schema;
}

/* Checks @text; the problems found are located in it. */
static struct problems check(const char *text)
{
    json_t *schema = make_schema(), *value = load(text);
    struct problems ps = {0};

    schema_check(schema, value, "", &ps);
    problems_locate(&ps, text, strlen(text));
    json_decref(value);
    json_decref(schema);
    return ps;
}

/* @text has exactly one problem, and its line of text has @want in it. */
static void expect_problem(const char *text, const char *want)
{
    struct problems ps = check(text);
    char line[1024] = "none";

    if (ps.len > 0)
        problem_text(&ps.item[0], "c.json", line, sizeof(line));
    if (ps.len != 1 || ps.errors != 1 || !strstr(line, want))
        fail_msg("%s: %zu problems, first: %s", text, ps.len, line);
    problems_deinit(&ps);
}

static void expect_good(const char *text)
{
    struct problems ps = check(text);

    if (ps.len > 0)
        fail_msg("%s: %s %s", text, ps.item[0].pointer, ps.item[0].expected);
    problems_deinit(&ps);
}

/* Everything a table allows is accepted. */
static void schema_good_values_pass(void **state)
{
    (void)state;
    expect_good("{\"app\": {\"name\": \"mf\"}}");
    expect_good("{\"app\": {\"name\": \"mf\"}, \"stop\": {\"max_epochs\": 1, "
                "\"max_time\": \"10m\"}}");
    expect_good("{\"app\": {\"name\": \"mf\"}, \"stop\": {\"max_epochs\": 2.0, "
                "\"max_time\": 7.5}, \"memory\": {\"limit\": \"8GiB\"}}");
    expect_good("{\"app\": {\"name\": \"mf\"}, \"searcher\": \"tpe\", "
                "\"list\": [1, 2.5]}");
    expect_good("{\"app\": {\"name\": \"mf\"}, \"searcher\": {\"plugin\": "
                "\"x.so\"}, \"ps\": {\"float16\": true, \"priority\": "
                "\"random\"}}");
}

/* Each kind of fault is told with what was expected and what was found. */
static void schema_faults_say_expected_and_found(void **state)
{
    (void)state;
    expect_problem("{}", "/app: expected an object, found nothing");
    expect_problem("{\"app\": {}}",
                   "/app/name: expected a text, found nothing");
    expect_problem("{\"app\": {\"name\": 3}}",
                   "/app/name: expected a text, found 3");
    expect_problem("[]", "(the whole): expected an object, found []");
    expect_problem(
        "{\"app\": {\"name\": \"a\"}, \"stop\": {\"max_epochs\": 0}}",
        "/stop/max_epochs: expected a whole number from 1 to "
        "1000000 (epochs), found 0");
    expect_problem(
        "{\"app\": {\"name\": \"a\"}, \"stop\": {\"max_epochs\": 1.5}}",
        "found 1.5");
    expect_problem(
        "{\"app\": {\"name\": \"a\"}, \"stop\": {\"max_time\": \"10 years\"}}",
        "expected a duration such as \"10m\"");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"stop\": {\"max_time\": "
                   "\"10ms\"}}",
                   "seconds, from 1 to 1000000000, found");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"memory\": {\"limit\": "
                   "\"1k ram\"}}",
                   "expected a size such as \"8GiB\"");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"ps\": {\"float16\": 1}}",
                   "expected true or false, found 1");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"searcher\": 7}",
                   "expected a text, or an object, found 7");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"clock\": \"pas\"}",
                   "found \"pas\"; did you mean \"pass\"?");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"clock\": 0}",
                   "/clock: expected \"pass\", or a whole number of at least "
                   "1, found 0");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"list\": []}",
                   "expected a list with a length of at least 1, found []");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"list\": [1, 0]}",
                   "/list/1: expected a number above 0, found 0");
}

/* Unknown keys and names are errors that say what may have been meant. */
static void schema_unknown_words_get_a_hint(void **state)
{
    (void)state;
    expect_problem(
        "{\"app\": {\"name\": \"a\"},\n \"stpo\": {}}",
        "c.json:2:2: /stpo: expected one of the keys name, app, "
        "stop, memory, ps, searcher, list, clock, found \"stpo\"; did you "
        "mean \"stop\"?");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"ps\": {\"priority\": "
                   "\"relativ\"}}",
                   "expected one of \"random\", \"relative\", found "
                   "\"relativ\"; did you mean \"relative\"?");
    expect_problem("{\"app\": {\"name\": \"a\"}, \"searcher\": {\"plugn\": "
                   "\"x\"}}",
                   "/searcher/plugn");
}

/* Each keyword holds exactly at its bound. */
static void schema_keywords_hold_at_their_bounds(void **state)
{
    static const struct {
        const char *schema, *good, *bad;
    } cases[] = {
        {"{\"minimum\": 1}", "1", "0.999"},
        {"{\"maximum\": 1}", "1", "1.001"},
        {"{\"exclusiveMinimum\": 1}", "1.001", "1"},
        {"{\"exclusiveMaximum\": 1}", "0.999", "1"},
        {"{\"minLength\": 2}", "\"ab\"", "\"a\""},
        {"{\"maxLength\": 2}", "\"ab\"", "\"abc\""},
        {"{\"minItems\": 1}", "[0]", "[]"},
        {"{\"maxItems\": 1}", "[0]", "[0, 0]"},
        {"{\"const\": \"x\"}", "\"x\"", "\"y\""},
        {"{\"enum\": [1, \"x\", null]}", "1.0", "2"},
        {"{\"type\": \"null\"}", "null", "0"},
        {"{\"type\": \"integer\"}", "3.0", "3.5"},
        {"{\"type\": [\"string\", \"null\"]}", "null", "1"},
        {"{\"additionalProperties\": {\"type\": \"string\"}}", "{\"a\": \"b\"}",
         "{\"a\": 1}"},
        {"{\"properties\": {}, \"additionalProperties\": true}", "{\"a\": 1}",
         NULL},
        {"{\"properties\": {}}", "{}", "{\"a\": 1}"},
        {"{\"format\": \"seconds\", \"maximum\": 60}", "\"1m\"", "\"1m1s\""},
        {"{\"format\": \"bytes\", \"minimum\": 1024}", "\"1k\"", "1023"},
        {"{\"items\": {\"maximum\": 1}}", "[1, 0]", "[0, 2]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int bad = 0; bad < 2; bad++) {
            const char *text = bad ? cases[i].bad : cases[i].good;
            struct problems ps = {0};
            json_t *schema, *value;

            if (!text)
                continue;
            schema = load(cases[i].schema);
            value = load(text);
            schema_check(schema, value, "", &ps);
            if (ps.errors != (size_t)bad)
                fail_msg("%s %s: %zu", cases[i].schema, text, ps.errors);
            problems_deinit(&ps);
            json_decref(value);
            json_decref(schema);
        }
}

/* Several faults are reported together, in the order of the text. */
static void schema_all_faults_at_once_in_order(void **state)
{
    struct problems ps = check("{\"zzz\": 1,\n"
                               " \"stop\": {\"max_time\": -1,\n"
                               "   \"max_epochs\": \"x\"},\n"
                               " \"app\": {\"name\": null}}");

    (void)state;
    assert_int_equal(ps.errors, 4);
    assert_string_equal(ps.item[0].pointer, "/zzz");
    assert_string_equal(ps.item[1].pointer, "/stop/max_time");
    assert_string_equal(ps.item[2].pointer, "/stop/max_epochs");
    assert_string_equal(ps.item[3].pointer, "/app/name");
    assert_int_equal(ps.item[2].place.line, 3);
    assert_int_equal(ps.item[2].place.column, 18);
    problems_deinit(&ps);
}

/* Defaults fill what is absent, in objects that are absent too, and change
 * nothing that is there; doing it again changes nothing. */
static void schema_complete_fills_defaults(void **state)
{
    json_t *schema = make_schema();
    json_t *value = load("{\"app\": {\"name\": \"a\"}, \"stop\": "
                         "{\"max_epochs\": 3}}");
    json_t *want = load("{\"app\": {\"name\": \"a\"}, \"stop\": "
                        "{\"max_epochs\": 3}, \"ps\": {\"priority\": "
                        "\"relative\", \"float16\": false}}");

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(schema_complete(schema, value), ERR_OK);
        assert_true(json_equal(value, want));
    }
    json_decref(want);
    json_decref(value);
    json_decref(schema);
}

/* Members come into the schema's order, others keep theirs behind; nothing is
 * lost, and inner objects stay the same objects. */
static void schema_order_is_the_tables(void **state)
{
    json_t *schema = make_schema();
    json_t *value = load("{\"z\": 1, \"ps\": {\"float16\": true, \"priority\": "
                         "\"random\"}, \"y\": 2, \"name\": \"n\"}");
    const json_t *ps = json_object_get(value, "ps");
    char *text;

    (void)state;
    assert_int_equal(schema_order(schema, value), ERR_OK);
    text = json_write(value, 0);
    assert_string_equal(text, "{\"name\":\"n\",\"ps\":{\"priority\":\"random\","
                              "\"float16\":true},\"z\":1,\"y\":2}");
    assert_ptr_equal(json_object_get(value, "ps"), ps);
    mem_free(text);
    json_decref(value);
    json_decref(schema);
}

/* What is in order already stays as it is, and what only looks so does not:
 * an outer object whose inner one is not, and unknown members between. */
static void schema_order_of_what_is_nearly_in_order(void **state)
{
    static const char *const cases[][2] = {
        {"{\"name\": 1, \"ps\": {\"priority\": 2, \"float16\": 3}, \"z\": 4}",
         "{\"name\":1,\"ps\":{\"priority\":2,\"float16\":3},\"z\":4}"},
        {"{\"name\": 1, \"ps\": {\"float16\": 3, \"priority\": 2}}",
         "{\"name\":1,\"ps\":{\"priority\":2,\"float16\":3}}"},
        {"{\"name\": 1, \"z\": 4, \"ps\": {}}",
         "{\"name\":1,\"ps\":{},\"z\":4}"},
        {"{\"z\": 4, \"y\": 5}", "{\"z\":4,\"y\":5}"},
        {"{}", "{}"},
    };
    json_t *schema = make_schema();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *value = load(cases[i][0]);
        char *text;

        assert_int_equal(schema_order(schema, value), ERR_OK);
        text = json_write(value, 0);
        assert_string_equal(text, cases[i][1]);
        mem_free(text);
        json_decref(value);
    }
    json_decref(schema);
}

/* Every default of the table passes the schema that the table makes. */
static void schema_defaults_are_valid(void **state)
{
    json_t *schema = make_schema();
    json_t *value = load("{\"app\": {\"name\": \"a\"}}");
    struct problems ps = {0};

    (void)state;
    assert_int_equal(schema_complete(schema, value), ERR_OK);
    schema_check(schema, value, "", &ps);
    assert_int_equal(ps.len, 0);
    json_decref(value);
    json_decref(schema);
}

/* Help lists every field with its default and range. */
static void config_help_lists_every_field(void **state)
{
    char *help = config_help(fields, FIELDS);

    (void)state;
    assert_non_null(help);
    for (size_t i = 0; i < FIELDS; i++)
        assert_non_null(strstr(help, fields[i].path));
    assert_non_null(strstr(help, "stop.max_epochs integer 1..1000000 epochs "
                                 "[100]"));
    assert_non_null(strstr(help, "ps.priority random|relative"));
    assert_non_null(strstr(help, "app object (required)"));
    assert_non_null(strstr(help, "memory.limit size >= 1KiB"));
    mem_free(help);
}

/* A malformed table is reported, not half used. */
static void config_schema_malformed_table_is_refused(void **state)
{
    static const struct config_field bad = {
        .path = "x", .type = CONFIG_INT, .fallback = "{"};
    json_t *schema = NULL;

    (void)state;
    assert_int_equal(config_schema(&bad, 1, &schema, NULL), ERR_FORMAT);
    assert_null(schema);
}

/* With any allocation failing, schema, completion and check either work or say
 * that memory ran out; nothing leaks. */
static void config_allocation_failures_leave_nothing(void **state)
{
    static const char text[] = "{\"app\": {\"name\": \"a\"}, \"zzz\": 1, "
                               "\"searcher\": 5}";
    int64_t before = mem_outstanding();
    int failed = 1;

    (void)state;
    for (int nth = 1; failed; nth++) {
        json_t *schema = NULL, *value = load(text), *list = NULL;
        struct problems ps = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = config_schema(fields, FIELDS, &schema, NULL);
        if (!err) {
            schema_check(schema, value, "", &ps);
            err = schema_complete(schema, value);
        }
        if (!err)
            err = schema_order(schema, value);
        if (!err)
            list = problems_to_json(&ps);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        assert_true(failed || (!err && ps.errors == 2 && list));
        assert_true(err || ps.errors + ps.no_memory > 0);
        json_decref(list);
        problems_deinit(&ps);
        json_decref(value);
        json_decref(schema);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* A text with more faults than anybody reads is refused as quickly as another:
 * so many are recorded, all are counted. */
static void problems_past_the_most_are_counted(void **state)
{
    struct problems ps = {0};

    (void)state;
    for (size_t i = 0; i < PROBLEMS_MAX; i++) {
        assert_non_null(problems_warn(&ps, "/w", "careful"));
        assert_non_null(problems_add(&ps, "/e", NULL, "another"));
    }
    assert_null(problems_warn(&ps, "/w", "careful"));
    assert_null(problems_add(&ps, "/e", NULL, "another"));
    assert_int_equal(ps.len, 2 * PROBLEMS_MAX);
    assert_int_equal(ps.recorded, PROBLEMS_MAX);
    assert_int_equal(ps.errors, PROBLEMS_MAX + 1);
    assert_false(ps.no_memory);
    problems_deinit(&ps);
}

/* Problems as JSON carry all their parts. */
static void problems_to_json_has_every_part(void **state)
{
    struct problems ps = check("{\"app\": {\"name\": \"a\"}, \"zzz\": 1}");
    json_t *list;

    (void)state;
    problems_warn(&ps, "/app", "careful with %s", "it");
    list = problems_to_json(&ps);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_at(list, "/0/pointer")), "/zzz");
    assert_int_equal(json_integer_value(json_at(list, "/0/column")), 24);
    assert_string_equal(json_string_value(json_at(list, "/0/severity")),
                        "error");
    assert_string_equal(json_string_value(json_at(list, "/1/severity")),
                        "warning");
    assert_int_equal(ps.errors, 1);
    json_decref(list);
    problems_deinit(&ps);
}

static int count_memory(void **state)
{
    (void)state;
    json_count_memory();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_good_values_pass),
        cmocka_unit_test(schema_faults_say_expected_and_found),
        cmocka_unit_test(schema_unknown_words_get_a_hint),
        cmocka_unit_test(schema_keywords_hold_at_their_bounds),
        cmocka_unit_test(schema_all_faults_at_once_in_order),
        cmocka_unit_test(schema_complete_fills_defaults),
        cmocka_unit_test(schema_order_is_the_tables),
        cmocka_unit_test(schema_order_of_what_is_nearly_in_order),
        cmocka_unit_test(schema_defaults_are_valid),
        cmocka_unit_test(config_help_lists_every_field),
        cmocka_unit_test(config_schema_malformed_table_is_refused),
        cmocka_unit_test(config_allocation_failures_leave_nothing),
        cmocka_unit_test(problems_past_the_most_are_counted),
        cmocka_unit_test(problems_to_json_has_every_part),
    };

    return cmocka_run_group_tests(tests, count_memory, NULL);
}
