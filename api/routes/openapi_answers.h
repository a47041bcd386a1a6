/* What answers hold, for the description of the interface.
 *
 * A shape is a line of members, "NAME:TYPE" with spaces between: s text, t a
 * time, i a whole number, n a number (or "nan", "inf", "-inf"), b true or
 * false, o an object, a an array, @SHAPE, [SHAPE] an array of these; a "?"
 * behind it: may be null. Every member is there; there may be more.
 */
#ifndef API_OPENAPI_ANSWERS_H
#define API_OPENAPI_ANSWERS_H

#include "api/http/route.h"

/* Name of the schema of what @route answers where all is well; NULL: it is not
 * JSON, or has no shape of its own. */
const char *openapi_answer_of(const struct route *route);

/* Adds the schemas to @schemas by name. False: out of memory. */
bool openapi_add_answers(json_t *schemas);

#endif
