/* Routes over the history of one run: trials, branches, schedule, decisions.
 *
 * The handlers are named in the table of api/service/service.c. */
#ifndef API_HISTORY_ROUTES_H
#define API_HISTORY_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

void handle_trials(const struct route_call *call, struct response *out);
void handle_trial(const struct route_call *call, struct response *out);
void handle_branches(const struct route_call *call, struct response *out);
void handle_branch(const struct route_call *call, struct response *out);
void handle_searches(const struct route_call *call, struct response *out);
void handle_epochs(const struct route_call *call, struct response *out);
void handle_schedule(const struct route_call *call, struct response *out);
void handle_slices(const struct route_call *call, struct response *out);
void handle_decisions(const struct route_call *call, struct response *out);

extern const struct shape history_shapes[];

#endif
