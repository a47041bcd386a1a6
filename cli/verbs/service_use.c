#include "cli/verbs/service_use.h"

#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/remote/refusal.h"
#include "cli/state/source.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum err service_find(const char *state, const char *given,
                      struct service_place *out, struct fault *f)
{
    const char *server = source_server(given);
    enum err err;

    assert(state && out);
    out->socket[0] = '\0';
    if (server && strlen(server) >= CLIENT_URL_MAX)
        return fault_set(f, ERR_INVAL, "--server: too long");
    if (server)
        snprintf(out->url, CLIENT_URL_MAX, "%s", server);
    else if (!source_service(state, out->url, out->socket))
        return fault_set(f, ERR_NODE,
                         "no service has the state folder %s: begin one with "
                         "mltune serve, or name it with --server",
                         state);
    if (!server)
        return source_token(state, out->socket, out->token, f);
    err = source_named_token(state, out->url, out->token, f);
    if (!err && !out->token[0])
        source_say_no_token(state, out->url);
    return err;
}

const char *service_text(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

void service_say_refusal(const struct client_answer *answer)
{
    struct text said = {0};

    refusal_say(answer->status, answer->json, &said);
    console_error("%s",
                  text_lost(&said) ? "out of memory" : text_so_far(&said));
    text_deinit(&said);
}

int service_refusal(const struct client_answer *answer)
{
    service_say_refusal(answer);
    switch (answer->status) {
    case 400:
    case 422:
        return EXIT_CONFIG;
    case 503:
        return EXIT_NO_SERVER;
    case 507:
        return EXIT_IO;
    default:
        return refusal_is_ours(answer->status) ? EXIT_USAGE : EXIT_RUN_FAILED;
    }
}

int service_exit_code(enum err err)
{
    if (err == ERR_NODE || err == ERR_NOENT)
        return EXIT_NO_SERVER;
    return err == ERR_INVAL ? EXIT_USAGE : exit_code_of(err);
}
