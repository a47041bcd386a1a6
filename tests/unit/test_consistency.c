#include "ps/consistency.h"
#include "tests/unit/check.h"

static struct consistency_view view(struct worker_status w[3], unsigned self,
                                    unsigned staleness)
{
    return (struct consistency_view){w, 3, self, staleness};
}

/* bsp lets nobody read ahead of the slowest worker. */
static void bsp_reads_only_level_with_the_slowest(void **state)
{
    const struct consistency_ops *bsp = consistency_find("bsp");
    struct worker_status w[3] = {{5, true}, {5, true}, {4, true}};
    struct consistency_view fast = view(w, 0, 7), slow = view(w, 2, 7);

    (void)state;
    assert_true(bsp->barrier);
    assert_false(bsp->may_read(&fast));
    assert_true(bsp->may_read(&slow));
    w[2].clock = 5;
    assert_true(bsp->may_read(&fast));
}

/* ssp and essp wait exactly where the lag exceeds the staleness. */
static void ssp_waits_beyond_its_staleness(void **state)
{
    static const char *const names[] = {"ssp", "essp"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct consistency_ops *ssp = consistency_find(names[i]);

        for (int64_t lead = 0; lead < 6; lead++)
            for (unsigned s = 0; s < 6; s++) {
                struct worker_status w[3] = {
                    {10 + lead, true}, {10, true}, {12, true}};
                struct consistency_view v = view(w, 0, s);

                assert_int_equal(ssp->may_read(&v), lead <= (int64_t)s);
            }
    }
}

/* A worker that has finished its run holds nobody up. */
static void ssp_does_not_wait_for_the_finished(void **state)
{
    const struct consistency_ops *ssp = consistency_find("ssp");
    struct worker_status w[3] = {{9, true}, {2, false}, {9, true}};
    struct consistency_view v = view(w, 0, 0);

    (void)state;
    assert_true(ssp->may_read(&v));
    assert_int_equal(ssp->holds(&v), 9);
    w[1].available = true;
    assert_false(ssp->may_read(&v));
    assert_int_equal(ssp->holds(&v), 2);
}

/* A copy may be read again as long as a new read would be allowed to be that
 * stale: whenever a read may go on, what it takes is fresh enough. */
static void consistency_allowed_read_is_fresh_enough(void **state)
{
    (void)state;
    for (size_t i = 0; consistency_at(i); i++) {
        const struct consistency_ops *m = consistency_at(i);

        for (int64_t a = 0; a < 5; a++)
            for (int64_t b = 0; b < 5; b++)
                for (unsigned s = 0; s < 4; s++) {
                    struct worker_status w[3] = {
                        {a, true}, {b, true}, {3, false}};
                    struct consistency_view v = view(w, 0, s);

                    if (m->may_read(&v))
                        assert_true(m->holds(&v) >= m->needs(&v));
                }
    }
}

/* async never waits, and what it copied is good for one clock. */
static void async_never_waits(void **state)
{
    const struct consistency_ops *async = consistency_find("async");
    struct worker_status w[3] = {{100, true}, {0, true}, {0, true}};
    struct consistency_view v = view(w, 0, 0);
    int64_t held = async->holds(&v);

    (void)state;
    assert_true(async->may_read(&v));
    assert_true(held >= async->needs(&v));
    w[0].clock++;
    assert_true(held < async->needs(&v));
}

/* The registry finds what it lists, by the names that messages show. */
static void consistency_registry_lists_what_it_finds(void **state)
{
    char names[256] = "";

    (void)state;
    for (size_t i = 0; consistency_at(i); i++) {
        const struct consistency_ops *m = consistency_at(i);

        assert_ptr_equal(consistency_find(m->name), m);
        strcat(strcat(names, i ? ", " : ""), m->name);
    }
    assert_string_equal(names, consistency_names());
    assert_null(consistency_find("bs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_reads_only_level_with_the_slowest),
        cmocka_unit_test(ssp_waits_beyond_its_staleness),
        cmocka_unit_test(ssp_does_not_wait_for_the_finished),
        cmocka_unit_test(consistency_allowed_read_is_fresh_enough),
        cmocka_unit_test(async_never_waits),
        cmocka_unit_test(consistency_registry_lists_what_it_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
