#include "tuner/shell/loop_io.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "tuner/shell/crew_io.h"
#include "tuner/shell/folders_io.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <zmq.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    MESSAGES_MAX = 256,  /* taken before signals and timers are looked at */
    STEP_TRIES_MAX = 10, /* of one event while memory is out */
    WAIT_MAX_MS = 1000,
    JOURNAL_AGAIN_MS = 50, /* between tries, beside what each waits */
};

/* Longest time of records that a loss of power may cost. */
static const double FLUSH_EVERY_S = 1;

/* Warnings that come sooner than so after one are the same. */
static const double WARNING_S = 10;

struct loop {
    const struct loop_options *o;
    struct loop_result *result;
    struct tuner *tuner;
    struct tuner_actions actions;
    struct crew crew;       /* the nodes, and who decides about them */
    struct folders folders; /* that they write */
    time_ns start;
    struct msg refused; /* `failed`, where a folder could not be made */
    bool refuses;       /* that is to be taken in */
    double flushed_s;   /* when the journal was last flushed */
    double step_s;      /* how long the last step took */
    double warned_s;    /* when a scheduler's warning was last acted on */
    double left_s;      /* when a scheduler asked for the end; INFINITY: it has
                         * not */
    bool over;          /* finished, or cannot go on */
    struct fault full;  /* the journal's limit is reached: the run ends */
};

static double now_s(const struct loop *l)
{
    return (double)(clock_monotonic() - l->start) * 1e-9;
}

/* ---- ends ---------------------------------------------------------------- */

/* The run ends here because the tuner itself cannot go on: no memory, no disk,
 * no process. It is what it was, and can be resumed. */
