#include "api/http/reaper.h"
#include "tests/unit/fixture/check.h"

static struct reaper r;

static const struct reaper_limits limits = {
    .phase = {[REAPER_HEAD] = 100, [REAPER_IDLE] = 200, [REAPER_ANSWER] = 300},
    .crowded = 10};

static int setup(void **state)
{
    (void)state;
    reaper_init(&r, &limits, REAPER_CONNECTIONS_MAX);
    return 0;
}

/* Each phase ends at its own deadline, counted from its begin. */
static void reaper_cuts_each_phase_at_its_deadline(void **state)
{
    struct reaper_entry *e = reaper_add(&r, 7, 1000);

    (void)state;
    assert_int_equal(e->fd, 7);
    assert_int_equal(reaper_deadline(&r), 1100);
    assert_null(reaper_next(&r, 1099));
    reaper_enter(e, REAPER_ANSWER, 1099);
    assert_null(reaper_next(&r, 1398));
    reaper_enter(e, REAPER_IDLE, 1398);
    assert_int_equal(reaper_deadline(&r), 1598);
    reaper_enter(e, REAPER_HEAD, 1500);
    assert_null(reaper_next(&r, 1599));
    assert_true(reaper_next(&r, 1600) == e);
}

/* One that was cut is given once, stays cut whatever it still does, and keeps
 * its place until the library lets it go. */
static void reaper_cuts_once(void **state)
{
    struct reaper_entry *e = reaper_add(&r, 7, 0);

    (void)state;
    assert_true(reaper_next(&r, 100) == e);
    reaper_enter(e, REAPER_HEAD, 100);
    assert_null(reaper_next(&r, 1000));
    assert_int_equal(reaper_deadline(&r), INT64_MAX);
    assert_int_equal(r.used, 1);
    reaper_remove(&r, e);
    assert_int_equal(r.used, 0);
    assert_non_null(reaper_add(&r, 8, 0));
}

/* A time in which nobody was served is nobody's fault. */
static void reaper_counts_no_rest(void **state)
{
    struct reaper_entry *e = reaper_add(&r, 7, 1000);

    (void)state;
    reaper_rested(&r, 50);
    assert_int_equal(reaper_deadline(&r), 1150);
    assert_null(reaper_next(&r, 1149));
    assert_true(reaper_next(&r, 1150) == e);
}

/* Nothing is due without connections. */
static void reaper_empty_is_never_due(void **state)
{
    (void)state;
    assert_null(reaper_next(&r, INT64_MAX - 1));
    assert_int_equal(reaper_deadline(&r), INT64_MAX);
    reaper_remove(&r, NULL);
    reaper_enter(NULL, REAPER_HEAD, 0);
}

/* While over three quarters of the places are taken, those that neither ask
 * nor are answered go early, and answers to strangers that these do not take;
 * answers to others do not. */
static void reaper_is_stricter_when_crowded(void **state)
{
    const size_t many = REAPER_CONNECTIONS_MAX / 4 * 3 + 1;
    static const enum reaper_phase early[] = {REAPER_HEAD, REAPER_IDLE,
                                              REAPER_ANSWER};
    struct reaper_entry *answered = reaper_add(&r, 0, 0);
    size_t cut = 0;

    (void)state;
    answered->known = true;
    reaper_enter(answered, REAPER_ANSWER, 0);
    for (size_t i = 1; i + 1 < many; i++)
        reaper_enter(reaper_add(&r, (int)i, 0), early[i % 3], 0);
    assert_null(reaper_next(&r, 99));
    assert_non_null(reaper_add(&r, 1000, 95));
    assert_int_equal(reaper_deadline(&r), 10);
    while (reaper_next(&r, 99))
        cut++;
    assert_int_equal(cut, many - 2);
    assert_int_equal(answered->phase, REAPER_ANSWER);
}

/* One more of the address @client, at @now. */
static struct reaper_entry *come(uint32_t client, time_ns now)
{
    struct reaper_entry *e = reaper_add(&r, 1, now);

    assert_non_null(e);
    e->client = client;
    return e;
}

/* Whoever is not known has half the places at most; the one that has made least
 * of its own goes, and neither who is known nor who comes from elsewhere. */
static void reaper_bounds_an_address(void **state)
{
    const size_t most = REAPER_CONNECTIONS_MAX / 2;
    struct reaper_entry *known = come(7, 0), *other = come(8, 0), *first, *e;

    (void)state;
    known->known = true;
    assert_null(reaper_surplus(&r, other));
    first = come(7, 1);
    reaper_enter(first, REAPER_ANSWER, 1);
    for (size_t i = 1; i < most; i++)
        assert_null(reaper_surplus(&r, come(7, 1 + (time_ns)i)));
    e = come(7, 1000);
    assert_true(reaper_surplus(&r, e) == first);
    assert_int_equal(first->phase, REAPER_CLOSING);
    assert_null(reaper_surplus(&r, e));
    assert_null(reaper_surplus(&r, come(8, 1000)));
    assert_int_equal(known->phase, REAPER_HEAD);
    assert_int_equal(other->phase, REAPER_HEAD);
}

