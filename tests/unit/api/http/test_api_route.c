#include "api/http/route.h"
#include "base/json/json.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

/* Answers with which route and which parameters it was called with. */
static void handle(const struct route_call *call, struct response *out)
{
    const struct route_param *p = call->route->params;
    json_t *json = json_pack("{s:s}", "summary", call->route->summary);

    for (size_t i = 0; p && p[i].type != PARAM_END; i++) {
        const struct route_arg *arg = route_arg(call, p[i].name);

        assert_true(arg == &call->arg[i]);
        json_object_set_new(json, p[i].name,
                            json_pack("{s:b, s:s, s:I}", "given", arg->given,
                                      "text", arg->text ? arg->text : "",
                                      "number", (json_int_t)arg->number));
    }
    response_json(out, 200, json);
}

static const struct route_param params[] = {
    {.type = PARAM_ID, .name = "run", .help = "id"},
    {.type = PARAM_INT,
     .name = "size",
     .help = "size",
     .min = 0,
     .max = 10,
     .fallback = 7},
    {.type = PARAM_BOOL, .name = "live", .help = "live", .fallback = 1},
    {.type = PARAM_CHOICE,
     .name = "order",
     .help = "order",
     .choices = "asc|desc|a"},
    {.type = PARAM_TEXT, .name = "token", .help = "token"},
    {.type = PARAM_END}};

static const struct route table[] = {
    {"GET", "/things", "list_things", ROUTE_API, NULL, handle, "list",
     .answer = NULL},
    {"POST", "/things", "change_thing", ROUTE_API, NULL, handle, "add",
     .answer = NULL},
    {"GET", "/things/{run}", "get_thing", ROUTE_API, params, handle, "one",
     .answer = NULL},
    {"DELETE", "/things/{run}", "change_thing", ROUTE_API, params, handle,
     "remove", .answer = NULL},
    {"GET", "/both", "get_both", ROUTE_API | ROUTE_ROOT, NULL, handle, "both",
     .answer = NULL},
    {"GET", "", "get_page", ROUTE_ROOT, NULL, handle, "page", .answer = NULL},
    {"GET", "", "get_index", ROUTE_API, NULL, handle, "index", .answer = NULL},
};

static struct response out;

/* Answer to @method @target as JSON (the caller's), of status @status. */
static json_t *ask(const char *method, const char *target, int status)
{
    static struct request req;
    struct route_call call;
    json_t *json;

    response_deinit(&out);
    assert_true(request_parse(target, &req, &out));
    if (route_match(table, sizeof(table) / sizeof(table[0]), NULL, method, &req,
                    &call, &out))
        route_answer(&call, &out);
    if (out.status != status)
        fail_msg("%s %s: %d, not %d", method, target, out.status, status);
    json = json_loadb(out.body, out.len, 0, NULL);
    assert_non_null(json);
    return json;
}

static void assert_route(const char *method, const char *target,
                         const char *summary)
{
    json_t *json = ask(method, target, 200);

    assert_string_equal(json_string_value(json_object_get(json, "summary")),
                        summary);
    assert_string_equal(out.allow, "");
    json_decref(json);
}

/* A path and method lead to their route, below the mounts that it has. */
static void route_finds_by_path_and_method(void **state)
{
    (void)state;
    assert_route("GET", "/api/v1/things", "list");
    assert_route("HEAD", "/api/v1/things", "list");
    assert_route("POST", "/api/v1/things", "add");
    assert_route("GET", "/api/v1/things/a", "one");
    assert_route("DELETE", "/api/v1/things/a-1", "remove");
    assert_route("GET", "/api/v1/%74hings", "list");
    assert_route("GET", "/both", "both");
    assert_route("GET", "/api/v1/both", "both");
    assert_route("GET", "/", "page");
    assert_route("GET", "/api/v1", "index");
    assert_route("GET", "/api/v1/", "index");
}

/* Any other path is 404, whatever the method. */
static void route_unknown_paths_are_404(void **state)
{
    static const char *const targets[] = {
        "/things",
        "/api",
        "/api/v2/things",
        "/api/v1/thing",
        "/api/v1/things/",
        "/api/v1/things/a/",
        "/api/v1/things/a/b",
        "//",
        "/api/v1//things",
        "/api/v1/thingsx",
        "/API/v1/things",
        "/1/2/3/4/5/6/7/8/9/10",
        "/api/v1/both/x",
        "/api/v1/things%2fa",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        bool empty_id = strcmp(targets[i], "/api/v1/things/") == 0;
        json_t *json = ask("GET", targets[i], empty_id ? 400 : 404);

        if (!empty_id)
            assert_string_equal(
                json_string_value(json_object_get(json, "code")),
                "route_not_found");
        json_decref(json);
    }
    json_decref(ask("DELETE", "/api/v1/thing", 404));
}

