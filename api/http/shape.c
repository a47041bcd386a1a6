#include "api/http/shape.h"

#include "base/json/json.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static json_t *reference(const char *shape, size_t len)
{
    char text[96];

    snprintf(text, sizeof(text), "#/components/schemas/%.*s", (int)len, shape);
    return json_pack("{s:s}", "$ref", text);
}

/* The schema of TYPE, @len characters at @type, without its "?". */
static json_t *type_schema(const char *type, size_t len)
{
    switch (type[0]) {
    case 's':
        return json_pack("{s:s}", "type", "string");
    case 't':
        return json_pack("{s:s, s:s}", "type", "string", "format", "date-time");
    case 'i':
        return json_pack("{s:s}", "type", "integer");
    case 'n':
        return json_pack("{s:[{s:s}, {s:[s, s, s]}]}", "anyOf", "type",
                         "number", "enum", "nan", "inf", "-inf");
    case 'b':
        return json_pack("{s:s}", "type", "boolean");
    case 'o':
        return json_pack("{s:s}", "type", "object");
    case 'a':
        return json_pack("{s:s}", "type", "array");
    case '@':
        return reference(type + 1, len - 1);
    default:
        assert(type[0] == '[');
        return json_pack("{s:s, s:o}", "type", "array", "items",
                         reference(type + 1, len - 2));
    }
}

static json_t *member_schema(const char *type, size_t len)
{
    bool may_be_null = type[len - 1] == '?';
    json_t *o = type_schema(type, may_be_null ? len - 1 : len);

    if (!may_be_null)
        return o;
    return json_pack("{s:[o, {s:s}]}", "anyOf", o, "type", "null");
}

static json_t *members_schema(const char *members)
{
    json_t *required = json_array(), *properties = json_object();
    int failed = 0;

    for (const char *at = members; *at; at += *at == ' ') {
        size_t name = strcspn(at, ":"), whole = strcspn(at, " ");
        bool optional = at[name - 1] == '?';
        char text[64];

        snprintf(text, sizeof(text), "%.*s", (int)(name - optional), at);
        if (!optional)
            failed |= json_array_append_new(required, json_string(text));
        failed |= json_object_set_new(
            properties, text, member_schema(at + name + 1, whole - name - 1));
        at += whole;
    }
    if (!failed)
        return json_pack("{s:s, s:o, s:o}", "type", "object", "required",
                         required, "properties", properties);
    json_decref(required);
    json_decref(properties);
    return NULL;
}

json_t *shape_to_schema(const struct shape *shape)
{
    assert(shape->name && shape->members[0]);
    return shape->members[0] == '{' ? json_known(shape->members)
                                    : members_schema(shape->members);
}
