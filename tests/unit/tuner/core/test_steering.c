/* Steering, by hand: commands to tuners that wait for their training system,
 * before and after a loss of it. */
#include "searchers/built_in.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/strategy.h"
#include "tuner/core/tuner.h"
#include "tuner/history/history.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

#define RATE(retune)                                                           \
    "{\"learning_rate\": {\"type\": \"float\", \"values\": [0.0001, 0.01], "   \
    "\"default\": 0.01, \"retune\": " retune "}}"

/* A run over the lives of its tuners. */
struct run {
    struct history history; /* what is journaled */
    struct tuner *tuner;
    struct tuner_actions actions;
    struct tuner_answer answer; /* the latest */
    const struct strategy_ops *strategy;
    const char *space;
    bool program;        /* its app is the user's own */
    bool from_beginning; /* the tuner's option */
    double now;
};

static const struct command_limits epochs_777 = {LIMIT_MAX_EPOCHS,
                                                 {.max_epochs = 777}};
static const struct command_limits plateau_5000 = {LIMIT_PLATEAU_EPOCHS,
                                                   {.plateau_epochs = 5000}};

/* ---- a life -------------------------------------------------------------- */

/* As a shell does: through JSON, refused by nothing. */
static void journal(struct run *r, const struct record *record)
{
    json_t *json = record_to_json(record);
    struct record back;

    assert_int_equal(record_from_json(json, &back, NULL), ERR_OK);
    assert_int_equal(history_apply(&r->history, &back), ERR_OK);
    record_deinit(&back);
    json_decref(json);
}

static void give(struct run *r, struct tuner_event *e)
{
    tuner_actions_reset(&r->actions);
    e->now_s = r->now;
    assert_int_equal(tuner_step(r->tuner, e, &r->actions), ERR_OK);
    for (size_t i = 0; i < r->actions.count; i++) {
        if (r->actions.item[i].kind == TUNER_RECORD)
            journal(r, &r->actions.item[i].record);
        if (r->actions.item[i].kind == TUNER_ANSWER)
            r->answer = r->actions.item[i].answer;
    }
}

/* A tuner begins; @restarts: of the node, 0 for a user's `mltune resume`. */
static void begin(struct run *r, uint32_t restarts)
{
    static struct space space;
    struct tuner_options o = TUNER_OPTIONS;
    struct tuner_event timer = {.kind = TUNER_EVENT_TIMER};

    assert_int_equal(space_from_text(r->space, &space, NULL), ERR_OK);
    o.space = &space;
    o.strategy = r->strategy;
    o.searcher = &searcher_grid;
    o.snapshot_dir = "/disk";
    o.resume = r->history.records ? &r->history : NULL;
    o.restarts = restarts;
    o.resume_reason = "it was lost";
    o.program = r->program;
    o.from_beginning = r->from_beginning;
    assert_int_equal(tuner_new(&o, &r->tuner, NULL), ERR_OK);
    give(r, &timer);
}

/* Killed, with its training system; the next one begins. */
static void lose(struct run *r, uint32_t restarts)
{
    tuner_free(r->tuner);
    r->now += 1;
    begin(r, restarts);
}

static void open_run(struct run *r, const struct strategy_ops *strategy,
                     const char *space)
{
    memset(r, 0, sizeof(*r));
    history_init(&r->history);
    r->strategy = strategy;
    r->space = space;
    r->now = 1000;
    begin(r, 0);
}

static void close_run(struct run *r)
{
    tuner_free(r->tuner);
    tuner_actions_deinit(&r->actions);
    history_deinit(&r->history);
}

static void say(struct run *r, const struct msg *m)
{
    struct tuner_event e = {.kind = TUNER_EVENT_MESSAGE, .message = m};

    r->now += 0.1;
    give(r, &e);
}

static void say_ready_of(struct run *r, struct msg_ready ready)
{
    struct msg m = {.kind = MSG_READY, .ready = ready};

    m.ready.loss_floor = NAN;
    m.ready.tunables = json_pack("[s]", "learning_rate");
    say(r, &m);
    json_decref(m.ready.tunables);
}

static void say_ready(struct run *r)
{
    say_ready_of(r, (struct msg_ready){.samples = 512, .workers = 1});
}

