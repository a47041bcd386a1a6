#include "cli/service/fleet.h"

#include "api/http/event_log.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/signals.h"
#include "cli/state/mend.h"
#include "cli/state/notes_file.h"
#include "cli/state/removal.h"
#include "cli/state/replay.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what is shown ------------------------------------------------------- */

bool fleet_resumable(const struct fleet_run *run)
{
    assert(run);
    return !run->ended ||
           run_status_resumes(run->status, history_has_work(&run->history));
}

bool fleet_waits(const struct fleet_run *run)
{
    return run->entry.state == QUEUE_WAITS || run->entry.state == QUEUE_RESTS;
}

static enum queue_state state_of(const struct fleet_run *run)
{
    /* A run that was stopped or failed goes on when the user says so. */
    bool over = run->ended &&
                strcmp(run->status, run_status_name(RUN_INTERRUPTED)) != 0;

    if (run->alive)
        return QUEUE_RUNS;
    return run->managed && !run->job.held && fleet_resumable(run) && !over
               ? QUEUE_WAITS
               : QUEUE_IDLE;
}

/* Held where it could go on: one that has finished meanwhile is over. */
static bool is_held(const struct fleet_run *run)
{
    return run->managed && run->job.held && fleet_resumable(run);
}

/* Status that the records do not say, or not any more. */
static void tell(const struct fleet_run *run, struct view_job *job)
{
    const char *status = "", *reason = "";
    const struct history *h = &run->history;

    if (run->alive) /* what is said of its end was said before it began */
        status = run->begins && history_finished(h)
                     ? run_status_name(RUN_WAITING)
                     : "";
    else if (is_held(run))
        status = RUN_STATUS_HELD;
    else if (fleet_waits(run))
        status = RUN_STATUS_QUEUED;
    else if (!run->ended && run->told.status[0]) {
        status = run->told.status;
        reason = run->told.reason;
    } else if (!run->ended) {
        status = run_status_name(RUN_INTERRUPTED);
        reason = "tuner_died";
    } else if (!history_finished(h) ||
               strcmp(run->status, run_status_name(history_end(h)->status)) !=
                   0) {
        status = run->status;
        reason = run->reason;
    }
    if (is_held(run))
        reason = run->job.reason;
    else if (fleet_waits(run))
        reason = run->trouble;
    if (run->unread)
        reason = run->trouble;
    snprintf(job->status, sizeof(job->status), "%.15s", status);
    snprintf(job->reason, sizeof(job->reason), "%s", reason);
}

/* Followers of a run have so long to read its last events. Keeping those of
 * every run that was would fill the memory in time. */
static const time_ns LOG_KEPT = 60000000000;

static void end_log(struct fleet_run *run, bool over)
{
    event_log_set_ended(run->events, over);
    if (!over)
        run->over_at = 0;
    else if (!run->over_at)
        run->over_at = clock_monotonic();
}

/* The log's own memory goes, too: a new one has not touched its own. */
static void renew_log(struct fleet *fleet, struct fleet_run *run)
{
    struct event_log *before = run->events, *log;

    event_log_clear(before);
    if (event_log_new(&log) != ERR_OK)
        return;
    event_log_skip(log, run->seq);
    event_log_set_ended(log, true);
    view_publish_run(fleet->view, run->id, log);
    run->events = log;
    event_log_free(before);
}

bool fleet_over(const struct fleet_run *run)
{
    return !run->alive && run->entry.state == QUEUE_IDLE && !is_held(run);
}

static void rest(struct fleet *fleet, struct fleet_run *run)
{
    if (run->rests || !fleet_over(run))
        return;
    view_lock(fleet->view);
    history_rest(&run->history);
    view_rest_run(fleet->view, run->id, true);
    json_decref(run->config);
    json_decref(run->result);
    run->config = run->result = NULL;
    run->rests = true;
    view_unlock(fleet->view);
}

/* What was read in and is not kept lies between what is, and would be the
 * process's for ever. */
static void give_back(void)
{
    malloc_trim(0);
}

static void clear_log(struct fleet *fleet, struct fleet_run *run)
{
    if (!run->over_at || clock_monotonic() - run->over_at < LOG_KEPT)
        return;
    renew_log(fleet, run);
    run->over_at = 0;
    rest(fleet, run);
    give_back();
}

