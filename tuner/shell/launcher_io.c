#include "tuner/shell/launcher_io.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_FREE_FROM = 10 };

/* What the child needs between fork and exec, where nothing may be allocated.
 */
struct child {
    char *argv[12];
    int log_fd, null_fd, report_fd;
    pid_t parent;
};

static void child_fail(const struct child *c)
{
    int err = errno;

    /* The parent reads it; nobody is left to tell if that fails. */
    if (write(c->report_fd, &err, sizeof(err)) < 0)
        _exit(126);
    _exit(127);
}

/* Blocked signals are inherited through exec, ignored ones too; a write to a
 * full disk or a closed pipe shall stay an error instead of a death. */
static void child_reset_signals(void)
{
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, s == SIGPIPE || s == SIGXFSZ ? SIG_IGN : SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void child_main(const struct child *c)
{
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        child_fail(c);
    if (getppid() != c->parent)
        _exit(125); /* the tuner died before we asked to be told */
    child_reset_signals();
    if (dup2(c->null_fd, 0) < 0 || dup2(c->log_fd, 1) < 0 ||
        dup2(c->log_fd, 2) < 0)
        child_fail(c);
    if (dup2(c->report_fd, 3) < 0 || fcntl(3, F_SETFD, FD_CLOEXEC) != 0)
        child_fail(c);
    close_range(4, ~0U, 0);
    execv("/proc/self/exe", c->argv);
    errno = errno == ENOENT ? ENOSYS : errno; /* no /proc here */
    if (write(3, &errno, sizeof(errno)) < 0)
        _exit(126);
    _exit(127);
}

/* The same file under a number that the child does not give out itself; @fd is
 * closed. -1 on failure. */
static int out_of_the_way(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_FREE_FROM), err;

    if (fd >= 0) {
        err = errno;
        close(fd);
        errno = err;
    }
    return high;
}

/* The child's errno, or 0 when exec worked and closed the pipe. */
static int child_report(int fd)
{
    int err = 0;
    ssize_t n;

    do
        n = read(fd, &err, sizeof(err));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(err) ? err : 0;
}

