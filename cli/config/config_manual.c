#include "cli/config/config_manual.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/manual.h"
#include "cli/config/config_table.h"
#include "cli/config/service_settings.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PATH_MAX_LEN = 160, DEPTH_MAX = 12 };

/* The keys of one place of the schema. */
struct schema_place {
    const char *path; /* "tuner.searcher"; "" */
    const char *of;   /* "nn": they are keys of that alone; "" */
    unsigned depth;
};

static const char head[] =
    ".Dd November 27, 2026\n.Dt MLTUNE\\-CONFIG 5\n.Os\n.Sh NAME\n"
    ".Nm mltune\\-config\n.Nd the configuration of a run, one JSON file\n"
    ".Sh DESCRIPTION\n"
    ".Xr mltune 1\n"
    "reads one JSON object. A key is named here by its path:\n"
    ".Cm stop.max_epochs\nis\n.Cm max_epochs\nin the object\n.Cm stop .\n"
    "Only\n.Cm app\nmust be given. Unknown keys are errors, and all errors are "
    "reported at once, each with line and column.\n.Pp\n"
    "Any key can be set on the command line:\n"
    ".Dl mltune run config.json \\-\\-set stop.max_epochs=3\n.Pp\n"
    "Times are seconds, or text such as\n.Cm \\(dq10m\\(dq .\n"
    "Sizes are bytes, or text such as\n.Cm \\(dq8GiB\\(dq .\n"
    "Relative paths start at the configuration's folder.\n"
    ".Pp\nThe smallest configuration is\n"
    ".Dl {\\(dqapp\\(dq: {\\(dqname\\(dq: \\(dqmf\\(dq, \\(dqdata\\(dq: "
    "\\(dqratings.dat\\(dq}}\n"
    ".Sh KEYS\n.Bl -tag -width Ds\n";

static const char service_head[] =
    ".El\n.Sh SETTINGS OF A SERVICE\n"
    "A service\n.Pq Xr mltune\\-serve 1 , Xr mltune\\-open 1\n"
    "has settings of its own, in no run's configuration: one JSON object in\n"
    ".Pa STATE/" SERVICE_SETTINGS " ,\n"
    "read when it starts. Options of\n.Nm mltune serve\n"
    "come before them. Each may be absent, and so may the file.\n.Pp\n"
    ".Dl {\\(dqruns\\(dq: {\\(dqkeep\\(dq: {\\(dqnumber\\(dq: 500, "
    "\\(dqage\\(dq: \\(dq30d\\(dq}}}\n"
    ".Bl -tag -width Ds\n";

static const char tail[] =
    ".El\n.Sh SEE ALSO\n.Xr mltune 1 ,\n.Xr mltune\\-validate 1 ,\n"
    ".Xr mltune\\-schema 1 ,\n.Xr mltune\\-serve 1\n";

/* ---- one key ------------------------------------------------------------- */

static void add_value(struct text *t, const char *before, const json_t *value)
{
    char *s = value ? json_write(value, 0) : NULL;

    if (s)
        text_printf(t, "%s%s", before, s);
    mem_free(s);
}

static void add_choices(struct text *t, const json_t *choices)
{
    json_t *one;
    size_t i;

    json_array_foreach(choices, i, one)
    {
        add_value(t, i > 0 ? ", " : "; one of ", one);
    }
}

static void add_range(struct text *t, const json_t *schema)
{
    static const char *const bound[][2] = {{"minimum", "; at least "},
                                           {"exclusiveMinimum", "; above "},
                                           {"maximum", "; at most "},
                                           {"exclusiveMaximum", "; below "}};

    for (size_t i = 0; i < sizeof(bound) / sizeof(*bound); i++)
        add_value(t, bound[i][1], json_object_get(schema, bound[i][0]));
}

static void add_type(struct text *t, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    const char *format = json_string_value(json_object_get(schema, "format"));
    json_t *one;
    size_t i;

    if (format && strcmp(format, "seconds") == 0)
        text_puts(t, "; time");
    else if (format && strcmp(format, "bytes") == 0)
        text_puts(t, "; size");
    else if (json_is_string(type))
        text_printf(t, "; %s", json_string_value(type));
    json_array_foreach(type, i, one)
    {
        if (!format)
            text_printf(t, "%s%s", i > 0 ? " or " : "; ",
                        json_string_value(one));
    }
}

