#include "cli/service/intake.h"

#include "apps/data/data_path.h"
#include "apps/data/gen.h"
#include "base/mem.h"
#include "cli/remote/webhook.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Members of `app` that name files. */
static const char *const path_names[] = {"data", "test", "vocab"};

/* ---- paths --------------------------------------------------------------- */

/* The part of @path that exists, links followed; the rest may be a glob, or not
 * be there yet, and holds no "..". */
static bool real_part(const char *path, char out[PATH_MAX])
{
    char part[PATH_MAX];
    char *slash;

    if (snprintf(part, sizeof(part), "%s", path) >= PATH_MAX)
        return false;
    while (!realpath(part, out)) {
        slash = strrchr(part, '/');
        if (!slash || strcmp(slash, "/..") == 0)
            return false;
        slash[slash == part] = '\0'; /* "/" stays */
        if (slash == part && !realpath(part, out))
            return false;
    }
    return true;
}

static bool is_within(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    if (strcmp(folder, "/") == 0)
        return true;
    return strncmp(path, folder, n) == 0 && (!path[n] || path[n] == '/');
}

/* A folder's name that is a pattern, or escaped as in one, could stand for
 * ".."; a file's cannot. */
static bool plain_folders(const char *name)
{
    const char *slash = strrchr(name, '/');

    return !slash || strcspn(name, "*?[\\") > (size_t)(slash - name);
}

static bool leads_into(const char *folder, const char *name)
{
    char path[PATH_MAX], found[PATH_MAX];
    int n = *name == '/' ? snprintf(path, sizeof(path), "%s", name)
                         : snprintf(path, sizeof(path), "%s/%s", folder, name);

    return n < PATH_MAX && real_part(path, found) && is_within(found, folder) &&
           (access(path, F_OK) == 0 || plain_folders(name));
}

/* Each file of a folder and of a pattern lies there too, and none in the
 * service's own folder. What is not there yet is said. */
static void check_files(const struct intake *in, const char *pointer,
                        const json_t *value, struct problems *problems)
{
    struct data_files files = {0};
    struct fault f = {0};
    enum err err =
        data_files_find(json_string_value(value), in->data, &files, &f);

    data_files_deinit(&files);
    if (err == ERR_NOENT) /* they may come before the run does */
        problems_warn(problems, pointer, "a run would fail now: %.300s",
                      f.text);
    if (err == ERR_INVAL)
        problems_add(problems, pointer, value,
                     "files within the data folder: %.300s", f.text);
}

/* One that there is not is no more than said, as data that are not there. */
static void check_generator(const char *pointer, const json_t *value,
                            struct problems *problems)
{
    struct fault f = {0};
    uint64_t bytes;

    if (gen_bytes(json_string_value(value), &bytes, &f))
        problems_warn(problems, pointer, "a run would fail: %.300s", f.text);
}

/* Whether the name alone stays in @folder: what leads out is a link then. */
static bool stays_by_name(const char *folder, const char *name)
{
    const char *up = strstr(name, "..");

    for (; up; up = strstr(up + 1, ".."))
        if ((up == name || up[-1] == '/') && (!up[2] || up[2] == '/'))
            return false;
    return *name != '/' || is_within(name, folder);
}

/* @name leads out of the data folder, or may. */
static void refuse_path(const struct intake *in, const char *pointer,
                        const json_t *value, struct problems *problems)
{
    const char *name = json_string_value(value);
    bool plain = plain_folders(name);
    struct problem *p =
        problems_add(problems, pointer, value,
                     "a path within the service's data folder %s%s", in->data,
                     plain ? "" : ", no folder of which is a pattern");

    if (p && plain && stays_by_name(in->data, name))
        snprintf(p->hint, sizeof(p->hint),
                 "a link leads out of it: put the file itself there (mltune "
                 "upload), or start the service with another --data");
}

static void check_paths(const struct intake *in, const json_t *root,
                        struct problems *problems)
{
    char pointer[64];

    for (size_t i = 0; i < sizeof(path_names) / sizeof(*path_names); i++) {
        const json_t *value;
        const char *name;

        snprintf(pointer, sizeof(pointer), "/app/%s", path_names[i]);
        value = json_at(root, pointer);
        name = json_string_value(value);
        if (!name)
            continue;
        if (gen_is(name) && json_at(root, "/app/plugin"))
            continue; /* its own affair */
        if (gen_is(name))
            check_generator(pointer, value, problems);
        else if (!leads_into(in->data, name))
            refuse_path(in, pointer, value, problems);
        else
            check_files(in, pointer, value, problems);
    }
}

/* ---- shares -------------------------------------------------------------- */

