/* The training node's core: what it grants, refuses and in which order it has
 * things done, as traces. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "ps/node/node.h"
#include "ps/server/ps.h"

#include <stdio.h>

#include "tests/unit/fixture/check.h"

static const char *const tunables[] = {"learning_rate", "batch_size", "shrink",
                                       NULL};

/* ---- a node and its trace ------------------------------------------------ */

static struct text trace;

static void trace_message(const struct msg *m)
{
    text_printf(&trace, "%s", msg_kind_name(m->kind));
    if (m->op)
        text_printf(&trace, " %d", (int)m->op);
    switch (m->kind) {
    case MSG_FAILED:
        text_printf(&trace, " %s", err_name(m->failed.code));
        if (m->failed.branch != BRANCH_NONE)
            text_printf(&trace, " b%u", m->failed.branch);
        break;
    case MSG_FORKED:
        text_printf(&trace, " b%u", m->forked.branch);
        break;
    case MSG_DONE:
        if (m->done.branch != BRANCH_NONE)
            text_printf(&trace, " b%u", m->done.branch);
        if (m->done.clocks)
            text_printf(&trace, " clocks=%d", (int)m->done.clocks);
        if (m->done.bytes)
            text_printf(&trace, " bytes=%d", (int)m->done.bytes);
        break;
    case MSG_REPORT:
        text_printf(&trace, " b%u first=%d n=%u", m->report.branch,
                    (int)m->report.first, m->report.windows);
        break;
    default:
        break;
    }
    text_puts(&trace, "; ");
}

/* Everything that waits to be sent, into the trace. */
static void drain(struct node *n)
{
    struct msg m;

    while (node_pop(n, &m)) {
        trace_message(&m);
        msg_deinit(&m);
    }
}

static void check_trace(struct node *n, const char *expected)
{
    char *got;

    drain(n);
    got = text_take(&trace);
    assert_string_equal(got, expected);
    mem_free(got);
}

static enum err feed(struct node *n, const char *fmt, ...)
{
    struct fault f = {0};
    char text[1024];
    enum err err;
    struct msg m;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    err = msg_decode(text, strlen(text), &m, &f);
    if (err == ERR_NOMEM)
        return err;
    if (err)
        fail_msg("%s: %s", text, f.text);
    return node_receive(n, &m, &f);
}

static void fork_branch(struct node *n, int op, int branch, int parent,
                        const char *type)
{
    assert_int_equal(feed(n,
                          "{'kind':'fork','op':%d,'branch':%d,'parent':%d,"
                          "'type':'%s','setting':{}}",
                          op, branch, parent, type),
                     ERR_OK);
}

static void free_branch(struct node *n, int op, int branch)
{
    assert_int_equal(feed(n, "{'kind':'free','op':%d,'branch':%d}", op, branch),
                     ERR_OK);
}

static void schedule(struct node *n, int op, int branch, int first, int count)
{
    assert_int_equal(feed(n,
                          "{'kind':'schedule','op':%d,'branch':%d,'first':%d,"
                          "'count':%d,'report_every':1}",
                          op, branch, first, count),
                     ERR_OK);
}

static void path_request(struct node *n, const char *kind, int op, int branch)
{
    assert_int_equal(feed(n,
                          "{'kind':'%s','op':%d,'branch':%d,'path':'/tmp/x'}",
                          kind, op, branch),
                     ERR_OK);
}

static void cut(struct node *n, int target)
{
    assert_int_equal(feed(n, "{'kind':'cut','target':%d}", target), ERR_OK);
}

/* The next operation, named in the trace; its op, 0 without one. */
static op_id take(struct node *n)
{
    struct node_task task;

    drain(n);
    node_take(n, &task);
    if (!task.msg)
        return 0;
    drain(n);
    text_printf(&trace, "[%s %d] ", msg_kind_name(task.msg->kind),
                (int)task.msg->op);
    return task.msg->op;
}

static void finish(struct node *n, op_id op, struct node_result r)
{
    node_finish(n, op, &r);
    drain(n);
}

/* Carries out everything that waits. */
static void settle(struct node *n)
{
    op_id op;

    while ((op = take(n)))
        finish(n, op, (struct node_result){0});
}

static struct node *serving_one_of(bool many, unsigned branches_max,
                                   uint64_t validation)
{
    struct msg_hello hello = {PROTO_VERSION, 0, 2, 77};
    struct node_model model = {.branches_max = branches_max,
                               .many = many,
                               .tunables = tunables,
                               .ready = {.samples = 100,
                                         .validation_samples = validation,
                                         .workers = 2,
                                         .tunables = json_array(),
                                         .metric_reduction = "mean"}};
    struct node *n;

    assert_int_equal(
        node_setting_init(&model.defaults, NULL, tunables, false, NULL),
        ERR_OK);
    assert_int_equal(node_new(&hello, &n), ERR_OK);
    assert_int_equal(
        feed(n, "{'kind':'config','op':1,'config':{},'folder':'/','seed':1}"),
        ERR_OK);
    assert_int_equal(take(n), 1);
    assert_int_equal(node_loaded(n, &model), ERR_OK);
    check_trace(n, "hello; [config 1] ready 1; ");
    return n;
}

