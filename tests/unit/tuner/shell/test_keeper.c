/* When a training node is taken for lost, and what then. */
#include "tests/unit/fixture/check.h"
#include "tuner/shell/keeper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct keeper keeper(uint32_t nodes, bool restarts)
{
    const struct keeper_options o = {
        .nodes = nodes, .restarts = restarts, .silence_s = 10, .backoff_s = 1};
    struct keeper k;

    keeper_init(&k, &o, 100);
    return k;
}

/* Nothing is to be done while all speak; a node that speaks no more is killed
 * after silence_s, and it is the one that was named. */
static void keeper_kills_the_one_that_is_silent(void **state)
{
    struct keeper k = keeper(3, true);

    (void)state;
    assert_int_equal(keeper_take(&k, 109), KEEPER_NOTHING);
    keeper_hear(&k, 0, 109);
    keeper_hear(&k, 2, 108);
    assert_true(keeper_due_at(&k) == 110);
    assert_int_equal(keeper_take(&k, 110), KEEPER_KILL);
    assert_int_equal(keeper_most_silent(&k), 1);
    keeper_hear(&k, 1, 110);
    assert_true(keeper_due_at(&k) == 118);
}

/* The defaults stand in for what is not given. */
static void keeper_without_options_has_defaults(void **state)
{
    const struct keeper_options o = {.nodes = 1};
    struct keeper k;

    (void)state;
    keeper_init(&k, &o, 5);
    assert_true(keeper_due_at(&k) == 5 + KEEPER_SILENCE_S);
}

/* Nodes that were told to stop may be silent, and are not started again. */
static void keeper_expects_no_word_of_nodes_that_stop(void **state)
{
    struct keeper k = keeper(1, true);

    (void)state;
    keeper_stop(&k);
    assert_true(isinf(keeper_due_at(&k)));
    assert_true(keeper_end(&k, 101, "node 0 has ended"));
    assert_int_equal(keeper_take(&k, 102), KEEPER_GIVE_UP);
    assert_string_equal(k.reason, "node 0 has ended");
}

/* Last words are waited for; how the process ended is the better reason, and
 * nothing overrules that. */
static void keeper_takes_the_verdict_for_the_reason(void **state)
{
    struct keeper k = keeper(1, true);

    (void)state;
    assert_true(keeper_lose(&k, true, 101, "not connected"));
    assert_int_equal(keeper_take(&k, 101.1), KEEPER_NOTHING);
    assert_true(keeper_end(&k, 101.1, "killed"));
    assert_false(keeper_lose(&k, false, 101.15, "does not take messages"));
    assert_int_equal(keeper_take(&k, 101.21), KEEPER_CLEAR);
    assert_string_equal(k.reason, "killed");
    assert_true(k.lost);
    assert_false(keeper_lose(&k, false, 101.3, "too late"));
}

/* A node that takes no messages has no last words. */
static void keeper_waits_for_no_words_of_the_deaf(void **state)
{
    struct keeper k = keeper(1, true);

    (void)state;
    assert_true(keeper_lose(&k, false, 101, "does not take messages"));
    assert_int_equal(keeper_take(&k, 101), KEEPER_CLEAR);
}

static void lose(struct keeper *k, double now_s)
{
    assert_true(keeper_lose(k, false, now_s, "gone"));
}

/* Each restart in a row waits twice as long as the one before; then it is given
 * up, and the reason says how often it was tried. */
static void keeper_gives_up_after_restarts_in_a_row(void **state)
{
    struct keeper k = keeper(2, true);
    double now = 200, wait = 1;

    (void)state;
    for (int i = 0; i < KEEPER_RESTARTS_MAX; i++) {
        lose(&k, now);
        assert_int_equal(keeper_take(&k, now), KEEPER_CLEAR);
        assert_true(k.wait_s == wait);
        assert_true(keeper_due_at(&k) == now + wait);
        assert_int_equal(keeper_take(&k, now + wait / 2), KEEPER_NOTHING);
        now += wait;
        assert_int_equal(keeper_take(&k, now), KEEPER_RESTART);
        assert_int_equal(keeper_take(&k, now), KEEPER_NOTHING);
        keeper_restarted(&k, now);
        assert_true(keeper_due_at(&k) == now + 10);
        wait *= 2;
    }
    lose(&k, now);
    assert_int_equal(keeper_take(&k, now), KEEPER_GIVE_UP);
    assert_string_equal(k.reason, "gone; it was started again 3 times before");
    assert_true(isinf(keeper_due_at(&k)));
}

/* A further epoch is progress, the same one again is none. */
static void keeper_counts_restarts_anew_after_progress(void **state)
{
    struct keeper k = keeper(1, true);

    (void)state;
    keeper_progress(&k, 4);
    lose(&k, 101);
    assert_int_equal(keeper_take(&k, 101), KEEPER_CLEAR);
    assert_int_equal(keeper_take(&k, 102), KEEPER_RESTART);
    keeper_restarted(&k, 102);
    keeper_progress(&k, 4);
    assert_int_equal(k.restarts, 1);
    keeper_progress(&k, 5);
    assert_int_equal(k.restarts, 0);
}

/* Nothing is started again where nobody would, nor for a user who leaves. */
static void keeper_starts_nothing_for_those_who_leave(void **state)
{
    struct keeper k = keeper(1, false);

    (void)state;
    lose(&k, 101);
    assert_int_equal(keeper_take(&k, 101), KEEPER_GIVE_UP);
    assert_string_equal(k.reason, "gone");
    k = keeper(1, true);
    keeper_leave(&k);
    lose(&k, 101);
    assert_int_equal(keeper_take(&k, 101), KEEPER_GIVE_UP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeper_kills_the_one_that_is_silent),
        cmocka_unit_test(keeper_without_options_has_defaults),
        cmocka_unit_test(keeper_expects_no_word_of_nodes_that_stop),
        cmocka_unit_test(keeper_takes_the_verdict_for_the_reason),
        cmocka_unit_test(keeper_waits_for_no_words_of_the_deaf),
        cmocka_unit_test(keeper_gives_up_after_restarts_in_a_row),
        cmocka_unit_test(keeper_counts_restarts_anew_after_progress),
        cmocka_unit_test(keeper_starts_nothing_for_those_who_leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
