/* A child whose output is caught (cli/compare/subrun.h). This program is both
 * sides: as `test_cli_subrun child` it is what the test starts. */
#include "cli/basics/signals.h"
#include "cli/compare/subrun.h"
#include "tests/unit/fixture/check.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    HANG_S = 60,       /* whoever waits for longer hangs */
    PAUSE_US = 100000, /* until who reads has surely seen the output's end */
};

/* Says something, closes its output, has its parent told Ctrl-C and goes on. */
static int be_child(void)
{
    alarm(HANG_S);
    signal(SIGINT, SIG_DFL); /* a shell's background job ignores it */
    if (write(STDOUT_FILENO, "said", 4) != 4)
        return 3;
    close(STDOUT_FILENO);
    usleep(PAUSE_US);
    kill(getppid(), SIGINT);
    for (;;)
        pause();
}

/* Ctrl-C reaches a child that has closed its output and lives on. */
static void subrun_signal_after_the_output(void **state)
{
    char program[] = "test_cli_subrun", role[] = "child";
    char *argv[] = {program, role, NULL};
    struct subrun c;
    struct text out = {0};
    int signal_fd = -1, first = 0;

    (void)state;
    assert_int_equal(signals_open(&signal_fd, NULL), 0);
    alarm(HANG_S);
    assert_int_equal(subrun_start(&c, argv, NULL), 0);
    assert_int_equal(subrun_wait(&c, signal_fd, &out, &first), -SIGINT);
    alarm(0);
    assert_int_equal(first, SIGINT);
    assert_string_equal(text_so_far(&out), "said");
    text_deinit(&out);
    signals_close(signal_fd);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subrun_signal_after_the_output),
    };

    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return be_child();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
