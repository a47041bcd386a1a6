#include "api/http/headers_io.h"

#include <assert.h>

#include <microhttpd.h>

bool headers_add(struct MHD_Response *made, const struct response *r)
{
    struct response_header header[RESPONSE_HEADERS_MAX];
    size_t n = response_headers(r, header);

    assert(made);
    assert(n <= RESPONSE_HEADERS_MAX);
    for (size_t i = 0; i < n; i++)
        if (MHD_add_response_header(made, header[i].name, header[i].value) !=
            MHD_YES)
            return false;
    return true;
}
