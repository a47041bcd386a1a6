/* The files of api/web, compiled in: the program serves them from memory and
 * never from a path. */
#ifndef API_WEB_H
#define API_WEB_H

#include <stddef.h>

struct web_file {
    const char *name; /* as in /web/NAME; "index.html" is the page itself */
    const char *type; /* media type */
    const char *begin, *end;
};

/* The file of that name; NULL: there is none. */
const struct web_file *web_file(const char *name);

/* File @index; NULL past the last. */
const struct web_file *web_file_at(size_t index);

#endif
