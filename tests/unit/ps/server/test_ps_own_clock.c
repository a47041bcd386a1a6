/* Tables whose clock ends before the worker's (MLT_OWN_CLOCK). */
#include "base/log.h"
#include "base/rng.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = FIXTURE_ROWS, WIDTH = FIXTURE_WIDTH, TABLES = 3, CLOCKS = 12 };

static struct mlt_ps *early_ps(unsigned workers, const char *model,
                               const char *rule, unsigned flags)
{
    static const char *const names[TABLES] = {"a", "b", "c"};
    struct mlt_ps *ps = fixture_ps(workers, model, rule);

    for (int t = 0; t < TABLES; t++)
        fixture_table(ps, names[t], MLT_F32, MLT_SHARED, flags);
    fixture_start(ps);
    return ps;
}

/* Gradients that depend on what is read, from one table after another, each
 * ended as soon as it is done (@arg: whether), now and then not at all. */
static int descend(struct mlt_worker *w, void *arg)
{
    const bool early = *(const bool *)arg;
    unsigned self = mlt_worker_index(w);

    for (uint64_t clock = 0; clock < CLOCKS; clock++) {
        for (mlt_table t = TABLES; t-- > 0;) {
            for (uint64_t r = self % 3; r < ROWS; r += 1 + t) {
                const float *row = mlt_get_row(w, t, r);
                float g[WIDTH];

                if (!row)
                    return ERR_CANCELED;
                for (int j = 0; j < WIDTH; j++)
                    g[j] = row[j] - fixture_noise(self, r, clock + t);
                mlt_inc_row(w, t, r, g);
            }
            if (early && (clock + self + t) % 5 != 0 && mlt_clock_table(w, t))
                return ERR_CANCELED;
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* Under barriers it makes no difference to any bit when a table's clock ends,
 * and whether all workers end it early. */
static void own_clock_under_bsp_changes_no_bit(void **state)
{
    static const char *const rules[] = {"sgd", "adam"};

    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++)
        for (int i = 0; i < 2; i++) {
            bool early = true, late = false;
            struct mlt_ps *one =
                early_ps(workers, "bsp", rules[i], MLT_OWN_CLOCK);
            struct mlt_ps *two = early_ps(workers, "bsp", rules[i], 0);

            fixture_run(one, descend, &early, 0);
            fixture_run(one, descend, &early, 0);
            fixture_run(two, descend, &late, 0);
            fixture_run(two, descend, &late, 0);
            for (uint64_t r = 0; r < ROWS; r++)
                assert_true(fixture_value(one, 0, "b", r, 3) ==
                                fixture_value(two, 0, "b", r, 3) &&
                            fixture_value(one, 0, "c", r, 6) ==
                                fixture_value(two, 0, "c", r, 6));
            mlt_ps_free(one);
            mlt_ps_free(two);
        }
}

/* Worker @i ends i + 1 clocks of its own, tables early. */
static int unequal(struct mlt_worker *w, void *arg)
{
    float one[WIDTH] = {1};

    (void)arg;
    for (unsigned clock = 0; clock <= mlt_worker_index(w); clock++) {
        mlt_inc_row(w, 0, 7, one);
        if (mlt_clock_table(w, 0) || mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* Workers whose runs are of different lengths lose nothing. */
static void own_clock_workers_may_end_unequal_clocks(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "async"};

    (void)state;
    for (int m = 0; m < 3; m++)
        for (unsigned workers = 1; workers <= 4; workers++) {
            struct mlt_ps *ps =
                early_ps(workers, models[m], "add", MLT_OWN_CLOCK);

            fixture_run(ps, unequal, NULL, 0);
            assert_true(fixture_value(ps, 0, "a", 7, 0) ==
                        workers * (workers + 1) / 2.0);
            mlt_ps_free(ps);
        }
}

/* At its clock k a worker with staleness s (@arg) sees all updates of the
 * clocks below k - s, and none of clocks above k + s, whether tables end early
 * or not. */
static int count_clocks(struct mlt_worker *w, void *arg)
{
    unsigned staleness = *(const unsigned *)arg;
    float one[WIDTH] = {1};
    float n = (float)mlt_worker_count(w);

    for (unsigned clock = 0; clock < 40; clock++) {
        for (mlt_table t = 0; t < TABLES; t++) {
            const float *row = mlt_get_row(w, t, 5);
            float least =
                clock > staleness ? n * (float)(clock - staleness) : 0;

            if (!row || row[0] < least ||
                row[0] > n * (float)(clock + staleness + 1))
                return ERR_APP;
            mlt_inc_row(w, t, 5, one);
            if ((clock + t + mlt_worker_index(w)) % 3 && mlt_clock_table(w, t))
                return ERR_CANCELED;
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

static void own_clock_reads_are_as_fresh_as_promised(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp"};

    (void)state;
    for (int m = 0; m < 3; m++)
        for (unsigned s = 0; s <= (m ? 2 : 0); s += 2)
            for (unsigned workers = 1; workers <= 3; workers++) {
                struct mlt_ps *ps =
                    early_ps(workers, models[m], "add", MLT_OWN_CLOCK);

                assert_int_equal(mlt_ps_set_staleness(ps, s), 0);
                fixture_run(ps, count_clocks, &s, 0);
                mlt_ps_free(ps);
            }
}

/* Worker 0 ends the table's clock and its own only after worker 1, which has
 * no slack, has read the table a clock later. */
static int wait_for_reader(struct mlt_worker *w, void *arg)
{
    atomic_bool *has_read = arg;
    float one[WIDTH] = {1};
    const float *row;

    mlt_inc_row(w, 1, 0, one);
    if (mlt_clock_table(w, 1))
        return ERR_CANCELED;
    if (mlt_worker_index(w) == 0)
        while (!atomic_load(has_read))
            sched_yield();
    if (mlt_clock(w))
        return ERR_CANCELED;
    row = mlt_get_row(w, 1, 0);
    if (!row || row[0] != 2)
        return ERR_APP;
    atomic_store(has_read, true);
    return 0;
}

/* Early updates are seen early. */
static void own_clock_lets_readers_on_before_the_clock_ends(void **state)
{
    struct mlt_ps *ps = early_ps(2, "ssp", "add", MLT_OWN_CLOCK);
    atomic_bool has_read = false;

    (void)state;
    fixture_run(ps, wait_for_reader, &has_read, 0);
    mlt_ps_free(ps);
}

/* ---- misuse -------------------------------------------------------------- */

static void sink(void *says, enum log_level level, const char *line)
{
    (void)level;
    if (strstr(line, says))
        _exit(42);
}

static bool aborts(mlt_work *work, const char *model, const char *says)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct mlt_ps *ps = early_ps(2, model, "add", MLT_OWN_CLOCK);

        log_set_sink(sink, (void *)says);
        mlt_ps_run(ps, work, ps);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

static int end_twice(struct mlt_worker *w, void *arg)
{
    (void)arg;
    mlt_clock_table(w, 1);
    return mlt_clock_table(w, 1);
}

static int update_after_end(struct mlt_worker *w, void *arg)
{
    float one[WIDTH] = {1};

    (void)arg;
    mlt_clock_table(w, 1);
    mlt_inc_row(w, 1, 3, one);
    return mlt_clock(w);
}

static void own_clock_misuse_is_named(void **state)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "mine",
                                    .rows = 1,
                                    .width = 1,
                                    .access = MLT_LOCAL,
                                    .flags = MLT_OWN_CLOCK};
    struct mlt_ps *ps = fixture_ps(1, "bsp", "sgd");
    struct mlt_error err;
    mlt_table table;

    (void)state;
    assert_int_equal(mlt_ps_table(ps, &opt, &table, &err), ERR_INVAL);
    assert_non_null(strstr(err.text, "MLT_OWN_CLOCK needs a shared table"));
    mlt_ps_free(ps);
    assert_true(aborts(end_twice, "bsp", "table b: its clock was ended twice"));
    assert_true(aborts(end_twice, "ssp", "table b: its clock was ended twice"));
    assert_true(aborts(update_after_end, "ssp",
                       "table b: updated after its clock was ended"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_clock_under_bsp_changes_no_bit),
        cmocka_unit_test(own_clock_workers_may_end_unequal_clocks),
        cmocka_unit_test(own_clock_reads_are_as_fresh_as_promised),
        cmocka_unit_test(own_clock_lets_readers_on_before_the_clock_ends),
        cmocka_unit_test(own_clock_misuse_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