/* @after seconds; it is accepted, and changes something. */
static void command(struct run *r, double after, enum command_id command,
                    const struct command_limits *limits)
{
    union command_args args = {0};
    struct tuner_event e = {
        .kind = TUNER_EVENT_COMMAND, .command = command, .args = &args};

    if (limits)
        args.limits = *limits;
    r->now += after;
    give(r, &e);
}

static void accepted(struct run *r, double after, enum command_id c,
                     const struct command_limits *limits)
{
    command(r, after, c, limits);
    assert_int_equal(r->answer.err, ERR_OK);
    assert_true(r->answer.changed);
}

static void refuses_other_data(struct run *r)
{
    union command_args args = {.go_on = {.other_data = true}};
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_CONTINUE,
                            .args = &args};

    give(r, &e);
    assert_int_equal(r->answer.err, ERR_UNSUPPORTED);
    assert_false(r->answer.changed);
}

static bool sends(const struct run *r, enum msg_kind kind)
{
    bool any = false;

    for (size_t i = 0; i < r->actions.count; i++)
        any |= r->actions.item[i].kind == TUNER_SEND &&
               r->actions.item[i].message.kind == kind;
    return any;
}

static bool decides(const struct run *r, const char *decision)
{
    bool any = false;

    for (size_t i = 0; i < r->actions.count; i++)
        any |=
            r->actions.item[i].kind == TUNER_RECORD &&
            r->actions.item[i].record.kind == RECORD_DECISION &&
            strcmp(r->actions.item[i].record.decision.decision, decision) == 0;
    return any;
}

/* ---- tunables of programs ------------------------------------------------ */

static const char *decision_text(const struct run *r, const char *begins)
{
    for (size_t i = 0; i < r->actions.count; i++) {
        const struct tuner_action *a = &r->actions.item[i];

        if (a->kind == TUNER_RECORD && a->record.kind == RECORD_DECISION &&
            strstr(a->record.decision.text, begins))
            return a->record.decision.text;
    }
    return NULL;
}

/* Tunables that a program does not name are told, and those it names besides;
 * nothing is told where both are the same, and where the app is built in. */
static void steering_tells_of_a_programs_tunables(void **state)
{
    static const char wide[] =
        "{\"learning_rate\": {\"type\": \"float\", \"min\": 0.01,"
        " \"max\": 1, \"default\": 0.1}, \"dropout\": {\"type\": \"float\","
        " \"min\": 0, \"max\": 1}, \"depth\": {\"type\": \"int\", \"min\": 1,"
        " \"max\": 9, \"free\": true}}";
    struct run r;
    struct msg m = {.kind = MSG_READY};

    (void)state;
    for (int program = 0; program < 2; program++) {
        open_run(&r, &strategy_fixed, wide);
        tuner_free(r.tuner);
        r.program = program == 1;
        begin(&r, 0);
        m.ready =
            (struct msg_ready){.samples = 512, .workers = 1, .loss_floor = NAN};
        m.ready.tunables = json_pack("[s, s]", "learning_rate", "width");
        say(&r, &m);
        json_decref(m.ready.tunables);
        assert_int_equal(decides(&r, "tunables"), r.program);
        if (r.program) {
            assert_string_equal(decision_text(&r, "does not name"),
                                "the program does not name dropout, which "
                                "changes nothing then: pinned at the default");
            assert_non_null(decision_text(&r, "also has width, which"));
        }
        close_run(&r);
    }
}

/* More names than a sentence holds are cut at one, and it is said. */
static void steering_tells_of_many_tunables(void **state)
{
    struct run r;
    struct msg m = {.kind = MSG_READY};
    const char *text;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    tuner_free(r.tuner);
    r.program = true;
    begin(&r, 0);
    m.ready =
        (struct msg_ready){.samples = 512, .workers = 1, .loss_floor = NAN};
    m.ready.tunables = json_pack("[s]", "learning_rate");
    for (int i = 0; i < 60; i++) {
        char name[48];

        snprintf(name, sizeof(name), "a_tunable_with_a_long_name_%d", i);
        json_array_append_new(m.ready.tunables, json_string(name));
    }
    say(&r, &m);
    json_decref(m.ready.tunables);
    text = decision_text(&r, "also has");
    assert_non_null(text);
    assert_non_null(strstr(text, "_name_1, "));
    assert_non_null(strstr(text, " and more, which the configuration"));
    close_run(&r);
}

