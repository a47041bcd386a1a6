/* Of `mltune doctor`: a server, seen from here. */
#include "api/http/token_io.h"
#include "base/clock_io.h"
#include "cli/remote/client.h"
#include "cli/state/source.h"
#include "cli/verbs/doctor.h"

#include <string.h>

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

/* It answers, and is one of ours. */
static bool look_at_version(struct doctor *d, const char *url)
{
    const struct client_request request = {
        .url = url, .method = "GET", .target = "/api/v1/version"};
    struct client_answer answer = {0};
    struct fault f = {0};
    time_ns began = clock_monotonic();
    enum err err = client_ask(&request, &answer, &f);

    if (err)
        doctor_say(d, DOCTOR_BAD, "server",
                   "mltune serve begins one; --server names another, --cacert "
                   "what is to be trusted",
                   "%.200s", f.text);
    else
        doctor_say(d, DOCTOR_OK, "server", "",
                   "%.80s: %.40s %.40s, answers in %.1f ms", url,
                   text_of(answer.json, "name"),
                   text_of(answer.json, "version"),
                   (double)(clock_monotonic() - began) * 1e-6);
    json_decref(answer.json);
    return !err;
}

static void look_at_readiness(struct doctor *d, const char *url)
{
    const struct client_request request = {
        .url = url, .method = "GET", .target = "/readyz"};
    struct client_answer answer = {0};
    struct fault f = {0};
    enum err err = client_ask(&request, &answer, &f);

    if (err)
        doctor_say(d, DOCTOR_BAD, "ready", "ask again", "%.200s", f.text);
    else if (answer.status == 200)
        doctor_say(d, DOCTOR_OK, "ready", "", "yes");
    else
        doctor_say(d, DOCTOR_NOTE, "ready",
                   "see to what it says, or wait until it has begun", "%.200s",
                   text_of(answer.json, "detail"));
    json_decref(answer.json);
}

/* A write that changes nothing: an empty configuration is checked. The server
 * of one run has none, and refuses that later than the token. */
static void look_at_token(struct doctor *d, const char *url)
{
    static const char advice[] =
        "MLTUNE_TOKEN, or --state: the text of the file token in the state "
        "folder of the server";
    char token[TOKEN_LEN_MAX + 1] = "";
    const struct client_request request = {.url = url,
                                           .method = "POST",
                                           .target = "/api/v1/runs:validate",
                                           .token = token,
                                           .body = "{}"};
    struct client_answer answer = {0};
    struct fault f = {0};
    enum err err = token_read(d->state, token, &f);

    if (!err)
        err = client_ask(&request, &answer, &f);
    if (err)
        doctor_say(d, DOCTOR_NOTE, "token", advice, "%.200s", f.text);
    else if (answer.status == 401 || answer.status == 403)
        doctor_say(d, DOCTOR_NOTE, "token", advice,
                   "the server refuses it: runs can be read, not steered");
    else
        doctor_say(d, DOCTOR_OK, "token", "", "taken");
    json_decref(answer.json);
    explicit_bzero(token, sizeof(token));
}

void doctor_look_at_server(struct doctor *d)
{
    const char *url = source_server(d->server);
    char found[CLIENT_URL_MAX];

    if (!url && source_service(d->state, found))
        url = found;
    if (!url || !look_at_version(d, url))
        return;
    look_at_readiness(d, url);
    look_at_token(d, url);
}
