#include "ps/wire/ring.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

void ring_init(struct ring *r, struct ring_shared *shared, unsigned char *bytes,
               uint64_t size)
{
    assert(shared && bytes && size > RING_PREFIX_BYTES);
    *r = (struct ring){.shared = shared, .bytes = bytes, .size = size};
}

/* The other's counter only grows, and lies between @least and @most. */
static bool look(struct ring *r, const _Atomic uint64_t *counter,
                 uint64_t least, uint64_t most)
{
    uint64_t now = atomic_load(counter);

    if (now < least || now > most)
        r->torn = true;
    if (!r->torn)
        r->other = now;
    return !r->torn;
}

size_t ring_room(struct ring *r)
{
    if (!look(r, &r->shared->tail, r->other, r->own))
        return 0;
    return (size_t)(r->size - (r->own - r->other));
}

size_t ring_filled(struct ring *r)
{
    if (!look(r, &r->shared->head, r->other, r->own + r->size))
        return 0;
    return (size_t)(r->other - r->own);
}

/* Bytes at this end's place that lie together. */
static size_t together(const struct ring *r, size_t n)
{
    size_t left = (size_t)(r->size - r->own % r->size);

    return n < left ? n : left;
}

size_t ring_write(struct ring *r, const void *bytes, size_t n)
{
    size_t room = ring_room(r), first;

    n = n < room ? n : room;
    if (n == 0)
        return 0;
    first = together(r, n);
    memcpy(r->bytes + r->own % r->size, bytes, first);
    memcpy(r->bytes, (const unsigned char *)bytes + first, n - first);
    r->own += n;
    atomic_store(&r->shared->head, r->own);
    return n;
}

size_t ring_read(struct ring *r, void *out, size_t n)
{
    size_t filled = ring_filled(r), first;

    n = n < filled ? n : filled;
    if (n == 0)
        return 0;
    first = together(r, n);
    memcpy(out, r->bytes + r->own % r->size, first);
    memcpy((unsigned char *)out + first, r->bytes, n - first);
    r->own += n;
    atomic_store(&r->shared->tail, r->own);
    return n;
}

/* ---- who sleeps ---------------------------------------------------------- */

/* Counters and flags are sequentially consistent, all of them: see the header.
 */

static bool take_flag(_Atomic uint32_t *flag)
{
    return atomic_load(flag) != 0 && atomic_exchange(flag, 0) != 0;
}

bool ring_takes_wake(struct ring *r)
{
    return take_flag(&r->shared->asleep);
}

void ring_sleep(struct ring *r)
{
    atomic_store(&r->shared->asleep, 1);
}

void ring_stay_awake(struct ring *r)
{
    atomic_store_explicit(&r->shared->asleep, 0, memory_order_relaxed);
}

void ring_wait_room(struct ring *r)
{
    atomic_store(&r->shared->full, 1);
}

bool ring_takes_room(struct ring *r)
{
    return take_flag(&r->shared->full);
}

bool ring_has_news(const struct ring_shared *shared)
{
    return atomic_load_explicit(&shared->head, memory_order_relaxed) !=
           atomic_load_explicit(&shared->tail, memory_order_relaxed);
}

bool ring_moved_on(const struct ring_shared *shared, uint64_t read)
{
    return atomic_load(&shared->tail) != read;
}

/* ---- messages ------------------------------------------------------------ */

static enum err begin_message(struct ring *r, struct ring_message *m,
                              size_t n_max)
{
    uint32_t n;

    m->have += ring_read(r, m->length + m->have, RING_PREFIX_BYTES - m->have);
    if (r->torn)
        return ERR_PROTO;
    if (m->have < RING_PREFIX_BYTES)
        return ERR_AGAIN;
    memcpy(&n, m->length, sizeof(n));
    if (n == 0 || n > n_max) {
        r->torn = true;
        return ERR_PROTO;
    }
    m->n = n;
    if (n <= m->room)
        return ERR_OK;
    mem_free(m->bytes);
    m->bytes = mem_alloc(n);
    m->room = m->bytes ? n : 0;
    r->torn = !m->bytes;
    return m->bytes ? ERR_OK : ERR_NOMEM;
}

enum err ring_next(struct ring *r, struct ring_message *m, size_t n_max)
{
    enum err err;
    size_t at;

    if (r->torn)
        return ERR_PROTO;
    if (m->have == RING_PREFIX_BYTES + m->n && m->n)
        m->have = m->n = 0; /* the last one was seen */
    if (m->have < RING_PREFIX_BYTES) {
        err = begin_message(r, m, n_max);
        if (err)
            return err;
    }
    at = m->have - RING_PREFIX_BYTES;
    m->have += ring_read(r, m->bytes + at, m->n - at);
    if (r->torn)
        return ERR_PROTO;
    return m->have == RING_PREFIX_BYTES + m->n ? ERR_OK : ERR_AGAIN;
}

void ring_message_deinit(struct ring_message *m)
{
    mem_free(m->bytes);
    memset(m, 0, sizeof(*m));
}
