/* Rows that users read and add to, by the tuner's core: what is asked of the
 * training system, what is journaled, what is cut short. */
#include "base/mem.h"
#include "searchers/searcher.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/strategy.h"
#include "tuner/core/tuner.h"
#include "tuner/history/history.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 3, SAVED_MAX = 64 };

struct run {
    struct history history;
    struct space space;
    struct tuner *tuner;
    struct tuner_actions actions;
    double now;
    op_id slices[SAVED_MAX]; /* scheduled, in order */
    size_t scheduled;
};

/* ---- a run --------------------------------------------------------------- */

static void journal(struct run *r, const struct record *record)
{
    json_t *json = record_to_json(record);
    struct record back;

    assert_int_equal(record_from_json(json, &back, NULL), ERR_OK);
    assert_int_equal(history_apply(&r->history, &back), ERR_OK);
    record_deinit(&back);
    json_decref(json);
}

static void step(struct run *r, struct tuner_event *e)
{
    tuner_actions_reset(&r->actions);
    e->now_s = r->now;
    assert_int_equal(tuner_step(r->tuner, e, &r->actions), ERR_OK);
    for (size_t i = 0; i < r->actions.count; i++) {
        const struct tuner_action *a = &r->actions.item[i];

        if (a->kind == TUNER_RECORD)
            journal(r, &a->record);
        if (a->kind == TUNER_SEND && a->message.kind == MSG_SCHEDULE)
            r->slices[r->scheduled++] = a->message.op;
    }
}

static const struct msg *sent(const struct run *r, enum msg_kind kind)
{
    for (size_t i = 0; i < r->actions.count; i++)
        if (r->actions.item[i].kind == TUNER_SEND &&
            r->actions.item[i].message.kind == kind)
            return &r->actions.item[i].message;
    return NULL;
}

static const struct tuner_answer *answered(const struct run *r)
{
    for (size_t i = 0; i < r->actions.count; i++)
        if (r->actions.item[i].kind == TUNER_ANSWER)
            return &r->actions.item[i].answer;
    return NULL;
}

static const struct record *recorded(const struct run *r, enum record_kind kind)
{
    for (size_t i = 0; i < r->actions.count; i++)
        if (r->actions.item[i].kind == TUNER_RECORD &&
            r->actions.item[i].record.kind == kind)
            return &r->actions.item[i].record;
    return NULL;
}

static void say(struct run *r, struct msg *m)
{
    struct tuner_event e = {.kind = TUNER_EVENT_MESSAGE, .message = m};

    step(r, &e);
    msg_deinit(m);
}

static void say_done(struct run *r, op_id op, json_t *data)
{
    struct msg m = {.kind = MSG_DONE, .op = op};

    m.done.data = data;
    say(r, &m);
}

static void wait_for(struct run *r, double seconds)
{
    struct tuner_event e = {.kind = TUNER_EVENT_TIMER};

    r->now += seconds;
    step(r, &e);
}

static void begin(struct run *r)
{
    struct tuner_options o = TUNER_OPTIONS;

    o.space = &r->space;
    o.strategy = &strategy_fixed;
    o.snapshot_dir = "/disk";
    o.resume = r->history.records ? &r->history : NULL;
    o.resume_reason = "it was lost";
    o.restarts = r->history.records ? 1 : 0;
    assert_int_equal(tuner_new(&o, &r->tuner, NULL), ERR_OK);
    wait_for(r, 0);
}

static void say_ready(struct run *r)
{
    struct msg m = {.kind = MSG_READY};

    m.ready =
        (struct msg_ready){.samples = 512, .workers = 1, .loss_floor = NAN};
    m.ready.tunables = json_pack("[s]", "learning_rate");
    m.ready.tables = json_pack(
        "[{s:s, s:i, s:i, s:s, s:s, s:s, s:b}, {s:s, s:i, s:i, s:s, s:s, s:s, "
        "s:b}]",
        "name", "weights", "rows", 10, "width", WIDTH, "type", "f32", "access",
        "shared", "rule", "sgd", "saved", 1, "name", "own", "rows", 4, "width",
        1, "type", "i32", "access", "local", "rule", "", "saved", 0);
    say(r, &m);
}

