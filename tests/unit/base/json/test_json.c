#include "base/json/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include "tests/unit/fixture/check.h"

#include <float.h>
#include <math.h>

static json_t *load(const char *text)
{
    json_t *value = NULL;

    assert_int_equal(json_load(text, strlen(text), &value, NULL, NULL), ERR_OK);
    return value;
}

static void expect_refused(const char *text, unsigned line, unsigned column)
{
    struct json_place place;
    struct fault f;
    json_t *value = NULL;

    assert_int_equal(json_load(text, strlen(text), &value, &place, &f),
                     ERR_FORMAT);
    assert_null(value);
    assert_int_equal(place.line, line);
    assert_in_range(place.column, column > 3 ? column - 3 : 1, column + 3);
    assert_non_null(strstr(f.text, "line"));
}

/* Malformed text is refused with the line and (about) the column. */
static void json_load_malformed_gives_place(void **state)
{
    (void)state;
    expect_refused("", 1, 1);
    expect_refused("{\n  \"a\": 1,\n  \"b\" 2\n}", 3, 7);
    expect_refused("{\"a\": 1} x", 1, 10);
    expect_refused("[1, 2", 1, 5);
    expect_refused("{\n\"a\": 1,\n\"a\": 2}", 3, 4);
    expect_refused("nul", 1, 3);
    expect_refused("[1e999]", 1, 6);
}

/* Text without an end is read by its length alone. */
static void json_load_reads_only_its_length(void **state)
{
    json_t *value;

    (void)state;
    assert_int_equal(json_load("[1]garbage", 3, &value, NULL, NULL), ERR_OK);
    assert_int_equal(json_array_size(value), 1);
    json_decref(value);
}

/* JSON_DEPTH_MAX levels pass, one more is refused where it opens; brackets in
 * strings do not count. */
static void json_load_depth_is_bounded(void **state)
{
    char text[4 * JSON_DEPTH_MAX];
    struct json_place place;
    json_t *value;
    size_t n = JSON_DEPTH_MAX;

    (void)state;
    memset(text, '[', n);
    memset(text + n, ']', n);
    assert_int_equal(json_load(text, 2 * n, &value, NULL, NULL), ERR_OK);
    json_decref(value);
    memset(text, '[', n + 1);
    memset(text + n + 1, ']', n + 1);
    assert_int_equal(json_load(text, 2 * n + 2, &value, &place, NULL),
                     ERR_FORMAT);
    assert_int_equal(place.column, n + 1);
    memset(text, '[', 3 * n);
    text[0] = '"';
    text[1] = '\\';
    text[2] = '"';
    text[3 * n - 1] = '"';
    assert_int_equal(json_load(text, 3 * n, &value, NULL, NULL), ERR_OK);
    json_decref(value);
}

/* A text longer than JSON_TEXT_MAX is refused before it is read. */
static void json_load_length_is_bounded(void **state)
{
    char *text = mem_calloc(JSON_TEXT_MAX + 1, 1);
    json_t *value;

    (void)state;
    assert_non_null(text);
    assert_int_equal(json_load(text, JSON_TEXT_MAX + 1, &value, NULL, NULL),
                     ERR_LIMIT);
    mem_free(text);
}

/* A member that found no memory takes the whole with it. */
static void json_whole_is_nothing_where_a_member_is_lost(void **state)
{
    int64_t before = mem_outstanding();
    json_t *o = json_object(), *value;
    int failed = 0;

    (void)state;
    failed |= json_object_set_new(o, "a", json_integer(1));
    assert_ptr_equal(json_whole(o, failed), o);
    value = json_string("b");
    mem_fail_at(1, 0);
    failed |= json_object_set_new(o, "b", value);
    mem_fail_at(0, 0);
    assert_null(json_whole(o, failed));
    assert_null(json_whole(NULL, 0));
    assert_int_equal(mem_outstanding(), before);
}

/* A copy is whole and in the same order, or none, whichever allocation fails,
 * once or from there on for ever. */
