#include "base/commands/commands.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

static const struct json_field fork_args[] = {
    {FIELD_OF(command_fork, ID, branch)},
    {FIELD_OF(command_fork, JSON, setting), .optional = true,
     .expected = "an object of tunables and values",
     .help = "tunables in which it differs from the branch"},
    {FIELD_WITHIN(command_fork, U32, epochs, 1, 1000000), .optional = true,
     .help = "it runs to the end of so many; 1"},
    {FIELD_WITHIN(command_fork, U64, clocks, 1, 1000000000000),
     .optional = true, .help = "or for so many clocks"},
    {.name = NULL},
};

static const struct json_field branch_args[] = {
    {FIELD_OF(command_fork, ID, branch)},
    {.name = NULL},
};

static const struct json_field continue_args[] = {
    {FIELD_OF(command_continue, BOOL, other_data), .optional = true,
     .help = "a run that is held, or has ended, as its data have changed: go "
             "on with those that are there; once"},
    {.name = NULL},
};

static const struct json_field limits_args[] = {
    {FIELD_OF(command_limits, U32, set)},
    {FIELD_OF(command_limits, REAL, to.target_loss)},
    {FIELD_OF(command_limits, REAL, to.target_metric)},
    {FIELD_OF(command_limits, REAL, to.max_time_s)},
    {FIELD_OF(command_limits, U32, to.plateau_epochs)},
    {FIELD_OF(command_limits, U32, to.max_epochs)},
    {.name = NULL},
};

static const struct json_field suggest_args[] = {
    {FIELD_OF(command_suggest, BOOL, exhausted)},
    {FIELD_OF(command_suggest, BOOL, single)},
    {FIELD_OF(command_suggest, TEXT, settings)},
    {.name = NULL},
};

#define ROWS_ARGS                                                              \
    {FIELD_OF(command_rows, ID_OR_NULL, branch)},                              \
        {FIELD_OF(command_rows, TEXT, table)},                                 \
        {FIELD_OF(command_rows, U64, first)},                                  \
        {FIELD_OF(command_rows, U32, count)},                                  \
        {FIELD_OF(command_rows, U32, from)},                                   \
    {                                                                          \
        FIELD_OF(command_rows, U32, values)                                    \
    }

static const struct json_field read_args[] = {
    ROWS_ARGS,
    {.name = NULL},
};

static const struct json_field number[] = {
    {.name = "value", .kind = FIELD_REAL},
    {.name = NULL},
};
static const struct field_list numbers = {
    .fields = number,
    .item = sizeof(double),
    .count = offsetof(struct command_rows, values),
    .owned = true,
};

static const struct json_field add_args[] = {
    ROWS_ARGS,
    {.name = "add",
     .kind = FIELD_TUPLES,
     .offset = offsetof(struct command_rows, add),
     .max = COMMAND_VALUES_MAX,
     .list = &numbers},
    {.name = NULL},
};

/* ---- bodies -------------------------------------------------------------- */

static const struct command_body nothing = {
    .name = "nothing",
    .example = "{}",
};

static const struct command_body continue_body = {
    .name = "continue",
    .example = "{\"other_data\": false}",
};

static const struct command_body configuration = {
    .name = "configuration",
    .schema = "{\"type\": \"object\", \"description\": "
              "\"GET /api/v1/schema has it in full\"}",
    .example = "{\"name\": \"digits\", \"app\": {\"name\": \"mlr\", \"data\": "
               "\"gen:digits?samples=20000&size=12\"}, \"stop\": "
               "{\"max_time\": \"1h\", \"max_epochs\": 1000000, "
               "\"plateau_epochs\": 1000000}}",
    .required = true,
};

static const struct command_body limits = {
    .name = "limits",
    .schema = "{\"type\": \"object\", \"additionalProperties\": false, "
              "\"properties\": {\"stop\": {\"type\": \"object\", "
              "\"additionalProperties\": false, \"properties\": {"
              "\"target_loss\": {\"type\": [\"number\", \"null\"]}, "
              "\"target_metric\": {\"type\": [\"number\", \"null\"]}, "
              "\"max_time\": {\"type\": [\"number\", \"string\", \"null\"], "
              "\"description\": \"seconds, or a time as 10m\"}, "
              "\"plateau_epochs\": {\"type\": \"integer\", \"minimum\": 1, "
              "\"maximum\": 1000000}, "
              "\"max_epochs\": {\"type\": \"integer\", \"minimum\": 1, "
              "\"maximum\": 1000000000}}}}}",
    .example = "{\"stop\": {\"max_epochs\": 2000000}}",
    .required = true,
};

