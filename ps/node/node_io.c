#include "ps/node/node_io.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/restore_io.h"

#include "base/clock_io.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "ps/node/host_io.h"
#include "ps/node/node.h"
#include "ps/node/node_job_io.h"
#include "ps/node/node_link_io.h"
#include "ps/node/node_pulse_io.h"
#include "ps/node/node_rows.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    NS = 1000000000,
    MS = 1000000,
    REPORT_NS = 250 * MS, /* between two reports of a slice that runs */
    BEAT_NS = NS,
    MESSAGES_MAX = 64, /* taken before anything else is looked at */
    ITEMS_MAX = 7
};

/* A slow operation, as its thread sees it. */
struct errand {
    enum msg_kind kind; /* CONFIG, SAVE, RESTORE */
    op_id op;
    struct host_config config; /* CONFIG; its members are owned by `held` */
    struct msg held;
    struct host *host; /* CONFIG: out */
    struct msg_path path;
    struct node_result result;
};

struct server {
    const struct node_options *o;
    struct node_link link;
    struct node *node;
    struct host *host;
    struct job job;
    struct errand errand;
    op_id slice;        /* that runs; 0: none */
    uint32_t reported;  /* windows of it */
    op_id snapshot;     /* being written; 0: none */
    bool snapshot_over; /* its fork is to be dropped when no worker runs */
    char snapshot_dir[PROTO_PATH_MAX];
    struct {
        op_id op; /* rows that are being read while a slice runs; 0: none */
        struct ps_rows rows;
        double *values; /* owned */
    } glance;
    struct pulse pulse;
    time_ns beat_at, report_at;
    uint64_t garbage;
    bool blocked; /* the link took no more */
    enum node_end end;
    bool over;
    int signal;
    struct fault *fault; /* never NULL */
};

/* ---- the end ------------------------------------------------------------- */

static void end_with(struct server *s, enum node_end end, enum err err,
                     const char *reason)
{
    if (s->over)
        return;
    s->over = true;
    s->end = end;
    if (err)
        fault_set(s->fault, err, "%s", reason);
}

int node_exit_code(enum node_end end, int signal)
{
    switch (end) {
    case NODE_END_STOPPED:
        return 0;
    case NODE_END_LOST:
        return 69; /* EX_UNAVAILABLE */
    case NODE_END_SIGNAL:
        return 128 + signal;
    default:
        return 1;
    }
}

static bool wait_readable(int fd, time_ns until)
{
    zmq_pollitem_t item = {.fd = fd, .events = ZMQ_POLLIN};
    time_ns left;

    do {
        left = until - clock_monotonic();
        if (zmq_poll(&item, 1, left > 0 ? (long)(left / MS) + 1 : 0) > 0)
            return true;
    } while (left > 0);
    return false;
}

/* Ends what runs, as far as it can be ended. Returns false when something goes
 * on. */
static bool end_work(struct server *s)
{
    time_ns until = clock_monotonic() + (time_ns)NODE_GRACE_S * NS;
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
        json_decref(s->errand.result.data);
    }
    return !s->snapshot ||
           wait_readable(ps_snapshot_fd(host_ps(s->host)), until);
}

/* ---- messages ------------------------------------------------------------ */

static void complain(struct server *s, const char *reason)
{
    if (s->garbage++ == 0)
        log_event(LOG_WARN, "message_ignored", "reason=\"%s\"", reason);
}

static void take_text(struct server *s, const char *text, size_t len)
{
    struct fault f = {0};
    struct msg m;
    enum err err = msg_decode(text, len, &m, &f);

    if (!err)
        err = node_receive(s->node, &m, &f);
    if (err == ERR_NOMEM)
        end_with(s, NODE_END_FAILED, err, "no memory for a message");
    else if (err)
        complain(s, f.text);
}