static void json_copies_are_whole_or_none(void **state)
{
    static const char text[] =
        "{\"b\": [1, 2.5, \"x\", [], {\"d\": true}], \"a\": {\"c\": null},"
        " \"f\": 1, \"g\": 2, \"h\": 3, \"i\": 4, \"j\": 5, \"k\": 6, \"l\": "
        "7}";
    json_t *value,
        *(*copies[])(const json_t *) = {json_copied, json_copied_members};
    int64_t before;

    (void)state;
    assert_int_equal(json_load(text, strlen(text), &value, NULL, NULL), ERR_OK);
    before = mem_outstanding();
    for (int i = 0; i < 4; i++) {
        int failed = 1;

        for (int64_t nth = 1; failed; nth++) {
            json_t *copy;

            mem_fail_at(nth, i / 2);
            copy = copies[i % 2](value);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(!copy, failed);
            if (copy) {
                char *out = json_write(copy, 0), *in = json_write(value, 0);

                assert_string_equal(out, in);
                mem_free(out);
                mem_free(in);
            }
            json_decref(copy);
            assert_int_equal(mem_outstanding(), before);
        }
    }
    json_decref(value);
    assert_null(json_copied(NULL));
}

/* Numbers and words at every place of a piece, and allocations that fail from
 * the N-th on for ever: refused, where jansson by itself asserts. */
static void json_without_memory_for_ever_is_refused(void **state)
{
    int64_t before = mem_outstanding();
    char text[4096], *p = text;
    json_t *value;

    (void)state;
    *p++ = '[';
    for (int i = 0; i < 60; i++)
        p += sprintf(p, "%d.%d, true, {\"a%d\": [null, %d, \"%0*d\"]}, ", i,
                     i * 7919, i, i, i % 40 + 1, i);
    strcpy(p, "[[[[[[[[1]]]]]]]]]");
    for (int forever = 0; forever < 2; forever++) {
        int failed = 1;

        for (int64_t nth = 1; failed; nth++) {
            struct fault f = {0};
            enum err err;

            mem_fail_at(nth, forever);
            err = json_load(text, strlen(text), &value, NULL, &f);
            failed = mem_failed();
            mem_fail_at(0, 0);
            assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
            if (!err)
                json_decref(value);
            assert_int_equal(mem_outstanding(), before);
        }
    }
}

/* Each allocation of load, write and put failing in turn gives ERR_NOMEM or
 * NULL and leaves nothing behind. */
