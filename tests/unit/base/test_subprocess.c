/* Subprocesses (base/subprocess_io.h). This program is both sides: as
 * `test_subprocess role NAME` it is what the tests start. */
#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/subprocess_io.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what is started ----------------------------------------------------- */

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

static bool ignores(int number)
{
    struct sigaction old;

    return sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static void tell_surroundings(void)
{
    const char *set = getenv("MLTUNE_TEST_SET");
    const char *unset = getenv("MLTUNE_TEST_UNSET");
    char folder[FILE_PATH_MAX], score[16] = "?";
    FILE *file = fopen("/proc/self/oom_score_adj", "re");
    sigset_t mask;
    int death = 0;

    if (file && fgets(score, sizeof(score), file))
        score[strcspn(score, "\n")] = '\0';
    if (file)
        fclose(file);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    prctl(PR_GET_PDEATHSIG, &death);
    printf("fds=%d group=%d death=%d blocked=%d hup=%d pipe=%d stdin=%d set=%s "
           "unset=%s nice=%d oom=%s folder=%s\n",
           count_fds(), getpgrp() == getpid(), death,
           sigismember(&mask, SIGINT), ignores(SIGHUP), ignores(SIGPIPE),
           (int)read(0, &death, 1), set ? set : "none", unset ? unset : "none",
           getpriority(PRIO_PROCESS, 0), score,
           getcwd(folder, sizeof(folder)) ? folder : "?");
}

static int role_main(const char *role)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    if (strcmp(role, "surroundings") == 0)
        tell_surroundings();
    if (strcmp(role, "echo") == 0) {
        char word[16] = "";

        (void)!read(0, word, sizeof(word) - 1);
        fprintf(stderr, "heard %s", word);
    }
    if (strcmp(role, "stubborn") == 0 || strcmp(role, "undying") == 0)
        signal(SIGTERM, SIG_IGN);
    /* No kill of its group reaches it, as none ends who waits for a disk. */
    if (strcmp(role, "undying") == 0 && setpgid(0, getpgid(getppid())) != 0)
        return 4;
    if (strcmp(role, "family") == 0 && fork() != 0) {
        printf("ready\n");
        return 0;
    }
    if (strcmp(role, "stubborn") == 0 || strcmp(role, "sleeper") == 0 ||
        strcmp(role, "undying") == 0 || strcmp(role, "family") == 0) {
        printf("ready\n");
        sleep_for_ever();
    }
    return 3;
}

/* ---- the tests ----------------------------------------------------------- */

static char *argv_of(const char *role, char *argv[4])
{
    argv[0] = "test_subprocess";
    argv[1] = "role";
    argv[2] = (char *)role;
    argv[3] = NULL;
    return argv[0];
}

/* Starts @role with stdout and stderr in the pipe *@out. */
static void start(struct subprocess *p, const char *role,
                  struct subprocess_options o, int *out)
{
    struct fault f = {0};
    char *argv[4];
    int fd[2];

    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    argv_of(role, argv);
    o.argv = argv;
    o.file[0] = SUBPROCESS_NULL;
    o.file[1] = o.file[2] = fd[1];
    if (subprocess_start(p, &o, &f) != ERR_OK)
        fail_msg("%s", f.text);
    close(fd[1]);
    assert_true(p->pid > 0);
    *out = fd[0];
}

static void expect_output(int fd, const char *text)
{
    char got[2 * FILE_PATH_MAX];
    size_t n = 0;
    ssize_t more;

    while ((more = read(fd, got + n, sizeof(got) - 1 - n)) > 0)
        n += (size_t)more;
    got[n] = '\0';
    close(fd);
    assert_string_equal(got, text);
}

static void wait_for_ready(int fd)
{
    char c = '\0';

    while (c != '\n')
        assert_int_equal(read(fd, &c, 1), 1);
}

static const struct subprocess_options usual = {.signals =
                                                    SUBPROCESS_SIGNALS_USUAL};

