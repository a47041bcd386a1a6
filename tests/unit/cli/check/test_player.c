/* The player: scripts and what a program says go in, messages and verdicts come
 * out. */
#include "cli/check/player.h"

#include "base/mem.h"
#include "cli/check/script.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

/* A player, and the program that it believes to talk to. */
struct stage {
    struct player *player;
    json_t *config;
    double now;
    const struct check_step *step;
    struct trainer_check check[2];
    uint32_t nodes;
    enum proto_cuts cuts;
    uint64_t branch_bytes; /* of ready */
    struct player_act act; /* the last one that was taken */
};

/* ---- both sides -----------------------------------------------------------
 */

/* What is to be done next; its message is borrowed until the next call. */
static struct player_act *next(struct stage *s, enum player_act_kind kind)
{
    if (s->act.kind == ACT_SEND)
        msg_deinit(&s->act.message);
    memset(&s->act, 0, sizeof(s->act));
    if (!player_next(s->player, &s->act))
        fail_msg("nothing is to be done; expected act %d", kind);
    if (s->act.kind != kind)
        fail_msg("act %d (%s), expected %d", s->act.kind,
                 s->act.kind == ACT_SEND ? msg_kind_name(s->act.message.kind)
                                         : "no message",
                 kind);
    return &s->act;
}

static struct msg *asked(struct stage *s, enum msg_kind kind)
{
    struct msg *m = &next(s, ACT_SEND)->message;

    if (m->kind != kind)
        fail_msg("%s, expected %s", msg_kind_name(m->kind),
                 msg_kind_name(kind));
    return m;
}

static void nothing_more(struct stage *s)
{
    if (s->act.kind == ACT_SEND)
        msg_deinit(&s->act.message);
    memset(&s->act, 0, sizeof(s->act));
    assert_false(player_next(s->player, &s->act));
    memset(&s->act, 0, sizeof(s->act));
}

static void say(struct stage *s, struct msg m)
{
    player_take(s->player, &m, true, s->now);
    assert_int_equal(m.kind, MSG_BEAT); /* it was transferred */
}

static void done(struct stage *s, op_id op)
{
    say(s, (struct msg){.kind = MSG_DONE, .op = op});
}

static void ran(struct stage *s, op_id op, uint64_t clocks)
{
    say(s, (struct msg){.kind = MSG_DONE, .op = op, .done.clocks = clocks});
}

static void forked(struct stage *s, op_id op, branch_id branch)
{
    say(s, (struct msg){.kind = MSG_FORKED, .op = op, .forked.branch = branch});
}

static void failed(struct stage *s, op_id op, enum err code)
{
    say(s, (struct msg){.kind = MSG_FAILED, .op = op, .failed.code = code});
}

/* Windows of a clock each with ten samples. */
static void report(struct stage *s, op_id op, branch_id branch, clock_no first,
                   uint32_t n, const double *sum)
{
    struct msg m = {.kind = MSG_REPORT,
                    .op = op,
                    .report = {.branch = branch, .first = first, .windows = n}};

    m.report.window = mem_calloc(n, sizeof(*m.report.window));
    assert_non_null(m.report.window);
    for (uint32_t i = 0; i < n; i++)
        m.report.window[i] = (struct progress_window){
            .sum = sum[i], .samples = 10, .clocks = 1, .seconds = 0.01};
    say(s, m);
}

static void hello(struct stage *s)
{
    for (uint32_t i = 0; i < s->nodes; i++) {
        player_hear(s->player, i, s->now);
        say(s, (struct msg){.kind = MSG_HELLO,
                            .hello = {.version = PROTO_VERSION, .node = i}});
    }
}

static void ready(struct stage *s)
{
    struct msg m = {.kind = MSG_READY,
                    .op = 1,
                    .ready = {.samples = 260,
                              .workers = 1,
                              .cuts = s->cuts,
                              .model_bytes = s->branch_bytes}};

    m.ready.tunables = json_pack("[s,s]", "learning_rate", "batch_size");
    say(s, m);
}

/* The program is started, configured and ready. */
static void load(struct stage *s)
{
    next(s, ACT_START);
    hello(s);
    assert_int_equal(asked(s, MSG_CONFIG)->op, 1);
    ready(s);
}