/* ---- while it loads ------------------------------------------------------ */

/* The time of a run goes on, not back, over tuners that were told something and
 * never saw their training system. */
static void steering_of_runs_that_never_began_keeps_their_time(void **state)
{
    struct run r;
    double before;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    accepted(&r, 5, COMMAND_LIMITS, &epochs_777);
    lose(&r, 1);
    before = r.history.at_s;
    assert_true(before >= 5);
    accepted(&r, 1, COMMAND_LIMITS, &plateau_5000);
    assert_true(r.history.at_s >= before);
    lose(&r, 0);
    accepted(&r, 0, COMMAND_PAUSE, NULL);
    say_ready(&r);
    assert_true(r.history.started);
    close_run(&r);
}

/* A resume where it had begun, and where the time of day is odd: what is
 * recorded after `ready` is not before what was while it loaded. */
static void steering_while_a_resumed_run_loads_keeps_its_time(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct run r;

        open_run(&r, &strategy_fixed, RATE("true"));
        r.now += 0.1 * i;
        say_ready(&r);
        lose(&r, 1);
        accepted(&r, 1.0 / (3 + i), COMMAND_LIMITS, &epochs_777);
        accepted(&r, 0.7, COMMAND_LIMITS, &plateau_5000);
        say_ready(&r);
        assert_int_equal(r.history.resumes, 1);
        close_run(&r);
    }
}

/* A command while a paused run is loaded again leaves the limits and the pause
 * that were set before. */
static void steering_while_it_loads_again_forgets_nothing(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready(&r);
    accepted(&r, 1, COMMAND_LIMITS, &epochs_777);
    accepted(&r, 1, COMMAND_PAUSE, NULL);
    lose(&r, 1);
    accepted(&r, 1, COMMAND_LIMITS, &plateau_5000);
    assert_int_equal(r.answer.limits.max_epochs, 777);
    assert_true(r.history.pause_wanted);
    say_ready(&r);
    assert_false(sends(&r, MSG_FORK));
    assert_int_equal(r.history.status, RUN_PAUSED);
    assert_int_equal(r.history.limits.max_epochs, 777);
    assert_int_equal(r.history.limits.plateau_epochs, 5000);
    refuses_other_data(&r);
    accepted(&r, 1, COMMAND_CONTINUE, NULL);
    assert_true(sends(&r, MSG_FORK));
    close_run(&r);
}

/* A search asked for before a run has ever begun outlives its first training
 * system. */
static void steering_before_the_first_ready_is_kept(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    accepted(&r, 1, COMMAND_LIMITS, &epochs_777);
    accepted(&r, 1, COMMAND_PAUSE, NULL);
    lose(&r, 1);
    say_ready(&r);
    assert_false(sends(&r, MSG_FORK));
    assert_int_equal(r.history.run.limits.max_epochs, 777);
    assert_true(r.history.pause_wanted);
    accepted(&r, 1, COMMAND_CONTINUE, NULL);
    assert_int_equal(r.answer.limits.max_epochs, 777);
    assert_true(sends(&r, MSG_FORK));
    close_run(&r);
}

/* A wish for a search is not forgotten over another command. */
static void steering_keeps_the_wish_for_a_search(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_mltuner, RATE("true"));
    say_ready(&r);
    accepted(&r, 1, COMMAND_RETUNE, NULL);
    lose(&r, 1);
    accepted(&r, 1, COMMAND_LIMITS, &plateau_5000);
    assert_true(r.history.retune_wanted);
    command(&r, 0, COMMAND_RETUNE, NULL);
    assert_int_equal(r.answer.err, ERR_OK);
    assert_false(r.answer.changed);
    close_run(&r);
}

/* Resuming a paused run lets it go on; the feed says so, whether the run had
 * begun or not. */
