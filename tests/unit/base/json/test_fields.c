#include "base/json/fields.h"
#include "base/json/json.h"
#include "base/mem.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

enum colour { RED, GREEN, BLUE };

struct pair {
    double x;
    uint64_t n;
};

struct inner {
    uint32_t depth;
};

struct thing {
    bool flag;
    uint32_t small, id, any_id;
    uint64_t count;
    int64_t pid;
    double seconds, real;
    char text[9], reason[9], json[13];
    char *string;
    enum colour colour;
    json_t *object, *array, *tree;
    struct inner inner;
    uint32_t rows, tuples, columns;
    struct pair row[2], tuple[2], *column;
    int twice;
};

static const char *colour_name(unsigned n)
{
    static const char *const names[] = {"red", "green", "blue"};

    return names[n];
}

/* A member that is written as the double of itself. */
static json_t *twice_json(const void *member)
{
    return json_integer(2 * *(const int *)member);
}

static bool twice_of(const json_t *v, void *member)
{
    *(int *)member = (int)(json_integer_value(v) / 2);
    return json_is_integer(v);
}

static const struct field_custom twice = {twice_json, twice_of};

static const struct json_field pair_fields[] = {
    {FIELD_OF(pair, REAL, x)},
    {FIELD_OF(pair, U64, n), .min = 1},
    {.name = NULL},
};

static const struct json_field inner_fields[] = {
    {FIELD_OF(inner, U32, depth)},
    {.name = NULL},
};

static const struct field_list rows = {
    .fields = pair_fields,
    .item = sizeof(struct pair),
    .count = offsetof(struct thing, rows),
};
static const struct field_list tuples = {
    .fields = pair_fields,
    .item = sizeof(struct pair),
    .count = offsetof(struct thing, tuples),
};
static const struct field_list columns = {
    .fields = pair_fields,
    .item = sizeof(struct pair),
    .count = offsetof(struct thing, columns),
    .owned = true,
};

static const struct json_field fields[] = {
    {FIELD_OF(thing, BOOL, flag)},
    {FIELD_WITHIN(thing, U32, small, 2, 5)},
    {FIELD_OF(thing, ID, id), .optional = true},
    {FIELD_OF(thing, ID_OR_NULL, any_id)},
    {FIELD_OF(thing, U64, count), .optional = true},
    {FIELD_OF(thing, I64, pid)},
    {FIELD_OF(thing, SECONDS, seconds)},
    {FIELD_OF(thing, REAL, real)},
    {FIELD_OF(thing, TEXT, text), .min = 1},
    {FIELD_AS("why", thing, REASON, reason)},
    {FIELD_OF(thing, STRING, string)},
    {FIELD_WITHIN(thing, ENUM, colour, GREEN, BLUE), .name_of = colour_name},
    {FIELD_OF(thing, OBJECT, object)},
    {FIELD_OF(thing, ARRAY, array)},
    {FIELD_OF(thing, TREE, tree), .optional = true},
    {FIELD_OF(thing, PART, inner), .part = inner_fields},
    {FIELD_WITHIN(thing, OBJECTS, row, 0, 2), .list = &rows},
    {FIELD_WITHIN(thing, TUPLES, tuple, 0, 2), .list = &tuples},
    {FIELD_WITHIN(thing, COLUMNS, column, 1, 3), .list = &columns},
    {FIELD_OF(thing, CUSTOM, twice), .custom = &twice, .optional = true},
    {.name = NULL},
};

static const char whole[] =
    "{\"flag\":true,\"small\":3,\"id\":7,\"any_id\":null,\"count\":12,"
    "\"pid\":99,\"seconds\":0.5,\"real\":\"-inf\",\"text\":\"abc\","
    "\"why\":\"d\xc3\xa4\",\"string\":\"s\",\"colour\":\"blue\","
    "\"object\":{\"k\":1},\"array\":[2],\"tree\":[3],\"depth\":4,"
    "\"row\":[{\"x\":1.5,\"n\":1}],\"tuple\":[[2.5,2],[\"nan\",3]],"
    "\"x\":[0.5,\"inf\"],\"n\":[4,5],\"twice\":6}";

