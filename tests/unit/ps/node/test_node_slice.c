/* The account of a slice: clocks agreed on, windows summed, time divided. */
#include "base/mem.h"
#include "base/rng.h"
#include "ps/node/slice.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

enum { MS = 1000000 };

/* ---- driven by hand ------------------------------------------------------ */

/* One worker's clock of @work_ms, @wait_ms and @copy_ms, summing @sum over one
 * sample, on its own time line @t. */
static void run_clock(struct slice *s, unsigned w, struct slice_tick *t,
                      int work_ms, int wait_ms, int copy_ms, double sum)
{
    assert_true(slice_start_clock(s, w));
    t->now_ns += (int64_t)(work_ms + wait_ms + copy_ms) * MS;
    t->wait_ns += (uint64_t)wait_ms * MS;
    t->copy_ns += (uint64_t)copy_ms * MS;
    t->sum = sum;
    t->samples = 1;
    slice_end_clock(s, w, t);
}

static void check_window(const struct slice *s, uint32_t i, uint64_t clocks,
                         double sum, double seconds, double copy_s)
{
    const struct progress_window *w = slice_window(s, i);

    assert_int_equal(w->clocks, clocks);
    assert_int_equal(w->samples, clocks);
    assert_true(w->sum == sum);
    assert_true(fabs(w->seconds - seconds) < 1e-9);
    assert_true(fabs(w->copy_s - copy_s) < 1e-9);
}

/* Seven clocks in windows of three make windows of 3, 3 and 1; each holds the
 * sums and the time of its clocks, copying apart; none is complete early. */
static void slice_windows_hold_sums_and_time(void **state)
{
    struct slice_tick t = {.now_ns = 5000LL * MS, .wait_ns = 77, .copy_ns = 99};
    struct slice *s;
    int i;

    (void)state;
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 7, 3, true), ERR_OK);
    slice_enter(s, 0, &t);
    for (i = 0; i < 7; i++) {
        assert_int_equal(slice_windows(s), i / 3);
        run_clock(s, 0, &t, 10, 2, i == 4 ? 5 : 0, i);
    }
    assert_false(slice_start_clock(s, 0));
    assert_int_equal(slice_windows(s), 2);
    slice_leave(s, 0);
    assert_int_equal(slice_windows(s), 3);
    check_window(s, 0, 3, 0 + 1 + 2, 0.036, 0);
    check_window(s, 1, 3, 3 + 4 + 5, 0.036, 0.005);
    check_window(s, 2, 1, 6, 0.012, 0);
    assert_true(fabs(slice_window(s, 0)->wait_s - 0.006) < 1e-9);
    assert_int_equal(slice_clocks(s), 7);
    assert_int_equal(slice_began_ns(s), 5000LL * MS);
    assert_int_equal(slice_ended_ns(s), 5089LL * MS);
    slice_free(s);
}

/* The time before the last worker came is nobody's; the window's time ends with
 * the last worker; waiting is the mean over the workers. */
static void slice_time_runs_from_last_entry_to_last_end(void **state)
{
    struct slice_tick a = {.now_ns = 100LL * MS}, b = {.now_ns = 130LL * MS};
    struct slice *s;

    (void)state;
    assert_int_equal(slice_new(2, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 1, 1, true), ERR_OK);
    slice_enter(s, 0, &a);
    slice_enter(s, 1, &b);
    run_clock(s, 0, &a, 40, 20, 0, 1); /* ends at 160 */
    run_clock(s, 1, &b, 40, 0, 0, 2);  /* ends at 170 */
    slice_leave(s, 0);
    slice_leave(s, 1);
    assert_int_equal(slice_windows(s), 1);
    assert_true(fabs(slice_window(s, 0)->seconds - 0.040) < 1e-9);
    assert_true(fabs(slice_window(s, 0)->wait_s - 0.010) < 1e-9);
    assert_true(slice_window(s, 0)->sum == 3);
    assert_int_equal(slice_window(s, 0)->samples, 2);
    slice_free(s);
}

/* Where clocks are barriers, what is charged to copying is the slowest worker's
 * of each clock, summed; without barriers it is the largest of the window. */
static void slice_copying_is_the_slowest_workers(void **state)
{
    static const int copy[2][3] = {{5, 0, 1}, {0, 7, 2}};
    int barrier, c;

    (void)state;
    for (barrier = 0; barrier < 2; barrier++) {
        struct slice_tick t[2] = {{0}};
        struct slice *s;

        assert_int_equal(slice_new(2, &s), ERR_OK);
        assert_int_equal(slice_begin(s, 3, 3, barrier), ERR_OK);
        slice_enter(s, 0, &t[0]);
        slice_enter(s, 1, &t[1]);
        for (c = 0; c < 3; c++) {
            run_clock(s, 0, &t[0], 10, 0, copy[0][c], 0);
            run_clock(s, 1, &t[1], 10, 0, copy[1][c], 0);
        }
        assert_true(fabs(slice_window(s, 0)->copy_s -
                         (barrier ? 0.014 : 0.009)) < 1e-9);
        slice_free(s);
    }
}

