/* Notes: what people may write to a run, and what is there once they have. */
#include "api/view/notes.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <string.h>

static json_t *of(const char *text)
{
    json_t *json = NULL;

    assert_int_equal(json_load(text, strlen(text), &json, NULL, NULL), ERR_OK);
    return json;
}

/* What is no note is refused with its place; what is one passes. */
static void notes_are_checked(void **state)
{
    static const struct {
        const char *text, *pointer; /* NULL: it is fine */
    } rows[] = {
        {"{\"tags\": []}", NULL},
        {"{\"note\": null}", NULL},
        {"{\"note\": \"two\\nlines\\tof it\"}", NULL},
        {"{\"tags\": [\"a\", \"v1.2\", \"gr\\u00fcn\"], \"note\": \"\"}", NULL},
        {"{\"tags\": [\"0123456789012345678901234567890123456789\"]}", NULL},
        {"[]", ""},
        {"{}", ""},
        {"{\"tags\": \"a\"}", "/tags"},
        {"{\"tags\": null}", "/tags"},
        {"{\"tags\": [\"a\", 1]}", "/tags/1"},
        {"{\"tags\": [\"\"]}", "/tags/0"},
        {"{\"tags\": [\"a b\"]}", "/tags/0"},
        {"{\"tags\": [\"a,b\"]}", "/tags/0"},
        {"{\"tags\": [\"a\\nb\"]}", "/tags/0"},
        {"{\"tags\": [\"a\\u007f\"]}", "/tags/0"},
        {"{\"tags\": [\"01234567890123456789012345678901234567890\"]}",
         "/tags/0"},
        {"{\"tags\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\","
         "\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]}",
         "/tags"},
        {"{\"note\": 1}", "/note"},
        {"{\"note\": \"a\\u001b[31m\"}", "/note"},
        {"{\"text\": \"a\"}", "/text"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct response_faults faults = {0};
        json_t *json = of(rows[i].text);
        bool fine = notes_check(json, &faults);

        if (fine != !rows[i].pointer || (faults.len == 0) != fine)
            fail_msg("%s", rows[i].text);
        if (!fine && strcmp(faults.item[0].pointer, rows[i].pointer) != 0)
            fail_msg("%s: %s", rows[i].text, faults.item[0].pointer);
        json_decref(json);
    }
}

/* A text may have so many bytes, and no more. */
static void notes_are_bounded(void **state)
{
    static char text[NOTES_TEXT_MAX + 2];

    (void)state;
    memset(text, 'x', NOTES_TEXT_MAX + 1);
    for (int more = 1; more >= 0; more--) {
        struct response_faults faults = {0};
        json_t *json;

        text[NOTES_TEXT_MAX + more] = '\0';
        json = json_pack("{s:s}", "note", text);
        assert_int_equal(notes_check(json, &faults), !more);
        json_decref(json);
    }
}

static void assert_changed(const char *had, const char *change,
                           const char *expected)
{
    json_t *before = had ? of(had) : NULL, *made = of(change);
    json_t *now = notes_changed(before, made);
    char *text = json_write(now, 0);

    assert_string_equal(text, expected);
    mem_free(text);
    json_decref(now);
    json_decref(made);
    json_decref(before);
}

/* What a change leaves out stays; a tag is there once; an empty note is none.
 */
static void notes_change_by_members(void **state)
{
#define HAD "{\"tags\":[\"a\"],\"note\":\"n\"}"
    (void)state;
    assert_changed(NULL, "{\"note\": \"n\"}", "{\"tags\":[],\"note\":\"n\"}");
    assert_changed(NULL, "{\"tags\": [\"b\", \"a\", \"b\"]}",
                   "{\"tags\":[\"b\",\"a\"],\"note\":null}");
    assert_changed(HAD, "{\"note\": \"m\"}",
                   "{\"tags\":[\"a\"],\"note\":\"m\"}");
    assert_changed(HAD, "{\"tags\": []}", "{\"tags\":[],\"note\":\"n\"}");
    assert_changed(HAD, "{\"note\": null}", "{\"tags\":[\"a\"],\"note\":null}");
    assert_changed(HAD, "{\"note\": \"\"}", "{\"tags\":[\"a\"],\"note\":null}");
#undef HAD
}

/* Whichever allocation fails, nothing is left. */
static void notes_survive_want_of_memory(void **state)
{
    json_t *had = of("{\"tags\": [\"a\"], \"note\": \"n\"}");
    json_t *change = of("{\"tags\": [\"b\", \"c\"]}"), *now = NULL;

    (void)state;
    for (unsigned nth = 1; !now; nth++) {
        mem_fail_at(nth, 0);
        now = notes_changed(had, change);
        mem_fail_at(0, 0);
    }
    assert_true(notes_has_tag(now, "c"));
    assert_false(notes_has_tag(now, "a"));
    assert_false(notes_has_tag(NULL, "a"));
    assert_string_equal(notes_text(now), "n");
    assert_null(notes_text(NULL));
    json_decref(now);
    json_decref(change);
    json_decref(had);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_are_checked),
        cmocka_unit_test(notes_are_bounded),
        cmocka_unit_test(notes_change_by_members),
        cmocka_unit_test(notes_survive_want_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
