#include "apps/formats/data_ratings.h"
#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>

#include "tests/unit/fixture/check.h"

static enum err parse(const char *text, size_t len, uint64_t limit,
                      struct ratings *r, struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("mem", text, len, &s, f);

    if (err)
        return err;
    err = ratings_read(r, s, limit, f);
    data_stream_close(s);
    return err;
}

static struct ratings parse_ok(const char *text)
{
    struct ratings r = {0};
    struct fault f = {0};

    if (parse(text, strlen(text), UINT64_MAX, &r, &f))
        fail_msg("%s\n%s", f.text, text);
    return r;
}

static void expect_rating(const struct ratings *r, uint64_t i, int64_t user,
                          int64_t item, float value)
{
    assert_true(i < r->count);
    assert_int_equal(r->users.id[r->user[i]], user);
    assert_int_equal(r->items.id[r->item[i]], item);
    assert_float_equal(r->value[i], value, 0);
}

/* Each separator is understood, with and without time stamp, header, carriage
 * returns, byte order mark, blank lines and a last newline. */
static void ratings_each_form_of_the_format_reads_alike(void **state)
{
    static const char *const texts[] = {
        "7\t30\t4.5\n9\t30\t3\n",
        "7\t30\t4.5\t881250949\n9\t30\t3\t881250950\n",
        "7::30::4.5::978300760\n9::30::3::978300760\n",
        "7::30::4.5\n9::30::3",
        "7,30,4.5\n9,30,3\n",
        "userId,movieId,rating,timestamp\n7,30,4.5,1112486027\n9,30,3.0,"
        "1112484676\n",
        "\"user\";x\n7,30,4.5\n9,30,3\n",
        "7 30 4.5\n9 30 3\n",
        "  7   30 4.5  \r\n9 30    3.000\r\n",
        "\xef\xbb\xbf"
        "7,30,4.5\r\n9,30,3\r\n",
        "\xef\xbb\xbf"
        "user,item,rating\n7,30,4.5\n9,30,3",
        "\n\n7\t30\t45e-1\n\n  \n9\t30\t+3\n\n",
        "7\t30\t4.50000000000000000000000\n9\t30\t0003\n",
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ratings r = parse_ok(texts[i]);

        assert_int_equal(r.count, 2);
        expect_rating(&r, 0, 7, 30, 4.5f);
        expect_rating(&r, 1, 9, 30, 3.0f);
        assert_int_equal(r.users.count, 2);
        assert_int_equal(r.items.count, 1);
        ratings_deinit(&r);
    }
}

/* Ids may be any integers up to 2^63 - 1 and zero; equal ids are one row, and
 * duplicates of a pair are kept. */
static void ratings_ids_are_arbitrary_and_duplicates_kept(void **state)
{
    struct ratings r =
        parse_ok("0\t9223372036854775807\t1\n9223372036854775806\t0\t-2\n"
                 "0\t9223372036854775807\t3\n4194304\t4194303\t4\n");

    (void)state;
    assert_int_equal(r.count, 4);
    expect_rating(&r, 0, 0, INT64_MAX, 1);
    expect_rating(&r, 1, INT64_MAX - 1, 0, -2);
    expect_rating(&r, 2, 0, INT64_MAX, 3);
    expect_rating(&r, 3, 4194304, 4194303, 4);
    assert_int_equal(r.users.count, 3);
    assert_int_equal(r.items.count, 3);
    ratings_deinit(&r);
}

/* Whatever is wrong, the message names the line, what was expected and what was
 * found, and the code is that of malformed data. */
