#include "searchers/space/space_json.h"

#include "base/json/json.h"
#include "base/json/schema.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Members of a tunable's object; meaning is checked after form. */
static const char tunable_schema[] =
    "{\"type\": \"object\", \"properties\": {"
    "\"type\": {\"type\": \"string\","
    " \"enum\": [\"float\", \"int\", \"categorical\"]},"
    "\"min\": {\"type\": \"number\"}, \"max\": {\"type\": \"number\"},"
    "\"scale\": {\"type\": \"string\","
    " \"enum\": [\"linear\", \"log\", \"reverse_log\"]},"
    "\"values\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 64,"
    " \"items\": {\"type\": [\"number\", \"string\"]}},"
    "\"default\": {\"type\": [\"number\", \"string\"]},"
    "\"fixed\": {\"type\": [\"number\", \"string\"]},"
    "\"retune\": {\"type\": \"boolean\"}, \"free\": {\"type\": \"boolean\"},"
    "\"when\": {\"type\": \"object\", \"additionalProperties\": {\"anyOf\": ["
    " {\"type\": [\"number\", \"string\"]},"
    " {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 64,"
    "  \"items\": {\"type\": [\"number\", \"string\"]}},"
    " {\"type\": \"object\", \"required\": [\"min\", \"max\"], \"properties\":"
    "  {\"min\": {\"type\": \"number\"}, \"max\": {\"type\": \"number\"}}}"
    "]}}}}";

const char *space_json_schema(void)
{
    return tunable_schema;
}

static const char *const type_names[] = {"float", "int", "categorical"};
bool space_type_known(const char *name)
{
    for (size_t i = 0; i < sizeof(type_names) / sizeof(*type_names); i++)
        if (strcmp(name, type_names[i]) == 0)
            return true;
    return false;
}

static const char *const scale_names[] = {"linear", "log", "reverse_log"};

/* Parsing of one space: where we are, and where complaints go. */
struct parse {
    char pointer[JSON_POINTER_MAX];
    struct problems *problems;
    bool failed;
};

/* Complains about member @key of the object here (NULL: the object itself). */
static struct problem *wrong(struct parse *p, const char *key,
                             const json_t *found, const char *expected)
{
    size_t before = strlen(p->pointer);
    struct problem *problem;

    p->failed = true;
    if (key)
        json_pointer_push(p->pointer, key);
    problem = problems_add(p->problems, p->pointer, found, "%s", expected);
    json_pointer_cut(p->pointer, before);
    return problem;
}

/* Complains of a key that should name a tunable of @s. */
/* "they are a, b, c", as many as there is room for. */
static void list_names(const struct space *s, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->len; i++) {
        const char *name = s->tunable[i].name;

        if (len + strlen(name) + sizeof("they are , ...") > size) {
            snprintf(out + len, size - len, ", ...");
            return;
        }
        len += (size_t)snprintf(out + len, size - len, "%s%s",
                                i > 0 ? ", " : "they are ", name);
    }
}

static void wrong_name(struct parse *p, const struct space *s, const char *name,
                       const char *expected)
{
    struct problem *problem = wrong(p, name, NULL, expected);
    const char *names[TUNABLES_MAX], *near;

    if (!problem)
        return;
    for (size_t i = 0; i < s->len; i++)
        names[i] = s->tunable[i].name;
    near = text_nearest(name, names, s->len);
    problem->at_key = true;
    snprintf(problem->found, sizeof(problem->found), "\"%.64s\"", name);
    if (near)
        snprintf(problem->hint, sizeof(problem->hint), "did you mean \"%s\"?",
                 near);
    else
        list_names(s, problem->hint, sizeof(problem->hint));
}

static size_t word_index(const json_t *value, const char *const words[],
                         size_t n)
{
    const char *s = json_string_value(value);

    for (size_t i = 0; s && i < n; i++)
        if (strcmp(s, words[i]) == 0)
            return i;
    return 0;
}

/* An int in a double must be exact. */
static bool is_whole(double x)
{
    return x == floor(x) && fabs(x) <= 0x1p53;
}