/* Trains branch 1, with a slice of it out. */
static void open_run(struct run *r)
{
    static const char space[] =
        "{\"learning_rate\": {\"type\": \"float\", \"values\": [0.01], "
        "\"default\": 0.01}}";
    struct msg forked = {.kind = MSG_FORKED};

    memset(r, 0, sizeof(*r));
    history_init(&r->history);
    assert_int_equal(space_from_text(space, &r->space, NULL), ERR_OK);
    r->now = 100;
    begin(r);
    say_ready(r);
    assert_non_null(recorded(r, RECORD_TABLES));
    assert_int_equal(r->history.tables, 2);
    assert_non_null(sent(r, MSG_FORK));
    forked.op = sent(r, MSG_FORK)->op;
    forked.forked.branch = 1;
    say(r, &forked);
    assert_true(r->scheduled >= 1);
}

static void close_run(struct run *r)
{
    tuner_free(r->tuner);
    tuner_actions_deinit(&r->actions);
    history_deinit(&r->history);
}

/* ---- what users ask ------------------------------------------------------ */

static struct command_rows part(const char *table, uint64_t first,
                                uint32_t count, uint32_t from, uint32_t values)
{
    struct command_rows rows = {.branch = BRANCH_NONE,
                                .first = first,
                                .count = count,
                                .from = from,
                                .values = values};

    snprintf(rows.table, sizeof(rows.table), "%s", table);
    return rows;
}

static void read_rows(struct run *r, const struct command_rows *rows)
{
    union command_args args = {.rows = *rows};
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_READ,
                            .args = &args,
                            .ticket = 7};

    step(r, &e);
}

static void add(struct run *r, branch_id branch, double value[])
{
    union command_args args = {.rows = part("weights", 4, 1, 0, WIDTH)};
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_ADD,
                            .args = &args,
                            .ticket = 8};

    args.rows.branch = branch;
    args.rows.add = value;
    step(r, &e);
}

static void refused(const struct run *r, enum err err)
{
    assert_non_null(answered(r));
    assert_int_equal(answered(r)->err, err);
    assert_null(sent(r, MSG_ROWS));
}

/* A read goes to the training system at once, cuts nothing, and comes back as
 * numbers. */
static void rows_are_read_without_cutting(void **state)
{
    struct command_rows some = part("weights", 4, 2, 1, 2);
    struct run r;

    (void)state;
    open_run(&r);
    read_rows(&r, &some);
    assert_null(answered(&r));
    assert_null(sent(&r, MSG_CUT));
    assert_non_null(sent(&r, MSG_ROWS));
    assert_int_equal(sent(&r, MSG_ROWS)->rows.branch, 1);
    assert_int_equal(sent(&r, MSG_ROWS)->rows.first, 4);
    assert_int_equal(sent(&r, MSG_ROWS)->rows.count, 2);
    assert_int_equal(sent(&r, MSG_ROWS)->rows.from, 1);
    assert_int_equal(sent(&r, MSG_ROWS)->rows.values, 2);
    say_done(&r, sent(&r, MSG_ROWS)->op,
             json_pack("[[f, s], [i, f]]", 0.5, "-inf", 2, 3.0));
    assert_non_null(answered(&r));
    assert_int_equal(answered(&r)->ticket, 7);
    assert_int_equal(answered(&r)->err, ERR_OK);
    assert_int_equal(answered(&r)->branch, 1);
    assert_int_equal(answered(&r)->values, 4);
    assert_true(answered(&r)->value[0] == 0.5);
    assert_true(answered(&r)->value[1] == -INFINITY);
    assert_true(answered(&r)->value[3] == 3.0);
    close_run(&r);
}

/* An answer without the rows asked for, and want of memory, are told; so is a
 * branch that the training system has given up. */
