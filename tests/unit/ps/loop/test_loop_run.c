/* Random loops on the workers of a real server, against a serial run. */
#include "base/mem.h"
#include "mltune/loop.h"
#include "ps/loop/loop_internal.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_fixture.h"
#include "tests/unit/fixture/loop_random.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 60 }; /* less of the same: it is slow */
#else
enum { SEEDS = 600 };
#endif

enum { BRANCH = 1 };

/* ---- random loops, against a serial run ---------------------------------- */

typedef float row_values[LOOP_FIXTURE_WIDTH];

struct job {
    struct loop_random r;
    uint32_t id[LOOP_RANDOM_ITERATIONS];
    struct mlt_touch touch[MLT_LOOP_TOUCHES_MAX];
    bool shared[LOOP_RANDOM_TABLES]; /* buffered updates go there */
    mlt_table table[LOOP_RANDOM_TABLES];

    /* Iterations in the order in which they began. */
    uint32_t began[LOOP_RANDOM_ITERATIONS];
    _Atomic unsigned count;
    row_values plain[LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];
};

/* An iteration: what it reads goes into what it updates, in a way in which
 * order matters. @row[touches]; NULL for what is buffered. */
static void work_on(const struct loop_nest *n, uint32_t id, float *const row[])
{
    float sum = (float)id + 1;

    for (unsigned t = 0; t < n->accesses; t++)
        if (row[t] && n->access[t].reads)
            sum += row[t][0] * 0.5F + row[t][1] * 0.25F;
    for (unsigned t = 0; t < n->accesses; t++)
        if (row[t] && n->access[t].updates) {
            row[t][0] = row[t][0] * 0.75F + sum * 1e-3F;
            row[t][1] = row[t][1] * 0.5F - sum * 1e-3F;
        }
}

static int random_body(const struct mlt_block *b, void *arg)
{
    static const float one[LOOP_FIXTURE_WIDTH] = {1, 1};
    struct job *job = arg;
    const struct loop_nest *n = &job->r.nest;

    for (size_t i = 0; i < b->n; i++) {
        float *row[MLT_LOOP_TOUCHES_MAX] = {NULL};
        uint32_t id = ((const uint32_t *)b->value)[i];

        assert_memory_equal(b->key + i * n->dims, nest_key(n, id),
                            n->dims * sizeof(uint32_t));
        job->began[atomic_fetch_add(&job->count, 1)] = id;
        for (unsigned t = 0; t < n->accesses; t++) {
            uint64_t at = loop_random_row(&job->r, t, id);

            if (n->access[t].buffered)
                mlt_loop_add(b, t, i, at, one);
            else if (access_is_static(&n->access[t]))
                row[t] = mlt_loop_row(b, t, i);
            else
                row[t] = mlt_loop_row_at(b, t, i, at);
            if (job->shared[n->access[t].id])
                row[t] = NULL; /* when others see it depends on the timing */
        }
        work_on(n, id, row);
        b->total[0] += id;
        b->total[1] = b->total[1] > id ? b->total[1] : id;
    }
    return 0;
}

/* False: a table is updated both ways, which servers do not take. */
static bool make_job(struct job *job, uint64_t seed)
{
    const struct loop_nest *n = &job->r.nest;
    bool in_place[LOOP_RANDOM_TABLES] = {false};

    memset(job, 0, sizeof(*job));
    loop_random_make(&job->r, seed);
    for (uint32_t i = 0; i < LOOP_RANDOM_ITERATIONS; i++)
        job->id[i] = i;
    for (unsigned t = 0; t < n->accesses; t++) {
        const struct loop_access *a = &n->access[t];

        job->shared[a->id] |= a->buffered;
        in_place[a->id] |= a->updates && !a->buffered;
        memcpy(job->touch[t].at, a->at, sizeof(a->at));
        job->touch[t].touch = a->reads * MLT_READS | a->updates * MLT_UPDATES |
                              a->buffered * MLT_BUFFERED;
    }
    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++)
        if (job->shared[t] && in_place[t])
            return false;
    return true;
}

static struct mlt_ps *start_job(struct job *job, const char *model)
{
    static const char *const name[LOOP_RANDOM_TABLES] = {"a", "b", "c"};
    struct mlt_ps *ps = fixture_ps(job->r.workers, model, "sgd");
    uint64_t rows = LOOP_RANDOM_AXIS;

    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++) {
        job->table[t] = loop_fixture_table(
            ps, name[t], rows, job->shared[t] ? MLT_SHARED : MLT_EXCLUSIVE);
        rows *= LOOP_RANDOM_AXIS;
    }
    for (unsigned t = 0; t < job->r.nest.accesses; t++)
        job->touch[t].table = job->table[job->r.nest.access[t].id];
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

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static int run_steps(struct mlt_worker *w, void *arg)
{
    struct steps *s = arg;
    unsigned n = mlt_loop_steps(s->loop);
    int err = 0;

    for (unsigned i = 0; i < n && !err; i++) {
        unsigned step = (i + s->turn) % n;

        err = mlt_loop_step(w, s->loop, step, random_body, s->job);
        if (mlt_worker_index(w) == 0) {
            s->total[0] += mlt_loop_total(s->loop, 0);
            s->total[1] = larger(s->total[1], mlt_loop_total(s->loop, 1));
        }
        if (!err)
            err = mlt_clock(w);
    }
    return err;
}

