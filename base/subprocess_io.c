#include "base/subprocess_io.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/mem.h"
#include "base/shebang.h"
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FREE_FROM = 10, /* descriptors above those that the child gives out */
    REPORT_FD = 3,
    EXIT_ORPHAN = 125, /* nobody is left to read any of these */
    EXIT_NO_REPORT = 126,
    EXIT_REPORTED = 127,
    LINE_BYTES = 4096
};

/* ---- the child between fork and exec ------------------------------------- */

enum step { STEP_SET_UP, STEP_FOLDER, STEP_PROGRAM };

struct report {
    enum step step;
    int errnum;
};

/* Everything that the child needs: nothing may be allocated there. */
struct birth {
    const struct subprocess_options *o;
    const char *path;
    char *const *env;
    int file[3], report; /* above the numbers that it gives out */
    pid_t parent;
};

__attribute__((noreturn)) static void birth_failed(int fd, enum step step)
{
    struct report r = {step, errno};

    /* The parent reads it; nobody is left to tell if that fails. */
    _exit(write(fd, &r, sizeof(r)) < 0 ? EXIT_NO_REPORT : EXIT_REPORTED);
}

/* Blocked signals are inherited through exec, ignored ones too. */
static void set_signals(enum subprocess_signals how)
{
    sigset_t none;

    for (int s = 1; s < NSIG && how != SUBPROCESS_SIGNALS_KEPT; s++) {
        bool error = s == SIGPIPE || s == SIGXFSZ;

        if (s != SIGKILL && s != SIGSTOP)
            signal(s, error && how == SUBPROCESS_SIGNALS_ERRORS ? SIG_IGN
                                                                : SIG_DFL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void set_oom_score(int score)
{
    char digits[4], *at = digits + sizeof(digits);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    for (; score > 0 && at > digits; score /= 10)
        *--at = (char)('0' + score % 10);
    (void)!write(fd, at, (size_t)(digits + sizeof(digits) - at));
}

__attribute__((noreturn)) static void be_child(const struct birth *b)
{
    const struct subprocess_options *o = b->o;

    if (setpgid(0, 0) != 0 ||
        (o->death_signal && prctl(PR_SET_PDEATHSIG, o->death_signal) != 0))
        birth_failed(b->report, STEP_SET_UP);
    if (o->death_signal && getppid() != b->parent)
        _exit(EXIT_ORPHAN); /* it died before we asked to be told */
    if (o->oom_score)
        set_oom_score(o->oom_score);
    if (o->nice)
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + o->nice);
    set_signals(o->signals);
    if (o->deaf) {
        signal(SIGUSR1, SIG_IGN);
        signal(SIGXCPU, SIG_IGN);
    }
    if (o->folder && *o->folder && chdir(o->folder) != 0)
        birth_failed(b->report, STEP_FOLDER);
    for (int i = 0; i < 3; i++)
        if (dup2(b->file[i], i) < 0)
            birth_failed(b->report, STEP_SET_UP);
    if (dup2(b->report, REPORT_FD) < 0 ||
        fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC) != 0)
        birth_failed(b->report, STEP_SET_UP);
    close_range(REPORT_FD + 1, ~0U, 0);
    execve(b->path, o->argv, b->env);
    if (!o->path && errno == ENOENT)
        errno = ENOSYS; /* no /proc here */
    birth_failed(REPORT_FD, STEP_PROGRAM);
}

/* ---- start --------------------------------------------------------------- */

/* True if @entry, "NAME=value", has the name that @name begins with. */
static bool is_named(const char *entry, const char *name)
{
    size_t n = name ? strcspn(name, "=") : 0;

    return n > 0 && strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* True if @entry is not for it, or is to be set otherwise. */
static bool is_replaced(const char *entry, const struct subprocess_options *o)
{
    bool replaced = is_named(entry, o->set) || is_named(entry, o->unset);

    for (size_t i = 0; o->also && o->also[i]; i++)
        replaced |= is_named(entry, o->also[i]);
    return replaced;
}

/* The environment for it; owned by the caller, its texts borrowed. NULL: out of
 * memory. */
static char **make_environment(const struct subprocess_options *o)
{
    char **env;
    size_t n = 0, len = 0, more = 0;

    while (environ[n])
        n++;
    while (o->also && o->also[more])
        more++;
    env = mem_calloc(n + more + 2, sizeof(*env));
    if (!env)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(environ[i], o))
            env[len++] = environ[i];
    for (size_t i = 0; i < more; i++)
        if (strchr(o->also[i], '='))
            env[len++] = o->also[i];
    if (o->set)
        env[len] = (char *)o->set;
    return env;
}

/* A copy of @fd above the numbers that the child gives out; -1 on failure. */
static int out_of_the_way(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FREE_FROM);
}

