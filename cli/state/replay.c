#include "cli/state/replay.h"

#include "base/json/json.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/state/job.h"
#include "cli/state/mend.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err replay_open(const char *state, char path[FILE_PATH_MAX],
                     struct journal **out, struct fault *f)
{
    enum err err = state_find(state, path, f);

    assert(state);
    assert(out);
    if (err)
        return err;
    return mend_open(path, false, JOURNAL_BUSY_MS, out, f);
}

static enum err take_id(void *ctx, const struct journal_run *run)
{
    snprintf(ctx, RUN_ID_MAX + 1, "%s", run->id);
    return ERR_OK;
}

enum err replay_find_id(const char *state, const char *word,
                        char id[RUN_ID_MAX + 1], struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;
    enum err err = replay_open(state, path, &j, f);

    if (!err)
        err = journal_find_run(j, word, take_id, id, f);
    journal_close(j);
    if (!err && !run_id_valid(id))
        return fault_set(f, ERR_FORMAT, "run \"%s\" has no valid id", id);
    return err;
}

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

/* The JSON of one of the run's columns; NULL for none. */
static enum err load_json(const char *text, json_t **out, struct fault *f)
{
    *out = NULL;
    return text ? json_load(text, strlen(text), out, NULL, f) : ERR_OK;
}

struct replay_taking {
    struct replayed *out;
    struct fault *fault;
    int tries; /* to be made again where the journal was changed meanwhile */
};

void replay_folder(const char *state, const char *id, char out[FILE_PATH_MAX])
{
    int n = snprintf(out, FILE_PATH_MAX, "%s/runs/%s", state, id);

    if (n < 0 || n >= FILE_PATH_MAX)
        out[0] = '\0';
}

/* The first thing that is damaged is named. */
static void say_damage(struct replayed *r, const char *what)
{
    if (!r->damage[0])
        snprintf(r->damage, sizeof(r->damage), "%.*s",
                 (int)sizeof(r->damage) - 1, what);
}

/* @run's end counts where it is one. */
static enum err take_run(void *ctx, const struct journal_run *run)
{
    struct replay_taking *t = ctx;
    struct replayed *r = t->out;
    struct fault why = {0};
    enum err err = ERR_OK;

    r->config = r->result = NULL;
    copy_text(r->id, sizeof(r->id), run->id);
    copy_text(r->name, sizeof(r->name), run->name);
    copy_text(r->status, sizeof(r->status), run->status);
    copy_text(r->reason, sizeof(r->reason), run->reason);
    r->ended = run_status_names_end(run->status);
    r->began_ns = run->began_ns;
    r->last_ns = r->ended ? run->ended_ns : run->last_ns;
    err = run->damaged ? ERR_FORMAT : load_json(run->config, &r->config, &why);
    if (err == ERR_FORMAT)
        say_damage(r, "the journal's copy of the configuration is damaged");
    if (err && err != ERR_FORMAT)
        return fault_set(t->fault, err, "%s", why.text);
    err = load_json(run->result, &r->result, &why);
    if (err == ERR_FORMAT)
        say_damage(r, "the journal's copy of the result is damaged");
    return err == ERR_FORMAT ? ERR_OK : err;
}

/* The second copy serves. */
static enum err need_config(struct replayed *r, struct fault *f)
{
    if (!r->config && r->start.config)
        load_json(r->start.config, &r->config, NULL);
    return r->config ? ERR_OK
                     : fault_set(f, ERR_FORMAT,
                                 "run %s: its configuration is damaged, and "
                                 "its folder has no copy; mltune recover "
                                 "reads what is whole",
                                 r->id);
}

/* A record that does not fit lacks one that is damaged or gone. */
static void pass_over(struct replayed *r, uint64_t seq, const char *why)
{
    char text[256];

    snprintf(text, sizeof(text),
             "record %llu does not fit those before: %.150s",
             (unsigned long long)seq, why);
    say_damage(r, text);
    r->passed_over++;
}

static enum err take_record(void *ctx, const struct journal_record *stored)
{
    struct replay_taking *t = ctx;
    struct record record;
    struct fault why = {0};
    json_t *json = NULL;
    enum err err;

