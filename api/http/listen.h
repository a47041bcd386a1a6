/* The address that the service listens on, from text, and the names that its
 * clients may call it by.
 *
 * An address that other machines reach needs a token and TLS.
 */
#ifndef API_LISTEN_H
#define API_LISTEN_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LISTEN_HOST_MAX = 48,
    LISTEN_NAMES_MAX = 16,
    LISTEN_NAME_MAX = 100,
    LISTEN_URL_MAX = 128
};

struct listen_address {
    bool ipv6;
    uint8_t ip[16]; /* network order; the first four bytes for IPv4 */
    uint16_t port;  /* 0: any free one */
    char host[LISTEN_HOST_MAX]; /* as in a url: "127.0.0.1", "[::1]" */
    bool loopback;              /* no other machine reaches it */
    bool tls;                   /* https */
    /* The certificate's names, beside @host: as in a url; "*.example.org" is
     * any one name there. */
    size_t names;
    char name[LISTEN_NAMES_MAX][LISTEN_NAME_MAX];
};

/* Address from @text: "127.0.0.1:8080", "localhost:8080", "[::1]:8080", a host
 * alone (any free port), a port alone (127.0.0.1); NULL or "": any free port of
 * 127.0.0.1.
 *
 * Without tls and names. Errors: ERR_INVAL (malformed, or a name other than
 * localhost, which may be any machine's; @f says what was expected). */
enum err listen_parse(const char *text, struct listen_address *out,
                      struct fault *f);

/* Whether to listen there: on loopback, else with both. Errors:
 * ERR_UNSUPPORTED, @f says what is missing and what to do instead. */
enum err listen_check(const struct listen_address *a, bool token, bool tls,
                      struct fault *f);

/* Whether @host[len], of a request to the port of @a, is this server: "HOST"
 * or "HOST:PORT", where the port may be missing if it is the scheme's own. */
bool listen_is_self(const struct listen_address *a, const char *host,
                    size_t len);

/* "https://localhost:8080/", by which clients on this machine can reach it,
 * into @out[LISTEN_URL_MAX]. */
void listen_url(const struct listen_address *a, char out[LISTEN_URL_MAX]);

#endif