static void close_fd(int fd)
{
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
}

static bool open_files(struct birth *b)
{
    for (int i = 0; i < 3; i++) {
        int fd = b->o->file[i];
        bool null = fd == SUBPROCESS_NULL;

        assert(fd >= 0 || null);
        if (null)
            fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        b->file[i] = out_of_the_way(fd);
        if (null)
            close_fd(fd);
        if (b->file[i] < 0)
            return false;
    }
    return true;
}

/* The step that failed in the child; no errno where the program began and so
 * closed the pipe. */
static struct report read_report(int fd)
{
    struct report r = {0};
    ssize_t n;

    do
        n = read(fd, &r, sizeof(r));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(r) ? r : (struct report){0};
}

static void reap(struct subprocess *p)
{
    siginfo_t info = {0};
    int failed;

    assert(p->pid > 0 && !p->ended);
    /* The number stays ours until it is reaped, so the group cannot be
     * another's. */
    kill(-p->pid, SIGKILL);
    do
        failed = waitid(P_PID, (id_t)p->pid, &info, WEXITED);
    while (failed && errno == EINTR);
    p->ended = true;
    if (failed) /* nobody knows how: whoever started us ignores SIGCHLD */
        p->code = EXIT_NO_REPORT;
    else
        p->code = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
    close_fd(p->end_fd);
    p->end_fd = -1;
}

static struct report give_birth(struct subprocess *p, struct birth *b)
{
    struct report r = {0};
    int pipe_fd[2];

    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        return (struct report){STEP_SET_UP, errno};
    b->report = out_of_the_way(pipe_fd[1]);
    close_fd(pipe_fd[1]);
    b->parent = getpid();
    p->pid = b->report < 0 ? -1 : fork();
    if (p->pid == 0)
        be_child(b);
    if (p->pid < 0)
        r = (struct report){STEP_SET_UP, errno};
    close_fd(b->report);
    if (!r.errnum)
        r = read_report(pipe_fd[0]);
    close_fd(pipe_fd[0]);
    if (!r.errnum && (p->end_fd = pidfd_open(p->pid, 0)) < 0)
        r = (struct report){STEP_SET_UP, errno};
    if (r.errnum && p->pid > 0)
        reap(p);
    return r;
}