    /* A checkpoint that was read just before it was replaced, and the records
     * after it are gone meanwhile. */
    if (stored->seq > history_records(&t->out->history) + 1 && t->tries > 0)
        return ERR_AGAIN;
    t->tries = 0;
    err = json_load(stored->json, stored->len, &json, NULL, &why);
    if (!err)
        err = record_from_json(json, &record, &why);
    json_decref(json);
    if (!err) {
        err = history_apply(&t->out->history, &record);
        record_deinit(&record);
    }
    if (err == ERR_NOMEM)
        return fault_set(t->fault, err, "%s", err_text(err));
    if (err)
        pass_over(t->out, stored->seq, why.text[0] ? why.text : err_text(err));
    history_skip(&t->out->history, stored->seq);
    return ERR_OK;
}

/* Status of a run that has no recorded end: what its tuner told elsewhere, if
 * the journal could not be written. One whose tuner lives again has not yet
 * journaled that it goes on. */
static enum err name_status(struct replayed *r, const char *state,
                            struct fault *f)
{
    const char *status = run_status_name(RUN_INTERRUPTED);
    const char *reason = "tuner_died";
    struct fault why = {0};
    struct run_end told;
    enum err err = job_read(state, r->id, &r->job, &why);

    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", why.text);
    r->managed = !err;
    if (r->ended)
        return ERR_OK;
    if (r->alive) {
        status = run_status_name(history_finished(&r->history)
                                     ? RUN_WAITING
                                     : history_status(&r->history));
        reason = "";
    } else if (history_records(&r->history) == 0 && r->managed) {
        status = r->job.held ? RUN_STATUS_HELD : RUN_STATUS_QUEUED;
        reason = r->job.reason;
    } else if (run_folder_told_end(state, r->id, &told)) {
        status = told.status;
        reason = told.reason;
    }
    copy_text(r->status, sizeof(r->status), status);
    copy_text(r->reason, sizeof(r->reason), reason);
    return ERR_OK;
}

void replay_shares(const json_t *config, unsigned *workers, uint64_t *memory)
{
    json_int_t own = json_integer_value(json_at(config, "/cluster/workers"));
    json_int_t nodes = json_integer_value(json_at(config, "/cluster/nodes"));

    assert(workers);
    assert(memory);
    *workers = (unsigned)((own > 0 ? own : 1) * (nodes > 0 ? nodes : 1));
    *memory = 0;
    json_to_bytes(json_at(config, "/memory/limit"), memory);
}

void replay_told(const struct replayed *r, struct view_job *job)
{
    assert(r);
    assert(job);
    *job = (struct view_job){.managed = r->managed};
    if (r->managed) {
        snprintf(job->group, sizeof(job->group), "%s", r->job.group);
        job->submitted_unix_s = (double)r->job.submitted_ns * 1e-9;
        job->waits = strcmp(r->status, RUN_STATUS_QUEUED) == 0;
        replay_shares(r->config, &job->workers, &job->memory);
    }
    if (strcmp(r->status, run_status_name(history_status(&r->history))) == 0)
        return;
    snprintf(job->status, sizeof(job->status), "%.15s", r->status);
    snprintf(job->reason, sizeof(job->reason), "%s", r->reason);
}

static enum err look_again(struct journal *j, struct replay_taking *t)
{
    char id[RUN_ID_MAX + 1];

    memcpy(id, t->out->id, sizeof(id));
    json_decref(t->out->config);
    json_decref(t->out->result);
    t->out->config = t->out->result = NULL;
    return journal_find_run(j, id, take_run, t, t->fault);
}

/* What its folder has of it. A run that is older than checkpoints has none. */
static enum err take_checkpoint(struct replayed *r, const char *state,
                                struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct checkpoint c;
    struct fault told, why = {0};
    enum err err;

    replay_folder(state, r->id, path);
    err = checkpoint_read(path, &c, &told, &why);
    if (told.code)
        say_damage(r, told.text);
    r->mends = told.code != ERR_OK;
    if (err == ERR_NOENT || err == ERR_FORMAT)
        return ERR_OK;
    if (err)
        return fault_set(f, err, "%s", why.text);
    checkpoint_start_deinit(&r->start);
    r->start = c.start;
    c.start = (struct checkpoint_start){.run = NULL};
    if (c.has_history) {
        history_deinit(&r->history);
        r->history = c.history;
        c.has_history = false;
    }
    checkpoint_deinit(&c);
    return ERR_OK;
}

