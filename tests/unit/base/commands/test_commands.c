/* The table of commands: its rows agree with themselves. */
#include "base/commands/commands.h"
#include "base/json/json.h"
#include "base/json/problems.h"
#include "base/json/schema.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

static json_t *parsed(const char *text)
{
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    if (!o)
        fail_msg("no JSON: %s", text);
    return o;
}

/* Every row is found by its number, has a name of its own, and its place among
 * the routes is its alone. */
static void commands_are_told_apart(void **state)
{
    (void)state;
    for (enum command_id i = 0; i < COMMAND_COUNT; i++) {
        const struct command *c = command_of(i);

        assert_int_equal(command_id_of(c), i);
        for (enum command_id k = 0; k < i; k++) {
            const struct command *other = command_of(k);

            assert_string_not_equal(c->name, other->name);
            assert_false(c->path && other->path &&
                         strcmp(c->path, other->path) == 0 &&
                         strcmp(c->method, other->method) == 0);
        }
        assert_true(!c->path == !c->method);
    }
}

/* The example of each body is JSON that the body's own schema takes. */
static void commands_examples_fit_their_schemas(void **state)
{
    size_t checked = 0;

    (void)state;
    for (enum command_id i = 0; i < COMMAND_COUNT; i++) {
        const struct command_body *b = command_of(i)->body;
        struct problems problems = {0};
        json_t *schema, *example;

        if (!b || b->media)
            continue;
        example = parsed(b->example);
        assert_true(json_is_object(example));
        if (b->schema) {
            schema = parsed(b->schema);
            schema_check(schema, example, "", &problems);
            if (problems.errors)
                fail_msg("%s: %s", b->name, problems.item[0].pointer);
            json_decref(schema);
            checked++;
        }
        problems_deinit(&problems);
        json_decref(example);
    }
    assert_true(checked >= 3);
}

/* A resource has the command of its name, and that behind a colon, but none
 * whose path only begins alike. */
static void command_is_on_its_resource(void **state)
{
    const struct command *pause = command_of(COMMAND_PAUSE);
    const struct command *submit = command_of(COMMAND_SUBMIT);

    (void)state;
    assert_true(command_is_on(pause, "/runs/{run}"));
    assert_false(command_is_on(pause, "/runs"));
    assert_true(command_is_on(submit, "/runs"));
    assert_false(command_is_on(submit, "/run"));
    assert_false(command_is_on(command_of(COMMAND_INTERRUPT), "/runs"));
}

/* Arguments that own memory are released, once: they are empty after it. */
static void command_args_are_released(void **state)
{
    union command_args args = {.rows = {.values = 3, .count = 1}};
    int64_t before = mem_outstanding();

    (void)state;
    args.rows.add = mem_calloc(3, sizeof(double));
    assert_non_null(args.rows.add);
    command_args_deinit(COMMAND_ADD, &args);
    assert_int_equal(mem_outstanding(), before);
    command_args_deinit(COMMAND_ADD, &args);
    command_args_deinit(COMMAND_PAUSE, &args);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_told_apart),
        cmocka_unit_test(commands_examples_fit_their_schemas),
        cmocka_unit_test(command_is_on_its_resource),
        cmocka_unit_test(command_args_are_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
