/* The server's certificate and key, read and checked before anybody connects.
 *
 * libmicrohttpd speaks TLS with them (GnuTLS); what it says of a file that it
 * cannot use is nothing, so everything that can be wrong is found here.
 */
#ifndef API_TLS_IO_H
#define API_TLS_IO_H

#include "api/http/listen.h"
#include "base/fault.h"

struct tls_identity {
    char *cert, *key; /* owned; PEM: the chain, the server's own first; key */
};

/* Reads @cert and @key; both named, or both NULL: no TLS. The certificate's
 * names go to @self, whose tls is set. The key's file must be the user's or
 * root's, closed to all others (root's may be open to a group). A certificate
 * that is out of date is taken, and logged.
 *
 * Errors, with the file in @f: ERR_INVAL (only one is named; no certificate or
 * key in PEM; the key is another one's, or has a password; others may read
 * it), ERR_IO, ERR_NOMEM. Then there is nothing to release. */
enum err tls_identity_load(const char *cert, const char *key,
                           struct tls_identity *out,
                           struct listen_address *self, struct fault *f);

/* Accepts a zeroed one. The key is wiped. */
void tls_identity_deinit(struct tls_identity *t);

#endif