void fleet_show(struct fleet *fleet, struct fleet_run *run)
{
    struct view_job job = {.managed = run->managed && !run->unread};

    assert(run->id[0]);
    run->entry.state = state_of(run);
    job.waits = fleet_waits(run);
    tell(run, &job);
    if (job.managed) {
        snprintf(job.group, sizeof(job.group), "%s", run->job.group);
        job.submitted_unix_s = (double)run->job.submitted_ns * 1e-9;
        job.workers = run->entry.workers;
        job.memory = run->entry.memory;
        job.attempts = run->attempts;
    }
    view_set_job(fleet->view, run->id, &job);
    end_log(run, run->entry.state == QUEUE_IDLE && !is_held(run));
}

enum err fleet_set_job(struct fleet *fleet, struct fleet_run *run,
                       const struct job *job, struct fault *f)
{
    enum err err = job_write(fleet->state, run->id, job, f);

    assert(fleet_find(fleet, run->id) == run);
    if (err)
        return err;
    run->managed = true;
    run->job = *job;
    snprintf(run->entry.group, sizeof(run->entry.group), "%s", job->group);
    run->entry.number = job->number;
    fleet_show(fleet, run);
    return ERR_OK;
}

/* ---- runs ---------------------------------------------------------------- */

struct fleet_run *fleet_find(const struct fleet *fleet, const char *id)
{
    assert(id);
    for (size_t i = 0; i < fleet->runs; i++)
        if (strcmp(fleet->run[i]->id, id) == 0)
            return fleet->run[i];
    return NULL;
}

static void run_free(struct fleet_run *run)
{
    if (!run)
        return;
    history_deinit(&run->history);
    event_log_free(run->events);
    signals_forget_child(run->remembered);
    subprocess_forget(&run->child);
    json_decref(run->config);
    json_decref(run->result);
    mem_free(run);
}

/* Without one it is a run that nobody gave to this service. That is not said of
 * one whose job could not be read this instant: it would never be started. */
static enum err take_job(struct fleet *fleet, struct fleet_run *run,
                         struct fault *f)
{
    enum err err = job_read(fleet->state, run->id, &run->job, f);

    if (err == ERR_NOMEM || err == ERR_IO)
        return err;
    run->managed = !err;
    if (err && err != ERR_NOENT)
        log_event(LOG_ERROR, "job_not_read", "run=%s reason=\"%s\"", run->id,
                  f->text);
    snprintf(run->entry.group, sizeof(run->entry.group), "%s", run->job.group);
    run->entry.number = run->job.number;
    if (run->job.number > fleet->numbers)
        fleet->numbers = run->job.number;
    return ERR_OK;
}

static void take_notes(struct fleet *fleet, const char *id)
{
    json_t *notes = NULL;
    struct fault f = {0};
    enum err err = notes_file_read(fleet->state, id, &notes, &f);

    notes_file_tell(id, &f, err);
    if (!err)
        view_set_notes(fleet->view, id, notes);
}

/* Lists @run, which is transferred. */
static enum err list(struct fleet *fleet, struct fleet_run *run)
{
    void *grown = fleet->run;
    enum err err = ERR_OK;

    assert(run);
    if (mem_grow(&grown, &fleet->capacity, sizeof(*fleet->run),
                 fleet->runs + 1))
        err = ERR_NOMEM;
    fleet->run = grown;
    if (!err)
        err = event_log_new(&run->events);
    if (!err && run->seq)
        event_log_skip(run->events, run->seq);
    if (!err)
        err = view_add_run(fleet->view, run->id, run->name, &run->history);
    if (err) {
        run_free(run);
        return err;
    }
    view_publish_run(fleet->view, run->id, run->events);
    view_keep_run(fleet->view, run->id, run->config, run->result);
    take_notes(fleet, run->id);
    fleet->run[fleet->runs++] = run;
    fleet_show(fleet, run);
    if (run->over_at) { /* nobody follows it yet */
        run->over_at = 0;
        rest(fleet, run);
    }
    return ERR_OK;
}