static const struct command_body fork_body = {
    .name = "fork",
    .example = "{\"setting\": {\"learning_rate\": 0.01}, \"epochs\": 1}",
};

static const struct command_body suggest = {
    .name = "suggest",
    .schema =
        "{\"type\": \"object\", \"additionalProperties\": false, "
        "\"properties\": {\"setting\": {\"type\": \"object\", "
        "\"description\": \"tunables; those left out have the value in use\"}, "
        "\"settings\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": "
        "16, \"items\": {\"type\": \"object\"}, \"description\": \"or "
        "several\"}, \"exhausted\": {\"type\": \"boolean\", "
        "\"description\": \"nothing follows: with searcher rest the search "
        "ends when these are tried\"}}}",
    .example = "{\"setting\": {\"learning_rate\": 0.01}}",
    .required = true,
};

static const struct command_body increment = {
    .name = "increment",
    .schema =
        "{\"type\": \"object\", \"required\": [\"values\"], "
        "\"additionalProperties\": false, \"properties\": {\"values\": "
        "{\"type\": \"array\", \"items\": {\"type\": \"number\"}, "
        "\"description\": \"a whole row; with offset, its values from there "
        "on: the others are 0\"}, "
        "\"offset\": {\"type\": \"integer\", \"minimum\": 0}, "
        "\"branch\": {\"type\": \"integer\", \"minimum\": 0, \"description\": "
        "\"default: what the run trains\"}}}",
    .example = "{\"values\": [0.0], \"offset\": 0}",
    .required = true,
};

static const struct command_body notes_body = {
    .name = "notes",
    .schema = "{\"type\": \"object\", \"additionalProperties\": false, "
              "\"properties\": {\"tags\": {\"type\": "
              "\"array\", \"maxItems\": 16, \"items\": {\"type\": \"string\", "
              "\"minLength\": 1, \"maxLength\": 40}, \"description\": \"all of "
              "them; each without spaces and commas\"}, \"note\": {\"type\": "
              "[\"string\", \"null\"], \"maxLength\": 4000}}}",
    .example = "{\"tags\": [\"baseline\"], \"note\": \"the first one\"}",
    .required = true,
};

static const struct command_body piece = {
    .name = "piece",
    .schema = "{\"type\": \"string\", \"description\": \"bytes of the file\"}",
    .media = "application/octet-stream",
};

/* ---- verbs --------------------------------------------------------------- */

