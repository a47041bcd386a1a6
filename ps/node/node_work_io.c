/* Work that a node carries out: loading and saving, slices, snapshots, rows. */
#include "ps/node/app_plugin_io.h"
#include "ps/node/data_files_io.h"
#include "ps/node/node_internal_io.h"

#include "base/files_read.h"
#include "base/host/confine_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proto/data_list.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/restore_io.h"
#include "ps/node/node_rows.h"

#include <zmq.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- slow operations ----------------------------------------------------- */

static enum err no_list(struct fault *f)
{
    return fault_set(f, ERR_NOMEM, "no memory for the list of data files");
}

/* Of several nodes the first looks whether the data are those that the run
 * began with. Each tells the tuner which it has read: all are to read the same
 * ones. */
static enum err check_data(struct errand *e, struct fault *f)
{
    const struct msg_config *m = &e->held.config;
    const struct mlt_ps *ps = host_ps(e->host);
    const struct file_read *file = NULL;
    size_t n = 0;

    if (files_read_list(&file, &n) != ERR_OK)
        return no_list(f);
    if (ps_nodes(ps) > 1 && !m->other_data &&
        !(e->files = data_list_new(file, n, DATA_LIST_TOLD_MAX)))
        return no_list(f);
    return m->keep && ps_node(ps) == 0 ? data_files_check(m->keep, file, n, f)
                                       : ERR_OK;
}

static void load(struct errand *e, struct fault *f)
{
    files_read_begin();
    if (host_open(&e->config, &e->host, f) == ERR_OK &&
        check_data(e, f) == ERR_OK && e->held.config.keep)
        host_keep(e->host, e->held.config.keep);
    files_read_end();
}

static void run_errand(void *arg)
{
    struct errand *e = arg;
    struct fault *f = &e->result.fault;

    if (e->kind == MSG_CONFIG)
        load(e, f);
    else if (e->kind == MSG_SAVE)
        host_save(e->host, e->path.branch, e->path.path, &e->result.bytes,
                  &e->result.data, f);
    else
        ps_restore(host_ps(e->host), e->path.branch, e->path.path, f);
}

static const struct mlt_app_ops *find_app(const struct node_server *s,
                                          const json_t *config, struct fault *f)
{
    const char *name = json_string_value(json_at(config, "/app/name"));
    const char *plugin = json_string_value(json_at(config, "/app/plugin"));
    const struct mlt_app_ops *ops = NULL;
    const struct registry_entry *e;
    char names[256];

    if (s->o->app)
        return s->o->app;
    if (plugin)
        return app_plugin_open(plugin, &ops, f) ? NULL : ops;
    assert(s->o->registry);
    e = name ? registry_find(s->o->registry, REGISTRY_APP, name) : NULL;
    if (e && e->ops) {
        /* No code but ours runs here, and the data may be a stranger's. */
        if (s->o->confined && !confine(CONFINE_NODE))
            log_event(LOG_WARN, "not_confined", "app=%s", name);
        return e->ops;
    }
    fault_set(
        f, ERR_INVAL, "/app/name: there is no application %s; there are %s",
        name ? name : "without a name",
        registry_names(s->o->registry, REGISTRY_APP, names, sizeof(names)));
    return NULL;
}

/* Copies what the thread needs: the message may move meanwhile. */
static enum err prepare_load(struct node_server *s, const struct msg_config *m,
                             struct fault *f)
{
    struct errand *e = &s->errand;
    const struct mlt_app_ops *app = find_app(s, m->config, f);

    if (!app)
        return f->code ? f->code : ERR_INVAL;
    e->held.kind = MSG_CONFIG;
    e->held.config.config = json_copied(m->config);
    e->held.config.folder = mem_strdup(m->folder);
    e->held.config.other_data = m->other_data;
    if (m->keep)
        e->held.config.keep = mem_strdup(m->keep);
    if (!e->held.config.config || !e->held.config.folder ||
        (m->keep && !e->held.config.keep))
        return fault_set(f, ERR_NOMEM, "no memory for the configuration");
    e->config = (struct host_config){.app = app,
                                     .config = e->held.config.config,
                                     .folder = e->held.config.folder,
                                     .seed = m->seed,
                                     .goes_on = m->goes_on != 0,
                                     .node = s->o->node,
                                     .meet = s->o->meet,
                                     .listen = s->o->listen};
    return ERR_OK;
}

static void finish_load(struct node_server *s);

