#include "cli/config/config.h"

#include "api/http/listen.h"
#include "base/json/json.h"
#include "base/json/schema.h"
#include "base/mem.h"
#include "base/ring_bytes.h"
#include "cli/config/app_plugin.h"
#include "cli/config/config_internal.h"
#include "cli/config/config_table.h"
#include "cli/config/config_tunables.h"
#include "cli/config/program.h"
#include "cli/remote/webhook.h"
#include "searchers/space/space_json.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- defaults that a table cannot hold ----------------------------------- */

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

enum err config_put_absent(struct config_parse *p, const char *pointer,
                           json_t *value)
{
    enum err err;

    if (json_at(p->root, pointer)) {
        json_decref(value);
        return ERR_OK;
    }
    err = json_put(p->root, pointer, value);
    return err == ERR_NOMEM ? err : ERR_OK;
}

/* Default of plateau_samples: 20 epochs of 10,000 rows, five of 40,000. */
enum { PLATEAU_SAMPLES = 200000 };

static enum err complete(struct config_parse *p)
{
    static const char *const strategies[] = {"mltuner"};
    static const char *const searchers[] = {"tpe", "random"};
    const struct registry *r = p->env->registry;
    bool patient = !json_at(p->root, "/stop/plateau_epochs");
    enum err err = config_cluster_nodes(p);

    if (!err)
        err = schema_complete(p->schema, p->root);
    if (!err)
        err = config_put_absent(p, "/cluster/workers",
                                json_integer(p->env->cores));
    if (!err)
        err = config_put_absent(
            p, "/tuner/strategy",
            json_string(first_built_in(r, REGISTRY_STRATEGY, strategies, 1)));
    if (!err)
        err = config_put_absent(
            p, "/tuner/searcher",
            json_string(first_built_in(r, REGISTRY_SEARCHER, searchers, 2)));
    if (!err)
        err = config_put_absent(p, "/stop/plateau_samples",
                                json_integer(patient ? PLATEAU_SAMPLES : 0));
    if (!err)
        err = config_put_absent(p, "/tuner/strategy_settings", json_object());
    if (!err)
        err = config_put_absent(p, "/tuner/searcher_settings", json_object());
    return err;
}

/* ---- fields -------------------------------------------------------------- */

