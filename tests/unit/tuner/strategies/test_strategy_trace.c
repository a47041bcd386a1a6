/* Expected traces: in small scenarios, every message of the tuner and every
 * judgement and decision before it, in order. A change of behaviour shows here
 * as a change of text. */
#include "base/json/json.h"
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/sim.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/board.h"
#include "tuner/board/strategy.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

#define TWO_RATES                                                              \
    "{\"learning_rate\": {\"type\": \"float\", \"values\": [0.0001, 0.01], "   \
    "\"default\": 0.01}, "                                                     \
    "\"batch_size\": {\"type\": \"int\", \"min\": 1, \"max\": 64, "            \
    "\"fixed\": 64}}"

static const struct sim_family small = {
    .name = "small",
    .space = TWO_RATES,
    .searcher = &searcher_grid,
    .samples = 512,
    .validation = 64,
    .workers = 1,
    .rate = 1,
    .clock_s = 1e-3,
    .sample_s = 1e-5,
    .max_epochs = 5,
    .trial_clocks = 10,
};

static void expect(const struct sim_family *f, const char *expected)
{
    char *trace = NULL;
    struct sim_options o = {.trace = &trace, .replay = true};
    struct sim_result r;

    sim_run(f, 2, &o, &r);
    assert_false(r.hung);
    assert_string_equal(trace, expected);
    mem_free(trace);
}

/* Without tuning: an epoch's end is kept and tested in clock order, and the
 * next epoch is under way before the result is there. */
static void strategy_fixed_trains_epoch_by_epoch(void **state)
{
    struct sim_family f = small;

    (void)state;
    f.strategy = "fixed";
    f.max_epochs = 2;
    expect(&f, "fork 1 from 0 training rate=0.01\n"
               "  setting: training goes on with learning_rate=0.01 "
               "batch_size=64: the strategy is fixed\n"
               "run 1 clocks 0+8 by 1\n"
               "fork 2 from 1 kept\n"
               "fork 3 from 1 testing rate=0.01\n"
               "run 3 clocks 8+1 by 1\n"
               "run 1 clocks 9+8 by 1\n"
               "free 3\n"
               "  epoch 1 of branch 1 best\n"
               "fork 4 from 1 kept\n"
               "fork 5 from 1 testing rate=0.01\n"
               "run 5 clocks 17+1 by 1\n"
               "free 5\n"
               "  epoch 2 of branch 1 best\n"
               "free 2\n"
               "  end: 2 epochs are over\n"
               "save 4\n"
               "stop\n");
}

