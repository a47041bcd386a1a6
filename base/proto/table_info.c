#include "base/proto/table_info.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

static const char *const types[TABLE_TYPE_COUNT] = {
    [TABLE_F32] = "f32", [TABLE_I32] = "i32", [TABLE_F64] = "f64"};
static const char *const accesses[TABLE_ACCESS_COUNT] = {
    [TABLE_SHARED] = "shared",
    [TABLE_EXCLUSIVE] = "exclusive",
    [TABLE_LOCAL] = "local"};

const char *table_type_name(enum table_type type)
{
    assert((unsigned)type < TABLE_TYPE_COUNT);
    return types[type];
}

const char *table_access_name(enum table_access access)
{
    assert((unsigned)access < TABLE_ACCESS_COUNT);
    return accesses[access];
}

bool table_type_holds(enum table_type type, double x)
{
    switch (type) {
    case TABLE_I32:
        return x >= INT32_MIN && x <= INT32_MAX && x == trunc(x);
    case TABLE_F32:
        return fabs(x) <= (double)FLT_MAX;
    default:
        return isfinite(x);
    }
}

json_t *table_info_to_json(const struct table_info *t)
{
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:b}", "name", t->name,
                     "rows", (json_int_t)t->rows, "width", (json_int_t)t->width,
                     "type", table_type_name(t->type), "access",
                     table_access_name(t->access), "rule", t->rule, "saved",
                     t->saved);
}

/* Index of @v in @names[n]; n where it is none of them. */
static int index_of(const json_t *v, const char *const names[], int n)
{
    const char *s = json_string_value(v);
    int i = 0;

    while (i < n && (!s || strcmp(s, names[i]) != 0))
        i++;
    return i;
}

static bool text_of(const json_t *v, size_t min, size_t max, char *out)
{
    const char *s = json_string_value(v);
    size_t n = s ? json_string_length(v) : 0;

    if (!s || n < min || n > max || strlen(s) != n)
        return false;
    memcpy(out, s, n + 1);
    return true;
}

static const char *from_json(const json_t *o, struct table_info *out)
{
    json_int_t rows = json_integer_value(json_object_get(o, "rows"));
    json_int_t width = json_integer_value(json_object_get(o, "width"));
    const json_t *saved = json_object_get(o, "saved");

    if (!json_is_object(o))
        return "tables: expected objects";
    if (!text_of(json_object_get(o, "name"), 1, TABLE_INFO_NAME_MAX, out->name))
        return "tables: a name has 1 to 64 bytes";
    if (!text_of(json_object_get(o, "rule"), 0, TABLE_INFO_RULE_MAX, out->rule))
        return "tables: a rule has at most 32 bytes";
    if (rows < 1 || width < 1 || width > UINT32_MAX)
        return "tables: rows and width are whole numbers from 1";
    out->rows = (uint64_t)rows;
    out->width = (uint32_t)width;
    out->type = (enum table_type)index_of(json_object_get(o, "type"), types,
                                          TABLE_TYPE_COUNT);
    out->access = (enum table_access)index_of(json_object_get(o, "access"),
                                              accesses, TABLE_ACCESS_COUNT);
    if (out->type == TABLE_TYPE_COUNT)
        return "tables: expected type f32, i32 or f64";
    if (out->access == TABLE_ACCESS_COUNT)
        return "tables: expected access shared, exclusive or local";
    if (!json_is_boolean(saved))
        return "tables: expected saved to be true or false";
    out->saved = json_is_true(saved);
    return NULL;
}

static bool named_before(const json_t *array, size_t i)
{
    const json_t *name = json_object_get(json_array_get(array, i), "name");

    for (size_t k = 0; k < i; k++)
        if (json_equal(json_object_get(json_array_get(array, k), "name"), name))
            return true;
    return false;
}

const char *table_infos_from_json(const json_t *array, struct table_info out[],
                                  size_t *n)
{
    struct table_info unused;
    const char *wrong;

    if (!json_is_array(array) || json_array_size(array) > TABLE_INFO_TABLES_MAX)
        return "tables: expected an array of at most 256";
    for (size_t i = 0; i < json_array_size(array); i++) {
        wrong = from_json(json_array_get(array, i), out ? &out[i] : &unused);
        if (wrong)
            return wrong;
        if (named_before(array, i))
            return "tables: two have the same name";
    }
    *n = json_array_size(array);
    return NULL;
}
