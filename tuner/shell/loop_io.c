#include "tuner/shell/loop_io.h"

#include "base/clock_io.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <zmq.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    MESSAGES_MAX = 256,  /* taken before signals and timers are looked at */
    STEP_TRIES_MAX = 10, /* of one event while memory is out */
    WAIT_MAX_MS = 1000,
};

/* A node that died may have said why: its last messages are read for so long
 * after its end. */
static const double LAST_WORDS_S = 0.2;

/* The file that a whole snapshot of several nodes has (ps/disk/manifest.h). */
#define SNAPSHOT_MANIFEST "manifest.json"

/* Longest time of records that a loss of power may cost. */
static const double FLUSH_EVERY_S = 1;

struct loop {
    const struct loop_options *o;
    struct loop_result *result;
    struct tuner *tuner;
    struct tuner_actions actions;
    uint32_t nodes;
    struct socket_peer node[LOOP_NODES_MAX]; /* len 0: has not said hello */
    double heard_s[LOOP_NODES_MAX]; /* when it was last heard of, or started */
    struct node_group *crew;        /* NULL: one node */
    time_ns start;
    double flushed_s; /* when the journal was last flushed */
    double step_s;    /* how long the last step took */
    double lost_at_s; /* when to tell the core that the node is gone */
    char lost_reason[PROTO_TEXT_MAX];
    bool lost_told, lost_verdict; /* how the process ended is known */
    bool stopping;
    double restart_at_s;         /* INFINITY: the node is not to be restarted */
    unsigned restarts;           /* in a row without progress */
    uint32_t epochs;             /* furthest epoch that ended */
    bool over;                   /* finished, or cannot go on */
    op_id snapshot_op;           /* the running `snapshot`; 0: none */
    op_id save_op;               /* the running `save`; 0: none */
    char tmp_dir[FILE_PATH_MAX]; /* where it writes */
    /* Of several nodes: where they write the running snapshot, and its name. */
    char parts_dir[FILE_PATH_MAX], snapshot_dir[FILE_PATH_MAX];
    uint64_t malformed;
};

static double now_s(const struct loop *l)
{
    return (double)(clock_monotonic() - l->start) * 1e-9;
}

/* ---- ends ---------------------------------------------------------------- */

/* The run ends here because the tuner itself cannot go on. */
static void give_up(struct loop *l, const struct fault *f)
{
    struct tuner_finish *finish = &l->result->finish;

    if (l->over)
        return;
    log_event(LOG_ERROR, "tuner_failed", "code=%s reason=\"%s\"",
              err_name(f->code), f->text);
    l->result->own_error = f->code;
    finish->status = RUN_FAILED;
    snprintf(finish->reason, sizeof(finish->reason), "%s", err_name(f->code));
    snprintf(finish->message, sizeof(finish->message), "%.*s",
             (int)sizeof(finish->message) - 1, f->text);
    l->over = true;
}

/* The same where that is the journal's doing: no room, another who has it, no
 * memory. The run is what it was, and can be resumed. */
static void journal_lost(struct loop *l, const struct fault *f)
{
    if (l->over)
        return;
    give_up(l, f);
    l->result->finish.status = RUN_INTERRUPTED;
}

/* A later reason is the better one: a message that cannot be sent is noticed
 * first, how the process died says why. After that there is no better one. */
static void node_lost(struct loop *l, double at_s, const char *reason)
{
    if (l->lost_told || l->lost_verdict)
        return;
    snprintf(l->lost_reason, sizeof(l->lost_reason), "%s", reason);
    l->lost_at_s = fmin(l->lost_at_s, at_s);
    if (!l->stopping)
        log_event(LOG_INFO, "node_lost", "reason=\"%s\"", reason);
}

/* Answers what was to be done with `failed` instead. */
static void make_failed(struct msg *m, const struct fault *f)
{
    op_id op = m->op;
    branch_id branch = m->done.branch;

    msg_deinit(m);
    m->kind = MSG_FAILED;
    m->op = op;
    m->failed.branch = branch;
    m->failed.code = f->code;
    snprintf(m->failed.reason, sizeof(m->failed.reason), "%s", f->text);
}

/* ---- the model folder ---------------------------------------------------- */

/* The node writes the tables into a temporary folder beside the final one, so
 * that a model appears whole or not at all. */
