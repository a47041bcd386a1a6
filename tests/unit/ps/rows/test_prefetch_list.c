/* Rows that a worker is known to read. */
#include "ps/rows/prefetch_list.h"

#include "base/mem.h"
#include "tests/unit/fixture/check.h"

enum { ROWS = 50, PART = 3 };

/* Marks lie by rows. */
static const struct slots *all_rows(void)
{
    static struct slots dense;

    assert_int_equal(slots_init(&dense, ROWS, true), ERR_OK);
    return &dense;
}

/* The rest of a clock that has begun and reads @n rows: what was asked for
 * comes, and what is read is used. */
static void end_clock(struct prefetch_list *k, const uint64_t row[], size_t n,
                      int64_t held[])
{
    for (size_t i = 0; i < k->waits; i++)
        held[k->wait[i]] = prefetch_list_fetched(k->clock);
    for (size_t i = 0; i < n; i++) {
        if (!prefetch_list_is_fetched(held[row[i]], k->clock))
            prefetch_list_note(k, row[i], all_rows(), held);
        held[row[i]] = k->clock;
    }
}

static void run_clock(struct prefetch_list *k, int64_t clock,
                      const uint64_t row[], size_t n, int64_t held[])
{
    prefetch_list_begin(k, PART, clock, clock, all_rows(), held);
    end_clock(k, row, n, held);
}

static void expect_waits(const struct prefetch_list *k, const uint32_t row[],
                         size_t n)
{
    assert_int_equal(k->waits, n);
    assert_memory_equal(k->wait, row, n * sizeof(*row));
}

/* Rows that the first clock of a part reads are asked for in its next one, in
 * the order of the reading; other parts know nothing of it. */
static void prefetch_list_first_clock_is_asked_for_in_the_next(void **state)
{
    static const uint64_t read[] = {7, 3, 49, 0};
    static const uint32_t want[] = {7, 3, 49, 0};
    int64_t held[ROWS] = {0};
    struct prefetch_list k;

    (void)state;
    prefetch_list_init(&k, ROWS);
    run_clock(&k, 1, read, 4, held);
    assert_int_equal(k.unforeseen, 4);
    prefetch_list_begin(&k, PART + 1, 2, 2, all_rows(), held);
    assert_int_equal(k.waits, 0);
    prefetch_list_begin(&k, PART, 3, 3, all_rows(), held);
    expect_waits(&k, want, 4);
    assert_int_equal(k.early, 4);
    prefetch_list_deinit(&k);
}

/* Rows that the worker has had since then are not asked for: where they stay
 * fresh, those of any clock since; fetched ones count though nobody used them.
 */
static void prefetch_list_held_rows_are_not_asked_for(void **state)
{
    static const uint32_t want[] = {2};
    int64_t held[ROWS] = {0};
    struct prefetch_list k;

    (void)state;
    prefetch_list_init(&k, ROWS);
    for (uint64_t row = 0; row < 4; row++)
        assert_int_equal(prefetch_list_add(&k, PART, row), ERR_OK);
    held[0] = 5;
    held[1] = prefetch_list_fetched(6);
    held[2] = prefetch_list_fetched(4);
    held[3] = 9;
    prefetch_list_begin(&k, PART, 9, 5, all_rows(), held);
    expect_waits(&k, want, 1);
    prefetch_list_deinit(&k);
}

/* A row that is missing is known from its first reading on; one that was
 * fetched in vain is forgotten after a while, and known again when it is read.
 */
static void prefetch_list_adapts_to_what_is_read(void **state)
{
    static const uint64_t before[] = {1, 2}, after[] = {2, 3};
    static const uint32_t both[] = {1, 2, 3}, left[] = {2, 3};
    static const uint32_t again[] = {2, 3, 1};
    int64_t held[ROWS] = {0}, clock = 1;
    struct prefetch_list k;

    (void)state;
    prefetch_list_init(&k, ROWS);
    run_clock(&k, clock++, before, 2, held);
    run_clock(&k, clock++, after, 2, held);
    assert_int_equal(k.unforeseen, 3);
    for (int i = 1; i < PREFETCH_LIST_IDLE_MAX; i++) {
        prefetch_list_begin(&k, PART, clock, clock, all_rows(), held);
        expect_waits(&k, both, 3);
        end_clock(&k, after, 2, held);
        clock++;
    }
    prefetch_list_begin(&k, PART, clock, clock, all_rows(), held);
    expect_waits(&k, left, 2);
    assert_int_equal(k.entries, 2);
    end_clock(&k, (const uint64_t[]){2, 3, 1}, 3, held);
    clock++;
    prefetch_list_begin(&k, PART, clock, clock, all_rows(), held);
    expect_waits(&k, again, 3);
    assert_int_equal(k.unforeseen, 4);
    prefetch_list_deinit(&k);
}

