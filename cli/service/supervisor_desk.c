/* What a service is asked over HTTP, and what it answers. */
#include "cli/service/supervisor.h"

#include "api/http/value.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/run/session.h"
#include "cli/state/removal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void refuse_fault(enum err err, const struct fault *f,
                         struct response *out)
{
    switch (err) {
    case ERR_NOMEM:
        response_json(out, 200, NULL); /* 503 */
        break;
    case ERR_LIMIT:
        response_problem(out, 503, "too_many_runs", NULL, "%s", f->text);
        break;
    case ERR_BUSY:
        response_problem(out, 503, "busy", NULL, "%s", f->text);
        break;
    default:
        response_problem(out, 507, "not_stored", NULL,
                         "%s; nothing was changed", f->text);
    }
}

/* ---- submissions --------------------------------------------------------- */

static json_t *submitted(const char *id, const struct job *job,
                         const struct run_config *c,
                         const struct problems *problems)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:o, s:O}", "run", id, "name",
                     value_text(c->name), "group", job->group, "status",
                     job->held ? "held" : "queued", "problems",
                     problems_to_json(problems), "config", c->effective);
}

static void respond_submitted(const char *id, const struct job *job,
                              const struct run_config *c,
                              const struct problems *problems,
                              struct response *out)
{
    response_json(out, 201, submitted(id, job, c, problems));
    snprintf(out->location, sizeof(out->location), "/api/v1/runs/%s", id);
}

static const struct fleet_run *with_key(const struct fleet *fleet,
                                        const char *key)
{
    for (size_t i = 0; i < fleet->runs && *key; i++)
        if (strcmp(fleet->run[i]->job.key, key) == 0)
            return fleet->run[i];
    return NULL;
}

/* Characters of ids only, so that a group that was not named is one that could
 * have been. */
static void name_group(const char *name, char out[QUEUE_GROUP_MAX])
{
    size_t n = 0;

    for (; name[n] && n < QUEUE_GROUP_MAX - 1; n++) {
        char c = name[n];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        out[n] = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
    }
    out[n] = '\0';
}

static void make_job(struct supervisor *s, const struct desk_request *r,
                     const struct run_config *c, struct job *job)
{
    *job = (struct job){
        .number = s->fleet->numbers + 1,
        .submitted_ns = clock_wall(),
        .held = r->held,
        .body_hash = job_hash(r->body, r->len) ^
                     job_hash(r->group, strlen(r->group)) * 31 ^ r->held,
    };
    if (r->held)
        snprintf(job->reason, sizeof(job->reason),
                 "submitted so; continue puts it into the queue");
    snprintf(job->key, sizeof(job->key), "%s", r->key);
    if (r->group[0])
        snprintf(job->group, sizeof(job->group), "%s", r->group);
    else
        name_group(c->name, job->group);
}

/* The files of a new run, in the order in which they are no use without the
 * next; the journal makes it a run. */
static enum err store(struct supervisor *s, const struct run_config *c,
                      const struct job *job, struct run_folder *folder,
                      struct fault *f)
{
    char path[FILE_PATH_MAX];
    char *config = json_write(c->effective, 2);
    enum err err;

    if (!config)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = run_folder_new(folder, s->fleet->state, c->name, f);
    if (!err)
        err = file_join(path, folder->path, "config.json", f);
    if (!err)
        err = file_write(path, config, strlen(config), f);
    if (!err)
        err = session_remember(folder->path, c->folder, "", f);
    if (!err)
        err = job_write(s->fleet->state, folder->id, job, f);
    run_folder_close(folder);
    if (!err)
        err = fleet_register(s->fleet, folder->id, c->name, config,
                             job->submitted_ns, f);
    if (err && folder->path[0])
        folder_remove(folder->path, NULL);
    mem_free(config);
    return err;
}

static void submit_new(struct supervisor *s, const struct run_config *c,
                       const struct problems *problems, const struct job *job,
                       struct response *out)
{
    struct run_folder folder = {.lock_fd = -1};
    struct fault f = {0};
    enum err err = store(s, c, job, &folder, &f);

