/* Routes over the nodes of one run: what each holds, has sent and has read; and
 * that over time.
 *
 * The handlers are named in the table of api/service/service.c. */
#ifndef API_NODE_ROUTES_H
#define API_NODE_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

enum { TRAFFIC_POINTS_DEFAULT = 256 };

void handle_nodes(const struct route_call *call, struct response *out);
void handle_traffic(const struct route_call *call, struct response *out);

extern const struct shape node_shapes[];

#endif
