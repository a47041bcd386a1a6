#include "tuner/shell/launcher_io.h"

#include "base/file_io.h"
#include "base/log.h"
#include "base/log_file_io.h"
#include "base/run_key_io.h"
#include "tuner/shell/keeper.h"
#include "tuner/shell/program_env.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the log, starts what @o says, closes our end of the log. */
static enum err start(struct node_process *p, const struct launch *launch,
                      struct subprocess_options *o, struct fault *f)
{
    enum err err;
    int log_fd;

    if (strlen(launch->log_path) >= sizeof(p->log_path))
        return fault_set(f, ERR_LIMIT, "path of the log is too long");
    memcpy(p->log_path, launch->log_path, strlen(launch->log_path) + 1);
    err = file_open_log(p->log_path, &log_fd, f);
    if (err)
        return err;
    p->log_at = lseek(log_fd, 0, SEEK_END);
    o->file[1] = o->file[2] = log_fd;
    if (subprocess_start(&p->process, o, f) != ERR_OK) {
        close(log_fd);
        fault_wrap(f, "start node %u", p->node);
        return ERR_IO;
    }
    close(log_fd);
    log_event(LOG_INFO, "node_started", "node=%u pid=%d", p->node,
              (int)p->process.pid);
    return ERR_OK;
}

static enum err start_own(struct node_process *p, const struct launch *launch,
                          struct fault *f)
{
    char number[16];
    char *argv[10] = {"mltune", "node", "--tuner", (char *)launch->endpoint,
                      "--node", number};
    struct subprocess_options o = {
        .argv = argv,
        .file = {SUBPROCESS_NULL, -1, -1},
        .signals = SUBPROCESS_SIGNALS_ERRORS,
        .deaf = true,
        .death_signal = SIGKILL,
    };
    char key[RUN_KEY_LEN + sizeof("MLTUNE_KEY=")];
    int n = 6;

    if (launch->key) {
        snprintf(key, sizeof(key), "MLTUNE_KEY=%s", launch->key);
        o.set = key;
    }
    if (launch->verbose)
        argv[n++] = "-v";
    if (launch->meet) {
        argv[n++] = "--meet";
        argv[n++] = (char *)launch->meet;
    }
    snprintf(number, sizeof(number), "%u", launch->node);
    return start(p, launch, &o, f);
}

/* ---- elsewhere ----------------------------------------------------------- */

/* The node's standard input, in which its key is; we keep the other end. */
static enum err make_tether(struct node_process *p, const char *key,
                            int *its_end, struct fault *f)
{
    char line[RUN_KEY_LEN + 2];
    int end[2], n = snprintf(line, sizeof(line), "%s\n", key);

    assert(n == RUN_KEY_LEN + 1);
    if (pipe2(end, O_CLOEXEC) != 0)
        return fault_errno(f, ERR_IO, errno, "start node %u", p->node);
    *its_end = end[0];
    p->tether = end[1] + 1;
    if (write(end[1], line, (size_t)n) == n) /* an empty pipe takes it */
        return ERR_OK;
    return fault_errno(f, ERR_IO, errno, "start node %u", p->node);
}

static void cut_tether(struct node_process *p)
{
    if (p->tether)
        close(p->tether - 1);
    p->tether = 0;
}

static enum err start_wrapped(struct node_process *p,
                              const struct launch *launch,
                              struct engine_words *words, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct subprocess_options o = {
        .path = path,
        .argv = words->word,
        .file = {SUBPROCESS_NULL, -1, -1},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .deaf = true,
        .death_signal = SIGKILL,
    };
    enum err err;

    if (!subprocess_find(p->engine->program, path, sizeof(path)))
        return fault_set(f, ERR_NOENT,
                         "cluster.launcher %s needs the program `%s`, which is "
                         "not on this machine",
                         p->engine->name, p->engine->program);
    err = make_tether(p, launch->key, &o.file[0], f);
    if (!err)
        err = start(p, launch, &o, f);
    if (o.file[0] >= 0)
        close(o.file[0]);
    if (err)
        cut_tether(p);
    return err;
}

static enum err start_elsewhere(struct node_process *p,
                                const struct launch *launch, struct fault *f)
{
    char number[16];
    char *node[20] = {(char *)launch->command,
                      "node",
                      "--tuner",
                      (char *)launch->endpoint,
                      "--node",
                      number,
                      "--expect",
                      MLT_VERSION,
                      "--tether",
                      "--shared",
                      (char *)launch->shared};
    struct engine_words words = {.n = 0};
    int n = 11;
    enum err err;

    assert(launch->host && launch->command && launch->shared && launch->key);
    snprintf(p->host, sizeof(p->host), "%s", launch->host);
    snprintf(p->command, sizeof(p->command), "%s", launch->command);
    snprintf(number, sizeof(number), "%u", launch->node);
    if (launch->meet) {
        node[n++] = "--meet";
        node[n++] = (char *)launch->meet;
    }
    if (launch->verbose)
        node[n++] = "-v";
    err = p->engine->wrap(launch->host, node, &words);
    if (err)
        return fault_set(f, err, "start node %u: %s", p->node, err_text(err));
    err = start_wrapped(p, launch, &words, f);
    engine_words_deinit(&words);
    return err;
}

/* The cores that a process of several may take, or 0: the user has said it.
 * Each would take all of them, and they would wait for one another. */
