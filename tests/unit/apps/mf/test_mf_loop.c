/* mf as a loop: against a plain pass in double, one rating after another. */
#include "apps/mf/mf.h"
#include "apps/mf/mf_app.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ps/rows/rule.h"
#include "tests/unit/fixture/app_run.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { RANK = 19, PAIRS = 90, EPOCHS = 4 };
static const double rate = 0.1, lambda = 0.05;

static const char config[] =
    "{\"app\": {\"name\": \"mf\", \"rank\": %d, \"clock\": %d, \"data\": "
    "\"%s\","
    " \"test\": \"%s\", \"parallel\": \"loop\", \"lambda\": 0.05},"
    " \"cluster\": {\"workers\": %u},"
    " \"ps\": {\"update_rule\": \"%s\", \"consistency\": \"%s\"}}";

static void open_loop(struct app_run *r, int clock, unsigned workers,
                      const char *rule, const char *model)
{
    app_run_open(r, &app_mf, 1, "{\"learning_rate\": 0.1}", config, RANK, clock,
                 scratch_path("ratings"), scratch_path("ratings"), workers,
                 rule, model);
}

/* ---- the plain pass ------------------------------------------------------ */

/* Values and sums of squares of both sides' rows. */
struct plain {
    double user[RANK], item[RANK], user_sum[RANK], item_sum[RANK];
};

static void plain_step(double *w, double *sum, double g, bool adagrad)
{
    *sum += g * g;
    *w -= adagrad ? rate * g / sqrt(*sum + (double)RULE_EPSILON) : rate * g;
}

/* One rating: both rows by gradients of the rows as they were. */
static void plain_rating(double user[], double user_sum[], double item[],
                         double item_sum[], double value, bool adagrad)
{
    double e = value;

    for (int k = 0; k < RANK; k++)
        e -= user[k] * item[k];
    for (int k = 0; k < RANK; k++) {
        double l = user[k], r = item[k];

        plain_step(&user[k], &user_sum[k], lambda * l - e * r, adagrad);
        plain_step(&item[k], &item_sum[k], lambda * r - e * l, adagrad);
    }
}

static void read_row(struct app_run *r, const char *table, uint64_t row,
                     double out[RANK])
{
    for (uint32_t k = 0; k < RANK; k++)
        out[k] = app_run_value(r, table, row, RANK, k);
}

static double distance(const double a[RANK], const double b[RANK])
{
    double most = 0;

    for (int k = 0; k < RANK; k++)
        most = fmax(most, fabs(a[k] - b[k]));
    return most;
}

/* ---- pairs that share nothing -------------------------------------------- */

/* Rating i is of user i and item i, and 3.5 on the whole. */
static double pair_value(int i)
{
    return i == PAIRS - 1 ? 3.5
                          : 3.5 + 0.25 * (i % 2 ? 1 : -1) * (1 + i / 2 % 5);
}

static void write_pairs(void)
{
    FILE *f = fopen(scratch_path("ratings"), "w");

    assert_non_null(f);
    for (int i = 0; i < PAIRS; i++)
        fprintf(f, "%d,%d,%g\n", i, i, pair_value(i));
    fclose(f);
}

static double mean_of_pairs(void)
{
    double sum = 0;

    for (int i = 0; i < PAIRS; i++)
        sum += pair_value(i);
    return sum / PAIRS;
}

/* Which pair lies in a row: by the rows' values after training, the pair whose
 * plain training comes nearest. All are near one pair alone. */
static double nearest(const struct plain *begin, const double user[RANK],
                      const double item[RANK], bool adagrad, int *pair)
{
    double best = INFINITY;

    for (int i = 0; i < PAIRS; i++) {
        struct plain p = *begin;
        double off;

        for (int epoch = 0; epoch < EPOCHS; epoch++)
            plain_rating(p.user, p.user_sum, p.item, p.item_sum,
                         pair_value(i) - mean_of_pairs(), adagrad);
        off = fmax(distance(p.user, user), distance(p.item, item));
        if (off < best) {
            best = off;
            *pair = i;
        }
    }
    return best;
}

/* Every order gives the same here: what the plain one gives, whatever the
 * number of workers and clocks, under each rule. */
static void check_pairs(int clock, unsigned workers, const char *rule)
{
    static struct plain begin[PAIRS];
    bool adagrad = strcmp(rule, "adagrad") == 0;
    struct app_run r;

    open_loop(&r, clock, workers, rule, "bsp");
    for (uint64_t row = 0; row < PAIRS; row++) {
        read_row(&r, "users", row, begin[row].user);
        read_row(&r, "items", row, begin[row].item);
    }
    app_run_train(&r, EPOCHS);
    for (uint64_t row = 0; row < PAIRS; row++) {
        double user[RANK], item[RANK], off;
        int pair = -1;

        read_row(&r, "users", row, user);
        read_row(&r, "items", row, item);
        off = nearest(&begin[row], user, item, adagrad, &pair);
        /* Root and division turn a float's last bits into more of them. */
        if (!(off < (adagrad ? 1e-4 : 2e-6)))
            fail_msg("%s, %u workers: row %d is %g off", rule, workers,
                     (int)row, off);
    }
    app_run_close(&r);
}