    supervisor_written(s, err);
    if (err) {
        log_event(LOG_ERROR, "submission_not_stored", "reason=\"%s\"", f.text);
        refuse_fault(err, &f, out);
        return;
    }
    s->fleet->numbers = job->number;
    log_event(LOG_INFO, "run_submitted", "run=%s group=%s workers=%u",
              folder.id, job->group, c->nodes * c->workers);
    respond_submitted(folder.id, job, c, problems, out);
}

static void submit_valid(struct supervisor *s, const struct desk_request *r,
                         const struct run_config *c,
                         const struct problems *problems, struct response *out)
{
    const struct fleet_run *known = with_key(s->fleet, r->key);
    struct job job;

    make_job(s, r, c, &job);
    if (!known)
        submit_new(s, c, problems, &job, out);
    else if (known->job.body_hash == job.body_hash)
        respond_submitted(known->id, &job, c, problems, out);
    else
        response_problem(out, 422, "key_used", NULL,
                         "this Idempotency-Key came with another request "
                         "before");
}

static void submit(struct supervisor *s, const struct desk_request *r,
                   struct response *out)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    enum err err = intake_parse(&s->o->intake, r->body, r->len, &c, &problems);

    if (!err)
        submit_valid(s, r, c, &problems, out);
    else if (err == ERR_INVAL && problems.errors)
        intake_refuse(&problems, out);
    else
        response_json(out, 200, NULL); /* 503 */
    run_config_free(c);
    problems_deinit(&problems);
}

static void validate(struct supervisor *s, const struct desk_request *r,
                     struct response *out)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    enum err err = intake_parse(&s->o->intake, r->body, r->len, &c, &problems);

    if (err && err != ERR_INVAL)
        response_json(out, 200, NULL); /* 503 */
    else
        response_json(out, 200,
                      json_pack("{s:b, s:o, s:O?}", "valid", c != NULL,
                                "problems", problems_to_json(&problems),
                                "config", c ? c->effective : NULL));
    run_config_free(c);
    problems_deinit(&problems);
}

/* ---- commands to runs that do not live ----------------------------------- */

static void respond_command(const struct fleet_run *run,
                            enum command_id command, bool changed,
                            const char *message, struct response *out)
{
    response_json(out, 200,
                  json_pack("{s:s, s:s, s:b, s:s, s:n, s:n}", "run", run->id,
                            "command", command_of(command)->name, "changed",
                            changed, "message", message, "stop", "branch"));
}

static void set_held(struct supervisor *s, struct fleet_run *run,
                     enum command_id command, bool held, const char *message,
                     struct response *out)
{
    struct job job = run->job;
    struct fault f = {0};
    enum err err;

    if (!run->managed) {
        job = (struct job){.number = s->fleet->numbers + 1,
                           .submitted_ns = clock_wall()};
        name_group(run->name, job.group);
    }
    job.held = held;
    snprintf(job.reason, sizeof(job.reason), "%s",
             held ? "paused in the queue; continue puts it back" : "");
    err = fleet_set_job(s->fleet, run, &job, &f);
    supervisor_written(s, err);
    if (err) {
        refuse_fault(err, &f, out);
        return;
    }
    if (job.number > s->fleet->numbers)
        s->fleet->numbers = job.number;
    run->not_before = 0;
    respond_command(run, command, true, message, out);
}

/* Writes the run's end, or (@status NULL) takes it back. */
static enum err write_end(struct supervisor *s, struct fleet_run *run,
                          const char *status, struct fault *f)
{
    struct journal *j = NULL;
    enum err err = journal_open(s->fleet->state, true, JOURNAL_BUSY_MS, &j, f);

    if (!err)
        err = journal_continue_run(j, run->id, f);
    if (!err && status)
        err = journal_end_run(j, status, "user", NULL, clock_wall(), f);
    journal_close(j);
    if (!err)
        err = fleet_read_end(s->fleet, run, f);
    supervisor_written(s, err);
    return err;
}

static void stop_waiting(struct supervisor *s, struct fleet_run *run,
                         struct response *out)
{
    struct fault f = {0};
    enum err err = write_end(s, run, run_status_name(RUN_STOPPED), &f);

