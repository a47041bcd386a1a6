/* A client of a run's HTTP server: one request, one answer.
 *
 * By a server's Unix socket, where one is named, neither token nor TLS is
 * needed: the file's owner and mode say who may. Then the address is no way out
 * unless a certificate proves whose it is: its port may be a stranger's by now.
 * Without TLS it speaks to loopback only: a token must not go over a network in
 * the clear. A server's certificate must be for the name in its address, and of
 * an authority that the system trusts, or that --cacert or MLTUNE_CACERT names.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/fault.h"
#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>

struct addrinfo;
struct client_tls;

enum {
    CLIENT_URL_MAX = 128,
    CLIENT_ANSWER_MAX = 4 * 1024 * 1024,
    /* For the whole exchange; a run has DEADLINE_COMMAND_MS to answer. */
    CLIENT_SECONDS = DEADLINE_CLIENT_MS / 1000
};

struct client_request {
    const char *url;    /* "http://127.0.0.1:41234/", "https://example.org/" */
    const char *socket; /* Unix socket that is asked instead of an address
                         * without TLS, without the token; NULL, "": none */
    const char *method; /* "POST" */
    const char *target; /* "/api/v1/runs/x:pause" */
    const char *token;  /* NULL, "": none */
    const char *body;   /* JSON; NULL: none */
    const char *bytes;  /* [len] instead of it: any; NULL: none */
    size_t len;
    const char *key;     /* Idempotency-Key; NULL, "": none */
    const char *after;   /* Last-Event-ID; NULL: none */
    const char *headers; /* more, each with its end of line; NULL: none */
    bool public_only;    /* no address that is not public (reach.h) */
    double patience_s;   /* for the whole exchange; 0: CLIENT_SECONDS */
    /* The answer is there with its head, which any server may have sent:
     * whether it hangs up, and what its body is, matters to nobody. */
    bool head_alone;
};

struct client_answer {
    int status;
    json_t *json; /* owned; never NULL on success */
};

/* File of certificates (PEM) to trust instead of the system's; NULL:
 * MLTUNE_CACERT, else the system's. Set once by the verb, borrowed. */
extern const char *client_cacert;

/* The option of every verb that takes --server. */
#define CLIENT_CACERT_OPTION                                                   \
    {                                                                          \
        "cacert", 0, OPTION_TEXT, "FILE",                                      \
            "certificates to trust (MLTUNE_CACERT; the system's)",             \
            &client_cacert                                                     \
    }

enum client_phase {
    CLIENT_CONNECTS,
    CLIENT_GREETS, /* the handshake of TLS */
    CLIENT_SENDS,
    CLIENT_RECEIVES,
    CLIENT_DONE
};

/* An exchange that waits for nothing, for those who have other things to do:
 * opened, stepped whenever its descriptor is ready and once in a while, closed.
 * One owner thread. */
struct client_exchange {
    int fd; /* to be polled for client_events; may change in a step */
    char url[CLIENT_URL_MAX];
    enum client_phase phase;
    struct addrinfo *addresses, *address; /* owned; the one that is tried */
    bool public_only, head_alone;
    double patience_s;
    struct client_tls *tls; /* owned; NULL: without */
    char *out;              /* owned */
    size_t out_len, sent;
    struct text in;
    time_ns until;
};

/* Errors: as client_ask's; then there is nothing to close. ERR_INVAL also where
 * only public addresses are allowed, and there is none. */
enum err client_open(const struct client_request *request,
                     struct client_exchange *x, struct fault *f);

short client_events(const struct client_exchange *x);

/* On success the answer's status and body, borrowed until client_close. Errors:
 * ERR_AGAIN (not yet), else as client_ask's. */
enum err client_step(struct client_exchange *x, int *status, const char **body,
                     size_t *len, struct fault *f);

/* The whole answer: client_step until it is there, or is not. */
enum err client_wait(struct client_exchange *x, int *status, const char **body,
                     size_t *len, struct fault *f);

/* The whole number that is the answer's header @name, after client_step's
 * success; false: it has none. */
bool client_header(const struct client_exchange *x, const char *name,
                   uint64_t *out);

/* Instead of client_step, for an answer that has no end: takes what has come of
 * it, head and all, into @buffer[@size]; *@len 0: the server has hung up.
 * CLIENT_SECONDS count from the last byte. Errors: ERR_AGAIN (not yet), else as
 * client_ask's. */
enum err client_take(struct client_exchange *x, char *buffer, size_t size,
                     size_t *len, struct fault *f);

/* Ends an exchange, also one that failed. */
void client_close(struct client_exchange *x);

/* A request in one call, which waits. Errors: ERR_INVAL (the url), ERR_NODE
 * (nobody answers there, or not in time;
 * @f says which), ERR_FORMAT (what answers is no mltune), ERR_NOMEM. A name is
 * looked up before client_open returns; all else waits for nothing. */
enum err client_ask(const struct client_request *request,
                    struct client_answer *out, struct fault *f);

#endif
