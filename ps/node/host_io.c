#include "ps/node/host_io.h"

#include "base/deadlines.h"
#include "base/host/machine_io.h"
#include "base/json/json.h"
#include "base/json/problems.h"
#include "base/json/schema.h"
#include "base/mem.h"
#include "ps/disk/model_io.h"
#include "ps/node/app_plugin_io.h"
#include "ps/node/host_internal_io.h"
#include "ps/node/model_plugin_io.h"
#include "ps/node/rule_plugin_io.h"
#include "ps/rows/consistency.h"
#include "ps/rows/rule.h"
#include "ps/server/shape.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* For the other nodes to load their data: the tuner sees sooner that one is
 * gone. */
#define MEET_S (DEADLINE_NODES_MEET_MS * 1e-3)

enum { CURSOR_VALUES = sizeof(struct cursor) / sizeof(double) };

enum err host_take_error(int code, const struct mlt_error *e, const char *what,
                         struct fault *f)
{
    enum err err = code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP;

    assert(code != ERR_OK);
    if (e->text[0])
        return fault_set(f, err, "%s", e->text);
    return fault_set(f, err, "%s: %s", what, err_text(err));
}

/* The application's settings as the configuration has them: of a program of the
 * user's own `settings` of "app", else "app" itself but for what says where it
 * is, unless the schema asks for that. Owned by the caller; NULL: none. */
static json_t *own_settings(const json_t *config, const json_t *schema)
{
    static const char *const where[] = {"name", "plugin"};
    const json_t *app = json_object_get(config, "app");
    const json_t *properties = json_object_get(schema, "properties");
    json_t *own;

    if (json_object_get(app, "command"))
        return json_copied(json_object_get(app, "settings"));
    own = json_copied(app);
    for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++)
        if (properties && !json_object_get(properties, where[i]))
            json_object_del(own, where[i]);
    return own;
}

/* The application's settings, completed by the defaults of its schema, as text
 * owned by the caller. */
static enum err app_settings(const struct mlt_app_ops *app,
                             const json_t *config, char **out, struct fault *f)
{
    bool program = json_at(config, "/app/command") != NULL;
    const char *pointer = program ? "/app/settings" : "/app";
    struct problems problems = {0};
    json_t *schema = NULL, *settings = NULL;
    char line[FAULT_TEXT_MAX];
    enum err err =
        json_load(app->schema, strlen(app->schema), &schema, NULL, f);

    if (!err && !json_at(config, pointer))
        err = fault_set(f, ERR_INVAL, "%s: expected the settings of %s",
                        pointer, app->name);
    if (!err && !(settings = own_settings(config, schema)))
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!err) {
        schema_check(schema, settings, pointer, &problems);
        if (problems.errors)
            err = fault_set(
                f, ERR_INVAL, "%s",
                problem_text(&problems.item[0], NULL, line, sizeof(line)));
        else if (problems.no_memory || schema_complete(schema, settings) ||
                 !(*out = json_write(settings, 0)))
            err = fault_set(f, ERR_NOMEM, "settings: %s", err_text(ERR_NOMEM));
    }
    problems_deinit(&problems);
    json_decref(schema);
    json_decref(settings);
    return err;
}

/* Part of the configured limit that is this node's; 0: none is configured. */
static enum err memory_part(const json_t *config, unsigned nodes, uint64_t *out,
                            struct fault *f)
{
    const json_t *limit = json_at(config, "/memory/limit");
    uint64_t bytes = 0;

    assert(nodes > 0);
    if (limit && !json_is_null(limit) && !json_to_bytes(limit, &bytes))
        return fault_set(f, ERR_INVAL, "/memory/limit: expected a size");
    *out = (bytes + nodes - 1) / nodes;
    return ERR_OK;
}

/* What the data leave for the parameter server of the part @bytes; 0:
 * unlimited, the parameter server then sees itself what the machine has left.
 */
static enum err memory_left(uint64_t bytes, uint64_t data_bytes, uint64_t *out,
                            struct fault *f)
{
    if (bytes && bytes <= data_bytes)
        return fault_set(f, ERR_LIMIT,
                         "memory.limit of %.1f MiB is too small: the data "
                         "alone take %.1f MiB",
                         (double)bytes / 1048576, (double)data_bytes / 1048576);
    *out = bytes ? bytes - data_bytes : 0;
    return ERR_OK;
}