/* An end is noticed with its exit code and in words, and leaves no zombie. */
static void subprocess_exit_code_is_told(void **state)
{
    struct subprocess p;
    char text[64];
    int out;

    (void)state;
    start(&p, "exit", usual, &out);
    assert_true(subprocess_wait(&p, -1, -1));
    assert_true(subprocess_poll(&p)); /* and stays so */
    assert_int_equal(p.code, 3);
    assert_int_equal(p.end_fd, -1);
    subprocess_verdict(&p, text, sizeof(text));
    assert_string_equal(text, "ended with exit code 3");
    assert_int_equal(waitpid(p.pid, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    expect_output(out, "");
}

/* Where whoever started us ignores SIGCHLD, the system keeps no exit code: that
 * is never taken for success. */
static void subprocess_lost_exit_code_is_no_success(void **state)
{
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    struct subprocess p;
    int out;

    (void)state;
    start(&p, "sleeper", usual, &out);
    subprocess_signal(&p, SIGKILL);
    assert_true(subprocess_wait(&p, -1, -1));
    signal(SIGCHLD, before);
    assert_true(p.code > 0);
    assert_int_equal(p.end_fd, -1);
    close(out);
}

/* One that is killed is told by its signal; until then it has not ended. */
static void subprocess_killed_is_told_by_signal(void **state)
{
    struct subprocess p;
    char text[64];
    int out;

    (void)state;
    start(&p, "sleeper", usual, &out);
    assert_false(subprocess_poll(&p));
    assert_false(subprocess_wait(&p, 1, -1)); /* a deadline that passes */
    subprocess_signal(&p, SIGKILL);
    assert_true(subprocess_wait(&p, -1, -1));
    assert_int_equal(p.code, -SIGKILL);
    subprocess_verdict(&p, text, sizeof(text));
    assert_string_equal(text, "was killed by SIGKILL");
    subprocess_signal(&p, SIGTERM); /* to nobody */
    close(out);
}

/* It has three files and no other, a group of its own, the environment and the
 * folder that were asked for, and no signal that we block. */
static void subprocess_inherits_what_was_asked(void **state)
{
    struct subprocess_options o = {.signals = SUBPROCESS_SIGNALS_ERRORS,
                                   .set = "MLTUNE_TEST_SET=new",
                                   .unset = "MLTUNE_TEST_UNSET",
                                   .folder = "/",
                                   .death_signal = SIGKILL,
                                   .nice = 3,
                                   .oom_score = 507};
    int extra = open("/dev/null", O_RDONLY); /* without close-on-exec */
    int nice = getpriority(PRIO_PROCESS, 0) + 3, out;
    char expected[256];
    struct subprocess p;
    sigset_t block;

    (void)state;
    setenv("MLTUNE_TEST_SET", "old", 1);
    setenv("MLTUNE_TEST_UNSET", "secret", 1);
    sigemptyset(&block);
    sigaddset(&block, SIGINT);
    sigprocmask(SIG_BLOCK, &block, NULL);
    signal(SIGHUP, SIG_IGN);
    start(&p, "surroundings", o, &out);
    signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &block, NULL);
    close(extra);
    snprintf(expected, sizeof(expected),
             "fds=3 group=1 death=9 blocked=0 hup=0 pipe=1 stdin=0 set=new "
             "unset=none nice=%d oom=507 folder=/\n",
             nice < 19 ? nice : 19);
    expect_output(out, expected);
    assert_true(subprocess_wait(&p, -1, -1));
    unsetenv("MLTUNE_TEST_SET");
    unsetenv("MLTUNE_TEST_UNSET");
}

/* Signals that we ignore a child ignores too, or not, as was asked. */
static void subprocess_signals_are_as_asked(void **state)
{
    static const struct {
        enum subprocess_signals signals;
        const char *expected;
    } cases[] = {
        {SUBPROCESS_SIGNALS_KEPT, "hup=1 pipe=1"},
        {SUBPROCESS_SIGNALS_USUAL, "hup=0 pipe=0"},
        {SUBPROCESS_SIGNALS_ERRORS, "hup=0 pipe=1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct subprocess_options o = {.signals = cases[i].signals};
        struct subprocess p;
        char got[512] = "";
        int out;

        signal(SIGHUP, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
        start(&p, "surroundings", o, &out);
        signal(SIGHUP, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
        assert_true(read(out, got, sizeof(got) - 1) > 0);
        close(out);
        if (!strstr(got, cases[i].expected))
            fail_msg("%s, expected %s", got, cases[i].expected);
        assert_true(subprocess_wait(&p, -1, -1));
    }
}

/* Its files are those it was given, also where they have low numbers. */
static void subprocess_files_are_handed_over(void **state)
{
    int in[2], out[2], err[2], saved = dup(0);
    struct subprocess_options o = usual;
    struct subprocess p;
    char *argv[4];

    (void)state;
    argv_of("echo", argv);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(write(in[1], "hello", 5), 5);
    assert_int_equal(dup2(err[1], 0), 0); /* what it gets as 2 is our 0 */
    o.argv = argv;
    o.file[0] = in[0];
    o.file[1] = out[1];
    o.file[2] = 0;
    assert_int_equal(subprocess_start(&p, &o, NULL), ERR_OK);
    dup2(saved, 0);
    close(saved);
    close(in[0]);
    close(in[1]);
    close(out[1]);
    close(err[1]);
    expect_output(err[0], "heard hello");
    expect_output(out[0], "");
    assert_true(subprocess_wait(&p, -1, -1));
}

static void expect_no_start(struct subprocess_options o, enum err code,
                            const char *says)
{
    char *argv[] = {"a-program", NULL};
    int before = count_fds();
    int64_t memory = mem_outstanding();
    struct fault f = {0};
    struct subprocess p;
    siginfo_t info;

    o.argv = argv;
    o.file[0] = o.file[1] = o.file[2] = SUBPROCESS_NULL;
    assert_int_equal(subprocess_start(&p, &o, &f), code);
    assert_int_equal(f.code, code);
    if (!strstr(f.text, says))
        fail_msg("%s, expected %s", f.text, says);
    assert_int_equal(p.pid, 0);
    assert_int_equal(p.end_fd, -1);
    assert_int_equal(count_fds(), before);
    assert_int_equal(mem_outstanding(), memory);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    subprocess_stop(&p, 0, -1); /* does nothing */
    subprocess_forget(&p);
}

/* Each way a start can fail is told by the start, and leaves nothing. */
static void subprocess_failed_start_is_told(void **state)
{
    char path[FILE_PATH_MAX];
    struct subprocess_options o = usual;

    (void)state;
    o.path = "/nonexistent/program";
    expect_no_start(o, ERR_NOENT,
                    "cannot start /nonexistent/program: No such file");
    scratch_text("plain", "no program");
    snprintf(path, sizeof(path), "%s", scratch_path("plain"));
    o.path = path;
    expect_no_start(o, ERR_IO, "plain: Permission denied");
    assert_int_equal(chmod(path, 0755), 0);
    expect_no_start(o, ERR_IO,
                    "plain: Exec format error; a script's first "
                    "line says what runs it");
    scratch_text("script", "#!/nonexistent/shell -e\n");
    snprintf(path, sizeof(path), "%s", scratch_path("script"));
    assert_int_equal(chmod(path, 0755), 0);
    expect_no_start(o, ERR_NOENT, "names the interpreter /nonexistent/shell");
    o.path = scratch_folder();
    expect_no_start(o, ERR_IO, "Permission denied");
    o.path = NULL;
    o.folder = "/nonexistent";
    expect_no_start(o, ERR_NOENT,
                    "cannot start a-program in /nonexistent: No such file");
    o.folder = NULL;
    mem_fail_at(1, 0);
    expect_no_start(o, ERR_NOMEM, "out of memory");
    mem_fail_at(0, 0);
}

/* A file that is not open, and a system without descriptors or processes, are
 * errors, too. */
static void subprocess_start_survives_want(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        struct subprocess_options o = usual;
        struct fault f = {0};
        struct subprocess p;
        char *argv[4];
        int before = count_fds();

        argv_of("exit", argv);
        o.argv = argv;
        o.file[1] = 900;
        if (subprocess_start(&p, &o, &f) != ERR_IO || p.pid != 0)
            _exit(1);
        o.file[1] = 1;
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(2);
        setrlimit(RLIMIT_NPROC, &none);
        if (subprocess_start(&p, &o, &f) != ERR_IO || p.pid != 0 ||
            !strstr(f.text, "Resource temporarily unavailable"))
            _exit(3);
        if (count_fds() != before)
            _exit(4);
        none = (struct rlimit){3, 3};
        setrlimit(RLIMIT_NOFILE, &none);
        if (subprocess_start(&p, &o, &f) != ERR_IO || p.pid != 0)
            _exit(5);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Stopping asks first, and ends one that takes no notice. */
static void subprocess_stop_ends_a_stubborn_one(void **state)
{
    struct subprocess p, none = {0};
    int out;

    (void)state;
    start(&p, "stubborn", usual, &out);
    wait_for_ready(out);
    close(out);
    subprocess_stop(&p, 1, -1);
    assert_true(p.ended);
    assert_int_equal(p.code, -SIGKILL);
    subprocess_stop(&p, 1, -1); /* once more does nothing */
    subprocess_stop(&none, 1, -1);
    start(&p, "sleeper", usual, &out);
    wait_for_ready(out);
    close(out);
    subprocess_stop(&p, 1, -1);
    assert_int_equal(p.code, -SIGTERM);
}

/* Those that no kill ends are waited for together, not one after another, and
 * left behind; the others are ended and reaped as ever. */
static void subprocess_stop_all_waits_once(void **state)
{
    enum { UNDYING = 6, ALL = UNDYING + 2 };
    struct subprocess p[ALL] = {{0}}, *each[ALL];
    time_ns began;
    int out;

    (void)state;
    for (int i = 0; i < ALL; i++) {
        each[i] = &p[i];
        if (i == ALL - 1)
            break; /* never started */
        start(&p[i], i < UNDYING ? "undying" : "stubborn", usual, &out);
        wait_for_ready(out);
        close(out);
    }
    began = clock_monotonic();
    subprocess_stop_all(each, ALL, 1, -1);
    /* One after another it would be six times as long. */
    assert_true(clock_monotonic() - began <
                (UNDYING - 1) * (DEADLINE_KILLED_MS * (time_ns)1000000));
    for (int i = 0; i < ALL - 1; i++) {
        assert_true(p[i].ended);
        assert_int_equal(p[i].code, -SIGKILL);
        assert_int_equal(p[i].end_fd, -1);
        if (i == UNDYING)
            continue;
        assert_int_equal(kill(p[i].pid, SIGKILL), 0); /* it lives */
        assert_int_equal(waitpid(p[i].pid, NULL, 0), p[i].pid);
    }
    assert_int_equal(p[ALL - 1].pid, 0);
}

/* Somebody in a hurry ends every wait. */
static void subprocess_hurry_ends_the_wait(void **state)
{
    struct subprocess p;
    int out, pipe_fd[2];

    (void)state;
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    assert_int_equal(write(pipe_fd[1], "x", 1), 1);
    start(&p, "stubborn", usual, &out);
    wait_for_ready(out);
    close(out);
    assert_false(subprocess_wait(&p, -1, pipe_fd[0]));
    subprocess_stop(&p, 1000 * 1000, pipe_fd[0]);
    assert_int_equal(p.code, -SIGKILL);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* A child's own children go with it. */
static void subprocess_end_takes_the_group_along(void **state)
{
    struct subprocess p;
    siginfo_t info;
    int out;

    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    start(&p, "family", usual, &out);
    assert_true(subprocess_wait(&p, -1, -1));
    /* Its child is ours now, and has been killed. */
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED), 0);
    assert_int_equal(info.si_status, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(out);
}

/* The death of its parent ends it, where that was asked. */
static void subprocess_dies_with_its_parent(void **state)
{
    struct subprocess_options o = {.death_signal = SIGTERM};
    struct subprocess p;
    siginfo_t info;
    pid_t parent;
    int out;

    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    parent = fork();
    if (parent == 0) {
        start(&p, "sleeper", o, &out);
        wait_for_ready(out);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED), 0);
    assert_int_equal(info.si_code, CLD_KILLED);
    assert_int_equal(info.si_status, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* One that is forgotten goes on, and costs no descriptor. */
static void subprocess_forgotten_goes_on(void **state)
{
    int before = count_fds(), out;
    struct subprocess p;
    pid_t pid;

    (void)state;
    start(&p, "sleeper", usual, &out);
    wait_for_ready(out);
    close(out);
    pid = p.pid;
    subprocess_forget(&p);
    assert_int_equal(p.pid, 0);
    assert_int_equal(count_fds(), before);
    assert_int_equal(kill(pid, 0), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The last words begin where asked, with a whole line. */
static void subprocess_last_words_are_whole_lines(void **state)
{
    char text[64], part[28];

    (void)state;
    scratch_text("log", "old\nfirst line\nlast line of node 4\n");
    subprocess_last_words(scratch_path("log"), 4, text, sizeof(text));
    assert_string_equal(text, "first line\nlast line of node 4\n");
    subprocess_last_words(scratch_path("log"), 4, part, sizeof(part));
    assert_string_equal(part, "last line of node 4\n");
    subprocess_last_words(scratch_path("log"), 35, text, sizeof(text));
    assert_string_equal(text, "");
    subprocess_last_words(scratch_path("none"), 0, text, sizeof(text));
    assert_string_equal(text, "");
}

static void last_line_is(const char *content, const char *line)
{
    char text[64];

    scratch_text("log", content);
    subprocess_last_line(scratch_path("log"), text, sizeof(text));
    assert_string_equal(text, line);
}

/* The last line of a log, whatever is in it. */
static void subprocess_finds_the_last_line(void **state)
{
    static char many[10000];
    char text[64];

    (void)state;
    last_line_is("", "");
    last_line_is("\n\n", "");
    last_line_is("one", "one");
    last_line_is("one\ntwo\n\n", "two");
    last_line_is("one\n\x1b[31mtwo\xff\n", "?[31mtwo?");
    memset(many, 'x', sizeof(many) - 1);
    memcpy(many + sizeof(many) - 6, "\nlast", 5);
    last_line_is(many, "last");
    subprocess_last_line(scratch_path("none"), text, sizeof(text));
    assert_string_equal(text, "");
}

/* A program is found in PATH, unless its name has a slash. */
static void subprocess_find_looks_along_path(void **state)
{
    char *saved = strdup(getenv("PATH")), path[FILE_PATH_MAX];
    char out[FILE_PATH_MAX], tiny[4], here[FILE_PATH_MAX];

    (void)state;
    assert_non_null(getcwd(here, sizeof(here)));
    scratch_text("program", "#!/bin/sh\n");
    assert_int_equal(chmod(scratch_path("program"), 0755), 0);
    snprintf(path, sizeof(path), "/nonexistent:%s", scratch_folder());
    setenv("PATH", path, 1);
    assert_true(subprocess_find("program", out, sizeof(out)));
    assert_string_equal(out, scratch_path("program"));
    assert_false(subprocess_find("program", tiny, sizeof(tiny)));
    assert_false(subprocess_find("another", out, sizeof(out)));
    assert_int_equal(mkdir(scratch_path("folder"), 0755), 0);
    assert_false(subprocess_find("folder", out, sizeof(out)));
    assert_int_equal(chdir(scratch_folder()), 0);
    setenv("PATH", ":/nonexistent", 1); /* an empty one is this folder */
    assert_true(subprocess_find("program", out, sizeof(out)));
    assert_string_equal(out, "./program");
    assert_int_equal(chdir(here), 0);
    assert_true(subprocess_find("./x/y", out, sizeof(out)));
    assert_string_equal(out, "./x/y");
    unsetenv("PATH");
    assert_true(subprocess_find("sh", out, sizeof(out)));
    setenv("PATH", saved, 1);
    free(saved);
}

#define CASE(name)                                                             \
    cmocka_unit_test_setup_teardown(name, scratch_make, scratch_remove)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(subprocess_exit_code_is_told),
        CASE(subprocess_lost_exit_code_is_no_success),
        CASE(subprocess_killed_is_told_by_signal),
        CASE(subprocess_inherits_what_was_asked),
        CASE(subprocess_signals_are_as_asked),
        CASE(subprocess_files_are_handed_over),
        CASE(subprocess_failed_start_is_told),
        CASE(subprocess_start_survives_want),
        CASE(subprocess_stop_ends_a_stubborn_one),
        CASE(subprocess_stop_all_waits_once),
        CASE(subprocess_hurry_ends_the_wait),
        CASE(subprocess_end_takes_the_group_along),
        CASE(subprocess_dies_with_its_parent),
        CASE(subprocess_forgotten_goes_on),
        CASE(subprocess_last_words_are_whole_lines),
        CASE(subprocess_finds_the_last_line),
        CASE(subprocess_find_looks_along_path),
    };

    if (argc > 2 && strcmp(argv[1], "role") == 0)
        return role_main(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
