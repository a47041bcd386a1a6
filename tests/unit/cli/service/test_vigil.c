/* When a tuner is taken to hang. */
#include "cli/service/vigil.h"
#include "tests/unit/fixture/check.h"

static const time_ns SECOND = 1000000000;

/* One that has been seen to beat just before @now, with 5. */
static struct vigil beating(time_ns now)
{
    struct vigil p = {0};

    assert_int_equal(vigil_look(&p, 4, now, 60 * SECOND), VIGIL_BEATS);
    assert_int_equal(vigil_look(&p, 5, now, 60 * SECOND), VIGIL_BEATS);
    return p;
}

/* Looks once a second from *@now on, until a look says something else. Returns
 * how many said that it beats. */
static int looks(struct vigil *p, int64_t beat, time_ns *now, time_ns silence,
                 enum vigil_verdict *out)
{
    int n = 0;

    while ((*out = vigil_look(p, beat, *now, silence)) == VIGIL_BEATS &&
           n < 999) {
        n++;
        *now += SECOND;
    }
    return n;
}

/* After the silence it is asked to end, after ten seconds more it is killed. */
static void vigil_silent_is_asked_then_killed(void **state)
{
    time_ns now = 77 * SECOND;
    struct vigil p = beating(now);
    enum vigil_verdict verdict;

    (void)state;
    assert_int_equal(looks(&p, 5, &now, 60 * SECOND, &verdict), 60);
    assert_int_equal(verdict, VIGIL_STOPPED);
    now += SECOND;
    assert_int_equal(looks(&p, 5, &now, 60 * SECOND, &verdict), 9);
    assert_int_equal(verdict, VIGIL_GONE);
    now += SECOND;
    assert_int_equal(vigil_look(&p, 5, now, 60 * SECOND), VIGIL_GONE);
}

/* One that has been asked and goes on is killed all the same. */
static void vigil_asked_is_not_forgiven(void **state)
{
    time_ns now = SECOND;
    struct vigil p = beating(now);
    enum vigil_verdict verdict;

    (void)state;
    looks(&p, 5, &now, 3 * SECOND, &verdict);
    assert_int_equal(verdict, VIGIL_STOPPED);
    for (int i = 1; i < 3; i++)
        assert_int_equal(vigil_look(&p, 5 + i, now += SECOND, 3 * SECOND),
                         VIGIL_BEATS);
    assert_int_equal(vigil_look(&p, 9, now += SECOND, 3 * SECOND), VIGIL_GONE);
}

/* Any other sign than the last will do: clocks may be set back. */
static void vigil_sign_begins_anew(void **state)
{
    struct vigil p = {0};
    time_ns now = SECOND;

    (void)state;
    for (int i = 0; i < 500; i++)
        assert_int_equal(
            vigil_look(&p, 1 + (i % 10 < 5), now += SECOND, 6 * SECOND),
            VIGIL_BEATS);
}

/* A service that stood still itself does not count that against others. */
static void vigil_long_pause_of_ours_is_no_silence(void **state)
{
    time_ns now = SECOND;
    struct vigil p = beating(now);

    (void)state;
    assert_int_equal(vigil_look(&p, 5, now + 86400 * SECOND, 60 * SECOND),
                     VIGIL_BEATS);
    assert_true(p.silent <= VIGIL_STEP_MAX);
}

/* An older binary's: its lock has but the time of its making. */
static void vigil_who_never_beats_is_left_alone(void **state)
{
    struct vigil p = {0};
    enum vigil_verdict verdict;
    time_ns now = SECOND;

    (void)state;
    assert_int_equal(vigil_look(&p, 0, now, 60 * SECOND), VIGIL_BEATS);
    assert_int_equal(looks(&p, 5, &now, 60 * SECOND, &verdict), 999);
    assert_int_equal(verdict, VIGIL_BEATS);
    /* Once it beats, it counts as others do. */
    assert_int_equal(looks(&p, 6, &now, 60 * SECOND, &verdict), 60);
    assert_int_equal(verdict, VIGIL_STOPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vigil_silent_is_asked_then_killed),
        cmocka_unit_test(vigil_asked_is_not_forgiven),
        cmocka_unit_test(vigil_sign_begins_anew),
        cmocka_unit_test(vigil_long_pause_of_ours_is_no_silence),
        cmocka_unit_test(vigil_who_never_beats_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
