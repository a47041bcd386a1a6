/* What is told of trials that failed. */
#include "base/text.h"
#include "tests/unit/fixture/check.h"
#include "tuner/search/failures.h"

#include <stdio.h>
#include <string.h>

enum { TRIALS = 40 };

static struct trial list[TRIALS];

static struct failures of(uint32_t n)
{
    struct trials t = {.list = list, .n = n, .max = TRIALS};

    return failures_of(&t);
}

static void fail_all(uint32_t from, uint32_t n, const char *why)
{
    for (uint32_t i = from; i < from + n; i++) {
        list[i] = (struct trial){.number = i + 1};
        trial_failed(&list[i], why);
    }
}

/* Where all failed for one reason, it is told with the count. */
static void failures_of_one_reason_are_counted(void **state)
{
    struct failures f;

    (void)state;
    fail_all(0, 30, "CUDA out of memory");
    f = of(30);
    assert_int_equal(f.failed, 30);
    assert_string_equal(f.text, "30 of 30 trials failed: CUDA out of memory");
}

/* Trials that ran, or diverged, are none that failed. */
static void failures_are_no_divergences(void **state)
{
    (void)state;
    list[0] = (struct trial){.label = TRIAL_DIVERGED};
    list[1] = (struct trial){.label = TRIAL_CONVERGING};
    assert_int_equal(of(2).failed, 0);
    assert_string_equal(of(2).text, "");
    fail_all(2, 1, "no disk");
    assert_string_equal(of(3).text, "1 of 3 trials failed: no disk");
}

/* The commonest of several reasons is told, whenever it came first; reasons
 * that differ in their numbers alone are one. */
static void failures_name_the_commonest_reason(void **state)
{
    static const char *const why[] = {
        "no disk", "tried to allocate 2.5 GiB of 79 GiB",
        "tried to allocate 12 GiB of 79.1 GiB", "no disk",
        "tried to allocate 1 GiB of 80 GiB"};

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        fail_all(i, 1, why[i]);
    assert_string_equal(of(5).text, "5 of 5 trials failed, 3 of them since: "
                                    "tried to allocate 2.5 GiB of 79 GiB");
    assert_string_equal(of(1).text, "1 of 1 trials failed: no disk");
    fail_all(0, 1, "worker 3: x");
    fail_all(1, 1, "worker x: 3");
    assert_int_equal(of(2).times, 1);
    fail_all(1, 1, "worker 3");
    assert_int_equal(of(2).times, 1);
}

/* Of more kinds than are counted the first ones are. */
static void failures_of_many_kinds_are_bounded(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < TRIALS; i++) {
        char why[] = {(char)('A' + i), 0};

        fail_all(i, 1, i % 2 ? "often" : why);
    }
    assert_int_equal(of(TRIALS).failed, TRIALS);
    assert_int_equal(of(TRIALS).times, TRIALS / 2);
    assert_string_equal(of(TRIALS).text,
                        "40 of 40 trials failed, 20 of them since: often");
}

/* A reason that is cut is UTF-8 still. */
static void failures_cut_no_character(void **state)
{
    char why[2 * RECORD_TEXT_MAX];
    struct failures f;

    (void)state;
    for (size_t from = 0; from < 2; from++) {
        size_t n = from;

        memset(why, 'x', sizeof(why));
        for (; n + 2 < sizeof(why); n += 2)
            memcpy(why + n, "\u00fc", 2);
        why[n] = 0;
        fail_all(0, 2, why);
        f = of(2);
        assert_true(strlen(list[0].reason) > 400);
        assert_true(text_is_utf8(list[0].reason));
        assert_true(strlen(f.text) > 300);
        assert_true(text_is_utf8(f.text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_of_one_reason_are_counted),
        cmocka_unit_test(failures_are_no_divergences),
        cmocka_unit_test(failures_name_the_commonest_reason),
        cmocka_unit_test(failures_of_many_kinds_are_bounded),
        cmocka_unit_test(failures_cut_no_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
