/* Signals as a descriptor, with a guard: its thread comes and goes. */
#include "cli/basics/signals.h"
#include "tests/unit/fixture/check.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 100, FAR_MS = 600000, WAIT_MS = 60000 };

/* Entries of a folder of /proc. */
static int entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;

    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* The next signal that @fd tells. */
static int next(int fd)
{
    struct signalfd_siginfo info;
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
    assert_int_equal(read(fd, &info, sizeof(info)), sizeof(info));
    return (int)info.ssi_signo;
}

/* However often it is opened and closed: no descriptor is left, no thread, and
 * nothing that a sanitizer finds. */
static void signals_guard_ends_with_its_close(void **state)
{
    int before = entries("/proc/self/fd"), fd;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(signals_open_guarded(&fd, FAR_MS, true, NULL), ERR_OK);
        if (i % 2) /* its thread is at work */
            assert_int_equal(kill(getpid(), SIGUSR1), 0);
        if (i % 4 == 1)
            assert_int_equal(next(fd), SIGUSR1);
        signals_close(fd);
        assert_int_equal(entries("/proc/self/fd"), before);
    }
}

/* Warnings and what ends are told in the order in which they came, and before
 * its time nothing ends the process. */
static void signals_guard_tells_what_it_hears(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(signals_open_guarded(&fd, FAR_MS, true, NULL), ERR_OK);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(next(fd), SIGUSR1);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_int_equal(next(fd), SIGTERM);
    signals_close(fd);
}

/* How a process ends that gets @number, is guarded for SOON_MS, and does
 * nothing for @wait_ms, or for ever where that is below 0. */
static int end_after(int number, int wait_ms)
{
    enum { SOON_MS = 50 };
    pid_t child = fork();
    int fd, status;

    assert_true(child >= 0);
    if (child == 0) {
        if (signals_open_guarded(&fd, SOON_MS, true, NULL))
            _exit(1);
        kill(getpid(), number);
        next(fd);
        poll(NULL, 0, wait_ms);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A scheduler's warning ends nothing, however long the run goes on; what is to
 * end has its time, and then ends. */
static void signals_guard_lets_a_warned_process_live(void **state)
{
    (void)state;
    assert_int_equal(end_after(SIGUSR1, 500), 0);
    assert_int_equal(end_after(SIGXCPU, 500), 0);
    assert_int_equal(end_after(SIGTERM, -1), 128 + SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_guard_tells_what_it_hears),
        cmocka_unit_test(signals_guard_lets_a_warned_process_live),
        cmocka_unit_test(signals_guard_ends_with_its_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
