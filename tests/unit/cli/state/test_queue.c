/* The queue of a service: whose turn it is. */
#include "cli/state/queue.h"
#include "tests/unit/fixture/check.h"

#include <stdbool.h>
#include <stdio.h>

enum { ENTRIES_MAX = 64 };

struct world {
    struct queue_limits limits;
    struct queue_entry entry[ENTRIES_MAX];
    const struct queue_entry *list[ENTRIES_MAX];
    size_t n;
    uint64_t turns;
};

static struct world w;

static int setup(void **state)
{
    (void)state;
    w = (struct world){.limits = {.slots = 1, .workers = 4, .memory = 100}};
    return 0;
}

static size_t add(const char *group, unsigned workers, uint64_t memory)
{
    struct queue_entry *e = &w.entry[w.n];

    assert_true(w.n < ENTRIES_MAX);
    *e = (struct queue_entry){.state = QUEUE_WAITS,
                              .number = w.n + 1,
                              .workers = workers,
                              .memory = memory};
    snprintf(e->group, sizeof(e->group), "%s", group);
    w.list[w.n] = e;
    return w.n++;
}

static size_t next(void)
{
    return queue_next(&w.limits, w.list, w.n);
}

/* Begins what is next; that must be @expected. */
static void begins(size_t expected)
{
    size_t i = next();

    assert_int_equal(i, expected);
    w.entry[i].state = QUEUE_RUNS;
    w.entry[i].turn = ++w.turns;
}

static void ends(size_t i)
{
    assert_int_equal(w.entry[i].state, QUEUE_RUNS);
    w.entry[i].state = QUEUE_IDLE;
}

/* One group: in the order of submission, one slot after the other. */
static void queue_is_in_order_within_a_group(void **state)
{
    (void)state;
    assert_int_equal(next(), SIZE_MAX);
    for (int i = 0; i < 5; i++)
        add("a", 1, 1);
    for (size_t i = 0; i < 5; i++) {
        begins(i);
        assert_int_equal(next(), SIZE_MAX);
        ends(i);
    }
    assert_int_equal(next(), SIZE_MAX);
}

/* Groups take turns, whoever was first and whatever they have submitted. */
static void queue_groups_take_turns(void **state)
{
    size_t a[3], b, c[2];

    (void)state;
    for (int i = 0; i < 3; i++)
        a[i] = add("a", 1, 1);
    b = add("b", 1, 1);
    for (int i = 0; i < 2; i++)
        c[i] = add("c", 1, 1);
    begins(a[0]);
    ends(a[0]);
    begins(b);
    ends(b);
    begins(c[0]);
    ends(c[0]);
    begins(a[1]);
    ends(a[1]);
    begins(c[1]);
    ends(c[1]);
    begins(a[2]);
}

/* With more slots a group gets a second one only when no other waits. */
static void queue_slots_go_to_who_has_none(void **state)
{
    size_t a0, a1, b;

    (void)state;
    w.limits.slots = 2;
    a0 = add("a", 1, 1);
    a1 = add("a", 1, 1);
    begins(a0);
    b = add("b", 1, 1);
    begins(b);
    assert_int_equal(next(), SIZE_MAX);
    ends(b);
    begins(a1);
}

/* Nothing smaller passes by what does not fit; it begins when there is room. */
static void queue_waits_for_who_is_next(void **state)
{
    size_t small, large, tiny;

    (void)state;
    w.limits.slots = 8;
    small = add("a", 2, 10);
    large = add("b", 3, 10);
    tiny = add("c", 1, 1);
    begins(small);
    assert_int_equal(next(), SIZE_MAX);
    ends(small);
    begins(large);
    begins(tiny);
    ends(large);
    large = add("d", 1, 100);
    assert_int_equal(next(), SIZE_MAX);
    ends(tiny);
    begins(large);
}

/* A run that is larger than all there is begins alone. */
static void queue_takes_a_large_run_alone(void **state)
{
    size_t small, large;

    (void)state;
    w.limits.slots = 8;
    small = add("a", 1, 1);
    large = add("b", 100, 1000);
    begins(small);
    assert_int_equal(next(), SIZE_MAX);
    ends(small);
    begins(large);
    add("a", 1, 1);
    assert_int_equal(next(), SIZE_MAX);
}

/* A run that rests is passed by, within its group too, and its turns still
 * count. */
static void queue_passes_by_what_rests(void **state)
{
    size_t a0, a1, b;

    (void)state;
    a0 = add("a", 1, 1);
    a1 = add("a", 1, 1);
    b = add("b", 1, 1);
    begins(a0);
    w.entry[a0].state = QUEUE_RESTS;
    begins(b);
    ends(b);
    begins(a1);
    ends(a1);
    w.entry[a0].state = QUEUE_WAITS;
    begins(a0);
}

/* Whatever comes and goes: limits hold, and everybody begins at last. */
static void queue_serves_everybody(void **state)
{
    uint64_t random = 7;
    size_t begun = 0;

    (void)state;
    w.limits = (struct queue_limits){.slots = 3, .workers = 4, .memory = 50};
    for (int i = 0; i < ENTRIES_MAX; i++) {
        char group[2] = {(char)('a' + i % 5), '\0'};

        random = random * 6364136223846793005u + 1442695040888963407u;
        add(group, 1 + (unsigned)(random >> 33) % 6, (random >> 40) % 60);
    }
    while (begun < ENTRIES_MAX) {
        size_t i = next(), running = 0, oldest = SIZE_MAX;
        unsigned workers = 0;
        uint64_t memory = 0;

        if (i < w.n) {
            begins(i);
            begun++;
        }
        for (size_t k = 0; k < w.n; k++) {
            if (w.entry[k].state != QUEUE_RUNS)
                continue;
            running++;
            workers += w.entry[k].workers;
            memory += w.entry[k].memory;
            if (oldest == SIZE_MAX || w.entry[k].turn < w.entry[oldest].turn)
                oldest = k;
        }
        assert_true(running >= 1);
        assert_true(running <= 3);
        assert_true(running == 1 || (workers <= 4 && memory <= 50));
        if (i == SIZE_MAX)
            ends(oldest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(queue_is_in_order_within_a_group, setup),
        cmocka_unit_test_setup(queue_groups_take_turns, setup),
        cmocka_unit_test_setup(queue_slots_go_to_who_has_none, setup),
        cmocka_unit_test_setup(queue_waits_for_who_is_next, setup),
        cmocka_unit_test_setup(queue_takes_a_large_run_alone, setup),
        cmocka_unit_test_setup(queue_passes_by_what_rests, setup),
        cmocka_unit_test_setup(queue_serves_everybody, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
