#include "cli/run/session.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/log_file_io.h"
#include "base/mem.h"
#include "base/talk_io.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/progress.h"
#include "cli/basics/signals.h"
#include "cli/run/session_internal.h"
#include "cli/state/address_io.h"
#include "cli/state/job.h"
#include "cli/state/mend.h"
#include "cli/state/removal.h"
#include "cli/state/render.h"
#include "cli/state/replay.h"
#include "cli/state/serve.h"
#include "searchers/searcher.h"
#include "tuner/board/strategy.h"
#include "tuner/shell/ranks_io.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LAST_WORDS_MAX = 2048,
    LOGS_SEEN_S = 1,
    RECORD_TRIES_MAX = 10 /* to take a record in while memory is out */
};

/* What is said of one that is no run. */
#define NOTHING_IS_LEFT " (nothing was begun, and no run is left)"

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

/* Trouble that the user may want to mend while the run goes on. */
static bool is_news(const struct record_decision *d)
{
    return strcmp(d->decision, "tunables") == 0 ||
           strcmp(d->decision, "validation") == 0 ||
           strcmp(d->decision, "resume") == 0;
}

/* The run goes on without the searcher that was asked for: as an error is, this
 * is said also when quiet. */
static bool is_trouble(const struct record_decision *d)
{
    return strcmp(d->decision, "searcher_fallback") == 0 ||
           strcmp(d->decision, "searcher_silent") == 0;
}

/* What there was no memory for is tried again: whoever restarts a node goes on
 * from this history. */
static enum err take_in(struct session *s, const struct record *record)
{
    enum err err = ERR_NOMEM;

    for (int i = 0; err == ERR_NOMEM && i < RECORD_TRIES_MAX; i++)
        err = history_apply(&s->history, record);
    return err;
}

static enum err take_record(void *ctx, const struct record *record,
                            const char *json)
{
    struct session *s = ctx;
    enum err err;

    s->recorded = clock_monotonic();
    if (record->kind == RECORD_DECISION)
        log_decision(&record->decision);
    if (record->kind == RECORD_DECISION &&
        (is_trouble(&record->decision) ||
         (is_news(&record->decision) && !s->o->quiet)))
        progress_note(&s->progress, record->decision.text);
    view_lock(s->view);
    err = take_in(s, record);
    /* It is in the journal: those after it are counted as there. */
    if (err == ERR_FORMAT)
        history_skip(&s->history, history_records(&s->history) + 1);
    /* Before the change counts as seen: answers are kept by it. */
    if (!err)
        event_log_append(s->events, history_records(&s->history),
                         record_kind_name(record->kind), json);
    view_changed(s->view);
    view_unlock(s->view);
    s->went_on |= !err && record->kind == RECORD_SNAPSHOT_WRITTEN;
    s->trained |= !err && record->kind == RECORD_SLICE_SCHEDULED;
    session_kept_record(s, record);
    session_hooks_record(s, record);
    session_tensorboard_record(s, record);
    if (err && s->not_shown++ == 0)
        log_event(LOG_ERROR, "record_not_shown", "kind=%s code=%s",
                  record_kind_name(record->kind), err_name(err));
    /* This thread alone changes the history, so it reads without the lock. */
    progress_record(&s->progress, &s->history, record);
    return err == ERR_NOMEM ? err : ERR_OK;
}

/* The training system's output is bounded, and so is what we say of it: in it
 * are the words of searchers, too. */
static void cut_logs(struct session *s)
{
    struct fault f = {0};

    (void)log_file_cut(s->log_path, &s->log_cut, NULL);
    for (unsigned i = 0; i < s->nodes && !s->logs_grow; i++) {
        if (launcher_cut_log(&s->node[i], &f) == ERR_OK)
            continue;
        s->logs_grow = true;
        log_event(LOG_WARN, "log_not_cut", "node=%u reason=\"%s\"", i, f.text);
        progress_note(&s->progress, f.text);
    }
}

void session_beat(struct session *s)
{
    run_folder_beat(&s->folder);
    cut_logs(s);
}

/* What the history says is journaled for good. (A batch that could not be
 * written is given back, and the run ends for it: the history says more.) */
static bool is_journaled(struct session *s)
{
    return journal_commit(s->journal, true, NULL) == ERR_OK &&
           journal_last(s->journal) == history_records(&s->history);
}

