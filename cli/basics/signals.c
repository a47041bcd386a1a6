#include "cli/basics/signals.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

enum err signals_open(int *fd, struct fault *f)
{
    assert(fd);
    sigset_t set;
    int new_fd;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* Ignored by who started us, ends of our children could not be read. */
    signal(SIGCHLD, SIG_DFL);
    fill(&set);
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

enum err signals_hear_warnings(int fd, struct fault *f)
{
    sigset_t set;

    assert(fd >= 0);
    fill(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGXCPU);
    if (signalfd(fd, &set, 0) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return fault_errno(f, ERR_IO, errno, "signals");
    return ERR_OK;
}

void signals_close(int fd)
{
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