static enum err redirect_save(struct loop *l, struct msg *m, struct fault *f)
{
    int n = snprintf(l->tmp_dir, sizeof(l->tmp_dir), "%s.tmp", l->o->model_dir);
    enum err err;

    if (n < 0 || (size_t)n >= sizeof(m->save.path))
        return fault_set(f, ERR_LIMIT, "path of the model is too long");
    err = folder_remove(l->tmp_dir, f);
    if (!err)
        err = folder_make(l->tmp_dir, f);
    if (err)
        return err;
    memcpy(m->save.path, l->tmp_dir, (size_t)n + 1);
    l->save_op = m->op;
    return ERR_OK;
}

static void drop_model(struct loop *l)
{
    if (l->tmp_dir[0])
        folder_remove(l->tmp_dir, NULL);
    l->tmp_dir[0] = '\0';
    l->save_op = 0;
}

/* The tables are written: completes the folder and names it. If that fails the
 * answer @m becomes `failed`. */
static void publish_model(struct loop *l, struct msg *m)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {0};
    enum err err = h->model(h->ctx, l->tmp_dir, m->done.data, &f);

    if (!err)
        err = folder_publish(l->tmp_dir, l->o->model_dir, &f);
    drop_model(l);
    if (!err)
        return;
    l->result->own_error = err;
    make_failed(m, &f);
}

/* ---- snapshots of several nodes -------------------------------------------
 */

/* As redirect_save: a snapshot is complete when all have written their part. */
static enum err redirect_snapshot(struct loop *l, struct msg *m,
                                  struct fault *f)
{
    int n = snprintf(l->parts_dir, sizeof(l->parts_dir), "%s.tmp",
                     m->snapshot.path);
    enum err err;

    if (n < 0 || (size_t)n >= sizeof(m->snapshot.path))
        return fault_set(f, ERR_LIMIT, "path of the snapshot is too long");
    snprintf(l->snapshot_dir, sizeof(l->snapshot_dir), "%s", m->snapshot.path);
    err = folder_remove(l->parts_dir, f);
    if (!err)
        err = folder_make(l->parts_dir, f);
    if (!err)
        memcpy(m->snapshot.path, l->parts_dir, (size_t)n + 1);
    return err;
}

static void drop_parts(struct loop *l)
{
    if (l->parts_dir[0])
        folder_remove(l->parts_dir, NULL);
    l->parts_dir[0] = '\0';
}

/* The manifest comes from the node that finds the parts of all. Where a shared
 * disk shows nobody the last one in time, none does: then it is not whole. */
static enum err check_manifest(const struct loop *l, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, l->parts_dir, SNAPSHOT_MANIFEST, f);

    if (!err && access(path, F_OK) != 0)
        err = fault_errno(f, ERR_IO, errno,
                          "all nodes have written their parts, but %s", path);
    return err;
}

static void publish_snapshot(struct loop *l, struct msg *m)
{
    struct fault f = {0};
    enum err err = check_manifest(l, &f);

    if (!err)
        err = folder_publish(l->parts_dir, l->snapshot_dir, &f);
    if (err)
        make_failed(m, &f);
    drop_parts(l);
}

/* ---- actions ------------------------------------------------------------- */

static bool all_here(const struct loop *l)
{
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->node[i].len == 0)
            return false;
    return true;
}

static void send_text(struct loop *l, uint32_t node, const char *text,
                      size_t len)
{
    enum err err = socket_send(l->o->socket, &l->node[node], text, len);

    if (err == ERR_LIMIT)
        node_lost(l, now_s(l), "the node does not take messages any more");
    else if (err)
        node_lost(l, now_s(l) + LAST_WORDS_S, "the node is not connected");
}

static void send_message(struct loop *l, struct msg *m)
{
    struct fault f = {0};
    char *text = NULL;
    size_t len;
    enum err err = ERR_OK;

    if (l->lost_told || !all_here(l))
        return; /* the core hears of the loss by its event */
    if (m->kind == MSG_SAVE)
        err = redirect_save(l, m, &f);
    else if (m->kind == MSG_SNAPSHOT)
        l->snapshot_op = m->op;
    if (m->kind == MSG_SNAPSHOT && l->crew)
        err = redirect_snapshot(l, m, &f);
    if (!err && l->crew)
        err = node_group_ask(l->crew, m);
    if (!err) {
        err = msg_encode(m, &text, &len);
        if (err)
            fault_set(&f, err, "cannot encode %s: %s", msg_kind_name(m->kind),
                      err_text(err));
    }
    if (err) {
        give_up(l, &f);
        return;
    }
    if (m->kind == MSG_STOP)
        l->stopping = true;
    for (uint32_t i = 0; i < l->nodes; i++)
        send_text(l, i, text, len);
    mem_free(text);
}

