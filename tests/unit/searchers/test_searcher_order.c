#include "base/mem.h"
#include "searchers/built_in.h"
#include "searchers/model/sobol.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/space_text.h"

#include <math.h>

enum { DIMS = SOBOL_DIMS_MAX };

/* Every aligned block of 2^k points has one point in each of the 2^k intervals,
 * in every axis, whatever the seed. */
static void sobol_blocks_are_stratified(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct sobol s;

        sobol_init(&s, DIMS, seed);
        for (unsigned n = 1; n <= 256; n *= 2)
            for (unsigned block = 0; block < 3; block++) {
                unsigned char hit[DIMS][256] = {{0}};

                for (unsigned i = 0; i < n; i++) {
                    double u[DIMS];

                    sobol_point(&s, block * n + i, u);
                    for (int j = 0; j < DIMS; j++) {
                        assert_true(u[j] > 0 && u[j] < 1);
                        assert_int_equal(hit[j][(int)(u[j] * n)]++, 0);
                    }
                }
            }
    }
}

/* Worst share, over all pairs of the first @dims axes and all ways to cut the
 * square into 16 equal boxes, of boxes that 16 points leave empty. */
static double empty_share(uint64_t seed, int dims)
{
    double sum = 0;
    int cuts = 0;
    struct sobol s;

    sobol_init(&s, (size_t)dims, seed);
    for (int a = 0; a < dims; a++)
        for (int b = 0; b < a; b++)
            for (int wide = 1; wide <= 16; wide *= 2, cuts++) {
                int hit[16] = {0}, empty = 0;

                for (unsigned i = 0; i < 16; i++) {
                    double u[DIMS];

                    sobol_point(&s, i, u);
                    hit[(int)(u[a] * wide) * (16 / wide) +
                        (int)(u[b] * (16 / wide))] = 1;
                }
                for (int i = 0; i < 16; i++)
                    empty += !hit[i];
                sum += empty / 16.0;
            }
    return sum / cuts;
}

/* Sixteen points leave few of sixteen boxes of a pair of axes empty: none in
 * the first two axes, a tenth on average in six (independent points leave 36
 * %). */
static void sobol_pairs_are_spread(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        assert_true(empty_share(seed, 2) == 0);
        assert_true(empty_share(seed, 6) < 0.15);
    }
}

/* Over many seeds the scrambled point is uniform: mean 1/2, variance 1/12. */
static void sobol_scrambling_is_uniform(void **state)
{
    enum { SEEDS = 4000 };
    double sum = 0, squares = 0;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sobol s;
        double u[2];

        sobol_init(&s, 2, seed);
        sobol_point(&s, 5, u);
        sum += u[1];
        squares += (u[1] - 0.5) * (u[1] - 0.5);
    }
    assert_true(fabs(sum / SEEDS - 0.5) < 0.02);
    assert_true(fabs(squares / SEEDS - 1.0 / 12) < 0.005);
}

/* A searcher with everything told as it comes. */
struct run {
    struct space space;
    struct searcher *searcher;
    uint64_t trial;
};

static struct run *run_new(const struct searcher_ops *ops, const char *text,
                           json_t *settings, uint64_t seed)
{
    struct run *r = mem_calloc(1, sizeof(*r));
    struct fault f = {0};

    assert_non_null(r);
    if (space_from_text(text, &r->space, &f) ||
        searcher_open(ops, &r->space, settings, seed, &r->searcher, &f))
        fail_msg("%s", f.text);
    json_decref(settings);
    return r;
}

static void run_free(struct run *r)
{
    searcher_close(r->searcher);
    mem_free(r);
}

static enum err next(struct run *r, struct setting *x)
{
    struct observation o = {.trial = r->trial, .speed = 1};
    enum err err = searcher_ask(r->searcher, NULL, 0, NULL, x, NULL);

    if (err)
        return err;
    r->trial++;
    o.setting = *x;
    return searcher_tell(r->searcher, &o, NULL);
}

static const char job_text[] =
    "{\"lr\": {\"type\": \"float\", \"min\": 1e-5, \"max\": 1, \"scale\": "
    "\"log\"}, \"momentum\": {\"type\": \"float\", \"min\": 0, \"max\": 0.99},"
    "\"batch\": {\"type\": \"int\", \"values\": [16, 64, 256]}}";

/* Sixteen random trials of a job over five decades leave no gap wider than an
 * eighth of the range (independent ones leave one a fifth wide in the
 * median), in every seed. */
static void random_leaves_no_gaps(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct run *r = run_new(&searcher_random, job_text, NULL, seed);
        int decade_eighths[16] = {0}, batch[3] = {0};

        for (int i = 0; i < 16; i++) {
            double u[TUNABLES_MAX];
            struct setting x;

            assert_int_equal(next(r, &x), ERR_OK);
            space_to_unit(&r->space, &x, u);
            decade_eighths[(int)(u[0] * 16)]++;
            batch[(int)(u[2] * 3)]++;
        }
        for (int i = 0; i < 16; i++)
            assert_int_equal(decade_eighths[i], 1);
        for (int i = 0; i < 3; i++)
            assert_true(batch[i] >= 4);
        run_free(r);
    }
}

