#include "cli/run/session.h"

#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/progress.h"
#include "cli/basics/signals.h"
#include "cli/run/session_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- hooks of the loop --------------------------------------------------- */

static void log_decision(const struct record_decision *d)
{
    struct text numbers = {0};
    char *text;

    for (uint32_t i = 0; i < d->numbers; i++)
        text_printf(&numbers, " %s=%.6g", d->number[i].name,
                    d->number[i].value);
    text = text_take(&numbers); /* NULL: without them */
    log_event(LOG_INFO, "decision", "what=%s text=\"%s\"%s", d->decision,
              d->text, text ? text : "");
    mem_free(text);
}

static void take_record(void *ctx, const struct record *record,
                        const char *json)
{
    struct session *s = ctx;
    enum err err;

    if (record->kind == RECORD_DECISION)
        log_decision(&record->decision);
    view_lock(s->view);
    err = history_apply(&s->history, record);
    /* Before the change counts as seen: answers are kept by it. */
    if (!err)
        event_log_append(s->events, s->history.records,
                         record_kind_name(record->kind), json);
    view_changed(s->view);
    view_unlock(s->view);
    if (err)
        log_event(LOG_ERROR, "record_not_shown", "kind=%s code=%s",
                  record_kind_name(record->kind), err_name(err));
    /* This thread alone changes the history, so it reads without the lock. */
    progress_record(&s->progress, &s->history, record);
}

static void take_tick(void *ctx, double now_s)
{
    struct session *s = ctx;

    progress_draw(&s->progress, &s->history, now_s);
}

static void take_notice(void *ctx, const char *text)
{
    struct session *s = ctx;

    progress_note(&s->progress, text);
}

/* ---- setting up ---------------------------------------------------------- */

/* Where the verbs that steer a run find its server. */
static enum err write_url(struct session *s, struct fault *f)
{
    enum err err = file_join(s->url_path, s->folder.path, "url", f);

    if (!err)
        err = file_write(s->url_path, s->url, strlen(s->url), f);
    return err;
}

static enum err make_view(struct session *s)
{
    struct view_options view = {
        .registry = s->o->registry, .schema = s->o->schema, .state = s->state};
    enum err err = view_new(&view, &s->view);

    if (!err)
        err =
            view_add_run(s->view, s->folder.id, s->o->tuner->name, &s->history);
    if (!err)
        err = mailbox_new(&s->mailbox);
    if (!err)
        err = event_log_new(&s->events);
    if (!err) {
        view_steer_run(s->view, s->folder.id, s->mailbox);
        view_publish_run(s->view, s->folder.id, s->events);
        view_keep_run(s->view, s->folder.id, s->o->config, NULL);
    }
    return err;
}

static enum err start_service(struct session *s, struct fault *f)
{
    struct api_server_options server = {.listen = s->o->listen,
                                        .state = s->state,
                                        .tls_cert = s->o->tls_cert,
                                        .tls_key = s->o->tls_key};
    char text[160];
    enum err err = make_view(s);

    if (err)
        return fault_set(f, err, "%s", err_text(err));
    server.view = s->view;
    server.token = s->token;
    err = api_server_start(&server, &s->server, f);
    if (err)
        return err;
    snprintf(s->url, sizeof(s->url), "%s", api_server_url(s->server));
    err = write_url(s, f);
    if (err)
        return err;
    snprintf(text, sizeof(text), "watch at %s", s->url);
    /* For a person; programs find it in the result and in the log. */
    if (s->progress.live)
        progress_note(&s->progress, text);
    return ERR_OK;
}

static enum err make_tuner(struct session *s, unsigned restarts,
                           struct tuner **out, struct fault *f)
{
    struct tuner_options t = *s->o->tuner;

    if (s->recalled || restarts > 0)
        t.resume = &s->history;
    t.resume_reason = s->reason;
    t.restarts = restarts;
    t.run = s->folder.id;
    t.snapshot_dir = s->snapshot_dir;
    t.model_dir = s->model_dir;
    t.started_unix_s = (double)clock_wall() * 1e-9;
    return tuner_new(&t, out, f);
}

/* The node was lost: as a resume, in this process. */
static enum err take_restart(void *ctx, const char *reason, unsigned restarts,
                             struct tuner **out, struct fault *f)
{
    struct session *s = ctx;
    struct tuner *tuner;
    enum err err;

    snprintf(s->reason, sizeof(s->reason), "%.300s; restart %u of %d", reason,
             restarts, KEEPER_RESTARTS_MAX);
    session_sweep_snapshots(s);
    err = make_tuner(s, restarts, &tuner, f);
    if (err)
        return err;
    err = session_launch_nodes(s, f);
    if (err) {
        tuner_free(tuner);
        return err;
    }
    tuner_free(s->tuner);
    s->tuner = tuner;
    *out = tuner;
    return ERR_OK;
}