static void journal_record(struct loop *l, const struct record *r)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {.code = ERR_NOMEM, .text = "journal: out of memory"};
    enum err err = ERR_NOMEM;
    json_t *json = record_to_json(r);
    char *text = json ? json_write(json, 0) : NULL;

    if (text)
        err = journal_append(l->o->journal, record_kind_name(r->kind), text,
                             strlen(text), clock_wall(), &f);
    if (err)
        journal_lost(l, &f);
    else
        h->record(h->ctx, r, text);
    mem_free(text);
    json_decref(json);
    /* What is done again after a restart is no progress. */
    if (r->kind == RECORD_EPOCH_ENDED && r->epoch_ended.epoch > l->epochs) {
        l->epochs = r->epoch_ended.epoch;
        l->restarts = 0;
    }
}

static void commit(struct loop *l, bool durable)
{
    struct fault f = {0};
    double now = now_s(l);

    if (now - l->flushed_s >= FLUSH_EVERY_S)
        durable = true;
    if (durable)
        l->flushed_s = now;
    if (!l->over && journal_commit(l->o->journal, durable, &f) != ERR_OK)
        journal_lost(l, &f);
}

/* Whether what it does is still there after a loss of power. */
static bool survives_the_machine(const struct tuner_action *a)
{
    if (a->kind == TUNER_SEND)
        return a->message.kind == MSG_SNAPSHOT || a->message.kind == MSG_SAVE ||
               a->message.kind == MSG_STOP;
    if (a->kind == TUNER_ANSWER) /* what was read or refused changes nothing */
        return !a->answer.err && !a->answer.value;
    return a->kind == TUNER_REMOVE || a->kind == TUNER_FINISH;
}

/* One that came by a signal has nobody to be told. */
static void answer_command(struct loop *l, struct tuner_answer *answer)
{
    if (answer->ticket)
        mailbox_answer(l->o->mailbox, answer->ticket, answer);
}

static void perform(struct loop *l, struct tuner_action *a)
{
    struct fault f = {0};

    switch (a->kind) {
    case TUNER_SEND:
        send_message(l, &a->message);
        break;
    case TUNER_RECORD:
        break; /* it is in the journal */
    case TUNER_REMOVE:
        if (folder_remove(a->path, &f) != ERR_OK)
            log_event(LOG_WARN, "snapshot_not_removed", "reason=\"%s\"",
                      f.text);
        break;
    case TUNER_ANSWER:
        answer_command(l, &a->answer);
        break;
    case TUNER_FINISH:
        l->result->finish = a->finish;
        l->over = true;
        break;
    }
}

/* Records first: a crash in between is as one after them. */
static void perform_all(struct loop *l)
{
    bool act = false, durable = false;

    for (size_t i = 0; i < l->actions.count && !l->over; i++) {
        struct tuner_action *a = &l->actions.item[i];

        act |= a->kind != TUNER_RECORD;
        durable |= survives_the_machine(a);
        if (a->kind == TUNER_RECORD)
            journal_record(l, &a->record);
    }
    if (act)
        commit(l, durable);
    for (size_t i = 0; i < l->actions.count && !l->over; i++)
        perform(l, &l->actions.item[i]);
}

static void step(struct loop *l, struct tuner_event *event)
{
    struct fault f = {0};
    enum err err = ERR_NOMEM;
    time_ns before = clock_monotonic();

    if (l->over)
        return;
    event->now_s = now_s(l);
    event->step_s = l->step_s;
    for (int i = 0; err == ERR_NOMEM && i < STEP_TRIES_MAX; i++)
        err = tuner_step(l->tuner, event, &l->actions);
    l->step_s = (double)(clock_monotonic() - before) * 1e-9;
    if (err == ERR_NOMEM) {
        fault_set(&f, err, "the tuner is out of memory");
        give_up(l, &f);
        return;
    }
    if (err) /* its actions end the run */
        log_event(LOG_ERROR, "step_refused", "code=%s", err_name(err));
    perform_all(l);
    tuner_actions_reset(&l->actions);
}

