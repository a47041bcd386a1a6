#include "base/json/fields.h"

#include "base/json/field_words.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_tree(enum field_kind kind)
{
    return kind == FIELD_OBJECT || kind == FIELD_ARRAY || kind == FIELD_TREE;
}

static bool tree_fits(enum field_kind kind, const json_t *v)
{
    return (kind != FIELD_ARRAY && json_is_object(v)) ||
           (kind != FIELD_OBJECT && json_is_array(v));
}

static uint32_t *count_of(const struct json_field *f, const void *base)
{
    return (uint32_t *)((char *)(uintptr_t)base + f->list->count);
}

static char *items_of(const struct json_field *f, const void *base)
{
    char *p = (char *)(uintptr_t)base + f->offset;

    return f->list->owned ? *(char **)p : p;
}

/* ---- writing ------------------------------------------------------------- */

static json_t *integer(uint64_t n, const struct json_field *f, enum err *err)
{
    if (n < f->min || n > f->max || n > FIELD_INT_MAX) {
        *err = ERR_INVAL;
        return NULL;
    }
    return json_integer((json_int_t)n);
}

static json_t *text(const char *s, const struct json_field *f, enum err *err)
{
    if (!memchr(s, 0, f->max + 1) || strlen(s) < f->min || !text_is_utf8(s)) {
        *err = ERR_INVAL;
        return NULL;
    }
    return json_string(s);
}

/* Reasons hold what applications and the system said, cut at some byte: what
 * is no UTF-8 must not cost the whole message. */
static json_t *reason(const char *s, const struct json_field *f, enum err *err)
{
    char *clean;
    json_t *v;

    if (!memchr(s, 0, f->max + 1) || strlen(s) < f->min) {
        *err = ERR_INVAL;
        return NULL;
    }
    clean = mem_strdup(s);
    if (!clean)
        return NULL;
    text_to_utf8(clean);
    v = json_string(clean);
    mem_free(clean);
    return v;
}

static json_t *json_text_to(const char *s, const struct json_field *f,
                            enum err *err)
{
    json_t *v = NULL;

    if (memchr(s, 0, f->max + 1))
        *err = json_load(s, strlen(s), &v, NULL, NULL);
    else
        *err = ERR_INVAL;
    return v;
}

/* NULL where @err is set, or memory is short. */
static json_t *value_of(const struct json_field *f, const void *base,
                        enum err *err);

static json_t *tuple(const struct json_field fields[], const void *item,
                     enum err *err)
{
    json_t *a = json_array();

    for (; a && fields->name; fields++)
        if (json_array_append_new(a, value_of(fields, item, err))) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *item_of(const struct json_field *f, const void *item,
                       enum err *err)
{
    json_t *o;

    if (f->kind == FIELD_TUPLES)
        return tuple(f->list->fields, item, err);
    o = json_object();
    if (!o)
        return NULL;
    *err = fields_put(o, f->list->fields, item);
    if (!*err)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *list(const struct json_field *f, const void *base, enum err *err)
{
    uint32_t n = *count_of(f, base);
    const char *items = items_of(f, base);
    json_t *a;

    if (n < f->min || n > f->max) {
        *err = ERR_INVAL;
        return NULL;
    }
    a = json_array();
    for (uint32_t i = 0; a && i < n; i++)
        if (json_array_append_new(a,
                                  item_of(f, items + i * f->list->item, err))) {
            json_decref(a);
            return NULL;
        }
    return a;
}

static json_t *tree(const struct json_field *f, json_t *v, enum err *err)
{
    if (!v)
        return f->kind == FIELD_OBJECT ? json_object() : json_array();
    if (tree_fits(f->kind, v))
        return json_incref(v);
    *err = ERR_INVAL;
    return NULL;
}

static json_t *value_of(const struct json_field *f, const void *base,
                        enum err *err)
{
    const void *p = (const char *)base + f->offset;
    unsigned number;
    uint32_t id;
    double x;

