/* Versions of tables: what they hold, while rows change; what is released; what
 * happens where there is no room. */
#include "base/mem.h"
#include "mltune/device.h"
#include "mltune/history.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <string.h>

enum {
    WORKERS = 4,
    CLOCKS = 40,
    HELD = 5,
    COPY_BYTES = 4 * FIXTURE_WIDTH + MLT_HISTORY_ROW_BYTES,
    TABLE_BYTES = FIXTURE_ROWS * COPY_BYTES
};

static struct mlt_ps *server(unsigned workers, const char *model, uint64_t cap)
{
    struct mlt_ps *ps = fixture_ps(workers, model, "add");
    struct mlt_error err;

    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    if (mlt_ps_history(ps, 0, cap, &err))
        fail_msg("%s", err.text);
    fixture_start(ps);
    return ps;
}

static struct mlt_history_stats stats(struct mlt_ps *ps)
{
    struct mlt_history_stats s = {.size = sizeof(s)};

    assert_int_equal(mlt_ps_history_stats(ps, 0, &s), 0);
    return s;
}

/* Each worker adds 1 to row r in the clocks c with (c + r) % 3 == 0. */
static void add_some(struct mlt_worker *w, int clock)
{
    float one[FIXTURE_WIDTH];

    for (int j = 0; j < FIXTURE_WIDTH; j++)
        one[j] = 1;
    for (int r = 0; r < FIXTURE_ROWS; r++)
        if ((clock + r) % 3 == 0)
            mlt_inc_row(w, 0, (uint64_t)r, one);
}

static float added_before(int clock, int row)
{
    int n = 0;

    for (int c = 0; c < clock; c++)
        n += (c + row) % 3 == 0;
    return (float)(WORKERS * n);
}

static void check_version(struct mlt_worker *w, uint64_t version, int clock)
{
    const void *p;

    for (int r = 0; r < FIXTURE_ROWS; r++) {
        float want = added_before(clock, r);

        assert_int_equal(mlt_get_row_at(w, 0, version, (uint64_t)r, &p), 0);
        for (int j = 0; j < FIXTURE_WIDTH; j++)
            assert_true(((const float *)p)[j] == want);
    }
}

/* Takes a version a clock, holds the last HELD of them. */
static int level_work(struct mlt_worker *w, void *arg)
{
    uint64_t version[CLOCKS];
    const void *p;
    int err = 0;

    (void)arg;
    for (int c = 0; c < CLOCKS && !err; c++) {
        assert_int_equal(mlt_take_version(w, 0, &version[c]), 0);
        assert_int_equal(version[c], c + 1); /* the same in all workers */
        for (int old = c - HELD + 1; old <= c; old++)
            if (old >= 0)
                check_version(w, version[old], old);
        if (c >= HELD - 1)
            assert_int_equal(mlt_release_version(w, 0, version[c - HELD + 1]),
                             0);
        add_some(w, c);
        err = mlt_clock(w);
        /* Nobody has it any more: all have released it before the clock. */
        if (c >= HELD - 1)
            assert_int_equal(mlt_get_row_at(w, 0, version[c - HELD + 1], 0, &p),
                             ERR_NOENT);
    }
    return err;
}

/* Under barriers each version is the table of its clock, to the bit, in all
 * workers, while later clocks change it; in a second run anew. What is kept
 * stays within the versions that are held: copies are freed. */
static void versions_versions_are_the_table_of_their_clock(void **state)
{
    struct mlt_ps *ps = server(WORKERS, "bsp", 64 * TABLE_BYTES);
    struct mlt_history_stats s;

    (void)state;
    fixture_run(ps, level_work, NULL, 0);
    s = stats(ps);
    assert_int_equal(s.taken, CLOCKS);
    assert_int_equal(s.suspended, 0);
    assert_true(s.bytes <= (HELD + 2) * TABLE_BYTES);
    assert_true(s.copies <= (uint64_t)CLOCKS * FIXTURE_ROWS);
    assert_int_equal(mlt_ps_switch(ps, 0), 0);
    mlt_ps_free(ps);
}

