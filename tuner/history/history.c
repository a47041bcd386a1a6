#include "tuner/history/history.h"

#include "base/mem.h"
#include "tuner/history/history_cold.h"
#include "tuner/history/history_extras.h"
#include "tuner/history/history_fold.h"
#include "tuner/history/history_store.h"
#include "tuner/history/history_suggestions.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_init(struct history *h)
{
    assert(h);
    memset(h, 0, sizeof(*h));
    h->first_clock_at_s = NAN;
    h->paused_at_s = NAN;
    h->freed_points_each = HISTORY_POINTS_MAX / 8;
}

void history_deinit(struct history *h)
{
    assert(h);
    for (size_t i = 0; i < h->searches; i++)
        json_decref(h->search[i].started.tunables);
    for (size_t i = 0; i < h->trials; i++)
        json_decref(h->trial[i].t.setting);
    for (size_t i = 0; i < h->suggestions; i++)
        json_decref(h->suggestion[i].s.setting);
    for (size_t i = 0; i < h->branches; i++)
        history_branch_release(h, &h->branch[i]);
    history_store_deinit(h);
    for (size_t i = 0; i < h->epochs; i++)
        json_decref(h->epoch[i].e.setting);
    for (size_t i = 0; i < h->choices; i++)
        json_decref(h->choice[i].c.setting);
    for (size_t i = 0; i < h->snapshots; i++)
        json_decref(h->snapshot[i].s.state);
    cold_deinit(h);
    json_decref(h->model.data);
    json_decref(h->data);
    json_decref(h->end.last_words);
    nodes_deinit(&h->nodes);
    mem_free(h->table);
    mem_free(h->snapshot);
    mem_free(h->search);
    mem_free(h->trial);
    mem_free(h->suggestion);
    mem_free(h->branch);
    mem_free(h->slice);
    mem_free(h->epoch);
    mem_free(h->choice);
    mem_free(h->decision);
    memset(h, 0, sizeof(*h));
}

/* ---- finding ------------------------------------------------------------- */

const struct history_branch *history_branch(const struct history *h,
                                            branch_id branch)
{
    assert(h);
    return history_find(h, branch);
}

const struct table_info *history_table(const struct history *h,
                                       const char *name)
{
    char *end = NULL;
    unsigned long number;

    assert(h && name);
    for (size_t i = 0; i < h->tables; i++)
        if (strcmp(h->table[i].name, name) == 0)
            return &h->table[i];
    if (name[0] < '0' || name[0] > '9' || strlen(name) > 4)
        return NULL;
    number = strtoul(name, &end, 10);
    return *end == '\0' && number < h->tables ? &h->table[number] : NULL;
}

static struct history_search *find_search(const struct history *h, uint32_t n)
{
    return (struct history_search *)(uintptr_t)history_search(h, n);
}

json_t *history_hold(json_t *json, json_t *before)
{
    return json_incref(before && json_equal(json, before) ? before : json);
}

/* ---- searches ------------------------------------------------------------ */

static enum err apply_search_started(struct history *h, const struct record *r)
{
    struct history_search s = {.started = r->search_started,
                               .started_at_s = r->at_s,
                               .paused_before_s = history_paused(h),
                               .ended_at_s = NAN};

    if (s.started.search != history_searches_made(h) + 1)
        return ERR_FORMAT;
    history_bound_searches(h);
    if (mem_grow((void **)&h->search, &h->searches_cap, sizeof(s),
                 h->searches + 1))
        return ERR_NOMEM;
    s.started.tunables = history_hold(
        s.started.tunables,
        h->searches ? h->search[h->searches - 1].started.tunables : NULL);
    h->search[h->searches++] = s;
    h->retune_wanted = false;
    return ERR_OK;
}

static enum err apply_search_ended(struct history *h, const struct record *r)
{
    struct history_search *s = find_search(h, r->search_ended.search);

