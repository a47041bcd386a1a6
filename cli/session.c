#include "cli/session.h"

#include "api/event_log.h"
#include "api/server_io.h"
#include "api/token_io.h"
#include "api/view.h"
#include "base/clock_io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/model_io.h"
#include "cli/progress.h"
#include "cli/replay.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/talk.h"
#include "searchers/searcher.h"
#include "tuner/file_io.h"
#include "tuner/journal_io.h"
#include "tuner/launcher_io.h"
#include "tuner/loop_io.h"
#include "tuner/mailbox_io.h"
#include "tuner/socket_io.h"
#include "tuner/state_io.h"
#include "tuner/strategy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAST_WORDS_MAX = 2048 };

struct session {
    const struct session_options *o;
    char state[FILE_PATH_MAX];
    char model_dir[FILE_PATH_MAX];
    char snapshot_dir[FILE_PATH_MAX];
    char log_path[FILE_PATH_MAX];
    struct run_folder folder;
    struct journal *journal;
    bool begun;    /* the journal knows the run */
    bool recalled; /* history and folder are those of a run that goes on */
    int signal_fd, log_fd;
    bool watching; /* progress has been started */
    struct progress progress;
    struct history history; /* changed under the view's lock */
    struct view *view;
    struct mailbox *mailbox;
    struct event_log *events;
    struct api_server *server;
    char url[128], url_path[FILE_PATH_MAX];
    char token[TOKEN_LEN_MAX + 1];
    struct tuner_socket socket;
    struct node_process node[LOOP_NODES_MAX];
    unsigned nodes, starts; /* how often they were started */
    char meet[FILE_PATH_MAX];
    struct tuner *tuner;
    char reason[RECORD_TEXT_MAX]; /* why it goes on */
    struct loop_result result;
};

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

/* NAN is null. */
static json_t *number(double x)
{
    return isnan(x) ? json_null() : json_of_number(x);
}

static json_t *metric_object(const struct history *h,
                             const struct history_epoch *best)
{
    if (!h->run.metric[0])
        return json_null();
    return json_pack("{s:s, s:b, s:o}", "name", h->run.metric, "higher_better",
                     h->run.metric_higher_better, "value",
                     number(best ? best->e.metric : NAN));
}

static enum err write_json(const char *path, const json_t *value,
                           struct fault *f)
{
    char *text = value ? json_write(value, 2) : NULL;
    enum err err;

    if (!text)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    err = file_write(path, text, strlen(text), f);
    mem_free(text);
    return err;
}

static enum err complete_model(void *ctx, const char *dir, const json_t *data,
                               struct fault *f)
{
    struct session *s = ctx;
    const struct history_epoch *best = history_best_epoch(&s->history);
    json_t *metric = metric_object(&s->history, best);
    const struct model_facts facts = {
        .run = s->folder.id,
        .app = s->o->tuner->app,
        .folder = s->o->folder,
        .settings = json_object_get(s->o->config, "app"),
        .setting = best ? best->e.setting : NULL,
        .saved = data,
        .metric = metric,
        .loss = best ? best->e.loss : NAN,
        .epoch = best ? (uint32_t)best->e.epoch : 0,
        .seed = s->o->tuner->seed,
    };
    enum err err = model_write(dir, &facts, f);

    json_decref(metric);
    return err;
}

/* ---- setting up ---------------------------------------------------------- */

/* Where the model goes. A folder that is there must be empty or an earlier
 * model: it will be replaced. */
static enum err choose_model_dir(struct session *s, struct fault *f)
{
    char marker[FILE_PATH_MAX];
    struct stat st;
    enum err err;

    if (!s->o->out)
        return file_join(s->model_dir, s->folder.path, "model", f);
    err = folder_absolute(s->o->out, s->model_dir, f);
    if (!err)
        err = file_join(marker, s->model_dir, MODEL_FILE, f);
    if (err) {
        fault_wrap(f, "--out");
        return err;
    }
    if (lstat(s->model_dir, &st) != 0 || folder_is_empty(s->model_dir) ||
        access(marker, F_OK) == 0)
        return ERR_OK;
    return fault_set(f, ERR_EXIST,
                     "--out %s exists and is no model; name a folder that is "
                     "new, empty, or an earlier model",
                     s->o->out);
}