static void open_nodes(struct stage *s, const struct check_step *step,
                       uint32_t nodes, enum proto_cuts cuts)
{
    static const struct check_step end = {.kind = STEP_END};
    struct player_options o = {.folder = "/here",
                               .work = "/work",
                               .checks = s->check,
                               .checks_len = 2,
                               .nodes = nodes,
                               .step_s = 10};

    memset(s, 0, sizeof(*s));
    s->nodes = nodes;
    s->cuts = cuts;
    s->branch_bytes = 100;
    s->check[0] =
        (struct trainer_check){"first", "of this test", RULE_S1, step};
    s->check[1] = (struct trainer_check){"second", "nothing", RULE_S2, &end};
    o.config = s->config = json_pack("{s:{s:i}}", "memory", "limit", 1000);
    assert_int_equal(player_new(&o, &s->player), ERR_OK);
    s->now = 100;
    player_start(s->player, s->now);
}

static void open_one(struct stage *s, const struct check_step *step)
{
    open_nodes(s, step, 1, CUTS_OWN);
}

static void close_stage(struct stage *s)
{
    if (s->act.kind == ACT_SEND)
        msg_deinit(&s->act.message);
    player_free(s->player);
    json_decref(s->config);
}

/* The first check has come to that; the second has not begun, or passed. */
static const struct check_result *result(struct stage *s,
                                         enum check_outcome outcome)
{
    const struct check_result *r;
    size_t n;

    r = player_results(s->player, &n);
    assert_true(n > 0);
    assert_ptr_equal(r->check, &s->check[0]);
    if (r->outcome != outcome)
        fail_msg("outcome %d: rule %s, expected %s, came %s", r->outcome,
                 rule_label(r->rule), r->expected, r->came);
    return r;
}

/* It has failed by @rule with @word in what came; the program is killed, and
 * another is started for the next check. */
static void fails(struct stage *s, enum rule rule, const char *word)
{
    const struct check_result *r = result(s, OUTCOME_FAILED);

    if (r->rule != rule || !strstr(r->came, word))
        fail_msg("rule %s, came %s; expected %s, %s", rule_label(r->rule),
                 r->came, rule_label(rule), word);
    assert_true(r->expected[0]);
    assert_false(player_passed(s->player));
    next(s, ACT_KILL);
    next(s, r->fatal ? ACT_OVER : ACT_START);
    nothing_more(s);
    close_stage(s);
}

static void passes(struct stage *s)
{
    result(s, OUTCOME_PASSED);
    assert_true(player_passed(s->player));
    close_stage(s);
}

/* ---- scripts --------------------------------------------------------------
 */

#define FORK_1                                                                 \
    {                                                                          \
        .kind = STEP_FORK, .slot = 1, .type = BRANCH_TRAINING                  \
    }
#define FORK_2                                                                 \
    {                                                                          \
        .kind = STEP_FORK, .slot = 2, .type = BRANCH_TRAINING                  \
    }
#define RUN_3                                                                  \
    {                                                                          \
        .kind = STEP_RUN, .slot = 1, .count = 3                                \
    }
#define END                                                                    \
    {                                                                          \
        .kind = STEP_END                                                       \
    }

static const struct check_step run_three[] = {FORK_1, RUN_3, END};
static const double three[] = {3, 2, 1};

/* Fork and slice are asked for, op 2 and 3 of branch 1. */
static void run_begins(struct stage *s)
{
    load(s);
    assert_int_equal(asked(s, MSG_FORK)->fork.branch, 1);
    assert_int_equal(asked(s, MSG_SCHEDULE)->op, 3);
    forked(s, 2, 1);
}

/* ---- a program that keeps the rules ---------------------------------------
 */

/* A script becomes messages in its order, with settings by the program's
 * tunables; its branches are freed, and all checks end with the program. */
static void script_in_messages_out(void **state)
{
    struct stage s;
    struct msg *m;

    (void)state;
    open_one(&s, run_three);
    load(&s);
    m = asked(&s, MSG_FORK);
    assert_int_equal(m->op, 2);
    assert_int_equal(m->fork.branch, 1);
    assert_int_equal(m->fork.parent, 0);
    assert_int_equal(m->fork.type, BRANCH_TRAINING);
    assert_int_equal(
        json_integer_value(json_object_get(m->fork.setting, "batch_size")), 10);
    m = asked(&s, MSG_SCHEDULE);
    assert_int_equal(m->schedule.count, 3);
    assert_int_equal(m->schedule.first, 0);
    assert_int_equal(m->schedule.report_every, 1);
    nothing_more(&s);
    forked(&s, 2, 1);
    report(&s, 3, 1, 0, 3, three);
    nothing_more(&s);
    ran(&s, 3, 3);
    assert_int_equal(asked(&s, MSG_FREE)->free.branch, 1);
    done(&s, 4);
    next(&s, ACT_KILL);
    next(&s, ACT_OVER);
    passes(&s);
}

