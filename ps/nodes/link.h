/* Links: what one node knows about its conversation with another.
 *
 * Frames to a node are numbered; the other side takes each number once and in
 * order, from the run and the node that it belongs to, so that a frame that was
 * replayed, came before one that was lost or was meant for somebody else is
 * refused. Both sides count what the other has acknowledged: frames are sent
 * only while the window is open, which bounds what can be under way, and what
 * has to be sent again where a connection broke: all that is not acknowledged.
 * Acknowledgements themselves go past the window, are not acknowledged, and are
 * numbered apart; one may be lost, the next says more.
 *
 * Plain data, one owner. Pure.
 */
#ifndef PS_LINK_H
#define PS_LINK_H

#include "ps/nodes/frame.h"

struct link {
    uint64_t run;
    uint32_t self, peer; /* nodes */
    uint32_t window;     /* frames under way, >= 1 */
    uint32_t ack_every;  /* frames taken after which one is due */
    uint64_t sent, acked;
    uint64_t got, told; /* taken; acknowledged to the peer */
    uint64_t acks_sent, acks_got;
};

/* @window is the same on both sides. */
void link_init(struct link *l, uint64_t run, uint32_t self, uint32_t peer,
               uint32_t window);

/* Whether one more frame may leave. */
bool link_open(const struct link *l);

/* Numbers a complete frame that leaves now; link_open. */
void link_send(struct link *l, unsigned char *bytes);

/* The connection broke and is there again: frames from this number to `sent`
 * are sent once more, in order, as they were (sent + 1: there are none). What
 * had come is acknowledged anew besides (link_ack), if anything had. */
uint64_t link_again(const struct link *l);

/* Takes a decoded frame from the peer; an ACK opens the window. Errors:
 * ERR_PROTO, in words: of another run or sender, replayed, or one before it is
 * missing, an acknowledgement of what was never sent; nothing changed. */
enum err link_take(struct link *l, const struct frame *f, struct fault *fault);

/* Whether an acknowledgement is due: half the window was taken since the last,
 * or as many frames as link_ack_every says. */
bool link_owes_ack(const struct link *l);

/* @frames >= 1, or 0 for half the window, which is the most that it can be. */
void link_ack_every(struct link *l, uint32_t frames);

/* Writes one that says all that came, stamped. Returns its bytes.
 * @room >= FRAME_FIXED_BYTES_MAX. */
size_t link_ack(struct link *l, unsigned char *bytes, size_t room);

#endif
