/* `mltune open [RUN]`: the address of the page of a state folder.
 *
 * A run's own address ends with the run. The page of the folder stays: it is
 * that of the service which has the folder, else of one that is started here,
 * in the background, and ends by itself once nobody looks any more.
 */
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/subprocess_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/state/serve.h"
#include "cli/state/source.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define IDLE_DEFAULT "30m"

enum { LOOK_MS = 50, ANSWER_S = 2 };

struct opening {
    const char *given;         /* --state */
    const char *idle, *listen; /* of the service that is started */
    char state[FILE_PATH_MAX]; /* absolute */
    char run[RUN_ID_MAX + 1];  /* whose view is opened; "": all runs */
    char url[CLIENT_URL_MAX], socket[FILE_PATH_MAX]; /* of who has the folder */
    char log[FILE_PATH_MAX];
    struct subprocess child; /* not started: the service was there */
    int lock_fd;             /* of SERVE_OPENING */
    int signal_fd;
    int code; /* exit code, where it is not that of the error */
};

static const char details[] = RUN_OPERAND
    " Without it the page lists\n"
    "all runs, also those that have ended. Where no service has the state "
    "folder, one is\n"
    "started in the background; it begins no run that waits there, and mltune "
    "serve takes\nits place. The address lets one browser in; the next one has "
    "another.";

/* ---- the service --------------------------------------------------------- */

static bool answers(struct opening *o)
{
    struct client_answer answer = {0};
    struct client_request q = {.url = o->url,
                               .socket = o->socket,
                               .method = "GET",
                               .target = "/readyz",
                               .patience_s = ANSWER_S};
    bool ready = source_service(o->state, o->url, o->socket) &&
                 client_ask(&q, &answer, NULL) == ERR_OK &&
                 answer.status == 200;

    json_decref(answer.json);
    return ready;
}

static bool somebody_has_it(const struct opening *o, pid_t *pid)
{
    char lock[FILE_PATH_MAX];

    *pid = 0;
    return file_join(lock, o->state, SERVE_LOCK, NULL) == ERR_OK &&
           file_locked(lock, pid);
}

static enum err start_service(struct opening *o, struct fault *f)
{
    char *argv[] = {"mltune", "serve",         "--state",
                    o->state, "--listen",      (char *)o->listen,
                    "--idle", (char *)o->idle, "--leave-queued",
                    "--read", "user",          NULL};
    struct subprocess_options options = {.argv = argv,
                                         .file = {SUBPROCESS_NULL, -1, -1}};
    int log_fd;
    enum err err;

    file_remove(o->log);
    err = file_open_log(o->log, &log_fd, f);
    if (err)
        return err;
    options.file[1] = options.file[2] = log_fd;
    err = subprocess_start(&o->child, &options, f);
    if (err)
        fault_wrap(f, "start a service");
    close(log_fd);
    return err;
}

/* Of several that find no service one starts it, and its log stays; the others
 * wait for that one, or come after it. */
static enum err start(struct opening *o, struct fault *f)
{
    char path[FILE_PATH_MAX];
    pid_t other;
    enum err err = file_join(o->log, o->state, SERVE_LOG, f);

    if (!err)
        err = file_join(path, o->state, SERVE_OPENING, f);
    if (!err && o->lock_fd < 0)
        err = file_lock(path, &o->lock_fd, f);
    if (err == ERR_BUSY)
        return ERR_OK;
    /* Or it was there before the lock was free. */
    return err || somebody_has_it(o, &other) ? err : start_service(o, f);
}

/* The service that was started has ended: another had the folder first, and is
 * waited for, or it could not serve. */
static enum err take_end(struct opening *o, struct fault *f)
{
    char words[320], verdict[64];
    static const char said[] = "mltune: error: ";
    const char *why = words;
    pid_t other;

    if (somebody_has_it(o, &other)) {
        subprocess_forget(&o->child);
        return ERR_OK;
    }
    subprocess_verdict(&o->child, verdict, sizeof(verdict));
    subprocess_last_line(o->log, words, sizeof(words));
    if (strncmp(words, said, sizeof(said) - 1) == 0)
        why += sizeof(said) - 1;
    o->code = o->child.code > 0 ? o->child.code : EXIT_IO;
    return fault_set(f, ERR_IO, "the service %s: %s (all that it said: %s)",
                     verdict, *why ? why : "it said nothing", o->log);
}

static enum err silent(struct opening *o, struct fault *f)
{
    pid_t pid;