static json_t *load(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);

    assert_non_null(v);
    return v;
}

/* The struct of @text; released by the caller (fields_deinit). */
static struct thing thing_of(const char *text)
{
    struct thing t = {0};
    struct fault f = {0};
    json_t *o = load(text);

    if (fields_get(o, fields, &t, NULL, &f))
        fail_msg("%s", f.text);
    json_decref(o);
    return t;
}

/* Text of @t; NULL and *err where it cannot be written. */
static char *text_of(const struct thing *t, enum err *err)
{
    json_t *o = json_object();
    char *text;

    *err = o ? fields_put(o, fields, t) : ERR_NOMEM;
    text = *err ? NULL : json_write(o, 0);
    json_decref(o);
    return text;
}

static void check_text(const struct thing *t, const char *expected)
{
    enum err err;
    char *text = text_of(t, &err);

    assert_int_equal(err, ERR_OK);
    assert_string_equal(text, expected);
    mem_free(text);
}

/* Written members are read as the same members, in the order of the table. */
static void fields_of_every_kind_come_back(void **state)
{
    struct thing t = thing_of(whole);

    (void)state;
    assert_true(t.flag);
    assert_int_equal(t.small, 3);
    assert_int_equal(t.any_id, FIELD_NO_ID);
    assert_int_equal(t.pid, 99);
    assert_true(isinf(t.real) && t.real < 0);
    assert_string_equal(t.reason, "d\xc3\xa4");
    assert_int_equal(t.colour, BLUE);
    assert_int_equal(t.inner.depth, 4);
    assert_int_equal(t.rows, 1);
    assert_int_equal(t.tuples, 2);
    assert_int_equal(t.tuple[1].n, 3);
    assert_int_equal(t.columns, 2);
    assert_int_equal(t.column[1].n, 5);
    assert_int_equal(t.twice, 3);
    check_text(&t, whole);
    fields_deinit(fields, &t);
    assert_null(t.string);
    assert_null(t.column);
}

/* Optional members may be missing; those that say nothing are left out. */
static void fields_optional_may_be_missing(void **state)
{
    json_t *o = load(whole);
    struct thing t = {0};
    enum err err;
    char *text;

    (void)state;
    json_object_del(o, "id");
    json_object_del(o, "count");
    json_object_del(o, "tree");
    json_object_del(o, "twice");
    assert_int_equal(fields_get(o, fields, &t, NULL, NULL), ERR_OK);
    json_decref(o);
    assert_int_equal(t.id, FIELD_NO_ID);
    assert_int_equal(t.count, 0);
    assert_null(t.tree);
    text = text_of(&t, &err);
    assert_non_null(text);
    assert_null(strstr(text, "\"id\""));
    assert_null(strstr(text, "\"tree\""));
    assert_non_null(strstr(text, "\"count\":0"));
    mem_free(text);
    fields_deinit(fields, &t);
}

struct flags {
    bool first, second, third;
};

/* Each is looked at alone, whatever lies next to it. */
static void fields_sparse_flags_are_left_out(void **state)
{
    static const struct json_field flags[] = {
        {FIELD_OF(flags, BOOL, first), .optional = true, .sparse = true},
        {FIELD_OF(flags, BOOL, second), .optional = true, .sparse = true},
        {FIELD_OF(flags, BOOL, third), .optional = true, .sparse = true},
        {.name = NULL},
    };
    const struct flags given = {.second = true};
    json_t *o = json_object();

    (void)state;
    assert_non_null(o);
    assert_int_equal(fields_put(o, flags, &given), ERR_OK);
    assert_int_equal(json_object_size(o), 1);
    assert_true(json_is_true(json_object_get(o, "second")));
    json_decref(o);
}

