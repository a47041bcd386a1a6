#include "apps/data/data.h"
#include "base/mem.h"
#include "tests/unit/fixture/scratch.h"

#include <math.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static struct ratings make_ratings(const char *spec)
{
    struct ratings r = {0};
    struct fault f = {0};

    if (data_load_ratings(spec, NULL, &r, &f))
        fail_msg("%s", f.text);
    return r;
}

static void make_digits(const char *spec, struct images *train,
                        struct images *test)
{
    struct fault f = {0};

    if (data_load_images(spec, NULL, train, test, &f))
        fail_msg("%s", f.text);
}

/* Equal texts give equal data, another seed other data, and the counts asked
 * for are met exactly. */
static void gen_ratings_are_a_function_of_the_text(void **state)
{
    static const char spec[] = "gen:ratings?users=300&items=80&ratings=6000";
    struct ratings a = make_ratings(spec), b = make_ratings(spec);
    struct ratings c =
        make_ratings("gen:ratings?users=300&items=80&ratings=6000&seed=2");

    (void)state;
    assert_int_equal(a.count, 6000);
    assert_int_equal(a.users.count, 300);
    assert_memory_equal(a.item, b.item, 6000 * sizeof(*a.item));
    assert_memory_equal(a.value, b.value, 6000 * sizeof(*a.value));
    assert_int_equal(c.count, 6000);
    assert_true(memcmp(a.value, c.value, 6000 * sizeof(*a.value)) != 0);
    ratings_deinit(&a);
    ratings_deinit(&b);
    ratings_deinit(&c);
}

/* Ratings are half stars of 0.5 to 5 around 3.5 with the spread of the model; a
 * user rates an item once, and users and items are long-tailed. */
static void gen_ratings_have_the_promised_shape(void **state)
{
    struct ratings r =
        make_ratings("gen:ratings?users=1000&items=500&ratings=50000");
    unsigned *user = calloc(r.users.count, sizeof(*user));
    unsigned *item = calloc(r.items.count, sizeof(*item));
    unsigned *rated = calloc(r.items.count, sizeof(*rated));
    unsigned user_max = 0, item_max = 0;
    double sum = 0, squares = 0, n = (double)r.count, var;
    uint64_t i;

    (void)state;
    for (i = 0; i < r.count; i++) {
        double v = (double)r.value[i];

        assert_true(v >= 0.5 && v <= 5 && v * 2 == floor(v * 2));
        sum += v;
        squares += v * v;
        assert_int_not_equal(rated[r.item[i]], r.user[i] + 1);
        rated[r.item[i]] = r.user[i] + 1;
        user_max = ++user[r.user[i]] > user_max ? user[r.user[i]] : user_max;
        item_max = ++item[r.item[i]] > item_max ? item[r.item[i]] : item_max;
        assert_true(r.users.id[r.user[i]] >= 1 &&
                    r.users.id[r.user[i]] <= 1000);
        assert_true(r.items.id[r.item[i]] >= 1 && r.items.id[r.item[i]] <= 500);
    }
    var = squares / n - sum / n * sum / n;
    assert_true(fabs(sum / n - 3.5) < 0.1);
    assert_true(sqrt(var) > 0.7 && sqrt(var) < 1.1);
    assert_true(user_max > 5 * 50);
    assert_true(item_max > 4 * 100);
    free(user);
    free(item);
    free(rated);
    ratings_deinit(&r);
}

/* The noise is what it says: without noise and with rank 1, the ratings of a
 * user are a monotone function of the item's factor, so that two users order
 * items alike or oppositely; with full density every pair occurs. */
static void gen_ratings_full_matrix_without_noise_has_rank_one(void **state)
{
    struct ratings r =
        make_ratings("gen:ratings?users=6&items=30&ratings=180&rank=1&noise=0");
    float value[6][30] = {{0}};
    uint64_t i;
    int u, a, b, agree, differ;

    (void)state;
    for (i = 0; i < r.count; i++)
        value[r.users.id[r.user[i]] - 1][r.items.id[r.item[i]] - 1] =
            r.value[i];
    for (u = 0; u < 6; u++) {
        agree = differ = 0;
        for (a = 0; a < 30; a++) {
            for (b = 0; b < a; b++) {
                float s =
                    (value[u][a] - value[u][b]) * (value[0][a] - value[0][b]);

                assert_true(value[u][a] > 0);
                agree += s > 0;
                differ += s < 0;
            }
        }
        assert_true(agree == 0 || differ == 0);
    }
    ratings_deinit(&r);
}

