/* What a confined process can do no more, in children of the test. */
#include "base/host/confine_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What @check says in a child: the line of the first call that is not as it
 * should be, 0: none. */
static int in_child(int (*check)(void))
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(check());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define REFUSED(call)                                                          \
    do {                                                                       \
        errno = 0;                                                             \
        if ((call) != -1 || errno != EPERM)                                    \
            return __LINE__ % 250 + 1;                                         \
    } while (0)
#define ALLOWED(call)                                                          \
    do {                                                                       \
        if ((call) == -1)                                                      \
            return __LINE__ % 250 + 1;                                         \
    } while (0)

/* A kernel without it refuses this, too: then there is nothing to confine. */
static int system_has_it(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == -1 ? 0 : 1;
}

static int starts_no_program(void)
{
    char *const words[] = {"true", NULL};

    REFUSED(execve("/bin/true", words, NULL));
    return 0;
}

static int as_a_node(void)
{
    const char *file = scratch_path("file");
    int fd;

    if (!confine(CONFINE_NODE))
        return system_has_it();
    ALLOWED(socket(AF_UNIX, SOCK_STREAM, 0));
    ALLOWED(socket(AF_INET, SOCK_STREAM, 0));
    ALLOWED(socket(AF_NETLINK, SOCK_RAW, 0));
    REFUSED(socket(AF_PACKET, SOCK_RAW, 0));
    REFUSED(socket(AF_ALG, SOCK_SEQPACKET, 0));
    REFUSED(unshare(0));
    REFUSED(syscall(438 /* pidfd_getfd */, -1, 0, 0));
    ALLOWED(fd = open(file, O_CREAT | O_RDWR, 0600));
    ALLOWED(write(fd, "x", 1));
    ALLOWED(unlink(file));
    return starts_no_program();
}

static int as_a_reader(void)
{
    const char *file = scratch_path("file"), *other = scratch_path("other");
    char byte;
    int fd;

    if (!confine(CONFINE_READ))
        return system_has_it();
    REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
    REFUSED(socket(AF_INET, SOCK_STREAM, 0));
    ALLOWED(fd = open(file, O_RDONLY | O_CLOEXEC));
    ALLOWED(read(fd, &byte, 1));
    REFUSED(open(file, O_RDWR));
    REFUSED(open(file, O_WRONLY | O_APPEND));
    REFUSED(open(file, O_RDONLY | O_TRUNC));
    REFUSED(open(other, O_CREAT | O_RDONLY, 0600));
    REFUSED(unlink(file));
    REFUSED(rename(file, other));
    REFUSED(mkdir(other, 0700));
    REFUSED(chmod(file, 0777));
    REFUSED(syscall(452 /* fchmodat2 */, AT_FDCWD, file, 0777, 0));
    REFUSED(syscall(SYS_renameat, AT_FDCWD, file, AT_FDCWD, other));
#ifdef __x86_64__
    REFUSED(syscall(SYS_utime, file, NULL));
    REFUSED(syscall(SYS_futimesat, AT_FDCWD, file, NULL));
#endif
    ALLOWED(write(2, "", 0));
    return starts_no_program();
}

static void *try_it(void *arg)
{
    int *refused = arg;
    int go;

    while (!__atomic_load_n(&refused[1], __ATOMIC_ACQUIRE))
        usleep(1000);
    go = socket(AF_PACKET, SOCK_RAW, 0);
    refused[0] = go == -1 && errno == EPERM;
    return NULL;
}

/* Threads that were there before have no more rights. */
static int in_all_threads(void)
{
    static int refused[2];
    pthread_t thread;

    if (pthread_create(&thread, NULL, try_it, refused) != 0)
        return 1;
    if (!confine(CONFINE_NODE))
        return system_has_it();
    __atomic_store_n(&refused[1], 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    return refused[0] ? 0 : 2;
}

static void confine_lets_a_node_train(void **state)
{
    (void)state;
    assert_int_equal(in_child(as_a_node), 0);
}

static void confine_lets_a_reader_read(void **state)
{
    (void)state;
    scratch_text("file", "x");
    assert_int_equal(in_child(as_a_reader), 0);
}

static void confine_is_for_all_threads(void **state)
{
    (void)state;
    assert_int_equal(in_child(in_all_threads), 0);
}

int main(void)
{
#define WITH(test)                                                             \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        WITH(confine_lets_a_node_train),
        WITH(confine_lets_a_reader_read),
        WITH(confine_is_for_all_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
