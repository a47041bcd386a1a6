/* Commands: what users may ask of a run, or of a service of runs.
 *
 * One table. The HTTP routes and their description (OpenAPI), the verbs of the
 * command line, the service and the control loop read it, so a command is named
 * here and nowhere else. What a command does is the tuner's
 * (tuner/core/steering.h), or the service's.
 */
#ifndef BASE_COMMANDS_H
#define BASE_COMMANDS_H

#include "base/json/fields.h"
#include "base/proto/branch.h"
#include "base/proto/table_info.h"
#include "base/role.h"

#include <stdbool.h>
#include <stdint.h>

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
    COMMAND_NOTE,
    COMMAND_READ,
    COMMAND_ADD,
    COMMAND_UPLOAD,
    COMMAND_UPLOADED,
    COMMAND_WITHDRAW, /* an upload */
    COMMAND_DATA,
    COMMAND_INTERRUPT, /* by a signal only */
    COMMAND_COUNT
};

enum { COMMAND_KEY_MAX = 64 }; /* a request's Idempotency-Key */

/* ---- arguments ----------------------------------------------------------- */

enum {
    COMMAND_SETTING_MAX = 4096,   /* bytes of a setting, as JSON */
    COMMAND_SUGGEST_MAX = 8192,   /* of settings suggested at once, the same */
    COMMAND_SUGGESTIONS_MAX = 16, /* of them */
    COMMAND_VALUES_MAX = 16384    /* of rows, a command */
};

/* Arguments of FORK, PROMOTE and FREE. */
struct command_fork {
    branch_id branch; /* the parent; the one to promote or free */
    /* FORK: how far it is to run, to the end of so many epochs or for so
     * many clocks; one of them is 0. */
    uint32_t epochs;
    uint64_t clocks;
    /* JSON object of the tunables in which it differs from its parent; "": in
     * none. */
    char setting[COMMAND_SETTING_MAX];
};

/* Bits of command_limits. */
enum {
    LIMIT_TARGET_LOSS = 1,
    LIMIT_TARGET_METRIC = 2,
    LIMIT_MAX_TIME = 4,
    LIMIT_PLATEAU_EPOCHS = 8,
    LIMIT_MAX_EPOCHS = 16
};

/* Arguments of CONTINUE. */
struct command_continue {
    bool other_data; /* of a run that is to load its data again: it goes on
                      * whatever they are */
};

/* Arguments of LIMITS: those of @set are new. */
struct command_limits {
    uint32_t set;
    struct {
        double target_loss, target_metric;   /* NAN: none */
        double max_time_s;                   /* > 0; INFINITY: none */
        uint32_t plateau_epochs, max_epochs; /* >= 1 */
    } to;
};

/* Arguments of SUGGEST. */
struct command_suggest {
    bool exhausted; /* nothing follows these: of searchers that have no settings
                     * of their own */
    bool single;    /* it was one, at /setting, not a list at /settings */
    char settings[COMMAND_SUGGEST_MAX]; /* JSON array of up to
                                         * COMMAND_SUGGESTIONS_MAX objects */
};

/* Arguments of READ and ADD: rows of a shared or exclusive table. */
struct command_rows {
    branch_id branch; /* BRANCH_NONE: what the run trains */
    char table[TABLE_INFO_NAME_MAX + 1];
    uint64_t first;
    uint32_t count;        /* rows; 1 to add */
    uint32_t from, values; /* of each that are read, at most
                            * COMMAND_VALUES_MAX in all; to add: 0 and all */
    double *add;           /* ADD: owned, [values]; else NULL */
};

/* Zeroed where a command has none. */
union command_args {
    struct command_fork fork;
    struct command_continue go_on;
    struct command_limits limits;
    struct command_suggest suggest;
    struct command_rows rows;
};

/* Releases what @args of @command own. Zeroed ones are accepted. */
void command_args_deinit(enum command_id command, union command_args *args);

/* ---- the table ----------------------------------------------------------- */

/* The actor that carries a command out. */
enum command_actor {
    COMMAND_BY_LIVE_RUN, /* a run that has begun; a service passes it on */
    COMMAND_BY_RUN,      /* the same, and a run that waits in the queue: then
                          * the service does it */
    COMMAND_BY_SERVICE   /* a server of one run has none of these */
};

/* The JSON of a request. */
struct command_body {
    const char *name; /* of its schema in the description */
    /* JSON schema, as text. NULL: the members are the command's arguments, but
     * for those in its path; the schema and the reading of a body follow. */
    const char *schema;
    const char *example; /* a body that is taken as it is; NULL: no JSON */
    /* NULL: JSON. Else its media type: bytes, which are not looked at. */
    const char *media;
    bool required;
};

/* An option of a verb: a member of the body. */
struct command_option {
    const char *name, *help;
    const char *value;  /* what help calls its whole number; NULL: a flag */
    const char *member; /* its name in the body; NULL: the option's */
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
    enum role role;     /* that whoever asks for it needs */
    const char *method; /* NULL: there is no route */
    const char *path;   /* below /api/v1: RESOURCE or RESOURCE:NAME */
    const char *summary;
    const struct command_body *body; /* NULL: the request has none */
    /* The answer where all is well: schema, status and its meaning. Status
     * NULL: 200 or, where it happens later, 202. */
    const char *answer, *status, *meaning;
    const struct command_verb *verb; /* NULL: none, or one with a file of its
                                      * own in cli/verbs */
    /* Members of its struct of union command_args; NULL: it has none. What
     * tells two requests apart and what is released follow. */
    const struct json_field *args;
    const char *operation; /* its name in the description (OpenAPI) */
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