/* What its tuner told of an end that the journal does not have. */
static void take_told(struct fleet *fleet, struct fleet_run *run)
{
    if (run->ended || run->alive ||
        !run_folder_told_end(fleet->state, run->id, &run->told))
        run->told = (struct run_end){.status = ""};
}

/* Run @id as it is on the disk; the caller owns *@out. */
static enum err read_run(struct fleet *fleet, const char *id,
                         struct fleet_run **out, struct fault *f)
{
    struct fleet_run *run = mem_calloc(1, sizeof(*run));
    struct replayed r;
    enum err err;

    if (!run)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    run->beat = run_folder_beaten(fleet->state, id);
    err = replay_run(fleet->journal, fleet->state, id, &r, f);
    if (err) {
        mem_free(run);
        return err;
    }
    memcpy(run->id, r.id, sizeof(run->id));
    memcpy(run->name, r.name, sizeof(run->name));
    run->history = r.history;
    history_init(&r.history);
    run->seq = history_records(&run->history);
    run->alive = run->begins = r.alive;
    run->ended = r.ended;
    if (r.ended) {
        memcpy(run->status, r.status, sizeof(run->status));
        snprintf(run->reason, sizeof(run->reason), "%.63s", r.reason);
    }
    take_told(fleet, run);
    run->config = json_incref(r.config);
    run->result = json_incref(r.result);
    replay_shares(r.config, &run->entry.workers, &run->entry.memory);
    replayed_deinit(&r);
    err = take_job(fleet, run, f);
    if (err)
        run_free(run);
    else
        *out = run;
    return err;
}

static enum err add(struct fleet *fleet, const char *id, struct fault *f)
{
    struct fleet_run *run = NULL;
    enum err err = read_run(fleet, id, &run, f);

    if (err)
        return err;
    err = list(fleet, run);
    return err ? fault_set(f, err, "%s", err_text(err)) : ERR_OK;
}

static void unlist(struct fleet *fleet, struct fleet_run *run)
{
    size_t i = 0;

    while (fleet->run[i] != run)
        i++;
    fleet->runs--;
    memmove(&fleet->run[i], &fleet->run[i + 1],
            (fleet->runs - i) * sizeof(fleet->run[0]));
    view_remove_run(fleet->view, run->id);
    event_log_set_ended(run->events, true);
    event_log_clear(run->events);
    run_free(run);
}

/* Where the list is full the run that was listed first of those that are over
 * leaves it. False: none is. */
static bool make_room(struct fleet *fleet)
{
    size_t i = 0;

    while (fleet->runs >= VIEW_RUNS_MAX && i < fleet->runs) {
        if (!fleet_over(fleet->run[i])) {
            i++;
            continue;
        }
        log_event(LOG_INFO, "run_unlisted", "run=%s", fleet->run[i]->id);
        unlist(fleet, fleet->run[i]);
    }
    return fleet->runs < VIEW_RUNS_MAX;
}

/* ---- the journal --------------------------------------------------------- */

struct ids {
    char (*id)[RUN_ID_MAX + 1]; /* owned */
    size_t len, capacity;
};

static enum err take_id(void *ctx, const char *id)
{
    struct ids *ids = ctx;
    void *grown = ids->id;
    int failed =
        mem_grow(&grown, &ids->capacity, sizeof(*ids->id), ids->len + 1);

    ids->id = grown;
    if (failed)
        return ERR_NOMEM;
    snprintf(ids->id[ids->len++], sizeof(*ids->id), "%s", id);
    return ERR_OK;
}

/* ---- runs that cannot be read -------------------------------------------- */

/* One that there is no memory, or no place, to list is tried again when the
 * journal changes. */
static void remember_missed(struct fleet *fleet, const char *id,
                            const struct fault *why)
{
    struct fleet_missed *m = &fleet->missed[fleet->missed_len];

    console_error("run %s is left out%s: %s", id,
                  fleet->missed_len < FLEET_MISSED_MAX ? " for now" : "",
                  why->text);
    if (fleet->missed_len == FLEET_MISSED_MAX)
        return;
    snprintf(m->id, sizeof(m->id), "%s", id);
    m->tries = 1;
    fleet->missed_len++;
}