/* A path that exists with other methods is 405 with exactly those. */
static void route_other_methods_are_405_with_allow(void **state)
{
    (void)state;
    json_decref(ask("DELETE", "/api/v1/things", 405));
    assert_string_equal(out.allow, "GET, HEAD, POST");
    json_decref(ask("POST", "/api/v1/things/a", 405));
    assert_string_equal(out.allow, "GET, HEAD, DELETE");
    json_decref(ask("get", "/", 405));
    assert_string_equal(out.allow, "GET, HEAD");
    json_decref(ask("OPTIONS", "/both", 405));
    assert_string_equal(out.allow, "GET, HEAD");
}

static json_int_t number(const json_t *json, const char *name)
{
    return json_integer_value(
        json_object_get(json_object_get(json, name), "number"));
}

/* Parameters arrive checked, those that are not given with their defaults. */
static void route_parameters_arrive_checked(void **state)
{
    json_t *json = ask("GET", "/api/v1/things/a", 200);

    (void)state;
    assert_int_equal(number(json, "size"), 7);
    assert_int_equal(number(json, "live"), 1);
    assert_int_equal(number(json, "order"), 0);
    assert_true(json_is_false(json_at(json, "/token/given")));
    assert_string_equal(json_string_value(json_at(json, "/run/text")), "a");
    json_decref(json);
    json = ask("GET", "/api/v1/things/a?size=0&live=false&order=a&token=%20x",
               200);
    assert_int_equal(number(json, "size"), 0);
    assert_int_equal(number(json, "live"), 0);
    assert_int_equal(number(json, "order"), 2);
    assert_string_equal(json_string_value(json_at(json, "/token/text")), " x");
    json_decref(json);
}

/* A parameter that is not of its type is refused, saying what was expected and
 * what was found. */
static void route_parameters_malformed_are_400(void **state)
{
    static const char *const queries[] = {"size=11",
                                          "size=-1",
                                          "size=-",
                                          "size=--1",
                                          "size=",
                                          "size=1a",
                                          "size=0000000000000000001",
                                          "live=1",
                                          "live=TRUE",
                                          "order=b",
                                          "order=",
                                          "order=asc|desc",
                                          "other=1",
                                          "run=a",
                                          "size=1&size=1"};
    char target[128];

    (void)state;
    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        json_t *json;

        snprintf(target, sizeof(target), "/api/v1/things/a?%s", queries[i]);
        json = ask("GET", target, 400);
        assert_int_equal(json_array_size(json_object_get(json, "errors")), 1);
        json_decref(json);
    }
    {
        json_t *json = ask("GET", "/api/v1/things/a?size=11", 400);

        assert_string_equal(
            json_string_value(json_at(json, "/errors/0/detail")),
            "expected a whole number from 0 to 10, found \"11\"");
        json_decref(json);
    }
}

/* A client's words are quoted only in bytes that any reader takes. */
static void route_quotes_are_printable(void **state)
{
    json_t *json =
        ask("GET", "/api/v1/things/a?order=%C3%A4%22%3Cb%3E&%C3%A4=1", 400);

    (void)state;
    for (size_t i = 0; i < out.len; i++)
        assert_true(out.body[i] == '\n' ||
                    (out.body[i] >= 0x20 && out.body[i] < 0x7f));
    assert_string_equal(json_string_value(json_at(json, "/errors/1/pointer")),
                        "/query/??");
    json_decref(json);
    response_deinit(&out);
}

/* The table as data has each route with where its parameters are and what they
 * may be. */
static void route_table_as_json(void **state)
{
    json_t *json = routes_to_json(table, sizeof(table) / sizeof(table[0]));

    (void)state;
    assert_int_equal(json_array_size(json), 7);
    assert_string_equal(json_string_value(json_at(json, "/2/path")),
                        "/api/v1/things/{run}");
    assert_string_equal(json_string_value(json_at(json, "/2/parameters/0/in")),
                        "path");
    assert_string_equal(json_string_value(json_at(json, "/2/parameters/1/in")),
                        "query");
    assert_int_equal(
        json_integer_value(json_at(json, "/2/parameters/1/maximum")), 10);
    assert_string_equal(
        json_string_value(json_at(json, "/2/parameters/3/choices")),
        "asc|desc|a");
    assert_string_equal(json_string_value(json_at(json, "/5/path")), "/");
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route_finds_by_path_and_method),
        cmocka_unit_test(route_unknown_paths_are_404),
        cmocka_unit_test(route_other_methods_are_405_with_allow),
        cmocka_unit_test(route_parameters_arrive_checked),
        cmocka_unit_test(route_parameters_malformed_are_400),
        cmocka_unit_test(route_quotes_are_printable),
        cmocka_unit_test(route_table_as_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
