#include "cli/config/config_table.h"

#include "base/json/json.h"
#include "base/ring_bytes.h"
#include "cli/config/app_plugin.h"
#include "cli/config/config_examples.h"
#include "cli/config/program.h"
#include "searchers/space/space_json.h"
#include "tuner/board/step.h"
#include "tuner/shell/loop_io.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Order is that of help and schema. A default here is the contract's; what
 * depends on the machine or on what is built in is filled in by
 * cli/config/config.c and says so in its help. */
static const struct config_field fields[] = {
    {.path = "name",
     .type = CONFIG_STRING,
     .schema = "{\"minLength\": 1, \"maxLength\": 100}",
     .help = "what the run is called; the app's name unless given"},
    {.path = "app",
     .type = CONFIG_OBJECT,
     .required = true,
     .schema = "{\"additionalProperties\": true,"
               " \"properties\": {\"name\": {\"type\": \"string\"}}}",
     .help = "what trains: an application by name, with its settings (mltune "
             "apps), or a program of your own (command)"},
    {.path = "metric",
     .type = CONFIG_STRING,
     .schema = "{\"minLength\": 1, \"maxLength\": 32}",
     .help = "the validation metric that is tuned by; of classes accuracy, "
             "balanced_accuracy, macro_f1, log_loss, of two auc; of numbers "
             "rmse, mae, r2; the application's own unless given"},
    {.path = "cluster.launcher",
     .type = CONFIG_STRING,
     .fallback = "\"local\"",
     .choices = "local|ssh|slurm|mpi|kubernetes",
     .help = "how nodes are started: on this machine, on hosts by ssh, by "
             "srun inside an allocation of Slurm, by mpirun, which starts "
             "mltune on each, or in pods of Kubernetes (mltune deploy)"},
    {.path = "cluster.hosts",
     .type = CONFIG_ANY,
     .schema = "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": 64,"
               " \"items\": {\"type\": \"string\", \"minLength\": 1,"
               " \"maxLength\": 255}}",
     .help = "where ssh starts nodes, in turn: HOST or USER@HOST"},
    {.path = "cluster.command",
     .type = CONFIG_STRING,
     .schema = "{\"minLength\": 1, \"maxLength\": 255}",
     .help = "the program mltune on the hosts; what their PATH has unless "
             "given"},
    {.path = "cluster.address",
     .type = CONFIG_STRING,
     .schema = "{\"minLength\": 1, \"maxLength\": 255}",
     .help = "this machine's address for nodes on others, or address:port; the "
             "one on the way to the hosts, at any port, unless given"},
    {.path = "cluster.nodes",
     .type = CONFIG_INT,
     .fallback = "1",
     .min = 1,
     .max = KEEPER_NODES_MAX,
     .help = "processes that train, each with its part of the parameters; with "
             "ssh and slurm as many as hosts unless given, with mpi as many as "
             "mpirun has started, with kubernetes as many as the job has pods"},
    {.path = "cluster.workers",
     .type = CONFIG_INT,
     .min = 1,
     .max = 256,
     .help = "threads of each node; as many as cores unless given"},
    {.path = "cluster.ready_timeout",
     .type = CONFIG_DURATION,
     .min = 0.1,
     .max = 1e9,
     .help = "longest time that a node may load its data; 1h unless given. A "
             "program of your own has app.ready_timeout"},
    {.path = "ps.update_rule",
     .type = CONFIG_ANY,
     .schema = "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"object\","
               " \"title\": \"a rule of your own\","
               " \"additionalProperties\": false, \"required\": [\"plugin\"],"
               " \"properties\": {\"plugin\": {\"type\": \"string\","
               " \"minLength\": 1, \"maxLength\": 4000, \"description\":"
               " \"the shared object (mltune/rule.h), from the configuration's"
               " folder or in MLTUNE_PLUGIN_PATH\"}}}]}",
     .help = "how updates change parameters; what the application prefers "
             "(nn: adam for tables, sgd for images), else sgd. {\"plugin\": "
             "\"FILE.so\"} is a rule of your own"},
    {.path = "ps.consistency",
     .type = CONFIG_ANY,
     .fallback = "\"bsp\"",
     .schema =
         "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"object\","
         " \"title\": \"barrier with a rule\","
         " \"additionalProperties\": false, \"required\": [\"barrier\"],"
         " \"properties\": {\"barrier\": {\"type\": \"object\","
         " \"additionalProperties\": false, \"properties\": {"
         "\"k\": {\"type\": \"integer\", \"minimum\": 1,"
         " \"description\": \"so many workers must have come\"},"
         "\"fraction\": {\"type\": \"number\", \"minimum\": 0.000001,"
         " \"maximum\": 1,"
         " \"description\": \"this part of them must have come\"},"
         "\"slower_than\": {\"type\": \"number\", \"minimum\": 1,"
         " \"maximum\": 1000000, \"description\":"
         " \"workers that take more than so many times the median time for a"
         " clock do not count\"}}}}},"
         " {\"type\": \"object\", \"title\": \"a model of your own\","
         " \"additionalProperties\": false, \"required\": [\"plugin\"],"
         " \"properties\": {\"plugin\": {\"type\": \"string\","
         " \"minLength\": 1, \"maxLength\": 4000, \"description\":"
         " \"the shared object (mltune/model.h), from the configuration's"
         " folder or in MLTUNE_PLUGIN_PATH\"}}}]}",
     .help = "how old what a worker reads may be; {\"barrier\": {...}} says "
             "whom it waits for, {\"plugin\": \"FILE.so\"} is a model of your "
             "own"},
    {.path = "ps.float16",
     .type = CONFIG_BOOL,
     .fallback = "false",
     .help = "send 16-bit floats between nodes"},
    {.path = "ps.access",
     .type = CONFIG_STRING,
     .fallback = "\"gather\"",
     .choices = "off|gather|place",
     .help = "what several nodes do with the knowledge of which rows each "
             "worker touches; gather: what it reads in a clock is asked for at "
             "once; place: and rows lie where they are touched"},
    {.path = "ps.priority",
     .type = CONFIG_STRING,
     .fallback = "\"relative\"",
     .choices = "random|round_robin|absolute|relative",
     .help = "which rows leave early, within the budget bandwidth_mbps"},
    {.path = "ps.ring_bytes",
     .type = CONFIG_INT,
     .min = 0,
     .max = RING_BYTES_MAX,
     .unit = "bytes",
     .help =
         "memory that each two nodes of one machine share, a direction, and "
         "talk through, 65536 at least, by the number of nodes unless given; "
         "0: "
         "they talk through sockets"},
    {.path = "tunables",
     .type = CONFIG_ANY,
     .schema = "{\"anyOf\": [{\"type\": \"object\"}, {\"enum\": [\"auto\"]}]}",
     .help = "what is tuned, by name; unless given: learning rate, momentum, "
             "batch size and staleness, those that can act; auto: these, and "
             "update rule, weight decay, warm-up, clipping and label smoothing "
             "where they can act, each of the last four from off, or next to "
             "it, on; never k, bandwidth_mbps or dropout"},
    {.path = "tuner.strategy",
     .type = CONFIG_STRING,
     .help = "what to do with branches; mltuner unless given"},
    {.path = "tuner.searcher",
     .type = CONFIG_ANY,
     .schema =
         "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"object\","
         " \"properties\": {"
         "\"plugin\": {\"type\": \"string\", \"minLength\": 1,"
         " \"description\": \"a shared object (mltune/searcher.h)\"},"
         "\"command\": {\"type\": \"array\", \"minItems\": 1,"
         " \"maxItems\": 60, \"items\": {\"type\": \"string\"},"
         " \"description\": \"a program that speaks JSON lines\"},"
         "\"timeout\": {\"type\": [\"string\", \"number\"],"
         " \"format\": \"seconds\", \"minimum\": 0.001,"
         " \"maximum\": 86400,"
         " \"description\": \"longest an answer may take; 10s\"},"
         "\"fallback\": {\"enum\": [\"tpe\", \"gp\", \"random\", \"grid\","
         " \"marginal\"], \"description\": \"what goes on when it fails;"
         " tpe\"}}}]}",
     .help = "what proposes settings: one of mltune searchers, or a plug-in or "
             "program of your own; tpe unless given"},
    {.path = "tuner.retune",
     .type = CONFIG_BOOL,
     .fallback = "true",
     .help = "search again when progress stops"},
    {.path = "tuner.max_trials",
     .type = CONFIG_INT,
     .min = 1,
     .max = TUNER_TRIALS_MAX,
     .help =
         "settings tried in the first search; 12 + 6 a tunable unless given"},
    {.path = "tuner.trial_clocks",
     .type = CONFIG_INT,
     .min = 1,
     .max = 1e12,
     .unit = "clocks",
     .help = "fixes trial lengths, so that a run is reproducible"},
    {.path = "tuner.initial",
     .type = CONFIG_OBJECT,
     .help = "setting to start from instead of a first search"},
    {.path = "tuner.warm_start",
     .type = CONFIG_ANY,
     .fallback = "\"none\"",
     .schema = "{\"anyOf\": [{\"enum\": [\"none\", \"auto\"]},"
               " {\"type\": \"object\", \"required\": [\"runs\"],"
               " \"properties\": {\"runs\": {\"type\": \"array\","
               " \"items\": {\"type\": \"object\","
               " \"additionalProperties\": {}}},"
               " \"skipped\": {\"type\": \"array\","
               " \"items\": {\"type\": \"object\","
               " \"additionalProperties\": {}}}}}]}",
     .help = "auto: a first search begins with what earlier runs of the same "
             "app and data found, which a run keeps here"},
    {.path = "tuner.strategy_settings",
     .type = CONFIG_OBJECT,
     .help = "the strategy's own (mltune strategies)"},
    {.path = "tuner.searcher_settings",
     .type = CONFIG_OBJECT,
     .help = "the searcher's own (mltune searchers)"},
    {.path = "stop.target_loss",
     .type = CONFIG_NUMBER,
     .help = "end when an epoch's mean training loss is at most this"},
    {.path = "stop.target_metric",
     .type = CONFIG_NUMBER,
     .help = "end when the validation metric is at least this good"},
    {.path = "stop.plateau_epochs",
     .type = CONFIG_INT,
     .fallback = "5",
     .min = 1,
     .max = 1e6,
     .unit = "epochs",
     .help = "converged after so many without improvement"},
    {.path = "stop.plateau_samples",
     .type = CONFIG_INT,
     .min = 0,
     .max = 1e12,
     .unit = "samples",
     .help = "and not before so many without improvement, 20 epochs at most, "
             "unless the metric is a share of hits; 200000, or 0 where "
             "plateau_epochs is given"},
    {.path = "stop.plateau_hits",
     .type = CONFIG_BOOL,
     .help = "whether plateau_samples counts where the metric is a share of "
             "hits, too; true where the data of nn or mlr are a table, unless "
             "given"},
    {.path = "stop.max_epochs",
     .type = CONFIG_INT,
     .fallback = "100",
     .min = 1,
     .max = 1e9,
     .unit = "epochs",
     .help = "end after so many"},
    {.path = "stop.max_time",
     .type = CONFIG_DURATION,
     .min = 0.001,
     .max = 1e9,
     .help = "end after so long, loading and waiting counted in, pauses not"},
    {.path = "snapshot.every",
     .type = CONFIG_DURATION,
     .fallback = "\"5m\"",
     .min = 0.1,
     .max = 1e9,
     .help = "time between snapshots"},
    {.path = "snapshot.keep",
     .type = CONFIG_INT,
     .fallback = "2",
     .min = 1,
     .max = 1000,
     .help = "newest snapshots that stay"},
    {.path = "snapshot.trials",
     .type = CONFIG_STRING,
     .fallback = "\"keep\"",
     .choices = "keep|anew",
     .help = "trials of hyperband, asha and pbt that wait: in snapshots, a "
             "model each, so that a resumed search goes on; or left out where "
             "the disk is short, and it begins anew"},
    {.path = "journal.limit",
     .type = CONFIG_SIZE,
     .fallback = "\"64MiB\"",
     .min = 4 << 20,
     .max = 0x1p40,
     .help = "room for a run's records and checkpoints; what is old is folded"},
    {.path = "memory.limit",
     .type = CONFIG_SIZE,
     .min = 1 << 20,
     .max = 0x1p60,
     .help = "for all branches of a node; half of what is free unless given"},
    {.path = "memory.device_limit",
     .type = CONFIG_SIZE,
     .min = 1 << 16,
     .max = 0x1p60,
     .help = "of a GPU, for an application that computes there; what is free "
             "unless given"},
    {.path = "hooks.command",
     .type = CONFIG_ANY,
     .schema = "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": 60,"
               " \"items\": {\"type\": \"string\"}}",
     .help = "a program and its arguments, started at each event with JSON on "
             "its stdin; by PATH or from the configuration's folder"},
    {.path = "hooks.on",
     .type = CONFIG_ANY,
     .schema = "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": 3,"
               " \"items\": {\"enum\": [\"best\", \"failure\", \"end\"]}}",
     .help = "events that are told; all unless given"},
    {.path = "hooks.private",
     .type = CONFIG_BOOL,
     .help = "the url may lead to an address that is not public; false unless "
             "given"},
    {.path = "hooks.secret",
     .type = CONFIG_STRING,
     .schema = "{\"minLength\": 1, \"maxLength\": 1000}",
     .help = "file of the secret that events are signed with, which nobody "
             "else may read; from the configuration's folder"},
    {.path = "hooks.timeout",
     .type = CONFIG_DURATION,
     .min = 0.1,
     .max = 3600,
     .help = "longest time that the program may take, or that an event is sent "
             "again; 30s unless given"},
    {.path = "hooks.url",
     .type = CONFIG_STRING,
     .schema = "{\"minLength\": 1, \"maxLength\": 511}",
     .help = "https://HOST/PATH that each event is sent to, signed"},
    {.path = "api.listen",
     .type = CONFIG_STRING,
     .help =
         "address and port of the HTTP interface; any free port on loopback "
         "unless given; others than loopback need api.tls"},
    {.path = "api.read",
     .type = CONFIG_STRING,
     .choices = "everyone|user|token",
     .fallback = "\"user\"",
     .help = "who may read on loopback without the token: all accounts of the "
             "machine, this user's processes, or nobody"},
    {.path = "api.tls.cert",
     .type = CONFIG_STRING,
     .help = "file of the HTTP interface's certificate and its chain (PEM)"},
    {.path = "api.tls.key",
     .type = CONFIG_STRING,
     .help = "file of its key (PEM), which nobody else may read"},
    {.path = "tensorboard",
     .type = CONFIG_ANY,
     .schema = "{\"anyOf\": [{\"type\": \"boolean\"}, {\"type\": \"string\","
               " \"minLength\": 1, \"maxLength\": 1000}]}",
     .help =
         "folder that gets TensorBoard's event files of the run, in a "
         "folder of its name, while it goes on; true: the run's own folder"},
    {.path = "seed",
     .type = CONFIG_INT,
     .fallback = "1",
     .min = 0,
     .max = 9007199254740992.0,
     .help = "of everything random"},
};

