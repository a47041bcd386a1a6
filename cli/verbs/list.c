/* mltune apps, searchers, strategies: what is built in, with settings and
 * defaults, straight from the registry; and the searcher plug-ins that are
 * found. */
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config_table.h"
#include "cli/config/plugins.h"
#include "cli/config/registry.h"
#include "searchers/process/process_io.h"

#include <stdio.h>
#include <string.h>

static bool as_json;

static const struct option_spec options[] = {
    {"json", 0, OPTION_FLAG, NULL, "an array of JSON objects", &as_json},
};

/* ---- as text ------------------------------------------------------------- */

static void text_json(struct text *t, const char *before, const json_t *value,
                      const char *after)
{
    char *s = value ? json_write(value, 0) : NULL;

    if (s)
        text_printf(t, "%s%s%s", before, s, after);
    mem_free(s);
}

/* "integer", or the values that are listed. */
static void text_type(struct text *t, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    const json_t *choices = json_object_get(schema, "enum");
    json_t *one;
    size_t i;

    if (json_is_string(type) && !choices)
        text_puts(t, json_string_value(type));
    json_array_foreach(choices, i, one)
    {
        text_json(t, i > 0 ? "|" : "", one, "");
    }
    text_json(t, " >= ", json_object_get(schema, "minimum"), "");
    text_json(t, " > ", json_object_get(schema, "exclusiveMinimum"), "");
    text_json(t, " <= ", json_object_get(schema, "maximum"), "");
    text_json(t, " < ", json_object_get(schema, "exclusiveMaximum"), "");
}

static void text_what(struct text *t, const json_t *schema)
{
    const json_t *any = json_object_get(schema, "anyOf");
    json_t *one;
    size_t i;

    text_puts(t, " ");
    if (!any)
        text_type(t, schema);
    json_array_foreach(any, i, one)
    {
        text_puts(t, i > 0 ? " or " : "");
        text_type(t, one);
    }
    text_json(t, " [", json_object_get(schema, "default"), "]");
}

static bool is_required(const json_t *schema, const char *name)
{
    const json_t *list = json_object_get(schema, "required");
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

/* Values that stand for a list: the list as JSON, an item a line, so that it
 * can be taken into a configuration and edited. */
static void text_presets(struct text *t, const json_t *presets)
{
    json_t *list, *one;
    const char *name;
    size_t i;

    json_object_foreach((json_t *)presets, name, list)
    {
        text_printf(t, "        %s is [", name);
        json_array_foreach(list, i, one)
        {
            text_json(t, i > 0 ? ",\n            " : "\n            ", one, "");
        }
        text_puts(t, "]\n");
    }
}

static void text_settings(struct text *t, const json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"), *one;
    const char *name, *description;

    json_object_foreach(properties, name, one)
    {
        if (json_object_get(one, "const"))
            continue; /* the entry's own name */
        text_printf(t, "    %s", name);
        text_what(t, one);
        if (is_required(schema, name))
            text_puts(t, " (required)");
        description = json_string_value(json_object_get(one, "description"));
        text_printf(t, "\n        %s\n", description ? description : "");
        text_presets(t, json_object_get(one, "x-presets"));
    }
}

static void text_entry(struct text *t, const struct registry_entry *e,
                       const json_t *schema)
{
    text_printf(t, "%s: %s\n", e->name, e->summary);
    for (size_t i = 0; e->tunables && e->tunables[i]; i++)
        text_printf(t, "%s%s", i == 0 ? "    tunables: " : ", ",
                    e->tunables[i]);
    if (e->tunables && e->tunables[0])
        text_puts(t, "\n");
    text_settings(t, schema);
}

/* ---- as JSON ------------------------------------------------------------- */

/* @schema is transferred. NULL when out of memory. */
static json_t *entry_json(const struct registry_entry *e, json_t *schema)
{
    json_t *tunables = json_array();

    for (size_t i = 0; e->tunables && e->tunables[i]; i++)
        if (json_array_append_new(tunables, json_string(e->tunables[i])) != 0) {
            json_decref(tunables);
            json_decref(schema);
            return NULL;
        }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", e->name, "summary",
                     e->summary, "tunables", tunables, "settings", schema);
}

/* ---- plug-ins ------------------------------------------------------------ */

/* Result of a walk over the plug-in folders. */
struct list_found {
    struct text *text;
    json_t *list;
    enum err err;
};

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* One that does not tell what it is, with the reason. */
static json_t *unusable_json(struct text *t, const char *path,
                             const struct fault *f)
{
    text_printf(t, "%s: cannot be used: %s\n    from %s\n", file_name(path),
                f->text, path);
    return json_pack("{s:s, s:s, s:s}", "name", file_name(path), "plugin", path,
                     "error", f->text);
}

