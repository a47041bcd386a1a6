/* Routes that give a service new runs, and what its desk gets of any write. */
#ifndef API_SUBMIT_ROUTES_H
#define API_SUBMIT_ROUTES_H

#include "api/http/route.h"
#include "api/view/desk.h"

/* POST /runs, POST /runs:validate: the body is a configuration, an object; what
 * is in it is checked by the service. Refused by a server that holds one run.
 */
route_command command_submit;
route_command command_validate;

/* DELETE /runs/{run}: of one that has ended, or waits, also one that is not
 * listed. Refused by a server that holds one run. */
route_command command_delete;

/* Gives @r the parameters of a submission; other commands have none. */
void submit_fill(const struct route_call *call, struct desk_request *r);

#endif