static void receive_some(struct server *s)
{
    for (int i = 0; i < MESSAGES_MAX && !s->over; i++) {
        char *text;
        size_t len;
        enum err err = node_link_receive(&s->link, &text, &len);

        if (err == ERR_AGAIN || err == ERR_IO)
            return;
        if (err == ERR_NOMEM) {
            end_with(s, NODE_END_FAILED, err, "no memory for a message");
        } else if (err) {
            complain(s, err_text(err));
        } else {
            take_text(s, text, len);
            mem_free(text);
        }
    }
}

/* What cannot be encoded (rows that are too long for a message) is answered as
 * failed instead. */
static enum err encode(const struct msg *m, char **text, size_t *len)
{
    struct msg instead = {.kind = MSG_FAILED, .op = m->op};
    enum err err = msg_encode(m, text, len);

    if (!err || err == ERR_NOMEM || m->kind != MSG_DONE)
        return err;
    instead.failed.branch = m->done.branch;
    instead.failed.code = err;
    snprintf(instead.failed.reason, sizeof(instead.failed.reason),
             "the answer cannot be sent: %s", err_text(err));
    return msg_encode(&instead, text, len);
}

static void send_all(struct server *s)
{
    struct msg m;

    s->blocked = false;
    while (!s->blocked && node_peek(s->node, &m)) {
        char *text = NULL;
        size_t len;
        enum err err = encode(&m, &text, &len);

        if (!err)
            err = node_link_send(&s->link, text, len);
        mem_free(text);
        s->blocked = err == ERR_AGAIN;
        if (err && !s->blocked) {
            end_with(s, NODE_END_FAILED, err, "cannot send a message");
            return;
        }
        if (!s->blocked) {
            node_pop(s->node, &m);
            msg_deinit(&m);
        }
    }
}

/* ---- beats --------------------------------------------------------------- */

static void beat(struct server *s)
{
    struct mlt_ps *ps = s->host ? host_ps(s->host) : NULL;
    struct msg_beat m;

    if (ps && !s->slice && !s->job.running)
        pulse_look(&s->pulse, ps);
    m = pulse_beat(&s->pulse, ps);
    m.node = s->o->node;
    m.workers = ps ? mlt_ps_workers(ps) / ps_nodes(ps) : 0;
    m.bytes_sent = s->link.bytes_sent;
    m.bytes_received = s->link.bytes_received;
    node_beat(s->node, &m);
}

/* ---- slow operations ----------------------------------------------------- */

static void run_errand(void *arg)
{
    struct errand *e = arg;
    struct fault *f = &e->result.fault;

    if (e->kind == MSG_CONFIG)
        host_open(&e->config, &e->host, f);
    else if (e->kind == MSG_SAVE)
        host_save(e->host, e->path.branch, e->path.path, &e->result.bytes,
                  &e->result.data, f);
    else
        ps_restore(host_ps(e->host), e->path.branch, e->path.path, f);
}

static const struct mlt_app_ops *find_app(const struct server *s,
                                          const json_t *config, struct fault *f)
{
    const char *name = json_string_value(json_at(config, "/app/name"));
    const struct registry_entry *e =
        name ? registry_find(s->o->registry, REGISTRY_APP, name) : NULL;
    char names[256];

    if (e)
        return e->ops;
    fault_set(
        f, ERR_INVAL, "/app/name: there is no application %s; there are %s",
        name ? name : "without a name",
        registry_names(s->o->registry, REGISTRY_APP, names, sizeof(names)));
    return NULL;
}

/* Copies what the thread needs: the message may move meanwhile. */
static enum err prepare_load(struct server *s, const struct msg_config *m,
                             struct fault *f)
{
    struct errand *e = &s->errand;
    const struct mlt_app_ops *app = find_app(s, m->config, f);

    if (!app)
        return ERR_INVAL;
    e->held.kind = MSG_CONFIG;
    e->held.config.config = json_deep_copy(m->config);
    e->held.config.folder = mem_strdup(m->folder);
    if (!e->held.config.config || !e->held.config.folder)
        return fault_set(f, ERR_NOMEM, "no memory for the configuration");
    e->config = (struct host_config){.app = app,
                                     .config = e->held.config.config,
                                     .folder = e->held.config.folder,
                                     .seed = m->seed,
                                     .node = s->o->node,
                                     .meet = s->o->meet,
                                     .listen = s->o->listen};
    return ERR_OK;
}

