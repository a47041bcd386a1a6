/* Parking: wait until something changes, awake for a moment, then asleep.
 *
 * An event count. Whoever waits takes a ticket, looks whether what it waits for
 * is so, and if not waits for the ticket to change; whoever changes anything
 * wakes. No wake is lost, whatever the order.
 *
 *     ticket = park_ticket(p);              change the state;
 *     if (!condition) park_wait(p, ...);    park_wake(p);
 *
 * A wake without sleepers costs one atomic addition; waking a sleeper across
 * processors costs 50-90 us here, hence the spinning, which is of use only
 * while every thread has a processor of its own. Whether that is so shows in
 * how long waits take: spinning adapts to it (park_next_spin).
 */
#ifndef PS_PARK_IO_H
#define PS_PARK_IO_H

#include "ps/server/stripe.h"

#include <stdatomic.h>
#include <stdint.h>

struct park {
    _Atomic uint32_t ticket;
    _Atomic uint32_t sleepers;
};

/* Bounds of what is spun before sleeping; a wait longer than the upper one is
 * for somebody who has no processor. And what it grows by in a shorter one: it
 * saves about a wake-up, where a longer one wastes all that was spun. So of
 * long waits a few keep it short. */
enum {
    PARK_SPIN_MIN_NS = 50 * 1000,
    PARK_SPIN_MAX_NS = 1000 * 1000,
    PARK_SPIN_STEP_NS = 10 * 1000
};

uint32_t park_ticket(struct park *p);

/* Returns once the ticket is not @ticket any more, after at most @spin_ns of
 * spinning asleep. May return early without cause. */
void park_wait(struct park *p, uint32_t ticket, uint64_t spin_ns);

/* The time to spin in the next wait, after @spin_ns of it in a wait that took
 * @waited_ns in all: a step longer while waits are short enough to be spun
 * through, half as long when they are not, within the bounds. 0 stays 0. Pure.
 */
uint64_t park_next_spin(uint64_t spin_ns, uint64_t waited_ns);

/* Wakes all that wait with an earlier ticket. Any thread. */
void park_wake(struct park *p);

#endif
