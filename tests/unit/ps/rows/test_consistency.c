#include "ps/rows/consistency.h"

#include "base/proto/staleness_json.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <string.h>

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
    v.rule.k = 1;
    assert_true(barrier->may_read(&v));
    v.rule.k = 0; /* two of three */
    assert_false(barrier->may_read(&v));
    v.staleness = 2;
    assert_true(barrier->may_read(&v));
    v.rule.k = 3;
    assert_false(barrier->may_read(&v));
    w[2].available = false;
    assert_true(barrier->may_read(&v));
    v.rule.k = 99; /* no more than there are */
    assert_true(barrier->may_read(&v));
}

/* A fraction is of the workers, rounded up; a worker far slower than the median
 * is not waited for, unless its time is not known. */
static void barrier_counts_a_fraction_and_leaves_the_slow_out(void **state)
{
    const struct consistency_ops *barrier = consistency_find("barrier");
    struct worker_status w[4] = {{.clock = 5, .available = true, .task_s = 1},
                                 {.clock = 5, .available = true, .task_s = 1.1},
                                 {.clock = 3, .available = true, .task_s = 1.2},
                                 {.clock = 1, .available = true, .task_s = 4}};
    struct consistency_view v = view(w, 0, 0);

    (void)state;
    v.workers = 4;
    v.rule.fraction = 0.5;
    assert_true(barrier->may_read(&v));
    v.rule.fraction = 0.51;
    assert_false(barrier->may_read(&v));
    v.rule = (struct barrier_rule){.slower_than = 2};
    assert_false(barrier->may_read(&v)); /* worker 2 is not slow */
    w[2].clock = 5;
    assert_true(barrier->may_read(&v));
    w[3].task_s = 2.1; /* within twice the median, 1.1 */
    assert_false(barrier->may_read(&v));
    w[3].task_s = 0;
    assert_false(barrier->may_read(&v));
    w[3].task_s = 4;
    v.rule.k = 4; /* of the three that count */
    assert_true(barrier->may_read(&v));
    v.staleness = 4;
    v.rule.slower_than = 0;
    assert_true(barrier->may_read(&v));
}

/* Whatever the rule, one of the workers that run may always read: the slowest.
 */
static void barrier_never_stops_everybody(void **state)
{
    const struct consistency_ops *barrier = consistency_find("barrier");
    struct rng rng;

    (void)state;
    rng_init(&rng, 11);
    for (int round = 0; round < 20000; round++) {
        struct worker_status w[6];
        struct consistency_view v = {.worker = w, .workers = 6};
        bool runs = false, reads = false;

        v.staleness = (unsigned)rng_below(&rng, 3);
        v.rule.k = (unsigned)rng_below(&rng, 7);
        v.rule.fraction = v.rule.k ? 0 : rng_uniform(&rng);
        v.rule.slower_than = rng_below(&rng, 2) ? 1 + rng_uniform(&rng) : 0;
        for (unsigned i = 0; i < 6; i++) {
            w[i].clock = (int64_t)rng_below(&rng, 5);
            w[i].available = rng_below(&rng, 4) > 0;
            w[i].task_s = rng_uniform(&rng) * (double)rng_below(&rng, 4);
            runs |= w[i].available;
        }
        for (v.self = 0; v.self < 6; v.self++)
            reads |= w[v.self].available && barrier->may_read(&v);
        assert_true(reads || !runs);
    }
}

/* A rule reads back from its text; what is none is refused by its name. */
static void consistency_rules_are_read(void **state)
{
    static const struct barrier_rule rules[] = {
        {0, 0, 0}, {3, 0, 0}, {0, 0.25, 0}, {0, 0, 2}, {12, 0, 1.5}};
    static const struct {
        const char *text, *says;
    } wrong[] = {{"none", "unknown consistency model \"none\"; there are: bsp"},
                 {"barrier?k=0", "k: expected an integer from 1"},
                 {"barrier?k=1.5", "k: expected an integer"},
                 {"barrier?k=x", "found \"x\""},
                 {"barrier?fraction=1.1", "fraction: expected a number"},
                 {"barrier?slower_than=0.5", "slower_than: expected a number"},
                 {"barrier?slower_than=nan", "slower_than: expected"},
                 {"barrier?k=1&fraction=0.5", "k or fraction, found both"},
                 {"barrier?quorum=1", "found \"quorum=1\""},
                 {"ssp?k=1", "unknown consistency model"}};
    const struct consistency_ops *model = NULL;
    struct barrier_rule r;
    struct fault f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        char text[CONSISTENCY_TEXT_MAX];

        consistency_text(&rules[i], text);
        assert_int_equal(consistency_parse(text, &model, &r, NULL), ERR_OK);
        assert_ptr_equal(model, consistency_find("barrier"));
        assert_true(r.k == rules[i].k && r.fraction == rules[i].fraction &&
                    r.slower_than == rules[i].slower_than);
    }
    assert_int_equal(consistency_parse("ssp", &model, &r, NULL), ERR_OK);
    assert_string_equal(model->name, "ssp");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(consistency_parse(wrong[i].text, &model, &r, &f),
                         ERR_INVAL);
        if (!strstr(f.text, wrong[i].says))
            fail_msg("%s: %s", wrong[i].text, f.text);
    }
    r = (struct barrier_rule){.k = 4};
    assert_int_equal(consistency_check(&r, 4, NULL), ERR_OK);
    assert_int_equal(consistency_check(&r, 3, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "never come"));
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
        cmocka_unit_test(barrier_counts_a_fraction_and_leaves_the_slow_out),
        cmocka_unit_test(barrier_never_stops_everybody),
        cmocka_unit_test(consistency_rules_are_read),
        cmocka_unit_test(consistency_rank_counts_from_the_fastest),
        cmocka_unit_test(staleness_counts_what_was_seen),
        cmocka_unit_test(staleness_survives_json),
        cmocka_unit_test(consistency_registry_lists_what_it_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