static void json_allocation_failures_leave_nothing(void **state)
{
    static const char text[] = "{\"a\": [1, 2.5, \"x\"], \"b\": {\"c\": null}}";
    int64_t before = mem_outstanding();
    int failed = 1;

    (void)state;
    for (int nth = 1; failed; nth++) {
        json_t *value = NULL;
        char *out = NULL;
        enum err err;

        mem_fail_at(nth, 0);
        err = json_load(text, sizeof(text) - 1, &value, NULL, NULL);
        if (!err)
            err = json_put(value, "/x/y/z", json_string("deep"));
        if (!err)
            out = json_write(value, 2);
        if (!out)
            err = ERR_NOMEM;
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        mem_free(out);
        json_decref(value);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* Any number is written so that it reads back to the last bit, in as few digits
 * as people would use. */
static void json_write_number_reads_back(void **state)
{
    static const double special[] = {0.1,     1e-5, 100,     0.0,    1e22,
                                     DBL_MAX, 1e21, DBL_MIN, -0.001, 5e-324};
    char text[JSON_NUMBER_MAX];
    struct rng rng;

    (void)state;
    json_write_number(0.1, text);
    assert_string_equal(text, "0.1");
    json_write_number(1e-5, text);
    assert_string_equal(text, "1e-05");
    json_write_number(100, text);
    assert_string_equal(text, "100.0");
    rng_init(&rng, 3);
    for (int i = 0; i < 10000; i++) {
        double x = i < 10 ? special[i] : ldexp(rng_normal(&rng), i % 600 - 300);
        json_t *value;

        json_write_number(x, text);
        value = load(text);
        assert_true(json_is_real(value));
        assert_true(json_real_value(value) == x);
        json_decref(value);
    }
}

/* Written text reads back equal, on one line and indented. */
static void json_write_reads_back_equal(void **state)
{
    static const char *const texts[] = {
        "{\"z\": 1, \"a\": {\"x\": [], \"y\": {}}, \"b\": [1, [2, {\"k\": "
        "\"\\u0001\\n\\\"\\\\ \\u00e9\\ud83d\\ude00\"}]]}",
        "[true, false, null, -3, 0.25]", "\"\"", "17"};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (unsigned indent = 0; indent < 5; indent += 2) {
            json_t *value = load(texts[i]), *again;
            char *out = json_write(value, indent);

            assert_non_null(out);
            assert_true(indent > 0 || !strchr(out, '\n'));
            again = load(out);
            assert_true(json_equal(value, again));
            json_decref(again);
            json_decref(value);
            mem_free(out);
        }
}

/* Keys keep their order, and the layout is the one people write. */
static void json_write_layout_is_stable(void **state)
{
    json_t *value = load("{\"b\":1,\"a\":{\"c\":[1,2]},\"d\":{}}");
    char *out = json_write(value, 2);

    (void)state;
    assert_string_equal(out,
                        "{\n  \"b\": 1,\n  \"a\": {\n    \"c\": [1, 2]\n  },\n"
                        "  \"d\": {}\n}");
    mem_free(out);
    json_decref(value);
}

/* Non-finite numbers survive as strings; other strings are no numbers. */
static void json_numbers_non_finite_are_strings(void **state)
{
    static const double numbers[] = {INFINITY, -INFINITY, 2.5};
    double x;
    json_t *value;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        value = json_of_number(numbers[i]);
        assert_true(json_to_number(value, &x));
        assert_true(x == numbers[i]);
        json_decref(value);
    }
    value = json_of_number(NAN);
    assert_string_equal(json_string_value(value), "nan");
    assert_true(json_to_number(value, &x) && isnan(x));
    json_decref(value);
    value = load("[\"Infinity\", \"1\", null, true]");
    assert_true(json_to_number(json_array_get(value, 0), &x) && isinf(x));
    for (size_t i = 1; i < 4; i++)
        assert_false(json_to_number(json_array_get(value, i), &x));
    assert_false(json_to_number(NULL, &x));
    json_decref(value);
}

/* Members of an answer are read whatever it is: what is missing, or of another
 * type, is "" or NAN. */
static void json_members_of_answers(void **state)
{
    static const char text[] =
        "{\"a\": {\"s\": \"x\", \"n\": 2.5, \"i\": \"inf\"},"
        " \"t\": \"2026-11-21T03:40:12.25Z\","
        " \"w\": \"2026-11-21T03:40:12Z\","
        " \"z\": \"21 November\", \"none\": null}";
    json_t *json = NULL;

    (void)state;
    assert_int_equal(json_load(text, sizeof(text) - 1, &json, NULL, NULL),
                     ERR_OK);
    assert_string_equal(json_text_at(json, "/a/s"), "x");
    assert_string_equal(json_text_at(json, "/a/n"), "");
    assert_string_equal(json_text_at(json, "/b"), "");
    assert_string_equal(json_text_at(NULL, "/a"), "");
    assert_true(json_number_at(json, "/a/n") == 2.5);
    assert_true(json_number_at(json, "/a/i") == INFINITY);
    assert_true(isnan(json_number_at(json, "/a/s")));
    assert_true(isnan(json_number_at(json, "/none")));
    assert_true(isnan(json_number_at(NULL, "/a")));
    assert_true(json_time_at(json, "/t") == 1795232412.25);
    assert_true(json_time_at(json, "/w") == 1795232412);
    assert_true(isnan(json_time_at(json, "/z")));
    assert_true(isnan(json_time_at(json, "/none")));
    json_decref(json);
}

/* Pointers lead to values as in RFC 6901, escapes included. */
static void json_at_follows_rfc_6901(void **state)
{
    json_t *root = load("{\"a\": {\"b\": [10, 20]}, \"x/y\": 1, \"m~n\": 2, "
                        "\"\": 3, \"01\": 4}");

    (void)state;
    assert_ptr_equal(json_at(root, ""), root);
    assert_int_equal(json_integer_value(json_at(root, "/a/b/1")), 20);
    assert_int_equal(json_integer_value(json_at(root, "/x~1y")), 1);
    assert_int_equal(json_integer_value(json_at(root, "/m~0n")), 2);
    assert_int_equal(json_integer_value(json_at(root, "/")), 3);
    assert_int_equal(json_integer_value(json_at(root, "/01")), 4);
    assert_null(json_at(root, "/a/b/2"));
    assert_null(json_at(root, "/a/b/01"));
    assert_null(json_at(root, "/a/b/-"));
    assert_null(json_at(root, "/a/b/0/c"));
    assert_null(json_at(root, "a"));
    assert_null(json_at(root, "/a~2"));
    json_decref(root);
}

/* A token pushed is the token that comes out, whatever is in it; a pointer that
 * gets too long is cut, never overrun. */
static void json_pointer_push_and_next_agree(void **state)
{
    char pointer[JSON_POINTER_MAX] = "", token[JSON_POINTER_MAX];
    const char *at = pointer;

    (void)state;
    json_pointer_push(pointer, "a/b~c");
    json_pointer_push_index(pointer, 7);
    assert_string_equal(pointer, "/a~1b~0c/7");
    assert_true(json_pointer_next(&at, token));
    assert_string_equal(token, "a/b~c");
    assert_true(json_pointer_next(&at, token));
    assert_string_equal(token, "7");
    assert_false(json_pointer_next(&at, token));
    json_pointer_cut(pointer, 8);
    assert_string_equal(pointer, "/a~1b~0c");
    assert_int_equal(json_pointer_push(pointer, "x"), 8);
    json_pointer_cut(pointer, 0);
    assert_string_equal(pointer, "");
    for (int i = 0; i < 1000; i++)
        json_pointer_push(pointer, "~~~");
    assert_true(strlen(pointer) < JSON_POINTER_MAX);
}

/* Putting replaces, appends and makes the objects on the way; through a number,
 * beyond an array's end, at the root it is refused and changes nothing. */
static void json_put_makes_the_way(void **state)
{
    json_t *root = load("{\"a\": [1, 2], \"n\": 5}"), *want;

    (void)state;
    assert_int_equal(json_put(root, "/a/0", json_integer(9)), ERR_OK);
    assert_int_equal(json_put(root, "/a/2", json_integer(3)), ERR_OK);
    assert_int_equal(json_put(root, "/a/-", json_integer(4)), ERR_OK);
    assert_int_equal(json_put(root, "/b/c/d", json_true()), ERR_OK);
    assert_int_equal(json_put(root, "/n/x", json_true()), ERR_INVAL);
    assert_int_equal(json_put(root, "/a/7", json_true()), ERR_NOENT);
    assert_int_equal(json_put(root, "/a/x", json_true()), ERR_INVAL);
    assert_int_equal(json_put(root, "", json_true()), ERR_INVAL);
    assert_int_equal(json_put(root, "a", json_true()), ERR_INVAL);
    assert_int_equal(json_put(root, "/a", NULL), ERR_NOMEM);
    want = load("{\"a\": [9, 2, 3, 4], \"n\": 5, \"b\": {\"c\": {\"d\": "
                "true}}}");
    assert_true(json_equal(root, want));
    json_decref(want);
    json_decref(root);
}

static void expect_place(const char *text, const char *pointer, unsigned line,
                         unsigned column)
{
    struct json_place p = json_locate(text, strlen(text), pointer);

    assert_int_equal(p.line, line);
    assert_int_equal(p.column, column);
}

/* A value's line and column are found, past strings with brackets and escapes,
 * and keys written with escapes; a missing value has its ancestor's place. */
static void json_locate_finds_line_and_column(void **state)
{
    static const char text[] = "\n{\n"
                               "  \"s\": \"}]\\\"{\",\n"
                               "  \"a\": [1, {\"b\": [[], {}]},\n"
                               "        -2.5e3 ],\n"
                               "  \"\\u00e9\\ud83d\\ude00\\n/\" : true\n"
                               "}";
    struct json_place p;

    (void)state;
    expect_place(text, "", 2, 1);
    expect_place(text, "/s", 3, 8);
    expect_place(text, "/a", 4, 8);
    expect_place(text, "/a/0", 4, 9);
    expect_place(text, "/a/1/b", 4, 18);
    expect_place(text, "/a/1/b/1", 4, 23);
    expect_place(text, "/a/2", 5, 9);
    expect_place(text, "/\xc3\xa9\xf0\x9f\x98\x80\n~1", 6, 29);
    expect_place(text, "/missing/x", 2, 1);
    expect_place(text, "/a/1/missing", 4, 12);
    expect_place(text, "/a/9", 4, 8);
    p = json_locate_key(text, strlen(text), "/a/1/b");
    assert_int_equal(p.column, 13);
    p = json_locate_key(text, strlen(text), "/s");
    assert_int_equal(p.line, 3);
    assert_int_equal(p.column, 3);
}

/* Where a value is found, the text at its place begins with that value. */
static void json_locate_agrees_with_json_at(void **state)
{
    static const char text[] =
        "{\"k\": [10, [20, {\"m\": 30}], \"x,y\", [], 40], \"z\": {\"m\": 50}}";
    static const struct {
        const char *pointer;
        const char *at;
    } cases[] = {{"/k/0", "10"},      {"/k/1/0", "20"}, {"/k/1/1/m", "30"},
                 {"/k/2", "\"x,y\""}, {"/k/3", "[]"},   {"/k/4", "40"},
                 {"/z/m", "50"}};

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        struct json_place p = json_locate(text, strlen(text), cases[i].pointer);

        assert_int_equal(
            strncmp(text + p.column - 1, cases[i].at, strlen(cases[i].at)), 0);
    }
}