/* Index of the category that @value names, or -1. */
static int category_of(const struct tunable *t, const json_t *value)
{
    const char *s = json_string_value(value);

    assert(t->type == TUNABLE_CATEGORICAL);
    for (size_t i = 0; i < t->values_len; i++) {
        const char *text = tunable_text(t, i);

        if (s ? text && strcmp(text, s) == 0
              : !text && t->values[i].number == json_number_value(value))
            return (int)i;
    }
    return -1;
}

/* @value as a setting would hold it, whether or not the range allows it. */
static bool read_value(const struct tunable *t, const json_t *value,
                       double *out)
{
    if (t->type == TUNABLE_CATEGORICAL) {
        *out = category_of(t, value);
        return *out >= 0;
    }
    if (!json_is_number(value))
        return false;
    *out = json_number_value(value);
    return t->type == TUNABLE_FLOAT || is_whole(*out);
}

static bool in_range(const struct tunable *t, double x)
{
    if (t->type == TUNABLE_CATEGORICAL)
        return true;
    for (size_t i = 0; i < t->values_len; i++)
        if (t->values[i].number == x)
            return true;
    return t->values_len == 0 && x >= t->min && x <= t->max;
}

/* "0.1 to 1", or the values, for messages. */
static const char *range_text(const struct tunable *t, char *out, size_t size)
{
    size_t len = 0;

    if (t->values_len == 0) {
        snprintf(out, size, "%s from %g to %g",
                 t->type == TUNABLE_INT ? "a whole number" : "a number", t->min,
                 t->max);
        return out;
    }
    len = (size_t)snprintf(out, size, "one of ");
    for (size_t i = 0; i < t->values_len && len < size; i++) {
        const char *text = tunable_text(t, i);
        const char *separator = i > 0 ? ", " : "";

        if (text)
            len += (size_t)snprintf(out + len, size - len, "%s\"%s\"",
                                    separator, text);
        else
            len += (size_t)snprintf(out + len, size - len, "%s%g", separator,
                                    t->values[i].number);
    }
    return out;
}

static void parse_range(struct parse *p, const json_t *o, struct tunable *t)
{
    const json_t *min = json_object_get(o, "min");
    const json_t *max = json_object_get(o, "max");

    if (!min || !max) {
        wrong(p, min ? "max" : "min", NULL, "a number (or \"values\")");
        return;
    }
    t->min = json_number_value(min);
    t->max = json_number_value(max);
    t->scale = (enum tunable_scale)word_index(json_object_get(o, "scale"),
                                              scale_names, 3);
    if (t->max < t->min)
        wrong(p, "max", max, "a number not below \"min\"");
    if (t->type == TUNABLE_INT && !is_whole(t->min))
        wrong(p, "min", min, "a whole number");
    if (t->type == TUNABLE_INT && !is_whole(t->max))
        wrong(p, "max", max, "a whole number");
    if (t->scale != SCALE_LINEAR && t->min <= 0)
        wrong(p, "min", min, "a number above 0 (as scale is logarithmic)");
}

static int ascending(const void *a, const void *b)
{
    double x = ((const union tunable_value *)a)->number;
    double y = ((const union tunable_value *)b)->number;

    return (x > y) - (x < y);
}

static bool same_value(const struct tunable *t, size_t a, size_t b)
{
    const char *x = tunable_text(t, a), *y = tunable_text(t, b);

    return x && y ? strcmp(x, y) == 0
                  : !x && !y && t->values[a].number == t->values[b].number;
}

/* @value becomes the tunable's next; 0 where it is wrong. */
static void parse_value(struct parse *p, struct tunable *t, const json_t *value)
{
    const char *s = json_string_value(value);
    size_t i = t->values_len++;
    union tunable_value *out = &t->values[i];

    assert(i < TUNABLE_VALUES_MAX);
    memset(out, 0, sizeof(*out));
    if (!s) {
        out->number = json_number_value(value);
        if (t->type == TUNABLE_INT && !is_whole(out->number))
            wrong(p, NULL, value, "a whole number");
    } else if (t->type != TUNABLE_CATEGORICAL) {
        wrong(p, NULL, value, "a number");
    } else if (!*s || strlen(s) >= TUNABLE_TEXT_MAX) {
        wrong(p, NULL, value, "a text of 1 to 47 bytes");
    } else {
        memcpy(out->text, s, strlen(s) + 1);
        t->texts |= (uint64_t)1 << i;
    }
}