bool subprocess_lacks(const char *path, char out[SUBPROCESS_LACKS_MAX])
{
    char line[SHEBANG_MAX], name[SHEBANG_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : pread(fd, line, sizeof(line), 0);
    bool windows;

    close_fd(fd);
    if (n <= 0 || !shebang_read(line, (size_t)n, name) ||
        access(name, X_OK) == 0)
        return false;
    windows = name[strlen(name) - 1] == '\r';
    text_clean(name);
    snprintf(out, SUBPROCESS_LACKS_MAX,
             "its first line names the interpreter %s, which cannot be "
             "executed%s",
             name, windows ? ": the line ends as those of Windows do" : "");
    return true;
}

/* The program was found and is not to be executed: it may be its interpreter
 * that is missing, which the kernel's error does not tell. */
static enum err program_refused(const struct subprocess_options *o,
                                enum err err, int errnum, struct fault *f)
{
    const char *name = o->path ? o->path : o->argv[0];
    bool here = *name == '/' || !o->folder || !*o->folder;
    char lacks[SUBPROCESS_LACKS_MAX];

    if (o->path && here && subprocess_lacks(name, lacks))
        return fault_set(f, err, "cannot start %s: %s", name, lacks);
    if (errnum == ENOEXEC)
        return fault_set(f, err,
                         "cannot start %s: %s; a script's first line says "
                         "what runs it, as #!/usr/bin/env python3",
                         name, strerror(errnum));
    return fault_errno(f, err, errnum, "cannot start %s", name);
}

enum err subprocess_start(struct subprocess *p,
                          const struct subprocess_options *o, struct fault *f)
{
    struct birth b = {.o = o,
                      .path = o->path ? o->path : "/proc/self/exe",
                      .file = {-1, -1, -1},
                      .report = -1};
    struct report r = {STEP_SET_UP, 0};
    enum err err;
    char **env;

    assert(o->argv && o->argv[0]);
    assert(o->oom_score >= 0 && o->oom_score <= 1000);
    assert(!o->set || strchr(o->set, '='));
    assert(!o->unset || (*o->unset && !strchr(o->unset, '=')));
    *p = (struct subprocess){.end_fd = -1};
    env = make_environment(o);
    if (!env)
        return fault_set(f, ERR_NOMEM, "cannot start %s: out of memory",
                         o->argv[0]);
    b.env = env;
    if (open_files(&b))
        r = give_birth(p, &b);
    else
        r.errnum = errno;
    for (int i = 0; i < 3; i++)
        close_fd(b.file[i]);
    mem_free(env);
    if (!r.errnum) {
        assert(p->pid > 0 && p->end_fd >= 0);
        return ERR_OK;
    }
    *p = (struct subprocess){.end_fd = -1};
    err = r.errnum == ENOENT ? ERR_NOENT : ERR_IO;
    if (r.step == STEP_FOLDER)
        return fault_errno(f, err, r.errnum, "cannot start %s in %s",
                           o->path ? o->path : o->argv[0], o->folder);
    return program_refused(o, err, r.errnum, f);
}

/* ---- the end ------------------------------------------------------------- */

/* @hurry: whether @hurry_fd ended the wait. */
static bool wait_end(struct subprocess *p, int timeout_ms, int hurry_fd,
                     bool *hurry)
{
    struct pollfd item[2] = {{.fd = p->end_fd, .events = POLLIN},
                             {.fd = hurry_fd, .events = POLLIN}};
    time_ns end = clock_monotonic() + (time_ns)timeout_ms * 1000000;
    int n;

    while ((n = poll(item, 2, timeout_ms)) < 0 && errno == EINTR) {
        time_ns left = end - clock_monotonic();

        if (timeout_ms > 0)
            timeout_ms = left > 0 ? (int)(left / 1000000) : 0;
    }
    *hurry = n > 0 && item[1].revents;
    if (n <= 0 || !item[0].revents)
        return false;
    reap(p);
    return true;
}

bool subprocess_wait(struct subprocess *p, int timeout_ms, int hurry_fd)
{
    bool hurry;

    assert(p->pid > 0);
    return p->ended || wait_end(p, timeout_ms, hurry_fd, &hurry);
}

bool subprocess_poll(struct subprocess *p)
{
    return subprocess_wait(p, 0, -1);
}

void subprocess_signal(const struct subprocess *p, int number)
{
    assert(number > 0 && number < NSIG);
    if (p->pid > 0 && !p->ended)
        kill(-p->pid, number);
}

/* Killed, but within a call of the kernel that does not return: a disk, or a
 * network file system, that hangs. The system ends it when it can. */
static void leave_behind(struct subprocess *p)
{
    close_fd(p->end_fd);
    p->end_fd = -1;
    p->ended = true;
    p->code = -SIGKILL;
}

static bool is_alive(const struct subprocess *p)
{
    return p->pid > 0 && !p->ended;
}

/* Waits for all, @ms for all together; false: some live on. *@hurry is set
 * where that ended the wait. */
static bool wait_all(struct subprocess *const p[], size_t n, int ms,
                     int hurry_fd, bool *hurry)
{
    time_ns until = clock_monotonic() + ms * (time_ns)1000000;
    bool all = true;

    for (size_t i = 0; i < n && !*hurry; i++) {
        time_ns left = until - clock_monotonic();

        if (is_alive(p[i]))
            all &= wait_end(p[i], left > 0 ? (int)(left / 1000000) : 0,
                            hurry_fd, hurry);
    }
    return all && !*hurry;
}

static void signal_all(struct subprocess *const p[], size_t n, int number)
{
    for (size_t i = 0; i < n; i++)
        subprocess_signal(p[i], number);
}

void subprocess_stop_all(struct subprocess *const p[], size_t n, int grace_ms,
                         int hurry_fd)
{
    bool hurry = grace_ms <= 0;

    if (!hurry && wait_all(p, n, grace_ms, hurry_fd, &hurry))
        return;
    if (!hurry) {
        signal_all(p, n, SIGTERM);
        if (wait_all(p, n, grace_ms, hurry_fd, &hurry))
            return;
    }
    signal_all(p, n, SIGKILL);
    hurry = false;
    wait_all(p, n, DEADLINE_KILLED_MS, -1, &hurry);
    for (size_t i = 0; i < n; i++)
        if (is_alive(p[i]))
            leave_behind(p[i]);
}

void subprocess_stop(struct subprocess *p, int grace_ms, int hurry_fd)
{
    subprocess_stop_all(&p, 1, grace_ms, hurry_fd);
}

void subprocess_forget(struct subprocess *p)
{
    if (p->pid > 0)
        close_fd(p->end_fd);
    *p = (struct subprocess){.end_fd = -1};
}

/* ---- what became of it --------------------------------------------------- */

void subprocess_verdict(const struct subprocess *p, char *out, size_t size)
{
    const char *name = p->code < 0 ? sigabbrev_np(-p->code) : NULL;

    assert(p->ended);
    if (p->code >= 0)
        snprintf(out, size, "ended with exit code %d", p->code);
    else
        snprintf(out, size, "was killed by SIG%s", name ? name : "?");
}

/* The last bytes of @path after its byte @from; *@cut: there are more. */
static size_t read_tail(const char *path, int64_t from, char *out, size_t size,
                        bool *cut)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    off_t first;

    assert(size > 1);
    *cut = false;
    if (fd >= 0) {
        first = lseek(fd, 0, SEEK_END) - (off_t)(size - 1);
        *cut = first > from;
        n = pread(fd, out, size - 1, *cut ? first : from);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

void subprocess_last_words(const char *path, int64_t from, char *out,
                           size_t size)
{
    bool cut;
    char *line;

    read_tail(path, from, out, size, &cut);
    line = cut ? strchr(out, '\n') : NULL; /* the end of another line */
    if (line)
        memmove(out, line + 1, strlen(line + 1) + 1);
}

void subprocess_last_line(const char *path, char *out, size_t size)
{
    char text[LINE_BYTES + 1], *line;
    bool cut;
    size_t n = read_tail(path, 0, text, sizeof(text), &cut);

    assert(size > 0);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    line = strrchr(text, '\n');
    snprintf(out, size, "%s", line ? line + 1 : text);
    text_clean(out);
}

bool subprocess_runs(pid_t pid)
{
    struct pollfd end = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    bool runs;

    assert(pid > 0);
    if (end.fd < 0)
        return errno != ESRCH && errno != EINVAL;
    runs = poll(&end, 1, 0) == 0;
    close(end.fd);
    return runs;
}

bool subprocess_find(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH"), *end;
    struct stat st;

    if (strchr(name, '/'))
        return (size_t)snprintf(out, size, "%s", name) < size;
    for (path = path ? path : "/usr/bin:/bin"; *path; path = end) {
        int n;

        end = strchrnul(path, ':');
        n = snprintf(out, size, "%.*s/%s", end > path ? (int)(end - path) : 1,
                     end > path ? path : ".", name);
        if ((size_t)n < size && access(out, X_OK) == 0 && stat(out, &st) == 0 &&
            S_ISREG(st.st_mode))
            return true;
        end += *end == ':';
    }
    return false;
}
