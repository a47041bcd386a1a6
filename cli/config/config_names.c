/* Names in a configuration (app, rule, consistency, strategy, searcher), with
 * the settings of each. */
#include "base/json/json.h"
#include "base/json/schema.h"
#include "base/metrics.h"
#include "base/text.h"
#include "cli/config/app_plugin.h"
#include "cli/config/config_internal.h"
#include "cli/config/config_table.h"
#include "cli/config/plugins.h"
#include "cli/config/program.h"
#include "searchers/process/process_io.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- names --------------------------------------------------------------- */

/* Another kind of things that has one called @name: a strategy's name is easily
 * written where a searcher's belongs. NULL: none has. */
static const char *kind_with(const struct registry *r, const char *name)
{
    for (int kind = 0; kind < REGISTRY_KIND_COUNT; kind++) {
        const struct registry_entry *e =
            registry_find(r, (enum registry_kind)kind, name);

        if (e && !e->hidden)
            return registry_kind_name((enum registry_kind)kind);
    }
    return NULL;
}

/* "a", or "an" before a vowel. */
static const char *article(const char *noun)
{
    return strchr("aeiou", *noun) ? "an" : "a";
}

static void wrong_name(struct config_parse *p, enum registry_kind kind,
                       const char *pointer, const json_t *value)
{
    const struct registry *r = p->env->registry;
    const char *name = json_string_value(value), *near, *other;
    char names[PROBLEM_TEXT_MAX - 32];
    struct problem *problem;

    registry_names(r, kind, names, sizeof(names));
    problem = problems_add(p->problems, pointer, value, "%s %s: %s",
                           article(registry_kind_name(kind)),
                           registry_kind_name(kind), *names ? names : "none");
    near = name ? registry_nearest(r, kind, name) : NULL;
    other = name ? kind_with(r, name) : NULL;
    if (problem && other)
        snprintf(problem->hint, sizeof(problem->hint), "%s is %s %s", name,
                 article(other), other);
    else if (problem && near)
        snprintf(problem->hint, sizeof(problem->hint), "did you mean \"%s\"?",
                 near);
    else if (problem && kind == REGISTRY_SEARCHER)
        snprintf(problem->hint, sizeof(problem->hint),
                 "one of your own is {\"plugin\": \"FILE.so\"} or "
                 "{\"command\": [\"PROGRAM\"]}");
}

const struct registry_entry *config_named(struct config_parse *p,
                                          enum registry_kind kind,
                                          const char *pointer)
{
    const json_t *value = json_at(p->root, pointer);
    const struct registry_entry *e;

    assert(pointer[0] == '/');
    if (!json_is_string(value))
        return NULL;
    e = registry_find(p->env->registry, kind, json_string_value(value));
    if (e && e->hidden)
        e = NULL;
    if (!e)
        wrong_name(p, kind, pointer, value);
    return e;
}

/* Checks and completes the object at @pointer by @e's settings schema. */
static enum err check_settings(struct config_parse *p,
                               const struct registry_entry *e,
                               const char *pointer, const json_t **out)
{
    json_t *settings = json_at(p->root, pointer), *schema;
    size_t before = problems_errors(p->problems);
    struct fault f = {0};
    enum err err;

    if (!e || !json_is_object(settings))
        return ERR_OK;
    err = config_schemas_entry(p->env->schemas, e, &schema, &f);
    assert(err != ERR_FORMAT); /* registry_add has read it */
    if (err)
        return err;
    schema_check(schema, settings, pointer, p->problems);
    if (e->check && problems_errors(p->problems) == before)
        e->check(settings, pointer, p->problems);
    err = schema_complete(schema, settings);
    if (!err)
        err = schema_order(schema, settings);
    json_decref(schema);
    *out = settings;
    return err;
}

/* ---- searchers from outside ---------------------------------------------- */

static bool is_foreign(const struct registry_entry *e)
{
    return e && (e->ops == &searcher_plugin || e->ops == &searcher_process);
}