    /* Held or not is nothing that a run which has ended can be. */
    if (!err && run->job.held) {
        struct job job = run->job;

        job.held = false;
        job.reason[0] = '\0';
        err = fleet_set_job(s->fleet, run, &job, &f);
    }
    if (err)
        refuse_fault(err, &f, out);
    else
        respond_command(run, COMMAND_STOP, true,
                        "the user stops the run, which waits: it is taken out "
                        "of the queue",
                        out);
}

/* One that was stopped has its end taken back first. */
static void go_on(struct supervisor *s, struct fleet_run *run,
                  struct response *out)
{
    struct fault f = {0};
    enum err err = run->ended ? write_end(s, run, NULL, &f) : ERR_OK;

    if (err) {
        refuse_fault(err, &f, out);
        return;
    }
    run->attempts = 0;
    set_held(s, run, COMMAND_CONTINUE, false,
             "the run is in the queue, and goes on when it is its turn", out);
}

/* @run is NULL where the fleet does not list it. The models that it has written
 * elsewhere (--out) stay. */
static void delete_run(struct supervisor *s, struct fleet_run *run,
                       const char *id, struct response *out)
{
    struct fault f = {0};
    json_t *answer;
    enum err err = ERR_NOMEM;

    answer =
        json_pack("{s:s, s:s, s:b, s:s, s:n, s:n}", "run", id, "command",
                  command_of(COMMAND_DELETE)->name, "changed", true, "message",
                  "the run is deleted: its folder, and what the journal "
                  "has of it",
                  "stop", "branch");
    if (answer && run)
        err = fleet_remove(s->fleet, run, &f);
    else if (answer)
        err = removal_of_run(s->fleet->state, id, NULL, &f);
    supervisor_written(s, err == ERR_BUSY ? ERR_OK : err);
    if (!err) {
        response_json(out, 200, answer);
        return;
    }
    json_decref(answer);
    if (err == ERR_BUSY)
        response_problem(out, 409, "run_alive", NULL, "%s", f.text);
    else if (err == ERR_NOMEM)
        response_json(out, 200, NULL); /* 503 */
    else
        response_problem(out, 507, "not_stored", NULL,
                         "%s; delete it again to take out what is left",
                         f.text);
}

static void refuse_ended(const struct fleet_run *run, struct response *out)
{
    response_problem(out, 409, "run_ended", NULL, "run %s has ended as %s",
                     run->id, run->ended ? run->status : "interrupted");
}

static void command_resting(struct supervisor *s, struct fleet_run *run,
                            enum command_id command, struct response *out)
{
    bool waits = fleet_waits(run);
    bool held = run->managed && run->job.held;

    if (command == COMMAND_CONTINUE && waits)
        respond_command(run, command, false, "the run waits for its turn", out);
    else if (command == COMMAND_CONTINUE && fleet_resumable(run))
        go_on(s, run, out);
    else if (!waits && !held)
        refuse_ended(run, out);
    else if (command == COMMAND_PAUSE && held)
        respond_command(run, command, false, "the run is held already", out);
    else if (command == COMMAND_PAUSE)
        set_held(s, run, command, true,
                 "the run keeps out of the queue until it is continued", out);
    else if (command == COMMAND_STOP)
        stop_waiting(s, run, out);
    else
        response_problem(out, 409, "not_yet", NULL,
                         "run %s waits in the queue: this can be asked of it "
                         "once it has begun",
                         run->id);
}

/* ---- commands to runs that live ------------------------------------------ */

static struct passing *free_passing(struct supervisor *s)
{
    for (size_t i = 0; i < DESK_SLOTS; i++)
        if (!s->passing[i].ticket)
            return &s->passing[i];
    return NULL;
}

/* Address of the run's own server; false while it has none. */
static bool find_url(const struct supervisor *s, const struct fleet_run *run,
                     char out[CLIENT_URL_MAX])
{
    char path[FILE_PATH_MAX], name[RUN_ID_MAX + 16];
    char *text = NULL;
    size_t len;
    bool found;

    snprintf(name, sizeof(name), "runs/%s/url", run->id);
    found = file_join(path, s->fleet->state, name, NULL) == ERR_OK &&
            file_read(path, CLIENT_URL_MAX - 1, &text, &len, NULL) == ERR_OK;
    if (found)
        snprintf(out, CLIENT_URL_MAX, "%s", text);
    mem_free(text);
    return found;
}

