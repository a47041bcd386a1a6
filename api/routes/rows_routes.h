/* Routes of the parameter server itself: tables, and their rows.
 *
 * What tables there are is in a run's history; rows are where the run trains:
 * reading them, too, is asked of the run, and answered when its training system
 * has.
 */
#ifndef API_ROWS_ROUTES_H
#define API_ROWS_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"
#include "base/proto/proto.h"
#include "tuner/shell/mailbox_io.h"

enum { ROWS_COUNT_MAX = PROTO_ROWS_MAX };

/* GET /tables?run= */
route_handler handle_tables;

/* GET /tables/{table}/rows/{row}?run=&branch=&count=&offset=&values= */
extern const struct route_param read_params[];
route_command take_read;

/* POST /tables/{table}/rows/{row}:inc?run=: {"values": [...], "branch": 3}, a
 * whole row; with "offset", the values from there on, and 0 for the others. */
extern const struct route_param add_params[];
route_command take_add;

/* The run's answer to @request (READ, ADD; not refused), as a response. */
void rows_respond(const char *run, const struct mailbox_request *request,
                  const struct tuner_answer *answer, struct response *out);

extern const struct shape rows_shapes[];

#endif
