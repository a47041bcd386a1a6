/* What of a run its hooks are told (cli/run/hooks.h). */
#include "base/deadlines.h"
#include "base/log.h"
#include "cli/run/session_internal.h"

#include <stdio.h>

/* What `mltune run --json` would print, as far as the run is, without the
 * schedule, which grows with the run. */
static json_t *about(const struct session *s, const char *message)
{
    const struct history *h = &s->history;
    json_t *o = history_result(h, s->state, s->url);

    json_object_del(o, "schedule");
    if (json_object_set_new(o, "run", json_string(s->folder.id)) ||
        json_object_set_new(o, "name", json_string(s->o->tuner->name)) ||
        json_object_set_new(o, "metric_name",
                            h->started && h->run.metric[0]
                                ? json_string(h->run.metric)
                                : json_null()) ||
        json_object_set_new(o, "message", json_string(message))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void tell(struct session *s, enum hook_event event, const char *message)
{
    if (hooks_want(&s->hooks, event))
        hooks_tell(&s->hooks, event, about(s, message));
}

void session_hooks_record(struct session *s, const struct record *record)
{
    if (record->kind == RECORD_EPOCH_ENDED && record->epoch_ended.best &&
        record->epoch_ended.surviving)
        tell(s, HOOK_BEST, "");
    /* Another process has read the news of a user's resume. */
    if (record->kind == RECORD_RUN_RESUMED && record->run_resumed.restarts > 0)
        tell(s, HOOK_FAILURE, record->run_resumed.reason);
}

/* The progress line, through which the log went so far, is gone by now. */
static void take_log_line(void *ctx, enum log_level level, const char *line)
{
    const struct session *s = ctx;

    (void)level;
    if (s->log_fd >= 0)
        dprintf(s->log_fd, "%s\n", line);
}

void session_hooks_end(struct session *s)
{
    const struct tuner_finish *finish = &s->result.finish;
    json_t *o;
    enum hook_event event =
        finish->status == RUN_FAILED ? HOOK_FAILURE : HOOK_END;

    if (s->result.ended_at_once)
        return;
    log_set_level(LOG_INFO);
    log_set_sink(take_log_line, s);
    if (hooks_want(&s->hooks, event)) {
        o = about(s, finish->message);
        /* Where the end itself could not be recorded. */
        if (json_object_set_new(o, "status",
                                json_string(run_status_name(finish->status))) ||
            json_object_set_new(o, "reason", json_string(finish->reason))) {
            json_decref(o);
            o = NULL;
        }
        hooks_tell(&s->hooks, event, o);
    }
    hooks_finish(&s->hooks, s->result.signal ? DEADLINE_HOOK_STOP_MS : -1,
                 s->signal_fd);
    log_set_sink(NULL, NULL);
    log_set_level(LOG_WARN);
}
