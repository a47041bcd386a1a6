/* The client's end of TLS (GnuTLS), for exchanges that wait for nothing.
 *
 * One owner thread.
 */
#ifndef CLI_CLIENT_TLS_H
#define CLI_CLIENT_TLS_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct client_tls;

/* A session with @host (a name or an address, without brackets), whose
 * certificate must be for it, and trusted by the file @cacert (PEM), or where
 * that is NULL by the one that MLTUNE_CACERT names, else by the system.
 * Errors: ERR_INVAL (the file), ERR_NOMEM. */
enum err client_tls_new(const char *host, const char *cacert,
                        struct client_tls **out, struct fault *f);
/* Accepts NULL. */
void client_tls_free(struct client_tls *t);

/* Goes on with the handshake on the connected @fd. Errors: ERR_AGAIN; ERR_NODE
 * (@f: the certificate is not to be trusted and why, or what speaks there is
 * not TLS). */
enum err client_tls_greet(struct client_tls *t, int fd, const char *url,
                          struct fault *f);

/* Sending and receiving, like send and recv that do not wait: errno is EAGAIN,
 * EINTR or EIO. */
ssize_t client_tls_send(struct client_tls *t, const void *data, size_t len);
ssize_t client_tls_receive(struct client_tls *t, void *out, size_t size);

/* Whether what stopped last waits to write; else to read. */
bool client_tls_writes(const struct client_tls *t);

#endif