    if (!s)
        return ERR_FORMAT;
    for (size_t i = 0; i < h->trials; i++)
        if (h->trial[i].t.search == r->search_ended.search)
            h->trial[i].outlived |= !h->trial[i].ended;
    s->ended = true;
    s->end = r->search_ended;
    s->ended_at_s = r->at_s;
    if (h->asking == ASKING_EXHAUSTED)
        h->asking = ASKING_OPEN;
    return ERR_OK;
}

/* ---- trials -------------------------------------------------------------- */

static enum err apply_trial(struct history *h, const struct record *r)
{
    uint32_t n = r->trial.trial, made = history_trials_made(h);
    const struct history_branch *of;
    struct history_trial *t;
    branch_id branch;
    json_t *setting;

    if (n <= h->trials_dropped + h->cold_trial.rows || n > made + 1 ||
        (n == made + 1) != (r->kind == RECORD_TRIAL_STARTED) ||
        r->trial.suggestion > h->suggestions)
        return ERR_FORMAT;
    if (r->kind == RECORD_TRIAL_STARTED) {
        history_bound_trials(h);
        if (mem_grow((void **)&h->trial, &h->trials_cap, sizeof(*h->trial),
                     h->trials + 1))
            return ERR_NOMEM;
        t = &h->trial[h->trials++];
        memset(t, 0, sizeof(*t));
        t->started_at_s = r->at_s;
        t->ended_at_s = NAN;
    }
    t = &h->trial[n - 1 - h->trials_dropped - h->cold_trial.rows];
    branch = r->trial.branch;
    /* A finalist ends when its branch is gone already: it had one. */
    if (branch == BRANCH_NONE && r->kind == RECORD_TRIAL_ENDED)
        branch = t->t.branch;
    of = history_find(h, branch);
    setting = history_hold(r->trial.setting,
                           of && of->setting ? of->setting : t->t.setting);
    json_decref(t->t.setting);
    t->t = r->trial;
    t->t.setting = setting;
    t->t.branch = branch;
    t->ended = r->kind == RECORD_TRIAL_ENDED;
    if (t->ended && t->t.label == TRIAL_FAILED) {
        h->failed++;
        memcpy(h->failed_reason, t->t.reason, sizeof(h->failed_reason));
    }
    t->ended_at_s = t->ended ? r->at_s : NAN;
    history_suggestion_follow(h, r);
    return ERR_OK;
}

static enum err apply_search_decided(struct history *h, const struct record *r)
{
    struct history_search *s = find_search(h, r->search_decided.search);

    if (!s)
        return ERR_FORMAT;
    s->decided = true;
    s->trial_s = r->search_decided.trial_s;
    s->judged_s = r->search_decided.judged_s;
    return ERR_OK;
}

static enum err apply_decision(struct history *h, const struct record *r)
{
    struct history_decision d = {
        .d = r->decision, .at_s = r->at_s, .clock = r->clock};

    history_drop_half(h->decision, &h->decisions, sizeof(d),
                      HISTORY_DECISIONS_MAX, &h->decisions_dropped);
    if (mem_grow((void **)&h->decision, &h->decisions_cap, sizeof(d),
                 h->decisions + 1))
        return ERR_NOMEM;
    h->decision[h->decisions++] = d;
    if (strcmp(d.d.decision, "searcher_fallback") == 0 && d.d.numbers > 0)
        snprintf(h->fallback, sizeof(h->fallback), "%s", d.d.number[0].name);
    if (strcmp(d.d.decision, "searcher_fallback") == 0 ||
        strcmp(d.d.decision, "searcher_silent") == 0)
        snprintf(h->searcher_failed, sizeof(h->searcher_failed), "%s",
                 d.d.text);
    if (strcmp(d.d.decision, "warm_start") == 0)
        snprintf(h->warm_start, sizeof(h->warm_start), "%s", d.d.text);
    return ERR_OK;
}

/* ---- status -------------------------------------------------------------- */