/* Killed after its last record, before its books were closed: there is nothing
 * left to do but that. */
static bool had_ended(const struct session *s)
{
    return s->recalled && s->history.finished &&
           s->history.end.status != RUN_INTERRUPTED;
}

static void take_end(struct session *s)
{
    const struct record_run_finished *end = &s->history.end;
    struct tuner_finish *finish = &s->result.finish;

    finish->status = end->status;
    memcpy(finish->reason, end->reason, sizeof(finish->reason));
    memcpy(finish->message, end->message, sizeof(finish->message));
}

/* Everything that has to be there before the first event. */
static enum err set_up(struct session *s, struct fault *f)
{
    enum err err = s->o->resume ? state_find(s->o->state, s->state, f)
                                : state_make(s->o->state, s->state, f);

    /* First of all: it leaves the environment with that, before anything else
     * is started. */
    if (!err)
        err = token_make(s->state, s->token, f);
    if (!err)
        err = journal_open(s->state, true, JOURNAL_BUSY_MS, &s->journal, f);
    if (!err)
        err = session_make_folder(s, f);
    if (err)
        return err;
    if (had_ended(s))
        return session_register(s, f);
    state_sweep(s->state);
    progress_start(&s->progress, s->o->quiet, s->o->verbose, s->log_fd);
    s->watching = true;
    err = make_tuner(s, 0, &s->tuner, f);
    if (!err)
        err = start_service(s, f);
    if (!err)
        err = session_register(s, f);
    if (!err)
        err = session_start_nodes(s, f);
    return err;
}

/* ---- the run ------------------------------------------------------------- */

static void run_loop(struct session *s)
{
    struct msg config = {.kind = MSG_CONFIG, .op = TUNER_CONFIG_OP};
    struct loop_options o = {
        .tuner = s->tuner,
        .journal = s->journal,
        .socket = &s->socket,
        .node = s->node,
        .nodes = s->nodes,
        .signal_fd = s->signal_fd,
        .config = &config,
        .model_dir = s->model_dir,
        .mailbox = s->mailbox,
        .hooks = {.ctx = s,
                  .record = take_record,
                  .tick = take_tick,
                  .tick_ms = s->progress.live ? PROGRESS_TICK_MS : 0,
                  .notice = take_notice,
                  .restart = take_restart,
                  .model = session_complete_model},
    };

    /* Borrowed, so never released as a message. */
    config.config.config = (json_t *)s->o->config;
    config.config.folder = (char *)s->o->folder;
    config.config.seed = s->o->tuner->seed;
    loop_run(&o, &s->result);
    log_event(LOG_INFO, "loop_ended",
              "status=%s reason=%s wall_s=%.3f cpu_s=%.3f cpu_share=%.4f",
              run_status_name(s->result.finish.status), s->result.finish.reason,
              s->result.wall_s, s->result.cpu_s,
              s->result.wall_s > 0 ? s->result.cpu_s / s->result.wall_s : 0);
}

static void tear_down(struct session *s)
{
    for (unsigned i = 0; i < s->nodes; i++)
        launcher_stop(&s->node[i], 0, -1);
    api_server_stop(s->server);
    view_free(s->view);
    mailbox_free(s->mailbox);
    event_log_free(s->events);
    if (s->url_path[0])
        unlink(s->url_path);
    socket_close(&s->socket);
    tuner_free(s->tuner);
    journal_close(s->journal);
    if (s->log_fd >= 0)
        close(s->log_fd);
    if (s->folder.lock_fd >= 0) {
        folder_sweep(s->folder.path);
        if (s->begun)
            session_sweep_snapshots(s);
    }
    run_folder_close(&s->folder);
    history_deinit(&s->history);
    signals_close(s->signal_fd);
}

int session_run(const struct session_options *options)
{
    struct session *s = mem_calloc(1, sizeof(*s));
    struct fault f = {0};
    enum err err;
    int code;

    if (!s) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    s->o = options;
    s->signal_fd = s->log_fd = s->folder.lock_fd = -1;
    history_init(&s->history);
    err = signals_open(&s->signal_fd, &f);
    if (!err)
        err = set_up(s, &f);
    if (err) {
        session_give_up(s, &f);
        code = session_refusal_code(s, err);
    } else {
        if (had_ended(s))
            take_end(s);
        else
            run_loop(s);
        session_finish(s);
        code = session_exit_code(&s->result);
    }
    tear_down(s);
    mem_free(s);
    return code;
}
