#include "cli/service/idle_run.h"

#include "base/json/json.h"
#include "cli/service/submission.h"
#include "cli/state/mend.h"

#include <assert.h>
#include <stdio.h>

static void respond_command(const struct fleet_run *run,
                            enum command_id command, bool changed,
                            const char *message, struct response *out)
{
    response_json(out, 200,
                  json_pack("{s:s, s:s, s:b, s:s, s:n, s:n}", "run", run->id,
                            "command", command_of(command)->name, "changed",
                            changed, "message", message, "stop", "branch"));
}

/* What is said of a run that waits. */
struct queue_wish {
    enum command_id command;
    bool held, other_data;
    const char *message;
};

static void set_held(struct supervisor *s, struct fleet_run *run,
                     const struct queue_wish *w, struct response *out)
{
    struct job job = run->job;
    struct fault f = {0};
    enum err err;

    if (!run->managed) {
        job = (struct job){.number = s->fleet->numbers + 1,
                           .submitted_ns = clock_wall()};
        submission_name_group(run->name, job.group);
    }
    job.held = w->held;
    job.other_data = w->other_data;
    snprintf(job.reason, sizeof(job.reason), "%s",
             w->held ? "paused in the queue; continue puts it back" : "");
    err = fleet_set_job(s->fleet, run, &job, &f);
    supervisor_written(s, err);
    if (err) {
        submission_not_stored(err, &f, out);
        return;
    }
    if (job.number > s->fleet->numbers)
        s->fleet->numbers = job.number;
    run->not_before = 0;
    respond_command(run, w->command, true, w->message, out);
}

/* Writes the run's end. */
static enum err write_end(struct supervisor *s, struct fleet_run *run,
                          const char *status, struct fault *f)
{
    struct journal *j = NULL;
    enum err err = mend_open(s->fleet->state, true, JOURNAL_BUSY_MS, &j, f);

    if (!err)
        err = journal_continue_run(j, run->id, f);
    if (!err)
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
        submission_not_stored(err, &f, out);
    else
        respond_command(run, COMMAND_STOP, true,
                        "the user stops the run, which waits: it is taken out "
                        "of the queue",
                        out);
}

/* One that was stopped, or failed, counts as interrupted first: it waits then,
 * and its tuner trains on. */
static void go_on(struct supervisor *s, struct fleet_run *run,
                  const struct queue_wish *w, struct response *out)
{
    struct fault f = {0};
    enum err err = run->ended
                       ? write_end(s, run, run_status_name(RUN_INTERRUPTED), &f)
                       : ERR_OK;

    if (err) {
        submission_not_stored(err, &f, out);
        return;
    }
    run->attempts = 0;
    set_held(s, run, w, out);
}

void idle_run_delete(struct supervisor *s, struct fleet_run *run,
                     const char *id, struct response *out)
{
    struct fault f = {0};
    json_t *answer;
    enum err err = ERR_NOMEM;

    assert(id[0]);
    assert(out->status == 0);
    answer =
        json_pack("{s:s, s:s, s:b, s:s, s:n, s:n}", "run", id, "command",
                  command_of(COMMAND_DELETE)->name, "changed", true, "message",
                  "the run is deleted: its folder, and what the journal "
                  "has of it",
                  "stop", "branch");
    if (answer && run)
        err = fleet_remove(s->fleet, run, &f);
    else if (answer)
        err = fleet_remove_unlisted(s->fleet, id, &f);
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

/* Asked again, a run that waits goes on sooner where it rests, or with other
 * data. */
static void continue_idle(struct supervisor *s, struct fleet_run *run,
                          bool other_data, struct response *out)
{
    struct queue_wish w = {.command = COMMAND_CONTINUE,
                           .other_data = other_data};

    w.message = "the run goes on when it is its turn";
    if (!fleet_waits(run)) {
        w.message = "the run is in the queue, and goes on when it is its turn";
        go_on(s, run, &w, out);
    } else if (run->not_before == FLEET_ASKED ||
               (other_data && !run->job.other_data)) {
        set_held(s, run, &w, out);
    } else {
        respond_command(run, w.command, false, "the run waits for its turn",
                        out);
    }
}

static void continue_run(struct supervisor *s, struct fleet_run *run,
                         const struct desk_request *r, struct response *out)
{
    json_t *body = NULL;

    if (r->len && json_load(r->body, r->len, &body, NULL, NULL) != ERR_OK) {
        response_json(out, 200, NULL); /* 503 */
        return;
    }
    continue_idle(s, run, json_is_true(json_object_get(body, "other_data")),
                  out);
    json_decref(body);
}

void idle_run_command(struct supervisor *s, struct fleet_run *run,
                      const struct desk_request *r, struct response *out)
{
    bool waits = fleet_waits(run);
    bool held = run->managed && run->job.held;
    enum command_id command = r->command;

    assert(!run->alive && command_of(command)->actor != COMMAND_BY_SERVICE);
    if (command == COMMAND_CONTINUE && (waits || fleet_resumable(run)))
        continue_run(s, run, r, out);
    else if (!waits && !held)
        refuse_ended(run, out);
    else if (command_of(command)->actor == COMMAND_BY_LIVE_RUN)
        response_problem(out, 409, "not_yet", NULL,
                         "run %s waits in the queue: this can be asked of it "
                         "once it has begun",
                         run->id);
    else if (command == COMMAND_PAUSE && held)
        respond_command(run, command, false, "the run is held already", out);
    else if (command == COMMAND_PAUSE)
        set_held(s, run,
                 &(struct queue_wish){
                     .command = command,
                     .held = true,
                     .message =
                         "the run keeps out of the queue until it is continued",
                 },
                 out);
    else if (command == COMMAND_STOP)
        stop_waiting(s, run, out);
    else
        assert(!"continue is answered above");
}
