/* `mltune submit CONFIG`: puts a run into the queue of a service. */
#include "api/http/token_io.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/remote/client.h"
#include "cli/state/source.h"

#include <stdio.h>
#include <string.h>

struct submit_arguments {
    const char *state, *server, *group, *key;
    bool held, check, json;
};

static const char details[] =
    "The service is found by --server, MLTUNE_SERVER, or the state folder that "
    "it has;\nits token by MLTUNE_TOKEN or that folder. Relative paths in "
    "CONFIG "
    "start at the\nservice's data folder. CONFIG may be - for stdin. Exit code "
    "78: the configuration\nis not valid.";

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

static enum err find_service(const struct submit_arguments *a,
                             char url[CLIENT_URL_MAX],
                             char socket[FILE_PATH_MAX],
                             char token[TOKEN_LEN_MAX + 1], struct fault *f)
{
    const char *server = source_server(a->server);
    enum err err;

    socket[0] = '\0';
    if (server && strlen(server) >= CLIENT_URL_MAX)
        return fault_set(f, ERR_INVAL, "--server: too long");
    if (server)
        snprintf(url, CLIENT_URL_MAX, "%s", server);
    else if (!source_service(a->state, url, socket))
        return fault_set(f, ERR_NODE,
                         "no service has the state folder %s: begin one with "
                         "mltune serve, or name it with --server",
                         a->state);
    if (!server)
        return source_token(a->state, socket, token, f);
    err = source_named_token(a->state, url, token, f);
    if (!err && !token[0])
        source_say_no_token(a->state, url);
    return err;
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

static int say_refusal(const struct client_answer *answer)
{
    const json_t *e;
    size_t i;

    console_error("%s", text_of(answer->json, "detail"));
    json_array_foreach(json_object_get(answer->json, "errors"), i, e)
    {
        console_line(stderr, "  %s: %s", text_of(e, "pointer"),
                     text_of(e, "detail"));
    }
    switch (answer->status) {
    case 400:
    case 422:
        return EXIT_CONFIG;
    case 503:
        return EXIT_NO_SERVER;
    case 507:
        return EXIT_IO;
    default:
        return EXIT_RUN_FAILED;
    }
}

static void say_problems(const json_t *answer)
{
    const json_t *p;
    size_t i;

    json_array_foreach(json_object_get(answer, "problems"), i, p)
    {
        console_line(stderr, "  %s: %s: expected %s, found %s",
                     text_of(p, "severity"), text_of(p, "pointer"),
                     text_of(p, "expected"), text_of(p, "found"));
    }
}

static int say_answer(const struct submit_arguments *a,
                      const struct client_answer *answer)
{
    bool valid =
        !a->check || json_is_true(json_object_get(answer->json, "valid"));
    int code;

    if (answer->status >= 300)
        return say_refusal(answer);
    if (a->json) {
        code = console_json(answer->json, 0);
        return code != EXIT_DONE || valid ? code : EXIT_CONFIG;
    }
    say_problems(answer->json);
    if (a->check)
        printf("%s\n", valid ? "valid" : "not valid");
    else
        console_line(stdout, "%s: %s in group %s", text_of(answer->json, "run"),
                     text_of(answer->json, "status"),
                     text_of(answer->json, "group"));
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
    char url[CLIENT_URL_MAX], token[TOKEN_LEN_MAX + 1], target[160];
    char socket[FILE_PATH_MAX];
    struct client_request q = {.url = url,
                               .socket = socket,
                               .method = "POST",
                               .target = target,
                               .token = token,
                               .body = body,
                               .key = a->key};
    enum err err = find_service(a, url, socket, token, f);

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

int verb_submit(int argc, char **argv)
{
    struct submit_arguments a = {.state = STATE_DEFAULT};
    struct client_answer answer = {0};
    struct fault f = {0};
    const char *path;
    char *body;
    int code = parse_arguments(&a, argc, argv, &path);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    if (!group_is_fine(a.group)) {
        console_error("--group: expected 1 to 64 of a-z, 0-9 and -");
        return EXIT_USAGE;
    }
    body = read_config(path, &f);
    err = body ? ask(&a, body, &answer, &f) : ERR_IO;
    mem_free(body);
    if (err) {
        console_error("%s", f.text);
        return err == ERR_NODE || err == ERR_NOENT ? EXIT_NO_SERVER
                                                   : exit_code_of(err);
    }
    code = say_answer(&a, &answer);
    json_decref(answer.json);
    return code;
}