static const struct command_verb verb_pause = {
    .name = "pause",
    .summary = "run nothing until it is continued",
};
static const struct command_verb verb_continue = {
    .name = "continue",
    .summary = "go on with a run that is paused",
    .option = {{"other-data",
                "in a service: go on with the data that are there, if those of "
                "the beginning have changed",
                NULL, "other_data"}},
};
static const struct command_verb verb_stop = {
    .name = "stop",
    .summary = "end a run: its best model is written first",
};
static const struct command_verb verb_retune = {
    .name = "retune",
    .summary = "search again at the next end of an epoch",
};
static const struct command_verb verb_snapshot = {
    .name = "snapshot",
    .summary = "write a snapshot now",
};
static const struct command_verb verb_limit = {
    .name = "limit",
    .summary = "change what ends a run while it goes on",
    .details = "NAME is max_time, max_epochs, plateau_epochs, target_loss or "
               "target_metric, VALUE as\nin the configuration's `stop`: 10m, "
               "50, 0.98; none takes one of max_time and the\ntargets away. "
               "RUN is an id, the beginning of one, or a name (its newest "
               "run).",
    .pairs = "stop",
    .pair = "max_epochs=50",
    .none = "none",
    .pairs_needed = true,
};
static const struct command_verb verb_fork = {
    .name = "fork",
    .summary = "try a setting from a branch, beside the training",
    .details = "BRANCH is a number of `mltune branches RUN`. NAME=VALUE are "
               "tunables in which the\nfork differs from it. It runs beside "
               "the training, then waits for `mltune promote`\nor `mltune "
               "free`. RUN is an id, the beginning of one, or a name (its "
               "newest run).",
    .pairs = "setting",
    .pair = "learning_rate=0.01",
    .option = {{"epochs", "run to the end of so many epochs of the branch (1)",
                "N", NULL},
               {"clocks", "run for so many clocks", "N", NULL}},
};
static const struct command_verb verb_suggest = {
    .name = "suggest",
    .summary = "have a setting tried in the search",
    .details = "NAME=VALUE are tunables; those that are left out have the "
               "value in use. It is tried\nin the search that is open, or the "
               "next one, before what the searcher proposes.\nRUN is an id, "
               "the beginning of one, or a name (its newest run).",
    .pairs = "setting",
    .pair = "learning_rate=0.01",
    .empty = "nothing is suggested: expected NAME=VALUE, such as "
             "learning_rate=0.01, or --exhausted",
    .option = {{"exhausted",
                "nothing follows: with searcher rest the search ends when what "
                "was suggested is tried",
                NULL, NULL}},
};
static const struct command_verb verb_promote = {
    .name = "promote",
    .summary = "make a branch what the run trains",
};
static const struct command_verb verb_free = {
    .name = "free",
    .summary = "give up a branch that was forked by hand",
};

/* ---- the table ----------------------------------------------------------- */

#define RUN "/runs/{run}"
#define BRANCH RUN "/branches/{branch}"
#define ROW "/tables/{table}/rows/{row}"