/* A clock of which all but twenty-odd medians is a gap counts as stalled
 * beyond the median, and neither waiting nor a merely slow clock does. */
static void slice_stall_is_taken_out(void **state)
{
    struct slice_tick t = {0};
    struct slice *s;
    int i;

    (void)state;
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 40, 10, true), ERR_OK);
    slice_enter(s, 0, &t);
    for (i = 0; i < 40; i++)
        run_clock(s, 0, &t,
                  i == 15   ? 1000
                  : i == 25 ? 190
                            : 10,
                  i == 35 ? 1000 : 0, 0, 0);
    assert_true(slice_window(s, 0)->stalled_s == 0);
    assert_true(fabs(slice_window(s, 1)->stalled_s - 0.990) < 1e-9);
    assert_true(fabs(slice_window(s, 1)->seconds - 0.100) < 1e-9);
    assert_true(slice_window(s, 2)->stalled_s == 0);
    assert_true(fabs(slice_window(s, 2)->seconds - 0.280) < 1e-9);
    assert_true(slice_window(s, 3)->stalled_s == 0);
    assert_true(fabs(slice_window(s, 3)->seconds - 1.100) < 1e-9);
    slice_free(s);
}

/* The first clocks of a slice have nothing to be compared with: a long one is
 * no stall. */
static void slice_early_clocks_never_stall(void **state)
{
    struct slice_tick t = {0};
    struct slice *s;
    int i;

    (void)state;
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 5, 5, true), ERR_OK);
    slice_enter(s, 0, &t);
    for (i = 0; i < 5; i++)
        run_clock(s, 0, &t, i == 4 ? 5000 : 1, 0, 0, 0);
    assert_true(slice_window(s, 0)->stalled_s == 0);
    slice_free(s);
}

/* Against sorting by hand: whatever came before, the stall is the part beyond
 * the median of the last clocks. */
static void slice_median_is_of_the_last_clocks(void **state)
{
    struct slice_tick t = {0};
    int64_t seen[300];
    struct slice *s;
    struct rng r;
    int i, k, j;

    (void)state;
    rng_init(&r, 3);
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 300, 1, true), ERR_OK);
    slice_enter(s, 0, &t);
    for (i = 0; i < 300; i++) {
        int64_t last[SLICE_MEDIAN_CLOCKS], median = 0, stall;
        int n = i < SLICE_MEDIAN_CLOCKS ? i : SLICE_MEDIAN_CLOCKS;

        seen[i] = 1 + (int64_t)rng_below(&r, 5);
        if (rng_below(&r, 9) == 0)
            seen[i] *= 40;
        for (k = 0; k < n; k++) {
            int64_t x = seen[i - n + k];

            for (j = k; j > 0 && last[j - 1] > x; j--)
                last[j] = last[j - 1];
            last[j] = x;
        }
        if (n >= SLICE_MEDIAN_CLOCKS_MIN)
            median = last[n / 2];
        stall = median && seen[i] / SLICE_STALL_FACTOR * MS > median * MS
                    ? seen[i] - median
                    : 0;
        run_clock(s, 0, &t, (int)seen[i], 0, 0, 0);
        assert_true(fabs(slice_window(s, (uint32_t)i)->stalled_s -
                         (double)stall * 1e-3) < 1e-9);
    }
    slice_free(s);
}

/* Losses never make a window's time negative. */
static void slice_seconds_are_never_negative(void **state)
{
    struct slice_tick t = {0};
    struct slice *s;

    (void)state;
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 1, 1, true), ERR_OK);
    slice_enter(s, 0, &t);
    assert_true(slice_start_clock(s, 0));
    t.now_ns = 1 * MS;
    t.copy_ns = 2 * MS;
    slice_end_clock(s, 0, &t);
    slice_leave(s, 0);
    assert_true(slice_window(s, 0)->seconds == 0);
    slice_free(s);
}

/* A cut lets exactly those clocks run that somebody has started, in all
 * workers, and closes a window in its midst. */
