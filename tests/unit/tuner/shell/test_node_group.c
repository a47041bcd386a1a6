#include "tuner/shell/node_group.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { NODES = 3 };

static struct node_group *new_crew(void)
{
    struct node_group *c;

    assert_int_equal(node_group_new(NODES, &c), ERR_OK);
    return c;
}

static void ask(struct node_group *c, enum msg_kind kind, op_id op)
{
    struct msg m = {.kind = kind, .op = op};
    bool leaves = false;

    if (kind == MSG_SCHEDULE)
        m.schedule = (struct msg_schedule){4, 100, 50, 2};
    assert_int_equal(node_group_ask(c, &m, &leaves), ERR_OK);
    assert_true(leaves);
}

static void say(struct node_group *c, uint32_t node, struct msg m)
{
    struct fault f = {0};

    if (node_group_take(c, node, &m, &f) != ERR_OK)
        fail_msg("%s", f.text);
}

static void disagree(struct node_group *c, uint32_t node, struct msg m,
                     const char *word)
{
    struct fault f = {0};

    assert_int_equal(node_group_take(c, node, &m, &f), ERR_PROTO);
    if (!strstr(f.text, "disagree") || !strstr(f.text, word))
        fail_msg("%s", f.text);
}

static struct msg done(op_id op)
{
    return (struct msg){.kind = MSG_DONE, .op = op};
}

static struct msg failed(op_id op, enum err code, const char *reason)
{
    struct msg m = {.kind = MSG_FAILED, .op = op, .failed.code = code};

    snprintf(m.failed.reason, sizeof(m.failed.reason), "%s", reason);
    return m;
}

/* Windows of two clocks each, the first with sum @sum. */
static struct msg report(op_id op, double sum, uint32_t windows)
{
    struct msg m = {.kind = MSG_REPORT, .op = op};

    m.report.windows = windows;
    m.report.window = mem_calloc(windows, sizeof(*m.report.window));
    for (uint32_t i = 0; i < windows; i++)
        m.report.window[i] = (struct progress_window){
            sum + i, 10, 2, sum / 8, 0.5, sum / 16, sum / 32};
    return m;
}

static void expect_none(struct node_group *c)
{
    struct msg m;

    assert_false(node_group_next(c, &m));
}

static struct msg expect(struct node_group *c, enum msg_kind kind, op_id op)
{
    struct msg m;

    assert_true(node_group_next(c, &m));
    assert_string_equal(msg_kind_name(m.kind), msg_kind_name(kind));
    assert_int_equal(m.op, op);
    return m;
}

/* An answer comes when the last node has given it, whatever the order; bytes
 * are summed, the longest switch counts. */
static void node_group_answers_are_joined(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    ask(c, MSG_FORK, 1);
    ask(c, MSG_SNAPSHOT, 2);
    for (uint32_t i = 0; i < NODES; i++) {
        m = done(2);
        m.done.bytes = 10 + i;
        m.done.switch_s = i == 1 ? 2 : 1;
        m.done.data_bytes = 100;
        m.done.reads = 10 * i;
        m.done.staleness = -(double)i;
        say(c, NODES - 1 - i, m);
        if (i + 1 < NODES)
            expect_none(c);
    }
    m = expect(c, MSG_DONE, 2);
    assert_int_equal(m.done.bytes, 33);
    assert_true(m.done.switch_s == 2);
    assert_int_equal(m.done.data_bytes, 300);
    assert_int_equal(m.done.reads, 30);
    assert_true(fabs(m.done.staleness + 50.0 / 30) < 1e-12);
    for (uint32_t i = 0; i < NODES; i++)
        say(c, i,
            (struct msg){.kind = MSG_FORKED, .op = 1, .forked.branch = 9});
    m = expect(c, MSG_FORKED, 1);
    assert_int_equal(m.forked.branch, 9);
    expect_none(c);
    node_group_free(c);
}

/* A window is passed on when all have reported it: sums in the order of the
 * nodes, the longest times; `done` comes after. */