/* The entry that the object at /tuner/searcher means by its members. */
static const struct registry_entry *foreign_entry(struct config_parse *p,
                                                  const json_t *searcher)
{
    bool plugin = json_object_get(searcher, "plugin") != NULL;
    bool command = json_object_get(searcher, "command") != NULL;
    const struct registry_entry *e =
        registry_find(p->env->registry, REGISTRY_SEARCHER,
                      plugin ? searcher_plugin.name : searcher_process.name);

    if (plugin == command)
        problems_add(p->problems, "/tuner/searcher", searcher,
                     "either \"plugin\", a shared object, or \"command\", a "
                     "program with its arguments");
    else if (!e)
        problems_add(p->problems, "/tuner/searcher", searcher,
                     "a searcher that is built in");
    return plugin == command ? NULL : e;
}

/* Puts the absolute path of the shared object in the place of its name. */
static enum err find_plugin(struct config_parse *p, json_t *own)
{
    static const char pointer[] = "/tuner/searcher/plugin";
    const json_t *value = json_object_get(own, "plugin");
    const char *name = json_string_value(value);
    char path[PATH_MAX];

    if (!name)
        return ERR_OK; /* the schema has complained */
    if (!plugin_find(p->c->folder, name, path)) {
        problems_add(p->problems, pointer, value,
                     "a shared object that is there, from the configuration's "
                     "folder or in MLTUNE_PLUGIN_PATH");
        return ERR_OK;
    }
    if (json_object_set_new(own, "plugin", json_string(path)))
        return ERR_NOMEM;
    return json_put(p->root, pointer, json_string(path));
}

/* Object that the searcher's ops are opened with: that of the configuration
 * with the searcher's own settings and the folder. */
static enum err make_foreign(struct config_parse *p, const json_t *searcher)
{
    const json_t *settings = json_at(p->root, "/tuner/searcher_settings");
    json_t *own = json_copied(searcher);
    struct run_config *c = p->c;

    c->searcher_own = own;
    c->searcher_settings = own;
    if (!own || json_object_set_new(own, "folder", json_string(c->folder)))
        return ERR_NOMEM;
    if (json_object_set_new(own, "settings", json_copied(settings)))
        return ERR_NOMEM;
    if (c->searcher->ops != &searcher_plugin)
        return ERR_OK;
    return find_plugin(p, own);
}

static enum err check_searcher(struct config_parse *p)
{
    const json_t *searcher = json_at(p->root, "/tuner/searcher");
    const json_t *settings = json_at(p->root, "/tuner/searcher_settings");
    struct run_config *c = p->c;

    c->searcher = json_is_object(searcher)
                      ? foreign_entry(p, searcher)
                      : config_named(p, REGISTRY_SEARCHER, "/tuner/searcher");
    if (is_foreign(c->searcher) && json_is_object(settings))
        return make_foreign(p, searcher);
    return check_settings(p, c->searcher, "/tuner/searcher_settings",
                          &c->searcher_settings);
}

static void cannot_search(struct config_parse *p, const struct fault *f)
{
    problems_add(p->problems, "/tuner/searcher",
                 json_at(p->root, "/tuner/searcher"),
                 "a searcher that can search these tunables: %s", f->text);
}

/* A plug-in or program is started once. What it refuses is for the user to
 * mend; one that hangs, dies or talks nonsense now would do so in the run,
 * which goes on without it, and is spared a second try. */
static enum err try_foreign(struct config_parse *p)
{
    struct run_config *c = p->c;
    struct fault f = {0};
    enum err err = searcher_process_try(c->searcher->ops, &c->space,
                                        c->searcher_own, NULL, &f);

    if (!err || err == ERR_NOMEM)
        return err;
    if (searcher_process_is_refusal(err)) {
        cannot_search(p, &f);
        return ERR_OK;
    }
    text_clean(f.text);
    if (json_object_set_new(c->searcher_own, "broken", json_string(f.text)))
        return ERR_NOMEM;
    c->searcher_broken =
        json_string_value(json_object_get(c->searcher_own, "broken"));
    return ERR_OK;
}

enum err config_try_searcher(struct config_parse *p)
{
    const struct run_config *c = p->c;
    struct searcher *s = NULL;
    struct fault f = {0};
    enum err err;

    assert(p->root);
    if (problems_errors(p->problems) > 0 || !c->searcher->ops)
        return ERR_OK;
    if (is_foreign(c->searcher))
        return try_foreign(p);
    err = searcher_open(c->searcher->ops, &c->space, c->searcher_settings,
                        c->seed, &s, &f);
    searcher_close(s);
    if (err != ERR_INVAL)
        return err;
    cannot_search(p, &f);
    return ERR_OK;
}