static void expect_seconds(const char *text, double want)
{
    json_t *value = load(text);
    double got = -1;

    assert_int_equal(json_to_seconds(value, &got), want >= 0);
    assert_true(fabs(got - want) < 1e-9);
    json_decref(value);
}

/* Durations are numbers of seconds or texts with falling units. */
static void json_to_seconds_reads_durations(void **state)
{
    (void)state;
    expect_seconds("600", 600);
    expect_seconds("0.5", 0.5);
    expect_seconds("\"10m\"", 600);
    expect_seconds("\"1h30m\"", 5400);
    expect_seconds("\"1.5s\"", 1.5);
    expect_seconds("\"250ms\"", 0.25);
    expect_seconds("\"2d1h1m1s1ms\"", 176461.001);
    expect_seconds("\"10\"", -1);
    expect_seconds("\"\"", -1);
    expect_seconds("\"m\"", -1);
    expect_seconds("\"-1m\"", -1);
    expect_seconds("\"1m1h\"", -1);
    expect_seconds("\"1m1m\"", -1);
    expect_seconds("\"1.2.3s\"", -1);
    expect_seconds("\".5s\"", -1);
    expect_seconds("\"1e3s\"", -1);
    expect_seconds("\"10 m\"", -1);
    expect_seconds("-1", -1);
    expect_seconds("true", -1);
}