/* With tuning: probe, trials over the same samples, finals, training. */
static void strategy_mltuner_searches_then_trains(void **state)
{
    (void)state;
    expect(&small,
           "  search 1 starts\n"
           "  search: search 1 begins, of at most 18 trials: a first search\n"
           "fork 1 from 0 probe rate=0.01\n"
           "run 1 clocks 0+1 by 1\n"
           "fork 2 from 0 training rate=0.01\n"
           "run 1 clocks 1+7 by 1\n"
           "run 1 clocks 8+2 by 1\n"
           "run 2 clocks 10+8 by 1\n"
           "run 2 clocks 18+2 by 1\n"
           "  trial 1 converging\n"
           "  trial_time: a trial takes 640 samples: that is how long the "
           "configuration wants it\n"
           "fork 3 from 0 training rate=0.0001\n"
           "run 3 clocks 20+4 by 1\n"
           "run 3 clocks 24+2 by 1\n"
           "run 3 clocks 26+2 by 1\n"
           "run 3 clocks 28+2 by 1\n"
           "  trial 2 converging\n"
           "run 2 clocks 30+6 by 1\n"
           "fork 4 from 2 testing rate=0.01\n"
           "run 3 clocks 36+6 by 1\n"
           "fork 5 from 3 testing rate=0.0001\n"
           "run 4 clocks 42+1 by 1\n"
           "run 5 clocks 43+1 by 1\n"
           "free 4\n"
           "  epoch 2 of branch 2 (finalist)\n"
           "fork 6 from 2 kept\n"
           "free 5\n"
           "  epoch 2 of branch 3 (finalist)\n"
           "fork 7 from 3 kept\n"
           "run 2 clocks 44+8 by 1\n"
           "fork 8 from 2 testing rate=0.01\n"
           "run 3 clocks 52+8 by 1\n"
           "fork 9 from 3 testing rate=0.0001\n"
           "run 8 clocks 60+1 by 1\n"
           "run 9 clocks 61+1 by 1\n"
           "free 8\n"
           "  epoch 3 of branch 2 (finalist)\n"
           "fork 10 from 2 kept\n"
           "free 6\n"
           "free 9\n"
           "  epoch 3 of branch 3 (finalist)\n"
           "fork 11 from 3 kept\n"
           "free 7\n"
           "  finals: trial 1 is the best of 2 after 2 epochs of it\n"
           "  finalist: trial 2 is out: another is better\n"
           "free 11\n"
           "free 3\n"
           "  epoch 2 of branch 2\n"
           "  epoch 3 of branch 2 best\n"
           "fork 12 from 2 kept\n"
           "  search 1 ends: winner 1\n"
           "  search_ended: search 1 ends after 2 trials, of which 0 were "
           "stopped early, with trial 1: a new setting\n"
           "free 1\n"
           "  trial 1 converging\n"
           "  trial 2 converging\n"
           "  setting: training goes on with learning_rate=0.01 batch_size=64: "
           "the winner of the finals\n"
           "run 2 clocks 62+8 by 1\n"
           "fork 13 from 2 kept\n"
           "fork 14 from 2 testing rate=0.01\n"
           "fork 15 from 2 kept\n"
           "run 14 clocks 70+1 by 1\n"
           "run 2 clocks 71+8 by 1\n"
           "snapshot 15\n"
           "free 12\n"
           "free 14\n"
           "  epoch 4 of branch 2 best\n"
           "fork 16 from 2 kept\n"
           "fork 17 from 2 testing rate=0.01\n"
           "run 17 clocks 79+1 by 1\n"
           "snapshot 10\n"
           "free 17\n"
           "  epoch 5 of branch 2 best\n"
           "free 13\n"
           "  end: 5 epochs are over\n"
           "free 15\n"
           "free 10\n"
           "save 16\n"
           "stop\n");
}

/* The last quarter of the epochs cools down: at the end of each a fork with a
 * lower rate takes the line's place, once the epoch's result is there. */
static void strategy_mltuner_cools_down(void **state)
{
    static const char *expected =
        "  cooldown: the last 2 epochs begin: the learning rate falls to "
        "nearly zero\n"
        "fork 10 from 2 training rate=0.005\n"
        "free 2\n"
        "  setting: training goes on with learning_rate=0.005: the "
        "cooldown at the end of the run\n"
        "run 10 clocks 45+8 by 1\n"
        "fork 11 from 10 kept\n"
        "fork 12 from 10 testing rate=0.005\n"
        "run 12 clocks 53+1 by 1\n"
        "free 12\n"
        "  epoch 5 of branch 10 best\n"
        "free 8\n"
        "fork 13 from 10 training rate=0.00134\n"
        "free 10\n"
        "  setting: training goes on with learning_rate=0.00133975: the "
        "cooldown at the end of the run\n"
        "run 13 clocks 54+8 by 1\n"
        "fork 14 from 13 kept\n"
        "fork 15 from 13 testing rate=0.00134\n"
        "run 15 clocks 62+1 by 1\n"
        "free 15\n"
        "  epoch 6 of branch 13 best\n"
        "free 11\n"
        "  end: 6 epochs are over\n"
        "save 14\n"
        "stop\n";
    struct sim_family f = small;
    struct sim_options o = {.replay = true};
    struct sim_result r;
    char *trace = NULL;

    (void)state;
    f.space = "{\"learning_rate\": {\"type\": \"float\", \"min\": 0.0001, "
              "\"max\": 0.1, \"scale\": \"log\", \"default\": 0.01}}";
    f.searcher = &searcher_random;
    f.max_trials = 1;
    f.max_epochs = 6;
    o.trace = &trace;
    sim_run(&f, 2, &o, &r);
    assert_false(r.hung);
    assert_non_null(strstr(trace, "  cooldown:"));
    assert_string_equal(strstr(trace, "  cooldown:"), expected);
    mem_free(trace);
}

/* ---- a tuner by hand ----------------------------------------------------- */

