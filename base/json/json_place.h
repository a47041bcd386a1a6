/* Places in a JSON text: where the value that a pointer names stands.
 *
 * A scanner of its own, because jansson keeps no places; it runs over text that
 * json_load has accepted, and only when there is something to complain about.
 */
#ifndef BASE_JSON_PLACE_H
#define BASE_JSON_PLACE_H

#include <stddef.h>

/* A place in a text; both from 1; a column counts bytes. line 0: no place. */
struct json_place {
    unsigned line, column;
};

/* Place of the byte at @offset of @text. */
struct json_place json_place_at(const char *text, size_t offset);

/* Place of the value at @pointer, and of its key, in a text that json_load has
 * accepted. Where the value does not exist: the place of its nearest ancestor
 * that does. json_locate_key gives the value's place for array elements and the
 * root. Cost O(len), no allocation. */
struct json_place json_locate(const char *text, size_t len,
                              const char *pointer);
struct json_place json_locate_key(const char *text, size_t len,
                                  const char *pointer);

#endif
