/* A client of a run's HTTP server: one request, one answer.
 *
 * Speaks to loopback only: a token must not go over a network in the clear.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/fault.h"

#include <jansson.h>

enum {
    CLIENT_URL_MAX = 128,
    CLIENT_ANSWER_MAX = 4 * 1024 * 1024,
    CLIENT_SECONDS = 45 /* for the whole exchange; a run has 30 to answer */
};

struct client_request {
    const char *url;    /* "http://127.0.0.1:41234/" */
    const char *method; /* "POST" */
    const char *target; /* "/api/v1/runs/x:pause" */
    const char *token;  /* NULL: none */
    const char *body;   /* JSON; NULL: none */
};

struct client_answer {
    int status;
    json_t *json; /* owned; never NULL on success */
};

/* Errors: ERR_INVAL (the url), ERR_NODE (nobody answers there, or not in time;
 * @f says which), ERR_FORMAT (what answers is no mltune), ERR_NOMEM. */
enum err client_ask(const struct client_request *request,
                    struct client_answer *out, struct fault *f);

#endif