static void give_up(struct loop *l, const struct fault *f)
{
    struct tuner_finish *finish = &l->result->finish;

    if (l->over)
        return;
    log_event(LOG_ERROR, "tuner_failed", "code=%s reason=\"%s\"",
              err_name(f->code), f->text);
    l->result->own_error = f->code;
    finish->status = RUN_INTERRUPTED;
    snprintf(finish->reason, sizeof(finish->reason), "%s", err_name(f->code));
    snprintf(finish->message, sizeof(finish->message), "%.*s",
             (int)sizeof(finish->message) - 1, f->text);
    l->over = true;
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

/* ---- actions ------------------------------------------------------------- */

/* A snapshot or model whose folder cannot be made: no node hears of it, and the
 * core that it failed. It asks for one of them at a time. */
static void refuse(struct loop *l, const struct msg *m, const struct fault *f)
{
    assert(!l->refuses);
    l->refuses = true;
    l->refused = (struct msg){.kind = MSG_FAILED, .op = m->op};
    l->refused.failed.branch =
        m->kind == MSG_SAVE ? m->save.branch : m->snapshot.branch;
    l->refused.failed.code = f->code;
    snprintf(l->refused.failed.reason, sizeof(l->refused.failed.reason), "%s",
             f->text);
}

static void send_message(struct loop *l, struct msg *m)
{
    struct fault f = {0};

    if (l->crew.keeper.lost)
        return; /* the core hears of the loss by its event */
    if (folders_redirect(&l->folders, m, &f) != ERR_OK) {
        refuse(l, m, &f);
        return;
    }
    if (crew_send(&l->crew, m, now_s(l), &f) != ERR_OK)
        give_up(l, &f);
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
    if (!err) {
        err = h->record(h->ctx, r, text);
        if (err)
            fault_set(&f, err, "history: %s", err_text(err));
    }
    if (err)
        give_up(l, &f);
    mem_free(text);
    json_decref(json);
    if (r->kind == RECORD_EPOCH_ENDED)
        keeper_progress(&l->crew.keeper, r->epoch_ended.epoch);
}

/* Whether a signal has come, or comes within @ms; it stays, for take_signal. */
static bool signal_comes(const struct loop *l, int ms)
{
    struct pollfd fd = {.fd = l->o->signal_fd, .events = POLLIN};

    return poll(&fd, 1, ms) > 0;
}

/* Who holds the lock may be suspended, and go on later. The nodes work on
 * meanwhile, as far as they were told. A run that is to end does not wait. */
static enum err commit_patiently(struct loop *l, bool durable, struct fault *f)
{
    double since = now_s(l);
    enum err err = journal_commit(l->o->journal, durable, f);
    char why[FAULT_TEXT_MAX];

    if (err != ERR_BUSY)
        return err;
    log_event(LOG_WARN, "journal_busy", "reason=\"%s\"", f->text);
    while (err == ERR_BUSY && !l->result->signal && !isfinite(l->left_s) &&
           now_s(l) < since + DEADLINE_JOURNAL_WAIT_MS * 1e-3 &&
           !signal_comes(l, JOURNAL_AGAIN_MS))
        err = journal_commit(l->o->journal, durable, f);
    if (err != ERR_BUSY)
        return err;
    snprintf(why, sizeof(why), "%s", f->text);
    return fault_set(f, err, "tried for %.0f s: %s", now_s(l) - since, why);
}

static void commit(struct loop *l, bool durable)
{
    struct fault f = {0};
    double now = now_s(l);

    if (now - l->flushed_s >= FLUSH_EVERY_S)
        durable = true;
    if (durable)
        l->flushed_s = now;
    if (!l->over && commit_patiently(l, durable, &f) != ERR_OK)
        give_up(l, &f);
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

/* The last words of the training system before it failed, which the core cannot
 * know. They are no news where a node of our own says why it fails. */
static void add_last_words(struct loop *l, struct record *r)
{
    struct record_run_finished *end = &r->run_finished;

    if (r->kind != RECORD_RUN_FINISHED || end->last_words ||
        (end->status != RUN_FAILED && !l->result->load_error &&
         !l->result->node_lost) ||
        (!l->o->program && !l->result->node_lost))
        return;
    end->last_words = crew_last_words(&l->crew);
    if (end->last_words)
        end->last_words_node = crew_last_speaker(&l->crew);
}

/* Records come first: a crash in between is as one after them. */
static void perform_all(struct loop *l)
{
    bool act = false, durable = false;

    for (size_t i = 0; i < l->actions.count && !l->over; i++) {
        struct tuner_action *a = &l->actions.item[i];

        act |= a->kind != TUNER_RECORD;
        durable |= survives_the_machine(a);
        if (a->kind == TUNER_RECORD) {
            add_last_words(l, &a->record);
            journal_record(l, &a->record);
        }
    }
    if (act)
        commit(l, durable);
    for (size_t i = 0; i < l->actions.count && !l->over; i++)
        perform(l, &l->actions.item[i]);
}

static void step_once(struct loop *l, struct tuner_event *event)
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

static void take_answer(struct loop *l, struct msg *m);

/* A step, and others while the folder that it asks for cannot be made. */
static void step(struct loop *l, struct tuner_event *event)
{
    step_once(l, event);
    while (l->refuses && !l->over) {
        struct msg m = l->refused;
        struct tuner_event next = {.kind = TUNER_EVENT_MESSAGE, .message = &m};

        l->refuses = false;
        take_answer(l, &m);
        step_once(l, &next);
    }
}

/* ---- messages ------------------------------------------------------------ */

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

/* A snapshot is written, or is not. Where its folder cannot be published @m
 * becomes `failed`. */
static void take_snapshot(struct loop *l, struct msg *m)
{
    struct fault f = {0};

    l->result->snapshot_error = ERR_OK;
    if (m->kind == MSG_DONE && folders_publish_snapshot(&l->folders, &f))
        make_failed(m, &f);
    if (m->kind != MSG_FAILED)
        return;
    folders_drop_snapshot(&l->folders);
    snapshot_failed(l, &m->failed);
}

/* The model's tables are written, or are not. Where its folder cannot be
 * completed or published @m becomes `failed`. */
static void take_model(struct loop *l, struct msg *m)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {0};
    enum err err;

    if (m->kind == MSG_FAILED) {
        folders_drop_model(&l->folders);
        return;
    }
    err = h->model(h->ctx, l->folders.model_tmp, m->done.data, &f);
    if (!err)
        err = folders_publish_model(&l->folders, &f);
    folders_drop_model(&l->folders);
    if (err)
        make_failed(m, &f);
}

/* Looks for answers to what the loop itself has a part in. */
static void take_answer(struct loop *l, struct msg *m)
{
    if ((m->kind != MSG_DONE && m->kind != MSG_FAILED) || m->op == 0)
        return;
    if (m->op == l->folders.snapshot_op)
        take_snapshot(l, m);
    else if (m->op == l->folders.model_op)
        take_model(l, m);
    else if (m->op == TUNER_CONFIG_OP && m->kind == MSG_FAILED)
        l->result->load_error = m->failed.code ? m->failed.code : ERR_APP;
}

/* Takes what the nodes say as one; @ctx is the loop. */
static void take_message(void *ctx, struct msg *m)
{
    struct loop *l = ctx;
    const struct loop_hooks *h = &l->o->hooks;
    struct tuner_event event = {.kind = TUNER_EVENT_MESSAGE, .message = m};

    take_answer(l, m);
    if (h->message)
        h->message(h->ctx, m);
    if (!l->crew.keeper.lost)
        step(l, &event);
}

/* ---- signals and commands ------------------------------------------------ */

/* A scheduler says so that a job's time is nearly over. */
static bool is_warning(const struct signalfd_siginfo *info)
{
    return info->ssi_signo == SIGUSR1 || info->ssi_signo == SIGXCPU;
}

static bool another_signal(const struct loop *l)
{
    struct signalfd_siginfo info;

    while (read(l->o->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (!is_warning(&info))
            return true;
    return false;
}

/* A snapshot is written, and the run goes on: the end may be near. SIGXCPU
 * comes again every second. */
static void take_warning(struct loop *l)
{
    struct tuner_event event = {.kind = TUNER_EVENT_COMMAND,
                                .command = COMMAND_SNAPSHOT};

    if (l->result->signal || l->crew.keeper.lost ||
        now_s(l) < l->warned_s + WARNING_S)
        return;
    l->warned_s = now_s(l);
    step(l, &event);
}

/* The run ends with nobody to write a snapshot: it goes on from the one before.
 */
static void interrupted_without_node(struct loop *l, const char *reason)
{
    struct tuner_finish *finish = &l->result->finish;
    const struct loop_hooks *h = &l->o->hooks;
    char text[PROTO_TEXT_MAX + 384];

    snprintf(text, sizeof(text), "no further snapshot was written: %s", reason);
    h->notice(h->ctx, text);

    finish->status = RUN_INTERRUPTED;
    snprintf(finish->reason, sizeof(finish->reason), "interrupted");
    snprintf(finish->message, sizeof(finish->message),
             "interrupted by the user while the training system was lost");
    l->over = true;
}

static void end_at_once(struct loop *l)
{
    struct loop_result *r = l->result;

    r->ended_at_once = true;
    r->finish.status = RUN_INTERRUPTED;
    snprintf(r->finish.reason, sizeof(r->finish.reason), "interrupted");
    l->over = true;
}

/* Schedulers kill what does not end soon after their signal; who presses keys
 * may press them again. */
static bool is_pressing(int signal)
{
    return signal == SIGTERM || signal == SIGHUP;
}

/* The journal takes more than it may: a last snapshot, then the end. What it
 * takes in until then is little. */
static void take_full(struct loop *l, const struct fault *f)
{
    struct tuner_event event = {.kind = TUNER_EVENT_FULL, .reason = f->text};
    const struct loop_hooks *h = &l->o->hooks;

    if (l->full.code || tuner_ends(l->tuner))
        return;
    if (l->crew.keeper.lost) {
        give_up(l, f);
        return;
    }
    l->full = *f;
    l->result->own_error = f->code;
    l->left_s = fmin(l->left_s, now_s(l));
    keeper_leave(&l->crew.keeper);
    h->notice(h->ctx, "journal.limit: writing a snapshot, then ending");
    step(l, &event);
}

/* The end takes too long: what hangs is left behind. */
static void take_leave(struct loop *l)
{
    static const char *const awaited[] = {
        [TUNER_WAITS_NOT] = "nothing",
        [TUNER_WAITS_READY] = "the training system to be ready",
        [TUNER_WAITS_ANSWER] = "an answer of the training system",
        [TUNER_WAITS_TIME] = "another try",
        [TUNER_WAITS_USER] = "the user",
        [TUNER_WAITS_NOBODY] = "nobody",
    };
    const struct loop_hooks *h = &l->o->hooks;
    char text[160];

    if (l->over || (now_s(l) - l->left_s) * 1e3 < DEADLINE_STOP_SNAPSHOT_MS)
        return;
    snprintf(text, sizeof(text),
             "no snapshot was written in %g s: ending without it",
             DEADLINE_STOP_SNAPSHOT_MS * 1e-3);
    log_event(LOG_WARN, "end_forced", "after_s=%g awaited=\"%s\"",
              now_s(l) - l->left_s, awaited[tuner_waits(l->tuner).kind]);
    h->notice(h->ctx, text);
    if (l->full.code)
        give_up(l, &l->full);
    else
        end_at_once(l);
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
    if (is_warning(&info)) {
        take_warning(l);
        return;
    }
    if (l->result->signal) {
        end_at_once(l);
        return;
    }
    l->result->signal = (int)info.ssi_signo;
    if (is_pressing(l->result->signal))
        l->left_s = now_s(l);
    keeper_leave(&l->crew.keeper);
    if (isfinite(l->crew.keeper.restart_at_s)) {
        interrupted_without_node(l, l->crew.keeper.reason);
        return;
    }
    h->notice(h->ctx, first);
    step(l, &event);
}

/* A run whose training system is gone is steered by nothing. */
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
        event.args = &request.args;
        event.key = request.key;
        if (l->crew.keeper.lost)
            refuse_command(l, event.ticket);
        else
            step(l, &event);
        mailbox_request_deinit(&request);
    }
}

/* ---- lost nodes ---------------------------------------------------------- */

/* The node is gone for good, or the run is at its end anyway. */
static void lose_node(struct loop *l)
{
    const struct keeper *k = &l->crew.keeper;
    char reason[PROTO_TEXT_MAX + 320];
    struct tuner_event event = {.kind = TUNER_EVENT_LOST,
                                .reason = reason,
                                .program = k->o.program && k->final};

    crew_explain(&l->crew, reason, sizeof(reason));
    l->result->node_lost = !k->stopping;
    if (l->result->signal && !k->stopping)
        interrupted_without_node(l, reason);
    else
        step(l, &event);
}

/* Ends what is left of the nodes, and says that others will be started. */
static void clear_nodes(struct loop *l)
{
    const struct loop_hooks *h = &l->o->hooks;
    const struct keeper *k = &l->crew.keeper;
    char text[PROTO_TEXT_MAX + 128];

    crew_clear(&l->crew);
    folders_drop_model(&l->folders);
    folders_drop_snapshot(&l->folders);
    snprintf(text, sizeof(text), "%s; starting it again in %g s (%u of %d)",
             k->reason, k->wait_s, k->restarts, KEEPER_RESTARTS_MAX);
    log_event(LOG_INFO, "node_restart_planned", "attempt=%u wait_s=%g",
              k->restarts, k->wait_s);
    h->notice(h->ctx, text);
}

static void restart(struct loop *l)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {0};

    commit(l, true);
    if (l->over)
        return;
    if (l->o->mailbox)
        mailbox_abandon(l->o->mailbox, starting_again);
    if (h->restart(h->ctx, l->crew.keeper.reason, l->crew.keeper.restarts,
                   &l->tuner, &f)) {
        give_up(l, &f);
        return;
    }
    if (crew_begin_again(&l->crew, now_s(l)) != ERR_OK) {
        fault_set(&f, ERR_NOMEM, "no memory for the nodes");
        give_up(l, &f);
        return;
    }
    l->result->restarts++;
}

