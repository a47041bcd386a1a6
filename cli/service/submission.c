#include "cli/service/submission.h"

#include "api/http/value.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/run_files.h"
#include "cli/run/session.h"
#include "tuner/history/record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void submission_not_stored(enum err err, const struct fault *f,
                           struct response *out)
{
    assert(f);
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

static json_t *submitted(const char *id, const struct job *job,
                         const struct run_config *c,
                         const struct problems *problems)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:o, s:O}", "run", id, "name",
                     value_text(c->name), "group", job->group, "status",
                     job->held ? RUN_STATUS_HELD : RUN_STATUS_QUEUED,
                     "problems", problems_to_json(problems), "config",
                     c->effective);
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

void submission_name_group(const char *name, char out[QUEUE_GROUP_MAX])
{
    size_t n = 0;

    assert(name);
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
    snprintf(job->by, sizeof(job->by), "%s", r->by);
    if (r->group[0])
        snprintf(job->group, sizeof(job->group), "%s", r->group);
    else
        submission_name_group(c->name, job->group);
}

/* The files of a new run, in the order in which they are no use without the
 * next; the journal makes it a run. */
static enum err store(struct supervisor *s, const struct desk_request *r,
                      const struct run_config *c, const struct job *job,
                      struct run_folder *folder, struct fault *f)
{
    char path[FILE_PATH_MAX];
    char *config = json_write(c->effective, 2);
    enum err err;

    if (!config)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = run_folder_new(folder, s->fleet->state, c->name, f);
    if (!err)
        err = file_join(path, folder->path, RUN_GIVEN, f);
    if (!err)
        err = file_write(path, r->body, r->len, f);
    if (!err)
        err = file_join(path, folder->path, "config.json", f);
    if (!err)
        err = file_write(path, config, strlen(config), f);
    if (!err) {
        const struct checkpoint_start start = {.run = folder->id,
                                               .name = (char *)c->name,
                                               .config = config,
                                               .folder = (char *)c->folder,
                                               .began_ns = job->submitted_ns};

        err = session_remember(folder->path, &start, f);
    }
    if (!err)
        err = job_write(s->fleet->state, folder->id, job, f);
    run_folder_close(folder);
    if (!err)
        err = fleet_register(s->fleet, folder->id, c->name, config,
                             job->submitted_ns, f);
    /* A run that the journal names must have its folder. */
    if (err && folder->path[0] && !fleet_journaled(s->fleet, folder->id))
        folder_remove(folder->path, NULL);
    mem_free(config);
    return err;
}

static void submit_new(struct supervisor *s, const struct desk_request *r,
                       const struct run_config *c,
                       const struct problems *problems, const struct job *job,
                       struct response *out)
{
    struct run_folder folder = {.lock_fd = -1};
    struct fault f = {0};
    enum err err = store(s, r, c, job, &folder, &f);

    supervisor_written(s, err);
    if (err) {
        log_event(LOG_ERROR, "submission_not_stored", "reason=\"%s\"", f.text);
        if (folder.id[0] && fleet_journaled(s->fleet, folder.id))
            response_problem(out, 507, "not_stored", NULL,
                             "%s; run %s is listed all the same", f.text,
                             folder.id);
        else
            submission_not_stored(err, &f, out);
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
        submit_new(s, r, c, problems, &job, out);
    else if (known->job.body_hash == job.body_hash)
        respond_submitted(known->id, &job, c, problems, out);
    else
        response_problem(out, 422, "key_used", NULL,
                         "this Idempotency-Key came with another request "
                         "before");
}

void submission_take(struct supervisor *s, const struct desk_request *r,
                     struct response *out)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    enum err err = intake_parse(&s->o->intake, r->body, r->len, &c, &problems);

    assert(r->body);
    if (!err)
        submit_valid(s, r, c, &problems, out);
    else if ((err == ERR_INVAL || err == ERR_UNSUPPORTED) &&
             problems_errors(&problems))
        intake_refuse(err, &problems, out);
    else
        response_json(out, 200, NULL); /* 503 */
    run_config_free(c);
    problems_deinit(&problems);
}

void submission_check(struct supervisor *s, const struct desk_request *r,
                      struct response *out)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    enum err err = intake_parse(&s->o->intake, r->body, r->len, &c, &problems);

    assert(r->body);
    if (err && err != ERR_INVAL && err != ERR_UNSUPPORTED)
        response_json(out, 200, NULL); /* 503 */
    else
        response_json(out, 200,
                      json_pack("{s:b, s:o, s:O?}", "valid", c != NULL,
                                "problems", problems_to_json(&problems),
                                "config", c ? c->effective : NULL));
    run_config_free(c);
    problems_deinit(&problems);
}
