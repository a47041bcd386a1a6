/* `mltune node`: a training node; started by launchers, not by people. */
#include "ps/node/node_io.h"

#include "base/log.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/config/registry.h"

#include <stdlib.h>

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

int verb_node(int argc, char **argv)
{
    struct node_options o = {0};
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
    };
    const struct usage usage = {
        .verb = "node",
        .operands = "--tuner ENDPOINT",
        .details = details,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    const char *told;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    /* As programs of users' own are told. */
    if (!o.endpoint) {
        o.endpoint = getenv("MLTUNE_TUNER");
        o.meet = o.meet ? o.meet : getenv("MLTUNE_MEET");
        told = getenv("MLTUNE_NODE");
        if (told && !number.given)
            number.value = strtoul(told, NULL, 10);
    }
    if (!o.endpoint || number.value > UINT32_MAX) {
        console_error(o.endpoint ? "--node: that number is too large"
                                 : "node: --tuner ENDPOINT is missing");
        return EXIT_USAGE;
    }
    o.node = (uint32_t)number.value;
    return serve(&o);
}
