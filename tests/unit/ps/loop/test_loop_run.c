/* Random loops on the workers of a real server, against a serial run. */
#include "base/mem.h"
#include "mltune/loop.h"
#include "ps/loop/loop_internal.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_fixture.h"
#include "tests/unit/fixture/loop_job.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 60 }; /* less of the same: it is slow */
#else
enum { SEEDS = 600 };
#endif

enum { BRANCH = 1 };

/* ---- random loops, against a serial run ---------------------------------- */

struct job {
    struct loop_job j;
    mlt_table table[LOOP_RANDOM_TABLES];
};

static struct mlt_ps *start_job(struct job *job, const char *model)
{
    struct mlt_ps *ps = fixture_ps(job->j.r.workers, model, "sgd");

    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        job->table[t] = loop_job_table(&job->j, ps, t);
    fixture_start(ps);
    return ps;
}

/* ---- a pass in steps ----------------------------------------------------- */

struct steps {
    struct job *job;
    struct mlt_loop *loop;
    unsigned turn; /* steps from here on, and round: where any order will do */
    double total[2];
};

static void take_totals(struct steps *s)
{
    if (s->job->j.no_totals)
        return;
    s->total[0] += mlt_loop_total(s->loop, 0);
    s->total[1] = loop_job_larger(s->total[1], mlt_loop_total(s->loop, 1));
}

/* Every second one as the last thing in its clock. */
static int run_steps(struct mlt_worker *w, void *arg)
{
    struct steps *s = arg;
    unsigned n = mlt_loop_steps(s->loop);
    int err = 0;

    for (unsigned i = 0; i < n && !err; i++) {
        unsigned step = (i + s->turn) % n;

        err = (i % 2 ? mlt_loop_last_step : mlt_loop_step)(
            w, s->loop, step, loop_job_body, &s->job->j);
        if (mlt_worker_index(w) == 0)
            take_totals(s);
        if (!err)
            err = mlt_clock(w);
    }
    return err;
}

static void check_totals(const struct loop_nest *n, double sum, double largest)
{
    double iterations = (double)n->iterations;

    assert_true(sum == iterations * (iterations - 1) / 2);
    assert_true(largest == iterations - 1);
}

/* As an application's clocks do it: in an order of the caller's, but for a
 * wavefront. */
static void pass_in_steps(struct job *job, struct mlt_loop *loop, uint64_t seed)
{
    const struct loop_nest *n = &job->j.r.nest;
    struct steps s = {job, loop, 0, {0, -1}};

    if (!plan_is_wavefront(&loop->plan))
        s.turn = (unsigned)(seed % mlt_loop_steps(loop));
    assert_int_equal(mlt_ps_run(loop->ps, run_steps, &s), 0);
    if (!job->j.no_totals)
        check_totals(n, s.total[0], s.total[1]);
}

/* ---- against the serial run ---------------------------------------------- */

static void compare(struct job *job, struct mlt_ps *ps, uint64_t seed)
{
    static double values[LOOP_RANDOM_ROWS * LOOP_FIXTURE_WIDTH];

    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++) {
        uint64_t rows = loop_job_rows(t);

        assert_int_equal(rows_read_whole(ps, ps_active(ps), loop_job_name(t), 0,
                                         rows, values),
                         ERR_OK);
        for (uint64_t i = 0; i < rows * LOOP_FIXTURE_WIDTH; i++)
            if ((float)values[i] !=
                job->j.plain[t][i / LOOP_FIXTURE_WIDTH][i % LOOP_FIXTURE_WIDTH])
                fail_msg("seed %llu: table %s, row %llu",
                         (unsigned long long)seed, loop_job_name(t),
                         (unsigned long long)(i / LOOP_FIXTURE_WIDTH));
    }
}

/* The parts of all workers in all steps have each iteration once. */
static void check_parts(const struct mlt_loop *loop, const struct loop_nest *n,
                        unsigned workers)
{
    bool had[LOOP_RANDOM_ITERATIONS] = {false};
    struct mlt_block b;
    uint64_t all = 0;

    for (unsigned step = 0; step < mlt_loop_steps(loop); step++)
        for (unsigned w = 0; w < workers; w++) {
            all += mlt_loop_part(loop, w, step, &b);
            for (size_t i = 0; i < b.n; i++) {
                uint32_t id = ((const uint32_t *)b.value)[i];

                assert_false(had[id]);
                had[id] = true;
                assert_memory_equal(b.key + i * n->dims, nest_key(n, id),
                                    n->dims * sizeof(uint32_t));
            }
        }
    assert_int_equal(all, n->iterations);
}

static void check_random(struct job *job, const char *model, uint64_t seed)
{
    struct mlt_ps *ps = start_job(job, model);
    const struct loop_nest *n = &job->j.r.nest;
    struct mlt_touch touch[MLT_LOOP_TOUCHES_MAX];
    struct mlt_loop_options o;
    struct mlt_loop *loop;

    loop_job_options(&job->j, seed, job->table, touch, &o);
    job->j.no_totals = seed % 3 == 1; /* workers meet less often */
    o.totals = job->j.no_totals ? 0 : o.totals;
    loop = loop_fixture_new(ps, &o);
    check_parts(loop, n, job->j.r.workers);
    for (int pass = 0; pass < 4; pass++) {
        if (pass == 2) { /* the fork's first writes copy chunks */
            assert_int_equal(ps_fork(ps, BRANCH, 0, BRANCH_TRAINING), ERR_OK);
            assert_int_equal(ps_activate(ps, BRANCH), ERR_OK);
        }
        if (pass == 3 && o.buffer == 0) {
            pass_in_steps(job, loop, seed);
            loop_job_plain(&job->j);
            compare(job, ps, seed);
            continue;
        }
        assert_int_equal(mlt_loop_run(loop, loop_job_body, &job->j), 0);
        loop_job_plain(&job->j);
        compare(job, ps, seed);
        if (!job->j.no_totals)
            check_totals(n, mlt_loop_total(loop, 0), mlt_loop_total(loop, 1));
    }
    mlt_loop_free(loop);
    mlt_ps_free(ps);
}

/* Threads of a real server: an ordered loop gives what the serial one gives, an
 * unordered one what the order gives in which its iterations began, to the last
 * bit; each buffered update is applied once; totals are whole. Under barriers
 * and without. */
static void loop_equals_a_serial_run(void **state)
{
    static struct job job;
    int64_t before = mem_outstanding();

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        if (loop_job_make(&job.j, seed))
            check_random(&job, seed % 4 ? "bsp" : "async", seed);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_equals_a_serial_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
