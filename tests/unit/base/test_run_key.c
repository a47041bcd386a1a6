/* The key of a run: where it is found, what is none, and what needs it. */
#include "base/run_key_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

static int forget_key(void **state)
{
    unsetenv("MLTUNE_KEY");
    unsetenv("MLTUNE_KEY_FILE");
    return scratch_remove(state);
}

/* Two keys differ; one comes from the environment or a file alike, and none is
 * no error. */
static void run_key_is_found_where_it_was_put(void **state)
{
    char text[RUN_KEY_LEN + 1], other[RUN_KEY_LEN + 1];
    struct run_key a, b;

    (void)state;
    assert_int_equal(run_key_find(&a, NULL), ERR_OK);
    assert_false(a.given);
    assert_int_equal(run_key_make(text, NULL), ERR_OK);
    assert_int_equal(run_key_make(other, NULL), ERR_OK);
    assert_int_equal(strlen(text), RUN_KEY_LEN);
    assert_string_not_equal(text, other);
    scratch_text("key", text);
    assert_int_equal(chmod(scratch_path("key"), 0600), 0);
    setenv("MLTUNE_KEY_FILE", scratch_path("key"), 1);
    assert_int_equal(run_key_find(&a, NULL), ERR_OK);
    setenv("MLTUNE_KEY", text, 1);
    assert_int_equal(run_key_find(&b, NULL), ERR_OK);
    assert_true(a.given);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_string_not_equal(a.public_half, a.secret_half);
}

/* From standard input it comes once, and is known after. */
static void run_key_from_stdin_is_kept(void **state)
{
    char text[RUN_KEY_LEN + 1];
    int pipes[2], saved = dup(STDIN_FILENO);
    struct run_key a, b;

    (void)state;
    assert_int_equal(run_key_make(text, NULL), ERR_OK);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], text, RUN_KEY_LEN), RUN_KEY_LEN);
    assert_int_equal(write(pipes[1], "\nx", 2), 2);
    close(pipes[1]);
    dup2(pipes[0], STDIN_FILENO);
    setenv("MLTUNE_KEY_FILE", "-", 1);
    assert_int_equal(run_key_find(&a, NULL), ERR_OK);
    assert_int_equal(run_key_find(&b, NULL), ERR_OK);
    assert_memory_equal(&a, &b, sizeof(a));
    close(pipes[0]);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void expect_refused(enum err err, const char *words)
{
    struct fault f = {0};
    struct run_key key;

    assert_int_equal(run_key_find(&key, &f), err);
    assert_non_null(strstr(f.text, words));
}

/* Too short, too long, of other characters; a file that others may read, a
 * folder, none at all. */
static void run_key_that_is_none_is_refused(void **state)
{
    static const char *const wrong[] = {
        "x", "0123",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0",
        "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        setenv("MLTUNE_KEY", wrong[i], 1);
        expect_refused(ERR_INVAL, "64 hexadecimal digits");
    }
    unsetenv("MLTUNE_KEY");
    scratch_text("key", wrong[2]);
    assert_int_equal(chmod(scratch_path("key"), 0600), 0);
    setenv("MLTUNE_KEY_FILE", scratch_path("key"), 1);
    expect_refused(ERR_INVAL, "64 hexadecimal digits");
    assert_int_equal(chmod(scratch_path("key"), 0640), 0);
    expect_refused(ERR_INVAL, "nobody else can read");
    setenv("MLTUNE_KEY_FILE", scratch_folder(), 1);
    expect_refused(ERR_INVAL, "nobody else can read");
    setenv("MLTUNE_KEY_FILE", scratch_path("none"), 1);
    expect_refused(ERR_IO, "No such file");
}

/* Loopback is inside; all else that is TCP is outside, names included. */
static void run_key_is_needed_outside(void **state)
{
    static const char *const inside[] = {"ipc:///a", "inproc://x",
                                         "tcp://127.0.0.1:7", "tcp://[::1]:7",
                                         "tcp://localhost:7"};
    static const char *const outside[] = {"tcp://10.0.0.1:7", "tcp://*:7",
                                          "tcp://0.0.0.0:7", "tcp://alpha:7",
                                          "tcp://127.evil.example:7"};
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PULL);
    const struct run_key none = {.given = false};
    struct fault f = {0};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        assert_false(run_key_is_outside(inside[i]));
        assert_int_equal(run_key_apply(&none, socket, inside[i], true, &f),
                         ERR_OK);
        assert_true(run_key_is_outside(outside[i]));
        assert_int_equal(run_key_apply(&none, socket, outside[i], true, &f),
                         ERR_UNSUPPORTED);
        assert_non_null(strstr(f.text, "MLTUNE_KEY"));
    }
    zmq_close(socket);
    zmq_ctx_term(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(run_key_is_found_where_it_was_put,
                                        scratch_make, forget_key),
        cmocka_unit_test_setup_teardown(run_key_from_stdin_is_kept,
                                        scratch_make, forget_key),
        cmocka_unit_test_setup_teardown(run_key_that_is_none_is_refused,
                                        scratch_make, forget_key),
        cmocka_unit_test(run_key_is_needed_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
