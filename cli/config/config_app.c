/* The member `app`: what trains, an app that is built in, by name, or the
 * user's own program. */
#include "apps/data/gen.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/subprocess_io.h"
#include "base/text.h"
#include "cli/config/app_plugin.h"
#include "cli/config/config_internal.h"
#include "cli/config/plugins.h"
#include "cli/config/program.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_file(const char *folder, const char *name, char out[PATH_MAX])
{
    struct stat st;

    return program_path(folder, name, out) && stat(out, &st) == 0 &&
           S_ISREG(st.st_mode);
}

bool config_is_program(const struct run_config *c)
{
    return c->app && c->app->kind == REGISTRY_APP &&
           strcmp(c->app->name, PROGRAM_ENTRY) == 0;
}

/* ---- folder and file ----------------------------------------------------- */

/* False after a complaint. */
static bool check_folder(struct config_parse *p, char out[PATH_MAX])
{
    static const char pointer[] = "/app/folder";
    const json_t *value = json_at(p->root, pointer);
    const char *name = json_string_value(value);
    struct stat st;

    if (!program_path(p->c->folder, name, out)) {
        problems_add(p->problems, pointer, value, "a shorter path");
        return false;
    }
    if (stat(out, &st) == 0 && S_ISDIR(st.st_mode))
        return true;
    problems_add(p->problems, pointer, value,
                 "a folder that is there, from the configuration's folder "
                 "%.120s",
                 p->c->folder);
    return false;
}

/* A hint that may help where no program is called @name. */
static void hint_file(struct problem *problem, const char *folder,
                      const char *name)
{
    char path[PATH_MAX];

    if (!problem || !is_file(folder, name, path))
        return;
    if (access(path, X_OK) == 0)
        snprintf(problem->hint, sizeof(problem->hint),
                 "did you mean \"./%.100s\"?", name);
    else
        snprintf(problem->hint, sizeof(problem->hint),
                 "it may not be executed (chmod +x), so name what runs it: "
                 "[\"python3\", \"%.100s\"]",
                 name);
}

static void hint_interpreter(struct problem *problem, const char *lacks)
{
    if (problem)
        snprintf(problem->hint, sizeof(problem->hint), "%.255s", lacks);
}

/* False after a complaint. */
static bool check_file(struct config_parse *p, const char *folder,
                       char out[PATH_MAX])
{
    static const char pointer[] = "/app/command/0";
    const json_t *value = json_at(p->root, pointer);
    const char *name = json_string_value(value);
    char lacks[SUBPROCESS_LACKS_MAX];
    struct problem *problem;

    if (!*name) {
        problems_add(p->problems, pointer, value, "the name of a program");
        return false;
    }
    if (program_find(folder, name, out)) {
        if (!subprocess_lacks(out, lacks))
            return true;
        problem = problems_add(p->problems, pointer, value,
                               "a program that can be executed");
        hint_interpreter(problem, lacks);
        return false;
    }
    problem = problems_add(
        p->problems, pointer, value,
        strchr(name, '/') ? "a file that may be executed, from the folder "
                            "%.120s"
                          : "a program in PATH, or a path to one from %.120s",
        folder);
    hint_file(problem, folder, name);
    return false;
}

/* ---- its name ------------------------------------------------------------ */

/* "train" of "code/train.py", cut at @size; "" where nothing is left of it. */
static void base_name(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/'), *dot;
    const char *name = slash ? slash + 1 : path;
    size_t n;

    dot = strrchr(name, '.');
    n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    if (n >= size)
        n = size - 1;
    memcpy(out, name, n);
    out[n] = '\0';
    text_to_utf8(out);
    text_clean(out);
}

/* The first argument that is a file is what a person calls the program, more
 * than what runs it; files after it are what it reads. */
static void default_name(const json_t *command, const char *folder,
                         char out[PROGRAM_NAME_MAX])
{
    const json_t *word;
    char path[PATH_MAX];
    size_t i;

    *out = '\0';
    json_array_foreach((json_t *)command, i, word)
    {
        if (i > 0 && !*out && is_file(folder, json_string_value(word), path))
            base_name(path, out, PROGRAM_NAME_MAX);
    }
    if (!*out)
        base_name(json_string_value(json_array_get(command, 0)), out,
                  PROGRAM_NAME_MAX);
    if (!*out)
        snprintf(out, PROGRAM_NAME_MAX, "program");
}