/* Trees that have to be there are written empty where they are NULL. */
static void fields_empty_trees_are_written(void **state)
{
    struct thing t = thing_of(whole);
    enum err err;
    char *text;

    (void)state;
    json_decref(t.object);
    json_decref(t.array);
    t.object = t.array = NULL;
    text = text_of(&t, &err);
    assert_non_null(strstr(text, "\"object\":{},\"array\":[]"));
    mem_free(text);
    fields_deinit(fields, &t);
}

/* A member that is missing or does not fit is named, with what was expected and
 * what was found. */
static void fields_misfits_are_named(void **state)
{
    static const struct {
        const char *name, *value, *text;
    } c[] = {
        {"flag", "1", "flag: expected true or false, found 1"},
        {"flag", NULL, "flag: expected true or false, found nothing"},
        {"small", "6", "small: expected an integer from 2 to 5, found 6"},
        {"small", "1", "small: expected an integer from 2 to 5, found 1"},
        {"small", "2.5", "small: expected an integer from 2 to 5, found 2.5"},
        {"id", "null",
         "id: expected an integer from 0 to 4294967294, found null"},
        {"any_id", "4294967295",
         "any_id: expected an integer from 0 to 4294967294, found 4294967295"},
        {"count", "-1",
         "count: expected an integer from 0 to 9223372036854775807, found -1"},
        {"pid", "-1",
         "pid: expected an integer from 0 to 9223372036854775807, found -1"},
        {"seconds", "-0.5",
         "seconds: expected a finite number of seconds >= 0, found -0.5"},
        {"seconds", "\"nan\"",
         "seconds: expected a finite number of seconds >= 0, found \"nan\""},
        {"real", "\"x\"",
         "real: expected a number, \"nan\", \"inf\" or \"-inf\", found \"x\""},
        {"text", "\"\"", "text: expected a string of 1 to 8 bytes, found \"\""},
        {"text", "\"123456789\"",
         "text: expected a string of 1 to 8 bytes, found \"123456789\""},
        {"why", "true",
         "why: expected a string of 0 to 8 bytes, found true or false"},
        {"string", "\"\"", "string: expected a string, not empty, found \"\""},
        {"colour", "\"red\"",
         "colour: expected \"green\" or \"blue\", found \"red\""},
        {"object", "[]", "object: expected an object, found an array"},
        {"array", "{}", "array: expected an array, found an object"},
        {"tree", "3", "tree: expected an array or an object, found 3"},
        {"depth", "-1",
         "depth: expected an integer from 0 to 4294967295, found -1"},
        {"row", "[{\"x\":1,\"n\":0}]",
         "row: expected an array of 0 to 2 objects, found an array"},
        {"row", "[1]",
         "row: expected an array of 0 to 2 objects, found an array"},
        {"row", "[{\"x\":1,\"n\":1},{\"x\":1,\"n\":1},{\"x\":1,\"n\":1}]",
         "row: expected an array of 0 to 2 objects, found an array"},
        {"tuple", "[[1,2,3]]",
         "tuple: expected at most 2 arrays [x, n], found an array"},
        {"tuple", "[[1]]",
         "tuple: expected at most 2 arrays [x, n], found an array"},
        {"tuple", "{}",
         "tuple: expected at most 2 arrays [x, n], found an object"},
        {"x", "[]", "x: expected an array of 1 to 3 column"},
        {"n", "[1]", "n: expected an array as long as `x`"},
        {"n", "[1,0]",
         "n: expected an integer from 1 to 9223372036854775807, found 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
        json_t *o = load(whole);
        struct fault f = {0};
        struct thing t = {0};
        const char *wrong = NULL;

        if (c[i].value)
            json_object_set_new(o, c[i].name,
                                json_loads(c[i].value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(o, c[i].name);
        assert_int_equal(fields_get(o, fields, &t, &wrong, &f), ERR_FORMAT);
        assert_int_equal(f.code, ERR_FORMAT);
        assert_string_equal(f.text, c[i].text);
        assert_string_equal(wrong, c[i].name);
        json_decref(o);
        fields_deinit(fields, &t);
    }
}

/* A custom member's fault is told in its own words. */
static void fields_expected_is_told(void **state)
{
    static const struct json_field one[] = {
        {FIELD_OF(thing, CUSTOM, twice), .custom = &twice,
         .expected = "something even"},
        {.name = NULL},
    };
    json_t *o = load("{\"twice\":\"x\"}");
    struct fault f = {0};
    struct thing t = {0};

    (void)state;
    assert_int_equal(fields_get(o, one, &t, NULL, &f), ERR_FORMAT);
    assert_string_equal(f.text, "twice: expected something even, found \"x\"");
    json_decref(o);
}

/* A NUL within a text would cut it unseen. */
static void fields_text_with_nul_is_refused(void **state)
{
    json_t *o = load(whole);
    struct thing t = {0};
    const char *wrong = NULL;

    (void)state;
    json_object_set_new(o, "text", json_stringn("a\0b", 3));
    assert_int_equal(fields_get(o, fields, &t, &wrong, NULL), ERR_FORMAT);
    assert_string_equal(wrong, "text");
    json_decref(o);
    fields_deinit(fields, &t);
}

/* A value out of its bounds is not written, for nobody could read it. */
static void fields_out_of_bounds_are_not_written(void **state)
{
    struct thing good = thing_of(whole);

    (void)state;
#define BAD(...)                                                               \
    do {                                                                       \
        struct thing t = good;                                                 \
        enum err err;                                                          \
                                                                               \
        __VA_ARGS__;                                                           \
        assert_null(text_of(&t, &err));                                        \
        assert_int_equal(err, ERR_INVAL);                                      \
    } while (0)
    BAD(t.small = 1);
    BAD(t.small = 6);
    BAD(t.count = FIELD_INT_MAX + 1);
    BAD(t.pid = -1);
    BAD(t.seconds = -1);
    BAD(t.seconds = NAN);
    BAD(strcpy(t.text, ""));
    BAD(strcpy(t.text, "\xff"));
    BAD(memset(t.text, 'x', sizeof(t.text)));
    BAD(memset(t.reason, 'x', sizeof(t.reason)));
    BAD(t.string = NULL);
    BAD(t.colour = RED);
    BAD(t.object = t.array);
    BAD(t.rows = 3);
    BAD(t.row[0].n = 0);
    BAD(t.tuples = 3);
    BAD(t.tuple[0].n = 0);
    BAD(t.columns = 0);
#undef BAD
    fields_deinit(fields, &good);
}

/* A reason is cut at any byte and still arrives. */
static void fields_reason_becomes_utf8(void **state)
{
    struct thing t = thing_of(whole);
    enum err err;
    char *text;

    (void)state;
    strcpy(t.reason, "a\xc3\n\xe2\x82");
    text = text_of(&t, &err);
    assert_non_null(strstr(text, "\"why\":\"a?\\n??\""));
    mem_free(text);
    fields_deinit(fields, &t);
}

static const struct json_field trees[] = {
    {FIELD_OF(thing, OBJECT, object), .optional = true},
    {FIELD_OF(thing, ARRAY, array), .optional = true},
    {.name = NULL},
};

/* Copies share JSON members, or have their own. */
static void fields_copies_outlive_the_original(void **state)
{
    struct thing t = {0}, shared, own;

    (void)state;
    t.object = load("{\"k\":1}");
    shared = own = t;
    fields_share(trees, &shared);
    assert_int_equal(fields_own(trees, &own), ERR_OK);
    fields_deinit(trees, &t);
    assert_null(t.object);
    assert_int_equal(json_integer_value(json_object_get(own.object, "k")), 1);
    assert_true(own.object != shared.object);
    assert_null(own.array);
    fields_deinit(trees, &shared);
    fields_deinit(trees, &own);
}

/* Copied members are the copy's: the original owns nothing any more. */
static void fields_disowned_own_nothing(void **state)
{
    int64_t before = mem_outstanding();
    struct thing t = thing_of(whole), copy = t;

    (void)state;
    fields_disown(fields, &t);
    assert_null(t.string);
    assert_null(t.object);
    assert_null(t.column);
    assert_int_equal(t.small, copy.small);
    fields_deinit(fields, &t);
    assert_non_null(copy.string);
    fields_deinit(fields, &copy);
    assert_int_equal(mem_outstanding(), before);
}

/* An object is held as text, if it has room. */
static void fields_objects_are_held_as_text(void **state)
{
    static const struct json_field one[] = {
        {FIELD_OF(thing, JSON, json), .optional = true}, {.name = NULL}};
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"{\"json\": {}}", "{}"},
        {"{\"json\": {\"a\": [1, 2]}}", "{\"a\":[1,2]}"},
        {"{\"json\": {\"a\": [1, 25]}}", "{\"a\":[1,25]}"},
        {"{\"json\": {\"a\": [1, 256]}}", NULL},
        {"{\"json\": []}", NULL},
        {"{\"json\": \"{}\"}", NULL},
        {"{}", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *o = load(cases[i].json), *back = json_object();
        struct thing t = {0};
        enum err err = fields_get(o, one, &t, NULL, NULL);

        assert_int_equal(err, cases[i].text ? ERR_OK : ERR_FORMAT);
        if (!err) {
            assert_string_equal(t.json, cases[i].text);
            assert_int_equal(fields_put(back, one, &t), ERR_OK);
            assert_true(json_equal(o, back));
        }
        json_decref(back);
        json_decref(o);
    }
}

/* Whichever allocation fails, writing, reading and copying say so and leave
 * nothing behind. */
static void fields_each_allocation_may_fail(void **state)
{
    struct thing good;
    json_t *o;

    (void)state;
    json_count_memory();
    good = thing_of(whole);
    o = load(whole);
    for (int nth = 1;; nth++) {
        int64_t before = mem_outstanding();
        struct thing t = {0}, own = good;
        enum err err, got, copied;
        char *text;

        mem_fail_at(nth, 0);
        text = text_of(&good, &err);
        mem_fail_at(0, 0);
        mem_free(text);
        mem_fail_at(nth, 0);
        got = fields_get(o, fields, &t, NULL, NULL);
        mem_fail_at(0, 0);
        fields_deinit(fields, &t);
        mem_fail_at(nth, 0);
        copied = fields_own(trees, &own);
        mem_fail_at(0, 0);
        fields_deinit(trees, &own);
        assert_int_equal(mem_outstanding(), before);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        if (nth == 1) {
            assert_int_equal(got, ERR_NOMEM);
            assert_int_equal(copied, ERR_NOMEM);
        }
        if (!err && !got && !copied && text)
            break;
    }
    json_decref(o);
    fields_deinit(fields, &good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_every_kind_come_back),
        cmocka_unit_test(fields_optional_may_be_missing),
        cmocka_unit_test(fields_sparse_flags_are_left_out),
        cmocka_unit_test(fields_empty_trees_are_written),
        cmocka_unit_test(fields_misfits_are_named),
        cmocka_unit_test(fields_expected_is_told),
        cmocka_unit_test(fields_text_with_nul_is_refused),
        cmocka_unit_test(fields_out_of_bounds_are_not_written),
        cmocka_unit_test(fields_reason_becomes_utf8),
        cmocka_unit_test(fields_copies_outlive_the_original),
        cmocka_unit_test(fields_disowned_own_nothing),
        cmocka_unit_test(fields_objects_are_held_as_text),
        cmocka_unit_test(fields_each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
