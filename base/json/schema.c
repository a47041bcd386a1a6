#include "base/json/schema.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 64 };

/* ---- checking ------------------------------------------------------------ */

struct check {
    char pointer[JSON_POINTER_MAX];
    struct problems *out; /* NULL: only whether it holds */
    bool failed;
    unsigned depth;
};

static void check_value(struct check *c, const json_t *schema,
                        const json_t *value);

static const char *string_of(const json_t *schema, const char *key)
{
    const char *s = json_string_value(json_object_get(schema, key));

    return s ? s : "";
}

static bool is_type(const json_t *value, const char *type)
{
    double x = json_number_value(value);

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return strcmp(type, "object") == 0;
    case JSON_ARRAY:
        return strcmp(type, "array") == 0;
    case JSON_STRING:
        return strcmp(type, "string") == 0;
    case JSON_INTEGER:
        return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0 ||
               (strcmp(type, "integer") == 0 && x == floor(x));
    case JSON_TRUE:
    case JSON_FALSE:
        return strcmp(type, "boolean") == 0;
    case JSON_NULL:
        return strcmp(type, "null") == 0;
    }
    return false;
}

/* Whether one of the types that @schema allows is @value's; true where it names
 * none. */
static bool has_type(const json_t *schema, const json_t *value)
{
    const json_t *type = json_object_get(schema, "type");
    json_t *one;
    size_t i;

    if (json_is_string(type))
        return is_type(value, json_string_value(type));
    json_array_foreach(type, i, one)
    {
        if (is_type(value, json_string_value(one)))
            return true;
    }
    return !type;
}

static void words_of_type(struct text *t, const json_t *schema)
{
    static const struct {
        const char *type, *words;
    } names[] = {{"integer", "a whole number"},
                 {"number", "a number"},
                 {"string", "a text"},
                 {"boolean", "true or false"},
                 {"object", "an object"},
                 {"array", "a list"},
                 {"null", "null"}};
    const json_t *type = json_object_get(schema, "type");
    size_t n = json_is_array(type) ? json_array_size(type) : 1;

    for (size_t i = 0; i < n; i++) {
        const char *s = json_string_value(
            json_is_array(type) ? json_array_get(type, i) : type);

        for (size_t k = 0; s && k < sizeof(names) / sizeof(*names); k++)
            if (strcmp(s, names[k].type) == 0)
                text_printf(t, "%s%s", i > 0 ? " or " : "", names[k].words);
    }
}

static void words_of_bound(struct text *t, const json_t *schema,
                           const char *key, const char *words)
{
    const json_t *bound = json_object_get(schema, key);
    char *s = bound ? json_write(bound, 0) : NULL;

    if (s)
        text_printf(t, " %s %s", words, s);
    mem_free(s);
}

static void words_of_range(struct text *t, const json_t *schema)
{
    bool both = json_object_get(schema, "minimum") &&
                json_object_get(schema, "maximum");

    words_of_bound(t, schema, "minimum", both ? "from" : "of at least");
    words_of_bound(t, schema, "maximum", both ? "to" : "of at most");
    words_of_bound(t, schema, "exclusiveMinimum", "above");
    words_of_bound(t, schema, "exclusiveMaximum", "below");
}

static void words_of_enum(struct text *t, const json_t *choices)
{
    size_t n = json_array_size(choices);

    text_puts(t, n > 1 ? "one of " : "");
    for (size_t i = 0; i < n; i++) {
        char *s = json_write(json_array_get(choices, i), 0);

        text_printf(t, "%s%s", i > 0 ? ", " : "", s ? s : "?");
        mem_free(s);
    }
}

static void words_of_length(struct text *t, const json_t *schema,
                            const char *least, const char *most)
{
    bool both = json_object_get(schema, least) && json_object_get(schema, most);

    words_of_bound(t, schema, least,
                   both ? "with a length from" : "with a length of at least");
    words_of_bound(t, schema, most, both ? "to" : "with a length of at most");
}

static char *expected_of(const json_t *schema);

static void words_of_any(struct text *t, const json_t *list)
{
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        char *words = expected_of(one);

        text_printf(t, "%s%s", i > 0 ? ", or " : "", words ? words : "?");
        mem_free(words);
    }
}

