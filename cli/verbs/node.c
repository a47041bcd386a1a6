/* `mltune node`: a training node; started by launchers, not by people. */
#include "ps/node/node_io.h"

#include "base/host/lookup_io.h"
#include "base/log.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/config/registry.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char details[] =
    "Connects to a tuner's control socket and trains as it is told. The tuner "
    "starts\nit; docs/protocol.md tells what the two say to each other.";

static int serve(const struct node_options *options)
{
    struct node_options o = *options;
    struct fault f = {0};
    enum node_end end;
    int signal = 0;

    if (signals_open(&o.signal_fd, &f) != ERR_OK) {
        console_error("%s", f.text);
        return EXIT_RUN_FAILED;
    }
    o.registry = cli_registry();
    o.confined = true;
    end = node_serve(&o, &signal, &f);
    signals_close(o.signal_fd);
    if (end != NODE_END_STOPPED && end != NODE_END_SIGNAL)
        console_error("node %u: %s", o.node, f.text);
    log_event(LOG_INFO, "node_ends", "node=%u end=%d signal=%d", o.node,
              (int)end, signal);
    return node_exit_code(end, signal);
}

/* What only a launcher says: cluster.launcher ssh and slurm. */
struct errands {
    const char *version, *folder;
};

/* The machines of a run have one mltune and one file system. */
static bool is_alike(const struct errands *e)
{
    char name[64] = "this machine";

    if (e->version && strcmp(e->version, MLT_VERSION) != 0) {
        console_error("this is mltune " MLT_VERSION ", the tuner's is %s: "
                      "install one version on all hosts",
                      e->version);
        return false;
    }
    if (!e->folder || access(e->folder, R_OK | W_OK | X_OK) == 0)
        return true;
    if (gethostname(name, sizeof(name)) != 0)
        name[sizeof(name) - 1] = '\0';
    name[sizeof(name) - 1] = '\0';
    console_error("the run's folder %s is not there on %s: all hosts need the "
                  "state folder on a file system that they share",
                  e->folder, name);
    return false;
}

/* The others reach it where it reaches the tuner. */
static bool listen_outside(struct node_options *o, char out[64])
{
    char host[LOOKUP_HOST_MAX], address[INET_ADDRSTRLEN];
    struct fault f = {0};

    if (!o->meet || o->listen ||
        sscanf(o->endpoint, "tcp://%255[^:]:", host) != 1)
        return true;
    if (lookup_source_to(host, INFINITY, address, &f) != ERR_OK) {
        console_error("no way to the tuner at %s: %s", o->endpoint, f.text);
        return false;
    }
    snprintf(out, 64, "tcp://%s:*", address);
    o->listen = out;
    return true;
}

/* What the command line leaves out: as programs of users' own are told it. */
static void ask_environment(struct node_options *o, struct option_uint *number)
{
    const char *told = getenv("MLTUNE_NODE");

    if (o->endpoint)
        return;
    o->endpoint = getenv("MLTUNE_TUNER");
    o->meet = o->meet ? o->meet : getenv("MLTUNE_MEET");
    if (told && !number->given)
        number->value = strtoul(told, NULL, 10);
}

/* The key comes by standard input. A scheduler's warning is the tuner's to
 * take; a shell between starts nodes with signals of its own. */
static bool tether(struct node_options *o, char listen[64])
{
    signal(SIGUSR1, SIG_IGN);
    signal(SIGXCPU, SIG_IGN);
    return setenv("MLTUNE_KEY_FILE", "-", 1) == 0 &&
           unsetenv("MLTUNE_KEY") == 0 && listen_outside(o, listen);
}

int verb_node(int argc, char **argv)
{
    struct node_options o = {0};
    struct errands e = {0};
    char listen[64];
    struct option_uint number = {0};
    const struct option_spec options[] = {
        {"tuner", 0, OPTION_TEXT, "ENDPOINT",
         "the tuner's control socket, as ZeroMQ writes it (ipc://PATH, "
         "tcp://HOST:PORT)",
         &o.endpoint},
        {"node", 0, OPTION_UINT, "N", "number of this node (0)", &number},
        {"meet", 0, OPTION_TEXT, "PLACE",
         "where the nodes of a run find each other, the same for all: a "
         "folder, "
         "new for each start, or tcp://HOST:PORT of node 0's machine",
         &o.meet},
        {"listen", 0, OPTION_TEXT, "ENDPOINT",
         "what this node binds for the others (tcp://ADDRESS:PORT, or * for "
         "any "
         "port); by default a socket in the folder, or this machine's address "
         "on the way to node 0",
         &o.listen},
        {"tether", 0, OPTION_FLAG, NULL,
         "the first line of standard input is the run's key, and the node ends "
         "when standard input does, or the connection to the tuner",
         &o.tethered},
        {"expect", 0, OPTION_TEXT, "VERSION",
         "ends at once unless this is that version of mltune", &e.version},
        {"shared", 0, OPTION_TEXT, "FOLDER",
         "ends at once unless that folder is here", &e.folder},
    };
    const struct usage usage = {
        .verb = "node",
        .operands = "--tuner ENDPOINT",
        .details = details,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    ask_environment(&o, &number);
    if (!o.endpoint || number.value > UINT32_MAX) {
        console_error(o.endpoint ? "--node: that number is too large"
                                 : "node: --tuner ENDPOINT is missing");
        return EXIT_USAGE;
    }
    o.node = (uint32_t)number.value;
    if (!is_alike(&e))
        return EXIT_CONFIG;
    if (o.tethered && !tether(&o, listen))
        return EXIT_RUN_FAILED;
    return serve(&o);
}
