#include "apps/samples/data_csv.h"
#include "apps/samples/table_summary.h"
#include "base/mem.h"

#include <string.h>

#include "tests/unit/fixture/check.h"

static json_t *summary_of(const char *text, bool targets)
{
    struct csv_options o = {.header = -1, .targets = targets};
    struct csv_table *t = csv_table_new(&o);
    struct data_stream *stream;
    struct samples s;
    json_t *summary;

    assert_non_null(t);
    assert_int_equal(data_stream_memory("T", text, strlen(text), &stream, NULL),
                     ERR_OK);
    assert_int_equal(csv_table_read(t, stream, UINT64_MAX, NULL), ERR_OK);
    assert_int_equal(csv_table_take(t, &s, NULL), ERR_OK);
    data_stream_close(stream);
    csv_table_free(t);
    summary = table_summary(&s);
    samples_deinit(&s);
    assert_non_null(summary);
    return summary;
}

/* A column that is missing altogether has no figures; a long name is cut, and
 * what is no UTF-8 in it is replaced. */
static void summary_of_what_is_odd(void **state)
{
    int64_t before = mem_outstanding();
    char text[400], name[200];
    json_t *o, *columns, *first;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[0] = '\xe9';
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "%s,b,y\nNA,1,2\n?,3,4.5\n", name);
    o = summary_of(text, true);
    columns = json_object_get(o, "columns");
    assert_int_equal(json_array_size(columns), 3);
    assert_int_equal(json_integer_value(json_object_get(o, "missing")), 2);
    first = json_array_get(columns, 0);
    assert_true(json_is_null(json_object_get(first, "mean")));
    assert_int_equal(json_string_length(json_object_get(first, "name")), 64);
    assert_int_equal(json_string_value(json_object_get(first, "name"))[0], '?');
    assert_float_equal(
        json_number_value(json_object_get(json_array_get(columns, 2), "mean")),
        3.25, 0);
    json_decref(o);
    o = summary_of("1,a\n", false);
    assert_true(json_is_null(json_object_get(
        json_array_get(json_object_get(o, "columns"), 1), "name")));
    json_decref(o);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_of_what_is_odd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
