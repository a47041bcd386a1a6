/* When a training node is taken for lost, and what then. */
#include "tests/unit/fixture/check.h"
#include "tuner/shell/keeper.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct keeper keeper(uint32_t nodes, bool restarts)
{
    const struct keeper_options o = {.nodes = nodes,
                                     .restarts = restarts,
                                     .silence_s = 10,
                                     .backoff_s = 1,
                                     .ready_by = "cluster.ready_timeout"};
    struct keeper k;

    keeper_init(&k, &o, 100);
    return k;
}

static void greet_all(struct keeper *k, double now_s)
{
    for (uint32_t i = 0; i < k->o.nodes; i++)
        keeper_greet(k, i, now_s);
}

static void assert_late(struct keeper *k, double now_s, uint32_t node,
                        const char *text)
{
    char late[128];

    assert_int_equal(keeper_take(k, now_s - 0.01), KEEPER_NOTHING);
    assert_true(fabs(keeper_due_at(k) - now_s) < 1e-9);
    assert_int_equal(keeper_take(k, now_s), KEEPER_KILL);
    assert_int_equal(k->late_node, node);
    keeper_late_text(k, late, sizeof(late));
    assert_string_equal(late, text);
    assert_true(keeper_lose(k, false, now_s, late));
}

/* Nothing is to be done while all speak; a node that speaks no more is killed
 * after silence_s, and it is the one that was named. */
static void keeper_kills_the_one_that_is_silent(void **state)
{
    struct keeper k = keeper(3, true);

    (void)state;
    greet_all(&k, 100);
    assert_int_equal(keeper_take(&k, 109), KEEPER_NOTHING);
    keeper_hear(&k, 0, 109);
    keeper_hear(&k, 2, 108);
    assert_late(&k, 110, 1, "has not been heard of for 10 s");
    assert_int_equal(keeper_take(&k, 110), KEEPER_CLEAR);
}

/* A node of our own that never says hello is started again; one that is never
 * ready would load the same again. */
static void keeper_waits_for_hello_and_for_ready(void **state)
{
    struct keeper k = keeper(2, true);

    (void)state;
    keeper_greet(&k, 0, 104);
    assert_late(&k, 110, 1, "has not said hello in 10 s");
    assert_int_equal(keeper_take(&k, 110), KEEPER_CLEAR);
    assert_int_equal(keeper_take(&k, 111), KEEPER_RESTART);
    keeper_restarted(&k, 111);
    greet_all(&k, 112);
    keeper_ready(&k, 1, 113);
    assert_false(keeper_all_ready(&k));
    for (double t = 113; t < 112 + KEEPER_READY_S; t += 1) {
        keeper_hear(&k, 0, t);
        keeper_hear(&k, 1, t);
    }
    assert_late(&k, 112 + KEEPER_READY_S, 0,
                "was not ready in 3600 s (cluster.ready_timeout) after its "
                "hello");
    assert_int_equal(keeper_take(&k, 4000), KEEPER_GIVE_UP);
}

/* A node of our own that beats may work on a clock for hours, and on anything
 * else for one; then it hangs. */
static void keeper_gives_nodes_of_our_own_hours_for_a_clock(void **state)
{
    for (int slice = 0; slice < 2; slice++) {
        struct keeper k = keeper(1, true);
        double late = 100 + (slice ? KEEPER_CLOCK_S : KEEPER_ANSWER_S);

        (void)state;
        greet_all(&k, 100);
        keeper_ready(&k, 0, 100);
        keeper_ask(&k, 2, slice, 100);
        keeper_leave(&k);
        keeper_hurry(&k, 101);
        keeper_hear(&k, 0, late - 1);
        assert_late(&k, late, 0,
                    slice ? "has finished no clock in 21600 s, while a slice "
                            "runs"
                          : "has not answered a request in 3600 s");
        assert_int_equal(keeper_take(&k, late), KEEPER_GIVE_UP);
    }
}

/* Where the run is to end by itself, its time being over, it has less, and is
 * started again to write its model; any word is missed sooner. */
