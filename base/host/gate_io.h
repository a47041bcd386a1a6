/* The gate (base/host/gate.h) at a ZeroMQ socket: a thread that reads what the
 * socket says of its connections, and a filter of the kernel (SO_ATTACH_FILTER)
 * on the descriptor that listens. What the filter drops is never accepted: to
 * its sender it is as a machine that does not answer, and it wakes no thread
 * here. Who came in before is not touched by it; strangers too many are shut
 * down one by one.
 *
 * Where the kernel has no such filters the gate stays open, and the log says so
 * once.
 */
#ifndef BASE_HOST_GATE_IO_H
#define BASE_HOST_GATE_IO_H

#include "base/fault.h"

#include <zmq.h>

#include <stdint.h>

struct gate_keeper;

/* Before @socket, of ZeroMQ's @context, is bound; both are borrowed until
 * gate_close. Nothing is filtered yet. Errors: ERR_NOMEM, ERR_IO. */
enum err gate_open(void *context, void *socket, struct gate_keeper **out,
                   struct fault *f);

/* @socket is bound. From now on the gate is kept, for @peers others who show a
 * key. Errors: ERR_IO. */
enum err gate_keep(struct gate_keeper *k, uint32_t peers, struct fault *f);

/* @ipv4[n], in the machine's order: from where peers come. Without it strangers
 * who crowd push one another out, and everybody gets in. Errors: ERR_NOMEM. */
enum err gate_know(struct gate_keeper *k, uint32_t n, const uint32_t ipv4[]);

/* Each message that the socket gave, from the thread that took it. Costs next
 * to nothing while the gate is shut. */
void gate_heard(struct gate_keeper *k, zmq_msg_t *message);

/* Before the socket is closed. NULL is accepted. */
void gate_close(struct gate_keeper *k);

#endif
