/* The description says what the table does, no more and no less. */
#include "api/routes/openapi.h"
#include "api/routes/routes.h"
#include "api/routes/stream_routes.h"
#include "api/service/service.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/http_fixture.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static struct http_fixture x;

static int setup(void **state)
{
    (void)state;
    http_fixture_init(&x);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    http_fixture_deinit(&x);
    return 0;
}

static const json_t *operation(const json_t *document,
                               const struct route *route)
{
    char path[128], method[16] = "";

    snprintf(path, sizeof(path), "%s%s",
             route->mount & ROUTE_API ? "/api/v1" : "", route->path);
    if (!path[0])
        strcpy(path, "/");
    for (size_t i = 0; route->method[i]; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    return json_object_get(
        json_object_get(json_object_get(document, "paths"), path), method);
}

static void check_params(const json_t *found, const struct route *route)
{
    size_t n = 0;

    for (const struct route_param *p = route->params; p && p->type != PARAM_END;
         p++, n++) {
        const json_t *o = json_array_get(found, n);
        char variable[64];
        bool in_path;

        snprintf(variable, sizeof(variable), "{%s}", p->name);
        in_path = strstr(route->path, variable) != NULL;
        assert_string_equal(json_string_value(json_object_get(o, "name")),
                            p->name);
        assert_string_equal(json_string_value(json_object_get(o, "in")),
                            in_path ? "path" : "query");
        assert_int_equal(json_is_true(json_object_get(o, "required")), in_path);
        assert_true(json_is_object(json_object_get(o, "schema")));
    }
    /* Headers: Idempotency-Key of writes but of bytes, whose place in the file
     * does the same; Last-Event-ID of streams. */
    n += (strcmp(route->method, "GET") != 0 && !route->command->body->media) ||
         route->handle == handle_events;
    assert_int_equal(json_array_size(found), n);
}

/* Whatever is not open to all names the role that it needs; what reads may need
 * no token. */
static void check_security(const json_t *found, const struct route *route)
{
    bool reads = strcmp(route->method, "GET") == 0;
    const char *role;

    if (route->role == ROLE_ANYBODY) {
        assert_true(json_is_array(found)); /* said, and none */
        assert_int_equal(json_array_size(found), 0);
        return;
    }
    role = json_text_at(found, "/0/token/0");
    assert_string_equal(role, reads ? "read" : "run");
    assert_int_equal(json_array_size(found), reads ? 2 : 1);
    assert_int_equal(json_object_size(json_array_get(found, 1)), 0);
}

/* Every route is there, with its parameters; writes with their body and the
 * token; ids are used once; nothing else is there. */
static void openapi_describes_the_table(void **state)
{
    json_t *document = http_fixture_get(x.view, "/api/v1/openapi.json", 200);
    json_t *ids = json_object(), *item, *paths;
    const struct route *all;
    const char *path;
    size_t routes = 0, operations = 0, n;

    (void)state;
    assert_string_equal(json_string_value(json_object_get(document, "openapi")),
                        "3.1.0");
    all = routes_all(&n);
    for (; routes < n; routes++) {
        const struct route *route = &all[routes];
        const json_t *o = operation(document, route);
        const char *id = json_string_value(json_object_get(o, "operationId"));

        if (!o || !id)
            fail_msg("%s %s", route->method, route->path);
        assert_null(json_object_get(ids, id));
        json_object_set_new(ids, id, json_true());
        assert_string_equal(json_string_value(json_object_get(o, "summary")),
                            route->summary);
        check_params(json_object_get(o, "parameters"), route);
        check_security(json_object_get(o, "security"), route);
        assert_int_equal(json_is_object(json_object_get(o, "requestBody")),
                         strcmp(route->method, "GET") != 0);
        assert_non_null(json_at(o, "/responses/default"));
    }
    paths = json_object_get(document, "paths");
    json_object_foreach(paths, path, item) operations += json_object_size(item);
    assert_int_equal(operations, routes);
    json_decref(ids);
    json_decref(document);
}

/* References lead somewhere. */
static void check_references(const json_t *document, const json_t *value)
{
    const char *name;
    json_t *child;
    size_t i;

    json_array_foreach(value, i, child) check_references(document, child);
    if (!json_is_object(value))
        return;
    json_object_foreach((json_t *)value, name, child)
    {
        if (strcmp(name, "$ref") == 0 &&
            !json_at(document, json_string_value(child) + 1))
            fail_msg("%s leads nowhere", json_string_value(child));
        check_references(document, child);
    }
}

static void openapi_references_lead_somewhere(void **state)
{
    json_t *document = http_fixture_get(x.view, "/openapi.json", 200);

    (void)state;
    check_references(document, document);
    json_decref(document);
}

/* It is written once: the second who asks gets the same bytes, and no memory is
 * asked for. */
static void openapi_is_written_once(void **state)
{
    struct response first = {0}, second = {0};

    (void)state;
    assert_true(service_respond(x.view, "GET", "/openapi.json", &first));
    mem_fail_at(1, 1);
    assert_true(service_respond(x.view, "GET", "/openapi.json", &second));
    mem_fail_at(0, 0);
    assert_int_equal(second.status, 200);
    assert_ptr_equal(second.body, first.body);
    response_deinit(&first);
    response_deinit(&second);
}

/* Without memory it is 503, and nothing is left but what is kept. */
static void openapi_without_memory_is_refused(void **state)
{
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (int64_t n = 1; failed; n += n < 200 ? 1 : 97) {
        struct response r = {0};

        mem_fail_at(n, 1);
        service_respond(x.view, "GET", "/openapi.json", &r);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(r.status, failed ? 503 : 200);
        response_deinit(&r);
        if (failed)
            assert_int_equal(mem_outstanding(), before);
    }
    assert_int_equal(mem_outstanding(), before + 1);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(openapi_describes_the_table),
        WITH(openapi_references_lead_somewhere),
        WITH(openapi_is_written_once),
        WITH(openapi_without_memory_is_refused),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
