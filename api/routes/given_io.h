/* The configuration of a run as it was given, before defaults were filled in: a
 * file of the run's folder, for people to see. Only a regular file is read, and
 * no link is followed.
 */
#ifndef API_GIVEN_IO_H
#define API_GIVEN_IO_H

#include "api/http/route.h"

/* Answers GET /runs/{run}/config?form=given. Runs of before this was kept have
 * none: 404 config_not_found. */
void given_respond(const struct route_call *call, struct response *out);

#endif
