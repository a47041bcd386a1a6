/* Accord: what the nodes of a run agree on beside rows: after which clock a
 * slice ends that is cut, and that a slice has failed.
 *
 * Workers of all nodes must end a slice after the same clock, or a clock would
 * lack samples. So whoever wants a cut tells node 0, which asks all nodes to
 * begin no further clock and to say how many they have begun; the most that any
 * has begun is where the slice ends, and all are told.
 *
 *   node i          node 0          all nodes
 *     ├── cut ───────►├──── hold ───────►┤
 *     │               │◄─── held 17 ─────┤
 *     │               ├──── end 18 ─────►┤
 *
 * Nodes begin a slice at different times: what comes for the next one is kept
 * until it begins here, what comes for an earlier one says nothing any more. A
 * state machine: frames go in, the next frame for a node is asked for. Pure.
 */
#ifndef PS_ACCORD_H
#define PS_ACCORD_H

#include "ps/nodes/frame.h"

struct accord;

/* Errors: ERR_NOMEM. */
enum err accord_new(uint32_t node, uint32_t nodes, struct accord **out);
void accord_free(struct accord *a);

/* Slice @slice, the one after the last, begins here. */
void accord_begin(struct accord *a, uint64_t slice);

/* It is to be cut; has failed here. Once or often; also when it is over. */
void accord_cut(struct accord *a);
void accord_fail(struct accord *a, enum err code);

/* Takes a frame of a peer, or of this node (accord_next for itself). Errors:
 * ERR_PROTO, in words; nothing changed. */
enum err accord_step(struct accord *a, const struct frame *f,
                     struct fault *fault);

/* The next frame for @node, complete but for the stamp; 0 when there is none.
 * @room >= FRAME_FIXED_BYTES_MAX. */
size_t accord_next(struct accord *a, uint32_t node, unsigned char *bytes,
                   size_t room);

/* True until accord_held: begin no further clock, and say how many were. */
bool accord_must_hold(const struct accord *a);
void accord_held(struct accord *a, uint64_t clocks);

/* True once, when it is known after how many clocks the slice ends. */
bool accord_take_end(struct accord *a, uint64_t *clocks);

/* ERR_OK, or what a worker of any node failed with. */
enum err accord_failed(const struct accord *a);

#endif
