/* `mltune delete RUN`: forgets a run, with its folder. A service does it
 * itself; without one it is taken out of the state folder here, and no
 * service begins meanwhile. */
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/removal.h"
#include "cli/state/replay.h"
#include "cli/state/serve.h"
#include "cli/state/source.h"
#include "cli/verbs/command.h"
#include "tuner/shell/state_io.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int delete_here(const struct command_options *c, const char *state,
                       const char *word)
{
    char id[RUN_ID_MAX + 1] = "";
    struct fault f = {0};
    enum err err = replay_find_id(state, word, id, &f);

    if (!err)
        err = removal_of_run(state, id, NULL, &f);
    if (err == ERR_BUSY) {
        console_error("%s; `mltune stop %s` ends it", f.text, id);
        return EXIT_USAGE;
    }
    if (err) {
        console_error("%s", f.text);
        return source_exit_code(err);
    }
    if (c->json)
        printf("{\"run\":\"%s\",\"command\":\"delete\",\"changed\":true}\n",
               id);
    else
        printf("%s: the run is deleted: its folder, and what the journal has "
               "of it\n",
               id);
    return EXIT_DONE;
}

int verb_delete(int argc, char **argv)
{
    char state[FILE_PATH_MAX], path[FILE_PATH_MAX];
    struct command_options c = {.state = STATE_DEFAULT};
    const struct option_spec options[] = {
        STATE_OPTION(c.state), COMMAND_SERVER_OPTION(c), CLIENT_CACERT_OPTION,
        COMMAND_JSON_OPTION(c)};
    const struct usage usage = {
        .verb = "delete",
        .operands = "RUN",
        .details = "What it wrote elsewhere (--out) stays. RUN is an id, the "
                   "beginning of one, or a name\n(its newest run).",
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options};
    struct operands operands;
    struct fault f = {0};
    enum err err;
    int fd = -1;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (source_server(c.server))
        return command_send(&c, operands_at(&operands, 0), "DELETE", "", NULL);
    if (state_find(c.state, state, &f) != ERR_OK) {
        console_error("%s", f.text);
        return source_exit_code(ERR_NOENT);
    }
    err = file_join(path, state, SERVE_LOCK, &f);
    if (!err)
        err = file_lock(path, &fd, &f);
    if (err == ERR_BUSY)
        return command_send(&c, operands_at(&operands, 0), "DELETE", "", NULL);
    if (err) {
        console_error("%s", f.text);
        return exit_code_of(err);
    }
    code = delete_here(&c, state, operands_at(&operands, 0));
    close(fd);
    return code;
}
