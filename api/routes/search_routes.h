/* Routes for searchers outside: what a search wants to know next, what it has
 * found, and what has become of what was suggested.
 */
#ifndef API_SEARCH_ROUTES_H
#define API_SEARCH_ROUTES_H

#include "api/http/route.h"

route_handler handle_search, handle_suggestions, handle_suggestion;

#endif