/* As mlt_ps_options has it. */
static int64_t ring_bytes(const json_t *config)
{
    const json_t *value = json_at(config, "/ps/ring_bytes");
    int64_t bytes = json_is_integer(value) ? json_integer_value(value) : 0;

    return bytes > 0 || !json_is_integer(value) ? bytes : -1;
}

static const char *text_at(const json_t *config, const char *pointer,
                           const char *fallback)
{
    const char *s = json_string_value(json_at(config, pointer));

    return s ? s : fallback;
}

/* 0: what the device has. */
static uint64_t device_limit(const json_t *config)
{
    const json_t *limit = json_at(config, "/memory/device_limit");
    uint64_t bytes = 0;

    return limit && json_to_bytes(limit, &bytes) ? bytes : 0;
}

static uint64_t hold_slice(void *arg)
{
    struct host *h = arg;

    return slice_hold(h->slice);
}

static void release_slice(void *arg, uint64_t clocks)
{
    struct host *h = arg;

    slice_release(h->slice, clocks);
}

/* The model's name, or an object with the rule of a barrier, as the text that
 * options have. */
static enum err read_consistency(const json_t *config,
                                 char out[CONSISTENCY_TEXT_MAX],
                                 const struct consistency_ops **model,
                                 struct fault *f)
{
    const json_t *rule = json_at(config, "/ps/consistency/barrier");
    bool plugin = json_at(config, "/ps/consistency/plugin");
    struct barrier_rule r = {
        .k = (unsigned)json_number_value(json_object_get(rule, "k")),
        .fraction = json_number_value(json_object_get(rule, "fraction")),
        .slower_than = json_number_value(json_object_get(rule, "slower_than"))};

    if (rule)
        consistency_text(&r, out);
    else
        snprintf(out, CONSISTENCY_TEXT_MAX, "%s",
                 plugin ? "async" /* until it is set */
                        : text_at(config, "/ps/consistency", "bsp"));
    return consistency_parse(out, model, &r, f);
}

/* A model from a shared object in the place of the one that options name. */
static enum err set_model(struct host *h, const json_t *config, struct fault *f)
{
    const char *path = text_at(config, "/ps/consistency/plugin", NULL);
    const struct mlt_model_ops *ops;
    struct mlt_error e = {0};
    enum err err;
    int code;

    if (!path)
        return ERR_OK;
    err = model_plugin_open(path, &ops, f);
    if (err)
        return err;
    code = mlt_ps_set_model(h->ps, ops, NULL, &e);
    if (code)
        return host_take_error(code, &e, "consistency model", f);
    h->uses_staleness = ops->uses & MLT_MODEL_STALENESS;
    h->uses_barrier_k = ops->uses & MLT_MODEL_K;
    return ERR_OK;
}

/* An update rule from a shared object, for all tables that name none. */
static enum err set_rule(struct host *h, const json_t *config, struct fault *f)
{
    const char *path = text_at(config, "/ps/update_rule/plugin", NULL);
    const struct mlt_rule_ops *ops;
    struct mlt_error e = {0};
    enum err err;
    int code;

    if (!path)
        return ERR_OK;
    err = rule_plugin_open(path, &ops, f);
    if (err)
        return err;
    code = mlt_ps_add_rule(h->ps, ops, NULL, &e);
    if (!code)
        code = mlt_ps_default_rule(h->ps, ops->name, &e);
    return code ? host_take_error(code, &e, "update rule", f) : ERR_OK;
}

/* Whether all that the tunable may have are rules; a program's own tunable of
 * that name may mean something else. */
static bool are_rules(const json_t *tunable)
{
    const json_t *fixed = json_object_get(tunable, "fixed");
    const json_t *values = json_object_get(tunable, "values");
    size_t n = fixed ? 1 : json_array_size(values);
    uint32_t number;

    for (size_t i = 0; i < n; i++) {
        const json_t *one = fixed ? fixed : json_array_get(values, i);
        const char *name = json_string_value(one);

        if (!name || rule_choice(name, &number, NULL))
            return false;
    }
    return n > 0;
}