static double number_at(const struct config_parse *p, const char *pointer,
                        double fallback)
{
    const json_t *value = json_at(p->root, pointer);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* A whole number that the schema has bounded, or @fallback. */
static uint64_t count_at(const struct config_parse *p, const char *pointer,
                         uint64_t fallback)
{
    double x = number_at(p, pointer, -1);

    return x >= 0 && x <= 0x1p53 ? (uint64_t)x : fallback;
}

static double seconds_at(const struct config_parse *p, const char *pointer,
                         double fallback)
{
    double s;

    return json_to_seconds(json_at(p->root, pointer), &s) ? s : fallback;
}

/* Address of the HTTP interface; its files are looked at when it starts. */
static void read_api(struct config_parse *p)
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

static void read_url(struct config_parse *p, const char *url)
{
    struct webhook_place place;

    if (webhook_split(url, &place, NULL) != ERR_OK)
        problems_add(p->problems, "/hooks/url", json_at(p->root, "/hooks/url"),
                     "an address such as https://HOST[:PORT]/PATH");
    if (!json_at(p->root, "/hooks/secret"))
        problems_add(p->problems, "/hooks/secret", NULL,
                     "the file of a secret, by which the server knows who "
                     "sends");
}

/* What cannot be started or read keeps no run from going on. */
static void read_hooks(struct config_parse *p)
{
    const json_t *words = json_at(p->root, "/hooks/command");
    const char *name = json_string_value(json_array_get(words, 0));
    const char *url = json_string_value(json_at(p->root, "/hooks/url"));
    char path[PATH_MAX];

    if (name && !program_find(p->c->folder, name, path))
        problems_warn(p->problems, "/hooks/command",
                      "there is no program %.200s: the hook would not be "
                      "started",
                      name);
    if (url)
        read_url(p, url);
    if (!words && !url && json_at(p->root, "/hooks"))
        problems_warn(p->problems, "/hooks",
                      "has no command and no url: nobody will be told");
}

/* A program keeps its own state, and our parameter server none for it, unless
 * it is a node of ours (mlt_node_run): who sets something may know that. */
static void forget_ps(struct config_parse *p)
{
    if (!config_is_program(p->c))
        return;
    if (json_at(p->root, "/cluster/ready_timeout"))
        problems_warn(p->problems, "/cluster/ready_timeout",
                      "has no meaning for a program, which has "
                      "app.ready_timeout");
    if (p->ps_given) {
        problems_warn(p->problems, "/ps",
                      "has no meaning for a program, unless it calls "
                      "mlt_node_run");
        return;
    }
    p->c->priority = "relative";
    json_object_del(p->root, "ps");
}

static void check_rings(struct config_parse *p)
{
    uint64_t bytes = count_at(p, "/ps/ring_bytes", 0);

    if (bytes > 0 && bytes < RING_BYTES_MIN)
        problems_add(p->problems, "/ps/ring_bytes",
                     json_at(p->root, "/ps/ring_bytes"),
                     "0 for none, or 65536 at least");
}

static void read_text(struct config_parse *p)
{
    const json_t *name = json_at(p->root, "/name");
    struct run_config *c = p->c;

    c->metric = json_string_value(json_at(p->root, "/metric"));
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
    check_rings(p);
    c->float16 = json_is_true(json_at(p->root, "/ps/float16"));
    if (c->float16 && c->nodes == 1)
        problems_warn(p->problems, "/ps/float16",
                      "acts between nodes only; there is one");
}

static void read_numbers(struct config_parse *p)
{
    struct run_config *c = p->c;
    const json_t *retune = json_at(p->root, "/tuner/retune");
    const char *trials =
        json_string_value(json_at(p->root, "/snapshot/trials"));
    uint64_t bytes;

    c->nodes = (unsigned)count_at(p, "/cluster/nodes", 1);
    c->workers = (unsigned)count_at(p, "/cluster/workers", 1);
    c->retune = !json_is_false(retune);
    c->max_trials = (uint32_t)count_at(p, "/tuner/max_trials", 0);
    c->trial_clocks = count_at(p, "/tuner/trial_clocks", 0);
    c->target_loss = number_at(p, "/stop/target_loss", NAN);
    c->target_metric = number_at(p, "/stop/target_metric", NAN);
    c->plateau_epochs = (uint32_t)count_at(p, "/stop/plateau_epochs", 5);
    c->plateau_samples = count_at(p, "/stop/plateau_samples", 0);
    c->plateau_hits = json_is_true(json_at(p->root, "/stop/plateau_hits"));
    c->max_epochs = (uint32_t)count_at(p, "/stop/max_epochs", 100);
    c->max_time_s = seconds_at(p, "/stop/max_time", INFINITY);
    c->snapshot_every_s = seconds_at(p, "/snapshot/every", 300);
    c->snapshot_keep = (uint32_t)count_at(p, "/snapshot/keep", 2);
    c->snapshot_trials = !trials || strcmp(trials, "anew") != 0;
    c->journal_limit = json_to_bytes(json_at(p->root, "/journal/limit"), &bytes)
                           ? bytes
                           : 64 << 20;
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

static enum err read_initial(struct config_parse *p)
{
    const json_t *initial = json_at(p->root, "/tuner/initial");
    struct run_config *c = p->c;
    enum err err;

    if (!json_is_object(initial))
        return ERR_OK;
    err = setting_from_json(&c->space, initial, "/tuner/initial", &c->initial,
                            p->problems);
    if (err)
        return err;
    c->starts_given = true;
    return json_put(p->root, "/tuner/initial",
                    setting_to_json(&c->space, &c->initial));
}

/* Whether this app trains as a loop: its setting `parallel` says so. */
static bool is_loop(const struct run_config *c)
{
    const char *s =
        json_string_value(json_object_get(c->app_settings, "parallel"));

    return s && strcmp(s, "loop") == 0;
}

static enum err read_tunables(struct config_parse *p)
{
    struct run_config *c = p->c;
    const struct tunables_context context = {
        .app = c->app,
        .settings = c->app_settings,
        .update_rule = c->update_rule,
        .consistency = c->consistency,
        .nodes = c->nodes > 0 ? c->nodes : 1,
        .workers = c->nodes * c->workers > 0 ? c->nodes * c->workers : 1,
        .batch_clocks = has_batch_clocks(c),
        .is_loop = is_loop(c),
        .program = config_is_program(c),
        .all = p->all_tunables,
        .known = config_schemas_tunables(p->env->schemas)};
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

/* ---- the whole ----------------------------------------------------------- */

/* Whether it may be meant as an object or a list. */
static bool begins_as_json(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len && strchr(" \t\r\n", text[at]))
        at++;
    return at == len || text[at] == '{' || text[at] == '[';
}

/* What the parser says, "'}' expected near '"data"'", in plain words. */
static const char *plain_words(const char *said, char out[PROBLEM_TEXT_MAX])
{
    static const char middle[] = " expected near '";
    static const struct {
        const char *said, *plain;
    } wanted[] = {{"'}'", "a comma or }"},
                  {"']'", "a comma or ]"},
                  {"':'", "a colon"},
                  {"string or '}'", "a name in double quotes or }"},
                  {"string", "a name in double quotes"},
                  {"end of file", "the end"}};
    const char *at = strstr(said, middle);
    size_t n = at ? (size_t)(at - said) : 0;
    const char *near = at ? at + sizeof(middle) - 1 : "";

    for (size_t i = 0; n > 0 && i < sizeof(wanted) / sizeof(*wanted); i++)
        if (strlen(wanted[i].said) == n &&
            strncmp(said, wanted[i].said, n) == 0) {
            snprintf(out, PROBLEM_TEXT_MAX, "%.*s where %s belongs",
                     (int)(strlen(near) > 0 ? strlen(near) - 1 : 0), near,
                     wanted[i].plain);
            return out;
        }
    return said;
}

static enum err load_text(struct config_parse *p, const char *text, size_t len)
{
    struct json_place place;
    struct problem *problem;
    struct fault f = {0};
    enum err err = json_load(text, len, &p->root, &place, &f);
    const char *reason = strstr(f.text, ": ");
    char said[PROBLEM_TEXT_MAX];

    if (err != ERR_FORMAT && err != ERR_LIMIT)
        return err;
    problem = problems_add(p->problems, "", NULL, "valid JSON");
    if (!problem)
        return ERR_NOMEM;
    problem->place = place;
    if (err == ERR_LIMIT)
        snprintf(problem->found, sizeof(problem->found),
                 "%zu bytes, of which %d may be: is this the configuration, "
                 "or the data, which app.data names?",
                 len, JSON_TEXT_MAX);
    else if (!begins_as_json(text, len))
        snprintf(problem->found, sizeof(problem->found),
                 "something else: is this the configuration, or the data, "
                 "which app.data names?");
    else
        snprintf(problem->found, sizeof(problem->found), "%.200s",
                 plain_words(reason ? reason + 2 : f.text, said));
    return ERR_INVAL;
}

/* "auto" lists nothing; what that comes to is in the run's own configuration.
 */
static void take_auto(struct config_parse *p)
{
    const json_t *tunables = json_object_get(p->root, "tunables");

    if (json_is_string(tunables) &&
        strcmp(json_string_value(tunables), "auto") == 0) {
        p->all_tunables = true;
        json_object_del(p->root, "tunables");
    }
}

/* They are a service's: no run decides on others. */
static void point_to_service(struct config_parse *p)
{
    for (size_t i = 0; i < p->problems->len; i++)
        if (strcmp(p->problems->item[i].pointer, "/runs") == 0)
            snprintf(p->problems->item[i].hint,
                     sizeof(p->problems->item[i].hint),
                     "runs.keep is a service's, in its state folder's "
                     "service.json");
}

static enum err parse_all(struct config_parse *p,
                          const struct option_list *sets)
{
    enum err err = ERR_OK;

    for (size_t i = 0; sets && i < sets->len && !err; i++)
        err = config_set(p, sets->item[i]);
    if (!err)
        err = config_schemas_table(p->env->schemas, &p->schema);
    if (err)
        return err;
    schema_check(p->schema, p->root, "", p->problems);
    point_to_service(p);
    if (!json_is_object(p->root))
        return ERR_OK;
    p->c->given = json_copied(p->root);
    if (!p->c->given)
        return ERR_NOMEM;
    take_auto(p);
    p->searcher_given = json_at(p->root, "/tuner/searcher") != NULL;
    p->ps_given = json_at(p->root, "/ps") != NULL;
    err = complete(p);
    if (!err)
        err = config_names(p);
    if (!err && p->c->app_name)
        err = config_put_absent(p, "/name", json_string(p->c->app_name));
    if (err)
        return err;
    read_numbers(p);
    config_data(p);
    read_api(p);
    read_hooks(p);
    read_text(p);
    config_cluster(p);
    forget_ps(p);
    err = read_tunables(p);
    if (!err)
        err = config_warm(p);
    if (!err)
        err = config_try_searcher(p);
    if (!err && problems_errors(p->problems) == 0) /* else nobody sees it */
        err = schema_order(p->schema, p->root);
    return err;
}

/* Invariants of a configuration without errors. */
static void check_whole(const struct run_config *c)
{
    assert(c->app && c->app_settings && c->app_name);
    assert(c->update_rule && c->consistency);
    assert(c->strategy && c->strategy_settings);
    assert(c->searcher && c->searcher_settings);
    assert(c->nodes >= 1 && c->workers >= 1);
    assert(c->max_epochs >= 1 && c->plateau_epochs >= 1);
    assert(c->max_time_s > 0 && c->snapshot_every_s > 0);
    assert(c->snapshot_keep >= 1);
    assert(c->name && c->listen && c->priority);
    assert(space_dims(&c->space) <= space_len(&c->space));
}

void run_config_free(struct run_config *c)
{
    if (!c)
        return;
    json_decref(c->effective);
    json_decref(c->given);
    json_decref(c->searcher_own);
    mem_free((char *)c->folder);
    mem_free(c->program_path);
    mem_free(c->program_folder);
    mem_free(c->earlier);
    app_plugin_free(c->plugin);
    app_plugin_free(c->model);
    app_plugin_free(c->rule);
    mem_free(c);
}

static struct run_config *config_new(void)
{
    struct run_config *c = mem_alloc(sizeof(*c));

    if (c)
        memset(c, 0, offsetof(struct run_config, space.tunable));
    return c;
}

enum err run_config_parse(const struct config_env *env, const char *text,
                          size_t len, const char *folder,
                          const struct option_list *sets,
                          struct run_config **out, struct problems *problems)
{
    struct config_parse p = {.env = env, .problems = problems};
    enum err err;

    assert(env->registry && text);
    assert(*folder == '/');
    assert(env->cores >= 1);
    p.c = config_new();
    if (!p.c)
        return ERR_NOMEM;
    p.c->folder = mem_strdup(folder);
    err = p.c->folder ? load_text(&p, text, len) : ERR_NOMEM;
    if (!err)
        err = parse_all(&p, sets);
    if (problems_no_memory(problems))
        err = ERR_NOMEM;
    else if (!err && problems_errors(problems) > 0)
        err = ERR_INVAL;
    config_mark_sets(sets, problems);
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
