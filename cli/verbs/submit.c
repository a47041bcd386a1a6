/* `mltune submit CONFIG`: puts a run into the queue of a service, or of Slurm.
 */
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/source.h"
#include "cli/verbs/service_use.h"
#include "cli/verbs/submit_slurm.h"

#include <stdio.h>
#include <string.h>

struct submit_arguments {
    const char *state, *server, *group, *key;
    bool held, check, json;
    /* Of an engine's queue. */
    const char *launcher, *time, *partition;
    struct option_uint nodes;
    struct option_list sbatch;
    bool print;
};

static const char details[] =
    "The service is found by --server, MLTUNE_SERVER, or the state folder that "
    "it has;\nits token by MLTUNE_TOKEN or that folder. Relative paths in "
    "CONFIG "
    "start at the\nservice's data folder. CONFIG may be - for stdin. Exit code "
    "78: the configuration\nis not valid.\nWith --launcher slurm it is a batch "
    "job of Slurm's: a node on each of its hosts, all\nwith the state folder "
    "on a file system that they share. What Slurm starts again goes\non from "
    "its last snapshot, on as many hosts as it has then.";

static int parse_arguments(struct submit_arguments *a, int argc, char **argv,
                           const char **config)
{
    const struct option_spec options[] = {
        STATE_OPTION(a->state),
        {"server", 0, OPTION_TEXT, "URL", "the service (MLTUNE_SERVER)",
         &a->server},
        CLIENT_CACERT_OPTION,
        {"group", 0, OPTION_TEXT, "NAME",
         "groups take turns in the queue (the run's name)", &a->group},
        {"held", 0, OPTION_FLAG, NULL, "not to begin before mltune continue",
         &a->held},
        {"key", 0, OPTION_TEXT, "TEXT",
         "submitted again with the same key it is the same run", &a->key},
        {"check", 0, OPTION_FLAG, NULL,
         "only ask the service whether it would take it", &a->check},
        {"launcher", 0, OPTION_TEXT, "slurm",
         "as a batch job of Slurm's, not to a service", &a->launcher},
        {"nodes", 0, OPTION_UINT, "N",
         "slurm: hosts of the job, each with a node (cluster.nodes)",
         &a->nodes},
        {"time", 0, OPTION_TEXT, "TIME",
         "slurm: time limit, as sbatch takes it; two minutes before it a "
         "snapshot is written",
         &a->time},
        {"partition", 0, OPTION_TEXT, "NAME", "slurm: partition of the job",
         &a->partition},
        {"sbatch", 0, OPTION_LIST, "OPTION",
         "slurm: another option of the job, as --sbatch=--mem=8G", &a->sbatch},
        {"print", 0, OPTION_FLAG, NULL,
         "slurm: only print the job's script, for sbatch", &a->print},
        {"json", 0, OPTION_FLAG, NULL, "the answer as one JSON object",
         &a->json},
    };
    const struct usage usage = {
        .verb = "submit",
        .operands = "CONFIG",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code == OPTIONS_GO_ON)
        *config = operands_at(&operands, 0);
    return code;
}

static void say_problems(const json_t *answer)
{
    const json_t *p;
    size_t i;

    json_array_foreach(json_object_get(answer, "problems"), i, p)
    {
        console_line(stderr, "  %s: %s: expected %s, found %s",
                     service_text(p, "severity"), service_text(p, "pointer"),
                     service_text(p, "expected"), service_text(p, "found"));
    }
}

static int say_answer(const struct submit_arguments *a,
                      const struct client_answer *answer)
{
    bool valid =
        !a->check || json_is_true(json_object_get(answer->json, "valid"));
    int code;

    if (answer->status >= 300)
        return service_refusal(answer);
    if (a->json) {
        code = console_json(answer->json, 0);
        return code != EXIT_DONE || valid ? code : EXIT_CONFIG;
    }
    say_problems(answer->json);
    if (a->check)
        printf("%s\n", valid ? "valid" : "not valid");
    else
        console_line(stdout, "%s: %s in group %s",
                     service_text(answer->json, "run"),
                     service_text(answer->json, "status"),
                     service_text(answer->json, "group"));
    return valid ? EXIT_DONE : EXIT_CONFIG;
}

