/* A node as a program of the user's own: mlt_node_run of mltune/app.h. */
#include "ps/node/app_plugin_io.h"
#include "ps/node/node_io.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The value of option @name among @argv's words, else of the environment's
 * @variable; NULL: there is neither. */
static const char *told(int argc, char **argv, const char *name,
                        const char *variable)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return getenv(variable);
}

/* Descriptor of the signals that ask for the end; -1 with the reason in errno.
 */
static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int fail(const struct fault *f)
{
    fprintf(stderr, "mlt_node_run: %s\n", f->text);
    return node_exit_code(NODE_END_FAILED, 0);
}

static enum err read_number(const char *text, uint32_t *out, struct fault *f)
{
    char *end;
    unsigned long n;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (errno || *end || end == text || *text == '-' || n > UINT16_MAX)
        return fault_set(f, ERR_INVAL, "MLTUNE_NODE: expected a number");
    *out = (uint32_t)n;
    return ERR_OK;
}

int mlt_node_run(const struct mlt_app_ops *ops, int argc, char **argv)
{
    const char *number = told(argc, argv, "--node", "MLTUNE_NODE");
    struct node_options o = {
        .app = ops,
        .endpoint = told(argc, argv, "--tuner", "MLTUNE_TUNER"),
        .meet = told(argc, argv, "--meet", "MLTUNE_MEET"),
    };
    struct fault f = {0};
    enum node_end end;
    int number_of_signal = 0;

    assert(ops);
    if (!o.endpoint) {
        fault_set(&f, ERR_INVAL,
                  "no MLTUNE_TUNER: this program is started by mltune run, "
                  "{\"app\": {\"command\": [\"%.100s\"]}}",
                  argc > 0 ? argv[0] : "PROGRAM");
        return fail(&f);
    }
    if (app_plugin_check(ops, ops->name ? ops->name : "the application", &f) ||
        (number && read_number(number, &o.node, &f)))
        return fail(&f);
    o.signal_fd = open_signals();
    if (o.signal_fd < 0) {
        fault_errno(&f, ERR_IO, errno, "signals");
        return fail(&f);
    }
    end = node_serve(&o, &number_of_signal, &f);
    close(o.signal_fd);
    if (end != NODE_END_STOPPED && end != NODE_END_SIGNAL)
        fail(&f);
    return node_exit_code(end, number_of_signal);
}