static void steering_resumed_by_its_user_goes_on(void **state)
{
    (void)state;
    for (int begun = 0; begun <= 1; begun++) {
        struct run r;

        open_run(&r, &strategy_fixed, RATE("true"));
        if (begun)
            say_ready(&r);
        accepted(&r, 1, COMMAND_PAUSE, NULL);
        lose(&r, 0);
        accepted(&r, 1, COMMAND_LIMITS, &epochs_777);
        say_ready(&r);
        assert_true(decides(&r, "continue"));
        assert_true(sends(&r, MSG_FORK));
        assert_false(r.history.pause_wanted);
        close_run(&r);
    }
}

/* A run that its user pauses again while it loads stays paused. */
static void steering_paused_again_while_it_loads_stays_so(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready(&r);
    accepted(&r, 1, COMMAND_PAUSE, NULL);
    lose(&r, 0);
    accepted(&r, 1, COMMAND_PAUSE, NULL);
    say_ready(&r);
    assert_false(decides(&r, "continue"));
    assert_false(sends(&r, MSG_FORK));
    assert_true(r.history.pause_wanted);
    assert_int_equal(r.history.status, RUN_PAUSED);
    close_run(&r);
}

/* ---- stop ---------------------------------------------------------------- */

static void write_snapshot(struct run *r)
{
    struct record record;

    record_init(&record, RECORD_SNAPSHOT_WRITTEN);
    record.at_s = r->history.at_s;
    record.clock = r->history.clock;
    snprintf(record.snapshot_written.path, RECORD_PATH_MAX, "/disk/000001");
    record.snapshot_written.state = json_object();
    journal(r, &record);
    record_deinit(&record);
}

/* Where nothing is trained yet, nobody is promised a model. */
static void steering_stop_before_ready_promises_no_model(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    accepted(&r, 1, COMMAND_STOP, NULL);
    assert_non_null(strstr(r.answer.text, "nothing is trained yet"));
    assert_int_equal(r.history.end.status, RUN_STOPPED);
    close_run(&r);
    open_run(&r, &strategy_fixed, RATE("true"));
    accepted(&r, 1, COMMAND_INTERRUPT, NULL);
    assert_non_null(strstr(r.answer.text, "nothing new to write"));
    close_run(&r);
}

/* A journal that is full ends the run as interrupted, for that reason; before
 * there is something to write, at once. */
static void steering_full_journal_interrupts(void **state)
{
    struct tuner_event e = {.kind = TUNER_EVENT_FULL, .reason = "no room"};
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    give(&r, &e);
    assert_int_equal(r.history.end.status, RUN_INTERRUPTED);
    assert_string_equal(r.history.end.reason, "limit");
    assert_string_equal(r.history.end.message, "no room");
    close_run(&r);
}

/* While the snapshot is read a stop would throw its model away: it is for
 * later. */
static void steering_stop_waits_for_the_snapshot(void **state)
{
    struct msg failed = {.kind = MSG_FAILED};
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready(&r);
    write_snapshot(&r);
    r.from_beginning = true;
    lose(&r, 0);
    command(&r, 1, COMMAND_STOP, NULL);
    assert_int_equal(r.answer.err, ERR_AGAIN);
    assert_false(r.answer.changed);
    assert_false(r.history.finished);
    say_ready(&r);
    assert_true(sends(&r, MSG_RESTORE));
    for (size_t i = 0; i < r.actions.count; i++)
        if (r.actions.item[i].kind == TUNER_SEND)
            failed.op = r.actions.item[i].message.op;
    command(&r, 1, COMMAND_STOP, NULL);
    assert_int_equal(r.answer.err, ERR_AGAIN);
    assert_false(r.history.finished);
    failed.failed.code = ERR_NOENT;
    snprintf(failed.failed.reason, sizeof(failed.failed.reason), "gone");
    say(&r, &failed); /* no snapshot: it begins anew */
    assert_true(sends(&r, MSG_FORK));
    accepted(&r, 1, COMMAND_STOP, NULL);
    close_run(&r);
}

static size_t actions_of(const struct run *r, enum tuner_action_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < r->actions.count; i++)
        n += r->actions.item[i].kind == kind;
    return n;
}

/* A snapshot that cannot be read now may be sound: the run is interrupted,
 * once, for a resume to try it again. */
