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

/* All strangers together: a burst, then so many a second, in rests that are no
 * busy loop; a handshake counts for ten. */
static void toll_lets_so_many_in(void **state)
{
    struct toll t = {0};
    const time_ns second = 1000000000, from = 5;
    unsigned in = 0;

    (void)state;
    assert_int_equal(toll_rest(&t, from), 0);
    for (unsigned i = 0; i < TOLL_BURST; i++)
        toll_take(&t, 1, from);
    assert_int_equal(toll_rest(&t, from), 0);
    toll_take(&t, 1, from);
    assert_true(toll_rest(&t, from) >= TOLL_REST_MS * 1000000ll);
    for (time_ns now = from; now < from + 10 * second; now += second / 5000) {
        if (toll_rest(&t, now))
            continue;
        toll_take(&t, 1, now);
        in++;
    }
    assert_in_range(in, 8 * TOLL_PER_S, 10 * TOLL_PER_S);
    /* A minute later all is forgotten. */
    assert_int_equal(toll_rest(&t, from + 70 * second), 0);
    for (unsigned i = 0; i < TOLL_BURST / TOLL_TLS; i++)
        toll_take(&t, TOLL_TLS, from + 70 * second);
    assert_int_equal(toll_rest(&t, from + 70 * second), 0);
    toll_take(&t, TOLL_TLS, from + 70 * second);
    assert_true(toll_rest(&t, from + 70 * second) > 0);
}

/* All places at once, each a handshake: a rest is no longer than others can
 * bear, and what is owed is forgotten after a while. */
static void toll_rests_for_a_second_at_most(void **state)
{
    struct toll t = {0};
    const time_ns now = 5;

    (void)state;
    for (unsigned i = 0; i < 10 * 704; i++)
        toll_take(&t, TOLL_TLS, now);
    assert_int_equal(toll_rest(&t, now), TOLL_REST_MS_MAX * 1000000ll);
    assert_int_equal(toll_rest(&t, now + S), 0);
    toll_take(&t, 1, now + S);
    assert_int_equal(toll_rest(&t, now + S), S);
    toll_take(&t, 1, now + (TOLL_DEBT_S + 1) * S);
    assert_int_equal(toll_rest(&t, now + (TOLL_DEBT_S + 1) * S), 0);
}

/* Who turns out to be no stranger has taken nothing from the others. */
static void toll_is_given_back(void **state)
{
    struct toll t = {0};
    const time_ns now = S;

    (void)state;
    for (unsigned i = 0; i < 10 * TOLL_BURST; i++) {
        toll_take(&t, TOLL_TLS, now);
        toll_give_back(&t, TOLL_TLS);
        assert_int_equal(toll_rest(&t, now), 0);
    }
    for (unsigned i = 0; i < TOLL_BURST; i++)
        toll_take(&t, 1, now);
    assert_int_equal(toll_rest(&t, now), 0);
    toll_take(&t, 1, now);
    assert_true(toll_rest(&t, now) > 0);
    /* No more than was ever taken. */
    toll_give_back(&t, TOLL_PER_S * 1000);
    assert_int_equal(t.paid_at, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quota_gives_a_burst_and_then_a_rate),
        cmocka_unit_test(quota_of_many_clients_is_bounded),
        cmocka_unit_test(toll_lets_so_many_in),
        cmocka_unit_test(toll_rests_for_a_second_at_most),
        cmocka_unit_test(toll_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