static void keeper_hurries_nodes_of_our_own(void **state)
{
    struct keeper k = keeper(1, true);

    (void)state;
    greet_all(&k, 100);
    keeper_ready(&k, 0, 100);
    keeper_ask(&k, 2, true, 100);
    keeper_hurry(&k, 101);
    keeper_hear(&k, 0, 102);
    assert_true(keeper_due_at(&k) ==
                102 + fmin(k.o.silence_s, KEEPER_END_SILENCE_S));
    keeper_hear(&k, 0, 101 + KEEPER_NODE_END_S - 1);
    assert_late(&k, 101 + KEEPER_NODE_END_S, 0,
                "has not finished its clock in 600 s, although the run is to "
                "end");
    assert_int_equal(keeper_take(&k, 101 + KEEPER_NODE_END_S), KEEPER_CLEAR);
}

/* A program with a beat each second, and so long for each thing. */
static struct keeper program(uint32_t nodes)
{
    const struct keeper_options o = {.nodes = nodes,
                                     .restarts = true,
                                     .program = true,
                                     .silence_s = 1000,
                                     .hello_s = 5,
                                     .ready_s = 50,
                                     .clock_s = 100};
    struct keeper k;

    keeper_init(&k, &o, 100);
    return k;
}

/* A program that does not begin as it should is not started again. */
static void keeper_starts_no_program_again_that_does_not_begin(void **state)
{
    struct keeper k = program(1);

    (void)state;
    assert_late(&k, 105, 0, "has not said hello in 5 s");
    assert_int_equal(keeper_take(&k, 105), KEEPER_GIVE_UP);
    k = program(1);
    greet_all(&k, 104);
    assert_late(&k, 154, 0, "was not ready in 50 s after its hello");
    assert_int_equal(keeper_take(&k, 154), KEEPER_GIVE_UP);
}

/* While a slice runs a clock must end now and then: windows and beats tell. */
static void keeper_misses_a_clock_that_does_not_end(void **state)
{
    struct keeper k = program(2);

    (void)state;
    greet_all(&k, 100);
    keeper_ready(&k, 0, 101);
    keeper_ready(&k, 1, 101);
    assert_true(keeper_all_ready(&k));
    assert_int_equal(keeper_take(&k, 900), KEEPER_NOTHING); /* nothing is due */
    keeper_ask(&k, 2, true, 900);
    keeper_ask(&k, 3, true, 905); /* a second slice: no further time */
    keeper_move(&k, 0, 950);
    keeper_beat(&k, 1, 7, 910);
    keeper_beat(&k, 1, 7, 990); /* as before */
    keeper_answer(&k, 1, 2, 920);
    keeper_hear(&k, 1, 1000);
    keeper_hear(&k, 0, 1000);
    assert_late(&k, 1020, 1,
                "has finished no clock in 100 s, while a slice "
                "runs");
    assert_int_equal(keeper_take(&k, 1020), KEEPER_GIVE_UP);
}

/* Other requests are waited for as long; what is answered is owed no more. */
static void keeper_misses_an_answer(void **state)
{
    struct keeper k = program(1);

    (void)state;
    greet_all(&k, 100);
    keeper_ready(&k, 0, 101);
    keeper_ask(&k, 2, true, 200);
    keeper_ask(&k, 3, false, 201);
    keeper_answer(&k, 0, 2, 210);
    assert_late(&k, 310, 0, "has not answered a request in 100 s");
    k = program(1);
    greet_all(&k, 100);
    keeper_ready(&k, 0, 101);
    keeper_ask(&k, 2, false, 200);
    keeper_answer(&k, 0, 2, 210);
    keeper_answer(&k, 0, 2, 211); /* a fork that failed after all */
    assert_int_equal(keeper_take(&k, 900), KEEPER_NOTHING);
}

/* Answers to what was asked later do not make up for the oldest, nor does one
 * that comes twice. */
