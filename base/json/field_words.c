#include "base/json/field_words.h"

#include <assert.h>
#include <stdio.h>

static void say_names(const struct json_field *f, char *out, size_t size)
{
    size_t n = 0;

    for (unsigned i = (unsigned)f->min; i <= f->max && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s\"%s\"",
                              i == f->min  ? ""
                              : i < f->max ? ", "
                                           : " or ",
                              f->name_of(i));
}

static void say_tuples(const struct json_field *f, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "at most %llu arrays",
                                (unsigned long long)f->max);

    for (const struct json_field *m = f->list->fields; m->name && n < size; m++)
        n += (size_t)snprintf(out + n, size - n, "%s%s%s",
                              m == f->list->fields ? " [" : ", ", m->name,
                              m[1].name ? "" : "]");
}

void field_say_expected(const struct json_field *f, char *out, size_t size)
{
    const char *plain = f->expected;

    assert(size > 0);

    switch (f->kind) {
    case FIELD_BOOL:
        plain = plain ? plain : "true or false";
        break;
    case FIELD_SECONDS:
        plain = plain ? plain : "a finite number of seconds >= 0";
        break;
    case FIELD_REAL:
        plain = plain ? plain : "a number, \"nan\", \"inf\" or \"-inf\"";
        break;
    case FIELD_STRING:
        plain = plain ? plain : "a string, not empty";
        break;
    case FIELD_JSON:
    case FIELD_OBJECT:
        plain = plain ? plain : "an object";
        break;
    case FIELD_ARRAY:
        plain = plain ? plain : "an array";
        break;
    case FIELD_TREE:
        plain = plain ? plain : "an array or an object";
        break;
    default:
        break;
    }
    if (plain)
        snprintf(out, size, "%s", plain);
    else if (f->kind == FIELD_ENUM)
        say_names(f, out, size);
    else if (f->kind == FIELD_TUPLES)
        say_tuples(f, out, size);
    else if (f->kind == FIELD_OBJECTS)
        snprintf(out, size, "an array of %llu to %llu objects",
                 (unsigned long long)f->min, (unsigned long long)f->max);
    else if (f->kind == FIELD_TEXT || f->kind == FIELD_REASON)
        snprintf(out, size, "a string of %llu to %llu bytes",
                 (unsigned long long)f->min, (unsigned long long)f->max);
    else
        snprintf(out, size, "an integer from %llu to %llu",
                 (unsigned long long)f->min, (unsigned long long)f->max);
}

void field_say_found(const json_t *v, char *out, size_t size)
{
    if (!v)
        snprintf(out, size, "nothing");
    else if (json_is_integer(v))
        snprintf(out, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, size, "%g", json_real_value(v));
    else if (json_is_string(v))
        snprintf(out, size, "\"%.40s\"", json_string_value(v));
    else
        snprintf(out, size, "%s",
                 json_is_object(v)  ? "an object"
                 : json_is_array(v) ? "an array"
                 : json_is_null(v)  ? "null"
                                    : "true or false");
}
