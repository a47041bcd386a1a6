#include "apps/mf/mf_kernel.h"
#include "apps/mf/mf_layout.h"
#include "base/mem.h"
#include "base/rng.h"

#include "tests/unit/fixture/check.h"

enum { RATINGS = 20000, USERS = 300, ITEMS = 90, PARTS = 7 };

static uint32_t user[RATINGS], item[RATINGS];
static float value[RATINGS]; /* its own index, so that each can be told */

/* Heavy users and items, duplicates and all. */
static void draw(void)
{
    struct rng rng;
    uint32_t i;

    rng_init(&rng, 5);
    for (i = 0; i < RATINGS; i++) {
        double u = rng_uniform(&rng), v = rng_uniform(&rng);

        user[i] = (uint32_t)(USERS * u * u * u);
        item[i] = (uint32_t)(ITEMS * v * v);
        value[i] = (float)i;
    }
}

static void make_ratings(struct mf_ratings *r, uint64_t seed)
{
    draw();
    assert_int_equal(
        mf_ratings_init(r, RATINGS, user, item, value, ITEMS, PARTS, seed),
        ERR_OK);
}

/* All ratings are there, sorted by item, in order within an item, with their
 * users; the parts are about equal and depend on the seed. */
static void layout_ratings_are_sorted_by_item(void **state)
{
    struct mf_ratings r, other;
    uint64_t part[PARTS] = {0}, i, k, moved = 0;

    (void)state;
    make_ratings(&r, 1);
    make_ratings(&other, 2);
    assert_int_equal(r.item_begin[0], 0);
    assert_int_equal(r.item_begin[ITEMS], RATINGS);
    for (k = 0; k < ITEMS; k++) {
        for (i = r.item_begin[k]; i < r.item_begin[k + 1]; i++) {
            uint32_t index = (uint32_t)r.value[i];

            assert_int_equal(item[index], k);
            assert_int_equal(user[index], r.user[i]);
            assert_true(i == r.item_begin[k] || r.value[i - 1] < r.value[i]);
            assert_true(r.part[i] < PARTS);
            part[r.part[i]]++;
            moved += r.part[i] != other.part[i];
        }
    }
    for (k = 0; k < PARTS; k++)
        assert_true(part[k] > RATINGS / PARTS - 250 &&
                    part[k] < RATINGS / PARTS + 250);
    assert_true(moved > RATINGS / 2);
    mf_ratings_deinit(&r);
    mf_ratings_deinit(&other);
}

/* Invariants of any share: parts hold their ratings sorted by item, runs and
 * blocks cover them exactly, no block has a user twice. Marks what it saw. */
static void check_share(const struct mf_share *s, uint64_t first, uint64_t rows,
                        uint32_t *part_of)
{
    uint64_t run = 0, block = 0, part, i;

    for (part = 0; part < PARTS; part++) {
        uint64_t at = mf_share_begin(s, MF_RATING, part);
        uint64_t end = mf_share_begin(s, MF_RATING, part + 1);
        uint32_t last_item = 0;

        const uint64_t first_run = run;

        assert_int_equal(mf_share_begin(s, MF_RUN, part), run);
        assert_int_equal(mf_share_begin(s, MF_BLOCK_NO, part), block);
        for (i = at; run < mf_share_begin(s, MF_RUN, part + 1); run++) {
            assert_true(i == at || s->run[run].item >= last_item);
            last_item = s->run[run].item;
            assert_true(s->run[run].count > 0);
            for (uint32_t k = 0; k < s->run[run].count; k++, i++) {
                uint32_t index = (uint32_t)s->value[i];

                assert_int_equal(item[index], last_item);
                assert_int_equal(user[index], s->user[i]);
                assert_true(s->user[i] - first < rows);
                assert_int_equal(part_of[index], UINT32_MAX);
                part_of[index] = (uint32_t)part;
            }
        }
        assert_int_equal(i, end);
        for (i = at, run = first_run;
             block < mf_share_begin(s, MF_BLOCK_NO, part + 1);
             i += s->block[block++]) {
            uint32_t left = s->block[block], item_before = 0;

            assert_in_range(s->block[block], 1, MF_BLOCK);
            for (unsigned a = 0; a < s->block[block]; a++)
                for (unsigned b = 0; b < a; b++)
                    assert_true(s->user[i + a] != s->user[i + b]);
            while (left > 0) { /* runs end with the block */
                assert_true(left == s->block[block] ||
                            s->run[run].item > item_before);
                item_before = s->run[run].item;
                assert_in_range(s->run[run].count, 1, left);
                left -= s->run[run++].count;
            }
        }
        assert_int_equal(i, end);
    }
}

/* However users are dealt out, the shares hold every rating once, and a
 * rating's part is the same. */
