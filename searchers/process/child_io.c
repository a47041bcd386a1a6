#include "searchers/process/child_io.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_PENDING_MAX = 8 * 1024 * 1024, CHILD_FD_FREE_FROM = 10 };

/* ---- start --------------------------------------------------------------- */

/* What the new process needs before it becomes the program; nothing may be
 * allocated there. */
struct birth {
    const char *path, *folder;
    char *const *argv;
    int in, out, err; /* its ends, above the numbers that it gives out */
    int report;
    pid_t parent;
};

static void birth_failed(int report)
{
    int err = errno;

    /* The parent reads it; nobody is left to tell if that fails. */
    if (write(report, &err, sizeof(err)) < 0)
        _exit(126);
    _exit(127);
}

static void reset_signals(void)
{
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void be_child(const struct birth *b)
{
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        birth_failed(b->report);
    if (getppid() != b->parent)
        _exit(125); /* the tuner died before we asked to be told */
    reset_signals();
    if (*b->folder && chdir(b->folder) != 0)
        birth_failed(b->report);
    if (dup2(b->in, 0) < 0 || dup2(b->out, 1) < 0 || dup2(b->err, 2) < 0)
        birth_failed(b->report);
    if (dup2(b->report, 3) < 0 || fcntl(3, F_SETFD, FD_CLOEXEC) != 0)
        birth_failed(b->report);
    close_range(4, ~0U, 0);
    unsetenv("MLTUNE_TOKEN"); /* steers runs: no business of the program's */
    execv(b->path, b->argv);
    birth_failed(3);
}

/* The same file under a number that the child does not give out itself; @fd is
 * closed. -1 on failure. */
static int out_of_the_way(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FD_FREE_FROM);
    int err = errno;

    if (fd >= 0)
        close(fd);
    errno = err;
    return high;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void keep_open(int fd[2])
{
    fcntl(fd[0], F_SETFL, fcntl(fd[0], F_GETFL) | O_NONBLOCK);
}

/* Our ends into @c, the child's into @b. */
static bool make_streams(struct child *c, struct birth *b)
{
    int in[2], out[2], err[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
        return false;
    c->in_fd = in[0];
    b->in = out_of_the_way(in[1]);
    keep_open(in);
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    c->out_fd = out[0];
    b->out = out_of_the_way(out[1]);
    keep_open(out);
    if (pipe2(err, O_CLOEXEC) != 0)
        return false;
    c->err_fd = err[0];
    b->err = out_of_the_way(err[1]);
    keep_open(err);
    return b->in >= 0 && b->out >= 0 && b->err >= 0;
}

/* The new process' errno, or 0 when the program began and closed the pipe. */
static int read_report(int fd)
{
    int err = 0;
    ssize_t n;

    do
        n = read(fd, &err, sizeof(err));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(err) ? err : 0;
}

/* 0, or the errno of what failed. */
static int give_birth(struct child *c, struct birth *b)
{
    int report[2], err;

    if (pipe2(report, O_CLOEXEC) != 0)
        return errno;
    b->report = out_of_the_way(report[1]);
    b->parent = getpid();
    c->pid = b->report < 0 ? -1 : fork();
    if (c->pid == 0)
        be_child(b);
    err = c->pid < 0 ? errno : 0;
    close_fd(&b->report);
    if (!err)
        err = read_report(report[0]);
    close(report[0]);
    if (!err) {
        c->pid_fd = pidfd_open(c->pid, 0);
        err = c->pid_fd < 0 ? errno : 0;
    }
    if (err && c->pid > 0) {
        kill(-c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    if (err)
        c->pid = 0;
    return err;
}

static void release(struct child *c)
{
    close_fd(&c->in_fd);
    close_fd(&c->out_fd);
    close_fd(&c->err_fd);
    close_fd(&c->pid_fd);
    mem_free(c->pending);
    mem_free(c->got);
    c->pending = c->got = NULL;
    c->pending_len = c->got_len = c->taken = 0;
}

enum err child_start(struct child *c, const char *path, char *const argv[],
                     const char *folder, size_t line_max, struct fault *f)
{
    struct birth b = {.path = path,
                      .folder = folder,
                      .argv = argv,
                      .in = -1,
                      .out = -1,
                      .err = -1,
                      .report = -1};
    int err;

    memset(c, 0, sizeof(*c));
    c->pid_fd = c->in_fd = c->out_fd = c->err_fd = -1;
    c->got_max = line_max;
    c->got = mem_alloc(line_max);
    if (!c->got)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = make_streams(c, &b) ? give_birth(c, &b) : errno;
    close_fd(&b.in);
    close_fd(&b.out);
    close_fd(&b.err);
    if (!err) {
        log_event(LOG_INFO, "searcher_started", "pid=%d path=%s", (int)c->pid,
                  path);
        return ERR_OK;
    }
    release(c);
    return fault_set(f, err == ENOENT ? ERR_NOENT : ERR_IO,
                     "cannot start %s: %s", path, strerror(err));
}

/* ---- end ----------------------------------------------------------------- */

static bool wait_end(const struct child *c, int timeout_ms)
{
    struct pollfd item = {.fd = c->pid_fd, .events = POLLIN};
    int n;

    do
        n = poll(&item, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

bool child_ended(const struct child *c)
{
    return wait_end(c, 0);
}

/* The pid stays ours until it is reaped, so the group cannot be another's. The
 * exit code, or minus the signal. */
static int reap(struct child *c)
{
    siginfo_t info = {0};

    kill(-c->pid, SIGKILL);
    while (waitid(P_PID, (id_t)c->pid, &info, WEXITED) != 0 && errno == EINTR)
        continue;
    log_event(LOG_INFO, "searcher_ended", "pid=%d", (int)c->pid);
    c->pid = 0;
    return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

/* ---- streams ------------------------------------------------------------- */

enum err child_send(struct child *c, const char *text)
{
    size_t n = strlen(text);

    if (c->pending_len + n > CHILD_PENDING_MAX)
        return ERR_LIMIT;
    if (mem_grow((void **)&c->pending, &c->pending_capacity, 1,
                 c->pending_len + n) != 0)
        return ERR_NOMEM;
    memcpy(c->pending + c->pending_len, text, n);
    c->pending_len += n;
    return ERR_OK;
}

/* One that does not read any more is noticed by what it fails to answer. */
static void write_pending(struct child *c)
{
    ssize_t n = 0;

    if (c->pending_len == 0 || c->in_fd < 0)
        return;
    n = send(c->in_fd, c->pending, c->pending_len, MSG_NOSIGNAL);
    if (n <= 0)
        return;
    c->pending_len -= (size_t)n;
    memmove(c->pending, c->pending + n, c->pending_len);
}

/* Remembers the last line, for the warning, and logs all. */
static void take_words(struct child *c, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool blank = bytes[i] == '\n' && (c->words_end || c->words_len == 0);

        if (blank)
            continue; /* says nothing, and the last words stay the last */
        if (bytes[i] == '\n') {
            c->words[c->words_len] = '\0';
            text_clean(c->words);
            log_event(LOG_INFO, "searcher_says", "text=\"%s\"", c->words);
            c->words_end = true;
            continue;
        }
        if (c->words_end)
            c->words_len = 0;
        c->words_end = false;
        if (c->words_len + 1 < sizeof(c->words))
            c->words[c->words_len++] = bytes[i];
    }
    c->words[c->words_len] = '\0';
}

static void read_words(struct child *c)
{
    char bytes[1024];
    ssize_t n;

    for (int i = 0; i < 64 && c->err_fd >= 0; i++) {
        n = read(c->err_fd, bytes, sizeof(bytes));
        if (n > 0)
            take_words(c, bytes, (size_t)n);
        else if (n == 0)
            close_fd(&c->err_fd);
        else
            return;
    }
}

/* A complete line that has been read. */
static bool next_line(struct child *c, const char **line, size_t *len)
{
    const char *start = c->got + c->taken;
    const char *end = memchr(start, '\n', c->got_len - c->taken);

    if (!end)
        return false;
    *line = start;
    *len = (size_t)(end - start);
    c->taken += *len + 1;
    return true;
}

static void drop_taken(struct child *c)
{
    c->got_len -= c->taken;
    memmove(c->got, c->got + c->taken, c->got_len);
    c->taken = 0;
}

enum err child_line(struct child *c, const char **line, size_t *len)
{
    ssize_t n;

    write_pending(c);
    read_words(c);
    if (next_line(c, line, len))
        return ERR_OK;
    drop_taken(c);
    if (c->got_len == c->got_max)
        return ERR_LIMIT;
    n = c->out_fd < 0
            ? 0
            : read(c->out_fd, c->got + c->got_len, c->got_max - c->got_len);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? ERR_AGAIN : ERR_IO;
    if (n == 0) {
        close_fd(&c->out_fd);
        return ERR_IO;
    }
    c->got_len += (size_t)n;
    if (next_line(c, line, len))
        return ERR_OK;
    return c->got_len == c->got_max ? ERR_LIMIT : ERR_AGAIN;
}

void child_unread(struct child *c, size_t len)
{
    assert(c->taken > len);
    c->taken -= len + 1;
}

void child_wait(struct child *c, time_ns wait)
{
    struct pollfd item[3] = {
        {.fd = c->out_fd >= 0 ? c->out_fd : c->pid_fd, .events = POLLIN},
        {.fd = c->err_fd, .events = POLLIN},
        {.fd = c->pending_len > 0 ? c->in_fd : -1, .events = POLLOUT}};

    const struct timespec time = {.tv_sec = wait / 1000000000,
                                  .tv_nsec = wait % 1000000000};

    ppoll(item, 3, &time, NULL);
}

void child_stop(struct child *c, time_ns grace)
{
    if (c->pid > 0) {
        close_fd(&c->in_fd);
        wait_end(c, (int)(grace / 1000000));
        read_words(c);
        reap(c);
    }
    if (c->got)
        release(c);
}

void child_verdict(struct child *c, char *out, size_t size)
{
    bool ended = child_ended(c);
    int code = reap(c);
    const char *name = code < 0 ? sigabbrev_np(-code) : NULL;

    read_words(c);
    if (!ended)
        snprintf(out, size, "closed its output");
    else if (code >= 0)
        snprintf(out, size, "ended with exit code %d", code);
    else
        snprintf(out, size, "was killed by SIG%s", name ? name : "?");
}
