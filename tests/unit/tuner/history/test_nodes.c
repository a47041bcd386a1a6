/* Facts about a run's nodes: folded, bounded, counted on over a loss. */
#include "base/mem.h"
#include "tuner/history/nodes.h"

#include "tests/unit/fixture/check.h"

#include <math.h>

static struct msg_beat beat(uint32_t node, uint64_t sent, int reads)
{
    struct msg_beat b = {.node = node,
                         .workers = 2,
                         .memory_bytes = 4096,
                         .device_bytes = 512,
                         .device_bytes_out = 3 * sent,
                         .data_bytes_sent = sent,
                         .data_bytes_received = 2 * sent,
                         .rows_updated = 7,
                         .wait_s = 0.5};

    for (int i = 0; i < reads; i++)
        staleness_add(&b.staleness, -1 - i % 3);
    return b;
}

static void take(struct nodes *n, double at_s, struct msg_beat b)
{
    assert_int_equal(nodes_take(n, at_s, &b), ERR_OK);
}

/* A node that beats shows the latest; what its earlier processes came to stays
 * in its sums, memory does not. */
static void nodes_sums_go_on_over_a_loss(void **state)
{
    struct nodes n = {0};
    struct msg_beat sum;

    (void)state;
    take(&n, 1, beat(1, 100, 6));
    take(&n, 2, beat(1, 150, 9));
    assert_int_equal(n.count, 2);
    assert_false(n.node[0].alive);
    assert_true(isnan(n.node[0].at_s));
    assert_int_equal(n.node[0].points, 0);
    assert_true(n.node[1].alive);
    nodes_lost(&n);
    assert_false(n.node[1].alive);
    sum = nodes_total(&n.node[1]);
    assert_int_equal(sum.data_bytes_sent, 150);
    take(&n, 3, beat(1, 30, 3));
    sum = nodes_total(&n.node[1]);
    assert_int_equal(sum.data_bytes_sent, 180);
    assert_int_equal(sum.rows_updated, 14);
    assert_int_equal(sum.memory_bytes, 4096);
    assert_int_equal(sum.device_bytes, 512);
    assert_int_equal(sum.device_bytes_out, 540);
    assert_true(sum.wait_s == 1);
    assert_int_equal(sum.staleness.reads, 12);
    assert_int_equal(n.node[1].point[2].sent, 180);
    take(&n, 3, beat(0, 0, 4));
    assert_int_equal(nodes_staleness(&n).reads, 16);
    assert_int_equal(nodes_staleness(&n).sum, -24 - 7);
    nodes_deinit(&n);
}

/* A course of any length has at most so many points, in order, from the first
 * to the newest, none of which differ much in how far they are apart. */
static void nodes_course_is_bounded(void **state)
{
    struct nodes n = {0};
    const struct node_past *p;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        take(&n, i, beat(0, (uint64_t)i, 0));
        p = &n.node[0];
        assert_true(p->points <= NODES_POINTS_MAX);
        assert_int_equal(p->point[p->points - 1].sent, i);
    }
    assert_true(p->points >= NODES_POINTS_MAX / 2);
    for (size_t i = 1; i + 1 < p->points; i++) {
        double gap = p->point[i].at_s - p->point[i - 1].at_s;

        assert_true(gap >= p->spacing_s && gap <= 2 * p->spacing_s + 2);
        assert_true(p->point[i].at_s == (double)p->point[i].sent);
    }
    assert_true(p->point[0].at_s == 0);
    nodes_deinit(&n);
}

/* No number of a node makes it reserve more than there can be. */
static void nodes_that_cannot_be_are_refused(void **state)
{
    struct nodes n = {0};
    struct msg_beat b = beat(NODES_MAX, 1, 0);

    (void)state;
    assert_int_equal(nodes_take(&n, 1, &b), ERR_FORMAT);
    assert_int_equal(n.count, 0);
    b.node = NODES_MAX - 1;
    take(&n, 1, b);
    assert_int_equal(n.count, NODES_MAX);
    nodes_deinit(&n);
}

/* Out of memory: nothing has changed, and it is taken later. */
static void nodes_without_memory_stay_as_they_were(void **state)
{
    struct nodes n = {0};
    struct msg_beat b = beat(2, 1, 0);

    (void)state;
    for (int i = 1; i <= 2; i++) {
        mem_fail_at(i, 0);
        assert_int_equal(nodes_take(&n, 1, &b), ERR_NOMEM);
        mem_fail_at(0, 0);
        for (size_t k = 0; k < n.count; k++)
            assert_false(n.node[k].alive);
        nodes_deinit(&n);
    }
    take(&n, 1, b);
    assert_true(n.node[2].alive);
    nodes_deinit(&n);
}

/* The longer a run, the more seldom, but never more than ten seconds apart. */
static void nodes_interval_grows_to_ten_seconds(void **state)
{
    (void)state;
    assert_true(nodes_interval(0) < 1 && nodes_interval(100) < 1);
    assert_true(fabs(nodes_interval(512) - 2) < 1e-9);
    assert_true(nodes_interval(1e9) == 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_sums_go_on_over_a_loss),
        cmocka_unit_test(nodes_course_is_bounded),
        cmocka_unit_test(nodes_that_cannot_be_are_refused),
        cmocka_unit_test(nodes_without_memory_stay_as_they_were),
        cmocka_unit_test(nodes_interval_grows_to_ten_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
