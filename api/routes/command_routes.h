/* Routes that steer a run: what each asks of the run's control loop. */
#ifndef API_COMMAND_ROUTES_H
#define API_COMMAND_ROUTES_H

#include "api/http/route.h"
#include "tuner/shell/mailbox_io.h"

route_command command_pause;
route_command command_continue;
route_command command_stop;
route_command command_retune;
route_command command_snapshot;

/* POST .../branches/{branch}:fork: {"setting": {"learning_rate": 0.003},
 * "epochs": 2}, or "clocks"; 1 epoch where neither is given. */
route_command command_fork;
route_command command_promote;
route_command command_free;

/* POST .../trials:suggest: {"setting": {"learning_rate": 0.003}}, or
 * {"settings": [{...}, ...]}; {"exhausted": true} with them or alone. */
route_command command_suggest;

/* PATCH: {"stop": {"max_epochs": 50, "max_time": "10m", ...}}; null takes a
 * limit away. Members that are not there stay as they are. */
route_command command_limits;

/* What ends a run, as the configuration's `stop` has it. NULL: no memory. */
json_t *command_limits_to_json(const struct record_limits *limits);

/* The loop's answer for run @run as a response. */
void command_respond(const char *run, const struct mailbox_request *request,
                     const struct tuner_answer *answer, struct response *out);

#endif
