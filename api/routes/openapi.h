/* The interface described as OpenAPI 3.1, from the table that routes requests:
 * what is not in the table is not in the description, and the reverse. */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include "api/http/route.h"
#include "api/http/shape.h"

/* New document about @table[n]. @shapes: tables of what answers hold, up to
 * NULL. @configuration: the schema of a run's configuration (copied); NULL: any
 * object. Returns NULL where memory is short. */
json_t *openapi_document(const struct route table[], size_t n,
                         const struct shape *const shapes[],
                         const json_t *configuration);

#endif
