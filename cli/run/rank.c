#include "cli/run/rank.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/subprocess_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/signals.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { GO_ON = -1 };

enum err rank_meet(const char *state, struct own_rank *out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct own_rank r = {.lock_fd = -1};
    enum err err;

    if (!ranks_find(&r.is))
        return fault_set(f, ERR_INVAL,
                         "cluster.launcher mpi works under mpirun, and the "
                         "environment names no rank of a job: mpirun -np 4 "
                         "mltune run ... (where the job alone has no name, "
                         "MLTUNE_JOB names it)");
    err = state_make(state, path, f);
    if (!err)
        err = ranks_place(path, &r.is, r.place, f);
    if (!err && r.is.rank == 0)
        err = ranks_hold(r.place, &r.lock_fd, f);
    if (!err && r.is.rank == 0 && setenv("MLTUNE_RANKS", r.place, 1) != 0)
        err = fault_set(f, ERR_NOMEM, "out of memory");
    if (!err)
        *out = r;
    else if (r.lock_fd >= 0)
        close(r.lock_fd);
    return err;
}

/* The last part of "tcp://HOST:PORT". */
static enum err open_desk(struct own_rank *r, const char *root, const char *key,
                          struct fault *f)
{
    const char *port = strrchr(root, ':');
    char address[16];

    if (!port || strncmp(root, "tcp://", 6) != 0 || strlen(port) > 6)
        return fault_set(f, ERR_INVAL,
                         "MLTUNE_ROOT: expected tcp://HOST:PORT of the job's "
                         "index 0, found \"%.200s\"",
                         root);
    snprintf(address, sizeof(address), "*%s", port);
    return rank_desk_open(address, key, r->is.size, r->place, &r->desk, f);
}

