#include "base/json/fields_schema.h"

#include "base/json/json.h"

#include <assert.h>
#include <string.h>

static bool has_word(const json_t *words, const char *word)
{
    size_t i;
    const json_t *w;

    json_array_foreach(words, i, w) if (strcmp(json_string_value(w), word) ==
                                        0) return true;
    return false;
}

json_t *words_schema(const char *(*name_of)(unsigned), unsigned min,
                     unsigned max)
{
    json_t *words = json_array();
    int failed = 0;

    assert(name_of && min <= max);
    for (unsigned i = min; i <= max; i++)
        if (!has_word(words, name_of(i)))
            failed |= json_array_append_new(words, json_string(name_of(i)));
    if (!failed)
        return json_pack("{s:s, s:o}", "type", "string", "enum", words);
    json_decref(words);
    return NULL;
}

static json_t *integer(const struct json_field *f)
{
    return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
                     (json_int_t)f->min, "maximum", (json_int_t)f->max);
}

static json_t *text(const struct json_field *f, uint64_t min)
{
    return json_pack("{s:s, s:I, s:I}", "type", "string", "minLength",
                     (json_int_t)min, "maxLength", (json_int_t)f->max);
}

/* An item of OBJECTS. */
static json_t *object(const struct json_field fields[])
{
    json_t *properties = json_object(), *required = json_array();

    if (fields_schema(fields, properties, required))
        return json_pack("{s:s, s:o, s:o}", "type", "object", "required",
                         required, "properties", properties);
    json_decref(properties);
    json_decref(required);
    return NULL;
}

static json_t *list(json_t *items, const struct json_field *f)
{
    return json_pack("{s:s, s:o, s:I, s:I}", "type", "array", "items", items,
                     "minItems", (json_int_t)f->min, "maxItems",
                     (json_int_t)f->max);
}

static json_t *schema_of(const struct json_field *f)
{
    switch (f->kind) {
    case FIELD_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_I64:
    case FIELD_ID:
        return integer(f);
    case FIELD_ID_OR_NULL:
        return json_pack("{s:[o, {s:s}]}", "anyOf", integer(f), "type", "null");
    case FIELD_SECONDS:
        return json_pack("{s:s, s:i}", "type", "number", "minimum", 0);
    case FIELD_REAL:
        return json_pack("{s:[{s:s}, {s:s, s:[s, s, s]}]}", "anyOf", "type",
                         "number", "type", "string", "enum", "nan", "inf",
                         "-inf");
    case FIELD_TEXT:
    case FIELD_REASON:
        return text(f, f->min);
    case FIELD_STRING:
        return json_pack("{s:s, s:i}", "type", "string", "minLength", 1);
    case FIELD_ENUM:
        return words_schema(f->name_of, (unsigned)f->min, (unsigned)f->max);
    case FIELD_JSON:
    case FIELD_OBJECT:
        return json_pack("{s:s}", "type", "object");
    case FIELD_ARRAY:
        return json_pack("{s:s, s:{}}", "type", "array", "items");
    case FIELD_OBJECTS:
        return list(object(f->list->fields), f);
    case FIELD_TUPLES: /* an item is an array, a value a member */
        return list(json_pack("{s:s, s:{}}", "type", "array", "items"), f);
    case FIELD_TREE:
    case FIELD_CUSTOM:
        return json_object();
    case FIELD_PART:
    case FIELD_COLUMNS:
        break;
    }
    assert(!"a field of one value");
    return NULL;
}

json_t *field_schema(const struct json_field *f)
{
    json_t *o = schema_of(f);

    if (o && f->help &&
        json_object_set_new(o, "description", json_string(f->help)) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static bool columns(const struct json_field *f, json_t *properties,
                    json_t *required)
{
    int failed = 0;

    for (const struct json_field *c = f->list->fields; c->name; c++) {
        failed |=
            json_object_set_new(properties, c->name, list(schema_of(c), f));
        if (!c->optional)
            failed |= json_array_append_new(required, json_string(c->name));
    }
    return !failed;
}

bool fields_schema(const struct json_field fields[], json_t *properties,
                   json_t *required)
{
    bool ok = properties && required;

    for (const struct json_field *f = fields; ok && f->name; f++) {
        if (f->kind == FIELD_PART)
            ok = fields_schema(f->part, properties, required);
        else if (f->kind == FIELD_COLUMNS)
            ok = columns(f, properties, required);
        else
            ok = !json_object_set_new(properties, f->name, field_schema(f)) &&
                 (f->optional ||
                  !json_array_append_new(required, json_string(f->name)));
    }
    return ok;
}
