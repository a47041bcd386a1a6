/* The rule adarevision, and that the workers of one node tell it what each
 * gradient was computed on. */
#include "base/rng.h"
#include "ps/disk/backup_io.h"
#include "ps/disk/restore_io.h"
#include "ps/rows/rule.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/revision_plain.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { WIDTH = FIXTURE_WIDTH, SLOTS = 3 };

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want))))
        fail_msg("got %.9g, want %.9g", got, want);
}

/* ---- the rule ------------------------------------------------------------ */

static void apply(float *row, uint32_t width, const float *g, const float *seen,
                  float rate)
{
    void *rows[1] = {row};
    const void *sums[1] = {g}, *seens[1] = {seen};
    struct rule_batch b = {
        1, rows, sums, width, MLT_F32, SLOTS, {rate, 0, 0, 0, 0, 0}, seens};

    rule_find("adarevision")->apply(&b);
}

/* By hand, with learning rate 1: 3, then 4 that was computed before 3 came. z
 * is 9, then 9 + 16 + 2 * 12 = 49; -1, then -1 + (1/3 - 1/7) 3 - 4/7 = -1. */
static void adarevision_by_hand(void **state)
{
    float row[4] = {0}, g = 3, none = 0;

    (void)state;
    apply(row, 1, &g, &none, 1);
    assert_near(row[0], -1);
    g = 4;
    apply(row, 1, &g, &none, 1);
    assert_near(row[0], -1);
    assert_true(row[1] == 49 && row[2] == 49 && row[3] == 7);
}

/* Gradients that point the same way and were all computed on one version end
 * where their sum would have gone in one step. */
static void adarevision_late_gradients_equal_their_sum(void **state)
{
    float one[4] = {0}, many[4] = {0}, none = 0, total = 0;

    (void)state;
    for (int i = 1; i <= 20; i++) {
        float g = 0.1f * (float)i;

        total += g;
        apply(many, 1, &g, &none, 0.5f);
        memset(one, 0, sizeof(one));
        apply(one, 1, &total, &none, 0.5f);
        assert_near(many[0], one[0]);
        assert_near(many[1], one[1]);
    }
}

/* Without delays it is adagrad. */
static void adarevision_in_time_is_adagrad(void **state)
{
    float revised[4 * WIDTH] = {0}, plain[2 * WIDTH] = {0}, g[WIDTH];
    void *rows[1] = {plain};
    const void *sums[1] = {g};
    struct rule_batch b = {
        1, rows, sums, WIDTH, MLT_F32, 1, {0.3f, 0, 0, 0, 0, 0}, NULL};

    (void)state;
    for (uint64_t step = 0; step < 50; step++) {
        for (uint32_t j = 0; j < WIDTH; j++)
            g[j] = fixture_noise(step, j, 0);
        apply(revised, WIDTH, g,
              step % 2 ? rule_gradient_sum(revised, WIDTH, SLOTS) : NULL, 0.3f);
        rule_find("adagrad")->apply(&b);
        for (uint32_t j = 0; j < WIDTH; j++)
            assert_near(revised[j], plain[j]);
    }
}

/* Gradients of any lateness, at every width, against the plain form. */
static void adarevision_any_delay_equals_plain_reference(void **state)
{
    enum { STEPS = 60, MAX = 40 };
    static struct revision_plain plain[MAX];
    static float seen[STEPS + 1][MAX];

    (void)state;
    for (uint32_t width = 1; width <= MAX; width++) {
        float row[4 * MAX + 1] = {0}, g[MAX];
        struct rng rng;

        memset(plain, 0, sizeof(plain));
        memset(seen, 0, sizeof(seen));
        rng_init(&rng, width);
        for (int n = 0; n < STEPS; n++) {
            int read = n - (int)rng_below(&rng, (uint64_t)(n < 9 ? n : 9) + 1);

            for (uint32_t j = 0; j < width; j++) {
                g[j] = (float)rng_normal(&rng) + 0.5f;
                revision_plain_update(&plain[j], 0.1f, g[j], read);
            }
            apply(row, width, g, seen[read], 0.1f);
            memcpy(seen[n + 1], rule_gradient_sum(row, width, SLOTS),
                   width * sizeof(float));
        }
        for (uint32_t j = 0; j < width; j++) {
            assert_near(row[j], plain[j].value);
            assert_near(row[width + j], plain[j].squares);
            assert_near(row[2 * width + j], plain[j].most);
        }
        assert_true(row[4 * width] == 0);
    }
}