/* ---- without barriers ---------------------------------------------------- */

struct kept {
    uint64_t version;
    float values[FIXTURE_ROWS];
};

/* The row's first value, of FIXTURE_WIDTH that are equal: not torn. */
static float whole_row(struct mlt_worker *w, uint64_t version, uint64_t row)
{
    const float *v;
    const void *p;

    assert_int_equal(mlt_get_row_at(w, 0, version, row, &p), 0);
    v = p;
    for (int j = 1; j < FIXTURE_WIDTH; j++)
        assert_true(v[j] == v[0]);
    return v[0];
}

static int free_work(struct mlt_worker *w, void *arg)
{
    struct kept *kept = calloc(HELD, sizeof(*kept));
    int err = 0;

    (void)arg;
    assert_non_null(kept);
    for (int c = 0; c < CLOCKS && !err; c++) {
        struct kept *k = &kept[c % HELD],
                    *before = &kept[(c + HELD - 1) % HELD];

        if (k->version) {
            for (uint64_t r = 0; r < FIXTURE_ROWS; r++)
                assert_true(whole_row(w, k->version, r) == k->values[r]);
            assert_int_equal(mlt_release_version(w, 0, k->version), 0);
        }
        assert_int_equal(mlt_take_version(w, 0, &k->version), 0);
        for (uint64_t r = 0; r < FIXTURE_ROWS; r++) {
            k->values[r] = whole_row(w, k->version, r);
            if (before->version) /* rows only grow */
                assert_true(k->values[r] >= before->values[r]);
        }
        add_some(w, c);
        err = mlt_clock(w);
    }
    for (int i = 0; i < HELD && !err; i++)
        assert_int_equal(mlt_release_version(w, 0, kept[i].version), 0);
    free(kept);
    return err;
}

/* A version that was read once reads the same for as long as it is held, while
 * others train on without waiting; later versions have no less of the sums. */
static void versions_versions_never_change_without_barriers(void **state)
{
    static const char *const models[] = {"async", "ssp"};

    (void)state;
    for (int m = 0; m < 2; m++) {
        struct mlt_ps *ps = server(WORKERS, models[m], 64 * TABLE_BYTES);

        for (int run = 1; run <= 2; run++) {
            fixture_run(ps, free_work, NULL, 0);
            assert_true(fixture_value(ps, 0, "weights", 0, 0) ==
                        (float)run * added_before(CLOCKS, 0));
            assert_int_equal(stats(ps).suspended, 0);
            assert_int_equal(stats(ps).versions, 1); /* the latest */
        }
        mlt_ps_free(ps);
    }
}

/* ---- references and errors ----------------------------------------------- */

static int refer_work(struct mlt_worker *w, void *arg)
{
    uint64_t a, b, c;
    const void *p;

    (void)arg;
    assert_int_equal(mlt_get_row_at(w, 0, 1, 0, &p), ERR_NOENT); /* none yet */
    assert_int_equal(mlt_release_version(w, 0, 1), ERR_NOENT);
    assert_int_equal(mlt_take_version(w, 0, &a), 0);
    assert_int_equal(mlt_take_version(w, 0, &b), 0);
    assert_int_equal(a, 1);
    assert_int_equal(b, 1); /* nothing has changed */
    assert_int_equal(mlt_release_version(w, 0, a), 0);
    assert_int_equal(mlt_get_row_at(w, 0, b, 0, &p), 0);
    add_some(w, 0);
    assert_int_equal(mlt_clock(w), 0);
    assert_int_equal(mlt_take_version(w, 0, &c), 0);
    assert_int_equal(c, 2);
    assert_int_equal(mlt_get_row_at(w, 0, b, 3, &p), 0);
    assert_true(*(const float *)p == 0);
    assert_int_equal(mlt_get_row_at(w, 0, c, 3, &p), 0);
    assert_true(*(const float *)p == 1);
    assert_int_equal(mlt_release_version(w, 0, b), 0);
    assert_int_equal(mlt_get_row_at(w, 0, b, 3, &p), ERR_NOENT);
    assert_int_equal(mlt_release_version(w, 0, b), ERR_NOENT);
    assert_int_equal(mlt_get_row_at(w, 0, c, 3, &p), 0);
    assert_int_equal(mlt_get_row_at(w, 0, c + 1, 3, &p), ERR_NOENT);
    /* The latest, too, cannot be read without a reference; with a new one it
     * can. */
    assert_int_equal(mlt_release_version(w, 0, c), 0);
    assert_int_equal(mlt_get_row_at(w, 0, c, 3, &p), ERR_NOENT);
    assert_int_equal(mlt_take_version(w, 0, &b), 0);
    assert_int_equal(b, c);
    assert_int_equal(mlt_get_row_at(w, 0, b, 3, &p), 0);
    assert_int_equal(mlt_take_version(w, 1, &c), ERR_UNSUPPORTED);
    assert_int_equal(mlt_release_version(w, 1, 1), ERR_UNSUPPORTED);
    assert_int_equal(mlt_get_row_at(w, 1, 1, 0, &p), ERR_UNSUPPORTED);
    return 0;
}