static void ratings_malformed_lines_are_refused_with_their_place(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "no rating"},
        {"\n\n", "no rating"},
        {"user,item,rating\n", "no rating"},
        {"1,2,3\n1,2\n", "line 2: expected a comma, found the end"},
        {"1\t2\t3\n1\t2\t\n", "line 2: expected a rating"},
        {"1\t2\t3\n1\tx\t3\n", "line 2: expected an item id (an integer from 0 "
                               "to 2^63 - 1), found \"x?3\""},
        {"1\t2\t3\n-1\t2\t3\n", "line 2: expected a user id"},
        {"1\t2\t3\n1\t2.5\t3\n", "line 2: expected a tab, found \".5?3\""},
        {"1,2,3,4\n1,2,3\n", "line 2: expected a separator and a time stamp"},
        {"1,2,3,4\n1,2,3,\n", "line 2: expected a time stamp"},
        {"1,2,3\n1,2,3,4\n", "line 2: expected the end of the line, found "
                             "\",4\""},
        {"1,2,3\n1\t2\t3\n", "line 2: expected a comma"},
        {"1,2,nan\n", "line 1: expected user, item, rating"},
        {"1,2,3\n1,2,inf\n", "line 2: expected a rating (a finite number)"},
        {"1,2,3\n1,2,1e99\n", "line 2: expected a rating (a finite number)"},
        {"1,2,3\n1,2,3e\n", "line 2: expected a rating"},
        {"1,2,3\n1,2,0x3\n", "line 2: expected the end of the line"},
        {"1,2,3\n1,2,.\n", "line 2: expected a rating"},
        {"1,2,3\n9223372036854775808,2,3\n", "line 2: expected a user id"},
        {"1,2,3\n99999999999999999999999,2,3\n", "line 2: expected a user id"},
        {"a b c\nd e f\n", "line 2: expected user, item, rating"},
        {"1,2,3\nuser,item,rating\n", "line 2: expected a user id"},
        {"1:5 2:3\n", "line 1: expected user, item, rating"},
        {"1::2:3\n", "line 1: expected user, item, rating"},
        {"1,2,3\n\n\n1,,3\n", "line 4: expected an item id"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ratings r = {0};
        struct fault f = {0};

        if (parse(cases[i].text, strlen(cases[i].text), UINT64_MAX, &r, &f) !=
            ERR_FORMAT)
            fail_msg("taken: %s", cases[i].text);
        if (!strstr(f.text, cases[i].says) || strncmp(f.text, "mem: ", 5) != 0)
            fail_msg("%s\nsays: %s\nwanted: %s", cases[i].text, f.text,
                     cases[i].says);
        ratings_deinit(&r);
    }
}

/* Bytes that are no text do not reach the terminal, and a line without an end
 * is refused before it fills the memory. */
static void ratings_binary_and_endless_lines_are_refused(void **state)
{
    enum { N = 3 << 20 };
    char *zeros = calloc(1, N);
    struct ratings r = {0};
    struct fault f = {0};

    (void)state;
    assert_non_null(zeros);
    assert_int_equal(parse("1,2,\x1b[2J\n", 9, UINT64_MAX, &r, &f), ERR_FORMAT);
    assert_null(strchr(f.text, 0x1b));
    assert_int_equal(parse("1,2,3\n1\0,2,3\n", 13, UINT64_MAX, &r, &f),
                     ERR_FORMAT);
    assert_int_equal(parse(zeros, N, UINT64_MAX, &r, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "longer than"));
    ratings_deinit(&r);
    free(zeros);
}

/* A text of several blocks, with lines across their borders, reads as a plain
 * sscanf reads it. */
static void ratings_large_text_equals_a_plain_parser(void **state)
{
    enum { LINES = 150000 };
    char *text = malloc(LINES * 32), *p = text;
    struct rng rng;
    struct ratings r;
    uint64_t i;

    (void)state;
    assert_non_null(text);
    rng_init(&rng, 7);
    for (i = 0; i < LINES; i++)
        p += sprintf(p, "%u\t%u\t%.*f\n", (unsigned)rng_below(&rng, 5000000),
                     (unsigned)rng_below(&rng, 300), (int)rng_below(&rng, 4),
                     5 * rng_uniform(&rng));
    r = parse_ok(text);
    assert_int_equal(r.count, LINES);
    for (p = text, i = 0; i < LINES; i++) {
        int64_t user, item;
        double value;

        assert_int_equal(
            sscanf(p, "%" SCNd64 "%" SCNd64 "%lf", &user, &item, &value), 3);
        expect_rating(&r, i, user, item, (float)value);
        p = strchr(p, '\n') + 1;
    }
    ratings_deinit(&r);
    free(text);
}