/* Fewer ratings than users, one user, one item: the corners work. */
static void gen_ratings_corners(void **state)
{
    static const char *const specs[] = {"gen:ratings?users=50&ratings=7",
                                        "gen:ratings?users=1&items=9&ratings=9",
                                        "gen:ratings?items=1&users=5&ratings=5",
                                        "gen:ratings?ratings=1"};
    static const uint64_t counts[] = {7, 9, 5, 1};
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        struct ratings r = make_ratings(specs[i]);

        assert_int_equal(r.count, counts[i]);
        ratings_deinit(&r);
    }
}

/* Equal texts give equal images; sizes and the test set are as asked; labels
 * cover the ten classes. */
static void gen_digits_are_a_function_of_the_text(void **state)
{
    struct images a, b, ta, tb, other, none;
    unsigned seen = 0;
    uint64_t i;

    (void)state;
    make_digits("gen:digits?samples=120&size=20", &a, &ta);
    make_digits("gen:digits?samples=120&size=20", &b, &tb);
    make_digits("gen:digits?samples=120&size=20&seed=9&test=0", &other, &none);
    assert_int_equal(a.count, 120);
    assert_int_equal(ta.count, 20);
    assert_int_equal(images_width(&a), 400);
    assert_int_equal(a.classes, 10);
    assert_memory_equal(a.pixel, b.pixel, 120 * 400);
    assert_memory_equal(ta.pixel, tb.pixel, 20 * 400);
    assert_true(memcmp(a.pixel, other.pixel, 120 * 400) != 0);
    assert_true(memcmp(a.pixel, ta.pixel, 20 * 400) != 0);
    assert_int_equal(none.count, 0);
    for (i = 0; i < a.count; i++)
        seen |= 1u << a.label[i];
    assert_int_equal(seen, 0x3ff);
    images_deinit(&a);
    images_deinit(&b);
    images_deinit(&ta);
    images_deinit(&tb);
    images_deinit(&other);
}

/* Digits look like digits: the nearest class mean names most unseen ones, which
 * blank, shifted or mislabelled images would not allow. */
static void gen_digits_can_be_told_apart(void **state)
{
    struct images train, test;
    double(*mean)[784] = calloc(10, sizeof(*mean));
    double n[10] = {0};
    uint64_t i, hits = 0;
    int c, k;

    (void)state;
    make_digits("gen:digits?samples=3000&test=500", &train, &test);
    for (i = 0; i < train.count; i++) {
        n[train.label[i]]++;
        for (k = 0; k < 784; k++)
            mean[train.label[i]][k] += train.pixel[i * 784 + (uint64_t)k];
    }
    for (i = 0; i < test.count; i++) {
        double best = INFINITY;
        int guess = -1;

        for (c = 0; c < 10; c++) {
            double d = 0;

            for (k = 0; k < 784; k++) {
                double e =
                    mean[c][k] / n[c] - test.pixel[i * 784 + (uint64_t)k];

                d += e * e;
            }
            if (d < best) {
                best = d;
                guess = c;
            }
        }
        hits += guess == test.label[i];
    }
    assert_true(hits > 300); /* far above one in ten ... */
    assert_true(hits < 495); /* ... and not trivial */
    free(mean);
    images_deinit(&train);
    images_deinit(&test);
}

/* Unknown kinds and keys, and values out of range, are refused with what there
 * is and what was meant. */
