/* The launcher starts its own executable as a node, so this program is both: as
 * `test_launcher node ...` it does what the endpoint's text says. */
#include "base/file_io.h"
#include "base/log.h"
#include "base/log_file_io.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/launcher_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the node ------------------------------------------------------------ */

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* ".", ".." and the folder itself */
}

static void tell_surroundings(void)
{
    sigset_t mask;
    int death = 0;

    sigprocmask(SIG_BLOCK, NULL, &mask);
    prctl(PR_GET_PDEATHSIG, &death);
    printf("fds=%d group=%d death=%d blocked=%d stdin=%d\n", count_fds(),
           getpgrp() == getpid(), death, sigismember(&mask, SIGINT),
           (int)read(0, &death, 1));
}

static int node_main(char **argv)
{
    const char *role = argv[3];

    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(argv[2], "--tuner") != 0 || strcmp(argv[4], "--node") != 0)
        return 9;
    if (strcmp(role, "surroundings") == 0)
        tell_surroundings();
    if (strcmp(role, "last words") == 0)
        fprintf(stderr, "first line\nlast line of node %s\n", argv[5]);
    if (strcmp(role, "stubborn") == 0) {
        signal(SIGTERM, SIG_IGN);
        printf("ready\n");
        sleep_for_ever();
    }
    if (strcmp(role, "family") == 0) {
        if (fork() == 0)
            sleep_for_ever();
        printf("ready\n");
        return 0;
    }
    if (strcmp(role, "sleeper") == 0) {
        printf("ready\n");
        sleep_for_ever();
    }
    return 3;
}

/* ---- the tests ----------------------------------------------------------- */