/* A pause lasts from the status `paused` to the next one. */
static void take_status(struct history *h, enum run_status status, double at_s)
{
    if (!isnan(h->paused_at_s)) {
        h->paused_s += at_s - h->paused_at_s;
        h->paused_at_s = NAN;
    }
    h->status = status;
    if (status == RUN_PAUSED)
        h->paused_at_s = at_s;
}

/* ---- going back to a snapshot -------------------------------------------- */

static void add_era(struct history *h, double at_s, double unix_s)
{
    if (!(unix_s > 0))
        return;
    if (h->eras == HISTORY_ERAS_MAX) {
        h->eras--;
        memmove(h->era, h->era + 1, h->eras * sizeof(h->era[0]));
    }
    h->era[h->eras++] = (struct history_era){at_s, unix_s - at_s};
}

/* The epoch whose model was the best when the snapshot was written, by the
 * branch that ran it: of a contest it need be none of those that survive. Older
 * records do not name the branch: then it is the best by now if the winner came
 * after it, or else one of those that survive. */
static void find_best(struct history *h, const struct record_run_resumed *m)
{
    const struct record_epoch_ended *e =
        h->best_epoch ? &h->epoch[h->best_epoch - 1].e : NULL;
    const struct history_epoch *of =
        history_epoch_of(h, m->best_epoch, m->best_of);

    if (of) {
        h->best_epoch = (size_t)(of - h->epoch) + 1;
        return;
    }
    if (e && e->epoch == m->best_epoch && e->branch < m->from)
        return;
    h->best_epoch = 0;
    assert(h->epochs == 0 || h->epoch);
    for (size_t i = 0; i < h->epochs && m->best_epoch; i++)
        if (h->epoch[i].e.surviving && h->epoch[i].e.epoch == m->best_epoch)
            h->best_epoch = i + 1;
}

static enum err apply_resumed(struct history *h, const struct record *r)
{
    const struct record_run_resumed *m = &r->run_resumed;
    struct history_search *s = find_search(h, m->search);

    if ((m->search && !s) || (m->from && !history_find(h, m->from)))
        return ERR_FORMAT;
    if (s)
        s->ended = s->closed = false;
    if (h->asking == ASKING_OVER)
        h->asking = ASKING_OPEN;
    h->finished = false;
    history_suggestions_resume(h);
    if (m->next_trial)
        history_suggestions_forget(h, m->next_trial);
    take_status(h, RUN_WAITING, r->at_s);
    memcpy(h->status_reason, m->reason, RECORD_TEXT_MAX);
    h->resumes++;
    add_era(h, r->at_s, m->unix_s);
    history_lose_branches(h, r->at_s);
    nodes_lost(&h->nodes);
    history_prune_epochs(h, m->from, m->epoch);
    find_best(h, m);
    history_break_promises(h, m->path);
    h->snapshot_back = history_snapshot_number(m->path);
    if (h->snapshot_back == 0) /* anew: none of them is of use */
        history_forget_snapshots(h, 0);
    return ERR_OK;
}

static void apply_model(struct history *h, const struct record *r)
{
    json_incref(r->model_saved.data);
    json_decref(h->model.data);
    h->model = r->model_saved;
}

static void apply_command(struct history *h, const struct record_command *c)
{
    h->pause_wanted = c->paused;
    h->retune_wanted = c->retune;
    h->limits = c->limits;
}

static void apply_finished(struct history *h, const struct record *r)
{
    take_status(h, r->run_finished.status, r->at_s);
    h->finished = true;
    json_decref(h->end.last_words);
    h->end = r->run_finished;
    h->waited_s = fmax(h->waited_s, h->end.waiting_s); /* of older journals */
    json_incref(h->end.last_words);
    history_suggestions_finish(h, r->at_s);
    memcpy(h->status_reason, r->run_finished.message, RECORD_TEXT_MAX);
}

static enum err apply_tables(struct history *h, const struct record *r)
{
    struct table_info *table =
        mem_calloc(TABLE_INFO_TABLES_MAX, sizeof(*table));
    size_t n;

