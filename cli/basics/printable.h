/* Printable text: of what others wrote, a terminal is shown nothing that it
 * would obey.
 *
 * Control characters become '?', those of C1 (U+0080 to U+009F) as well, and so
 * does each byte that is no UTF-8: a terminal might take it for one of C1. Tabs
 * and ends of lines stay. A carriage return ends a line: what was drawn over is
 * shown, and nothing can be hidden. Text comes in pieces that may end anywhere.
 */
#ifndef CLI_PRINTABLE_H
#define CLI_PRINTABLE_H

#include "base/text.h"

/* Zeroed at the beginning of a text. */
struct printable {
    char held[4]; /* the beginning of a character */
    size_t len;
    bool returned; /* a carriage return came, which may belong to a line's end
                    */
};

/* Appends to @out what can be shown of the next @n bytes. */
void printable_add(struct printable *t, const char *s, size_t n,
                   struct text *out);

/* The text ends here, in the middle of a character perhaps. */
void printable_end(struct printable *t, struct text *out);

#endif
