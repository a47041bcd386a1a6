/* Unix sockets: who is let in, what is in the way, paths that are too long. */
#include "base/host/local_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdio.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static int listen_at(const char *path)
{
    struct fault f = {0};
    int fd = -1;

    if (local_listen(path, &fd, &f) != ERR_OK)
        fail_msg("%s", f.text);
    return fd;
}

/* Somebody connects, and is let in: a byte goes through. */
static void expect_open(int listener, const char *path)
{
    unsigned refused = 0;
    int there = local_connect(path), here;
    char byte = 0;

    assert_true(there >= 0);
    here = local_accept(listener, &refused);
    assert_true(here >= 0);
    assert_int_equal(send(here, "x", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(recv(there, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(refused, 0);
    assert_int_equal(local_accept(listener, &refused), -1);
    close(here);
    close(there);
}

/* The file is the user's alone; who comes is let in, one after the other. */
static void local_lets_this_user_in(void **state)
{
    const char *path = scratch_path("s");
    struct stat st;
    int fd;

    (void)state;
    assert_int_equal(local_connect(path), -1);
    fd = listen_at(path);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    expect_open(fd, path);
    expect_open(fd, path);
    close(fd);
    /* What a killed process leaves: nobody listens, and it is in no way. */
    assert_int_equal(local_connect(path), -1);
    fd = listen_at(path);
    expect_open(fd, path);
    close(fd);
}

/* A file or folder of that name is not ours to remove. */
static void local_leaves_what_is_no_socket(void **state)
{
    struct fault f = {0};
    struct stat st;
    int fd = -1;

    (void)state;
    scratch_text("file", "text");
    scratch_mkdir("folder");
    for (int i = 0; i < 2; i++) {
        const char *path = scratch_path(i ? "folder" : "file");

        assert_int_equal(local_listen(path, &fd, &f), ERR_IO);
        assert_non_null(strstr(f.text, path));
        assert_int_equal(fd, -1);
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(local_connect(path), -1);
    }
    assert_int_equal(local_listen(scratch_path("none/s"), &fd, &f), ERR_IO);
}

/* Deeper than any address can say. */
static void local_reaches_long_paths(void **state)
{
    char path[2048];
    char name[101];
    int fd, n;

    (void)state;
    memset(name, 'd', 100);
    name[100] = '\0';
    n = snprintf(path, sizeof(path), "%s", scratch_folder());
    for (int i = 0; i < 3; i++) {
        n += snprintf(path + n, sizeof(path) - (size_t)n, "/%s", name);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path + n, sizeof(path) - (size_t)n, "/s");
    fd = listen_at(path);
    expect_open(fd, path);
    close(fd);
    fd = listen_at(path);
    expect_open(fd, path);
    close(fd);
}

/* Who listens in another's folder is not asked. */
static void local_asks_no_other_user(void **state)
{
    const char *path = scratch_path("s");
    int ready[2], there, status = -1;
    pid_t child;
    char byte;

    (void)state;
    if (geteuid() != 0) /* only root can be another user */
        skip();
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(chmod(scratch_folder(), 0777), 0);
    child = fork();
    if (child == 0) {
        struct pollfd p = {.events = POLLIN};
        struct fault f = {0};

        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0 ||
            local_listen(path, &p.fd, &f) != ERR_OK ||
            write(ready[1], "x", 1) != 1)
            _exit(2);
        poll(&p, 1, 30000); /* until somebody connects */
        _exit(read(ready[0], &byte, 1) == 1 ? 0 : 3);
    }
    assert_int_equal(poll(&(struct pollfd){ready[0], POLLIN, 0}, 1, 30000), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(local_connect(path), -1);
    assert_int_equal(errno, EACCES);
    /* In a folder of its own it is. */
    assert_int_equal(chown(scratch_folder(), NOBODY, NOBODY), 0);
    there = local_connect(path);
    assert_true(there >= 0);
    close(there);
    assert_int_equal(write(ready[1], "x", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
}

/* Another user, whom mode and folder would let in, is hung up on. */
static void local_hangs_up_on_other_users(void **state)
{
    const char *path = scratch_path("s");
    int fd = listen_at(path), there, status = -1;
    unsigned refused = 0;
    pid_t child;

    (void)state;
    if (geteuid() != 0) { /* only root can be another user */
        close(fd);
        skip();
    }
    assert_int_equal(chmod(scratch_folder(), 0755), 0);
    assert_int_equal(chmod(path, 0666), 0);
    child = fork();
    if (child == 0) {
        struct pollfd p = {.events = POLLIN};
        char byte;

        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(2);
        p.fd = local_connect(path);
        if (p.fd < 0 || poll(&p, 1, 30000) != 1)
            _exit(3);
        _exit(recv(p.fd, &byte, 1, 0) <= 0 ? 0 : 4);
    }
    do
        assert_int_equal(local_accept(fd, &refused), -1);
    while (refused == 0 && poll(&(struct pollfd){fd, POLLIN, 0}, 1, 30000));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(refused, 1);
    there = local_connect(path);
    assert_true(there >= 0);
    close(there);
    close(fd);
}

int main(void)
{
#define WITH(test)                                                             \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        WITH(local_lets_this_user_in),  WITH(local_leaves_what_is_no_socket),
        WITH(local_reaches_long_paths), WITH(local_hangs_up_on_other_users),
        WITH(local_asks_no_other_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