static void rows_that_do_not_come_are_told(void **state)
{
    struct command_rows one = part("weights", 4, 1, 0, WIDTH);
    json_t *wrong[] = {NULL, json_pack("[n]"), json_pack("[[f, f]]", 1.0, 1.0),
                       json_pack("[[f, f, b]]", 1.0, 1.0, 1), json_object()};
    struct msg failed = {.kind = MSG_FAILED, .failed.code = ERR_APP};
    struct msg done = {.kind = MSG_DONE};
    struct run r;

    (void)state;
    open_run(&r);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        read_rows(&r, &one);
        say_done(&r, sent(&r, MSG_ROWS)->op, wrong[i]);
        assert_int_equal(answered(&r)->err, ERR_PROTO);
        assert_null(answered(&r)->value);
    }
    read_rows(&r, &one);
    failed.op = sent(&r, MSG_ROWS)->op;
    snprintf(failed.failed.reason, sizeof(failed.failed.reason), "it failed");
    say(&r, &failed);
    assert_int_equal(answered(&r)->err, ERR_DIVERGED);
    assert_string_equal(answered(&r)->text, "it failed");
    read_rows(&r, &one);
    done.op = sent(&r, MSG_ROWS)->op;
    done.done.data = json_pack("[[f, f, f]]", 1.0, 1.0, 1.0);
    mem_fail_at(1, 0);
    say(&r, &done);
    mem_fail_at(0, 0);
    assert_int_equal(answered(&r)->err, ERR_NOMEM);
    close_run(&r);
}

/* An increment is a record before it is an answer, and what runs is cut for it:
 * every slice before it, but not again within a second. */
static void rows_increment_cuts_and_is_journaled(void **state)
{
    static double value[WIDTH] = {3, 0, -4};
    struct run r;
    op_id first, second;

    (void)state;
    open_run(&r);
    add(&r, BRANCH_NONE, value);
    assert_null(answered(&r));
    assert_non_null(sent(&r, MSG_ROWS));
    first = sent(&r, MSG_ROWS)->op;
    assert_int_equal(json_array_size(sent(&r, MSG_ROWS)->rows.increment), 1);
    assert_int_equal(sent(&r, MSG_ROWS)->rows.values, 0);
    assert_non_null(sent(&r, MSG_CUT));
    assert_int_equal(sent(&r, MSG_CUT)->cut.target, r.slices[0]);
    wait_for(&r, 0.25);
    add(&r, 1, value);
    second = sent(&r, MSG_ROWS)->op;
    assert_null(sent(&r, MSG_CUT));
    assert_int_equal(r.history.increments, 0);
    say_done(&r, first, json_pack("[[f, f, f]]", 1.0, 1.0, 1.0));
    assert_non_null(recorded(&r, RECORD_INCREMENT));
    assert_true(recorded(&r, RECORD_INCREMENT)->increment.norm == 5);
    assert_int_equal(recorded(&r, RECORD_INCREMENT)->increment.row, 4);
    assert_string_equal(recorded(&r, RECORD_INCREMENT)->increment.table,
                        "weights");
    assert_int_equal(answered(&r)->err, ERR_OK);
    assert_true(answered(&r)->changed);
    assert_int_equal(answered(&r)->branch, 1);
    assert_int_equal(r.history.increments, 1);
    assert_true(tuner_wake_at(r.tuner) <= 101.01);
    say_done(&r, second, NULL);
    assert_int_equal(r.history.increments, 2);
    close_run(&r);
}

/* One that came within the second has its slices cut when that is over. */
static void rows_increment_is_not_forgotten(void **state)
{
    static double value[WIDTH] = {1, 1, 1};
    struct run r;
    struct msg done = {.kind = MSG_DONE};

    (void)state;
    open_run(&r);
    add(&r, 1, value);
    say_done(&r, sent(&r, MSG_ROWS)->op, NULL);
    /* The slice that was cut ends without a clock; another follows. */
    done.op = r.slices[0];
    say(&r, &done);
    assert_true(r.scheduled >= 2);
    wait_for(&r, 0.5);
    add(&r, 1, value);
    assert_null(sent(&r, MSG_CUT));
    wait_for(&r, 0.6);
    assert_non_null(sent(&r, MSG_CUT));
    close_run(&r);
}

/* Impossible requests are refused, each with its reason, and nothing is sent.
 */
static void rows_that_cannot_be_are_refused(void **state)
{
    static double value[WIDTH] = {1, 1, 1};
    struct command_rows bad[] = {
        part("nothing", 0, 1, 0, 1),      part("own", 0, 1, 0, 1),
        part("weights", 10, 1, 0, WIDTH), part("weights", 9, 2, 0, WIDTH),
        part("weights", 0, 1, 1, WIDTH),  part("weights", 0, 1, WIDTH, 1),
    };
    struct command_rows good = part("weights", 0, 1, 0, WIDTH);
    struct tuner_event stop = {.kind = TUNER_EVENT_COMMAND,
                               .command = COMMAND_STOP};
    struct run r;

    (void)state;
    memset(&r, 0, sizeof(r));
    open_run(&r);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        read_rows(&r, &bad[i]);
        refused(&r, ERR_INVAL);
    }
    good.branch = 99;
    read_rows(&r, &good);
    refused(&r, ERR_NOENT);
    add(&r, 99, value);
    refused(&r, ERR_NOENT);
    add(&r, 0, value);
    refused(&r, ERR_UNSUPPORTED);
    good.branch = 0;
    read_rows(&r, &good);
    assert_non_null(sent(&r, MSG_ROWS));
    step(&r, &stop); /* who waits is told that the run ends */
    assert_non_null(answered(&r));
    good.branch = 1;
    read_rows(&r, &good);
    refused(&r, ERR_CANCELED);
    close_run(&r);
}