/* The rule of tables that name none. Where the tunable update_rule is searched,
 * each branch has its own; where it is pinned, the run has that one, and no
 * room for others. */
static const char *rule_of_run(const struct host *h, const json_t *config)
{
    const char *name = text_at(config, "/ps/update_rule", "sgd");
    const json_t *tunable = json_at(config, "/tunables/update_rule");
    const char *fixed = json_string_value(json_object_get(tunable, "fixed"));
    const char *const *own = h->facts.app->tunables;
    uint32_t number;

    while (own && *own && strcmp(*own, "update_rule") != 0)
        own++;
    if (!own || !*own || !are_rules(tunable) ||
        rule_choice(name, &number, NULL))
        return name;
    return fixed ? fixed : RULE_ANY;
}

static enum err new_ps(struct host *h, const struct host_config *c,
                       uint64_t memory, struct fault *f)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    const struct consistency_ops *model;
    char consistency[CONSISTENCY_TEXT_MAX];
    struct mlt_error e = {0};
    int code;

    assert(h->nodes > 0);
    opt.workers = h->workers;
    opt.memory_limit = memory;
    if (read_consistency(c->config, consistency, &model, f))
        return f->code;
    opt.consistency = consistency;
    opt.update_rule = rule_of_run(h, c->config);
    opt.learning_rate = h->facts.defaults.learning_rate;
    opt.momentum = h->facts.defaults.momentum;
    opt.weight_decay = h->facts.defaults.weight_decay;
    opt.staleness = h->facts.defaults.staleness;
    opt.seed = c->seed;
    opt.nodes = h->nodes;
    opt.node = h->nodes > 1 ? c->node : 0;
    opt.meet = c->meet;
    opt.listen = c->listen;
    opt.meet_s = MEET_S;
    opt.float16 = json_is_true(json_at(c->config, "/ps/float16"));
    opt.bandwidth_mbps = h->facts.defaults.bandwidth_mbps;
    opt.priority = text_at(c->config, "/ps/priority", "relative");
    opt.access = text_at(c->config, "/ps/access", "gather");
    opt.ring_bytes = ring_bytes(c->config);
    code = mlt_ps_new(&opt, &h->ps, &e);
    if (code)
        return host_take_error(code, &e, "parameter server", f);
    h->barrier = h->workers * h->nodes == 1 || model->barrier;
    h->uses_staleness = model->uses_staleness;
    h->uses_barrier_k = model->uses_barrier_k;
    if (h->facts.defaults.rule && ps_set_rule(h->ps, h->facts.defaults.rule))
        return fault_set(f, ERR_INVAL, "update_rule: cannot be chosen");
    ps_set_device_memory(h->ps, device_limit(c->config));
    ps_set_cut(h->ps, &(struct ps_cut){hold_slice, release_slice, h});
    if (set_rule(h, c->config, f))
        return f->code;
    return set_model(h, c->config, f);
}

static enum err declare(struct host *h, struct fault *f)
{
    const struct mlt_table_options cursor = {
        .size = sizeof(cursor),
        .name = HOST_CURSOR_TABLE,
        .rows = 1,
        .width = CURSOR_VALUES,
        .type = MLT_F64,
        .access = MLT_LOCAL,
        .flags = MLT_NOT_SAVED | MLT_ALIKE,
        .chunk_bytes = sizeof(struct cursor),
    };
    struct mlt_error e = {0};
    int code = h->facts.app->declare(h->app, h->ps, &e);

    if (code)
        return host_take_error(code, &e, "declaring tables", f);
    code = mlt_ps_table(h->ps, &cursor, &h->cursor, &e);
    return code ? host_take_error(code, &e, "declaring tables", f) : ERR_OK;
}

static enum err start_ps(struct host *h, struct fault *f)
{
    struct mlt_error e = {0};
    int code = mlt_ps_start(h->ps, &e);

    return code ? host_take_error(code, &e, "starting the parameter server", f)
                : ERR_OK;
}

static int init_work(struct mlt_worker *w, void *arg)
{
    struct host *h = arg;

    return h->facts.app->init(h->app, w);
}