static struct node *serving(unsigned branches_max, uint64_t validation)
{
    return serving_one_of(false, branches_max, validation);
}

/* A branch's setting is what its fork said over the defaults, resolved once:
 * each of its operations comes with it, whatever was forked since; a kept
 * branch has none. */
static void node_setting_is_resolved_at_the_fork(void **state)
{
    struct node *n = serving(9, 10);
    struct node_task task;

    (void)state;
    feed(n, "{'kind':'fork','op':2,'branch':1,'parent':0,'type':'training',"
            "'setting':{'learning_rate':0.5}}");
    feed(n, "{'kind':'fork','op':3,'branch':2,'parent':1,'type':'training',"
            "'setting':{'batch_size':7}}");
    fork_branch(n, 4, 3, 1, "kept");
    schedule(n, 5, 1, 0, 1);
    schedule(n, 6, 2, 1, 1);
    for (int op = 2; op <= 6; op++) {
        const struct node_setting *s;

        node_take(n, &task);
        assert_non_null(task.msg);
        assert_int_equal(task.msg->op, op);
        s = task.setting;
        if (op == 4) {
            assert_null(s);
        } else {
            bool first = op == 2 || op == 5;

            assert_non_null(s);
            assert_true(s->learning_rate == (first ? 0.5 : 0.01));
            assert_int_equal(s->batch_size, first ? 64 : 7);
        }
        finish(n, (op_id)op, (struct node_result){0});
    }
    drain(n);
    text_deinit(&trace);
    node_free(n);
}

/* ---- the order of things ------------------------------------------------- */

/* A fork is answered on receipt, everything else when it was carried out, and
 * all is carried out in the order in which it came. */
static void node_operations_keep_their_order(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    fork_branch(n, 4, 2, 1, "testing");
    schedule(n, 5, 2, 5, 1);
    free_branch(n, 6, 2);
    check_trace(n, "forked 2 b1; forked 4 b2; ");
    settle(n);
    check_trace(n, "[fork 2] [schedule 3] done 3 b1; [fork 4] "
                   "[schedule 5] done 5 b2; [free 6] done 6 b2; ");
    assert_int_equal(node_waiting(n), 0);
    node_free(n);
}

/* One operation at a time; what comes meanwhile waits. */
static void node_one_operation_at_a_time(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    assert_int_equal(take(n), 2);
    schedule(n, 3, 1, 0, 5);
    assert_int_equal(take(n), 0);
    finish(n, 2, (struct node_result){0});
    assert_int_equal(take(n), 3);
    finish(n, 3, (struct node_result){.clocks = 5});
    check_trace(n, "forked 2 b1; [fork 2] [schedule 3] done 3 b1 clocks=5; ");
    node_free(n);
}

/* The windows of a slice are reported with the global clock they begin at. */
static void node_reports_count_clocks(void **state)
{
    struct node *n = serving(9, 10);
    struct progress_window w[3] = {{.clocks = 4}, {.clocks = 4}, {.clocks = 1}};

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 100, 9);
    schedule(n, 4, 1, 109, 4);
    settle(n); /* without reports */
    mem_free(text_take(&trace));
    schedule(n, 5, 1, 200, 9);
    assert_int_equal(take(n), 5);
    assert_int_equal(node_report(n, w, 2), ERR_OK);
    assert_int_equal(node_report(n, w + 2, 1), ERR_OK);
    finish(n, 5, (struct node_result){.clocks = 9});
    check_trace(n, "[schedule 5] report 5 b1 first=200 n=2; "
                   "report 5 b1 first=208 n=1; done 5 b1 clocks=9; ");
    node_free(n);
}

/* ---- refusals ------------------------------------------------------------ */

/* Whatever a request asks that cannot be is answered with the reason's code,
 * and the next one finds everything as it was. */
