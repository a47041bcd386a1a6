/* The desk: the box (base/commands/box_io.h) in which a service of many runs
 * gets what is written to it: new runs, and commands to runs that wait in its
 * queue or live in processes of their own. An answer is a whole response.
 */
#ifndef API_DESK_H
#define API_DESK_H

#include "api/http/response.h"
#include "base/commands/box_io.h"
#include "base/role.h"

#include <stdint.h>

enum {
    DESK_SLOTS = 64, /* requests at a time; more are refused */
    DESK_READS = 32, /* of these, to read: others always find a place */
    DESK_ID_MAX = 64,
    DESK_BY_MAX = 64,
    DESK_UPLOAD_MAX = 128 /* bytes of a file's name */
};

struct desk_request {
    enum command_id command;
    /* Who asks, as the interface calls them (api/service/service.h), and their
     * role. */
    char by[DESK_BY_MAX + 1];
    enum role role;
    char run[DESK_ID_MAX + 1];   /* "" for a new one */
    char group[DESK_ID_MAX + 1]; /* of SUBMIT; "" none was named */
    bool held;                   /* SUBMIT: not to begin until continued */
    /* UPLOAD, UPLOADED, WITHDRAW: the file's name, which is no path. UPLOAD:
     * where the piece belongs, the file's bytes (UINT64_MAX: the piece is its
     * end), and whether an upload that was begun is given up for it. */
    char upload[DESK_UPLOAD_MAX + 1];
    uint64_t offset, size;
    bool anew;
    bool upload_limited; /* UPLOAD: @by may upload so many bytes in all: */
    uint64_t upload_max;
    char key[COMMAND_KEY_MAX + 1]; /* "" none */
    char *target;                  /* owned; as it came */
    char *body;                    /* owned; JSON as it came; "" none */
    size_t len;
};

/* Releases what it owns. */
void desk_request_deinit(struct desk_request *r);

struct desk;
typedef box_ticket desk_ticket; /* 0: none */

/* Errors: ERR_NOMEM, ERR_IO. */
enum err desk_new(struct desk **out);
/* No ticket may be out. Accepts NULL. */
void desk_free(struct desk *d);

/* ---- who asks ------------------------------------------------------------ */

/* As the functions of the box; what a request owns is transferred on success.
 */
enum err desk_post(struct desk *d, struct desk_request *r, int wake_fd,
                   desk_ticket *out);
enum err desk_collect(struct desk *d, desk_ticket ticket, struct response *out);
void desk_forget(struct desk *d, desk_ticket ticket);

/* ---- the service --------------------------------------------------------- */

int desk_fd(const struct desk *d);
bool desk_take(struct desk *d, struct desk_request *out, desk_ticket *ticket);
/* @answer is transferred. */
void desk_answer(struct desk *d, desk_ticket ticket, struct response *answer);

#endif
