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
        err = ranks_hold(path, r.place, &r.lock_fd, f);
    if (!err && r.is.rank == 0 && setenv("MLTUNE_RANKS", r.place, 1) != 0)
        err = fault_set(f, ERR_NOMEM, "out of memory");
    if (!err)
        *out = r;
    else if (r.lock_fd >= 0)
        close(r.lock_fd);
    return err;
}

/* ---- a rank that starts nodes -------------------------------------------- */

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

/* GO_ON with @work (owned by the caller), or the exit code. */
static int await_work(const struct own_rank *r, uint64_t number, int signal_fd,
                      struct ranks_work *work)
{
    time_ns held = clock_monotonic();

    for (;;) {
        int number_of_signal = pause_for(signal_fd);

        if (number_of_signal)
            return EXIT_SIGNAL + number_of_signal;
        if (ranks_answered(r->place, r->is.rank, number, work))
            return GO_ON;
        if (ranks_is_over(r->place, r->is.rank, number))
            return EXIT_DONE;
        if (ranks_held(r->place))
            held = clock_monotonic();
        else if (clock_monotonic() - held > DEADLINE_RANK_MS * 1000000LL) {
            console_error("rank %u: rank 0, which is the tuner, is not there "
                          "(%s)",
                          r->is.rank, r->place);
            return EXIT_INTERRUPTED;
        }
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
        if (ranks_stopped(r->place, r->is.rank, work->number))
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
    enum err err = ranks_end(r->place, r->is.rank, work->number, code, &f);

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
        ranks_ask(r->place, r->is.rank, number, &f) != ERR_OK) {
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

int rank_serve(const struct own_rank *r)
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
    ranks_leave(r->place, r->is.rank);
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

void rank_part(struct own_rank *r)
{
    time_ns end = clock_monotonic() + DEADLINE_NODE_STOP_MS * 1000000LL;

    assert(r->is.rank == 0);
    while (!tell_all(r) && clock_monotonic() < end)
        poll(NULL, 0, RANKS_LOOK_MS);
    folder_remove(r->place, NULL);
    close(r->lock_fd);
    unsetenv("MLTUNE_RANKS");
}