static void node_impossible_requests_are_refused(void **state)
{
    struct node *n = serving(9, 0);

    (void)state;
    fork_branch(n, 2, 1, 7, "training");
    fork_branch(n, 3, 0, 7, "training");
    fork_branch(n, 4, 1, 0, "testing");
    free_branch(n, 5, 1);
    schedule(n, 6, 1, 0, 1);
    schedule(n, 7, 0, 0, 1);
    path_request(n, "snapshot", 8, 1);
    path_request(n, "save", 9, 1);
    path_request(n, "restore", 10, 0);
    check_trace(n, "failed 2 noent b1; failed 3 noent b0; "
                   "failed 4 unsupported b1; failed 5 noent b1; "
                   "failed 6 noent b1; failed 7 inval b0; "
                   "failed 8 noent b1; failed 9 noent b1; "
                   "failed 10 exist b0; ");
    assert_int_equal(node_waiting(n), 0);
    assert_int_equal(node_branches(n), 1);
    assert_int_equal(feed(n, "{'kind':'fork','op':11,'branch':1,'parent':0,"
                             "'type':'probe','setting':{'learning_rat':1}}"),
                     ERR_OK);
    assert_int_equal(feed(n, "{'kind':'fork','op':12,'branch':1,'parent':0,"
                             "'type':'kept','setting':{'whatever':1}}"),
                     ERR_OK);
    fork_branch(n, 13, 1, 0, "training");
    schedule(n, 14, 1, 0, 1);
    assert_int_equal(feed(n, "{'kind':'rows','op':15,'branch':1,'table':'w',"
                             "'first':0,'count':1,'increment':[[1]]}"),
                     ERR_OK);
    check_trace(n, "failed 11 inval b1; forked 12 b1; failed 13 exist b1; "
                   "failed 14 inval b1; failed 15 inval b1; ");
    node_free(n);
}

/* Clocks go up: a slice cannot begin before the end of the one before, a gap is
 * allowed, and neither overflow nor more windows than a report holds are. */
static void node_clock_order_is_kept(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 10, 5);
    schedule(n, 4, 1, 14, 5);
    schedule(n, 5, 1, 15, 1);
    schedule(n, 6, 1, 20, 1001);
    feed(n, "{'kind':'schedule','op':7,'branch':1,'first':9223372036854775807,"
            "'count':9223372036854775807,'report_every':9223372036854775807}");
    feed(n, "{'kind':'schedule','op':8,'branch':1,'first':9223372036854775807,"
            "'count':9223372036854775807,'report_every':9223372036854775807}");
    check_trace(n, "forked 2 b1; failed 4 inval b1; failed 6 inval b1; "
                   "failed 8 inval b1; ");
    node_free(n);
}

/* Operations are numbered upward; one that is not changes nothing. */
static void node_operation_numbers_grow(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 5, 1, 0, "training");
    fork_branch(n, 5, 2, 0, "training");
    fork_branch(n, 1, 3, 0, "training");
    fork_branch(n, 6, 4, 0, "training");
    check_trace(n, "forked 5 b1; failed 5 proto b2; failed 1 proto b3; "
                   "forked 6 b4; ");
    assert_int_equal(node_branches(n), 3);
    node_free(n);
}

/* A freed branch is gone for all that comes after, though what came before it
 * still runs; its number is free again only when it is really gone. */
static void node_freed_branch_is_gone(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 1);
    free_branch(n, 4, 1);
    schedule(n, 5, 1, 1, 1);
    fork_branch(n, 6, 1, 0, "training");
    free_branch(n, 7, 1);
    check_trace(n, "forked 2 b1; failed 5 noent b1; failed 6 exist b1; "
                   "failed 7 noent b1; ");
    settle(n);
    fork_branch(n, 8, 1, 0, "training");
    check_trace(n, "[fork 2] [schedule 3] done 3 b1; [free 4] done 4 b1; "
                   "forked 8 b1; ");
    node_free(n);
}

/* Before the configuration and while it is loaded there is nothing to do, and a
 * second configuration is none; what a node is never sent is no request. */
static void node_serves_only_when_loaded(void **state)
{
    struct msg_hello hello = {PROTO_VERSION, 0, 2, 77};
    static const char config[] =
        "{'kind':'config','op':4,'config':{},'folder':'/','seed':1}";
    struct node_task task;
    struct fault f = {.code = ERR_IO, .text = "r.dat: no such file"};
    struct node *n;

    (void)state;
    assert_int_equal(node_new(&hello, &n), ERR_OK);
    node_take(n, &task);
    assert_null(task.msg);
    fork_branch(n, 1, 1, 0, "training");
    feed(n, config);
    fork_branch(n, 5, 1, 0, "training");
    assert_int_equal(take(n), 4);
    feed(n, config);
    assert_int_equal(node_phase(n), NODE_LOADING);
    assert_int_equal(feed(n, "{'kind':'forked','op':1,'branch':1}"), ERR_PROTO);
    node_load_failed(n, &f);
    check_trace(n, "hello; failed 1 proto b1; failed 5 busy b1; [config 4] "
                   "failed 4 exist; failed 4 io; ");
    assert_int_equal(node_phase(n), NODE_STOPPED);
    node_free(n);
}