static void node_group_reports_are_joined_window_by_window(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    ask(c, MSG_SCHEDULE, 5);
    say(c, 2, report(5, 4, 3));
    say(c, 0, report(5, 1, 1));
    expect_none(c);
    say(c, 1, report(5, 2, 2));
    m = expect(c, MSG_REPORT, 5);
    assert_int_equal(m.report.branch, 4);
    assert_int_equal(m.report.first, 100);
    assert_int_equal(m.report.windows, 1);
    assert_true(m.report.window[0].sum == 7);
    assert_int_equal(m.report.window[0].samples, 30);
    assert_int_equal(m.report.window[0].clocks, 2);
    assert_true(m.report.window[0].seconds == 0.5);
    assert_true(m.report.window[0].wait_s == 0.5);
    assert_true(m.report.window[0].copy_s == 0.25);
    msg_deinit(&m);
    say(c, 1, report(5, 1, 1));
    say(c, 0, report(5, 1, 2));
    m = expect(c, MSG_REPORT, 5);
    assert_int_equal(m.report.first, 102);
    assert_int_equal(m.report.windows, 2);
    msg_deinit(&m);
    for (uint32_t i = 0; i < NODES; i++) {
        m = done(5);
        m.done.clocks = 6;
        say(c, i, m);
    }
    m = expect(c, MSG_DONE, 5);
    assert_int_equal(m.done.clocks, 6);
    node_group_free(c);
}

/* A failure on all nodes is told with the reason that is no echo of another's;
 * a failure while loading is told at once; a disk's failure on one is one. */
static void node_group_failures_are_joined(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    ask(c, MSG_SCHEDULE, 1);
    say(c, 0, failed(1, ERR_CANCELED, "canceled"));
    say(c, 1, failed(1, ERR_APP, "worker 2"));
    say(c, 2, failed(1, ERR_CANCELED, "canceled"));
    m = expect(c, MSG_FAILED, 1);
    assert_string_equal(m.failed.reason, "worker 2");
    ask(c, MSG_SAVE, 2);
    say(c, 0, done(2));
    say(c, 1, failed(2, ERR_IO, "full"));
    expect_none(c);
    say(c, 2, done(2));
    m = expect(c, MSG_FAILED, 2);
    assert_int_equal(m.failed.code, ERR_IO);
    ask(c, MSG_CONFIG, 3);
    say(c, 2, failed(3, ERR_FORMAT, "line 7"));
    m = expect(c, MSG_FAILED, 3);
    assert_string_equal(m.failed.reason, "line 7");
    node_group_free(c);
}

/* Node 0 is given a `save` that is kept from it when all others have answered,
 * once. */
static void node_group_node_0_saves_last(void **state)
{
    struct node_group *c = new_crew();
    struct msg m = {.kind = MSG_SAVE, .op = 2}, due;
    bool leaves;

    (void)state;
    assert_false(node_group_save_due(c, &due));
    snprintf(m.save.path, sizeof(m.save.path), "/model");
    assert_int_equal(node_group_ask(c, &m, &leaves), ERR_OK);
    node_group_save_last(c, &m);
    say(c, 2, done(2));
    assert_false(node_group_save_due(c, &due));
    say(c, 1, failed(2, ERR_IO, "full"));
    assert_true(node_group_save_due(c, &due));
    assert_int_equal(due.op, 2);
    assert_string_equal(due.save.path, "/model");
    assert_false(node_group_save_due(c, &due));
    expect_none(c);
    say(c, 0, done(2));
    due = expect(c, MSG_FAILED, 2);
    assert_int_equal(due.failed.code, ERR_IO);
    node_group_free(c);
}

static void ask_branch(struct node_group *c, enum msg_kind kind, op_id op,
                       branch_id branch)
{
    struct msg m = {.kind = kind, .op = op};
    bool leaves;

    if (kind == MSG_RESTORE)
        m.restore.branch = branch;
    else
        m.free.branch = branch;
    assert_int_equal(node_group_ask(c, &m, &leaves), ERR_OK);
}

/* A restore that one node cannot make has failed; the others still have it, so
 * it is to be freed, and who has nothing agrees. Any other free must fit all.
 */
