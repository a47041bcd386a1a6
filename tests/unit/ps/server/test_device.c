/* Tables on a device: branches there are what they are in host memory. */
#include "base/log.h"
#include "base/rng.h"
#include "mltune/device.h"
#include "ps/server/ps.h"
#include "ps/space/space.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <string.h>

enum {
    ROWS = FIXTURE_ROWS,
    WIDTH = FIXTURE_WIDTH,
    TABLES = 8,
    SCHEDULES = 60,
    BRANCHES = 6,
    STEPS = 24,
    /* Of a row of each table with its velocity, all rows, all tables. */
    STATE_BYTES = TABLES * ROWS * 2 * WIDTH * 4,
    SUMS_BYTES = TABLES * ROWS * WIDTH * 4,
};

static const char *const names[TABLES] = {"a", "b", "c", "d",
                                          "e", "f", "g", "h"};

struct job {
    uint64_t clocks, seed;
    bool reads_only;
};

/* ---- the same work, here and there --------------------------------------- */

static void gradient(const float *row, uint64_t seed, uint64_t r, float *g)
{
    for (int j = 0; j < WIDTH; j++)
        g[j] = row[j] - (float)((seed + 7 * r + (uint64_t)j) % 31) / 8;
}

static int descend_here(struct mlt_worker *w, void *arg)
{
    const struct job *job = arg;

    for (uint64_t c = 0; c < job->clocks && !job->reads_only; c++) {
        for (mlt_table t = TABLES; t-- > 0;) {
            for (uint64_t r = 0; r < ROWS; r++)
                gradient(mlt_get_row(w, t, r), job->seed + c + t, r,
                         mlt_update_row(w, t, r));
            if (mlt_clock_table(w, t))
                return ERR_CANCELED;
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

struct kernel {
    struct mlt_lease lease;
    float *sums;
    uint64_t seed;
    double *seen; /* of a host: sum of all values */
};

static enum err run_kernel(const void *arg, struct fault *f)
{
    const struct kernel *k = arg;

    (void)f;
    for (uint64_t r = 0; r < ROWS; r++) {
        const char *row = (const char *)k->lease.at + r * k->lease.stride;

        if (k->sums)
            gradient((const float *)(const void *)row, k->seed, r,
                     k->sums + r * WIDTH);
        for (int j = 0; j < WIDTH; j++)
            *k->seen += (double)((const float *)(const void *)row)[j];
    }
    return ERR_OK;
}

static void put_kernel(struct mlt_worker *w, const struct kernel *k)
{
    struct space_stream *st = mlt_ps_stream(ps_worker_user(w));
    struct space_call c = {
        .fn = run_kernel,
        .arg = k,
        .arg_bytes = sizeof(*k),
        .write = {{k->lease.at, ROWS * k->lease.stride},
                  {k->sums, k->sums ? sizeof(float) * ROWS * WIDTH : 0}}};

    st->space->ops->call(st, &c);
}

static double seen;

static int descend_there(struct mlt_worker *w, void *arg)
{
    const struct job *job = arg;

    for (uint64_t c = 0; c < job->clocks; c++) {
        for (mlt_table t = TABLES; t-- > 0;) {
            struct kernel k = {.seed = job->seed + c + t, .seen = &seen};
            int add = 0, err = mlt_read(w, t, &k.lease);

            if (!err && !job->reads_only)
                err = mlt_update(w, t, &k.sums, &add);
            if (err || add)
                return err ? err : ERR_APP;
            put_kernel(w, &k);
            if (!job->reads_only && mlt_clock_table(w, t))
                return ERR_CANCELED;
            mlt_read_done(w, t);
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

static struct mlt_ps *new_ps(const char *rule, const char *device,
                             uint64_t limit)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", rule);
    struct mlt_error e = {0};

    if (device)
        assert_int_equal(mlt_ps_device(ps, device, limit, &e), 0);
    for (int t = 0; t < TABLES; t++) {
        mlt_table table =
            fixture_table(ps, names[t], MLT_F32, MLT_SHARED, MLT_OWN_CLOCK);

        if (device)
            assert_int_equal(mlt_ps_on_device(ps, table, &e), 0);
    }
    fixture_start(ps);
    return ps;
}

/* ---- schedules ----------------------------------------------------------- */

struct pair {
    struct mlt_ps *here, *there;
    enum branch_type type[64];
    branch_id branch[BRANCHES];
    unsigned branches;
    branch_id next;
};

static void both_equal(struct pair *p, branch_id id, struct rng *rng)
{
    double one[5 * WIDTH], two[5 * WIDTH];
    const struct ps_rows r = {.branch = id,
                              .table = (mlt_table)rng_below(rng, TABLES),
                              .first = rng_below(rng, ROWS - 5),
                              .count = 5,
                              .values = WIDTH};

    assert_int_equal(ps_read_part(p->here, &r, one), ERR_OK);
    assert_int_equal(ps_read_part(p->there, &r, two), ERR_OK);
    assert_memory_equal(one, two, sizeof(one));
}

static void fork_one(struct pair *p, struct rng *rng)
{
    static const enum branch_type types[] = {BRANCH_TRAINING, BRANCH_TRAINING,
                                             BRANCH_TESTING, BRANCH_KEPT};
    branch_id parent = p->branch[rng_below(rng, p->branches)];
    enum branch_type type = types[rng_below(rng, 4)];

    if (p->branches == BRANCHES || p->next == 64)
        return;
    assert_int_equal(ps_fork(p->here, p->next, parent, type), ERR_OK);
    assert_int_equal(ps_fork(p->there, p->next, parent, type), ERR_OK);
    p->type[p->next] = type;
    p->branch[p->branches++] = p->next++;
}

static void run_one(struct pair *p, struct rng *rng)
{
    branch_id id = p->branch[rng_below(rng, p->branches)];
    struct job job = {.clocks = 1 + rng_below(rng, 3),
                      .seed = rng_next(rng),
                      .reads_only = p->type[id] == BRANCH_KEPT ||
                                    p->type[id] == BRANCH_TESTING};

    assert_int_equal(ps_activate(p->here, id), ERR_OK);
    assert_int_equal(ps_activate(p->there, id), ERR_OK);
    assert_int_equal(mlt_ps_run(p->here, descend_here, &job), 0);
    assert_int_equal(mlt_ps_run(p->there, descend_there, &job), 0);
}

static void drop_one(struct pair *p, struct rng *rng)
{
    unsigned at = (unsigned)rng_below(rng, p->branches);

    if (p->branches == 1)
        return;
    assert_int_equal(ps_drop(p->here, p->branch[at]), ERR_OK);
    assert_int_equal(ps_drop(p->there, p->branch[at]), ERR_OK);
    p->branch[at] = p->branch[--p->branches];
}

static void add_one(struct pair *p, struct rng *rng)
{
    branch_id id = p->branch[rng_below(rng, p->branches)];
    double delta[WIDTH] = {1, -2, 3};
    uint64_t row = rng_below(rng, ROWS);

    if (p->type[id] == BRANCH_KEPT)
        return;
    assert_int_equal(ps_inc_rows(p->here, id, "b", row, 1, delta), ERR_OK);
    assert_int_equal(ps_inc_rows(p->there, id, "b", row, 1, delta), ERR_OK);
}

static void one_schedule(uint64_t seed, const char *rule, const char *device,
                         uint64_t limit)
{
    struct pair p = {.here = new_ps(rule, NULL, 0),
                     .there = new_ps(rule, device, limit),
                     .branches = 1,
                     .next = 1};
    struct rng rng;

    rng_init(&rng, seed);
    p.type[0] = BRANCH_INIT;
    for (int k = 0; k < STEPS; k++) {
        switch (rng_below(&rng, 8)) {
        case 0:
        case 1:
            fork_one(&p, &rng);
            break;
        case 2:
            drop_one(&p, &rng);
            break;
        case 3:
            add_one(&p, &rng);
            break;
        case 4:
            both_equal(&p, p.branch[rng_below(&rng, p.branches)], &rng);
            break;
        default:
            run_one(&p, &rng);
        }
    }
    for (unsigned i = 0; i < p.branches; i++)
        for (int k = 0; k < 3; k++)
            both_equal(&p, p.branch[i], &rng);
    mlt_ps_free(p.here);
    mlt_ps_free(p.there);
}

/* A device for all branches, for one and a half, for one, and a third of what
 * one needs: the bits of host memory, over many schedules of forks, slices,
 * drops, reads and increments. */
static void branches_on_a_device_are_those_of_the_host(void **state)
{
    static const uint64_t limits[] = {0, STATE_BYTES * 3 / 2 + SUMS_BYTES,
                                      STATE_BYTES + SUMS_BYTES + 16384,
                                      (STATE_BYTES + SUMS_BYTES) / 3};
    static const char *const rules[] = {"sgd", "adam", "adagrad"};

    (void)state;
    for (uint64_t seed = 0; seed < SCHEDULES; seed++)
        one_schedule(seed, seed % 4 == 3 ? "sgd" : rules[seed % 3],
                     seed % 10 == 0 ? "host" : "fake", limits[seed % 4]);
}

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    *(unsigned *)ctx += strstr(line, "device") != NULL;
}

/* Too little for two buffers of a table: the run fails with the limit, and the
 * branch can be read on. */
static void too_small_a_device_fails_the_run(void **state)
{
    struct mlt_ps *ps = new_ps("sgd", "fake", SUMS_BYTES / 2);
    struct job job = {.clocks = 1};
    unsigned lines = 0;

    (void)state;
    log_set_sink(drop_line, &lines);
    assert_int_equal(mlt_ps_run(ps, descend_there, &job), ERR_LIMIT);
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, 1);
    fixture_value(ps, 0, "a", 3, 2);
    mlt_ps_free(ps);
}

/* What is told of a device: a swapped state comes and goes, within the limit;
 * without a device nothing is told. */
static void a_device_tells_what_it_moves(void **state)
{
    const uint64_t limit = (STATE_BYTES + SUMS_BYTES) / 3;
    struct mlt_ps *ps = new_ps("sgd", "fake", limit);
    struct mlt_ps *here = new_ps("sgd", NULL, 0);
    struct ps_device_stats s = {0}, later;
    struct job job = {.clocks = 2};

    (void)state;
    assert_false(ps_device_stats(here, &s));
    assert_true(ps_device_stats(ps, &s));
    assert_int_equal(s.used + s.in + s.out + s.waits, 0);
    assert_int_equal(s.limit, limit);
    assert_int_equal(mlt_ps_run(ps, descend_there, &job), 0);
    assert_true(ps_device_stats(ps, &s));
    assert_in_range(s.used, 1, limit);
    assert_true(s.in > 0 && s.out > 0 && s.waits > 0);
    assert_int_equal(mlt_ps_run(ps, descend_there, &job), 0);
    assert_true(ps_device_stats(ps, &later));
    assert_int_equal(later.used, s.used);
    assert_true(later.in > s.in && later.out > s.out);
    mlt_ps_free(ps);
    mlt_ps_free(here);
}

/* A plan that fails keeps nothing of the device; given up, the same tables
 * train in host memory. */
static void a_plan_that_fails_gives_all_back(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "sgd");
    struct job job = {.clocks = 1};
    struct space_memory m = {0};
    struct mlt_error e = {0};
    struct fault f = {0};
    struct memory_space *space;

    (void)state;
    assert_int_equal(mlt_ps_device(ps, "fake", SUMS_BYTES / 2, &e), 0);
    for (int t = 0; t < TABLES; t++)
        assert_int_equal(
            mlt_ps_on_device(
                ps,
                fixture_table(ps, names[t], MLT_F32, MLT_SHARED, MLT_OWN_CLOCK),
                &e),
            0);
    space = mlt_ps_stream(ps)->space;
    assert_int_equal(mlt_ps_device_plan(ps, &e), ERR_LIMIT);
    assert_non_null(strstr(e.text, "memory.device_limit"));
    assert_int_equal(space->ops->memory(space, &m, &f), ERR_OK);
    assert_int_equal(m.used, 0);
    assert_int_equal(m.pinned, 0);
    mlt_ps_device_close(ps);
    assert_null(mlt_ps_stream(ps));
    fixture_start(ps);
    assert_int_equal(mlt_ps_run(ps, descend_here, &job), 0);
    mlt_ps_free(ps);
}

/* What cannot be on a device is refused with a sentence. */
static void a_device_wants_one_worker_and_bsp(void **state)
{
    struct mlt_ps *two = fixture_ps(2, "bsp", "sgd");
    struct mlt_ps *late = fixture_ps(1, "ssp", "sgd");
    struct mlt_ps *ps = fixture_ps(1, "bsp", "sgd");
    struct mlt_error e = {0};
    mlt_table t;

    (void)state;
    assert_int_equal(mlt_ps_device(two, "fake", 0, &e), ERR_INVAL);
    assert_non_null(strstr(e.text, "one worker"));
    assert_int_equal(mlt_ps_device(late, "fake", 0, &e), ERR_INVAL);
    assert_non_null(strstr(e.text, "bsp"));
    assert_int_not_equal(mlt_ps_device(ps, "no such", 0, &e), 0);
    assert_int_equal(mlt_ps_device(ps, "fake", 0, &e), 0);
    t = fixture_table(ps, "local", MLT_F32, MLT_LOCAL, 0);
    assert_int_equal(mlt_ps_on_device(ps, t, &e), ERR_INVAL);
    assert_non_null(strstr(e.text, "shared"));
    mlt_ps_free(two);
    mlt_ps_free(late);
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_on_a_device_are_those_of_the_host),
        cmocka_unit_test(too_small_a_device_fails_the_run),
        cmocka_unit_test(a_device_tells_what_it_moves),
        cmocka_unit_test(a_plan_that_fails_gives_all_back),
        cmocka_unit_test(a_device_wants_one_worker_and_bsp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
