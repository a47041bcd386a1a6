/* Rings between two processes of one host: memory that both map, and a socket
 * by which one wakes the other.
 *
 * Who offers makes both and sends them to the other's Unix socket, whose path
 * stands beside that of its ZeroMQ socket; who takes says so by that socket, or
 * closes it. The memory has no name, cannot change its size (it is sealed) and
 * is gone with the two processes. A file's permissions and the number of the
 * run, which only its nodes know, keep strangers out, as they do for frames.
 *
 * Nothing here blocks.
 */
#ifndef PS_RING_IO_H
#define PS_RING_IO_H

#include "ps/server/shape.h"
#include "ps/wire/ring.h"

/* Both directions, as one of the two has them. */
struct ring_pair {
    struct ring in, out;
    void *map; /* owned, [bytes]; NULL: there is none */
    size_t bytes;
    int bell; /* owned; -1 once the other has closed it */
};

/* What the other is told. */
struct ring_offer {
    uint64_t run;
    uint32_t from, to; /* nodes */
    uint64_t size;     /* of one direction, within RING_BYTES_MIN and _MAX;
                        * 0: none is offered */
};

/* Listens for offers beside @endpoint ("ipc://PATH.socket" of this process's
 * ZeroMQ socket). Errors: ERR_UNSUPPORTED another kind of endpoint; ERR_IO. */
enum err ring_listen(const char *endpoint, int *fd, struct fault *f);
void ring_stop_listening(const char *endpoint, int *fd);

/* Makes a pair of o->size bytes a direction and offers it to who listens beside
 * @endpoint; with a size of 0 says that there is none. Errors: ERR_AGAIN its
 * queue is full; ERR_UNSUPPORTED it does not listen; ERR_IO, ERR_NOMEM. */
enum err ring_offer(const struct ring_offer *o, const char *endpoint,
                    struct ring_pair *out, struct fault *f);

/* The next offer that has come to @fd, for @run; @out->map stays NULL where
 * none is offered. It is accepted. Errors: ERR_AGAIN there is none; ERR_PROTO,
 * ERR_NOMEM, ERR_IO, in words: it was turned away; o->from, UINT32_MAX unless
 * known, gets none. */
enum err ring_take_offer(int fd, uint64_t run, uint32_t self,
                         struct ring_offer *o, struct ring_pair *out,
                         struct fault *f);

/* Wakes the other. */
void ring_pair_wake(struct ring_pair *p);

/* What has come by the bell is taken away; true once: the other has accepted.
 */
bool ring_pair_heard(struct ring_pair *p);

/* Accepts a zeroed one. */
void ring_pair_close(struct ring_pair *p);

#endif