static int next_run_work(struct mlt_worker *w, void *arg)
{
    const void *p;

    (void)arg;
    assert_int_equal(mlt_get_row_at(w, 0, 2, 3, &p), ERR_NOENT);
    return 0;
}

/* References are counted; what is released, was never taken, or was taken in an
 * earlier run is an error, and so is a table without history. */
static void versions_tells_what_is_released(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    struct mlt_error err;

    (void)state;
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_table(ps, "plain", MLT_F32, MLT_SHARED, 0);
    assert_int_equal(mlt_ps_history(ps, 0, TABLE_BYTES * 4, &err), 0);
    fixture_start(ps);
    fixture_run(ps, refer_work, NULL, 0);
    fixture_run(ps, next_run_work, NULL, 0);
    assert_int_equal(stats(ps).bytes, 0);
    mlt_ps_free(ps);
}

static void add_to(struct mlt_worker *w, uint64_t from, uint64_t to)
{
    const float one[FIXTURE_WIDTH] = {1};

    for (uint64_t r = from; r < to; r++)
        mlt_inc_row(w, 0, r, one);
    assert_int_equal(mlt_clock(w), 0);
}

static int cap_work(struct mlt_worker *w, void *arg)
{
    struct mlt_ps *ps = arg;
    uint64_t first, second, third, fourth;
    const void *p;

    assert_int_equal(mlt_take_version(w, 0, &first), 0);
    add_to(w, 0, FIXTURE_ROWS);
    assert_int_equal(stats(ps).bytes, TABLE_BYTES);
    assert_int_equal(mlt_take_version(w, 0, &second), 0);
    assert_int_equal(second, 2);
    add_to(w, 0, FIXTURE_ROWS);
    assert_int_equal(stats(ps).bytes, 2 * TABLE_BYTES);
    assert_int_equal(mlt_take_version(w, 0, &third), 0);
    assert_int_equal(third, 2); /* no room: the last that was made */
    assert_int_equal(stats(ps).suspended, 1);
    add_to(w, 0, FIXTURE_ROWS); /* more changes take no more memory */
    assert_int_equal(stats(ps).bytes, 2 * TABLE_BYTES);
    assert_int_equal(mlt_get_row_at(w, 0, first, 9, &p), 0);
    assert_true(*(const float *)p == 0);
    assert_int_equal(mlt_get_row_at(w, 0, second, 9, &p), 0);
    assert_true(*(const float *)p == 1);
    assert_int_equal(mlt_release_version(w, 0, first), 0);
    assert_int_equal(mlt_take_version(w, 0, &fourth), 0);
    assert_int_equal(fourth, 3); /* what nobody needs was freed */
    assert_int_equal(stats(ps).bytes, TABLE_BYTES);
    assert_int_equal(mlt_get_row_at(w, 0, fourth, 9, &p), 0);
    assert_true(*(const float *)p == 3);
    assert_int_equal(mlt_get_row_at(w, 0, second, 9, &p), 0);
    assert_true(*(const float *)p == 1);
    assert_int_equal(stats(ps).suspended, 1);
    return 0;
}

