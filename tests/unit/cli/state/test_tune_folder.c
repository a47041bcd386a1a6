/* Handed functions: a folder lives as long as any run that may need it. */
#include "base/file_io.h"
#include "cli/state/tune_folder.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static int make_state(void **state)
{
    int failed = scratch_make(state);

    if (failed)
        return failed;
    scratch_mkdir("tune");
    scratch_mkdir("tune/f");
    scratch_text("tune/f/program.json", "{}");
    scratch_mkdir("runs");
    scratch_mkdir("runs/a-1");
    scratch_mkdir("runs/b-1");
    return 0;
}

static void configure(const char *name, const char *folder)
{
    char text[256];

    snprintf(text, sizeof(text),
             "{\"app\": {\"command\": [\"python3\", "
             "\"/s/tune/%s/program.json\"]}}",
             folder);
    scratch_text(name, text);
}

static bool is_there(void)
{
    return access(scratch_path("tune/f/program.json"), F_OK) == 0;
}

/* The last run that names it takes it along. */
static void tune_folder_goes_with_its_last_run(void **state)
{
    struct fault f = {0};

    (void)state;
    configure("runs/a-1/config.json", "f");
    configure("runs/b-1/config.json", "f");
    assert_int_equal(tune_folder_remove(scratch_folder(), "a-1", &f), ERR_OK);
    assert_true(is_there());
    configure("runs/b-1/config.json", "g");
    assert_int_equal(tune_folder_remove(scratch_folder(), "a-1", &f), ERR_OK);
    assert_false(is_there());
    assert_int_equal(tune_folder_remove(scratch_folder(), "a-1", &f), ERR_OK);
}

/* A run whose configuration cannot be read now may need it another time; one
 * that has none needs nothing. */
static void tune_folder_stays_where_a_run_cannot_be_read(void **state)
{
    struct fault f = {0};

    (void)state;
    configure("runs/a-1/config.json", "f");
    scratch_text("runs/b-1/config.json", "{\"app\": ");
    assert_int_equal(tune_folder_remove(scratch_folder(), "a-1", &f), ERR_OK);
    assert_true(is_there());
    file_remove(scratch_path("runs/b-1/config.json"));
    assert_int_equal(folder_make(scratch_path("runs/b-1/config.json"), &f),
                     ERR_OK);
    assert_int_equal(tune_folder_remove(scratch_folder(), "a-1", &f), ERR_OK);
    assert_true(is_there());
    assert_int_equal(tune_folder_remove(scratch_folder(), "b-1", &f), ERR_OK);
    assert_true(is_there());
    assert_int_equal(rmdir(scratch_path("runs/b-1/config.json")), 0);
    assert_int_equal(tune_folder_remove(scratch_folder(), "a-1", &f), ERR_OK);
    assert_false(is_there());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tune_folder_goes_with_its_last_run,
                                        make_state, scratch_remove),
        cmocka_unit_test_setup_teardown(
            tune_folder_stays_where_a_run_cannot_be_read, make_state,
            scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
