/* `mltune pause|continue|stop|retune|snapshot|limit|fork|promote|free|suggest
 * RUN`: commands to a run that is under way. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/verbs/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct steer_arguments {
    struct command_options command;
    struct option_uint epochs, clocks; /* of fork */
    bool exhausted;                    /* of suggest */
};

/* The same with @body; NULL: there was no memory for it. */
static int steer_with(const struct steer_arguments *a, const char *word,
                      const char *method, const char *suffix,
                      const json_t *body)
{
    char *text = body ? json_write(body, 0) : NULL;
    int code = EXIT_RUN_FAILED;

    if (text)
        code = command_send(&a->command, word, method, suffix, text);
    else
        console_error("out of memory");
    mem_free(text);
    return code;
}

/* ---- the verbs ----------------------------------------------------------- */

enum { FORK_OPTIONS = 2, SUGGEST_OPTIONS = 1 };

/* What a verb says of itself; `n` and `option` are filled in here. */
static int parse(struct usage usage, int argc, char **argv,
                 struct steer_arguments *a, struct operands *out)
{
    const struct option_spec options[] = {
        {"exhausted", 0, OPTION_FLAG, NULL,
         "nothing follows: with searcher rest the search ends when what was "
         "suggested is tried",
         &a->exhausted},
        {"epochs", 0, OPTION_UINT, "N",
         "run to the end of so many epochs of the branch (1)", &a->epochs},
        {"clocks", 0, OPTION_UINT, "N", "run for so many clocks", &a->clocks},
        COMMAND_STATE_OPTION(a->command),
        COMMAND_SERVER_OPTION(a->command),
        CLIENT_CACERT_OPTION,
        COMMAND_JSON_OPTION(a->command),
    };
    const size_t n = sizeof(options) / sizeof(*options);
    struct option_spec own[sizeof(options) / sizeof(*options)];
    bool suggests = strcmp(usage.verb, "suggest") == 0;
    bool forks = strcmp(usage.verb, "fork") == 0;

    for (size_t i = 0; i < n; i++) {
        bool of_suggest = i < SUGGEST_OPTIONS;
        bool of_fork = !of_suggest && i < SUGGEST_OPTIONS + FORK_OPTIONS;

        if ((!of_suggest || suggests) && (!of_fork || forks))
            own[usage.n++] = options[i];
    }
    usage.option = own;
    *a = (struct steer_arguments){.command.state = STATE_DEFAULT};
    return options_parse(&usage, argc, argv, out);
}

static const char run_details[] =
    "RUN is an id, the beginning of one, or a name (its newest run). The run "
    "must be\nunder way; its token is in the state folder, or in MLTUNE_TOKEN.";

