/* Tables whose rows belong to keys. */
#include "base/mem.h"
#include "base/rng.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <stdatomic.h>

enum { KEYS = 5000, WORKERS = 4, CLOCKS = 6, BATCH = 100 };

static struct mlt_ps *keyed_ps(unsigned workers, const char *model,
                               uint64_t rows)
{
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "keyed",
                                    .rows = rows,
                                    .width = 2,
                                    .type = MLT_I32,
                                    .access = MLT_SHARED,
                                    .flags = MLT_KEYED,
                                    .chunk_bytes = 512};
    struct mlt_ps *ps = fixture_ps(workers, model, "add");
    struct mlt_error err;
    mlt_table table;

    if (mlt_ps_table(ps, &opt, &table, &err))
        fail_msg("%s", err.text);
    fixture_start(ps);
    return ps;
}

static uint64_t key_at(uint64_t i)
{
    return i % 3 ? rng_mix(9, i) : i - 3; /* all ones and 0 among them */
}

/* What all workers found: the row of each key, and 1. */
static _Atomic uint64_t row_of[KEYS];
static _Atomic unsigned differ;

static void compare_row(uint64_t i, uint64_t row)
{
    uint64_t none = 0;

    if (!atomic_compare_exchange_strong(&row_of[i], &none, row + 1) &&
        none != row + 1)
        atomic_fetch_add(&differ, 1);
}

/* Each adds all keys in an order of its own, a batch at a time, and 1 to each
 * one's row in each clock. */
static int add_everywhere(struct mlt_worker *w, void *arg)
{
    const int32_t one[2] = {1, 1};
    uint64_t key[BATCH], row[BATCH];
    struct perm order;

    (void)arg;
    for (int clock = 0; clock < CLOCKS; clock++) {
        perm_init(&order, KEYS, rng_mix(mlt_worker_index(w), clock));
        for (uint64_t i = 0; i < KEYS; i += BATCH) {
            for (uint64_t j = 0; j < BATCH; j++)
                key[j] = key_at(perm_at(&order, i + j));
            if (mlt_add_keys(w, 0, BATCH, key, row))
                return ERR_APP;
            for (uint64_t j = 0; j < BATCH; j++) {
                compare_row(perm_at(&order, i + j), row[j]);
                mlt_inc_row(w, 0, row[j], one);
            }
        }
        if (mlt_clock(w))
            return ERR_CANCELED;
    }
    return 0;
}

static void check_sums(struct mlt_ps *ps, branch_id id, int want)
{
    static bool seen[KEYS];

    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t row = atomic_load(&row_of[i]) - 1;
        struct ps_rows r = {id, 0, row, 1, 0, 2};
        double values[2];

        assert_true(row < KEYS && !seen[row]);
        seen[row] = true;
        assert_int_equal(ps_read_part(ps, &r, values), ERR_OK);
        assert_int_equal((int)values[0], want);
    }
}

/* Whoever adds a key, and when: all find the same row, each key has one of its
 * own, as many fit as there are rows, and no update is lost. In another branch
 * keys have their rows, too, with what that branch has in them. */
static void keys_have_one_row_for_all(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async"};

    (void)state;
    for (size_t m = 0; m < 4; m++) {
        struct mlt_ps *ps = keyed_ps(WORKERS, models[m], KEYS);
        uint32_t child;

        memset(row_of, 0, sizeof(row_of));
        assert_int_equal(mlt_ps_keys(ps, 0), 0);
        assert_int_equal(mlt_ps_fork(ps, 0, &child), 0);
        fixture_run(ps, add_everywhere, NULL, 0);
        assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
        check_sums(ps, 0, WORKERS * CLOCKS);
        check_sums(ps, child, 0);
        assert_int_equal(mlt_ps_switch(ps, child), 0);
        assert_int_equal(mlt_ps_drop(ps, 0), 0);
        fixture_run(ps, add_everywhere, NULL, 0);
        assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
        assert_int_equal(differ, 0);
        check_sums(ps, child, WORKERS * CLOCKS);
        mlt_ps_free(ps);
    }
}