static void start_errand(struct node_server *s, const struct msg *m)
{
    struct errand *e = &s->errand;
    enum err err = ERR_OK;

    assert(!s->job.running);
    *e = (struct errand){.kind = m->kind, .op = m->op, .host = s->host};
    if (m->kind == MSG_CONFIG)
        err = prepare_load(s, &m->config, &e->result.fault);
    else
        e->path = m->save;
    if (!err)
        err = job_start(&s->job, run_errand, e, &e->result.fault);
    if (!err)
        return;
    if (m->kind == MSG_CONFIG)
        finish_load(s);
    else
        node_finish(s->node, e->op, &e->result);
}

static struct msg_ready ready_of(const struct host *h, json_t *tunables)
{
    const struct host_facts *x = host_facts(h);
    static const char *const reductions[] = {[MLT_MEAN] = "mean",
                                             [MLT_SQRT_MEAN] = "sqrt_mean",
                                             [MLT_EXP_MEAN] = "exp_mean",
                                             [MLT_WHOLE] = "whole"};
    struct msg_ready m = {
        .samples = x->info.samples,
        .validation_samples = x->info.metric ? x->info.validation_samples : 0,
        .parts = x->order.parts,
        .workers = x->order.workers,
        .tunables = tunables,
        .metric_higher_better = x->info.metric_higher_better != 0,
        .loss_floor = x->info.loss_floor,
        .model_bytes = x->branch_bytes,
        .cuts = CUTS_OWN, /* the nodes agree on them (ps/nodes) */
    };

    snprintf(m.metric, sizeof(m.metric), "%s",
             x->info.metric ? x->info.metric : "");
    snprintf(m.metric_reduction, sizeof(m.metric_reduction), "%s",
             reductions[x->info.metric_reduction]);
    return m;
}

static enum err tell_ready(struct node_server *s)
{
    const struct host_facts *x = host_facts(s->host);
    json_t *tunables = host_tunables(s->host);
    struct node_model model = {.branches_max = x->branches_max,
                               .many = ps_nodes(host_ps(s->host)) > 1,
                               .defaults = x->defaults,
                               .tunables = x->app->tunables};
    enum err err;

    assert(s->host);
    model.ready = ready_of(s->host, tunables);
    model.ready.tables = host_tables(s->host);
    model.ready.data = host_data(s->host);
    model.ready.files = json_incref(s->errand.files);
    err = tunables && model.ready.tables ? node_loaded(s->node, &model)
                                         : ERR_NOMEM;
    if (err) {
        json_decref(tunables);
        json_decref(model.ready.tables);
        json_decref(model.ready.data);
        json_decref(model.ready.files);
    }
    return err;
}

static void drop_list(struct errand *e)
{
    json_decref(e->files);
    e->files = NULL;
}

static void finish_load(struct node_server *s)
{
    struct errand *e = &s->errand;
    struct fault *f = &e->result.fault;

    msg_deinit(&e->held);
    s->host = e->host;
    if (!f->code && tell_ready(s) == ERR_OK) {
        drop_list(e);
        pulse_look(&s->pulse, host_ps(s->host));
        log_event(LOG_INFO, "ready",
                  "samples=%llu model_bytes=%llu branches=%u",
                  (unsigned long long)host_facts(s->host)->info.samples,
                  (unsigned long long)host_facts(s->host)->branch_bytes,
                  host_facts(s->host)->branches_max);
        return;
    }
    if (!f->code)
        fault_set(f, ERR_NOMEM, "no memory to begin");
    drop_list(e);
    log_event(LOG_ERROR, "load_failed", "code=%s reason=\"%s\"",
              err_name(f->code), f->text);
    node_load_failed(s->node, f);
    node_end_with(s, NODE_END_LOAD_FAILED, f->code, f->text);
}

void node_errand_done(struct node_server *s)
{
    struct errand *e = &s->errand;

    assert(s->job.running);
    job_end(&s->job);
    if (e->kind == MSG_SAVE) /* what the run has come to, before its end */
        node_beat_now(s);
    if (e->kind == MSG_CONFIG)
        finish_load(s);
    else
        node_finish(s->node, e->op, &e->result);
}

/* ---- slices -------------------------------------------------------------- */

enum err node_report_windows(struct node_server *s)
{
    uint32_t more = host_slice_windows(s->host) - s->reported;
    const struct progress_window *windows;
    enum err err;

