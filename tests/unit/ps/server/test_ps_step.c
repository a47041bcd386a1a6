/* mlt_rows, mlt_step_rows, _mix and _cross: exclusive rows looked up once. */
#include "base/log.h"
#include "base/simd.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/restore_io.h"
#include "ps/rows/rule.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 100, STEPS = 3 };

/* Kernels of one version have no FMA, the lanes of a mix have: last bits
 * differ. */
#define ROUNDING (KERNEL_VERSIONS > 1 ? 0 : 1e-5)

struct task {
    struct mlt_ps *ps;
    mlt_table table, other;
    bool by_pointer;
    uint32_t bytes; /* of a row */
    float seen; /* a value read through a pointer that was got before a step */
};

/* Steps the caller's rows STEPS times, either way, with the same deltas. */
static int step(struct mlt_worker *w, void *arg)
{
    struct task *t = arg;
    float delta[BATCH][FIXTURE_WIDTH];
    uint64_t rows[BATCH], first, count;
    void *at[BATCH];

    mlt_owned_rows(t->ps, t->table, mlt_worker_index(w), &first, &count);
    for (size_t i = 0; i < BATCH; i++)
        rows[i] = first + i * 37 % count;
    if (t->by_pointer)
        mlt_rows(w, t->table, BATCH, rows, at);
    for (uint64_t k = 0; k < STEPS; k++) {
        for (size_t i = 0; i < BATCH; i++)
            for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
                delta[i][j] = fixture_noise(k, rows[i], j);
        if (t->by_pointer)
            mlt_step_rows(w, t->table, BATCH, at, delta);
        else
            mlt_inc_rows(w, t->table, BATCH, rows, delta);
    }
    if (t->by_pointer && mlt_worker_index(w) == 0)
        t->seen = *(float *)at[0];
    return mlt_clock(w);
}