static json_t *usable_json(struct text *t, const char *path,
                           const struct searcher_protocol_hello *hello)
{
    text_printf(t, "%s: %s\n    from %s\n", hello->name, hello->summary, path);
    text_settings(t, hello->settings);
    return json_pack("{s:s, s:s, s:s, s:O?}", "name", hello->name, "summary",
                     hello->summary, "plugin", path, "settings",
                     hello->settings);
}

/* Starts the plug-in, for it alone knows what it is. */
static bool list_plugin(void *ctx, const char *path)
{
    json_t *settings = json_pack("{s:s}", "plugin", path), *entry;
    struct searcher_protocol_hello hello = {.settings = NULL};
    struct list_found *found = ctx;
    struct fault f = {0};
    enum err err = settings ? searcher_process_try(&searcher_plugin, NULL,
                                                   settings, &hello, &f)
                            : ERR_NOMEM;

    json_decref(settings);
    text_clean(f.text);
    entry = err == ERR_NOMEM ? NULL
            : err            ? unusable_json(found->text, path, &f)
                             : usable_json(found->text, path, &hello);
    searcher_protocol_hello_deinit(&hello);
    if (json_array_append_new(found->list, entry) != 0)
        found->err = ERR_NOMEM;
    return found->err == ERR_OK;
}

static enum err add_plugins(struct text *t, json_t *list)
{
    struct list_found found = {.text = t, .list = list};

    plugins_each(list_plugin, &found);
    return found.err;
}

/* Entry number @i that is listed: all, or the one called @only, which may be
 * one that stands for what is described. NULL past the last. */
static const struct registry_entry *entry_at(enum registry_kind kind,
                                             const char *only, size_t i)
{
    if (!only)
        return registry_at(cli_registry(), kind, i);
    return i == 0 ? registry_find(cli_registry(), kind, only) : NULL;
}

/* Every entry, or the one called @only. */
static enum err add_entries(struct text *t, json_t *list,
                            enum registry_kind kind, const char *only)
{
    const struct registry_entry *e;
    json_t *schema;

    for (size_t i = 0; (e = entry_at(kind, only, i)); i++) {
        enum err err = config_entry_schema(e, &schema, NULL);

        if (err)
            return err;
        text_entry(t, e, schema);
        if (json_array_append_new(list, entry_json(e, schema)) != 0)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

static int no_such_entry(enum registry_kind kind, const char *name)
{
    const char *near = registry_nearest(cli_registry(), kind, name);
    char names[256];

    console_error(
        "%s: no such %s; there are %s%s%s%s", name, registry_kind_name(kind),
        registry_names(cli_registry(), kind, names, sizeof(names)),
        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return EXIT_USAGE;
}

static int print_list(enum registry_kind kind, const char *only)
{
    const struct registry_entry *e =
        only ? registry_find(cli_registry(), kind, only) : NULL;
    json_t *list;
    struct text t = {0};
    enum err err;

    if (only && (!e || (e->hidden && kind != REGISTRY_APP)))
        return no_such_entry(kind, only);
    list = json_array();
    err = list ? add_entries(&t, list, kind, only) : ERR_NOMEM;
    if (!err && kind == REGISTRY_SEARCHER && !only)
        err = add_plugins(&t, list);
    if (!err && kind == REGISTRY_APP && !only)
        text_puts(&t, "\nor a program of your own: {\"command\": "
                      "[\"python3\", \"train.py\"]} (mltune apps program)\n");
    if (!err && as_json) {
        text_deinit(&t);
        text_json(&t, "", list, "\n");
    }
    json_decref(list);
    if (err) {
        text_deinit(&t);
        console_error("%s", err_text(err));
        return exit_code_of(err);
    }
    return console_text(text_take(&t));
}

static int list_verb(const char *verb, enum registry_kind kind, int argc,
                     char **argv)
{
    const struct usage usage = {.verb = verb,
                                .operands = "[NAME]",
                                .details = "NAME: that one only.",
                                .operands_max = 1,
                                .n = 1,
                                .option = options};
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    return code == OPTIONS_GO_ON
               ? print_list(kind,
                            operands.len ? operands_at(&operands, 0) : NULL)
               : code;
}

int verb_apps(int argc, char **argv)
{
    return list_verb("apps", REGISTRY_APP, argc, argv);
}

int verb_searchers(int argc, char **argv)
{
    return list_verb("searchers", REGISTRY_SEARCHER, argc, argv);
}

int verb_strategies(int argc, char **argv)
{
    return list_verb("strategies", REGISTRY_STRATEGY, argc, argv);
}
