/* The supervisor's desk: which part of the service answers a request. */
#include "cli/service/forward.h"
#include "cli/service/idle_run.h"
#include "cli/service/submission.h"
#include "cli/service/supervisor.h"

static void delete (struct supervisor *s, struct fleet_run *run, const char *id,
                    struct response *out)
{
    if (run && run->alive)
        response_problem(out, 409, "run_alive", NULL,
                         "run %s is under way: stop it first", id);
    else
        idle_run_delete(s, run, id, out);
}

/* False: the answer comes later. */
static bool serve(struct supervisor *s, const struct desk_request *r,
                  desk_ticket ticket, struct response *out)
{
    struct fleet_run *run = fleet_find(s->fleet, r->run);
    bool journaled =
        run || (r->command == COMMAND_DELETE && run_id_valid(r->run) &&
                fleet_journaled(s->fleet, r->run));

    if (s->signal)
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
    else if (!journaled)
        response_problem(out, 404, "run_not_found", NULL, "there is no run %s",
                         r->run);
    else if (r->command == COMMAND_DELETE)
        delete (s, run, r->run, out);
    else if (run->alive)
        return !forward_begin(s, run, r, ticket, out);
    else
        idle_run_command(s, run, r->command, out);
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