/* A queue that is full refuses further operations and loses none. */
static void node_full_queue_refuses(void **state)
{
    struct node *n = serving(9, 10);
    int i, granted = 0;
    struct msg m;

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    for (i = 0; i < NODE_QUEUE_MAX + 10; i++)
        schedule(n, 3 + i, 1, i, 1);
    for (i = 0; node_pop(n, &m); i++) {
        assert_true(i == 0 ||
                    (m.kind == MSG_FAILED && m.failed.code == ERR_LIMIT));
        msg_deinit(&m);
    }
    assert_int_equal(i, 1 + 11);
    while (take(n)) {
        struct node_result ok = {0};

        node_finish(n, (op_id)(2 + granted++), &ok);
    }
    assert_int_equal(granted, NODE_QUEUE_MAX);
    mem_free(text_take(&trace));
    node_free(n);
}

/* ---- memory -------------------------------------------------------------- */

/* A branch that may write costs one, a kept one of it another, a kept one of a
 * kept one nothing; what is refused changes nothing and a free makes room. */
static void node_memory_is_reserved_on_receipt(void **state)
{
    struct node *n = serving(4, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training"); /* 2 */
    fork_branch(n, 3, 2, 1, "kept");     /* 3 */
    fork_branch(n, 4, 3, 2, "kept");
    fork_branch(n, 5, 4, 3, "kept");
    assert_int_equal(node_units(n), 3);
    fork_branch(n, 6, 5, 2, "training"); /* 4 */
    fork_branch(n, 7, 6, 1, "testing");
    path_request(n, "restore", 8, 7);
    fork_branch(n, 9, 8, 4, "kept");
    check_trace(n, "forked 2 b1; forked 3 b2; forked 4 b3; forked 5 b4; "
                   "forked 6 b5; failed 7 limit b6; failed 8 limit b7; "
                   "forked 9 b8; ");
    free_branch(n, 10, 2);
    free_branch(n, 11, 3);
    free_branch(n, 12, 4);
    assert_int_equal(node_units(n), 4); /* branch 8 still holds that state */
    free_branch(n, 13, 8);
    assert_int_equal(node_units(n), 3);
    fork_branch(n, 14, 6, 1, "testing"); /* before any free is carried out */
    settle(n);
    assert_int_equal(node_branches(n), 4);
    mem_free(text_take(&trace));
    node_free(n);
}

/* The state that a snapshot is written from is paid for until it is written,
 * though its branch be freed. */
static void node_snapshot_holds_its_state(void **state)
{
    struct node *n = serving(3, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    path_request(n, "snapshot", 3, 1);
    check_trace(n, "forked 2 b1; failed 3 inval b1; ");
    fork_branch(n, 3, 2, 1, "kept");
    path_request(n, "snapshot", 4, 2);
    path_request(n, "snapshot", 5, 2);
    free_branch(n, 6, 2);
    fork_branch(n, 7, 3, 1, "training");
    check_trace(n, "forked 3 b2; failed 5 busy b2; failed 7 limit b3; ");
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), (struct node_result){0});
    assert_int_equal(take(n), 4);
    node_detach(n);
    settle(n);
    schedule(n, 8, 1, 0, 1);
    settle(n);
    assert_int_equal(node_units(n), 3);
    assert_int_equal(node_waiting(n), 1);
    finish(n, 4, (struct node_result){.bytes = 9});
    assert_int_equal(node_units(n), 2);
    fork_branch(n, 9, 3, 1, "kept");
    path_request(n, "snapshot", 10, 3);
    check_trace(n, "[fork 2] [fork 3] [snapshot 4] [free 6] done 6 b2; "
                   "[schedule 8] done 8 b1; done 4 b2 bytes=9; forked 9 b3; ");
    node_free(n);
}

/* The initial state can be written too; the copy that is written is a branch of
 * its own, which has to fit. */
static void node_snapshot_of_the_root_costs_one(void **state)
{
    struct node *n = serving(2, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    path_request(n, "snapshot", 3, 0);
    free_branch(n, 4, 1);
    path_request(n, "snapshot", 5, 0);
    assert_int_equal(node_units(n), 2);
    fork_branch(n, 6, 2, 0, "training");
    check_trace(n, "forked 2 b1; failed 3 limit b0; failed 6 limit b2; ");
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), (struct node_result){0});
    assert_int_equal(node_units(n), 1);
    check_trace(n, "[fork 2] [free 4] done 4 b1; [snapshot 5] done 5 b0; ");
    node_free(n);
}

/* ---- cut and stop -------------------------------------------------------- */

/* A cut of the running slice is due once; one of a waiting slice lets it end
 * with no clock run; one of anything else is nothing. */
static void node_cut_ends_its_slice_only(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    schedule(n, 5, 1, 10, 5);
    finish(n, take(n), (struct node_result){0});
    assert_int_equal(take(n), 3);
    assert_false(node_cut_due(n));
    cut(n, 2);
    cut(n, 99);
    cut(n, 4);
    assert_false(node_cut_due(n));
    cut(n, 3);
    assert_true(node_cut_due(n));
    cut(n, 3);
    assert_false(node_cut_due(n));
    finish(n, 3, (struct node_result){.clocks = 2});
    cut(n, 3);
    settle(n);
    assert_false(node_cut_due(n));
    check_trace(n, "forked 2 b1; [fork 2] [schedule 3] done 3 b1 clocks=2; "
                   "done 4 b1; [schedule 5] done 5 b1; ");
    node_free(n);
}

