/* `mltune pause|continue|stop|retune|snapshot|limit|fork|promote|free RUN`:
 * commands to a run that is under way, through the HTTP server inside it. */
#include "api/token_io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/client.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/replay.h"
#include "cli/source.h"
#include "cli/talk.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct steer_arguments {
    const char *state, *server;
    bool json;
    struct option_uint epochs, clocks; /* of fork */
};

/* Where a run's server is, and what it wants to hear. */
struct target {
    char id[RUN_ID_MAX + 1];
    char status[RECORD_NAME_MAX]; /* of one that has ended */
    char url[CLIENT_URL_MAX];
    char token[TOKEN_LEN_MAX + 1];
};

/* ---- finding the server -------------------------------------------------- */

static enum err take_run(void *ctx, const struct journal_run *run)
{
    struct target *t = ctx;

    snprintf(t->id, sizeof(t->id), "%s", run->id);
    snprintf(t->status, sizeof(t->status), "%s",
             run->status ? run->status : "");
    return ERR_OK;
}

static enum err not_running(const struct target *t, struct fault *f)
{
    if (t->status[0])
        return fault_set(f, ERR_NODE, "run %s is not running: it ended as %s",
                         t->id, t->status);
    return fault_set(f, ERR_NODE,
                     "run %s is not running: its tuner was killed; mltune "
                     "resume %s goes on with it",
                     t->id, t->id);
}

static enum err read_url(const char *state, struct target *t, struct fault *f)
{
    char path[FILE_PATH_MAX], name[RUN_ID_MAX + 16];
    struct fault why = {0};
    char *text = NULL;
    size_t len;
    enum err err;

    if (!run_id_valid(t->id))
        return fault_set(f, ERR_FORMAT, "run \"%s\" has no valid id", t->id);
    if (!run_folder_alive(state, t->id))
        return not_running(t, f);
    snprintf(name, sizeof(name), "runs/%s/url", t->id);
    err = file_join(path, state, name, f);
    if (!err && file_read(path, sizeof(t->url) - 1, &text, &len, &why) != 0)
        err = fault_set(f, ERR_NODE,
                        "run %s is only beginning, or about to end: it has no "
                        "server now",
                        t->id);
    if (!err)
        snprintf(t->url, sizeof(t->url), "%s", text);
    mem_free(text);
    return err;
}

static enum err find_in_state(const char *state, const char *word,
                              struct target *t, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct journal *j = NULL;
    enum err err = replay_open(state, path, &j, f);

    if (err)
        return err;
    err = journal_find_run(j, word, take_run, t, f);
    journal_close(j);
    /* A service also knows what to do with runs that do not live. */
    if (!err && !source_service(path, t->url))
        err = read_url(path, t, f);
    return err ? err : token_read(path, t->token, f);
}

/* At a server that was named there may be no state folder to ask: RUN is an
 * id, the token the environment's or the folder's. */
static enum err find_at_server(const struct steer_arguments *a,
                               const char *server, const char *word,
                               struct target *t, struct fault *f)
{
    if (!run_id_valid(word))
        return fault_set(f, ERR_INVAL, "with --server RUN is a run's whole id");
    if (strlen(server) >= sizeof(t->url))
        return fault_set(f, ERR_INVAL, "--server: too long");
    snprintf(t->id, sizeof(t->id), "%s", word);
    snprintf(t->url, sizeof(t->url), "%s", server);
    return token_read(a->state, t->token, f);
}

static enum err find(const struct steer_arguments *a, const char *word,
                     struct target *t, struct fault *f)
{
    const char *server = source_server(a->server);

    *t = (struct target){.id = ""};
    return server ? find_at_server(a, server, word, t, f)
                  : find_in_state(a->state, word, t, f);
}

/* ---- answers ------------------------------------------------------------- */

static int exit_code_at(enum err err)
{
    if (err == ERR_NODE || err == ERR_NOENT)
        return EXIT_NO_SERVER;
    return exit_code_of(err);
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *s = json_string_value(json_object_get(json, name));

    return s ? s : "";
}

