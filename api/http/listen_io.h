/* The socket that a server listens on. */
#ifndef API_LISTEN_IO_H
#define API_LISTEN_IO_H

#include "api/http/listen.h"

/* Opens a listening socket for @self, as listen_parse made it. On success *@out
 * is the caller's to close, and @self->port the port that it has. Errors, with
 * what to do in @f: ERR_BUSY (the address is in use), ERR_IO. */
enum err listen_open(struct listen_address *self, int *out, struct fault *f);

#endif
