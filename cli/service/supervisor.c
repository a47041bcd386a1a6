#include "cli/service/supervisor.h"

#include "cli/service/forward.h"

#include "base/log.h"
#include "base/log_file_io.h"
#include "base/text.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/signals.h"
#include "cli/service/runner.h"
#include "cli/state/serve.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The pace at which journal and runs are looked at: a chart is not drawn more
 * often, and a look costs microseconds. Where nothing lives, what others begin
 * in the same state folder can wait a little. */
enum { TICK_MS = 50, IDLE_TICK_MS = 500, POLLED_MAX = DESK_SLOTS + 2 };

/* So that a run which cannot even begin does not keep the machine busy. */
static const time_ns PAUSE_BETWEEN = 500000000;

/* The time for which a state folder that cannot be written is left in peace. */
static const time_ns WRITE_AGAIN = 2000000000;

enum { PAUSES_DOUBLED = 5 };

/* How often tuners and their logs are looked at. */
static const time_ns LOOK_EVERY = 1000000000;

static bool is_ending(const struct supervisor *s)
{
    return s->signal != 0 || s->idle;
}

/* ---- runs that begin ----------------------------------------------------- */

static enum err path_in_run(const struct supervisor *s,
                            const struct fleet_run *run, const char *file,
                            char out[FILE_PATH_MAX])
{
    char name[RUN_ID_MAX + 32];

    snprintf(name, sizeof(name), "runs/%s/%s", run->id, file);
    return file_join(out, s->fleet->state, name, NULL);
}

/* The address of a tuner that was killed: its port may be another program's
 * now, which must not get the token. Nobody answers at its socket either. */
static void forget_url(const struct supervisor *s, const struct fleet_run *run)
{
    static const char *const files[] = {"url", RUN_SOCKET};
    char path[FILE_PATH_MAX];

    if (run_folder_alive(s->fleet->state, run->id))
        return;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        if (path_in_run(s, run, files[i], path) == ERR_OK)
            file_remove(path);
}

/* Ours, or that of a service before this one, found by its lock; 0: none. */
static pid_t tuner_of(const struct supervisor *s, const struct fleet_run *run)
{
    if (run->child.pid)
        return run->child.pid;
    return run_folder_owner(s->fleet->state, run->id);
}

/* Where this process hangs, its guard ends it, and asks the tuners to end as
 * the supervisor would have: the tuner of a run that lives is remembered. */
static void remember_tuner(const struct supervisor *s, struct fleet_run *run)
{
    pid_t tuner = run->managed && run->alive ? tuner_of(s, run) : 0;

    tuner = tuner > 0 ? tuner : 0;
    if (tuner == run->remembered)
        return;
    signals_forget_child(run->remembered);
    run->remembered = 0;
    /* One that cannot be is tried again at the next look. */
    if (tuner && signals_remember_child(tuner))
        run->remembered = tuner;
}

static enum err start(struct supervisor *s, struct fleet_run *run,
                      struct fault *f)
{
    char log_path[FILE_PATH_MAX];
    struct runner_options o = {.state = s->fleet->state,
                               .run = run->id,
                               .log_path = log_path,
                               .other_data = run->job.other_data,
                               .token = s->o->token_given ? s->o->token : NULL};
    enum err err = path_in_run(s, run, "tuner.log", log_path);

    if (!err)
        err = runner_start(&o, &run->child, f);
    return err;
}

/* A tuner that a service before this one began may have its lock only now. */
static bool is_adopted(struct supervisor *s, struct fleet_run *run)
{
    if (!run_folder_alive(s->fleet->state, run->id))
        return false;
    run->alive = run->begins = true;
    run->ended = false;
    run->vigil = (struct vigil){0};
    fleet_show(s->fleet, run);
    return true;
}

static void hold(struct supervisor *s, struct fleet_run *run, const char *why)
{
    struct job job = run->job;
    struct fault f = {0};

    job.held = true;
    job.other_data = false;
    snprintf(job.reason, sizeof(job.reason), "%s", why);
    if (fleet_set_job(s->fleet, run, &job, &f) == ERR_OK)
        return;
    /* It is held as long as this service lives. */
    log_event(LOG_ERROR, "job_not_written", "run=%s reason=\"%s\"", run->id,
              f.text);
    run->job = job;
    fleet_show(s->fleet, run);
}

/* Whoever allowed other data did so for one start: those that it trains with
 * are the run's from then on. Nodes whose data differ from each other's need it
 * at every start. */
