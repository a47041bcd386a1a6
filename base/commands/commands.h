/* Commands: what users may ask of a run, or of a service of runs.
 *
 * One table. The HTTP routes and their description (OpenAPI), the verbs of the
 * command line, the service and the control loop read it, so a command is named
 * here and nowhere else. What a command does is the tuner's
 * (tuner/board/steering.h), or the service's.
 */
#ifndef BASE_COMMANDS_H
#define BASE_COMMANDS_H

#include <stdbool.h>

/* In the order of help. */
enum command_id {
    COMMAND_SUBMIT,
    COMMAND_VALIDATE,
    COMMAND_PAUSE,
    COMMAND_CONTINUE,
    COMMAND_STOP,
    COMMAND_RETUNE,
    COMMAND_SNAPSHOT,
    COMMAND_LIMITS,
    COMMAND_FORK,
    COMMAND_SUGGEST,
    COMMAND_PROMOTE,
    COMMAND_FREE,
    COMMAND_DELETE,
    COMMAND_READ,
    COMMAND_ADD,
    COMMAND_INTERRUPT, /* by a signal only */
    COMMAND_COUNT
};

enum { COMMAND_KEY_MAX = 64 }; /* a request's Idempotency-Key */

/* The actor that carries a command out. */
enum command_actor {
    COMMAND_BY_LIVE_RUN, /* a run that has begun; a service passes it on */
    COMMAND_BY_RUN,      /* the same, and a run that waits in the queue: then
                          * the service does it */
    COMMAND_BY_SERVICE   /* a server of one run has none of these */
};

/* The JSON of a request. */
struct command_body {
    const char *name;    /* of its schema in the description */
    const char *schema;  /* JSON schema, as text */
    const char *example; /* a body that is taken as it is */
    bool required;
};

/* An option of a verb: the body's member of that name. */
struct command_option {
    const char *name, *help;
    const char *value; /* what help calls its whole number; NULL: a flag */
};

enum { COMMAND_OPTIONS_MAX = 2 };

/* `mltune NAME RUN ...`; a command on a branch has BRANCH for its next operand.
 */
struct command_verb {
    const char *name, *summary;
    const char *details; /* of --help; NULL: what RUN means */
    /* NAME=VALUE... are members of this member of the body; NULL: none may
     * follow. */
    const char *pairs;
    const char *pair;  /* an example of one */
    const char *none;  /* VALUE that means null; NULL: none does */
    const char *empty; /* refuses a body without a member; NULL: it may be */
    bool pairs_needed;
    struct command_option option[COMMAND_OPTIONS_MAX]; /* name NULL: no more */
};

struct command {
    const char *name; /* in answers, in paths and in the log */
    enum command_actor actor;
    const char *method; /* NULL: there is no route */
    const char *path;   /* below /api/v1: RESOURCE or RESOURCE:NAME */
    const char *summary;
    const struct command_body *body; /* NULL: the request has none */
    /* The answer where all is well: schema, status and its meaning. Status
     * NULL: 200 or, where it happens later, 202. */
    const char *answer, *status, *meaning;
    const struct command_verb *verb; /* NULL: none, or one with a file of its
                                      * own in cli/verbs */
};

/* Row @id of the table, always there. */
const struct command *command_of(enum command_id id);

/* The number of row @c. */
enum command_id command_id_of(const struct command *c);

/* The command of the verb @name; NULL: it is none of the table's. */
const struct command *command_of_verb(const char *name);

/* Whether @c is found at @resource of the routes: there, or there with its name
 * behind a colon. */
bool command_is_on(const struct command *c, const char *resource);

#endif
