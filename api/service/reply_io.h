/* Replies: responses in the HTTP library's form, and those that are kept.
 *
 * What was answered to a target is given again as long as the view's version
 * stays. One owner thread.
 */
#ifndef API_REPLY_IO_H
#define API_REPLY_IO_H

#include "api/http/response.h"

#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

enum {
    REPLIES_KEPT = 32,
    REPLY_BODY_MAX = 256 * 1024 /* of one that is kept: at most 8 MiB in all */
};

/* The library's form of @r, whose body goes along. NULL: out of memory. */
struct MHD_Response *reply_make(struct response *r);

/* Answers with @r, whose body goes along. */
enum MHD_Result reply_send(struct MHD_Connection *connection,
                           struct response *r);

/* Answers HEAD for what comes in chunks, a stream or an export: the headers of
 * @r as HTTP/1.0 has them, and the connection ends. In HTTP/1.1 the library
 * sends the last chunk behind them, which a client takes for the beginning of
 * its next answer. */
enum MHD_Result reply_send_head(struct MHD_Connection *connection,
                                struct response *r);

/* A finished answer and the version of the view that it was made from. */
struct reply {
    char *target; /* owned; NULL: empty */
    uint64_t version;
    struct MHD_Response *response; /* one reference */
};

/* Zeroed is empty. */
struct replies {
    struct reply reply[REPLIES_KEPT]; /* by the target's hash */
};

void replies_deinit(struct replies *all);

/* The reply to @target at @version of the view, borrowed; NULL. */
struct MHD_Response *replies_find(struct replies *all, const char *target,
                                  uint64_t version);

/* Takes over the reference to @response, a body of @len bytes. */
void replies_keep(struct replies *all, const char *target, uint64_t version,
                  struct MHD_Response *response, size_t len);

#endif