/* What the journal says of a run without what it did. */
static enum err take_row(void *ctx, const struct journal_run *stored)
{
    struct fleet_run *run = ctx;

    if (strcmp(stored->id, run->id) != 0)
        return ERR_OK;
    snprintf(run->name, sizeof(run->name), "%s", stored->name);
    run->ended = stored->status != NULL;
    snprintf(run->status, sizeof(run->status), "%s",
             stored->status ? stored->status : "");
    return ERR_OK;
}

/* The same trouble is told once: it may last for days. */
static void tell_unread(struct fleet *fleet, struct fleet_run *run,
                        const struct fault *why)
{
    char trouble[JOB_REASON_MAX];

    snprintf(trouble, sizeof(trouble),
             "it cannot be read, which is tried again: %.400s", why->text);
    text_clean(trouble);
    if (strcmp(trouble, run->trouble) == 0)
        return;
    memcpy(run->trouble, trouble, sizeof(trouble));
    console_error("run %s: %s", run->id, trouble);
    if (run->events)
        fleet_show(fleet, run);
}

/* Lists run @id, which could not be read, all the same: it says why. @name:
 * NULL: the journal's, or its id. */
static enum err list_unread(struct fleet *fleet, const char *id,
                            const char *name, const struct fault *why)
{
    struct fleet_run *run = mem_calloc(1, sizeof(*run));
    enum err err;

    if (!run)
        return ERR_NOMEM;
    history_init(&run->history);
    snprintf(run->id, sizeof(run->id), "%s", id);
    snprintf(run->name, sizeof(run->name), "%s", name ? name : id);
    if (!name)
        (void)journal_find_run(fleet->journal, id, take_row, run, NULL);
    run->unread = run->rests = true;
    run->managed = job_exists(fleet->state, id);
    run->not_before = FLEET_ASKED;
    tell_unread(fleet, run, why);
    err = list(fleet, run);
    if (err)
        return err;
    view_lock(fleet->view);
    view_rest_run(fleet->view, id, true);
    view_unlock(fleet->view);
    return ERR_OK;
}

/* Lists run @id, whole or not. */
static void take_run(struct fleet *fleet, const char *id, const char *name)
{
    struct fault why = {0};

    if (fleet_find(fleet, id))
        return;
    make_room(fleet); /* without, it is missed */
    if (add(fleet, id, &why) == ERR_OK)
        return;
    if (!run_id_valid(id) || !fleet_journaled(fleet, id) ||
        list_unread(fleet, id, name, &why))
        remember_missed(fleet, id, &why);
}

static void try_missed(struct fleet *fleet)
{
    size_t n = 0;

    for (size_t i = 0; i < fleet->missed_len; i++) {
        struct fleet_missed m = fleet->missed[i];
        struct fault why = {0};

        if (fleet_find(fleet, m.id) || add(fleet, m.id, &why) == ERR_OK)
            continue;
        if (++m.tries < FLEET_TRIES_MAX)
            fleet->missed[n++] = m;
        else
            console_error("run %s is left out: %s", m.id, why.text);
    }
    fleet->missed_len = n;
}

/* The pauses between reads double: none, 1 s, 2 s, ..., 64 s. */
static const time_ns READ_AGAIN = 1000000000;
enum { READS_DOUBLED = 6 };

static void read_again(struct fleet *fleet, struct fleet_run *placeholder)
{
    struct fleet_run *run = NULL;
    struct fault why = {0};
    char id[RUN_ID_MAX + 1];
    unsigned doubled = placeholder->refused;
    enum err err = read_run(fleet, placeholder->id, &run, &why);

    memcpy(id, placeholder->id, sizeof(id));
    if (err && fleet_journaled(fleet, id)) {
        placeholder->read_at = clock_monotonic() + (READ_AGAIN << doubled);
        placeholder->refused += doubled < READS_DOUBLED;
        tell_unread(fleet, placeholder, &why);
        return;
    }
    unlist(fleet, placeholder);
    if (err) /* it was removed */
        return;
    err = list(fleet, run);
    if (!err)
        return;
    fault_set(&why, err, "%s", err_text(err));
    remember_missed(fleet, id, &why);
}

