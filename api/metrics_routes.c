#include "api/metrics_routes.h"

#include "api/view.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is shown of a run, copied under the lock. */
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
    f->searches = (double)h->searches;
    f->trials = (double)h->trials;
    f->branches = (double)h->branches;
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
        if (isinf(value))
            text_printf(t, "} %sInf\n", value < 0 ? "-" : "+");
        else
            text_printf(t, "} %.17g\n", value);
    }
}

static char *write_metrics(const struct figures f[], size_t n, bool service)
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
    return text_take(&t);
}

void handle_metrics(const struct route_call *call, struct response *out)
{
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
    }
    view_unlock(call->view);
    text = no_memory
               ? NULL
               : write_metrics(f, n, view_options(call->view)->desk != NULL);
    mem_free(f);
    if (text)
        response_text(out, 200, "text/plain; version=0.0.4; charset=utf-8",
                      text, strlen(text));
    else
        response_json(out, 200, NULL); /* 503 */
}
