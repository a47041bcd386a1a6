#include "api/http/listen_io.h"

#include "base/deadlines.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* So that clients wait here, not in retransmissions. */
enum { LISTEN_QUEUE = 1024 };

/* What the system keeps of a client's words at most, of which no head takes
 * more: left to itself it keeps megabytes of each, and to throw those away
 * costs milliseconds of this process. */
enum { LISTEN_ROOM = 64 * 1024 };

/* A connection comes to the server with its first words. Without that, where
 * the queue is full, the system gives it out empty, long before the client
 * sends its head once more: it looks silent, and is cut where clients crowd.
 * One that is really silent comes after that time. */
enum { LISTEN_SILENT_S = DEADLINE_HTTP_SILENT_MS / 1000 };

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t make_address(const struct listen_address *from,
                              union any_address *to)
{
    memset(to, 0, sizeof(*to));
    if (from->ipv6) {
        to->v6.sin6_family = AF_INET6;
        to->v6.sin6_port = htons(from->port);
        memcpy(&to->v6.sin6_addr, from->ip, 16);
        return sizeof(to->v6);
    }
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons(from->port);
    memcpy(&to->v4.sin_addr, from->ip, 4);
    return sizeof(to->v4);
}

static enum err listen_failed(const struct listen_address *self, int errnum,
                              struct fault *f)
{
    if (errnum == EADDRINUSE)
        return fault_set(f, ERR_BUSY,
                         "cannot listen on %s:%u: address already in use; "
                         "end what uses it (ss -ltnp shows it) or choose "
                         "another port (port 0: any free one)",
                         self->host, (unsigned)self->port);
    if (errnum == EACCES)
        return fault_set(f, ERR_IO,
                         "cannot listen on %s:%u: permission denied; ports "
                         "below 1024 are reserved, choose another",
                         self->host, (unsigned)self->port);
    return fault_errno(f, ERR_IO, errnum, "cannot listen on %s:%u", self->host,
                       (unsigned)self->port);
}

enum err listen_open(struct listen_address *self, int *out, struct fault *f)
{
    union any_address address;
    socklen_t len = make_address(self, &address);
    int one = 1, room = LISTEN_ROOM, silent = LISTEN_SILENT_S, errnum;
    int fd = socket(address.any.sa_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert(self->host[0]);
    assert(out);
    /* A port that was ours a moment ago may be ours again; one that somebody
     * listens on may not. */
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent, sizeof(silent)) <
            0 ||
        bind(fd, &address.any, len) < 0 || listen(fd, LISTEN_QUEUE) < 0 ||
        getsockname(fd, &address.any, &len) < 0) {
        errnum = errno;
        if (fd >= 0)
            close(fd);
        return listen_failed(self, errnum, f);
    }
    self->port = ntohs(self->ipv6 ? address.v6.sin6_port : address.v4.sin_port);
    *out = fd;
    return ERR_OK;
}
