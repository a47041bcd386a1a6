#include "api/routes/run_routes.h"

#include "api/http/value.h"
#include "api/routes/command_routes.h"
#include "api/routes/given_io.h"
#include "api/view/list.h"
#include "api/view/notes.h"
#include "api/view/view.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const struct shape run_shapes[] = {
    {"runs", "runs:[run]" SHAPE_PAGE},
    {"run",
     "run:s name:s status:@run_status status_reason:s? "
     "reason:@end_reason? message:s? "
     "last_words:a? last_words_node:i? values:[run_value] queue:o? "
     "tags:a note:s? "
     "seed:i? job:@job? "
     "clock:i clocks:i "
     "epochs:i loss:n? "
     "last_epoch:@epoch_brief? best:@epoch_brief? setting:o? branch:i? "
     "branches:@branch_counts tuning:@tuning stop:@stop? "
     "model:s? model_info:@model_info? snapshot:@snapshot? state:s? seconds:n "
     "paused_seconds:n started_at:t? first_clock_at:t? updated_at:t? "
     "finished_at:t?"},
    {"run_value", "name:s training:n? validation:n? best:n?"},
    {"job", "app:s samples:i validation_samples:i workers:i metric:@metric?"},
    {"data_summary", "run:s data:o?"},
    {"metric", "name:s higher_is_better:b"},
    {"epoch_brief", "epoch:i loss:n metric:n? clock:i setting:o ended_at:t?"},
    {"branch_counts", "total:i live:i"},
    {"tuning", "strategy:s? searcher:s? searches:i anew:i trials:i failed:i "
               "failed_reason:s? clocks:i seconds:n waiting_seconds:n? "
               "warm_start:s? searcher_failed:s?"},
    {"model_info", "epoch:i loss:n metric:n? bytes:i"},
    {"snapshot", "path:s epoch:i"},
    {"result",
     "run:s status:@run_status reason:s last_words?:a last_words_node?:i "
     "loss:n? metric:n? best:o model:s? "
     "epochs:i clocks:i seconds:n paused_seconds:n tuning:o "
     "setting:o schedule:a strategy:s searcher:s seed:i state:s? "
     "url:s?"},
    {"progress", "branch:i lineage:b points:[point] next_after:i"},
    {"point", "branch:i branch_clock:i clock:i elapsed_seconds:n loss?:n "
              "metric?:n samples:i "
              "clocks:i seconds:n"},
    {NULL, NULL},
};

/* ---- runs ---------------------------------------------------------------- */

/* A run as it is shown, copied under the lock; JSON members referenced. */
struct run_copy {
    char id[RECORD_NAME_MAX], name[RECORD_NAME_MAX];
    bool started, finished, has_last, has_best;
    char warm_start[RECORD_TEXT_MAX], searcher_failed[RECORD_TEXT_MAX];
    struct record_run_started run;
    enum run_status status;
    char status_reason[RECORD_TEXT_MAX];
    struct record_run_finished end;
    struct record_limits limits;
    double at_s, first_clock_at_s, loss, paused_s;
    clock_no clock;
    uint64_t clocks;
    uint32_t epochs;
    struct history_epoch last, best;
    struct extras extras; /* further metrics; and of each the latest in
                           * training, of the last epoch, of the best one */
    double extra[3][EXTRAS_MAX];
    json_t *words;    /* the last of what failed; JSON null: none */
    json_t *setting;  /* in use; JSON null before one is chosen */
    branch_id branch; /* the surviving lineage's tip; BRANCH_NONE before */
    size_t searches, trials, branches, live;
    struct history_tuning tuning;
    struct list_scope scope;
    struct view_job job;
    json_t *notes; /* NULL: none */
    bool has_snapshot;
    char snapshot[RECORD_PATH_MAX], model[RECORD_PATH_MAX];
    uint32_t snapshot_epoch, model_epoch;
    double model_loss, model_metric;
    uint64_t model_bytes;
    const char *state; /* of the view's options; NULL */
};

static void copy_epochs(struct run_copy *c, const struct history *h)
{
    const struct history_epoch *last = history_last_epoch(h);
    const struct history_epoch *best = history_best_epoch(h);

    c->has_last = last != NULL;
    c->has_best = best != NULL;
    if (last) {
        c->last = *last;
        c->last.e.setting = history_epoch_setting(h, last);
    }
    if (best) {
        c->best = *best;
        c->best.e.setting = history_epoch_setting(h, best);
    }
}