/* ---- all of them --------------------------------------------------------- */

/* A searcher that is named is to be used, also by a strategy that draws its
 * settings at random by default. */
static enum err imply_sampling(struct config_parse *p)
{
    const struct registry_entry *e = p->c->strategy;
    const struct strategy_ops *ops = e ? e->ops : NULL;
    json_t *settings = json_at(p->root, "/tuner/strategy_settings");

    if (!p->searcher_given || !ops || ops->proposer != PROPOSER_SAMPLING ||
        !json_is_object(settings) || json_object_get(settings, "sampling"))
        return ERR_OK;
    return json_object_set_new(settings, "sampling", json_string("searcher"))
               ? ERR_NOMEM
               : ERR_OK;
}

static enum err check_app(struct config_parse *p)
{
    struct run_config *c = p->c;
    size_t before = problems_errors(p->problems);
    enum err err = check_settings(p, c->app, "/app", &c->app_settings);

    if (!err && config_is_program(c) && problems_errors(p->problems) == before)
        err = config_program(p);
    c->app_name = json_string_value(json_at(p->root, "/app/name"));
    return err;
}

const char *config_word_of_settings(const json_t *schema,
                                    const json_t *settings, const char *key)
{
    const char *name, *word = NULL;
    json_t *setting;

    json_object_foreach(json_object_get(schema, "properties"), name, setting)
    {
        const json_t *words = json_object_get(setting, key);
        const char *value = json_string_value(json_object_get(settings, name));

        if (words && value && json_object_get(words, value))
            word = json_string_value(json_object_get(words, value));
    }
    return word;
}

/* Complains of a metric that the application's task ("x-task" of its schema,
 * or of a setting) does not have. Of what has no task its node knows more. */
static enum err check_metric(struct config_parse *p)
{
    const json_t *value = json_at(p->root, "/metric");
    const char *name = json_string_value(value), *word;
    char names[METRICS_TEXT_MAX];
    enum metric_task task;
    struct fault f = {0};
    json_t *schema;
    enum err err;

    if (!name || !p->c->app)
        return ERR_OK;
    err = config_schemas_entry(p->env->schemas, p->c->app, &schema, &f);
    if (err)
        return err;
    word = json_string_value(json_object_get(schema, "x-task"));
    if (!word)
        word = config_word_of_settings(schema, p->c->app_settings, "x-task");
    task = metrics_task(word);
    json_decref(schema);
    if (task != METRIC_TASKS && !metrics_find(task, name))
        problems_add(p->problems, "/metric", value, "a metric of %s: %s",
                     task == METRICS_OF_CLASSES ? "classes" : "numbers",
                     metrics_text(task == METRICS_OF_CLASSES ? 2 : 0, names));
    return ERR_OK;
}

/* The rule of a barrier must be one that comes true. */
static void check_barrier(struct config_parse *p, const json_t *rule)
{
    const json_t *k = json_object_get(rule, "k");
    double workers = json_number_value(json_at(p->root, "/cluster/nodes")) *
                     json_number_value(json_at(p->root, "/cluster/workers"));

    if (k && json_object_get(rule, "fraction"))
        problems_add(p->problems, "/ps/consistency/barrier", rule,
                     "k or fraction, not both");
    if (json_is_number(k) && workers > 0 && json_number_value(k) > workers)
        problems_add(p->problems, "/ps/consistency/barrier/k", k,
                     "at most the %.0f workers that there are (more never "
                     "come)",
                     workers);
}

typedef enum err ask_plugin(const char *path, struct app_plugin **out,
                            struct fault *f);

/* Asks the shared object that @pointer names what it is, and puts its absolute
 * path in the place of its name: a resume needs no folder. @what: in messages.
 * @out: NULL where it is none. */
static enum err ask_shared(struct config_parse *p, const char *pointer,
                           const char *what, ask_plugin *ask,
                           struct app_plugin **out)
{
    const json_t *value = json_at(p->root, pointer);
    struct fault f = {0};
    char path[PATH_MAX];
    enum err err;

