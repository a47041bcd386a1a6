#include "tests/unit/ps_fixture.h"

#include "base/rng.h"
#include "tests/unit/check.h"

struct mlt_ps *fixture_ps(unsigned workers, const char *consistency,
                          const char *rule)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err;
    struct mlt_ps *ps = NULL;

    opt.workers = workers;
    opt.consistency = consistency;
    opt.update_rule = rule;
    opt.learning_rate = 0.1;
    opt.momentum = 0.5;
    opt.memory_limit = 64 << 20;
    if (mlt_ps_new(&opt, &ps, &err))
        fail_msg("%s", err.text);
    return ps;
}

mlt_table fixture_table(struct mlt_ps *ps, const char *name, enum mlt_type type,
                        enum mlt_access access, unsigned flags)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = name,
                                    .rows = FIXTURE_ROWS,
                                    .width = FIXTURE_WIDTH,
                                    .type = type,
                                    .access = access,
                                    .flags = flags,
                                    .chunk_bytes = 1024};
    struct mlt_error err;
    mlt_table table = 0;

    if (mlt_ps_table(ps, &opt, &table, &err))
        fail_msg("%s", err.text);
    return table;
}

void fixture_start(struct mlt_ps *ps)
{
    struct mlt_error err;

    if (mlt_ps_start(ps, &err))
        fail_msg("%s", err.text);
    for (unsigned i = 0; i < mlt_ps_workers(ps); i++)
        ps_worker_set_user(ps_worker(ps, i), ps);
}

void fixture_run(struct mlt_ps *ps, mlt_work *work, void *arg, int want)
{
    assert_int_equal(mlt_ps_run(ps, work, arg), want);
}

double fixture_value(struct mlt_ps *ps, branch_id id, const char *table,
                     uint64_t row, uint32_t j)
{
    double values[FIXTURE_WIDTH];

    assert_int_equal(ps_read_rows(ps, id, table, row, 1, values), ERR_OK);
    return values[j];
}

float fixture_noise(uint64_t a, uint64_t b, uint64_t c)
{
    struct rng rng;

    rng_init(&rng, rng_mix(rng_mix(a, b), c));
    return (float)rng_normal(&rng);
}

/* A server with all kinds of state: shared weights with velocities, exclusive
 * rows with sums of squares, local counters that steer the updates. */
struct mlt_ps *fixture_full_ps(unsigned workers, const char *model)
{
    struct mlt_table_options exclusive = {.size = sizeof(exclusive),
                                          .name = "users",
                                          .rows = FIXTURE_ROWS,
                                          .width = FIXTURE_WIDTH,
                                          .access = MLT_EXCLUSIVE,
                                          .rule = "adagrad",
                                          .chunk_bytes = 512};
    struct mlt_ps *ps = fixture_ps(workers, model, "sgd");
    mlt_table t;

    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    assert_int_equal(mlt_ps_table(ps, &exclusive, &t, NULL), 0);
    fixture_table(ps, "counter", MLT_I32, MLT_LOCAL, 0);
    fixture_start(ps);
    return ps;
}

static void add_own_rows(struct mlt_worker *w, int32_t step)
{
    uint64_t first, count, rows[FIXTURE_ROWS];
    float deltas[FIXTURE_ROWS * FIXTURE_WIDTH];

    mlt_owned_rows(ps_worker_user(w), FIXTURE_EXCLUSIVE, mlt_worker_index(w),
                   &first, &count);
    for (uint64_t i = 0; i < count; i++) {
        rows[i] = first + (i * 7) % count;
        for (uint64_t j = 0; j < FIXTURE_WIDTH; j++)
            deltas[i * FIXTURE_WIDTH + j] =
                fixture_noise(rows[i], j, (uint64_t)step) / 8;
    }
    mlt_inc_rows(w, FIXTURE_EXCLUSIVE, count, rows, deltas);
}

/* One clock: what it does depends on the local counter alone, which it moves.
 */
static int one_clock(struct mlt_worker *w)
{
    int32_t *counter = mlt_row(w, FIXTURE_LOCAL, mlt_worker_index(w));
    float g[FIXTURE_WIDTH];

    counter[0]++;
    for (uint64_t r = (uint64_t)counter[0] % 5; r < FIXTURE_ROWS; r += 5) {
        for (uint64_t j = 0; j < FIXTURE_WIDTH; j++)
            g[j] = fixture_noise(r, j, (uint64_t)counter[0]);
        mlt_inc_row(w, FIXTURE_SHARED, r, g);
    }
    add_own_rows(w, counter[0]);
    return mlt_clock(w);
}

int fixture_clock_work(struct mlt_worker *w, void *arg)
{
    int err = 0;

    for (int i = 0; i < *(int *)arg && !err; i++)
        err = one_clock(w);
    return err;
}

static int fixture_read_counter(struct mlt_worker *w, void *arg)
{
    const int32_t *row = mlt_row(w, FIXTURE_LOCAL, mlt_worker_index(w));

    ((struct fixture_state *)arg)->counter[mlt_worker_index(w)] = row[0];
    return 0;
}

/* What can be seen of branch @id from outside, local state included. */
void fixture_state(struct mlt_ps *ps, branch_id id, struct fixture_state *s)
{
    memset(s, 0, sizeof(*s));
    assert_int_equal(
        ps_read_rows(ps, id, "weights", 0, FIXTURE_ROWS, s->weights), 0);
    assert_int_equal(ps_read_rows(ps, id, "users", 0, FIXTURE_ROWS, s->users),
                     0);
    assert_int_equal(ps_activate(ps, id), ERR_OK);
    fixture_run(ps, fixture_read_counter, s, 0);
}

void fixture_clocks(struct mlt_ps *ps, branch_id id, int n)
{
    assert_int_equal(ps_activate(ps, id), ERR_OK);
    fixture_run(ps, fixture_clock_work, &n, 0);
}