/* A slice is not longer than what is left of the epoch; the rest follows. */
static void slices_end_with_the_epoch(void **state)
{
    static const struct check_step steps[] = {
        FORK_1, {.kind = STEP_EPOCH, .slot = 1}, RUN_3, END};
    struct stage s;
    double sum[26] = {0};

    (void)state;
    open_one(&s, steps);
    load(&s);
    asked(&s, MSG_FORK);
    assert_int_equal(asked(&s, MSG_SCHEDULE)->schedule.count, 26);
    forked(&s, 2, 1);
    report(&s, 3, 1, 0, 26, sum);
    ran(&s, 3, 26);
    assert_int_equal(asked(&s, MSG_SCHEDULE)->schedule.first, 26);
    report(&s, 4, 1, 26, 3, three);
    ran(&s, 4, 3);
    asked(&s, MSG_FREE);
    done(&s, 5);
    passes(&s);
}

/* ---- answers and windows that break a rule --------------------------------
 */

/* What is said after run_begins, by its rule. */
static void wrong_answers_are_told_by_rule(void **state)
{
    static const struct {
        enum msg_kind kind;
        op_id op;
        clock_no first;
        uint64_t clocks;
        uint32_t windows;
        branch_id branch;
        enum rule rule;
        const char *word;
    } rows[] = {
        {MSG_FORKED, 2, 0, 0, 0, 1, RULE_C2, "answered or never asked"},
        {MSG_FORKED, 3, 0, 0, 0, 1, RULE_C2, "as the answer to schedule"},
        {MSG_DONE, 9, 0, 0, 0, 1, RULE_C2, "op 9"},
        {MSG_FAILED, 3, 0, 0, 0, 1, RULE_S1, "schedule op 3"},
        {MSG_READY, 1, 0, 0, 0, 1, RULE_C1, "another time"},
        {MSG_HELLO, 0, 0, 0, 0, 1, RULE_C1, "another one"},
        {MSG_STOP, 4, 0, 0, 0, 1, RULE_W1, "stop"},
        {MSG_REPORT, 3, 1, 0, 1, 1, RULE_L1, "first 1"},
        {MSG_REPORT, 3, 0, 0, 1, 2, RULE_L1, "branch 2"},
        {MSG_REPORT, 3, 0, 0, 4, 1, RULE_L1, "0 of 3 were left"},
        {MSG_REPORT, 2, 0, 0, 1, 1, RULE_L1, "no slice that waits"},
        {MSG_DONE, 3, 0, 3, 0, 1, RULE_L4, "3 clocks in done, 0"},
        {MSG_DONE, 3, 0, 0, 0, 1, RULE_C6, "0 of 3"},
    };
    static const double sum[4] = {4, 3, 2, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct stage s;

        open_one(&s, run_three);
        run_begins(&s);
        if (rows[i].kind == MSG_REPORT)
            report(&s, rows[i].op, rows[i].branch, rows[i].first,
                   rows[i].windows, sum);
        else if (rows[i].kind == MSG_FORKED)
            forked(&s, rows[i].op, rows[i].branch);
        else if (rows[i].kind == MSG_DONE)
            ran(&s, rows[i].op, rows[i].clocks);
        else if (rows[i].kind == MSG_FAILED)
            failed(&s, rows[i].op, ERR_IO);
        else
            say(&s, (struct msg){.kind = rows[i].kind, .op = rows[i].op});
        fails(&s, rows[i].rule, rows[i].word);
    }
}

/* The other branch, and samples that are not the batch size. */
static void wrong_numbers_are_told(void **state)
{
    struct stage s;
    struct msg m = {
        .kind = MSG_REPORT, .op = 3, .report = {.branch = 1, .windows = 1}};

    (void)state;
    open_one(&s, run_three);
    load(&s);
    forked(&s, 2, 5);
    result(&s, OUTCOME_FAILED);
    assert_int_equal(result(&s, OUTCOME_FAILED)->rule, RULE_C2);
    close_stage(&s);
    open_one(&s, run_three);
    run_begins(&s);
    m.report.window = mem_calloc(1, sizeof(*m.report.window));
    m.report.window[0] =
        (struct progress_window){.sum = 1, .samples = 9, .clocks = 1};
    say(&s, m);
    fails(&s, RULE_L5, "9 samples in 1 clocks of 10");
}