/* At the cap no version is made, those that are held stay whole, and once one
 * is released the next is made. */
static void versions_is_suspended_at_its_cap(void **state)
{
    struct mlt_ps *ps = server(1, "bsp", 2 * TABLE_BYTES);

    (void)state;
    fixture_run(ps, cap_work, ps, 0);
    mlt_ps_free(ps);
}

static void expect_at(struct mlt_worker *w, uint64_t version, uint64_t row,
                      float want)
{
    const void *p;

    assert_int_equal(mlt_get_row_at(w, 0, version, row, &p), 0);
    assert_true(*(const float *)p == want);
}

static int freed_work(struct mlt_worker *w, void *arg)
{
    uint64_t first, second, third, fourth;

    (void)arg;
    assert_int_equal(mlt_take_version(w, 0, &first), 0);
    add_to(w, 0, 1); /* a copy of row 0 for the first: 0 */
    assert_int_equal(mlt_take_version(w, 0, &second), 0);
    expect_at(w, second, 0, 1); /* and one for the second: 1 */
    add_to(w, 1, 2);
    assert_int_equal(mlt_take_version(w, 0, &third), 0);
    add_to(w, 1, FIXTURE_ROWS);
    assert_int_equal(mlt_release_version(w, 0, second), 0);
    assert_int_equal(mlt_take_version(w, 0, &fourth), 0); /* frees the second */
    assert_int_equal(third, 3);
    assert_int_equal(fourth, 3); /* at the cap */
    expect_at(w, third, 0, 1);
    expect_at(w, first, 0, 0);
    return 0;
}

/* A row whose latest copy was freed at the cap is copied anew for a version
 * that is held: it does not get an earlier one's values. */
static void versions_keeps_values_when_copies_are_freed(void **state)
{
    struct mlt_ps *ps = server(1, "bsp", 2 * TABLE_BYTES);

    (void)state;
    fixture_run(ps, freed_work, NULL, 0);
    mlt_ps_free(ps);
}

static int one_at_a_time_work(struct mlt_worker *w, void *arg)
{
    struct mlt_ps *ps = arg;
    uint64_t version;

    for (int c = 0; c < 5; c++) {
        assert_int_equal(mlt_take_version(w, 0, &version), 0);
        assert_int_equal(version, c + 1);
        expect_at(w, version, 0, (float)c);
        assert_true(stats(ps).bytes <= stats(ps).cap_bytes);
        assert_int_equal(mlt_release_version(w, 0, version), 0);
        add_to(w, 0, FIXTURE_ROWS);
    }
    assert_int_equal(stats(ps).suspended, 0);
    return 0;
}

/* A cap of one table is enough for one version after the other: the latest is
 * given up where nobody holds it. */
static void versions_goes_on_where_nobody_holds_one(void **state)
{
    static const uint64_t caps[] = {TABLE_BYTES, 2 * TABLE_BYTES - 1};

    (void)state;
    for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++) {
        struct mlt_ps *ps = server(1, "bsp", caps[i]);

        fixture_run(ps, one_at_a_time_work, ps, 0);
        mlt_ps_free(ps);
    }
}

static int poor_work(struct mlt_worker *w, void *arg)
{
    const float one[FIXTURE_WIDTH] = {1};
    uint64_t version, next;
    const void *p;

    (void)arg;
    mem_fail_at(1, false);
    assert_int_equal(mlt_take_version(w, 0, &version), ERR_NOMEM);
    mem_fail_at(0, false);
    assert_int_equal(mlt_take_version(w, 0, &version), 0);
    mem_fail_at(1, false);
    assert_int_equal(mlt_get_row_at(w, 0, version, 0, &p), ERR_NOMEM);
    mem_fail_at(0, false);
    assert_int_equal(mlt_get_row_at(w, 0, version, 0, &p), 0);
    for (uint64_t r = 0; r < FIXTURE_ROWS; r++)
        mlt_inc_row(w, 0, r, one);
    mem_fail_at(2, false);
    assert_int_equal(mlt_clock(w), 0); /* a row's copy fails; no update does */
    assert_true(mem_failed());
    mem_fail_at(0, false);
    assert_int_equal(mlt_get_row_at(w, 0, version, 0, &p), ERR_NOMEM);
    assert_int_equal(mlt_take_version(w, 0, &next), 0);
    assert_int_equal(mlt_get_row_at(w, 0, next, 0, &p), 0);
    assert_true(*(const float *)p == 1);
    return 0;
}

