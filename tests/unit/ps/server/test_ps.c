#include "base/rng.h"
#include "ps/rows/rule.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#include <poll.h>

enum { ROWS = FIXTURE_ROWS, WIDTH = FIXTURE_WIDTH, CLOCKS = 6 };

/* ---- bsp against a sequential reference ---------------------------------- */

/* Sum that a worker adds to a row in a clock, or nothing: any function of the
 * two that differs everywhere. */
static bool gradient(unsigned worker, int clock, uint64_t row, float g[WIDTH])
{
    struct rng rng;

    rng_init(&rng, rng_mix(rng_mix(worker, (uint64_t)clock), row));
    if (rng_below(&rng, 3) == 0)
        return false;
    for (int j = 0; j < WIDTH; j++)
        g[j] = (float)rng_normal(&rng);
    return true;
}

static float initial(uint64_t row, int j)
{
    return (float)row + 0.25f * (float)j;
}

static int init_rows(struct mlt_worker *w, mlt_table table)
{
    struct mlt_ps *ps = ps_worker_user(w);
    uint64_t first, count;
    float values[WIDTH];

    mlt_owned_rows(ps, table, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; r < first + count; r++) {
        for (int j = 0; j < WIDTH; j++)
            values[j] = initial(r, j);
        mlt_init_row(w, table, r, values);
    }
    return 0;
}

/* Half of each update comes through inc_row, half through update_row; either
 * may be the first. */
static void add_gradient(struct mlt_worker *w, uint64_t row,
                         const float g[WIDTH])
{
    float half[WIDTH], *sum;

    for (int j = 0; j < WIDTH; j++)
        half[j] = g[j] / 2;
    if (row % 2 == 0)
        mlt_inc_row(w, 0, row, half);
    sum = mlt_update_row(w, 0, row);
    for (int j = 0; j < WIDTH; j++)
        sum[j] += half[j];
    if (row % 2 == 1)
        mlt_inc_row(w, 0, row, half);
}

static int train(struct mlt_worker *w, void *arg)
{
    float g[WIDTH];
    int err;

    (void)arg;
    err = init_rows(w, 0);
    if (!err)
        err = mlt_clock(w);
    for (int clock = 0; clock < CLOCKS && !err; clock++) {
        for (uint64_t row = 0; row < ROWS; row++)
            if (gradient(mlt_worker_index(w), clock, row, g))
                add_gradient(w, row, g);
        err = mlt_clock(w);
    }
    return err;
}

enum { ROW_MAX = 4 * WIDTH }; /* values, then slots, then tail */

/* The sum of workers first .. first + n - 1, n a power of two, each half by
 * itself; false where none has one. */
static bool sum_of(unsigned workers, int clock, uint64_t row, unsigned first,
                   unsigned n, float sum[WIDTH])
{
    float right[WIDTH];
    bool any;

    if (first >= workers)
        return false;
    if (n == 1)
        return gradient(first, clock, row, sum);
    any = sum_of(workers, clock, row, first, n / 2, sum);
    if (!sum_of(workers, clock, row, first + n / 2, n / 2, right))
        return any;
    for (int j = 0; j < WIDTH; j++)
        sum[j] = any ? sum[j] + right[j] : right[j];
    return true;
}

/* Rows of the reference. */
static void reference_clock(float (*row)[ROW_MAX], unsigned workers, int clock,
                            const struct rule_ops *rule)
{
    for (uint64_t r = 0; r < ROWS; r++) {
        float sum[WIDTH];
        void *rows[1] = {row[r]};
        const void *sums[1] = {sum};
        struct rule_batch b = {1,
                               rows,
                               sums,
                               WIDTH,
                               MLT_F32,
                               rule->slots(0),
                               {0.1f, 0.5f, 0, 0, 0, 0},
                               NULL};

        if (sum_of(workers, clock, r, 0, 16, sum))
            rule->apply(&b);
    }
}

