/* The interface described as OpenAPI 3.1, from the table that routes requests:
 * what is not in the table is not in the description, and the reverse. */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include "api/http/route.h"

/* New document about @table[n]; NULL: out of memory. */
json_t *openapi_document(const struct route table[], size_t n);

#endif