/* Out of memory: what is asked for says so and can be asked again; a version
 * that lost a row says so for good; training goes on. */
static void versions_survives_the_end_of_memory(void **state)
{
    struct mlt_ps *ps = server(1, "bsp", 4 * TABLE_BYTES);

    (void)state;
    fixture_run(ps, poor_work, NULL, 0);
    assert_true(fixture_value(ps, 0, "weights", 7, 0) == 1);
    mlt_ps_free(ps);
}

/* Between clocks that end early and on a device rows change in ways that no
 * version could follow. */
static void versions_refuses_early_clocks_and_devices(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    struct mlt_error err;

    (void)state;
    fixture_table(ps, "early", MLT_F32, MLT_SHARED, MLT_OWN_CLOCK);
    fixture_table(ps, "there", MLT_F32, MLT_SHARED, 0);
    fixture_table(ps, "here", MLT_F32, MLT_SHARED, 0);
    assert_int_equal(mlt_ps_history(ps, 0, 1 << 30, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "early: not of a table whose clock ends"));
    assert_int_equal(mlt_ps_device(ps, "fake", 0, &err), 0);
    assert_int_equal(mlt_ps_on_device(ps, 1, &err), 0);
    assert_int_equal(mlt_ps_history(ps, 1, 1 << 30, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "there: not of a table"));
    assert_int_equal(mlt_ps_history(ps, 2, 1 << 30, &err), 0);
    assert_int_equal(mlt_ps_on_device(ps, 2, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "here: it has a history"));
    mlt_ps_free(ps);
}

/* Not of a local table, nor with a cap below one copy, nor twice, nor between
 * nodes. */
static void versions_refuses_in_words(void **state)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add"), *two;
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_history_stats s = {.size = 1};
    struct mlt_error err;

    (void)state;
    fixture_table(ps, "weights", MLT_F32, MLT_SHARED, 0);
    fixture_table(ps, "own", MLT_F32, MLT_LOCAL, 0);
    assert_int_equal(mlt_ps_history(ps, 1, 1 << 30, &err), ERR_INVAL);
    assert_non_null(strstr(err.text, "own: expected a shared table"));
    assert_int_equal(mlt_ps_history(ps, 0, TABLE_BYTES - 1, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "a copy of each row"));
    assert_int_equal(mlt_ps_history(ps, 0, TABLE_BYTES, &err), 0);
    assert_int_equal(mlt_ps_history(ps, 0, TABLE_BYTES, &err), ERR_EXIST);
    assert_int_equal(mlt_ps_history_stats(ps, 0, &s), ERR_VERSION);
    mlt_ps_free(ps);
    opt.nodes = 2;
    opt.workers = 1;
    opt.meet = "/nowhere";
    assert_int_equal(mlt_ps_new(&opt, &two, NULL), 0);
    fixture_table(two, "weights", MLT_F32, MLT_SHARED, 0);
    assert_int_equal(mlt_ps_history(two, 0, 1 << 30, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "2 nodes"));
    mlt_ps_free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_versions_are_the_table_of_their_clock),
        cmocka_unit_test(versions_versions_never_change_without_barriers),
        cmocka_unit_test(versions_tells_what_is_released),
        cmocka_unit_test(versions_is_suspended_at_its_cap),
        cmocka_unit_test(versions_keeps_values_when_copies_are_freed),
        cmocka_unit_test(versions_goes_on_where_nobody_holds_one),
        cmocka_unit_test(versions_survives_the_end_of_memory),
        cmocka_unit_test(versions_refuses_in_words),
        cmocka_unit_test(versions_refuses_early_clocks_and_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