static void gen_bad_texts_are_refused_with_the_list(void **state)
{
    static const struct {
        const char *spec, *says;
    } cases[] = {
        {"gen:", "no generator \"\"; there are: ratings, digits"},
        {"gen:rating", "there are: ratings, digits"},
        {"gen:ratings?user=3", "did you mean \"users\"?); its keys: users, "
                               "items, ratings, rank, noise, seed"},
        {"gen:ratings?foo=3", "no key \"foo\"; its keys: users"},
        {"gen:ratings?users", "expected key=value, found \"users\""},
        {"gen:ratings?users=", "users: expected an integer from 1"},
        {"gen:ratings?users=1.5", "expected an integer"},
        {"gen:ratings?users=0", "expected an integer"},
        {"gen:ratings?users=1e300", "expected an integer"},
        {"gen:ratings?noise=nan", "noise: expected a number from 0 to 10"},
        {"gen:ratings?noise=1x", "noise: expected a number"},
        {"gen:ratings?users=2&items=2&ratings=5", "at most users x items = 4"},
        {"gen:ratings?users=100000000000000000000000000000000000000000000000000"
         "00000000000000",
         "too long"},
        {"gen:digits", "makes an IDX array; expected ratings"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ratings r;
        struct fault f = {0};

        assert_int_equal(data_load_ratings(cases[i].spec, NULL, &r, &f),
                         ERR_INVAL);
        if (!strstr(f.text, cases[i].says))
            fail_msg("%s: %s", cases[i].spec, f.text);
    }
    {
        struct images a, b;
        struct fault f = {0};

        assert_int_equal(data_load_images("gen:ratings", NULL, &a, &b, &f),
                         ERR_INVAL);
        assert_non_null(strstr(f.text, "expected images"));
        assert_int_equal(
            data_load_images("gen:digits?size=7", NULL, &a, &b, &f), ERR_INVAL);
    }
}

/* More than the memory holds is refused before anything is made. */
static void gen_too_large_is_refused(void **state)
{
    struct ratings r;
    struct images a, b;
    struct fault f = {0};

    (void)state;
    assert_int_equal(gen_ratings("gen:ratings", 1000000, &r, &f), ERR_LIMIT);
    assert_int_equal(gen_ratings("gen:ratings", 1000, &r, &f), ERR_LIMIT);
    assert_int_equal(gen_digits("gen:digits", 1000000, &a, &b, &f), ERR_LIMIT);
}

/* Every allocation that fails is reported and undone. */
static void gen_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    for (nth = 1; failed; nth++) {
        struct ratings r = {0};
        struct images a = {0}, b = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = gen_ratings("gen:ratings?users=20&items=20&ratings=50",
                          UINT64_MAX, &r, NULL);
        if (!err)
            err = gen_digits("gen:digits?samples=6", UINT64_MAX, &a, &b, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        ratings_deinit(&r);
        images_deinit(&a);
        images_deinit(&b);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 12);
}

/* Generated data written to files load as they were generated. */
static void gen_written_files_load_alike(void **state)
{
    static const char ratings_spec[] =
        "gen:ratings?users=30&items=20&ratings=200";
    static const char digits_spec[] = "gen:digits?samples=30&size=12";
    struct ratings made = make_ratings(ratings_spec), read = {0};
    struct images a, ta, b, tb;
    struct fault f = {0};
    uint64_t i;

    (void)state;
    assert_int_equal(data_generate(ratings_spec, scratch_path("r.tsv"), &f),
                     ERR_OK);
    assert_int_equal(data_load_ratings(scratch_path("r.tsv"), NULL, &read, &f),
                     ERR_OK);
    assert_int_equal(read.count, made.count);
    assert_memory_equal(read.user, made.user, made.count * 4);
    assert_memory_equal(read.value, made.value, made.count * 4);
    for (i = 0; i < made.items.count; i++)
        assert_int_equal(made.items.id[i], read.items.id[i]);
    ratings_deinit(&made);
    ratings_deinit(&read);
    make_digits(digits_spec, &a, &ta);
    assert_int_equal(data_generate(digits_spec, scratch_path("d"), &f), ERR_OK);
    assert_int_equal(data_generate(digits_spec, scratch_path("d"), &f), ERR_OK);
    make_digits(scratch_path("d"), &b, &tb);
    assert_int_equal(b.count, 30);
    assert_int_equal(tb.count, 5);
    assert_memory_equal(a.pixel, b.pixel, 30 * 144);
    assert_memory_equal(ta.label, tb.label, 5);
    images_deinit(&a);
    images_deinit(&ta);
    images_deinit(&b);
    images_deinit(&tb);
    assert_int_equal(data_generate("file", scratch_path("x"), &f), ERR_INVAL);
    assert_int_equal(data_generate(ratings_spec, "/nonexistent/x", &f), ERR_IO);
    assert_int_equal(data_generate(digits_spec, "/nonexistent/x", &f), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gen_ratings_are_a_function_of_the_text),
        cmocka_unit_test(gen_ratings_have_the_promised_shape),
        cmocka_unit_test(gen_ratings_full_matrix_without_noise_has_rank_one),
        cmocka_unit_test(gen_ratings_corners),
        cmocka_unit_test(gen_digits_are_a_function_of_the_text),
        cmocka_unit_test(gen_digits_can_be_told_apart),
        cmocka_unit_test(gen_bad_texts_are_refused_with_the_list),
        cmocka_unit_test(gen_too_large_is_refused),
        cmocka_unit_test(gen_allocation_failure_leaves_nothing),
        cmocka_unit_test_setup_teardown(gen_written_files_load_alike,
                                        scratch_make, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