static char dir[64];
static char log_path[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-launcher-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(log_path, sizeof(log_path), "%s/log", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static void start(struct node_process *p, const char *role)
{
    struct launch launch = {
        .endpoint = role, .node = 4, .nodes = 5, .log_path = log_path};
    struct fault f = {0};

    if (launcher_start(p, &launch, &f) != ERR_OK)
        fail_msg("%s", f.text);
    assert_true(p->process.pid > 0);
}

/* Waits, without a clock, until the process has ended by itself. */
static void wait_for_end(struct node_process *p)
{
    struct pollfd item = {.fd = p->process.end_fd, .events = POLLIN};

    while (poll(&item, 1, -1) < 0)
        assert_int_equal(errno, EINTR);
    assert_true(launcher_poll(p));
}

/* Waits until the node has written "ready" to the log. */
static void wait_for_ready(void)
{
    char text[256] = "";

    while (!strstr(text, "ready")) {
        int fd = open(log_path, O_RDONLY);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = '\0';
        if (fd >= 0)
            close(fd);
        sched_yield();
    }
}

static bool alive(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* A node that ends is noticed with its exit code, and is no zombie. */
static void launcher_exit_code_is_told(void **state)
{
    struct node_process p;
    char text[128];

    (void)state;
    start(&p, "exit");
    wait_for_end(&p);
    assert_int_equal(p.process.code, 3);
    launcher_verdict(&p, text, sizeof(text));
    assert_non_null(strstr(text, "node 4"));
    assert_non_null(strstr(text, "exit code 3"));
    assert_int_equal(waitpid(p.process.pid, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* A node has stdin, stdout and stderr and no other file, a group of its own,
 * dies with its parent, and inherits no blocked signal. */
static void launcher_node_inherits_nothing(void **state)
{
    int extra = open("/dev/null", O_RDONLY); /* without close-on-exec */
    sigset_t block;
    struct node_process p;
    char text[256];

    (void)state;
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    sigprocmask(SIG_BLOCK, &block, NULL);
    start(&p, "surroundings");
    wait_for_end(&p);
    sigprocmask(SIG_UNBLOCK, &block, NULL);
    close(extra);
    launcher_last_words(&p, text, sizeof(text));
    assert_string_equal(text, "fds=3 group=1 death=9 blocked=0 stdin=0\n");
}

/* A killed node is told by the name of the signal. */
static void launcher_killed_node_is_told_by_signal(void **state)
{
    struct node_process p;
    char text[160];

    (void)state;
    start(&p, "sleeper");
    assert_false(launcher_poll(&p));
    kill(p.process.pid, SIGKILL);
    wait_for_end(&p);
    assert_int_equal(p.process.code, -SIGKILL);
    launcher_verdict(&p, text, sizeof(text));
    assert_non_null(strstr(text, "SIGKILL"));
}

/* Stopping ends a node that takes no notice of requests. */
static void launcher_stop_ends_a_stubborn_node(void **state)
{
    struct node_process p;

    (void)state;
    start(&p, "stubborn");
    wait_for_ready();
    launcher_stop(&p, 1, 1, -1);
    assert_true(p.process.ended);
    assert_int_equal(p.process.code, -SIGKILL);
    assert_false(alive(p.process.pid));
    launcher_stop(&p, 1, 1, -1); /* once more does nothing */
}

/* Without grace the node is killed at once; a process that never was is fine.
 */
static void launcher_stop_without_grace_kills(void **state)
{
    struct node_process p, none = {0};

    (void)state;
    start(&p, "sleeper");
    launcher_stop(&p, 1, 0, -1);
    assert_int_equal(p.process.code, -SIGKILL);
    launcher_stop(&none, 1, 0, -1);
}

/* Somebody in a hurry ends the wait: the node would never go by itself. */
static void launcher_stop_in_a_hurry_kills(void **state)
{
    struct node_process p;
    int pipe_fd[2];

    (void)state;
    assert_int_equal(pipe(pipe_fd), 0);
    assert_int_equal(write(pipe_fd[1], "x", 1), 1);
    start(&p, "stubborn");
    wait_for_ready();
    launcher_stop(&p, 1, 1000 * 1000, pipe_fd[0]);
    assert_int_equal(p.process.code, -SIGKILL);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* A node's own children go with it. */
static void launcher_end_takes_the_group_along(void **state)
{
    struct node_process p;
    siginfo_t info;

    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    start(&p, "family");
    wait_for_end(&p);
    /* Its child is ours now, and has been killed. */
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED), 0);
    assert_int_equal(info.si_status, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* When the tuner dies, by whatever, so does its node. */
static void launcher_node_dies_with_its_tuner(void **state)
{
    struct node_process p;
    siginfo_t info;
    pid_t tuner;

    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    tuner = fork();
    if (tuner == 0) {
        start(&p, "sleeper");
        wait_for_ready();
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(tuner, NULL, 0), tuner);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED), 0);
    assert_int_equal(info.si_code, CLD_KILLED);
    assert_int_equal(info.si_status, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* The last words are this node's, not those of one before it, and begin with a
 * whole line. */
static void launcher_last_words_are_the_nodes_own(void **state)
{
    struct node_process p;
    char text[256], part[28];

    (void)state;
    assert_int_equal(file_write(log_path, "old\n", 4, NULL), 0);
    start(&p, "last words");
    wait_for_end(&p);
    launcher_last_words(&p, text, sizeof(text));
    assert_string_equal(text, "first line\nlast line of node 4\n");
    launcher_last_words(&p, part, sizeof(part));
    assert_string_equal(part, "last line of node 4\n");
}

/* A program of the user's own gets its own arguments, its folder, and the
 * tuner's place in its environment; what it starts belongs to it. */
static void launcher_starts_a_program(void **state)
{
    char *const argv[] = {
        "sh",
        "-c",
        "echo $0 $1 in `pwd` $MLTUNE_NODE of $MLTUNE_NODES at $MLTUNE_TUNER",
        "one",
        "two",
        NULL};
    const struct launch_program program = {
        .path = "/bin/sh", .argv = argv, .folder = dir};
    const struct launch launch = {.program = &program,
                                  .run = "r",
                                  .endpoint = "ipc://t",
                                  .meet = dir,
                                  .node = 1,
                                  .nodes = 3,
                                  .log_path = log_path};
    struct node_process p;
    struct fault f = {0};
    char text[FILE_PATH_MAX + 256], want[FILE_PATH_MAX + 64];

    (void)state;
    assert_int_equal(launcher_start(&p, &launch, &f), ERR_OK);
    assert_true(launcher_has(&p, p.process.pid));
    assert_false(launcher_has(&p, getpid()));
    assert_false(launcher_has(&p, 0));
    assert_false(launcher_has(&p, INT64_MAX));
    wait_for_end(&p);
    assert_int_equal(p.process.code, 0);
    launcher_last_words(&p, text, sizeof(text));
    snprintf(want, sizeof(want), "one two in %s 1 of 3 at ipc://t\n", dir);
    assert_string_equal(text, want);
}

/* Processes that a script starts are known by its process group. */
static void launcher_knows_what_a_node_started(void **state)
{
    char *const argv[] = {"sh", "-c", "sleep 1000 & echo $!; wait", NULL};
    const struct launch_program program = {
        .path = "/bin/sh", .argv = argv, .folder = dir};
    const struct launch launch = {.program = &program,
                                  .run = "r",
                                  .endpoint = "ipc://t",
                                  .nodes = 1,
                                  .log_path = log_path};
    struct node_process p;
    char text[32] = "";

    (void)state;
    assert_int_equal(launcher_start(&p, &launch, NULL), ERR_OK);
    while (!text[0])
        launcher_last_words(&p, text, sizeof(text));
    assert_true(launcher_has(&p, atoll(text)));
    launcher_stop(&p, 1, 0, -1);
}

/* A free port is one that can be listened at. */
static void launcher_finds_free_ports(void **state)
{
    struct fault f = {0};
    uint16_t port = 0;
    pid_t pid;
    int status;

    (void)state;
    assert_int_equal(launcher_free_port(&port, &f), ERR_OK);
    assert_true(port >= 1024);
    pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};

        setrlimit(RLIMIT_NOFILE, &none); /* no file to ask with */
        _exit(launcher_free_port(&port, &f) == ERR_IO &&
                      strstr(f.text, "free port")
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void append(const char *bytes, size_t n)
{
    int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

/* A long log gives back the disk of its older part; what is left, its place and
 * whoever writes to it stay as they are. */
static void launcher_bounds_a_log(void **state)
{
    enum { PIECE = 1 << 20, PIECES = LOG_FILE_MAX / PIECE };
    struct node_process p = {.node = 0};
    struct fault f = {0};
    struct stat st;
    char *bytes = malloc(PIECE), c;
    int fd;

    (void)state;
    assert_non_null(bytes);
    assert_int_equal(launcher_cut_log(&p, &f), ERR_OK); /* never started */
    snprintf(p.log_path, sizeof(p.log_path), "%s", log_path);
    assert_int_equal(launcher_cut_log(&p, &f), ERR_OK); /* no file */
    for (int i = 0; i < PIECES; i++) {
        memset(bytes, 'a' + i % 26, PIECE);
        append(bytes, PIECE);
    }
    assert_int_equal(launcher_cut_log(&p, &f), ERR_OK);
    assert_int_equal(stat(log_path, &st), 0);
    assert_true(st.st_blocks * 512 >= LOG_FILE_MAX); /* just fits */
    append("z", 1);
    assert_int_equal(launcher_cut_log(&p, &f), ERR_OK);
    assert_int_equal(stat(log_path, &st), 0);
    assert_int_equal(st.st_size, LOG_FILE_MAX + 1);
    assert_true(st.st_blocks * 512 <= LOG_FILE_MAX / 2 + PIECE);
    fd = open(log_path, O_RDONLY);
    assert_int_equal(lseek(fd, 0, SEEK_DATA), p.log_cut);
    assert_true(p.log_cut >= LOG_FILE_MAX / 2 - 65536);
    assert_int_equal(pread(fd, &c, 1, LOG_FILE_MAX / 2), 1);
    assert_int_equal(c, 'a' + PIECES / 2 % 26);
    assert_int_equal(pread(fd, &c, 1, LOG_FILE_MAX), 1);
    assert_int_equal(c, 'z');
    /* A tuner that goes on with the run finds what is kept. */
    p.log_cut = 0;
    assert_int_equal(launcher_cut_log(&p, &f), ERR_OK);
    assert_int_equal(lseek(fd, 0, SEEK_DATA), p.log_cut);
    assert_true(p.log_cut <= LOG_FILE_MAX / 2);
    close(fd);
    free(bytes);
}

/* A log that cannot be cut is an error that names it. */
static void launcher_says_which_log_grows(void **state)
{
    struct node_process p = {.node = 0};
    struct fault f = {0};
    char target[FILE_PATH_MAX];

    (void)state;
    snprintf(target, sizeof(target), "%s/target", dir);
    assert_int_equal(close(open(target, O_WRONLY | O_CREAT, 0600)), 0);
    assert_int_equal(truncate(target, LOG_FILE_MAX + 1), 0);
    unlink(log_path);
    assert_int_equal(symlink(target, log_path), 0);
    snprintf(p.log_path, sizeof(p.log_path), "%s", log_path);
    assert_int_equal(launcher_cut_log(&p, &f), ERR_IO);
    assert_non_null(strstr(f.text, log_path));
    unlink(log_path);
    unlink(target);
}

/* A log that cannot be opened is an error that names it. */
static void launcher_without_a_log_is_refused(void **state)
{
    struct launch launch = {.endpoint = "exit", .log_path = "/proc/none/log"};
    struct node_process p;
    struct fault f = {0};

    (void)state;
    assert_int_equal(launcher_start(&p, &launch, &f), ERR_IO);
    assert_non_null(strstr(f.text, "/proc/none/log"));
    assert_int_equal(p.process.pid, 0);
}

/* No process left: an error, and no file is left open. */
static void launcher_without_processes_is_refused(void **state)
{
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        struct rlimit none = {0, 0};
        struct launch launch = {.endpoint = "exit", .log_path = log_path};
        struct node_process p;
        struct fault f = {0};
        int before = count_fds();

        if (geteuid() == 0 && (chmod(dir, 0777) != 0 || setuid(65534) != 0))
            _exit(1);
        setrlimit(RLIMIT_NPROC, &none);
        if (launcher_start(&p, &launch, &f) != ERR_IO)
            _exit(2);
        if (!strstr(f.text, "start node 0") || p.process.pid != 0)
            _exit(3);
        _exit(count_fds() == before ? 0 : 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(launcher_exit_code_is_told),
        CASE(launcher_node_inherits_nothing),
        CASE(launcher_killed_node_is_told_by_signal),
        CASE(launcher_stop_ends_a_stubborn_node),
        CASE(launcher_stop_without_grace_kills),
        CASE(launcher_stop_in_a_hurry_kills),
        CASE(launcher_end_takes_the_group_along),
        CASE(launcher_node_dies_with_its_tuner),
        CASE(launcher_last_words_are_the_nodes_own),
        CASE(launcher_starts_a_program),
        CASE(launcher_knows_what_a_node_started),
        CASE(launcher_finds_free_ports),
        CASE(launcher_bounds_a_log),
        CASE(launcher_says_which_log_grows),
        CASE(launcher_without_a_log_is_refused),
        CASE(launcher_without_processes_is_refused),
    };

    if (argc > 5 && strcmp(argv[1], "node") == 0)
        return node_main(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
