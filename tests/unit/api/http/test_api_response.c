#include "api/http/response.h"
#include "api/http/value.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <math.h>

static void assert_value(json_t *value, const char *expected)
{
    char *text = json_write(value, 0);

    assert_string_equal(text, expected);
    mem_free(text);
    json_decref(value);
}

/* Times are RFC 3339 UTC to the millisecond, over leap days and year ends; what
 * is no time is null. */
static void value_time_is_rfc3339(void **state)
{
    (void)state;
    assert_value(value_time(0), "\"1970-01-01T00:00:00.000Z\"");
    assert_value(value_time(951782399.5), "\"2000-02-28T23:59:59.500Z\"");
    assert_value(value_time(951782400.0), "\"2000-02-29T00:00:00.000Z\"");
    assert_value(value_time(1798761599.9996), "\"2026-12-31T23:59:59.999Z\"");
    assert_value(value_time(253402300798.0), "\"9999-12-31T23:59:58.000Z\"");
    assert_value(value_time(253402300800.0), "null");
    assert_value(value_time(-1), "null");
    assert_value(value_time(NAN), "null");
    assert_value(value_time(INFINITY), "null");
}

/* Numbers that are not finite are texts, or null where they mean "not yet";
 * texts keep what is whole of them. */
static void value_numbers_and_texts(void **state)
{
    json_t *shared = json_integer(5), *own;

    (void)state;
    assert_value(value_number(0.1), "0.1");
    assert_value(value_number(NAN), "\"nan\"");
    assert_value(value_number(-INFINITY), "\"-inf\"");
    assert_value(value_number_or_null(NAN), "null");
    assert_value(value_number_or_null(INFINITY), "\"inf\"");
    assert_value(value_text(""), "\"\"");
    assert_value(value_text("a\xc3\xa4\xe2\x82"), "\"a\xc3\xa4\"");
    assert_value(value_text("\xff\xff\xff\xff\xff"), "\"\"");
    assert_value(value_text_or_null(""), "null");
    assert_value(value_own(NULL), "null");
    own = value_own(shared);
    assert_ptr_not_equal(own, shared);
    json_decref(shared);
    assert_value(own, "5");
}

/* A problem has what RFC 9457 asks for, a code, and every fault with its
 * pointer. */
static void problem_lists_its_faults(void **state)
{
    struct response_faults faults = {0};
    struct response r = {0};
    json_t *json;

    (void)state;
    response_fault_add(&faults, "/query/a", "expected %d", 5);
    response_fault_add(&faults, "/query/b", "quote \" and \x01");
    response_problem(&r, 400, "invalid_parameter", &faults, "two %s", "faults");
    assert_int_equal(r.status, 400);
    assert_string_equal(r.type, "application/problem+json");
    json = json_loadb(r.body, r.len, 0, NULL);
    assert_value(
        json, "{\"type\":\"about:blank\",\"title\":\"Bad Request\","
              "\"status\":400,\"code\":\"invalid_parameter\","
              "\"detail\":\"two faults\",\"errors\":["
              "{\"pointer\":\"/query/a\",\"detail\":\"expected 5\"},"
              "{\"pointer\":\"/query/b\",\"detail\":\"quote \\\" and ?\"}]}");
    response_deinit(&r);
}

/* More faults than a problem lists are counted, none overruns. */
static void problem_has_a_limit_of_faults(void **state)
{
    struct response_faults faults = {0};
    struct response r = {0};
    json_t *json;

    (void)state;
    for (int i = 0; i < RESPONSE_ERRORS_MAX + 5; i++)
        response_fault_add(&faults, "/query/a", "%0300d", i);
    assert_int_equal(faults.len, RESPONSE_ERRORS_MAX + 5);
    response_problem(&r, 400, "invalid_parameter", &faults, "many");
    json = json_loadb(r.body, r.len, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(json, "errors")),
                     RESPONSE_ERRORS_MAX);
    json_decref(json);
    response_deinit(&r);
}

/* A later answer takes the place of an earlier one, and leaks nothing. */
static void response_can_be_answered_again(void **state)
{
    struct response r = {0};
    int64_t before = mem_outstanding();

    (void)state;
    response_json(&r, 200, json_pack("{s:i}", "a", 1));
    response_problem(&r, 404, "run_not_found", NULL, "none");
    assert_int_equal(r.status, 404);
    response_static(&r, "text/plain", "hello", 5);
    assert_int_equal(r.status, 200);
    assert_null(r.owned);
    response_json(&r, 200, NULL);
    assert_int_equal(r.status, 503);
    json_decref(json_loadb(r.body, r.len, 0, NULL));
    response_deinit(&r);
    assert_int_equal(mem_outstanding(), before);
}

static const char *header(const struct response *r, const char *name)
{
    static struct response_header h[RESPONSE_HEADERS_MAX];
    size_t n = response_headers(r, h);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(h[i].name, name) == 0)
            return h[i].value;
    }
    return NULL;
}

/* Every answer has the security headers; a page may load from its own origin
 * only, data nothing at all; Allow and Connection come where they belong. */
static void response_headers_are_safe(void **state)
{
    struct response r = {0};

    (void)state;
    response_static(&r, "text/html", "x", 1);
    assert_null(strstr(header(&r, "Content-Security-Policy"), "'self'"));
    r.page = true;
    assert_non_null(strstr(header(&r, "Content-Security-Policy"),
                           "default-src 'none'; script-src 'self'"));
    assert_null(strstr(header(&r, "Content-Security-Policy"), "unsafe"));
    assert_non_null(strstr(header(&r, "Content-Security-Policy"),
                           "frame-ancestors 'none'"));
    assert_string_equal(header(&r, "X-Content-Type-Options"), "nosniff");
    assert_string_equal(header(&r, "Cache-Control"), "no-store");
    assert_null(header(&r, "Allow"));
    assert_null(header(&r, "Connection"));
    strcpy(r.allow, "GET, HEAD");
    r.close = true;
    assert_string_equal(header(&r, "Allow"), "GET, HEAD");
    assert_string_equal(header(&r, "Connection"), "close");
    response_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_time_is_rfc3339),
        cmocka_unit_test(value_numbers_and_texts),
        cmocka_unit_test(problem_lists_its_faults),
        cmocka_unit_test(problem_has_a_limit_of_faults),
        cmocka_unit_test(response_can_be_answered_again),
        cmocka_unit_test(response_headers_are_safe),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