/* The demand of @schema in words: "a whole number from 1 to 100". */
static char *expected_of(const json_t *schema)
{
    const json_t *any = json_object_get(schema, "anyOf");
    const json_t *choices = json_object_get(schema, "enum");
    const json_t *constant = json_object_get(schema, "const");
    const char *format = string_of(schema, "format");
    const char *unit = string_of(schema, "x-unit");
    struct text t = {0};

    if (any) {
        words_of_any(&t, any);
        return text_take(&t);
    }
    if (choices) {
        words_of_enum(&t, choices);
        return text_take(&t);
    }
    if (constant) {
        char *s = json_write(constant, 0);

        text_puts(&t, s ? s : "?");
        mem_free(s);
        return text_take(&t);
    }
    if (strcmp(format, "seconds") == 0)
        text_puts(&t, "a duration such as \"10m\", or a number of seconds,");
    else if (strcmp(format, "bytes") == 0)
        text_puts(&t, "a size such as \"8GiB\", or a number of bytes,");
    else
        words_of_type(&t, schema);
    words_of_range(&t, schema);
    words_of_length(&t, schema, "minLength", "maxLength");
    words_of_length(&t, schema, "minItems", "maxItems");
    if (t.len > 0 && t.s[t.len - 1] == ',')
        t.s[--t.len] = '\0';
    if (*unit)
        text_printf(&t, " (%s)", unit);
    if (t.len == 0)
        text_puts(&t, "another value");
    return text_take(&t);
}

static struct problem *complain(struct check *c, const json_t *schema,
                                const json_t *found)
{
    struct problem *p;
    char *expected;

    c->failed = true;
    if (!c->out)
        return NULL;
    expected = expected_of(schema);
    if (!expected)
        c->out->no_memory = true;
    p = problems_add(c->out, c->pointer, found, "%s",
                     expected ? expected : "another value");
    mem_free(expected);
    return p;
}

/* Puts "did you mean "x"?" into @p's hint where one of @names[n] is near. */
static void hint_nearest(struct problem *p, const char *word,
                         const char *const names[], size_t n)
{
    const char *nearest = text_nearest(word, names, n);

    if (p && nearest)
        snprintf(p->hint, sizeof(p->hint), "did you mean \"%s\"?", nearest);
}

static bool in_list(const json_t *list, const json_t *value)
{
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_equal(one, value))
            return true;
        if (json_is_number(one) && json_is_number(value) &&
            json_number_value(one) == json_number_value(value))
            return true;
    }
    return false;
}

/* Adds the texts that @schema lists to @names[*n]. */
static void take_names(const json_t *schema, const char *names[NAMES_MAX],
                       size_t *n)
{
    const json_t *choices = json_object_get(schema, "enum");
    json_t *one;
    size_t i;

    json_array_foreach(choices, i, one)
    {
        if (json_is_string(one) && *n < NAMES_MAX)
            names[(*n)++] = json_string_value(one);
    }
}

static void check_choice(struct check *c, const json_t *schema,
                         const json_t *value)
{
    const json_t *choices = json_object_get(schema, "enum");
    const json_t *constant = json_object_get(schema, "const");
    const char *names[NAMES_MAX];
    struct problem *p;
    size_t n = 0;

    if (constant && !json_equal(constant, value))
        complain(c, schema, value);
    if (!choices || in_list(choices, value))
        return;
    p = complain(c, schema, value);
    take_names(schema, names, &n);
    if (json_is_string(value))
        hint_nearest(p, json_string_value(value), names, n);
}

static bool within(const json_t *schema, double x)
{
    const json_t *least = json_object_get(schema, "minimum");
    const json_t *most = json_object_get(schema, "maximum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum");
    const json_t *below = json_object_get(schema, "exclusiveMaximum");

    return (!least || x >= json_number_value(least)) &&
           (!most || x <= json_number_value(most)) &&
           (!above || x > json_number_value(above)) &&
           (!below || x < json_number_value(below));
}

static bool within_length(const json_t *schema, const char *least_key,
                          const char *most_key, size_t n)
{
    const json_t *least = json_object_get(schema, least_key);
    const json_t *most = json_object_get(schema, most_key);

    return (!least || (json_int_t)n >= json_integer_value(least)) &&
           (!most || (json_int_t)n <= json_integer_value(most));
}