static void parse_values(struct parse *p, const json_t *list, struct tunable *t)
{
    size_t before = json_pointer_push(p->pointer, "values"), i;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        size_t at = json_pointer_push_index(p->pointer, i);

        parse_value(p, t, one);
        for (size_t k = 0; k < i; k++)
            if (same_value(t, k, i))
                wrong(p, NULL, one, "a value that is not there already");
        json_pointer_cut(p->pointer, at);
    }
    json_pointer_cut(p->pointer, before);
    assert(t->values_len == json_array_size(list));
    if (t->type == TUNABLE_CATEGORICAL)
        return;
    qsort(t->values, t->values_len, sizeof(*t->values), ascending);
    t->min = t->values[0].number;
    t->max = t->values[t->values_len - 1].number;
}

/* Range or values; a tunable that is fixed needs neither. */
static void parse_domain(struct parse *p, const json_t *o, struct tunable *t)
{
    const json_t *values = json_object_get(o, "values");
    const json_t *fixed = json_object_get(o, "fixed");
    bool ranged = json_object_get(o, "min") || json_object_get(o, "max");

    if (values && ranged)
        wrong(p, "values", values, "either \"values\" or \"min\" and \"max\"");
    else if (values && json_object_get(o, "scale"))
        wrong(p, "scale", json_object_get(o, "scale"),
              "no scale beside \"values\"");
    else if (values)
        parse_values(p, values, t);
    else if (t->type == TUNABLE_CATEGORICAL && ranged)
        wrong(p, NULL, o, "\"values\", not \"min\" and \"max\"");
    else if (ranged || !fixed)
        t->type == TUNABLE_CATEGORICAL
            ? (void)wrong(p, "values", NULL, "a list of numbers or texts")
            : parse_range(p, o, t);
    else if (json_is_string(fixed))
        parse_value(p, t, fixed);
    else
        t->min = t->max = json_number_value(fixed);
}

static void parse_pinned(struct parse *p, const json_t *o, struct tunable *t)
{
    const json_t *preset = json_object_get(o, "default");
    const json_t *fixed = json_object_get(o, "fixed");
    char range[PROBLEM_TEXT_MAX];
    double x;

    if (!preset)
        t->preset = t->values_len > 0 ? tunable_at(t, (t->values_len - 1) / 2)
                                      : tunable_from_unit(t, 0.5);
    else if (read_value(t, preset, &x) && in_range(t, x))
        t->preset = x;
    else
        wrong(p, "default", preset, range_text(t, range, sizeof(range)));
    if (!fixed)
        return;
    if (!read_value(t, fixed, &x) || !in_range(t, x)) {
        wrong(p, "fixed", fixed, range_text(t, range, sizeof(range)));
        return;
    }
    t->fixed = true;
    t->pinned = x;
    if (!preset)
        t->preset = x;
    if (t->free)
        wrong(p, "free", json_object_get(o, "free"),
              "not both \"fixed\" and \"free\"");
}

static bool has_form(struct parse *p, const json_t *schema, const json_t *o)
{
    size_t before = problems_errors(p->problems);

    schema_check(schema, o, p->pointer, p->problems);
    if (problems_errors(p->problems) > before ||
        problems_no_memory(p->problems))
        p->failed = true;
    return !p->failed;
}

/* A copy of the object @o without those members whose form is wrong; NULL: no
 * memory. */
static json_t *well_formed(const json_t *schema, const json_t *o)
{
    const json_t *members = json_object_get(schema, "properties");
    json_t *good = json_copied_members(o), *value;
    const char *key;

    json_object_foreach((json_t *)o, key, value)
    {
        const json_t *member = json_object_get(members, key);
        struct problems seen = {0};

        if (member)
            schema_check(member, value, "", &seen);
        if (!member || problems_errors(&seen) > 0 || problems_no_memory(&seen))
            json_object_del(good, key);
        problems_deinit(&seen);
    }
    return good;
}

/* The type where none is given that there is: what its values are. */
static enum tunable_type type_like(const json_t *o)
{
    bool ranged = json_object_get(o, "min") || json_object_get(o, "max");
    const json_t *value = json_array_get(json_object_get(o, "values"), 0);

    value = value ? value : json_object_get(o, "default");
    return !ranged && json_is_string(value) ? TUNABLE_CATEGORICAL
                                            : TUNABLE_FLOAT;
}