/* At most one a call: reading takes some 200 ms where a run did much. */
static void try_unread(struct fleet *fleet)
{
    time_ns now = clock_monotonic();

    for (size_t i = 0; i < fleet->runs; i++)
        if (fleet->run[i]->unread && now >= fleet->run[i]->read_at) {
            read_again(fleet, fleet->run[i]);
            return;
        }
}

/* ---- new ones ------------------------------------------------------------ */

static enum err see_end(void *ctx, const struct journal_run *run)
{
    bool *over = ctx;

    *over = run_status_names_end(run->status) &&
            strcmp(run->status, run_status_name(RUN_INTERRUPTED)) != 0;
    return ERR_OK;
}

/* Whether run @id, which is not read yet, may be queued, held or under way.
 * Where that cannot be said it may. */
static bool in_use(const struct fleet *fleet, const char *id)
{
    struct job job;
    bool over = false;

    if (run_folder_alive(fleet->state, id))
        return true;
    return job_exists(fleet->state, id) &&
           (journal_find_run(fleet->journal, id, see_end, &over, NULL) ||
            !over || job_read(fleet->state, id, &job, NULL) || job.held);
}

/* Runs that are new in the journal. Of more than can be listed those that are
 * in use come first, however old they are, then the newest. One that cannot be
 * read harms no other, and those that were read before the journal failed are
 * not asked for again. */
static enum err discover(struct fleet *fleet, struct fault *f)
{
    struct ids ids = {0};
    enum err err =
        journal_each_new(fleet->journal, &fleet->newest, take_id, &ids, f);
    size_t from = ids.len > VIEW_RUNS_MAX ? ids.len - VIEW_RUNS_MAX : 0;
    size_t old = 0;

    try_missed(fleet);
    for (size_t i = 0; i < from; i++)
        if (in_use(fleet, ids.id[i])) {
            take_run(fleet, ids.id[i], NULL);
            old++;
        }
    for (size_t i = from + old; i < ids.len; i++)
        take_run(fleet, ids.id[i], NULL);
    mem_free(ids.id);
    return err;
}

struct taking {
    struct fleet *fleet;
    struct fleet_run *run;
    bool whole; /* nothing is missing before what comes */
};

static enum err apply(struct fleet *fleet, struct fleet_run *run,
                      const struct journal_record *stored)
{
    struct record record;
    json_t *json = NULL;
    enum err err = json_load(stored->json, stored->len, &json, NULL, NULL);

    if (!err)
        err = record_from_json(json, &record, NULL);
    json_decref(json);
    if (err)
        return err;
    view_lock(fleet->view);
    err = history_apply(&run->history, &record);
    /* Before the change counts as seen: answers are kept by it. */
    if (err != ERR_NOMEM)
        event_log_append(run->events, stored->seq, stored->kind, stored->json);
    view_changed(fleet->view);
    view_unlock(fleet->view);
    record_deinit(&record);
    return err;
}

/* One that does not fit is left out: it harms neither the rest of its run nor
 * other runs. One that there was no memory for is read again. */
static enum err take_record(void *ctx, const struct journal_record *stored)
{
    struct taking *t = ctx;
    enum err err;

    if (stored->seq > t->run->seq + 1 && !t->whole)
        return ERR_AGAIN;
    t->whole = false;
    err = apply(t->fleet, t->run, stored);
    if (err == ERR_NOMEM)
        return err;
    if (err)
        log_event(LOG_ERROR, "record_not_shown", "run=%s seq=%llu code=%s",
                  t->run->id, (unsigned long long)stored->seq, err_name(err));
    t->run->seq = stored->seq;
    return ERR_OK;
}

/* Records that were to be read next were folded into a checkpoint meanwhile, or
 * are damaged: what the run has come to is read anew. */
static enum err read_anew(struct fleet *fleet, struct fleet_run *run,
                          struct fault *f)
{
    struct replayed r;
    enum err err = replay_run(fleet->journal, fleet->state, run->id, &r, f);