/* ---- threads ------------------------------------------------------------- */

/* Workers that take turns, so that who reads before whose update is a script:
 * in a turn a worker reads some rows, updates some, and ends its clock. */
enum { TURNS = 120, ROWS = 12, WORKERS_MAX = 4, STALENESS = 3 };

struct script {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned next; /* turn that is on */
    unsigned turn[TURNS];
    uint64_t seed;
    unsigned workers;
};

static bool reads(const struct script *s, unsigned turn, uint64_t row)
{
    return rng_mix(rng_mix(s->seed, turn), row) % 3 != 0;
}

static bool updates(const struct script *s, unsigned turn, uint64_t row)
{
    return rng_mix(rng_mix(s->seed + 1, turn), row) % 2 == 0;
}

static float gradient(const struct script *s, unsigned turn, uint64_t row,
                      uint32_t j)
{
    return 0.3f + fixture_noise(rng_mix(s->seed, turn), row, j);
}

static int take_turn(struct mlt_worker *w, const struct script *s,
                     unsigned turn)
{
    for (uint64_t r = 0; r < ROWS; r++)
        if (reads(s, turn, r) && !mlt_get_row(w, 0, r))
            return ERR_CANCELED;
    for (uint64_t r = 0; r < ROWS; r++) {
        float g[WIDTH];

        for (uint32_t j = 0; j < WIDTH; j++)
            g[j] = gradient(s, turn, r, j);
        if (updates(s, turn, r))
            mlt_inc_row(w, 0, r, g);
    }
    return mlt_clock(w);
}

static int follow_script(struct mlt_worker *w, void *arg)
{
    struct script *s = arg;
    int err = 0;

    for (unsigned turn = 0; turn < TURNS && !err; turn++) {
        if (s->turn[turn] != mlt_worker_index(w))
            continue;
        pthread_mutex_lock(&s->lock);
        while (s->next != turn)
            pthread_cond_wait(&s->moved, &s->lock);
        pthread_mutex_unlock(&s->lock);
        err = take_turn(w, s, turn);
        pthread_mutex_lock(&s->lock);
        s->next++;
        pthread_cond_broadcast(&s->moved);
        pthread_mutex_unlock(&s->lock);
    }
    return err;
}

/* Any worker that is not further ahead than it may be to read. */
static void write_script(struct script *s, uint64_t seed, unsigned workers)
{
    int clock[WORKERS_MAX] = {0};
    struct rng rng;

    *s = (struct script){.seed = seed, .workers = workers};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->moved, NULL);
    rng_init(&rng, seed);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned slowest = 0, w = (unsigned)rng_below(&rng, workers);

        for (unsigned i = 1; i < workers; i++)
            if (clock[i] < clock[slowest])
                slowest = i;
        if (clock[w] > clock[slowest] + STALENESS)
            w = slowest;
        clock[w]++;
        s->turn[turn] = w;
    }
}

/* Contents of a worker's copy of a row, and after how many of its gradients it
 * was taken. */
struct plain_copy {
    int holds, read;
};

/* The run once more in one thread; @keeps: copies last as under ssp. */
static void play_script(const struct script *s, bool keeps,
                        struct revision_plain value[ROWS][WIDTH])
{
    struct plain_copy copy[WORKERS_MAX][ROWS];
    int clock[WORKERS_MAX] = {0};

    for (unsigned w = 0; w < WORKERS_MAX; w++)
        for (uint64_t r = 0; r < ROWS; r++)
            copy[w][r] = (struct plain_copy){-1000, 0};
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned w = s->turn[turn];
        int slowest = clock[w], needs = clock[w] - (keeps ? STALENESS : 0);
        bool any = false;