/* Carries out what the keeper decides by now. True if there was anything. */
static bool do_duties(struct loop *l)
{
    bool any = false;

    while (!l->over) {
        switch (keeper_take(&l->crew.keeper, now_s(l))) {
        case KEEPER_NOTHING:
            return any;
        case KEEPER_KILL:
            crew_kill(&l->crew, now_s(l));
            break;
        case KEEPER_CLEAR:
            clear_nodes(l);
            break;
        case KEEPER_RESTART:
            restart(l);
            break;
        case KEEPER_GIVE_UP:
            lose_node(l);
            break;
        case KEEPER_TELL:
            crew_tell(&l->crew, now_s(l), take_message, l);
            break;
        }
        any = true;
    }
    return any;
}

/* Nodes whose hosts were too busy to start them. */
static void start_late(struct loop *l)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {0};
    uint32_t node;

    while (!l->over && h->again && crew_due(&l->crew, now_s(l), &node))
        if (h->again(h->ctx, node, &f) != ERR_OK)
            give_up(l, &f);
}

/* ---- time ---------------------------------------------------------------- */

static void take_time(struct loop *l)
{
    struct tuner_event event = {.kind = TUNER_EVENT_TIMER};

    if (tuner_ends(l->tuner))
        keeper_hurry(&l->crew.keeper, now_s(l));
    /* A program that said why it cannot load did so before the time was up. */
    if (keeper_holds(&l->crew.keeper) && now_s(l) >= tuner_wake_at(l->tuner))
        keeper_release(&l->crew.keeper, now_s(l));
    if (do_duties(l))
        return;
    start_late(l);
    if (!l->crew.keeper.lost && now_s(l) >= tuner_wake_at(l->tuner))
        step(l, &event);
}

