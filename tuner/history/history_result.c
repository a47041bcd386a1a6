/* The questions that are answered from a history. */
#include "tuner/history/history_cold.h"

#include "base/json/json.h"
#include "base/proto/staleness_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

branch_id history_tip(const struct history *h)
{
    const struct history_epoch *last = history_last_epoch(h);
    const struct history_choice *choice =
        h->choices > 0 ? &h->choice[h->choices - 1] : NULL;

    if (last && (!choice || last->e.clock > choice->c.clock))
        return last->e.branch;
    return choice ? choice->c.branch : BRANCH_NONE;
}

const struct history_epoch *history_last_epoch(const struct history *h)
{
    return h->last_epoch ? &h->epoch[h->last_epoch - 1] : NULL;
}

const struct history_epoch *history_best_epoch(const struct history *h)
{
    return h->best_epoch ? &h->epoch[h->best_epoch - 1] : NULL;
}

const struct history_epoch *history_epoch_of(const struct history *h,
                                             uint32_t epoch, branch_id of)
{
    for (size_t i = 0; i < h->epochs; i++)
        if (h->epoch[i].e.epoch == epoch && h->epoch[i].e.branch == of)
            return &h->epoch[i];
    return NULL;
}

const struct history_snapshot *history_last_snapshot(const struct history *h)
{
    return h->snapshots ? &h->snapshot[h->snapshots - 1] : NULL;
}

const char *history_model_path(const struct history *h)
{
    return h->model.path;
}

bool history_has_work(const struct history *h)
{
    return history_last_snapshot(h) || history_trials_made(h) > 0;
}

double history_wall(const struct history_era era[], size_t n,
                    double started_unix_s, double at_s)
{
    double zero = started_unix_s;

    for (size_t i = 0; i < n && era[i].at_s <= at_s; i++)
        zero = era[i].zero_unix_s;
    return zero + at_s;
}

uint32_t history_snapshot_number(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (uint32_t)strtoul(slash ? slash + 1 : path, NULL, 10);
}

void history_trial_folder(uint32_t number, uint32_t trial,
                          char name[HISTORY_TRIAL_FOLDER_MAX])
{
    snprintf(name, HISTORY_TRIAL_FOLDER_MAX, "%06u-trial-%u", number, trial);
}

bool history_snapshot_trial(const struct record_snapshot_written *s, size_t i,
                            char name[HISTORY_TRIAL_FOLDER_MAX])
{
    const json_t *one = json_array_get(json_object_get(s->state, "trials"), i);
    json_int_t number = json_integer_value(json_object_get(one, "number"));
    json_int_t trial = json_integer_value(json_object_get(one, "trial"));

    history_trial_folder((uint32_t)number, (uint32_t)trial, name);
    return one != NULL;
}

uint32_t history_epochs(const struct history *h)
{
    const struct history_epoch *last = history_last_epoch(h);

    return last ? last->e.epoch : 0;
}

double history_waited(const struct history *h)
{
    return h->waited_s;
}

double history_paused(const struct history *h)
{
    return h->paused_s + (isnan(h->paused_at_s) ? 0 : h->at_s - h->paused_at_s);
}

static double open_search(const struct history *h,
                          const struct history_search *s)
{
    double seconds =
        h->at_s - s->started_at_s - (history_paused(h) - s->paused_before_s);

    for (size_t i = 0; i < h->epochs; i++)
        if (h->epoch[i].e.surviving && h->epoch[i].at_s >= s->started_at_s)
            seconds -= h->epoch[i].e.seconds;
    return seconds > 0 ? seconds : 0;
}

static bool given_up(const struct history_search *s)
{
    return s->ended && strcmp(s->end.reason, RUN_REASON_SEARCH_GIVEN_UP) == 0;
}

struct history_tuning history_tuning(const struct history *h)
{
    struct history_tuning t = {
        .seconds = h->dropped_s,
        .clocks = h->dropped_clocks,
        .failed = h->failed,
    };

    for (size_t i = 0; i < h->cold_search.rows; i++) {
        struct history_search s = cold_search(h, i);

        t.seconds += s.end.seconds;
        t.clocks += s.end.clocks;
        t.anew += given_up(&s);
    }
    for (size_t i = 0; i < h->searches; i++) {
        const struct history_search *s = &h->search[i];

        t.seconds += s->ended ? s->end.seconds : open_search(h, s);
        t.clocks += s->ended ? s->end.clocks : 0;
        t.anew += given_up(s);
    }
    memcpy(t.failed_reason, h->failed_reason, sizeof(t.failed_reason));
    return t;
}

double history_loss(const struct history *h)
{
    for (size_t i = h->branches; i > 0; i--) {
        const struct history_branch *b = &h->branch[i - 1];
        const struct history_point *p;

        if (b->type != BRANCH_TRAINING || b->points == 0 ||
            !isnan(b->freed_at_s))
            continue;
        p = &b->point[b->points - 1];
        return window_mean(&p->w);
    }
    return NAN;
}

/* NAN is null: "no such number" rather than a value. */
static json_t *number_or_null(double x)
{
    return isnan(x) ? json_null() : json_of_number(x);
}

static int put(json_t *o, const char *name, json_t *value)
{
    return json_object_set_new(o, name, value);
}

static int put_count(json_t *o, const char *name, uint64_t n)
{
    return put(o, name, json_integer((json_int_t)n));
}

