/* A ring whose other end does what it likes: writes any bytes, moves its
 * counters anywhere. Nothing outside of the ring is read or written, a message
 * is never longer than allowed, and once a counter could not be, nothing comes
 * and nothing leaves any more. */
#include "ps/wire/ring.h"
#include "tests/fuzz/bytes_in.h"
#include "tests/fuzz/must.h"

#include <stdlib.h>
#include <string.h>

enum { RING_FUZZ_SIZE = 64, RING_FUZZ_MESSAGE_MAX = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void move(_Atomic uint64_t *counter, struct bytes_in *in)
{
    uint64_t by = in_number(in);

    if (in_chance(in))
        atomic_store(counter, by);
    else
        atomic_fetch_add(counter, by);
}

static void read_next(struct ring *r, struct ring_message *m)
{
    bool torn = r->torn;
    enum err err = ring_next(r, m, RING_FUZZ_MESSAGE_MAX);
    unsigned sum = 0;

    must(!torn || (err != ERR_OK && err != ERR_AGAIN));
    must(err != ERR_PROTO || r->torn);
    if (err != ERR_OK)
        return;
    must(m->n > 0 && m->n <= RING_FUZZ_MESSAGE_MAX);
    for (size_t i = 0; i < m->n; i++)
        sum += m->bytes[i];
    must(sum <= 255 * m->n);
}

static void write_some(struct ring *r, size_t n)
{
    unsigned char bytes[RING_FUZZ_SIZE] = {0};
    bool torn = r->torn;
    size_t room = ring_room(r), wrote = ring_write(r, bytes, n);

    must(room <= RING_FUZZ_SIZE);
    must(wrote == (n < room ? n : room));
    must(!torn || wrote == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Each on the heap, so that a byte beyond is seen. */
    struct ring_shared *to = aligned_alloc(RING_LINE_BYTES, sizeof(*to));
    struct ring_shared *from = aligned_alloc(RING_LINE_BYTES, sizeof(*from));
    unsigned char *bytes = malloc(RING_FUZZ_SIZE);
    struct bytes_in in = {data, size};
    struct ring_message m = {.have = 0};
    struct ring reader, writer;

    must(to && from && bytes);
    memset(to, 0, sizeof(*to));
    memset(from, 0, sizeof(*from));
    memset(bytes, 0, RING_FUZZ_SIZE);
    ring_init(&reader, from, bytes, RING_FUZZ_SIZE);
    ring_init(&writer, to, bytes, RING_FUZZ_SIZE);
    while (in.left) {
        switch (in_below(&in, 6)) {
        case 0:
            bytes[in_below(&in, RING_FUZZ_SIZE)] = in_byte(&in);
            break;
        case 1: /* a length, at the next place */
            bytes[reader.own % RING_FUZZ_SIZE] = in_byte(&in);
            atomic_fetch_add(&from->head, in_below(&in, 40));
            break;
        case 2:
            move(&from->head, &in);
            break;
        case 3:
            move(&to->tail, &in);
            break;
        case 4:
            read_next(&reader, &m);
            break;
        default:
            write_some(&writer, in_below(&in, RING_FUZZ_SIZE));
        }
    }
    ring_message_deinit(&m);
    free(bytes);
    free(from);
    free(to);
    return 0;
}