static void node_group_frees_what_only_some_restored(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    ask_branch(c, MSG_RESTORE, 1, 7);
    say(c, 2, done(1));
    say(c, 1, failed(1, ERR_FORMAT, "a wrong bit"));
    expect_none(c);
    say(c, 0, done(1));
    m = expect(c, MSG_FAILED, 1);
    assert_int_equal(m.failed.code, ERR_FORMAT);
    assert_true(m.failed.partly);
    ask_branch(c, MSG_FREE, 2, 7);
    say(c, 1, failed(2, ERR_NOENT, "branch 7 does not exist"));
    say(c, 0, done(2));
    expect_none(c);
    say(c, 2, done(2));
    expect(c, MSG_DONE, 2);
    ask_branch(c, MSG_RESTORE, 3, 8);
    for (uint32_t i = 0; i < NODES; i++)
        say(c, i, failed(3, ERR_FORMAT, "a wrong bit"));
    m = expect(c, MSG_FAILED, 3);
    assert_false(m.failed.partly);
    ask_branch(c, MSG_FREE, 4, 7); /* a second time */
    say(c, 1, failed(4, ERR_NOENT, "branch 7 does not exist"));
    say(c, 0, failed(4, ERR_NOENT, "branch 7 does not exist"));
    disagree(c, 2, done(4), "could not");
    node_group_free(c);
}

/* Every node but one says null of a row; what a model has beside its tables is
 * node 0's word. */
static void node_group_data_are_joined(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;
    json_t *want = json_pack("[[i],[i],[i]]", 0, 1, 2);

    (void)state;
    ask(c, MSG_ROWS, 1);
    ask(c, MSG_SAVE, 2);
    for (uint32_t i = NODES; i-- > 0;) {
        json_t *rows = json_pack("[n,n,n]");

        json_array_set_new(rows, i, json_pack("[i]", (int)i));
        m = done(1);
        m.done.data = rows;
        say(c, i, m);
        m = done(2);
        m.done.data = i ? json_object() : json_pack("{s:s}", "app", "x");
        say(c, i, m);
    }
    m = expect(c, MSG_DONE, 1);
    assert_true(json_equal(m.done.data, want));
    msg_deinit(&m);
    m = expect(c, MSG_DONE, 2);
    assert_string_equal(json_string_value(json_object_get(m.done.data, "app")),
                        "x");
    msg_deinit(&m);
    json_decref(want);
    node_group_free(c);
}

static struct msg ready(uint64_t samples)
{
    struct msg m = {.kind = MSG_READY, .op = 1};

    m.ready.samples = samples;
    m.ready.model_bytes = 100;
    return m;
}

/* The nodes of a run have the same data, and each its part of the model. */
static void node_group_ready_is_joined(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    ask(c, MSG_CONFIG, 1);
    for (uint32_t i = 0; i < NODES; i++)
        say(c, i, ready(60));
    m = expect(c, MSG_READY, 1);
    assert_int_equal(m.ready.samples, 60);
    assert_int_equal(m.ready.model_bytes, 300);
    ask(c, MSG_CONFIG, 1);
    say(c, 0, ready(60));
    disagree(c, 2, ready(61), "other data");
    node_group_free(c);
}

/* Node @node reads @files, or tells none. */
static void says_files(struct node_group *c, uint32_t node, const char *files)
{
    struct msg m = ready(60);

    m.ready.files = files ? json_loads(files, 0, NULL) : NULL;
    say(c, node, m);
}

static void asks_config(struct node_group *c, bool goes_on)
{
    struct msg m = {.kind = MSG_CONFIG, .op = 1, .config.goes_on = goes_on};
    bool leaves;

    node_group_reset(c);
    assert_int_equal(node_group_ask(c, &m, &leaves), ERR_OK);
}

static void files_refused(struct node_group *c, const char *words, bool goes_on)
{
    struct msg m = expect(c, MSG_FAILED, 1);

    assert_int_equal(m.failed.code, ERR_INVAL);
    if (!strstr(m.failed.reason, words) ||
        !strstr(m.failed.reason, "all nodes must read the same") ||
        !strstr(m.failed.reason, "--other-data") != !goes_on)
        fail_msg("%s", m.failed.reason);
    expect_none(c);
}