/* Whether @o has a key that no tunable has: perhaps one that is missing. */
static bool has_strange(const json_t *schema, const json_t *o)
{
    const json_t *members = json_object_get(schema, "properties");
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)o, key, value)
    {
        if (!json_object_get(members, key))
            return true;
    }
    return false;
}

/* Whether @good says what the values are, and all that @o says of that. */
static bool has_domain(const json_t *o, const json_t *good, bool whole)
{
    static const char *const domain[] = {"min", "max", "values", "fixed"};
    bool min = json_object_get(good, "min"), max = json_object_get(good, "max");

    for (size_t i = 0; i < sizeof(domain) / sizeof(*domain); i++)
        if (json_object_get(o, domain[i]) && !json_object_get(good, domain[i]))
            return false;
    return json_object_get(good, "values") || (whole ? min && max : min || max);
}

/* Something is wrong with @o: what else is, as far as the rest of it, @good,
 * says. */
static void parse_rest(struct parse *p, const json_t *schema, const json_t *o,
                       const json_t *good, struct tunable *t)
{
    const json_t *type = json_object_get(good, "type");
    bool strange = has_strange(schema, o);
    size_t before;

    if (!strange && !json_object_get(o, "type") && !json_object_get(o, "fixed"))
        wrong(p, "type", NULL, "one of \"float\", \"int\", \"categorical\"");
    if (!has_domain(o, good, strange))
        return;
    t->type = type ? (enum tunable_type)word_index(type, type_names, 3)
                   : type_like(good);
    before = problems_errors(p->problems);
    parse_domain(p, good, t);
    if (problems_errors(p->problems) == before)
        parse_pinned(p, good, t);
}

static void parse_tunable(struct parse *p, const json_t *schema,
                          const json_t *o, struct tunable *t)
{
    const json_t *type = json_object_get(o, "type");
    const json_t *fixed = json_object_get(o, "fixed");
    const json_t *retune = json_object_get(o, "retune");

    t->acts = true;
    t->when.on = -1;
    if (!has_form(p, schema, o) || (!type && !fixed)) {
        json_t *good = json_is_object(o) ? well_formed(schema, o) : NULL;

        if (good)
            parse_rest(p, schema, o, good, t);
        json_decref(good);
        p->failed = true;
        return;
    }
    t->type = type ? (enum tunable_type)word_index(type, type_names, 3)
              : json_is_string(fixed) ? TUNABLE_CATEGORICAL
                                      : TUNABLE_FLOAT;
    t->retune = !retune || json_is_true(retune);
    t->free = json_is_true(json_object_get(o, "free"));
    parse_domain(p, o, t);
    if (p->failed)
        return;
    parse_pinned(p, o, t);
}

/* ---- conditions ---------------------------------------------------------- */

static void parse_when_values(struct parse *p, const struct tunable *parent,
                              const char *name, const json_t *wanted,
                              struct tunable_when *when)
{
    size_t n = json_is_array(wanted) ? json_array_size(wanted) : 1;
    char range[PROBLEM_TEXT_MAX];

    for (size_t i = 0; i < n; i++) {
        const json_t *one =
            json_is_array(wanted) ? json_array_get(wanted, i) : wanted;
        double x;

        if (read_value(parent, one, &x) && in_range(parent, x))
            when->value[when->count++] = x;
        else
            wrong(p, name, one, range_text(parent, range, sizeof(range)));
    }
}

static void parse_when(struct parse *p, struct space *s, struct tunable *t,
                       json_t *object)
{
    const char *name;
    json_t *wanted;
    int on;

    if (json_object_size(object) != 1) {
        wrong(p, NULL, object, "one other tunable and its values");
        return;
    }
    name = json_object_iter_key(json_object_iter(object));
    wanted = json_object_get(object, name);
    on = space_find(s, name);
    if (on < 0 || &s->tunable[on] == t) {
        wrong_name(p, s, name, "the name of another tunable");
        return;
    }
    t->when.on = on;
    if (json_is_object(wanted)) {
        t->when.min = json_number_value(json_object_get(wanted, "min"));
        t->when.max = json_number_value(json_object_get(wanted, "max"));
        return;
    }
    parse_when_values(p, &s->tunable[on], name, wanted, &t->when);
}