/* One of several nodes begins also a slice that was cut while it waited: the
 * others may have begun it; and is to cut it at once. */
static void node_of_many_begins_what_was_cut(void **state)
{
    struct node *n = serving_one_of(true, 9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    schedule(n, 5, 1, 10, 5);
    cut(n, 4);
    finish(n, take(n), (struct node_result){0});
    assert_int_equal(take(n), 3);
    assert_false(node_cut_due(n));
    finish(n, 3, (struct node_result){.clocks = 5});
    assert_int_equal(take(n), 4);
    assert_true(node_cut_due(n));
    assert_false(node_cut_due(n));
    finish(n, 4, (struct node_result){.clocks = 1});
    assert_int_equal(take(n), 5);
    assert_false(node_cut_due(n));
    finish(n, 5, (struct node_result){.clocks = 5});
    check_trace(n, "forked 2 b1; [fork 2] [schedule 3] done 3 b1 clocks=5; "
                   "[schedule 4] done 4 b1 clocks=1; [schedule 5] done 5 b1 "
                   "clocks=5; ");
    node_free(n);
}

/* A cut that was due when the slice ended by itself does not hit the next. */
static void node_late_cut_hits_nothing_else(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    finish(n, take(n), (struct node_result){0});
    assert_int_equal(take(n), 3);
    cut(n, 3);
    finish(n, 3, (struct node_result){.clocks = 5});
    assert_int_equal(take(n), 4);
    assert_false(node_cut_due(n));
    mem_free(text_take(&trace));
    node_free(n);
}

/* A stop drops what waits, lets what runs end, and takes in nothing more. */
static void node_stop_drops_what_waits(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    finish(n, take(n), (struct node_result){0});
    assert_int_equal(take(n), 3);
    feed(n, "{'kind':'stop','op':9,'reason':'converged'}");
    assert_int_equal(node_phase(n), NODE_STOPPED);
    fork_branch(n, 10, 5, 0, "training");
    finish(n, 3, (struct node_result){.clocks = 1});
    assert_int_equal(take(n), 0);
    check_trace(n, "forked 2 b1; [fork 2] [schedule 3] done 9; "
                   "done 3 b1 clocks=1; ");
    node_free(n);
}

/* ---- reads while a slice runs -------------------------------------------- */

static void read_row(struct node *n, int op, int branch)
{
    feed(n,
         "{'kind':'rows','op':%d,'branch':%d,'table':'w','first':0,'count':1}",
         op, branch);
}

static void add_row(struct node *n, int op, int branch)
{
    feed(n,
         "{'kind':'rows','op':%d,'branch':%d,'table':'w','first':0,'count':1,"
         "'increment':[[1]]}",
         op, branch);
}

static op_id take_read(struct node *n)
{
    struct node_task task;

    node_take_read(n, &task);
    return task.msg ? task.msg->op : 0;
}

/* A read passes what waits, and is answered while the slice runs; what waits
 * keeps its order. */
static void node_read_passes_what_waits(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    assert_int_equal(take(n), 2);
    finish(n, 2, (struct node_result){0});
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    read_row(n, 5, 1);
    free_branch(n, 6, 1);
    read_row(n, 7, 0);
    assert_int_equal(take_read(n), 0); /* nothing runs yet */
    assert_int_equal(take(n), 3);
    assert_int_equal(take_read(n), 5);
    finish(n, 5, (struct node_result){.data = json_array()});
    assert_int_equal(take_read(n), 7);
    finish(n, 7, (struct node_result){.data = json_array()});
    assert_int_equal(take_read(n), 0);
    finish(n, 3, (struct node_result){.clocks = 5});
    settle(n);
    check_trace(n, "forked 2 b1; [fork 2] [schedule 3] done 5 b1; "
                   "done 7 b0; done 3 b1 clocks=5; "
                   "[schedule 4] done 4 b1; [free 6] done 6 b1; ");
    assert_int_equal(node_waiting(n), 0);
    node_free(n);
}

/* It does not pass what makes its branch, nor what is added to it before; one
 * of a broken branch waits to be refused; and it is carried out in its turn
 * where the slice ended first. */
static void node_read_waits_for_what_it_depends_on(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    fork_branch(n, 4, 2, 1, "training");
    read_row(n, 5, 2);
    add_row(n, 6, 1);
    read_row(n, 7, 1);
    assert_int_equal(take(n), 2);
    finish(n, 2, (struct node_result){0});
    assert_int_equal(take(n), 3);
    assert_int_equal(take_read(n), 0);
    read_row(n, 8, 0);
    assert_int_equal(take_read(n), 8);
    node_leave_read(n, 8);
    finish(n, 3, (struct node_result){.fault.code = ERR_APP, .broken = true});
    schedule(n, 9, 1, 5, 5);
    fork_branch(n, 10, 3, 0, "training");
    schedule(n, 11, 3, 10, 5);
    read_row(n, 12, 1);
    mem_free(text_take(&trace));
    settle(n);
    check_trace(n, "forked 10 b3; [fork 4] failed 5 app b2; failed 6 app b1; "
                   "failed 7 app b1; [rows 8] done 8 b0; failed 9 app b1; "
                   "[fork 10] [schedule 11] done 11 b3; failed 12 app b1; ");
    node_free(n);
}

/* A stop drops a read that is under way. */
static void node_stop_drops_a_read(void **state)
{
    struct node *n = serving(9, 10);

    (void)state;
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    read_row(n, 4, 1);
    assert_int_equal(take(n), 2);
    finish(n, 2, (struct node_result){0});
    assert_int_equal(take(n), 3);
    assert_int_equal(take_read(n), 4);
    feed(n, "{'kind':'stop','op':5,'reason':''}");
    assert_int_equal(take_read(n), 0);
    node_free(n);
    mem_free(text_take(&trace));
}

/* ---- failures while carrying out ----------------------------------------- */

/* A slice that failed breaks its branch and the forks of it: they can be freed,
 * nothing else; their siblings are whole. */
static void node_broken_branch_can_only_be_freed(void **state)
{
    struct node_result broken = {.broken = true};
    struct node *n = serving(9, 10);

    (void)state;
    fault_set(&broken.fault, ERR_APP, "mf: worker 1 failed");
    fork_branch(n, 2, 1, 0, "training");
    fork_branch(n, 3, 2, 0, "training");
    schedule(n, 4, 1, 0, 5);
    schedule(n, 5, 1, 5, 5);
    fork_branch(n, 6, 3, 1, "kept");
    path_request(n, "save", 7, 3);
    path_request(n, "snapshot", 8, 3);
    fork_branch(n, 9, 4, 3, "training");
    schedule(n, 10, 4, 10, 1);
    schedule(n, 11, 2, 11, 1);
    free_branch(n, 12, 1);
    free_branch(n, 13, 3);
    free_branch(n, 14, 4);
    mem_free(text_take(&trace));
    drain(n);
    mem_free(text_take(&trace));
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), broken);
    settle(n);
    check_trace(n, "[fork 2] [fork 3] [schedule 4] failed 4 app b1; "
                   "failed 5 app b1; [fork 6] failed 7 app b3; "
                   "failed 8 app b3; [fork 9] failed 10 app b4; "
                   "[schedule 11] done 11 b2; [free 12] done 12 b1; "
                   "[free 13] done 13 b3; [free 14] done 14 b4; ");
    assert_int_equal(node_branches(n), 2);
    assert_int_equal(node_units(n), 2);
    fork_branch(n, 15, 1, 2, "kept");
    path_request(n, "snapshot", 16, 1);
    check_trace(n, "forked 15 b1; ");
    node_free(n);
}