/* When there is something to do that no message, signal or end brings. */
static double due_at(const struct loop *l)
{
    double at = fmin(keeper_due_at(&l->crew.keeper),
                     l->left_s + DEADLINE_STOP_SNAPSHOT_MS * 1e-3);

    at = fmin(at, crew_due_at(&l->crew));
    return l->crew.keeper.lost ? at : fmin(at, tuner_wake_at(l->tuner));
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
    zmq_pollitem_t item[KEEPER_NODES_MAX + 3] = {
        {.socket = l->o->socket->router, .events = ZMQ_POLLIN},
        {.fd = l->o->signal_fd, .events = ZMQ_POLLIN},
    };
    int items = 2, node[KEEPER_NODES_MAX] = {0}, mail = 0;

    for (uint32_t i = 0; i < l->o->nodes; i++) {
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
            if (!crew_receive(&l->crew, now_s(l), take_message, l))
                break;
        if (mail && item[mail].revents && !l->over)
            take_commands(l);
        for (uint32_t i = 0; i < l->o->nodes; i++)
            if (node[i] && item[node[i]].revents && !l->over)
                crew_check(&l->crew, i, now_s(l));
    }
    take_leave(l);
    if (!l->over)
        take_time(l);
    /* Readers see what happened; other runs' tuners may write. */
    commit(l, false);
}

