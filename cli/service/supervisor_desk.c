/* The supervisor's desk: which part of the service answers a request. */
#include "api/view/notes.h"
#include "base/clock_io.h"
#include "base/json/json.h"
#include "cli/service/data_list.h"
#include "cli/service/forward.h"
#include "cli/service/idle_run.h"
#include "cli/service/submission.h"
#include "cli/service/supervisor.h"
#include "cli/state/job.h"
#include "cli/state/notes_file.h"

#include <stdio.h>
#include <string.h>

/* Of a turn, for what waits at the desk: one request more may be answered. */
static const time_ns DESK_TIME = 50000000;

/* Who is no admin deletes what they submitted themselves. */
static bool may_delete(const struct supervisor *s, const struct desk_request *r,
                       struct response *out)
{
    struct job job = {.number = 0};

    if (r->role >= ROLE_ADMIN)
        return true;
    if (job_read(s->fleet->state, r->run, &job, NULL) == ERR_OK &&
        strcmp(job.by, r->by) == 0)
        return true;
    response_problem(out, 403, "role_too_low", NULL,
                     "run %s was submitted by %s, not by %s: to delete it "
                     "takes the role %s",
                     r->run, job.by[0] ? job.by : "somebody else", r->by,
                     role_name(ROLE_ADMIN));
    return false;
}

static void delete (struct supervisor *s, struct fleet_run *run,
                    const struct desk_request *r, struct response *out)
{
    const char *id = r->run;

    if (!may_delete(s, r, out))
        return;
    if (run && run->alive)
        response_problem(out, 409, "run_alive", NULL,
                         "run %s is under way: stop it first", id);
    else
        idle_run_delete(s, run, id, out);
}

/* What a note came to, as the other commands say it. */
static json_t *noted(const char *id, const json_t *notes)
{
    size_t tags = json_array_size(notes_tags(notes));
    char text[64];

    snprintf(text, sizeof(text), "the run has %zu tag%s and %s", tags,
             tags == 1 ? "" : "s", notes_text(notes) ? "a note" : "no note");
    return json_pack("{s:s, s:s, s:b, s:s, s:n, s:n, s:[]}", "run", id,
                     "command", command_of(COMMAND_NOTE)->name, "changed", true,
                     "message", text, "stop", "branch", "suggestions");
}

/* The body was found good with the request. */
static void note(struct supervisor *s, const struct desk_request *r,
                 struct response *out)
{
    json_t *change = NULL, *now = NULL;
    struct fault f = {0};
    enum err err = json_load(r->body, r->len, &change, NULL, &f);

    if (!err)
        err = notes_file_change(s->fleet->state, r->run, change, &now, &f);
    json_decref(change);
    supervisor_written(s, err == ERR_IO ? err : ERR_OK);
    if (err) {
        submission_not_stored(err, &f, out);
        return;
    }
    response_json(out, 200, noted(r->run, now));
    view_set_notes(s->fleet->view, r->run, now);
}

/* False: the answer comes later. */
static bool serve(struct supervisor *s, const struct desk_request *r,
                  desk_ticket ticket, struct response *out)
{
    struct fleet_run *run = fleet_find(s->fleet, r->run);
    bool journaled =
        run || (r->command == COMMAND_DELETE && run_id_valid(r->run) &&
                fleet_journaled(s->fleet, r->run));

    if (s->signal || s->idle)
        response_problem(out, 503, "not_ready", NULL,
                         "the service is about to end");
    else if (r->command == COMMAND_SUBMIT)
        submission_take(s, r, out);
    else if (r->command == COMMAND_VALIDATE)
        submission_check(s, r, out);
    else if (r->command == COMMAND_UPLOAD)
        upload_take(&s->o->uploads, r, out);
    else if (r->command == COMMAND_UPLOADED)
        upload_look(&s->o->uploads, r->upload, out);
    else if (r->command == COMMAND_WITHDRAW)
        upload_withdraw(&s->o->uploads, r, out);
    else if (r->command == COMMAND_DATA)
        data_list(&s->o->uploads, out);
    else if (!journaled)
        response_problem(out, 404, "run_not_found", NULL, "there is no run %s",
                         r->run);
    else if (r->command == COMMAND_DELETE)
        delete (s, run, r, out);
    else if (r->command == COMMAND_NOTE)
        note(s, r, out);
    else if (run->unread)
        response_problem(out, 503, "run_not_read", NULL, "run %s: %s", run->id,
                         run->trouble);
    else if (run->alive)
        return !forward_begin(s, run, r, ticket, out);
    else
        idle_run_command(s, run, r, out);
    return true;
}

void supervisor_serve_desk(struct supervisor *s)
{
    time_ns until = clock_monotonic() + DESK_TIME;

    for (size_t i = 0; i < SUPERVISOR_DESK_TURN; i++) {
        struct response out = {0};
        struct desk_request r;
        desk_ticket ticket;

        if (!desk_take(s->desk, &r, &ticket))
            return;
        if (serve(s, &r, ticket, &out))
            desk_answer(s->desk, ticket, &out);
        desk_request_deinit(&r);
        if (clock_monotonic() >= until)
            return;
    }
}