/* As an application's clocks do it: in an order of the caller's, but for a
 * wavefront. */
static void pass_in_steps(struct job *job, struct mlt_loop *loop, uint64_t seed)
{
    const struct loop_nest *n = &job->r.nest;
    struct steps s = {job, loop, 0, {0, -1}};

    if (!plan_is_wavefront(&loop->plan))
        s.turn = (unsigned)(seed % mlt_loop_steps(loop));
    assert_int_equal(mlt_ps_run(loop->ps, run_steps, &s), 0);
    assert_true(s.total[0] ==
                (double)n->iterations * ((double)n->iterations - 1) / 2);
    assert_true(s.total[1] == (double)n->iterations - 1);
}

/* ---- against the serial run ---------------------------------------------- */

/* The order that an ordered loop has; else that in which iterations began: of
 * two that touch a common row the one that ended first. */
static void plain_pass(struct job *job)
{
    const struct loop_nest *n = &job->r.nest;

    assert_int_equal(job->count, n->iterations);
    for (uint64_t i = 1; i < n->iterations && n->ordered; i++)
        for (uint64_t j = i; j > 0 && loop_random_before(&job->r, job->began[j],
                                                         job->began[j - 1]);
             j--) {
            uint32_t other = job->began[j];

            job->began[j] = job->began[j - 1];
            job->began[j - 1] = other;
        }
    for (uint64_t i = 0; i < n->iterations; i++) {
        float *row[MLT_LOOP_TOUCHES_MAX] = {NULL};

        for (unsigned t = 0; t < n->accesses; t++) {
            uint64_t at = loop_random_row(&job->r, t, job->began[i]);
            unsigned table = n->access[t].id;

            if (n->access[t].buffered)
                for (int j = 0; j < LOOP_FIXTURE_WIDTH; j++)
                    job->plain[table][at][j] += 1;
            else if (!job->shared[table])
                row[t] = job->plain[table][at];
        }
        work_on(n, job->began[i], row);
    }
    job->count = 0;
}

static void compare(struct job *job, struct mlt_ps *ps, uint64_t seed)
{
    static double values[LOOP_RANDOM_ROWS * LOOP_FIXTURE_WIDTH];
    static const char *const name[LOOP_RANDOM_TABLES] = {"a", "b", "c"};
    uint64_t rows = 1;

    for (unsigned t = 0; t < LOOP_RANDOM_TABLES; t++) {
        rows *= LOOP_RANDOM_AXIS;
        assert_int_equal(
            rows_read_whole(ps, ps_active(ps), name[t], 0, rows, values),
            ERR_OK);
        for (uint64_t i = 0; i < rows * LOOP_FIXTURE_WIDTH; i++)
            if ((float)values[i] !=
                job->plain[t][i / LOOP_FIXTURE_WIDTH][i % LOOP_FIXTURE_WIDTH])
                fail_msg("seed %llu: table %s, row %llu",
                         (unsigned long long)seed, name[t],
                         (unsigned long long)(i / LOOP_FIXTURE_WIDTH));
    }
}

static void check_random(struct job *job, const char *model, uint64_t seed)
{
    static const struct mlt_total totals[2] = {{NULL, 0}, {larger, -1}};
    struct mlt_ps *ps = start_job(job, model);
    const struct loop_nest *n = &job->r.nest;
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;
    struct mlt_loop *loop;

    o.dims = n->dims;
    memcpy(o.extent, n->extent, sizeof(o.extent));
    o.iterations = n->iterations;
    o.key = n->key;
    o.value = job->id;
    o.value_bytes = sizeof(job->id[0]);
    o.touch = job->touch;
    o.touches = n->accesses;
    o.total = totals;
    o.totals = 2;
    o.ordered = n->ordered;
    o.shuffle = job->r.shuffle;
    o.time_parts = job->r.time_parts;
    o.buffer = seed % 3 ? 0 : 1 + seed % 7;
    loop = loop_fixture_new(ps, &o);
    for (int pass = 0; pass < 4; pass++) {
        if (pass == 2) { /* the fork's first writes copy chunks */
            assert_int_equal(ps_fork(ps, BRANCH, 0, BRANCH_TRAINING), ERR_OK);
            assert_int_equal(ps_activate(ps, BRANCH), ERR_OK);
        }
        if (pass == 3 && o.buffer == 0) {
            pass_in_steps(job, loop, seed);
            plain_pass(job);
            compare(job, ps, seed);
            continue;
        }
        assert_int_equal(mlt_loop_run(loop, random_body, job), 0);
        plain_pass(job);
        compare(job, ps, seed);
        assert_true(mlt_loop_total(loop, 0) ==
                    (double)n->iterations * ((double)n->iterations - 1) / 2);
        assert_true(mlt_loop_total(loop, 1) == (double)n->iterations - 1);
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
        if (make_job(&job, seed))
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
