/* The headers of a response, in the HTTP library's form. */
#ifndef API_HEADERS_IO_H
#define API_HEADERS_IO_H

#include "api/http/response.h"

struct MHD_Response;

/* Gives @made the headers of @r (response_headers). False: out of memory; @made
 * is to be destroyed. */
bool headers_add(struct MHD_Response *made, const struct response *r);

#endif