/* A look for a key adds none. One more key than there are rows is refused, by
 * itself: the others of its batch are there, and so are all before it. */
static int fill_up(struct mlt_worker *w, void *arg)
{
    enum { ROWS = 300 };
    uint64_t key[ROWS + 2], row[ROWS + 2], again[ROWS + 2];

    (void)arg;
    for (uint64_t i = 0; i < ROWS + 2; i++)
        key[i] = key_at(i);
    if (mlt_find_keys(w, 0, ROWS + 2, key, row))
        return ERR_APP;
    for (uint64_t i = 0; i < ROWS + 2; i++)
        if (row[i] != MLT_NO_ROW)
            return ERR_APP;
    if (mlt_add_keys(w, 0, ROWS - 1, key, row))
        return ERR_APP;
    key[ROWS] = key[7];
    if (mlt_add_keys(w, 0, ROWS + 2, key, again) != ERR_LIMIT)
        return ERR_APP;
    for (uint64_t i = 0; i < ROWS - 1; i++)
        if (again[i] != row[i])
            return ERR_APP;
    return again[ROWS - 1] < ROWS && again[ROWS] == row[7] &&
                   again[ROWS + 1] == MLT_NO_ROW
               ? 0
               : ERR_APP;
}

static void keys_beyond_the_rows_are_refused(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        struct mlt_ps *ps = keyed_ps(workers, "bsp", 300);

        if (workers == 1)
            fixture_run(ps, fill_up, NULL, 0);
        else /* of three, parts of other sizes: any worker's rows will do */
            fixture_run(ps, add_everywhere, NULL, ERR_APP);
        assert_int_equal(mlt_ps_keys(ps, 0), 300);
        mlt_ps_free(ps);
    }
}

/* What cannot have keys, and what cannot be done with a table that has them, is
 * said. */
static void keys_are_refused_in_words(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "own",
                                    .rows = 10,
                                    .width = 1,
                                    .access = MLT_EXCLUSIVE,
                                    .flags = MLT_KEYED};
    struct mlt_error err;
    mlt_table table;

    (void)state;
    assert_int_equal(mlt_ps_table(ps, &opt, &table, &err), ERR_INVAL);
    assert_non_null(strstr(err.text, "MLT_KEYED needs a shared table"));
    opt.access = MLT_SHARED;
    opt.rows = UINT32_MAX;
    assert_int_equal(mlt_ps_table(ps, &opt, &table, &err), ERR_INVAL);
    mlt_ps_free(ps);

    ps = keyed_ps(1, "bsp", 10);
    assert_int_equal(mlt_ps_checkpoint(ps, scratch_path("checkpoint"), &err),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "table keyed has keys"));
    mlt_ps_free(ps);
}

/* Their memory is in the plan, and a start that finds none leaves nothing. */
static void keys_are_planned(void **state)
{
    struct mlt_ps_memory with = {.size = sizeof(with)}, without = with;
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "rows",
                                    .rows = 100000,
                                    .width = 1,
                                    .access = MLT_SHARED};
    int64_t before = mem_outstanding();
    mlt_table table;

    (void)state;
    for (int keyed = 0; keyed < 2; keyed++) {
        struct mlt_ps *ps = fixture_ps(2, "bsp", "add");

        opt.flags = keyed ? MLT_KEYED : 0;
        assert_int_equal(mlt_ps_table(ps, &opt, &table, NULL), 0);
        assert_int_equal(mlt_ps_plan(ps, 1, keyed ? &with : &without), 0);
        for (int n = 1; n < 30 && keyed; n++) {
            mem_fail_at(n, 0);
            (void)mlt_ps_start(ps, NULL);
            mem_fail_at(0, 0);
            if (ps_has(ps, 0))
                break;
        }
        mlt_ps_free(ps);
    }
    assert_true(with.fixed - without.fixed >= 15 * 100000);
    assert_true(with.fixed - without.fixed <= 20 * 100000 + (100 << 10));
    assert_true(mem_outstanding() == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_one_row_for_all),
        cmocka_unit_test(keys_beyond_the_rows_are_refused),
        cmocka_unit_test_setup_teardown(keys_are_refused_in_words, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(keys_are_planned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
