#include "cli/config.h"

#include "api/listen.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/schema.h"
#include "base/text.h"
#include "cli/config_table.h"
#include "cli/config_tunables.h"
#include "cli/plugins.h"
#include "searchers/process_io.h"
#include "searchers/space_json.h"
#include "tuner/strategy.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One parse: the text's value, and what has been made of it so far. */
struct parse {
    const struct config_env *env;
    json_t *root;   /* owned */
    json_t *schema; /* owned: of the table */
    struct run_config *c;
    struct problems *problems;
    bool searcher_given; /* by the user, not by `complete` */
};

/* ---- values set from outside --------------------------------------------- */

/* "stop.max_epochs" or "/stop/max_epochs", @len bytes, as a pointer. */
static bool set_pointer(const char *path, size_t len,
                        char pointer[JSON_POINTER_MAX])
{
    char token[JSON_POINTER_MAX];

    *pointer = '\0';
    if (len == 0 || len >= JSON_POINTER_MAX - 1)
        return false;
    if (*path == '/') {
        memcpy(pointer, path, len);
        pointer[len] = '\0';
        return true;
    }
    for (size_t at = 0; at <= len;) {
        size_t n = 0;

        while (at + n < len && path[at + n] != '.')
            n++;
        memcpy(token, path + at, n);
        token[n] = '\0';
        json_pointer_push(pointer, token);
        at += n + 1;
    }
    return true;
}

/* JSON where @text is, else the text itself. */
static enum err set_value(const char *text, json_t **out)
{
    enum err err = json_load(text, strlen(text), out, NULL, NULL);

    if (err == ERR_OK || err == ERR_NOMEM)
        return err;
    *out = json_string(text);
    return *out ? ERR_OK : ERR_NOMEM;
}

static enum err apply_set(struct parse *p, const char *item)
{
    const char *equals = strchr(item, '=');
    char pointer[JSON_POINTER_MAX] = "";
    struct problem *problem;
    json_t *value;
    enum err err = ERR_INVAL;

    if (equals && text_is_utf8(item) &&
        set_pointer(item, (size_t)(equals - item), pointer)) {
        err = set_value(equals + 1, &value);
        if (!err)
            err = json_put(p->root, pointer, value);
    }
    if (err == ERR_OK || err == ERR_NOMEM)
        return err;
    problem = problems_add(p->problems, pointer, NULL,
                           "PATH=VALUE, where PATH leads through objects");
    if (problem) {
        problem->no_place = true;
        snprintf(problem->found, sizeof(problem->found), "--set %.200s",
                 text_is_utf8(item) ? item : "with bytes that are not UTF-8");
    }
    return ERR_OK;
}

/* Problems with what came from --set have no place in the file. */
static void mark_set(const struct option_list *sets, struct problems *problems)
{
    for (size_t i = 0; sets && i < sets->len; i++) {
        char pointer[JSON_POINTER_MAX];
        size_t path = strcspn(sets->item[i], "="), n;

        if (!set_pointer(sets->item[i], path, pointer))
            continue;
        n = strlen(pointer);
        for (size_t k = 0; k < problems->len; k++) {
            struct problem *problem = &problems->item[k];

            if (problem->no_place ||
                strncmp(problem->pointer, pointer, n) != 0 ||
                (problem->pointer[n] && problem->pointer[n] != '/'))
                continue;
            problem->no_place = true;
            if (!*problem->hint)
                snprintf(problem->hint, sizeof(problem->hint), "set by --set");
        }
    }
}

/* ---- names --------------------------------------------------------------- */