/* A program that is called as a built-in app would be taken for it. */
static void check_name(struct config_parse *p)
{
    const json_t *value = json_at(p->root, "/app/name");
    const char *name = json_string_value(value);
    const struct registry_entry *e =
        registry_find(p->env->registry, REGISTRY_APP, name);

    if (e && !e->hidden)
        problems_add(p->problems, "/app/name", value,
                     "another name: %s is built in, so name either it or a "
                     "command",
                     name);
}

static enum err name_program(struct config_parse *p, const char *folder)
{
    const json_t *command = json_at(p->root, "/app/command");
    char name[PROGRAM_NAME_MAX];

    if (json_at(p->root, "/app/name")) {
        check_name(p);
        return ERR_OK;
    }
    default_name(command, folder, name);
    return json_put(p->root, "/app/name", json_string(name));
}

/* ---- the whole ----------------------------------------------------------- */

enum err config_program(struct config_parse *p)
{
    struct run_config *c = p->c;
    char folder[PATH_MAX], path[PATH_MAX];
    enum err err;

    assert(p->root);
    if (!check_folder(p, folder))
        return ERR_OK;
    err = name_program(p, folder);
    if (err || !check_file(p, folder, path))
        return err;
    c->program_path = mem_strdup(path);
    c->program_folder = mem_strdup(folder);
    return c->program_path && c->program_folder ? ERR_OK : ERR_NOMEM;
}

/* Asks the shared object what it is, and puts its absolute path in the place of
 * its name: a resume needs no folder. */
static enum err find_plugin(struct config_parse *p)
{
    static const char pointer[] = "/app/plugin";
    const json_t *value = json_at(p->root, pointer);
    const char *name = json_string_value(value);
    struct run_config *c = p->c;
    struct fault f = {0};
    char path[PATH_MAX];
    enum err err;

    if (!name || !*name) {
        problems_add(p->problems, pointer, value,
                     "the file of a shared object");
        return ERR_OK;
    }
    if (!plugin_find(c->folder, name, path)) {
        problems_add(p->problems, pointer, value,
                     "a shared object that is there, from the configuration's "
                     "folder or in MLTUNE_PLUGIN_PATH");
        return ERR_OK;
    }
    err = app_plugin_ask(path, &c->plugin, &f);
    if (err == ERR_NOMEM)
        return err;
    if (err) {
        problems_add(p->problems, pointer, value,
                     "an application that can be loaded: %s", f.text);
        return ERR_OK;
    }
    c->app = &c->plugin->entry;
    err = json_put(p->root, pointer, json_string(path));
    if (!err && !json_at(p->root, "/app/name"))
        err = json_put(p->root, "/app/name", json_string(c->app->name));
    return err;
}

/* Nothing says what trains: perhaps a key that was meant so. */
static void lacks_name(struct config_parse *p, const json_t *app)
{
    static const char *const keys[] = {"name", "command", "plugin"};
    const char *near = NULL, *key;
    json_t *value;
    struct problem *problem =
        problems_add(p->problems, "/app", app,
                     "\"name\", an app that is built in, \"command\", a "
                     "program of your own with its arguments, or \"plugin\", a "
                     "shared object");

    json_object_foreach((json_t *)app, key, value)
    {
        near = near ? near : text_nearest(key, keys, 3);
    }
    if (problem && near)
        snprintf(problem->hint, sizeof(problem->hint), "did you mean \"%s\"?",
                 near);
}

/* ---- settings of no application ------------------------------------------ */

/* Puts the keys of @e's settings into the object @keys. */
static enum err add_keys(const struct config_env *env, json_t *keys,
                         const struct registry_entry *e)
{
    json_t *schema = NULL, *value;
    enum err err = e && e->settings
                       ? config_schemas_entry(env->schemas, e, &schema, NULL)
                       : ERR_OK;
    const char *key;

    json_object_foreach(json_object_get(schema, "properties"), key, value)
    {
        if (!err && json_object_set_new(keys, key, json_true()) != 0)
            err = ERR_NOMEM;
    }
    json_decref(schema);
    return err;
}