/* The newer snapshot is journaled for good before older ones go. */
static void sweep(struct session *s)
{
    if (!s->sweep_due || !s->went_on || !is_journaled(s))
        return;
    s->sweep_due = false;
    session_sweep_snapshots(s, true);
}

static void take_tick(void *ctx, double now_s)
{
    struct session *s = ctx;

    session_hooks_turn(s);
    sweep(s);
    if (s->data_tried && s->trained && is_journaled(s))
        session_data_end(s, true);
    progress_draw(&s->progress, &s->history, now_s);
    if (now_s >= s->logs_seen_s && now_s < s->logs_seen_s + LOGS_SEEN_S)
        return;
    s->logs_seen_s = now_s;
    session_beat(s);
    session_notes_look(s);
}

static enum err take_time(void *ctx, double now_s, struct fault *f)
{
    return session_kept_look(ctx, now_s, f);
}

static void take_notice(void *ctx, const char *text)
{
    struct session *s = ctx;

    progress_note(&s->progress, text);
}

/* ---- last words ---------------------------------------------------------- */

/* A program's are in the record of the end, those of the process that is at
 * fault. */
static void last_words_of_program(const struct session *s)
{
    const json_t *words = history_end(&s->history)->last_words, *line;
    size_t i;

    if (!history_finished(&s->history) || !words)
        return;
    if (s->nodes > 1)
        fprintf(stderr,
                "process %u said last (mltune log %s --node %u has all of "
                "it):\n",
                history_end(&s->history)->last_words_node, s->folder.id,
                history_end(&s->history)->last_words_node);
    else
        fprintf(stderr, "its last words (mltune log %s has all of them):\n",
                s->folder.id);
    json_array_foreach((json_t *)words, i, line)
    {
        fprintf(stderr, "%s\n", json_string_value(line));
    }
}