static void check_scalar(struct check *c, const json_t *schema,
                         const json_t *value)
{
    const char *format = string_of(schema, "format");
    bool good = true;
    uint64_t bytes;
    double x;

    if (strcmp(format, "seconds") == 0)
        good = json_to_seconds(value, &x) && within(schema, x);
    else if (strcmp(format, "bytes") == 0)
        good = json_to_bytes(value, &bytes) && within(schema, (double)bytes);
    else if (json_is_number(value))
        good = within(schema, json_number_value(value));
    else if (json_is_string(value))
        good = within_length(schema, "minLength", "maxLength",
                             json_string_length(value));
    if (!good)
        complain(c, schema, value);
    else
        check_choice(c, schema, value);
}

static void unknown_key(struct check *c, const json_t *properties,
                        const char *key, const json_t *value)
{
    const char *names[NAMES_MAX], *name;
    struct text known = {0};
    struct problem *p;
    size_t n = 0, before;
    json_t *one;

    c->failed = true;
    if (!c->out)
        return;
    json_object_foreach((json_t *)properties, name, one)
    {
        text_printf(&known, "%s%s", n > 0 ? ", " : "", name);
        if (n < NAMES_MAX)
            names[n++] = name;
    }
    before = json_pointer_push(c->pointer, key);
    p = n > 0 ? problems_add(c->out, c->pointer, value, "one of the keys %s",
                             known.s ? known.s : "")
              : problems_add(c->out, c->pointer, value,
                             "no key: there are no settings here");
    json_pointer_cut(c->pointer, before);
    text_deinit(&known);
    if (!p)
        return;
    p->at_key = true;
    snprintf(p->found, sizeof(p->found), "\"%.64s\"", key);
    hint_nearest(p, key, names, n);
}

static void check_member(struct check *c, const json_t *schema, const char *key,
                         const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const json_t *own = json_object_get(properties, key);
    size_t before;

    if (!own && json_is_object(others))
        own = others;
    if (!own && (others ? json_is_false(others) : properties != NULL)) {
        unknown_key(c, properties, key, value);
        return;
    }
    if (!own)
        return;
    before = json_pointer_push(c->pointer, key);
    check_value(c, own, value);
    json_pointer_cut(c->pointer, before);
}

static void check_object(struct check *c, const json_t *schema,
                         const json_t *value)
{
    json_t *required = json_object_get(schema, "required"), *name, *member;
    json_t *properties = json_object_get(schema, "properties");
    size_t before;
    const char *key;
    size_t i;

    json_object_foreach((json_t *)value, key, member)
        check_member(c, schema, key, member);
    json_array_foreach(required, i, name)
    {
        key = json_string_value(name);
        if (!key || json_object_get(value, key))
            continue;
        before = json_pointer_push(c->pointer, key);
        complain(c, json_object_get(properties, key), NULL);
        json_pointer_cut(c->pointer, before);
    }
}

static void check_array(struct check *c, const json_t *schema,
                        const json_t *value)
{
    const json_t *items = json_object_get(schema, "items");
    size_t before;
    json_t *one;
    size_t i;

    if (!within_length(schema, "minItems", "maxItems", json_array_size(value)))
        complain(c, schema, value);
    json_array_foreach(value, i, one)
    {
        if (!items)
            break;
        before = json_pointer_push_index(c->pointer, i);
        check_value(c, items, one);
        json_pointer_cut(c->pointer, before);
    }
}

static bool holds(const json_t *schema, const json_t *value)
{
    struct check c = {.out = NULL};

    check_value(&c, schema, value);
    return !c.failed;
}

/* Reports against the one alternative that names @value's type; where none or
 * several do, says what all of them want. */
static void check_any_of(struct check *c, const json_t *list,
                         const json_t *value)
{
    const json_t *fitting = NULL;
    const char *names[NAMES_MAX];
    struct text expected = {0};
    size_t i, fits = 0, n = 0;
    struct problem *p;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        if (holds(one, value))
            return;
        if (!json_object_get(one, "type") || !has_type(one, value))
            continue;
        fitting = one;
        fits++;
    }
    if (fits == 1 && json_is_object(value)) {
        check_value(c, fitting, value);
        return;
    }
    c->failed = true;
    if (!c->out)
        return;
    words_of_any(&expected, list);
    json_array_foreach(list, i, one) take_names(one, names, &n);
    p = problems_add(c->out, c->pointer, value, "%s",
                     expected.s ? expected.s : "another value");
    if (json_is_string(value))
        hint_nearest(p, json_string_value(value), names, n);
    text_deinit(&expected);
}

