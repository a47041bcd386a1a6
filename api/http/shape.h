/* Shapes: what answers hold, for the description of the interface.
 *
 * A shape stands in the file whose routes answer it. It is a line of members,
 * "NAME:TYPE" with spaces between: s text, t a time, i a whole number, n a
 * number (or "nan", "inf", "-inf"), b true or false, o an object, a an array,
 * @SHAPE, [SHAPE] an array of these; a "?" behind the type: may be null; behind
 * the name: may be missing. An answer has these members and no others.
 */
#ifndef API_SHAPE_H
#define API_SHAPE_H

#include <jansson.h>

struct shape {
    const char *name;    /* NULL ends a table of shapes */
    const char *members; /* or a JSON schema, where it begins with "{" */
};

/* The members of a page of a list, behind the list itself. */
#define SHAPE_PAGE " next_page_token:s? total:i"

/* New JSON schema of @shape; NULL: out of memory. */
json_t *shape_to_schema(const struct shape *shape);

#endif