/* A row that was said twice does no harm. */
static void prefetch_list_row_said_twice_is_one(void **state)
{
    int64_t held[ROWS] = {0};
    struct prefetch_list k;

    (void)state;
    prefetch_list_init(&k, ROWS);
    for (int i = 0; i < 2; i++)
        assert_int_equal(prefetch_list_add(&k, PART, 8), ERR_OK);
    for (int64_t clock = 1; clock < 10; clock++)
        run_clock(&k, clock, (const uint64_t[]){8}, 1, held);
    assert_int_equal(k.entries, 1);
    assert_int_equal(k.unforeseen, 0);
    prefetch_list_deinit(&k);
}

/* A row that came with what was asked for and is read anew all the same, since
 * it may be fresher now, is no second one. */
static void prefetch_list_fetched_row_read_anew_is_one(void **state)
{
    int64_t held[ROWS] = {0};
    struct prefetch_list k;

    (void)state;
    prefetch_list_init(&k, ROWS);
    assert_int_equal(prefetch_list_add(&k, PART, 8), ERR_OK);
    for (int64_t clock = 1; clock < 10; clock++) {
        prefetch_list_begin(&k, PART, clock, clock, all_rows(), held);
        assert_int_equal(k.waits, 1);
        held[8] = prefetch_list_fetched(clock);
        prefetch_list_note(&k, 8, all_rows(), held);
        held[8] = clock;
    }
    assert_int_equal(k.entries, 1);
    assert_int_equal(k.unforeseen, 0);
    prefetch_list_deinit(&k);
}

/* Rows without room are not known, and that is all. */
static void prefetch_list_full_lists_only_know_less(void **state)
{
    int64_t held[ROWS] = {0};
    struct prefetch_list k;
    enum err err = ERR_OK;
    uint64_t part = 0;

    (void)state;
    prefetch_list_init(&k, ROWS);
    assert_int_equal(prefetch_list_add(&k, PREFETCH_LIST_PARTS_MAX, 0),
                     ERR_LIMIT);
    for (; !err; part++)
        for (uint64_t row = 0; row < ROWS && !err; row++)
            err = prefetch_list_add(&k, part, row);
    assert_int_equal(err, ERR_LIMIT);
    assert_int_equal(k.entries, prefetch_list_entries_max(ROWS));
    run_clock(&k, 1, (const uint64_t[]){8}, 1, held);
    assert_int_equal(k.entries, prefetch_list_entries_max(ROWS));
    prefetch_list_begin(&k, PREFETCH_LIST_PARTS_MAX + 1, 2, 2, all_rows(),
                        held);
    prefetch_list_note(&k, 9, all_rows(), held);
    prefetch_list_deinit(&k);
}

/* Whichever allocation fails, only knowledge is lost. */
static void prefetch_list_without_memory_knows_less(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (int64_t n = 1;; n++) {
        int64_t held[ROWS] = {0};
        struct prefetch_list k;
        enum err err;

        prefetch_list_init(&k, ROWS);
        mem_fail_at(n, 0);
        err = prefetch_list_add(&k, PART, 4);
        mem_fail_at(0, 0);
        assert_int_equal(k.entries, err ? 0 : 1);
        run_clock(&k, 1, (const uint64_t[]){4, 5}, 2, held);
        assert_int_equal(k.entries, 2);
        prefetch_list_deinit(&k);
        assert_int_equal(mem_outstanding(), before);
        if (!err)
            break;
        assert_int_equal(err, ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefetch_list_first_clock_is_asked_for_in_the_next),
        cmocka_unit_test(prefetch_list_held_rows_are_not_asked_for),
        cmocka_unit_test(prefetch_list_adapts_to_what_is_read),
        cmocka_unit_test(prefetch_list_row_said_twice_is_one),
        cmocka_unit_test(prefetch_list_fetched_row_read_anew_is_one),
        cmocka_unit_test(prefetch_list_full_lists_only_know_less),
        cmocka_unit_test(prefetch_list_without_memory_knows_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