/* A refusal has its code; what is granted instead is told by its rule. */
static void refusals_have_their_codes(void **state)
{
    static const struct check_step steps[] = {
        FORK_1,
        {.kind = STEP_REFUSED, .from = 1, .refusal = REFUSAL_FORK_RATE},
        END};
    struct stage s;

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct msg *m;

        open_one(&s, steps);
        load(&s);
        asked(&s, MSG_FORK);
        m = asked(&s, MSG_FORK);
        assert_true(json_number_value(
                        json_object_get(m->fork.setting, "learning_rate")) < 0);
        forked(&s, 2, 1);
        if (i == 0) {
            failed(&s, 3, ERR_INVAL);
            asked(&s, MSG_FREE);
            done(&s, 4);
            passes(&s);
        } else if (i == 1) {
            failed(&s, 3, ERR_IO);
            fails(&s, RULE_S7, "io, not inval");
        } else {
            forked(&s, 3, m->fork.branch);
            fails(&s, RULE_S7, "granted: a fork with a learning rate below 0");
        }
    }
}

/* ---- comparing ------------------------------------------------------------
 */

/* Two branches that are to be the same, and are, or are not in the last bit. */
static void series_are_compared(void **state)
{
    static const struct check_step steps[] = {
        FORK_1,
        RUN_3,
        FORK_2,
        {.kind = STEP_RUN, .slot = 2, .count = 3, .series = 1},
        {.kind = STEP_SAME, .series = 0, .from = 1, .rule = RULE_S3},
        END};
    struct stage s;

    (void)state;
    for (int i = 0; i < 2; i++) {
        double other[] = {3, 2, i ? nextafter(1, 2) : 1};

        open_one(&s, steps);
        run_begins(&s);
        report(&s, 3, 1, 0, 3, three);
        ran(&s, 3, 3);
        asked(&s, MSG_FORK);
        asked(&s, MSG_SCHEDULE);
        forked(&s, 4, 2);
        report(&s, 5, 2, 3, 3, other);
        ran(&s, 5, 3);
        if (i) {
            fails(&s, RULE_S3, "clock 3 of 3");
        } else {
            asked(&s, MSG_FREE);
            asked(&s, MSG_FREE);
            done(&s, 6);
            done(&s, 7);
            passes(&s);
        }
    }
}

/* ---- sums that are not finite ---------------------------------------------
 */

static const double wild[] = {1, INFINITY, NAN};

/* A process alone ends its slice there (C7). */
static void one_process_ends_at_a_wild_sum(void **state)
{
    struct stage s;

    (void)state;
    open_one(&s, run_three);
    run_begins(&s);
    report(&s, 3, 1, 0, 2, wild);
    ran(&s, 3, 2);
    asked(&s, MSG_FREE);
    done(&s, 4);
    passes(&s);
    open_one(&s, run_three);
    run_begins(&s);
    report(&s, 3, 1, 0, 3, wild);
    fails(&s, RULE_C7, "another window");
}

/* Several that agree go on (M3), and are cut, once. */
static void several_processes_go_on_until_they_are_cut(void **state)
{
    struct stage s;

    (void)state;
    open_nodes(&s, run_three, 2, CUTS_AGREED);
    run_begins(&s);
    report(&s, 3, 1, 0, 2, wild);
    assert_int_equal(asked(&s, MSG_CUT)->cut.target, 3);
    report(&s, 3, 1, 2, 1, wild + 2);
    nothing_more(&s);
    done(&s, 4);
    ran(&s, 3, 3);
    asked(&s, MSG_FREE);
    done(&s, 5);
    passes(&s);
    /* By the last window nothing is left to be cut. */
    open_nodes(&s, run_three, 2, CUTS_AGREED);
    run_begins(&s);
    report(&s, 3, 1, 0, 2, three);
    report(&s, 3, 1, 2, 1, wild + 2);
    nothing_more(&s);
    close_stage(&s);
    /* Two that do not agree: as one. */
    open_nodes(&s, run_three, 2, CUTS_OWN);
    run_begins(&s);
    report(&s, 3, 1, 0, 3, wild);
    fails(&s, RULE_C7, "another window");
}

