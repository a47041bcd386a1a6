/* Communication of one node with the others of its parameter server.
 *
 * Holds the sockets, one link to each other node (ps/nodes/link.h), this node's
 * shard (ps/nodes/shard.h) on its workers' stores, the cache of all rows that
 * its workers read (ps/nodes/cache.h), and what is agreed on
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

#include "ps/server/core.h"

struct comm;

/* Listens, and says where in the folder ps->meet. Others may come from now on.
 * Errors: in words. */
enum err comm_open(struct mlt_ps *ps, struct fault *f);

/* Bytes that comm_start takes beside the stores. */
uint64_t comm_bytes(const struct mlt_ps *ps);

/* Waits for the others, checks that they have the same tables, starts the
 * thread. Stores, workers and runtime are there. ps->fits becomes the least of
 * all nodes'. Errors: ERR_NODE somebody is missing, by number; ERR_PROTO, with
 * other tables or another number of workers; ERR_NOMEM, ERR_IO. */
enum err comm_start(struct mlt_ps *ps, struct fault *f);

/* Joins the thread, closes everything. Accepts a server without one. */
void comm_stop(struct mlt_ps *ps);

/* Number of this start of the nodes, the same on all. After comm_start. */
uint64_t comm_run(const struct mlt_ps *ps);

/* ---- control thread ------------------------------------------------------ */

/* The next slice, on the active branch; workers are parked. */
enum err comm_begin(struct mlt_ps *ps);

/* ---- any thread ---------------------------------------------------------- */

/* The run is to be cut; has failed in this node. */
void comm_cut(struct mlt_ps *ps);
void comm_fail(struct mlt_ps *ps, enum err code);

/* While it is held, no shared row of this node changes. Any thread that does
 * not hold it. */
void comm_hold(struct mlt_ps *ps);
void comm_let_go(struct mlt_ps *ps);

/* ---- a worker's thread --------------------------------------------------- */

/* Waits until all shards have begun the run. ERR_CANCELED: it has failed. */
int comm_enter(struct mlt_worker *w);

/* As mlt_get_rows, of a shared or exclusive table. */
int comm_get_rows(struct mlt_worker *w, struct view *v, size_t n,
                  const uint64_t rows[], const void *out[]);

/* There is room for rows that need not leave yet: some of the worker's leave.
 * It holds no pointer into its update buffers. */
void comm_offer(struct mlt_worker *w);

/* As mlt_clock (CORE_ALL_TABLES), mlt_clock_table. */
int comm_end_clock(struct mlt_worker *w, mlt_table table);
int comm_end_early(struct mlt_worker *w, mlt_table table);

/* The worker's run is over; returns when it is over for all workers of all
 * nodes. */
void comm_finish(struct mlt_worker *w);

#endif
