/* The addresses of a name, by the system's resolver, which knows no deadline
 * but its own (man resolv.conf): a thread of its own waits for it. */
#ifndef BASE_HOST_LOOKUP_IO_H
#define BASE_HOST_LOOKUP_IO_H

#include "base/fault.h"

#include <netdb.h>
#include <netinet/in.h>

enum { LOOKUP_HOST_MAX = 256, LOOKUP_PORT_MAX = 8 };

/* The addresses of @host (shorter than LOOKUP_HOST_MAX) and the number @port
 * (shorter than LOOKUP_PORT_MAX), as @hints want them (copied, but for what
 * they point to: nothing), *@out for freeaddrinfo. After DEADLINE_LOOKUP_MS, or
 * @most_s if that is less, nobody waits for the thread any more, which ends
 * when the resolver gives up. An address of numbers takes no thread. Errors:
 * ERR_NODE, with the resolver's reason or that it does not answer; ERR_NOMEM.
 */
enum err lookup_host(const char *host, const char *port,
                     const struct addrinfo *hints, double most_s,
                     struct addrinfo **out, struct fault *f);

/* The address of this machine from which @to is reached, as text: what a
 * datagram would be sent from. Nothing is sent. Errors: ERR_IO there is no way
 * to it, with the system's reason. */
enum err lookup_source(const struct sockaddr_in *to, char out[INET_ADDRSTRLEN],
                       struct fault *f);

/* The same for a host by name, looked up as lookup_host does, within @most_s.
 * Errors: its own, and ERR_IO. */
enum err lookup_source_to(const char *host, double most_s,
                          char out[INET_ADDRSTRLEN], struct fault *f);

#endif
