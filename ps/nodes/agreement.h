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
#ifndef PS_AGREEMENT_H
#define PS_AGREEMENT_H

#include "ps/nodes/frame.h"

struct agreement;

/* Errors: ERR_NOMEM. */
enum err agreement_new(uint32_t node, uint32_t nodes, struct agreement **out);
void agreement_free(struct agreement *a);

/* Slice @slice, the one after the last, begins here. */
void agreement_begin(struct agreement *a, uint64_t slice);

/* It is to be cut; has failed here. Once or often; also when it is over. */
void agreement_cut(struct agreement *a);
void agreement_fail(struct agreement *a, enum err code);

/* Takes a frame of a peer, or of this node (agreement_next for itself). Errors:
 * ERR_PROTO, in words; nothing changed. */
enum err agreement_step(struct agreement *a, const struct frame *f,
                        struct fault *fault);

/* The next frame for @node, complete but for the stamp; 0 when there is none.
 * @room >= FRAME_FIXED_BYTES_MAX. */
size_t agreement_next(struct agreement *a, uint32_t node, unsigned char *bytes,
                      size_t room);

/* True until agreement_held: begin no further clock, and say how many were. */
bool agreement_must_hold(const struct agreement *a);
void agreement_held(struct agreement *a, uint64_t clocks);

/* True once, when it is known after how many clocks the slice ends. */
bool agreement_take_end(struct agreement *a, uint64_t *clocks);

/* ERR_OK, or what a worker of any node failed with. */
enum err agreement_failed(const struct agreement *a);

#endif
