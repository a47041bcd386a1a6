/* Stripes: locks of four bytes, for critical sections of nanoseconds.
 *
 * A stripe sleeps after a short spin, so that it survives more threads than
 * processors. Not recursive. Zeroed is unlocked. The slow halves, which sleep
 * and wake, are in ps/server/park_io.c.
 */
#ifndef PS_STRIPE_H
#define PS_STRIPE_H

#include <stdatomic.h>
#include <stdint.h>

struct stripe {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody sleeps */
};

void stripe_lock_slow(struct stripe *s);
void stripe_unlock_slow(struct stripe *s);

static inline void stripe_lock(struct stripe *s)
{
    uint32_t free = 0;

    if (!atomic_compare_exchange_strong_explicit(
            &s->state, &free, 1, memory_order_acquire, memory_order_relaxed))
        stripe_lock_slow(s);
}

static inline void stripe_unlock(struct stripe *s)
{
    if (atomic_exchange_explicit(&s->state, 0, memory_order_release) == 2)
        stripe_unlock_slow(s);
}

#endif