static void expect_bytes(const char *text, double want)
{
    json_t *value = load(text);
    uint64_t got = 0;

    assert_int_equal(json_to_bytes(value, &got), want >= 0);
    assert_true(want < 0 || (double)got == want);
    json_decref(value);
}

/* Sizes are numbers of bytes or texts with binary and decimal units. */
static void json_to_bytes_reads_sizes(void **state)
{
    (void)state;
    expect_bytes("1024", 1024);
    expect_bytes("\"8GiB\"", 8589934592.0);
    expect_bytes("\"512 MB\"", 512e6);
    expect_bytes("\"64k\"", 65536);
    expect_bytes("\"1.5G\"", 1.5 * 1073741824);
    expect_bytes("\"10B\"", 10);
    expect_bytes("\"10\"", 10);
    expect_bytes("\"1TiB\"", 1099511627776.0);
    expect_bytes("\"8GiX\"", -1);
    expect_bytes("\"GiB\"", -1);
    expect_bytes("\"1  MB\"", -1);
    expect_bytes("\"-1\"", -1);
    expect_bytes("-1", -1);
    expect_bytes("1e30", -1);
    expect_bytes("null", -1);
}

static int count_memory(void **state)
{
    (void)state;
    json_count_memory();
    return 0;
}

/* Control characters, also those of two bytes, are written as escapes: text
 * that a terminal would obey is harmless in JSON. Others stay as they are. */
static void json_write_escapes_controls(void **state)
{
    static const char text[] = "a\033\x7f\xc2\x80\xc2\x9b\xc2\xa0\xc3\xbc";
    json_t *value = json_string(text);
    char *out = json_write(value, 0);

    (void)state;
    assert_string_equal(out,
                        "\"a\\u001b\\u007f\\u0080\\u009b\xc2\xa0\xc3\xbc\"");
    mem_free(out);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_load_malformed_gives_place),
        cmocka_unit_test(json_write_escapes_controls),
        cmocka_unit_test(json_load_reads_only_its_length),
        cmocka_unit_test(json_load_depth_is_bounded),
        cmocka_unit_test(json_load_length_is_bounded),
        cmocka_unit_test(json_allocation_failures_leave_nothing),
        cmocka_unit_test(json_without_memory_for_ever_is_refused),
        cmocka_unit_test(json_whole_is_nothing_where_a_member_is_lost),
        cmocka_unit_test(json_copies_are_whole_or_none),
        cmocka_unit_test(json_write_number_reads_back),
        cmocka_unit_test(json_write_reads_back_equal),
        cmocka_unit_test(json_write_layout_is_stable),
        cmocka_unit_test(json_numbers_non_finite_are_strings),
        cmocka_unit_test(json_at_follows_rfc_6901),
        cmocka_unit_test(json_members_of_answers),
        cmocka_unit_test(json_pointer_push_and_next_agree),
        cmocka_unit_test(json_put_makes_the_way),
        cmocka_unit_test(json_locate_finds_line_and_column),
        cmocka_unit_test(json_locate_agrees_with_json_at),
        cmocka_unit_test(json_to_seconds_reads_durations),
        cmocka_unit_test(json_to_bytes_reads_sizes),
    };

    return cmocka_run_group_tests(tests, count_memory, NULL);
}
