/* Tables whose rows belong to keys. */
#include "base/mem.h"
#include "base/rng.h"
#include "ps/disk/model_io.h"
#include "ps/server/core.h"
#include "ps/server/keys.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

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

/* Worker 0 fails; the others call nothing but what looks for keys (worker 1) or
 * adds some that are there (worker 2), and are told. */
enum { LOOKS_MAX = 100000000 };

static int look_until_told(struct mlt_worker *w, void *arg)
{
    uint64_t key[2] = {1, 2}, row[2];
    int err = mlt_add_keys(w, 0, 2, key, row);

    (void)arg;
    if (mlt_worker_index(w) == 0)
        return ERR_APP;
    for (int i = 0; i < LOOKS_MAX && !err; i++)
        err = mlt_worker_index(w) == 1 ? mlt_find_keys(w, 0, 2, key, row)
                                       : mlt_add_keys(w, 0, 2, key, row);
    if (err == ERR_CANCELED && row[0] < KEYS && row[1] < KEYS)
        atomic_fetch_add(&differ, 1);
    return err;
}

static void a_run_that_ends_is_told_to_who_looks_for_keys(void **state)
{
    struct mlt_ps *ps = keyed_ps(3, "bsp", KEYS);

    (void)state;
    differ = 0;
    fixture_run(ps, look_until_told, NULL, ERR_APP);
    assert_int_equal(differ, 2);
    differ = 0;
    mlt_ps_free(ps);
}

/* What cannot have keys is said. */
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
}

static void write_checkpoint(struct mlt_ps *ps, const char *name)
{
    struct mlt_error err;

    if (mlt_ps_checkpoint(ps, scratch_path(name), &err) ||
        mlt_ps_checkpoint_end(ps, &err))
        fail_msg("%s", err.text);
}

static void refuse_restore(struct mlt_ps *ps, int code, const char *says)
{
    struct mlt_error err;
    uint32_t branch;

    assert_int_equal(mlt_ps_restore(ps, scratch_path("was"), &branch, &err),
                     code);
    assert_non_null(strstr(err.text, says));
}

/* Adds keys that nobody has, one each, until there is no row left. */
static int add_others(struct mlt_worker *w, void *arg)
{
    uint64_t *added = arg, row;

    for (uint64_t i = 0;; i++) {
        uint64_t key = rng_mix(77, i);
        int err = mlt_add_keys(w, 0, 1, &key, &row);

        if (err)
            return err == ERR_LIMIT ? 0 : err;
        *added += 1;
    }
}

/* A checkpoint has the keys: another server, of as many workers or others, has
 * them in the same rows, with what was in these, and goes on giving rows that
 * are free, to the last. The server that wrote it may read it, too. */
static void keys_are_in_checkpoints(void **state)
{
    static const unsigned workers[] = {WORKERS, 1, 3};
    struct mlt_ps *ps = keyed_ps(WORKERS, "bsp", KEYS + 500);
    uint32_t branch;

    (void)state;
    memset(row_of, 0, sizeof(row_of));
    differ = 0;
    fixture_run(ps, add_everywhere, NULL, 0);
    write_checkpoint(ps, "was");
    assert_int_equal(mlt_ps_restore(ps, scratch_path("was"), &branch, NULL), 0);
    assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
    mlt_ps_free(ps);
    for (size_t i = 0; i < 3; i++) {
        uint64_t added = 0;

        ps = keyed_ps(workers[i], "bsp", KEYS + 500);
        assert_int_equal(mlt_ps_restore(ps, scratch_path("was"), &branch, NULL),
                         0);
        assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
        assert_int_equal(mlt_ps_switch(ps, branch), 0);
        fixture_run(ps, add_everywhere, NULL, 0);
        assert_int_equal(differ, 0);
        for (uint64_t k = 0; k < KEYS; k++) {
            struct ps_rows r = {branch, 0, row_of[k] - 1, 1, 0, 2};
            double values[2];

            assert_int_equal(ps_read_part(ps, &r, values), ERR_OK);
            assert_int_equal((int)values[0],
                             (int)((WORKERS + workers[i]) * CLOCKS));
        }
        if (workers[i] == 1) {
            fixture_run(ps, add_others, &added, 0);
            assert_int_equal(added, 500);
        }
        mlt_ps_free(ps);
    }
}

/* Copies all keys, as the thread does that writes a checkpoint, until told. */
struct copier {
    struct keys *keys;
    _Atomic bool done;
    _Atomic unsigned rounds;
};

static void *copy_keys(void *arg)
{
    struct copier *c = arg;
    struct key_entry *entry = NULL;
    size_t room = 0, n;

    while (!atomic_load(&c->done)) {
        for (uint64_t s = 0; s < keys_segments(c->keys); s++)
            if (keys_copy(c->keys, s, &entry, &room, &n))
                return arg;
        atomic_fetch_add(&c->rounds, 1);
    }
    mem_free(entry);
    return NULL;
}

/* Keys may be restored while a checkpoint is still being written (asan and tsan
 * tell of what is read as it grows). */
static void keys_are_put_beside_the_writer(void **state)
{
    struct mlt_ps *ps = keyed_ps(1, "bsp", KEYS);
    struct copier c = {.keys = ps_shape(ps)->worker[0].view[0].keys};
    pthread_t thread;
    void *failed;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, copy_keys, &c), 0);
    while (atomic_load(&c.rounds) == 0)
        sched_yield();
    for (uint64_t i = 0; i < KEYS; i++)
        assert_int_equal(keys_put(c.keys, key_at(i), KEYS - 1 - i), ERR_OK);
    atomic_store(&c.done, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
    mlt_ps_free(ps);
}