static void copy_counts(struct run_copy *c, const struct history *h)
{
    size_t i;

    assert(c->live == 0);
    c->searches = history_searches_made(h);
    c->trials = history_trials_made(h);
    c->branches = h->branches + h->branches_dropped;
    for (i = 0; i < h->branches; i++)
        c->live += isnan(h->branch[i].freed_at_s);
    c->tuning = history_tuning(h);
    snprintf(c->warm_start, sizeof(c->warm_start), "%s", history_warm_start(h));
    snprintf(c->searcher_failed, sizeof(c->searcher_failed), "%s",
             history_searcher_failed(h));
}

/* The latest value of a metric in the lineage. */
static double latest_extra(const struct history *h, size_t metric)
{
    const struct history_branch *b = history_branch(h, history_tip(h));

    for (; b; b = b->parent < b->branch ? history_branch(h, b->parent) : NULL)
        for (size_t i = b->points; i > 0; i--)
            if (!isnan(history_extra(b, metric, i - 1)))
                return history_extra(b, metric, i - 1);
    return NAN;
}

static void copy_extras(struct run_copy *c, const struct history *h)
{
    c->extras = h->extras;
    for (size_t k = 0; k < h->extras.len; k++) {
        c->extra[0][k] = latest_extra(h, k);
        c->extra[1][k] = c->has_last ? c->last.extra[k] : NAN;
        c->extra[2][k] = c->has_best ? c->best.extra[k] : NAN;
    }
}

static void copy_files(struct run_copy *c, const struct history *h)
{
    const struct history_snapshot *last = history_last_snapshot(h);

    c->has_snapshot = last != NULL;
    if (last) {
        memcpy(c->snapshot, last->s.path, sizeof(c->snapshot));
        c->snapshot_epoch = last->s.epoch;
    }
    memcpy(c->model, h->model.path, sizeof(c->model));
    c->model_epoch = h->model.epoch;
    c->model_loss = h->model.loss;
    c->model_metric = h->model.metric;
    c->model_bytes = h->model.bytes;
}

static void run_copy(struct run_copy *c, const struct view *view,
                     const struct view_run *run)
{
    const struct history *h = run->history;

    assert(run->history);
    assert(run->id[0]);
    memset(c, 0, sizeof(*c));
    memcpy(c->id, run->id, sizeof(c->id));
    memcpy(c->name, run->name, sizeof(c->name));
    c->started = h->started;
    c->finished = h->finished;
    c->run = h->run;
    c->status = h->status;
    memcpy(c->status_reason, h->status_reason, sizeof(c->status_reason));
    c->end = h->end;
    c->words = value_own(h->end.last_words);
    c->limits = h->limits;
    c->paused_s = history_paused(h);
    c->at_s = h->at_s;
    c->first_clock_at_s = h->first_clock_at_s;
    c->loss = history_loss(h);
    c->clock = h->clock;
    c->clocks = h->clocks;
    c->epochs = history_epochs(h);
    copy_epochs(c, h);
    c->branch = history_tip(h);
    c->setting =
        value_own(h->choices > 0 ? h->choice[h->choices - 1].c.setting : NULL);
    copy_counts(c, h);
    copy_extras(c, h);
    c->scope = list_scope(h);
    c->job = run->job;
    c->notes = json_incref(run->notes);
    c->state = view_options(view)->state;
    copy_files(c, h);
}

static void run_release(struct run_copy *c)
{
    json_decref(c->last.e.setting);
    json_decref(c->best.e.setting);
    json_decref(c->setting);
    json_decref(c->words);
    json_decref(c->notes);
}

static json_t *epoch_brief(const struct run_copy *c, bool there,
                           const struct history_epoch *epoch)
{
    assert(!there || epoch);
    if (!there)
        return json_null();
    return json_pack(
        "{s:I, s:o, s:o, s:I, s:o, s:o}", "epoch", (json_int_t)epoch->e.epoch,
        "loss", value_number(epoch->e.loss), "metric",
        c->scope.has_metric ? value_number(epoch->e.metric) : json_null(),
        "clock", (json_int_t)epoch->e.clock, "setting",
        json_incref(epoch->e.setting), "ended_at",
        list_time(&c->scope, epoch->at_s));
}