enum err session_remember(const char *run_path, const char *folder,
                          const char *out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    json_t *o = json_pack("{s:s, s:s}", "folder", folder, "out", out);
    enum err err = file_join(path, run_path, "session.json", f);

    if (!err)
        err = write_json(path, o, f);
    json_decref(o);
    return err;
}

static enum err read_text(const json_t *o, const char *name,
                          char out[FILE_PATH_MAX])
{
    const char *text = json_string_value(json_object_get(o, name));

    if (!text || strlen(text) >= FILE_PATH_MAX)
        return ERR_FORMAT;
    memcpy(out, text, strlen(text) + 1);
    return ERR_OK;
}

enum err session_recall(const char *state, const char *id,
                        char folder[FILE_PATH_MAX], char out[FILE_PATH_MAX],
                        struct fault *f)
{
    enum { BYTES_MAX = 4 * FILE_PATH_MAX };
    char path[FILE_PATH_MAX], name[RUN_ID_MAX + 32];
    char *text = NULL;
    json_t *o = NULL;
    size_t len = 0;
    enum err err;

    snprintf(name, sizeof(name), "runs/%s/session.json", id);
    err = file_join(path, state, name, f);
    if (!err)
        err = file_read(path, BYTES_MAX, &text, &len, f);
    if (!err)
        err = json_load(text, len, &o, NULL, f);
    if (!err && (read_text(o, "folder", folder) || read_text(o, "out", out) ||
                 folder[0] != '/'))
        err = fault_set(f, ERR_FORMAT, "%s is damaged", path);
    json_decref(o);
    mem_free(text);
    return err;
}

/* The folder of a run that goes on; without what was being written when it was
 * interrupted. */
static enum err reopen_folder(struct session *s, struct fault *f)
{
    enum err err = run_folder_open(&s->folder, s->state, s->o->resume, f);

    s->recalled = true;
    if (err)
        return err;
    folder_sweep(s->folder.path);
    /* Of a tuner that was killed: the port may be another program's now. */
    if (file_join(s->url_path, s->folder.path, "url", NULL) == ERR_OK)
        unlink(s->url_path);
    return ERR_OK;
}

/* Folders that no record speaks of were written in vain. */
static void sweep_snapshots(const struct session *s)
{
    const char *keep[2 * HISTORY_SNAPSHOTS_MAX];
    const struct history *h = &s->history;
    size_t n = 0;

    for (size_t i = 0; i < h->snapshots; i++) {
        if (h->snapshots - i > s->o->tuner->snapshot_keep)
            continue;
        keep[n++] = h->snapshot[i].s.path;
        keep[n++] = h->snapshot[i].s.best_path;
    }
    snapshots_sweep(s->snapshot_dir, keep, n);
}

/* The lock of the folder is held: nobody adds to the journal any more. */
static enum err recall_history(struct session *s, struct fault *f)
{
    struct replayed r;
    enum err err = replay_run(s->journal, s->state, s->folder.id, &r, f);

    if (err)
        return err;
    if (!replay_resumable(&r)) {
        err = fault_set(f, ERR_INVAL,
                        "run %s has ended as %s%s%s: there is nothing to "
                        "resume",
                        r.id, r.status, r.reason[0] ? ": " : "", r.reason);
    } else {
        snprintf(s->reason, sizeof(s->reason),
                 r.ended ? "resumed by the user"
                         : "resumed by the user after its tuner was killed");
        history_deinit(&s->history);
        s->history = r.history;
        history_init(&r.history);
    }
    replayed_deinit(&r);
    return err;
}

