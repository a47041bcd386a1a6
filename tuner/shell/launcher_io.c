#include "tuner/shell/launcher_io.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum err launcher_start(struct node_process *p, const struct launch *launch,
                        struct fault *f)
{
    char number[16];
    char *argv[10] = {"mltune", "node", "--tuner", (char *)launch->endpoint,
                      "--node", number};
    struct subprocess_options o = {
        .argv = argv,
        .file = {SUBPROCESS_NULL, -1, -1},
        .signals = SUBPROCESS_SIGNALS_ERRORS,
        .death_signal = SIGKILL,
    };
    int n = 6, log_fd;

    assert(launch->endpoint);
    assert(launch->log_path);
    if (launch->verbose)
        argv[n++] = "-v";
    if (launch->meet) {
        argv[n++] = "--meet";
        argv[n++] = (char *)launch->meet;
    }
    memset(p, 0, sizeof(*p));
    p->process.end_fd = -1;
    p->node = launch->node;
    snprintf(number, sizeof(number), "%u", launch->node);
    if (strlen(launch->log_path) >= sizeof(p->log_path))
        return fault_set(f, ERR_LIMIT, "path of the log is too long");
    memcpy(p->log_path, launch->log_path, strlen(launch->log_path) + 1);
    log_fd = open(p->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return fault_errno(f, ERR_IO, errno, "open %s", p->log_path);
    p->log_at = lseek(log_fd, 0, SEEK_END);
    o.file[1] = o.file[2] = log_fd;
    if (subprocess_start(&p->process, &o, f) != ERR_OK) {
        close(log_fd);
        fault_wrap(f, "start node %u", p->node);
        return ERR_IO;
    }
    close(log_fd);
    log_event(LOG_INFO, "node_started", "node=%u pid=%d", p->node,
              (int)p->process.pid);
    return ERR_OK;
}

static void log_end(const struct node_process *p)
{
    log_event(LOG_INFO, "node_ended", "node=%u pid=%d code=%d", p->node,
              (int)p->process.pid, p->process.code);
}

bool launcher_poll(struct node_process *p)
{
    bool ended = p->process.ended;

    if (!subprocess_poll(&p->process))
        return false;
    if (!ended)
        log_end(p);
    return true;
}

void launcher_stop(struct node_process *p, int grace_ms, int hurry_fd)
{
    if (p->process.pid <= 0 || p->process.ended)
        return;
    subprocess_stop(&p->process, grace_ms, hurry_fd);
    log_end(p);
}

void launcher_verdict(const struct node_process *p, char *out, size_t size)
{
    char verdict[64];

    assert(p->process.ended);
    assert(size > 0);
    subprocess_verdict(&p->process, verdict, sizeof(verdict));
    snprintf(out, size, "node %u (pid %d) %s%s", p->node, (int)p->process.pid,
             verdict,
             p->process.code == -SIGKILL
                 ? " (by somebody, or by the kernel for want of memory)"
                 : "");
}

void launcher_last_words(const struct node_process *p, char *out, size_t size)
{
    assert(size > 0);
    subprocess_last_words(p->log_path, p->log_at, out, size);
}