static void keeper_misses_the_oldest_answer(void **state)
{
    struct keeper k = program(1);

    (void)state;
    greet_all(&k, 100);
    keeper_ready(&k, 0, 101);
    keeper_ask(&k, 2, false, 200);
    keeper_answer(&k, 0, 2, 201);
    keeper_ask(&k, 3, false, 202);
    for (op_id op = 4; op < 400; op++) {
        keeper_ask(&k, op, false, 203 + 0.2 * (double)op);
        keeper_answer(&k, 0, op, 203.1 + 0.2 * (double)op);
        keeper_answer(&k, 0, op, 203.1 + 0.2 * (double)op);
    }
    assert_late(&k, 302, 0, "has not answered a request in 100 s");
}

/* A run that is to end waits a short time for a program's clock; it may end
 * from its snapshot then, by a program that is started again. */
static void keeper_hurries_a_program_whose_run_is_to_end(void **state)
{
    struct keeper k = program(1);

    (void)state;
    greet_all(&k, 100);
    keeper_ready(&k, 0, 101);
    keeper_ask(&k, 2, true, 200);
    keeper_hurry(&k, 210);
    keeper_hurry(&k, 215);
    keeper_beat(&k, 0, 3, 220);
    assert_late(&k, 220 + KEEPER_END_S, 0,
                "has not finished its clock in 30 s, although the run is to "
                "end");
    assert_int_equal(keeper_take(&k, 300), KEEPER_CLEAR);
    assert_int_equal(keeper_take(&k, 300.5), KEEPER_RESTART);
    keeper_restarted(&k, 301);
    assert_true(keeper_due_at(&k) == 306); /* hello; no hurry */
}

/* A program that ends by itself would do so again; a signal is not its own. */
static void keeper_starts_a_program_again_after_signals_only(void **state)
{
    struct keeper k = program(1);

    (void)state;
    assert_true(keeper_end(&k, false, 101, "was killed"));
    assert_int_equal(keeper_take(&k, 101.3), KEEPER_CLEAR);
    assert_int_equal(keeper_take(&k, 102), KEEPER_RESTART);
    keeper_restarted(&k, 102);
    assert_true(keeper_end(&k, true, 103, "ended with exit code 0"));
    assert_int_equal(keeper_take(&k, 103.3), KEEPER_GIVE_UP);
    assert_string_equal(k.reason, "ended with exit code 0; it was started "
                                  "again 1 time before");
}

/* A program's own words about its failure are the reason; its end is waited for
 * a while, since it may print more. */
static void keeper_takes_a_program_at_its_word(void **state)
{
    struct keeper k = program(1);

    (void)state;
    assert_true(keeper_fault(&k, true, 101, "ValueError: no"));
    assert_false(keeper_lose(&k, false, 101, "not connected"));
    assert_true(keeper_due_at(&k) == 101 + KEEPER_FAREWELL_S);
    assert_false(keeper_end(&k, true, 101.5, "ended with exit code 1"));
    assert_true(keeper_due_at(&k) == 101.5 + KEEPER_LAST_WORDS_S);
    assert_int_equal(keeper_take(&k, 102), KEEPER_GIVE_UP);
    assert_string_equal(k.reason, "ValueError: no");
    assert_false(keeper_fault(&k, true, 103, "too late"));
}

/* What a program that cannot load says is held until its process has ended, for
 * a while, or until it would have had to be ready. Nothing else counts. */
