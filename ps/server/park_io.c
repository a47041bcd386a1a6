#include "ps/server/park_io.h"

#include "base/clock_io.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS_A_LOOK = 64, STRIPE_SPINS = 100 };

static void futex_sleep(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

uint32_t park_ticket(struct park *p)
{
    return atomic_load(&p->ticket);
}

/* Whether the ticket changed within @spin_ns. */
static int spin(struct park *p, uint32_t ticket, uint64_t spin_ns)
{
    time_ns end;

    if (spin_ns == 0)
        return 0;
    end = clock_monotonic() + (time_ns)spin_ns;
    do {
        for (int i = 0; i < SPINS_A_LOOK; i++) {
            if (atomic_load_explicit(&p->ticket, memory_order_acquire) !=
                ticket)
                return 1;
            pause_briefly();
        }
    } while (clock_monotonic() < end);
    return 0;
}

/* Sleepers count themselves before the kernel compares the ticket; wakers move
 * the ticket before they look at the count. Both are sequentially consistent,
 * so one of the two sees the other. */
void park_wait(struct park *p, uint32_t ticket, uint64_t spin_ns)
{
    if (park_ticket(p) != ticket || spin(p, ticket, spin_ns))
        return;
    atomic_fetch_add(&p->sleepers, 1);
    while (park_ticket(p) == ticket)
        futex_sleep(&p->ticket, ticket);
    atomic_fetch_sub(&p->sleepers, 1);
}

uint64_t park_next_spin(uint64_t spin_ns, uint64_t waited_ns)
{
    if (spin_ns == 0)
        return 0;
    if (waited_ns > PARK_SPIN_MAX_NS)
        return spin_ns / 2 > PARK_SPIN_MIN_NS ? spin_ns / 2 : PARK_SPIN_MIN_NS;
    spin_ns += PARK_SPIN_STEP_NS;
    return spin_ns < PARK_SPIN_MAX_NS ? spin_ns : PARK_SPIN_MAX_NS;
}

void park_wake(struct park *p)
{
    atomic_fetch_add(&p->ticket, 1);
    if (atomic_load(&p->sleepers) > 0)
        futex_wake(&p->ticket, INT_MAX);
}

/* The mutex of Drepper, "Futexes are tricky", section 5: whoever has slept
 * leaves the state at 2, because others may sleep still. */
void stripe_lock_slow(struct stripe *s)
{
    for (int i = 0; i < STRIPE_SPINS; i++) {
        uint32_t free = 0;

        if (atomic_load_explicit(&s->state, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&s->state, &free, 1,
                                                    memory_order_acquire,
                                                    memory_order_relaxed))
            return;
        pause_briefly();
    }
    while (atomic_exchange_explicit(&s->state, 2, memory_order_acquire) != 0)
        futex_sleep(&s->state, 2);
}

void stripe_unlock_slow(struct stripe *s)
{
    futex_wake(&s->state, 1);
}