static void finish_load(struct server *s);

static void start_errand(struct server *s, const struct msg *m)
{
    struct errand *e = &s->errand;
    enum err err = ERR_OK;

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
                                             [MLT_EXP_MEAN] = "exp_mean"};
    struct msg_ready m = {
        .samples = x->info.samples,
        .validation_samples = x->info.metric ? x->info.validation_samples : 0,
        .parts = x->order.parts,
        .workers = x->order.workers,
        .tunables = tunables,
        .metric_higher_better = x->info.metric_higher_better != 0,
        .loss_floor = x->info.loss_floor,
        .model_bytes = x->branch_bytes,
    };

    snprintf(m.metric, sizeof(m.metric), "%s",
             x->info.metric ? x->info.metric : "");
    snprintf(m.metric_reduction, sizeof(m.metric_reduction), "%s",
             reductions[x->info.metric_reduction]);
    return m;
}

static enum err tell_ready(struct server *s)
{
    const struct host_facts *x = host_facts(s->host);
    json_t *tunables = host_tunables(s->host);
    struct node_model model = {.branches_max = x->branches_max,
                               .many = ps_nodes(host_ps(s->host)) > 1,
                               .defaults = x->defaults,
                               .tunables = x->app->tunables};
    enum err err;

    model.ready = ready_of(s->host, tunables);
    model.ready.tables = host_tables(s->host);
    err = tunables && model.ready.tables ? node_loaded(s->node, &model)
                                         : ERR_NOMEM;
    if (err) {
        json_decref(tunables);
        json_decref(model.ready.tables);
    }
    return err;
}