static json_t *metric_to_json(const struct run_copy *c)
{
    if (!c->scope.has_metric)
        return json_null();
    return json_pack("{s:o, s:b}", "name", value_text(c->run.metric),
                     "higher_is_better", c->run.metric_higher_better);
}

/* The training system's description of itself; null before it has come. */
static json_t *job_to_json(const struct run_copy *c)
{
    if (!c->started)
        return json_null();
    return json_pack("{s:o, s:I, s:I, s:I, s:o}", "app", value_text(c->run.app),
                     "samples", (json_int_t)c->run.samples,
                     "validation_samples",
                     (json_int_t)c->run.validation_samples, "workers",
                     (json_int_t)c->run.workers, "metric", metric_to_json(c));
}

static json_t *tuning_to_json(const struct run_copy *c)
{
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:o,"
        " s:o}",
        "strategy", value_text_or_null(c->run.strategy), "searcher",
        value_text_or_null(c->run.searcher), "searches",
        (json_int_t)c->searches, "anew", (json_int_t)c->tuning.anew, "trials",
        (json_int_t)c->trials, "failed", (json_int_t)c->tuning.failed,
        "failed_reason", value_text_or_null(c->tuning.failed_reason), "clocks",
        (json_int_t)c->tuning.clocks, "seconds",
        value_number(c->tuning.seconds), "waiting_seconds",
        c->finished ? value_number(c->end.waiting_s) : json_null(),
        "warm_start", value_text_or_null(c->warm_start), "searcher_failed",
        value_text_or_null(c->searcher_failed));
}

static json_t *model_to_json(const struct run_copy *c)
{
    if (!c->model[0])
        return json_null();
    return json_pack(
        "{s:I, s:o, s:o, s:I}", "epoch", (json_int_t)c->model_epoch, "loss",
        value_number(c->model_loss), "metric",
        c->scope.has_metric ? value_number(c->model_metric) : json_null(),
        "bytes", (json_int_t)c->model_bytes);
}

/* The files that the run has left on disk. */
static json_t *files_to_json(const struct run_copy *c)
{
    json_t *snapshot =
        !c->has_snapshot
            ? json_null()
            : json_pack("{s:o, s:I}", "path", value_text(c->snapshot), "epoch",
                        (json_int_t)c->snapshot_epoch);

    return json_pack("{s:o, s:o, s:o, s:o}", "model",
                     value_text_or_null(c->model), "model_info",
                     model_to_json(c), "snapshot", snapshot, "state",
                     value_text_or_null(c->state ? c->state : ""));
}

static json_t *times_to_json(const struct run_copy *c)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "stop",
        command_limits_to_json(&c->limits), "seconds",
        value_number(
            isnan(c->first_clock_at_s) ? 0 : c->at_s - c->first_clock_at_s),
        "paused_seconds", value_number(c->paused_s), "started_at",
        list_time(&c->scope, 0), "first_clock_at",
        list_time(&c->scope, c->first_clock_at_s), "updated_at",
        list_time(&c->scope, c->at_s), "finished_at",
        list_time(&c->scope, c->finished && !c->job.status[0] ? c->at_s : NAN));
}

/* The status: the service's where the records do not say it, else theirs. */
static const char *shown_status(const struct run_copy *c)
{
    return c->job.status[0] ? c->job.status : run_status_name(c->status);
}

/* The run's place in a service's queue; null where none looks after it. */
static json_t *queue_to_json(const struct run_copy *c)
{
    const struct view_job *job = &c->job;

    if (!job->managed)
        return json_null();
    return json_pack(
        "{s:o, s:b, s:o, s:I, s:o, s:I}", "group", value_text(job->group),
        "waits", job->waits, "submitted_at", value_time(job->submitted_unix_s),
        "workers", (json_int_t)job->workers, "memory",
        job->memory ? json_integer((json_int_t)job->memory) : json_null(),
        "attempts", (json_int_t)job->attempts);
}

