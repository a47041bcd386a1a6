/* mltune apps, searchers, strategies: what is built in, with settings and
 * defaults, straight from the registry. */
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/config_table.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/registry.h"
#include "cli/talk.h"
#include "cli/verbs.h"

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

/* ---- both ---------------------------------------------------------------- */

static int print_owned(char *text)
{
    if (!text) {
        talk_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    fputs(text, stdout);
    mem_free(text);
    return EXIT_DONE;
}

static int print_list(enum registry_kind kind)
{
    const struct registry_entry *e;
    json_t *list = json_array(), *schema;
    struct text t = {0};
    enum err err = list ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && (e = registry_at(cli_registry(), kind, i));
         i++) {
        err = config_entry_schema(e, &schema, NULL);
        if (err)
            break;
        text_entry(&t, e, schema);
        if (json_array_append_new(list, entry_json(e, schema)) != 0)
            err = ERR_NOMEM;
    }
    if (!err && as_json) {
        text_deinit(&t);
        text_json(&t, "", list, "\n");
    }
    json_decref(list);
    if (err) {
        text_deinit(&t);
        talk_error("%s", err_text(err));
        return exit_code_of(err);
    }
    return print_owned(text_take(&t));
}

static int list_verb(const char *verb, const char *summary,
                     enum registry_kind kind, int argc, char **argv)
{
    const struct usage usage = {.verb = verb,
                                .operands = "",
                                .summary = summary,
                                .details = "",
                                .n = 1,
                                .option = options};
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    return code == OPTIONS_GO_ON ? print_list(kind) : code;
}

int verb_apps(int argc, char **argv)
{
    return list_verb("apps",
                     "Lists the training applications with the tunables that "
                     "act and their settings.",
                     REGISTRY_APP, argc, argv);
}

int verb_searchers(int argc, char **argv)
{
    return list_verb("searchers", "Lists the searchers with their settings.",
                     REGISTRY_SEARCHER, argc, argv);
}

int verb_strategies(int argc, char **argv)
{
    return list_verb("strategies", "Lists the strategies with their settings.",
                     REGISTRY_STRATEGY, argc, argv);
}
