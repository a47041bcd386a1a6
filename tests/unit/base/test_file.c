/* Files and folders that are whole or absent (base/file_io.h, base/disk_io.h),
 * on a real disk whose calls may be made to fail. */
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/no_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
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
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-file-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    faulty_disk_off();
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

static void expect_text(const char *name, const char *text)
{
    char *got;
    size_t len;

    assert_int_equal(file_read(in_dir(name), 1000, &got, &len, NULL), 0);
    assert_int_equal(len, strlen(text));
    assert_string_equal(got, text);
    mem_free(got);
}

/* Written text is read back, for the owner alone, with nothing beside it. */
static void file_written_is_read_back(void **state)
{
    struct stat st;

    (void)state;
    put("a", "one");
    put("a", "two, longer");
    expect_text("a", "two, longer");
    assert_false(exists("a.tmp"));
    assert_int_equal(stat(in_dir("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

/* A write that fails leaves the old file and no temporary one. */
static void file_failed_write_leaves_the_old(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    put("a", "old");
    pid = fork();
    if (pid == 0) {
        struct rlimit limit = {1000, 1000};
        static const char big[5000] = "x";
        struct fault f = {0};
        enum err err;

        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        err = file_write(in_dir("a"), big, sizeof(big), &f);
        _exit(err == ERR_IO &&
                      strstr(f.text, "/a.tmp at byte 1000: File too large")
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    expect_text("a", "old");
    assert_false(exists("a.tmp"));
}

/* Each way a read can fail has its error. */
static void file_read_errors_are_told_apart(void **state)
{
    struct fault f = {0};
    char *text;
    size_t len;

    (void)state;
    assert_int_equal(file_read(in_dir("none"), 10, &text, &len, &f), ERR_NOENT);
    assert_non_null(strstr(f.text, "/none"));
    put("long", "0123456789a");
    assert_int_equal(file_read(in_dir("long"), 10, &text, &len, &f), ERR_LIMIT);
    assert_int_equal(file_read(dir, 10, &text, &len, &f), ERR_IO);
    mem_fail_at(1, 0);
    assert_int_equal(file_read(in_dir("long"), 99, &text, &len, &f), ERR_NOMEM);
    mem_fail_at(0, 0);
}

/* Folders are made with those above them; a file in the way is named. */
static void folder_make_makes_all_of_the_path(void **state)
{
    struct fault f = {0};

    (void)state;
    assert_int_equal(folder_make(in_dir("x/y/z"), NULL), 0);
    assert_int_equal(folder_make(in_dir("x/y/z"), NULL), 0);
    assert_true(folder_is_empty(in_dir("x/y/z")));
    put("file", "");
    assert_int_equal(folder_make(in_dir("file/sub"), &f), ERR_IO);
    assert_non_null(strstr(f.text, "not a folder"));
    assert_false(folder_is_empty(in_dir("file")));
    assert_false(folder_is_empty(in_dir("none")));
}

/* A folder's absolute name is known before the folder is there. */
static void folder_absolute_needs_only_the_folders_above(void **state)
{
    char out[FILE_PATH_MAX], expected[FILE_PATH_MAX], cwd[FILE_PATH_MAX];

    (void)state;
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(file_join(expected, dir, "x/y", NULL), 0);
    assert_int_equal(folder_absolute(in_dir("x/y"), out, NULL), 0);
    assert_string_equal(out, expected);
    assert_true(exists("x"));
    assert_false(exists("x/y"));
    assert_int_equal(folder_absolute(in_dir("x//y//"), out, NULL), 0);
    assert_string_equal(out, expected);
    assert_int_equal(folder_absolute(in_dir("x/../x/y"), out, NULL), 0);
    assert_string_equal(out, expected);
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(file_join(expected, dir, "new", NULL), 0);
    assert_int_equal(folder_absolute("new", out, NULL), 0);
    assert_string_equal(out, expected);
    assert_int_equal(folder_absolute("./new/", out, NULL), 0);
    assert_string_equal(out, expected);
    assert_int_equal(chdir(cwd), 0);
    assert_int_equal(folder_absolute("", out, NULL), ERR_INVAL);
    put("file", "");
    assert_int_equal(folder_absolute(in_dir("file/sub"), out, NULL), ERR_IO);
}

/* A published folder has its new name, the old content under it is gone, and so
 * is the temporary name. */
static void folder_published_replaces_the_old(void **state)
{
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];

    (void)state;
    assert_int_equal(file_join(to, dir, "model", NULL), 0);
    assert_int_equal(file_join(from, dir, "model.tmp", NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(folder_make(in_dir("model.tmp/sub"), NULL), 0);
        put("model.tmp/sub/file", i ? "new" : "old");
        put(i ? "model.tmp/b" : "model.tmp/a", "");
        assert_int_equal(folder_publish(from, to, NULL), 0);
        expect_text("model/sub/file", i ? "new" : "old");
        assert_false(exists("model.tmp"));
    }
    assert_true(exists("model/b"));
    assert_false(exists("model/a"));
}

/* A folder that cannot be published stays as it was. */
static void folder_publish_onto_a_file_is_refused(void **state)
{
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
    struct fault f = {0};

    (void)state;
    assert_int_equal(file_join(to, dir, "model", NULL), 0);
    assert_int_equal(file_join(from, dir, "model.tmp", NULL), 0);
    put("model", "a file");
    assert_int_equal(folder_make(from, NULL), 0);
    assert_int_equal(folder_publish(from, to, &f), ERR_IO);
    assert_non_null(strstr(f.text, "model.tmp"));
    expect_text("model", "a file");
    assert_true(exists("model.tmp"));
}

/* Removing takes everything below, never what a link points to. */
static void folder_remove_follows_no_link(void **state)
{
    char link[FILE_PATH_MAX];

    (void)state;
    assert_int_equal(folder_make(in_dir("precious"), NULL), 0);
    put("precious/file", "x");
    assert_int_equal(folder_make(in_dir("d/e"), NULL), 0);
    put("d/e/f", "x");
    assert_int_equal(file_join(link, dir, "d/link", NULL), 0);
    assert_int_equal(symlink(in_dir("precious"), link), 0);
    assert_int_equal(folder_remove(in_dir("d"), NULL), 0);
    assert_false(exists("d"));
    expect_text("precious/file", "x");
    assert_int_equal(folder_remove(in_dir("d"), NULL), 0);
}

static bool removes_d(void)
{
    return folder_remove(in_dir("d"), NULL) == ERR_OK;
}

/* Nor does it need memory, as at the end of a process that has none left. */
static void folder_remove_needs_no_memory(void **state)
{
    char link[FILE_PATH_MAX], name[64];

    (void)state;
    put("file", "x");
    for (int i = 0; i < 300; i++) { /* more than are read at a time */
        snprintf(name, sizeof(name), "d/%d", i % 3);
        assert_int_equal(folder_make(in_dir(name), NULL), 0);
        snprintf(name, sizeof(name), "d/%d/%d", i % 3, i);
        put(name, "x");
    }
    assert_int_equal(file_join(link, dir, "d/link", NULL), 0);
    assert_int_equal(symlink(in_dir("file"), link), 0);
    assert_true(without_memory(removes_d));
    assert_false(exists("d"));
    expect_text("file", "x");
    assert_true(without_memory(removes_d));
}

static void listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_true(strlen(name) < sizeof(at.sun_path));
    memcpy(at.sun_path, name, strlen(name) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    close(fd);
}

/* Sweeping removes what ends in .tmp, files and folders, and
 * sockets; nothing else. */
static void folder_sweep_removes_temporaries(void **state)
{
    (void)state;
    assert_int_equal(folder_make(in_dir("r/model.tmp/x"), NULL), 0);
    put("r/model.tmp/x/file", "x");
    put("r/a.tmp", "x");
    put("r/tmp", "x");
    put("r/a.tmp.keep", "x");
    listen_at(in_dir("r/s"));
    folder_sweep(in_dir("r"));
    assert_false(exists("r/s"));
    assert_false(exists("r/model.tmp"));
    assert_false(exists("r/a.tmp"));
    assert_true(exists("r/tmp"));
    assert_true(exists("r/a.tmp.keep"));
}

/* Whichever call fails: the error says so, and the file under its name is the
 * old one, or the whole new one where only the folder could not be flushed. */
static void file_write_survives_any_failing_call(void **state)
{
    unsigned nth = 0;
    bool failed = true;

    (void)state;
    while (failed) {
        struct fault f = {0};
        int64_t before = mem_outstanding();
        enum err err;

        put("a", "old");
        faulty_disk_on(NULL, ++nth, EIO);
        err = file_write(in_dir("a"), "new", 3, &f);
        failed = faulty_disk_failed();
        faulty_disk_off();
        /* A folder whose descriptor cannot be closed is flushed all the same.
         */
        assert_true(err == ERR_OK || (err == ERR_IO && failed));
        assert_int_equal(f.code, err);
        expect_text("a", !err || strstr(f.text, "is whole") ? "new" : "old");
        assert_false(exists("a.tmp"));
        assert_int_equal(mem_outstanding(), before);
    }
    assert_true(nth > 6); /* open write fsync close rename open fsync */
}

/* Each call that fails is named, with the file and the reason. */
static void file_write_says_what_failed(void **state)
{
    static const struct {
        const char *call, *says;
        int error;
    } cases[] = {
        {"open", "create ", EACCES},
        {"write", "a.tmp at byte 0: No space left on device", ENOSPC},
        {"fsync", "flush ", EIO},
        {"close", "close ", EIO},
        {"rename", "rename ", EXDEV},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fault f = {0};

        faulty_disk_on(cases[i].call, 1, cases[i].error);
        assert_int_equal(file_write(in_dir("a"), "x", 1, &f), ERR_IO);
        faulty_disk_off();
        if (!strstr(f.text, "/a") || !strstr(f.text, strerror(cases[i].error)))
            fail_msg("%s: %s", cases[i].call, f.text);
        if (!strstr(f.text, cases[i].says) && cases[i].error != ENOSPC)
            fail_msg("%s: %s", cases[i].call, f.text);
        assert_false(exists("a"));
        assert_false(exists("a.tmp"));
    }
}

/* A file for others has the mode that the umask leaves. */
static void file_written_shared_has_the_umasks_mode(void **state)
{
    mode_t mask = umask(027);
    struct stat st;

    (void)state;
    assert_int_equal(file_write_shared(in_dir("a"), "x", 1, NULL), ERR_OK);
    umask(mask);
    assert_int_equal(stat(in_dir("a"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
}

/* A line is its text and an end of line; where that fails, the old one stays.
 */
static void file_line_ends(void **state)
{
    (void)state;
    assert_int_equal(file_write_line(in_dir("a"), "{}", NULL), ERR_OK);
    for (unsigned nth = 1; nth <= 3; nth++) {
        mem_fail_at(nth, 0);
        assert_int_equal(file_write_line(in_dir("a"), "x", NULL), ERR_NOMEM);
        mem_fail_at(0, 0);
    }
    faulty_disk_on("write", 1, ENOSPC);
    assert_int_equal(file_write_line(in_dir("a"), "x", NULL), ERR_IO);
    faulty_disk_off();
    expect_text("a", "{}\n");
    assert_false(exists("a.tmp"));
}

/* A file that is given up leaves the one that was there. */
static void disk_out_given_up_leaves_the_old(void **state)
{
    struct disk_out o;

    (void)state;
    put("a", "old");
    assert_int_equal(disk_out_open(&o, NULL, in_dir("a"), DISK_SHARED, NULL),
                     0);
    assert_int_equal(disk_out_put(&o, "new", 3, NULL), 0);
    assert_int_equal(disk_out_put(&o, NULL, 0, NULL), 0);
    disk_out_abort(&o);
    expect_text("a", "old");
    assert_false(exists("a.tmp"));
}

/* The temporary name is no way into another folder. */
static void file_write_follows_no_link(void **state)
{
    char link[FILE_PATH_MAX];
    struct fault f = {0};

    (void)state;
    put("precious", "x");
    assert_int_equal(file_join(link, dir, "a.tmp", NULL), 0);
    assert_int_equal(symlink(in_dir("precious"), link), 0);
    assert_int_equal(file_write(in_dir("a"), "y", 1, &f), ERR_IO);
    expect_text("precious", "x");
}

/* The first one to create a file has written it; nothing else is left. */
static void file_create_never_replaces(void **state)
{
    unsigned nth = 0;
    bool failed = true;

    (void)state;
    assert_int_equal(file_create(in_dir("a"), "one", 3, NULL), ERR_OK);
    assert_int_equal(file_create(in_dir("a"), "two", 3, NULL), ERR_EXIST);
    expect_text("a", "one");
    while (failed) {
        enum err err;

        file_remove(in_dir("a"));
        faulty_disk_on(NULL, ++nth, EIO);
        err = file_create(in_dir("a"), "new", 3, NULL);
        failed = faulty_disk_failed();
        faulty_disk_off();
        if (!err || exists("a"))
            expect_text("a", "new");
        folder_sweep(dir);
    }
    assert_true(nth > 8);
    file_remove(in_dir("a"));
    assert_true(folder_is_empty(dir));
}

static pid_t ended_child(void)
{
    siginfo_t info;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    return child;
}

/* Both names that a process @pid has for its own on the way to `a` go. */
static void expect_swept(pid_t pid)
{
    char name[64], before[80];

    snprintf(name, sizeof(name), "a.%ld.tmp", (long)pid);
    snprintf(before, sizeof(before), "%s.tmp", name);
    assert_int_equal(file_write(in_dir(name), "x", 1, NULL), ERR_OK);
    assert_int_equal(file_write(in_dir(before), "x", 1, NULL), ERR_OK);
    file_create_sweep(in_dir("a"));
    assert_false(exists(name));
    assert_false(exists(before));
}

/* Files of a process that was killed while it created the file go, whether its
 * parent has seen that or not; those of a living one, and those with other
 * names, stay. */
static void file_create_sweep_takes_what_the_dead_left(void **state)
{
    static const char *const others[] = {
        "a",       "a.tmp",       "a.1.tmp",
        "b.1.tmp", "a.1.tmp.tmp", "a.99999999999999999999.tmp"};
    pid_t dead = ended_child();

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_int_equal(file_write(in_dir(others[i]), "x", 1, NULL), ERR_OK);
    expect_swept(dead);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    expect_swept(dead);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_true(exists(others[i]));
        file_remove(in_dir(others[i]));
    }
    file_create_sweep(in_dir("no/a")); /* no folder: fine */
    assert_true(folder_is_empty(dir));
}

/* Two processes that make the same folder at once do not meet; what one that
 * was killed left is taken away. */
static void folder_begin_is_of_this_process_alone(void **state)
{
    char own[FILE_PATH_MAX], old[64], file[FILE_PATH_MAX];
    pid_t dead = ended_child();

    (void)state;
    snprintf(old, sizeof(old), "a.%ld.tmp", (long)dead);
    assert_int_equal(folder_make(in_dir(old), NULL), ERR_OK);
    assert_int_equal(folder_make(in_dir("a.tmp"), NULL), ERR_OK);
    assert_int_equal(folder_make(in_dir("a.1.tmp"), NULL), ERR_OK);
    assert_int_equal(folder_begin(in_dir("a"), own, NULL), ERR_OK);
    assert_false(exists(old));
    assert_true(exists("a.tmp"));
    assert_true(exists("a.1.tmp"));
    assert_int_equal(file_join(file, own, "x", NULL), ERR_OK);
    assert_int_equal(file_write(file, "x", 1, NULL), ERR_OK);
    assert_int_equal(folder_publish(own, in_dir("a"), NULL), ERR_OK);
    assert_true(exists("a"));
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    assert_int_equal(folder_remove(in_dir("a"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_dir("a.tmp"), NULL), ERR_OK);
    assert_int_equal(folder_remove(in_dir("a.1.tmp"), NULL), ERR_OK);
    assert_true(folder_is_empty(dir));
}

/* A log is appended to by whoever opens it, is its owner's alone, and says what
 * keeps it from being opened. */
static void file_log_is_appended_to(void **state)
{
    struct fault f = {0};
    struct stat s;
    int one = -1, two = -1;

    (void)state;
    assert_int_equal(file_open_log(in_dir("log"), &one, NULL), ERR_OK);
    assert_int_equal(file_open_log(in_dir("log"), &two, NULL), ERR_OK);
    assert_int_equal(write(one, "a", 1), 1);
    assert_int_equal(write(two, "b", 1), 1);
    assert_int_equal(write(one, "c", 1), 1);
    assert_int_equal(fstat(one, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_int_equal(close(one) | close(two), 0);
    expect_text("log", "abc");
    file_remove(in_dir("log"));
    one = -7;
    faulty_disk_on(NULL, 1, EACCES);
    assert_int_equal(file_open_log(in_dir("log"), &one, &f), ERR_IO);
    faulty_disk_off();
    assert_non_null(strstr(f.text, "log"));
    assert_int_equal(one, -7);
    assert_true(folder_is_empty(dir));
}

/* Bytes given to a stream are in the file; a failing write is the stream's. */
static void disk_stream_writes_the_file(void **state)
{
    struct disk_out o;
    FILE *stream;

    (void)state;
    assert_int_equal(disk_out_open(&o, NULL, in_dir("a"), DISK_SHARED, NULL),
                     0);
    stream = disk_out_stream(&o);
    assert_non_null(stream);
    fprintf(stream, "%d, %s", 7, "seven");
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(disk_out_end(&o, ERR_OK, NULL), ERR_OK);
    expect_text("a", "7, seven");

    faulty_disk_on("write", 1, ENOSPC);
    assert_int_equal(disk_out_open(&o, NULL, in_dir("a"), DISK_SHARED, NULL),
                     0);
    stream = disk_out_stream(&o);
    assert_non_null(stream);
    for (size_t i = 0; i < DISK_BUFFER_BYTES && !ferror(stream); i++)
        fprintf(stream, "0123456789");
    assert_true(ferror(stream));
    assert_int_equal(errno, ENOSPC);
    fclose(stream);
    assert_int_equal(disk_out_end(&o, ERR_IO, NULL), ERR_IO);
    faulty_disk_off();
    expect_text("a", "7, seven");
    assert_false(exists("a.tmp"));
}

/* A folder that is there is told from one that cannot be made. */
static void folder_new_tells_what_is_there(void **state)
{
    struct fault f = {0};

    (void)state;
    assert_int_equal(folder_new(in_dir("x"), FOLDER_PRIVATE, &f), ERR_OK);
    assert_int_equal(folder_new(in_dir("x"), FOLDER_PRIVATE, &f), ERR_EXIST);
    f = (struct fault){0};
    assert_int_equal(folder_ensure(in_dir("x"), FOLDER_PRIVATE, &f), ERR_OK);
    assert_int_equal(f.code, ERR_OK); /* callers ask the fault */
    put("file", "");
    assert_int_equal(folder_ensure(in_dir("file"), FOLDER_PRIVATE, &f), ERR_IO);
    faulty_disk_on("mkdir", 1, ENOSPC);
    assert_int_equal(folder_make(in_dir("y/z"), &f), ERR_IO);
    faulty_disk_off();
    assert_non_null(strstr(f.text, "No space left"));
}

static bool is_mine(const char *name)
{
    return strncmp(name, "mine-", 5) == 0;
}

/* Clearing takes what is ours; a folder with another's file stays. */
static void folder_clear_takes_ours(void **state)
{
    (void)state;
    assert_int_equal(folder_make(in_dir("x"), NULL), 0);
    put("x/mine-1", "");
    put("x/mine-2", "");
    put("x/yours", "");
    folder_clear(in_dir("x"), is_mine);
    assert_false(exists("x/mine-1") || exists("x/mine-2"));
    assert_true(exists("x/yours"));
    file_remove(in_dir("x/yours"));
    put("x/mine-1", "");
    folder_clear(in_dir("x"), is_mine);
    assert_false(exists("x"));
    folder_clear(in_dir("x"), is_mine);
}

/* Whichever call fails while a folder is published, the name has the old folder
 * or the new one, whole. */
static void folder_publish_survives_any_failing_call(void **state)
{
    unsigned nth = 0;
    bool failed = true;

    (void)state;
    while (failed) {
        char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
        enum err err;

        assert_int_equal(file_join(to, dir, "model", NULL), 0);
        assert_int_equal(file_join(from, dir, "model.tmp", NULL), 0);
        assert_int_equal(folder_remove(to, NULL), 0);
        assert_int_equal(folder_remove(from, NULL), 0);
        assert_int_equal(folder_make(to, NULL), 0);
        put("model/file", "old");
        assert_int_equal(folder_make(from, NULL), 0);
        put("model.tmp/file", "new");
        faulty_disk_on(NULL, ++nth, EIO);
        err = folder_publish(from, to, NULL);
        failed = faulty_disk_failed();
        faulty_disk_off();
        if (!err) {
            expect_text("model/file", "new");
            assert_true(!exists("model.tmp") || failed);
        } else {
            char *text;
            size_t len;

            assert_int_equal(
                file_read(in_dir("model/file"), 9, &text, &len, NULL), 0);
            assert_true(strcmp(text, "new") == 0 || strcmp(text, "old") == 0);
            mem_free(text);
        }
    }
    assert_true(nth > 8);
}

/* Where a file system cannot exchange two names, the new folder still takes the
 * old one's place. */
static void folder_publish_does_without_exchange(void **state)
{
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];

    (void)state;
    assert_int_equal(file_join(to, dir, "model", NULL), 0);
    assert_int_equal(file_join(from, dir, "model.tmp", NULL), 0);
    assert_int_equal(folder_make(to, NULL), 0);
    put("model/old", "");
    assert_int_equal(folder_make(from, NULL), 0);
    put("model.tmp/new", "");
    faulty_disk_on("exchange", 1, EINVAL);
    assert_int_equal(folder_publish(from, to, NULL), ERR_OK);
    faulty_disk_off();
    assert_true(exists("model/new"));
    assert_false(exists("model/old") || exists("model.tmp"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

/* Two writers fill one file, each its part, in any order of their pieces. */
static void part_writers_share_a_file(void **state)
{
    struct disk_part a, b;

    (void)state;
    assert_int_equal(
        disk_part_open(&a, NULL, in_dir("shared"), DISK_SHARED, 8, NULL), 0);
    assert_int_equal(disk_part_put(&a, 0, "ab", 2, NULL), 0);
    assert_int_equal(
        disk_part_open(&b, NULL, in_dir("shared"), DISK_SHARED, 8, NULL), 0);
    assert_int_equal(disk_part_put(&b, 6, "gh", 2, NULL), 0);
    assert_int_equal(disk_part_put(&b, 2, "c", 1, NULL), 0);
    assert_int_equal(disk_part_put(&b, 3, "d", 1, NULL), 0);
    assert_int_equal(disk_part_end(&b, ERR_OK, NULL), 0);
    assert_int_equal(disk_part_put(&a, 4, "ef", 2, NULL), 0);
    assert_int_equal(disk_part_end(&a, ERR_OK, NULL), 0);
    expect_text("shared", "abcdefgh");
}

static enum err write_part(struct fault *f)
{
    struct disk_part p;
    enum err err = disk_part_open(&p, NULL, in_dir("part"), DISK_SHARED, 8, f);

    if (err)
        return err;
    err = disk_part_put(&p, 0, "ab", 2, f);
    if (!err)
        err = disk_part_put(&p, 6, "gh", 2, f);
    return disk_part_end(&p, err, f);
}

/* Any call that fails is told of with the file's name, and nothing is kept. */
static void part_failure_is_told(void **state)
{
    int64_t before = mem_outstanding();
    unsigned nth = 0;
    bool failed = true;

    (void)state;
    while (failed) {
        struct fault f = {0};
        enum err err;

        faulty_disk_on(NULL, ++nth, ENOSPC);
        err = write_part(&f);
        failed = faulty_disk_failed();
        faulty_disk_off();
        assert_int_equal(err, failed ? ERR_IO : ERR_OK);
        assert_true(!failed || strstr(f.text, "/part"));
        assert_true(mem_outstanding() == before);
    }
    /* open, resize, two writes, flush, close */
    assert_int_equal(nth, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(file_written_is_read_back),
        CASE(file_failed_write_leaves_the_old),
        CASE(file_read_errors_are_told_apart),
        CASE(folder_make_makes_all_of_the_path),
        CASE(folder_absolute_needs_only_the_folders_above),
        CASE(folder_published_replaces_the_old),
        CASE(folder_publish_onto_a_file_is_refused),
        CASE(folder_remove_follows_no_link),
        CASE(folder_remove_needs_no_memory),
        CASE(folder_sweep_removes_temporaries),
        CASE(file_write_survives_any_failing_call),
        CASE(file_write_says_what_failed),
        CASE(file_written_shared_has_the_umasks_mode),
        CASE(file_line_ends),
        CASE(disk_out_given_up_leaves_the_old),
        CASE(file_write_follows_no_link),
        CASE(file_create_never_replaces),
        CASE(file_create_sweep_takes_what_the_dead_left),
        CASE(folder_begin_is_of_this_process_alone),
        CASE(file_log_is_appended_to),
        CASE(disk_stream_writes_the_file),
        CASE(folder_new_tells_what_is_there),
        CASE(folder_clear_takes_ours),
        CASE(folder_publish_survives_any_failing_call),
        CASE(folder_publish_does_without_exchange),
        CASE(part_writers_share_a_file),
        CASE(part_failure_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