struct hand {
    struct tuner *tuner;
    struct tuner_actions actions;
    double now;
};

static enum err give(struct hand *h, const struct msg *m)
{
    struct tuner_event e = {
        .kind = TUNER_EVENT_MESSAGE, .now_s = h->now += 0.01, .message = m};

    tuner_actions_reset(&h->actions);
    return tuner_step(h->tuner, &e, &h->actions);
}

static enum err say_ready(struct hand *h)
{
    struct msg m = {.kind = MSG_READY};
    enum err err;

    m.ready =
        (struct msg_ready){.samples = 512, .workers = 1, .loss_floor = NAN};
    m.ready.tunables = json_pack("[s]", "learning_rate");
    err = give(h, &m);
    json_decref(m.ready.tunables);
    return err;
}

static void hand_init(struct hand *h, const struct strategy_ops *strategy)
{
    static struct space space;
    struct tuner_options o = TUNER_OPTIONS;

    memset(h, 0, sizeof(*h));
    assert_int_equal(space_from_text(TWO_RATES, &space, NULL), ERR_OK);
    o.space = &space;
    o.strategy = strategy;
    o.searcher = &searcher_grid;
    assert_int_equal(tuner_new(&o, &h->tuner, NULL), ERR_OK);
}

static void hand_deinit(struct hand *h)
{
    tuner_free(h->tuner);
    tuner_actions_deinit(&h->actions);
}

/* The first message of that kind among the actions; NULL without one. */
static const struct msg *sent(const struct hand *h, enum msg_kind kind)
{
    for (size_t i = 0; i < h->actions.count; i++)
        if (h->actions.item[i].kind == TUNER_SEND &&
            h->actions.item[i].message.kind == kind)
            return &h->actions.item[i].message;
    return NULL;
}

static const struct tuner_finish *finish_of(const struct hand *h)
{
    const struct tuner_action *last;

    if (h->actions.count == 0)
        return NULL;
    last = &h->actions.item[h->actions.count - 1];
    return last->kind == TUNER_FINISH ? &last->finish : NULL;
}

/* Nothing is sent before the training system is ready; time then starts. */
static void tuner_waits_for_ready(void **state)
{
    struct hand h;
    struct tuner_event timer = {.kind = TUNER_EVENT_TIMER};

    (void)state;
    hand_init(&h, &strategy_fixed);
    assert_true(isinf(tuner_wake_at(h.tuner)));
    assert_int_equal(tuner_step(h.tuner, &timer, &h.actions), ERR_OK);
    assert_int_equal(h.actions.count, 0);
    assert_int_equal(say_ready(&h), ERR_OK);
    assert_non_null(sent(&h, MSG_FORK));
    assert_int_equal(h.actions.item[0].record.kind, RECORD_RUN_STARTED);
    hand_deinit(&h);
}

/* An interrupt before the training system is there ends the run at once. */
static void tuner_interrupt_while_waiting_ends(void **state)
{
    struct hand h;
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_INTERRUPT};

    (void)state;
    hand_init(&h, &strategy_mltuner);
    assert_int_equal(tuner_step(h.tuner, &e, &h.actions), ERR_OK);
    assert_non_null(sent(&h, MSG_STOP));
    assert_int_equal(finish_of(&h)->status, RUN_INTERRUPTED);
    hand_deinit(&h);
}

/* After the finish nothing has any effect. */
static void tuner_finished_ignores_events(void **state)
{
    struct hand h;
    struct tuner_event e = {.kind = TUNER_EVENT_LOST, .reason = "gone"};

    (void)state;
    hand_init(&h, &strategy_fixed);
    say_ready(&h);
    tuner_actions_reset(&h.actions);
    e.now_s = 1;
    assert_int_equal(tuner_step(h.tuner, &e, &h.actions), ERR_OK);
    assert_string_equal(finish_of(&h)->reason, "node_lost");
    assert_null(sent(&h, MSG_STOP));
    tuner_actions_reset(&h.actions);
    assert_int_equal(say_ready(&h), ERR_OK);
    assert_int_equal(h.actions.count, 0);
    hand_deinit(&h);
}

