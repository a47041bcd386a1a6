/* Routes about the program itself: version, health, what is built in, and the
 * dashboard. */
#ifndef API_ABOUT_ROUTES_H
#define API_ABOUT_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

void handle_healthz(const struct route_call *call, struct response *out);
void handle_readyz(const struct route_call *call, struct response *out);
void handle_version(const struct route_call *call, struct response *out);
void handle_me(const struct route_call *call, struct response *out);
void handle_schema(const struct route_call *call, struct response *out);
void handle_apps(const struct route_call *call, struct response *out);
void handle_searchers(const struct route_call *call, struct response *out);
void handle_strategies(const struct route_call *call, struct response *out);

void handle_page(const struct route_call *call, struct response *out);
void handle_web(const struct route_call *call, struct response *out);

extern const struct shape about_shapes[];

#endif
