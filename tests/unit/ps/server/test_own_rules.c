/* Update rules of users' own: applied as built-in ones are, whatever reads and
 * writes the table; what they remember goes with the branch. */
#include "mltune/device.h"
#include "mltune/rule.h"
#include "ps/disk/reopen_io.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"
#include "tests/unit/fixture/scratch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, CLOCKS = 7 };

/* ---- rules --------------------------------------------------------------- */

/* "add" by other words; the slot has what came so far, the tail how often. */
static void sum_apply(const struct mlt_rule_batch *b, void *arg)
{
    _Atomic uint64_t *rows = arg;

    assert_int_equal(b->size, sizeof(*b));
    assert_int_equal(b->slots, 1);
    assert_int_equal(b->tail, 1);
    assert_true(b->learning_rate == 0.1f && b->momentum == 0.5f);
    for (size_t i = 0; i < b->rows; i++) {
        float *w = b->row[i], *so_far = w + b->width, *n = so_far + b->width;

        for (uint32_t j = 0; j < b->width; j++) {
            w[j] += b->sum[i][j];
            so_far[j] += b->sum[i][j];
            assert_true(w[j] == so_far[j]);
        }
        n[0] += 1;
    }
    if (rows)
        atomic_fetch_add(rows, b->rows);
}

static const struct mlt_rule_ops sum = {.version = MLT_RULE_VERSION,
                                        .name = "sum",
                                        .summary = "adds, and remembers it",
                                        .slots = 1,
                                        .tail = 1,
                                        .apply = sum_apply};

/* A step of the learning rate against the update's sign. */
static void sign_apply(const struct mlt_rule_batch *b, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < b->rows; i++)
        for (uint32_t j = 0; j < b->width; j++)
            b->row[i][j] -= b->learning_rate *
                            (float)((b->sum[i][j] > 0) - (b->sum[i][j] < 0));
}

static const struct mlt_rule_ops sign = {.version = MLT_RULE_VERSION,
                                         .name = "sign",
                                         .summary = "steps of one size",
                                         .uses = MLT_RULE_LEARNING_RATE,
                                         .apply = sign_apply};

static struct mlt_ps *server(unsigned workers, const char *model, void *arg)
{
    struct mlt_ps *ps = fixture_ps(workers, model, "add");
    struct mlt_error e;

    if (mlt_ps_add_rule(ps, &sum, arg, &e) ||
        mlt_ps_add_rule(ps, &sign, NULL, &e))
        fail_msg("%s", e.text);
    return ps;
}

static mlt_table table(struct mlt_ps *ps, const char *name,
                       enum mlt_access access, const char *rule)
{
    struct mlt_table_options o = {.size = sizeof(o),
                                  .name = name,
                                  .rows = FIXTURE_ROWS,
                                  .width = FIXTURE_WIDTH,
                                  .access = access,
                                  .rule = rule,
                                  .chunk_bytes = 1024};
    struct mlt_error e;
    mlt_table t = 0;

    if (mlt_ps_table(ps, &o, &t, &e))
        fail_msg("%s", e.text);
    return t;
}

/* ---- what they do -------------------------------------------------------- */

/* The tables in the order of their declaration: by a user's rule and by the
 * built-in one, shared and exclusive. Updates are whole numbers, so that no
 * order of adding matters. */
enum { OURS, THEIRS, OUR_OWN, THEIR_OWN, TABLES };

static float update_of(uint64_t clock, uint64_t row, uint32_t j)
{
    return (float)((int)((clock * 31 + row * 7 + j) % 17) - 8);
}

static int work(struct mlt_worker *w, void *arg)
{
    float g[FIXTURE_WIDTH];
    int err = 0;

    for (uint64_t c = 0; c < CLOCKS && !err; c++) {
        for (uint64_t r = c % 3; r < FIXTURE_ROWS; r += 3) {
            for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
                g[j] = update_of(c, r, j);
            mlt_inc_row(w, OURS, r, g);
            mlt_inc_row(w, THEIRS, r, g);
        }
        for (mlt_table t = OUR_OWN; t <= THEIR_OWN; t++) {
            uint64_t first, count;

            mlt_owned_rows(arg, t, mlt_worker_index(w), &first, &count);
            for (uint64_t r = first; r < first + count; r++) {
                for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
                    g[j] = update_of(c, r, j);
                mlt_inc_row(w, t, r, g);
            }
        }
        err = mlt_clock(w);
    }
    return err;
}

static void expect_equal_tables(struct mlt_ps *ps, branch_id id)
{
    for (uint64_t r = 0; r < FIXTURE_ROWS; r++)
        for (uint32_t j = 0; j < FIXTURE_WIDTH; j++) {
            assert_true(fixture_value(ps, id, "ours", r, j) ==
                        fixture_value(ps, id, "theirs", r, j));
            assert_true(fixture_value(ps, id, "our_own", r, j) ==
                        fixture_value(ps, id, "their_own", r, j));
        }
}

