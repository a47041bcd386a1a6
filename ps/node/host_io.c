#include "ps/node/host_io.h"
#include "ps/disk/model_io.h"

#include "base/clock_io.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/json/problems.h"
#include "base/json/schema.h"
#include "base/mem.h"
#include "base/proto/table_info.h"
#include "ps/node/slice.h"
#include "ps/rows/acting.h"
#include "ps/rows/consistency.h"
#include "ps/rows/rule.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* For the other nodes to load their data: the tuner sees sooner that one is
 * gone. */
#define MEET_S 3600.0

enum {
    LINE_BYTES = 64,
    CURSOR_VALUES = sizeof(struct cursor) / sizeof(double)
};

/* One worker's side of a clock; nobody else touches it while a slice runs. */
struct lane {
    _Alignas(LINE_BYTES) struct host *host;
    double sum; /* reported in the present clock */
    uint64_t samples;
    uint64_t *ids; /* [ids_room] */
    size_t ids_room;
    int failed; /* what run_clock returned */
    uint64_t failed_clock;
};

struct host {
    struct host_facts facts;
    void *app; /* of facts.app */
    struct mlt_ps *ps;
    mlt_table cursor;
    bool barrier;        /* every clock ends with one */
    bool uses_staleness; /* the consistency model does */
    bool evaluate;
    unsigned workers, nodes;
    struct lane *lane; /* [workers] */
    struct slice *slice;
    struct live_read *glance;

    /* The slice that runs: written while no worker does. */
    struct node_setting setting;
    enum mlt_clock_type type;
    branch_id branch;
    time_ns turn_ns;
};

/* ---- what applications call ---------------------------------------------- */

void mlt_report(struct mlt_worker *w, double sum, uint64_t samples)
{
    struct lane *l = ps_worker_user(w);

    if (!l) /* driven by a program of its own: nobody listens */
        return;
    l->sum += sum;
    l->samples += samples;
}

double mlt_tunable(const struct mlt_worker *w, const char *name,
                   double fallback)
{
    const struct lane *l = ps_worker_user(w);

    return l ? node_setting_own(&l->host->setting, name, fallback) : fallback;
}

/* ---- opening ------------------------------------------------------------- */

/* An application's or the parameter server's error as ours. */
static enum err take_error(int code, const struct mlt_error *e,
                           const char *what, struct fault *f)
{
    enum err err = code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP;

    if (e->text[0])
        return fault_set(f, err, "%s", e->text);
    return fault_set(f, err, "%s: %s", what, err_text(err));
}

/* The "app" object, completed by the defaults of the application's schema, as
 * text owned by the caller. */
