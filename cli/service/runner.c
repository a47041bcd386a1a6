#include "cli/service/runner.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAST_BYTES = 4096 };

/* ---- starting ------------------------------------------------------------ */

/* Between fork and exec: only what may be called there. */
__attribute__((noreturn)) static void child_main(char *const argv[],
                                                 char *const env[], int log_fd)
{
    /* Where memory runs short, a run goes before the service. */
    static const char score[] = "500";
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int score_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    sigset_t none;

    (void)!write(score_fd, score, sizeof(score) - 1);
    if (setpgid(0, 0) != 0)
        _exit(126);
    /* Blocked signals are inherited through exec. */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 ||
        dup2(log_fd, 2) < 0)
        _exit(126);
    close_range(3, ~0U, 0);
    execve("/proc/self/exe", argv, env);
    _exit(127);
}

/* The environment with @variable ("NAME=...") last; owned by the caller, the
 * texts borrowed. NULL: out of memory. */
static char **make_env(char *variable)
{
    char **env;
    size_t n = 0;

    while (environ[n])
        n++;
    env = mem_calloc(n + 2, sizeof(*env));
    if (!env)
        return NULL;
    memcpy(env, environ, n * sizeof(*env));
    env[n] = variable;
    return env;
}

static enum err fork_child(char *const argv[], char *const env[], int log_fd,
                           pid_t *out, struct fault *f)
{
    pid_t pid = fork();

    if (pid == 0)
        child_main(argv, env, log_fd);
    if (pid < 0)
        return fault_errno(f, ERR_IO, errno, "start a run");
    *out = pid;
    return ERR_OK;
}

enum err runner_start(const struct runner_options *o, pid_t *out,
                      struct fault *f)
{
    char *argv[] = {"mltune",         "resume",   (char *)o->run, "--state",
                    (char *)o->state, "--listen", "127.0.0.1:0",  NULL};
    struct text variable = {0};
    char **env;
    int log_fd;
    enum err err;

    if (o->token)
        text_printf(&variable, "MLTUNE_TOKEN=%s", o->token);
    env = variable.no_memory ? NULL : make_env(variable.s);
    if (!env) {
        text_deinit(&variable);
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    }
    log_fd = open(o->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
        err = fault_errno(f, ERR_IO, errno, "open %s", o->log_path);
    } else {
        err = fork_child(argv, env, log_fd, out, f);
        close(log_fd);
    }
    mem_free(env);
    text_deinit(&variable);
    return err;
}

/* ---- the end ------------------------------------------------------------- */

bool runner_ended(pid_t pid, int *status)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != pid)
        return false;
    /* What it leaves behind, as long as its number is its own. */
    kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    return true;
}

void runner_verdict(int status, char *out, size_t size)
{
    const char *name;

    if (WIFSIGNALED(status)) {
        name = sigabbrev_np(WTERMSIG(status));
        snprintf(out, size, "was killed by SIG%s", name ? name : "?");
    } else {
        snprintf(out, size, "ended with exit code %d", WEXITSTATUS(status));
    }
}

void runner_last_line(const char *path, char *out, size_t size)
{
    char text[LAST_BYTES + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t end;
    ssize_t n;
    char *line;

    out[0] = '\0';
    if (fd < 0)
        return;
    end = lseek(fd, 0, SEEK_END);
    n = pread(fd, text, LAST_BYTES, end > LAST_BYTES ? end - LAST_BYTES : 0);
    close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    line = strrchr(text, '\n');
    snprintf(out, size, "%s", line ? line + 1 : text);
    text_clean(out);
}