static void spend_other_data(struct supervisor *s, struct fleet_run *run)
{
    struct job job = run->job;
    struct fault f = {0};

    if (!job.other_data)
        return;
    job.other_data = false;
    if (fleet_set_job(s->fleet, run, &job, &f) == ERR_OK)
        return;
    log_event(LOG_ERROR, "job_not_written", "run=%s reason=\"%s\"", run->id,
              f.text);
    run->job = job;
}

/* No process came of it: memory, processes or descriptors ran out, or the log
 * cannot be opened. The pauses double: 2 s, 4 s, ..., 64 s. */
static void put_off(struct supervisor *s, struct fleet_run *run,
                    const char *why)
{
    unsigned doubled =
        run->refused < PAUSES_DOUBLED ? run->refused : PAUSES_DOUBLED;

    log_event(LOG_ERROR, "run_not_started",
              "run=%s attempt=%u of=%d reason=\"%s\"", run->id,
              run->refused + 1, SUPERVISOR_STARTS_MAX, why);
    snprintf(run->trouble, sizeof(run->trouble), "not started yet: %.400s",
             why);
    text_clean(run->trouble);
    run->not_before = clock_monotonic() + (WRITE_AGAIN << doubled);
    if (++run->refused < SUPERVISOR_STARTS_MAX) {
        fleet_show(s->fleet, run);
        return;
    }
    run->refused = 0;
    snprintf(run->trouble, sizeof(run->trouble),
             "%d starts failed: %.400s; continue tries again",
             SUPERVISOR_STARTS_MAX, why);
    text_clean(run->trouble);
    hold(s, run, run->trouble);
    run->trouble[0] = '\0';
}

static void begin(struct supervisor *s, struct fleet_run *run)
{
    struct fault f = {0};

    if (is_adopted(s, run))
        return;
    if (fleet_wake(s->fleet, run, &f) != ERR_OK) {
        put_off(s, run, f.text);
        return;
    }
    if (run->config && !intake_allows(&s->o->intake, run->config)) {
        hold(s, run,
             "this service runs no programs, or sends to no such host (mltune "
             "serve --allow-programs, --hook-host); continue tries again");
        return;
    }
    forget_url(s, run);
    if (start(s, run, &f) != ERR_OK) {
        put_off(s, run, f.text);
        return;
    }
    spend_other_data(s, run);
    run->refused = 0;
    run->trouble[0] = '\0';
    run->epochs = history_epochs(&run->history);
    run->records = history_records(&run->history);
    run->attempts++;
    run->vigil = (struct vigil){0};
    run->alive = run->begins = true;
    run->ended = false;
    run->entry.turn = ++s->fleet->turns;
    remember_tuner(s, run);
    fleet_show(s->fleet, run);
    log_event(LOG_INFO, "run_started", "run=%s pid=%d attempt=%u", run->id,
              (int)run->child.pid, run->attempts);
}

/* Index of the run that is to begin now; past the last: none. */
static size_t choose(struct supervisor *s)
{
    const struct queue_entry *entry[VIEW_RUNS_MAX];
    time_ns now = clock_monotonic();

    for (size_t i = 0; i < s->fleet->runs; i++) {
        struct fleet_run *run = s->fleet->run[i];

        if (fleet_waits(run))
            run->entry.state =
                now < run->not_before ? QUEUE_RESTS : QUEUE_WAITS;
        entry[i] = &run->entry;
    }
    return queue_next(&s->o->limits, entry, s->fleet->runs);
}

static void begin_next(struct supervisor *s)
{
    size_t next;

    while (!is_ending(s) && (next = choose(s)) < s->fleet->runs) {
        struct fleet_run *run = s->fleet->run[next];

        begin(s, run);
        if (!run->alive)
            break;
    }
}

/* ---- runs that end ------------------------------------------------------- */

/* What the tuner that has just ended journaled of why, which says more than the
 * last line that it wrote: what to do comes after that. "": nothing. */
static const char *last_message(const struct fleet_run *run)
{
    const struct history *h = &run->history;

    if (!history_finished(h) || history_records(h) <= run->records ||
        strcmp(history_end(h)->reason, RUN_REASON_RESUMED) == 0)
        return "";
    return history_end(h)->message;
}