static enum err app_settings(const struct mlt_app_ops *app,
                             const json_t *config, char **out, struct fault *f)
{
    json_t *settings = json_deep_copy(json_object_get(config, "app"));
    struct problems problems = {0};
    json_t *schema = NULL;
    enum err err = ERR_OK;
    char line[FAULT_TEXT_MAX];

    if (!settings)
        return fault_set(f, ERR_INVAL, "/app: expected the settings of %s",
                         app->name);
    err = json_load(app->schema, strlen(app->schema), &schema, NULL, f);
    if (!err) {
        schema_check(schema, settings, "/app", &problems);
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

/* Bytes of memory that this process holds; 0 where the system does not say. */
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0, all;

    if (file && fscanf(file, "%llu %llu", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What is left for the parameter server of the configured limit, of which each
 * node has its part; 0: unlimited,
 * the parameter server then sees itself what the machine has left. */
static enum err memory_left(const json_t *config, unsigned nodes,
                            uint64_t data_bytes, uint64_t *out, struct fault *f)
{
    const json_t *limit = json_at(config, "/memory/limit");
    uint64_t bytes = 0;

    if (limit && !json_is_null(limit) && !json_to_bytes(limit, &bytes))
        return fault_set(f, ERR_INVAL, "/memory/limit: expected a size");
    bytes /= nodes;
    if (bytes && bytes <= data_bytes)
        return fault_set(f, ERR_LIMIT,
                         "memory.limit of %.1f MiB is too small: the data "
                         "alone take %.1f MiB",
                         (double)bytes / 1048576, (double)data_bytes / 1048576);
    *out = bytes ? bytes - data_bytes : 0;
    return ERR_OK;
}

static const char *text_at(const json_t *config, const char *pointer,
                           const char *fallback)
{
    const char *s = json_string_value(json_at(config, pointer));

    return s ? s : fallback;
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

static enum err new_ps(struct host *h, const struct host_config *c,
                       uint64_t memory, struct fault *f)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error e = {0};
    int code;

    opt.workers = h->workers;
    opt.memory_limit = memory;
    opt.consistency = text_at(c->config, "/ps/consistency", "bsp");
    opt.update_rule = text_at(c->config, "/ps/update_rule", "sgd");
    opt.learning_rate = h->facts.defaults.learning_rate;
    opt.momentum = h->facts.defaults.momentum;
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
    code = mlt_ps_new(&opt, &h->ps, &e);
    if (code)
        return take_error(code, &e, "parameter server", f);
    h->barrier = h->workers * h->nodes == 1 ||
                 consistency_find(opt.consistency)->barrier;
    h->uses_staleness = consistency_find(opt.consistency)->uses_staleness;
    ps_set_cut(h->ps, &(struct ps_cut){hold_slice, release_slice, h});
    return ERR_OK;
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
        return take_error(code, &e, "declaring tables", f);
    code = mlt_ps_table(h->ps, &cursor, &h->cursor, &e);
    if (!code)
        code = mlt_ps_start(h->ps, &e);
    return code ? take_error(code, &e, "starting the parameter server", f)
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
    return code ? take_error(code, &none, "filling the initial rows", f)
                : ERR_OK;
}

static enum err take_facts(struct host *h, const struct host_config *c,
                           struct fault *f)
{
    h->facts.branch_bytes = ps_branch_bytes(h->ps);
    h->facts.limit_bytes = ps_limit_bytes(h->ps);
    h->facts.branches_max = ps_branches_max(h->ps);
    if (c->evaluate)
        return ps_load(h->ps, c->evaluate, f);
    return ps_require_models(h->ps, HOST_MODELS_MIN, f);
}

static enum err open_app(struct host *h, const struct host_config *c,
                         struct fault *f)
{
    struct mlt_app_config config = {
        .size = sizeof(config),
        .folder = c->folder,
        .workers = h->workers * h->nodes,
        .seed = c->seed,
        .evaluate = c->evaluate != NULL,
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
        return take_error(code, &e, "opening the application", f);
    }
    if (c->evaluate && c->app->load) {
        code = c->app->load(h->app, c->evaluate, &e);
        if (code)
            return take_error(code, &e, "loading the model", f);
    }
    return order_init(&h->facts.order, &h->facts.info, h->workers * h->nodes,
                      c->seed, f);
}

static enum err read_config(struct host *h, const struct host_config *c,
                            struct fault *f)
{
    const json_t *workers = json_at(c->config, "/cluster/workers");
    const json_t *nodes = json_at(c->config, "/cluster/nodes");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    h->workers = cores > 0 ? (unsigned)cores : 1;
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
    return node_setting_init(&h->facts.defaults,
                             json_object_get(c->config, "tunables"),
                             c->app->tunables, f);
}

static enum err new_lanes(struct host *h, struct fault *f)
{
    size_t bytes = h->workers * sizeof(*h->lane);

    h->lane = mem_aligned(LINE_BYTES, bytes);
    if (h->lane) {
        memset(h->lane, 0, bytes);
        for (unsigned i = 0; i < h->workers; i++)
            h->lane[i].host = h;
    }
    if (!h->lane || slice_new(h->workers, &h->slice) != ERR_OK)
        return fault_set(f, ERR_NOMEM, "workers: %s", err_text(ERR_NOMEM));
    return live_read_open(h->workers, &h->glance, f);
}

static enum err fill_host(struct host *h, const struct host_config *c,
                          struct fault *f)
{
    uint64_t before = resident_bytes(), after, memory = 0;
    enum err err = read_config(h, c, f);

    if (!err)
        err = new_lanes(h, f);
    if (!err)
        err = open_app(h, c, f);
    if (err)
        return err;
    after = resident_bytes();
    err = memory_left(c->config, h->nodes, after > before ? after - before : 0,
                      &memory, f);
    if (!err)
        err = new_ps(h, c, memory, f);
    if (!err)
        err = declare(h, f);
    if (!err)
        err = init_rows(h, f);
    if (!err)
        err = take_facts(h, c, f);
    return err;
}

enum err host_open(const struct host_config *config, struct host **out,
                   struct fault *f)
{
    struct host *h = mem_calloc(1, sizeof(*h));
    struct fault own = {0};
    enum err err;

    assert(config->app && config->folder);
    if (!h)
        return fault_set(f, ERR_NOMEM, "host: %s", err_text(ERR_NOMEM));
    h->facts.app = config->app;
    h->evaluate = config->evaluate != NULL;
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
    mlt_ps_free(h->ps);
    if (h->app)
        h->facts.app->close(h->app);
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

struct live_read *host_glance(const struct host *h)
{
    return h->glance;
}

/* ---- tunables ------------------------------------------------------------ */

static bool rules_use(const struct host *h, bool momentum)
{
    for (unsigned t = 0; t < ps_tables(h->ps); t++) {
        struct ps_table_info info = ps_table_info(h->ps, t);
        const struct rule_ops *rule = rule_find(info.rule);

        if (rule && (momentum ? rule->uses_momentum : rule->uses_learning_rate))
            return true;
    }
    return false;
}

static bool add_acting(json_t *out, const struct acting_run *run,
                       const char *name)
{
    return acting_why_not(run, name, true) != ACTING ||
           json_array_append_new(out, json_string(name)) == 0;
}

json_t *host_tunables(const struct host *h)
{
    const struct acting_run run = {
        .nodes = h->nodes,
        .workers = h->workers * h->nodes,
        .uses_learning_rate = rules_use(h, false),
        .uses_momentum = rules_use(h, true),
        .uses_staleness = h->uses_staleness,
        .batch_clocks = h->facts.order.parts == 0,
    };
    const char *const *name = h->facts.app->tunables;
    json_t *out = json_array();
    bool added = out != NULL;

    for (; added && name && *name; name++)
        added = add_acting(out, &run, *name);
    added = added && add_acting(out, &run, "bandwidth_mbps"); /* in any app */
    if (!added) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* ---- tables -------------------------------------------------------------- */

static struct table_info table_info_of(const struct ps_table_info *t)
{
    static const enum table_type types[] = {
        [MLT_F32] = TABLE_F32, [MLT_I32] = TABLE_I32, [MLT_F64] = TABLE_F64};
    static const enum table_access accesses[] = {[MLT_SHARED] = TABLE_SHARED,
                                                 [MLT_EXCLUSIVE] =
                                                     TABLE_EXCLUSIVE,
                                                 [MLT_LOCAL] = TABLE_LOCAL};
    struct table_info info = {
        .rows = t->rows,
        .width = t->width,
        .type = types[t->type],
        .access = accesses[t->access],
        .saved = t->saved,
    };

    snprintf(info.name, sizeof(info.name), "%s", t->name);
    snprintf(info.rule, sizeof(info.rule), "%s", t->rule);
    return info;
}

json_t *host_tables(const struct host *h)
{
    json_t *list = json_array();

    for (unsigned t = 0; list && t < ps_tables(h->ps); t++) {
        struct ps_table_info of = ps_table_info(h->ps, t);
        struct table_info info = table_info_of(&of);

        if (t != h->cursor &&
            json_array_append_new(list, table_info_to_json(&info)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* ---- slices -------------------------------------------------------------- */

static void take_counters(const struct mlt_worker *w, struct slice_tick *tick)
{
    struct ps_counters c = ps_worker_counters(w);

    tick->wait_ns = c.wait_ns;
    tick->copy_ns = c.copy_ns;
    tick->now_ns = clock_monotonic();
}

/* This worker's share of the branch's next clock, for the application. */
static void fill_ctx(struct host *h, struct lane *l, unsigned index,
                     const struct order_clock *clock, struct mlt_clock_ctx *ctx)
{
    const struct order *o = &h->facts.order;
    uint64_t first, count;

    order_share(o, clock, index, &first, &count);
    *ctx = (struct mlt_clock_ctx){
        .type = h->type,
        .clock = clock->clock,
        .epoch = clock->epoch,
        .count = o->kind == MLT_ORDER_SAMPLES ? count : 0,
        .part = clock->part,
        .clock_samples = clock->count,
        .seed = order_clock_seed(o, clock->clock, index),
    };
    if (o->kind == MLT_ORDER_SAMPLES || h->type == MLT_CLOCK_TESTING)
        ctx->first = first;
    if (h->type == MLT_CLOCK_TESTING) {
        ctx->count = count;
    } else if (o->kind == MLT_ORDER_SAMPLES) {
        assert(count <= l->ids_room);
        order_samples(o, clock->epoch, first, count, l->ids);
        ctx->samples = l->ids;
    }
}

/* Clocks that read about the same rows: of one part of the data, or of what is
 * tested on. */
static uint64_t known_part(const struct order *o,
                           const struct mlt_clock_ctx *ctx)
{
    if (ctx->type != MLT_CLOCK_TESTING)
        return ctx->part;
    return o->kind == MLT_ORDER_PARTS ? o->parts : 1;
}

/* One clock of one worker. Every worker moves a cursor of its own, all of them
 * alike. */
static int run_clock(struct host *h, struct mlt_worker *w, struct lane *l)
{
    const struct order *o = &h->facts.order;
    struct cursor *cursor = mlt_row(w, h->cursor, 0);
    struct order_clock clock;
    struct mlt_clock_ctx ctx;
    struct slice_tick tick;
    int code;

    if (h->type == MLT_CLOCK_TESTING)
        order_testing(o, cursor, &clock);
    else
        order_clock_at(o, cursor, h->setting.batch_size, &clock);
    fill_ctx(h, l, mlt_worker_index(w), &clock, &ctx);
    mlt_clock_part(w, known_part(o, &ctx));
    l->sum = 0;
    l->samples = 0;
    code = h->facts.app->run_clock(h->app, w, &ctx);
    if (code) {
        l->failed = code;
        l->failed_clock = clock.clock;
        return code;
    }
    if (h->type != MLT_CLOCK_TESTING)
        order_advance(o, &clock, mlt_row(w, h->cursor, 0));
    if (!isfinite(
            l->sum)) /* before the barrier: all see it at the same clock */
        host_slice_cut(h);
    tick.sum = l->sum;
    tick.samples = l->samples;
    code = mlt_clock(w);
    if (code)
        return code;
    take_counters(w, &tick);
    slice_end_clock(h->slice, ps_worker_local(w), &tick);
    return 0;
}

/* Whether there is another clock to run; where all nodes are being asked how
 * far they are, once that is known. */
static bool may_start_clock(struct host *h, struct mlt_worker *w)
{
    for (;;) {
        uint32_t ticket = ps_ticket(h->ps);
        enum slice_turn turn = slice_start_clock(h->slice, ps_worker_local(w));

        if (turn != SLICE_HELD)
            return turn == SLICE_RUN;
        if (!ps_await(w, ticket))
            return false;
    }
}

static int slice_work(struct mlt_worker *w, void *arg)
{
    struct host *h = arg;
    unsigned index = ps_worker_local(w);
    struct slice_tick tick;
    int code;

    take_counters(w, &tick);
    slice_enter(h->slice, index, &tick);
    for (;;) {
        live_read_take(h->glance, w);
        if (!may_start_clock(h, w))
            break;
        code = run_clock(h, w, &h->lane[index]);
        if (code)
            return code;
    }
    slice_leave(h->slice, index);
    return 0;
}

static enum err make_room(struct host *h)
{
    uint64_t need = order_share_max(&h->facts.order, h->setting.batch_size);

    if (h->facts.order.kind != MLT_ORDER_SAMPLES ||
        h->type == MLT_CLOCK_TESTING)
        return ERR_OK;
    for (unsigned i = 0; i < h->workers; i++)
        if (mem_grow((void **)&h->lane[i].ids, &h->lane[i].ids_room,
                     sizeof(*h->lane[i].ids), need) != 0)
            return ERR_NOMEM;
    return ERR_OK;
}

enum err host_set_rates(struct host *h, const struct node_setting *setting,
                        struct fault *f)
{
    enum err err;

    assert(setting);
    err = ps_set_learning_rate(h->ps, setting->learning_rate);
    if (!err)
        err = ps_set_momentum(h->ps, setting->momentum);
    return err ? fault_set(f, err, "setting: %s", err_text(err)) : ERR_OK;
}

static enum err apply_setting(struct host *h, const struct host_slice *s,
                              struct fault *f)
{
    enum err err = host_set_rates(h, s->setting, f);

    if (err)
        return err;
    h->setting = *s->setting;
    if (s->type == BRANCH_PROBE) /* measures the loss and learns nothing */
        err = ps_set_learning_rate(h->ps, 0);
    if (!err)
        err = ps_set_staleness(h->ps, h->setting.staleness);
    if (!err)
        err = ps_set_bandwidth(h->ps, h->setting.bandwidth_mbps);
    return err ? fault_set(f, err, "setting: %s", err_text(err)) : ERR_OK;
}

enum err host_slice_begin(struct host *h, const struct host_slice *s,
                          struct fault *f)
{
    enum err err;

    assert(s->type == BRANCH_TRAINING || s->type == BRANCH_PROBE ||
           s->type == BRANCH_TESTING);
    h->type = s->type == BRANCH_TESTING ? MLT_CLOCK_TESTING
              : s->type == BRANCH_PROBE ? MLT_CLOCK_PROBE
                                        : MLT_CLOCK_TRAINING;
    h->branch = s->branch;
    h->turn_ns = clock_monotonic();
    for (unsigned i = 0; i < h->workers; i++)
        h->lane[i].failed = 0;
    err = apply_setting(h, s, f);
    if (err)
        return err;
    err = make_room(h);
    if (!err)
        err = slice_begin(h->slice, s->count, s->report_every, h->barrier);
    if (!err)
        err = ps_activate(h->ps, s->branch);
    if (!err)
        err = ps_run_begin(h->ps, slice_work, h);
    return err ? fault_set(f, err, "branch %u: %s", s->branch, err_text(err))
               : ERR_OK;
}

int host_slice_fd(const struct host *h)
{
    return ps_run_fd(h->ps);
}

void host_slice_cut(struct host *h)
{
    if (h->nodes > 1)
        ps_cut(h->ps);
    else
        slice_cut(h->slice);
}

void host_slice_cancel(struct host *h)
{
    slice_cut(h->slice);
    ps_run_cancel(h->ps, ERR_CANCELED);
}

uint32_t host_slice_windows(const struct host *h)
{
    return slice_windows(h->slice);
}

const struct msg_window *host_slice_window(const struct host *h, uint32_t i)
{
    return slice_window(h->slice, i);
}

static enum err run_error(const struct host *h, int code, struct fault *f)
{
    enum err err = code > 0 && code < ERR_COUNT ? (enum err)code : ERR_APP;

    if (ps_lost(h->ps, f))
        return ERR_NODE;
    for (unsigned i = 0; i < h->workers; i++)
        if (h->lane[i].failed == code)
            return fault_set(f, err,
                             "%s failed in worker %u at clock %llu of branch "
                             "%u: %s",
                             h->facts.app->name,
                             ps_node(h->ps) * h->workers + i,
                             (unsigned long long)h->lane[i].failed_clock,
                             h->branch, mlt_error_text(code));
    return fault_set(f, err, "branch %u: %s", h->branch, err_text(err));
}

enum err host_slice_end(struct host *h, struct host_result *out,
                        struct fault *f)
{
    int code = ps_run_end(h->ps);
    time_ns spent = clock_monotonic() - h->turn_ns;

    if (slice_windows(h->slice))
        spent -= slice_ended_ns(h->slice) - slice_began_ns(h->slice);
    *out = (struct host_result){
        .clocks = slice_clocks(h->slice),
        .switch_s = spent > 0 ? (double)spent * 1e-9 : 0,
    };
    return code ? run_error(h, code, f) : ERR_OK;
}

/* ---- the model ----------------------------------------------------------- */

static json_t *table_list(const struct mlt_ps *ps)
{
    static const char *const types[] = {
        [MLT_F32] = "f32", [MLT_I32] = "i32", [MLT_F64] = "f64"};
    json_t *list = json_array(), *item;

    for (unsigned t = 0; list && t < ps_tables(ps); t++) {
        struct ps_table_info info = ps_table_info(ps, t);

        if (!info.saved)
            continue;
        item = json_pack("{s:s, s:I, s:I, s:s}", "name", info.name, "rows",
                         (json_int_t)info.rows, "width", (json_int_t)info.width,
                         "type", types[info.type]);
        if (json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* What the application adds to model.json; {} where it adds nothing. */
static enum err save_app(struct host *h, const char *dir, json_t **out,
                         struct fault *f)
{
    struct mlt_error e = {0};
    enum err err = ERR_OK;
    char *text;
    int code;

    *out = NULL;
    if (!h->facts.app->save) {
        *out = json_object();
        return *out ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
    }
    text = mem_calloc(1, HOST_SAVE_BYTES);
    if (!text)
        return fault_set(f, ERR_NOMEM, "save: out of memory");
    code = h->facts.app->save(h->app, dir, text, HOST_SAVE_BYTES, &e);
    if (code)
        err = take_error(code, &e, "saving the model", f);
    else if (!text[0])
        *out = json_object();
    else if (!memchr(text, 0, HOST_SAVE_BYTES))
        err = fault_set(f, ERR_APP, "save: the application's text has no end");
    else
        err = json_load(text, strlen(text), out, NULL, f);
    if (!err && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        err = fault_set(f, ERR_APP, "save: the application gave no object");
    }
    mem_free(text);
    return err;
}

enum err host_save(struct host *h, branch_id branch, const char *dir,
                   uint64_t *bytes, json_t **data, struct fault *f)
{
    json_t *app = NULL, *tables;
    enum err err;

    err = folder_ensure(dir, FOLDER_SHARED, f);
    if (!err)
        err = ps_save(h->ps, branch, dir, bytes, f);
    if (!err && ps_node(h->ps) > 0) /* the first node's part of the work */
        return (*data = json_object()) ? ERR_OK : ERR_NOMEM;
    if (!err)
        err = save_app(h, dir, &app, f);
    if (err)
        return err;
    tables = table_list(h->ps);
    *data = json_pack("{s:o, s:o}", "tables", tables, "app", app);
    return *data ? ERR_OK : fault_set(f, ERR_NOMEM, "save: out of memory");
}

/* ---- evaluation ---------------------------------------------------------- */

static double reduce(double sum, uint64_t samples, enum mlt_reduction how)
{
    double mean = samples ? sum / (double)samples : NAN;

    return how == MLT_SQRT_MEAN  ? sqrt(mean)
           : how == MLT_EXP_MEAN ? exp(mean)
                                 : mean;
}

/* One slice in a fresh fork of branch 0 that is dropped again, as one window.
 */
static enum err measure(struct host *h, enum branch_type type, uint64_t clocks,
                        struct msg_window *out, struct fault *f)
{
    struct node_setting setting = h->facts.defaults;
    struct host_slice slice = {1, type, &setting, clocks, clocks};
    struct host_result result;
    enum err err = ps_fork(h->ps, slice.branch, 0, type);

    if (err)
        return fault_set(f, err, "evaluation: %s", err_text(err));
    setting.learning_rate = 0;
    err = host_slice_begin(h, &slice, f);
    if (!err)
        err = host_slice_end(h, &result, f);
    if (!err && host_slice_windows(h))
        *out = *host_slice_window(h, 0);
    ps_drop(h->ps, slice.branch);
    return err;
}

enum err host_evaluate(struct host *h, struct host_score *out, struct fault *f)
{
    const struct order *o = &h->facts.order;
    uint64_t batch = h->facts.defaults.batch_size * h->workers;
    struct msg_window loss = {0}, metric = {0};
    enum err err;

    assert(h->evaluate);
    err = measure(h, BRANCH_PROBE,
                  o->parts ? o->parts : (o->samples - 1) / batch + 1, &loss, f);
    if (!err && o->validation_samples && h->facts.info.metric)
        err = measure(h, BRANCH_TESTING, 1, &metric, f);
    if (err)
        return err;
    out->samples = o->samples;
    out->loss = reduce(loss.sum, loss.samples, MLT_MEAN);
    out->metric =
        reduce(metric.sum, metric.samples, h->facts.info.metric_reduction);
    return ERR_OK;
}