/* Waits a moment; the number of a signal that came, or 0. */
static int pause_for(int signal_fd)
{
    struct pollfd p = {.fd = signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;

    if (poll(&p, 1, RANKS_LOOK_MS) > 0 &&
        read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        return (int)info.ssi_signo;
    return 0;
}

static enum err await_hold(struct own_rank *r, int signal_fd, struct fault *f)
{
    time_ns end = clock_monotonic() + r->is.wait_ms * 1000000LL;
    enum err err = ERR_BUSY;

    console_note("index 0: another one holds %s still; waiting for it to end",
                 r->place);
    while (err == ERR_BUSY) {
        if (pause_for(signal_fd))
            return fault_set(f, ERR_BUSY,
                             "index 0: ended by a signal, while another one "
                             "held %s",
                             r->place);
        if (clock_monotonic() > end)
            return fault_set(f, ERR_BUSY,
                             "index 0: another one has held %s for %d s: where "
                             "its machine was lost, the volume's server frees "
                             "its lock after a while",
                             r->place, r->is.wait_ms / 1000);
        err = ranks_hold(r->place, &r->lock_fd, f);
    }
    return err;
}

/* The lock of an index 0 that was lost may outlive it: the volume's server does
 * not know that its machine is gone. */
static enum err hold_place(struct own_rank *r, struct fault *f)
{
    enum err err = ranks_hold(r->place, &r->lock_fd, f);
    int signal_fd;

    if (err != ERR_BUSY)
        return err;
    err = signals_open(&signal_fd, f);
    if (err)
        return err;
    err = await_hold(r, signal_fd, f);
    signals_close(signal_fd);
    return err;
}

static enum err take_desk(const char *state, const char *root, const char *key,
                          struct own_rank *r, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = state_make(state, path, f);

    if (!err)
        err = ranks_place(path, &r->is, r->place, f);
    if (!err)
        err = hold_place(r, f);
    if (!err && setenv("MLTUNE_RANKS", r->place, 1) != 0)
        err = fault_set(f, ERR_NOMEM, "out of memory");
    if (!err)
        err = open_desk(r, root, key, f);
    if (err && r->lock_fd >= 0)
        close(r->lock_fd);
    return err;
}

enum err rank_meet_pods(const char *state, struct own_rank *out,
                        struct fault *f)
{
    const char *root = getenv("MLTUNE_ROOT"), *given = getenv("MLTUNE_KEY");
    struct own_rank r = {.lock_fd = -1};
    char key[RUN_KEY_LEN + 1] = "";
    enum err err;

    if (!ranks_find_pod(&r.is) || !root || !given)
        return fault_set(
            f, ERR_INVAL,
            "cluster.launcher kubernetes works in pods of a job that `mltune "
            "deploy kubernetes` has printed, and the environment names none "
            "(JOB_COMPLETION_INDEX, MLTUNE_PODS, MLTUNE_JOB, MLTUNE_ROOT, "
            "MLTUNE_KEY)");
    if (strlen(given) == RUN_KEY_LEN)
        memcpy(key, given, sizeof(key));
    unsetenv("MLTUNE_KEY");
    if (r.is.rank == 0) {
        err = take_desk(state, root, key, &r, f);
    } else {
        snprintf(r.place, sizeof(r.place), "%s", root);
        err = rank_call_open(root, key, r.is.rank, &r.call, f);
    }
    if (!err)
        *out = r;
    return err;
}

/* ---- by folder or by wire ------------------------------------------------ */

/* Says that rank @r is free, once more or for the first time. */
static enum err say_free(const struct own_rank *r, uint64_t number,
                         struct fault *f)
{
    char host[RANKS_HOST_MAX];

    if (r->call)
        return ERR_OK;
    ranks_own_host(r->is.rank, host);
    return ranks_ask(r->place, r->is.rank, number, host, f);
}

/* What there is to start: NOTHING, WORK (owned by the caller) or OVER.
 * *@alone_ms: how long nobody has answered, where that is known. */
static enum rank_told look_for_work(const struct own_rank *r, uint64_t number,
                                    struct ranks_work *work, int64_t *alone_ms)
{
    enum rank_told told;

    if (r->call) {
        told = rank_call_ask(r->call, number, work);
        *alone_ms = rank_call_silent_ms(r->call);
        return told;
    }
    if (ranks_answered(r->place, r->is.rank, number, work))
        return RANK_TOLD_WORK;
    if (ranks_is_over(r->place, r->is.rank, number))
        return RANK_TOLD_OVER;
    if (ranks_held(r->place))
        *alone_ms = 0;
    return RANK_TOLD_NOTHING;
}

static bool is_stopped(const struct own_rank *r, uint64_t number)
{
    if (r->call)
        return rank_call_run(r->call, number) == RANK_TOLD_STOP;
    return ranks_stopped(r->place, r->is.rank, number);
}

/* Who is not heard by rank 0 any more need not tell: that one knows no node of
 * its own by then. */
static enum err say_end(const struct own_rank *r, uint64_t number, int code,
                        struct fault *f)
{
    time_ns end = clock_monotonic() + DEADLINE_NODE_STOP_MS * 1000000LL;

    if (!r->call)
        return ranks_end(r->place, r->is.rank, number, code, f);
    while (rank_call_end(r->call, number, code) != RANK_TOLD_ENDED &&
           clock_monotonic() < end)
        continue;
    return ERR_OK;
}

static void say_leave(struct own_rank *r)
{
    if (r->call)
        rank_call_leave(r->call);
    else
        ranks_leave(r->place, r->is.rank);
    rank_call_close(r->call);
    r->call = NULL;
}

/* ---- a rank that starts nodes -------------------------------------------- */

static int say_alone(const struct own_rank *r)
{
    if (r->call)
        console_error("index %u: index 0, which is the tuner, has not answered "
                      "at %s for %d s: %s",
                      r->is.rank, r->place, r->is.wait_ms / 1000,
                      rank_call_why(r->call));
    else
        console_error("rank %u: rank 0, which is the tuner, is not there (%s)",
                      r->is.rank, r->place);
    return EXIT_INTERRUPTED;
}

/* GO_ON with @work (owned by the caller), or the exit code. */
static int await_work(const struct own_rank *r, uint64_t number, int signal_fd,
                      struct ranks_work *work)
{
    time_ns held = clock_monotonic();

    for (;;) {
        int number_of_signal = pause_for(signal_fd);
        int64_t alone = (clock_monotonic() - held) / 1000000;

        if (number_of_signal)
            return EXIT_SIGNAL + number_of_signal;
        switch (look_for_work(r, number, work, &alone)) {
        case RANK_TOLD_WORK:
            return GO_ON;
        case RANK_TOLD_OVER:
            return EXIT_DONE;
        default:
            break;
        }
        if (alone > r->is.wait_ms)
            return say_alone(r);
        held = clock_monotonic() - alone * 1000000;
    }
}

/* The node's standard input begins with the key; *@tether is our end. */
static enum err start_node(const struct ranks_work *work, int log_fd,
                           struct subprocess *p, int *tether, struct fault *f)
{
    char *argv[RANKS_WORDS_MAX + 2] = {"mltune"}, key[RUN_KEY_LEN + 2];
    int end[2], n = snprintf(key, sizeof(key), "%s\n", work->key);
    struct subprocess_options o = {.argv = argv,
                                   .file = {SUBPROCESS_NULL, log_fd, log_fd},
                                   .signals = SUBPROCESS_SIGNALS_ERRORS,
                                   .deaf = true,
                                   .death_signal = SIGKILL};
    enum err err;

    memcpy(argv + 1, work->word, work->n * sizeof(*argv));
    if (pipe2(end, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "start a node");
    o.file[0] = end[0];
    err = write(end[1], key, (size_t)n) == n /* an empty pipe takes it */
              ? subprocess_start(p, &o, f)
              : fault_errno(f, ERR_IO, errno, "start a node");
    close(end[0]);
    if (err)
        close(end[1]);
    else
        *tether = end[1];
    return err;
}

/* The signal that ended it, or 0. */
static int run_node(const struct own_rank *r, const struct ranks_work *work,
                    int signal_fd, struct subprocess *p, int tether)
{
    int number = 0;

    while (!number && !subprocess_wait(p, RANKS_LOOK_MS, signal_fd)) {
        number = pause_for(signal_fd);
        if (is_stopped(r, work->number))
            break;
    }
    close(tether);
    subprocess_stop(p, DEADLINE_NODE_GRACE_MS, -1);
    return number;
}

/* The exit code of its node, minus its signal; *@number: the signal that ended
 * us, or 0. */
static int start_and_wait(const struct own_rank *r,
                          const struct ranks_work *work, int signal_fd,
                          int *number)
{
    struct subprocess p = {.end_fd = -1};
    struct fault f = {0};
    int log_fd = -1, tether = -1, code = EXIT_IO;
    enum err err = file_open_log(work->log, &log_fd, &f);

    *number = 0;
    if (!err)
        err = start_node(work, log_fd, &p, &tether, &f);
    if (!err) {
        *number = run_node(r, work, signal_fd, &p, tether);
        code = p.code;
    } else {
        console_error("rank %u: %s", r->is.rank, f.text);
    }
    if (log_fd >= 0)
        close(log_fd);
    return code;
}

/* GO_ON, or the exit code. */
static int do_work(const struct own_rank *r, const struct ranks_work *work,
                   int signal_fd)
{
    struct fault f = {0};
    int number, code = start_and_wait(r, work, signal_fd, &number);
    enum err err = say_end(r, work->number, code, &f);

    if (number)
        return EXIT_SIGNAL + number;
    if (!err)
        return GO_ON;
    console_error("rank %u: %s", r->is.rank, f.text);
    return EXIT_IO;
}

static int serve_once(const struct own_rank *r, int signal_fd)
{
    struct ranks_work work = {.n = 0};
    struct fault f = {0};
    uint64_t number;
    int code;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number) ||
        say_free(r, number, &f) != ERR_OK) {
        console_error("rank %u: %s", r->is.rank, f.text);
        return EXIT_IO;
    }
    code = await_work(r, number, signal_fd, &work);
    if (code != GO_ON)
        return code;
    code = do_work(r, &work, signal_fd);
    ranks_work_deinit(&work);
    return code;
}

int rank_serve(struct own_rank *r)
{
    struct fault f = {0};
    int signal_fd, code = GO_ON;

    assert(r->is.rank > 0);
    /* A scheduler's warning is the tuner's to take. */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGXCPU, SIG_IGN);
    if (signals_open(&signal_fd, &f) != ERR_OK) {
        console_error("%s", f.text);
        return EXIT_IO;
    }
    while (code == GO_ON)
        code = serve_once(r, signal_fd);
    say_leave(r);
    signals_close(signal_fd);
    return code;
}

