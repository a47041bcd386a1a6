/* The target of a request, taken apart: path segments and query parameters.
 *
 * Each is percent-decoded exactly once. Pure.
 */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "api/http/guard.h"

enum { REQUEST_SEGMENTS_MAX = 8, REQUEST_QUERY_MAX = 16 };

struct request_pair {
    const char *name, *value;
};

/* Points into itself: not to be copied by assignment. */
struct request {
    size_t segments; /* may count past REQUEST_SEGMENTS_MAX: no route is so
                      * deep */
    const char *segment[REQUEST_SEGMENTS_MAX];
    size_t pairs;
    struct request_pair pair[REQUEST_QUERY_MAX];
    char text[HEAD_TARGET_MAX + 2]; /* what the pointers lead into */
};

/* Takes @target apart (a path with an optional query, as guard_check lets it
 * pass). False: @out answers with 400 and closes: a broken percent code, one
 * for a control character, bytes that are no UTF-8, too many parameters. */
bool request_parse(const char *target, struct request *req,
                   struct response *out);

/* Value of the query parameter @name, or NULL. */
const char *request_query(const struct request *req, const char *name);

#endif