/* A loss by a program's own fault is told as that. */
static void tuner_program_at_fault_ends_the_run(void **state)
{
    struct hand h;
    struct tuner_event e = {.kind = TUNER_EVENT_LOST,
                            .reason = "it raised",
                            .program = true,
                            .now_s = 1};

    (void)state;
    hand_init(&h, &strategy_fixed);
    say_ready(&h);
    assert_false(tuner_ends(h.tuner));
    tuner_actions_reset(&h.actions);
    assert_int_equal(tuner_step(h.tuner, &e, &h.actions), ERR_OK);
    assert_int_equal(finish_of(&h)->status, RUN_FAILED);
    assert_string_equal(finish_of(&h)->reason, "program_failed");
    assert_string_equal(finish_of(&h)->message,
                        "the program failed: it raised");
    hand_deinit(&h);
}

/* An answer that fits no question is a broken protocol: told, and the end. */
static void tuner_strange_answers_end_the_run(void **state)
{
    struct msg strange[4] = {{.kind = MSG_DONE, .op = 99},
                             {.kind = MSG_REPORT},
                             {.kind = MSG_READY},
                             {.kind = MSG_DONE}};
    struct progress_window window = {.sum = 1, .samples = 64, .clocks = 1};

    (void)state;
    strange[1].report = (struct msg_report){7, 0, 1, &window, NULL};
    strange[3].done.clocks = 3;
    for (int i = 0; i < 4; i++) {
        struct msg forked = {.kind = MSG_FORKED};
        struct hand h;

        hand_init(&h, &strategy_fixed);
        say_ready(&h);
        forked.op = sent(&h, MSG_FORK)->op;
        forked.forked.branch = 1;
        assert_int_equal(give(&h, &forked), ERR_OK);
        if (i == 3)
            strange[i].op = sent(&h, MSG_SCHEDULE)->op;
        assert_int_equal(give(&h, &strange[i]), ERR_PROTO);
        assert_string_equal(finish_of(&h)->reason, "protocol");
        assert_non_null(sent(&h, MSG_STOP));
        hand_deinit(&h);
    }
}

/* A refused first fork fails the run and says what is short. */
static void tuner_without_memory_for_two_models_fails(void **state)
{
    struct msg refused = {.kind = MSG_FAILED};
    struct hand h;

    (void)state;
    refused.failed.code = ERR_LIMIT;
    hand_init(&h, &strategy_fixed);
    say_ready(&h);
    refused.op = sent(&h, MSG_FORK)->op;
    assert_int_equal(give(&h, &refused), ERR_OK);
    assert_string_equal(finish_of(&h)->reason, "limit");
    hand_deinit(&h);
    hand_init(&h, &strategy_mltuner);
    say_ready(&h);
    refused.op = sent(&h, MSG_FORK)->op;
    assert_int_equal(give(&h, &refused), ERR_OK);
    assert_string_equal(finish_of(&h)->reason, "limit");
    hand_deinit(&h);
}

/* A message of failure without an operation is the end of the node. */
static void tuner_failed_node_ends_the_run(void **state)
{
    struct msg m = {.kind = MSG_FAILED};
    struct hand h;

    (void)state;
    strcpy(m.failed.reason, "data file vanished");
    hand_init(&h, &strategy_fixed);
    assert_int_equal(give(&h, &m), ERR_OK);
    assert_non_null(strstr(finish_of(&h)->message, "data file vanished"));
    hand_deinit(&h);
}

/* Options that make no sense are refused with their names. */
static void tuner_options_out_of_range_are_refused(void **state)
{
    static struct space space;
    struct tuner_options o = TUNER_OPTIONS;
    struct setting initial;
    struct fault fault = {0};
    struct tuner *t = NULL;

    (void)state;
    assert_int_equal(space_from_text(TWO_RATES, &space, NULL), ERR_OK);
    o.space = &space;
    o.strategy = &strategy_mltuner;
    o.searcher = &searcher_grid;
    o.max_epochs = 0;
    assert_int_equal(tuner_new(&o, &t, &fault), ERR_INVAL);
    assert_non_null(strstr(fault.text, "max_epochs"));
    o.max_epochs = 1;
    o.max_trials = 100000;
    assert_int_equal(tuner_new(&o, &t, &fault), ERR_INVAL);
    o.max_trials = 0;
    space_default(&space, &initial);
    initial.value[0] = 3;
    o.initial = &initial;
    assert_int_equal(tuner_new(&o, &t, &fault), ERR_INVAL);
    assert_string_equal(fault.text,
                        "/tuner/initial: learning_rate cannot be 3");
    assert_null(t);
}

