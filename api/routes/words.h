/* Words: the enumerations that answers and events have members of, described
 * from the tables that name them. */
#ifndef API_WORDS_H
#define API_WORDS_H

#include <jansson.h>
#include <stdbool.h>

/* Adds the schema of each enumeration, and of each kind of event with `event`,
 * any of them, to @schemas. False: out of memory. */
bool words_add(json_t *schemas);

#endif
