#include "base/json/config.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- tables: schema ------------------------------------------------------ */

static const char *const type_schemas[] = {
    [CONFIG_BOOL] = "{\"type\": \"boolean\"}",
    [CONFIG_INT] = "{\"type\": \"integer\"}",
    [CONFIG_NUMBER] = "{\"type\": \"number\"}",
    [CONFIG_STRING] = "{\"type\": \"string\"}",
    [CONFIG_DURATION] =
        "{\"type\": [\"string\", \"number\"], \"format\": \"seconds\"}",
    [CONFIG_SIZE] =
        "{\"type\": [\"string\", \"number\"], \"format\": \"bytes\"}",
    [CONFIG_OBJECT] = "{\"type\": \"object\"}",
    [CONFIG_ANY] = "{}",
};

static bool is_bounded(const struct config_field *field)
{
    return field->min != 0 || field->max != 0;
}

/* The bound as an integer where it is one, so that texts say 1 and not 1.0. */
static json_t *bound(double number)
{
    if (number == floor(number) && fabs(number) <= 0x1p53)
        return json_integer((json_int_t)number);
    return json_real(number);
}

static int set_bounds(json_t *schema, const struct config_field *field)
{
    int failed = 0;

    if (!is_bounded(field))
        return 0;
    failed |= json_object_set_new(schema, "minimum", bound(field->min));
    if (isfinite(field->max))
        failed |= json_object_set_new(schema, "maximum", bound(field->max));
    return failed;
}

static int set_choices(json_t *schema, const char *choices)
{
    json_t *list;

    if (!choices)
        return 0;
    list = json_array();
    for (const char *at = choices; list && *at;) {
        size_t n = strcspn(at, "|");

        if (json_array_append_new(list, json_stringn(at, n)) != 0) {
            json_decref(list);
            return -1;
        }
        at += n + (at[n] == '|');
    }
    return json_object_set_new(schema, "enum", list);
}

/* Merges the JSON text @more into @schema. */
static enum err merge_text(json_t *schema, const char *more, struct fault *f)
{
    json_t *object;
    enum err err;
    int failed;

    if (!more)
        return ERR_OK;
    err = json_load(more, strlen(more), &object, NULL, f);
    if (err)
        return err;
    failed = json_object_update(schema, object);
    json_decref(object);
    return failed ? ERR_NOMEM : ERR_OK;
}

static enum err set_default(json_t *schema, const char *fallback,
                            struct fault *f)
{
    json_t *value;
    enum err err;

    if (!fallback)
        return ERR_OK;
    err = json_load(fallback, strlen(fallback), &value, NULL, f);
    if (err)
        return err;
    if (json_object_set_new(schema, "default", value) != 0)
        return ERR_NOMEM;
    return ERR_OK;
}

static enum err field_schema(const struct config_field *field, json_t **out,
                             struct fault *f)
{
    json_t *schema = json_object();
    int failed = 0;
    enum err err = ERR_NOMEM;

    if (!schema)
        return ERR_NOMEM;
    if (field->help)
        failed |= json_object_set_new(schema, "description",
                                      json_string(field->help));
    if (field->unit)
        failed |=
            json_object_set_new(schema, "x-unit", json_string(field->unit));
    failed |= set_bounds(schema, field);
    failed |= set_choices(schema, field->choices);
    if (failed)
        goto done;
    err = merge_text(schema, type_schemas[field->type], f);
    if (!err)
        err = merge_text(schema, field->schema, f);
    if (!err)
        err = set_default(schema, field->fallback, f);
done:
    if (err)
        json_decref(schema);
    else
        *out = schema;
    return err;
}

/* The schema of @schema's property @name[len], made as an object where it is
 * missing. Borrowed; NULL when out of memory. */