/* Making a tuner with each allocation failing in turn leaves nothing behind. */
static void tuner_new_out_of_memory_leaves_nothing(void **state)
{
    static struct space space;
    int64_t before;

    (void)state;
    assert_int_equal(space_from_text(TWO_RATES, &space, NULL), ERR_OK);
    before = mem_outstanding();
    for (int n = 1;; n++) {
        struct tuner_options o = TUNER_OPTIONS;
        struct tuner *t;
        enum err err;
        int failed;

        o.space = &space;
        o.strategy = &strategy_mltuner;
        o.searcher = &searcher_grid;
        mem_fail_at(n, 0);
        err = tuner_new(&o, &t, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            tuner_free(t);
        assert_int_equal(mem_outstanding(), before);
        if (!failed)
            break;
    }
}

/* A report that there is no memory for changes nothing: given again, it is
 * recorded once, with its further metrics. */
static void tuner_report_out_of_memory_is_given_again(void **state)
{
    struct progress_window w = {.clocks = 1, .samples = 64, .sum = 64};
    const struct record *record = NULL;
    struct msg forked = {.kind = MSG_FORKED};
    struct msg m = {.kind = MSG_REPORT};
    enum err err = ERR_NOMEM;
    struct hand h;
    int n = 0;

    (void)state;
    hand_init(&h, &strategy_fixed);
    assert_int_equal(say_ready(&h), ERR_OK);
    forked.op = sent(&h, MSG_FORK)->op;
    forked.forked.branch = sent(&h, MSG_FORK)->fork.branch;
    assert_int_equal(give(&h, &forked), ERR_OK);
    m.report = (struct msg_report){
        .branch = forked.forked.branch,
        .windows = 1,
        .window = &w,
        .values = json_pack("{s:[f], s:[n]}", "half", 0.5, "none")};
    while (err == ERR_NOMEM) {
        mem_fail_at(++n, 0);
        err = give(&h, &m);
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || h.actions.count == 0);
    }
    assert_int_equal(err, ERR_OK);
    assert_true(n > 3);
    for (size_t i = 0; i < h.actions.count; i++)
        if (h.actions.item[i].kind == TUNER_RECORD &&
            h.actions.item[i].record.kind == RECORD_PROGRESS) {
            assert_null(record);
            record = &h.actions.item[i].record;
        }
    assert_non_null(record);
    assert_int_equal(json_object_size(record->progress.values), 1);
    assert_non_null(json_object_get(record->progress.values, "half"));
    json_decref(m.report.values);
    hand_deinit(&h);
}

/* All strategies can be found, with settings that are JSON. */
static void strategies_are_listed(void **state)
{
    size_t n = 0;

    (void)state;
    for (; strategies_built_in[n]; n++) {
        json_t *o = json_loads(strategies_built_in[n]->settings, 0, NULL);

        assert_true(json_is_object(o));
        assert_true(strlen(strategies_built_in[n]->summary) > 10);
        json_decref(o);
    }
    assert_int_equal(n, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strategy_fixed_trains_epoch_by_epoch),
        cmocka_unit_test(strategy_mltuner_searches_then_trains),
        cmocka_unit_test(strategy_mltuner_cools_down),
        cmocka_unit_test(tuner_waits_for_ready),
        cmocka_unit_test(tuner_interrupt_while_waiting_ends),
        cmocka_unit_test(tuner_finished_ignores_events),
        cmocka_unit_test(tuner_program_at_fault_ends_the_run),
        cmocka_unit_test(tuner_strange_answers_end_the_run),
        cmocka_unit_test(tuner_without_memory_for_two_models_fails),
        cmocka_unit_test(tuner_failed_node_ends_the_run),
        cmocka_unit_test(tuner_options_out_of_range_are_refused),
        cmocka_unit_test(tuner_new_out_of_memory_leaves_nothing),
        cmocka_unit_test(tuner_report_out_of_memory_is_given_again),
        cmocka_unit_test(strategies_are_listed),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
