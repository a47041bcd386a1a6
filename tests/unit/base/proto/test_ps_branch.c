#include "base/mem.h"
#include "ps/disk/model_io.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#include <stdio.h>
#include <unistd.h>

enum { ROWS = FIXTURE_ROWS, WIDTH = FIXTURE_WIDTH };

/* A child that runs the clocks its parent runs becomes what the parent becomes,
 * to the bit: values, slots and local state are all forked; and while one runs
 * the other does not change. */
static void fork_carries_all_state_and_isolates_it(void **state)
{
    static struct fixture_state at_fork, parent, child;

    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct mlt_ps *ps = fixture_full_ps(workers, "bsp");

        fixture_clocks(ps, 0, 5);
        fixture_state(ps, 0, &at_fork);
        assert_int_equal(ps_fork(ps, 7, 0, BRANCH_TRAINING), ERR_OK);
        fixture_state(ps, 7, &child);
        assert_memory_equal(&at_fork, &child, sizeof(child));
        fixture_clocks(ps, 0, 9);
        fixture_state(ps, 7, &child);
        assert_memory_equal(&at_fork, &child, sizeof(child));
        fixture_state(ps, 0, &parent);
        assert_memory_not_equal(&at_fork, &parent, sizeof(parent));
        fixture_clocks(ps, 7, 9);
        fixture_state(ps, 7, &child);
        assert_memory_equal(&parent, &child, sizeof(child));
        mlt_ps_free(ps);
    }
}

/* Slices of two branches in turn end as if each had run alone. */
static void branches_in_turn_equal_branches_alone(void **state)
{
    static struct fixture_state alone, in_turn;
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");

    (void)state;
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    fixture_clocks(ps, 1, 12);
    fixture_state(ps, 1, &alone);
    assert_int_equal(ps_fork(ps, 2, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_fork(ps, 3, 0, BRANCH_PROBE), ERR_OK);
    for (int i = 0; i < 4; i++) {
        fixture_clocks(ps, 2, 3);
        fixture_clocks(ps, 3, 2);
        if (i == 1)
            assert_int_equal(ps_drop(ps, 0), ERR_OK);
    }
    fixture_state(ps, 2, &in_turn);
    assert_memory_equal(&alone, &in_turn, sizeof(alone));
    mlt_ps_free(ps);
}

/* A fork of the active branch between two runs does not disturb it, nor does
 * the active branch's going on disturb the fork. */
static void fork_of_active_branch_stays_as_it_was(void **state)
{
    static struct fixture_state kept, later;

    (void)state;
    for (int model = 0; model < 2; model++) {
        struct mlt_ps *ps = fixture_full_ps(3, model ? "ssp" : "bsp");
        int n = 4;

        fixture_run(ps, fixture_clock_work, &n, 0);
        assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TRAINING), ERR_OK);
        fixture_run(ps, fixture_clock_work, &n, 0);
        assert_int_equal(ps_fork(ps, 2, 1, BRANCH_TRAINING), ERR_OK);
        fixture_state(ps, 1, &kept);
        fixture_clocks(ps, 2, 3);
        fixture_state(ps, 1, &later);
        assert_memory_equal(&kept, &later, sizeof(kept));
        assert_int_equal(kept.counter[1], 4);
        mlt_ps_free(ps);
    }
}

static int check_same_rows(struct mlt_worker *w, void *arg)
{
    const struct fixture_state *s = arg;

    for (uint64_t r = 0; r < ROWS; r++) {
        const float *row = mlt_get_row(w, FIXTURE_SHARED, r);

        for (int j = 0; j < WIDTH; j++)
            if ((double)row[j] != s->weights[r * WIDTH + (uint64_t)j])
                return ERR_APP;
        row = mlt_get_row(w, FIXTURE_EXCLUSIVE, r);
        if ((double)row[0] != s->users[r * WIDTH])
            return ERR_APP;
    }
    return 0;
}

static int check_row_stays_in_place(struct mlt_worker *w, void *arg)
{
    uint64_t first, count, rows[2];
    float delta[2 * FIXTURE_WIDTH] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const void *batch[2];
    const float *row;
    float before;

    (void)arg;
    mlt_owned_rows(ps_worker_user(w), FIXTURE_EXCLUSIVE, mlt_worker_index(w),
                   &first, &count);
    rows[0] = first;
    rows[1] = first + count - 1;
    row = mlt_get_row(w, FIXTURE_EXCLUSIVE, first);
    if (mlt_get_rows(w, FIXTURE_EXCLUSIVE, 2, rows, batch))
        return ERR_CANCELED;
    before = row[0];
    mlt_inc_rows(w, FIXTURE_EXCLUSIVE, 2, rows, delta);
    if (row[0] == before || batch[0] != row ||
        batch[1] != mlt_get_row(w, FIXTURE_EXCLUSIVE, rows[1]) ||
        (const void *)mlt_row(w, FIXTURE_EXCLUSIVE, first) != row)
        return ERR_APP;
    return mlt_clock(w);
}