static void check_value(struct check *c, const json_t *schema,
                        const json_t *value)
{
    const json_t *any = json_object_get(schema, "anyOf");

    if (!json_is_object(schema) || c->depth >= JSON_DEPTH_MAX)
        return;
    if (!has_type(schema, value)) {
        complain(c, schema, value);
        return;
    }
    c->depth++;
    if (any)
        check_any_of(c, any, value);
    if (json_is_object(value))
        check_object(c, schema, value);
    else if (json_is_array(value))
        check_array(c, schema, value);
    else
        check_scalar(c, schema, value);
    c->depth--;
}

void schema_check(const json_t *schema, const json_t *value,
                  const char *pointer, struct problems *out)
{
    struct check c = {.out = out};

    assert(value);
    assert(json_is_object(schema));
    assert(!*pointer || *pointer == '/');
    snprintf(c.pointer, sizeof(c.pointer), "%s", pointer);
    check_value(&c, schema, value);
}

/* ---- defaults ------------------------------------------------------------ */

static enum err complete_absent(const json_t *schema, json_t *object,
                                const char *key)
{
    const json_t *fallback = json_object_get(schema, "default");
    json_t *made;
    enum err err;

    if (fallback) {
        made = json_copied(fallback);
        return json_object_set_new(object, key, made) ? ERR_NOMEM : ERR_OK;
    }
    if (!json_object_get(schema, "properties") ||
        json_object_get(schema, "required"))
        return ERR_OK;
    made = json_object();
    if (!made)
        return ERR_NOMEM;
    err = schema_complete(schema, made);
    if (!err && json_object_size(made) > 0)
        err = json_object_set(object, key, made) ? ERR_NOMEM : ERR_OK;
    json_decref(made);
    return err;
}

enum err schema_complete(const json_t *schema, json_t *value)
{
    json_t *properties = json_object_get(schema, "properties"), *own, *member;
    enum err err = ERR_OK;
    const char *key;

    assert(json_is_object(value));
    json_object_foreach(properties, key, own)
    {
        member = json_object_get(value, key);
        if (!member)
            err = complete_absent(own, value, key);
        else if (json_is_object(member))
            err = schema_complete(own, member);
        if (err)
            break;
    }
    return err;
}

/* ---- order --------------------------------------------------------------- */

static bool in_order(const json_t *properties, const json_t *value)
{
    json_t *all = (json_t *)value, *own;
    void *at = json_object_iter(all);
    const char *key;

    json_object_foreach((json_t *)properties, key, own)
    {
        if (!at)
            return true;
        if (strcmp(json_object_iter_key(at), key) == 0)
            at = json_object_iter_next(all, at);
    }
    for (; at; at = json_object_iter_next(all, at))
        if (json_object_get(properties, json_object_iter_key(at)))
            return false;
    return true;
}

/* Moves members of @all to @out: those of @properties, then the rest. */
static int move_in_order(const json_t *properties, json_t *all, json_t *out)
{
    json_t *own, *member;
    const char *key;
    int failed = 0;

    json_object_foreach((json_t *)properties, key, own)
    {
        member = json_object_get(all, key);
        if (member)
            failed |= json_object_set(out, key, member);
    }
    json_object_foreach(all, key, member)
    {
        if (!json_object_get(out, key))
            failed |= json_object_set(out, key, member);
    }
    return failed;
}

static enum err order_members(const json_t *properties, json_t *value)
{
    json_t *all = json_copied_members(value);
    enum err err = ERR_OK;

    if (!all)
        return ERR_NOMEM;
    json_object_clear(value);
    if (move_in_order(properties, all, value) != 0)
        err = ERR_NOMEM;
    json_decref(all);
    return err;
}

enum err schema_order(const json_t *schema, json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties");
    json_t *own, *member;
    enum err err = ERR_OK;
    const char *key;

    assert(json_is_object(value));
    if (!properties)
        return ERR_OK;
    if (!in_order(properties, value))
        err = order_members(properties, value);
    json_object_foreach((json_t *)properties, key, own)
    {
        member = json_object_get(value, key);
        if (!err && json_is_object(member))
            err = schema_order(own, member);
    }
    return err;
}
