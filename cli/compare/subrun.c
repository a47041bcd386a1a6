#include "cli/compare/subrun.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- between fork and exec ----------------------------------------------- */

__attribute__((noreturn)) static void child_main(char *const argv[], int out_fd,
                                                 pid_t parent)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
        _exit(126);
    if (getppid() != parent)
        _exit(125); /* the parent died before we asked to be told */
    /* Blocked signals are inherited through exec. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0)
        _exit(126);
    close_range(3, ~0U, 0);
    execv("/proc/self/exe", argv);
    _exit(127);
}

enum err subrun_start(struct subrun *c, char *const argv[], struct fault *f)
{
    pid_t parent = getpid();
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "start a run");
    c->pid = fork();
    if (c->pid == 0)
        child_main(argv, fd[1], parent);
    close(fd[1]);
    if (c->pid < 0) {
        int saved = errno;

        close(fd[0]);
        return fault_errno(f, ERR_IO, saved, "start a run");
    }
    c->out_fd = fd[0];
    return ERR_OK;
}

/* ---- waiting ------------------------------------------------------------- */

static void pass_on(const struct subrun *c, int signal_fd, int *first)
{
    struct signalfd_siginfo info;

    while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int number = (int)info.ssi_signo;

        kill(c->pid, number);
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

int subrun_wait(struct subrun *c, int signal_fd, struct text *out, int *signal)
{
    struct pollfd fds[2] = {{.fd = c->out_fd, .events = POLLIN},
                            {.fd = signal_fd, .events = POLLIN}};
    int status = 0;
    bool open = true;

    while (open) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents)
            pass_on(c, signal_fd, signal);
        if (fds[0].revents)
            open = take_output(c, out);
    }
    close(c->out_fd);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}