/* A pointer to an own exclusive row, taken in a fresh fork, is the row's place
 * also after an update: reading it again sees the update, as it does where the
 * chunk was private all along. */
static void exclusive_row_stays_in_place_in_a_fork(void **state)
{
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");

    (void)state;
    fixture_clocks(ps, 0, 2);
    for (branch_id child = 1; child < 4; child++) {
        assert_int_equal(ps_fork(ps, child, 0, BRANCH_PROBE), ERR_OK);
        assert_int_equal(ps_activate(ps, child), ERR_OK);
        fixture_run(ps, check_row_stays_in_place, NULL, 0);
        fixture_run(ps, check_row_stays_in_place, NULL, 0);
    }
    mlt_ps_free(ps);
}

/* Reading in a testing branch, others' rows included, copies nothing. */
static void testing_branch_that_reads_copies_nothing(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");
    struct store_stats before, after;

    (void)state;
    fixture_clocks(ps, 0, 3);
    fixture_state(ps, 0, &s);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TESTING), ERR_OK);
    assert_int_equal(ps_activate(ps, 1), ERR_OK);
    ps_stats(ps, &before);
    fixture_run(ps, check_same_rows, &s, 0);
    ps_stats(ps, &after);
    assert_int_equal(before.chunks_copied, after.chunks_copied);
    mlt_ps_free(ps);
}

/* A kept branch can be made active and read by all workers. */
static void kept_branch_is_read_by_workers(void **state)
{
    static struct fixture_state s;
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");

    (void)state;
    fixture_clocks(ps, 0, 3);
    fixture_state(ps, 0, &s);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_KEPT), ERR_OK);
    fixture_clocks(ps, 0, 3);
    assert_int_equal(ps_activate(ps, 1), ERR_OK);
    fixture_run(ps, check_same_rows, &s, 0);
    mlt_ps_free(ps);
}

/* Operations on branches that are not there, or are, fail and change nothing.
 */
static void branch_operations_refuse_wrong_ids(void **state)
{
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");
    struct store_stats before, after;
    uint32_t child = 99;
    int none = 0;

    (void)state;
    ps_stats(ps, &before);
    assert_int_equal(ps_fork(ps, 1, 5, BRANCH_TRAINING), ERR_NOENT);
    assert_int_equal(ps_fork(ps, 0, 0, BRANCH_TRAINING), ERR_EXIST);
    assert_int_equal(ps_fork(ps, BRANCH_NONE, 0, BRANCH_TRAINING), ERR_INVAL);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TYPE_COUNT), ERR_INVAL);
    assert_int_equal(ps_drop(ps, 5), ERR_NOENT);
    assert_int_equal(ps_activate(ps, 5), ERR_NOENT);
    assert_int_equal(mlt_ps_fork(ps, 5, &child), ERR_NOENT);
    assert_int_equal(child, 99);
    ps_stats(ps, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(ps_active(ps), 0);
    assert_int_equal(ps_drop(ps, 0), ERR_OK);
    assert_int_equal(ps_active(ps), BRANCH_NONE);
    assert_int_equal(mlt_ps_run(ps, fixture_clock_work, &none), ERR_INVAL);
    mlt_ps_free(ps);
}

/* Numbers that mlt_ps_fork gives never meet those that others chose. */
static void fork_numbers_do_not_meet(void **state)
{
    struct mlt_ps *ps = fixture_full_ps(1, "bsp");
    uint32_t a, b;

    (void)state;
    assert_int_equal(mlt_ps_fork(ps, 0, &a), 0);
    assert_int_equal(ps_fork(ps, 40, a, BRANCH_KEPT), ERR_OK);
    assert_int_equal(mlt_ps_fork(ps, 40, &b), 0);
    assert_int_equal(a, 1);
    assert_int_equal(b, 41);
    mlt_ps_free(ps);
}

/* Forks are refused when the limit is reached, in all shards or none; what
 * lives goes on, and a drop makes room again. */
