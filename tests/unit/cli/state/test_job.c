/* What a service keeps of a run on disk, and what it sees of its process. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/service/runner.h"
#include "cli/state/job.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct job whole = {.group = "a-group",
                                 .number = 42,
                                 .submitted_ns = 1760000000123456789,
                                 .held = true,
                                 .reason = "so \"it\" is: \xc3\xa4",
                                 .key = "a key",
                                 .body_hash = 0xfedcba9876543210u};

static int setup(void **state)
{
    if (scratch_make(state))
        return -1;
    scratch_mkdir("runs");
    scratch_mkdir("runs/run-1");
    return 0;
}

/* What was written is read back, all of it. */
static void job_is_read_as_it_was_written(void **state)
{
    struct job job;

    (void)state;
    assert_false(job_exists(scratch_folder(), "run-1"));
    assert_int_equal(job_read(scratch_folder(), "run-1", &job, NULL),
                     ERR_NOENT);
    assert_int_equal(job_write(scratch_folder(), "run-1", &whole, NULL), 0);
    assert_true(job_exists(scratch_folder(), "run-1"));
    memset(&job, 0xff, sizeof(job));
    assert_int_equal(job_read(scratch_folder(), "run-1", &job, NULL), 0);
    assert_string_equal(job.group, whole.group);
    assert_int_equal(job.number, whole.number);
    assert_int_equal(job.submitted_ns, whole.submitted_ns);
    assert_true(job.held);
    assert_string_equal(job.reason, whole.reason);
    assert_string_equal(job.key, whole.key);
    assert_true(job.body_hash == whole.body_hash);
    assert_int_equal(job_write(scratch_folder(), "none", &whole, NULL), ERR_IO);
}

/* What is not whole is refused, and named. */
static void job_refuses_damage(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"group\": 1}",
        "{\"group\": \"g\", \"number\": \"1\", \"submitted_ns\": 1, \"held\": "
        "false, \"reason\": \"\", \"key\": \"\", \"body_hash\": \"0\"}"};
    struct job job;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct fault f = {0};

        scratch_text("runs/run-1/job.json", texts[i]);
        assert_int_equal(job_read(scratch_folder(), "run-1", &job, &f),
                         ERR_FORMAT);
        assert_true(f.text[0]);
    }
}

/* Without memory nothing is written and nothing left. */
static void job_survives_want_of_memory(void **state)
{
    int64_t before = mem_outstanding();
    bool failed = true;

    (void)state;
    for (unsigned n = 1; failed; n++) {
        struct job job;
        enum err err;

        mem_fail_at(n, 0);
        err = job_write(scratch_folder(), "run-1", &whole, NULL);
        if (!err)
            err = job_read(scratch_folder(), "run-1", &job, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err == ERR_OK, !failed);
        assert_int_equal(mem_outstanding(), before);
    }
}

/* Texts that differ have another hash, as published for FNV-1a. */
static void job_hash_is_fnv(void **state)
{
    (void)state;
    assert_true(job_hash("", 0) == 0xcbf29ce484222325u);
    assert_true(job_hash("a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(job_hash("foobar", 6) == 0x85944171f73967e8u);
}

/* Waits until a child has ended; it is still there to be asked how. */
static void await_end(pid_t pid)
{
    siginfo_t info;

    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

/* How a process ended, in words; one that lives has not. */
static void runner_tells_how_a_process_ended(void **state)
{
    char text[64];
    int status = -1;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        setpgid(0, 0);
        pause();
        _exit(0);
    }
    assert_false(runner_ended(pid, &status));
    kill(pid, SIGKILL);
    await_end(pid);
    assert_true(runner_ended(pid, &status));
    runner_verdict(status, text, sizeof(text));
    assert_string_equal(text, "was killed by SIGKILL");
    pid = fork();
    if (pid == 0)
        _exit(78);
    await_end(pid);
    assert_true(runner_ended(pid, &status));
    runner_verdict(status, text, sizeof(text));
    assert_string_equal(text, "ended with exit code 78");
}

static void last_line_is(const char *content, const char *line)
{
    char text[64];

    scratch_text("log", content);
    runner_last_line(scratch_path("log"), text, sizeof(text));
    assert_string_equal(text, line);
}

/* The last line of a log, whatever is in it. */
static void runner_finds_the_last_line(void **state)
{
    static char many[10000];
    char text[64];

    (void)state;
    last_line_is("", "");
    last_line_is("\n\n", "");
    last_line_is("one", "one");
    last_line_is("one\ntwo\n\n", "two");
    last_line_is("one\n\x1b[31mtwo\xff\n", "?[31mtwo?");
    memset(many, 'x', sizeof(many) - 1);
    memcpy(many + sizeof(many) - 6, "\nlast", 5);
    last_line_is(many, "last");
    runner_last_line(scratch_path("none"), text, sizeof(text));
    assert_string_equal(text, "");
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, scratch_remove)
    const struct CMUnitTest tests[] = {
        WITH(job_is_read_as_it_was_written),
        WITH(job_refuses_damage),
        WITH(job_survives_want_of_memory),
        WITH(job_hash_is_fnv),
        WITH(runner_tells_how_a_process_ended),
        WITH(runner_finds_the_last_line),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