    assert(host_slice_windows(s->host) >= s->reported);
    if (more == 0)
        return ERR_OK;
    windows = host_slice_window(s->host, s->reported);
    err = node_report(s->node, windows, more);
    if (err)
        return err;
    pulse_windows(&s->pulse, windows, more);
    s->reported += more;
    return ERR_OK;
}

static void begin_slice(struct node_server *s, const struct node_task *task)
{
    const struct msg_schedule *m = &task->msg->schedule;
    struct host_slice slice = {m->branch, task->type, task->setting, m->count,
                               m->report_every};
    struct node_result r = {0};
    op_id op = task->msg->op;

    assert(!s->slice);
    if (host_slice_begin(s->host, &slice, &r.fault) != ERR_OK) {
        if (r.fault.code == ERR_NODE)
            node_end_with(s, NODE_END_FAILED, ERR_NODE, r.fault.text);
        else
            node_finish(s->node, op, &r);
        return;
    }
    s->slice = op;
    if (node_cut_due(s->node))
        host_slice_cut(s->host);
    s->reported = 0;
    s->report_at = clock_monotonic() + NODE_REPORT_NS;
}

void node_slice_done(struct node_server *s)
{
    struct node_result r = {0};
    struct host_result result;
    op_id op = s->slice;

    assert(s->slice);
    host_slice_end(s->host, &result, &r.fault);
    node_glance_done(s);
    r.broken = r.fault.code != ERR_OK;
    r.clocks = result.clocks;
    r.switch_s = result.switch_s;
    pulse_slice(&s->pulse, host_ps(s->host), &r.wire);
    if (node_report_windows(s) != ERR_OK) {
        /* `done` without the windows it counts would be a lie. */
        s->slice = 0;
        node_end_with(s, NODE_END_FAILED, ERR_NOMEM, "no memory for a report");
        return;
    }
    s->slice = 0;
    if (r.fault.code == ERR_NODE) { /* nothing can be run here any more */
        node_end_with(s, NODE_END_FAILED, ERR_NODE, r.fault.text);
        return;
    }
    node_finish(s->node, op, &r);
    pulse_look(&s->pulse, host_ps(s->host));
}

/* ---- snapshots ----------------------------------------------------------- */

/* A fork of our own is written, so that the branch may be freed meanwhile. */

static void begin_snapshot(struct node_server *s, const struct msg *m)
{
    struct mlt_ps *ps = host_ps(s->host);
    struct node_result r = {0};
    enum err err;

    assert(!s->snapshot);
    ps_snapshot_count(ps);
    err = ps_fork(ps, NODE_OWN_BRANCH, m->snapshot.branch, BRANCH_KEPT);
    if (err) {
        fault_set(&r.fault, err, "snapshot of branch %u: %s",
                  m->snapshot.branch, err_text(err));
        node_finish(s->node, m->op, &r);
        return;
    }
    if (ps_snapshot_begin(ps, NODE_OWN_BRANCH, m->snapshot.path, &r.fault)) {
        ps_drop(ps, NODE_OWN_BRANCH);
        node_finish(s->node, m->op, &r);
        return;
    }
    s->snapshot = m->op;
    snprintf(s->snapshot_dir, sizeof(s->snapshot_dir), "%s", m->snapshot.path);
    node_detach(s->node);
}

/* It is durable, or failed: also while a slice runs. */
void node_snapshot_done(struct node_server *s)
{
    struct node_result r = {0};
    op_id op = s->snapshot;

    assert(s->snapshot);
    ps_snapshot_end(host_ps(s->host), &r.bytes, &r.fault);
    s->snapshot = 0;
    s->snapshot_over = true;
    s->snapshot_dir[0] = '\0';
    node_finish(s->node, op, &r);
}

static void drop_snapshot(struct node_server *s)
{
    if (s->snapshot_over)
        ps_drop(host_ps(s->host), NODE_OWN_BRANCH);
    s->snapshot_over = false;
}

/* ---- rows ---------------------------------------------------------------- */

/* While a slice runs: what can be read between two of its clocks. True: one was
 * refused, and the next may be looked at. */
