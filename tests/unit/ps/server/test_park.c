#include "ps/server/park_io.h"

#include <pthread.h>

#include "tests/unit/fixture/check.h"

/* Short waits are spun through for longer, long ones are not; bounded. */
static void park_spin_follows_the_waits(void **state)
{
    uint64_t spin = PARK_SPIN_MAX_NS;

    (void)state;
    spin = park_next_spin(spin, PARK_SPIN_MAX_NS + 1);
    assert_int_equal(spin, PARK_SPIN_MAX_NS / 2);
    for (int i = 0; i < 20; i++)
        spin = park_next_spin(spin, UINT64_MAX);
    assert_int_equal(spin, PARK_SPIN_MIN_NS);
    spin = park_next_spin(spin, PARK_SPIN_MAX_NS);
    assert_int_equal(spin, PARK_SPIN_MIN_NS + PARK_SPIN_STEP_NS);
    for (int i = 0; i < 100; i++)
        spin = park_next_spin(spin, 0);
    assert_int_equal(spin, PARK_SPIN_MAX_NS);
}

/* What is spun at the end of a round of waits of which the last is long. */
static uint64_t spin_after_rounds(unsigned waits)
{
    uint64_t spin = PARK_SPIN_MAX_NS;

    for (unsigned round = 0; round < 100; round++) {
        spin = park_next_spin(spin, PARK_SPIN_MAX_NS + 1);
        for (unsigned i = 1; i < waits; i++)
            spin = park_next_spin(spin, 0);
    }
    return spin;
}

/* Where one wait in four is long, as in a step of a loop while others have the
 * processors, little is spun for nothing; where few are, nearly all that may
 * be. */
static void park_spins_little_where_long_waits_recur(void **state)
{
    (void)state;
    assert_true(spin_after_rounds(4) <= PARK_SPIN_MAX_NS / 10);
    assert_true(spin_after_rounds(50) >= PARK_SPIN_MAX_NS / 2);
}

/* More threads than processors: never any spinning. */
static void park_without_spinning_stays_so(void **state)
{
    (void)state;
    assert_int_equal(park_next_spin(0, 0), 0);
    assert_int_equal(park_next_spin(0, UINT64_MAX), 0);
}

struct turns {
    struct park park;
    _Atomic unsigned turn;
    uint64_t spin_ns;
};

enum { TURNS = 200 };

static void take_turns(struct turns *t, unsigned parity)
{
    for (unsigned i = parity; i < TURNS; i += 2) {
        for (;;) {
            uint32_t ticket = park_ticket(&t->park);

            if (atomic_load(&t->turn) == i)
                break;
            park_wait(&t->park, ticket, t->spin_ns);
        }
        atomic_store(&t->turn, i + 1);
        park_wake(&t->park);
    }
}

static void *odd_turns(void *arg)
{
    take_turns(arg, 1);
    return NULL;
}

/* Two threads wait for each other in turn, asleep and awake. */
static void park_loses_no_wake(void **state)
{
    static const uint64_t spins[] = {0, PARK_SPIN_MIN_NS};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct turns t = {.spin_ns = spins[i]};
        pthread_t other;

        assert_int_equal(pthread_create(&other, NULL, odd_turns, &t), 0);
        take_turns(&t, 0);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(atomic_load(&t.turn), TURNS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(park_spin_follows_the_waits),
        cmocka_unit_test(park_spins_little_where_long_waits_recur),
        cmocka_unit_test(park_without_spinning_stays_so),
        cmocka_unit_test(park_loses_no_wake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