static void expect_as_add(unsigned workers, const char *model)
{
    _Atomic uint64_t rows = 0;
    struct mlt_ps *ps = server(workers, model, (void *)&rows);
    bool moved = false;

    assert_int_equal(table(ps, "ours", MLT_SHARED, "sum"), OURS);
    table(ps, "theirs", MLT_SHARED, "add");
    table(ps, "our_own", MLT_EXCLUSIVE, "sum");
    table(ps, "their_own", MLT_EXCLUSIVE, "add");
    assert_int_equal(ps_tables(ps), TABLES);
    fixture_start(ps);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(ps, 1), ERR_OK);
    fixture_run(ps, work, ps, 0);
    /* The slots are forked with the rows, and go on there. */
    assert_int_equal(ps_fork(ps, 2, 1, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(ps, 2), ERR_OK);
    fixture_run(ps, work, ps, 0);
    expect_equal_tables(ps, 1);
    expect_equal_tables(ps, 2);
    for (uint64_t r = 0; r < FIXTURE_ROWS; r++)
        moved |= fixture_value(ps, 1, "ours", r, 0) !=
                 fixture_value(ps, 2, "ours", r, 0);
    assert_true(moved);
    assert_true(atomic_load(&rows) >= (uint64_t)2 * CLOCKS * FIXTURE_ROWS);
    mlt_ps_free(ps);
}

/* A user's rule that adds is "add": under each model, in shared and exclusive
 * tables, on one worker and on several. */
static void rules_act_as_built_in_ones_do(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async",
                                         "barrier"};

    (void)state;
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        expect_as_add(1, models[i]);
        expect_as_add(WORKERS, models[i]);
    }
}

/* It is the rule of f32 tables that name none, and the table says what it acts
 * on; tables of other types keep "add". */
static void rules_default_rule_is_that_of_tables_without_one(void **state)
{
    struct mlt_ps *ps = server(1, "bsp", NULL);
    struct mlt_error e = {0};
    mlt_table t;

    (void)state;
    assert_int_equal(mlt_ps_default_rule(ps, "sine", &e), ERR_INVAL);
    assert_non_null(strstr(e.text, "unknown update rule \"sine\""));
    assert_int_equal(mlt_ps_default_rule(ps, "sign", &e), 0);
    t = fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    assert_string_equal(ps_table_info(ps, t).rule, "sign");
    assert_true(ps_table_info(ps, t).uses_learning_rate);
    assert_false(ps_table_info(ps, t).uses_momentum);
    t = fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
    assert_string_equal(ps_table_info(ps, t).rule, "add");
    assert_int_equal(mlt_ps_default_rule(ps, "adam", &e), 0);
    t = fixture_table(ps, "others", MLT_F32, MLT_SHARED, 0);
    assert_string_equal(ps_table_info(ps, t).rule, "adam");
    mlt_ps_free(ps);
}

/* ---- a stored state ------------------------------------------------------ */

static int add_one(struct mlt_worker *w, void *arg)
{
    float g[FIXTURE_WIDTH];

    (void)arg;
    for (uint64_t r = 0; r < FIXTURE_ROWS; r++) {
        for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
            g[j] = update_of(1, r, j);
        mlt_inc_row(w, OURS, r, g);
    }
    return mlt_clock(w);
}

/* Who has no more than the folder reads the rows, of which nothing says what
 * the rule was but its name; two tables that remember different numbers. */
static void rules_stored_state_is_read_without_the_rule(void **state)
{
    struct mlt_ps *ps = server(1, "bsp", NULL), *again = NULL;
    struct fault f = {0};
    struct mlt_error e;

    (void)state;
    table(ps, "ours", MLT_SHARED, "sum");
    table(ps, "theirs", MLT_SHARED, "sign");
    table(ps, "last", MLT_SHARED, "adagrad");
    fixture_start(ps);
    fixture_run(ps, add_one, NULL, 0);
    if (mlt_ps_checkpoint(ps, scratch_path("state"), &e) ||
        mlt_ps_checkpoint_end(ps, &e))
        fail_msg("%s", e.text);
    if (ps_reopen(scratch_path("state"), 1, 64 << 20, &again, &f))
        fail_msg("%s", f.text);
    assert_string_equal(ps_table_info(again, 0).rule, "sum");
    assert_string_equal(ps_table_info(again, 1).rule, "sign");
    assert_string_equal(ps_table_info(again, 2).rule, "adagrad");
    for (uint64_t r = 0; r < FIXTURE_ROWS; r++)
        assert_true(fixture_value(again, 1, "ours", r, 3) ==
                    (double)update_of(1, r, 3));
    mlt_ps_free(again);
    mlt_ps_free(ps);
}

/* Bytes of a row that no rule leaves are refused, in words; as many tables as
 * there may be have rules that are not there. */
