/* Programs that a run starts when something happens to it. */
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/run/hooks.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *config;
static struct hooks hooks;
static const struct hooks_patience patient = {.most_ms = -1, .hurry_fd = -1};

/* Hooks of the shell command @script, with @more members of "hooks". */
static void begin(const char *script, const char *more)
{
    config = json_pack("{s:{s:[s, s, s]}}", "hooks", "command", "/bin/sh", "-c",
                       script);
    if (more) {
        json_t *o = json_loads(more, 0, NULL);

        assert_non_null(o);
        json_object_update(json_object_get(config, "hooks"), o);
        json_decref(o);
    }
    hooks_init(&hooks, config, scratch_folder(), "run-1", STDERR_FILENO);
}

static void end(void)
{
    hooks_deinit(&hooks);
    json_decref(config);
}

static void tell(enum hook_event event, int number)
{
    hooks_tell(&hooks, event, json_pack("{s:i}", "number", number));
}

/* What hooks wrote to the file `out`; for mem_free. */
static char *written(void)
{
    char *text = NULL;
    size_t len;

    assert_int_equal(file_read(scratch_path("out"), 65536, &text, &len, NULL),
                     ERR_OK);
    return text;
}

/* A hook gets the event on its stdin and in its environment, works in the
 * configuration's folder, and never sees the token. */
static void hooks_get_the_event(void **state)
{
    char *text;
    json_t *o;

    (void)state;
    setenv("MLTUNE_TOKEN", "secret", 1);
    begin("cat > in; echo $MLTUNE_EVENT $MLTUNE_RUN ${MLTUNE_TOKEN-none} > out",
          NULL);
    tell(HOOK_END, 7);
    hooks_finish(&hooks, &patient);
    unsetenv("MLTUNE_TOKEN");
    text = written();
    assert_string_equal(text, "end run-1 none\n");
    mem_free(text);
    o = json_load_file(scratch_path("in"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "event")), "end");
    assert_int_equal(json_integer_value(json_object_get(o, "number")), 7);
    assert_true(json_is_string(json_object_get(o, "at")));
    json_decref(o);
    end();
}

/* Only events that are wanted are told of; without a command none is. */
static void hooks_tell_what_is_wanted(void **state)
{
    char *text;

    (void)state;
    begin("echo $MLTUNE_EVENT >> out", "{\"on\": [\"failure\"]}");
    assert_true(hooks_want(&hooks, HOOK_FAILURE));
    tell(HOOK_BEST, 1);
    tell(HOOK_FAILURE, 2);
    tell(HOOK_END, 3);
    hooks_finish(&hooks, &patient);
    text = written();
    assert_string_equal(text, "failure\n");
    mem_free(text);
    assert_false(hooks_want(&hooks, HOOK_FAILURE)); /* it is over */
    end();
}

/* A best that waits gives way to the next one; at the bound the oldest goes,
 * and the end is always told. One runs at a time, in order. */
static void hooks_queue_is_bounded(void **state)
{
    char *text, *at;

    (void)state;
    begin("read x; echo $x | tr -dc 0-9, | cut -d, -f1 >> out", NULL);
    for (int i = 0; i < 5; i++)
        tell(HOOK_BEST, i);
    assert_int_equal(hooks.len, 1);
    for (int i = 10; i < 30; i++)
        tell(HOOK_FAILURE, i);
    assert_int_equal(hooks.len, HOOK_QUEUE_MAX);
    assert_int_equal(hooks.dropped, 13);
    tell(HOOK_END, 99);
    assert_int_equal(hooks.len, HOOK_QUEUE_MAX);
    hooks_finish(&hooks, &patient);
    text = written();
    at = text;
    for (int i = 23; i < 30; i++)
        assert_int_equal(strtol(at, &at, 10), i);
    assert_int_equal(strtol(at, &at, 10), 99);
    assert_string_equal(at, "\n");
    mem_free(text);
    end();
}

/* One that takes too long is killed, with all that it started, and those that
 * wait have their turn. */
