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
                            history_started(h) && history_run(h)->metric[0]
                                ? json_string(history_run(h)->metric)
                                : json_null()) ||
        json_object_set_new(o, "message", json_string(message))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

void session_hooks_begin(struct session *s)
{
    hooks_init(&s->hook[0], s->o->config, s->o->folder, s->folder.id,
               s->log_fd);
    hooks_init_web(&s->hook[1], s->o->config, s->o->folder, s->folder.id,
                   s->log_fd);
}

void session_hooks_turn(struct session *s)
{
    for (size_t i = 0; i < SESSION_HOOKS; i++)
        hooks_turn(&s->hook[i]);
}

void session_hooks_deinit(struct session *s)
{
    for (size_t i = 0; i < SESSION_HOOKS; i++)
        hooks_deinit(&s->hook[i]);
}

static void tell(struct session *s, enum hook_event event, const char *message)
{
    for (size_t i = 0; i < SESSION_HOOKS; i++)
        if (hooks_want(&s->hook[i], event))
            hooks_tell(&s->hook[i], event, about(s, message));
}

void session_hooks_record(struct session *s, const struct record *record)
{
    if (record->kind == RECORD_EPOCH_ENDED && record->epoch_ended.best)
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

/* Where the end itself could not be recorded. */
static json_t *about_end(const struct session *s)
{
    const struct tuner_finish *finish = &s->result.finish;
    json_t *o = about(s, finish->message);

    if (json_object_set_new(o, "status",
                            json_string(run_status_name(finish->status))) ||
        json_object_set_new(o, "reason", json_string(finish->reason))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* The run keeps its log within its bound, and says that it lives. */
static void take_tick(void *ctx)
{
    session_beat(ctx);
}

void session_hooks_end(struct session *s)
{
    bool failed = s->result.finish.status == RUN_FAILED;
    enum hook_event event = failed ? HOOK_FAILURE : HOOK_END;
    const struct hooks_patience patience = {
        .most_ms =
            s->result.signal ? DEADLINE_HOOK_STOP_MS / SESSION_HOOKS : -1,
        .hurry_fd = s->signal_fd,
        .tick = take_tick,
        .ctx = s};

    if (s->result.ended_at_once)
        return;
    log_set_level(LOG_INFO);
    log_set_sink(take_log_line, s);
    for (size_t i = 0; i < SESSION_HOOKS; i++) {
        if (hooks_want(&s->hook[i], event))
            hooks_tell(&s->hook[i], event, about_end(s));
        hooks_turn(&s->hook[i]);
    }
    for (size_t i = 0; i < SESSION_HOOKS; i++)
        hooks_finish(&s->hook[i], &patience);
    session_beat(s);
    log_set_sink(NULL, NULL);
    log_set_level(LOG_WARN);
}
