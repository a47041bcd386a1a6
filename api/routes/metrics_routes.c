#include "api/routes/metrics_routes.h"

#include "api/view/view.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A run's figures, copied under the lock. */
struct figures {
    char run[RECORD_NAME_MAX], name[RECORD_NAME_MAX];
    char app[RECORD_NAME_MAX], strategy[RECORD_NAME_MAX];
    char searcher[RECORD_NAME_MAX];
    enum run_status status;
    double clocks, records, resumes, searches, trials, branches, live, epochs;
    double seconds, tuning_s, paused_s;
    double loss, best_loss, best_metric; /* NAN: not there */
    bool waits;                          /* in a service's queue */
    bool elsewhere; /* its status is one that only the service knows */
};

static void copy_figures(struct figures *f, const struct view_run *run)
{
    const struct history *h = run->history;
    const struct history_epoch *best = history_best_epoch(h);

    memset(f, 0, sizeof(*f));
    memcpy(f->run, run->id, sizeof(f->run));
    memcpy(f->name, run->name, sizeof(f->name));
    memcpy(f->app, h->run.app, sizeof(f->app));
    memcpy(f->strategy, h->run.strategy, sizeof(f->strategy));
    memcpy(f->searcher, h->run.searcher, sizeof(f->searcher));
    f->status = h->status;
    f->clocks = (double)h->clocks;
    f->records = (double)h->records;
    f->resumes = h->resumes;
    f->searches = (double)history_searches_made(h);
    f->trials = (double)history_trials_made(h);
    f->branches = (double)(h->branches + h->branches_dropped);
    for (size_t i = 0; i < h->branches; i++)
        f->live += isnan(h->branch[i].freed_at_s);
    f->epochs = history_epochs(h);
    f->seconds = isnan(h->first_clock_at_s) ? 0 : h->at_s - h->first_clock_at_s;
    f->tuning_s = history_tuning(h).seconds;
    f->paused_s = history_paused(h);
    f->loss = history_loss(h);
    f->best_loss = best ? best->e.loss : NAN;
    f->waits = run->job.waits;
    f->elsewhere = run->job.status[0];
    f->best_metric = best && h->run.metric[0] ? best->e.metric : NAN;
}

/* ---- text ---------------------------------------------------------------- */

/* A label's value: UTF-8, with \, " and line feeds escaped. */
static void put_label(struct text *t, const char *name, const char *value)
{
    char clean[RECORD_NAME_MAX];

    snprintf(clean, sizeof(clean), "%s", value);
    text_clean(clean); /* no control characters after that */
    text_printf(t, "%s=\"", name);
    for (const char *c = clean; *c; c++) {
        if (*c == '\\' || *c == '"')
            text_puts(t, "\\");
        text_add(t, c, 1);
    }
    text_puts(t, "\"");
}