static void keeper_holds_a_failure_to_load(void **state)
{
    struct keeper k = program(2);

    (void)state;
    greet_all(&k, 101);
    keeper_hold(&k, 1, 102);
    assert_true(keeper_holds(&k));
    assert_true(keeper_due_at(&k) == 102 + KEEPER_FAREWELL_S);
    assert_false(keeper_lose(&k, true, 102.5, "node 0 ended"));
    assert_int_equal(keeper_take(&k, 102.9), KEEPER_NOTHING);
    keeper_release(&k, 103);
    assert_int_equal(keeper_take(&k, 103), KEEPER_TELL);
    assert_false(keeper_holds(&k));
    k = program(1);
    greet_all(&k, 101);
    keeper_hold(&k, 0, 150); /* it has until 151 to be ready */
    assert_true(keeper_due_at(&k) == 151);
    assert_int_equal(keeper_take(&k, 151), KEEPER_TELL);
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
    assert_true(keeper_end(&k, false, 101, "node 0 has ended"));
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
    assert_true(keeper_end(&k, false, 101.1, "killed"));
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

/* While a loss waits for last words nothing else is asked of the nodes: what is
 * too late meanwhile is no loss of its own, and the words that come count. */
static void keeper_with_a_loss_that_waits_kills_nobody(void **state)
{
    struct keeper k = keeper(2, true);

    (void)state;
    greet_all(&k, 100);
    assert_true(keeper_lose(&k, true, 109.9, "cannot be sent to"));
    assert_int_equal(keeper_take(&k, 110.05), KEEPER_NOTHING);
    assert_true(fabs(keeper_due_at(&k) - 109.9 - KEEPER_LAST_WORDS_S) < 1e-9);
    keeper_hear(&k, 0, 110.05);
    assert_true(keeper_lose(&k, true, 110.06, "has said why"));
    assert_true(keeper_end(&k, false, 110.07, "was killed"));
    assert_false(keeper_lose(&k, true, 110.08, "is deaf"));
    assert_int_equal(keeper_take(&k, 109.9 + KEEPER_LAST_WORDS_S),
                     KEEPER_CLEAR);
    assert_string_equal(k.reason, "was killed");
    assert_false(keeper_lose(&k, true, 111, "is gone"));
    assert_int_equal(keeper_take(&k, 500), KEEPER_RESTART);
}

/* Of several nodes the first one saves last: its time begins when it is asked,
 * that of the others does not. */
static void keeper_counts_for_node_0_from_when_it_is_asked(void **state)
{
    const double asked = 100 + KEEPER_ANSWER_S - 1;
    struct keeper k = keeper(2, true);

    (void)state;
    greet_all(&k, 100);
    keeper_ready(&k, 0, 100);
    keeper_ready(&k, 1, 100);
    keeper_ask(&k, 2, false, 100);
    keeper_answer(&k, 1, 2, asked);
    keeper_move(&k, 0, asked);
    for (double t = 100; t < asked + KEEPER_ANSWER_S; t++) {
        keeper_hear(&k, 0, t);
        keeper_hear(&k, 1, t);
    }
    assert_late(&k, asked + KEEPER_ANSWER_S, 0,
                "has not answered a request in 3600 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeper_kills_the_one_that_is_silent),
        cmocka_unit_test(keeper_waits_for_hello_and_for_ready),
        cmocka_unit_test(keeper_gives_nodes_of_our_own_hours_for_a_clock),
        cmocka_unit_test(keeper_hurries_nodes_of_our_own),
        cmocka_unit_test(keeper_starts_no_program_again_that_does_not_begin),
        cmocka_unit_test(keeper_misses_a_clock_that_does_not_end),
        cmocka_unit_test(keeper_misses_an_answer),
        cmocka_unit_test(keeper_misses_the_oldest_answer),
        cmocka_unit_test(keeper_hurries_a_program_whose_run_is_to_end),
        cmocka_unit_test(keeper_starts_a_program_again_after_signals_only),
        cmocka_unit_test(keeper_takes_a_program_at_its_word),
        cmocka_unit_test(keeper_holds_a_failure_to_load),
        cmocka_unit_test(keeper_without_options_has_defaults),
        cmocka_unit_test(keeper_expects_no_word_of_nodes_that_stop),
        cmocka_unit_test(keeper_takes_the_verdict_for_the_reason),
        cmocka_unit_test(keeper_waits_for_no_words_of_the_deaf),
        cmocka_unit_test(keeper_gives_up_after_restarts_in_a_row),
        cmocka_unit_test(keeper_counts_restarts_anew_after_progress),
        cmocka_unit_test(keeper_starts_nothing_for_those_who_leave),
        cmocka_unit_test(keeper_with_a_loss_that_waits_kills_nobody),
        cmocka_unit_test(keeper_counts_for_node_0_from_when_it_is_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