    switch (f->kind) {
    case FIELD_BOOL:
        return json_boolean(*(const bool *)p);
    case FIELD_U32:
        return integer(*(const uint32_t *)p, f, err);
    case FIELD_U64:
    case FIELD_I64: /* a negative one is above FIELD_INT_MAX */
        return integer(*(const uint64_t *)p, f, err);
    case FIELD_ID:
    case FIELD_ID_OR_NULL:
        id = *(const uint32_t *)p;
        if (id != FIELD_NO_ID)
            return json_integer(id);
        if (f->kind == FIELD_ID_OR_NULL)
            return json_null();
        break;
    case FIELD_SECONDS:
        x = *(const double *)p;
        if (isfinite(x) && x >= 0)
            return json_real(x);
        break;
    case FIELD_REAL:
        return json_of_number(*(const double *)p);
    case FIELD_TEXT:
        return text(p, f, err);
    case FIELD_REASON:
        return reason(p, f, err);
    case FIELD_STRING: {
        const char *s = *(char *const *)p;

        if (s && *s && text_is_utf8(s))
            return json_string(s);
        break;
    }
    case FIELD_JSON:
        return json_text_to(p, f, err);
    case FIELD_ENUM:
        number = *(const unsigned *)p;
        if (number >= f->min && number <= f->max)
            return json_string(f->name_of(number));
        break;
    case FIELD_OBJECT:
    case FIELD_ARRAY:
    case FIELD_TREE:
        return tree(f, *(json_t *const *)p, err);
    case FIELD_OBJECTS:
    case FIELD_TUPLES:
        return list(f, base, err);
    case FIELD_CUSTOM:
        return f->custom->to_json(p);
    case FIELD_PART:
    case FIELD_COLUMNS:
        assert(!"a field of one value");
        break;
    }
    *err = ERR_INVAL;
    return NULL;
}

/* Some optional members are left out where they say nothing. */
static bool is_absent(const struct json_field *f, const void *base)
{
    const void *p = (const char *)base + f->offset;

    if (f->sparse && f->kind == FIELD_BOOL)
        return !*(const bool *)p;
    if (f->sparse)
        return f->kind == FIELD_U64 ? !*(const uint64_t *)p
                                    : !*(const uint32_t *)p;
    return f->optional &&
           ((f->kind == FIELD_ID && *(const uint32_t *)p == FIELD_NO_ID) ||
            (f->kind == FIELD_JSON && !*(const char *)p) ||
            (f->kind == FIELD_STRING && !*(char *const *)p) ||
            (is_tree(f->kind) && !*(json_t *const *)p));
}

/* @value, NULL where it could not be made, is transferred. */
static enum err put(json_t *object, const char *name, json_t *value,
                    enum err err)
{
    if (!value)
        return err ? err : ERR_NOMEM;
    return json_object_set_new_nocheck(object, name, value) ? ERR_NOMEM
                                                            : ERR_OK;
}

static enum err put_column(json_t *object, const struct json_field *column,
                           const char *items, uint32_t n, size_t item)
{
    json_t *a = json_array();
    enum err err = ERR_OK;

    for (uint32_t i = 0; a && i < n; i++)
        if (json_array_append_new(a,
                                  value_of(column, items + i * item, &err))) {
            json_decref(a);
            a = NULL;
        }
    return put(object, column->name, a, err);
}

static enum err put_columns(json_t *object, const struct json_field *f,
                            const void *base)
{
    const struct json_field *column = f->list->fields;
    uint32_t n = *count_of(f, base);
    enum err err = n < f->min || n > f->max ? ERR_INVAL : ERR_OK;

    for (; !err && column->name; column++)
        err = put_column(object, column, items_of(f, base), n, f->list->item);
    return err;
}

enum err fields_put(json_t *object, const struct json_field fields[],
                    const void *base)
{
    enum err err = ERR_OK;

    assert(json_is_object(object));
    assert(fields && base);
    for (const struct json_field *f = fields; !err && f->name; f++) {
        if (f->kind == FIELD_PART) {
            err = fields_put(object, f->part, (const char *)base + f->offset);
        } else if (f->kind == FIELD_COLUMNS) {
            err = put_columns(object, f, base);
        } else if (!is_absent(f, base)) {
            json_t *v = value_of(f, base, &err);

            err = put(object, f->name, v, err);
        }
    }
    return err;
}

/* ---- reading ------------------------------------------------------------- */

/* Where reading stands: what a caller is told when it fails. */
struct reading {
    const char *wrong;
    struct fault *fault;
};

/* Fault about @f; @v is what was found there, NULL for nothing. */
static enum err bad_member(struct reading *r, const struct json_field *f,
                           const json_t *v)
{
    char expected[128], found[64];

    r->wrong = f->name;
    if (!r->fault)
        return ERR_FORMAT;
    field_say_expected(f, expected, sizeof(expected));
    field_say_found(v, found, sizeof(found));
    return fault_set(r->fault, ERR_FORMAT, "%s: expected %s, found %s", f->name,
                     expected, found);
}

static enum err no_memory(struct reading *r, const struct json_field *f)
{
    r->wrong = f->name;
    return fault_set(r->fault, ERR_NOMEM, "%s: %s", f->name,
                     err_text(ERR_NOMEM));
}

static bool count_from(const json_t *v, uint64_t min, uint64_t max,
                       uint64_t *out)
{
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
        return false;
    *out = (uint64_t)n;
    return true;
}

static bool text_from(const struct json_field *f, const json_t *v, char *out)
{
    size_t n = json_string_length(v);

    if (!json_is_string(v) || n < f->min || n > f->max ||
        strlen(json_string_value(v)) != n)
        return false;
    memcpy(out, json_string_value(v), n + 1);
    return true;
}

/* ERR_FORMAT: no object, or too long. */
static enum err json_text_from(const struct json_field *f, const json_t *v,
                               char *out)
{
    char *text = json_is_object(v) ? json_write(v, 0) : NULL;
    enum err err = ERR_FORMAT;

    if (json_is_object(v) && !text)
        err = ERR_NOMEM;
    if (text && strlen(text) <= f->max) {
        memcpy(out, text, strlen(text) + 1);
        err = ERR_OK;
    }
    mem_free(text);
    return err;
}

static bool name_from(const struct json_field *f, const json_t *v,
                      unsigned *out)
{
    const char *s = json_string_value(v);

    for (uint64_t i = f->min; s && i <= f->max; i++)
        if (strcmp(s, f->name_of((unsigned)i)) == 0) {
            *out = (unsigned)i;
            return true;
        }
    return false;
}

static enum err value_from(const struct json_field *f, json_t *v, void *base);

static enum err tuple_from(const struct json_field fields[], const json_t *v,
                           void *item)
{
    size_t n = 0;
    enum err err = json_is_array(v) ? ERR_OK : ERR_FORMAT;

    for (; !err && fields[n].name; n++)
        err = value_from(&fields[n], json_array_get(v, n), item);
    return !err && json_array_size(v) != n ? ERR_FORMAT : err;
}

static enum err item_from(const struct json_field *f, const json_t *v,
                          void *item)
{
    if (f->kind == FIELD_TUPLES)
        return tuple_from(f->list->fields, v, item);
    if (!json_is_object(v))
        return ERR_FORMAT;
    return fields_get(v, f->list->fields, item, NULL, NULL);
}

/* Room for @n items, their number noted. */
static enum err make_room(const struct json_field *f, size_t n, void *base)
{
    if (f->list->owned) {
        char **items = (char **)((char *)base + f->offset);

        *items = mem_calloc(n, f->list->item);
        if (!*items)
            return ERR_NOMEM;
    }
    *count_of(f, base) = (uint32_t)n;
    return ERR_OK;
}

static enum err list_from(const struct json_field *f, const json_t *v,
                          void *base)
{
    size_t n = json_array_size(v);
    enum err err;

    if (!json_is_array(v) || n < f->min || n > f->max)
        return ERR_FORMAT;
    err = make_room(f, n, base);
    for (size_t i = 0; !err && i < n; i++)
        err = item_from(f, json_array_get(v, i),
                        items_of(f, base) + i * f->list->item);
    return err;
}

/* ERR_FORMAT: @v, NULL where there is nothing, does not fit. */
static enum err value_from(const struct json_field *f, json_t *v, void *base)
{
    void *p = (char *)base + f->offset;
    bool ok = false;
    uint64_t n = 0;