#define FILE_A "{\"path\":\"/a\",\"bytes\":5,\"sum\":1}"
#define FILE_B "{\"path\":\"/b\",\"bytes\":6,\"sum\":2}"

/* A file that one node reads and another does not, or whose content differs, is
 * named, in whichever order they answer. Nodes that tell none are not asked. */
static void node_group_nodes_read_the_same_files(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    asks_config(c, true);
    for (uint32_t i = 0; i < NODES; i++)
        says_files(c, i, i == 1 ? NULL : "[" FILE_A "," FILE_B "]");
    m = expect(c, MSG_READY, 1);
    assert_non_null(m.ready.files);
    msg_deinit(&m);
    asks_config(c, true);
    says_files(c, 2, "[" FILE_A "]");
    says_files(c, 0, "[{\"path\":\"/a\",\"bytes\":5,\"sum\":7}]");
    files_refused(c,
                  "nodes 0 and 2 have other data: /a has other content in "
                  "its 5 bytes",
                  true);
    asks_config(c, false);
    says_files(c, 1, "[" FILE_A "]");
    says_files(c, 0, "[{\"path\":\"/a\",\"bytes\":8,\"sum\":7}]");
    files_refused(c,
                  "nodes 0 and 1 have other data: /a has 8 bytes on the one "
                  "and 5 on the other",
                  false);
    asks_config(c, false);
    says_files(c, 1, "[" FILE_A "," FILE_B "]");
    says_files(c, 0, "[" FILE_A "]");
    files_refused(c, "/b is read by node 1 and not by node 0", false);
    asks_config(c, true);
    says_files(c, 0, "[" FILE_A "," FILE_B "]");
    says_files(c, 1, "[]");
    files_refused(c, "/a is read by node 0 and not by node 1", true);
    node_group_free(c);
}

/* Nodes that are no longer the same run are found, in words; a reset forgets
 * all of it. */
static void node_group_disagreement_is_found(void **state)
{
    struct node_group *c = new_crew();
    struct msg m = done(3);

    (void)state;
    disagree(c, 1, done(9), "over for the others");
    disagree(c, 1, report(9, 1, 1), "slice that is over");
    ask(c, MSG_FORK, 1);
    say(c, 0, (struct msg){.kind = MSG_FORKED, .op = 1});
    disagree(c, 0, (struct msg){.kind = MSG_FORKED, .op = 1}, "twice");
    disagree(c, 1, done(1), "another kind");
    say(c, 1, failed(1, ERR_LIMIT, "memory"));
    disagree(c, 2, (struct msg){.kind = MSG_FORKED, .op = 1}, "could not");
    node_group_reset(c);
    ask(c, MSG_SCHEDULE, 3);
    say(c, 0, done(3));
    m.done.clocks = 7;
    disagree(c, 1, m, "number of clocks");
    node_group_reset(c);
    ask(c, MSG_SCHEDULE, 3);
    say(c, 0, report(3, 1, 1));
    for (uint32_t i = 0; i + 1 < NODES; i++)
        say(c, i, done(3));
    disagree(c, 2, done(3), "more windows");
    node_group_reset(c);
    expect_none(c);
    node_group_free(c);
    node_group_free(NULL);
}

/* A message that is no answer goes through as it comes. */
static void node_group_beats_pass(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;
    bool leaves;

    (void)state;
    say(c, 1, (struct msg){.kind = MSG_BEAT, .beat.node = 1});
    m = expect(c, MSG_BEAT, 0);
    assert_int_equal(m.beat.node, 1);
    say(c, 2, failed(0, ERR_IO, "the node itself"));
    expect(c, MSG_FAILED, 0);
    assert_int_equal(node_group_ask(c, &(struct msg){.kind = MSG_CUT}, &leaves),
                     ERR_OK);
    assert_true(leaves);
    node_group_free(c);
}

static enum err whole_slice(void)
{
    struct node_group *c = NULL;
    struct msg m = {.kind = MSG_SCHEDULE, .op = 1};
    bool leaves;
    enum err err = node_group_new(NODES, &c);