static void add_key(struct text *t, const struct schema_place *p,
                    const json_t *schema, bool required)
{
    const char *help =
        json_string_value(json_object_get(schema, "description"));
    struct text what = {0};

    text_puts(t, ".It Cm ");
    manual_quoted(t, p->path);
    text_puts(t, "\n");
    add_type(&what, schema);
    add_choices(&what, json_object_get(schema, "enum"));
    add_range(&what, schema);
    if (required)
        text_puts(&what, "; required");
    add_value(&what, "; default ", json_object_get(schema, "default"));
    if (p->of[0])
        text_printf(t, "%s", p->of);
    text_puts(t, p->of[0] && text_length(&what) > 0 ? ": " : "");
    /* Each part begins with what parts it from the one before. */
    if (text_length(&what) > 0)
        manual_plain(t, text_so_far(&what) + 2);
    if (help) {
        text_puts(t, text_length(&what) > 0 || p->of[0] ? ". " : "");
        manual_plain(t, help);
    }
    text_puts(t, "\n");
    text_deinit(&what);
}

/* ---- all of them --------------------------------------------------------- */

static void add_place(struct text *t, const struct schema_place *p,
                      const json_t *schema);

static bool is_required(const json_t *schema, const char *key)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), key) == 0)
            return true;
    }
    return false;
}

static void add_properties(struct text *t, const struct schema_place *p,
                           const json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"), *one;
    const char *key;

    json_object_foreach(properties, key, one)
    {
        char path[PATH_MAX_LEN];
        const struct schema_place inner = {path, p->of, p->depth + 1};

        if (json_object_get(one, "const"))
            continue; /* the name by which these keys are chosen */
        snprintf(path, sizeof(path), "%s%s%s", p->path, p->path[0] ? "." : "",
                 key);
        /* Of a choice the object itself has been told. */
        if (!json_object_get(one, "title") || !p->of[0])
            add_key(t, &inner, one, is_required(schema, key));
        add_place(t, &inner, one);
    }
}

static void add_inner(struct text *t, const struct schema_place *p,
                      const char *suffix, const json_t *schema)
{
    char path[PATH_MAX_LEN];
    const struct schema_place inner = {path, p->of, p->depth + 1};

    if (!json_is_object(schema))
        return;
    snprintf(path, sizeof(path), "%s%s", p->path, suffix);
    add_place(t, &inner, schema);
}

/* The name of what is one of several: its title, or what is looked at in the
 * rule by which it is chosen. */
static const char *name_of(const json_t *choice)
{
    const char *title = json_string_value(json_object_get(choice, "title"));
    json_t *asked, *one;
    const char *key;

    if (title)
        return title;
    asked = json_object_get(json_object_get(choice, "if"), "properties");
    json_object_foreach(asked, key, one)
    {
        title = json_string_value(json_object_get(one, "const"));
        if (title)
            return title;
    }
    return NULL;
}

static void add_choice(struct text *t, const struct schema_place *p,
                       const json_t *choice)
{
    const char *name = name_of(choice);
    const struct schema_place inner = {p->path, name ? name : p->of,
                                       p->depth + 1};

    add_place(t, &inner, choice);
}

static void add_place(struct text *t, const struct schema_place *p,
                      const json_t *schema)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    json_t *one;
    size_t k;

    assert(p->depth < DEPTH_MAX);
    add_properties(t, p, schema);
    add_inner(t, p, ".NAME", json_object_get(schema, "additionalProperties"));
    add_inner(t, p, "[]", json_object_get(schema, "items"));
    add_inner(t, p, "", json_object_get(schema, "then"));
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        json_array_foreach(json_object_get(schema, lists[i]), k, one)
        {
            add_choice(t, p, one);
        }
    }
}

enum err config_manual(const struct registry *r, char **out, struct fault *f)
{
    const struct schema_place all = {"", "", 0};
    struct text t = {0};
    json_t *schema, *of_service;
    size_t n;
    const struct config_field *fields = service_settings_table(&n);
    enum err err = config_full_schema(r, &schema, f);

    if (err)
        return err;
    err = config_schema(fields, n, &of_service, f);
    if (err) {
        json_decref(schema);
        return err;
    }
    text_puts(&t, head);
    add_place(&t, &all, schema);
    text_puts(&t, service_head);
    add_place(&t, &all, of_service);
    text_puts(&t, tail);
    json_decref(of_service);
    json_decref(schema);
    *out = text_take(&t);
    return *out ? ERR_OK : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
}
