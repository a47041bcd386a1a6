/* Signals as a descriptor, with a guard: its thread comes and goes. */
#include "cli/basics/signals.h"
#include "tests/unit/fixture/check.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
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

/* A child that sleeps and hears every signal; it does not outlive us. */
static pid_t sleeper(void)
{
    sigset_t none;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (;;)
        pause();
}

/* A process that hangs is ended by its guard, which asks those that it
 * remembers to end with it, one that is stopped too, and nobody else. */
static void signals_guard_ends_children(void **state)
{
    enum { SOON_MS = 50, CHILDREN = 3 };
    pid_t child[CHILDREN], parent;
    int status, fd;

    (void)state;
    for (size_t i = 0; i < CHILDREN; i++)
        child[i] = sleeper();
    assert_int_equal(kill(child[1], SIGSTOP), 0);
    parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        if (signals_open_guarded(&fd, SOON_MS, true, NULL))
            _exit(1);
        for (size_t i = 0; i < CHILDREN; i++)
            if (!signals_remember_child(child[i]))
                _exit(1);
        signals_forget_child(child[2]);
        kill(getpid(), SIGTERM);
        for (;;)
            poll(NULL, 0, -1);
    }
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGTERM);
    }
    assert_int_equal(waitpid(child[2], &status, WNOHANG), 0);
    assert_int_equal(kill(child[2], SIGKILL), 0);
    assert_int_equal(waitpid(child[2], &status, 0), child[2]);
}

/* One that is forgotten leaves nothing behind, and one that is not there is not
 * remembered. */
static void signals_children_leave_no_descriptor(void **state)
{
    int before = entries("/proc/self/fd"), status;
    pid_t child = sleeper();

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(signals_remember_child(child));
        assert_int_equal(entries("/proc/self/fd"), before + 1);
        signals_forget_child(child);
        signals_forget_child(child);
        assert_int_equal(entries("/proc/self/fd"), before);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(signals_remember_child(child));
    assert_int_equal(entries("/proc/self/fd"), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_guard_tells_what_it_hears),
        cmocka_unit_test(signals_guard_lets_a_warned_process_live),
        cmocka_unit_test(signals_guard_ends_with_its_close),
        cmocka_unit_test(signals_guard_ends_children),
        cmocka_unit_test(signals_children_leave_no_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