/* A cut that has left is no licence: the script's own end is looked at. */
static void agreeing_processes_do_not_end_by_themselves(void **state)
{
    struct stage s;
    struct msg m = {
        .kind = MSG_REPORT, .op = 3, .report = {.branch = 1, .windows = 1}};

    (void)state;
    open_nodes(&s, run_three, 2, CUTS_AGREED);
    run_begins(&s);
    m.report.window = mem_calloc(1, sizeof(*m.report.window));
    m.report.window[0] =
        (struct progress_window){.sum = NAN, .samples = 10, .clocks = 1};
    say(&s, m);
    asked(&s, MSG_CUT);
    /* In order of arrival: ended before the cut was answered. */
    ran(&s, 3, 1);
    fails(&s, RULE_M3, "after 1 of 3");
}

/* ---- branches that broke, memory ------------------------------------------
 */

static void broken_branches_refuse_everything(void **state)
{
    static const struct check_step steps[] = {
        FORK_1,
        {.kind = STEP_QUEUE, .slot = 1, .count = 3, .may_fail = true},
        {.kind = STEP_WAIT},
        {.kind = STEP_NEED, .need = NEED_BROKEN, .slot = 1},
        {.kind = STEP_REFUSED, .from = 1, .refusal = REFUSAL_RUN_BROKEN},
        END};
    struct stage s;

    (void)state;
    for (int i = 0; i < 3; i++) {
        open_one(&s, steps);
        run_begins(&s);
        report(&s, 3, 1, 0, 3, three);
        if (i == 0) { /* a slice that does not fail says nothing */
            ran(&s, 3, 3);
            asked(&s, MSG_FREE);
            done(&s, 4);
            assert_string_equal(result(&s, OUTCOME_NOT_APPLICABLE)->came,
                                "no slice of it failed");
            close_stage(&s);
            continue;
        }
        failed(&s, 3, ERR_APP);
        assert_int_equal(asked(&s, MSG_SCHEDULE)->schedule.branch, 1);
        if (i == 1) {
            failed(&s, 4, ERR_IO); /* whatever the code */
            asked(&s, MSG_FREE);
            done(&s, 5);
            passes(&s);
        } else {
            ran(&s, 4, 1);
            fails(&s, RULE_C8, "granted: a slice of a broken branch");
        }
    }
}

static const struct check_step fill[] = {{.kind = STEP_FILL},
                                         {.kind = STEP_EMPTY, .count = 1},
                                         FORK_1,
                                         {.kind = STEP_EMPTY},
                                         END};

/* So many forks wait at a time, here of branch 0; the first of them is @b. */
static void forks_wait(struct stage *s, branch_id b, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(asked(s, MSG_FORK)->fork.branch, b + (branch_id)i);
    nothing_more(s);
}

/* Forks until they are refused; those that were granted are freed from the
 * last. */
static void memory_is_filled_and_emptied(void **state)
{
    struct stage s;

    (void)state;
    open_one(&s, fill);
    load(&s);
    forks_wait(&s, 1, 16); /* op 2 to 17 */
    for (branch_id b = 1; b <= 3; b++) {
        forked(&s, b + 1, b);
        forks_wait(&s, b + 16, 1); /* to op 20 */
    }
    for (op_id op = 5; op < 20; op++) {
        failed(&s, op, ERR_LIMIT);
        nothing_more(&s);
    }
    failed(&s, 20, ERR_LIMIT);
    assert_int_equal(asked(&s, MSG_FREE)->free.branch, 3);
    nothing_more(&s);
    done(&s, 21);
    assert_int_equal(asked(&s, MSG_FORK)->fork.branch, 20);
    assert_int_equal(asked(&s, MSG_FREE)->free.branch, 2);
    assert_int_equal(asked(&s, MSG_FREE)->free.branch, 1);
    forked(&s, 22, 20);
    done(&s, 23);
    done(&s, 24);
    assert_int_equal(asked(&s, MSG_FREE)->free.branch, 20);
    done(&s, 25);
    passes(&s);
}

