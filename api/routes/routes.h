/* The table of routes: all that a server answers, in one place.
 *
 * Reads stand in it; commands (base/commands/commands.h) join it by the path
 * that they are on. Everything about a route follows from its row: matching,
 * the list at /api/v1, the description (api/routes/openapi.h).
 */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "api/http/route.h"

/* All routes, static, in the order of the list; *@n of them. Thread-safe. */
const struct route *routes_all(size_t *n);

#endif
