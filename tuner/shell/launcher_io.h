/* Launchers: training nodes as child processes, on this machine or standing in
 * for nodes on others (tuner/shell/engine.h).
 *
 * A node is this very executable, started as `mltune node --tuner ENDPOINT
 * --node N` (and `--meet DIR` where there are several), or a program of the
 * user's own, whose arguments are its own and which finds the same in its
 * environment (program_env.h). One on another machine is started as `mltune
 * node
 * --tether ...` there: its key is the first line of its standard input, which
 * ends when we do. One of our own machine has /dev/null as stdin and a log of
 * its own as stdout and stderr (base/subprocess_io.h). The kernel kills it when
 * the thread that started it ends, however that ends, so start and stop belong
 * to one thread that lives until the run is over.
 */
#ifndef TUNER_LAUNCHER_IO_H
#define TUNER_LAUNCHER_IO_H

#include "base/fault.h"
#include "base/file_io.h"
#include "base/subprocess_io.h"
#include "tuner/shell/engine.h"

#include <stdbool.h>
#include <stdint.h>

/* A program of the user's own; all borrowed. */
struct launch_program {
    const char *path;   /* its file */
    char *const *argv;  /* NULL at the end */
    const char *folder; /* where it works */
    const char *python; /* folder of the Python package, or NULL */
};

/* Instructions to start a node; all borrowed for the call. */
struct launch {
    const struct launch_program *program; /* NULL: our own */
    const char *run;                      /* the run's id */
    const char *endpoint;                 /* of the tuner's socket */
    uint32_t node;                        /* its number */
    uint32_t nodes;                       /* how many there are */
    uint16_t port;        /* free: programs may meet there too */
    const char *meet;     /* folder where several nodes meet; NULL: one */
    const char *key;      /* of this start, base/run_key_io.h; NULL: none */
    const char *log_path; /* appended to */
    bool verbose;         /* the node gets -v */
    /* NULL or "local": here. Else on @host, where @command is to be run, and
     * @shared is a folder that is there as well. It has a key then. */
    const struct engine *engine;
    const char *host, *command, *shared;
};

struct node_process {
    struct subprocess process;
    uint32_t node;
    int64_t log_at;  /* length of the log before its first line */
    int64_t log_cut; /* bytes at its beginning that it does not keep, or less */
    char log_path[FILE_PATH_MAX];
    const struct engine *engine; /* of a node elsewhere; NULL: it is here */
    char host[ENGINE_HOST_MAX], command[ENGINE_HOST_MAX];
    int tether; /* our end of its standard input, + 1; 0: none */
};

/* Starts a node. Errors: ERR_IO with the reason (no process left, log cannot be
 * opened, the program cannot be executed), ERR_LIMIT; then nothing runs. */
enum err launcher_start(struct node_process *p, const struct launch *launch,
                        struct fault *f);

/* Whether a node elsewhere has ended because its host was too busy to start it.
 */
bool launcher_was_busy(const struct node_process *p);

/* Whether the process @pid is the node or one that it has started, as scripts
 * start what they wrap. */
bool launcher_has(const struct node_process *p, int64_t pid);

/* A TCP port of this machine that nobody listens at now, for programs that
 * meet. Errors: ERR_IO there is none, or no file is left to ask with. */
enum err launcher_free_port(uint16_t *out, struct fault *f);

/* Keeps the log within its bound: as log_file_cut. */
enum err launcher_cut_log(struct node_process *p, struct fault *f);

/* As subprocess_poll. */
bool launcher_poll(struct node_process *p);

/* Ends the nodes @p[nodes], as subprocess_stop_all. Those that were not
 * started, zeroed, are passed over. */
void launcher_stop(struct node_process p[], uint32_t nodes, int grace_ms,
                   int hurry_fd);

/* Verdict on its end, for people: "node 0 (pid 71) was killed by SIGKILL
 * (...)", "node 1 on beta: ssh: connect to host ...", into @out[size]. The
 * process has ended. */
void launcher_verdict(const struct node_process *p, char *out, size_t size);

/* The last lines that the node wrote to the log, at most @size - 1 bytes; ""
 * when there are none. */
void launcher_last_words(const struct node_process *p, char *out, size_t size);

#endif
