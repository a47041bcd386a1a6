#include "base/file_io.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/state_io.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[64];
static char path[FILE_PATH_MAX];

static const char *in_dir(const char *name)
{
    assert_int_equal(file_join(path, dir, name, NULL), 0);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-state-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static bool exists(const char *name)
{
    struct stat st;

    return lstat(in_dir(name), &st) == 0;
}

static void put(const char *name, const char *text)
{
    assert_int_equal(file_write(in_dir(name), text, strlen(text), NULL), 0);
}

/* A run's id is made of its name, whatever that holds. */
static void run_folder_id_comes_from_the_name(void **state)
{
    static const struct {
        const char *name, *start;
    } cases[] = {
        {"movielens", "movielens-"},
        {"My model (v2)!", "my-model-v2-"},
        {"", "run-"},
        {"../../etc", "etc-"},
        {"\xc3\xa9t\xc3\xa9", "t-"},
        {"0123456789012345678901234567890123456789012345678901234567890123456",
         "0123456789012345678901234567890123456789-"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct run_folder run;
        size_t n = strlen(cases[i].start);

        assert_int_equal(run_folder_new(&run, dir, cases[i].name, NULL), 0);
        assert_true(run_id_valid(run.id));
        assert_memory_equal(run.id, cases[i].start, n);
        assert_int_equal(strlen(run.id), n + 6);
        assert_true(folder_is_empty(in_dir("runs")) == false);
        run_folder_close(&run);
    }
}

/* Ids that could leave the folder are not ids. */
static void run_id_validity(void **state)
{
    char name[RUN_ID_MAX + 2];

    (void)state;
    assert_true(run_id_valid("a-0"));
    assert_false(run_id_valid(""));
    assert_false(run_id_valid(".."));
    assert_false(run_id_valid("a/b"));
    assert_false(run_id_valid("A"));
    memset(name, 'a', sizeof(name));
    name[RUN_ID_MAX + 1] = '\0';
    assert_false(run_id_valid(name));
    name[RUN_ID_MAX] = '\0';
    assert_true(run_id_valid(name));
}

/* A run is alive exactly as long as somebody holds its lock, and the lock goes
 * with the process that held it. */
static void run_folder_is_alive_while_locked(void **state)
{
    struct run_folder run;
    int pipe_fd[2], status;
    char id[RUN_ID_MAX + 1];
    pid_t pid;

    (void)state;
    assert_int_equal(run_folder_new(&run, dir, "a", NULL), 0);
    assert_true(run_folder_alive(dir, run.id));
    run_folder_close(&run);
    assert_false(run_folder_alive(dir, run.id));
    assert_false(run_folder_alive(dir, "none"));
    assert_int_equal(pipe(pipe_fd), 0);
    pid = fork();
    if (pid == 0) {
        struct run_folder other;

        if (run_folder_new(&other, dir, "b", NULL) != ERR_OK ||
            write(pipe_fd[1], other.id, sizeof(other.id)) < 0)
            _exit(1);
        pause();
    }
    assert_int_equal(read(pipe_fd[0], id, sizeof(id)), sizeof(id));
    assert_true(run_folder_alive(dir, id));
    assert_int_equal(run_folder_owner(dir, id), pid);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(run_folder_alive(dir, id));
    assert_int_equal(run_folder_owner(dir, id), 0);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

/* Each sign of life can be told from the one before it. */
static void run_folder_beats(void **state)
{
    const struct timespec pause = {.tv_nsec = 20000000}; /* of coarse clocks */
    struct run_folder run;
    int64_t first;

    (void)state;
    assert_int_equal(run_folder_beaten(dir, "none"), 0);
    assert_int_equal(run_folder_new(&run, dir, "a", NULL), 0);
    first = run_folder_beaten(dir, run.id);
    assert_int_not_equal(first, 0);
    nanosleep(&pause, NULL);
    assert_int_equal(run_folder_beaten(dir, run.id), first);
    run_folder_beat(&run);
    assert_int_not_equal(run_folder_beaten(dir, run.id), first);
    run_folder_close(&run);
}

/* A run's folder is taken up again by one, and only when nobody has it. */
static void run_folder_open_takes_what_is_free(void **state)
{
    struct run_folder run, again, third;
    struct fault f = {0};
    char id[RUN_ID_MAX + 1];

    (void)state;
    assert_int_equal(run_folder_new(&run, dir, "a", NULL), 0);
    memcpy(id, run.id, sizeof(id));
    assert_int_equal(run_folder_open(&again, dir, id, &f), ERR_BUSY);
    assert_non_null(strstr(f.text, "is running"));
    assert_int_equal(again.lock_fd, -1);
    run_folder_close(&run);
    assert_int_equal(run_folder_open(&again, dir, id, &f), 0);
    assert_string_equal(again.id, id);
    assert_string_equal(again.path, run.path);
    assert_true(run_folder_alive(dir, id));
    assert_int_equal(run_folder_open(&third, dir, id, NULL), ERR_BUSY);
    run_folder_close(&again);
    assert_int_equal(run_folder_open(&third, dir, "nobody", &f), ERR_NOENT);
}

/* How a run ended is told by its folder, until the next tuner has it. */
static void run_folder_tells_an_end(void **state)
{
    static const char *const others[] = {"",
                                         "4711\n",
                                         "4711\ninterrupted",
                                         "4711\ninterrupted busy",
                                         "4711\n busy\n",
                                         "4711\ninterrupted busy now\n",
                                         "4711\ntraining busy\n",
                                         "4711\nended busy\n",
                                         "4711\nfailed \x1b[2J\n"};
    struct run_folder run;
    struct run_end end;
    char id[RUN_ID_MAX + 1], name[FILE_PATH_MAX];

    (void)state;
    assert_int_equal(run_folder_new(&run, dir, "a", NULL), 0);
    memcpy(id, run.id, sizeof(id));
    run_folder_tell_end(&run, "interrupted", "busy");
    assert_false(run_folder_told_end(dir, id, &end)); /* it lives */
    assert_int_equal(run_folder_owner(dir, id), getpid());
    run_folder_close(&run);
    assert_true(run_folder_told_end(dir, id, &end));
    assert_string_equal(end.status, "interrupted");
    assert_string_equal(end.reason, "busy");

    assert_int_equal(run_folder_open(&run, dir, id, NULL), 0);
    run_folder_close(&run); /* killed */
    assert_false(run_folder_told_end(dir, id, &end));
    assert_int_equal(run_folder_open(&run, dir, id, NULL), 0);
    run_folder_tell_end(&run, "interrupted", "busy");
    run_folder_tell_end(&run, "a status", "io");
    run_folder_tell_end(&run, "", "io");
    run_folder_tell_end(&run, "finished", "");
    run_folder_close(&run);
    assert_true(run_folder_told_end(dir, id, &end));
    assert_string_equal(end.status, "finished");
    assert_string_equal(end.reason, "");

    snprintf(name, sizeof(name), "runs/%s/lock", id);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        put(name, others[i]);
        assert_false(run_folder_told_end(dir, id, &end));
    }
    assert_false(run_folder_told_end(dir, "nobody", &end));
}

/* What goes with a snapshot is not one. */
static void snapshots_newest_has_a_number_alone(void **state)
{
    static const struct {
        const char *name;
        unsigned long newest;
    } made[] = {{"000004.tmp", 0},     {"000002-best", 0},
                {"000003-trial-2", 0}, {"000009-trial-1.tmp", 0},
                {"000001", 1},         {"000010", 10},
                {"000010-best", 10},   {"000012x", 10}};
    char name[64];

    (void)state;
    assert_int_equal(snapshots_newest(in_dir("snapshots")), 0);
    for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++) {
        snprintf(name, sizeof(name), "snapshots/%s", made[i].name);
        assert_int_equal(folder_make(in_dir(name), NULL), 0);
        assert_int_equal(snapshots_newest(in_dir("snapshots")), made[i].newest);
    }
}

/* Only the snapshots that count stay. */
static void snapshots_sweep_keeps_what_counts(void **state)
{
    /* Where it was written: the state folder was moved since. */
    const char *keep[] = {"/before/runs/a/snapshots/000002", ""};
    static const char *const folders[] = {
        "snapshots/000001", "snapshots/000001-best", "snapshots/000002",
        "snapshots/000003.tmp"};

    (void)state;
    snapshots_sweep(in_dir("snapshots"), keep, 2, false); /* no such folder */
    assert_int_equal(snapshots_newest(in_dir("snapshots")), 0);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        assert_int_equal(folder_make(in_dir(folders[i]), NULL), 0);
    assert_int_equal(snapshots_newest(in_dir("snapshots")), 2);
    snapshots_sweep(in_dir("snapshots"), keep, 0, false);
    snapshots_sweep(in_dir("snapshots"), keep + 1, 1, false);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        assert_true(exists(folders[i]));
    snapshots_sweep(in_dir("snapshots"), keep, 2, true);
    assert_false(exists("snapshots/000001"));
    assert_false(exists("snapshots/000001-best"));
    assert_true(exists("snapshots/000002"));
    assert_true(exists("snapshots/000003.tmp"));
    snapshots_sweep(in_dir("snapshots"), keep, 2, false);
    assert_true(exists("snapshots/000002"));
    assert_false(exists("snapshots/000003.tmp"));
}

/* Sweeping cleans up after the dead and leaves the living alone. */
static void state_sweep_spares_the_living(void **state)
{
    struct run_folder dead, alive;
    char name[FILE_PATH_MAX];

    (void)state;
    state_sweep(dir); /* nothing there: fine */
    assert_int_equal(run_folder_new(&dead, dir, "a", NULL), 0);
    assert_int_equal(run_folder_new(&alive, dir, "b", NULL), 0);
    run_folder_close(&dead);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof(name), "runs/%s/ipc.tmp", i ? dead.id : alive.id);
        assert_int_equal(folder_make(in_dir(name), NULL), 0);
    }
    state_sweep(dir);
    snprintf(name, sizeof(name), "runs/%s/ipc.tmp", dead.id);
    assert_false(exists(name));
    snprintf(name, sizeof(name), "runs/%s/ipc.tmp", alive.id);
    assert_true(exists(name));
    snprintf(name, sizeof(name), "runs/%s/lock", dead.id);
    assert_true(exists(name));
    run_folder_close(&alive);
    /* One that is being made has no lock yet. */
    assert_int_equal(folder_make(in_dir("runs/new-1"), NULL), 0);
    assert_int_equal(folder_make(in_dir("runs/new-1/ipc.tmp"), NULL), 0);
    state_sweep(dir);
    assert_true(exists("runs/new-1/ipc.tmp"));
}