const struct config_field *config_table(size_t *n)
{
    *n = sizeof(fields) / sizeof(*fields);
    return fields;
}

/* ---- schemas of entries -------------------------------------------------- */

/* Adds @name to the schema's "required" unless it is there. */
static int require(json_t *schema, const char *name)
{
    json_t *list = json_object_get(schema, "required"), *one;
    size_t i;

    if (!list) {
        list = json_array();
        if (json_object_set_new(schema, "required", list) != 0)
            return -1;
    }
    json_array_foreach(list, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return 0;
    }
    return json_array_append_new(list, json_string(name));
}

static int name_entry(json_t *schema, const struct registry_entry *e)
{
    json_t *properties = json_object_get(schema, "properties");
    json_t *name = json_object();

    if (json_object_set_new(name, "const", json_string(e->name)) != 0) {
        json_decref(name);
        return -1;
    }
    if (json_object_set_new(properties, "name", name) != 0)
        return -1;
    return require(schema, "name");
}

enum err config_entry_schema(const struct registry_entry *e, json_t **out,
                             struct fault *f)
{
    const char *text = e->settings ? e->settings : "{}";
    json_t *schema;
    enum err err = json_load(text, strlen(text), &schema, NULL, f);
    int failed = 0;

    assert(e->name);
    assert(out);
    if (err)
        return err;
    failed |= json_object_set_new(schema, "type", json_string("object"));
    if (!json_object_get(schema, "properties"))
        failed |= json_object_set_new(schema, "properties", json_object());
    if (!json_object_get(schema, "additionalProperties"))
        failed |=
            json_object_set_new(schema, "additionalProperties", json_false());
    if (!failed && e->kind == REGISTRY_APP && !e->hidden)
        failed |= name_entry(schema, e);
    if (failed) {
        json_decref(schema);
        return ERR_NOMEM;
    }
    *out = schema;
    return ERR_OK;
}

