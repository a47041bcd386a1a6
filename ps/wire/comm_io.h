/* Communication of one node with the others of its parameter server.
 *
 * The wire of `struct peers_ops` (ps/server/peers.h). Holds the sockets, one
 * link to each other node (ps/nodes/link.h), this node's shard
 * (ps/nodes/shard.h) on its workers' stores, the cache of all rows that its
 * workers read (ps/nodes/cache.h), and what is agreed on
 * (ps/nodes/agreement.h). A thread takes what comes; whoever has something to
 * say (a worker that ends a clock, say) writes it to the sockets itself, under
 * the one lock that guards all of it.
 *
 *   workers ── get_row, clock ──► lock: cache, shard, accord, links
 *   control ── begin ───────────►   │            ▲
 *                                   ▼ PUSH       │ PULL
 *                              other nodes    the thread
 *
 * Each run of the workers is a slice: it begins when all shards have begun it
 * and ends when all workers of all nodes have drained; so all nodes must run
 * the same runs, in the same order. Between two of them the thread touches no
 * row.
 *
 * Under barriers rows of this node are read in place, others where the cache
 * has them: nothing is copied and, after the first read in a run, no lock is
 * taken. Under the other models a worker has copies, taken anew at each clock;
 * but the only worker of a node reads the cache's where nothing is pushed.
 *
 * A frame that is malformed, replayed or of another run is logged once, counted
 * and otherwise ignored. A node that is gone, frames that are lost, and a peer
 * that says what cannot be *break* the communication: all waits end, and this
 * run and all later ones with ERR_NODE.
 */
#ifndef PS_COMM_IO_H
#define PS_COMM_IO_H

#include "ps/server/peers.h"

/* The wire that mlt_ps_new gives a server. */
extern const struct peers_ops comm_peers;

#endif