static bool begin_glance(struct node_server *s)
{
    struct mlt_ps *ps = host_ps(s->host);
    struct node_result r = {0};
    struct node_task task;

    if (s->glance.op)
        return false;
    node_take_read(s->node, &task);
    if (!task.msg)
        return false;
    s->glance.op = task.msg->op;
    if (node_rows_find(ps, &task.msg->rows, &s->glance.rows, &r.fault) ==
            ERR_OK &&
        !(s->glance.values = node_rows_alloc(&s->glance.rows)))
        fault_set(&r.fault, ERR_NOMEM, "rows: %s", err_text(ERR_NOMEM));
    if (r.fault.code) {
        node_finish(s->node, s->glance.op, &r);
        s->glance.op = 0;
        return true;
    }
    live_read_begin(host_glance(s->host), &s->glance.rows, s->glance.values);
    return false;
}

/* All workers have read; or the slice is over, and what they have not read is
 * read in its turn. */
void node_glance_done(struct node_server *s)
{
    struct node_result r = {0};

    if (!s->glance.op)
        return;
    if (live_read_end(host_glance(s->host))) {
        r.data =
            node_rows_json(host_ps(s->host), &s->glance.rows, s->glance.values);
        if (!r.data)
            fault_set(&r.fault, ERR_NOMEM, "rows: %s", err_text(ERR_NOMEM));
        node_finish(s->node, s->glance.op, &r);
    } else {
        node_leave_read(s->node, s->glance.op);
    }
    mem_free(s->glance.values);
    s->glance.values = NULL;
    s->glance.op = 0;
}

/* In its turn; what is added goes by the branch's own setting. */
static void do_rows(struct node_server *s, const struct node_task *task,
                    struct node_result *r)
{
    const struct msg_rows *m = &task->msg->rows;

    if (m->increment &&
        host_set_rates(s->host, task->setting, &r->fault) != ERR_OK)
        return;
    node_rows_carry_out(host_ps(s->host), m, &r->data, &r->fault);
}

/* ---- carrying out -------------------------------------------------------- */

static void do_at_once(struct node_server *s, const struct node_task *task)
{
    const struct msg *m = task->msg;
    struct mlt_ps *ps = host_ps(s->host);
    struct node_result r = {0};
    enum err err;

    if (m->kind == MSG_ROWS) {
        do_rows(s, task, &r);
    } else {
        err = m->kind == MSG_FORK
                  ? ps_fork(ps, m->fork.branch, m->fork.parent, m->fork.type)
                  : ps_drop(ps, m->free.branch);
        if (err)
            fault_set(&r.fault, err, "%s: %s", msg_kind_name(m->kind),
                      err_text(err));
    }
    node_finish(s->node, m->op, &r);
}

void node_carry_out(struct node_server *s)
{
    struct node_task task;

    while (!s->over && !s->slice && !s->job.running) {
        drop_snapshot(s);
        node_take(s->node, &task);
        if (!task.msg)
            break;
        switch (task.msg->kind) {
        case MSG_CONFIG:
        case MSG_SAVE:
        case MSG_RESTORE:
            start_errand(s, task.msg);
            break;
        case MSG_SCHEDULE:
            begin_slice(s, &task);
            break;
        case MSG_SNAPSHOT:
            begin_snapshot(s, task.msg);
            break;
        default:
            do_at_once(s, &task);
        }
    }
    while (s->slice && begin_glance(s))
        ;
}

/* ---- the end ------------------------------------------------------------- */

static bool wait_readable(int fd, time_ns until)
{
    zmq_pollitem_t item = {.fd = fd, .events = ZMQ_POLLIN};
    time_ns left;

    do {
        left = until - clock_monotonic();
        if (zmq_poll(&item, 1, left > 0 ? (long)(left / NODE_MS) + 1 : 0) > 0)
            return true;
    } while (left > 0);
    return false;
}

bool node_end_work(struct node_server *s)
{
    time_ns until = clock_monotonic() + (time_ns)NODE_GRACE_S * NODE_NS;
    struct host_result ignored;
    struct fault unused;

    if (s->snapshot)
        ps_snapshot_cancel(host_ps(s->host));
    if (s->slice) {
        host_slice_cancel(s->host);
        if (!wait_readable(host_slice_fd(s->host), until))
            return false;
        host_slice_end(s->host, &ignored, &unused);
        mem_free(s->glance.values);
        s->glance.values = NULL;
        s->slice = 0;
    }
    if (s->job.running) {
        if (!wait_readable(s->job.fd, until))
            return false;
        job_end(&s->job);
        if (s->errand.kind == MSG_CONFIG)
            s->host = s->errand.host;
        drop_list(&s->errand);
        json_decref(s->errand.result.data);
    }
    return !s->snapshot ||
           wait_readable(ps_snapshot_fd(host_ps(s->host)), until);
}