/* New keys get the rows that a state has left free: whole words of 64 bits are
 * passed over, and none that is free; then there is none. */
static void keys_get_the_rows_that_are_left(void **state)
{
    static const uint64_t left[] = {1, 128, 130, 190};
    struct mlt_ps *ps = keyed_ps(1, "bsp", 192);
    struct keys *k = ps_shape(ps)->worker[0].view[0].keys;
    uint64_t key, row;

    (void)state;
    for (uint64_t r = 0, at = 0; r < 192; r++)
        if (at < 4 && r == left[at])
            at++;
        else
            assert_int_equal(keys_put(k, 1000 + r, r), ERR_OK);
    for (uint64_t i = 0; i < 4; i++) {
        key = i;
        assert_int_equal(keys_take(k, true, 1, &key, &row), ERR_OK);
        assert_int_equal(row, left[i]);
    }
    for (key = 4; key < 6; key++) {
        assert_int_equal(keys_take(k, true, 1, &key, &row), ERR_LIMIT);
        assert_true(row == MLT_NO_ROW);
    }
    assert_int_equal(mlt_ps_keys(ps, 0), 192);
    mlt_ps_free(ps);
}

/* A file of keys that is damaged, gone, or of another checkpoint is refused,
 * and so are keys that have other rows here; then nothing has changed. */
static void keys_that_cannot_be_are_refused(void **state)
{
    struct mlt_ps *ps = keyed_ps(2, "bsp", KEYS);
    uint64_t added = 0;
    unsigned char *bytes, *other;
    size_t n, m;

    (void)state;
    fixture_run(ps, add_everywhere, NULL, 0);
    write_checkpoint(ps, "was");
    fixture_run(ps, add_everywhere, NULL, 0);
    write_checkpoint(ps, "later");
    mlt_ps_free(ps);
    ps = keyed_ps(2, "bsp", KEYS);
    bytes = scratch_read("was/keys-0-0", &n);
    other = scratch_read("later/keys-0-0", &m);
    assert_true(bytes && other && n == 28 + 12 * (size_t)KEYS + 4);
    scratch_write("was/keys-0-0", other, m);
    refuse_restore(ps, ERR_FORMAT, "keys-0-0: it is of another checkpoint");
    for (size_t at = 0; at < n; at += at < 48 ? 1 : 997) {
        bytes[at] ^= 16;
        scratch_write("was/keys-0-0", bytes, n);
        refuse_restore(ps, ERR_FORMAT, "keys-0-0");
        bytes[at] ^= 16;
    }
    scratch_write("was/keys-0-0", bytes, n / 2);
    refuse_restore(ps, ERR_FORMAT, "damaged");
    assert_int_equal(remove(scratch_path("was/keys-0-0")), 0);
    refuse_restore(ps, ERR_NOENT, "keys-0-0");
    scratch_write("was/keys-0-0", bytes, n);
    assert_int_equal(mlt_ps_keys(ps, 0), 0);
    mlt_ps_free(ps);
    ps = keyed_ps(1, "bsp", KEYS);
    fixture_run(ps, add_others, &added, 0);
    refuse_restore(ps, ERR_INVAL, "restore before keys are added");
    assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
    mlt_ps_free(ps);
    free(bytes);
    free(other);
}

/* A saved model has its keys in order, with their rows; who loads it has them.
 * One without any is saved and loaded, too. */
static void keys_are_in_saved_models(void **state)
{
    struct mlt_ps *ps = keyed_ps(2, "bsp", KEYS);
    unsigned char *bytes;
    uint64_t before = 0, pair[2];
    struct fault f;
    size_t n;

    (void)state;
    assert_int_equal(mlt_ps_save(ps, scratch_folder(), NULL), 0);
    assert_int_equal(ps_load(ps, scratch_folder(), &f), ERR_OK);
    assert_int_equal(mlt_ps_keys(ps, 0), 0);
    memset(row_of, 0, sizeof(row_of));
    differ = 0;
    fixture_run(ps, add_everywhere, NULL, 0);
    assert_int_equal(mlt_ps_save(ps, scratch_folder(), NULL), 0);
    mlt_ps_free(ps);
    bytes = scratch_read("keyed.keys.npy", &n);
    assert_true(bytes && n > 16 * (size_t)KEYS);
    for (size_t i = 0; i < KEYS; i++, before = pair[0]) {
        memcpy(pair, bytes + n - 16 * (KEYS - i), sizeof(pair));
        assert_true(i == 0 || pair[0] > before);
        assert_true(pair[1] < KEYS);
    }
    free(bytes);
    ps = keyed_ps(3, "bsp", KEYS);
    assert_int_equal(ps_load(ps, scratch_folder(), &f), ERR_OK);
    assert_int_equal(mlt_ps_keys(ps, 0), KEYS);
    fixture_run(ps, add_everywhere, NULL, 0);
    assert_int_equal(differ, 0);
    check_sums(ps, 0, (2 + 3) * CLOCKS);
    assert_int_equal(remove(scratch_path("keyed.keys.npy")), 0);
    assert_int_equal(ps_load(ps, scratch_folder(), &f), ERR_IO);
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
        cmocka_unit_test(keys_are_refused_in_words),
        cmocka_unit_test(a_run_that_ends_is_told_to_who_looks_for_keys),
        cmocka_unit_test_setup_teardown(keys_are_in_checkpoints, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(keys_are_put_beside_the_writer),
        cmocka_unit_test(keys_get_the_rows_that_are_left),
        cmocka_unit_test_setup_teardown(keys_that_cannot_be_are_refused,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(keys_are_in_saved_models, scratch_make,
                                        scratch_remove),
        cmocka_unit_test(keys_are_planned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