/* Branch 0 as the application fills it. */
static enum err init_rows(struct host *h, struct fault *f)
{
    const struct mlt_error none = {0};
    int code;

    for (unsigned i = 0; i < h->workers; i++)
        ps_worker_set_user(ps_worker(h->ps, i), &h->lane[i]);
    code = ps_activate(h->ps, 0);
    if (!code)
        code = mlt_ps_run(h->ps, init_work, h);
    return code ? host_take_error(code, &none, "filling the initial rows", f)
                : ERR_OK;
}

static enum err take_facts(struct host *h, const struct host_config *c,
                           struct fault *f)
{
    enum err err;

    h->facts.branch_bytes = ps_branch_bytes(h->ps);
    h->facts.limit_bytes = ps_limit_bytes(h->ps);
    h->facts.branches_max = ps_branches_max(h->ps);
    if (c->evaluate)
        return ps_load(h->ps, c->evaluate, f);
    err = ps_require_models(h->ps, HOST_MODELS_MIN, f);
    if (err)
        return err;
    /* The first trial's time is not to be spent on getting its memory. */
    err = ps_prepare(h->ps, 1);
    return err ? fault_set(f, err, "memory of a first branch: %s",
                           err_text(err))
               : ERR_OK;
}

static enum err open_app(struct host *h, const struct host_config *c,
                         uint64_t memory, struct fault *f)
{
    struct mlt_app_config config = {
        .size = sizeof(config),
        .folder = c->folder,
        .workers = h->workers * h->nodes,
        .seed = c->seed,
        .evaluate = c->evaluate != NULL,
        .memory_limit = memory,
        .model = c->evaluate,
        .predict = c->predict,
        .goes_on = c->goes_on,
    };
    struct mlt_error e = {0};
    char *settings = NULL;
    enum err err = app_settings(c->app, c->config, &settings, f);
    int code;

    if (err)
        return err;
    config.settings = settings;
    h->facts.info.loss_floor = NAN;
    code = c->app->open(&config, &h->facts.info, &h->app, &e);
    mem_free(settings);
    if (code) {
        h->app = NULL;
        return host_take_error(code, &e, "opening the application", f);
    }
    if (c->evaluate && c->app->load) {
        code = c->app->load(h->app, c->evaluate, &e);
        if (code)
            return host_take_error(code, &e, "loading the model", f);
    }
    err =
        host_metric_open(h, text_at(c->config, "/metric", NULL), &h->metric, f);
    if (err)
        return err;
    return order_init(&h->facts.order, &h->facts.info, h->workers * h->nodes,
                      c->seed, f);
}

static enum err read_config(struct host *h, const struct host_config *c,
                            struct fault *f)
{
    const json_t *workers = json_at(c->config, "/cluster/workers");
    const json_t *nodes = json_at(c->config, "/cluster/nodes");
    bool program;

    h->workers = machine_cores("");
    if (json_is_integer(workers)) {
        json_int_t n = json_integer_value(workers);

        if (n < 1 || n > UINT16_MAX)
            return fault_set(f, ERR_INVAL, "/cluster/workers: expected 1 to %d",
                             UINT16_MAX);
        h->workers = (unsigned)n;
    }
    h->nodes = 1;
    if (c->evaluate)
        h->workers = 1;
    else if (json_is_integer(nodes))
        h->nodes = (unsigned)json_integer_value(nodes);
    if (h->nodes > 1 && !c->meet)
        return fault_set(f, ERR_INVAL,
                         "/cluster/nodes: %u nodes need a place to meet",
                         h->nodes);
    /* One of the user's own may be asked for what it does not have. */
    program = json_at(c->config, "/app/command") != NULL;
    return node_setting_init(&h->facts.defaults,
                             json_object_get(c->config, "tunables"),
                             c->app->tunables, program, f);
}

static enum err new_lanes(struct host *h, struct fault *f)
{
    size_t bytes = h->workers * sizeof(*h->lane);

    assert(h->workers > 0);
    h->lane = mem_aligned(HOST_LINE_BYTES, bytes);
    if (h->lane) {
        memset(h->lane, 0, bytes);
        for (unsigned i = 0; i < h->workers; i++)
            h->lane[i].host = h;
    }
    if (!h->lane || slice_new(h->workers, &h->slice) != ERR_OK)
        return fault_set(f, ERR_NOMEM, "workers: %s", err_text(ERR_NOMEM));
    return live_read_open(h->workers, &h->glance, f);
}