/* A long conditional space that conditions have made small still ends. */
static void random_collapsed_space_is_exhausted(void **state)
{
    struct run *r = run_new(
        &searcher_random,
        "{\"on\": {\"type\": \"categorical\", \"values\": [\"no\"]},"
        "\"a\": {\"type\": \"int\", \"min\": 0, \"max\": 100000, \"when\": "
        "{\"b\": 1}},"
        "\"b\": {\"type\": \"int\", \"min\": 0, \"max\": 1000, \"default\": 0, "
        "\"when\": {\"c\": 1}},"
        "\"c\": {\"type\": \"int\", \"values\": [0, 1], \"fixed\": 0}}",
        NULL, 1);
    struct setting x;

    (void)state;
    assert_int_equal(next(r, &x), ERR_OK);
    assert_int_equal(next(r, &x), ERR_EXHAUSTED);
    run_free(r);
}

/* The grid begins in the middle, has seen both ends of all axes within the next
 * grid of three, and so on; it tries each point once, all of them. */
static void grid_goes_coarse_to_fine(void **state)
{
    struct run *r =
        run_new(&searcher_grid,
                "{\"a\": {\"type\": \"float\", \"min\": 0, \"max\": 8},"
                "\"b\": {\"type\": \"float\", \"min\": 0, \"max\": 8}}",
                json_pack("{s:i}", "points", 9), 3);
    unsigned char seen[9][9] = {{0}};
    struct setting x;

    (void)state;
    for (int i = 0; i < 81; i++) {
        int a, b, step = i < 1 ? 0 : i < 9 ? 4 : i < 25 ? 2 : 1;

        assert_int_equal(next(r, &x), ERR_OK);
        a = (int)x.value[0];
        b = (int)x.value[1];
        assert_true(x.value[0] == a && x.value[1] == b);
        if (step == 0)
            assert_true(a == 4 && b == 4);
        else
            assert_true(a % step == 0 && b % step == 0);
        assert_int_equal(seen[a][b]++, 0);
    }
    assert_int_equal(next(r, &x), ERR_EXHAUSTED);
    run_free(r);
}

/* Points of a logarithmic axis are equal factors apart, both ends included. */
static void grid_points_follow_the_scale(void **state)
{
    struct run *r = run_new(&searcher_grid,
                            "{\"lr\": {\"type\": \"float\", \"min\": 1e-5, "
                            "\"max\": 1, \"scale\": \"log\"}}",
                            NULL, 1);
    int seen[11] = {0};
    struct setting x;

    (void)state;
    for (int i = 0; i < 11; i++) {
        double step;

        assert_int_equal(next(r, &x), ERR_OK);
        step = 2 * (log10(x.value[0]) + 5);
        assert_true(fabs(step - round(step)) < 1e-9);
        seen[(int)round(step)]++;
    }
    for (int i = 0; i < 11; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(next(r, &x), ERR_EXHAUSTED);
    run_free(r);
}

/* Listed values are all used, however few points an axis gets; short int ranges
 * are used whole; long ones are cut. */
static void grid_counts_are_as_set(void **state)
{
    struct run *r = run_new(
        &searcher_grid,
        "{\"a\": {\"type\": \"int\", \"values\": [1, 2, 3, 4, 5]},"
        "\"b\": {\"type\": \"int\", \"min\": 0, \"max\": 2},"
        "\"c\": {\"type\": \"int\", \"min\": 0, \"max\": 900},"
        "\"d\": {\"type\": \"categorical\", \"values\": [\"x\", \"y\"]}}",
        json_pack("{s:i}", "points", 4), 1);
    struct setting x;
    int n = 0;

    (void)state;
    while (next(r, &x) == ERR_OK) {
        assert_true(x.value[2] == 0 || x.value[2] == 300 || x.value[2] == 600 ||
                    x.value[2] == 900);
        n++;
    }
    assert_int_equal(n, 5 * 3 * 4 * 2);
    run_free(r);
}

/* A grid with more points than can be counted is refused with advice. */
static void grid_too_large_is_refused(void **state)
{
    struct space *space = mem_alloc(sizeof(*space));
    struct searcher *s = NULL;
    json_t *all = json_object();
    char *text, name[16];
    struct fault f;

    (void)state;
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        json_object_set_new(
            all, name,
            json_pack("{s:s,s:i,s:i}", "type", "float", "min", 0, "max", 1));
    }
    text = json_write(all, 0);
    assert_int_equal(space_from_text(text, space, &f), ERR_OK);
    assert_int_equal(searcher_open(&searcher_grid, space, NULL, 1, &s, &f),
                     ERR_INVAL);
    assert_non_null(strstr(f.text, "fewer \"points\""));
    mem_free(text);
    json_decref(all);
    mem_free(space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sobol_blocks_are_stratified),
        cmocka_unit_test(sobol_pairs_are_spread),
        cmocka_unit_test(sobol_scrambling_is_uniform),
        cmocka_unit_test(random_leaves_no_gaps),
        cmocka_unit_test(random_collapsed_space_is_exhausted),
        cmocka_unit_test(grid_goes_coarse_to_fine),
        cmocka_unit_test(grid_points_follow_the_scale),
        cmocka_unit_test(grid_counts_are_as_set),
        cmocka_unit_test(grid_too_large_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