/* Node @i had been told to stop, and ended with an error all the same. What a
 * program does after its run is its user's to know, in words. */
static void tell_bad_end(struct loop *l, uint32_t i)
{
    const struct loop_hooks *h = &l->o->hooks;
    const struct node_process *p = &l->o->node[i];
    char text[512], name[384];

    if (!l->o->program) {
        log_event(LOG_WARN, "node_ended_badly", "node=%u code=%d", p->node,
                  p->process.code);
        return;
    }
    crew_describe_end(&l->crew, i, name, sizeof(name));
    snprintf(text, sizeof(text),
             "%s after the run was over, which changes nothing; `mltune log` "
             "has what it wrote",
             name);
    log_event(LOG_INFO, "program_ended_badly", "node=%u code=%d", p->node,
              p->process.code);
    h->notice(h->ctx, text);
}

/* Milliseconds for the nodes to end by themselves. */
static int time_to_end(const struct loop *l)
{
    double left = DEADLINE_STOP_NODES_MS - (now_s(l) - l->left_s) * 1e3;

    return (int)fmax(0, fmin(left, DEADLINE_NODE_STOP_MS));
}

/* Ends the nodes, of their own accord where the run came to its end. */
static void end_nodes(struct loop *l)
{
    const struct loop_options *o = l->o;
    struct loop_result *r = l->result;
    /* Commands that wait for a node that could not load are not asked, nor
     * programs that load: they listen to nobody yet, and have nothing to lose.
     */
    bool orderly = !r->ended_at_once && l->crew.keeper.stopping &&
                   !(o->nodes > 1 && r->load_error) &&
                   !(o->program && !keeper_all_ready(&l->crew.keeper));

    crew_end(&l->crew, orderly ? time_to_end(l) : 0, o->signal_fd);
    if (orderly && r->signal && another_signal(l))
        r->ended_at_once = true;
    if (!orderly || r->load_error || r->ended_at_once)
        return;
    for (uint32_t i = 0; i < o->nodes; i++)
        if (o->node[i].process.code != 0)
            tell_bad_end(l, i);
}

