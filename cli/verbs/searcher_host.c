/* `mltune searcher-host FILE`: hosts a searcher plug-in; started by the tuner,
 * not by people. */
#include "searchers/process/plugin_host_io.h"

#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

static const struct usage usage = {
    .verb = "searcher-host",
    .operands = "FILE",
    .details = "Speaks docs/searcher-protocol.md on stdin and stdout.",
    .operands_min = 1,
    .operands_max = 1};

int verb_searcher_host(int argc, char **argv)
{
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    return code == OPTIONS_GO_ON ? plugin_host_run(operands_at(&operands, 0))
                                 : code;
}
