/* The service: from a request's head to its response, without sockets.
 *
 * The guard, the taking apart of the target and the table of routes in one
 * call; what the server runs for each request, and what tests and the fuzzer
 * run without a server. Pure but for the view's lock.
 */
#ifndef API_SERVICE_H
#define API_SERVICE_H

#include "api/guard.h"
#include "api/response.h"
#include "api/view.h"

/* True when @head may be answered by service_respond; else @out holds the
 * refusal and the connection is to be closed after it. */
bool service_accept(const struct head *head, const struct listen_address *self,
                    struct response *out);

/* Answers an accepted request for @method and @target. */
void service_respond(struct view *view, const char *method, const char *target,
                     struct response *out);

#endif
