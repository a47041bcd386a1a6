/* Commands of the verbs that change a run, sent to its HTTP server: the one
 * inside the run, or the service of its state folder. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/basics/options.h"
#include "cli/remote/client.h"
#include "cli/state/replay.h"

#include <stdbool.h>

struct command_options {
    const char *state;  /* folder */
    const char *server; /* URL; NULL: MLTUNE_SERVER, else found in @state */
    bool json;          /* the answer is printed as one JSON object */
};

/* Their options, into a `struct command_options`. */
#define COMMAND_SERVER_OPTION(c)                                               \
    {                                                                          \
        "server", 0, OPTION_TEXT, "URL",                                       \
            "the run's server; RUN is then its id (MLTUNE_SERVER, or found "   \
            "in the "                                                          \
            "state folder)",                                                   \
            &(c).server                                                        \
    }
#define COMMAND_JSON_OPTION(c)                                                 \
    {                                                                          \
        "json", 0, OPTION_FLAG, NULL, "the answer as one JSON object",         \
            &(c).json                                                          \
    }

/* Sends @method with @body (JSON; NULL: none) to run @word (an id, the
 * beginning of one, or a name), its path ending in @suffix, and says what came
 * of it. Returns the exit code. */
int command_send(const struct command_options *c, const char *word,
                 const char *method, const char *suffix, const char *body);

#endif