static void begin(struct loop *l)
{
    const struct loop_options *o = l->o;
    const struct crew_options crew = {
        .socket = o->socket,
        .node = o->node,
        .config = o->config,
        .keeper = {.nodes = o->nodes,
                   .restarts = o->hooks.restart != NULL,
                   .program = o->program,
                   .hello_s = o->hello_s,
                   .ready_s = o->ready_s,
                   .clock_s = o->clock_s,
                   .hello_by = o->hello_by,
                   .ready_by = o->ready_by,
                   .clock_by = o->clock_by,
                   .silence_s = o->silence_s,
                   .backoff_s = o->backoff_s},
    };
    struct fault f = {.code = ERR_NOMEM, .text = "no memory for the nodes"};

    folders_init(&l->folders, o->model_dir,
                 o->nodes > 1 ? (o->program ? FOLDERS_PROGRAMS : FOLDERS_NODES)
                              : (o->program ? FOLDERS_PROGRAM : FOLDERS_NODE));
    if (crew_init(&l->crew, &crew, now_s(l)) != ERR_OK)
        give_up(l, &f);
}

static void keep(struct loop *l)
{
    const struct loop_hooks *h = &l->o->hooks;
    struct fault f = {0};
    enum err err = ERR_OK;

    if (h->keep && !l->over)
        err = h->keep(h->ctx, now_s(l), &f);
    if (err == ERR_LIMIT)
        take_full(l, &f);
    else if (err &&
             err != ERR_BUSY) /* it is looked at again; the commit waits */
        give_up(l, &f);
}

void loop_run(const struct loop_options *options, struct loop_result *out)
{
    struct loop l = {
        .o = options,
        .result = out,
        .start = clock_monotonic(),
        .tuner = options->tuner,
        .warned_s = -INFINITY,
        .left_s = INFINITY,
    };
    time_ns cpu = clock_thread_cpu();

    assert(options->nodes >= 1);
    memset(out, 0, sizeof(*out));
    begin(&l);
    while (!l.over) {
        wait_and_take(&l);
        keep(&l);
        options->hooks.tick(options->hooks.ctx, now_s(&l));
    }
    if (options->mailbox)
        mailbox_close(options->mailbox);
    end_nodes(&l);
    folders_drop_model(&l.folders);
    folders_drop_snapshot(&l.folders);
    crew_deinit(&l.crew);
    tuner_actions_deinit(&l.actions);
    out->wall_s = now_s(&l);
    out->cpu_s = (double)(clock_thread_cpu() - cpu) * 1e-9;
}