/* An interrupted run goes on, unless that has led nowhere. */
static void consider(struct supervisor *s, struct fleet_run *run,
                     const struct subprocess *was)
{
    char verdict[64], words[370], log_path[FILE_PATH_MAX];
    char why[JOB_REASON_MAX];
    bool hopeless = was->code == EXIT_CONFIG;

    if (is_ending(s) || !fleet_waits(run))
        return;
    if (history_epochs(&run->history) > run->epochs)
        run->attempts = 1;
    subprocess_verdict(was, verdict, sizeof(verdict));
    run->not_before = clock_monotonic() + PAUSE_BETWEEN * run->attempts;
    if (!hopeless && run->attempts < SUPERVISOR_ATTEMPTS_MAX)
        return;
    snprintf(words, sizeof(words), "%.*s", (int)sizeof(words) - 1,
             last_message(run));
    if (!words[0] && path_in_run(s, run, "tuner.log", log_path) == ERR_OK)
        subprocess_last_line(log_path, words, sizeof(words));
    snprintf(why, sizeof(why), "its tuner %s%s%s%s; continue tries again",
             verdict, hopeless ? "" : " for the third time without an epoch",
             words[0] ? ": " : "", words);
    text_clean(why); /* a character may have been cut */
    run->attempts = 0;
    hold(s, run, why);
}

static void take_end(struct supervisor *s, struct fleet_run *run)
{
    const struct subprocess was = run->child;
    char verdict[64];
    struct fault f = {0};

    subprocess_verdict(&was, verdict, sizeof(verdict));
    log_event(LOG_INFO, "run_ended", "run=%s pid=%d verdict=\"%s\"", run->id,
              (int)run->child.pid, verdict);
    run->child = (struct subprocess){.end_fd = -1};
    run->alive = false;
    remember_tuner(s, run);
    forget_url(s, run);
    if (fleet_read_end(s->fleet, run, &f) != ERR_OK)
        log_event(LOG_ERROR, "end_not_read", "run=%s reason=\"%s\"", run->id,
                  f.text);
    consider(s, run, &was);
    retention_due(&s->retention);
}

static void reap(struct supervisor *s)
{
    for (size_t i = 0; i < s->fleet->runs; i++) {
        struct fleet_run *run = s->fleet->run[i];

        if (run->child.pid && subprocess_poll(&run->child))
            take_end(s, run);
    }
}

/* One that was stopped can write its snapshot. */
static void ask_to_end(struct supervisor *s, struct fleet_run *run, pid_t tuner)
{
    snprintf(run->trouble, sizeof(run->trouble),
             "its tuner gave no sign of life for %g s, and was ended",
             (double)s->o->silence * 1e-9);
    log_event(LOG_ERROR, "tuner_silent", "run=%s pid=%d reason=\"%s\"", run->id,
              (int)tuner, run->trouble);
    kill(tuner, SIGTERM);
    kill(tuner, SIGCONT);
}

/* A tuner that hangs holds its slot, and trains nothing: it is ended, and what
 * was interrupted so goes on as after any other death of a tuner. */
static void watch_over(struct supervisor *s, struct fleet_run *run)
{
    int64_t beat = run_folder_beaten(s->fleet->state, run->id);
    enum vigil_verdict verdict;
    pid_t tuner;

    if (run->child.pid)
        run->vigil.beats = true; /* this very program does */
    verdict = vigil_look(&run->vigil, beat, clock_monotonic(), s->o->silence);
    tuner = verdict == VIGIL_BEATS ? 0 : tuner_of(s, run);
    if (tuner <= 0)
        return;
    if (verdict == VIGIL_STOPPED)
        ask_to_end(s, run, tuner);
    else
        kill(tuner, SIGKILL);
}

/* What tuners say is bounded as what programs say is. A file system without
 * holes keeps all of it; the runs' own logs, which grow faster, tell so. */
static void cut_log(struct supervisor *s, struct fleet_run *run)
{
    char path[FILE_PATH_MAX];

    if (path_in_run(s, run, "tuner.log", path) == ERR_OK)
        (void)log_file_cut(path, &run->log_cut, NULL);
}

static void look_at_tuners(struct supervisor *s)
{
    if (clock_monotonic() < s->look_due)
        return;
    s->look_due = clock_monotonic() + LOOK_EVERY;
    for (size_t i = 0; i < s->fleet->runs; i++) {
        struct fleet_run *run = s->fleet->run[i];

        if (run->child.pid)
            cut_log(s, run);
        remember_tuner(s, run);
        if (run->managed && run->alive)
            watch_over(s, run);
        else
            run->vigil = (struct vigil){0};
    }
}

/* ---- the end ------------------------------------------------------------- */

static void pass_signal(struct supervisor *s, int number)
{
    for (size_t i = 0; i < s->fleet->runs; i++) {
        const struct fleet_run *run = s->fleet->run[i];
        pid_t pid = run->managed && run->alive ? tuner_of(s, run) : 0;

        if (pid > 0)
            kill(pid, number);
    }
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (signals_warn((int)info.ssi_signo)) {
            pass_signal(s, (int)info.ssi_signo);
            continue;
        }
        if (s->signals++ == 0) {
            s->signal = (int)info.ssi_signo;
            view_set_ready(s->fleet->view, "the service is about to end");
        }
        pass_signal(s, SIGTERM);
    }
}