static enum err make_folder(struct session *s, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = s->o->resume ? reopen_folder(s, f)
                                : run_folder_new(&s->folder, s->state,
                                                 s->o->tuner->name, f);

    if (!err)
        err = choose_model_dir(s, f);
    if (!err)
        err = file_join(s->snapshot_dir, s->folder.path, "snapshots", f);
    if (!err)
        err = file_join(s->log_path, s->folder.path, "log", f);
    if (!err)
        err = file_join(path, s->folder.path, "config.json", f);
    if (!err && s->o->resume)
        err = recall_history(s, f);
    if (!err && (!s->o->resume || s->o->reconfigured))
        err = write_json(path, s->o->config, f);
    if (!err && !s->o->resume)
        err = session_remember(s->folder.path, s->o->folder,
                               s->o->out ? s->model_dir : "", f);
    if (err)
        return err;
    sweep_snapshots(s);
    s->log_fd =
        open(s->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (s->log_fd < 0)
        return fault_errno(f, ERR_IO, errno, "open %s", s->log_path);
    return ERR_OK;
}

static enum err register_run(struct session *s, struct fault *f)
{
    char *config;
    enum err err;

    config = json_write(s->o->config, 0);
    if (!config)
        return fault_set(f, ERR_NOMEM, "out of memory");
    if (s->o->resume)
        err = journal_continue_run(s->journal, s->folder.id, f);
    else
        err = journal_begin_run(s->journal, s->folder.id, s->o->tuner->name,
                                config, clock_wall(), f);
    s->begun = !err;
    if (!err && s->o->resume && s->o->reconfigured)
        err = journal_configure_run(s->journal, config, f);
    mem_free(config);
    return err;
}

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
    struct view_options view = {.registry = s->o->registry,
                                .schema = s->o->schema};
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
    }
    return err;
}

static enum err start_service(struct session *s, struct fault *f)
{
    struct api_server_options server = {.listen = s->o->listen,
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

static enum err node_log(const struct session *s, unsigned node,
                         char out[FILE_PATH_MAX], struct fault *f)
{
    char name[32];

    snprintf(name, sizeof(name), "node-%u.log", node);
    return file_join(out, s->folder.path, name, f);
}

static enum err launch_node(struct session *s, unsigned node, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct launch launch = {.log_path = path,
                            .node = node,
                            .meet = s->nodes > 1 ? s->meet : NULL,
                            .endpoint = s->socket.endpoint,
                            .verbose = s->o->verbose};
    enum err err = node_log(s, node, path, f);

    return err ? err : launcher_start(&s->node[node], &launch, f);
}

/* A new folder for each start, beside the control socket: what nodes that were
 * killed left in it is not met again. */
static enum err make_meet(struct session *s, struct fault *f)
{
    char name[32];
    enum err err = ERR_OK;

    if (s->meet[0])
        err = folder_remove(s->meet, f);
    snprintf(name, sizeof(name), "m%u", ++s->starts);
    if (!err)
        err = file_join(s->meet, s->socket.folder, name, f);
    return err ? err : folder_make(s->meet, f);
}

static enum err launch_nodes(struct session *s, struct fault *f)
{
    enum err err = s->nodes > 1 ? make_meet(s, f) : ERR_OK;

    for (unsigned i = 0; i < s->nodes && !err; i++)
        err = launch_node(s, i, f);
    for (unsigned i = 0; i < s->nodes && err; i++)
        launcher_stop(&s->node[i], 0, -1);
    return err;
}

static enum err start_nodes(struct session *s, struct fault *f)
{
    const json_t *nodes = json_at(s->o->config, "/cluster/nodes");
    enum err err = socket_open(&s->socket, s->folder.path, f);

    s->nodes = json_is_integer(nodes) ? (unsigned)json_integer_value(nodes) : 1;
    assert(s->nodes >= 1 && s->nodes <= LOOP_NODES_MAX);
    return err ? err : launch_nodes(s, f);
}

/* The node was lost: as a resume, in this process. */
static enum err take_restart(void *ctx, const char *reason, unsigned restarts,
                             struct tuner **out, struct fault *f)
{
    struct session *s = ctx;
    struct tuner *tuner;
    enum err err;