static void fork_beyond_the_limit_changes_nothing(void **state)
{
    static struct fixture_state before, after;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps;
    struct mlt_error err;
    struct store_stats s1, s2;
    branch_id id = 1;

    (void)state;
    opt.workers = 3;
    opt.memory_limit = 512 << 10;
    assert_int_equal(mlt_ps_new(&opt, &ps, &err), 0);
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_table(ps, "users", MLT_F32, MLT_EXCLUSIVE, 0);
    fixture_table(ps, "counter", MLT_I32, MLT_LOCAL, 0);
    fixture_start(ps);
    fixture_clocks(ps, 0, 2);
    fixture_state(ps, 0, &before);
    while (ps_fork(ps, id, 0, BRANCH_TRAINING) == ERR_OK)
        id++;
    assert_in_range(id, 3, 100);
    ps_stats(ps, &s1);
    assert_int_equal(ps_fork(ps, id, 0, BRANCH_TRAINING), ERR_LIMIT);
    assert_false(ps_has(ps, id));
    ps_stats(ps, &s2);
    assert_memory_equal(&s1, &s2, sizeof(s1));
    assert_true(s1.reserved_bytes <= ps_limit_bytes(ps));
    for (branch_id i = 1; i < id; i++)
        fixture_clocks(ps, i, 2);
    fixture_state(ps, 0, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(ps_drop(ps, 1), ERR_OK);
    assert_int_equal(ps_fork(ps, id, 0, BRANCH_TRAINING), ERR_OK);
    mlt_ps_free(ps);
}

/* Every allocation of a fork that fails leaves all shards without the child. */
static void fork_any_failing_allocation_changes_nothing(void **state)
{
    struct mlt_ps *ps = fixture_full_ps(3, "bsp");
    struct store_stats before, after;
    bool failed;
    int n = 0;

    (void)state;
    do {
        enum err err;

        ps_stats(ps, &before);
        mem_fail_at(++n, 0);
        err = ps_fork(ps, 1, 0, BRANCH_TRAINING);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        assert_int_equal(ps_has(ps, 1), !failed);
        if (failed) {
            ps_stats(ps, &after);
            assert_int_equal(before.branches, after.branches);
            assert_int_equal(before.reserved_bytes, after.reserved_bytes);
        }
    } while (failed);
    fixture_clocks(ps, 1, 2);
    mlt_ps_free(ps);
}

/* ---- rows from the control thread ---------------------------------------- */

/* Rows of any branch are read and incremented by name, the active branch and
 * its siblings untouched by what happens to another. */
static void rows_of_any_branch_are_read_and_incremented(void **state)
{
    static struct fixture_state before, after;
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");
    double rows[2 * WIDTH], delta[2 * WIDTH];

    (void)state;
    fixture_clocks(ps, 0, 3);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_fork(ps, 2, 0, BRANCH_KEPT), ERR_OK);
    fixture_state(ps, 0, &before);
    for (int j = 0; j < 2 * WIDTH; j++)
        delta[j] = 1;
    assert_int_equal(ps_set_momentum(ps, 0), ERR_OK);
    assert_int_equal(ps_set_learning_rate(ps, 0.5), ERR_OK);
    assert_int_equal(ps_inc_rows(ps, 1, "weights", 149, 2, delta), ERR_OK);
    assert_int_equal(ps_active(ps), 0);
    assert_int_equal(rows_read_whole(ps, 1, "weights", 149, 2, rows), ERR_OK);
    for (int j = 0; j < 2 * WIDTH; j++)
        assert_true((float)rows[j] ==
                    (float)before.weights[149 * WIDTH + j] - 0.5f);
    fixture_state(ps, 0, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(ps_inc_rows(ps, 2, "weights", 0, 1, delta), ERR_INVAL);
    mlt_ps_free(ps);
}

/* Unreadable and unwritable values are refused by code. */
static void rows_refuse_what_is_not_there(void **state)
{
    struct mlt_ps *ps = fixture_full_ps(2, "bsp");
    double out[WIDTH], half[WIDTH] = {0.5}, huge[WIDTH] = {3e9};

    (void)state;
    assert_int_equal(rows_read_whole(ps, 9, "weights", 0, 1, out), ERR_NOENT);
    assert_int_equal(rows_read_whole(ps, 0, "nothing", 0, 1, out), ERR_NOENT);
    assert_int_equal(rows_read_whole(ps, 0, "weights", ROWS, 1, out),
                     ERR_INVAL);
    assert_int_equal(rows_read_whole(ps, 0, "weights", 0, ROWS + 1, out),
                     ERR_INVAL);
    assert_int_equal(rows_read_whole(ps, 0, "weights", UINT64_MAX, 2, out),
                     ERR_INVAL);
    assert_int_equal(rows_read_whole(ps, 0, "counter", 0, 1, out),
                     ERR_UNSUPPORTED);
    mlt_ps_free(ps);
    ps = fixture_ps(1, "bsp", "add");
    fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
    fixture_start(ps);
    assert_int_equal(ps_inc_rows(ps, 0, "counts", 0, 1, half), ERR_INVAL);
    assert_int_equal(ps_inc_rows(ps, 0, "counts", 0, 1, huge), ERR_INVAL);
    mlt_ps_free(ps);
}

/* ---- saved models -------------------------------------------------------- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_ps_branch-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(in_folder("weights.npy"));
    unlink(in_folder("users.npy"));
    return rmdir(folder);
}

/* A saved branch is loaded by a server with another number of workers, value
 * for value, with slots like new; local tables are no part of the model. */
static void model_saved_is_loaded_again(void **state)
{
    double delta[WIDTH] = {1};
    static struct fixture_state saved, loaded;
    struct mlt_ps *ps = fixture_full_ps(3, "bsp");
    struct fault f;
    uint64_t bytes;

    (void)state;
    fixture_clocks(ps, 0, 4);
    fixture_state(ps, 0, &saved);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_KEPT), ERR_OK);
    fixture_clocks(ps, 0, 4);
    assert_int_equal(ps_save(ps, 1, folder, &bytes, &f), ERR_OK);
    assert_true(bytes > 2 * ROWS * WIDTH * 4);
    assert_int_equal(access(in_folder("counter.npy"), F_OK), -1);
    mlt_ps_free(ps);
    ps = fixture_full_ps(2, "bsp");
    fixture_clocks(ps, 0, 1);
    assert_int_equal(ps_load(ps, folder, &f), ERR_OK);
    fixture_state(ps, 0, &loaded);
    assert_memory_equal(saved.weights, loaded.weights, sizeof(saved.weights));
    assert_memory_equal(saved.users, loaded.users, sizeof(saved.users));
    assert_int_equal(ps_inc_rows(ps, 0, "weights", 3, 1, delta), ERR_OK);
    assert_true((float)fixture_value(ps, 0, "weights", 3, 0) ==
                (float)saved.weights[3 * WIDTH] - 0.1f * 0.5f);
    mlt_ps_free(ps);
}

