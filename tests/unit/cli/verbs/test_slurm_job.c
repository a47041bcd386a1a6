/* The batch job's script, as text: what sbatch and the shell read back. Real
 * jobs of a real Slurm: tests/process/test_slurm.py. */
#include "cli/verbs/slurm_job.h"

#include "base/mem.h"

#include "tests/unit/fixture/check.h"

static struct slurm_job plain_job(void)
{
    return (struct slurm_job){.name = "digits",
                              .nodes = 2,
                              .workers = 3,
                              .program = "/opt/mltune",
                              .state = "/data/state",
                              .folder = "/data",
                              .config = "{\"app\": {}}"};
}

static char *script_of(const struct slurm_job *job)
{
    struct text t = {0};
    struct fault f = {0};

    assert_int_equal(slurm_job_script(job, &t, &f), ERR_OK);
    return text_take(&t);
}

static void has(const struct slurm_job *job, const char *line)
{
    char *script = script_of(job);

    if (!strstr(script, line))
        fail_msg("no %s in\n%s", line, script);
    mem_free(script);
}

static void lacks(const struct slurm_job *job, const char *line)
{
    char *script = script_of(job);

    assert_null(strstr(script, line));
    mem_free(script);
}

static void refused(const struct slurm_job *job, const char *says)
{
    struct text t = {0};
    struct fault f = {0};

    assert_int_equal(slurm_job_script(job, &t, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, says));
    text_deinit(&t);
}

/* What is said becomes an option of sbatch, and what is not said none. */
static void slurm_job_options_are_those_given(void **state)
{
    const struct option_list more = {
        .len = 3, .item = {"--mem=8G", "-A", "--comment=two \"words\""}};
    struct slurm_job job = plain_job();

    (void)state;
    has(&job, "#SBATCH --job-name=digits\n");
    has(&job, "#SBATCH --nodes=2\n");
    has(&job, "#SBATCH --cpus-per-task=3\n");
    has(&job, "#SBATCH --requeue\n");
    has(&job, "#SBATCH --signal=B:USR1@120\n");
    has(&job, "#SBATCH --output=\"/data/state/slurm/%j.log\"\n");
    lacks(&job, "--time");
    lacks(&job, "--partition");
    lacks(&job, "--exclusive");
    job.workers = 0;
    job.time = "2-00:00:00";
    job.partition = "gpu,cpu";
    job.more = &more;
    has(&job, "#SBATCH --exclusive\n");
    has(&job, "#SBATCH --time=2-00:00:00\n");
    has(&job, "#SBATCH --partition=gpu,cpu\n");
    has(&job, "#SBATCH --mem=8G\n#SBATCH -A\n"
              "#SBATCH --comment=\"two \\\"words\\\"\"\n");
}

/* Paths with spaces, quotes and per cents are themselves in both languages. */
static void slurm_job_paths_are_quoted(void **state)
{
    struct slurm_job job = plain_job();

    (void)state;
    job.state = "/my 5%/it's \"it\"";
    has(&job, "#SBATCH --output=\"/my 5%%/it's \\\"it\\\"/slurm/%j.log\"\n");
    has(&job, "\nstate='/my 5%/it'\\''s \"it\"'\n");
}

/* The configuration stands in the script as it is, and nodes are the same
 * program unless the configuration names another. */
static void slurm_job_configuration_stands_in_it(void **state)
{
    struct slurm_job job = plain_job();

    (void)state;
    has(&job, "<<'MLTUNE_CONFIG' &\n{\"app\": {}}\nMLTUNE_CONFIG\n");
    has(&job, "cluster.command=\"$mltune\"");
    job.config = "{}\n";
    job.command = "/other/mltune";
    has(&job, "<<'MLTUNE_CONFIG' &\n{}\nMLTUNE_CONFIG\n");
    lacks(&job, "cluster.command=");
}

/* What would end a line of the script, or is none of sbatch's, is refused by
 * name. */
static void slurm_job_refuses_what_it_cannot_say(void **state)
{
    const struct option_list word = {.len = 1, .item = {"mem=8G"}};
    const struct option_list line = {.len = 1, .item = {"--mem=8G\nrm -r /"}};
    struct slurm_job job = plain_job();

    (void)state;
    job.time = "1 2";
    refused(&job, "--time");
    job = plain_job();
    job.time = "";
    refused(&job, "--time");
    job = plain_job();
    job.partition = "a\nb";
    refused(&job, "--partition");
    job = plain_job();
    job.more = &word;
    refused(&job, "--sbatch");
    job.more = &line;
    refused(&job, "--sbatch");
    job = plain_job();
    job.state = "/a\nb";
    refused(&job, "a path");
}

/* Whichever allocation fails, it is said, and nothing is lost. */
static void slurm_job_without_memory_is_refused(void **state)
{
    struct slurm_job job = plain_job();
    enum err err = ERR_NOMEM;

    (void)state;
    for (long i = 1; err != ERR_OK; i++) {
        struct text t = {0};
        struct fault f = {0};

        mem_fail_at(i, 0);
        err = slurm_job_script(&job, &t, &f);
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        text_deinit(&t);
        assert_true(i < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurm_job_options_are_those_given),
        cmocka_unit_test(slurm_job_paths_are_quoted),
        cmocka_unit_test(slurm_job_configuration_stands_in_it),
        cmocka_unit_test(slurm_job_refuses_what_it_cannot_say),
        cmocka_unit_test(slurm_job_without_memory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