static bool any_alive(const struct supervisor *s, bool managed)
{
    for (size_t i = 0; i < s->fleet->runs; i++)
        if (s->fleet->run[i]->alive && (s->fleet->run[i]->managed || !managed))
            return true;
    return false;
}

/* A run that waits for whoever may ask for it is nothing to do. */
static bool is_to_run(const struct fleet_run *run)
{
    return fleet_waits(run) && run->not_before != FLEET_ASKED;
}

/* ---- nobody asks --------------------------------------------------------- */

static void leave_queue(struct supervisor *s)
{
    for (size_t i = 0; i < s->fleet->runs; i++) {
        struct fleet_run *run = s->fleet->run[i];

        if (!fleet_waits(run) || run->alive || run->unread)
            continue;
        run->not_before = FLEET_ASKED;
        snprintf(run->trouble, sizeof(run->trouble),
                 "this service begins only what it is asked to: continue "
                 "begins it, and so does mltune serve");
        fleet_show(s->fleet, run);
    }
}

static void look_whether_idle(struct supervisor *s)
{
    bool busy = !s->o->idle || any_alive(s, true) || is_ending(s);

    for (size_t i = 0; i < s->fleet->runs && !busy; i++)
        busy = is_to_run(s->fleet->run[i]);
    if (busy || clock_monotonic() - s->o->used(s->o->ctx) < s->o->idle)
        return;
    s->idle = true;
    log_event(LOG_INFO, "service_idle", "seconds=%g",
              (double)s->o->idle * 1e-9);
    view_set_ready(s->fleet->view, "the service is about to end");
}

/* ---- the state folder ---------------------------------------------------- */

void supervisor_written(struct supervisor *s, enum err err)
{
    s->unwritable = err == ERR_IO;
    s->try_again = clock_monotonic() + WRITE_AGAIN;
    if (!is_ending(s))
        view_set_ready(s->fleet->view,
                       s->unwritable ? "the state folder cannot be written: "
                                       "the disk is full, or it is read-only"
                                     : NULL);
}

/* Is it still so? */
static void try_to_write(struct supervisor *s)
{
    char path[FILE_PATH_MAX];
    enum err err;

    if (!s->unwritable || clock_monotonic() < s->try_again)
        return;
    err = file_join(path, s->fleet->state, "writable", NULL);
    if (!err)
        err = file_write(path, "\n", 1, NULL);
    if (!err)
        file_remove(path);
    supervisor_written(s, err);
}

static void read_journal(struct supervisor *s)
{
    struct fault f = {0};

    if (fleet_read(s->fleet, &f) != ERR_OK)
        log_event(LOG_ERROR, "journal_not_read", "reason=\"%s\"", f.text);
}

/* ---- the loop ------------------------------------------------------------ */

static void wait_for_something(struct supervisor *s)
{
    struct pollfd fds[POLLED_MAX] = {
        {.fd = s->signal_fd, .events = POLLIN},
        {.fd = desk_fd(s->desk), .events = POLLIN}};
    nfds_t n = 2;
    bool busy = any_alive(s, false) || s->unwritable;
    bool removing = retention_busy(&s->retention);

    for (size_t i = 0; i < DESK_SLOTS; i++) {
        const struct forward *p = &s->forward[i];

        if (p->ticket)
            fds[n++] = (struct pollfd){.fd = p->exchange.fd,
                                       .events = client_events(&p->exchange)};
    }
    for (size_t i = 0; i < s->fleet->runs && !busy; i++)
        busy = is_to_run(s->fleet->run[i]);
    poll(fds, n, removing ? 0 : busy || n > 2 ? TICK_MS : IDLE_TICK_MS);
}

int supervisor_run(struct supervisor *s)
{
    if (s->o->leaves_queue)
        leave_queue(s);
    while (!is_ending(s) || any_alive(s, true)) {
        begin_next(s);
        wait_for_something(s);
        take_signals(s);
        reap(s);
        look_at_tuners(s);
        read_journal(s);
        supervisor_serve_desk(s);
        forward_collect(s);
        try_to_write(s);
        if (!is_ending(s) && !s->unwritable)
            retention_turn(&s->retention, &s->o->keep, s->fleet);
        if (s->o->turned)
            s->o->turned(s->o->ctx);
        look_whether_idle(s);
    }
    /* Who was in the box gets an answer; who comes now need not. */
    for (size_t i = 0; i < DESK_SLOTS; i++)
        supervisor_serve_desk(s);
    forward_forget(s);
    retention_deinit(&s->retention);
    return s->signal;
}