static void last_words(const struct session *s)
{
    char words[LAST_WORDS_MAX], path[FILE_PATH_MAX];

    if (s->o->program)
        last_words_of_program(s);
    if (!s->result.node_lost || s->o->program)
        return;
    for (unsigned i = 0; i < s->nodes; i++) {
        if (session_node_log(s, i, path, NULL) != ERR_OK)
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

/* ---- setting up ---------------------------------------------------------- */

/* The file by which verbs that steer a run find its server. */
static enum err write_url(struct session *s, struct fault *f)
{
    enum err err = file_join(s->url_path, s->folder.path, "url", f);

    if (!err)
        err = address_write(s->url_path, s->url,
                            !api_server_no_local(s->server), f);
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
    struct api_server_options server = {
        .listen = s->o->listen,
        .state = s->state,
        .read = service_read_rule(s->o->read ? s->o->read : "user"),
        .tls_cert = s->o->tls_cert,
        .tls_key = s->o->tls_key};
    char text[160], local[FILE_PATH_MAX];
    enum err err = make_view(s);

    if (err)
        return fault_set(f, err, "%s", err_text(err));
    err = file_join(local, s->folder.path, RUN_SOCKET, f);
    if (err)
        return err;
    server.local = local;
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
    if (s->progress.live || s->progress.plain)
        progress_note(&s->progress, text);
    if (api_server_no_local(s->server))
        log_event(LOG_WARN, "http_no_socket", "reason=\"%s\"",
                  api_server_no_local(s->server));
    return ERR_OK;
}

static enum err make_tuner(struct session *s, unsigned restarts,
                           struct tuner **out, struct fault *f)
{
    struct tuner_options t = *s->o->tuner;

    if (s->recalled || restarts > 0)
        t.resume = &s->history;
    t.resume_reason = s->reason;
    /* Said of what was there then; not of what was trained since. */
    t.from_beginning = s->o->from_beginning && restarts == 0;
    t.restarts = restarts;
    if (restarts > 0)
        t.lost_s = (double)(clock_monotonic() - s->recorded) * 1e-9;
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
    s->sweep_due = true;
    s->went_on = false;
    folder_sweep(s->snapshot_dir); /* what a killed node left half written */
    err = session_memory_lower(s);
    if (err)
        return fault_set(f, err, "%s", err_text(err));
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
    return s->recalled && s->unclosed && history_finished(&s->history) &&
           history_end(&s->history)->status != RUN_INTERRUPTED;
}

static void take_end(struct session *s)
{
    const struct record_run_finished *end = history_end(&s->history);
    struct tuner_finish *finish = &s->result.finish;

    finish->status = end->status;
    memcpy(finish->reason, end->reason, sizeof(finish->reason));
    memcpy(finish->message, end->message, sizeof(finish->message));
}

/* Who resumes a run that failed or was stopped, and is killed before it goes
 * on, finds it interrupted: the resume is not undone. The record is committed
 * with the end's own removal (session_reopen). */
static enum err take_back_end(struct session *s, struct fault *f)
{
    struct record r;
    json_t *json;
    char *text;
    enum err err;

    if (!s->recalled || !history_finished(&s->history) ||
        history_end(&s->history)->status == RUN_INTERRUPTED)
        return ERR_OK;
    memset(&r, 0, sizeof(r));
    record_init(&r, RECORD_RUN_FINISHED);
    r.at_s = history_at_s(&s->history);
    r.clock = history_clock(&s->history);
    r.run_finished.status = RUN_INTERRUPTED;
    r.run_finished.waiting_s = history_end(&s->history)->waiting_s;
    r.run_finished.last_words_node = UINT32_MAX;
    snprintf(r.run_finished.reason, sizeof(r.run_finished.reason), "%s",
             RUN_REASON_RESUMED);
    snprintf(r.run_finished.message, sizeof(r.run_finished.message), "%s",
             s->reason);
    json = record_to_json(&r);
    text = json ? json_write(json, 0) : NULL;
    err = text ? journal_append(s->journal, record_kind_name(r.kind), text,
                                strlen(text), clock_wall(), f)
               : fault_set(f, ERR_NOMEM, "out of memory");
    if (!err && take_record(s, &r, text) != ERR_OK)
        err = fault_set(f, ERR_NOMEM, "out of memory");
    mem_free(text);
    json_decref(json);
    return err;
}

/* Killed between a snapshot's name and its record: what the strategy knew then
 * is in the record alone. */
static void say_left_over(struct session *s)
{
    const struct history_snapshot *last = history_last_snapshot(&s->history);
    unsigned long known = last ? history_snapshot_number(last->s.path) : 0;
    unsigned long newest = snapshots_newest(s->snapshot_dir);
    char text[320], from[64];

    if (!s->recalled || newest <= known)
        return;
    snprintf(from, sizeof(from), known ? "snapshot %06lu" : "its beginning",
             known);
    snprintf(text, sizeof(text),
             "snapshot %06lu was being written: its record, without which "
             "nothing goes on from it, is not in the journal; the run goes on "
             "from %s, and what is there of it goes once a newer one is "
             "written",
             newest, from);
    progress_note(&s->progress, text);
    log_event(LOG_WARN, "snapshot_left_over", "number=%lu from=%lu", newest,
              known);
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
        err = mend_open(s->state, true, JOURNAL_BUSY_MS, &s->journal, f);
    if (!err)
        err = session_make_folder(s, f);
    if (err)
        return err;
    session_hooks_begin(s);
    s->hooked = true;
    if (had_ended(s)) {
        err = session_register(s, f);
        return err ? err : session_reopen(s, f);
    }
    state_sweep(s->state);
    removal_of_unborn(s->state, s->journal);
    progress_start(&s->progress, s->o->quiet, s->o->verbose, s->log_fd);
    /* What a service shows is what was said last. */
    s->progress.plain &= !job_exists(s->state, s->folder.id);
    s->watching = true;
    s->recorded = clock_monotonic();
    say_left_over(s);
    session_tensorboard_begin(s);
    err = make_tuner(s, 0, &s->tuner, f);
    if (!err)
        err = start_service(s, f);
    if (!err)
        err = session_register(s, f);
    if (!err)
        err = take_back_end(s, f);
    if (!err)
        err = session_reopen(s, f);
    if (!err)
        err = session_start_nodes(s, f);
    return err;
}

/* ---- the run ------------------------------------------------------------- */

/* Seconds that a program may take for its `hello`; @by: what bounds them, its
 * timeout or the whole run's time: who says so knows that it never connected,
 * which the tuner does not. */
static double time_for_hello(const struct session *s, const char **by)
{
    double most = s->o->tuner->max_time_s, seconds = 0;

    if (!json_to_seconds(json_at(s->o->config, "/app/hello_timeout"), &seconds))
        return 0;
    *by = seconds <= most ? "app.hello_timeout" : "stop.max_time";
    return fmin(seconds, most);
}

static void set_deadlines(const struct session *s, struct loop_options *o)
{
    const json_t *config = s->o->config;
    struct ranks ranks;

    /* Whose pods may take their time to come. */
    if (strcmp(s->cluster.engine->name, "kubernetes") == 0 &&
        ranks_find_pod(&ranks)) {
        o->hello_s = ranks.wait_ms * 1e-3;
        o->hello_by = "mltune deploy --wait";
    }
    if (!s->o->program) {
        json_to_seconds(json_at(config, "/cluster/ready_timeout"), &o->ready_s);
        o->ready_by = "cluster.ready_timeout";
        return;
    }
    o->program = true;
    o->hello_s = time_for_hello(s, &o->hello_by);
    json_to_seconds(json_at(config, "/app/ready_timeout"), &o->ready_s);
    o->ready_by = "app.ready_timeout";
    json_to_seconds(json_at(config, "/app/clock_timeout"), &o->clock_s);
    o->clock_by = "app.clock_timeout";
}

static void run_loop(struct session *s)
{
    struct loop_options o = {
        .tuner = s->tuner,
        .journal = s->journal,
        .socket = &s->socket,
        .node = s->node,
        .nodes = s->nodes,
        .signal_fd = s->signal_fd,
        .config = &s->config,
        .model_dir = s->model_dir,
        .mailbox = s->mailbox,
        .hooks = {.ctx = s,
                  .record = take_record,
                  .tick = take_tick,
                  .tick_ms = s->progress.live    ? PROGRESS_TICK_MS
                             : s->progress.plain ? PROGRESS_LOOK_MS
                                                 : 0,
                  .notice = take_notice,
                  .keep = take_time,
                  .restart = take_restart,
                  .again = session_launch_again,
                  .model = session_complete_model},
    };

    set_deadlines(s, &o);
    /* Borrowed, so never released as a message. */
    s->config = (struct msg){.kind = MSG_CONFIG, .op = TUNER_CONFIG_OP};
    s->config.config.config = (json_t *)s->o->config;
    s->config.config.folder = (char *)s->o->folder;
    s->config.config.seed = s->o->tuner->seed;
    s->config.config.keep = s->o->program ? NULL : s->kept_dir;
    s->config.config.goes_on = !s->o->program && history_started(&s->history);
    s->config.config.other_data = !s->o->program && s->o->other_data;
    loop_run(&o, &s->result);
    log_event(LOG_INFO, "loop_ended",
              "status=%s reason=%s wall_s=%.3f cpu_s=%.3f cpu_share=%.4f",
              run_status_name(s->result.finish.status), s->result.finish.reason,
              s->result.wall_s, s->result.cpu_s,
              s->result.wall_s > 0 ? s->result.cpu_s / s->result.wall_s : 0);
}

const json_t *session_config(const struct session *s)
{
    return s->config.config.config;
}

void session_set_config(struct session *s, json_t *config)
{
    s->config.config.config = config;
}

/* ---- exit codes ---------------------------------------------------------- */

/* Exit code of a run that goes on another time: never that of a failed one.
 */
static int interrupted_load_exit_code(enum err err)
{
    int code = exit_code_of_load(err);

    return code == EXIT_RUN_FAILED ? EXIT_INTERRUPTED : code;
}

static int exit_code(const struct loop_result *r)
{
    if (r->finish.status == RUN_INTERRUPTED && r->load_error)
        return interrupted_load_exit_code(r->load_error);
    if (r->finish.status == RUN_INTERRUPTED &&
        strcmp(r->finish.reason, "not_saved") == 0)
        return EXIT_IO;
    if (r->finish.status == RUN_INTERRUPTED &&
        strcmp(r->finish.reason, "changed") == 0)
        return EXIT_CONFIG;
    if (r->finish.status == RUN_INTERRUPTED && r->snapshot_error &&
        !r->ended_at_once)
        return EXIT_IO; /* not as clean as the other codes promise */
    if (r->finish.status == RUN_INTERRUPTED && r->own_error &&
        r->own_error != ERR_NOMEM)
        return EXIT_IO;
    if (r->finish.status == RUN_INTERRUPTED)
        return r->signal ? EXIT_SIGNAL + r->signal : EXIT_INTERRUPTED;
    if (r->finish.status != RUN_FAILED)
        return EXIT_DONE;
    return r->load_error ? exit_code_of_load(r->load_error) : EXIT_RUN_FAILED;
}

/* Exit code of a run that could not begin. */
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

/* Exit code of a run that could not go on: unknown, ended, running. */
static int resume_exit_code(enum err err)
{
    switch (err) {
    case ERR_NOENT:
    case ERR_INVAL:
    case ERR_BUSY:
        return EXIT_USAGE;
    default:
        return set_up_exit_code(err);
    }
}

static int refusal_code(const struct session *s, enum err err)
{
    return s->o->resume ? resume_exit_code(err) : set_up_exit_code(err);
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
    if (history_started(&s->history)) /* a strategy may insist on its own */
        searcher = history_run(&s->history)->searcher;
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

/* The place that a run which did not end well goes on from another time. One
 * that failed does only if it has a snapshot. */
static void say_what_to_do(const struct session *s)
{
    const struct history_snapshot *last = history_last_snapshot(&s->history);
    bool elsewhere = strcmp(s->o->state, STATE_DEFAULT) != 0;

    fprintf(stderr, "nothing is lost but the work since ");
    if (last)
        fprintf(stderr, "the snapshot of epoch %u; ", last->s.epoch);
    else
        fprintf(stderr, "its beginning; ");
    if (strcmp(s->result.finish.reason, "load_failed") == 0 ||
        strcmp(s->result.finish.reason, "changed") == 0)
        fprintf(stderr, "once that is mended, ");
    fprintf(stderr, "mltune resume %s%s%s goes on from there\n", s->folder.id,
            elsewhere ? " --state " : "", elsewhere ? s->o->state : "");
}

/* An attempt of one of our applications that got no data: all that there is to
 * know is said. What a program of the user's did on its way is in its log. */
static bool never_began(const struct session *s)
{
    const struct tuner_finish *end = &s->result.finish;

    return s->begun && !s->o->resume && !s->o->program &&
           end->status == RUN_FAILED &&
           strcmp(end->reason, "load_failed") == 0 &&
           !history_started(&s->history);
}

static void explain_failure(const struct session *s)
{
    const struct tuner_finish *finish = &s->result.finish;

    if (never_began(s)) {
        console_error("%s%s", finish->message, NOTHING_IS_LEFT);
        last_words(s);
        return;
    }
    console_error("run %s %s: %s", s->folder.id,
                  finish->status == RUN_FAILED ? "failed" : "cannot go on",
                  finish->message[0] ? finish->message : finish->reason);
    last_words(s);
    if (strcmp(finish->reason, "not_saved") != 0 && s->begun &&
        (finish->status == RUN_INTERRUPTED ||
         history_last_snapshot(&s->history)))
        say_what_to_do(s);
}

/* Every end that nobody asked for. */
static bool ended_badly(const struct session *s)
{
    const struct tuner_finish *finish = &s->result.finish;

    return finish->status == RUN_FAILED || s->result.load_error ||
           s->result.own_error ||
           (finish->status == RUN_INTERRUPTED &&
            strcmp(finish->reason, "interrupted") != 0);
}

/* The summary that `mltune show` gives of the run. */
static void print_summary(const struct session *s)
{
    struct run_answers answers = {.run = NULL};
    struct source source;
    struct fault f = {0};
    enum err err = source_of_history(&source, s->state, s->folder.id,
                                     s->o->tuner->name, &s->history);

    if (!err) {
        err = run_answers_get_few(&source, s->folder.id, &answers, &f);
        source_close(&source);
    }
    if (err)
        console_error("%s", f.text[0] ? f.text : err_text(err));
    else
        render_summary(&answers, stdout);
    run_answers_deinit(&answers);
}

static void print_result(const struct session *s, const char *json)
{
    const struct tuner_finish *finish = &s->result.finish;
    /* The model of a program is the program's to read. */
    bool eval = history_model_path(&s->history)[0] && !s->o->program;

    if (ended_badly(s))
        explain_failure(s);
    if (s->o->json && json)
        printf("%s\n", json);
    else if (s->o->json)
        console_error("no memory for the result; mltune show %s --json has it",
                      s->folder.id);
    if (s->o->json ||
        (finish->status == RUN_FAILED && !history_epochs_len(&s->history)))
        return;
    printf("run       %s %s: %s\n", s->folder.id,
           run_status_name(finish->status), finish->message);
    print_summary(s);
    if (eval)
        printf("next      mltune predict %s DATA\n",
               history_model_path(&s->history));
    printf("%s mltune %s %s", eval ? "         " : "next     ",
           finish->status == RUN_INTERRUPTED ? "resume" : "show", s->folder.id);
    if (strcmp(s->o->state, STATE_DEFAULT) != 0)
        printf(" --state %s", s->o->state);
    printf("\n");
}

static void finish(struct session *s)
{
    const struct tuner_finish *end = &s->result.finish;
    json_t *object = result_object(s);
    char *json = object ? json_write(object, 0) : NULL;
    struct fault f = {0};

    json_decref(object);
    run_folder_tell_end(&s->folder, run_status_name(end->status), end->reason);
    session_kept_end(s);
    s->unsaid = s->o->json && !json;
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
    session_hooks_end(s);
}

/* The hooks hear of a run that could not be set up as of any other that ended:
 * nobody may be looking at it. */
static void tell_hooks(struct session *s, enum run_status status,
                       const struct fault *f)
{
    struct tuner_finish *finish = &s->result.finish;

    finish->status = status;
    snprintf(finish->reason, sizeof(finish->reason), "%s", err_name(f->code));
    snprintf(finish->message, sizeof(finish->message), "%.*s",
             (int)sizeof(finish->message) - 1, f->text);
    session_hooks_end(s);
}

static void give_up(struct session *s, const struct fault *f)
{
    bool goes_on =
        s->recalled || s->o->resume || (s->begun && err_may_pass(f->code));
    enum run_status status = goes_on ? RUN_INTERRUPTED : RUN_FAILED;

    if (s->watching)
        progress_stop(&s->progress);
    s->watching = false;
    console_error("%s%s", f->text, s->untold ? NOTHING_IS_LEFT : "");
    if (s->folder.lock_fd >= 0)
        run_folder_tell_end(&s->folder, run_status_name(status),
                            err_name(f->code));
    if (s->begun)
        journal_end_run(s->journal, run_status_name(status), err_name(f->code),
                        NULL, clock_wall(), NULL);
    if (s->hooked)
        tell_hooks(s, status, f);
    if (!s->begun && !s->recalled && !s->o->resume && s->folder.path[0])
        folder_remove(s->folder.path, NULL);
}

/* ---- from beginning to end ----------------------------------------------- */

static void tear_down(struct session *s)
{
    bool unborn = never_began(s) || s->untold;
    bool safe = s->begun && is_journaled(s);
    char id[RUN_ID_MAX + 1];
    struct fault f = {0};

    snprintf(id, sizeof(id), "%s", s->folder.id);
    launcher_stop(s->node, s->nodes, 0, -1);
    session_hooks_deinit(s);
    tensorboard_deinit(&s->board);
    api_server_stop(s->server);
    view_free(s->view);
    mailbox_free(s->mailbox);
    event_log_free(s->events);
    if (s->url_path[0])
        file_remove(s->url_path);
    socket_close(&s->socket);
    tuner_free(s->tuner);
    journal_close(s->journal);
    if (s->not_shown > 1)
        log_event(LOG_ERROR, "records_not_shown", "count=%llu",
                  (unsigned long long)s->not_shown);
    if (s->log_fd >= 0)
        close(s->log_fd);
    if (s->folder.lock_fd >= 0) {
        session_data_end(s, s->trained && safe);
        folder_sweep(s->folder.path);
        if (safe && (s->went_on || s->result.finish.status == RUN_FINISHED))
            session_sweep_snapshots(s, false);
    }
    run_folder_close(&s->folder);
    if (unborn && removal_of_run(s->state, id, NULL, &f) != ERR_OK)
        console_error("run %s is left: %s", id, f.text);
    checkpoint_start_deinit(&s->kept.start);
    json_decref(s->lowered);
    mem_free(s->cluster.host);
    history_deinit(&s->history);
    signals_close(s->signal_fd);
    talk_hurry(false);
}

int session_run(const struct session_options *options)
{
    struct session *s = mem_calloc(1, sizeof(*s));
    struct fault f = {0};
    enum err err;
    int code;

    assert(options->state && options->config && options->tuner);
    assert(options->registry && options->folder);
    if (!s) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    s->o = options;
    s->signal_fd = s->log_fd = s->folder.lock_fd = -1;
    history_init(&s->history);
    talk_hurry(true);
    err = signals_open_guarded(&s->signal_fd, DEADLINE_STOP_RUN_MS, true, &f);
    if (!err)
        err = set_up(s, &f);
    if (err) {
        give_up(s, &f);
        code = refusal_code(s, err);
    } else {
        if (had_ended(s))
            take_end(s);
        else
            run_loop(s);
        finish(s);
        code = exit_code(&s->result);
        if (code == EXIT_DONE && s->unsaid)
            code = EXIT_IO;
    }
    tear_down(s);
    mem_free(s);
    return code;
}