    if (err)
        return err;
    view_lock(fleet->view);
    history_deinit(&run->history);
    run->history = r.history;
    run->seq = history_records(&run->history);
    if (run->rests)
        view_rest_run(fleet->view, run->id, false);
    view_changed(fleet->view);
    view_unlock(fleet->view);
    history_init(&r.history);
    if (run->rests) {
        run->rests = false;
        run->config = json_incref(r.config);
        run->result = json_incref(r.result);
        view_keep_run(fleet->view, run->id, run->config, run->result);
    }
    replayed_deinit(&r);
    return ERR_OK;
}

enum err fleet_wake(struct fleet *fleet, struct fleet_run *run, struct fault *f)
{
    uint64_t before = run->seq;
    enum err err = run->rests ? read_anew(fleet, run, f) : ERR_OK;

    assert(fleet_find(fleet, run->id) == run);
    /* Records that came since are in no event: who follows it is told so. */
    if (!err && run->seq != before)
        renew_log(fleet, run);
    return err;
}

enum err fleet_fetch(void *state, const char *id, struct view_whole *out,
                     struct fault *f)
{
    struct journal *j = NULL;
    struct replayed r;
    enum err err = journal_open(state, false, JOURNAL_BUSY_MS, &j, f);

    assert(id[0]);
    if (err == ERR_NOENT) /* of the journal, not of the run */
        err = ERR_IO;
    if (!err)
        err = replay_run(j, state, id, &r, f);
    if (!err) {
        *out = (struct view_whole){.history = r.history,
                                   .config = json_incref(r.config),
                                   .result = json_incref(r.result)};
        history_init(&r.history);
        replayed_deinit(&r);
    }
    journal_close(j);
    give_back();
    return err;
}

/* Takes its new records; what comes of that is not shown yet. */
static enum err follow(struct fleet *fleet, struct fleet_run *run,
                       struct fault *f)
{
    struct taking t = {fleet, run, false};
    uint64_t before = run->seq;
    enum err err = fleet_wake(fleet, run, f);

    if (!err)
        err = journal_each_record(fleet->journal, run->id, run->seq,
                                  take_record, &t, f);
    if (err == ERR_AGAIN) {
        err = read_anew(fleet, run, f);
        t.whole = true;
        if (!err)
            err = journal_each_record(fleet->journal, run->id, run->seq,
                                      take_record, &t, f);
        if (err == ERR_AGAIN) /* the next look reads on */
            err = ERR_OK;
    }
    if (before != run->seq)
        run->begins = false;
    return err;
}

/* The result is replaced under the view's lock. */
static void take_result(struct fleet *fleet, struct fleet_run *run,
                        const char *text)
{
    json_t *before = run->result;

    run->result = NULL;
    if (text)
        json_load(text, strlen(text), &run->result, NULL, NULL);
    view_keep_run(fleet->view, run->id, run->config, run->result);
    json_decref(before);
}

static enum err take_end(void *ctx, const struct journal_run *stored)
{
    const struct taking *t = ctx;
    struct fleet_run *run = t->run;

    run->ended = stored->status != NULL;
    snprintf(run->status, sizeof(run->status), "%s",
             stored->status ? stored->status : "");
    snprintf(run->reason, sizeof(run->reason), "%s",
             stored->reason ? stored->reason : "");
    take_result(t->fleet, run, stored->result);
    return ERR_OK;
}

enum err fleet_read_end(struct fleet *fleet, struct fleet_run *run,
                        struct fault *f)
{
    struct taking t = {fleet, run, false};
    enum err err;

    assert(fleet_find(fleet, run->id) == run);
    run->beat = run_folder_beaten(fleet->state, run->id);
    err = follow(fleet, run, f);
    if (!err)
        err = journal_find_run(fleet->journal, run->id, take_end, &t, f);
    take_told(fleet, run);
    fleet_show(fleet, run);
    return err;
}

/* Reads what is new of a run whose tuner lives. */
static enum err read_on(struct fleet *fleet, struct fleet_run *run,
                        struct fault *f)
{
    bool was_finished = history_finished(&run->history), began = run->begins;
    enum err err = follow(fleet, run, f);

    if (was_finished != history_finished(&run->history) || began != run->begins)
        fleet_show(fleet, run);
    return err;
}

/* Tuners that are not our children: of a service before this one, or of
 * `mltune run`. Those of ours are waited for by the supervisor. One that began
 * and ended between two looks has left a sign of life. */