static void finish_load(struct server *s)
{
    struct errand *e = &s->errand;
    struct fault *f = &e->result.fault;

    msg_deinit(&e->held);
    s->host = e->host;
    if (!f->code && tell_ready(s) == ERR_OK) {
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
    log_event(LOG_ERROR, "load_failed", "code=%s reason=\"%s\"",
              err_name(f->code), f->text);
    node_load_failed(s->node, f);
    end_with(s, NODE_END_LOAD_FAILED, f->code, f->text);
}

static void errand_done(struct server *s)
{
    struct errand *e = &s->errand;

    job_end(&s->job);
    if (e->kind == MSG_SAVE) /* what the run has come to, before its end */
        beat(s);
    if (e->kind == MSG_CONFIG)
        finish_load(s);
    else
        node_finish(s->node, e->op, &e->result);
}

/* ---- slices -------------------------------------------------------------- */

/* Windows that are complete and not yet reported. Where memory is out they wait
 * for the next time. */
static enum err report_windows(struct server *s)
{
    uint32_t more = host_slice_windows(s->host) - s->reported;
    const struct msg_window *windows;
    enum err err;

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

static void begin_slice(struct server *s, const struct node_task *task)
{
    const struct msg_schedule *m = &task->msg->schedule;
    struct host_slice slice = {m->branch, task->type, task->setting, m->count,
                               m->report_every};
    struct node_result r = {0};
    op_id op = task->msg->op;

    if (host_slice_begin(s->host, &slice, &r.fault) != ERR_OK) {
        if (r.fault.code == ERR_NODE)
            end_with(s, NODE_END_FAILED, ERR_NODE, r.fault.text);
        else
            node_finish(s->node, op, &r);
        return;
    }
    s->slice = op;
    if (node_cut_due(s->node))
        host_slice_cut(s->host);
    s->reported = 0;
    s->report_at = clock_monotonic() + REPORT_NS;
}

static void end_glance(struct server *s);

static void slice_done(struct server *s)
{
    struct node_result r = {0};
    struct host_result result;
    op_id op = s->slice;

    host_slice_end(s->host, &result, &r.fault);
    end_glance(s);
    r.broken = r.fault.code != ERR_OK;
    r.clocks = result.clocks;
    r.switch_s = result.switch_s;
    pulse_slice(&s->pulse, host_ps(s->host), &r.wire);
    if (report_windows(s) != ERR_OK) {
        /* `done` without the windows it counts would be a lie. */
        end_with(s, NODE_END_FAILED, ERR_NOMEM, "no memory for a report");
        return;
    }
    s->slice = 0;
    if (r.fault.code == ERR_NODE) { /* nothing can be run here any more */
        end_with(s, NODE_END_FAILED, ERR_NODE, r.fault.text);
        return;
    }
    node_finish(s->node, op, &r);
    pulse_look(&s->pulse, host_ps(s->host));
}

/* ---- snapshots ----------------------------------------------------------- */

/* What is written is a fork of our own, so that the branch may be freed
 * meanwhile. */

static void begin_snapshot(struct server *s, const struct msg *m)
{
    struct mlt_ps *ps = host_ps(s->host);
    struct node_result r = {0};
    enum err err;

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
static void snapshot_done(struct server *s)
{
    struct node_result r = {0};
    op_id op = s->snapshot;

    ps_snapshot_end(host_ps(s->host), &r.bytes, &r.fault);
    s->snapshot = 0;
    s->snapshot_over = true;
    s->snapshot_dir[0] = '\0';
    node_finish(s->node, op, &r);
}

static void drop_snapshot(struct server *s)
{
    if (s->snapshot_over)
        ps_drop(host_ps(s->host), NODE_OWN_BRANCH);
    s->snapshot_over = false;
}

/* ---- rows ---------------------------------------------------------------- */

/* While a slice runs: what can be read between two of its clocks. True: one was
 * refused, and the next may be looked at. */
static bool begin_glance(struct server *s)
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
static void end_glance(struct server *s)
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
static void do_rows(struct server *s, const struct node_task *task,
                    struct node_result *r)
{
    const struct msg_rows *m = &task->msg->rows;

    if (m->increment &&
        host_set_rates(s->host, task->setting, &r->fault) != ERR_OK)
        return;
    node_rows_carry_out(host_ps(s->host), m, &r->data, &r->fault);
}

/* ---- carrying out -------------------------------------------------------- */

static void do_at_once(struct server *s, const struct node_task *task)
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

/* Starts and carries out until something takes its time; where that is a slice,
 * what can be read meanwhile, which may have come with it. */
static void carry_out(struct server *s)
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

/* ---- waiting ------------------------------------------------------------- */

static void take_time(struct server *s)
{
    time_ns now = clock_monotonic();

    if (now >= s->beat_at) {
        beat(s);
        s->beat_at = now + BEAT_NS;
    }
    if (s->slice && now >= s->report_at) {
        report_windows(s);
        s->report_at = now + REPORT_NS;
    }
    node_link_watch(&s->link);
    if (node_link_lost(&s->link, now))
        end_with(s, NODE_END_LOST, ERR_NODE, "the tuner cannot be reached");
}

static void take_signal(struct server *s)
{
    struct signalfd_siginfo info;

    if (read(s->o->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    s->signal = (int)info.ssi_signo;
    end_with(s, NODE_END_SIGNAL, ERR_CANCELED, "ended by a signal");
}

static long timeout_ms(const struct server *s)
{
    time_ns at = s->beat_at, left;

    if (s->slice && s->report_at < at)
        at = s->report_at;
    if (!s->link.connected && s->link.deadline < at)
        at = s->link.deadline;
    left = at - clock_monotonic();
    return left <= 0 ? 0 : (long)((left + MS - 1) / MS);
}

static void wait_and_take(struct server *s)
{
    zmq_pollitem_t item[ITEMS_MAX] = {
        {.socket = s->link.dealer,
         .events = (short)(ZMQ_POLLIN | (s->blocked ? ZMQ_POLLOUT : 0))},
        {.socket = s->link.monitor, .events = ZMQ_POLLIN},
        {.fd = s->o->signal_fd, .events = ZMQ_POLLIN},
    };
    int n = 3, slice = 0, job = 0, snapshot = 0, glance = 0;

    if (s->slice)
        item[slice = n++] = (zmq_pollitem_t){.fd = host_slice_fd(s->host),
                                             .events = ZMQ_POLLIN};
    if (s->glance.op)
        item[glance = n++] = (zmq_pollitem_t){
            .fd = live_read_fd(host_glance(s->host)), .events = ZMQ_POLLIN};
    if (s->job.running)
        item[job = n++] =
            (zmq_pollitem_t){.fd = s->job.fd, .events = ZMQ_POLLIN};
    if (s->snapshot && !s->job.running)
        item[snapshot = n++] = (zmq_pollitem_t){
            .fd = ps_snapshot_fd(host_ps(s->host)), .events = ZMQ_POLLIN};
    if (zmq_poll(item, n, timeout_ms(s)) < 0)
        return;
    if (item[2].revents)
        take_signal(s);
    if (glance && item[glance].revents)
        end_glance(s);
    if (slice && item[slice].revents)
        slice_done(s);
    if (job && item[job].revents)
        errand_done(s);
    if (snapshot && item[snapshot].revents)
        snapshot_done(s);
    receive_some(s);
    if (node_phase(s->node) == NODE_STOPPED)
        end_with(s, NODE_END_STOPPED, ERR_OK, NULL);
    if (s->slice && node_cut_due(s->node))
        host_slice_cut(s->host);
}

/* ---- the process --------------------------------------------------------- */

/* A parent that wants to be survived by nothing said SIGKILL; we remove files
 * first. Where nobody asked for a signal, none is. */
static void soften_parent_death(void)
{
    int wanted = 0;

    if (prctl(PR_GET_PDEATHSIG, &wanted) == 0 && wanted == SIGKILL)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static enum err set_up(struct server *s)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct msg_hello hello = {PROTO_VERSION, s->o->node,
                              cores > 0 ? (uint32_t)cores : 1, getpid()};
    enum err err =
        node_link_open(&s->link, s->o->endpoint, s->o->node, s->fault);

    if (!err)
        err = job_open(&s->job, s->fault);
    if (!err && node_new(&hello, &s->node) != ERR_OK)
        err = fault_set(s->fault, ERR_NOMEM, "no memory for a node");
    s->beat_at = clock_monotonic() + BEAT_NS;
    return err;
}

static void tear_down(struct server *s)
{
    if (s->garbage > 1)
        log_event(LOG_WARN, "messages_ignored", "count=%llu",
                  (unsigned long long)s->garbage);
    host_close(s->host);
    node_free(s->node);
    job_close(&s->job);
    node_link_close(&s->link);
}

/* Work that cannot be ended ends with the process, and what it was writing
 * goes. */
_Noreturn static void leave_at_once(struct server *s)
{
    char dir[PROTO_PATH_MAX + 32];

    log_event(LOG_WARN, "left_at_once", "working_on=%s",
              s->slice         ? "slice"
              : s->job.running ? msg_kind_name(s->errand.kind)
                               : "snapshot");
    if (s->job.running && s->errand.kind == MSG_SAVE)
        folder_sweep(s->errand.path.path);
    if (s->snapshot) {
        if (ps_nodes(host_ps(s->host)) > 1)
            snprintf(dir, sizeof(dir), "%s/node-%u.tmp", s->snapshot_dir,
                     s->o->node);
        else
            snprintf(dir, sizeof(dir), "%s.tmp", s->snapshot_dir);
        folder_remove(dir, NULL);
    }
    _exit(node_exit_code(s->end, s->signal));
}

enum node_end node_serve(const struct node_options *options, int *signal,
                         struct fault *f)
{
    struct fault own = {0};
    struct server s = {.o = options, .job.fd = -1, .fault = f ? f : &own};

    soften_parent_death();
    if (set_up(&s) != ERR_OK) {
        s.over = true;
        s.end = NODE_END_FAILED;
    }
    while (!s.over) {
        carry_out(&s);
        send_all(&s);
        if (!s.over)
            wait_and_take(&s);
        take_time(&s);
    }
    if (s.node)
        send_all(&s);
    if (!end_work(&s))
        leave_at_once(&s);
    *signal = s.signal;
    tear_down(&s);
    return s.end;
}