/* All of the file @path ("-": stdin); owned by the caller. */
static char *read_config(const char *path, struct fault *f)
{
    char *text = NULL;
    size_t len;
    bool is_stdin = strcmp(path, "-") == 0;

    if (file_read(is_stdin ? "/dev/stdin" : path, JSON_TEXT_MAX, &text, &len,
                  f) != ERR_OK)
        return NULL;
    return text;
}

static enum err ask(const struct submit_arguments *a, const char *body,
                    struct client_answer *answer, struct fault *f)
{
    struct service_place s;
    char target[160];
    struct client_request q = {.url = s.url,
                               .socket = s.socket,
                               .method = "POST",
                               .target = target,
                               .token = s.token,
                               .body = body,
                               .key = a->key};
    enum err err = service_find(a->state, a->server, &s, f);

    if (err)
        return err;
    if (a->check)
        snprintf(target, sizeof(target), "/api/v1/runs:validate");
    else
        snprintf(target, sizeof(target), "/api/v1/runs?held=%s%s%s",
                 a->held ? "true" : "false", a->group ? "&group=" : "",
                 a->group ? a->group : "");
    return client_ask(&q, answer, f);
}

/* Goes into the address as it is. */
static bool group_is_fine(const char *group)
{
    return !group || run_id_valid(group);
}

/* An option that is given and belongs to the other kind of queue, or NULL. */
static const char *stray_option(const struct submit_arguments *a)
{
    const struct {
        const char *name;
        bool given, of_engine;
    } option[] = {
        {"server", a->server != NULL, false},
        {"group", a->group != NULL, false},
        {"key", a->key != NULL, false},
        {"held", a->held, false},
        {"check", a->check, false},
        {"nodes", a->nodes.given, true},
        {"time", a->time != NULL, true},
        {"partition", a->partition != NULL, true},
        {"sbatch", a->sbatch.len > 0, true},
        {"print", a->print, true},
    };

    for (size_t i = 0; i < sizeof(option) / sizeof(*option); i++)
        if (option[i].given && option[i].of_engine != (a->launcher != NULL))
            return option[i].name;
    return NULL;
}

static int check_options(const struct submit_arguments *a)
{
    const char *stray = stray_option(a);

    if (a->launcher && strcmp(a->launcher, "slurm") != 0)
        console_error("--launcher: expected slurm");
    else if (stray)
        console_error(a->launcher ? "--%s is for a service, not for Slurm"
                                  : "--%s needs --launcher slurm",
                      stray);
    else if (!group_is_fine(a->group))
        console_error("--group: expected 1 to 64 of a-z, 0-9 and -");
    else
        return OPTIONS_GO_ON;
    return EXIT_USAGE;
}

static int to_slurm(const struct submit_arguments *a, const char *config)
{
    const struct submit_slurm s = {.config = config,
                                   .state = a->state,
                                   .nodes = a->nodes,
                                   .time = a->time,
                                   .partition = a->partition,
                                   .more = &a->sbatch,
                                   .print = a->print,
                                   .json = a->json};

    return submit_slurm(&s);
}

int verb_submit(int argc, char **argv)
{
    struct submit_arguments a = {.state = STATE_DEFAULT};
    struct client_answer answer = {0};
    struct fault f = {0};
    const char *path;
    char *body;
    int code = parse_arguments(&a, argc, argv, &path);
    enum err err;

    if (code == OPTIONS_GO_ON)
        code = check_options(&a);
    if (code != OPTIONS_GO_ON)
        return code;
    if (a.launcher)
        return to_slurm(&a, path);
    body = read_config(path, &f);
    err = body ? ask(&a, body, &answer, &f) : ERR_IO;
    mem_free(body);
    if (err) {
        console_error("%s", f.text);
        return service_exit_code(err);
    }
    code = say_answer(&a, &answer);
    json_decref(answer.json);
    return code;
}