static enum err look_for_life(struct fleet *fleet, struct fleet_run *run,
                              bool changed, struct fault *f)
{
    bool alive;

    /* One that begins writes to the journal. */
    if (run->child.pid || (!run->alive && !(changed && fleet_resumable(run))))
        return ERR_OK;
    alive = run_folder_alive(fleet->state, run->id);
    if (alive == run->alive &&
        (alive || run_folder_beaten(fleet->state, run->id) == run->beat))
        return ERR_OK;
    run->alive = run->begins = alive;
    return fleet_read_end(fleet, run, f);
}

enum err fleet_read(struct fleet *fleet, struct fault *f)
{
    assert(fleet->journal);
    int64_t version;
    enum err err = journal_version(fleet->journal, &version, f);
    bool changed = !err && version != fleet->version, lost;

    if (changed)
        err = discover(fleet, f);
    lost = err != ERR_OK;
    if (!lost)
        try_unread(fleet);
    /* A run that cannot be read does not hide those after it. */
    for (size_t i = 0; i < fleet->runs && !lost; i++) {
        struct fleet_run *run = fleet->run[i];
        struct fault why = {0};
        enum err one = ERR_OK;

        if (run->unread)
            continue;
        clear_log(fleet, run);
        if (changed && run->alive)
            one = read_on(fleet, run, &why);
        if (!one)
            one = look_for_life(fleet, run, changed, &why);
        if (one && !err) {
            err = one;
            if (f)
                *f = why;
        }
    }
    if (!err)
        fleet->version = version;
    return err;
}

/* A run that was registered but could not be flushed is taken out again: its
 * submission is refused. */
static void unregister(const struct fleet *fleet, const char *id)
{
    struct journal *j = NULL;
    struct fault why = {0};
    enum err err = mend_open(fleet->state, true, JOURNAL_BUSY_MS, &j, &why);

    if (!err)
        err = journal_remove_run(j, id, NULL, &why);
    journal_close(j);
    if (err)
        log_event(LOG_WARN, "run_not_taken_out", "run=%s reason=\"%s\"", id,
                  why.text);
}

enum err fleet_register(struct fleet *fleet, const char *id, const char *name,
                        const char *config, int64_t wall_ns, struct fault *f)
{
    struct journal *j = NULL;
    struct fault why = {0};
    bool undone;
    enum err err;

    assert(id[0]);
    assert(config);
    if (!make_room(fleet))
        return fault_set(f, ERR_LIMIT,
                         "the service holds %d runs that are not over, which "
                         "is as many as it can",
                         VIEW_RUNS_MAX);
    err = mend_open(fleet->state, true, JOURNAL_BUSY_MS, &j, f);
    if (!err)
        err = journal_begin_run(j, id, name, config, wall_ns, f);
    undone = err && j && journal_has_run(j);
    journal_close(j);
    if (undone)
        unregister(fleet, id);
    if (err)
        return err;
    /* A run from now on, whether it can be read this instant or not. */
    if (discover(fleet, &why) == ERR_OK)
        return ERR_OK;
    log_event(LOG_WARN, "run_not_read_yet", "run=%s reason=\"%s\"", id,
              why.text);
    if (!fleet_find(fleet, id))
        take_run(fleet, id, name);
    return ERR_OK;
}

/* ---- removal ------------------------------------------------------------- */

enum err fleet_remove_unlisted(struct fleet *fleet, const char *id,
                               struct fault *f)
{
    int64_t newest;
    enum err err = removal_of_run(fleet->state, id, &newest, f);

    if (err)
        return err;
    /* Runs that come now have a larger number than that. */
    if (newest < fleet->newest)
        fleet->newest = newest;
    log_event(LOG_INFO, "run_removed", "run=%s", id);
    return ERR_OK;
}

enum err fleet_remove(struct fleet *fleet, struct fleet_run *run,
                      struct fault *f)
{
    enum err err;

    assert(fleet_find(fleet, run->id) == run);
    assert(!run->alive);
    err = fleet_remove_unlisted(fleet, run->id, f);
    if (!err)
        unlist(fleet, run);
    return err;
}