/* ---- the whole schema ---------------------------------------------------- */

/* Names of @kind as a JSON array; NULL when out of memory. */
static json_t *name_list(const struct registry *r, enum registry_kind kind)
{
    const struct registry_entry *e;
    json_t *list = json_array();

    for (size_t i = 0; list && (e = registry_at(r, kind, i)); i++)
        if (json_array_append_new(list, json_string(e->name)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static enum err set_names(json_t *schema, const char *pointer,
                          const struct registry *r, enum registry_kind kind)
{
    json_t *at = json_at(schema, pointer);

    return json_object_set_new(at, "enum", name_list(r, kind)) ? ERR_NOMEM
                                                               : ERR_OK;
}

static enum err append_app(json_t *list, const struct registry_entry *e,
                           struct fault *f)
{
    json_t *own;
    enum err err = config_entry_schema(e, &own, f);

    if (err)
        return err;
    if (json_object_set_new(own, "title", json_string(e->name)) != 0 ||
        json_object_set_new(own, "description", json_string(e->summary)) != 0) {
        json_decref(own);
        return ERR_NOMEM;
    }
    return json_array_append_new(list, own) != 0 ? ERR_NOMEM : ERR_OK;
}

/* "app" becomes one of the apps, each with its settings, or a program. */
static enum err set_apps(json_t *schema, const struct registry *r,
                         struct fault *f)
{
    static const char *const own[] = {PROGRAM_ENTRY, APP_PLUGIN_ENTRY};
    const struct registry_entry *e;
    json_t *list = json_array(), *app = json_at(schema, "/properties/app");
    enum err err = list ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && (e = registry_at(r, REGISTRY_APP, i)); i++)
        err = append_app(list, e, f);
    for (size_t i = 0; !err && i < sizeof(own) / sizeof(*own); i++) {
        e = registry_find(r, REGISTRY_APP, own[i]);
        if (e && json_array_size(list) > 0)
            err = append_app(list, e, f);
    }
    if (err || json_array_size(list) == 0) {
        json_decref(list);
        return err;
    }
    return json_object_set_new(app, "oneOf", list) ? ERR_NOMEM : ERR_OK;
}

/* {"if": {tuner.KEY is e}, "then": {tuner.KEY_settings: its schema}}. */
static enum err append_rule(json_t *rules, const struct registry_entry *e,
                            const char *key, struct fault *f)
{
    char settings[64];
    json_t *own, *rule;
    enum err err = config_entry_schema(e, &own, f);

    if (err)
        return err;
    snprintf(settings, sizeof(settings), "%s_settings", key);
    rule = json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:{s:o}}}", "if",
                     "properties", key, "const", e->name, "required", key,
                     "then", "properties", settings, own);
    return json_array_append_new(rules, rule) ? ERR_NOMEM : ERR_OK;
}