static void put_head(struct text *t, const char *name, const char *type,
                     const char *help)
{
    text_printf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_info(struct text *t, const struct figures f[], size_t n)
{
    put_head(t, "mltune_run_info", "gauge", "What a run is; always 1.");
    for (size_t i = 0; i < n; i++) {
        text_puts(t, "mltune_run_info{");
        put_label(t, "run", f[i].run);
        text_puts(t, ",");
        put_label(t, "name", f[i].name);
        text_puts(t, ",");
        put_label(t, "app", f[i].app);
        text_puts(t, ",");
        put_label(t, "strategy", f[i].strategy);
        text_puts(t, ",");
        put_label(t, "searcher", f[i].searcher);
        text_puts(t, "} 1\n");
    }
}

static void put_status(struct text *t, const struct figures f[], size_t n)
{
    put_head(t, "mltune_run_status", "gauge",
             "1 for the status that the run has, 0 for the others.");
    for (size_t i = 0; i < n; i++)
        for (unsigned s = 0; s < RUN_STATUS_COUNT; s++) {
            text_puts(t, "mltune_run_status{");
            put_label(t, "run", f[i].run);
            text_printf(t, ",status=\"%s\"} %d\n",
                        run_status_name((enum run_status)s),
                        f[i].status == (enum run_status)s && !f[i].elsewhere);
        }
}

static void put_queue(struct text *t, const struct figures f[], size_t n)
{
    size_t waiting = 0;

    for (size_t i = 0; i < n; i++)
        waiting += f[i].waits;
    put_head(t, "mltune_service_runs", "gauge", "Runs that are listed.");
    text_printf(t, "mltune_service_runs %zu\n", n);
    put_head(t, "mltune_service_queue_runs", "gauge",
             "Runs that wait in the queue.");
    text_printf(t, "mltune_service_queue_runs %zu\n", waiting);
}

/* One figure of every run. */
struct figure {
    const char *name, *type, *help;
    size_t offset;
};

#define FIGURE(name, type, member, help)                                       \
    {                                                                          \
        name, type, help, offsetof(struct figures, member)                     \
    }

static const struct figure figures[] = {
    FIGURE("mltune_run_seconds_total", "counter", seconds,
           "Wall time from the run's first clock, pauses included."),
    FIGURE("mltune_run_tuning_seconds_total", "counter", tuning_s,
           "Of that, spent on searching for settings."),
    FIGURE("mltune_run_paused_seconds_total", "counter", paused_s,
           "Time in which the user had paused the run."),
    FIGURE("mltune_run_clocks_total", "counter", clocks,
           "Clocks run, over all branches."),
    FIGURE("mltune_run_records_total", "counter", records,
           "Records in the run's journal."),
    FIGURE("mltune_run_resumes_total", "counter", resumes,
           "How often the run went on from a snapshot."),
    FIGURE("mltune_run_searches_total", "counter", searches,
           "Rounds of trials."),
    FIGURE("mltune_run_trials_total", "counter", trials, "Settings tried."),
    FIGURE("mltune_run_branches_total", "counter", branches,
           "Branches made of the training state."),
    FIGURE("mltune_run_branches_live", "gauge", live,
           "Branches that are not freed."),
    FIGURE("mltune_run_epochs", "gauge", epochs,
           "Epochs of the surviving lineage."),
    FIGURE("mltune_run_loss", "gauge", loss, "The newest training loss."),
    FIGURE("mltune_run_best_loss", "gauge", best_loss,
           "Training loss of the best epoch."),
    FIGURE("mltune_run_best_metric", "gauge", best_metric,
           "Validation metric of the best epoch."),
};

static double value_of(const struct figures *f, const struct figure *what)
{
    double value;

    memcpy(&value, (const char *)f + what->offset, sizeof(value));
    return value;
}

/* The end of a line: a number as Prometheus reads it. */
static void put_number(struct text *t, double value)
{
    char number[TEXT_NUMBER_MAX];

    text_real(value, number);
    text_printf(t, "%s\n",
                isnan(value)   ? "NaN"
                : isinf(value) ? value < 0 ? "-Inf" : "+Inf"
                               : number);
}

static void put_figure(struct text *t, const struct figure *what,
                       const struct figures f[], size_t n)
{
    put_head(t, what->name, what->type, what->help);
    for (size_t i = 0; i < n; i++) {
        double value = value_of(&f[i], what);

        if (isnan(value))
            continue;
        text_printf(t, "%s{", what->name);
        put_label(t, "run", f[i].run);
        text_puts(t, "} ");
        put_number(t, value);
    }
}

/* ---- nodes --------------------------------------------------------------- */

/* The figures of the nodes of a run that has not ended. */
struct node_figures {
    char run[RECORD_NAME_MAX];
    unsigned node;
    double up, workers, memory, limit;
    double device, device_limit, device_in, device_out, device_waits;
    double work_s, wait_s, copy_s, stalled_s, budget_s;
    double sent, received, ignored, updated, got;
};

struct run_reads {
    char run[RECORD_NAME_MAX];
    struct staleness seen;
};

static void copy_node(struct node_figures *f, const char *run, size_t node,
                      const struct node_past *past)
{
    struct msg_beat b = nodes_total(past);

    *f = (struct node_figures){
        .node = (unsigned)node,
        .up = past->alive,
        .workers = b.workers,
        .memory = (double)b.memory_bytes,
        .limit = (double)b.memory_limit_bytes,
        .device = (double)b.device_bytes,
        .device_limit = (double)b.device_limit_bytes,
        .device_in = (double)b.device_bytes_in,
        .device_out = (double)b.device_bytes_out,
        .device_waits = (double)b.device_waits,
        .work_s = fmax(b.seconds - b.wait_s, 0),
        .wait_s = b.wait_s,
        .copy_s = b.copy_s,
        .stalled_s = b.stalled_s,
        .budget_s = b.client_wait_s + b.server_wait_s,
        .sent = (double)b.data_bytes_sent,
        .received = (double)b.data_bytes_received,
        .ignored = (double)b.data_frames_ignored,
        .updated = (double)b.rows_updated,
        .got = (double)b.rows_got,
    };
    memcpy(f->run, run, sizeof(f->run));
}

#define NODE_FIGURE(name, type, member, help)                                  \
    {                                                                          \
        name, type, help, offsetof(struct node_figures, member)                \
    }

static const struct figure node_figures[] = {
    NODE_FIGURE("mltune_node_up", "gauge", up,
                "1 for a node that has been heard of since it was started."),
    NODE_FIGURE("mltune_node_workers", "gauge", workers, "Worker threads."),
    NODE_FIGURE("mltune_node_memory_bytes", "gauge", memory,
                "Memory of branches, in use."),
    NODE_FIGURE("mltune_node_memory_limit_bytes", "gauge", limit,
                "Memory that branches may use."),
    NODE_FIGURE("mltune_node_device_memory_bytes", "gauge", device,
                "Memory taken of the node's GPU; 0: it uses none."),
    NODE_FIGURE("mltune_node_device_memory_limit_bytes", "gauge", device_limit,
                "Memory that may be taken of it."),
    NODE_FIGURE("mltune_node_device_in_bytes_total", "counter", device_in,
                "Bytes of tables copied to the GPU."),
    NODE_FIGURE("mltune_node_device_out_bytes_total", "counter", device_out,
                "Bytes of tables copied from the GPU."),
    NODE_FIGURE("mltune_node_device_waits_total", "counter", device_waits,
                "Times that a table was used and not on its way to the GPU."),
    NODE_FIGURE("mltune_node_work_seconds_total", "counter", work_s,
                "Time of slices in which workers computed."),
    NODE_FIGURE("mltune_node_wait_seconds_total", "counter", wait_s,
                "Time of slices in which workers waited for others."),
    NODE_FIGURE("mltune_node_copy_seconds_total", "counter", copy_s,
                "Time spent on copying what branches share."),
    NODE_FIGURE("mltune_node_stalled_seconds_total", "counter", stalled_s,
                "Time in which the machine stood still."),
    NODE_FIGURE("mltune_node_budget_wait_seconds_total", "counter", budget_s,
                "Time in which a frame waited for the bandwidth budget."),
    NODE_FIGURE("mltune_node_sent_bytes_total", "counter", sent,
                "Bytes sent to other nodes."),
    NODE_FIGURE("mltune_node_received_bytes_total", "counter", received,
                "Bytes received from other nodes."),
    NODE_FIGURE("mltune_node_ignored_frames_total", "counter", ignored,
                "Frames that did not belong and were ignored."),
    NODE_FIGURE("mltune_node_updated_rows_total", "counter", updated,
                "Rows with sums that workers handed over."),
    NODE_FIGURE("mltune_node_received_rows_total", "counter", got,
                "Rows with values that came, asked for or not."),
};

static void put_node_figure(struct text *t, const struct figure *what,
                            const struct node_figures f[], size_t n)
{
    put_head(t, what->name, what->type, what->help);
    for (size_t i = 0; i < n; i++) {
        double value;

        memcpy(&value, (const char *)&f[i] + what->offset, sizeof(value));
        text_printf(t, "%s{", what->name);
        put_label(t, "run", f[i].run);
        text_printf(t, ",node=\"%u\"} ", f[i].node);
        put_number(t, value);
    }
}

/* Clocks below its own that a read missed, which are those of the histogram
 * (base/proto/staleness.h) the other way round: -1 is 0, -4 is 3. */
static void put_reads_of(struct text *t, const struct run_reads *r)
{
    static const int le[] = {0, 1, 2, 3, 5, 7, 15, 30};
    uint64_t reads = 0;
    double sum = 0;

    for (size_t i = 0; i < sizeof(le) / sizeof(*le); i++) {
        int missed = i ? le[i - 1] + 1 : -1 - STALENESS_MOST;

        for (; missed <= le[i]; missed++) {
            uint64_t n = staleness_at(&r->seen, -1 - missed);

            reads += n;
            sum += (double)n * (missed > 0 ? missed : 0);
        }
        text_puts(t, "mltune_run_read_missed_clocks_bucket{");
        put_label(t, "run", r->run);
        text_printf(t, ",le=\"%d\"} %llu\n", le[i], (unsigned long long)reads);
    }
    sum += (double)(r->seen.reads - reads) * (le[7] + 1);
    text_puts(t, "mltune_run_read_missed_clocks_bucket{");
    put_label(t, "run", r->run);
    text_printf(t, ",le=\"+Inf\"} %llu\n", (unsigned long long)r->seen.reads);
    text_puts(t, "mltune_run_read_missed_clocks_sum{");
    put_label(t, "run", r->run);
    text_puts(t, "} ");
    put_number(t, sum);
    text_puts(t, "mltune_run_read_missed_clocks_count{");
    put_label(t, "run", r->run);
    text_printf(t, "} %llu\n", (unsigned long long)r->seen.reads);
}

/* The figures of all nodes of runs that have not ended. */
struct cluster_figures {
    struct node_figures *node; /* owned */
    struct run_reads *reads;   /* owned; of runs whose reads are counted */
    size_t nodes, nodes_cap, runs, runs_cap;
};

/* False: out of memory. */
static bool copy_cluster(struct cluster_figures *c, const struct view_run *run)
{
    const struct nodes *nodes = &run->history->nodes;
    struct staleness seen;

    if (run->history->finished)
        return true;
    if (mem_grow((void **)&c->node, &c->nodes_cap, sizeof(*c->node),
                 c->nodes + nodes->count) ||
        mem_grow((void **)&c->reads, &c->runs_cap, sizeof(*c->reads),
                 c->runs + 1))
        return false;
    for (size_t i = 0; i < nodes->count; i++)
        copy_node(&c->node[c->nodes++], run->id, i, &nodes->node[i]);
    seen = nodes_staleness(nodes);
    if (seen.reads == 0)
        return true;
    memcpy(c->reads[c->runs].run, run->id, sizeof(run->id));
    c->reads[c->runs++].seen = seen;
    return true;
}

static void put_cluster(struct text *t, const struct cluster_figures *c)
{
    for (size_t i = 0; i < sizeof(node_figures) / sizeof(*node_figures); i++)
        put_node_figure(t, &node_figures[i], c->node, c->nodes);
    put_head(t, "mltune_run_read_missed_clocks", "histogram",
             "Clocks before its own whose updates a read may have missed.");
    for (size_t i = 0; i < c->runs; i++)
        put_reads_of(t, &c->reads[i]);
}

static char *write_metrics(const struct figures f[], size_t n,
                           const struct cluster_figures *c, bool service)
{
    struct text t = {0};

    put_head(&t, "mltune_build_info", "gauge", "The program; always 1.");
    text_puts(&t, "mltune_build_info{version=\"" MLT_VERSION "\"} 1\n");
    if (service)
        put_queue(&t, f, n);
    put_info(&t, f, n);
    put_status(&t, f, n);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        put_figure(&t, &figures[i], f, n);
    put_cluster(&t, c);
    return text_take(&t);
}

void handle_metrics(const struct route_call *call, struct response *out)
{
    struct cluster_figures c = {0};
    struct figures *f = NULL;
    const struct view_run *run;
    size_t n = 0, capacity = 0;
    bool no_memory = false;
    char *text;

    view_lock(call->view);
    while (!no_memory && (run = view_run_at(call->view, n))) {
        no_memory = mem_grow((void **)&f, &capacity, sizeof(*f), n + 1) != 0;
        if (!no_memory)
            copy_figures(&f[n++], run);
        no_memory = no_memory || !copy_cluster(&c, run);
    }
    view_unlock(call->view);
    text = no_memory ? NULL
                     : write_metrics(f, n, &c,
                                     view_options(call->view)->desk != NULL);
    mem_free(c.node);
    mem_free(c.reads);
    mem_free(f);
    if (text)
        response_text(out, 200, "text/plain; version=0.0.4; charset=utf-8",
                      text, strlen(text));
    else
        response_json(out, 200, NULL); /* 503 */
}
