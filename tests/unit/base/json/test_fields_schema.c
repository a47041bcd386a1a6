/* A table's schema says what fields_put writes. */
#include "base/json/fields_schema.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/history/record.h"

#include <string.h>

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *list = json_object_get(schema, "required"), *one;
    size_t i;

    json_array_foreach(list, i, one) if (strcmp(json_string_value(one), name) ==
                                         0) return true;
    return false;
}

/* Of each kind of record: what is written of a zeroed one is described, and
 * what is required is written. */
static void schema_has_each_member_that_is_written(void **state)
{
    (void)state;
    for (unsigned k = 0; k < RECORD_KIND_COUNT; k++) {
        json_t *schema = record_schema((enum record_kind)k), *value, *o;
        const json_t *properties = json_object_get(schema, "properties");
        struct record r = {.kind = (enum record_kind)k};
        const char *name;

        assert_non_null(properties);
        record_init(&r, (enum record_kind)k);
        o = record_to_json(&r);
        assert_non_null(o);
        json_object_foreach(o, name, value)
        {
            if (!json_object_get(properties, name))
                fail_msg("%s: %s is not described",
                         record_kind_name((enum record_kind)k), name);
        }
        json_object_foreach((json_t *)properties, name, value)
        {
            if (is_required(schema, name) && !json_object_get(o, name))
                fail_msg("%s: %s is not written",
                         record_kind_name((enum record_kind)k), name);
        }
        json_decref(o);
        json_decref(schema);
    }
}

static const char *colour(unsigned n)
{
    static const char *const names[] = {"none", "red", "red", "blue"};

    return names[n];
}

/* Words of the range alone, each once. */
static void schema_of_words_has_each_once(void **state)
{
    json_t *schema = words_schema(colour, 1, 3), *words;

    (void)state;
    words = json_object_get(schema, "enum");
    assert_int_equal(json_array_size(words), 2);
    assert_string_equal(json_string_value(json_array_get(words, 0)), "red");
    assert_string_equal(json_string_value(json_array_get(words, 1)), "blue");
    json_decref(schema);
}

/* Every reason that an end can have is known, and no other word is. */
static void schema_reasons_are_known(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RUN_REASON_COUNT; i++)
        assert_true(run_reason_is_known(run_reason_name(i)));
    assert_true(run_reason_is_known("converged"));
    assert_true(run_reason_is_known("nomem"));
    assert_false(run_reason_is_known("ok"));
    assert_false(run_reason_is_known(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_has_each_member_that_is_written),
        cmocka_unit_test(schema_of_words_has_each_once),
        cmocka_unit_test(schema_reasons_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