static void layout_shares_partition_the_ratings(void **state)
{
    static const uint64_t workers[] = {1, 2, 3, USERS};
    static uint32_t part_of[4][RATINGS];
    struct mf_ratings r;
    uint64_t i, k;

    (void)state;
    make_ratings(&r, 1);
    memset(part_of, 0xff, sizeof(part_of));
    for (k = 0; k < 4; k++) {
        for (i = 0; i < workers[k]; i++) {
            uint64_t first = USERS * i / workers[k];
            uint64_t rows = USERS * (i + 1) / workers[k] - first;
            struct mf_share s;

            assert_int_equal(mf_share_init(&s, &r, first, rows), ERR_OK);
            check_share(&s, first, rows, part_of[k]);
            mf_share_deinit(&s);
        }
        for (i = 0; i < RATINGS; i++) {
            assert_int_not_equal(part_of[k][i], UINT32_MAX);
            assert_int_equal(part_of[k][i], part_of[0][i]);
        }
    }
    mf_ratings_deinit(&r);
}

/* A share may be empty. */
static void layout_empty_share(void **state)
{
    struct mf_ratings r;
    struct mf_share s;
    uint64_t part;

    (void)state;
    make_ratings(&r, 1);
    assert_int_equal(mf_share_init(&s, &r, USERS, 10), ERR_OK);
    assert_int_equal(s.count, 0);
    for (part = 0; part <= PARTS; part++)
        assert_int_equal(mf_share_begin(&s, MF_BLOCK_NO, part), 0);
    mf_share_deinit(&s);
    mf_ratings_deinit(&r);
}

/* Rows are a numbering of what has a count, and any contiguous range of rows
 * holds about its share of the counts, however skewed they are. */
static void layout_rows_balance_every_range(void **state)
{
    enum { N = 5000, CUTS = 8 };
    static uint64_t count[N], of_row[N];
    static uint32_t row[N];
    uint64_t rows, i, k, used = 0, total = 0;

    (void)state;
    for (i = 0; i < N; i++) {
        count[i] = i % 10 == 3 ? 0 : 1 + 200000 / (i + 50);
        used += count[i] > 0;
        total += count[i];
    }
    memset(of_row, 0xff, sizeof(of_row));
    assert_int_equal(mf_number_rows(N, count, row, &rows), ERR_OK);
    assert_int_equal(rows, used);
    for (i = 0; i < N; i++) {
        if (count[i] == 0) {
            assert_int_equal(row[i], UINT32_MAX);
            continue;
        }
        assert_true(row[i] < rows && of_row[row[i]] == UINT64_MAX);
        of_row[row[i]] = count[i];
    }
    for (k = 0; k < CUTS; k++) {
        double sum = 0, fair = (double)total / CUTS;

        for (i = rows * k / CUTS; i < rows * (k + 1) / CUTS; i++)
            sum += (double)of_row[i];
        assert_true(sum > 0.95 * fair && sum < 1.05 * fair);
    }
}

/* One thing, two things, nothing: the numbering's corners. */
static void layout_rows_of_few(void **state)
{
    static const uint64_t none[] = {0, 0}, one[] = {0, 9}, two[] = {3, 3};
    uint32_t row[2];
    uint64_t rows;

    (void)state;
    assert_int_equal(mf_number_rows(2, none, row, &rows), ERR_OK);
    assert_int_equal(rows, 0);
    assert_int_equal(mf_number_rows(2, one, row, &rows), ERR_OK);
    assert_int_equal(rows, 1);
    assert_int_equal(row[1], 0);
    assert_int_equal(mf_number_rows(2, two, row, &rows), ERR_OK);
    assert_int_equal(rows, 2);
    assert_int_equal(row[0] + row[1], 1);
}

/* Every allocation that fails is an error that leaves nothing behind. */
static void layout_allocation_failure_leaves_nothing(void **state)
{
    int64_t before = mem_outstanding();
    int nth, failed = 1;

    (void)state;
    draw();
    for (nth = 1; failed; nth++) {
        struct mf_ratings r = {0};
        struct mf_share s = {0};
        enum err err;

        mem_fail_at(nth, 0);
        err = mf_ratings_init(&r, 500, user, item, value, ITEMS, PARTS, 1);
        if (!err)
            err = mf_share_init(&s, &r, 0, USERS);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        mf_share_deinit(&s);
        mf_ratings_deinit(&r);
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_ratings_are_sorted_by_item),
        cmocka_unit_test(layout_shares_partition_the_ratings),
        cmocka_unit_test(layout_empty_share),
        cmocka_unit_test(layout_rows_balance_every_range),
        cmocka_unit_test(layout_rows_of_few),
        cmocka_unit_test(layout_allocation_failure_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