/* The number at @pointer as it was sent; 1: none was, or none that can be. */
static json_int_t sent(const json_t *root, const char *pointer)
{
    json_int_t n = json_integer_value(json_at(root, pointer));

    return n > 0 ? n : 1;
}

/* Workers of each node, where @root does not say. */
static unsigned share_of_node(const struct intake *in, const json_t *root)
{
    json_int_t share = in->workers / sent(root, "/cluster/nodes");

    return share > 0 ? (unsigned)share : 1;
}

/* Shares as they were sent: what is not there is filled in so that it fits, and
 * what is malformed is complained of elsewhere. */
static void check_shares(const struct intake *in, const json_t *root,
                         struct problems *problems)
{
    json_int_t workers = sent(root, "/cluster/workers");
    json_int_t nodes = sent(root, "/cluster/nodes");
    const json_t *limit = json_at(root, "/memory/limit");
    uint64_t memory;

    if (workers > in->workers_max)
        problems_add(problems, "/cluster/workers",
                     json_at(root, "/cluster/workers"),
                     "at most %u: the service's runs have no more together",
                     in->workers_max);
    else if (nodes > in->workers_max / workers)
        problems_add(problems, "/cluster/nodes",
                     json_at(root, "/cluster/nodes"),
                     "nodes that have at most %u workers together: the "
                     "service's runs have no more",
                     in->workers_max);
    if (limit && in->memory_max && json_to_bytes(limit, &memory) &&
        memory > in->memory_max)
        problems_add(problems, "/memory/limit", limit,
                     "at most %" PRIu64
                     " bytes: the service's runs have no more together",
                     in->memory_max);
}

/* ---- webhooks ------------------------------------------------------------ */

static bool is_allowed_host(const struct intake *in, const char *url)
{
    struct webhook_place place;

    if (webhook_split(url, &place, NULL) != ERR_OK)
        return true; /* it is complained of elsewhere */
    for (size_t i = 0; in->hook_hosts && i < in->hook_hosts->len; i++)
        if (strcasecmp(in->hook_hosts->item[i], place.host) == 0)
            return true;
    return false;
}

/* Whether the file @name is data, or is not there yet: then it is seen when it
 * is read (cli/verbs/webhook.c). */
static bool is_data(const struct intake *in, const char *name)
{
    struct data_files files = {0};
    struct fault f = {0};
    enum err err = leads_into(in->data, name)
                       ? data_files_find(name, in->data, &files, &f)
                       : ERR_INVAL;

    data_files_deinit(&files);
    return err != ERR_INVAL;
}

/* Who may submit could else have this machine ask any server that it reaches,
 * and sign with any file. */
static void check_webhook(const struct intake *in, const json_t *root,
                          struct problems *problems)
{
    const json_t *url = json_at(root, "/hooks/url");
    const json_t *secret = json_at(root, "/hooks/secret");
    const json_t *any = json_at(root, "/hooks/private");

    if (json_is_string(url) && !is_allowed_host(in, json_string_value(url)))
        problems_add(problems, "/hooks/url", url,
                     "a host that this service allows (mltune serve "
                     "--hook-host)");
    if (json_is_string(secret) && !is_data(in, json_string_value(secret)))
        problems_add(problems, "/hooks/secret", secret,
                     "a path within the service's data folder %s, and not in "
                     "its state folder",
                     in->data);
    if (json_is_true(any) && !in->hook_private)
        problems_add(problems, "/hooks/private", any,
                     "false: this service sends to public addresses alone "
                     "(mltune serve --hook-private)");
}

/* ---- files --------------------------------------------------------------- */

/* Who may submit, and run no programs, writes nowhere but into the state. */
static void check_folder(const struct intake *in, const json_t *root,
                         struct problems *problems)
{
    const json_t *folder = json_at(root, "/tensorboard");

    if (!in->programs && json_is_string(folder))
        problems_add(problems, "/tensorboard", folder,
                     "true: this service writes into the run's own folder "
                     "alone (mltune serve --allow-programs)");
}

/* ---- the whole ----------------------------------------------------------- */

static const char no_program[] =
    "the name of a searcher that is built in: this service runs no programs "
    "(mltune serve --allow-programs)";

/* Where an app is a program or a shared object, a consistency model or an
 * update rule is one, a program that is started beside it, and programs on
 * other machines. */
static const struct {
    const char *pointer, *expected, *allowed;
} foreign[] = {
    {"/app/command", "the name of an app that is built in", NULL},
    {"/app/plugin", "the name of an app that is built in", NULL},
    {"/ps/consistency/plugin",
     "the name of a consistency model that is built in", NULL},
    {"/ps/update_rule/plugin", "the name of an update rule that is built in",
     NULL},
    {"/hooks/command", "no hook", NULL},
    {"/cluster/launcher", "local", "local"},
    {"/cluster/hosts", "no hosts", NULL},
    {"/cluster/command", "no command", NULL},
    {"/cluster/address", "no address", NULL},
};

