/* How often a stranger may ask: a burst, then a few a second, each by itself.
 */
#include "api/http/quota.h"

#include "tests/unit/fixture/check.h"

static const time_ns S = 1000000000;

/* A burst, then none, then as many as time has passed; another client is not
 * touched. */
static void quota_gives_a_burst_and_then_a_rate(void **state)
{
    static struct quota q;
    unsigned given = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        given += quota_take(&q, 7, S);
    assert_int_equal(given, QUOTA_BURST);
    assert_true(quota_take(&q, 8, S));
    given = 0;
    for (int ms = 1000; ms < 11000; ms++)
        given += quota_take(&q, 7, S + (time_ns)ms * 1000000);
    assert_in_range(given, 10 * QUOTA_PER_S, 11 * QUOTA_PER_S);
    for (int i = 0; i < QUOTA_BURST; i++)
        assert_true(quota_take(&q, 7, 100 * S));
    assert_false(quota_take(&q, 7, 100 * S));
}

/* More clients than there are places: none gets more than its own. */
static void quota_of_many_clients_is_bounded(void **state)
{
    static struct quota q;
    unsigned given = 0;

    (void)state;
    for (int round = 0; round < 100; round++)
        for (uint32_t c = 1; c <= QUOTA_CLIENTS; c++)
            given += quota_take(&q, c, S);
    assert_int_equal(given, QUOTA_CLIENTS * QUOTA_BURST);
    assert_false(quota_take(&q, 1000, S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quota_gives_a_burst_and_then_a_rate),
        cmocka_unit_test(quota_of_many_clients_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
