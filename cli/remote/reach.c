#include "cli/remote/reach.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

/* The first @bits of its IPv4 addresses. */
struct special_net {
    uint32_t net;
    unsigned bits;
};

static const struct special_net special[] = {
    {0x00000000, 8},  /* this network */
    {0x0a000000, 8},  /* private */
    {0x64400000, 10}, /* behind a provider's NAT */
    {0x7f000000, 8},  /* loopback */
    {0xa9fe0000, 16}, /* the link; clouds tell secrets there */
    {0xac100000, 12}, /* private */
    {0xc0000000, 24}, /* IETF's protocols */
    {0xc0000200, 24}, /* documentation */
    {0xc0586300, 24}, /* 6to4 relays, no longer used */
    {0xc0a80000, 16}, /* private */
    {0xc6120000, 15}, /* benchmarks */
    {0xc6336400, 24}, /* documentation */
    {0xcb007100, 24}, /* documentation */
    {0xe0000000, 3},  /* groups, reserved, broadcast */
};

static bool is_public_4(uint32_t ip)
{
    for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++)
        if ((ip ^ special[i].net) >> (32 - special[i].bits) == 0)
            return false;
    return true;
}

static bool is_public_6(const uint8_t ip[16])
{
    uint32_t head = (uint32_t)ip[0] << 24 | (uint32_t)ip[1] << 16 |
                    (uint32_t)ip[2] << 8 | ip[3];

    return head >> 29 == 1 &&       /* 2000::/3 */
           head >> 9 != 0x100080 && /* 2001::/23: Teredo, ORCHID, ... */
           head != 0x20010db8 &&    /* documentation */
           head >> 16 != 0x2002 &&  /* 6to4 */
           head >> 12 != 0x3fff0;   /* documentation */
}

bool reach_is_public(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;

    assert(address);
    if (address->sa_family == AF_INET)
        return is_public_4(ntohl(v4->sin_addr.s_addr));
    return address->sa_family == AF_INET6 && is_public_6(v6->sin6_addr.s6_addr);
}