static void wrong_words_about_memory_are_told(void **state)
{
    struct stage s;

    (void)state;
    open_one(&s, fill);
    load(&s);
    forks_wait(&s, 1, 16);
    failed(&s, 2, ERR_NOMEM);
    fails(&s, RULE_C9, "code nomem");
    open_one(&s, fill);
    load(&s);
    forks_wait(&s, 1, 16);
    failed(&s, 2, ERR_LIMIT);
    fails(&s, RULE_C9, "after 0 more");
    open_one(&s, fill);
    load(&s);
    forks_wait(&s, 1, 16);
    forked(&s, 2, 1);
    forked(&s, 3, 2);
    failed(&s, 4, ERR_LIMIT);
    forked(&s, 5, 4);
    fails(&s, RULE_C9, "op 5 was granted");
    /* Ten branches of 100 bytes are 1,000, an eleventh is not. */
    open_one(&s, fill);
    load(&s);
    for (branch_id b = 1; b <= 11; b++)
        forked(&s, b + 1, b);
    fails(&s, RULE_C9, "11 branches of 100 bytes");
}

/* ---- how programs end -----------------------------------------------------
 */

/* Each way to end it, an exit code, and what is said of it. */
static void ends_have_their_codes(void **state)
{
    static const struct {
        enum step_kind kind;
        int number, code;
        enum rule rule; /* of a failure; */
        bool good;
    } rows[] = {
        {STEP_STOP, 0, 0, RULE_E1, true},
        {STEP_STOP, 0, 3, RULE_E1, false},
        {STEP_LOSE, 0, 69, RULE_E2, true},
        {STEP_LOSE, 0, 0, RULE_E2, false},
        {STEP_SIGNAL, SIGTERM, 128 + SIGTERM, RULE_E4, true},
        {STEP_SIGNAL, SIGHUP, -SIGHUP, RULE_E4, true},
        {STEP_SIGNAL, SIGHUP, -SIGKILL, RULE_E4, false},
        {STEP_SIGNAL, SIGINT, 0, RULE_E4, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct check_step steps[] = {
            {.kind = rows[i].kind, .count = rows[i].number}, END};
        struct stage s;

        open_one(&s, steps);
        load(&s);
        if (rows[i].kind == STEP_STOP)
            asked(&s, MSG_STOP);
        else if (rows[i].kind == STEP_LOSE)
            next(&s, ACT_CLOSE);
        else
            assert_int_equal(next(&s, ACT_SIGNAL)->number, rows[i].number);
        player_ended(s.player, rows[i].code, "ended so", s.now + 1);
        if (rows[i].good)
            passes(&s);
        else
            fails(&s, rows[i].rule, "ended so, after 1.0 s");
        /* And one that does not end. */
        open_one(&s, steps);
        load(&s);
        if (rows[i].kind == STEP_STOP)
            asked(&s, MSG_STOP);
        else
            next(&s, rows[i].kind == STEP_LOSE ? ACT_CLOSE : ACT_SIGNAL);
        s.now = player_wake_at(s.player);
        player_tick(s.player, s.now);
        fails(&s, rows[i].rule, "it still runs");
    }
}

/* A process that gets a memory.limit of one byte. */
static void unload(struct stage *s)
{
    static const struct check_step steps[] = {{.kind = STEP_UNLOADED}, END};
    const json_t *config;

    open_one(s, steps);
    next(s, ACT_START);
    hello(s);
    config = asked(s, MSG_CONFIG)->config.config;
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(config, "memory"), "limit")),
                     1);
}

static void what_cannot_be_loaded_says_so_and_ends(void **state)
{
    struct stage s;

    (void)state;
    unload(&s);
    failed(&s, 1, ERR_LIMIT);
    nothing_more(&s);
    player_ended(s.player, 1, "ended with exit code 1", s.now);
    next(&s, ACT_START); /* for the second check, with the usual limit */
    hello(&s);
    assert_int_equal(
        json_integer_value(json_object_get(
            json_object_get(asked(&s, MSG_CONFIG)->config.config, "memory"),
            "limit")),
        1000);
    passes(&s);
    unload(&s);
    ready(&s);
    fails(&s, RULE_E3, "ready, with");
    unload(&s);
    failed(&s, 1, ERR_IO);
    fails(&s, RULE_E3, "io");
    unload(&s);
    failed(&s, 1, ERR_LIMIT);
    player_ended(s.player, 0, "ended with exit code 0", s.now);
    fails(&s, RULE_E3, "exit code 0");
}