/* Keys of all applications, programs and plug-ins; the caller's. */
static enum err all_keys(const struct config_env *env, json_t **out)
{
    const struct registry *r = env->registry;
    static const char *const more[] = {PROGRAM_ENTRY, APP_PLUGIN_ENTRY};
    json_t *keys =
        json_pack("{s:b, s:b, s:b}", "name", 1, "command", 1, "plugin", 1);
    const struct registry_entry *e;
    enum err err = keys ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && (e = registry_at(r, REGISTRY_APP, i)); i++)
        err = add_keys(env, keys, e);
    for (size_t i = 0; !err && i < sizeof(more) / sizeof(*more); i++)
        err = add_keys(env, keys, registry_find(r, REGISTRY_APP, more[i]));
    if (err)
        json_decref(keys);
    else
        *out = keys;
    return err;
}

static const char *nearest_of(const json_t *keys, const char *word)
{
    const char *names[128], *name;
    size_t n = 0;
    json_t *value;

    json_object_foreach((json_t *)keys, name, value)
    {
        if (n < sizeof(names) / sizeof(*names))
            names[n++] = name;
    }
    return text_nearest(word, names, n);
}

/* Which application is meant is not known: settings that none has are wrong
 * all the same. */
static enum err tell_strange(struct config_parse *p, const json_t *app)
{
    json_t *keys = NULL, *value;
    const char *key, *near;
    enum err err = all_keys(p->env, &keys);

    json_object_foreach((json_t *)app, key, value)
    {
        char pointer[JSON_POINTER_MAX] = "/app";
        struct problem *problem;

        if (err || json_object_get(keys, key))
            continue;
        json_pointer_push(pointer, key);
        problem = problems_add(p->problems, pointer, value,
                               "a setting that some application has (mltune "
                               "apps)");
        near = nearest_of(keys, key);
        if (!problem)
            continue;
        problem->at_key = true;
        snprintf(problem->found, sizeof(problem->found), "\"%.64s\"", key);
        if (near)
            snprintf(problem->hint, sizeof(problem->hint),
                     "did you mean \"%s\"?", near);
    }
    json_decref(keys);
    return err;
}

enum err config_find_app(struct config_parse *p)
{
    const struct registry *r = p->env->registry;
    const json_t *app = json_at(p->root, "/app");
    bool command = json_object_get(app, "command") != NULL;
    bool plugin = json_object_get(app, "plugin") != NULL;

    assert(p->root);
    if (!json_is_object(app))
        return ERR_OK;
    if (command && plugin)
        problems_add(p->problems, "/app", app,
                     "either \"command\", a program, or \"plugin\", a shared "
                     "object");
    else if (command)
        p->c->app = registry_find(r, REGISTRY_APP, PROGRAM_ENTRY);
    else if (plugin && registry_find(r, REGISTRY_APP, APP_PLUGIN_ENTRY))
        return find_plugin(p);
    else if (plugin || !json_object_get(app, "name"))
        lacks_name(p, app);
    else
        p->c->app = config_named(p, REGISTRY_APP, "/app/name");
    return p->c->app ? ERR_OK : tell_strange(p, app);
}

/* ---- data ---------------------------------------------------------------- */

void config_data(struct config_parse *p)
{
    static const char *const pointer[] = {"/app/data", "/app/test"};
    const struct run_config *c = p->c;
    uint64_t most = c->nodes ? c->memory_limit / c->nodes : 0, bytes;

    if (most == 0 || config_is_program(c))
        return;
    for (size_t i = 0; i < sizeof(pointer) / sizeof(*pointer); i++) {
        const json_t *value = json_at(p->root, pointer[i]);
        const char *spec = json_string_value(value);

        /* What is wrong with it otherwise, who loads it says. */
        if (spec && gen_is(spec) && gen_bytes(spec, &bytes, NULL) == ERR_OK &&
            bytes > most)
            problems_add(p->problems, pointer[i], value,
                         "data that fit into memory.limit, %.1f MiB%s, these "
                         "take %.1f MiB",
                         (double)most / 1048576,
                         c->nodes > 1 ? " for each node" : "",
                         (double)bytes / 1048576);
    }
}