    if (!plugin_find(p->c->folder, json_string_value(value), path)) {
        problems_add(p->problems, pointer, value,
                     "a shared object that is there, from the configuration's "
                     "folder or in MLTUNE_PLUGIN_PATH");
        return ERR_OK;
    }
    err = ask(path, out, &f);
    if (err && err != ERR_NOMEM) {
        problems_add(p->problems, pointer, value, "%s that can be loaded: %s",
                     what, f.text);
        return ERR_OK;
    }
    return err ? err : json_put(p->root, pointer, json_string(path));
}

static enum err find_model(struct config_parse *p)
{
    static const char pointer[] = "/ps/consistency/plugin";
    struct run_config *c = p->c;
    enum err err;

    if (json_integer_value(json_at(p->root, "/cluster/nodes")) > 1) {
        problems_add(p->problems, pointer, json_at(p->root, pointer),
                     "one node: a model of your own acts in one process");
        return ERR_OK;
    }
    err = ask_shared(p, pointer, "a consistency model", app_plugin_ask_model,
                     &c->model);
    if (c->model)
        c->consistency = &c->model->entry;
    return err;
}

static enum err find_rule(struct config_parse *p)
{
    static const char pointer[] = "/ps/update_rule/plugin";
    struct run_config *c = p->c;
    enum err err;

    if (json_string_length(json_at(p->root, pointer)) == 0) {
        c->update_rule = config_named(p, REGISTRY_RULE, "/ps/update_rule");
        return ERR_OK;
    }
    err =
        ask_shared(p, pointer, "an update rule", app_plugin_ask_rule, &c->rule);
    if (c->rule)
        c->update_rule = &c->rule->entry;
    return err;
}

static enum err find_consistency(struct config_parse *p)
{
    static const char whole[] = "/ps/consistency";
    const json_t *value = json_at(p->root, whole);
    const json_t *rule = json_object_get(value, "barrier");
    const json_t *plugin = json_object_get(value, "plugin");
    const struct registry *r = p->env->registry;

    if (!json_is_object(value)) {
        p->c->consistency = config_named(p, REGISTRY_CONSISTENCY, whole);
        return ERR_OK;
    }
    if (json_string_length(plugin) > 0 && !rule)
        return find_model(p);
    if (!plugin)
        p->c->consistency = registry_find(r, REGISTRY_CONSISTENCY, "barrier");
    if (json_is_object(rule))
        check_barrier(p, rule);
    return ERR_OK; /* of anything else the schema has complained */
}

/* Where the application knows when it is done ("x-stop" of its schema: a
 * number, or the setting that has it), the run ends there unless the user says
 * otherwise: this goes before the table's defaults. */
static enum err imply_stop(struct config_parse *p)
{
    const json_t *rules, *value;
    char pointer[JSON_POINTER_MAX];
    json_t *schema = NULL;
    struct fault f = {0};
    const char *name;
    enum err err;

    if (!p->c->app)
        return ERR_OK;
    err = config_schemas_entry(p->env->schemas, p->c->app, &schema, &f);
    if (err)
        return err;
    rules = json_object_get(schema, "x-stop");
    json_object_foreach((json_t *)rules, name, value)
    {
        const json_t *said =
            json_is_string(value)
                ? json_object_get(p->c->app_settings, json_string_value(value))
                : value;

        snprintf(pointer, sizeof(pointer), "/stop/%s", name);
        if (!err && json_is_number(said) && !json_at(p->c->given, pointer))
            err = json_put(p->root, pointer, json_copied(said));
    }
    json_decref(schema);
    return err == ERR_NOMEM ? err : ERR_OK;
}

enum err config_names(struct config_parse *p)
{
    struct run_config *c = p->c;
    enum err err;

    assert(p->root);
    err = config_find_app(p);
    if (err)
        return err;
    err = config_imply(p);
    if (err)
        return err;
    err = find_rule(p);
    if (err)
        return err;
    err = find_consistency(p);
    if (err)
        return err;
    c->strategy = config_named(p, REGISTRY_STRATEGY, "/tuner/strategy");
    err = check_app(p);
    if (!err)
        err = imply_stop(p);
    if (!err)
        err = check_metric(p);
    if (!err)
        err = imply_sampling(p);
    if (!err)
        err = check_settings(p, c->strategy, "/tuner/strategy_settings",
                             &c->strategy_settings);
    if (!err)
        err = check_searcher(p);
    return err;
}