static json_t *property(json_t *schema, const char *name, size_t len)
{
    json_t *properties = json_object_get(schema, "properties"), *child;
    char key[128];

    if (!properties) {
        properties = json_object();
        if (json_object_set_new(schema, "properties", properties) != 0 ||
            json_object_set_new(schema, "type", json_string("object")) != 0 ||
            json_object_set_new(schema, "additionalProperties", json_false()) !=
                0)
            return NULL;
    }
    assert(len < sizeof(key));
    memcpy(key, name, len);
    key[len] = '\0';
    child = json_object_get(properties, key);
    if (!child) {
        child = json_object();
        if (json_object_set_new(properties, key, child) != 0)
            return NULL;
    }
    return child;
}

static int set_required(json_t *schema, const char *name)
{
    json_t *list = json_object_get(schema, "required");

    if (!list) {
        list = json_array();
        if (json_object_set_new(schema, "required", list) != 0)
            return -1;
    }
    return json_array_append_new(list, json_string(name));
}

static enum err add_field(json_t *schema, const struct config_field *field,
                          struct fault *f)
{
    const char *name = field->path;
    json_t *own = NULL, *at = schema, *parent = schema;
    enum err err = field_schema(field, &own, f);
    int failed;

    if (err)
        return err;
    for (;;) {
        size_t n = strcspn(name, ".");

        parent = at;
        at = property(parent, name, n);
        if (!at || !name[n])
            break;
        name += n + 1;
    }
    failed = !at || json_object_update(at, own) != 0 ||
             (field->required && set_required(parent, name) != 0);
    json_decref(own);
    return failed ? ERR_NOMEM : ERR_OK;
}

enum err config_schema(const struct config_field fields[], size_t n,
                       json_t **out, struct fault *f)
{
    json_t *schema = json_pack("{s:s}", "type", "object");
    enum err err = ERR_OK;

    if (!schema)
        return ERR_NOMEM;
    for (size_t i = 0; i < n && !err; i++)
        err = add_field(schema, &fields[i], f);
    if (err)
        json_decref(schema);
    else
        *out = schema;
    return err;
}

/* ---- tables: help -------------------------------------------------------- */

/* A bound as people write it: "4MiB", "9007199254740992", "0.001". */
static void help_bound(struct text *t, const struct config_field *field,
                       double x)
{
    static const char *const unit[] = {"",    "KiB", "MiB", "GiB",
                                       "TiB", "PiB", "EiB"};
    size_t i = 0;

    if (field->type != CONFIG_SIZE) {
        text_printf(t, field->type == CONFIG_INT ? "%.0f" : "%.15g", x);
        return;
    }
    for (; i < 6 && x >= 1024 && fmod(x, 1024) == 0; i++)
        x /= 1024;
    text_printf(t, "%.15g%s", x, unit[i]);
}

static void help_range(struct text *t, const struct config_field *field)
{
    if (field->choices)
        text_printf(t, " %s", field->choices);
    else if (is_bounded(field)) {
        text_puts(t, isfinite(field->max) ? " " : " >= ");
        help_bound(t, field, field->min);
    }
    if (!field->choices && is_bounded(field) && isfinite(field->max)) {
        text_puts(t, "..");
        help_bound(t, field, field->max);
    }
    if (field->unit)
        text_printf(t, " %s", field->unit);
}

char *config_help(const struct config_field fields[], size_t n)
{
    static const char *const types[] = {
        [CONFIG_BOOL] = "true|false",   [CONFIG_INT] = "integer",
        [CONFIG_NUMBER] = "number",     [CONFIG_STRING] = "text",
        [CONFIG_DURATION] = "duration", [CONFIG_SIZE] = "size",
        [CONFIG_OBJECT] = "object",     [CONFIG_ANY] = ""};
    struct text t = {0};

    assert(fields || n == 0);
    assert(fields || n == 0);
    for (size_t i = 0; i < n; i++) {
        const struct config_field *field = &fields[i];

        text_printf(&t, "  %s", field->path);
        if (*types[field->type] && !field->choices)
            text_printf(&t, " %s", types[field->type]);
        help_range(&t, field);
        if (field->fallback)
            text_printf(&t, " [%s]", field->fallback);
        text_printf(&t, "%s\n      %s\n", field->required ? " (required)" : "",
                    field->help ? field->help : "");
    }
    return text_take(&t);
}