/* Checkpoint and records, as of one moment. */
static enum err take_history(struct journal *j, const char *state,
                             struct replay_taking *t)
{
    struct journal_damage damage;
    enum err err = ERR_AGAIN;

    for (int tries = 3; err == ERR_AGAIN && tries >= 0; tries--) {
        t->tries = tries;
        history_deinit(&t->out->history);
        history_init(&t->out->history);
        err = take_checkpoint(t->out, state, t->fault);
        if (!err)
            err = journal_each_whole(j, t->out->id,
                                     history_records(&t->out->history),
                                     take_record, t, &damage, t->fault);
    }
    if (!err && damage.records > 0)
        say_damage(t->out, damage.text);
    if (!err)
        t->out->passed_over += damage.records;
    return err;
}

enum err replay_run(struct journal *j, const char *state, const char *word,
                    struct replayed *out, struct fault *f)
{
    struct replay_taking t = {out, f, 0};
    enum err err;

    assert(j && state[0] == '/');
    memset(out, 0, sizeof(*out));
    history_init(&out->history);
    err = journal_find_run(j, word, take_run, &t, f);
    if (!err && !out->ended) {
        out->alive = run_folder_alive(state, out->id);
        /* It may have ended between the two questions. */
        if (!out->alive)
            err = look_again(j, &t);
    }
    if (!err)
        err = take_history(j, state, &t);
    if (!err)
        err = need_config(out, f);
    if (err) {
        replayed_deinit(out);
        return err;
    }
    err = name_status(out, state, f);
    if (err)
        replayed_deinit(out);
    return err;
}

struct more {
    struct replay_taking taking;
    uint64_t *after;
    journal_record_visit *visit;
    void *ctx;
    bool changed;
};

static enum err take_more(void *ctx, const struct journal_record *stored)
{
    struct more *m = ctx;
    enum err err = ERR_OK;

    if (stored->seq > history_records(&m->taking.out->history))
        err = take_record(&m->taking, stored);
    if (err)
        return err;
    *m->after = stored->seq;
    m->changed = true;
    return m->visit(m->ctx, stored);
}

enum err replay_more(struct journal *j, const char *state, struct replayed *r,
                     uint64_t *after, journal_record_visit *visit, void *ctx,
                     bool *changed, struct fault *f)
{
    struct more m = {{r, f, 0}, after, visit, ctx, false};
    char before[sizeof(r->status)];
    enum err err;

    assert(j && state[0] == '/');
    memcpy(before, r->status, sizeof(before));
    /* Asked before its last records are read, so that none is missed. */
    r->alive = run_folder_alive(state, r->id);
    err = look_again(j, &m.taking);
    if (!err)
        err = need_config(r, f);
    if (!err)
        err = journal_each_record(j, r->id, *after, take_more, &m, f);
    if (err)
        return err;
    err = name_status(r, state, f);
    *changed = m.changed || strcmp(before, r->status) != 0;
    return err;
}

bool replay_resumable(const struct replayed *r)
{
    return !r->ended ||
           run_status_resumes(r->status, history_has_work(&r->history));
}

void replayed_deinit(struct replayed *r)
{
    json_decref(r->config);
    json_decref(r->result);
    checkpoint_start_deinit(&r->start);
    history_deinit(&r->history);
    memset(r, 0, sizeof(*r));
}

int replay_exit_code(enum err err)
{
    switch (err) {
    case ERR_OK:
        return EXIT_DONE;
    case ERR_NOENT: /* no such run */
    case ERR_INVAL: /* more than one */
        return EXIT_USAGE;
    case ERR_NOMEM:
        return EXIT_RUN_FAILED;
    default:
        return EXIT_IO;
    }
}