/* An increment sent is in the model that the run leaves: its end waits
 * for it, and its answer says so. */
static void rows_increment_is_not_cut_off_by_the_end(void **state)
{
    static double value[WIDTH] = {1, 1, 1};
    struct tuner_event stop = {.kind = TUNER_EVENT_COMMAND,
                               .command = COMMAND_STOP};
    struct msg done = {.kind = MSG_DONE};
    struct run r;
    op_id op;

    (void)state;
    open_run(&r);
    add(&r, 1, value);
    op = sent(&r, MSG_ROWS)->op;
    step(&r, &stop);
    for (size_t i = 0; i < r.actions.count; i++)
        assert_true(r.actions.item[i].kind != TUNER_ANSWER ||
                    r.actions.item[i].answer.ticket != 8);
    for (size_t i = 0; i < r.scheduled; i++) {
        done = (struct msg){.kind = MSG_DONE, .op = r.slices[i]};
        say(&r, &done);
        assert_null(sent(&r, MSG_SAVE));
        assert_null(sent(&r, MSG_FORK));
        assert_null(sent(&r, MSG_SNAPSHOT));
        assert_null(sent(&r, MSG_STOP));
    }
    say_done(&r, op, NULL);
    assert_non_null(recorded(&r, RECORD_INCREMENT));
    assert_non_null(answered(&r));
    assert_int_equal(answered(&r)->ticket, 8);
    assert_int_equal(answered(&r)->err, ERR_OK);
    assert_true(answered(&r)->changed);
    close_run(&r);
}

/* Before the training system is ready there is nothing to ask. */
static void rows_of_a_run_that_loads_are_not_there_yet(void **state)
{
    struct command_rows good = part("weights", 0, 1, 0, WIDTH);
    struct run r;

    (void)state;
    memset(&r, 0, sizeof(r));
    history_init(&r.history);
    assert_int_equal(
        space_from_text("{\"learning_rate\": {\"type\": \"float\", "
                        "\"values\": [0.01], \"default\": 0.01}}",
                        &r.space, NULL),
        ERR_OK);
    r.now = 100;
    begin(&r);
    read_rows(&r, &good);
    refused(&r, ERR_AGAIN);
    close_run(&r);
}

/* A run that goes on from before an increment says that it is lost; the numbers
 * of later ones go on. */
static void rows_lost_increments_are_told(void **state)
{
    static double value[WIDTH] = {1, 1, 1};
    bool told = false;
    struct run r;

    (void)state;
    open_run(&r);
    for (int i = 0; i < 2; i++) {
        add(&r, 1, value);
        say_done(&r, sent(&r, MSG_ROWS)->op, NULL);
    }
    tuner_free(r.tuner);
    r.now += 1;
    begin(&r);
    say_ready(&r);
    for (size_t i = 0; i < r.history.decisions; i++)
        told |=
            strcmp(r.history.decision[i].d.decision, "increments_lost") == 0 &&
            r.history.decision[i].d.number[0].value == 1 &&
            r.history.decision[i].d.number[1].value == 2;
    assert_true(told);
    assert_int_equal(r.history.increments, 2);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_without_cutting),
        cmocka_unit_test(rows_that_do_not_come_are_told),
        cmocka_unit_test(rows_increment_cuts_and_is_journaled),
        cmocka_unit_test(rows_increment_is_not_forgotten),
        cmocka_unit_test(rows_that_cannot_be_are_refused),
        cmocka_unit_test(rows_increment_is_not_cut_off_by_the_end),
        cmocka_unit_test(rows_of_a_run_that_loads_are_not_there_yet),
        cmocka_unit_test(rows_lost_increments_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