static void slice_cut_ends_after_started_clocks(void **state)
{
    struct slice_tick t[2] = {{0}};
    struct slice *s;

    (void)state;
    assert_int_equal(slice_new(2, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 100, 4, false), ERR_OK);
    slice_enter(s, 0, &t[0]);
    slice_enter(s, 1, &t[1]);
    run_clock(s, 0, &t[0], 1, 0, 0, 1);
    run_clock(s, 0, &t[0], 1, 0, 0, 1);
    slice_cut(s);
    slice_cut(s);
    assert_false(slice_start_clock(s, 0));
    slice_leave(s, 0);
    run_clock(s, 1, &t[1], 1, 0, 0, 1);
    run_clock(s, 1, &t[1], 1, 0, 0, 1);
    assert_false(slice_start_clock(s, 1));
    assert_int_equal(slice_windows(s), 0);
    slice_leave(s, 1);
    assert_int_equal(slice_windows(s), 1);
    assert_int_equal(slice_window(s, 0)->clocks, 2);
    assert_int_equal(slice_window(s, 0)->samples, 4);
    assert_int_equal(slice_clocks(s), 2);
    slice_free(s);
}

/* A cut before the first clock leaves a slice of none, and the next slice knows
 * nothing of it. */
static void slice_cut_at_once_runs_nothing(void **state)
{
    struct slice_tick t = {0};
    struct slice *s;

    (void)state;
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 5, 1, true), ERR_OK);
    slice_cut(s);
    slice_enter(s, 0, &t);
    assert_false(slice_start_clock(s, 0));
    slice_leave(s, 0);
    assert_int_equal(slice_windows(s), 0);
    assert_int_equal(slice_clocks(s), 0);
    assert_int_equal(slice_began_ns(s), 0);
    assert_int_equal(slice_begin(s, 5, 1, true), ERR_OK);
    slice_enter(s, 0, &t);
    run_clock(s, 0, &t, 1, 0, 0, 1);
    assert_int_equal(slice_windows(s), 1);
    slice_free(s);
}

/* A held slice starts no clock until it is known how many there are; then all
 * workers run so many, also clocks that nobody here had started. */
static void slice_held_runs_as_many_as_it_is_told(void **state)
{
    struct slice_tick t[2] = {{0}};
    struct slice *s;

    (void)state;
    assert_int_equal(slice_new(2, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 100, 4, false), ERR_OK);
    slice_enter(s, 0, &t[0]);
    slice_enter(s, 1, &t[1]);
    run_clock(s, 0, &t[0], 1, 0, 0, 1);
    run_clock(s, 0, &t[0], 1, 0, 0, 1);
    assert_int_equal(slice_hold(s), 2);
    assert_int_equal(slice_start_clock(s, 0), SLICE_HELD);
    run_clock(s, 1, &t[1], 1, 0, 0, 1); /* started by the other */
    slice_release(s, 3);
    run_clock(s, 0, &t[0], 1, 0, 0, 1);
    assert_int_equal(slice_start_clock(s, 0), SLICE_OVER);
    slice_leave(s, 0);
    run_clock(s, 1, &t[1], 1, 0, 0, 1);
    run_clock(s, 1, &t[1], 1, 0, 0, 1);
    assert_int_equal(slice_start_clock(s, 1), SLICE_OVER);
    slice_leave(s, 1);
    assert_int_equal(slice_windows(s), 1);
    assert_int_equal(slice_clocks(s), 3);
    assert_int_equal(slice_begin(s, 2, 1, false), ERR_OK);
    assert_int_equal(slice_start_clock(s, 0), SLICE_RUN);
    assert_int_equal(slice_start_clock(s, 0), SLICE_RUN);
    assert_int_equal(slice_start_clock(s, 0), SLICE_OVER);
    slice_free(s);
}

/* More windows than a report may hold are refused, as many as it may are not.
 */
static void slice_too_many_windows_are_refused(void **state)
{
    struct slice *s;

    (void)state;
    assert_int_equal(slice_new(1, &s), ERR_OK);
    assert_int_equal(slice_begin(s, 1000, 1, true), ERR_OK);
    assert_int_equal(slice_begin(s, 1001, 1, true), ERR_INVAL);
    assert_int_equal(slice_begin(s, 10000, 10, true), ERR_OK);
    assert_int_equal(slice_begin(s, 10001, 10, true), ERR_INVAL);
    assert_int_equal(slice_begin(s, UINT64_MAX, 1, true), ERR_INVAL);
    assert_int_equal(slice_begin(s, UINT64_MAX, UINT64_MAX, true), ERR_OK);
    assert_int_equal(slice_begin(s, 0, 1, true), ERR_INVAL);
    assert_int_equal(slice_begin(s, 1, 0, true), ERR_INVAL);
    slice_free(s);
}