        for (unsigned i = 0; i < s->workers; i++)
            slowest = clock[i] < slowest ? clock[i] : slowest;
        for (uint64_t r = 0; r < ROWS; r++) {
            any |= reads(s, turn, r);
            if (reads(s, turn, r) && copy[w][r].holds < needs)
                copy[w][r] = (struct plain_copy){keeps ? slowest : clock[w],
                                                 value[r][0].n};
        }
        for (uint64_t r = 0; r < ROWS; r++) {
            bool knows = any && copy[w][r].holds >= needs;

            for (uint32_t j = 0; j < WIDTH && updates(s, turn, r); j++)
                revision_plain_update(&value[r][j], 0.1f,
                                      gradient(s, turn, r, j),
                                      knows ? copy[w][r].read : value[r][j].n);
        }
        clock[w]++;
    }
}

static void check_script(uint64_t seed, const char *model, unsigned workers)
{
    static struct revision_plain value[ROWS][WIDTH];
    struct mlt_ps *ps = fixture_ps(workers, model, "adarevision");
    struct script s;

    memset(value, 0, sizeof(value));
    write_script(&s, seed, workers);
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_start(ps);
    assert_int_equal(mlt_ps_set_staleness(ps, STALENESS), 0);
    fixture_run(ps, follow_script, &s, 0);
    play_script(&s, strcmp(model, "ssp") == 0, value);
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint32_t j = 0; j < WIDTH; j++)
            assert_near(fixture_value(ps, 0, "weights", r, j),
                        value[r][j].value);
    mlt_ps_free(ps);
    pthread_cond_destroy(&s.moved);
    pthread_mutex_destroy(&s.lock);
}

/* Each sum meets the rule with the gradient sum as of the copy that its worker
 * had read: async, where a copy lasts a clock, and ssp, where it lasts some. */
static void adarevision_workers_delays_equal_plain_reference(void **state)
{
    (void)state;
    for (unsigned workers = 2; workers <= WORKERS_MAX; workers++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            check_script(seed, "async", workers);
            check_script(seed, "ssp", workers);
        }
}

static struct mlt_ps *open_server(void)
{
    struct mlt_ps *ps = fixture_ps(2, "async", "adarevision");

    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_start(ps);
    return ps;
}

static void play_on(struct mlt_ps *ps, branch_id id, uint64_t seed,
                    double value[ROWS][WIDTH])
{
    struct script s;

    write_script(&s, seed, 2);
    assert_int_equal(ps_activate(ps, id), ERR_OK);
    fixture_run(ps, follow_script, &s, 0);
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint32_t j = 0; j < WIDTH; j++)
            value[r][j] = fixture_value(ps, id, "weights", r, j);
    pthread_cond_destroy(&s.moved);
    pthread_mutex_destroy(&s.lock);
}

/* Gradient sums are of the branch: a fork, and one that was written to the disk
 * and read by another process, go on to the bit as their parent does. */
static void adarevision_fork_and_snapshot_go_on_alike(void **state)
{
    static double parent[ROWS][WIDTH], child[ROWS][WIDTH], read[ROWS][WIDTH];
    struct mlt_ps *ps = open_server();
    struct fault f;

    (void)state;
    play_on(ps, 0, 1, parent);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_KEPT), ERR_OK);
    assert_int_equal(ps_snapshot_begin(ps, 1, scratch_path("snapshot"), &f),
                     ERR_OK);
    assert_int_equal(ps_fork(ps, 2, 0, BRANCH_TRAINING), ERR_OK);
    play_on(ps, 0, 2, parent);
    assert_int_equal(ps_snapshot_end(ps, NULL, &f), ERR_OK);
    play_on(ps, 2, 2, child);
    assert_memory_equal(child, parent, sizeof(parent));
    mlt_ps_free(ps);
    ps = open_server();
    assert_int_equal(ps_restore(ps, 7, scratch_path("snapshot"), &f), ERR_OK);
    assert_int_equal(ps_fork(ps, 8, 7, BRANCH_TRAINING), ERR_OK);
    play_on(ps, 8, 2, read);
    assert_memory_equal(read, parent, sizeof(parent));
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adarevision_by_hand),
        cmocka_unit_test(adarevision_late_gradients_equal_their_sum),
        cmocka_unit_test(adarevision_in_time_is_adagrad),
        cmocka_unit_test(adarevision_any_delay_equals_plain_reference),
        cmocka_unit_test(adarevision_workers_delays_equal_plain_reference),
        cmocka_unit_test_setup_teardown(
            adarevision_fork_and_snapshot_go_on_alike, scratch_make,
            scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
