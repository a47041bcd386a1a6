#include "cli/service/forward.h"

#include "base/mem.h"
#include "cli/state/address_io.h"
#include "cli/state/serve.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct forward *free_forward(struct supervisor *s)
{
    for (size_t i = 0; i < DESK_SLOTS; i++)
        if (!s->forward[i].ticket)
            return &s->forward[i];
    return NULL;
}

/* Address and Unix socket ("": it has none) of the run's own server; false
 * while there is none. */
static bool find_server(const struct supervisor *s, const struct fleet_run *run,
                        char out[CLIENT_URL_MAX], char socket[FILE_PATH_MAX])
{
    char path[FILE_PATH_MAX], name[RUN_ID_MAX + 24];
    bool has = true;

    socket[0] = '\0';
    snprintf(name, sizeof(name), "runs/%s/url", run->id);
    if (file_join(path, s->fleet->state, name, NULL) != ERR_OK ||
        address_read(path, out, &has, NULL) != ERR_OK)
        return false;
    snprintf(name, sizeof(name), "runs/%s/" RUN_SOCKET, run->id);
    return !has || file_join(socket, s->fleet->state, name, NULL) == ERR_OK;
}

bool forward_begin(struct supervisor *s, const struct fleet_run *run,
                   const struct desk_request *r, desk_ticket ticket,
                   struct response *out)
{
    char url[CLIENT_URL_MAX], socket[FILE_PATH_MAX];
    struct forward *p = free_forward(s);
    struct fault f = {0};
    struct client_request q = {.url = url,
                               .socket = socket,
                               .method = command_of(r->command)->method,
                               .target = r->target,
                               .token = s->o->token,
                               .body = r->len ? r->body : NULL,
                               .key = r->key};

    assert(p); /* as many as the desk has places */
    if (!find_server(s, run, url, socket) ||
        client_open(&q, &p->exchange, &f) != ERR_OK) {
        response_problem(out, 409, "not_yet", NULL,
                         "run %s is only beginning, or about to end; try again",
                         run->id);
        return false;
    }
    p->ticket = ticket;
    return true;
}

/* The run's answer as ours. */
static void relay(int status, const char *body, size_t len,
                  struct response *out)
{
    char *copy = response_reason(status)[0] ? mem_alloc(len + 1) : NULL;

    if (!response_reason(status)[0]) {
        response_problem(out, 502, "no_answer", NULL,
                         "the run's own server answers %d, which is not in "
                         "this interface",
                         status);
    } else if (!copy) {
        response_json(out, 200, NULL); /* 503 */
    } else {
        memcpy(copy, body, len);
        response_text(out, status,
                      status < 300 ? "application/json"
                                   : "application/problem+json",
                      copy, len);
    }
}

void forward_collect(struct supervisor *s)
{
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct forward *p = &s->forward[i];
        struct response out = {0};
        struct fault f = {0};
        const char *body;
        size_t len;
        int status;
        enum err err;

        if (!p->ticket)
            continue;
        err = client_step(&p->exchange, &status, &body, &len, &f);
        if (err == ERR_AGAIN)
            continue;
        if (err)
            response_problem(&out, 503, "no_answer", NULL,
                             "the run has not answered (%s); it may have done "
                             "what was asked",
                             f.text);
        else
            relay(status, body, len, &out);
        client_close(&p->exchange);
        desk_answer(s->desk, p->ticket, &out);
        p->ticket = 0;
    }
}

void forward_forget(struct supervisor *s)
{
    for (size_t i = 0; i < DESK_SLOTS; i++) {
        struct forward *p = &s->forward[i];
        struct response out = {0};

        if (!p->ticket)
            continue;
        response_problem(&out, 503, "not_ready", NULL,
                         "the service ends; the run may have done what was "
                         "asked");
        client_close(&p->exchange);
        desk_answer(s->desk, p->ticket, &out);
        p->ticket = 0;
    }
}