static bool is_cyclic(const struct space *s, size_t index)
{
    int at = (int)index;

    for (size_t step = 0; step <= s->len; step++) {
        at = s->tunable[at].when.on;
        if (at < 0)
            return false;
    }
    return true;
}

static void parse_conditions(struct parse *p, const json_t *tunables,
                             struct space *s)
{
    for (size_t i = 0; i < s->len; i++) {
        struct tunable *t = &s->tunable[i];
        size_t before;
        json_t *when =
            json_object_get(json_object_get(tunables, t->name), "when");

        if (!when)
            continue;
        before = json_pointer_push(p->pointer, t->name);
        json_pointer_push(p->pointer, "when");
        parse_when(p, s, t, when);
        if (!p->failed && is_cyclic(s, i)) {
            wrong(p, NULL, when, "no circle of conditions");
            t->when.on = -1;
        }
        json_pointer_cut(p->pointer, before);
    }
}

/* ---- space --------------------------------------------------------------- */

/* It begins as no option and no hidden file does; a slash would be read as a
 * path by --set and by what reads exports. */
static bool is_tunable_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-.");

    return n > 0 && *s != '-' && *s != '.' && n < TUNABLE_NAME_MAX && !s[n];
}

static void parse_all(struct parse *p, const json_t *schema, json_t *tunables,
                      struct space *s)
{
    bool failed = false;
    const char *name;
    json_t *o;

    json_object_foreach(tunables, name, o)
    {
        struct tunable *t = &s->tunable[s->len];
        size_t before = json_pointer_push(p->pointer, name);

        p->failed = false;
        if (!is_tunable_name(name)) {
            wrong(
                p, NULL, o,
                "a name of letters, digits and _-., not begun by - or ., below "
                "48 bytes");
        } else if (s->len == TUNABLES_MAX) {
            wrong(p, NULL, o, "at most 32 tunables");
        } else {
            memset(t, 0, sizeof(*t));
            memcpy(t->name, name, strlen(name) + 1);
            parse_tunable(p, schema, o, t);
            s->len++;
        }
        failed |= p->failed;
        json_pointer_cut(p->pointer, before);
    }
    p->failed = failed;
}

enum err space_from_json_by(const json_t *schema, const json_t *tunables,
                            const char *pointer, struct space *out,
                            struct problems *problems)
{
    struct parse p = {.problems = problems};
    enum err err;

    assert(schema && pointer && problems);
    assert(out);
    out->len = 0; /* a tunable is cleared when it comes: all are 120 KB */
    snprintf(p.pointer, sizeof(p.pointer), "%s", pointer);
    if (!json_is_object(tunables)) {
        wrong(&p, NULL, tunables, "an object of tunables");
        return ERR_INVAL;
    }
    /* The iterator wants a mutable object but does not change it. */
    parse_all(&p, schema, (json_t *)tunables, out);
    if (!p.failed)
        parse_conditions(&p, tunables, out);
    err = problems_no_memory(problems) ? ERR_NOMEM
          : p.failed                   ? ERR_INVAL
                                       : ERR_OK;
    if (err)
        out->len = 0;
    return err;
}

enum err space_from_json(const json_t *tunables, const char *pointer,
                         struct space *out, struct problems *problems)
{
    json_t *schema = NULL;
    enum err err =
        json_load(tunable_schema, strlen(tunable_schema), &schema, NULL, NULL);

    assert(err != ERR_FORMAT);
    if (err)
        out->len = 0;
    else
        err = space_from_json_by(schema, tunables, pointer, out, problems);
    json_decref(schema);
    return err;
}

/* ---- out ----------------------------------------------------------------- */

static json_t *number_to_json(const struct tunable *t, double x)
{
    /* A whole float stays a real, so that readers see the type. */
    return t->type == TUNABLE_FLOAT ? json_real(x)
                                    : json_integer((json_int_t)x);
}