enum { FOREIGN = sizeof(foreign) / sizeof(*foreign) };

/* What @config has at a place of that table; NULL: nothing that is foreign. */
static const json_t *foreign_at(const json_t *config, size_t i)
{
    const json_t *value = json_at(config, foreign[i].pointer);
    const char *text = json_string_value(value);

    return text && foreign[i].allowed && strcmp(text, foreign[i].allowed) == 0
               ? NULL
               : value;
}

bool intake_allows(const struct intake *in, const json_t *config)
{
    const char *url = json_string_value(json_at(config, "/hooks/url"));

    assert(in && config);
    for (size_t i = 0; i < FOREIGN && !in->programs; i++)
        if (foreign_at(config, i))
            return false;
    if (url && (!is_allowed_host(in, url) ||
                (json_is_true(json_at(config, "/hooks/private")) &&
                 !in->hook_private)))
        return false;
    return in->programs || !json_is_object(json_at(config, "/tuner/searcher"));
}

/* Whether a program or shared object that may not be run is named; it is
 * complained of then. */
static bool is_forbidden(const struct intake *in, const json_t *root,
                         struct problems *problems)
{
    bool found = false;

    for (size_t i = 0; i < FOREIGN && !in->programs; i++) {
        const json_t *value = foreign_at(root, i);

        if (!value)
            continue;
        problems_add(problems, foreign[i].pointer, value,
                     "%s: this service runs no programs (mltune serve "
                     "--allow-programs)",
                     foreign[i].expected);
        found = true;
    }
    return found;
}

enum err intake_parse(const struct intake *in, const char *body, size_t len,
                      struct run_config **out, struct problems *problems)
{
    struct config_env env = {.registry = in->registry, .schemas = in->schemas};
    struct option_list sets = {.len = 0};
    struct run_config *c = NULL;
    char memory[64];
    json_t *root = NULL;
    bool searcher = false;
    enum err err = json_load(body, len, &root, NULL, NULL);

    assert(body || len == 0);
    assert(out);
    assert(problems);
    if (err)
        return err;
    if (is_forbidden(in, root, problems)) {
        problems_locate(problems, body, len);
        err = problems->no_memory ? ERR_NOMEM : ERR_UNSUPPORTED;
        goto done;
    }
    env.cores = share_of_node(in, root);
    searcher =
        json_is_object(json_at(root, "/tuner/searcher")) && !in->programs;
    /* Before it is tried, which would run it. */
    if (searcher)
        sets.item[sets.len++] = "tuner.searcher=random";
    snprintf(memory, sizeof(memory), "memory.limit=%" PRIu64, in->memory);
    if (in->memory && !json_at(root, "/memory/limit"))
        sets.item[sets.len++] = memory;
    err = run_config_parse(&env, body, len, in->data, &sets, &c, problems);
    if (err && err != ERR_INVAL)
        goto done;
    if (searcher)
        problems_add(problems, "/tuner/searcher",
                     json_at(root, "/tuner/searcher"), "%s", no_program);
    check_paths(in, root, problems);
    check_shares(in, root, problems);
    check_webhook(in, root, problems);
    check_folder(in, root, problems);
    problems_locate(problems, body, len);
    if (problems->no_memory)
        err = ERR_NOMEM;
    else if (problems->errors)
        err = ERR_INVAL;
done:
    json_decref(root);
    if (err)
        run_config_free(c);
    else
        *out = c;
    return err;
}

void intake_refuse(enum err err, const struct problems *problems,
                   struct response *out)
{
    struct response_faults faults = {0};

    assert(problems->errors);
    for (size_t i = 0; i < problems->len; i++) {
        const struct problem *p = &problems->item[i];
        char place[48] = "";

        if (p->warning)
            continue;
        if (p->place.line)
            snprintf(place, sizeof(place),
                     "line %u, column %u: ", p->place.line, p->place.column);
        response_fault_add(&faults, p->pointer, "%sexpected %.160s%s%.60s%s%s",
                           place, p->expected, p->found[0] ? ", found " : "",
                           p->found, p->hint[0] ? "; " : "", p->hint);
    }
    if (err == ERR_UNSUPPORTED)
        response_problem(out, 403, "programs_not_allowed", &faults,
                         "this service runs no programs of others "
                         "(mltune serve --allow-programs)");
    else
        response_problem(out, 422, "invalid_configuration", &faults,
                         "%zu part%s of the configuration %s not valid",
                         problems->errors, problems->errors == 1 ? "" : "s",
                         problems->errors == 1 ? "is" : "are");
}