static uint32_t threads_each(uint32_t nodes)
{
    unsigned cores = 1;
    cpu_set_t set;

    assert(nodes > 0);
    if (getenv("OMP_NUM_THREADS"))
        return 0;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = (unsigned)CPU_COUNT(&set);
    return cores > nodes ? cores / nodes : 1;
}

static enum err start_program(struct node_process *p,
                              const struct launch *launch, struct fault *f)
{
    const struct program_place place = {
        .endpoint = launch->endpoint,
        .run = launch->run,
        .node = launch->node,
        .nodes = launch->nodes,
        .meet = launch->meet,
        .key = launch->key,
        .port = launch->port,
        .threads = threads_each(launch->nodes),
        .python = launch->program->python,
        .python_path = getenv("PYTHONPATH"),
        .unbuffered = !getenv("PYTHONUNBUFFERED"),
    };
    struct program_env env;
    struct subprocess_options o = {
        .path = launch->program->path,
        .argv = launch->program->argv,
        .folder = launch->program->folder,
        .also = env.entry,
        .file = {SUBPROCESS_NULL, -1, -1},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .deaf = true,
        .death_signal = SIGKILL,
    };
    enum err err = program_env_init(&env, &place);

    if (err)
        return fault_set(f, err, "start node %u: %s", p->node, err_text(err));
    err = start(p, launch, &o, f);
    program_env_deinit(&env);
    return err;
}

enum err launcher_start(struct node_process *p, const struct launch *launch,
                        struct fault *f)
{
    assert(launch->endpoint);
    assert(launch->log_path);
    memset(p, 0, sizeof(*p));
    p->process.end_fd = -1;
    p->node = launch->node;
    if (launch->engine && launch->engine->program) {
        p->engine = launch->engine;
        return start_elsewhere(p, launch, f);
    }
    return launch->program ? start_program(p, launch, f)
                           : start_own(p, launch, f);
}

bool launcher_has(const struct node_process *p, int64_t pid)
{
    pid_t own = p->process.pid;

    if (pid <= 0 || pid > INT_MAX || own <= 0)
        return false;
    return pid == own || getpgid((pid_t)pid) == own;
}

enum err launcher_free_port(uint16_t *out, struct fault *f)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 &&
                getsockname(fd, (struct sockaddr *)&a, &len) == 0;
    int why = errno;

    if (fd >= 0)
        close(fd);
    if (!done)
        return fault_errno(f, ERR_IO, why, "find a free port for programs");
    *out = ntohs(a.sin_port);
    return ERR_OK;
}

/* ---- the log ------------------------------------------------------------- */

enum err launcher_cut_log(struct node_process *p, struct fault *f)
{
    int64_t before = p->log_cut;
    enum err err;

    if (!p->log_path[0])
        return ERR_OK;
    err = log_file_cut(p->log_path, &p->log_cut, f);
    if (!err && p->log_cut > before)
        log_event(LOG_INFO, "log_cut", "node=%u kept_from=%lld", p->node,
                  (long long)p->log_cut);
    return err;
}

/* ---- its end ------------------------------------------------------------- */

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
    cut_tether(p);
    if (!ended)
        log_end(p);
    return true;
}

void launcher_stop(struct node_process p[], uint32_t nodes, int grace_ms,
                   int hurry_fd)
{
    struct subprocess *live[KEEPER_NODES_MAX] = {NULL};
    struct node_process *of[KEEPER_NODES_MAX] = {NULL};
    size_t n = 0;

    assert(nodes <= KEEPER_NODES_MAX);
    for (uint32_t i = 0; i < nodes; i++) {
        if (p[i].process.pid <= 0 || p[i].process.ended)
            continue;
        of[n] = &p[i];
        live[n++] = &p[i].process;
    }
    /* What is killed here leaves its node to itself, which then ends. */
    for (size_t i = 0; i < n && grace_ms == 0; i++)
        cut_tether(of[i]);
    subprocess_stop_all(live, n, grace_ms, hurry_fd);
    for (size_t i = 0; i < n; i++) {
        cut_tether(of[i]);
        log_end(of[i]);
    }
}

static void tell_cause(const struct node_process *p, char *out, size_t size)
{
    char words[2048], cause[768];

    assert(p->engine && p->process.ended);
    launcher_last_words(p, words, sizeof(words));
    if (p->process.code < 0)
        subprocess_verdict(&p->process, cause, sizeof(cause));
    else
        engine_cause(p->engine, p->process.code, words, p->command, cause,
                     sizeof(cause));
    snprintf(out, size, "node %u on %s: %s%s", p->node, p->host,
             p->process.code < 0 ? "its connection " : "", cause);
}

void launcher_verdict(const struct node_process *p, char *out, size_t size)
{
    char verdict[64];

    assert(p->process.ended);
    assert(size > 0);
    if (p->engine) {
        tell_cause(p, out, size);
        return;
    }
    subprocess_verdict(&p->process, verdict, sizeof(verdict));
    snprintf(out, size, "node %u (pid %d) %s%s", p->node, (int)p->process.pid,
             verdict,
             p->process.code == -SIGKILL
                 ? " (by somebody, or by the kernel for want of memory)"
                 : "");
}

bool launcher_was_busy(const struct node_process *p)
{
    char words[2048];

    if (!p->engine || !p->process.ended ||
        p->process.code != p->engine->unreached)
        return false;
    launcher_last_words(p, words, sizeof(words));
    return p->engine->busy(words);
}

void launcher_last_words(const struct node_process *p, char *out, size_t size)
{
    assert(size > 0);
    subprocess_last_words(p->log_path, p->log_at, out, size);
}
