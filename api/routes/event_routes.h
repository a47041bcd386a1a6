/* A run's live events: as a stream, or polled. */
#ifndef API_EVENT_ROUTES_H
#define API_EVENT_ROUTES_H

#include "api/http/route.h"

enum { EVENTS_POLLED_MAX = 1000 };

/* Without `after` a stream, which the server carries on; with it, the events
 * past that number, at most EVENTS_POLLED_MAX. */
void handle_events(const struct route_call *call, struct response *out);

#endif