static void steering_unreadable_snapshot_interrupts(void **state)
{
    struct msg failed = {.kind = MSG_FAILED};
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready(&r);
    write_snapshot(&r);
    lose(&r, 0);
    say_ready(&r);
    for (size_t i = 0; i < r.actions.count; i++)
        if (r.actions.item[i].kind == TUNER_SEND)
            failed.op = r.actions.item[i].message.op;
    failed.failed.code = ERR_IO;
    snprintf(failed.failed.reason, sizeof(failed.failed.reason), "away");
    say(&r, &failed);
    assert_false(sends(&r, MSG_FORK));
    assert_true(r.history.finished);
    assert_int_equal(r.history.end.status, RUN_INTERRUPTED);
    assert_string_equal(r.history.end.reason, "restore_failed");
    assert_non_null(strstr(r.history.end.message, "is kept: away; resume"));
    assert_int_equal(actions_of(&r, TUNER_FINISH), 1);
    close_run(&r);
}

/* The answer to every restore that the tuner asks for; true: there was one. */
static bool refuse_restore(struct run *r, enum err code)
{
    struct msg failed = {.kind = MSG_FAILED};

    for (size_t i = 0; i < r->actions.count; i++)
        if (r->actions.item[i].kind == TUNER_SEND &&
            r->actions.item[i].message.kind == MSG_RESTORE)
            failed.op = r->actions.item[i].message.op;
    if (!failed.op)
        return false;
    failed.failed.code = code;
    snprintf(failed.failed.reason, sizeof(failed.failed.reason), "as it is");
    say(r, &failed);
    return true;
}

/* Whatever makes the only snapshot unusable: the run is interrupted, and the
 * next resume tries it again. Nothing is begun anew, nothing forgotten. */
static void steering_no_snapshot_is_given_up(void **state)
{
    static const struct {
        enum err code;
        const char *reason, *message;
    } cases[] = {
        {ERR_FORMAT, "restore_failed", "all are kept: as it is"},
        {ERR_NOENT, "restore_failed", "all are kept: as it is"},
        {ERR_VERSION, "restore_failed", "is kept: as it is"},
        {ERR_INVAL, "changed", "the data have changed: as it is"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct run r;

        open_run(&r, &strategy_fixed, RATE("true"));
        say_ready(&r);
        write_snapshot(&r);
        for (int again = 0; again < 2; again++) {
            lose(&r, 0);
            say_ready(&r);
            assert_true(refuse_restore(&r, cases[i].code));
            assert_false(sends(&r, MSG_FORK));
            assert_true(r.history.finished);
            assert_int_equal(r.history.end.status, RUN_INTERRUPTED);
            assert_string_equal(r.history.end.reason, cases[i].reason);
            assert_non_null(strstr(r.history.end.message, cases[i].message));
            assert_int_equal(r.history.snapshots, 1);
        }
        close_run(&r);
    }
}

/* Data that are others than the run began with interrupt it; that is the last
 * thing it does: what those data's tables are is not recorded. */
static void steering_other_data_interrupt_and_record_nothing(void **state)
{
    struct msg m = {.kind = MSG_READY};
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready(&r);
    lose(&r, 0);
    m.ready =
        (struct msg_ready){.samples = 256, .workers = 1, .loss_floor = NAN};
    m.ready.tunables = json_pack("[s]", "learning_rate");
    m.ready.tables = json_array();
    say(&r, &m);
    json_decref(m.ready.tunables);
    json_decref(m.ready.tables);
    assert_string_equal(r.history.end.reason, "changed");
    assert_int_equal(r.actions.item[r.actions.count - 1].kind, TUNER_FINISH);
    close_run(&r);
}

/* A pass whose clocks are dealt by workers is another with others: it is said
 * which were there. Data that are the same have not changed. */
static void steering_another_pass_of_the_same_data_is_told(void **state)
{
    static const struct {
        struct msg_ready is;
        const char *message;
    } cases[] = {
        {{.samples = 512, .workers = 3, .parts = 102},
         "a pass has 102 clocks with 3 workers over all nodes, and had 100 "
         "with the 4 that the run began with: resume it with these (--set "
         "cluster.workers=N, of each node)"},
        {{.samples = 512, .workers = 4, .parts = 50},
         "a pass has 50 clocks, and had 100 when the run began"},
        {{.samples = 512, .workers = 4, .parts = 100, .metric = "rmse"},
         "the metric was \"\" when the run began, now it is \"rmse\""},
        {{.samples = 256, .workers = 3, .parts = 102},
         "the data have changed: the run began with 512 + 0 samples, now there "
         "are 256 + 0"},
    };
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready_of(
        &r, (struct msg_ready){.samples = 512, .workers = 4, .parts = 100});
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        lose(&r, 0);
        say_ready_of(&r, cases[i].is);
        assert_int_equal(r.history.end.status, RUN_INTERRUPTED);
        assert_string_equal(r.history.end.reason, "changed");
        assert_string_equal(r.history.end.message, cases[i].message);
    }
    close_run(&r);
}