static void check_against_reference(unsigned workers, const char *rule)
{
    static float want[ROWS][ROW_MAX];
    struct mlt_ps *ps = fixture_ps(workers, "bsp", rule);

    memset(want, 0, sizeof(want));
    for (uint64_t r = 0; r < ROWS; r++)
        for (int j = 0; j < WIDTH; j++)
            want[r][j] = initial(r, j);
    for (int clock = 0; clock < CLOCKS; clock++)
        reference_clock(want, workers, clock, rule_find(rule));
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_start(ps);
    fixture_run(ps, train, NULL, 0);
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint32_t j = 0; j < WIDTH; j++)
            assert_true((float)fixture_value(ps, 0, "weights", r, j) ==
                        want[r][j]);
    mlt_ps_free(ps);
}

/* Under bsp every rule gives, bit for bit, what a sequential program gives that
 * adds the workers' updates in their tree's order and applies the rule once a
 * clock.
 */
static void bsp_any_workers_equals_sequential_reference(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++)
        for (size_t i = 0; rule_at(i); i++)
            check_against_reference(workers, rule_at(i)->name);
}

/* Steps that do not depend on the values. */
struct stepping {
    const double *from; /* [ROWS * WIDTH]: written first; NULL: none is */
    int first, clocks;
};

static int take_steps(struct mlt_worker *w, void *arg)
{
    const struct stepping *s = arg;
    float values[WIDTH];
    uint64_t first, count;

    mlt_owned_rows(ps_worker_user(w), 0, mlt_worker_index(w), &first, &count);
    for (uint64_t r = first; s->from && r < first + count; r++) {
        for (int j = 0; j < WIDTH; j++)
            values[j] = (float)s->from[r * WIDTH + j];
        mlt_init_row(w, 0, r, values);
    }
    for (int k = 0; k < s->clocks; k++) {
        for (uint64_t r = 0; r < ROWS; r++) {
            for (int j = 0; j < WIDTH; j++)
                values[j] = fixture_noise((uint64_t)s->first + (uint64_t)k, r,
                                          (uint64_t)j + mlt_worker_index(w));
            mlt_inc_row(w, 0, r, values);
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* A branch whose rule changes to adam goes the way of a server with adam that
 * begins with its weights; its parent, back with sgd, goes on as if the other
 * had not been. */
static void any_rule_of_a_branch_begins_anew(void **state)
{
    static double at_fork[ROWS * WIDTH], got[ROWS * WIDTH], want[ROWS * WIDTH];
    struct stepping before = {NULL, 0, 3}, after = {NULL, 3, 3};
    struct stepping fresh = {at_fork, 3, 3};
    struct mlt_ps *ps = fixture_ps(2, "bsp", "any");
    struct mlt_ps *other = fixture_ps(2, "bsp", "adam");
    struct mlt_ps *same = fixture_ps(2, "bsp", "sgd");

    (void)state;
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_table(other, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_table(same, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_start(ps);
    fixture_start(other);
    fixture_start(same);
    fixture_run(ps, take_steps, &before, 0);
    rows_read_whole(ps, 0, "weights", 0, ROWS, at_fork);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(ps, 1), ERR_OK);
    assert_int_equal(mlt_ps_set_update_rule(ps, "add"), ERR_INVAL);
    assert_int_equal(mlt_ps_set_update_rule(ps, "adam"), ERR_OK);
    fixture_run(ps, take_steps, &after, 0);
    fixture_run(other, take_steps, &fresh, 0);
    rows_read_whole(ps, 1, "weights", 0, ROWS, got);
    rows_read_whole(other, 0, "weights", 0, ROWS, want);
    assert_memory_equal(got, want, sizeof(got));
    assert_int_equal(ps_activate(ps, 0), ERR_OK);
    assert_int_equal(mlt_ps_set_update_rule(ps, "sgd"), ERR_OK);
    fixture_run(ps, take_steps, &after, 0);
    before.clocks = 6;
    fixture_run(same, take_steps, &before, 0);
    rows_read_whole(ps, 0, "weights", 0, ROWS, got);
    rows_read_whole(same, 0, "weights", 0, ROWS, want);
    assert_memory_equal(got, want, sizeof(got));
    mlt_ps_free(ps);
    mlt_ps_free(other);
    mlt_ps_free(same);
}

/* Two runs of the same work end with the same bits, however the threads were
 * timed. */
static void bsp_same_run_twice_is_the_same_to_the_bit(void **state)
{
    double rows[2][ROWS * WIDTH];

    (void)state;
    for (int run = 0; run < 2; run++) {
        struct mlt_ps *ps = fixture_ps(4, "bsp", "adagrad");

        fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
        fixture_start(ps);
        fixture_run(ps, train, NULL, 0);
        assert_int_equal(rows_read_whole(ps, 0, "weights", 0, ROWS, rows[run]),
                         ERR_OK);
        mlt_ps_free(ps);
    }
    assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
}

/* ---- what a reader is promised under bsp --------------------------------- */

/* Each clock adds 1 to every row; a row is constant within the clock, and holds
 * all clocks' sums after it. */
static int check_constant_rows(struct mlt_worker *w, void *arg)
{
    unsigned workers = mlt_worker_count(w);
    int32_t one[WIDTH], before;
    const int32_t *row;

    (void)arg;
    for (int j = 0; j < WIDTH; j++)
        one[j] = 1;
    for (int clock = 0; clock < 20; clock++) {
        for (uint64_t r = 0; r < ROWS; r++) {
            row = mlt_get_row(w, 0, r);
            before = row[3];
            mlt_inc_row(w, 0, r, one);
            if (row[3] != before || before != (int32_t)workers * clock)
                return ERR_APP;
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

static void bsp_rows_are_constant_within_a_clock(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct mlt_ps *ps = fixture_ps(workers, "bsp", "add");

        fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
        fixture_start(ps);
        fixture_run(ps, check_constant_rows, NULL, 0);
        mlt_ps_free(ps);
    }
}

/* Batches: pointers as get_row gives them, deltas added row after row, the same
 * row twice included. */
static int check_batches(struct mlt_worker *w, void *arg)
{
    uint64_t rows[150];
    const void *out[150];
    int32_t deltas[150][WIDTH];

    (void)arg;
    for (size_t i = 0; i < 150; i++) {
        rows[i] = i * 7 % 149;
        for (int j = 0; j < WIDTH; j++)
            deltas[i][j] = (int32_t)i;
    }
    mlt_inc_rows(w, 0, 150, rows, deltas);
    if (mlt_clock(w) || mlt_get_rows(w, 0, 150, rows, out))
        return ERR_CANCELED;
    for (size_t i = 0; i < 150; i++) {
        const int32_t *row = mlt_get_row(w, 0, rows[i]);
        int32_t want = (int32_t)i;

        if (i == 0 || i == 149)
            want = 0 + 149;
        if (memcmp(row, out[i], sizeof(*row) * WIDTH) != 0 ||
            row[WIDTH - 1] != want * (int32_t)mlt_worker_count(w))
            return ERR_APP;
    }
    return 0;
}

static void ps_batches_equal_single_calls(void **state)
{
    static const char *const models[] = {"bsp", "ssp"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mlt_ps *ps = fixture_ps(3, models[i], "add");

        fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
        fixture_start(ps);
        fixture_run(ps, check_batches, NULL, 0);
        mlt_ps_free(ps);
    }
}

/* read_my_writes: the worker's own updates show at once, those of others after
 * the clock; without the option nothing shows before. */
static int check_own_writes(struct mlt_worker *w, void *arg)
{
    double delta[WIDTH] = {1, 2, 3, 4, 5, 6, 7};
    uint64_t row = mlt_worker_index(w);
    const double *mine, *plain, *others;

    (void)arg;
    for (int clock = 0; clock < 3; clock++) {
        for (int i = 1; i <= 4; i++) {
            mlt_inc_row(w, 0, row, delta);
            mlt_inc_row(w, 1, row, delta);
            mlt_inc_row(w, 1, ROWS - 1, delta);
            mine = mlt_get_row(w, 0, row);
            plain = mlt_get_row(w, 1, row);
            if (!mine || !plain)
                return ERR_CANCELED;
            if (mine[6] != 7.0 * (4 * clock + i) || plain[6] != 28.0 * clock)
                return ERR_APP;
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    others = mlt_get_row(w, 1, ROWS - 1);
    if (!others)
        return ERR_CANCELED;
    return others[0] == 12.0 * mlt_worker_count(w) ? 0 : ERR_APP;
}

static void ps_read_my_writes_shows_own_updates(void **state)
{
    static const char *const models[] = {"bsp", "ssp"};

    (void)state;
    for (unsigned workers = 1; workers <= 3; workers++)
        for (int i = 0; i < 2; i++) {
            struct mlt_ps *ps = fixture_ps(workers, models[i], "add");

            fixture_table(ps, "mine", MLT_F64, MLT_SHARED, MLT_READ_MY_WRITES);
            fixture_table(ps, "plain", MLT_F64, MLT_SHARED, 0);
            fixture_start(ps);
            fixture_run(ps, check_own_writes, NULL, 0);
            mlt_ps_free(ps);
        }
}

/* ---- clocks -------------------------------------------------------------- */

/* A table with a clock of its own gets its updates at that clock (under ssp, at
 * the latest by the next read), the others keep theirs until their own. */
static int check_table_clock(struct mlt_worker *w, void *arg)
{
    int32_t one[WIDTH] = {1}, n = (int32_t)mlt_worker_count(w);
    bool exact = *(const bool *)arg;
    const int32_t *a, *b;

    for (int32_t clock = 1; clock <= 5; clock++) {
        mlt_inc_row(w, 0, 5, one);
        mlt_inc_row(w, 1, 5, one);
        if (mlt_clock_table(w, 1))
            return ERR_CANCELED;
        a = mlt_get_row(w, 0, 5);
        b = mlt_get_row(w, 1, 5);
        if (!a || !b)
            return ERR_CANCELED;
        if (a[0] != 0 || b[0] < n * clock || (exact && b[0] > n * clock))
            return ERR_APP;
    }
    if (mlt_clock(w))
        return ERR_CANCELED;
    a = mlt_get_row(w, 0, 5);
    return a && a[0] == 5 * n ? 0 : ERR_APP;
}

static void ps_table_clock_moves_that_table_alone(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 3; workers++)
        for (int ssp = 0; ssp < 2; ssp++) {
            struct mlt_ps *ps = fixture_ps(workers, ssp ? "ssp" : "bsp", "add");
            bool exact = !ssp || workers == 1;

            fixture_table(ps, "slow", MLT_I32, MLT_SHARED, 0);
            fixture_table(ps, "fast", MLT_I32, MLT_SHARED, 0);
            fixture_start(ps);
            fixture_run(ps, check_table_clock, &exact, 0);
            mlt_ps_free(ps);
        }
}

/* Worker i ends i + 1 clocks. */
static int unequal_clocks(struct mlt_worker *w, void *arg)
{
    int32_t one[WIDTH] = {1};

    (void)arg;
    for (unsigned i = 0; i <= mlt_worker_index(w); i++) {
        for (uint64_t r = 0; r < ROWS; r++)
            mlt_inc_row(w, 0, r, one);
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* Workers may end different numbers of clocks: who is back holds nobody up, and
 * the updates of its shard's rows are applied all the same. */
static void ps_workers_may_end_unequal_clocks(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "async"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mlt_ps *ps = fixture_ps(4, models[i], "add");

        fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
        fixture_start(ps);
        fixture_run(ps, unequal_clocks, NULL, 0);
        for (uint64_t r = 0; r < ROWS; r++)
            assert_int_equal((int)fixture_value(ps, 0, "counts", r, 0), 10);
        mlt_ps_free(ps);
    }
}

/* ---- errors -------------------------------------------------------------- */

struct failing {
    bool reads; /* the others wait in a read, not at a clock */
    _Atomic int released;
};

/* The last worker fails at its third clock; the others must be let go. */
static int fail_one(struct mlt_worker *w, void *arg)
{
    struct failing *f = arg;
    int err = 0;

    for (int clock = 0; clock < 100 && !err; clock++) {
        if (mlt_worker_index(w) == mlt_worker_count(w) - 1 && clock == 2)
            return ERR_APP;
        if (f->reads && !mlt_get_row(w, 0, 0))
            err = ERR_CANCELED;
        if (!err)
            err = mlt_clock(w);
    }
    f->released += err == ERR_CANCELED;
    return err;
}

/* One worker's error ends the run with that error, and releases the others from
 * barriers and from waiting reads with ERR_CANCELED. The branch is not run
 * again; another one is. */
static void ps_error_releases_everybody(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct mlt_ps *ps = fixture_ps(4, models[i], "add");
        struct failing f = {i > 0, 0};
        uint32_t other;

        fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
        fixture_start(ps);
        assert_int_equal(mlt_ps_fork(ps, 0, &other), 0);
        fixture_run(ps, fail_one, &f, ERR_APP);
        assert_int_equal(f.released, 3);
        fixture_run(ps, unequal_clocks, NULL, ERR_INVAL);
        assert_int_equal(mlt_ps_switch(ps, other), 0);
        fixture_run(ps, unequal_clocks, NULL, 0);
        assert_int_equal((int)fixture_value(ps, other, "counts", 7, 0), 10);
        assert_int_equal(mlt_ps_drop(ps, 0), 0);
        mlt_ps_free(ps);
    }
}

static int pass_by(struct mlt_worker *w, void *arg)
{
    (void)arg;
    return mlt_clock(w);
}

/* The active branch is refused whatever would make its rows pass for whole. */
static void check_is_refused(struct mlt_ps *ps)
{
    static const char why[] = "a run failed in the active branch";
    struct mlt_error err = {0, ""};

    assert_int_equal(mlt_ps_run(ps, pass_by, NULL), ERR_INVAL);
    assert_int_equal(mlt_ps_save(ps, "/tmp", &err), ERR_INVAL);
    assert_non_null(strstr(err.text, why));
    err.text[0] = '\0';
    assert_int_equal(mlt_ps_checkpoint(ps, "/tmp/none", &err), ERR_INVAL);
    assert_non_null(strstr(err.text, why));
}

/* Once a run has failed in a branch, it is failed for good, and its forks are:
 * switched onto again, after reading rows of another, or by a number that was
 * another's. What was forked before goes on. */
static void ps_a_failed_branch_stays_so(void **state)
{
    struct mlt_ps *ps = fixture_ps(2, "bsp", "sgd");
    struct failing f = {false, 0};
    uint32_t before, failed, child;
    double delta[WIDTH] = {1};

    (void)state;
    fixture_table(ps, "rows", MLT_F32, MLT_SHARED, 0);
    fixture_start(ps);
    assert_int_equal(mlt_ps_fork(ps, 0, &before), 0);
    assert_int_equal(mlt_ps_fork(ps, 0, &failed), 0);
    assert_int_equal(mlt_ps_switch(ps, failed), 0);
    fixture_run(ps, fail_one, &f, ERR_APP);
    check_is_refused(ps);
    assert_int_equal(mlt_ps_switch(ps, failed), 0);
    check_is_refused(ps);
    assert_int_equal(mlt_ps_fork(ps, failed, &child), 0);
    assert_int_equal(mlt_ps_switch(ps, child), 0);
    check_is_refused(ps);
    assert_int_equal(ps_inc_rows(ps, before, "rows", 0, 1, delta), ERR_OK);
    check_is_refused(ps);
    assert_int_equal(mlt_ps_drop(ps, failed), 0);
    check_is_refused(ps);
    assert_int_equal(mlt_ps_switch(ps, before), 0);
    fixture_run(ps, pass_by, NULL, 0);
    assert_int_equal(ps_fork(ps, failed, before, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(mlt_ps_switch(ps, failed), 0);
    fixture_run(ps, pass_by, NULL, 0);
    mlt_ps_free(ps);
}

/* The active branch, which failed, gives way to another fork of the first. */
static void fresh_branch(struct mlt_ps *ps)
{
    branch_id failed = ps_active(ps);
    uint32_t fork;

    assert_int_equal(mlt_ps_fork(ps, 0, &fork), 0);
    assert_int_equal(mlt_ps_switch(ps, fork), 0);
    if (failed)
        assert_int_equal(mlt_ps_drop(ps, failed), 0);
}

static int run_until_canceled(struct mlt_worker *w, void *arg)
{
    _Atomic int *clocks = arg;
    int err;

    do {
        err = mlt_clock(w);
        ++*clocks;
    } while (!err);
    return err;
}

/* A run goes on beside its control thread, which can end it; the descriptor
 * tells when all are back, and the branch holds whole clocks. */
static void ps_run_can_be_canceled_from_outside(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct mlt_ps *ps = fixture_ps(workers, "bsp", "add");
        _Atomic int clocks = 0;
        struct pollfd p = {.events = POLLIN};

        fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
        fixture_start(ps);
        p.fd = ps_run_fd(ps);
        for (int again = 0; again < 2; again++) {
            fresh_branch(ps);
            assert_int_equal(ps_run_begin(ps, run_until_canceled, &clocks), 0);
            assert_int_equal(poll(&p, 1, 0), 0);
            while (clocks < 30)
                ;
            ps_run_cancel(ps, ERR_TIMEOUT);
            assert_int_equal(poll(&p, 1, 10000), 1);
            assert_int_equal(ps_run_end(ps), ERR_TIMEOUT);
            assert_int_equal(poll(&p, 1, 0), 0);
            clocks = 0;
        }
        mlt_ps_free(ps);
    }
}

struct stuck {
    bool reads;
    _Atomic int waiting, released;
};

/* Worker 0 ends no clock before the others were released from theirs. */
static int wait_for_the_stuck(struct mlt_worker *w, void *arg)
{
    struct stuck *s = arg;
    int err = 0;

    if (mlt_worker_index(w) == 0) {
        while (s->released < 2)
            ;
        return 0;
    }
    s->waiting++;
    if (s->reads)
        err = mlt_clock(w);
    if (!err && s->reads)
        err = mlt_get_row(w, 0, 0) ? 0 : ERR_CANCELED;
    else if (!err)
        err = mlt_clock(w);
    s->released++;
    return err;
}

/* Canceling releases workers from a clock, and from a read, that one worker
 * keeps from ending for as long as it likes. */
static void ps_cancel_releases_from_waits_on_a_busy_worker(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        struct mlt_ps *ps = fixture_ps(3, reads ? "ssp" : "bsp", "add");

        fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
        fixture_start(ps);
        for (int again = 0; again < 30; again++) {
            struct stuck s = {.reads = reads};

            fresh_branch(ps);
            assert_int_equal(ps_run_begin(ps, wait_for_the_stuck, &s), ERR_OK);
            while (s.waiting < 2)
                ;
            ps_run_cancel(ps, ERR_TIMEOUT);
            assert_int_equal(ps_run_end(ps), ERR_TIMEOUT);
        }
        mlt_ps_free(ps);
    }
}

static int nothing(struct mlt_worker *w, void *arg)
{
    (void)w;
    ++*(_Atomic int *)arg;
    return 0;
}

/* Runs without a clock, one after another, call every worker once each. */
static void ps_many_short_runs_call_every_worker(void **state)
{
    struct mlt_ps *ps = fixture_ps(3, "bsp", "add");
    _Atomic int calls = 0;

    (void)state;
    fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
    fixture_start(ps);
    for (int i = 1; i <= 200; i++) {
        fixture_run(ps, nothing, &calls, 0);
        assert_int_equal(calls, 3 * i);
    }
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_any_workers_equals_sequential_reference),
        cmocka_unit_test(any_rule_of_a_branch_begins_anew),
        cmocka_unit_test(bsp_same_run_twice_is_the_same_to_the_bit),
        cmocka_unit_test(bsp_rows_are_constant_within_a_clock),
        cmocka_unit_test(ps_batches_equal_single_calls),
        cmocka_unit_test(ps_read_my_writes_shows_own_updates),
        cmocka_unit_test(ps_table_clock_moves_that_table_alone),
        cmocka_unit_test(ps_workers_may_end_unequal_clocks),
        cmocka_unit_test(ps_error_releases_everybody),
        cmocka_unit_test(ps_a_failed_branch_stays_so),
        cmocka_unit_test(ps_run_can_be_canceled_from_outside),
        cmocka_unit_test(ps_cancel_releases_from_waits_on_a_busy_worker),
        cmocka_unit_test(ps_many_short_runs_call_every_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
