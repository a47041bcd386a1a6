/* Commands that only a service of many runs carries out: what their requests
 * hold, and what they answer. */
#ifndef API_SUBMIT_ROUTES_H
#define API_SUBMIT_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"
#include "api/view/desk.h"

extern const struct shape submit_shapes[];

/* POST /runs, POST /runs:validate: the body is a configuration, an object; what
 * is in it is checked by the service. Refused by a server that holds one run.
 */
extern const struct route_param submit_params[];
route_command take_submission;

/* DELETE /runs/{run}: of one that has ended, or waits, also one that is not
 * listed. Refused by a server that holds one run. */
route_command take_delete, take_note;

/* GET, POST, DELETE /data/{upload}: a file of the service's data folder, by its
 * name. Refused by a server that holds one run, and for a name that is none. */
extern const struct route_param upload_params[], uploaded_params[];
route_command take_upload;

/* GET /data. Refused by a server that holds one run. */
route_command take_data;

/* Gives @r the parameters of a submission or an upload; other commands have
 * none. */
void submit_fill(const struct route_call *call, struct desk_request *r);

#endif