/* ---- messages ------------------------------------------------------------ */

static void greet(struct loop *l, const struct socket_peer *from,
                  const struct msg_hello *hello)
{
    char text[PROTO_TEXT_MAX];
    char *config = NULL;
    size_t len;
    enum err err;

    uint32_t i = 0;

    while (i < l->nodes && hello->pid != l->o->node[i].process.pid)
        i++;
    if (i == l->nodes || l->node[i].len > 0) {
        log_event(LOG_WARN, "stranger_ignored", "pid=%lld",
                  (long long)hello->pid);
        return;
    }
    if (hello->version != PROTO_VERSION) {
        snprintf(text, sizeof(text),
                 "the node speaks version %u of the control protocol, this "
                 "tuner version %d",
                 hello->version, PROTO_VERSION);
        node_lost(l, now_s(l), text);
        return;
    }
    l->node[i] = *from;
    l->heard_s[i] = now_s(l);
    err = msg_encode(l->o->config, &config, &len);
    if (!err)
        err = socket_send(l->o->socket, &l->node[i], config, len);
    mem_free(config);
    if (err) {
        snprintf(text, sizeof(text), "cannot send the configuration: %s",
                 err_text(err));
        node_lost(l, now_s(l), text);
    }
}

/* The run goes on without it; whoever counts on it must know. */
static void snapshot_failed(struct loop *l, const struct msg_failed *failed)
{
    const struct loop_hooks *h = &l->o->hooks;
    char text[PROTO_TEXT_MAX + 64];

    snprintf(text, sizeof(text), "the snapshot was not written: %s",
             failed->reason);
    h->notice(h->ctx, text);
    l->result->snapshot_error = failed->code ? failed->code : ERR_IO;
}

/* What the answers to its own doings mean to the shell. */
static void take_answer(struct loop *l, struct msg *m)
{
    bool answer = m->kind == MSG_DONE || m->kind == MSG_FAILED;

    if (!answer || m->op == 0)
        return;
    if (m->op == l->snapshot_op) {
        l->snapshot_op = 0;
        l->result->snapshot_error = ERR_OK;
        if (l->crew && m->kind == MSG_DONE)
            publish_snapshot(l, m);
        if (m->kind == MSG_FAILED) {
            drop_parts(l);
            snapshot_failed(l, &m->failed);
        }
    } else if (m->op == l->save_op && m->kind == MSG_DONE) {
        publish_model(l, m);
    } else if (m->op == l->save_op) {
        l->result->own_error = m->failed.code == ERR_IO ? ERR_IO : ERR_OK;
        drop_model(l);
    } else if (m->op == TUNER_CONFIG_OP && m->kind == MSG_FAILED) {
        l->result->load_error = m->failed.code ? m->failed.code : ERR_APP;
    }
}

static void take_message(struct loop *l, struct msg *m)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct tuner_event event = {.kind = TUNER_EVENT_MESSAGE, .message = m};

    take_answer(l, m);
    if (h->message)
        h->message(h->ctx, m);
    if (!l->lost_told)
        step(l, &event);
}

/* What the nodes say, joined, goes on as if one had said it. */
static void take_of_node(struct loop *l, uint32_t node, struct msg *m)
{
    struct fault f = {0};
    struct msg joined;

    l->heard_s[node] = now_s(l);
    if (m->kind == MSG_BEAT)
        m->beat.node = node; /* whatever it says */
    if (!l->crew) {
        take_message(l, m);
        return;
    }
    if (l->lost_told || l->over)
        return;
    if (node_group_take(l->crew, node, m, &f) != ERR_OK) {
        node_lost(l, now_s(l), f.text);
        return;
    }
    while (node_group_next(l->crew, &joined)) {
        take_message(l, &joined);
        msg_deinit(&joined);
    }
}

static int64_t who_sent(const struct loop *l, const struct socket_peer *from)
{
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->node[i].len && socket_peer_same(from, &l->node[i]))
            return i;
    return -1;
}

static void complain(struct loop *l, const char *reason)
{
    if (l->malformed++ == 0)
        log_event(LOG_WARN, "message_ignored", "reason=\"%s\"", reason);
}