/* A model of another shape, or with a file missing, is refused with the file's
 * name, and so is a folder that cannot be written to. */
static void model_that_does_not_fit_is_refused(void **state)
{
    struct mlt_ps *ps = fixture_full_ps(1, "bsp");
    struct fault f;
    struct mlt_error err;

    (void)state;
    assert_int_equal(mlt_ps_save(ps, folder, &err), 0);
    mlt_ps_free(ps);
    ps = fixture_ps(1, "bsp", "add");
    fixture_table(ps, "weights", MLT_F64, MLT_SHARED, 0);
    fixture_table(ps, "missing", MLT_F64, MLT_SHARED, MLT_NOT_SAVED);
    fixture_start(ps);
    assert_int_equal(ps_load(ps, folder, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "weights.npy"));
    assert_non_null(strstr(f.text, "float64"));
    unlink(in_folder("weights.npy"));
    assert_int_equal(ps_load(ps, folder, &f), ERR_IO);
    assert_non_null(strstr(f.text, "weights.npy"));
    assert_int_equal(mlt_ps_save(ps, "/nowhere", &err), ERR_IO);
    assert_non_null(strstr(err.text, "/nowhere/weights.npy"));
    assert_int_equal(ps_save(ps, 3, folder, NULL, &f), ERR_NOENT);
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_carries_all_state_and_isolates_it),
        cmocka_unit_test(branches_in_turn_equal_branches_alone),
        cmocka_unit_test(fork_of_active_branch_stays_as_it_was),
        cmocka_unit_test(kept_branch_is_read_by_workers),
        cmocka_unit_test(exclusive_row_stays_in_place_in_a_fork),
        cmocka_unit_test(testing_branch_that_reads_copies_nothing),
        cmocka_unit_test(branch_operations_refuse_wrong_ids),
        cmocka_unit_test(fork_numbers_do_not_meet),
        cmocka_unit_test(fork_beyond_the_limit_changes_nothing),
        cmocka_unit_test(fork_any_failing_allocation_changes_nothing),
        cmocka_unit_test(rows_of_any_branch_are_read_and_incremented),
        cmocka_unit_test(rows_refuse_what_is_not_there),
        cmocka_unit_test(model_saved_is_loaded_again),
        cmocka_unit_test(model_that_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
