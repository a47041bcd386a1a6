#include "cli/basics/signals.h"

#include "base/clock_io.h"
#include "base/deadlines.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void fill(sigset_t *set)
{
    struct sigaction old;

    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &old) != 0 || old.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

static void ignore_and_hear(sigset_t *set)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* Ignored by who started us, ends of our children could not be read. */
    signal(SIGCHLD, SIG_DFL);
    fill(set);
}

enum err signals_open(int *fd, struct fault *f)
{
    sigset_t set;
    int new_fd;

    assert(fd);
    ignore_and_hear(&set);
    new_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (new_fd < 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        int saved = errno;

        if (new_fd >= 0)
            close(new_fd);
        return fault_errno(f, ERR_IO, saved, "signals");
    }
    *fd = new_fd;
    return ERR_OK;
}

/* ---- with a guard -------------------------------------------------------- */

/* The thread that hears the signals; its members are written before it starts.
 */
static struct guard {
    bool open;
    pthread_t thread;
    sigset_t set;
    int ms;      /* from the first signal that is pressing to the end */
    int to_loop; /* writing end of the pipe */
    int from;    /* the other one, which the program has */
} guard;

/* The number of the next signal; 0: none came up to @until (0: for ever). */
static int next_signal(const sigset_t *set, time_ns until)
{
    struct timespec wait;
    time_ns left;
    int number;

    do {
        if (until == 0) {
            number = sigwaitinfo(set, NULL);
            continue;
        }
        left = until - clock_monotonic();
        if (left <= 0)
            return 0;
        wait = (struct timespec){left / 1000000000, left % 1000000000};
        number = sigtimedwait(set, NULL, &wait);
    } while (number < 0);
    return number;
}

static bool is_end(int number)
{
    return number != SIGUSR1 && number != SIGXCPU;
}

static void *stand_guard(void *arg)
{
    static const char text[] =
        "mltune: error: the end took too long; the process ends at once\n";
    const struct guard *g = arg;
    time_ns until = 0, at;
    int first = 0, number;

    while ((number = next_signal(&g->set, until)) != 0) {
        struct signalfd_siginfo info = {.ssi_signo = (uint32_t)number};

        at = clock_monotonic() +
             (first ? DEADLINE_STOP_AGAIN_MS : g->ms) * (time_ns)1000000;
        if (is_end(number) && (first || number != SIGINT))
            until = until && until < at ? until : at;
        if (is_end(number) && !first)
            first = number;
        /* A pipe that is full has been told often enough. */
        (void)!write(g->to_loop, &info, sizeof(info));
    }
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(128 + first);
}

enum err signals_open_guarded(int *fd, int ms, bool warnings, struct fault *f)
{
    struct guard *g = &guard;
    int ends[2], failed;

    assert(fd && ms > 0);
    assert(!g->open);
    ignore_and_hear(&g->set);
    if (warnings) {
        sigaddset(&g->set, SIGUSR1);
        sigaddset(&g->set, SIGXCPU);
    }
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return fault_errno(f, ERR_IO, errno, "signals");
    g->ms = ms;
    g->from = ends[0];
    g->to_loop = ends[1];
    failed = pthread_sigmask(SIG_BLOCK, &g->set, NULL);
    if (!failed)
        failed = pthread_create(&g->thread, NULL, stand_guard, g);
    if (failed) {
        close(ends[0]);
        close(ends[1]);
        return fault_errno(f, ERR_IO, failed, "signals");
    }
    g->open = true;
    *fd = g->from;
    return ERR_OK;
}

void signals_close(int fd)
{
    struct guard *g = &guard;

    if (g->open && fd == g->from) {
        pthread_cancel(g->thread);
        pthread_join(g->thread, NULL);
        close(g->to_loop);
        g->open = false;
    }
    if (fd >= 0)
        close(fd);
}

void signals_hear_children(void)
{
    signal(SIGCHLD, SIG_DFL);
}

void signals_guard_stdio(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    if (fd >= 3)
        close(fd);
}