static void hooks_late_one_is_killed(void **state)
{
    char *text;

    (void)state;
    begin("echo $MLTUNE_EVENT >> out; "
          "[ $MLTUNE_EVENT = end ] || { sleep 100 & sleep 100; }",
          "{\"timeout\": 0.2}");
    tell(HOOK_BEST, 1);
    tell(HOOK_END, 2);
    hooks_turn(&hooks);
    assert_true(hooks.child.pid > 0);
    while (hooks.child.pid && hooks.now == HOOK_BEST) {
        subprocess_wait(&hooks.child, 100, -1); /* past its deadline at most */
        hooks_turn(&hooks);
    }
    hooks_finish(&hooks, &patient);
    text = written();
    assert_string_equal(text, "best\nend\n");
    mem_free(text);
    end();
}

/* Who ends in a hurry kills what runs, and tells nobody else. */
static void hooks_finish_in_a_hurry_waits_for_nothing(void **state)
{
    int ends[2];
    char *text, byte;
    struct hooks_patience hurry = {.most_ms = 50, .hurry_fd = -1};

    (void)state;
    assert_int_equal(pipe(ends), 0);
    begin("echo $MLTUNE_EVENT >> out; echo; exec sleep 100", NULL);
    hooks.log_fd = ends[1]; /* tells when it runs */
    tell(HOOK_BEST, 1);
    tell(HOOK_END, 2);
    hooks_turn(&hooks);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    hooks_finish(&hooks, &hurry);
    text = written();
    assert_string_equal(text, "best\n");
    mem_free(text);
    end();
    begin("exec sleep 100", NULL);
    assert_int_equal(write(ends[1], "x", 1), 1);
    tell(HOOK_END, 3);
    hurry = (struct hooks_patience){.most_ms = -1, .hurry_fd = ends[0]};
    hooks_finish(&hooks, &hurry);
    assert_int_equal(hooks.child.pid, 0);
    end();
    close(ends[0]);
    close(ends[1]);
}

/* The second time it lets the hook end. */
static void take_tick(void *ctx)
{
    int *ticks = ctx;

    if (++*ticks == 2)
        assert_int_equal(file_write(scratch_path("go"), "", 0, NULL), ERR_OK);
}

/* Whoever waits for a hook does its other work meanwhile, again and again. */
static void hooks_finish_ticks_meanwhile(void **state)
{
    int ticks = 0;
    const struct hooks_patience p = {
        .most_ms = -1, .hurry_fd = -1, .tick = take_tick, .ctx = &ticks};
    char *text;

    (void)state;
    begin("until [ -e go ]; do sleep 0.05; done; echo gone > out", NULL);
    tell(HOOK_END, 1);
    hooks_finish(&hooks, &p);
    text = written();
    assert_string_equal(text, "gone\n");
    mem_free(text);
    end();
}

/* A program that is not there, or memory that is not, costs the event alone. */
static void hooks_that_cannot_start_are_passed_over(void **state)
{
    (void)state;
    config = json_pack("{s:{s:[s]}}", "hooks", "command", "./none");
    hooks_init(&hooks, config, scratch_folder(), "run-1", STDERR_FILENO);
    tell(HOOK_END, 1);
    hooks_finish(&hooks, &patient);
    assert_int_equal(hooks.child.pid, 0);
    end();
    begin("exit 3", NULL);
    hooks_tell(&hooks, HOOK_END, NULL);
    assert_int_equal(hooks.len, 0);
    hooks_finish(&hooks, &patient);
    end();
}

int main(void)
{
#define HOOK_TEST(name)                                                        \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        HOOK_TEST(hooks_get_the_event),
        HOOK_TEST(hooks_tell_what_is_wanted),
        HOOK_TEST(hooks_queue_is_bounded),
        HOOK_TEST(hooks_late_one_is_killed),
        HOOK_TEST(hooks_finish_in_a_hurry_waits_for_nothing),
        HOOK_TEST(hooks_finish_ticks_meanwhile),
        HOOK_TEST(hooks_that_cannot_start_are_passed_over),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
