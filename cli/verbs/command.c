#include "cli/verbs/command.h"

#include "api/http/token_io.h"
#include "base/clock_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/remote/client.h"
#include "cli/remote/refusal.h"
#include "cli/state/address_io.h"
#include "cli/state/replay.h"
#include "cli/state/serve.h"
#include "cli/state/source.h"
#include "cli/verbs/service_use.h"
#include "tuner/shell/state_io.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    URL_WAIT_S = 5,   /* a run that has just begun reads its journal first */
    URL_LOOK_MS = 20, /* between looks */
};

/* Address of a run's server, and what it wants to hear. */
struct target {
    char id[RUN_ID_MAX + 1];
    char status[RECORD_NAME_MAX]; /* of one that has ended */
    char url[CLIENT_URL_MAX];
    char socket[FILE_PATH_MAX]; /* "": it has none, or was named */
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
    if (strcmp(t->status, "finished") == 0)
        return fault_set(
            f, ERR_INVAL,
            "run %s is not running: it ended as finished; " REPLAY_TRAIN_LONGER,
            t->id);
    if (t->status[0])
        return fault_set(f, ERR_INVAL, "run %s is not running: it ended as %s",
                         t->id, t->status);
    return fault_set(f, ERR_INVAL,
                     "run %s is not running: its tuner was killed; mltune "
                     "resume %s goes on with it",
                     t->id, t->id);
}

/* Waits for the address in the file @path, while the run lives. */
static enum err wait_for_url(const char *state, const char *path,
                             struct target *t, struct fault *f)
{
    static const struct timespec nap = {.tv_nsec = URL_LOOK_MS * 1000000L};
    time_ns until = clock_monotonic() + URL_WAIT_S * 1000000000LL;
    struct fault why = {0};
    bool has = true;

    while (address_read(path, t->url, &has, &why) != ERR_OK) {
        if (!run_folder_alive(state, t->id) || clock_monotonic() > until)
            return fault_set(f, ERR_NODE,
                             "run %s is only beginning, or about to end: it "
                             "has no server now",
                             t->id);
        nanosleep(&nap, NULL);
    }
    if (!has)
        t->socket[0] = '\0';
    return ERR_OK;
}

static enum err read_url(const char *state, struct target *t, struct fault *f)
{
    char path[FILE_PATH_MAX], name[RUN_ID_MAX + 24];
    enum err err;

    if (!run_id_valid(t->id))
        return fault_set(f, ERR_FORMAT, "run \"%s\" has no valid id", t->id);
    if (!run_folder_alive(state, t->id))
        return not_running(t, f);
    snprintf(name, sizeof(name), "runs/%s/url", t->id);
    err = file_join(path, state, name, f);
    snprintf(name, sizeof(name), "runs/%s/" RUN_SOCKET, t->id);
    if (!err)
        err = file_join(t->socket, state, name, f);
    return err ? err : wait_for_url(state, path, t, f);
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
    if (!err && !source_service(path, t->url, t->socket))
        err = read_url(path, t, f);
    return err ? err : source_token(path, t->socket, t->token, f);
}

/* At a server that was named there may be no state folder to ask: RUN is an
 * id, the token the environment's or the folder's. */
static enum err find_at_server(const struct command_options *c,
                               const char *server, const char *word,
                               struct target *t, struct fault *f)
{
    enum err err;

    if (!run_id_valid(word))
        return fault_set(f, ERR_INVAL, "with --server RUN is a run's whole id");
    if (strlen(server) >= sizeof(t->url))
        return fault_set(f, ERR_INVAL, "--server: too long");
    snprintf(t->id, sizeof(t->id), "%s", word);
    snprintf(t->url, sizeof(t->url), "%s", server);
    err = source_named_token(c->state, server, t->token, f);
    if (!err && !t->token[0])
        source_say_no_token(c->state, server);
    return err;
}

static enum err find(const struct command_options *c, const char *word,
                     struct target *t, struct fault *f)
{
    const char *server = source_server(c->server);

    *t = (struct target){.id = ""};
    return server ? find_at_server(c, server, word, t, f)
                  : find_in_state(c->state, word, t, f);
}

/* ---- answers ------------------------------------------------------------- */

/* No such run, or one that is over, is the user's to see; nobody is missing. */
static int exit_code_at(enum err err)
{
    switch (err) {
    case ERR_NODE:
        return EXIT_NO_SERVER;
    case ERR_NOENT:
    case ERR_INVAL:
        return EXIT_USAGE;
    default:
        return exit_code_of(err);
    }
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *s = json_string_value(json_object_get(json, name));

    return s ? s : "";
}

static int say_refusal(const struct client_answer *answer)
{
    service_say_refusal(answer);
    if (refusal_is_ours(answer->status))
        return EXIT_USAGE;
    return answer->status == 503 ? EXIT_NO_SERVER : EXIT_RUN_FAILED;
}

static int say_answer(const struct client_answer *answer, bool json)
{
    if (answer->status >= 300)
        return say_refusal(answer);
    if (!json) {
        console_line(stdout, "%s: %s", text_of(answer->json, "run"),
                     text_of(answer->json, "message"));
        return EXIT_DONE;
    }
    return console_json(answer->json, 0);
}

int command_send(const struct command_options *c, const char *word,
                 const char *method, const char *suffix, const char *body)
{
    char path[RUN_ID_MAX + 64];
    struct target t;
    struct fault f = {0};
    struct client_answer answer = {0};
    enum err err = find(c, word, &t, &f);
    int code;

    if (!err) {
        snprintf(path, sizeof(path), "/api/v1/runs/%s%s", t.id, suffix);
        err = client_ask(&(struct client_request){.url = t.url,
                                                  .socket = t.socket,
                                                  .method = method,
                                                  .target = path,
                                                  .token = t.token,
                                                  .body = body},
                         &answer, &f);
    }
    if (err) {
        console_error("%s", f.text);
        return exit_code_at(err);
    }
    code = say_answer(&answer, c->json);
    json_decref(answer.json);
    return code;
}