/* False when no message waits. */
static bool receive_one(struct loop *l)
{
    struct socket_peer from;
    struct fault f = {0};
    struct msg m = {0};
    char *text = NULL;
    int64_t node;
    size_t len;
    enum err err = socket_receive(l->o->socket, &from, &text, &len);

    if (err == ERR_AGAIN || err == ERR_IO)
        return false;
    if (!err) {
        err = msg_decode(text, len, &m, &f);
        mem_free(text);
    } else {
        fault_set(&f, err, "%s", err_text(err));
    }
    if (err)
        complain(l, f.text);
    else if (m.kind == MSG_HELLO)
        greet(l, &from, &m.hello);
    else if ((node = who_sent(l, &from)) < 0)
        complain(l, "not from our node");
    else
        take_of_node(l, (uint32_t)node, &m);
    if (!err)
        msg_deinit(&m);
    return true;
}

/* ---- events -------------------------------------------------------------- */

static bool another_signal(const struct loop *l)
{
    struct signalfd_siginfo info;

    return read(l->o->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

/* There is nobody to write a snapshot: the run goes on from the one before. */
static void interrupted_without_node(struct loop *l)
{
    struct tuner_finish *finish = &l->result->finish;

    finish->status = RUN_INTERRUPTED;
    snprintf(finish->reason, sizeof(finish->reason), "interrupted");
    snprintf(finish->message, sizeof(finish->message),
             "interrupted by the user while the training system was lost");
    l->over = true;
}

static void take_signal(struct loop *l)
{
    static const char first[] =
        "interrupted: writing a snapshot, then ending; once more ends at once";
    struct tuner_event event = {.kind = TUNER_EVENT_COMMAND,
                                .command = COMMAND_INTERRUPT};
    const struct loop_hooks *h = &l->o->hooks;
    struct signalfd_siginfo info;
    ssize_t n = read(l->o->signal_fd, &info, sizeof(info));

    if (n != (ssize_t)sizeof(info))
        return;
    log_event(LOG_INFO, "signal", "number=%u", info.ssi_signo);
    if (l->result->signal) {
        l->result->ended_at_once = true;
        l->result->finish.status = RUN_INTERRUPTED;
        snprintf(l->result->finish.reason, sizeof(l->result->finish.reason),
                 "interrupted");
        l->over = true;
        return;
    }
    l->result->signal = (int)info.ssi_signo;
    if (isfinite(l->restart_at_s)) {
        interrupted_without_node(l);
        return;
    }
    h->notice(h->ctx, first);
    step(l, &event);
}

/* Nothing steers a run whose training system is gone. */
static const char starting_again[] =
    "the training system was lost and is being started again";

static void refuse_command(struct loop *l, mailbox_ticket ticket)
{
    struct tuner_answer a = {
        .ticket = ticket, .err = ERR_AGAIN, .branch = BRANCH_NONE};

    snprintf(a.text, sizeof(a.text), "%s", starting_again);
    answer_command(l, &a);
}

static void take_commands(struct loop *l)
{
    struct mailbox_request request;

    for (int i = 0; i < MAILBOX_SLOTS && !l->over; i++) {
        struct tuner_event event = {.kind = TUNER_EVENT_COMMAND};

        if (!mailbox_take(l->o->mailbox, &request, &event.ticket))
            return;
        if (request.command != COMMAND_READ)
            log_event(LOG_INFO, "command", "name=%s",
                      command_of(request.command)->name);
        event.command = request.command;
        event.limits = &request.limits;
        event.fork = &request.fork;
        memcpy(request.suggest.key, request.key, sizeof(request.key));
        event.suggest = &request.suggest;
        event.rows = &request.rows;
        if (l->lost_told)
            refuse_command(l, event.ticket);
        else
            step(l, &event);
        mailbox_request_deinit(&request);
    }
}

static void take_node_end(struct loop *l, uint32_t node)
{
    char verdict[256];

    if (!launcher_poll(&l->o->node[node]))
        return;
    launcher_verdict(&l->o->node[node], verdict, sizeof(verdict));
    node_lost(l, now_s(l) + LAST_WORDS_S, verdict);
    l->lost_verdict = true;
}

/* All of them, the first one asked included. */
static void stop_nodes(struct loop *l, int grace_ms, int hurry_fd)
{
    for (uint32_t i = 0; i < l->nodes; i++)
        launcher_stop(&l->o->node[i], grace_ms, hurry_fd);
}

static double or_default(double given, double otherwise)
{
    return given > 0 ? given : otherwise;
}

/* The node is gone for good, or the run is at its end anyway. */
static void lose_node(struct loop *l)
{
    struct tuner_event event = {.kind = TUNER_EVENT_LOST,
                                .reason = l->lost_reason};

    l->result->node_lost = !l->stopping;
    if (l->result->signal && !l->stopping)
        interrupted_without_node(l);
    else
        step(l, &event);
}

/* Ends what is left of the node; another is started in a while. */
static void plan_restart(struct loop *l)
{
    const struct loop_hooks *h = &l->o->hooks;
    double wait = or_default(l->o->backoff_s, LOOP_BACKOFF_S);
    char text[PROTO_TEXT_MAX + 128];

    for (unsigned i = 0; i < l->restarts; i++)
        wait *= 2;
    l->restarts++;
    stop_nodes(l, 0, -1);
    drop_model(l);
    drop_parts(l);
    l->snapshot_op = 0;
    for (uint32_t i = 0; i < l->nodes; i++)
        l->node[i].len = 0;
    if (l->crew)
        node_group_reset(l->crew);
    l->restart_at_s = now_s(l) + wait;
    snprintf(text, sizeof(text), "%s; starting it again in %g s (%u of %d)",
             l->lost_reason, wait, l->restarts, LOOP_RESTARTS_MAX);
    log_event(LOG_INFO, "node_restart_planned", "attempt=%u wait_s=%g",
              l->restarts, wait);
    h->notice(h->ctx, text);
}

/* How often it was tried belongs to why it failed. */
static void tell_restarts(struct loop *l)
{
    size_t n = strlen(l->lost_reason);

    if (l->restarts > 0)
        snprintf(l->lost_reason + n, sizeof(l->lost_reason) - n,
                 "; it was started again %u time%s before", l->restarts,
                 l->restarts == 1 ? "" : "s");
}

static void take_loss(struct loop *l)
{
    bool again = l->o->hooks.restart && !l->stopping && !l->result->signal &&
                 l->restarts < LOOP_RESTARTS_MAX;

    l->lost_told = true;
    l->lost_at_s = INFINITY;
    if (again)
        plan_restart(l);
    else {
        tell_restarts(l);
        lose_node(l);
    }
}

/* All nodes will be given the configuration. */
static void expect_ready(struct loop *l)
{
    struct fault f = {.code = ERR_NOMEM, .text = "no memory for the nodes"};

    if (l->crew && node_group_ask(l->crew, l->o->config) != ERR_OK)
        give_up(l, &f);
}

static void restart(struct loop *l)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {0};

    l->restart_at_s = INFINITY;
    commit(l, true);
    if (l->over)
        return;
    if (l->o->mailbox)
        mailbox_abandon(l->o->mailbox, starting_again);
    if (h->restart(h->ctx, l->lost_reason, l->restarts, &l->tuner, &f)) {
        give_up(l, &f);
        return;
    }
    expect_ready(l);
    l->lost_told = l->lost_verdict = false;
    for (uint32_t i = 0; i < l->nodes; i++)
        l->heard_s[i] = now_s(l);
    l->result->restarts++;
}

static uint32_t most_silent(const struct loop *l)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < l->nodes; i++)
        if (l->heard_s[i] < l->heard_s[at])
            at = i;
    return at;
}

