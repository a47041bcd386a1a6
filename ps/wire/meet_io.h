/* Meeting: how the nodes of a run find each other, in whatever order they are
 * started and by whatever launcher. All are told the same place, which is
 *
 * - a folder that all can reach, made for this run and no other: each node
 *   writes into the file `node-K` there where it listens, and waits until the
 *   files of all others have appeared; or
 * - an address, "tcp://HOST:PORT" of node 0's machine: node 0 listens there,
 *   the others report to it, and it tells all when all have (ps/wire/meet.h).
 *
 * Each node has a random number; mixed over all nodes they are the number of
 * the run, which frames of other runs do not have.
 *
 * The socket that is bound is a ZeroMQ PULL: of the Unix kind in that folder,
 * or over TCP. Control thread only.
 */
#ifndef PS_MEET_IO_H
#define PS_MEET_IO_H

#include "base/host/gate_io.h"
#include "base/run_key_io.h"
#include "ps/wire/meet.h"

enum {
    MEET_PLACE_MAX = 1024,
    MEET_BEAT_MS = 500, /* between two signs of life of a connection */
    /* Bytes of a message over TCP where there is a key: what a stranger can
     * make a node hold, a connection, until its handshake fails. */
    MEET_MESSAGE_MAX = (1 << 20) + (4 << 10)
};

struct meet {
    uint32_t node, nodes;
    char place[MEET_PLACE_MAX]; /* folder or address */
    struct meet_node *peer;     /* [nodes] all known once met; owned */
    uint64_t number;            /* this node's */
    uint64_t run;
    void *context, *socket;   /* at an address, until all have met; owned */
    struct gate_keeper *gate; /* node 0's there, where there is a key; owned */
    struct run_key key;       /* that this process was given */
};

/* Binds @pull; says so in the folder, or listens at the address or reports to
 * it.
 *
 * @place   a folder, which exists, or "tcp://HOST:PORT"
 * @listen  what to bind, as ZeroMQ writes it ("tcp://10.0.0.3:*"); where the
 *          host is left open ("tcp://0.0.0.0:7001") the others are told this
 *          machine's address on the way to @place. NULL: a Unix socket in the
 *          folder, or where its path is too long for one, TCP on loopback; with
 *          an address, TCP at that address of this machine.
 *
 * Over TCP the run's key (base/run_key_io.h) is asked of others, and shown to
 * them; what other machines reach is not bound without one.
 *
 * Errors: ERR_INVAL (no such node, a place that is none, a key that is none),
 * ERR_UNSUPPORTED (no key), ERR_IO (a port in use, say), ERR_NOMEM; in words.
 */
enum err meet_open(struct meet *m, void *pull, const char *place,
                   const char *listen, uint32_t node, uint32_t nodes,
                   struct fault *f);

/* Waits for the others. Errors: ERR_NODE after @timeout_s, naming who is not
 * there, or when node 0 refuses this one, with its reason; ERR_FORMAT a file or
 * an answer that says nothing of the kind. */
enum err meet_wait(struct meet *m, double timeout_s, struct fault *f);

/* Whether messages to this node are bounded by MEET_MESSAGE_MAX: others reach
 * it over TCP, and have to have the key. After meet_wait. */
bool meet_is_guarded(const struct meet *m);

/* Takes this node's file away. Accepts a zeroed one. */
void meet_close(struct meet *m);

/* ---- between meet_io.c and meet_address_io.c ----------------------------- */

/* Binds @pull to @endpoint, guarded over TCP. */
enum err meet_bind(const struct meet *m, void *pull, const char *endpoint,
                   struct fault *f);

/* As above, for an address; @pull is bound by it too. */
enum err meet_address_open(struct meet *m, void *pull, const char *listen,
                           struct fault *f);
enum err meet_address_wait(struct meet *m, double timeout_s, struct fault *f);
void meet_address_close(struct meet *m);

#endif