/* A state folder is made on demand, private, and found again; a folder without
 * runs is none. */
static void state_is_made_and_found(void **state)
{
    char at[FILE_PATH_MAX], found[FILE_PATH_MAX];
    struct fault f = {0};
    struct stat st;

    (void)state;
    assert_int_equal(state_find(in_dir("s/t"), found, &f), ERR_NOENT);
    assert_int_equal(state_make(in_dir("s/t"), at, NULL), 0);
    assert_int_equal(at[0], '/');
    assert_int_equal(stat(at, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(state_find(in_dir("s/t"), found, &f), ERR_NOENT);
    assert_non_null(strstr(f.text, "holds no runs"));
    put("s/t/mltune.db", "");
    assert_int_equal(state_find(in_dir("s/t"), found, NULL), 0);
    assert_string_equal(at, found);
    put("file", "");
    assert_int_equal(state_make(in_dir("file/s"), at, &f), ERR_IO);
    assert_non_null(strstr(f.text, "state folder"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(run_folder_id_comes_from_the_name),
        CASE(run_id_validity),
        CASE(run_folder_is_alive_while_locked),
        CASE(run_folder_beats),
        CASE(run_folder_open_takes_what_is_free),
        CASE(run_folder_tells_an_end),
        CASE(snapshots_newest_has_a_number_alone),
        CASE(snapshots_sweep_keeps_what_counts),
        CASE(state_sweep_spares_the_living),
        CASE(state_is_made_and_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