/* A user who does not want to wait may interrupt: all is there for later. */
static void steering_interrupt_while_it_loads_keeps_all(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    say_ready(&r);
    write_snapshot(&r);
    lose(&r, 0);
    accepted(&r, 1, COMMAND_INTERRUPT, NULL);
    assert_int_equal(r.history.end.status, RUN_INTERRUPTED);
    assert_int_equal(r.history.snapshots, 1);
    close_run(&r);
}

/* ---- answers ------------------------------------------------------------- */

/* Where no tunable may change in a re-tune, none is promised. */
static void steering_retune_of_what_may_not_is_refused(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_mltuner, RATE("false"));
    say_ready(&r);
    command(&r, 1, COMMAND_RETUNE, NULL);
    assert_int_equal(r.answer.err, ERR_UNSUPPORTED);
    assert_false(r.history.retune_wanted);
    close_run(&r);
}

/* Counts have all their digits. */
static void steering_says_counts_in_full(void **state)
{
    static const struct command_limits limits = {
        LIMIT_MAX_EPOCHS | LIMIT_TARGET_LOSS,
        {.max_epochs = 12345678, .target_loss = 0.1}};
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    accepted(&r, 1, COMMAND_LIMITS, &limits);
    assert_string_equal(r.answer.text,
                        "the user sets target_loss 0.1 (was none), max_epochs "
                        "12345678 (was 100)");
    accepted(&r, 1, COMMAND_LIMITS, &epochs_777);
    assert_string_equal(r.answer.text,
                        "the user sets max_epochs 777 (was 12345678)");
    close_run(&r);
}

/* A beat of each node is recorded once a second at most, from `ready` on; and
 * the run's course has it. */
static void beats_are_recorded_from_ready_on(void **state)
{
    struct msg m = {.kind = MSG_BEAT, .beat.node = 3};
    struct run r;

    (void)state;
    open_run(&r, &strategy_mltuner, RATE("true"));
    say(&r, &m);
    assert_int_equal(r.history.nodes.count, 0);
    say_ready(&r);
    for (int i = 0; i < 40; i++) { /* every 0.1 s */
        m.beat.data_bytes_sent = (uint64_t)i;
        say(&r, &m);
    }
    assert_int_equal(r.history.nodes.count, 4);
    assert_in_range(r.history.nodes.node[3].points, 4, 5);
    m.beat.node = 2;
    say(&r, &m); /* another's turn comes for itself */
    assert_int_equal(r.history.nodes.node[2].points, 1);
    m.beat.node = NODES_MAX; /* cannot be */
    say(&r, &m);
    assert_int_equal(r.history.nodes.count, 4);
    lose(&r, 1);
    say_ready(&r);
    assert_false(r.history.nodes.node[3].alive);
    assert_true(nodes_total(&r.history.nodes.node[3]).data_bytes_sent >= 30);
    close_run(&r);
}

/* ---- the time limit ------------------------------------------------------ */

static const struct command_limits minute = {LIMIT_MAX_TIME,
                                             {.max_time_s = 60}};

/* @after seconds, a timer. */
static void tick(struct run *r, double after)
{
    struct tuner_event timer = {.kind = TUNER_EVENT_TIMER};

    r->now += after;
    give(r, &timer);
}

static void assert_out_of_time(const struct run *r, const char *text)
{
    assert_true(r->history.finished);
    assert_int_equal(r->history.end.status, RUN_FAILED);
    assert_string_equal(r->history.end.reason, "max_time");
    assert_non_null(strstr(r->history.end.message, text));
}