static enum err set_tuner_settings(json_t *schema, const struct registry *r,
                                   struct fault *f)
{
    json_t *tuner = json_at(schema, "/properties/tuner"), *rules = json_array();
    const struct registry_entry *e;
    enum err err = rules ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && (e = registry_at(r, REGISTRY_STRATEGY, i)); i++)
        err = append_rule(rules, e, "strategy", f);
    for (size_t i = 0; !err && (e = registry_at(r, REGISTRY_SEARCHER, i)); i++)
        err = append_rule(rules, e, "searcher", f);
    if (err || json_array_size(rules) == 0) {
        json_decref(rules);
        return err;
    }
    return json_object_set_new(tuner, "allOf", rules) ? ERR_NOMEM : ERR_OK;
}

static enum err set_tunables(json_t *schema, struct fault *f)
{
    const char *text = space_json_schema();
    json_t *at = json_at(schema, "/properties/tunables/anyOf/0"), *own;
    enum err err = json_load(text, strlen(text), &own, NULL, f);

    if (err)
        return err;
    return json_object_set_new(at, "additionalProperties", own) ? ERR_NOMEM
                                                                : ERR_OK;
}

static enum err set_head(json_t *schema)
{
    int failed = 0;

    failed |= json_object_set_new(
        schema, "$schema",
        json_string("https://json-schema.org/draft/2020-12/schema"));
    failed |= json_object_set_new(schema, "title",
                                  json_string("mltune run configuration"));
    return failed ? ERR_NOMEM : ERR_OK;
}

enum err config_full_schema(const struct registry *r, json_t **out,
                            struct fault *f)
{
    json_t *s;
    enum err err =
        config_schema(fields, sizeof(fields) / sizeof(*fields), &s, f);

    assert(r);
    assert(out);
    if (err)
        return err;
    err = set_head(s);
    if (!err)
        err = config_examples_set(s);
    if (!err)
        err = set_apps(s, r, f);
    if (!err)
        err = set_tunables(s, f);
    if (!err)
        err = set_tuner_settings(s, r, f);
    if (!err)
        err = set_names(s, "/properties/ps/properties/update_rule/anyOf/0", r,
                        REGISTRY_RULE);
    if (!err)
        err = set_names(s, "/properties/ps/properties/consistency/anyOf/0", r,
                        REGISTRY_CONSISTENCY);
    if (!err)
        err = set_names(s, "/properties/tuner/properties/strategy", r,
                        REGISTRY_STRATEGY);
    if (!err)
        err = set_names(s, "/properties/tuner/properties/searcher/anyOf/0", r,
                        REGISTRY_SEARCHER);
    if (err)
        json_decref(s);
    else
        *out = s;
    return err;
}