static const struct command commands[COMMAND_COUNT] = {
    [COMMAND_SUBMIT] = {"submit", COMMAND_BY_SERVICE, ROLE_RUN, "POST", "/runs",
                        "submits a run: the body is its configuration",
                        &configuration, "submitted", "201",
                        "the run is in the queue", NULL, NULL, "submit_run"},
    [COMMAND_VALIDATE] = {"validate", COMMAND_BY_SERVICE, ROLE_RUN, "POST",
                          "/runs:validate",
                          "checks a configuration: all that is wrong with it",
                          &configuration, "checked", "200", "all that is wrong",
                          NULL, NULL, "validate_configuration"},
    [COMMAND_PAUSE] = {"pause", COMMAND_BY_RUN, ROLE_RUN, "POST", RUN ":pause",
                       "nothing runs until it is continued", &nothing, "answer",
                       NULL, NULL, &verb_pause, NULL, "pause_run"},
    [COMMAND_CONTINUE] = {"continue", COMMAND_BY_RUN, ROLE_RUN, "POST",
                          RUN ":continue", "goes on after a pause",
                          &continue_body, "answer", NULL, NULL, &verb_continue,
                          continue_args, "continue_run"},
    [COMMAND_STOP] = {"stop", COMMAND_BY_RUN, ROLE_RUN, "POST", RUN ":stop",
                      "ends the run: a snapshot and the best model are written",
                      &nothing, "answer", NULL, NULL, &verb_stop, NULL,
                      "stop_run"},
    [COMMAND_RETUNE] = {"retune", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST",
                        RUN ":retune", "a search at the next end of an epoch",
                        &nothing, "answer", NULL, NULL, &verb_retune, NULL,
                        "retune_run"},
    [COMMAND_SNAPSHOT] = {"snapshot", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST",
                          RUN ":snapshot",
                          "a snapshot at the next end of a slice", &nothing,
                          "answer", NULL, NULL, &verb_snapshot, NULL,
                          "snapshot_run"},
    [COMMAND_LIMITS] = {"limits", COMMAND_BY_LIVE_RUN, ROLE_RUN, "PATCH", RUN,
                        "other limits: {\"stop\": {...}}", &limits, "answer",
                        NULL, NULL, &verb_limit, limits_args, "change_limits"},
    [COMMAND_FORK] = {"fork", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST",
                      BRANCH ":fork",
                      "tries a setting from there beside the training",
                      &fork_body, "answer", NULL, NULL, &verb_fork, fork_args,
                      "fork_branch"},
    [COMMAND_SUGGEST] = {"suggest", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST",
                         RUN "/trials:suggest",
                         "settings to be tried before what the searcher "
                         "proposes",
                         &suggest, "answer", NULL, NULL, &verb_suggest,
                         suggest_args, "suggest_settings"},
    [COMMAND_PROMOTE] = {"promote", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST",
                         BRANCH ":promote", "makes it what the run trains",
                         &nothing, "answer", NULL, NULL, &verb_promote,
                         branch_args, "promote_branch"},
    [COMMAND_FREE] = {"free", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST",
                      BRANCH ":free",
                      "gives a branch up that was forked by hand", &nothing,
                      "answer", NULL, NULL, &verb_free, branch_args,
                      "free_branch"},
    [COMMAND_DELETE] = {"delete", COMMAND_BY_SERVICE, ROLE_RUN, "DELETE", RUN,
                        "forgets a run that has ended or waits, with its "
                        "folder",
                        &nothing, "answer", NULL, NULL, NULL, NULL,
                        "delete_run"},
    [COMMAND_NOTE] = {"note", COMMAND_BY_SERVICE, ROLE_RUN, "PATCH",
                      RUN "/notes", "other tags of a run, another note",
                      &notes_body, "answer", "200", "they are on the disk",
                      NULL, NULL, "annotate_run"},
    [COMMAND_READ] = {"read", COMMAND_BY_LIVE_RUN, ROLE_READ, "GET", ROW,
                      "rows of a table, as they are now", NULL, "rows", NULL,
                      NULL, NULL, read_args, "read_rows"},
    [COMMAND_ADD] = {"inc", COMMAND_BY_LIVE_RUN, ROLE_RUN, "POST", ROW ":inc",
                     "adds to a row, by its table's update rule", &increment,
                     "added", "200", "it is in the row", NULL, add_args,
                     "add_to_row"},
    [COMMAND_UPLOAD] = {"upload", COMMAND_BY_SERVICE, ROLE_RUN, "POST",
                        "/data/{upload}",
                        "a file for the data folder, or a piece of it", &piece,
                        "upload", "200", "it is on the disk", NULL, NULL,
                        "upload_data"},
    [COMMAND_UPLOADED] = {"uploaded", COMMAND_BY_SERVICE, ROLE_READ, "GET",
                          "/data/{upload}", "how much of a file is there", NULL,
                          "upload", NULL, NULL, NULL, NULL, "get_upload"},
    [COMMAND_WITHDRAW] = {"withdraw", COMMAND_BY_SERVICE, ROLE_RUN, "DELETE",
                          "/data/{upload}",
                          "gives up what has come of a file that is not whole",
                          &nothing, "upload", "200", "nothing of it is there",
                          NULL, NULL, "delete_upload"},
    [COMMAND_DATA] = {"data", COMMAND_BY_SERVICE, ROLE_READ, "GET", "/data",
                      "files and folders of the data folder", NULL,
                      "data_files", NULL, NULL, NULL, NULL, "list_data"},
    [COMMAND_INTERRUPT] = {.name = "interrupt", .actor = COMMAND_BY_LIVE_RUN},
};

void command_args_deinit(enum command_id command, union command_args *args)
{
    const struct json_field *fields = command_of(command)->args;

    assert(args);
    if (fields)
        fields_deinit(fields, args);
}

const struct command *command_of(enum command_id id)
{
    assert((unsigned)id < COMMAND_COUNT && commands[id].name);
    return &commands[id];
}

enum command_id command_id_of(const struct command *c)
{
    assert(c >= commands && c < commands + COMMAND_COUNT);
    return (enum command_id)(c - commands);
}

const struct command *command_of_verb(const char *name)
{
    assert(name);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].verb && strcmp(commands[i].verb->name, name) == 0)
            return &commands[i];
    return NULL;
}

bool command_is_on(const struct command *c, const char *resource)
{
    size_t n = strlen(resource);

    assert(resource[0] == '/');
    return c->path && strncmp(c->path, resource, n) == 0 &&
           (c->path[n] == '\0' || c->path[n] == ':');
}