/* The number of a faulty line counts over all blocks. */
static void ratings_line_numbers_count_over_blocks(void **state)
{
    enum { LINES = 200000 };
    char *text = malloc(LINES * 16 + 8), *p = text;
    struct ratings r = {0};
    struct fault f = {0};
    int i;

    (void)state;
    assert_non_null(text);
    for (i = 0; i < LINES; i++)
        p += sprintf(p, "%d,%d,1\n", i, i % 10);
    strcpy(p, "oops\n");
    assert_int_equal(parse(text, strlen(text), UINT64_MAX, &r, &f), ERR_FORMAT);
    assert_non_null(strstr(f.text, "line 200001: expected a user id"));
    ratings_deinit(&r);
    free(text);
}

/* Memory beyond the limit is refused in words, with the line it came to. */
static void ratings_memory_limit_is_an_error(void **state)
{
    enum { LINES = 20000 };
    char *text = malloc(LINES * 16), *p = text;
    struct ratings r = {0};
    struct fault f = {0};
    int i;

    (void)state;
    assert_non_null(text);
    for (i = 0; i < LINES; i++)
        p += sprintf(p, "%d,%d,1\n", i % 7, i % 10);
    assert_int_equal(parse(text, strlen(text), 110000, &r, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "mem: line 8193: ratings: needs"));
    ratings_deinit(&r);
    free(text);
}

/* Users and items count, too: small ids, large ones, both kinds together never
 * take more than the limit. */
static void ratings_ids_count_against_the_limit(void **state)
{
    enum { LINES = 20000, LIMIT = 600000 };
    char *text = malloc(LINES * 32), *p;
    struct fault f = {0};

    (void)state;
    assert_non_null(text);
    for (long from = 0; from <= 5000000; from += 5000000) {
        struct ratings r = {0};

        p = text;
        for (int i = 0; i < LINES; i++)
            p += sprintf(p, "%ld,%ld,1\n", from + i, from + LINES - i);
        assert_int_equal(parse(text, strlen(text), LIMIT, &r, &f), ERR_LIMIT);
        assert_non_null(strstr(f.text, "need more memory than the 0.6 MiB"));
        assert_true(r.count > 1000);
        assert_true(r.capacity * RATING_BYTES + id_map_bytes(&r.users) +
                        id_map_bytes(&r.items) <=
                    LIMIT);
        ratings_deinit(&r);
        assert_int_equal(parse(text, strlen(text), 8 * LIMIT, &r, &f), 0);
        ratings_deinit(&r);
    }
    free(text);
}

/* Every allocation that fails is reported, and the partial result is fit to be
 * released. */
static void ratings_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    char text[400], *p = text;
    int nth, failed = 1, i;

    (void)state;
    for (i = 0; i < 20; i++)
        p += sprintf(p, "%d,%d,1\n", 5000000 + i, i);
    for (nth = 1; failed; nth++) {
        struct ratings r = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = parse(text, strlen(text), UINT64_MAX, &r, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        ratings_deinit(&r);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 10);
}

/* A file that begins like ratings is recognised, other lists of numbers are
 * not. */
static void ratings_sniff_knows_its_own(void **state)
{
    static const struct {
        const char *text;
        bool whole, is;
    } cases[] = {
        {"1\t2\t3\n", true, true},
        {"1::2::3::4\n", false, true},
        {"1,2,3", true, true},
        {"1,2,3", false, false},
        {"u,i,r\n1,2,3\n", false, true},
        {"u,i,r\n", true, false},
        {"1,2\n", true, false},
        {"1,2,3,4,5\n", true, false},
        {"1 1:2 2:3\n", true, false},
        {"# x\n1\t2\n", true, false},
        {"", true, false},
        {"\xef\xbb\xbf"
         "1,2,3\n",
         true, true},
        {"a\nb\n1,2,3\n", true, false},
        {"\n\n1 2 3\n", true, true},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (ratings_sniff(cases[i].text, strlen(cases[i].text),
                          cases[i].whole) != cases[i].is)
            fail_msg("case %zu: %s", i, cases[i].text);
    }
}

/* A split loses and repeats nothing, keeps the order, takes about its fraction,
 * and is the same for the same seed; an allocation that fails changes
 * nothing.*/
