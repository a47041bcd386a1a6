#include "api/http/request.h"
#include "base/json/json.h"
#include "tests/unit/fixture/check.h"

#include <stdbool.h>
#include <stdio.h>

static struct request req;

/* Takes @target apart; it must be well-formed. */
static void parse(const char *target)
{
    struct response out = {0};

    if (!request_parse(target, &req, &out))
        fail_msg("%s: %s", target, out.body);
    assert_int_equal(out.status, 0);
}

/* Pointer at what is wrong with @target: "/path" or "/query". */
static const char *refused(const char *target)
{
    static char pointer[64];
    struct response out = {0};
    json_t *json;

    if (request_parse(target, &req, &out))
        fail_msg("%s is let through", target);
    assert_int_equal(out.status, 400);
    assert_true(out.close);
    json = json_loads(out.body, 0, NULL);
    snprintf(pointer, sizeof(pointer), "%s",
             json_string_value(json_at(json, "/errors/0/pointer")));
    json_decref(json);
    response_deinit(&out);
    return pointer;
}

/* Segments are what is between the slashes, empty ones included. */
static void request_path_to_segments(void **state)
{
    (void)state;
    parse("/");
    assert_int_equal(req.segments, 0);
    parse("/a/bc");
    assert_int_equal(req.segments, 2);
    assert_string_equal(req.segment[0], "a");
    assert_string_equal(req.segment[1], "bc");
    parse("/a/");
    assert_int_equal(req.segments, 2);
    assert_string_equal(req.segment[1], "");
    parse("//a?x=1");
    assert_int_equal(req.segments, 2);
    assert_string_equal(req.segment[0], "");
    parse("/1/2/3/4/5/6/7/8/9");
    assert_int_equal(req.segments, 9);
    assert_string_equal(req.segment[7], "8");
}

/* Codes are decoded exactly once, and a decoded slash divides nothing. */
static void request_decodes_once(void **state)
{
    (void)state;
    parse("/%61%2Fb/%252e?a%3d=%26b+c%2B&d=%C3%A4");
    assert_int_equal(req.segments, 2);
    assert_string_equal(req.segment[0], "a/b");
    assert_string_equal(req.segment[1], "%2e");
    assert_string_equal(request_query(&req, "a="), "&b c+");
    assert_string_equal(request_query(&req, "d"), "\xc3\xa4");
    parse("/a+b");
    assert_string_equal(req.segment[0], "a+b");
}

/* Parameters without value are empty, the first of equal names is found, empty
 * ones are passed over. */
static void request_query_to_pairs(void **state)
{
    (void)state;
    parse("/?a=1&&b&c=&a=2&=x");
    assert_int_equal(req.pairs, 5);
    assert_string_equal(request_query(&req, "a"), "1");
    assert_string_equal(request_query(&req, "b"), "");
    assert_string_equal(request_query(&req, "c"), "");
    assert_string_equal(request_query(&req, ""), "x");
    assert_null(request_query(&req, "d"));
    parse("/?");
    assert_int_equal(req.pairs, 0);
    parse("/?a=b=c?d/e");
    assert_string_equal(request_query(&req, "a"), "b=c?d/e");
}

/* Broken codes, control characters and bytes that are no UTF-8 are refused,
 * wherever they are. */
static void request_malformed_is_refused(void **state)
{
    static const char *const pieces[] = {"%",   "%4",     "%4g",       "%g4",
                                         "%00", "%0a",    "%1f",       "%7f",
                                         "%ff", "%c0%80", "%ed%a0%80", "%C3"};
    char target[64];

    (void)state;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        snprintf(target, sizeof(target), "/a%s", pieces[i]);
        assert_string_equal(refused(target), "/path");
        snprintf(target, sizeof(target), "/%s/b?c=d", pieces[i]);
        assert_string_equal(refused(target), "/path");
        snprintf(target, sizeof(target), "/a?b=%s", pieces[i]);
        assert_string_equal(refused(target), "/query");
        snprintf(target, sizeof(target), "/a?%s=b&c", pieces[i]);
        assert_string_equal(refused(target), "/query");
    }
}

/* As many parameters as there is room for, and no more. */
static void request_query_has_a_limit(void **state)
{
    char target[128] = "/?";

    (void)state;
    for (int i = 0; i < REQUEST_QUERY_MAX; i++)
        strcat(target, "a=b&");
    parse(target);
    assert_int_equal(req.pairs, REQUEST_QUERY_MAX);
    strcat(target, "a");
    assert_string_equal(refused(target), "/query");
}

/* The longest targets have room, whatever they are made of. */
static void request_longest_targets_fit(void **state)
{
    static const char *const pieces[] = {"/", "a",   "/a", "%41",
                                         "&", "&a=", "&a"};
    char target[HEAD_TARGET_MAX + 1];
    struct response out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
        for (size_t query = 0; query < 2; query++) {
            size_t n = query ? 2 : 1, len = strlen(pieces[i]);

            strcpy(target, query ? "/?" : "/");
            for (; n + len < sizeof(target); n += len)
                strcpy(target + n, pieces[i]);
            if (!request_parse(target, &req, &out))
                assert_int_equal(out.status, 400);
            response_deinit(&out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_path_to_segments),
        cmocka_unit_test(request_decodes_once),
        cmocka_unit_test(request_query_to_pairs),
        cmocka_unit_test(request_malformed_is_refused),
        cmocka_unit_test(request_query_has_a_limit),
        cmocka_unit_test(request_longest_targets_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
