/* Reach: which addresses a webhook may be sent to. Pure. */
#ifndef CLI_REACH_H
#define CLI_REACH_H

#include <stdbool.h>

struct sockaddr;

/* Whether @address is one of the public network: not this machine's own
 * (loopback), a private network's, the link's, a group's, one that is reserved,
 * or one behind which another may be hidden (mapped, 6to4, Teredo, NAT64).
 * Source: the registries of special-purpose addresses of RFC 6890, by which
 * 2000::/3 alone is public in IPv6. */
bool reach_is_public(const struct sockaddr *address);

#endif