static void loop_of_pairs_is_the_plain_pass(void **state)
{
    (void)state;
    write_pairs();
    check_pairs(1, 1, "sgd");
    check_pairs(1, 1, "adagrad");
    check_pairs(7, 3, "adagrad");
    check_pairs(10, 4, "sgd");
}

/* ---- ratings that share a user ------------------------------------------- */

/* A user with two items: one of the two orders, and no sum of both. */
static void loop_of_a_shared_user_has_an_order(void **state)
{
    static const double value[2] = {2, -2}; /* less their mean */
    struct app_run r;

    (void)state;
    scratch_text("ratings", "1,1,5\n1,2,1\n");
    for (unsigned workers = 1; workers <= 3; workers++) {
        double begin[3][RANK], end[3][RANK], off[2];

        open_loop(&r, 1, workers, "sgd", "bsp");
        read_row(&r, "users", 0, begin[0]);
        read_row(&r, "items", 0, begin[1]);
        read_row(&r, "items", 1, begin[2]);
        app_run_train(&r, 1);
        read_row(&r, "users", 0, end[0]);
        read_row(&r, "items", 0, end[1]);
        read_row(&r, "items", 1, end[2]);
        off[0] = off[1] = INFINITY;
        for (int swapped = 0; swapped < 2; swapped++)
            for (int first = 0; first < 2; first++) {
                double at[3][RANK], none[RANK] = {0}, d;

                memcpy(at, begin, sizeof(at));
                for (int i = 0; i < 2; i++) {
                    int item = i ? !first : first;

                    plain_rating(at[0], none, at[1 + item], none,
                                 value[swapped ? !item : item], false);
                }
                d = fmax(
                    distance(at[0], end[0]),
                    fmax(distance(at[1], end[1]), distance(at[2], end[2])));
                off[swapped] = fmin(off[swapped], d);
            }
        if (!(fmin(off[0], off[1]) < 1e-6))
            fail_msg("%u workers: no order is nearer than %g", workers,
                     fmin(off[0], off[1]));
        app_run_close(&r);
    }
}

/* ---- the order ----------------------------------------------------------- */

enum {
    MANY = 60000,
    MANY_USERS = 3000,
    MANY_ITEMS = 1000,
    MANY_PARTS = 12,
    MANY_WORKERS = 4
};

static bool share_a_row(const uint32_t a[MF_SIDES], const uint32_t b[MF_SIDES])
{
    return a[MF_USERS] == b[MF_USERS] || a[MF_ITEMS] == b[MF_ITEMS];
}

/* What the loop's body was given, by worker. */
struct worker_seen {
    uint64_t blocks;
    uint64_t ratings;
    bool wrong;
};

struct dealt {
    const struct mf_pairs *pairs;
    _Atomic bool seen[MANY]; /* by its value */
    struct worker_seen worker[MANY_WORKERS];
};

static void see(struct dealt *o, struct worker_seen *s,
                const uint32_t key[MF_SIDES], float value)
{
    int at = (int)value;

    s->ratings++;
    s->wrong |= atomic_exchange(&o->seen[at], true);
    for (unsigned side = 0; side < MF_SIDES; side++)
        s->wrong |= key[side] != o->pairs->row[side][at];
}

/* A part: ratings that go on from one another as far as none shares a row. */
static int see_part(const struct mlt_block *b, void *arg)
{
    struct dealt *o = arg;
    struct worker_seen *s = &o->worker[mlt_worker_index(b->worker)];
    const uint32_t(*key)[MF_SIDES] = (const void *)b->key;
    size_t first = 0;

    for (size_t i = 0; i < b->n; i++) {
        bool ends = i == 0 || i - first == MF_BLOCK;

        for (size_t j = first; j < i && !ends; j++)
            ends = share_a_row(key[j], key[i]);
        if (ends) {
            s->blocks++;
            first = i;
        }
        see(o, s, key[i], ((const float *)b->value)[i]);
    }
    return 0;
}