    if (!table)
        return ERR_NOMEM;
    n = 0;
    if (r->tables.tables &&
        table_infos_from_json(r->tables.tables, table, &n)) {
        mem_free(table);
        return ERR_FORMAT;
    }
    mem_free(h->table);
    h->table = table;
    h->tables = n;
    json_decref(h->data);
    h->data = json_incref(r->tables.data);
    return ERR_OK;
}

static enum err apply_increment(struct history *h, const struct record *r)
{
    if (!history_find(h, r->increment.branch))
        return ERR_FORMAT;
    if (r->increment.number > h->increments)
        h->increments = r->increment.number;
    return ERR_OK;
}

static enum err apply_kind(struct history *h, const struct record *r)
{
    switch (r->kind) {
    case RECORD_RUN_STARTED:
        h->started = true;
        h->run = r->run_started;
        h->limits = r->run_started.limits;
        return ERR_OK;
    case RECORD_RUN_STATUS:
        take_status(h, r->run_status.status, r->at_s);
        memcpy(h->status_reason, r->run_status.reason, RECORD_TEXT_MAX);
        return ERR_OK;
    case RECORD_RUN_FINISHED:
        apply_finished(h, r);
        return ERR_OK;
    case RECORD_RUN_RESUMED:
        return apply_resumed(h, r);
    case RECORD_COMMAND:
        apply_command(h, &r->command);
        return ERR_OK;
    case RECORD_SEARCH_DECIDED:
        return apply_search_decided(h, r);
    case RECORD_SEARCH_STARTED:
        return apply_search_started(h, r);
    case RECORD_SEARCH_ENDED:
        return apply_search_ended(h, r);
    case RECORD_TRIAL_STARTED:
    case RECORD_TRIAL_UPDATED:
    case RECORD_TRIAL_ENDED:
        return apply_trial(h, r);
    case RECORD_BRANCH_CREATED:
        return history_apply_created(h, r);
    case RECORD_BRANCH_FREED:
        return history_apply_freed(h, r);
    case RECORD_USER_BRANCH:
        return history_apply_user_branch(h, r);
    case RECORD_SUGGESTION:
        return history_suggestion_apply(h, r);
    case RECORD_ASKING:
        return history_asking_apply(h, r);
    case RECORD_TABLES:
        return apply_tables(h, r);
    case RECORD_INCREMENT:
        return apply_increment(h, r);
    case RECORD_SLICE_SCHEDULED:
        return history_apply_slice(h, r);
    case RECORD_SLICE_ENDED:
        return history_apply_slice_ended(h, r);
    case RECORD_PROGRESS:
        return history_apply_progress(h, r);
    case RECORD_EPOCH_ENDED:
        return history_apply_epoch(h, r);
    case RECORD_SETTING_CHOSEN:
        return history_apply_choice(h, r);
    case RECORD_DECISION:
        return apply_decision(h, r);
    case RECORD_SNAPSHOT_WRITTEN:
        return history_apply_snapshot(h, r);
    case RECORD_MODEL_SAVED:
        apply_model(h, r);
        return ERR_OK;
    case RECORD_NODE:
        return nodes_take(&h->nodes, r->at_s, &r->node.beat);
    case RECORD_KIND_COUNT:
        break;
    }
    return ERR_FORMAT;
}

void history_skip(struct history *h, uint64_t number)
{
    assert(h);
    if (number > h->records)
        h->records = number;
}

enum err history_apply(struct history *h, const struct record *r)
{
    struct record own;
    enum err err;

    assert(h && r);
    assert((unsigned)r->kind < RECORD_KIND_COUNT);
    if (!(r->at_s >= h->at_s))
        return ERR_FORMAT;
    err = record_copy_own(&own, r);
    if (err)
        return err;
    err = apply_kind(h, &own);
    record_deinit(&own);
    if (err)
        return err;
    h->at_s = r->at_s;
    h->clock = r->clock;
    h->records++;
    assert(h->last_epoch <= h->epochs && h->best_epoch <= h->epochs);
    assert(h->snapshots <= HISTORY_SNAPSHOTS_MAX);
    return ERR_OK;
}