    switch (f->kind) {
    case FIELD_BOOL:
        ok = json_is_boolean(v);
        *(bool *)p = json_is_true(v);
        break;
    case FIELD_U32:
        ok = count_from(v, f->min, f->max, &n);
        *(uint32_t *)p = (uint32_t)n;
        break;
    case FIELD_U64:
    case FIELD_I64:
        ok = count_from(v, f->min, f->max, &n);
        *(uint64_t *)p = n;
        break;
    case FIELD_ID:
    case FIELD_ID_OR_NULL:
        n = FIELD_NO_ID;
        ok = (f->kind == FIELD_ID_OR_NULL && json_is_null(v)) ||
             count_from(v, 0, FIELD_NO_ID - 1, &n);
        *(uint32_t *)p = (uint32_t)n;
        break;
    case FIELD_SECONDS:
        ok = json_is_number(v) && json_number_value(v) >= 0;
        *(double *)p = json_number_value(v);
        break;
    case FIELD_REAL:
        ok = json_to_number(v, p);
        break;
    case FIELD_TEXT:
    case FIELD_REASON:
        ok = text_from(f, v, p);
        break;
    case FIELD_STRING:
        ok = json_string_length(v) > 0;
        if (ok && !(*(char **)p = mem_strdup(json_string_value(v))))
            return ERR_NOMEM;
        break;
    case FIELD_JSON:
        return json_text_from(f, v, p);
    case FIELD_ENUM:
        ok = name_from(f, v, p);
        break;
    case FIELD_OBJECT:
    case FIELD_ARRAY:
    case FIELD_TREE:
        ok = tree_fits(f->kind, v);
        if (ok)
            *(json_t **)p = json_incref(v);
        break;
    case FIELD_OBJECTS:
    case FIELD_TUPLES:
        return list_from(f, v, base);
    case FIELD_CUSTOM:
        ok = f->custom->from_json(v, p);
        break;
    case FIELD_PART:
    case FIELD_COLUMNS:
        assert(!"a field of one value");
        break;
    }
    return ok ? ERR_OK : ERR_FORMAT;
}

static enum err get_member(const json_t *object, const struct json_field *f,
                           void *base, struct reading *r)
{
    json_t *v = json_object_get(object, f->name);
    enum err err;

    if (!v && f->optional) {
        if (f->kind == FIELD_ID || f->kind == FIELD_ID_OR_NULL)
            *(uint32_t *)((char *)base + f->offset) = FIELD_NO_ID;
        return ERR_OK;
    }
    err = v ? value_from(f, v, base) : ERR_FORMAT;
    if (err == ERR_FORMAT)
        return bad_member(r, f, v);
    return err ? no_memory(r, f) : ERR_OK;
}

/* The column @c of @n values; @first is the one that said how many. */
static enum err get_column(const json_t *object, const struct json_field *c,
                           const struct json_field *first, size_t n,
                           char *items, size_t item, struct reading *r)
{
    const json_t *a = json_object_get(object, c->name);

    if (!a && c->optional)
        return ERR_OK; /* zero, as they were made */
    if (!json_is_array(a) || json_array_size(a) != n) {
        r->wrong = c->name;
        return fault_set(r->fault, ERR_FORMAT,
                         "%s: expected an array as long as `%s`", c->name,
                         first->name);
    }
    for (size_t i = 0; i < n; i++)
        if (value_from(c, json_array_get(a, i), items + i * item))
            return bad_member(r, c, json_array_get(a, i));
    return ERR_OK;
}

static enum err get_columns(const json_t *object, const struct json_field *f,
                            void *base, struct reading *r)
{
    const struct json_field *c = f->list->fields;
    const json_t *first = json_object_get(object, c->name);
    size_t n = json_array_size(first);
    enum err err = ERR_OK;

    if (!json_is_array(first) || n < f->min || n > f->max) {
        r->wrong = c->name;
        return fault_set(r->fault, ERR_FORMAT,
                         "%s: expected an array of %llu to %llu %s", c->name,
                         (unsigned long long)f->min, (unsigned long long)f->max,
                         f->name);
    }
    if (make_room(f, n, base))
        return no_memory(r, c);
    for (; !err && c->name; c++)
        err = get_column(object, c, f->list->fields, n, items_of(f, base),
                         f->list->item, r);
    return err;
}

static enum err get_fields(const json_t *object,
                           const struct json_field fields[], void *base,
                           struct reading *r)
{
    enum err err = ERR_OK;

