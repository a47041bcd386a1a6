#include "cli/basics/signals.h"

#include "base/clock_io.h"
#include "base/deadlines.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <time.h>
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
    int signal_fd; /* signals of the set */
    int over_fd;   /* eventfd: signals_close counts it up */
    int ms;        /* from the first signal that is pressing to the end */
    int to_loop;   /* writing end of the pipe */
    int from;      /* the other one, which the program has */
} guard;

enum { OVER = -1 };

/* Milliseconds up to @until, rounded up; -1: for ever (0). */
static int wait_of(time_ns until)
{
    time_ns left = until - clock_monotonic();

    if (until == 0)
        return -1;
    return left > 0 ? (int)((left + 999999) / 1000000) : 0;
}

/* The number of the next signal; 0: none came up to @until (0: for ever);
 * OVER: signals_close was called. The thread is ended so, by its own
 * return: one that is cancelled leaves its frames as they are, which the
 * address sanitizer takes for stack that is not to be touched. */
static int next_signal(const struct guard *g, time_ns until)
{
    for (;;) {
        struct signalfd_siginfo info;
        struct pollfd ready[] = {{.fd = g->signal_fd, .events = POLLIN},
                                 {.fd = g->over_fd, .events = POLLIN}};
        int ms = wait_of(until);
        int n = ms ? poll(ready, 2, ms) : 0; /* late: whatever else comes */

        if (n == 0)
            return 0;
        if (n > 0 && ready[1].revents)
            return OVER;
        if (n > 0 && read(g->signal_fd, &info, sizeof(info)) == sizeof(info))
            return (int)info.ssi_signo;
    }
}

/* Whom the guard asks to end with us, by whichever thread they were started: it
 * takes no lock, since that thread may be what hangs. By descriptors (pidfd),
 * so that nobody who got the number since is asked. */
static struct ward {
    pid_t pid;               /* of the thread that remembers; 0: free */
    _Atomic int fd_plus_one; /* 0: none */
} children[SIGNALS_CHILDREN_MAX];

static struct ward *find_child(pid_t pid)
{
    for (size_t i = 0; i < SIGNALS_CHILDREN_MAX; i++)
        if (children[i].pid == pid)
            return &children[i];
    return NULL;
}

bool signals_remember_child(pid_t pid)
{
    struct ward *c = find_child(0);
    int fd;

    assert(pid > 0);
    if (!c || (fd = pidfd_open(pid, 0)) < 0)
        return false;
    c->pid = pid;
    atomic_store(&c->fd_plus_one, fd + 1);
    return true;
}

void signals_forget_child(pid_t pid)
{
    struct ward *c = pid > 0 ? find_child(pid) : NULL;
    int fd;

    if (!c)
        return;
    fd = atomic_exchange(&c->fd_plus_one, 0) - 1;
    c->pid = 0;
    close(fd);
}

static void end_children(void)
{
    for (size_t i = 0; i < SIGNALS_CHILDREN_MAX; i++) {
        int fd = atomic_load(&children[i].fd_plus_one) - 1;

        if (fd < 0)
            continue;
        (void)pidfd_send_signal(fd, SIGTERM, NULL, 0);
        (void)pidfd_send_signal(fd, SIGCONT, NULL, 0);
    }
}

bool signals_warn(int number)
{
    return number == SIGUSR1 || number == SIGXCPU;
}

static void *leave_soon(void *code)
{
    const struct timespec words = {.tv_sec = DEADLINE_STOP_WORDS_MS / 1000,
                                   .tv_nsec = DEADLINE_STOP_WORDS_MS % 1000 *
                                              1000000L};

    nanosleep(&words, NULL);
    _exit(*(const int *)code);
}

/* Says why, where that is to be said at once: what hangs may be stderr itself,
 * a pipe that nobody reads or a file on a disk that does not answer. */
static void leave(int code)
{
    static const char text[] =
        "mltune: error: the end took too long; the process ends at once\n";
    pthread_t other;

    end_children();
    if (pthread_create(&other, NULL, leave_soon, &code) == 0)
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(code);
}

static void *stand_guard(void *arg)
{
    const struct guard *g = arg;
    time_ns until = 0, at;
    int first = 0, number;

    while ((number = next_signal(g, until)) != 0) {
        struct signalfd_siginfo info = {.ssi_signo = (uint32_t)number};

        if (number == OVER)
            return NULL;
        at = clock_monotonic() +
             (first ? DEADLINE_STOP_AGAIN_MS : g->ms) * (time_ns)1000000;
        if (!signals_warn(number) && (first || number != SIGINT))
            until = until && until < at ? until : at;
        if (!signals_warn(number) && !first)
            first = number;
        /* A pipe that is full has been told often enough. */
        (void)!write(g->to_loop, &info, sizeof(info));
    }
    leave(128 + first);
    return NULL;
}

/* All but the end that the program reads. */
static void close_ends(const struct guard *g)
{
    close(g->to_loop);
    if (g->over_fd >= 0)
        close(g->over_fd);
    if (g->signal_fd >= 0)
        close(g->signal_fd);
}

static enum err open_ends(struct guard *g, struct fault *f)
{
    int ends[2], failed;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return fault_errno(f, ERR_IO, errno, "signals");
    g->from = ends[0];
    g->to_loop = ends[1];
    g->signal_fd = signalfd(-1, &g->set, SFD_CLOEXEC | SFD_NONBLOCK);
    failed = errno;
    g->over_fd = g->signal_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
    if (g->over_fd >= 0)
        return ERR_OK;
    failed = g->signal_fd < 0 ? failed : errno;
    close(g->from);
    close_ends(g);
    return fault_errno(f, ERR_IO, failed, "signals");
}

/* It takes no signal itself: one that the program has blocked in its own thread
 * later, a terminal's Ctrl-Z, would find this one open. */
static int start_guard(struct guard *g)
{
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&g->thread, NULL, stand_guard, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

enum err signals_open_guarded(int *fd, int ms, bool warnings, struct fault *f)
{
    struct guard *g = &guard;
    enum err err;
    int failed;

    assert(fd && ms > 0);
    assert(!g->open);
    ignore_and_hear(&g->set);
    if (warnings) {
        sigaddset(&g->set, SIGUSR1);
        sigaddset(&g->set, SIGXCPU);
    }
    err = open_ends(g, f);
    if (err)
        return err;
    g->ms = ms;
    failed = pthread_sigmask(SIG_BLOCK, &g->set, NULL);
    if (!failed && warnings) {
        /* Who started us may have had us ignore them up to here. */
        signal(SIGUSR1, SIG_DFL);
        signal(SIGXCPU, SIG_DFL);
    }
    if (!failed)
        failed = start_guard(g);
    if (failed) {
        close(g->from);
        close_ends(g);
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
        const uint64_t over = 1;

        (void)fflush(stdout); /* who reads it may not; main asks how it went */
        (void)!write(g->over_fd, &over, sizeof(over)); /* it has room for it */
        pthread_join(g->thread, NULL);
        close_ends(g);
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