static void ratings_split_divides_by_seed(void **state)
{
    enum { N = 20000 };
    char *text = malloc(N * 16), *p = text;
    struct ratings r, again, test, test_again;
    uint64_t i, a = 0, b = 0;
    int n;

    (void)state;
    assert_non_null(text);
    for (n = 0; n < N; n++)
        p += sprintf(p, "%d,%d,1\n", n, n % 100);
    r = parse_ok(text);
    again = parse_ok(text);
    mem_fail_at(1, 0);
    assert_int_equal(ratings_split(&r, 0.1, 5, &test), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(r.count, N);
    assert_int_equal(ratings_split(&r, 0.1, 5, &test), ERR_OK);
    assert_int_equal(ratings_split(&again, 0.1, 5, &test_again), ERR_OK);
    assert_true(test.count > N / 10 - 150 && test.count < N / 10 + 150);
    assert_int_equal(r.count + test.count, N);
    assert_int_equal(test_again.count, test.count);
    assert_memory_equal(test.user, test_again.user, test.count * 4);
    for (i = 0; i < N; i++) {
        if (a < r.count && r.user[a] == i)
            a++;
        else if (b < test.count && test.user[b] == i)
            b++;
        else
            fail_msg("rating %" PRIu64 " is lost", i);
    }
    ratings_deinit(&test);
    assert_int_equal(ratings_split(&r, 0, 5, &test), ERR_OK);
    assert_int_equal(test.count, 0);
    ratings_deinit(&r);
    ratings_deinit(&again);
    ratings_deinit(&test);
    ratings_deinit(&test_again);
    free(text);
}

/* Another seed splits otherwise. */
static void ratings_split_depends_on_the_seed(void **state)
{
    uint64_t i, seed, seen = 0;

    (void)state;
    for (seed = 0; seed < 20; seed++) {
        struct ratings b =
            parse_ok("1,1,1\n2,2,2\n3,3,3\n4,4,4\n5,5,5\n6,6,6\n");
        struct ratings test;

        assert_int_equal(ratings_split(&b, 0.5, seed, &test), ERR_OK);
        for (i = 0; i < test.count; i++)
            seen |= (uint64_t)1 << test.user[i];
        ratings_deinit(&b);
        ratings_deinit(&test);
    }
    assert_int_equal(seen, 63);
}

/* Pairs alone, or with ratings, which a file has throughout or not at all. */
static void ratings_of_pairs_may_be_missing(void **state)
{
    static const char *const good[] = {"7,9\n8,9\n", "user\titem\n7\t9\n8\t9\n",
                                       "7,9,2\n8,9,2\n"};
    static const char *const bad[] = {"7,9\n8\n", "7\n8\n", "7,9\n8,9,2\n"};
    struct data_stream *s;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct ratings r = {0};

        assert_int_equal(
            data_stream_memory("T", good[i], strlen(good[i]), &s, NULL),
            ERR_OK);
        assert_int_equal(ratings_read_pairs(&r, s, UINT64_MAX, NULL), ERR_OK);
        data_stream_close(s);
        assert_int_equal(r.count, 2);
        assert_int_equal(r.users.count, 2);
        assert_int_equal(r.items.count, 1);
        assert_float_equal(r.value[1], i == 2 ? 2 : 0, 0);
        ratings_deinit(&r);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct ratings r = {0};
        struct fault f = {0};

        assert_int_equal(
            data_stream_memory("T", bad[i], strlen(bad[i]), &s, NULL), ERR_OK);
        assert_int_equal(ratings_read_pairs(&r, s, UINT64_MAX, &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, "T: line"));
        data_stream_close(s);
        ratings_deinit(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratings_each_form_of_the_format_reads_alike),
        cmocka_unit_test(ratings_ids_are_arbitrary_and_duplicates_kept),
        cmocka_unit_test(ratings_malformed_lines_are_refused_with_their_place),
        cmocka_unit_test(ratings_binary_and_endless_lines_are_refused),
        cmocka_unit_test(ratings_large_text_equals_a_plain_parser),
        cmocka_unit_test(ratings_line_numbers_count_over_blocks),
        cmocka_unit_test(ratings_memory_limit_is_an_error),
        cmocka_unit_test(ratings_ids_count_against_the_limit),
        cmocka_unit_test(ratings_allocation_failure_leaves_nothing),
        cmocka_unit_test(ratings_sniff_knows_its_own),
        cmocka_unit_test(ratings_split_divides_by_seed),
        cmocka_unit_test(ratings_split_depends_on_the_seed),
        cmocka_unit_test(ratings_of_pairs_may_be_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