/* ---- silence and deadlines ------------------------------------------------
 */

static void silence_is_told(void **state)
{
    struct stage s;

    (void)state;
    open_one(&s, run_three);
    next(&s, ACT_START);
    player_tick(s.player, s.now + 59);
    nothing_more(&s);
    player_tick(s.player, s.now + 61);
    fails(&s, RULE_C1, "nothing for 61 s");
    open_one(&s, run_three);
    run_begins(&s);
    player_tick(s.player, s.now + 3);
    nothing_more(&s);
    player_tick(s.player, s.now + 4);
    fails(&s, RULE_W5, "process 0 for 4.0 s");
    open_one(&s, run_three);
    run_begins(&s);
    for (int i = 1; i <= 10; i++) /* beats, but no answer */
        player_hear(s.player, 0, s.now + i);
    player_tick(s.player, s.now + 10);
    fails(&s, RULE_S1, "no answer to schedule op 3");
}

/* Nothing else can be checked of a program that is never ready. */
static void a_program_that_cannot_load_is_the_end(void **state)
{
    struct stage s;

    (void)state;
    open_one(&s, run_three);
    next(&s, ACT_START);
    hello(&s);
    asked(&s, MSG_CONFIG);
    failed(&s, 1, ERR_FORMAT);
    assert_true(result(&s, OUTCOME_FAILED)->fatal);
    fails(&s, RULE_C1, "format");
}

/* ---- memory of our own ----------------------------------------------------
 */

static void player_new_survives_each_failing_allocation(void **state)
{
    json_t *config = json_object();
    struct player_options o = {
        .config = config, .folder = "/", .work = "/", .nodes = 2};
    struct player *p = NULL;
    int64_t before = mem_outstanding();
    int n = 0;

    (void)state;
    do {
        mem_fail_at(++n, 0);
    } while (player_new(&o, &p) == ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_true(n > 2);
    assert_non_null(p);
    player_free(p);
    assert_int_equal(mem_outstanding(), before);
    player_free(NULL);
    json_decref(config);
}

/* Those that are named are made, or all but those. */
static void checks_are_chosen_by_name(void **state)
{
    static const struct {
        const char *only, *skip, *unknown;
        size_t len;
    } cases[] = {
        {NULL, NULL, NULL, 0},
        {"forks", "beats,loss", NULL, 0},
        {"dance", NULL, "dance", 5},
        {"forks,dance,loss", NULL, "dance,loss", 5},
        {"fork", NULL, "fork", 4},
        {NULL, "beats,", "", 0},
        {NULL, "", "", 0},
    };
    json_t *config = json_object();
    struct player_options o = {
        .config = config, .folder = "/", .work = "/", .nodes = 1};
    struct player *p;
    size_t len;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        o.only = cases[i].only;
        o.skip = cases[i].skip;
        if (!cases[i].unknown) {
            assert_null(player_unknown(&o, &len));
            assert_int_equal(player_new(&o, &p), ERR_OK);
            player_free(p);
            continue;
        }
        assert_string_equal(player_unknown(&o, &len), cases[i].unknown);
        assert_int_equal(len, cases[i].len);
        assert_int_equal(player_new(&o, &p), ERR_NOENT);
    }
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_are_chosen_by_name),
        cmocka_unit_test(script_in_messages_out),
        cmocka_unit_test(slices_end_with_the_epoch),
        cmocka_unit_test(wrong_answers_are_told_by_rule),
        cmocka_unit_test(wrong_numbers_are_told),
        cmocka_unit_test(refusals_have_their_codes),
        cmocka_unit_test(series_are_compared),
        cmocka_unit_test(one_process_ends_at_a_wild_sum),
        cmocka_unit_test(several_processes_go_on_until_they_are_cut),
        cmocka_unit_test(agreeing_processes_do_not_end_by_themselves),
        cmocka_unit_test(broken_branches_refuse_everything),
        cmocka_unit_test(memory_is_filled_and_emptied),
        cmocka_unit_test(wrong_words_about_memory_are_told),
        cmocka_unit_test(ends_have_their_codes),
        cmocka_unit_test(what_cannot_be_loaded_says_so_and_ends),
        cmocka_unit_test(silence_is_told),
        cmocka_unit_test(a_program_that_cannot_load_is_the_end),
        cmocka_unit_test(player_new_survives_each_failing_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
