/* Verbs: those with a file of their own, and those of the table of commands. */
#include "base/commands/commands.h"
#include "cli/basics/verbs.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

/* Each command with a verb is found by its name, among those with a file of
 * their own, and help has it once. */
static void verbs_of_commands_are_found(void **state)
{
    size_t commands = 0, found = 0;

    (void)state;
    for (enum command_id id = 0; id < COMMAND_COUNT; id++) {
        const struct command_verb *v = command_of(id)->verb;
        const struct verb *verb = v ? verb_find(v->name) : NULL;

        if (!v)
            continue;
        commands++;
        assert_non_null(verb);
        assert_string_equal(verb->summary, v->summary);
        assert_ptr_equal(command_of_verb(v->name), command_of(id));
        assert_ptr_equal(verb->run, verb_steer);
    }
    for (size_t i = 0; verb_at(i); i++)
        found += verb_at(i)->run == verb_steer;
    assert_int_equal(found, commands);
    assert_true(commands >= 10);
}

/* No name is there twice, and what is no name is none. */
static void verbs_have_one_name_each(void **state)
{
    (void)state;
    for (size_t i = 0; verb_at(i); i++)
        assert_ptr_equal(verb_find(verb_at(i)->name), verb_at(i));
    assert_null(verb_find("paus"));
    assert_string_equal(verb_nearest("paus"), "pause");
    assert_null(command_of_verb("submit"));
    assert_null(command_of_verb("run"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verbs_of_commands_are_found),
        cmocka_unit_test(verbs_have_one_name_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
