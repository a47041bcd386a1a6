#include "ps/rows/consistency.h"

#include "base/proto/staleness_json.h"
#include "tests/unit/fixture/check.h"

#include <math.h>

static struct consistency_view view(struct worker_status w[3], unsigned self,
                                    unsigned staleness)
{
    return (struct consistency_view){
        .worker = w, .workers = 3, .self = self, .staleness = staleness};
}

/* bsp lets nobody read ahead of the slowest worker. */
static void bsp_reads_only_level_with_the_slowest(void **state)
{
    const struct consistency_ops *bsp = consistency_find("bsp");
    struct worker_status w[3] = {{.clock = 5, .available = true},
                                 {.clock = 5, .available = true},
                                 {.clock = 4, .available = true}};
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
                    {.clock = 10 + lead, .available = true},
                    {.clock = 10, .available = true},
                    {.clock = 12, .available = true}};
                struct consistency_view v = view(w, 0, s);

                assert_int_equal(ssp->may_read(&v), lead <= (int64_t)s);
            }
    }
}

/* A worker that has finished its run holds nobody up. */
static void ssp_does_not_wait_for_the_finished(void **state)
{
    const struct consistency_ops *ssp = consistency_find("ssp");
    struct worker_status w[3] = {{.clock = 9, .available = true},
                                 {.clock = 2, .available = false},
                                 {.clock = 9, .available = true}};
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
                        {.clock = a, .available = true},
                        {.clock = b, .available = true},
                        {.clock = 3, .available = false}};
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
    struct worker_status w[3] = {{.clock = 100, .available = true},
                                 {.clock = 0, .available = true},
                                 {.clock = 0, .available = true}};
    struct consistency_view v = view(w, 0, 0);
    int64_t held = async->holds(&v);

    (void)state;
    assert_true(async->may_read(&v));
    assert_true(held >= async->needs(&v));
    w[0].clock++;
    assert_true(held < async->needs(&v));
}

/* barrier lets a worker read once k of n are within the staleness of its clock;
 * who has finished counts, and k is half of them where none is given. */
static void barrier_waits_for_k_of_n(void **state)
{
    const struct consistency_ops *barrier = consistency_find("barrier");
    struct worker_status w[3] = {{.clock = 5, .available = true},
                                 {.clock = 3, .available = true},
                                 {.clock = 1, .available = true}};
    struct consistency_view v = view(w, 0, 0);

    (void)state;
    assert_false(barrier->barrier);
    v.quorum = 1;
    assert_true(barrier->may_read(&v));
    v.quorum = 0; /* two of three */
    assert_false(barrier->may_read(&v));
    v.staleness = 2;
    assert_true(barrier->may_read(&v));
    v.quorum = 3;
    assert_false(barrier->may_read(&v));
    w[2].available = false;
    assert_true(barrier->may_read(&v));
    v.quorum = 99; /* no more than there are */
    assert_true(barrier->may_read(&v));
}

/* A worker's staleness is how far the fastest is ahead of it. */
static void consistency_rank_counts_from_the_fastest(void **state)
{
    struct worker_status w[3] = {{.clock = 5}, {.clock = 9}, {.clock = 1}};

    (void)state;
    consistency_rank(w, 3);
    assert_int_equal(w[0].staleness, 4);
    assert_int_equal(w[1].staleness, 0);
    assert_int_equal(w[2].staleness, 8);
}

/* Ages seen are counted, those beyond the ends at the ends. */
static void staleness_counts_what_was_seen(void **state)
{
    struct staleness s = {0}, sum = {0};

    (void)state;
    assert_true(isnan(staleness_mean(&s)));
    staleness_add(&s, -1);
    staleness_add(&s, -3);
    staleness_add(&s, -1000);
    staleness_add(&s, 1000);
    staleness_merge(&sum, &s);
    staleness_merge(&sum, &s);
    assert_true(sum.reads == 8 && staleness_at(&sum, -3) == 2);
    assert_true(staleness_at(&sum, STALENESS_LEAST) == 2);
    assert_true(staleness_at(&sum, STALENESS_MOST) == 2);
    assert_true(staleness_mean(&sum) == -1);
    /* Two ages as far off as can be are no overflow. */
    staleness_add(&s, INT64_MAX);
    staleness_add(&s, INT64_MAX);
    staleness_merge(&sum, &s);
    staleness_merge(&sum, &s);
    assert_true(s.sum == INT64_MAX && sum.sum == INT64_MAX);
}

/* A histogram is the same after it was written and read, empty or not, with
 * both ends; what cannot be one leaves the old one as it was. */
static void staleness_survives_json(void **state)
{
    static const int64_t differences[] = {-32, -4, -1, -1, 0, 31, 99, -77};
    struct staleness s = {0}, back = {.reads = 9};
    json_t *o;

    (void)state;
    for (size_t i = 0; i <= sizeof(differences) / sizeof(*differences); i++) {
        o = staleness_to_json(&s);
        assert_true(staleness_from_json(o, &back));
        assert_memory_equal(&s, &back, sizeof(s));
        json_decref(o);
        if (i < sizeof(differences) / sizeof(*differences))
            staleness_add(&s, differences[i]);
    }
    o = json_pack("{s:i, s:[f], s:i}", "least", -1, "counts", 0.5, "sum", 0);
    assert_false(staleness_from_json(o, &back));
    assert_false(staleness_from_json(NULL, &back));
    assert_memory_equal(&s, &back, sizeof(s));
    json_decref(o);
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
        cmocka_unit_test(barrier_waits_for_k_of_n),
        cmocka_unit_test(consistency_rank_counts_from_the_fastest),
        cmocka_unit_test(staleness_counts_what_was_seen),
        cmocka_unit_test(staleness_survives_json),
        cmocka_unit_test(consistency_registry_lists_what_it_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
