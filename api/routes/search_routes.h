/* Routes for searchers outside: what a search wants to know next, what it has
 * found, and what has become of what was suggested.
 */
#ifndef API_SEARCH_ROUTES_H
#define API_SEARCH_ROUTES_H

#include "api/http/route.h"
#include "api/http/shape.h"

route_handler handle_search, handle_suggestions, handle_suggestion;

extern const struct shape search_shapes[];

#endif