/* ---- life ---------------------------------------------------------------- */

struct sought {
    const char *id;
    bool found;
};

static enum err compare_id(void *ctx, const struct journal_run *run)
{
    struct sought *sought = ctx;

    sought->found |= strcmp(run->id, sought->id) == 0;
    return ERR_OK;
}

bool fleet_journaled(const struct fleet *fleet, const char *id)
{
    struct sought sought = {.id = id};
    enum err err =
        journal_find_run(fleet->journal, id, compare_id, &sought, NULL);

    assert(id[0]);
    return sought.found || (err && err != ERR_NOENT);
}

static bool folder_is_gone(const struct fleet *fleet,
                           const struct fleet_run *run)
{
    char path[FILE_PATH_MAX], name[RUN_ID_MAX + 8];
    struct stat s;

    snprintf(name, sizeof(name), "runs/%s", run->id);
    return file_join(path, fleet->state, name, NULL) == ERR_OK &&
           lstat(path, &s) != 0 && errno == ENOENT;
}

/* Runs of which the journal has nothing but that they were submitted, and whose
 * folder is gone: of a submission, or a removal, that was cut off. Nothing
 * could take them up. Where no run has its folder, a disk is not mounted, and
 * all stay. */
static void sweep_journal(struct fleet *fleet)
{
    struct fault why = {0};
    size_t gone = 0;

    for (size_t i = 0; i < fleet->runs; i++)
        gone += folder_is_gone(fleet, fleet->run[i]);
    if (gone == fleet->runs)
        return;
    for (size_t i = fleet->runs; i-- > 0;) {
        struct fleet_run *run = fleet->run[i];

        if (run->unread || run->ended || run->managed || run->alive ||
            history_records(&run->history) > 0 || !folder_is_gone(fleet, run))
            continue;
        log_event(LOG_WARN, "run_without_folder", "run=%s removed=yes",
                  run->id);
        if (fleet_remove(fleet, run, &why) != ERR_OK)
            log_event(LOG_WARN, "run_not_removed", "reason=\"%s\"", why.text);
    }
}

/* Folders of submissions that were cut off before the journal knew them: nobody
 * was told of them. */
static void sweep_folders(const struct fleet *fleet)
{
    char runs[FILE_PATH_MAX], path[FILE_PATH_MAX];
    struct dirent *e;
    DIR *d = file_join(runs, fleet->state, "runs", NULL) == ERR_OK
                 ? opendir(runs)
                 : NULL;

    while (d && (e = readdir(d)))
        if (run_id_valid(e->d_name) && !fleet_find(fleet, e->d_name) &&
            job_exists(fleet->state, e->d_name) &&
            !fleet_journaled(fleet, e->d_name) &&
            !run_folder_alive(fleet->state, e->d_name) &&
            file_join(path, runs, e->d_name, NULL) == ERR_OK)
            folder_remove(path, NULL);
    if (d)
        closedir(d);
}

/* A new state folder has no journal that could be read. */
static enum err make_journal(const char *state, struct fault *f)
{
    struct journal *j = NULL;
    enum err err = mend_open(state, true, JOURNAL_BUSY_MS, &j, f);

    journal_close(j);
    return err;
}

enum err fleet_open(struct fleet *fleet, const char *state, struct view *view,
                    struct fault *f)
{
    enum err err;

    assert(state[0] == '/' && view);
    memset(fleet, 0, sizeof(*fleet));
    snprintf(fleet->state, sizeof(fleet->state), "%s", state);
    fleet->view = view;
    err = make_journal(state, f);
    if (!err)
        err = mend_open(state, false, JOURNAL_BUSY_MS, &fleet->journal, f);
    if (!err)
        err = journal_version(fleet->journal, &fleet->version, f);
    if (!err)
        err = discover(fleet, f);
    if (!err) {
        sweep_journal(fleet);
        sweep_folders(fleet);
        removal_of_unborn(fleet->state, fleet->journal);
    }
    give_back();
    return err;
}

void fleet_close(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->runs; i++)
        run_free(fleet->run[i]);
    mem_free(fleet->run);
    journal_close(fleet->journal);
    memset(fleet, 0, sizeof(*fleet));
}