/* Whichever allocation fails, nothing is left. */
static void slice_new_may_run_out_of_memory(void **state)
{
    int64_t before = mem_outstanding();
    struct slice *s;
    int nth;

    (void)state;
    for (nth = 1;; nth++) {
        mem_fail_at(nth, 0);
        if (slice_new(2, &s) == ERR_OK)
            break;
        assert_int_equal(mem_outstanding(), before);
    }
    mem_fail_at(0, 0);
    assert_true(nth > 4);
    slice_free(s);
    slice_free(NULL);
    assert_int_equal(mem_outstanding(), before);
}

/* ---- driven by threads --------------------------------------------------- */

enum { THREADS = 4, CLOCKS = 2000, EVERY = 7 };

struct race {
    struct slice *s;
    pthread_barrier_t meet;
    bool barrier;
    _Atomic uint64_t ran[THREADS];
    unsigned cutter; /* which worker cuts, at which clock */
    uint64_t cut_at;
    bool failed;
};

struct racer {
    struct race *race;
    unsigned index;
};

static void *race_worker(void *arg)
{
    struct racer *me = arg;
    struct race *r = me->race;
    struct slice_tick t = {.sum = 1, .samples = 2};
    uint64_t c;

    slice_enter(r->s, me->index, &t);
    for (c = 0; slice_start_clock(r->s, me->index); c++) {
        if (me->index == r->cutter && c == r->cut_at)
            slice_cut(r->s);
        if (r->barrier)
            pthread_barrier_wait(&r->meet);
        t.now_ns++;
        slice_end_clock(r->s, me->index, &t);
    }
    slice_leave(r->s, me->index);
    atomic_store(&r->ran[me->index], c);
    return NULL;
}

static void race_once(struct race *r, unsigned cutter, uint64_t cut_at)
{
    struct racer racer[THREADS];
    pthread_t thread[THREADS];
    uint64_t clocks = 0, samples = 0;
    uint32_t i, windows;

    r->cutter = cutter;
    r->cut_at = cut_at;
    assert_int_equal(slice_begin(r->s, CLOCKS, EVERY, r->barrier), ERR_OK);
    for (i = 0; i < THREADS; i++) {
        racer[i] = (struct racer){r, i};
        pthread_create(&thread[i], NULL, race_worker, &racer[i]);
    }
    while ((windows = slice_windows(r->s)) == 0)
        ;
    assert_int_equal(slice_window(r->s, 0)->samples,
                     2 * THREADS * slice_window(r->s, 0)->clocks);
    for (i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (i = 1; i < THREADS; i++)
        assert_int_equal(r->ran[i], r->ran[0]);
    for (i = 0; i < slice_windows(r->s); i++) {
        clocks += slice_window(r->s, i)->clocks;
        samples += slice_window(r->s, i)->samples;
    }
    assert_int_equal(clocks, r->ran[0]);
    assert_int_equal(samples, 2 * THREADS * clocks);
    assert_int_equal(slice_clocks(r->s), clocks);
    assert_true(clocks > cut_at || clocks == CLOCKS);
}

/* However the threads run, with barriers and without, cut or not, all workers
 * run the same clocks and every clock is in one window. */
static void slice_threads_agree(void **state)
{
    struct race r = {0};
    struct rng rng;
    int i;

    (void)state;
    rng_init(&rng, 4);
    assert_int_equal(slice_new(THREADS, &r.s), ERR_OK);
    pthread_barrier_init(&r.meet, NULL, THREADS);
    for (i = 0; i < 12; i++) {
        r.barrier = i % 2;
        race_once(&r, (unsigned)rng_below(&rng, THREADS),
                  rng_below(&rng, i < 6 ? 300 : 2 * CLOCKS));
    }
    pthread_barrier_destroy(&r.meet);
    slice_free(r.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slice_windows_hold_sums_and_time),
        cmocka_unit_test(slice_time_runs_from_last_entry_to_last_end),
        cmocka_unit_test(slice_copying_is_the_slowest_workers),
        cmocka_unit_test(slice_stall_is_taken_out),
        cmocka_unit_test(slice_early_clocks_never_stall),
        cmocka_unit_test(slice_median_is_of_the_last_clocks),
        cmocka_unit_test(slice_seconds_are_never_negative),
        cmocka_unit_test(slice_cut_ends_after_started_clocks),
        cmocka_unit_test(slice_cut_at_once_runs_nothing),
        cmocka_unit_test(slice_held_runs_as_many_as_it_is_told),
        cmocka_unit_test(slice_too_many_windows_are_refused),
        cmocka_unit_test(slice_new_may_run_out_of_memory),
        cmocka_unit_test(slice_threads_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