/* A value as a setting holds it. */
static json_t *value_to_json(const struct tunable *t, double x)
{
    const char *text;

    if (t->type != TUNABLE_CATEGORICAL)
        return number_to_json(t, x);
    assert(x >= 0 && (size_t)x < t->values_len);
    text = tunable_text(t, (size_t)x);
    if (text)
        return json_string(text);
    x = t->values[(size_t)x].number;
    return is_whole(x) ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *values_to_json(const struct tunable *t)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < t->values_len; i++)
        if (json_array_append_new(list, value_to_json(t, tunable_at(t, i)))) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static json_t *when_to_json(const struct space *s, const struct tunable *t)
{
    const struct tunable *parent = &s->tunable[t->when.on];
    json_t *wanted = NULL, *object = json_object();
    int failed = 0;

    if (t->when.count == 0) {
        wanted = json_object();
        failed = json_object_set_new(wanted, "min", json_real(t->when.min)) |
                 json_object_set_new(wanted, "max", json_real(t->when.max));
    } else {
        wanted = json_array();
        for (size_t i = 0; i < t->when.count; i++)
            failed |= json_array_append_new(
                wanted, value_to_json(parent, t->when.value[i]));
    }
    failed |= json_object_set_new(object, parent->name, wanted);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *tunable_to_json(const struct space *s, const struct tunable *t)
{
    json_t *o = json_object();
    int failed =
        json_object_set_new(o, "type", json_string(type_names[t->type]));

    if (t->values_len > 0) {
        failed |= json_object_set_new(o, "values", values_to_json(t));
    } else {
        failed |=
            json_object_set_new(o, "min", number_to_json(t, t->min)) |
            json_object_set_new(o, "max", number_to_json(t, t->max)) |
            json_object_set_new(o, "scale", json_string(scale_names[t->scale]));
    }
    failed |= json_object_set_new(o, "default", value_to_json(t, t->preset));
    failed |= json_object_set_new(o, "retune", json_boolean(t->retune));
    if (t->when.on >= 0)
        failed |= json_object_set_new(o, "when", when_to_json(s, t));
    if (t->fixed)
        failed |= json_object_set_new(o, "fixed", value_to_json(t, t->pinned));
    if (t->free)
        failed |= json_object_set_new(o, "free", json_true());
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

json_t *space_to_json(const struct space *s)
{
    json_t *tunables = json_object();

    for (size_t i = 0; tunables && i < s->len; i++) {
        const struct tunable *t = &s->tunable[i];

        if (json_object_set_new(tunables, t->name, tunable_to_json(s, t))) {
            json_decref(tunables);
            tunables = NULL;
        }
    }
    return tunables;
}

/* ---- settings ------------------------------------------------------------ */

json_t *setting_to_json(const struct space *s, const struct setting *x)
{
    json_t *object = json_object();

    assert(s->len <= TUNABLES_MAX);
    for (size_t i = 0; object && i < s->len; i++) {
        const struct tunable *t = &s->tunable[i];

        if (json_object_set_new(object, t->name,
                                value_to_json(t, x->value[i]))) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static void read_member(struct parse *p, const struct space *s,
                        const char *name, const json_t *value,
                        struct setting *x)
{
    int i = space_find(s, name);
    char range[PROBLEM_TEXT_MAX];
    double number;

    if (i >= 0) {
        const struct tunable *t = &s->tunable[i];

        if (read_value(t, value, &number) && in_range(t, number))
            x->value[i] = number;
        else
            wrong(p, name, value, range_text(t, range, sizeof(range)));
        return;
    }
    wrong_name(p, s, name, "the name of a tunable of this run");
}

enum err setting_from_json(const struct space *s, const json_t *object,
                           const char *pointer, struct setting *out,
                           struct problems *problems)
{
    struct setting base;

    space_default(s, &base);
    return setting_over_json(s, &base, object, pointer, out, problems);
}

enum err setting_over_json(const struct space *s, const struct setting *base,
                           const json_t *object, const char *pointer,
                           struct setting *out, struct problems *problems)
{
    struct parse p = {.problems = problems};
    struct setting x = *base;
    const char *name;
    json_t *value;

    assert(pointer && problems);
    assert(out);
    snprintf(p.pointer, sizeof(p.pointer), "%s", pointer);
    if (!json_is_object(object))
        wrong(&p, NULL, object, "an object of tunables and values");
    json_object_foreach((json_t *)object, name, value)
    {
        read_member(&p, s, name, value, &x);
    }
    if (p.failed)
        return ERR_INVAL;
    space_canonical(s, &x);
    *out = x;
    return ERR_OK;
}