static enum err start_child(struct node_process *p, struct child *c,
                            struct fault *f)
{
    int pipe_fd[2], err;

    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "start node %u", p->node);
    c->report_fd = out_of_the_way(pipe_fd[1]);
    c->parent = getpid();
    p->pid = c->report_fd < 0 ? -1 : fork();
    if (p->pid == 0)
        child_main(c);
    err = p->pid < 0 ? errno : 0;
    if (c->report_fd >= 0)
        close(c->report_fd);
    if (!err)
        err = child_report(pipe_fd[0]);
    close(pipe_fd[0]);
    if (!err) {
        p->pid_fd = pidfd_open(p->pid, 0);
        err = p->pid_fd < 0 ? errno : 0;
    }
    if (!err)
        return ERR_OK;
    if (p->pid > 0) {
        kill(-p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    p->pid = 0;
    return fault_errno(f, ERR_IO, err, "start node %u", p->node);
}

enum err launcher_start(struct node_process *p, const struct launch *launch,
                        struct fault *f)
{
    char number[16];
    struct child c = {
        .argv = {"mltune", "node", "--tuner", (char *)launch->endpoint,
                 "--node", number},
    };
    int n = 6;
    enum err err;

    if (launch->verbose)
        c.argv[n++] = "-v";
    if (launch->meet) {
        c.argv[n++] = "--meet";
        c.argv[n++] = (char *)launch->meet;
    }
    memset(p, 0, sizeof(*p));
    p->pid_fd = -1;
    p->node = launch->node;
    snprintf(number, sizeof(number), "%u", launch->node);
    if (strlen(launch->log_path) >= sizeof(p->log_path))
        return fault_set(f, ERR_LIMIT, "path of the log is too long");
    memcpy(p->log_path, launch->log_path, strlen(launch->log_path) + 1);
    c.log_fd =
        open(p->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (c.log_fd < 0)
        return fault_errno(f, ERR_IO, errno, "open %s", p->log_path);
    p->log_at = lseek(c.log_fd, 0, SEEK_END);
    c.null_fd = out_of_the_way(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (c.null_fd < 0)
        err = fault_errno(f, ERR_IO, errno, "open /dev/null");
    else
        err = start_child(p, &c, f);
    if (c.null_fd >= 0)
        close(c.null_fd);
    close(c.log_fd);
    if (!err)
        log_event(LOG_INFO, "node_started", "node=%u pid=%d", p->node,
                  (int)p->pid);
    return err;
}

/* The pid stays ours until it is reaped, so the group cannot be another's. */
static void reap(struct node_process *p)
{
    siginfo_t info = {0};

    kill(-p->pid, SIGKILL);
    while (waitid(P_PID, (id_t)p->pid, &info, WEXITED) != 0 && errno == EINTR)
        continue;
    p->ended = true;
    p->code = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
    close(p->pid_fd);
    p->pid_fd = -1;
    log_event(LOG_INFO, "node_ended", "node=%u pid=%d code=%d", p->node,
              (int)p->pid, p->code);
}

/* True when the process has ended within @timeout_ms (< 0: any time). Returns
 * early with *@hurry when @hurry_fd (< 0: none) becomes readable. */
static bool wait_end(struct node_process *p, int timeout_ms, int hurry_fd,
                     bool *hurry)
{
    struct pollfd item[2] = {{.fd = p->pid_fd, .events = POLLIN},
                             {.fd = hurry_fd, .events = POLLIN}};
    int n;

    do
        n = poll(item, 2, timeout_ms);
    while (n < 0 && errno == EINTR);
    *hurry = n > 0 && item[1].revents;
    if (n <= 0 || !item[0].revents)
        return false;
    reap(p);
    return true;
}

bool launcher_poll(struct node_process *p)
{
    bool hurry;

    assert(p->pid > 0);
    return p->ended || wait_end(p, 0, -1, &hurry);
}

void launcher_stop(struct node_process *p, int grace_ms, int hurry_fd)
{
    bool hurry = grace_ms <= 0;

    if (p->pid <= 0 || p->ended)
        return;
    if (!hurry && wait_end(p, grace_ms, hurry_fd, &hurry))
        return;
    if (!hurry) {
        kill(-p->pid, SIGTERM);
        if (wait_end(p, grace_ms, hurry_fd, &hurry))
            return;
    }
    kill(-p->pid, SIGKILL);
    wait_end(p, -1, -1, &hurry);
}

void launcher_verdict(const struct node_process *p, char *out, size_t size)
{
    const char *name = p->code < 0 ? sigabbrev_np(-p->code) : NULL;

    assert(p->ended);
    if (p->code >= 0)
        snprintf(out, size, "node %u (pid %d) ended with exit code %d", p->node,
                 (int)p->pid, p->code);
    else
        snprintf(out, size, "node %u (pid %d) was killed by SIG%s%s", p->node,
                 (int)p->pid, name ? name : "?",
                 p->code == -SIGKILL
                     ? " (by somebody, or by the kernel for want of memory)"
                     : "");
}

void launcher_last_words(const struct node_process *p, char *out, size_t size)
{
    int fd = open(p->log_path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    off_t end, from;
    char *line;

    assert(size > 1);
    out[0] = '\0';
    if (fd < 0)
        return;
    end = lseek(fd, 0, SEEK_END);
    from = end - (off_t)(size - 1);
    if (from < p->log_at)
        from = p->log_at;
    n = pread(fd, out, size - 1, from);
    close(fd);
    out[n > 0 ? n : 0] = '\0';
    line = from > p->log_at ? strchr(out, '\n') : NULL; /* a part of a line */
    if (line)
        memmove(out, line + 1, strlen(line + 1) + 1);
}