static void expect_alike(unsigned workers, const char *rule)
{
    struct task t = {.ps = fixture_ps(workers, "bsp", rule)};
    uint64_t row, first, count;
    uint32_t j;

    t.table = fixture_table(t.ps, "own", MLT_F32, MLT_EXCLUSIVE, 0);
    fixture_start(t.ps);
    assert_int_equal(ps_fork(t.ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_fork(t.ps, 2, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(t.ps, 1), ERR_OK);
    fixture_run(t.ps, step, &t, 0);
    t.by_pointer = true;
    assert_int_equal(ps_activate(t.ps, 2), ERR_OK);
    fixture_run(t.ps, step, &t, 0);
    for (row = 0; row < FIXTURE_ROWS; row++)
        for (j = 0; j < FIXTURE_WIDTH; j++)
            assert_true(fixture_value(t.ps, 1, "own", row, j) ==
                        fixture_value(t.ps, 2, "own", row, j));
    mlt_owned_rows(t.ps, t.table, 0, &first, &count);
    assert_true((double)t.seen == fixture_value(t.ps, 2, "own", first, 0));
    assert_true(t.seen != 0);
    for (row = 0; row < FIXTURE_ROWS; row++)
        assert_true(fixture_value(t.ps, 0, "own", row, 0) == 0);
    mlt_ps_free(t.ps);
}

/* Stepping rows by pointer gives the bits that mlt_inc_rows gives, under every
 * rule, rows that occur twice included; the pointers are the rows' places in
 * this branch alone, also in a fresh fork, and stay so. */
static void step_rows_equals_inc_rows(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        expect_alike(1, rule_at(i)->name);
        expect_alike(2, rule_at(i)->name);
    }
}

/* Steps the caller's rows, all different, with gradients made of the row and
 * another vector: by mlt_step_rows_mix, or written down first. */
static int step_mix(struct mlt_worker *w, void *arg)
{
    struct task *t = arg;
    static float scratch[2][BATCH * FIXTURE_WIDTH];
    float *mine = scratch[mlt_worker_index(w)], scale[BATCH];
    float with[FIXTURE_WIDTH];
    const float *others[BATCH];
    uint64_t rows[BATCH], first, count;
    void *at[BATCH];
    struct mlt_mix mix = {
        .rows = at, .own = 0.3f, .scale = scale, .with = others};

    for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
        with[j] = 0.5f - (float)j;
    mlt_owned_rows(t->ps, t->table, mlt_worker_index(w), &first, &count);
    mix.n = count < BATCH ? count : BATCH;
    for (size_t i = 0; i < mix.n; i++)
        rows[i] = first + i;
    mlt_rows(w, t->table, mix.n, rows, at);
    for (uint64_t k = 0; k < STEPS; k++) {
        for (size_t i = 0; i < mix.n; i++) {
            scale[i] = fixture_noise(k, rows[i], 0);
            others[i] = with;
        }
        if (t->by_pointer) {
            mlt_step_rows_mix(w, t->table, &mix, mine);
        } else {
            struct rule_mix m = {mix.own, scale, others};
            struct rule_batch b = {
                .n = mix.n, .row = at, .width = FIXTURE_WIDTH, .type = MLT_F32};

            rule_mix_sums(&b, &m, mine);
            mlt_step_rows(w, t->table, mix.n, at, mine);
        }
    }
    return mlt_clock(w);
}

static void expect_mix_alike(unsigned workers, const char *rule, unsigned flags)
{
    struct task t = {.ps = fixture_ps(workers, "bsp", rule)};
    double moved = 0;

    t.table = fixture_table(t.ps, "own", MLT_F32, MLT_EXCLUSIVE, flags);
    fixture_start(t.ps);
    assert_int_equal(ps_fork(t.ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_fork(t.ps, 2, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(t.ps, 1), ERR_OK);
    fixture_run(t.ps, step_mix, &t, 0);
    t.by_pointer = true;
    assert_int_equal(ps_activate(t.ps, 2), ERR_OK);
    fixture_run(t.ps, step_mix, &t, 0);
    for (uint64_t row = 0; row < FIXTURE_ROWS; row++)
        for (uint32_t j = 0; j < FIXTURE_WIDTH; j++) {
            double value = fixture_value(t.ps, 2, "own", row, j);
            double other = fixture_value(t.ps, 1, "own", row, j);

            assert_true(fabs(other - value) <= ROUNDING * (1 + fabs(value)));
            moved += value * value;
        }
    assert_true(moved > 0);
    mlt_ps_free(t.ps);
}

/* Gradients that are never written give the bits that written ones give, under
 * every rule, with a momentum and without. */
static void step_rows_mix_equals_step_rows(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        expect_mix_alike(1, rule_at(i)->name, 0);
        expect_mix_alike(2, rule_at(i)->name, MLT_NO_MOMENTUM);
    }
}

/* Steps pairs of the caller's rows of two tables, crosswise or by two mixes
 * with copies. */
static int step_pairs(struct mlt_worker *w, void *arg)
{
    struct task *t = arg;
    static float scratch[2][2 * BATCH * FIXTURE_WIDTH];
    static float copies[2][BATCH][FIXTURE_WIDTH];
    unsigned index = mlt_worker_index(w);
    float scale[BATCH];
    const float *before[BATCH];
    uint64_t rows[BATCH], first, count;
    void *at[2][BATCH];
    struct mlt_cross cross = {.table = {t->table, t->other},
                              .rows = {at[0], at[1]},
                              .own = 0.3f,
                              .scale = scale};

    mlt_owned_rows(t->ps, t->table, index, &first, &count);
    cross.n = count < BATCH ? count : BATCH;
    for (size_t i = 0; i < cross.n; i++)
        rows[i] = first + i;
    for (int side = 0; side < 2; side++) {
        mlt_rows(w, cross.table[side], cross.n, rows, at[side]);
        for (size_t i = 0; i < cross.n; i++)
            for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
                ((float *)at[side][i])[j] = fixture_noise(9, rows[i] + side, j);
    }
    for (uint64_t k = 0; k < STEPS; k++) {
        struct mlt_mix mix = {cross.n, at[0], cross.own, scale,
                              (const float *const *)at[1]};

        for (size_t i = 0; i < cross.n; i++) {
            scale[i] = fixture_noise(k, rows[i], 0);
            before[i] = memcpy(copies[index][i], at[0][i],
                               FIXTURE_WIDTH * sizeof(float));
        }
        if (t->by_pointer) {
            mlt_step_rows_cross(w, &cross, scratch[index]);
            continue;
        }
        mlt_step_rows_mix(w, t->table, &mix, scratch[index]);
        mix.rows = at[1];
        mix.with = before;
        mlt_step_rows_mix(w, t->other, &mix, scratch[index]);
    }
    return mlt_clock(w);
}

static void expect_cross_alike(unsigned workers, const char *rule,
                               unsigned flags, unsigned other_flags,
                               double decay)
{
    struct task t = {.ps = fixture_ps(workers, "bsp", rule)};
    static const char *const name[] = {"own", "other"};
    double moved = 0;

    t.table = fixture_table(t.ps, name[0], MLT_F32, MLT_EXCLUSIVE, flags);
    t.other = fixture_table(t.ps, name[1], MLT_F32, MLT_EXCLUSIVE, other_flags);
    fixture_start(t.ps);
    assert_int_equal(mlt_ps_set_weight_decay(t.ps, decay), 0);
    for (branch_id id = 1; id <= 2; id++) {
        assert_int_equal(ps_fork(t.ps, id, 0, BRANCH_TRAINING), ERR_OK);
        assert_int_equal(ps_activate(t.ps, id), ERR_OK);
        t.by_pointer = id == 2;
        fixture_run(t.ps, step_pairs, &t, 0);
    }
    for (int side = 0; side < 2; side++)
        for (uint64_t row = 0; row < FIXTURE_ROWS; row++)
            for (uint32_t j = 0; j < FIXTURE_WIDTH; j++) {
                double value = fixture_value(t.ps, 2, name[side], row, j);

                assert_true(fixture_value(t.ps, 1, name[side], row, j) ==
                            value);
                moved += value * value;
            }
    assert_true(moved > 0);
    mlt_ps_free(t.ps);
}

/* Both rows of pairs at once get the bits of two mixes with copies, under every
 * rule, with a momentum, without, where one table alone has one, and where
 * weights decay. */
static void step_rows_cross_equals_two_mixes(void **state)
{
    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        expect_cross_alike(1, rule_at(i)->name, 0, 0, 0);
        expect_cross_alike(2, rule_at(i)->name, MLT_NO_MOMENTUM,
                           MLT_NO_MOMENTUM, 0);
        expect_cross_alike(1, rule_at(i)->name, MLT_NO_MOMENTUM,
                           MLT_NO_MOMENTUM, 0.1);
        expect_cross_alike(1, rule_at(i)->name, MLT_NO_MOMENTUM, 0, 0.1);
    }
}

static void sink(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    _exit(strstr(line, ctx) ? 42 : 43);
}

static int cross_widths(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_step_rows_cross(w, &(struct mlt_cross){.table = {0, 1}}, NULL);
    return 0;
}

/* Rows of two widths are no pairs: it says so, and ends the program. */
static void step_rows_cross_of_two_widths_aborts(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct mlt_ps *ps = fixture_ps(1, "bsp", "sgd");
        struct mlt_table_options o = {.size = sizeof(o),
                                      .name = "own",
                                      .rows = 4,
                                      .width = 1,
                                      .access = MLT_EXCLUSIVE};
        mlt_table table;

        mlt_ps_table(ps, &o, &table, NULL);
        o.name = "wide";
        o.width = 2;
        mlt_ps_table(ps, &o, &table, NULL);
        fixture_start(ps);
        log_set_sink(sink, (void *)"own has 1 values a row, table wide 2");
        mlt_ps_run(ps, cross_widths, NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static int ask_bytes(struct mlt_worker *w, void *arg)
{
    struct task *t = arg;

    t->bytes = mlt_row_bytes(w, t->table);
    return 0;
}

static uint32_t bytes_under(const char *rule)
{
    struct task t = {.ps = fixture_ps(1, "bsp", rule)};

    t.table = fixture_table(t.ps, "own", MLT_F32, MLT_EXCLUSIVE, 0);
    fixture_start(t.ps);
    fixture_run(t.ps, ask_bytes, &t, 0);
    mlt_ps_free(t.ps);
    return t.bytes;
}

/* A row's bytes count its slots and its tail. */
static void row_bytes_count_slots(void **state)
{
    (void)state;
    assert_int_equal(bytes_under("add"), FIXTURE_WIDTH * 4);
    assert_int_equal(bytes_under("adagrad"), 2 * FIXTURE_WIDTH * 4);
    assert_int_equal(bytes_under("adam"), 3 * FIXTURE_WIDTH * 4 + 8);
    assert_int_equal(bytes_under("rpcs"), FIXTURE_WIDTH * 4 + 8);
}

static struct mlt_ps *open_under(const char *rule, mlt_table *table)
{
    struct mlt_ps *ps = fixture_ps(2, "bsp", rule);

    *table = fixture_table(ps, "own", MLT_F32, MLT_EXCLUSIVE, 0);
    fixture_start(ps);
    return ps;
}

static void step_branch(struct task *t, branch_id id, double value[])
{
    assert_int_equal(ps_activate(t->ps, id), ERR_OK);
    fixture_run(t->ps, step, t, 0);
    for (uint64_t row = 0; row < FIXTURE_ROWS; row++)
        for (uint32_t j = 0; j < FIXTURE_WIDTH; j++)
            value[row * FIXTURE_WIDTH + j] =
                fixture_value(t->ps, id, "own", row, j);
}

/* What a rule remembers is of the branch: a fork, and one that was written to
 * the disk and read by another process, go on to the bit as their parent does.
 */
static void step_after_fork_and_snapshot_goes_on_alike(void **state)
{
    static double parent[FIXTURE_ROWS * FIXTURE_WIDTH];
    static double other[FIXTURE_ROWS * FIXTURE_WIDTH];
    struct fault f;

    (void)state;
    for (size_t i = 0; rule_at(i); i++) {
        const char *rule = rule_at(i)->name;
        struct task t = {0};

        t.ps = open_under(rule, &t.table);
        step_branch(&t, 0, parent);
        assert_int_equal(ps_fork(t.ps, 1, 0, BRANCH_KEPT), ERR_OK);
        assert_int_equal(ps_snapshot_begin(t.ps, 1, scratch_path(rule), &f),
                         ERR_OK);
        assert_int_equal(ps_fork(t.ps, 2, 0, BRANCH_TRAINING), ERR_OK);
        step_branch(&t, 0, parent);
        assert_int_equal(ps_snapshot_end(t.ps, NULL, &f), ERR_OK);
        step_branch(&t, 2, other);
        assert_memory_equal(other, parent, sizeof(parent));
        mlt_ps_free(t.ps);
        t.ps = open_under(rule, &t.table);
        assert_int_equal(ps_restore(t.ps, 7, scratch_path(rule), &f), ERR_OK);
        assert_int_equal(ps_fork(t.ps, 8, 7, BRANCH_TRAINING), ERR_OK);
        step_branch(&t, 8, other);
        assert_memory_equal(other, parent, sizeof(parent));
        mlt_ps_free(t.ps);
    }
}

/* Whose slots a row has is of the branch, too: read from the disk by another
 * process, it goes on under its rule to the bit, and begins anew under another
 * as a fork of its parent does. */
static void step_of_a_chosen_rule_goes_on_from_a_snapshot(void **state)
{
    enum { VALUES = FIXTURE_ROWS * FIXTURE_WIDTH };
    static double want[2][VALUES], got[2][VALUES], first[VALUES];
    static const char *const then[] = {"adam", "nesterov"};
    struct task t = {0};
    struct fault f;
    uint32_t rule;

    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        t.ps = open_under("any", &t.table);
        if (again == 0) {
            assert_int_equal(rule_choice("adam", &rule, NULL), ERR_OK);
            assert_int_equal(ps_set_rule(t.ps, rule), ERR_OK);
            step_branch(&t, 0, first);
            assert_int_equal(ps_fork(t.ps, 1, 0, BRANCH_KEPT), ERR_OK);
            assert_int_equal(
                ps_snapshot_begin(t.ps, 1, scratch_path("any"), &f), ERR_OK);
            assert_int_equal(ps_snapshot_end(t.ps, NULL, &f), ERR_OK);
        } else {
            assert_int_equal(ps_restore(t.ps, 1, scratch_path("any"), &f),
                             ERR_OK);
        }
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(rule_choice(then[i], &rule, NULL), ERR_OK);
            assert_int_equal(ps_set_rule(t.ps, rule), ERR_OK);
            assert_int_equal(ps_fork(t.ps, 8 + i, 1, BRANCH_TRAINING), ERR_OK);
            step_branch(&t, 8 + i, again ? got[i] : want[i]);
        }
        mlt_ps_free(t.ps);
    }
    assert_memory_equal(got, want, sizeof(want));
    assert_memory_not_equal(want[0], want[1], sizeof(want[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_rows_equals_inc_rows),
        cmocka_unit_test(step_rows_mix_equals_step_rows),
        cmocka_unit_test(step_rows_cross_equals_two_mixes),
        cmocka_unit_test(step_rows_cross_of_two_widths_aborts),
        cmocka_unit_test(row_bytes_count_slots),
        cmocka_unit_test_setup_teardown(
            step_after_fork_and_snapshot_goes_on_alike, scratch_make,
            scratch_remove),
        cmocka_unit_test_setup_teardown(
            step_of_a_chosen_rule_goes_on_from_a_snapshot, scratch_make,
            scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