/* A node that hangs is as good as none. */
static void take_silence(struct loop *l)
{
    char text[96];

    const struct node_process *p = &l->o->node[most_silent(l)];

    snprintf(text, sizeof(text),
             "node %u (pid %lld) has not been heard of for %g s", p->node,
             (long long)p->process.pid,
             or_default(l->o->silence_s, LOOP_SILENCE_S));
    stop_nodes(l, 0, -1);
    node_lost(l, now_s(l), text);
}

static double silent_at(const struct loop *l)
{
    if (l->lost_told || isfinite(l->lost_at_s) || l->stopping)
        return INFINITY;
    return l->heard_s[most_silent(l)] +
           or_default(l->o->silence_s, LOOP_SILENCE_S);
}

static void take_time(struct loop *l)
{
    struct tuner_event event = {.kind = TUNER_EVENT_TIMER};
    double now = now_s(l);

    if (now >= silent_at(l))
        take_silence(l);
    if (now >= l->restart_at_s)
        restart(l);
    else if (now >= l->lost_at_s && !l->lost_told)
        take_loss(l);
    else if (!l->lost_told && now >= tuner_wake_at(l->tuner))
        step(l, &event);
}

/* When there is something to do that no message, signal or end brings. */
static double due_at(const struct loop *l)
{
    double at = fmin(fmin(l->lost_at_s, l->restart_at_s), silent_at(l));

    return l->lost_told ? at : fmin(at, tuner_wake_at(l->tuner));
}