static int say_refusal(const struct client_answer *answer)
{
    const json_t *errors = json_object_get(answer->json, "errors");
    const json_t *e;
    size_t i;

    talk_error("%s", text_of(answer->json, "detail"));
    json_array_foreach(errors, i, e) fprintf(
        stderr, "  %s: %s\n", text_of(e, "pointer"), text_of(e, "detail"));
    if (answer->status == 422 || answer->status == 400)
        return EXIT_USAGE;
    return answer->status == 503 ? EXIT_NO_SERVER : EXIT_RUN_FAILED;
}

static int say_answer(const struct client_answer *answer, bool json)
{
    char *text;

    if (answer->status >= 300)
        return say_refusal(answer);
    if (!json) {
        printf("%s: %s\n", text_of(answer->json, "run"),
               text_of(answer->json, "message"));
        return EXIT_DONE;
    }
    text = json_write(answer->json, 0);
    if (text)
        printf("%s\n", text);
    mem_free(text);
    return text ? EXIT_DONE : EXIT_RUN_FAILED;
}

/* Sends @method to run @word, its path ending in @suffix. */
static int steer(const struct steer_arguments *a, const char *word,
                 const char *method, const char *suffix, const char *body)
{
    char path[RUN_ID_MAX + 64];
    struct target t;
    struct fault f = {0};
    struct client_answer answer = {0};
    enum err err = find(a, word, &t, &f);
    int code;

    if (!err) {
        snprintf(path, sizeof(path), "/api/v1/runs/%s%s", t.id, suffix);
        err = client_ask(&(struct client_request){.url = t.url,
                                                  .method = method,
                                                  .target = path,
                                                  .token = t.token,
                                                  .body = body},
                         &answer, &f);
    }
    if (err) {
        talk_error("%s", f.text);
        return exit_code_at(err);
    }
    code = say_answer(&answer, a->json);
    json_decref(answer.json);
    return code;
}

/* The same with @body; NULL: there was no memory for it. */
static int steer_with(const struct steer_arguments *a, const char *word,
                      const char *method, const char *suffix,
                      const json_t *body)
{
    char *text = body ? json_write(body, 0) : NULL;
    int code = EXIT_RUN_FAILED;

    if (text)
        code = steer(a, word, method, suffix, text);
    else
        talk_error("out of memory");
    mem_free(text);
    return code;
}

/* ---- the verbs ----------------------------------------------------------- */

enum { FORK_OPTIONS = 2 };

/* What a verb says of itself; `n` and `option` are filled in here. */
static int parse(struct usage usage, int argc, char **argv,
                 struct steer_arguments *a, struct operands *out)
{
    const struct option_spec options[] = {
        {"epochs", 0, OPTION_UINT, "N",
         "run to the end of so many epochs of the branch (1)", &a->epochs},
        {"clocks", 0, OPTION_UINT, "N", "run for so many clocks", &a->clocks},
        {"state", 0, OPTION_TEXT, "DIR", "state folder (" STATE_DEFAULT ")",
         &a->state},
        {"server", 0, OPTION_TEXT, "URL",
         "the run's server; RUN is then its id (MLTUNE_SERVER, or found in the "
         "state folder)",
         &a->server},
        CLIENT_CACERT_OPTION,
        {"json", 0, OPTION_FLAG, NULL, "the answer as one JSON object",
         &a->json},
    };
    bool forks = strcmp(usage.verb, "fork") == 0;

    usage.option = forks ? options : options + FORK_OPTIONS;
    usage.n = sizeof(options) / sizeof(*options) - (forks ? 0 : FORK_OPTIONS);
    *a = (struct steer_arguments){.state = STATE_DEFAULT};
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
    return steer(&a, operands.item[0], "POST", suffix, NULL);
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
        talk_error("\"%.100s\": expected NAME=VALUE, such as %s", word,
                   example);
        return EXIT_USAGE;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    if (json_object_get(o, name)) {
        talk_error("%s: given twice", name);
        return EXIT_USAGE;
    }
    if (none && strcmp(value, none) == 0)
        json = json_null();
    else if (json_load(value, strlen(value), &json, NULL, NULL) != ERR_OK)
        json = json_string(value);
    if (json_object_set_new(o, name, json) == 0)
        return EXIT_DONE;
    talk_error("%.100s: expected a text in UTF-8", word);
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
        talk_error("\"%.100s\": expected the number of a branch, as `mltune "
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
    return steer(&a, operands.item[0], "POST", suffix, NULL);
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