/* Names of the contract that come later: a better answer than "unknown". */
static bool is_planned(const char *name)
{
    static const char *const names[] = {
        "nn",   "lda",  "nesterov",    "rmsprop", "adadelta",
        "adam", "essp", "adarevision", "async",   "barrier",
        "tpe",  "gp",   "asha",        "median",  "hyperband",
        "pbt",  "grid", "round_robin", "fixed",   "mltuner",
        "mf",   "mlr"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void wrong_name(struct parse *p, enum registry_kind kind,
                       const char *pointer, const json_t *value)
{
    const struct registry *r = p->env->registry;
    const char *name = json_string_value(value), *near;
    char names[PROBLEM_TEXT_MAX - 32];
    struct problem *problem;

    registry_names(r, kind, names, sizeof(names));
    problem =
        problems_add(p->problems, pointer, value, "%s %s: %s",
                     strchr("aeiou", *registry_kind_name(kind)) ? "an" : "a",
                     registry_kind_name(kind), *names ? names : "none");
    near = name ? registry_nearest(r, kind, name) : NULL;
    if (problem && near)
        snprintf(problem->hint, sizeof(problem->hint), "did you mean \"%s\"?",
                 near);
    else if (problem && name && is_planned(name))
        snprintf(problem->hint, sizeof(problem->hint),
                 "%.64s is not built in yet", name);
    else if (problem && kind == REGISTRY_SEARCHER)
        snprintf(problem->hint, sizeof(problem->hint),
                 "one of your own is {\"plugin\": \"FILE.so\"} or "
                 "{\"command\": [\"PROGRAM\"]}");
}

/* The entry that the value at @pointer names; NULL after a complaint, or where
 * the schema has complained. */
static const struct registry_entry *
named(struct parse *p, enum registry_kind kind, const char *pointer)
{
    const json_t *value = json_at(p->root, pointer);
    const struct registry_entry *e;

    if (!json_is_string(value))
        return NULL;
    e = registry_find(p->env->registry, kind, json_string_value(value));
    if (e && e->hidden)
        e = NULL;
    if (!e)
        wrong_name(p, kind, pointer, value);
    return e;
}

/* The first of @names that is built in, else the first entry; NULL: none. */
static const char *first_built_in(const struct registry *r,
                                  enum registry_kind kind,
                                  const char *const names[], size_t n)
{
    const struct registry_entry *e = registry_at(r, kind, 0);

    for (size_t i = 0; i < n; i++)
        if (registry_find(r, kind, names[i]))
            return names[i];
    return e ? e->name : names[0];
}

/* ---- defaults that a table cannot hold ----------------------------------- */

/* Puts @value (transferred) at @pointer unless something is there, or the way
 * is barred by a value that the schema has complained about. */
static enum err put_absent(struct parse *p, const char *pointer, json_t *value)
{
    enum err err;

    if (json_at(p->root, pointer)) {
        json_decref(value);
        return ERR_OK;
    }
    err = json_put(p->root, pointer, value);
    return err == ERR_NOMEM ? err : ERR_OK;
}

static enum err complete(struct parse *p)
{
    static const char *const strategies[] = {"mltuner"};
    static const char *const searchers[] = {"tpe", "random"};
    const struct registry *r = p->env->registry;
    const json_t *app = json_at(p->root, "/app/name");
    enum err err = schema_complete(p->schema, p->root);

    if (!err)
        err = put_absent(p, "/cluster/workers", json_integer(p->env->cores));
    if (!err)
        err = put_absent(
            p, "/tuner/strategy",
            json_string(first_built_in(r, REGISTRY_STRATEGY, strategies, 1)));
    if (!err)
        err = put_absent(
            p, "/tuner/searcher",
            json_string(first_built_in(r, REGISTRY_SEARCHER, searchers, 2)));
    if (!err)
        err = put_absent(p, "/tuner/strategy_settings", json_object());
    if (!err)
        err = put_absent(p, "/tuner/searcher_settings", json_object());
    if (!err && json_is_string(app))
        err = put_absent(p, "/name", json_string(json_string_value(app)));
    return err;
}

/* ---- parts --------------------------------------------------------------- */

/* Checks and completes the object at @pointer by @e's settings schema. */
static enum err check_settings(struct parse *p, const struct registry_entry *e,
                               const char *pointer, const json_t **out)
{
    json_t *settings = json_at(p->root, pointer), *schema;
    size_t before = p->problems->errors;
    struct fault f = {0};
    enum err err;

    if (!e || !json_is_object(settings))
        return ERR_OK;
    err = config_entry_schema(e, &schema, &f);
    assert(err != ERR_FORMAT); /* registry_add has read it */
    if (err)
        return err;
    schema_check(schema, settings, pointer, p->problems);
    if (e->check && p->problems->errors == before)
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
static const struct registry_entry *foreign_entry(struct parse *p,
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
static enum err find_plugin(struct parse *p, json_t *own)
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

/* What the searcher's ops are opened with: the object of the configuration with
 * the searcher's own settings and the folder. */
static enum err make_foreign(struct parse *p, const json_t *searcher)
{
    const json_t *settings = json_at(p->root, "/tuner/searcher_settings");
    json_t *own = json_deep_copy(searcher);
    struct run_config *c = p->c;

    c->searcher_own = own;
    c->searcher_settings = own;
    if (!own || json_object_set_new(own, "folder", json_string(c->folder)))
        return ERR_NOMEM;
    if (json_object_set_new(own, "settings", json_deep_copy(settings)))
        return ERR_NOMEM;
    if (c->searcher->ops != &searcher_plugin)
        return ERR_OK;
    return find_plugin(p, own);
}

static enum err check_searcher(struct parse *p)
{
    const json_t *searcher = json_at(p->root, "/tuner/searcher");
    const json_t *settings = json_at(p->root, "/tuner/searcher_settings");
    struct run_config *c = p->c;

    c->searcher = json_is_object(searcher)
                      ? foreign_entry(p, searcher)
                      : named(p, REGISTRY_SEARCHER, "/tuner/searcher");
    if (is_foreign(c->searcher) && json_is_object(settings))
        return make_foreign(p, searcher);
    return check_settings(p, c->searcher, "/tuner/searcher_settings",
                          &c->searcher_settings);
}

/* Who names a searcher wants it to be used, also by a strategy that draws its
 * settings at random by default. */
static enum err imply_sampling(struct parse *p)
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

static enum err check_names(struct parse *p)
{
    struct run_config *c = p->c;
    enum err err;

    c->app = named(p, REGISTRY_APP, "/app/name");
    c->update_rule = named(p, REGISTRY_RULE, "/ps/update_rule");
    c->consistency = named(p, REGISTRY_CONSISTENCY, "/ps/consistency");
    c->strategy = named(p, REGISTRY_STRATEGY, "/tuner/strategy");
    err = check_settings(p, c->app, "/app", &c->app_settings);
    if (!err)
        err = imply_sampling(p);
    if (!err)
        err = check_settings(p, c->strategy, "/tuner/strategy_settings",
                             &c->strategy_settings);
    if (!err)
        err = check_searcher(p);
    return err;
}

static double number_at(const struct parse *p, const char *pointer,
                        double fallback)
{
    const json_t *value = json_at(p->root, pointer);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* A whole number that the schema has bounded, or @fallback. */
static uint64_t count_at(const struct parse *p, const char *pointer,
                         uint64_t fallback)
{
    double x = number_at(p, pointer, -1);

    return x >= 0 && x <= 0x1p53 ? (uint64_t)x : fallback;
}

static double seconds_at(const struct parse *p, const char *pointer,
                         double fallback)
{
    double s;

    return json_to_seconds(json_at(p->root, pointer), &s) ? s : fallback;
}

/* Where the HTTP interface is; the files are looked at when it starts. */
static void read_api(struct parse *p)
{
    const json_t *listen = json_at(p->root, "/api/listen");
    const char *cert = json_string_value(json_at(p->root, "/api/tls/cert"));
    const char *key = json_string_value(json_at(p->root, "/api/tls/key"));
    struct listen_address address = {.loopback = true};
    struct run_config *c = p->c;

    c->listen = json_is_string(listen) ? json_string_value(listen) : "";
    c->tls_cert = cert && *cert ? cert : NULL;
    c->tls_key = key && *key ? key : NULL;
    if (!c->tls_cert != !c->tls_key)
        problems_add(p->problems, "/api/tls", json_at(p->root, "/api/tls"),
                     "both a certificate (cert) and its key (key)");
    if (json_is_string(listen) &&
        (!strchr(c->listen, ':') ||
         listen_parse(c->listen, &address, NULL) != ERR_OK))
        problems_add(p->problems, "/api/listen", listen,
                     "an address with a port, such as \"127.0.0.1:8080\"");
    else if (!address.loopback && !c->tls_cert)
        problems_add(
            p->problems, "/api/listen", listen,
            "a loopback address such as \"127.0.0.1:8080\", or api.tls "
            "with a certificate and its key");
}

static void read_text(struct parse *p)
{
    const json_t *name = json_at(p->root, "/name");
    struct run_config *c = p->c;

    c->name = json_is_string(name) ? json_string_value(name) : "";
    for (const char *s = c->name; *s; s++)
        if (iscntrl((unsigned char)*s)) {
            problems_add(p->problems, "/name", name,
                         "a text without control characters");
            break;
        }
    c->priority = json_string_value(json_at(p->root, "/ps/priority"));
    if (c->nodes == 1 && c->priority && strcmp(c->priority, "relative") != 0)
        problems_warn(p->problems, "/ps/priority",
                      "acts between nodes only; there is one");
    c->float16 = json_is_true(json_at(p->root, "/ps/float16"));
    if (c->float16 && c->nodes == 1)
        problems_warn(p->problems, "/ps/float16",
                      "acts between nodes only; there is one");
}

static void read_numbers(struct parse *p)
{
    struct run_config *c = p->c;
    const json_t *retune = json_at(p->root, "/tuner/retune");
    uint64_t bytes;

    c->nodes = (unsigned)count_at(p, "/cluster/nodes", 1);
    c->workers = (unsigned)count_at(p, "/cluster/workers", 1);
    c->retune = !json_is_false(retune);
    c->max_trials = (uint32_t)count_at(p, "/tuner/max_trials", 0);
    c->trial_clocks = count_at(p, "/tuner/trial_clocks", 0);
    c->target_loss = number_at(p, "/stop/target_loss", NAN);
    c->target_metric = number_at(p, "/stop/target_metric", NAN);
    c->plateau_epochs = (uint32_t)count_at(p, "/stop/plateau_epochs", 5);
    c->max_epochs = (uint32_t)count_at(p, "/stop/max_epochs", 100);
    c->max_time_s = seconds_at(p, "/stop/max_time", INFINITY);
    c->snapshot_every_s = seconds_at(p, "/snapshot/every", 300);
    c->snapshot_keep = (uint32_t)count_at(p, "/snapshot/keep", 2);
    c->memory_limit =
        json_to_bytes(json_at(p->root, "/memory/limit"), &bytes) ? bytes : 0;
    c->seed = count_at(p, "/seed", 1);
}

/* Whether a clock of this app is a mini-batch: where it has a setting `clock`,
 * that says so. */
static bool has_batch_clocks(const struct run_config *c)
{
    const json_t *clock = json_object_get(c->app_settings, "clock");
    const char *s = json_string_value(clock);

    return !clock || (s && strcmp(s, "batch") == 0);
}

static enum err read_initial(struct parse *p)
{
    const json_t *initial = json_at(p->root, "/tuner/initial");
    struct run_config *c = p->c;
    enum err err;

    if (!json_is_object(initial))
        return ERR_OK;
    err = setting_from_json(&c->space, initial, "/tuner/initial",
                            &c->initial_setting, p->problems);
    if (err)
        return err;
    err = json_put(p->root, "/tuner/initial",
                   setting_to_json(&c->space, &c->initial_setting));
    c->initial = json_at(p->root, "/tuner/initial");
    return err;
}

static enum err read_tunables(struct parse *p)
{
    struct run_config *c = p->c;
    const struct tunables_context context = {
        .app = c->app,
        .update_rule = c->update_rule,
        .consistency = c->consistency,
        .nodes = c->nodes > 0 ? c->nodes : 1,
        .workers = c->nodes * c->workers > 0 ? c->nodes * c->workers : 1,
        .batch_clocks = has_batch_clocks(c)};
    enum err err = tunables_space(&context, json_at(p->root, "/tunables"),
                                  &c->space, p->problems);

    if (err == ERR_INVAL)
        return ERR_OK; /* in p->problems; the initial setting has no space */
    if (!err)
        err = read_initial(p);
    if (err == ERR_INVAL)
        return ERR_OK;
    if (!err)
        err = json_object_set_new(p->root, "tunables", space_to_json(&c->space))
                  ? ERR_NOMEM
                  : ERR_OK;
    return err;
}

static void cannot_search(struct parse *p, const struct fault *f)
{
    problems_add(p->problems, "/tuner/searcher",
                 json_at(p->root, "/tuner/searcher"),
                 "a searcher that can search these tunables: %s", f->text);
}

/* A plug-in or program is started once. What it refuses is for the user to
 * mend; one that hangs, dies or talks nonsense now would do so in the run,
 * which goes on without it, and is spared a second try. */
static enum err try_foreign(struct parse *p)
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

/* Opens the searcher once, because only it knows what it cannot search. */
static enum err try_searcher(struct parse *p)
{
    const struct run_config *c = p->c;
    struct searcher *s = NULL;
    struct fault f = {0};
    enum err err;

    if (p->problems->errors > 0 || !c->searcher->ops)
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

/* ---- the whole ----------------------------------------------------------- */

static enum err load_schema(struct parse *p)
{
    size_t n;
    const struct config_field *fields = config_table(&n);
    enum err err = config_schema(fields, n, &p->schema, NULL);

    assert(err != ERR_FORMAT); /* the table's test reads it all */
    return err;
}

static enum err load_text(struct parse *p, const char *text, size_t len)
{
    struct json_place place;
    struct problem *problem;
    struct fault f = {0};
    enum err err = json_load(text, len, &p->root, &place, &f);
    const char *reason = strstr(f.text, ": ");

    if (err != ERR_FORMAT && err != ERR_LIMIT)
        return err;
    problem = problems_add(p->problems, "", NULL, "valid JSON");
    if (!problem)
        return ERR_NOMEM;
    problem->place = place;
    snprintf(problem->found, sizeof(problem->found), "%.200s",
             reason ? reason + 2 : f.text);
    return ERR_INVAL;
}

static enum err parse_all(struct parse *p, const struct option_list *sets)
{
    enum err err = ERR_OK;

    for (size_t i = 0; sets && i < sets->len && !err; i++)
        err = apply_set(p, sets->item[i]);
    if (!err)
        err = load_schema(p);
    if (err)
        return err;
    schema_check(p->schema, p->root, "", p->problems);
    if (!json_is_object(p->root))
        return ERR_OK;
    p->searcher_given = json_at(p->root, "/tuner/searcher") != NULL;
    err = complete(p);
    if (!err)
        err = check_names(p);
    if (err)
        return err;
    read_numbers(p);
    read_api(p);
    read_text(p);
    err = read_tunables(p);
    if (!err)
        err = try_searcher(p);
    return err ? err : schema_order(p->schema, p->root);
}

/* What a configuration without errors holds. */
static void check_whole(const struct run_config *c)
{
    assert(c->app && c->app_settings);
    assert(c->update_rule && c->consistency);
    assert(c->strategy && c->strategy_settings);
    assert(c->searcher && c->searcher_settings);
    assert(c->nodes >= 1 && c->workers >= 1);
    assert(c->max_epochs >= 1 && c->plateau_epochs >= 1);
    assert(c->max_time_s > 0 && c->snapshot_every_s > 0);
    assert(c->snapshot_keep >= 1);
    assert(c->name && c->listen && c->priority);
    assert(space_dims(&c->space) <= c->space.len);
}

void run_config_free(struct run_config *c)
{
    if (!c)
        return;
    json_decref(c->effective);
    json_decref(c->searcher_own);
    mem_free((char *)c->folder);
    mem_free(c);
}

enum err run_config_parse(const struct config_env *env, const char *text,
                          size_t len, const char *folder,
                          const struct option_list *sets,
                          struct run_config **out, struct problems *problems)
{
    struct parse p = {.env = env, .problems = problems};
    enum err err;

    assert(*folder == '/');
    assert(env->cores >= 1);
    p.c = mem_calloc(1, sizeof(*p.c));
    if (!p.c)
        return ERR_NOMEM;
    p.c->folder = mem_strdup(folder);
    err = p.c->folder ? load_text(&p, text, len) : ERR_NOMEM;
    if (!err)
        err = parse_all(&p, sets);
    if (problems->no_memory)
        err = ERR_NOMEM;
    else if (!err && problems->errors > 0)
        err = ERR_INVAL;
    mark_set(sets, problems);
    if (p.root)
        problems_locate(problems, text, len);
    p.c->effective = p.root;
    json_decref(p.schema);
    if (!err)
        check_whole(p.c);
    if (err)
        run_config_free(p.c);
    else
        *out = p.c;
    return err;
}
