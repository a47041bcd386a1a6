#include "ps/nodes/link.h"

#include <assert.h>

/* Acknowledgements have a numbering of their own, which begins here: a frame's
 * number says which of the two it belongs to. */
#define ACKS ((uint64_t)1 << 63)

void link_init(struct link *l, uint64_t run, uint32_t self, uint32_t peer,
               uint32_t window)
{
    assert(window >= 1);
    *l =
        (struct link){.run = run, .self = self, .peer = peer, .window = window};
    link_ack_every(l, 0);
}

void link_ack_every(struct link *l, uint32_t frames)
{
    uint32_t half = (l->window + 1) / 2;

    l->ack_every = frames && frames < half ? frames : half;
}

bool link_open(const struct link *l)
{
    assert(l->acked <= l->sent);
    return l->sent - l->acked < l->window;
}

void link_send(struct link *l, unsigned char *bytes)
{
    assert(link_open(l));
    frame_stamp(bytes, l->self, l->run, ++l->sent);
}

uint64_t link_again(const struct link *l)
{
    assert(l->acked <= l->sent);
    return l->acked + 1;
}

static enum err take_number(uint64_t expected, const struct frame *f,
                            struct fault *fault)
{
    if (f->sequence == expected)
        return ERR_OK;
    return fault_set(
        fault, ERR_PROTO, "frame %llu of node %u %s: expected %llu",
        (unsigned long long)f->sequence, f->from,
        f->sequence < expected ? "was taken before" : "came before others",
        (unsigned long long)expected);
}

static enum err take_ack(struct link *l, const struct frame *f,
                         struct fault *fault)
{
    if (f->sequence <= ACKS + l->acks_got)
        return fault_set(fault, ERR_PROTO,
                         "an acknowledgement of node %u was taken before",
                         f->from);
    if (f->through < l->acked || f->through > l->sent)
        return fault_set(fault, ERR_PROTO,
                         "node %u acknowledges frame %llu of %llu", f->from,
                         (unsigned long long)f->through,
                         (unsigned long long)l->sent);
    l->acks_got = f->sequence - ACKS;
    l->acked = f->through;
    return ERR_OK;
}

enum err link_take(struct link *l, const struct frame *f, struct fault *fault)
{
    enum err err;

    if (f->run != l->run || f->from != l->peer)
        return fault_set(fault, ERR_PROTO,
                         "frame of node %u in run %llx: expected node %u in "
                         "run %llx",
                         f->from, (unsigned long long)f->run, l->peer,
                         (unsigned long long)l->run);
    if (f->kind == FRAME_ACK)
        return take_ack(l, f, fault);
    err = take_number(l->got + 1, f, fault);
    if (!err)
        l->got++;
    return err;
}

bool link_owes_ack(const struct link *l)
{
    return l->got - l->told >= l->ack_every;
}

size_t link_ack(struct link *l, unsigned char *bytes, size_t room)
{
    struct frame f = {.kind = FRAME_ACK, .through = l->got};
    struct frame_writer w;

    assert(bytes);
    frame_begin(&w, &f, bytes, room);
    frame_end(&w);
    frame_stamp(bytes, l->self, l->run, ACKS + ++l->acks_sent);
    l->told = l->got;
    return w.len;
}
