/* Two nodes' link, and somebody between them: frames are sent, delivered, lost
 * (never by the network, but by who forges), repeated and made up. A frame that
 * is refused changes nothing; the window is never overrun. */
#include "ps/nodes/link.h"
#include "tests/fuzz/bytes_in.h"
#include "tests/fuzz/must.h"

#include <stdlib.h>
#include <string.h>

enum { LINK_FUZZ_STEPS = 200, LINK_FUZZ_FRAMES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What one end has put on the wire. */
struct end {
    struct link link;
    unsigned char frame[LINK_FUZZ_FRAMES][FRAME_FIXED_BYTES_MAX];
    size_t bytes[LINK_FUZZ_FRAMES];
    size_t sent, taken; /* by the other end, in order */
};

static void put(struct end *e, const unsigned char *bytes, size_t n)
{
    if (e->sent == LINK_FUZZ_FRAMES)
        return;
    memcpy(e->frame[e->sent], bytes, n);
    e->bytes[e->sent++] = n;
}

static void check(const struct link *l)
{
    must(l->acked <= l->sent);
    must(l->sent - l->acked <= l->window);
    must(l->told <= l->got);
    must(link_open(l) == (l->sent - l->acked < l->window));
}

static void send_one(struct end *e)
{
    struct frame f = {.kind = FRAME_DRAINED};
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];
    struct frame_writer w;
    size_t n;

    if (!link_open(&e->link) || e->sent == LINK_FUZZ_FRAMES)
        return;
    frame_begin(&w, &f, bytes, sizeof(bytes));
    n = frame_end(&w);
    link_send(&e->link, bytes);
    put(e, bytes, n);
}

static void acknowledge(struct end *e)
{
    unsigned char bytes[FRAME_FIXED_BYTES_MAX];

    put(e, bytes, link_ack(&e->link, bytes, sizeof(bytes)));
}

/* Refused, it changes nothing. */
static bool take(struct link *to, const struct frame *f)
{
    struct link before = *to;
    struct fault fault = {0};

    if (link_take(to, f, &fault) == ERR_OK)
        return true;
    must(fault.code == ERR_PROTO && fault.text[0]);
    must(memcmp(&before, to, sizeof(before)) == 0);
    return false;
}

/* Frame @i of @from, once more or at last, reaches @to. */
static void deliver(struct end *from, struct link *to, size_t i, bool forged)
{
    struct frame f;

    must(frame_decode(from->frame[i], from->bytes[i], &f, NULL) == ERR_OK);
    if (i == from->taken) {
        from->taken++;
        must(take(to, &f) || forged);
    } else {
        take(to, &f);
    }
}

static void forge(struct bytes_in *in, struct link *to)
{
    struct frame f = {.kind = (enum frame_kind)(1 + in_below(in, 20)),
                      .from = (uint32_t)in_number(in),
                      .run = in_number(in),
                      .sequence = in_number(in),
                      .through = in_number(in)};

    if (in_chance(in))
        f.run = to->run;
    if (in_chance(in))
        f.from = to->peer;
    if (in_chance(in))
        f.sequence = (f.kind == FRAME_ACK ? to->acks_got : to->got) + 1;
    take(to, &f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes_in in = {data, size};
    static struct end end[2];
    uint32_t window = 1 + (uint32_t)in_below(&in, 9);
    bool forged = false;

    memset(end, 0, sizeof(end));
    link_init(&end[0].link, 7, 1, 2, window);
    link_init(&end[1].link, 7, 2, 1, window);
    for (int i = 0; i < LINK_FUZZ_STEPS && in.left > 0; i++) {
        struct end *e = &end[in_below(&in, 2)],
                   *other = e == end ? end + 1 : end;

        switch (in_below(&in, 6)) {
        case 0:
            send_one(e);
            break;
        case 1:
            if (e->taken < e->sent)
                deliver(e, &other->link, e->taken, forged);
            break;
        case 2:
            if (e->sent > 0) {
                size_t frame = in_below(&in, e->sent);

                forged |= frame > e->taken; /* an ACK may overtake frames */
                deliver(e, &other->link, frame, forged);
            }
            break;
        case 3:
            acknowledge(e);
            break;
        case 4:
            link_ack_every(&e->link, (uint32_t)in_below(&in, window + 2));
            break;
        default:
            forged = true;
            forge(&in, &e->link);
        }
        check(&end[0].link);
        check(&end[1].link);
    }
    return 0;
}
