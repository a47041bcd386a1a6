/* Ranks meet: who they are by the environment, and what they tell each other
 * through a folder. Real ones: tests/process/test_mpi.py. */
#include "tuner/shell/ranks_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdlib.h>
#include <unistd.h>

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void forget_all(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_MCA_ess_base_jobid",
                                        "PMIX_RANK",
                                        "PMIX_NAMESPACE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMI_JOBID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_JOB_ID",
                                        "MLTUNE_JOB",
                                        "MLTUNE_PODS",
                                        "MLTUNE_POD_WAIT",
                                        "JOB_COMPLETION_INDEX"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
}

/* Rank and size are those of whichever engine names them, and so is the job; a
 * process that was started alone has none. */
static void ranks_are_those_of_the_environment(void **state)
{
    struct ranks r;

    (void)state;
    forget_all();
    assert_false(ranks_find(&r));
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    assert_false(ranks_find(&r)); /* of which job? */
    setenv("PMIX_NAMESPACE", "prterun-vm-77@1", 1);
    assert_true(ranks_find(&r));
    assert_int_equal(r.rank, 2);
    assert_int_equal(r.size, 3);
    assert_string_equal(r.job, "prterun-vm-77-1");
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    assert_false(ranks_find(&r));
    setenv("OMPI_COMM_WORLD_RANK", "-1", 1);
    assert_false(ranks_find(&r));
    forget_all();
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    setenv("MLTUNE_JOB", "../..", 1);
    assert_true(ranks_find(&r));
    assert_string_equal(r.job, "-----");
    forget_all();
}

/* Of a pod by what Kubernetes and its job say; both are needed. */
static void ranks_are_those_of_a_job_of_kubernetes(void **state)
{
    struct ranks r;

    (void)state;
    forget_all();
    setenv("JOB_COMPLETION_INDEX", "2", 1);
    setenv("MLTUNE_PODS", "3", 1);
    assert_false(ranks_find_pod(&r));
    setenv("MLTUNE_JOB", "digits-1a2b", 1);
    assert_true(ranks_find_pod(&r));
    assert_int_equal(r.rank, 2);
    assert_int_equal(r.size, 3);
    assert_true(r.pods);
    assert_string_equal(r.job, "digits-1a2b");
    assert_int_equal(r.wait_ms, 600000);
    assert_false(ranks_find(&r)); /* none of mpirun's */
    setenv("MLTUNE_POD_WAIT", "5", 1);
    assert_true(ranks_find_pod(&r));
    assert_int_equal(r.wait_ms, 5000);
    setenv("MLTUNE_POD_WAIT", "soon", 1);
    assert_true(ranks_find_pod(&r));
    assert_int_equal(r.wait_ms, 600000);
    setenv("JOB_COMPLETION_INDEX", "3", 1);
    assert_false(ranks_find_pod(&r));
    unsetenv("JOB_COMPLETION_INDEX");
    assert_false(ranks_find_pod(&r));
    forget_all();
}

static struct ranks_work some_work(uint64_t number)
{
    return (struct ranks_work){.number = number,
                               .key = KEY,
                               .log = "/a/log of it",
                               .n = 3,
                               .word = {"node", "--node", "1"}};
}

/* What rank 0 says is what the rank reads, once, and then neither question nor
 * answer is left. */
static void ranks_answer_is_read_once(void **state)
{
    const char *place = scratch_folder();
    struct ranks_work w = some_work(7), got;
    char host[RANKS_HOST_MAX];
    struct fault f = {0};
    uint64_t number = 0;

    (void)state;
    assert_false(ranks_asked(place, 1, &number, host));
    assert_int_equal(ranks_ask(place, 1, 7, "a-host", &f), ERR_OK);
    assert_true(ranks_asked(place, 1, &number, host));
    assert_int_equal(number, 7);
    assert_string_equal(host, "a-host");
    assert_false(ranks_answered(place, 1, 7, &got));
    assert_int_equal(ranks_answer(place, 1, &w, &f), ERR_OK);
    assert_true(ranks_answer_waits(place, 1));
    assert_false(ranks_answered(place, 2, 7, &got));
    assert_true(ranks_answered(place, 1, 7, &got));
    assert_string_equal(got.key, KEY);
    assert_string_equal(got.log, "/a/log of it");
    assert_int_equal(got.n, 3);
    assert_string_equal(got.word[2], "1");
    ranks_work_deinit(&got);
    assert_false(ranks_answer_waits(place, 1));
    assert_false(ranks_asked(place, 1, &number, host));
    assert_false(ranks_answered(place, 1, 7, &got));
}