/* What waits behind a slice that found no memory fails for the same reason: the
 * machine's, which another node may not have. */
static void node_branch_that_memory_broke_says_so(void **state)
{
    struct node_result broken = {.broken = true};
    struct node *n = serving(9, 10);

    (void)state;
    fault_set(&broken.fault, ERR_NOMEM, "out of memory");
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    fork_branch(n, 5, 2, 1, "kept");
    path_request(n, "snapshot", 6, 2);
    mem_free(text_take(&trace));
    drain(n);
    mem_free(text_take(&trace));
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), broken);
    settle(n);
    check_trace(n, "[fork 2] [schedule 3] failed 3 nomem b1; "
                   "failed 4 nomem b1; [fork 5] failed 6 nomem b2; ");
    node_free(n);
}

/* A slice that could not even begin has broken nothing. */
static void node_slice_that_did_not_begin_breaks_nothing(void **state)
{
    struct node_result refused = {0};
    struct node *n = serving(9, 10);

    (void)state;
    fault_set(&refused.fault, ERR_NOMEM, "no memory");
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    schedule(n, 4, 1, 5, 5);
    finish(n, take(n), (struct node_result){0});
    finish(n, take(n), refused);
    settle(n);
    check_trace(n, "forked 2 b1; [fork 2] [schedule 3] failed 3 nomem b1; "
                   "[schedule 4] done 4 b1; ");
    node_free(n);
}

/* A fork or restore that fails after it was granted takes its branch with it:
 * later operations on it fail, freeing it is no error, memory is given back. */