static json_t *state_to_json(const struct run_copy *c)
{
    bool told = c->job.status[0];
    bool ended = c->finished && !told;

    return json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:o, s:O, s:o, s:o, s:o, s:o}", "run",
        value_text(c->id), "name", value_text(c->name), "status",
        shown_status(c), "status_reason",
        value_text_or_null(told ? c->job.reason : c->status_reason), "reason",
        ended ? value_text(c->end.reason) : json_null(), "message",
        ended ? value_text(c->end.message) : json_null(), "last_words",
        ended ? c->words : json_null(), "last_words_node",
        ended && c->end.last_words && c->end.last_words_node != UINT32_MAX
            ? json_integer(c->end.last_words_node)
            : json_null(),
        "queue", queue_to_json(c), "seed",
        c->started ? json_integer((json_int_t)c->run.seed) : json_null(), "job",
        job_to_json(c));
}

static json_t *number_if(double x)
{
    return isnan(x) ? json_null() : json_real(x);
}

static json_t *extras_to_json(const struct run_copy *c)
{
    json_t *list = json_array();

    for (size_t k = 0; list && k < c->extras.len; k++)
        if (json_array_append_new(
                list,
                json_pack("{s:s, s:o, s:o, s:o}", "name", c->extras.name[k],
                          "training", number_if(c->extra[0][k]), "validation",
                          number_if(c->extra[1][k]), "best",
                          number_if(c->extra[2][k])))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *training_to_json(const struct run_copy *c)
{
    return json_pack(
        "{s:I, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I}, s:o}",
        "clock", (json_int_t)c->clock, "values", extras_to_json(c), "clocks",
        (json_int_t)c->clocks, "epochs", (json_int_t)c->epochs, "loss",
        value_number_or_null(c->loss), "last_epoch",
        epoch_brief(c, c->has_last, &c->last), "best",
        epoch_brief(c, c->has_best, &c->best), "setting",
        json_incref(c->setting), "branch",
        c->branch == BRANCH_NONE ? json_null() : json_integer(c->branch),
        "branches", "total", (json_int_t)c->branches, "live",
        (json_int_t)c->live, "tuning", tuning_to_json(c));
}

/* @to with the members of @more; both transferred; NULL: out of memory. */
static json_t *joined(json_t *to, json_t *more)
{
    if (!to || !more || json_object_update(to, more) < 0) {
        json_decref(to);
        to = NULL;
    }
    json_decref(more);
    return to;
}

static json_t *notes_to_json(const struct run_copy *c)
{
    const json_t *tags = notes_tags(c->notes);

    return json_pack(
        "{s:o, s:o}", "tags", tags ? json_incref((json_t *)tags) : json_array(),
        "note",
        value_text_or_null(notes_text(c->notes) ? notes_text(c->notes) : ""));
}

static json_t *run_to_json(const struct run_copy *c)
{
    json_t *shown = joined(state_to_json(c), notes_to_json(c));

    return joined(joined(joined(shown, training_to_json(c)), files_to_json(c)),
                  times_to_json(c));
}

static void out_of_memory(struct response *out)
{
    response_json(out, 200, NULL);
}

void handle_run(const struct route_call *call, struct response *out)
{
    struct run_copy *c = mem_alloc(sizeof(*c));
    bool found;

    if (!c) {
        out_of_memory(out);
        return;
    }
    view_lock(call->view);
    found = list_run(call, out) != NULL;
    if (found)
        run_copy(c, call->view,
                 view_run_find(call->view, route_arg(call, "run")->text));
    view_unlock(call->view);
    if (found) {
        response_json(out, 200, run_to_json(c));
        run_release(c);
    }
    mem_free(c);
}

static json_t *config_of(const struct view *v, const struct view_run *run)
{
    (void)v;
    return value_own(run->config);
}

static json_t *data_of(const struct view *v, const struct view_run *run)
{
    (void)v;
    return json_pack("{s:o, s:o}", "run", value_text(run->id), "data",
                     value_own(run->history->data));
}

/* A service may know better than the run's own records how the run stands. */
static json_t *result_of(const struct view *v, const struct view_run *run)
{
    json_t *o =
        run->result && run->history->finished
            ? value_own(run->result)
            : history_result(run->history, view_options(v)->state, NULL);
    int failed = !o || json_object_set_new(o, "run", value_text(run->id));

    if (!failed && run->job.status[0])
        failed =
            json_object_set_new(o, "status", value_text(run->job.status)) ||
            json_object_set_new(o, "reason", value_text(run->job.reason));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* Answers with what @copy makes of the run under the lock. */
static void respond_copy(const struct route_call *call, struct response *out,
                         json_t *(*copy)(const struct view *v,
                                         const struct view_run *run))
{
    const struct view_run *run;
    json_t *o = NULL;
    bool found;

    view_lock(call->view);
    run = list_view_run(call, out);
    found = run != NULL;
    if (found)
        o = copy(call->view, run);
    view_unlock(call->view);
    if (found)
        response_json(out, 200, o);
}

void handle_config(const struct route_call *call, struct response *out)
{
    if (route_arg(call, "form")->number)
        given_respond(call, out);
    else
        respond_copy(call, out, config_of);
}

void handle_data(const struct route_call *call, struct response *out)
{
    respond_copy(call, out, data_of);
}

void handle_result(const struct route_call *call, struct response *out)
{
    respond_copy(call, out, result_of);
}

/* One run at a time, so that the lock is never held for more than one copy.
 * Runs are only ever added, at the end. */
static bool copy_run_at(struct view *v, size_t index, struct run_copy *c)
{
    const struct view_run *run;

    view_lock(v);
    run = view_run_at(v, index);
    if (run)
        run_copy(c, v, run);
    view_unlock(v);
    return run != NULL;
}

static size_t count_runs(struct view *v)
{
    size_t n = 0;

    view_lock(v);
    while (view_run_at(v, n))
        n++;
    view_unlock(v);
    return n;
}

static bool wanted(const struct route_call *call, const char *name,
                   const char *value)
{
    const struct route_arg *arg = route_arg(call, name);

    assert(name[0]);
    return !arg->given || strcmp(arg->text, value) == 0;
}

static bool matches(const struct route_call *call, const struct run_copy *c)
{
    const struct route_arg *tag = route_arg(call, "tag");

    return (!tag->given || notes_has_tag(c->notes, tag->text)) &&
           wanted(call, "status", shown_status(c)) &&
           wanted(call, "name", c->name) && wanted(call, "group", c->job.group);
}

void handle_runs(const struct route_call *call, struct response *out)
{
    struct run_copy *c = mem_alloc(sizeof(*c));
    json_t *items = json_array();
    struct page_span span;
    struct page page;
    uint64_t i, at;

    if (!page_parse(call, "runs", &page, out))
        goto done;
    span = page_span(&page, 0, count_runs(call->view));
    at = span.first;
    for (i = 0; c && i < span.count && i < page.size; i++) {
        if (copy_run_at(call->view, (size_t)at, c)) {
            if (items && matches(call, c) &&
                json_array_append_new(items, run_to_json(c)) < 0) {
                json_decref(items);
                items = NULL;
            }
            run_release(c);
        }
        at = span.step > 0 ? at + 1 : at - 1;
    }
    page_respond(&page, c ? json_incref(items) : NULL, count_runs(call->view),
                 i < span.count, at, out);
done:
    json_decref(items);
    mem_free(c);
}

/* ---- progress ------------------------------------------------------------ */

struct progress_point {
    branch_id branch;
    bool testing;
    struct history_point p;
};

/* Walks the points of branch @b, and with @lineage of those before it, newest
 * first. What an ancestor ran after the fork is not of the lineage. */
struct progress_walk {
    const struct history *h;
    const struct history_branch *b;
    size_t left; /* points of b not given yet */
    clock_no before;
    size_t hops;
    bool lineage;
};

static const struct history_point *walk_next(struct progress_walk *w)
{
    while (w->b) {
        while (w->left > 0) {
            const struct history_point *p = &w->b->point[--w->left];

            if (p->clock < w->before)
                return p;
        }
        if (w->b->created_clock < w->before)
            w->before = w->b->created_clock;
        /* Ancestors cannot be more than there are branches, even if a journal
         * were to say so. */
        if (!w->lineage || w->hops++ == w->h->branches)
            return NULL;
        w->b = history_branch(w->h, w->b->parent);
        w->left = w->b ? w->b->points : 0;
    }
    return NULL;
}

static struct progress_walk walk_begin(const struct history *h,
                                       const struct history_branch *b,
                                       bool lineage)
{
    struct progress_walk w = {
        .h = h, .b = b, .left = b->points, .before = UINT64_MAX};

    assert(h);
    assert(b);
    w.lineage = lineage;
    return w;
}

struct run_progress {
    clock_no after;
    bool lineage;
    struct progress_point *point; /* owned; the latest last */
    size_t points, capacity;      /* points: found, may exceed capacity */
    bool found;
    struct list_scope scope;
};

/* Fills @pr from its end backwards as far as its capacity goes. */
static void progress_copy(struct run_progress *pr, const struct history *h,
                          const struct history_branch *b)
{
    struct progress_walk w = walk_begin(h, b, pr->lineage);
    const struct history_point *p;

    assert(pr->point);
    pr->points = 0;
    pr->scope = list_scope(h);
    while ((p = walk_next(&w)) && p->branch_clock > pr->after) {
        if (pr->points < pr->capacity)
            pr->point[pr->capacity - 1 - pr->points] = (struct progress_point){
                w.b->branch, w.b->type == BRANCH_TESTING, *p};
        pr->points++;
    }
}

/* Under the lock. False: @out is answered. */
static bool progress_read(const struct route_call *call,
                          struct run_progress *pr, struct response *out)
{
    branch_id id = (branch_id)route_arg(call, "branch")->number;
    const struct history *h = list_run(call, out);
    const struct history_branch *b = h ? history_branch(h, id) : NULL;
    struct response_faults faults = {0};

    if (b) {
        progress_copy(pr, h, b);
        return true;
    }
    if (h) {
        response_fault_add(&faults, "/path/branch", "no such branch");
        response_problem(out, 404, "branch_not_found", &faults,
                         "the run has no such branch");
    }
    return false;
}

/* Reads until the memory, which is not to be got under the lock, suffices. */
static bool progress_collect(const struct route_call *call,
                             struct run_progress *pr, struct response *out)
{
    pr->points = HISTORY_POINTS_MAX;
    while (pr->points > pr->capacity) {
        bool found;

        mem_free(pr->point);
        pr->capacity = pr->points;
        pr->point = mem_calloc(pr->capacity, sizeof(*pr->point));
        if (!pr->point) {
            out_of_memory(out);
            return false;
        }
        view_lock(call->view);
        found = progress_read(call, pr, out);
        view_unlock(call->view);
        if (!found)
            return false;
    }
    return true;
}

/* @n neighbours as one point: sums add up, the place is the last one's. A sum
 * that is not finite stays so. */
static struct progress_point merge(const struct progress_point from[], size_t n)
{
    struct progress_point to = from[n - 1];

    assert(n >= 1);
    for (size_t i = 0; i + 1 < n; i++)
        window_join(&to.p.w, &from[i].p.w);
    return to;
}

static json_t *progress_point_to_json(const struct progress_point *point)
{
    const struct progress_window *w = &point->p.w;

    return json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:o}", "branch",
        (json_int_t)point->branch, "branch_clock",
        (json_int_t)point->p.branch_clock, "clock", (json_int_t)point->p.clock,
        "elapsed_seconds", value_number(point->p.at_s),
        point->testing ? "metric" : "loss", value_number(window_mean(w)),
        "samples", (json_int_t)w->samples, "clocks", (json_int_t)w->clocks,
        "seconds", value_number(w->seconds));
}

static json_t *progress_points(const struct run_progress *pr, size_t points_max)
{
    const struct progress_point *from = pr->point + (pr->capacity - pr->points);
    size_t group = (pr->points + points_max - 1) / points_max;
    json_t *array = json_array();
    size_t i, n;

    assert(pr->points <= pr->capacity);
    assert(points_max >= 1);
    for (i = 0; array && i < pr->points; i += n) {
        struct progress_point point;

        n = pr->points - i < group ? pr->points - i : group;
        point = merge(from + i, n);
        if (json_array_append_new(array, progress_point_to_json(&point)) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

void handle_progress(const struct route_call *call, struct response *out)
{
    struct run_progress pr = {
        .after = (clock_no)route_arg(call, "after")->number,
        .lineage = route_arg(call, "lineage")->number,
    };
    size_t points_max = (size_t)route_arg(call, "max_points")->number;
    int64_t last;

    if (progress_collect(call, &pr, out)) {
        last = pr.points > 0 ? (int64_t)pr.point[pr.capacity - 1].p.branch_clock
                             : (int64_t)pr.after;
        response_json(out, 200,
                      json_pack("{s:I, s:b, s:o, s:I}", "branch",
                                (json_int_t)route_arg(call, "branch")->number,
                                "lineage", pr.lineage, "points",
                                progress_points(&pr, points_max), "next_after",
                                (json_int_t)last));
    }
    mem_free(pr.point);
}