/* As far as a node comes without the others. */
static enum err declare_all(struct host *h, const struct host_config *c,
                            struct fault *f)
{
    uint64_t before = machine_memory_held(""), after, part = 0, memory = 0;
    enum err err = read_config(h, c, f);

    if (!err)
        err = memory_part(c->config, h->nodes, &part, f);
    if (!err)
        err = new_lanes(h, f);
    if (!err)
        err = open_app(h, c, part, f);
    if (err)
        return err;
    after = machine_memory_held("");
    err = memory_left(part, after > before ? after - before : 0, &memory, f);
    if (!err)
        err = new_ps(h, c, memory, f);
    return err ? err : declare(h, f);
}

static enum err fill_host(struct host *h, const struct host_config *c,
                          struct fault *f)
{
    enum err err = declare_all(h, c, f);

    if (!err)
        err = start_ps(h, f);
    if (!err)
        err = init_rows(h, f);
    if (!err)
        err = take_facts(h, c, f);
    return err;
}

/* host_work_plan's text, the caller's own. */
static enum err take_work_plan(const struct host *h, char **out,
                               struct fault *f)
{
    const char *text = host_work_plan(h);

    *out = text ? mem_strdup(text) : NULL;
    if (text && !*out)
        return fault_set(f, ERR_NOMEM, "host: %s", err_text(ERR_NOMEM));
    return ERR_OK;
}

enum err host_plan(const struct host_config *config, struct mlt_ps_memory *out,
                   char **work, struct fault *f)
{
    struct host *h = mem_calloc(1, sizeof(*h));
    const struct mlt_error none = {0};
    enum err err;

    assert(config->app && config->folder && !config->evaluate);
    if (!h)
        return fault_set(f, ERR_NOMEM, "host: %s", err_text(ERR_NOMEM));
    h->facts.app = config->app;
    err = declare_all(h, config, f);
    if (!err) {
        int code;

        out->size = sizeof(*out);
        code = mlt_ps_plan(h->ps, 1, out);
        err =
            code ? host_take_error(code, &none, "planning memory", f) : ERR_OK;
    }
    if (!err)
        err = take_work_plan(h, work, f);
    host_close(h);
    return err;
}

enum err host_open(const struct host_config *config, struct host **out,
                   struct fault *f)
{
    struct host *h = mem_calloc(1, sizeof(*h));
    struct fault own = {0};
    enum err err;

    assert(out);
    assert(config->app && config->folder);
    assert(!config->predict || config->evaluate);
    if (config->predict && !app_predicts(config->app))
        return fault_set(f, ERR_UNSUPPORTED, "%s cannot predict",
                         config->app->name);
    if (!h)
        return fault_set(f, ERR_NOMEM, "host: %s", err_text(ERR_NOMEM));
    h->facts.app = config->app;
    h->evaluate = config->evaluate != NULL;
    h->predict = config->predict;
    err = fill_host(h, config, f ? f : &own);
    if (err) {
        host_close(h);
        return err;
    }
    *out = h;
    return ERR_OK;
}

void host_close(struct host *h)
{
    if (!h)
        return;
    host_metric_close(h->metric);
    if (h->app) /* it may hold memory of the parameter server's device */
        h->facts.app->close(h->app);
    mlt_ps_free(h->ps);
    slice_free(h->slice);
    for (unsigned i = 0; h->lane && i < h->workers; i++)
        mem_free(h->lane[i].ids);
    mem_free(h->lane);
    live_read_close(h->glance);
    mem_free(h);
}

const struct host_facts *host_facts(const struct host *h)
{
    return &h->facts;
}

struct mlt_ps *host_ps(const struct host *h)
{
    return h->ps;
}

const char *host_work_plan(const struct host *h)
{
    const struct mlt_app_ops *app = h->facts.app;

    return app_plans(app) ? app->plan(h->app) : NULL;
}

struct live_read *host_glance(const struct host *h)
{
    return h->glance;
}