static void rules_stored_table_of_no_size_is_refused(void **state)
{
    struct mlt_table_options o = {.size = sizeof(o),
                                  .name = "odd",
                                  .rows = 3,
                                  .width = 4,
                                  .rule = "gone"};
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    char name[16];
    struct fault f = {0};

    (void)state;
    assert_int_equal(ps_table_stored(ps, &o, 12, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "table odd: 12 bytes a row"));
    assert_int_equal(ps_table_stored(ps, &o, 17, &f), ERR_FORMAT);
    for (unsigned i = 0; i < STORE_TABLES_MAX; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        o.name = name;
        assert_int_equal(ps_table_stored(ps, &o, 16 + 4 * i, &f), ERR_OK);
        assert_string_equal(ps_table_info(ps, i).rule, "gone");
    }
    o.name = "more";
    assert_int_equal(ps_table_stored(ps, &o, 16, &f), ERR_INVAL);
    mlt_ps_free(ps);
}

/* ---- refusals ------------------------------------------------------------ */

static void expect_refused(struct mlt_ps *ps, const struct mlt_rule_ops *ops,
                           int code, const char *word)
{
    struct mlt_error e = {0};

    assert_int_equal(mlt_ps_add_rule(ps, ops, NULL, &e), code);
    if (!strstr(e.text, word))
        fail_msg("\"%s\" has no \"%s\"", e.text, word);
}

static void rules_what_is_no_rule_is_refused(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    struct mlt_rule_ops ops = sign;

    (void)state;
    ops.version = MLT_RULE_VERSION + 1;
    expect_refused(ps, &ops, ERR_VERSION, "version 2 of mltune/rule.h");
    ops = sign;
    ops.name = "By Sign";
    expect_refused(ps, &ops, ERR_INVAL, "expected a name");
    ops.name = "sgd";
    expect_refused(ps, &ops, ERR_INVAL, "built-in");
    ops = sign;
    ops.summary = NULL;
    expect_refused(ps, &ops, ERR_INVAL, ".summary");
    ops = sign;
    ops.apply = NULL;
    expect_refused(ps, &ops, ERR_INVAL, ".apply");
    ops = sign;
    ops.slots = MLT_RULE_SLOTS_MAX + 1;
    expect_refused(ps, &ops, ERR_INVAL, "at most 8 slots");
    ops = sign;
    ops.tail = MLT_RULE_TAIL_MAX + 1;
    expect_refused(ps, &ops, ERR_INVAL, "tail of 1024");
    ops = sign;
    ops.uses = 4;
    expect_refused(ps, &ops, ERR_INVAL, "settings");
    assert_int_equal(mlt_ps_add_rule(ps, &sign, NULL, NULL), 0);
    expect_refused(ps, &sign, ERR_EXIST, "twice");
    mlt_ps_free(ps);
}

static void rules_have_a_limit(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    char name[MLT_RULES_MAX + 1][16];
    struct mlt_rule_ops ops[MLT_RULES_MAX + 1];

    (void)state;
    for (int i = 0; i <= MLT_RULES_MAX; i++) {
        ops[i] = sign;
        snprintf(name[i], sizeof(name[i]), "rule%d", i);
        ops[i].name = name[i];
        if (i < MLT_RULES_MAX)
            assert_int_equal(mlt_ps_add_rule(ps, &ops[i], NULL, NULL), 0);
        else
            expect_refused(ps, &ops[i], ERR_LIMIT, "16 were added");
    }
    mlt_ps_free(ps);
}

/* Tables of other types, and those on a device, keep to built-in rules. */
static void rules_act_on_floats_in_host_memory(void **state)
{
    struct mlt_ps *ps = server(1, "bsp", NULL);
    struct mlt_table_options o = {.size = sizeof(o),
                                  .name = "counts",
                                  .rows = 4,
                                  .width = 4,
                                  .type = MLT_I32,
                                  .rule = "sum"};
    struct mlt_error e = {0};
    mlt_table t;

    (void)state;
    assert_int_equal(mlt_ps_table(ps, &o, &t, &e), ERR_INVAL);
    assert_non_null(strstr(e.text, "works on f32 values only"));
    t = table(ps, "ours", MLT_SHARED, "sum");
    if (mlt_ps_device(ps, "host", 0, &e))
        fail_msg("%s", e.text);
    assert_int_equal(mlt_ps_on_device(ps, t, &e), ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "update rule sum is your own"));
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_act_as_built_in_ones_do),
        cmocka_unit_test(rules_default_rule_is_that_of_tables_without_one),
        cmocka_unit_test_setup_teardown(
            rules_stored_state_is_read_without_the_rule, scratch_make,
            scratch_remove),
        cmocka_unit_test(rules_stored_table_of_no_size_is_refused),
        cmocka_unit_test(rules_what_is_no_rule_is_refused),
        cmocka_unit_test(rules_have_a_limit),
        cmocka_unit_test(rules_act_on_floats_in_host_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
