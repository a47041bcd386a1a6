/* Routes that steer a run: what each asks of the run's control loop. */
#ifndef API_COMMAND_ROUTES_H
#define API_COMMAND_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"
#include "tuner/shell/mailbox_io.h"

/* The route of command @id; @params: those of its resource, which it has where
 * it has none of its own. */
struct route command_route(enum command_id id,
                           const struct route_param *params);

/* The limits that end a run, as the configuration's `stop` has them. NULL: no
 * memory. */
json_t *command_limits_to_json(const struct record_limits *limits);

/* The loop's answer for run @run as a response. */
void command_respond(const char *run, const struct mailbox_request *request,
                     const struct tuner_answer *answer, struct response *out);

extern const struct shape command_shapes[];

#endif
