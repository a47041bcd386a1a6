#include "ps/rows/acting.h"

#include "tests/unit/fixture/check.h"

static struct acting_run all(void)
{
    return (struct acting_run){.nodes = 2,
                               .workers = 4,
                               .uses_learning_rate = true,
                               .uses_momentum = true,
                               .decays = true,
                               .chooses_rule = true,
                               .uses_staleness = true,
                               .shares = true,
                               .batch_clocks = true};
}

/* A run that lacks nothing lets every tunable act that the application has, and
 * the bandwidth whether it has it or not. */
static void acting_where_nothing_is_lacking(void **state)
{
    static const char *const names[] = {
        "learning_rate", "warmup",     "momentum",  "weight_decay",
        "update_rule",   "batch_size", "staleness", "its_own"};
    struct acting_run run = all();

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_int_equal(acting_why_not(&run, names[i], true), ACTING);
        assert_int_equal(acting_why_not(&run, names[i], false), ACTING_APP);
    }
    assert_int_equal(acting_why_not(&run, "bandwidth_mbps", false), ACTING);
}

/* Each part that a run lacks keeps its own tunables from acting, and no
 * others. */
static void acting_names_the_part_that_is_lacking(void **state)
{
    struct acting_run run = all();

    (void)state;
    run.uses_learning_rate = false;
    assert_int_equal(acting_why_not(&run, "learning_rate", true), ACTING_RULE);
    assert_int_equal(acting_why_not(&run, "warmup", true), ACTING_RULE);
    assert_int_equal(acting_why_not(&run, "momentum", true), ACTING);
    run.uses_momentum = false;
    assert_int_equal(acting_why_not(&run, "momentum", true), ACTING_RULE);
    run.decays = false;
    assert_int_equal(acting_why_not(&run, "update_rule", true), ACTING);
    run.chooses_rule = false;
    assert_int_equal(acting_why_not(&run, "update_rule", true), ACTING_RULE);
    assert_int_equal(acting_why_not(&run, "weight_decay", true), ACTING_RULE);
    run.batch_clocks = false;
    assert_int_equal(acting_why_not(&run, "batch_size", true), ACTING_CLOCKS);
    run.shares = false;
    run.uses_barrier_k = true;
    assert_int_equal(acting_why_not(&run, "staleness", true), ACTING_UNSHARED);
    assert_int_equal(acting_why_not(&run, "k", false), ACTING_UNSHARED);
    assert_int_equal(acting_why_not(&run, "bandwidth_mbps", true), ACTING);
    run.uses_staleness = false;
    assert_int_equal(acting_why_not(&run, "staleness", true),
                     ACTING_CONSISTENCY);
    run.workers = 1;
    assert_int_equal(acting_why_not(&run, "staleness", true),
                     ACTING_ONE_WORKER);
    assert_int_equal(acting_why_not(&run, "bandwidth_mbps", true), ACTING);
    run.nodes = 1;
    assert_int_equal(acting_why_not(&run, "bandwidth_mbps", true),
                     ACTING_ONE_NODE);
    assert_int_equal(acting_why_not(&run, "its_own", true), ACTING);
}

/* The user is told, of two reasons, the one that the application cannot mend:
 * what the run lacks before the application, the application before its rule
 * and its clocks. */
static void acting_gives_reasons_in_order(void **state)
{
    struct acting_run run = {.nodes = 1, .workers = 1};

    (void)state;
    assert_int_equal(acting_why_not(&run, "staleness", false),
                     ACTING_ONE_WORKER);
    run.workers = 2;
    assert_int_equal(acting_why_not(&run, "staleness", false),
                     ACTING_CONSISTENCY);
    assert_int_equal(acting_why_not(&run, "momentum", false), ACTING_APP);
    assert_int_equal(acting_why_not(&run, "batch_size", false), ACTING_APP);
    assert_int_equal(acting_why_not(&run, "bandwidth_mbps", false),
                     ACTING_ONE_NODE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acting_where_nothing_is_lacking),
        cmocka_unit_test(acting_names_the_part_that_is_lacking),
        cmocka_unit_test(acting_gives_reasons_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
