/* Jobs: what a service keeps of a run on disk. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/job.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>

static const struct job whole = {.group = "a-group",
                                 .number = 42,
                                 .submitted_ns = 1760000000123456789,
                                 .held = true,
                                 .other_data = true,
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

/* A written job is read back, all of it. */
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
    assert_true(job.other_data);
    assert_string_equal(job.reason, whole.reason);
    assert_string_equal(job.key, whole.key);
    assert_true(job.body_hash == whole.body_hash);
    assert_int_equal(job_write(scratch_folder(), "none", &whole, NULL), ERR_IO);
}

/* A job that is not whole is refused, and named. */
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

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, scratch_remove)
    const struct CMUnitTest tests[] = {
        WITH(job_is_read_as_it_was_written),
        WITH(job_refuses_damage),
        WITH(job_survives_want_of_memory),
        WITH(job_hash_is_fnv),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