static int plain(const char *verb, const char *summary, int argc, char **argv)
{
    struct steer_arguments a;
    struct operands operands;
    char suffix[16];
    int code = parse((struct usage){.verb = verb,
                                    .operands = "RUN",
                                    .summary = summary,
                                    .details = run_details,
                                    .operands_min = 1,
                                    .operands_max = 1},
                     argc, argv, &a, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    snprintf(suffix, sizeof(suffix), ":%s", verb);
    return command_send(&a.command, operands.item[0], "POST", suffix, NULL);
}

int verb_pause(int argc, char **argv)
{
    return plain("pause", "run nothing until `mltune continue`", argc, argv);
}

int verb_continue(int argc, char **argv)
{
    return plain("continue", "go on with a run that is paused", argc, argv);
}

int verb_stop(int argc, char **argv)
{
    return plain("stop", "end a run: its best model is written first", argc,
                 argv);
}

int verb_retune(int argc, char **argv)
{
    return plain("retune", "search again at the next end of an epoch", argc,
                 argv);
}

int verb_snapshot(int argc, char **argv)
{
    return plain("snapshot", "write a snapshot now", argc, argv);
}

/* "NAME=VALUE" into @o: VALUE is JSON, else a text; @none is null. */
static int add_pair(json_t *o, const char *word, const char *none,
                    const char *example)
{
    const char *equals = strchr(word, '=');
    const char *value = equals ? equals + 1 : "";
    char name[64];
    json_t *json = NULL;

    if (!equals || equals == word || (size_t)(equals - word) >= sizeof(name)) {
        console_error("\"%.100s\": expected NAME=VALUE, such as %s", word,
                      example);
        return EXIT_USAGE;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    if (json_object_get(o, name)) {
        console_error("%s: given twice", name);
        return EXIT_USAGE;
    }
    if (none && strcmp(value, none) == 0)
        json = json_null();
    else if (json_load(value, strlen(value), &json, NULL, NULL) != ERR_OK)
        json = json_string(value);
    if (json_object_set_new(o, name, json) == 0)
        return EXIT_DONE;
    console_error("%.100s: expected a text in UTF-8", word);
    return EXIT_USAGE;
}

static const char limit_details[] =
    "NAME is max_time, max_epochs, plateau_epochs, target_loss or "
    "target_metric, VALUE as\nin the configuration's `stop`: 10m, 50, 0.98; "
    "none takes one of max_time and the\ntargets away. RUN is an id, the "
    "beginning of one, or a name (its newest run).";

int verb_limit(int argc, char **argv)
{
    struct steer_arguments a;
    struct operands operands;
    json_t *stop, *whole;
    int code = parse(
        (struct usage){.verb = "limit",
                       .operands = "RUN NAME=VALUE...",
                       .summary = "change what ends a run while it goes on",
                       .details = limit_details,
                       .operands_min = 2,
                       .operands_max = OPERANDS_MAX},
        argc, argv, &a, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    stop = json_object();
    code = EXIT_DONE;
    for (size_t i = 1; i < operands.len && code == EXIT_DONE; i++)
        code = add_pair(stop, operands.item[i], "none", "max_epochs=50");
    whole = json_pack("{s:o}", "stop", stop);
    if (code == EXIT_DONE)
        code = steer_with(&a, operands.item[0], "PATCH", "", whole);
    json_decref(whole);
    return code;
}

/* ---- branches ------------------------------------------------------------ */

/* "/branches/7:fork"; false: said what is wrong. */
static bool branch_suffix(const char *word, const char *verb, char out[64])
{
    char *end;
    unsigned long number = strtoul(word, &end, 10);

    if (word[0] < '0' || word[0] > '9' || *end || number > 0xfffffffeul) {
        console_error("\"%.100s\": expected the number of a branch, as `mltune "
                      "branches RUN` lists them",
                      word);
        return false;
    }
    snprintf(out, 64, "/branches/%lu:%s", number, verb);
    return true;
}

static int on_branch(const char *verb, const char *summary, int argc,
                     char **argv)
{
    struct steer_arguments a;
    struct operands operands;
    char suffix[64];
    int code = parse((struct usage){.verb = verb,
                                    .operands = "RUN BRANCH",
                                    .summary = summary,
                                    .details = run_details,
                                    .operands_min = 2,
                                    .operands_max = 2},
                     argc, argv, &a, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (!branch_suffix(operands.item[1], verb, suffix))
        return EXIT_USAGE;
    return command_send(&a.command, operands.item[0], "POST", suffix, NULL);
}

int verb_promote(int argc, char **argv)
{
    return on_branch("promote", "make a branch what the run trains", argc,
                     argv);
}

int verb_free(int argc, char **argv)
{
    return on_branch("free", "give up a branch that was forked by hand", argc,
                     argv);
}

static const char fork_details[] =
    "BRANCH is a number of `mltune branches RUN`. NAME=VALUE are tunables in "
    "which the\nfork differs from it. It runs beside the training, then waits "
    "for `mltune promote`\nor `mltune free`. RUN is an id, the beginning of "
    "one, or a name (its newest run).";

static json_t *fork_body(const struct steer_arguments *a, json_t *setting)
{
    json_t *o = json_pack("{s:O}", "setting", setting);

    if (a->epochs.given)
        json_object_set_new(o, "epochs",
                            json_integer((json_int_t)a->epochs.value));
    if (a->clocks.given)
        json_object_set_new(o, "clocks",
                            json_integer((json_int_t)a->clocks.value));
    return o;
}

int verb_fork(int argc, char **argv)
{
    struct steer_arguments a;
    struct operands operands;
    json_t *setting, *body = NULL;
    char suffix[64];
    int code = parse(
        (struct usage){.verb = "fork",
                       .operands = "RUN BRANCH [NAME=VALUE...]",
                       .summary = "try a setting from a branch, beside the "
                                  "training",
                       .details = fork_details,
                       .operands_min = 2,
                       .operands_max = OPERANDS_MAX},
        argc, argv, &a, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (!branch_suffix(operands.item[1], "fork", suffix))
        return EXIT_USAGE;
    setting = json_object();
    code = EXIT_DONE;
    for (size_t i = 2; i < operands.len && code == EXIT_DONE; i++)
        code = add_pair(setting, operands.item[i], NULL, "learning_rate=0.01");
    if (code == EXIT_DONE) {
        body = fork_body(&a, setting);
        code = steer_with(&a, operands.item[0], "POST", suffix, body);
    }
    json_decref(body);
    json_decref(setting);
    return code;
}

/* ---- suggestions --------------------------------------------------------- */

static const char suggest_details[] =
    "NAME=VALUE are tunables; those that are left out have the value in use. "
    "It is tried\nin the search that is open, or the next one, before what "
    "the searcher proposes.\nRUN is an id, the beginning of one, or a name "
    "(its newest run).";

static json_t *suggest_body(const struct steer_arguments *a, json_t *setting)
{
    json_t *o = json_object();

    if (json_object_size(setting) > 0)
        json_object_set(o, "setting", setting);
    if (a->exhausted)
        json_object_set_new(o, "exhausted", json_true());
    return o;
}

int verb_suggest(int argc, char **argv)
{
    struct steer_arguments a;
    struct operands operands;
    json_t *setting, *body = NULL;
    int code =
        parse((struct usage){.verb = "suggest",
                             .operands = "RUN [NAME=VALUE...]",
                             .summary = "have a setting tried in the search",
                             .details = suggest_details,
                             .operands_min = 1,
                             .operands_max = OPERANDS_MAX},
              argc, argv, &a, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (operands.len < 2 && !a.exhausted) {
        console_error("nothing is suggested: expected NAME=VALUE, such as "
                      "learning_rate=0.01, or --exhausted");
        return EXIT_USAGE;
    }
    setting = json_object();
    code = EXIT_DONE;
    for (size_t i = 1; i < operands.len && code == EXIT_DONE; i++)
        code = add_pair(setting, operands.item[i], NULL, "learning_rate=0.01");
    if (code == EXIT_DONE) {
        body = suggest_body(&a, setting);
        code =
            steer_with(&a, operands.item[0], "POST", "/trials:suggest", body);
    }
    json_decref(body);
    json_decref(setting);
    return code;
}
