/* What a service manager hears: nothing where none listens, each word where one
 * does, and signs of life as often as it wants them. */
#include "base/host/notify_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A manager's socket, at @to. */
static int listen_at(const struct sockaddr_un *to, size_t name_len)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_len);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)to, size), 0);
    return fd;
}

static void expect_heard(int fd, const char *text)
{
    char got[64] = "";
    ssize_t n = recv(fd, got, sizeof(got) - 1, 0);

    assert_string_equal(n < 0 ? "" : got, text);
}

/* A path or a name in the abstract space; the environment is clean after. */
static void notify_says_what_it_is_told(void **state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct notify n;
    char name[64];
    int fd;

    (void)state;
    snprintf(name, sizeof(name), "@mltune-test-%d", (int)getpid());
    memcpy(to.sun_path, name, strlen(name));
    to.sun_path[0] = '\0';
    fd = listen_at(&to, strlen(name));
    setenv("NOTIFY_SOCKET", name, 1);
    notify_open(&n);
    assert_null(getenv("NOTIFY_SOCKET"));
    notify_say(&n, "READY=1");
    expect_heard(fd, "READY=1");
    notify_beat(&n, 5);
    expect_heard(fd, "");
    notify_close(&n);
    close(fd);
}

/* Three signs of life in each interval; none for another process. */
static void notify_beats_as_the_watchdog_wants(void **state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct notify n;
    const char *path = scratch_path("n");
    int fd;

    (void)state;
    assert_true(strlen(path) < sizeof(to.sun_path));
    memcpy(to.sun_path, path, strlen(path));
    fd = listen_at(&to, strlen(path) + 1);
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "3000", 1);
    notify_open(&n);
    assert_null(getenv("WATCHDOG_USEC"));
    for (time_ns now = 1000000; now < 4000000; now += 100000)
        notify_beat(&n, now);
    for (int i = 0; i < 3; i++)
        expect_heard(fd, "WATCHDOG=1");
    expect_heard(fd, "");
    notify_close(&n);
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "3000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    notify_open(&n);
    notify_beat(&n, 1000000);
    expect_heard(fd, "");
    notify_close(&n);
    close(fd);
}

/* No manager, or a name that is none: silence, and no fault. */
static void notify_without_a_manager_is_silent(void **state)
{
    static const char *const names[] = {NULL, "", "/nowhere/at/all", "word"};
    struct notify n;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (names[i])
            setenv("NOTIFY_SOCKET", names[i], 1);
        notify_open(&n);
        assert_int_equal(n.fd, -1);
        notify_say(&n, "READY=1");
        notify_beat(&n, 1);
        notify_close(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notify_says_what_it_is_told),
        cmocka_unit_test_setup_teardown(notify_beats_as_the_watchdog_wants,
                                        scratch_make, scratch_remove),
        cmocka_unit_test(notify_without_a_manager_is_silent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
