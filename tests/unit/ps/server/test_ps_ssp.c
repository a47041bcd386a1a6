#include "base/rng.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <stdatomic.h>

enum { ROWS = FIXTURE_ROWS, WIDTH = FIXTURE_WIDTH };

static const char *const models[] = {"ssp", "essp", "async", "barrier"};

static struct mlt_ps *counting_ps(unsigned workers, const char *model,
                                  unsigned staleness)
{
    struct mlt_ps *ps = fixture_ps(workers, model, "add");

    fixture_table(ps, "counts", MLT_I32, MLT_SHARED, 0);
    fixture_start(ps);
    assert_int_equal(mlt_ps_set_staleness(ps, staleness), 0);
    return ps;
}

/* Adds to rows in an order that the seed and the worker decide; each worker
 * adds 1 to each row 2 * CLOCKS times. */
enum { CLOCKS = 30 };

static int add_everywhere(struct mlt_worker *w, void *arg)
{
    int32_t one[WIDTH] = {1, 1, 1, 1, 1, 1, 1};
    struct perm order;

    (void)arg;
    for (int clock = 0; clock < CLOCKS; clock++) {
        perm_init(&order, ROWS, rng_mix(mlt_worker_index(w), clock));
        for (uint64_t i = 0; i < 2 * ROWS; i++)
            mlt_inc_row(w, 0, perm_at(&order, i % ROWS), one);
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* No update is lost or applied twice, with more threads than processors, and
 * while chunks are made private at the same time. */
static void ssp_integer_sums_are_exact(void **state)
{
    (void)state;
    for (int m = 0; m < 4; m++)
        for (unsigned workers = 1; workers <= 8; workers *= 2) {
            struct mlt_ps *ps = counting_ps(workers, models[m], 3);
            uint32_t child;

            fixture_run(ps, add_everywhere, NULL, 0);
            assert_int_equal(mlt_ps_fork(ps, 0, &child), 0);
            fixture_run(ps, add_everywhere, NULL, 0);
            for (uint64_t r = 0; r < ROWS; r++)
                for (uint32_t j = 0; j < WIDTH; j++) {
                    int n = (int)workers * 2 * CLOCKS;

                    assert_int_equal((int)fixture_value(ps, 0, "counts", r, j),
                                     2 * n);
                    assert_int_equal(
                        (int)fixture_value(ps, child, "counts", r, j), n);
                }
            mlt_ps_free(ps);
        }
}

/* Each worker has a column: of its own it reads all that it has added, each
 * update once, in whatever clock that was. */
static int read_own(struct mlt_worker *w, void *arg)
{
    unsigned self = mlt_worker_index(w);
    int32_t one[WIDTH] = {0}, added[ROWS] = {0};

    (void)arg;
    one[self] = 1;
    for (int clock = 0; clock < CLOCKS; clock++) {
        for (uint64_t r = 0; r < ROWS; r++) {
            const int32_t *x =
                r % 3 && (int)(r % 5) > clock % 5 ? NULL : mlt_get_row(w, 0, r);

            if (x && x[self] != added[r])
                return ERR_APP;
            for (int i = 0; i < 2 && r % 4; i++) {
                mlt_inc_row(w, 0, r, one);
                added[r]++;
                x = mlt_get_row(w, 0, r);
                if (!x || x[self] != added[r])
                    return x ? ERR_INVAL : ERR_CANCELED;
            }
        }
        if (clock % 4 == 2 && mlt_clock_table(w, 0))
            return ERR_CANCELED;
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* MLT_READ_MY_WRITES under every model, whatever copies a worker keeps; in a
 * second slice too, of a branch as it was before the first. */
static void ssp_reads_hold_all_own_updates(void **state)
{
    (void)state;
    for (int m = 0; m < 4; m++)
        for (unsigned workers = 1; workers <= 4; workers += 3)
            for (int own_clock = 0; own_clock < 2; own_clock++) {
                struct mlt_ps *ps = fixture_ps(workers, models[m], "add");
                uint32_t child;

                fixture_table(ps, "counts", MLT_I32, MLT_SHARED,
                              MLT_READ_MY_WRITES |
                                  (own_clock ? MLT_OWN_CLOCK : 0u));
                fixture_start(ps);
                assert_int_equal(mlt_ps_set_staleness(ps, 3), 0);
                assert_int_equal(mlt_ps_fork(ps, 0, &child), 0);
                fixture_run(ps, read_own, NULL, 0);
                assert_int_equal(mlt_ps_switch(ps, child), 0);
                fixture_run(ps, read_own, NULL, 0);
                mlt_ps_free(ps);
            }
}

enum { CHUNKS = 1024, CHUNK_ROWS = 4, CHUNK_WIDTH = 4 };

/* Writes to every fourth chunk, whosever it is. */
static int add_to_some_chunks(struct mlt_worker *w, void *arg)
{
    int32_t one[CHUNK_WIDTH] = {1};

    (void)arg;
    for (uint64_t c = mlt_worker_index(w); c < CHUNKS; c += 4)
        mlt_inc_row(w, 0, c * CHUNK_ROWS, one);
    return mlt_clock(w);
}

/* Several workers make different chunks of one shard private at the same time,
 * after every fork anew. */
static void ssp_chunks_of_a_shard_are_copied_one_at_a_time(void **state)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "chunks",
                                      .rows = CHUNKS * CHUNK_ROWS,
                                      .width = CHUNK_WIDTH,
                                      .type = MLT_I32,
                                      .chunk_bytes =
                                          CHUNK_ROWS * CHUNK_WIDTH * 4};
    struct mlt_ps *ps = fixture_ps(4, "ssp", "add");
    uint32_t child;
    mlt_table t;

    (void)state;
    assert_int_equal(mlt_ps_table(ps, &table, &t, NULL), 0);
    fixture_start(ps);
    for (int i = 1; i <= 40; i++) {
        fixture_run(ps, add_to_some_chunks, NULL, 0);
        for (uint64_t c = 0; c < CHUNKS; c++)
            assert_int_equal((int)fixture_value(ps, ps_active(ps), "chunks",
                                                c * CHUNK_ROWS, 0),
                             i);
        assert_int_equal(mlt_ps_fork(ps, ps_active(ps), &child), 0);
        assert_int_equal(mlt_ps_switch(ps, child), 0);
        if (i > 2)
            assert_int_equal(mlt_ps_drop(ps, child - 2), 0);
    }
    mlt_ps_free(ps);
}

/* Row w counts the clocks of worker w; every reader checks every row against
 * its own clock. */
static int check_bound(struct mlt_worker *w, void *arg)
{
    int32_t one[WIDTH] = {1};
    int staleness = *(const int *)arg;

    for (int clock = 0; clock < 200; clock++) {
        for (unsigned other = 0; other < mlt_worker_count(w); other++) {
            const int32_t *row = mlt_get_row(w, 0, other);

            if (!row)
                return ERR_CANCELED;
            if (row[0] < clock - staleness)
                return ERR_APP;
        }
        mlt_inc_row(w, 0, mlt_worker_index(w), one);
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* At branch clock k a read holds all updates of clocks < k - staleness, in a
 * first slice and in later ones, whose clocks begin anew. */
static void ssp_no_read_is_staler_than_its_bound(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++)
        for (int staleness = 0; staleness < 4; staleness++) {
            struct mlt_ps *ps = counting_ps(4, models[m], (unsigned)staleness);

            for (int slice = 0; slice < 2; slice++)
                fixture_run(ps, check_bound, &staleness, 0);
            mlt_ps_free(ps);
        }
}

struct lead {
    int staleness;
    _Atomic int fast_clock; /* that worker 0 has reached */
};

/* Worker 1 begins its first clock only when worker 0 has gone ahead as far as
 * it may; a read of worker 0 beyond that must find worker 1's first update. */
static int run_ahead(struct mlt_worker *w, void *arg)
{
    int32_t one[WIDTH] = {1};
    struct lead *lead = arg;
    const int32_t *row;

    if (mlt_worker_index(w) == 1) {
        while (lead->fast_clock < lead->staleness)
            ;
        mlt_inc_row(w, 0, 0, one);
        return mlt_clock(w);
    }
    for (int clock = 0; clock <= lead->staleness; clock++) {
        lead->fast_clock = clock;
        row = mlt_get_row(w, 0, 0);
        if (!row)
            return ERR_CANCELED;
        if (clock == 0 && row[0] != 0)
            return ERR_APP;
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    row = mlt_get_row(w, 0, 0);
    return row && row[0] == 1 ? 0 : ERR_APP;
}

/* A worker runs `staleness` clocks ahead without waiting, and waits then. */
static void ssp_runs_ahead_by_its_staleness_and_waits(void **state)
{
    (void)state;
    for (int staleness = 1; staleness < 5; staleness++) {
        struct mlt_ps *ps = counting_ps(2, "ssp", (unsigned)staleness);
        struct lead lead = {staleness, 0};

        fixture_run(ps, run_ahead, &lead, 0);
        mlt_ps_free(ps);
    }
}

/* Worker 0 runs through all its clocks before worker 1 does anything. */
static int never_wait(struct mlt_worker *w, void *arg)
{
    _Atomic int *done = arg;

    if (mlt_worker_index(w) == 1)
        while (!*done)
            ;
    for (int clock = 0; clock < 50; clock++)
        if (!mlt_get_row(w, 0, 0) || mlt_clock(w))
            return ERR_CANCELED;
    *done = 1;
    return 0;
}

/* async never waits for anybody. */
static void async_never_waits_for_others(void **state)
{
    struct mlt_ps *ps = counting_ps(2, "async", 0);
    _Atomic int done = 0;

    (void)state;
    fixture_run(ps, never_wait, &done, 0);
    mlt_ps_free(ps);
}

/* Workers 0 and 1 run through all their clocks before worker 2 does anything.
 */
static int without_the_third(struct mlt_worker *w, void *arg)
{
    _Atomic int *done = arg;

    if (mlt_worker_index(w) == 2)
        while (*done < 2)
            ;
    for (int clock = 0; clock < 50; clock++)
        if (!mlt_get_row(w, 0, 0) || mlt_clock(w))
            return ERR_CANCELED;
    ++*done;
    return 0;
}

/* barrier waits for half of the workers only. */
static void barrier_does_not_wait_for_the_third(void **state)
{
    struct mlt_ps *ps = counting_ps(3, "barrier", 0);
    _Atomic int done = 0;

    (void)state;
    fixture_run(ps, without_the_third, &done, 0);
    mlt_ps_free(ps);
}

/* Every update changes all values of a row alike. */
static int check_whole_rows(struct mlt_worker *w, void *arg)
{
    struct rng rng;

    (void)arg;
    rng_init(&rng, mlt_worker_index(w));
    for (int clock = 0; clock < 300; clock++) {
        for (int i = 0; i < 10; i++) {
            uint64_t r = rng_below(&rng, 3);
            int32_t x = (int32_t)rng_below(&rng, 100), delta[WIDTH];
            const int32_t *row = mlt_get_row(w, 0, r);

            if (!row)
                return ERR_CANCELED;
            for (int j = 0; j < WIDTH; j++) {
                if (row[j] != row[0])
                    return ERR_APP;
                delta[j] = x;
            }
            mlt_inc_row(w, 0, r, delta);
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* A row that is read while others write it is never torn. */
static void ssp_rows_are_never_torn(void **state)
{
    (void)state;
    for (int m = 0; m < 4; m++) {
        struct mlt_ps *ps = counting_ps(4, models[m], 5);

        fixture_run(ps, check_whole_rows, NULL, 0);
        mlt_ps_free(ps);
    }
}

static int read_and_compare(struct mlt_worker *w, void *arg)
{
    const int32_t *want = arg;
    const int32_t *row = mlt_get_row(w, 0, 9);

    if (!row)
        return ERR_CANCELED;
    return row[0] == *want ? 0 : ERR_APP;
}

static int add_one(struct mlt_worker *w, void *arg)
{
    int32_t one[WIDTH] = {1};

    (void)arg;
    mlt_inc_row(w, 0, 9, one);
    return mlt_clock(w);
}

/* A copy taken in one slice or branch is not read in another, nor after the
 * control thread wrote the row, however large the staleness. */
static void ssp_copies_do_not_outlive_a_slice(void **state)
{
    struct mlt_ps *ps = counting_ps(2, "ssp", 100);
    double delta[WIDTH] = {40};
    int32_t want = 0;
    uint32_t child;

    (void)state;
    assert_int_equal(mlt_ps_fork(ps, 0, &child), 0);
    for (; want < 6; want += 2) {
        fixture_run(ps, read_and_compare, &want, 0);
        fixture_run(ps, add_one, NULL, 0);
    }
    assert_int_equal(mlt_ps_switch(ps, child), 0);
    want = 0;
    fixture_run(ps, read_and_compare, &want, 0);
    assert_int_equal(ps_inc_rows(ps, child, "counts", 9, 1, delta), ERR_OK);
    want = 40;
    fixture_run(ps, read_and_compare, &want, 0);
    mlt_ps_free(ps);
}

/* Gradients of a linear loss: sums of all workers, in some order. */
static int add_constants(struct mlt_worker *w, void *arg)
{
    float g[WIDTH] = {1, 2, 4, 8, 16, 32, 64};

    (void)arg;
    for (int clock = 0; clock < 10; clock++) {
        for (uint64_t r = 0; r < ROWS; r++)
            mlt_inc_row(w, 0, r, g);
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

/* Under ssp a rule is applied once per worker's sum: plain sgd of a constant
 * gradient moves by learning rate times gradient, once a worker and clock. */
static void ssp_rule_is_applied_once_per_workers_sum(void **state)
{
    struct mlt_ps *ps = fixture_ps(3, "ssp", "sgd");

    (void)state;
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, MLT_NO_MOMENTUM);
    fixture_start(ps);
    assert_int_equal(mlt_ps_set_learning_rate(ps, 0.5), 0);
    fixture_run(ps, add_constants, NULL, 0);
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint32_t j = 0; j < WIDTH; j++)
            assert_true(fixture_value(ps, 0, "weights", r, j) ==
                        -0.5 * 30 * (1 << j));
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ssp_integer_sums_are_exact),
        cmocka_unit_test(ssp_reads_hold_all_own_updates),
        cmocka_unit_test(ssp_chunks_of_a_shard_are_copied_one_at_a_time),
        cmocka_unit_test(ssp_no_read_is_staler_than_its_bound),
        cmocka_unit_test(ssp_runs_ahead_by_its_staleness_and_waits),
        cmocka_unit_test(async_never_waits_for_others),
        cmocka_unit_test(barrier_does_not_wait_for_the_third),
        cmocka_unit_test(ssp_rows_are_never_torn),
        cmocka_unit_test(ssp_copies_do_not_outlive_a_slice),
        cmocka_unit_test(ssp_rule_is_applied_once_per_workers_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
