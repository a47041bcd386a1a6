/* What stands in for a node on another machine, and what its end means; with a
 * real ssh and a real srun in tests/process/test_ssh.py and test_slurm.py. */
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/engine.h"

#include <string.h>

static char *const node[] = {"/opt/it's here/mltune", "node", "--node", "3",
                             NULL};

static bool has(const struct engine_words *w, const char *word)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->word[i], word) == 0)
            return true;
    return false;
}

/* Engines by name; nobody else. */
static void engine_is_found_by_name(void **state)
{
    (void)state;
    assert_null(engine_find("local")->program);
    assert_string_equal(engine_find("ssh")->program, "ssh");
    assert_string_equal(engine_find("slurm")->program, "srun");
    assert_null(engine_find("pigeon"));
}

/* ssh asks nobody, takes the host for no option, and gives the far shell one
 * line in which each word is whole. */
static void engine_ssh_quotes_for_the_far_shell(void **state)
{
    struct engine_words w;

    (void)state;
    assert_int_equal(engine_find("ssh")->wrap("me@beta", node, &w), ERR_OK);
    assert_true(has(&w, "BatchMode=yes"));
    assert_string_equal(w.word[w.n - 3], "--");
    assert_string_equal(w.word[w.n - 2], "me@beta");
    assert_string_equal(w.word[w.n - 1],
                        "'/opt/it'\\''s here/mltune' 'node' '--node' '3'");
    assert_null(w.word[w.n]);
    engine_words_deinit(&w);
}

/* srun gets the words as they are, after one host. */
static void engine_srun_names_one_host(void **state)
{
    struct engine_words w;

    (void)state;
    assert_int_equal(engine_find("slurm")->wrap("n2", node, &w), ERR_OK);
    assert_true(has(&w, "--overlap"));
    assert_string_equal(w.word[w.n - 6], "--nodelist");
    assert_string_equal(w.word[w.n - 5], "n2");
    assert_string_equal(w.word[w.n - 4], node[0]);
    engine_words_deinit(&w);
}

/* Without memory there is an error, and nothing is left. */
static void engine_words_without_memory(void **state)
{
    static const char *const names[] = {"ssh", "slurm"};
    int64_t before = mem_outstanding();
    struct engine_words w;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int64_t n = 1;; n++) {
            enum err err;

            mem_fail_at(n, 0);
            err = engine_find(names[i])->wrap("h", node, &w);
            if (!mem_failed()) {
                mem_fail_at(0, 0);
                assert_int_equal(err, ERR_OK);
                engine_words_deinit(&w);
                break;
            }
            assert_int_equal(err, ERR_NOMEM);
            assert_int_equal(mem_outstanding(), before);
        }
    assert_int_equal(mem_outstanding(), before);
}

static void says(const char *engine, int code, const char *words,
                 const char *expected)
{
    char out[512];

    engine_cause(engine_find(engine), code, words, "mltune", out, sizeof(out));
    assert_string_equal(out, expected);
}

/* The cause in the words of whoever knows it: ssh, the far shell, the node. */
static void engine_cause_is_what_was_said(void **state)
{
    (void)state;
    says("ssh", 255, "ssh: connect to host beta port 22: Connection refused\n",
         "ssh: connect to host beta port 22: Connection refused");
    says("ssh", 255, "banner\n\nme@beta: Permission denied (publickey).\n",
         "ssh: me@beta: Permission denied (publickey).");
    says("ssh", 255, "", "it ended with exit code 255");
    says("ssh", 127, "bash: line 1: mltune: command not found\n",
         "there is no program `mltune` to be run (cluster.command names "
         "mltune's on the hosts): bash: line 1: mltune: command not found");
    says("ssh", 69,
         "mltune: error: node 1: the tuner cannot be reached at tcp://h:1\n"
         "event=node_ends\n",
         "the tuner cannot be reached at tcp://h:1");
    says("slurm", 1,
         "mltune: error: this is mltune 1\nsrun: error: n2: task 0: Exited "
         "with exit code 1\n",
         "this is mltune 1");
    says("slurm", 2,
         "slurmstepd: error: execve(): mltune: No such file or directory\n",
         "there is no program `mltune` to be run (cluster.command names "
         "mltune's on the hosts): slurmstepd: error: execve(): mltune: No such "
         "file or directory");
    says("ssh", 3, "", "it ended with exit code 3");
}

/* A host that had no turn for us is asked again; one that does not want us is
 * not. */
static void engine_busy_hosts_are_told_from_others(void **state)
{
    const struct engine *ssh = engine_find("ssh");

    (void)state;
    assert_true(ssh->busy("kex_exchange_identification: read: Connection reset "
                          "by peer\n"));
    assert_true(ssh->busy("Connection closed by 10.0.0.1 port 22\n"));
    assert_false(ssh->busy("ssh: connect to host h port 22: Connection "
                           "refused\n"));
    assert_false(ssh->busy("h: Permission denied (publickey).\n"));
    assert_true(engine_find("slurm")->busy(
        "srun: error: Unable to confirm allocation: Socket timed out\n"));
    assert_false(engine_find("slurm")->busy(""));
}

/* Who has lost another says which. */
static void engine_accused_is_named(void **state)
{
    unsigned n = 99;
    char out[64];

    (void)state;
    assert_true(engine_accused("mltune: error: node 0: node 12 is gone: it "
                               "closed the connection\nmore\n",
                               &n, out, sizeof(out)));
    assert_int_equal(n, 12);
    assert_string_equal(out, "node 12 is gone: it closed the connection");
    assert_true(engine_accused("x warn nodes_broken node=0 reason=\"node 2 is "
                               "gone: it closed the connection\"\n",
                               &n, out, sizeof(out)));
    assert_string_equal(out, "node 2 is gone: it closed the connection");
    assert_false(engine_accused("node 3 has other tables\n", &n, out, 64));
    assert_false(engine_accused("", &n, out, sizeof(out)));
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_is_found_by_name),
        cmocka_unit_test(engine_ssh_quotes_for_the_far_shell),
        cmocka_unit_test(engine_srun_names_one_host),
        cmocka_unit_test(engine_words_without_memory),
        cmocka_unit_test(engine_cause_is_what_was_said),
        cmocka_unit_test(engine_busy_hosts_are_told_from_others),
        cmocka_unit_test(engine_accused_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