static void node_fork_that_fails_late_leaves_nothing(void **state)
{
    struct node_result failed = {0};
    struct node *n = serving(9, 10);

    (void)state;
    fault_set(&failed.fault, ERR_NOMEM, "no memory");
    fork_branch(n, 2, 1, 0, "training");
    schedule(n, 3, 1, 0, 5);
    fork_branch(n, 4, 2, 1, "kept");
    free_branch(n, 5, 1);
    path_request(n, "restore", 6, 3);
    free_branch(n, 7, 2);
    drain(n);
    finish(n, take(n), failed);
    assert_int_equal(take(n), 6);
    finish(n, 6, failed);
    settle(n);
    check_trace(n, "forked 2 b1; forked 4 b2; [fork 2] failed 2 nomem b1; "
                   "failed 3 noent b1; failed 4 noent b2; done 5 b1; "
                   "[restore 6] failed 6 nomem b3; done 7 b2; ");
    assert_int_equal(node_branches(n), 1);
    assert_int_equal(node_units(n), 1);
    node_free(n);
}

/* Results travel: rows' data, a saved model's bytes. */
static void node_results_travel(void **state)
{
    struct node *n = serving(9, 10);
    struct node_result r = {.data = json_pack("[[i]]", 5)};
    struct msg m;

    (void)state;
    feed(n, "{'kind':'rows','op':2,'branch':0,'table':'w','first':0,"
            "'count':1}");
    assert_int_equal(take(n), 2);
    node_finish(n, 2, &r);
    assert_null(r.data);
    assert_true(node_pop(n, &m));
    assert_int_equal(json_array_size(m.done.data), 1);
    msg_deinit(&m);
    mem_free(text_take(&trace));
    node_free(n);
}

/* Beats are left out where the tuner does not take what it is sent. */
static void node_beats_do_not_pile_up(void **state)
{
    struct node *n = serving(9, 10);
    struct msg_beat beat = {0};
    struct msg m;
    int i;

    (void)state;
    for (i = 0; i < 100; i++)
        node_beat(n, &beat);
    for (i = 0; node_pop(n, &m); i++)
        msg_deinit(&m);
    assert_int_equal(i, NODE_BEATS_WAIT_MAX);
    node_free(n);
}

/* ---- against real stores ------------------------------------------------- */

static int write_rows(struct mlt_worker *w, void *arg)
{
    uint64_t first, count;
    float values[64];

    mlt_owned_rows(arg, 0, mlt_worker_index(w), &first, &count);
    for (int i = 0; i < 64; i++)
        values[i] = 1;
    for (uint64_t r = first; r < first + count; r++)
        mlt_inc_row(w, 0, r, values);
    return mlt_clock(w);
}

static struct mlt_ps *small_ps(unsigned *branches_max)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {
        .size = sizeof(table), .name = "w", .rows = 4000, .width = 64};
    struct mlt_ps *ps;
    mlt_table t;

    opt.workers = 2;
    opt.memory_limit = 20 << 20;
    assert_int_equal(mlt_ps_new(&opt, &ps, NULL), 0);
    assert_int_equal(mlt_ps_table(ps, &table, &t, NULL), 0);
    assert_int_equal(mlt_ps_start(ps, NULL), 0);
    *branches_max = 1;
    while (ps_require_models(ps, *branches_max + 1, NULL) == ERR_OK)
        ++*branches_max;
    return ps;
}

static void carry_out(struct node *n, struct mlt_ps *ps)
{
    struct node_task task;
    struct node_result r = {0};

    for (node_take(n, &task); task.msg; node_take(n, &task)) {
        const struct msg *m = task.msg;

        if (m->kind == MSG_FORK)
            assert_int_equal(
                ps_fork(ps, m->fork.branch, m->fork.parent, m->fork.type),
                ERR_OK);
        else if (m->kind == MSG_FREE)
            assert_int_equal(ps_drop(ps, m->free.branch), ERR_OK);
        else {
            assert_int_equal(ps_activate(ps, m->schedule.branch), ERR_OK);
            assert_int_equal(mlt_ps_run(ps, write_rows, ps), 0);
        }
        node_finish(n, m->op, &r);
    }
}

/* Random forks, frees and slices under a memory limit: whatever the node grants
 * succeeds in the stores, and it grants nearly all that the limit allows. */
