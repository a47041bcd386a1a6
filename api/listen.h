/* The address that the service listens on, from text.
 *
 * Only loopback for now: an address that other machines reach needs a token
 * and TLS, and is refused until there are both.
 */
#ifndef API_LISTEN_H
#define API_LISTEN_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

enum { LISTEN_HOST_MAX = 48 };

struct listen_address {
    bool ipv6;
    uint8_t ip[16]; /* network order; the first four bytes for IPv4 */
    uint16_t port;  /* 0: any free one */
    char host[LISTEN_HOST_MAX]; /* as in a url: "127.0.0.1", "[::1]" */
};

/* Address from @text: "127.0.0.1:8080", "localhost:8080", "[::1]:8080", a host
 * alone (any free port), a port alone (127.0.0.1); NULL or "": any free port of
 * 127.0.0.1.
 *
 * Errors: ERR_INVAL (malformed; @f says what was expected), ERR_UNSUPPORTED
 * (not a loopback address; @f says what to do instead). */
enum err listen_parse(const char *text, struct listen_address *out,
                      struct fault *f);

#endif
