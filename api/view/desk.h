/* The desk: how writes reach a service that holds many runs.
 *
 * What a run's mailbox is for one run's commands, the desk is for everything
 * that is written to a service: new runs, and commands to runs that wait in its
 * queue or live in processes of their own. Bounded. The server's thread posts a
 * request and gets a ticket; the service, which waits on desk_fd among others,
 * takes it and answers with a whole response, at once or later; the server is
 * told by its own eventfd and collects. Nobody ever blocks. Thread-safe: all
 * under one lock, for no longer than a move.
 */
#ifndef API_DESK_H
#define API_DESK_H

#include "api/http/response.h"
#include "base/proto/commands.h"

#include <stdint.h>

enum {
    DESK_SLOTS = 64, /* requests at a time; more are refused */
    DESK_READS = 32, /* of these, to read: others always find a place */
    DESK_ID_MAX = 64
};

struct desk_request {
    enum command_id command;
    char run[DESK_ID_MAX + 1];     /* "" for a new one */
    char group[DESK_ID_MAX + 1];   /* of SUBMIT; "" none was named */
    bool held;                     /* SUBMIT: not to begin until continued */
    char key[COMMAND_KEY_MAX + 1]; /* "" none */
    char *target;                  /* owned; as it came */
    char *body;                    /* owned; JSON as it came; "" none */
    size_t len;
};

/* Releases what it owns. */
void desk_request_deinit(struct desk_request *r);

struct desk;
typedef uint64_t desk_ticket; /* 0: none */

/* Errors: ERR_NOMEM, ERR_IO. */
enum err desk_new(struct desk **out);
/* No ticket may be out. Accepts NULL. */
void desk_free(struct desk *d);

/* ---- who asks ------------------------------------------------------------ */

/* Posts @r (transferred on success). @wake_fd: an eventfd that is written when
 * the answer is there; it must stay open until the ticket is collected or
 * forgotten. Errors: ERR_LIMIT (DESK_SLOTS are in use). */
enum err desk_post(struct desk *d, struct desk_request *r, int wake_fd,
                   desk_ticket *out);

/* The answer of @ticket (transferred), which is then no more. Errors: ERR_AGAIN
 * not yet. */
enum err desk_collect(struct desk *d, desk_ticket ticket, struct response *out);

/* Nobody waits for it any more; it is carried out all the same. */
void desk_forget(struct desk *d, desk_ticket ticket);

/* ---- the service --------------------------------------------------------- */

/* Readable while a request waits. */
int desk_fd(const struct desk *d);

/* The oldest request that waits (transferred); false: none. Each that is taken
 * is to be answered. */
bool desk_take(struct desk *d, struct desk_request *out, desk_ticket *ticket);

/* @answer is transferred. */
void desk_answer(struct desk *d, desk_ticket ticket, struct response *answer);

#endif