static void plan_and_see(struct mf *m, struct dealt *o)
{
    struct mlt_ps *ps = fixture_ps(m->workers, "bsp", "sgd");
    struct mlt_error err;

    for (unsigned side = 0; side < MF_SIDES; side++) {
        const struct mlt_table_options opt = {.size = sizeof(opt),
                                              .name = side ? "items" : "users",
                                              .rows = m->rows[side],
                                              .width = m->rank,
                                              .access = MLT_EXCLUSIVE,
                                              .flags = MLT_NO_MOMENTUM,
                                              .chunk_bytes = 4096};

        if (mlt_ps_table(ps, &opt, &m->table[side], &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(mf_loop_take(m, o->pairs), ERR_OK);
    if (mf_loop_plan(m, ps, &err))
        fail_msg("%s", err.text);
    fixture_start(ps);
    assert_int_equal(mlt_loop_run(m->loop, see_part, o), 0);
    mf_loop_free(m);
    mlt_ps_free(ps);
}

/* Each rating once; in blocks of nearly as many as are computed at once, though
 * few items have most of a part's ratings: a random order has half of that. */
static void loop_order_fills_blocks(void **state)
{
    static uint32_t row[MF_SIDES][MANY];
    static float value[MANY];
    const struct mf_pairs pairs = {MANY, {row[MF_USERS], row[MF_ITEMS]}, value};
    int64_t before = mem_outstanding();
    struct rng rng;

    (void)state;
    rng_init(&rng, 5);
    for (int i = 0; i < MANY; i++) {
        double u = rng_uniform(&rng);

        row[MF_USERS][i] = (uint32_t)rng_below(&rng, MANY_USERS);
        row[MF_ITEMS][i] = (uint32_t)((u + u * u) / 2 * MANY_ITEMS);
        value[i] = (float)i;
    }
    for (unsigned workers = 1; workers <= MANY_WORKERS; workers += 3) {
        static struct dealt o;
        struct mf m = {.rank = 4,
                       .workers = workers,
                       .parts = MANY_PARTS,
                       .seed = 7,
                       .rows = {MANY_USERS, MANY_ITEMS}};
        uint64_t blocks = 0, ratings = 0;

        memset(&o, 0, sizeof(o));
        o.pairs = &pairs;
        plan_and_see(&m, &o);
        for (unsigned w = 0; w < workers; w++) {
            assert_false(o.worker[w].wrong);
            blocks += o.worker[w].blocks;
            ratings += o.worker[w].ratings;
        }
        assert_int_equal(ratings, MANY);
        if (!(MANY > 15 * blocks))
            fail_msg("%u workers: %d ratings in %llu blocks", workers, MANY,
                     (unsigned long long)blocks);
    }
    assert_int_equal(mem_outstanding(), before);
}

/* ---- training ------------------------------------------------------------ */

/* Learns what data-parallel training learns, with any number of workers and
 * under models without barriers, and the same bits every time. */
static void loop_trains(void **state)
{
    static const char *const model[] = {"bsp", "async", "ssp"};
    static const char text[] =
        "{\"app\": {\"name\": \"mf\", \"rank\": 8, \"clock\": 10, \"parallel\":"
        " \"loop\", \"data\": \"gen:ratings?users=200&items=100&ratings=6000&"
        "rank=2&noise=0.3\"}, \"cluster\": {\"workers\": %u},"
        " \"ps\": {\"update_rule\": \"adagrad\", \"consistency\": \"%s\"}}";

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        unsigned workers = 1 + i / 2 * 2;
        double loss[2], metric;

        for (int again = 0; again < 2; again++) {
            struct app_run r;

            app_run_open(&r, &app_mf, 3, "{\"learning_rate\": 0.1}", text,
                         workers, model[i % 3]);
            loss[again] = app_run_train(&r, 15);
            metric = app_run_metric(&r);
            app_run_close(&r);
        }
        if (!(metric < 0.65 && loss[0] == loss[1]))
            fail_msg("%u workers, %s: metric %g, losses %.9g and %.9g", workers,
                     model[i % 3], metric, loss[0], loss[1]);
    }
}

/* Clocks are as many as asked for, or a few more: as many for each worker. */
static void loop_clocks_are_steps_of_all(void **state)
{
    static const struct {
        int clock;
        unsigned workers;
        uint64_t parts;
    } cases[] = {{1, 1, 1}, {7, 1, 7}, {7, 3, 9}, {9, 3, 9}, {1, 4, 4}};

    (void)state;
    write_pairs();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct app_run r;

        open_loop(&r, cases[i].clock, cases[i].workers, "sgd", "bsp");
        assert_int_equal(host_facts(r.host)->info.parts, cases[i].parts);
        assert_non_null(
            strstr(host_work_plan(r.host), "strategy: two dimensions"));
        app_run_close(&r);
    }
}

#define IN_FOLDER(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(loop_of_pairs_is_the_plain_pass),
        IN_FOLDER(loop_of_a_shared_user_has_an_order),
        IN_FOLDER(loop_clocks_are_steps_of_all),
        cmocka_unit_test(loop_order_fills_blocks),
        cmocka_unit_test(loop_trains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