    snprintf(s->reason, sizeof(s->reason), "%.300s; restart %u of %d", reason,
             restarts, LOOP_RESTARTS_MAX);
    sweep_snapshots(s);
    err = make_tuner(s, restarts, &tuner, f);
    if (err)
        return err;
    err = launch_nodes(s, f);
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
        err = make_folder(s, f);
    if (err)
        return err;
    if (had_ended(s))
        return register_run(s, f);
    state_sweep(s->state);
    progress_start(&s->progress, s->o->quiet, s->o->verbose, s->log_fd);
    s->watching = true;
    err = make_tuner(s, 0, &s->tuner, f);
    if (!err)
        err = start_service(s, f);
    if (!err)
        err = register_run(s, f);
    if (!err)
        err = start_nodes(s, f);
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
                  .model = complete_model},
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

/* What the training system could not load is for the user to mend: the data,
 * the settings, or the memory that the job needs. */
static int load_exit_code(enum err err)
{
    switch (err) {
    case ERR_IO:
        return EXIT_IO;
    case ERR_INVAL:
    case ERR_NOENT:
    case ERR_FORMAT:
    case ERR_LIMIT:
    case ERR_VERSION:
    case ERR_UNSUPPORTED:
        return EXIT_CONFIG;
    default:
        return EXIT_RUN_FAILED;
    }
}

static int exit_code(const struct loop_result *r)
{
    if (r->finish.status == RUN_INTERRUPTED && r->load_error)
        return load_exit_code(r->load_error);
    if (r->finish.status == RUN_INTERRUPTED &&
        strcmp(r->finish.reason, "changed") == 0)
        return EXIT_CONFIG;
    if (r->finish.status == RUN_INTERRUPTED && r->snapshot_error &&
        !r->ended_at_once)
        return EXIT_IO; /* not as clean as the other codes promise */
    if (r->finish.status == RUN_INTERRUPTED)
        return r->signal ? EXIT_SIGNAL + r->signal : EXIT_INTERRUPTED;
    if (r->finish.status != RUN_FAILED)
        return EXIT_DONE;
    if (r->own_error)
        return r->own_error == ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_IO;
    return r->load_error ? load_exit_code(r->load_error) : EXIT_RUN_FAILED;
}

/* What stopped a run that could not begin. */
static int set_up_exit_code(enum err err)
{
    switch (err) {
    case ERR_EXIST: /* --out */
        return EXIT_USAGE;
    case ERR_INVAL: /* settings of searcher or strategy, an address */
    case ERR_UNSUPPORTED:
        return EXIT_CONFIG;
    case ERR_NOMEM:
        return EXIT_RUN_FAILED;
    default:
        return EXIT_IO;
    }
}

/* The same of a run that was to go on: unknown, ended, running. */
static int resume_exit_code(enum err err)
{
    switch (err) {
    case ERR_NOENT:
    case ERR_INVAL:
    case ERR_BUSY:
        return EXIT_RUN_FAILED;
    default:
        return set_up_exit_code(err);
    }
}

/* ---- the end ------------------------------------------------------------- */

/* The contract's object. A run that ended before its training system was loaded
 * has no record of what it was. */
static json_t *result_object(struct session *s)
{
    const struct tuner_options *t = s->o->tuner;
    const struct tuner_finish *finish = &s->result.finish;
    json_t *o = history_result(&s->history, s->state, s->url);
    const char *searcher = t->searcher ? t->searcher->name : "";
    int failed;

    if (!o)
        return NULL;
    if (s->history.started) /* a strategy may insist on its own */
        searcher = s->history.run.searcher;
    failed =
        json_object_set_new(o, "run", json_string(s->folder.id)) |
        json_object_set_new(o, "status",
                            json_string(run_status_name(finish->status))) |
        json_object_set_new(o, "reason", json_string(finish->reason)) |
        json_object_set_new(o, "strategy", json_string(t->strategy->name)) |
        json_object_set_new(o, "searcher", json_string(searcher)) |
        json_object_set_new(o, "seed", json_integer((json_int_t)t->seed));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void explain_failure(const struct session *s)
{
    char words[LAST_WORDS_MAX], path[FILE_PATH_MAX];

    talk_error("run %s %s: %s", s->folder.id,
               s->result.finish.status == RUN_FAILED ? "failed"
                                                     : "cannot go on",
               s->result.finish.message[0] ? s->result.finish.message
                                           : s->result.finish.reason);
    if (!s->result.node_lost)
        return;
    for (unsigned i = 0; i < s->nodes; i++) {
        if (node_log(s, i, path, NULL) != ERR_OK)
            continue;
        launcher_last_words(&s->node[i], words, sizeof(words));
        if (words[0] && s->nodes == 1)
            fprintf(stderr, "its last words (all of them are in %s):\n%s", path,
                    words);
        else if (words[0])
            fprintf(stderr,
                    "last words of node %u (all of them are in %s):\n%s", i,
                    path, words);
    }
}

static void print_result(const struct session *s, const char *json)
{
    const struct tuner_finish *finish = &s->result.finish;

    if (finish->status == RUN_FAILED || s->result.load_error ||
        strcmp(finish->reason, "changed") == 0 ||
        strcmp(finish->reason, "restore_failed") == 0)
        explain_failure(s);
    if (s->o->json && json)
        printf("%s\n", json);
    if (s->o->json || (finish->status == RUN_FAILED && !s->history.epochs))
        return;
    printf("run       %s %s: %s\n", s->folder.id,
           run_status_name(finish->status), finish->message);
    show_summary(&s->history, stdout);
    if (s->history.model.path[0])
        printf("next      mltune eval %s DATA\n", s->history.model.path);
    printf("%s mltune %s %s",
           s->history.model.path[0] ? "         " : "next     ",
           finish->status == RUN_INTERRUPTED ? "resume" : "show", s->folder.id);
    if (strcmp(s->o->state, STATE_DEFAULT) != 0)
        printf(" --state %s", s->o->state);
    printf("\n");
}

/* Closes the books. An error here is told, but the run is what it was. */
static void finish(struct session *s)
{
    const struct tuner_finish *end = &s->result.finish;
    json_t *object = result_object(s);
    char *json = object ? json_write(object, 0) : NULL;
    struct fault f = {0};

    json_decref(object);
    if (journal_end_run(s->journal, run_status_name(end->status), end->reason,
                        json, clock_wall(), &f) != ERR_OK)
        log_event(LOG_ERROR, "end_not_journaled", "reason=\"%s\"", f.text);
    if (s->view)
        view_set_ready(s->view, "the run is over, the program about to end");
    api_server_stop(s->server);
    s->server = NULL;
    if (s->watching)
        progress_stop(&s->progress);
    s->watching = false;
    if (!s->result.ended_at_once)
        print_result(s, json);
    mem_free(json);
}

/* A run that could not begin leaves nothing, unless it is in the journal. */
static void give_up(struct session *s, const struct fault *f)
{
    if (s->watching)
        progress_stop(&s->progress);
    s->watching = false;
    talk_error("%s", f->text);
    if (s->begun)
        journal_end_run(
            s->journal,
            run_status_name(s->recalled ? RUN_INTERRUPTED : RUN_FAILED),
            err_name(f->code), NULL, clock_wall(), NULL);
    else if (s->recalled || s->o->resume)
        return;
    else if (s->folder.path[0])
        folder_remove(s->folder.path, NULL);
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
            sweep_snapshots(s);
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
        talk_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    s->o = options;
    s->signal_fd = s->log_fd = s->folder.lock_fd = -1;
    history_init(&s->history);
    err = signals_open(&s->signal_fd, &f);
    if (!err)
        err = set_up(s, &f);
    if (err) {
        give_up(s, &f);
        code = options->resume ? resume_exit_code(err) : set_up_exit_code(err);
    } else {
        if (had_ended(s))
            take_end(s);
        else
            run_loop(s);
        finish(s);
        code = exit_code(&s->result);
    }
    tear_down(s);
    mem_free(s);
    return code;
}
