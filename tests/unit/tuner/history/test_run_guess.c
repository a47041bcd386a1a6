#include "tuner/history/run_guess.h"

#include "tests/unit/fixture/check.h"

#include <stdio.h>

/* A slip of the finger in a name or an id is seen; without one, the list is
 * named. */
static void test_near_names(void **state)
{
    struct run_guess g = {.word = "mnits"};
    struct fault f = {0};

    (void)state;
    run_guess_add(&g, "demo-abcdef", "demo");
    assert_int_equal(run_guess_fault(&g, "in here", &f), ERR_NOENT);
    assert_string_equal(f.text,
                        "no run \"mnits\" in here; mltune ls lists them");
    run_guess_add(&g, "mnist-123456", "mnist");
    assert_int_equal(run_guess_fault(&g, "in here", &f), ERR_NOENT);
    assert_string_equal(f.text,
                        "no run \"mnits\" in here; did you mean mnist?");
}

/* Those that begin with the word are listed, the first few of many. */
static void test_several(void **state)
{
    struct run_guess g = {.word = "m"};
    struct fault f = {0};

    (void)state;
    run_guess_add(&g, "m-1", "m");
    assert_int_equal(run_guess_fault(&g, "", &f), ERR_NOENT);
    run_guess_add(&g, "m-2", "");
    run_guess_add(&g, "x-2", "x");
    assert_int_equal(run_guess_fault(&g, "", &f), ERR_INVAL);
    assert_string_equal(f.text, "several runs begin with \"m\", give more of "
                                "the id: m-1, m-2");
    for (int i = 3; i < 9; i++) {
        char id[16];

        snprintf(id, sizeof(id), "m-%d", i);
        run_guess_add(&g, id, "");
    }
    run_guess_fault(&g, "", &f);
    assert_non_null(strstr(f.text, "m-1, m-2, m-3, m-4, m-5, ..."));
}

/* More names than it keeps, and longer ones, take no more room. */
static void test_bounds(void **state)
{
    static struct run_guess g = {.word = ""};
    char name[200];
    struct fault f = {0};

    (void)state;
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 3 * RUN_GUESS_MAX; i++)
        run_guess_add(&g, name, name);
    assert_int_equal(run_guess_fault(&g, "in here", &f), ERR_NOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_names),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