    if (o->child.pid || !somebody_has_it(o, &pid))
        return fault_set(f, ERR_NODE,
                         "the service does not answer in %d s: it was ended; "
                         "what it said is in %s",
                         DEADLINE_OPEN_MS / 1000, o->log);
    return fault_set(f, ERR_NODE,
                     "a service (process %ld) has the state folder %s and does "
                     "not answer: end it with kill %ld, or wait until it has "
                     "read its runs",
                     (long)pid, o->state, (long)pid);
}

/* A signal while it waits; 0: none. */
static int signal_of(const struct opening *o)
{
    struct pollfd fd = {.fd = o->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;

    if (poll(&fd, 1, LOOK_MS) <= 0 ||
        read(o->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

/* Until a service answers: the one that is there, or one that is started. */
static enum err reach(struct opening *o, struct fault *f)
{
    time_ns until = clock_monotonic() + DEADLINE_OPEN_MS * (time_ns)1000000;
    pid_t other;
    enum err err = ERR_OK;

    while (!err && !answers(o)) {
        int number = signal_of(o);

        if (number) {
            o->code = EXIT_SIGNAL + number;
            err = fault_set(f, ERR_IO, "interrupted");
        } else if (!o->child.pid && !somebody_has_it(o, &other)) {
            err = start(o, f); /* or again, where one was about to end */
        } else if (o->child.pid && subprocess_poll(&o->child)) {
            err = take_end(o, f);
        } else if (clock_monotonic() >= until) {
            err = silent(o, f);
        }
    }
    if (err)
        subprocess_stop(&o->child, DEADLINE_KILLED_MS, -1);
    if (o->lock_fd >= 0)
        close(o->lock_fd);
    o->lock_fd = -1;
    return err;
}

/* ---- what is printed ----------------------------------------------------- */

/* The address with which one browser comes in, where one needs it; what stands
 * behind '#' leads to the run, since browsers keep it where they are sent on.
 */
static enum err print(const struct opening *o, struct fault *f)
{
    char path[FILE_PATH_MAX], *way = NULL;
    size_t len = 0;

    enum err err = file_join(path, o->state, SERVE_PAGE, f);

    if (!err)
        err = file_read(path, 127, &way, &len, f);
    if (err && err != ERR_NOENT) /* without it nobody comes in */
        return err;
    printf("%s%s%s%s\n", o->url, way ? way : "", o->run[0] ? "#/run/" : "",
           o->run);
    mem_free(way);
    return fflush(stdout) == 0 ? ERR_OK
                               : fault_set(f, ERR_IO, "cannot write to stdout");
}

static enum err find_run(struct opening *o, const char *word, struct fault *f)
{
    enum err err = state_find(o->given, o->state, f);

    if (err || !word)
        return err;
    return replay_find_id(o->state, word, o->run, f);
}

static int open_page(struct opening *o, const char *word)
{
    struct fault f = {0};
    enum err err = find_run(o, word, &f);

    if (!err)
        err = signals_open(&o->signal_fd, &f);
    if (!err)
        err = reach(o, &f);
    if (!err) {
        err = print(o, &f);
        if (err) { /* for nobody: what was started ends */
            subprocess_signal(&o->child, SIGTERM);
            subprocess_stop(&o->child, DEADLINE_STOP_SERVICE_MS, -1);
        }
    }
    if (!err && o->child.pid)
        console_note("a service was started (process %ld); it ends by itself "
                     "when nothing runs and nobody has looked for %s (--idle)",
                     (long)o->child.pid, o->idle);
    if (err)
        console_error("%s", f.text);
    subprocess_forget(&o->child);
    signals_close(o->signal_fd);
    return o->code ? o->code : source_exit_code(err);
}

int verb_open(int argc, char **argv)
{
    struct opening o = {.given = STATE_DEFAULT,
                        .idle = IDLE_DEFAULT,
                        .listen = "127.0.0.1:0",
                        .child = {.end_fd = -1},
                        .lock_fd = -1,
                        .signal_fd = -1};
    double seconds;
    const struct option_spec options[] = {
        STATE_OPTION(o.given),
        {"idle", 0, OPTION_TEXT, "TIME",
         "a service that is started ends when nobody has looked for so long "
         "(" IDLE_DEFAULT ")",
         &o.idle},
        {"listen", 0, OPTION_TEXT, "ADDR",
         "its address (127.0.0.1, any free port)", &o.listen},
        CLIENT_CACERT_OPTION,
    };
    const struct usage usage = {
        .verb = "open",
        .operands = "[RUN]",
        .details = details,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (!options_time(o.idle, SERVE_IDLE_MAX, &seconds)) {
        console_error("--idle: " SERVE_IDLE_EXPECTED ", found \"%s\"", o.idle);
        return EXIT_USAGE;
    }
    return open_page(&o, operands.len ? operands_at(&operands, 0) : NULL);
}
