/* A ring: bytes from one process to another through memory that both have.
 *
 * One writer, one reader. Each moves its own counter and looks at the other's;
 * what it looks at is checked and then kept, so that a counter that cannot be
 * (it went back, or too far) is found, never followed: the ring is torn from
 * then on and moves nothing. Bytes are copied out before anybody looks at them.
 * The position of a byte is the counter modulo the size.
 *
 * Who sleeps says so first and looks once more; who writes looks whether the
 * other sleeps. Both are sequentially consistent, so one of the two sees the
 * other. The same holds for a writer that waits for room.
 *
 * Messages lie in it one behind the other, each behind its length (4 bytes of
 * this machine). One that is longer than the ring passes in parts.
 *
 * Pure, but that the other's end moves.
 */
#ifndef PS_RING_H
#define PS_RING_H

#include "base/fault.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RING_PREFIX_BYTES = 4, RING_LINE_BYTES = 64 };

/* What the two ends share beside the bytes; all 0 at first. */
struct ring_shared {
    _Alignas(RING_LINE_BYTES) _Atomic uint64_t head; /* bytes written */
    /* The writer's, before its first byte: the ring is read once all frames up
     * to this number have come another way, and so many acknowledgements. Both
     * are one more than that: 0 is not said. */
    _Atomic uint64_t after, after_acks;
    _Alignas(RING_LINE_BYTES) _Atomic uint64_t tail;   /* bytes read */
    _Alignas(RING_LINE_BYTES) _Atomic uint32_t asleep; /* the reader is */
    _Alignas(RING_LINE_BYTES) _Atomic uint32_t full;   /* for the writer */
};

/* One end. */
struct ring {
    struct ring_shared *shared; /* borrowed, as are the bytes */
    unsigned char *bytes;       /* [size] */
    uint64_t size;
    uint64_t own;   /* bytes moved by this end; */
    uint64_t other; /* by the other, as last seen */
    bool torn;
};

/* A message that has come in part. */
struct ring_message {
    unsigned char length[RING_PREFIX_BYTES];
    size_t have;          /* of length and bytes together */
    unsigned char *bytes; /* owned */
    size_t n, room;       /* of a message; of the buffer */
};

void ring_init(struct ring *r, struct ring_shared *shared, unsigned char *bytes,
               uint64_t size);

/* Bytes that the writer may write, or 0 where the ring is torn. */
size_t ring_room(struct ring *r);

/* Bytes that the reader may read, likewise. */
size_t ring_filled(struct ring *r);

/* Writes, reads as many of @n as there is room, are there. Returns how many. */
size_t ring_write(struct ring *r, const void *bytes, size_t n);
size_t ring_read(struct ring *r, void *out, size_t n);

/* The writer, after it has written: whether the reader sleeps and is to be
 * woken, by the caller and nobody else. */
bool ring_takes_wake(struct ring *r);
/* The reader is about to sleep; it looks at the ring once more. */
void ring_sleep(struct ring *r);
void ring_stay_awake(struct ring *r);

/* The writer has too little room; it looks once more. */
void ring_wait_room(struct ring *r);
/* The reader, after it has read: whether the writer waits for room and is to be
 * woken, by the caller and nobody else. */
bool ring_takes_room(struct ring *r);

/* Whether something has been written that was not read: any thread. */
bool ring_has_news(const struct ring_shared *shared);
/* Whether other than @read bytes have been read: any thread. */
bool ring_moved_on(const struct ring_shared *shared, uint64_t read);

/* The next message, of at most @n_max bytes: whole in m->bytes[m->n] until the
 * next call. Errors: ERR_AGAIN not all of it is there; ERR_PROTO the ring is
 * torn, or it is longer or empty; ERR_NOMEM. After the last two nothing more
 * comes. */
enum err ring_next(struct ring *r, struct ring_message *m, size_t n_max);

/* Accepts a zeroed one. */
void ring_message_deinit(struct ring_message *m);

#endif
