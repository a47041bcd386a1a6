#include "cli/compare/subrun.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "cli/basics/signals.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum err subrun_start(struct subrun *c, char *const argv[], struct fault *f)
{
    struct subprocess_options o = {.argv = argv,
                                   .file = {SUBPROCESS_NULL, -1, STDERR_FILENO},
                                   .deaf = true, /* until it hears them */
                                   .death_signal = SIGTERM};
    int fd[2];
    enum err err;

    if (pipe2(fd, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "start a run");
    o.file[1] = fd[1];
    err = subprocess_start(&c->process, &o, f);
    close(fd[1]);
    if (err) {
        close(fd[0]);
        fault_wrap(f, "start a run");
        return err;
    }
    c->out_fd = fd[0];
    return ERR_OK;
}

/* ---- waiting ------------------------------------------------------------- */

/* *@until: when the child is to have ended, which a signal says. */
static void pass_on(const struct subrun *c, int signal_fd, int *first,
                    time_ns *until)
{
    struct signalfd_siginfo info;

    while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;
        int64_t ms = *until ? DEADLINE_STOP_AGAIN_MS : DEADLINE_STOP_RUN_MS;
        time_ns then = clock_monotonic() + ms * 1000000;

        subprocess_signal(&c->process, number);
        if (signals_warn(number))
            continue;
        if (!*until || then < *until)
            *until = then;
        if (*first == 0)
            *first = number;
    }
}

/* False at the end of the output. */
static bool take_output(const struct subrun *c, struct text *out)
{
    char buffer[4096];
    ssize_t n = read(c->out_fd, buffer, sizeof(buffer));

    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n > 0 && out->len + (size_t)n <= SUBRUN_OUTPUT_MAX)
        text_add(out, buffer, (size_t)n);
    return n > 0;
}

/* Rounded up; -1: any time. */
static int left_ms(time_ns until)
{
    time_ns left = until - clock_monotonic();

    return !until ? -1 : left <= 0 ? 0 : (int)((left + 999999) / 1000000);
}

int subrun_wait(struct subrun *c, int signal_fd, struct text *out, int *signal)
{
    struct pollfd fds[2] = {{.fd = c->out_fd, .events = POLLIN},
                            {.fd = signal_fd, .events = POLLIN}};
    time_ns until = 0; /* it is to have ended; 0: no signal has come */
    bool open = true;
    int ms;

    assert(out);
    assert(signal);
    /* One that has closed its output may go on, and hears signals still. */
    while (!c->process.ended && (ms = left_ms(until)) != 0) {
        int n;

        fds[0].fd = open ? c->out_fd : c->process.end_fd;
        n = poll(fds, 2, ms);
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0 && fds[1].revents)
            pass_on(c, signal_fd, signal, &until);
        if (n <= 0 || !fds[0].revents)
            continue;
        if (open)
            open = take_output(c, out);
        else
            subprocess_poll(&c->process);
    }
    close(c->out_fd);
    if (left_ms(until) == 0 ||
        !subprocess_wait(&c->process, left_ms(until), -1))
        subprocess_stop(&c->process, 0, -1);
    return c->process.code;
}
