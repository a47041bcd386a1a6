#include "api/http/peer_io.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

union diag_end {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct diag_question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 ask;
};

struct diag_reply {
    struct nlmsghdr head;
    struct inet_diag_msg found;
    char more[1024];
};

/* The socket of the other end is ours with the ends the other way round. */
static bool describe(int fd, struct inet_diag_req_v2 *ask)
{
    union diag_end here = {0}, there = {0};
    socklen_t here_len = sizeof(here), there_len = sizeof(there);

    if (getsockname(fd, &here.any, &here_len) != 0 ||
        getpeername(fd, &there.any, &there_len) != 0 ||
        here.any.sa_family != there.any.sa_family)
        return false;
    *ask = (struct inet_diag_req_v2){
        .sdiag_family = (uint8_t)here.any.sa_family,
        .sdiag_protocol = IPPROTO_TCP,
        .idiag_states = ~0U,
        .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}};
    if (here.any.sa_family == AF_INET) {
        ask->id.idiag_sport = there.v4.sin_port;
        ask->id.idiag_dport = here.v4.sin_port;
        memcpy(ask->id.idiag_src, &there.v4.sin_addr, 4);
        memcpy(ask->id.idiag_dst, &here.v4.sin_addr, 4);
        return true;
    }
    if (here.any.sa_family != AF_INET6)
        return false;
    ask->id.idiag_sport = there.v6.sin6_port;
    ask->id.idiag_dport = here.v6.sin6_port;
    memcpy(ask->id.idiag_src, &there.v6.sin6_addr, 16);
    memcpy(ask->id.idiag_dst, &here.v6.sin6_addr, 16);
    return true;
}

/* A socket that no process holds any more says root: it is nobody's. */
static bool is_own(const struct diag_reply *r, size_t n)
{
    if (n < offsetof(struct diag_reply, more) ||
        r->head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    return r->found.idiag_inode != 0 &&
           (r->found.idiag_uid == geteuid() || r->found.idiag_uid == 0);
}

bool peer_is_own(int fd)
{
    struct diag_question q = {.head = {.nlmsg_len = sizeof(q),
                                       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                       .nlmsg_flags = NLM_F_REQUEST}};
    struct diag_reply r;
    ssize_t n = -1;
    int kernel;

    assert(fd >= 0);
    if (!describe(fd, &q.ask))
        return false;
    kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (kernel < 0)
        return false;
    if (send(kernel, &q, sizeof(q), 0) == (ssize_t)sizeof(q))
        n = recv(kernel, &r, sizeof(r), MSG_DONTWAIT);
    close(kernel);
    return n > 0 && is_own(&r, (size_t)n);
}

uint32_t peer_address(int fd)
{
    union diag_end there = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(there);
    uint32_t hash = 2166136261u; /* FNV-1a */

    if (getpeername(fd, &there.any, &len) != 0)
        return 0;
    if (there.any.sa_family == AF_INET)
        return ntohl(there.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                   ? IN_LOOPBACKNET
                   : there.v4.sin_addr.s_addr;
    if (there.any.sa_family != AF_INET6)
        return 0;
    /* Of a network's 2^64 addresses anybody has all. */
    for (int i = 0; i < 8; i++)
        hash = (hash ^ there.v6.sin6_addr.s6_addr[i]) * 16777619u;
    return hash;
}

uint64_t peer_sent_kib(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    assert(fd >= 0);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return 0;
    return info.tcpi_bytes_received >> 10;
}