/* The limit begins with the run, and holds while nothing is ready. */
static void time_limit_holds_before_ready(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    assert_int_equal(tuner_waits(r.tuner).kind, TUNER_WAITS_READY);
    accepted(&r, 1, COMMAND_LIMITS, &minute);
    assert_true(tuner_wake_at(r.tuner) == 1060);
    assert_true(tuner_waits(r.tuner).at_s == 1060);
    tick(&r, 58);
    assert_false(r.history.finished);
    tick(&r, 1);
    assert_out_of_time(&r, "nothing was trained");
    assert_int_equal(tuner_waits(r.tuner).kind, TUNER_WAITS_NOT);
    close_run(&r);
}

/* A run that is to be paused as soon as it is ready waits for that, and its
 * time stands still since it was to be. */
static void time_limit_waits_for_a_pause(void **state)
{
    struct run r;

    (void)state;
    open_run(&r, &strategy_fixed, RATE("true"));
    accepted(&r, 1, COMMAND_LIMITS, &minute);
    accepted(&r, 1, COMMAND_PAUSE, NULL);
    assert_true(isinf(tuner_wake_at(r.tuner)));
    tick(&r, 100);
    assert_false(r.history.finished);
    say_ready(&r);
    assert_int_equal(tuner_waits(r.tuner).kind, TUNER_WAITS_USER);
    accepted(&r, 1, COMMAND_CONTINUE, NULL);
    assert_false(r.history.finished);
    assert_true(fabs(tuner_wake_at(r.tuner) - (r.now + 58)) < 1e-6);
    close_run(&r);
}

/* Where there is a snapshot its model is to be written: a training system that
 * was lost has some minutes for it. What only trials had is lost. */
static void time_limit_leaves_time_for_the_model(void **state)
{
    (void)state;
    for (int snapshot = 0; snapshot <= 1; snapshot++) {
        struct run r;
        double up;

        open_run(&r, &strategy_mltuner, RATE("true"));
        say_ready(&r);
        if (snapshot)
            write_snapshot(&r);
        accepted(&r, 1, COMMAND_LIMITS, &minute);
        lose(&r, 1);
        up = snapshot ? r.now + 600 : tuner_wake_at(r.tuner);
        assert_true(tuner_wake_at(r.tuner) == up);
        assert_true(up < 1070 || snapshot);
        tick(&r, up - r.now - 1);
        assert_false(r.history.finished);
        tick(&r, 1);
        assert_out_of_time(&r, snapshot ? "mltune save" : "nothing was");
        close_run(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beats_are_recorded_from_ready_on),
        cmocka_unit_test(steering_of_runs_that_never_began_keeps_their_time),
        cmocka_unit_test(steering_tells_of_a_programs_tunables),
        cmocka_unit_test(steering_tells_of_many_tunables),
        cmocka_unit_test(steering_while_a_resumed_run_loads_keeps_its_time),
        cmocka_unit_test(steering_while_it_loads_again_forgets_nothing),
        cmocka_unit_test(steering_before_the_first_ready_is_kept),
        cmocka_unit_test(steering_keeps_the_wish_for_a_search),
        cmocka_unit_test(steering_resumed_by_its_user_goes_on),
        cmocka_unit_test(steering_paused_again_while_it_loads_stays_so),
        cmocka_unit_test(steering_stop_before_ready_promises_no_model),
        cmocka_unit_test(steering_full_journal_interrupts),
        cmocka_unit_test(steering_stop_waits_for_the_snapshot),
        cmocka_unit_test(steering_unreadable_snapshot_interrupts),
        cmocka_unit_test(steering_no_snapshot_is_given_up),
        cmocka_unit_test(steering_other_data_interrupt_and_record_nothing),
        cmocka_unit_test(steering_another_pass_of_the_same_data_is_told),
        cmocka_unit_test(steering_interrupt_while_it_loads_keeps_all),
        cmocka_unit_test(steering_retune_of_what_may_not_is_refused),
        cmocka_unit_test(steering_says_counts_in_full),
        cmocka_unit_test(time_limit_holds_before_ready),
        cmocka_unit_test(time_limit_waits_for_a_pause),
        cmocka_unit_test(time_limit_leaves_time_for_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