/* Milliseconds to wait, rounded up so that a timer is due when it ends. */
static long timeout_ms(const struct loop *l)
{
    double ms = ceil((due_at(l) - now_s(l)) * 1e3);
    double most = l->o->hooks.tick_ms > 0 ? l->o->hooks.tick_ms : WAIT_MAX_MS;

    return (long)fmin(fmax(ms, 0), most);
}

static void wait_and_take(struct loop *l)
{
    zmq_pollitem_t item[LOOP_NODES_MAX + 3] = {
        {.socket = l->o->socket->router, .events = ZMQ_POLLIN},
        {.fd = l->o->signal_fd, .events = ZMQ_POLLIN},
    };
    int items = 2, node[LOOP_NODES_MAX] = {0}, mail = 0;

    for (uint32_t i = 0; i < l->nodes; i++) {
        if (l->o->node[i].process.ended)
            continue;
        node[i] = items++;
        item[node[i]].fd = l->o->node[i].process.end_fd;
        item[node[i]].events = ZMQ_POLLIN;
    }
    if (l->o->mailbox) {
        mail = items++;
        item[mail].fd = mailbox_fd(l->o->mailbox);
        item[mail].events = ZMQ_POLLIN;
    }

    if (zmq_poll(item, items, timeout_ms(l)) > 0) {
        if (item[1].revents)
            take_signal(l);
        for (int i = 0; i < MESSAGES_MAX && !l->over; i++)
            if (!receive_one(l))
                break;
        if (mail && item[mail].revents && !l->over)
            take_commands(l);
        for (uint32_t i = 0; i < l->nodes; i++)
            if (node[i] && item[node[i]].revents && !l->over)
                take_node_end(l, i);
    }
    if (!l->over)
        take_time(l);
    /* Readers see what happened; other runs' tuners may write. */
    commit(l, false);
}

static void begin(struct loop *l)
{
    struct fault f = {.code = ERR_NOMEM, .text = "no memory for the nodes"};

    l->nodes = l->o->nodes ? l->o->nodes : 1;
    assert(l->nodes <= LOOP_NODES_MAX);
    for (uint32_t i = 0; i < l->nodes; i++)
        l->heard_s[i] = now_s(l);
    if (l->nodes > 1 && node_group_new(l->nodes, &l->crew) != ERR_OK)
        give_up(l, &f);
    expect_ready(l);
}

void loop_run(const struct loop_options *options, struct loop_result *out)
{
    struct loop l = {
        .o = options,
        .result = out,
        .start = clock_monotonic(),
        .lost_at_s = INFINITY,
        .restart_at_s = INFINITY,
        .tuner = options->tuner,
    };
    time_ns cpu = clock_thread_cpu();
    bool orderly;

    memset(out, 0, sizeof(*out));
    begin(&l);
    while (!l.over) {
        wait_and_take(&l);
        options->hooks.tick(options->hooks.ctx, now_s(&l));
    }
    if (options->mailbox)
        mailbox_close(options->mailbox);
    /* Those that wait for a node that could not load are not asked. */
    orderly = !out->ended_at_once && l.stopping && !(l.crew && out->load_error);
    stop_nodes(&l, orderly ? LOOP_NODE_GRACE_MS : 0, options->signal_fd);
    if (orderly && out->signal && another_signal(&l))
        out->ended_at_once = true;
    for (uint32_t i = 0; orderly && i < l.nodes; i++)
        if (options->node[i].process.code != 0 && !out->load_error &&
            !out->ended_at_once)
            log_event(LOG_WARN, "node_ended_badly", "node=%u code=%d",
                      options->node[i].node, options->node[i].process.code);
    drop_model(&l);
    drop_parts(&l);
    node_group_free(l.crew);
    tuner_actions_deinit(&l.actions);
    if (l.malformed > 1)
        log_event(LOG_WARN, "messages_ignored", "count=%llu",
                  (unsigned long long)l.malformed);
    out->wall_s = now_s(&l);
    out->cpu_s = (double)(clock_thread_cpu() - cpu) * 1e-9;
}