/* However many addresses they come from: an eighth of the places is kept for
 * those who are known, and no newcomer goes for its own sake. */
static void reaper_keeps_places_for_the_known(void **state)
{
    const uint32_t most = REAPER_CONNECTIONS_MAX - REAPER_CONNECTIONS_MAX / 8;
    struct reaper_entry *e, *gone;
    uint32_t i;

    (void)state;
    for (i = 0; i < most; i++)
        assert_null(reaper_surplus(&r, come(i, (time_ns)i)));
    for (; i < 5 * most; i++) {
        e = come(i, (time_ns)i);
        gone = reaper_surplus(&r, e);
        assert_non_null(gone);
        assert_true(gone != e);
        assert_int_equal(gone->client, i - most);
        assert_null(reaper_surplus(&r, e));
        reaper_remove(&r, gone);
    }
    for (i = most; i < REAPER_CONNECTIONS_MAX; i++)
        come(0, 0)->known = true;
}

/* There are as many places as promised, and no more. */
static void reaper_places_are_limited(void **state)
{
    struct reaper_entry *last = NULL;

    (void)state;
    for (int i = 0; i < REAPER_CONNECTIONS_MAX; i++) {
        last = reaper_add(&r, i, 0);
        assert_non_null(last);
    }
    assert_null(reaper_add(&r, 1000, 0));
    reaper_remove(&r, last);
    assert_true(reaper_add(&r, 1000, 0) == last);
}

/* Fewer places are crowded, and full, by their own number. */
static void reaper_counts_its_own_places(void **state)
{
    const int many = REAPER_LOCAL_MAX / 4 * 3 + 1;

    (void)state;
    reaper_init(&r, &limits, REAPER_LOCAL_MAX);
    for (int i = 1; i < many; i++)
        assert_non_null(reaper_add(&r, i, 0));
    assert_null(reaper_next(&r, 99));
    for (int i = many; i <= REAPER_LOCAL_MAX; i++)
        assert_non_null(reaper_add(&r, i, 95));
    assert_null(reaper_add(&r, 1000, 95));
    assert_int_equal(reaper_deadline(&r), 10);
    assert_non_null(reaper_next(&r, 99));
}

static bool is_even(const void *ctx, uint64_t token)
{
    (void)ctx;
    return token % 2 == 0;
}

/* Whose token lives no more is cut, once; who has none is let alone. */
static void reaper_cuts_revoked_tokens(void **state)
{
    const uint64_t tokens[] = {0, 7, 8, 9};

    (void)state;
    assert_false(reaper_has_tokens(&r));
    for (int i = 0; i < 4; i++)
        reaper_add(&r, i + 1, 0)->token = tokens[i];
    assert_true(reaper_has_tokens(&r));
    assert_int_equal(reaper_revoked(&r, is_even, NULL)->fd, 2);
    assert_int_equal(reaper_revoked(&r, is_even, NULL)->fd, 4);
    assert_null(reaper_revoked(&r, is_even, NULL));
    assert_true(reaper_has_tokens(&r)); /* 8 lives */
    reaper_remove(&r, &r.entry[2]);
    assert_false(reaper_has_tokens(&r));
}

static bool is_odd_fd(int fd)
{
    return fd % 2 == 1;
}

/* Who sends no more is cut where words are awaited, not where an answer is. */
static void reaper_cuts_who_has_left(void **state)
{
    struct reaper_entry *e[7];

    (void)state;
    for (int i = 0; i < 7; i++)
        e[i] = reaper_add(&r, i, 0);
    reaper_enter(e[3], REAPER_ANSWER, 0);
    reaper_enter(e[5], REAPER_IDLE, 5);
    assert_null(reaper_left(&r, REAPER_LEFT - 1, is_odd_fd));
    assert_true(reaper_left(&r, REAPER_LEFT, is_odd_fd) == e[1]);
    assert_null(reaper_left(&r, REAPER_LEFT + 4, is_odd_fd));
    assert_true(reaper_left(&r, REAPER_LEFT + 5, is_odd_fd) == e[5]);
    assert_null(reaper_left(&r, 10 * REAPER_LEFT, is_odd_fd));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reaper_cuts_each_phase_at_its_deadline, setup),
        cmocka_unit_test_setup(reaper_counts_no_rest, setup),
        cmocka_unit_test_setup(reaper_cuts_once, setup),
        cmocka_unit_test_setup(reaper_empty_is_never_due, setup),
        cmocka_unit_test_setup(reaper_is_stricter_when_crowded, setup),
        cmocka_unit_test_setup(reaper_places_are_limited, setup),
        cmocka_unit_test_setup(reaper_bounds_an_address, setup),
        cmocka_unit_test_setup(reaper_keeps_places_for_the_known, setup),
        cmocka_unit_test_setup(reaper_counts_its_own_places, setup),
        cmocka_unit_test_setup(reaper_cuts_revoked_tokens, setup),
        cmocka_unit_test_setup(reaper_cuts_who_has_left, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