/* ---- rank 0 -------------------------------------------------------------- */

/* Whether all others have ended. */
static bool tell_all(const struct own_rank *r)
{
    char host[RANKS_HOST_MAX];
    bool all = true;
    uint64_t number;

    for (unsigned i = 1; i < r->is.size; i++) {
        if (ranks_left(r->place, i))
            continue;
        all = false;
        if (ranks_asked(r->place, i, &number, host) &&
            !ranks_is_over(r->place, i, number))
            ranks_over(r->place, i, number, NULL);
    }
    return all;
}

/* As podFailurePolicy of the job has it (cli/verbs/kube_job.c). */
static bool is_final(int code)
{
    return code == EXIT_DONE || code == EXIT_RUN_FAILED || code == EXIT_CONFIG;
}

void rank_part(struct own_rank *r, int code)
{
    time_ns end = clock_monotonic() + DEADLINE_NODE_STOP_MS * 1000000LL;

    assert(r->is.rank == 0);
    if (!r->is.pods || is_final(code))
        while (!tell_all(r) && clock_monotonic() < end)
            poll(NULL, 0, RANKS_LOOK_MS);
    rank_desk_close(r->desk);
    folder_remove(r->place, NULL);
    close(r->lock_fd);
    unsetenv("MLTUNE_RANKS");
}