    if (!err)
        err = node_group_ask(c, &m, &leaves);
    for (uint32_t i = 0; i < NODES && !err; i++) {
        struct msg r = {.kind = MSG_REPORT, .op = 1};

        r.report.windows = 1;
        r.report.window = mem_calloc(1, sizeof(*r.report.window));
        if (!r.report.window)
            err = ERR_NOMEM;
        else
            err = node_group_take(c, i, &r, NULL);
    }
    for (uint32_t i = 0; i < NODES && !err; i++) {
        m = done(1);
        err = node_group_take(c, i, &m, NULL);
    }
    node_group_free(c);
    return err;
}

static enum err partly_restored(void)
{
    struct node_group *c = NULL;
    struct msg m = {.kind = MSG_RESTORE, .op = 1, .restore.branch = 7};
    bool leaves;
    enum err err = node_group_new(NODES, &c);

    if (!err)
        err = node_group_ask(c, &m, &leaves);
    for (uint32_t i = 0; i < NODES && !err; i++) {
        m = i ? done(1) : failed(1, ERR_FORMAT, "a wrong bit");
        err = node_group_take(c, i, &m, NULL);
    }
    node_group_free(c);
    return err;
}

static void try_all_allocations(enum err (*body)(void))
{
    int64_t before = mem_outstanding();
    enum err err = ERR_NOMEM;

    for (int64_t nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = body();
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
    }
}

/* Memory that is refused anywhere leaves nothing behind. */
static void node_group_allocation_failures_leave_nothing(void **state)
{
    (void)state;
    try_all_allocations(whole_slice);
    try_all_allocations(partly_restored);
}

static struct msg report_with(double sum, uint32_t windows, const char *values)
{
    struct msg m = report(5, sum, windows);

    m.report.values = json_loads(values, 0, NULL);
    return m;
}

/* Further metrics are means over the nodes that have them, window by window,
 * however the nodes cut their reports. */
static void node_group_values_are_means(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;
    json_t *want;

    (void)state;
    ask(c, MSG_SCHEDULE, 5);
    say(c, 0, report_with(1, 1, "{\"a\":[1]}"));
    say(c, 1, report_with(1, 2, "{\"a\":[3,5],\"b\":[null,7]}"));
    say(c, 2, report(5, 1, 2));
    m = expect(c, MSG_REPORT, 5);
    want = json_loads("{\"a\":[2.0],\"b\":[null]}", 0, NULL);
    assert_true(json_equal(m.report.values, want));
    json_decref(want);
    msg_deinit(&m);
    say(c, 0, report_with(1, 1, "{\"c\":[\"nan\"]}"));
    m = expect(c, MSG_REPORT, 5);
    want = json_loads("{\"a\":[5.0],\"c\":[\"nan\"],\"b\":[7.0]}", 0, NULL);
    assert_true(json_equal(m.report.values, want));
    json_decref(want);
    msg_deinit(&m);
    node_group_free(c);
}

/* Without any there are none. */
static void node_group_reports_without_values_have_none(void **state)
{
    struct node_group *c = new_crew();
    struct msg m;

    (void)state;
    ask(c, MSG_SCHEDULE, 5);
    for (uint32_t i = 0; i < NODES; i++)
        say(c, i, report(5, 1, 1));
    m = expect(c, MSG_REPORT, 5);
    assert_null(m.report.values);
    msg_deinit(&m);
    node_group_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_group_answers_are_joined),
        cmocka_unit_test(node_group_reports_are_joined_window_by_window),
        cmocka_unit_test(node_group_values_are_means),
        cmocka_unit_test(node_group_reports_without_values_have_none),
        cmocka_unit_test(node_group_failures_are_joined),
        cmocka_unit_test(node_group_node_0_saves_last),
        cmocka_unit_test(node_group_frees_what_only_some_restored),
        cmocka_unit_test(node_group_data_are_joined),
        cmocka_unit_test(node_group_ready_is_joined),
        cmocka_unit_test(node_group_nodes_read_the_same_files),
        cmocka_unit_test(node_group_disagreement_is_found),
        cmocka_unit_test(node_group_beats_pass),
        cmocka_unit_test(node_group_allocation_failures_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