static json_t *best_object(const struct history *h)
{
    const struct history_epoch *best = history_best_epoch(h);
    /* Before the first epoch a trial may be what was saved. */
    double loss = best ? best->e.loss : h->model.path[0] ? h->model.loss : NAN;
    json_t *o = json_object();

    if (put_count(o, "epoch", best ? best->e.epoch : 0) ||
        put(o, "loss", number_or_null(loss)) ||
        put(o, "metric", number_or_null(best ? best->e.metric : NAN)) ||
        put(o, "setting",
            best ? history_epoch_setting(h, best) : json_null())) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *tuning_object(const struct history *h)
{
    const struct history_tuning t = history_tuning(h);
    json_t *o = json_object();
    uint64_t stopped = h->dropped_stopped;

    for (size_t i = 0; i < history_trials_len(h); i++)
        stopped += history_trial_at(h, i).t.label == TRIAL_STOPPED;
    if (put(o, "seconds", json_of_number(t.seconds)) ||
        put_count(o, "searches", history_searches_made(h)) ||
        put_count(o, "trials", history_trials_made(h)) ||
        put_count(o, "stopped", stopped) || put_count(o, "failed", t.failed) ||
        put(o, "failed_reason",
            t.failed ? json_string(t.failed_reason) : json_null()) ||
        put_count(o, "clocks", t.clocks) ||
        put(o, "waiting_seconds", json_of_number(h->end.waiting_s)) ||
        (t.anew > 0 && put_count(o, "anew", t.anew)) ||
        (h->searcher_failed[0] &&
         put(o, "searcher_failed", json_string(h->searcher_failed))) ||
        (h->warm_start[0] &&
         put(o, "warm_start", json_string(h->warm_start)))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *schedule_array(const struct history *h)
{
    json_t *a = json_array();

    for (size_t i = 0; a && i < history_choices_len(h); i++) {
        json_t *o = json_object();

        if (put_count(o, "clock", history_choice_at(h, i).c.clock) ||
            put(o, "setting", history_choice_setting(h, i)) ||
            json_array_append(a, o)) {
            json_decref(o);
            json_decref(a);
            return NULL;
        }
        json_decref(o);
    }
    return a;
}

static json_t *setting_now(const struct history *h)
{
    if (h->choices == 0)
        return json_object();
    return json_copied(h->choice[h->choices - 1].c.setting);
}

static int put_outcome(json_t *o, const struct history *h)
{
    const struct history_epoch *last = history_last_epoch(h);

    return put(o, "loss", number_or_null(last ? last->e.loss : NAN)) ||
           put(o, "metric", number_or_null(last ? last->e.metric : NAN)) ||
           put(o, "best", best_object(h)) ||
           put(o, "model",
               h->model.path[0] ? json_string(h->model.path) : json_null()) ||
           put_count(o, "epochs", history_epochs(h)) ||
           put_count(o, "clocks", h->clocks) ||
           put(o, "seconds",
               json_of_number(isnan(h->first_clock_at_s)
                                  ? 0
                                  : h->at_s - h->first_clock_at_s)) ||
           put(o, "paused_seconds",
               json_of_number(isnan(h->first_clock_at_s)
                                  ? 0
                                  : history_paused(h) - h->first_paused_s));
}

/* Where there was one node alone, nothing. */
static int put_cluster(json_t *o, const struct history *h)
{
    struct staleness seen = nodes_staleness(&h->nodes);
    json_t *cluster;

    if (h->nodes.count < 2)
        return 0;
    cluster = json_object();
    if (put_count(cluster, "nodes", h->nodes.count) ||
        put_count(cluster, "bytes_sent", nodes_sent(&h->nodes)) ||
        put_count(cluster, "reads", seen.reads) ||
        put(cluster, "mean_staleness", number_or_null(staleness_mean(&seen))) ||
        put(cluster, "staleness", staleness_to_json(&seen))) {
        json_decref(cluster);
        return -1;
    }
    return put(o, "cluster", cluster);
}

/* The last words of the training system; nothing of a run that has none. */
static int put_last_words(json_t *o, const struct history *h)
{
    if (!h->finished || !h->end.last_words)
        return 0;
    if (h->end.last_words_node != UINT32_MAX &&
        put_count(o, "last_words_node", h->end.last_words_node))
        return -1;
    return put(o, "last_words", json_incref(h->end.last_words));
}

json_t *history_result(const struct history *h, const char *state,
                       const char *url)
{
    json_t *o = json_object();

    if (put(o, "run", json_string(h->run.run)) ||
        put(o, "status", json_string(run_status_name(h->status))) ||
        put(o, "reason", json_string(h->finished ? h->end.reason : "")) ||
        put_last_words(o, h) || put_outcome(o, h) ||
        put(o, "tuning", tuning_object(h)) ||
        put(o, "setting", setting_now(h)) ||
        put(o, "schedule", schedule_array(h)) || put_cluster(o, h) ||
        put(o, "strategy", json_string(h->run.strategy)) ||
        put(o, "searcher", json_string(h->run.searcher)) ||
        put_count(o, "seed", h->run.seed) ||
        put(o, "state", state ? json_string(state) : json_null()) ||
        put(o, "url", url ? json_string(url) : json_null())) {
        json_decref(o);
        return NULL;
    }
    return o;
}