/* What was said to an earlier asking is not taken for this one's: neither what
 * to start, nor that it is over. */
static void ranks_words_of_another_number_are_none(void **state)
{
    const char *place = scratch_folder();
    struct ranks_work w = some_work(7), got;
    struct fault f = {0};
    int code = 0;

    (void)state;
    assert_int_equal(ranks_answer(place, 1, &w, &f), ERR_OK);
    assert_int_equal(ranks_over(place, 1, 7, &f), ERR_OK);
    assert_int_equal(ranks_stop(place, 1, 7, &f), ERR_OK);
    assert_int_equal(ranks_end(place, 1, 7, -9, &f), ERR_OK);
    assert_int_equal(ranks_ask(place, 1, 8, "a-host", &f), ERR_OK);
    assert_false(ranks_answered(place, 1, 8, &got));
    assert_false(ranks_is_over(place, 1, 8));
    assert_false(ranks_stopped(place, 1, 8));
    assert_false(ranks_ended(place, 1, 8, &code));
    assert_true(ranks_is_over(place, 1, 7));
    assert_true(ranks_stopped(place, 1, 7));
    assert_true(ranks_ended(place, 1, 7, &code));
    assert_int_equal(code, -9);
}

/* Paths that would be two lines are refused; files cut off are none. */
static void ranks_files_that_are_not_whole_are_none(void **state)
{
    static const char *const bad[] = {
        "", "0000000000000007", "0000000000000007\nkey\n/log\nnode\n",
        "0000000000000007\n" KEY "\n/log\n",
        "0000000000000007\n" KEY "\n/log\nnode\n--cut"};
    const char *place = scratch_folder();
    struct ranks_work w = some_work(7), got;
    struct fault f = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        scratch_text("answer-1", bad[i]);
        assert_false(ranks_answered(place, 1, 7, &got));
    }
    w.word[1] = "two\nlines";
    assert_int_equal(ranks_answer(place, 1, &w, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "end of a line"));
}

/* A job holds its place; the places of jobs that are gone go when another
 * begins. */
static void ranks_place_is_held_and_swept(void **state)
{
    struct ranks gone = {.size = 2, .job = "gone"};
    struct ranks here = {.size = 2, .job = "here"};
    char old[FILE_PATH_MAX], place[FILE_PATH_MAX];
    struct fault f = {0};
    int fd, other;

    (void)state;
    assert_int_equal(ranks_place(scratch_folder(), &gone, old, &f), ERR_OK);
    assert_int_equal(ranks_hold(old, &fd, &f), ERR_OK);
    assert_true(ranks_held(old));
    close(fd);
    assert_false(ranks_held(old));
    assert_int_equal(ranks_place(scratch_folder(), &here, place, &f), ERR_OK);
    assert_int_equal(ranks_hold(place, &other, &f), ERR_OK);
    assert_int_not_equal(access(old, F_OK), 0);
    assert_int_equal(access(place, F_OK), 0);
    assert_int_equal(ranks_ask(place, 1, 1, "a-host", &f), ERR_OK);
    assert_false(ranks_left(place, 1));
    ranks_leave(place, 1);
    assert_true(ranks_left(place, 1));
    close(other);
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_those_of_the_environment),
        cmocka_unit_test(ranks_are_those_of_a_job_of_kubernetes),
        IN_FOLDER(ranks_answer_is_read_once),
        IN_FOLDER(ranks_words_of_another_number_are_none),
        IN_FOLDER(ranks_files_that_are_not_whole_are_none),
        IN_FOLDER(ranks_place_is_held_and_swept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