/* As it came: the run's own server reads it by the same table of routes. */
static bool pass_on(struct supervisor *s, const struct fleet_run *run,
                    const struct desk_request *r, desk_ticket ticket,
                    struct response *out)
{
    char url[CLIENT_URL_MAX];
    struct passing *p = free_passing(s);
    struct fault f = {0};
    struct client_request q = {.url = url,
                               .method = command_of(r->command)->method,
                               .target = r->target,
                               .token = s->o->token,
                               .body = r->len ? r->body : NULL,
                               .key = r->key};

    assert(p); /* as many as the desk has places */
    if (!find_url(s, run, url) || client_open(&q, &p->exchange, &f) != ERR_OK) {
        response_problem(out, 409, "not_yet", NULL,
                         "run %s is only beginning, or about to end; try again",
                         run->id);
        return false;
    }
    p->ticket = ticket;
    return true;
}

/* The run's answer as ours. */
static void relay(int status, const char *body, size_t len,
                  struct response *out)
{
    char *copy = response_reason(status)[0] ? mem_alloc(len + 1) : NULL;

    if (!response_reason(status)[0]) {
        response_problem(out, 502, "no_answer", NULL,
                         "the run's own server answers %d, which is not in "
                         "this interface",
                         status);
    } else if (!copy) {
        response_json(out, 200, NULL); /* 503 */
    } else {
        memcpy(copy, body, len);
        response_text(out, status,
                      status < 300 ? "application/json"
                                   : "application/problem+json",
                      copy, len);
    }
}

void supervisor_collect(struct supervisor *s)
{
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct passing *p = &s->passing[i];
        struct response out = {0};
        struct fault f = {0};
        const char *body;
        size_t len;
        int status;
        enum err err;

        if (!p->ticket)
            continue;
        err = client_step(&p->exchange, &status, &body, &len, &f);
        if (err == ERR_AGAIN)
            continue;
        if (err)
            response_problem(&out, 503, "no_answer", NULL,
                             "the run has not answered (%s); it may have done "
                             "what was asked",
                             f.text);
        else
            relay(status, body, len, &out);
        client_close(&p->exchange);
        desk_answer(s->desk, p->ticket, &out);
        p->ticket = 0;
    }
}

void supervisor_forget(struct supervisor *s)
{
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct passing *p = &s->passing[i];
        struct response out = {0};

        if (!p->ticket)
            continue;
        response_problem(&out, 503, "not_ready", NULL,
                         "the service ends; the run may have done what was "
                         "asked");
        client_close(&p->exchange);
        desk_answer(s->desk, p->ticket, &out);
        p->ticket = 0;
    }
}

/* ---- the desk ------------------------------------------------------------ */

/* False: the answer comes later. */
static bool serve(struct supervisor *s, const struct desk_request *r,
                  desk_ticket ticket, struct response *out)
{
    struct fleet_run *run = fleet_find(s->fleet, r->run);

    if (s->signal) {
        response_problem(out, 503, "not_ready", NULL,
                         "the service is about to end");
    } else if (r->command == COMMAND_SUBMIT) {
        submit(s, r, out);
    } else if (r->command == COMMAND_VALIDATE) {
        validate(s, r, out);
    } else if (!run && r->command == COMMAND_DELETE && run_id_valid(r->run) &&
               fleet_journaled(s->fleet, r->run)) {
        delete_run(s, NULL, r->run, out);
    } else if (!run) {
        response_problem(out, 404, "run_not_found", NULL, "there is no run %s",
                         r->run);
    } else if (r->command == COMMAND_DELETE && run->alive) {
        response_problem(out, 409, "run_alive", NULL,
                         "run %s is under way: stop it first", r->run);
    } else if (r->command == COMMAND_DELETE) {
        delete_run(s, run, r->run, out);
    } else if (run->alive) {
        return !pass_on(s, run, r, ticket, out);
    } else {
        command_resting(s, run, r->command, out);
    }
    return true;
}

void supervisor_serve_desk(struct supervisor *s)
{
    struct desk_request r;
    desk_ticket ticket;

    while (desk_take(s->desk, &r, &ticket)) {
        struct response out = {0};

        if (serve(s, &r, ticket, &out))
            desk_answer(s->desk, ticket, &out);
        desk_request_deinit(&r);
    }
}