static void node_grants_what_the_stores_hold(void **state)
{
    static const char *const types[] = {"training", "probe", "kept", "kept"};
    unsigned branches_max;
    struct mlt_ps *ps = small_ps(&branches_max);
    struct node *n = serving(branches_max, 10);
    int op = 2, clock = 0, refused = 0, most = 0, i;
    struct rng r;

    (void)state;
    assert_true(branches_max > 5);
    rng_init(&r, 8);
    for (i = 0; i < 1500; i++) {
        int a = (int)rng_below(&r, 24), b = (int)rng_below(&r, 24);
        struct msg m;

        switch (rng_below(&r, 5)) {
        case 0:
            free_branch(n, op++, a ? a : 1);
            break;
        case 1:
            schedule(n, op++, a, clock, 1);
            clock++;
            break;
        case 2:
            carry_out(n, ps);
            break;
        default:
            if (a != b)
                fork_branch(n, op++, a, b, types[rng_below(&r, 4)]);
        }
        most = (int)node_units(n) > most ? (int)node_units(n) : most;
        assert_true(node_units(n) <= branches_max);
        while (node_pop(n, &m)) {
            refused += m.kind == MSG_FAILED && m.failed.code == ERR_LIMIT;
            msg_deinit(&m);
        }
    }
    carry_out(n, ps);
    assert_int_equal(most, branches_max);
    assert_true(refused > 20);
    node_free(n);
    mlt_ps_free(ps);
}

/* ---- want of memory ------------------------------------------------------ */

/* Whichever allocation fails, the message in hand is refused whole, and given
 * again it is taken as if nothing had happened. */
static void node_each_allocation_may_fail(void **state)
{
    static const char *const script[] = {
        "{'kind':'config','op':1,'config':{},'folder':'/','seed':1}",
        "{'kind':'fork','op':2,'branch':1,'parent':0,'type':'training',"
        "'setting':{}}",
        "{'kind':'schedule','op':3,'branch':1,'first':0,'count':3,"
        "'report_every':1}",
        "{'kind':'fork','op':4,'branch':2,'parent':1,'type':'kept',"
        "'setting':{}}",
        "{'kind':'stop','op':5,'reason':''}"};
    struct msg_hello hello = {PROTO_VERSION, 0, 2, 77};
    struct progress_window w = {.clocks = 1};
    int64_t before = mem_outstanding();
    int nth, failures = 0;

    (void)state;
    for (nth = 1; nth < 400; nth++) {
        struct node_model model = {.branches_max = 9, .tunables = tunables};
        struct node *n = NULL;
        size_t i;

        mem_fail_at(nth, 0);
        while (node_new(&hello, &n) != ERR_OK)
            failures++;
        for (i = 0; i < 5; i++) {
            enum err err = feed(n, "%s", script[i]);

            if (err) {
                assert_int_equal(err, ERR_NOMEM);
                failures++;
                i--;
                continue;
            }
            if (i == 0) {
                struct node_task task;

                node_take(n, &task);
                assert_non_null(task.msg);
                model.ready.samples = 1;
                while (node_loaded(n, &model) != ERR_OK)
                    failures++;
            }
            if (i == 2) {
                struct node_result ok = {0};
                struct node_task task;

                node_take(n, &task);
                node_finish(n, 2, &ok);
                node_take(n, &task);
                while (node_report(n, &w, 1) != ERR_OK)
                    failures++;
            }
        }
        mem_fail_at(0, 0);
        mem_free(text_take(&trace));
        check_trace(n, "hello; ready 1; forked 2 b1; report 3 b1 first=0 n=1; "
                       "forked 4 b2; done 5; ");
        node_free(n);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(failures > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_setting_is_resolved_at_the_fork),
        cmocka_unit_test(node_operations_keep_their_order),
        cmocka_unit_test(node_one_operation_at_a_time),
        cmocka_unit_test(node_reports_count_clocks),
        cmocka_unit_test(node_impossible_requests_are_refused),
        cmocka_unit_test(node_clock_order_is_kept),
        cmocka_unit_test(node_operation_numbers_grow),
        cmocka_unit_test(node_freed_branch_is_gone),
        cmocka_unit_test(node_serves_only_when_loaded),
        cmocka_unit_test(node_full_queue_refuses),
        cmocka_unit_test(node_memory_is_reserved_on_receipt),
        cmocka_unit_test(node_snapshot_holds_its_state),
        cmocka_unit_test(node_snapshot_of_the_root_costs_one),
        cmocka_unit_test(node_cut_ends_its_slice_only),
        cmocka_unit_test(node_of_many_begins_what_was_cut),
        cmocka_unit_test(node_late_cut_hits_nothing_else),
        cmocka_unit_test(node_stop_drops_what_waits),
        cmocka_unit_test(node_read_passes_what_waits),
        cmocka_unit_test(node_read_waits_for_what_it_depends_on),
        cmocka_unit_test(node_stop_drops_a_read),
        cmocka_unit_test(node_broken_branch_can_only_be_freed),
        cmocka_unit_test(node_branch_that_memory_broke_says_so),
        cmocka_unit_test(node_slice_that_did_not_begin_breaks_nothing),
        cmocka_unit_test(node_fork_that_fails_late_leaves_nothing),
        cmocka_unit_test(node_results_travel),
        cmocka_unit_test(node_beats_do_not_pile_up),
        cmocka_unit_test(node_grants_what_the_stores_hold),
        cmocka_unit_test(node_each_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