    for (const struct json_field *f = fields; !err && f->name; f++)
        if (f->kind == FIELD_PART)
            err = get_fields(object, f->part, (char *)base + f->offset, r);
        else if (f->kind == FIELD_COLUMNS)
            err = get_columns(object, f, base, r);
        else
            err = get_member(object, f, base, r);
    return err;
}

enum err fields_get(const json_t *object, const struct json_field fields[],
                    void *base, const char **wrong, struct fault *f)
{
    struct reading r = {.fault = f};
    enum err err;

    assert(fields && base);
    err = get_fields(object, fields, base, &r);
    if (err && wrong)
        *wrong = r.wrong;
    return err;
}

/* ---- owned members ------------------------------------------------------- */

void fields_deinit(const struct json_field fields[], void *base)
{
    for (const struct json_field *f = fields; f->name; f++) {
        void *p = (char *)base + f->offset;

        if (f->kind == FIELD_PART)
            fields_deinit(f->part, p);
        if (is_tree(f->kind)) {
            json_decref(*(json_t **)p);
            *(json_t **)p = NULL;
        }
        if (f->kind == FIELD_STRING || (f->list && f->list->owned)) {
            mem_free(*(void **)p);
            *(void **)p = NULL;
        }
    }
}

void fields_disown(const struct json_field fields[], void *base)
{
    assert(fields && base);
    for (const struct json_field *f = fields; f->name; f++) {
        void *p = (char *)base + f->offset;

        if (f->kind == FIELD_PART)
            fields_disown(f->part, p);
        if (is_tree(f->kind) || f->kind == FIELD_STRING ||
            (f->list && f->list->owned))
            *(void **)p = NULL;
    }
}

void fields_share(const struct json_field fields[], void *base)
{
    for (const struct json_field *f = fields; f->name; f++) {
        assert(f->kind != FIELD_STRING && !(f->list && f->list->owned));
        if (f->kind == FIELD_PART)
            fields_share(f->part, (char *)base + f->offset);
        if (is_tree(f->kind))
            json_incref(*(json_t **)((char *)base + f->offset));
    }
}

/* As if all had been copied before: each member becomes a copy, or NULL. */
static enum err own_each(const struct json_field fields[], void *base)
{
    enum err err = ERR_OK;

    for (const struct json_field *f = fields; f->name; f++) {
        json_t **v = (json_t **)((char *)base + f->offset);

        assert(f->kind != FIELD_STRING && !(f->list && f->list->owned));
        if (f->kind == FIELD_PART && own_each(f->part, v))
            err = ERR_NOMEM;
        if (is_tree(f->kind) && *v && !(*v = json_copied(*v)))
            err = ERR_NOMEM;
    }
    return err;
}

enum err fields_own(const struct json_field fields[], void *base)
{
    enum err err = own_each(fields, base);

    if (err)
        fields_deinit(fields, base);
    return err;
}
