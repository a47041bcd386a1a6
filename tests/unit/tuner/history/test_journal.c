#include "base/file_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/history/journal_io.h"

#include <sqlite3.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static char db[96];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/mltune-test-journal-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(db, sizeof(db), "%s/mltune.db", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return folder_remove(dir, NULL) == ERR_OK ? 0 : -1;
}

static struct journal *open_writer(void)
{
    struct journal *j = NULL;
    struct fault f = {0};

    if (journal_open(dir, true, 0, &j, &f) != ERR_OK)
        fail_msg("%s", f.text);
    return j;
}

static void append(struct journal *j, const char *json)
{
    assert_int_equal(journal_append(j, "note", json, strlen(json), 7, NULL), 0);
}

/* ---- several programs that begin at once --------------------------------- */

enum { BEGINNERS = 4, BEGINNINGS = 20 };

/* In a process of its own, once the gate is closed at its other end. */
static void begin_journal(const int gate[2])
{
    struct journal *j = NULL;
    struct fault f = {0};
    enum err err;
    char byte;

    close(gate[1]);
    if (read(gate[0], &byte, 1) != 0)
        _exit(ERR_IO);
    err = journal_open(dir, true, 60000, &j, &f);
    journal_close(j);
    if (err)
        fprintf(stderr, "%s\n", f.text);
    _exit((int)err);
}

/* All of them want the new file in write-ahead mode: none is turned away. */
static void journal_begun_by_many_at_once_serves_all(void **state)
{
    (void)state;
    for (int i = 0; i < BEGINNINGS; i++) {
        pid_t child[BEGINNERS];
        int gate[2];

        assert_int_equal(pipe(gate), 0);
        for (int k = 0; k < BEGINNERS; k++) {
            child[k] = fork();
            if (child[k] == 0)
                begin_journal(gate);
        }
        close(gate[0]);
        close(gate[1]);
        for (int k = 0; k < BEGINNERS; k++) {
            int status = -1;

            assert_int_equal(waitpid(child[k], &status, 0), child[k]);
            assert_int_equal(status, 0);
        }
        unlink(db);
    }
}

/* ---- a disk that fails: SQLite's own, with the nth write or flush refused --
 */

static sqlite3_vfs *system_vfs, failing_vfs;
/* [1] of databases, [0] of their logs: SQLite has a table for each. */
static sqlite3_io_methods failing_methods[2];
static const sqlite3_io_methods *system_methods[2];
static int calls_left = -1; /* 0: fail; < 0: never */
static bool fail_for_ever;
static int flushes;

static bool must_fail(void)
{
    if (calls_left < 0)
        return false;
    if (calls_left > 0) {
        calls_left--;
        return false;
    }
    if (!fail_for_ever)
        calls_left = -1;
    return true;
}

static const sqlite3_io_methods *methods_of(const sqlite3_file *file)
{
    return system_methods[file->pMethods == &failing_methods[1]];
}

static int failing_write(sqlite3_file *file, const void *data, int n,
                         sqlite3_int64 at)
{
    if (must_fail())
        return SQLITE_FULL;
    return methods_of(file)->xWrite(file, data, n, at);
}

static int failing_sync(sqlite3_file *file, int flags)
{
    flushes++;
    if (must_fail())
        return SQLITE_IOERR_FSYNC;
    return methods_of(file)->xSync(file, flags);
}

/* A disk that is read no more: SQLite is not told what stands there. */
static bool reads_fail;

static int failing_read(sqlite3_file *file, void *data, int n, sqlite3_int64 at)
{
    if (reads_fail)
        return SQLITE_IOERR_READ;
    return methods_of(file)->xRead(file, data, n, at);
}

static int failing_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file,
                        int flags, int *out_flags)
{
    int code = system_vfs->xOpen(vfs, name, file, flags, out_flags);

    if (code == SQLITE_OK) {
        int kind = (flags & SQLITE_OPEN_MAIN_DB) != 0;

        system_methods[kind] = file->pMethods;
        failing_methods[kind] = *file->pMethods;
        failing_methods[kind].xRead = failing_read;
        failing_methods[kind].xWrite = failing_write;
        failing_methods[kind].xSync = failing_sync;
        file->pMethods = &failing_methods[kind];
    }
    return code;
}

static void install_failing_disk(void)
{
    system_vfs = sqlite3_vfs_find(NULL);
    failing_vfs = *system_vfs;
    failing_vfs.zName = "failing";
    failing_vfs.xOpen = failing_open;
    sqlite3_vfs_register(&failing_vfs, 1);
}

/* Trace of a walk over records, as text: "1:note:{...} 2:..." */
struct seen {
    char text[2048];
    size_t n;
    enum err stop_with;
};

static enum err see_record(void *ctx, const struct journal_record *r)
{
    struct seen *seen = ctx;

    assert_int_equal(r->len, strlen(r->json));
    seen->n += (size_t)snprintf(seen->text + seen->n,
                                sizeof(seen->text) - seen->n, "%llu:%s:%s ",
                                (unsigned long long)r->seq, r->kind, r->json);
    return seen->stop_with;
}

static enum err see_run(void *ctx, const struct journal_run *run)
{
    struct seen *seen = ctx;

    seen->n += (size_t)snprintf(
        seen->text + seen->n, sizeof(seen->text) - seen->n, "%s %s %s %s %llu;",
        run->id, run->name, run->status ? run->status : "-",
        run->reason ? run->reason : "-", (unsigned long long)run->records);
    return seen->stop_with;
}

static void expect_records(struct journal *j, const char *id, uint64_t after,
                           const char *text)
{
    struct seen seen = {.n = 0};

    assert_int_equal(journal_each_record(j, id, after, see_record, &seen, NULL),
                     0);
    assert_string_equal(seen.text, text);
}

/* Committed records are read back in order, with its run and its end. */
static void journal_committed_records_are_read_back(void **state)
{
    struct journal *j = open_writer();
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{\"x\":1}");
    append(j, "{\"x\":2}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    append(j, "{\"x\":3}");
    assert_int_equal(
        journal_end_run(j, "finished", "converged", "{\"loss\":1}", 9, NULL),
        0);
    journal_close(j);
    assert_int_equal(journal_open(dir, false, 0, &j, NULL), 0);
    expect_records(j, "a-1", 0,
                   "1:note:{\"x\":1} 2:note:{\"x\":2} 3:note:{\"x\":3} ");
    expect_records(j, "a-1", 2, "3:note:{\"x\":3} ");
    expect_records(j, "other", 0, "");
    assert_int_equal(journal_each_run(j, see_run, &seen, NULL), 0);
    assert_string_equal(seen.text, "a-1 a finished converged 3;");
    journal_close(j);
}

/* A process that dies keeps what it committed, loses the rest, and the journal
 * opens again without help. */
static void journal_after_a_crash_holds_what_was_committed(void **state)
{
    struct journal *j;
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        if (journal_open(dir, true, 0, &j, NULL) == ERR_OK) {
            journal_begin_run(j, "a-1", "a", "{}", 5, NULL);
            journal_append(j, "note", "{\"x\":1}", 7, 7, NULL);
            journal_commit(j, true, NULL);
            journal_append(j, "note", "{\"x\":2}", 7, 7, NULL);
            kill(getpid(), SIGKILL);
        }
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(journal_open(dir, false, 0, &j, NULL), 0);
    expect_records(j, "a-1", 0, "1:note:{\"x\":1} ");
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "a-2", "a", "{}", 6, NULL), 0);
    journal_close(j);
}

/* A reader beside a writer sees what is committed, no more, and waits for
 * nothing. */
static void journal_reader_beside_a_writer_sees_the_committed(void **state)
{
    struct journal *w = open_writer(), *r;

    (void)state;
    assert_int_equal(journal_begin_run(w, "a-1", "a", "{}", 5, NULL), 0);
    assert_int_equal(journal_open(dir, false, 0, &r, NULL), 0);
    append(w, "{\"x\":1}");
    expect_records(r, "a-1", 0, "");
    assert_int_equal(journal_commit(w, true, NULL), 0);
    expect_records(r, "a-1", 0, "1:note:{\"x\":1} ");
    journal_close(r);
    journal_close(w);
}

/* A run that is taken up again goes on in its sequence; its end is taken back.
 */
static void journal_continued_run_has_no_end_and_no_gap(void **state)
{
    struct journal *j = open_writer();
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{\"x\":1}");
    assert_int_equal(journal_end_run(j, "interrupted", "signal", "{}", 9, NULL),
                     0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_continue_run(j, "a-1", NULL), 0);
    assert_int_equal(journal_each_run(j, see_run, &seen, NULL), 0);
    assert_string_equal(seen.text, "a-1 a - - 1;");
    append(j, "{\"x\":2}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    expect_records(j, "a-1", 0, "1:note:{\"x\":1} 2:note:{\"x\":2} ");
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_continue_run(j, "b-1", NULL), ERR_NOENT);
    journal_close(j);
}

static enum err see_config(void *ctx, const struct journal_run *run)
{
    snprintf(ctx, 64, "%s", run->config);
    return ERR_OK;
}

/* A run that goes on may be given another configuration; others keep theirs. */
static void journal_continued_run_takes_a_configuration(void **state)
{
    struct journal *j = open_writer();
    char config[64];

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{\"x\":1}", 1, NULL), 0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "b-1", "b", "{}", 2, NULL), 0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_take_run(j, "a-1", NULL), 0);
    assert_int_equal(journal_reopen_run(j, "a-1", "{\"x\":2}", NULL), 0);
    assert_int_equal(journal_find_run(j, "a-1", see_config, config, NULL), 0);
    assert_string_equal(config, "{\"x\":2}");
    assert_int_equal(journal_find_run(j, "b-1", see_config, config, NULL), 0);
    assert_string_equal(config, "{}");
    journal_close(j);
}

/* One without the other would let it go on with the configuration that it had:
 * where that cannot be written the end stays. */
static void journal_end_and_configuration_change_together(void **state)
{
    struct journal *j = open_writer();
    struct seen seen = {.n = 0};
    sqlite3 *other = NULL;
    char config[64];

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{\"x\":1}", 1, NULL), 0);
    assert_int_equal(journal_end_run(j, "stopped", "user", NULL, 9, NULL), 0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_take_run(j, "a-1", NULL), 0);
    assert_int_equal(sqlite3_open(db, &other), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(other,
                     "CREATE TRIGGER t BEFORE UPDATE OF config ON runs"
                     " BEGIN SELECT RAISE(FAIL, 'no'); END",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_not_equal(journal_reopen_run(j, "a-1", "{\"x\":2}", NULL), 0);
    assert_int_equal(journal_each_run(j, see_run, &seen, NULL), 0);
    assert_string_equal(seen.text, "a-1 a stopped user 0;");
    assert_int_equal(sqlite3_exec(other, "DROP TRIGGER t", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(other);
    assert_int_equal(journal_reopen_run(j, "a-1", "{\"x\":2}", NULL), 0);
    seen.n = 0;
    assert_int_equal(journal_each_run(j, see_run, &seen, NULL), 0);
    assert_string_equal(seen.text, "a-1 a - - 0;");
    assert_int_equal(journal_find_run(j, "a-1", see_config, config, NULL), 0);
    assert_string_equal(config, "{\"x\":2}");
    journal_close(j);
}

/* A reader that comes while a journal is made, or after its maker was killed
 * on the way, finds no runs; the next writer makes it whole. */
static void journal_half_made_holds_no_runs(void **state)
{
    struct journal *j = NULL;
    sqlite3 *half = NULL;

    (void)state;
    assert_int_equal(sqlite3_open(db, &half), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(half, "PRAGMA journal_mode = WAL", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(half);
    assert_int_equal(journal_open(dir, false, 0, &j, NULL), ERR_NOENT);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    journal_close(j);
}

/* In a process of its own, which is killed within a transaction of SQLite's. */
static void die_in_a_transaction(void)
{
    sqlite3 *half = NULL;
    bool begun = sqlite3_open(db, &half) == SQLITE_OK &&
                 sqlite3_exec(half, "BEGIN; CREATE TABLE a (b)", NULL, NULL,
                              NULL) == SQLITE_OK &&
                 sqlite3_db_cacheflush(half) == SQLITE_OK;

    if (begun)
        kill(getpid(), SIGKILL);
    _exit(1);
}

/* A journal whose maker was killed before it was in write-ahead mode: what it
 * had begun is undone by whoever comes first, also to read. */
static void journal_killed_in_its_making_holds_no_runs(void **state)
{
    struct journal *j = NULL;
    int status = 0;
    pid_t maker = fork();

    (void)state;
    assert_true(maker >= 0);
    if (maker == 0)
        die_in_a_transaction();
    assert_int_equal(waitpid(maker, &status, 0), maker);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(journal_open(dir, false, 0, &j, NULL), ERR_NOENT);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    journal_close(j);
}

/* Several runs share a journal: each has its own sequence. */
static void journal_two_runs_have_their_own_records(void **state)
{
    struct journal *a = open_writer(), *b = open_writer();
    struct seen seen = {.n = 0};

    (void)state;
    assert_int_equal(journal_begin_run(a, "a-1", "a", "{}", 5, NULL), 0);
    assert_int_equal(journal_begin_run(b, "b-1", "b", "{}", 6, NULL), 0);
    append(a, "{\"a\":1}");
    assert_int_equal(journal_commit(a, true, NULL), 0);
    append(b, "{\"b\":1}");
    assert_int_equal(journal_commit(b, true, NULL), 0);
    expect_records(a, "a-1", 0, "1:note:{\"a\":1} ");
    expect_records(a, "b-1", 0, "1:note:{\"b\":1} ");
    assert_int_equal(journal_each_run(a, see_run, &seen, NULL), 0);
    assert_string_equal(seen.text, "b-1 b - - 1;a-1 a - - 1;");
    journal_close(a);
    journal_close(b);
}

/* A run that is removed leaves nothing, and the others alone; twice is once. A
 * journal that another has locked loses nothing. */
static void journal_removed_run_leaves_nothing(void **state)
{
    struct journal *j = open_writer();
    struct seen seen = {.n = 0};
    struct fault f = {0};
    int64_t newest = 0;
    sqlite3 *other;

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{\"a\":1}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "b-1", "b", "{}", 6, NULL), 0);
    for (int i = 0; i < 9000; i++) /* more than are removed at once */
        append(j, "{\"b\":1}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(sqlite3_open(db, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(journal_remove_run(j, "b-1", NULL, &f), ERR_BUSY);
    assert_non_null(strstr(f.text, "another process"));
    sqlite3_close(other);
    expect_records(j, "b-1", 8999, "9000:note:{\"b\":1} ");
    for (int i = 0; i < 2; i++)
        assert_int_equal(journal_remove_run(j, "b-1", &newest, NULL), 0);
    assert_int_equal(journal_remove_run(j, "it's none", NULL, NULL), 0);
    assert_int_equal(newest, 1);
    expect_records(j, "a-1", 0, "1:note:{\"a\":1} ");
    assert_int_equal(journal_each_run(j, see_run, &seen, NULL), 0);
    assert_string_equal(seen.text, "a-1 a - - 1;");
    /* Its number is given again, its records are not. */
    assert_int_equal(journal_begin_run(j, "c-1", "c", "{}", 7, NULL), 0);
    expect_records(j, "c-1", 0, "");
    journal_close(j);
}

/* A run is found by id, by name (the newest), and by the start of its id where
 * that is enough. */
static void journal_find_knows_id_name_and_prefix(void **state)
{
    static const struct {
        const char *word, *id;
        enum err err;
    } cases[] = {
        {"job-aaa", "job-aaa", ERR_OK},
        {"job", "job-abb", ERR_OK},
        {"other", "other-zz", ERR_OK},
        {"job-aa", "job-aaa", ERR_OK},
        {"job-a", "", ERR_INVAL},
        {"nothing", "", ERR_NOENT},
        {"", "", ERR_NOENT},
        {"job-%", "", ERR_NOENT},
        {"other-z", "other-zz", ERR_OK},
    };
    struct journal *j;

    (void)state;
    for (int i = 0; i < 3; i++) {
        static const char *const ids[] = {"job-aaa", "job-abb", "other-zz"};
        static const char *const names[] = {"job", "job", "other"};

        j = open_writer();
        assert_int_equal(
            journal_begin_run(j, ids[i], names[i], "{}", 5 + i, NULL), 0);
        journal_close(j);
    }
    assert_int_equal(journal_open(dir, false, 0, &j, NULL), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct seen seen = {.n = 0};
        struct fault f = {0};

        assert_int_equal(journal_find_run(j, cases[i].word, see_run, &seen, &f),
                         cases[i].err);
        assert_memory_equal(seen.text, cases[i].id, strlen(cases[i].id));
        assert_int_equal(seen.n > 0, cases[i].err == ERR_OK);
    }
    journal_close(j);
}

/* A record that cannot be stored takes those since the last commit with it;
 * what comes later follows without a gap. */
static void journal_after_a_failed_append_has_no_gap(void **state)
{
    struct journal *j = open_writer();

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{\"x\":1}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    append(j, "{\"x\":2}");
    mem_fail_at(1, 0);
    assert_int_equal(journal_append(j, "note", "{}", 2, 7, NULL), ERR_NOMEM);
    append(j, "{\"x\":3}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    expect_records(j, "a-1", 0, "1:note:{\"x\":1} 2:note:{\"x\":3} ");
    journal_close(j);
}

/* A visitor's error ends the walk and is passed on. */
static void journal_visitor_ends_the_walk(void **state)
{
    struct journal *j = open_writer();
    struct seen seen = {.stop_with = ERR_CANCELED};

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{\"x\":1}");
    append(j, "{\"x\":2}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    assert_int_equal(journal_each_record(j, "a-1", 0, see_record, &seen, NULL),
                     ERR_CANCELED);
    assert_string_equal(seen.text, "1:note:{\"x\":1} ");
    journal_close(j);
}

/* An id is registered once. */
static void journal_same_id_twice_is_refused(void **state)
{
    struct journal *a = open_writer(), *b = open_writer();
    struct fault f = {0};

    (void)state;
    assert_int_equal(journal_begin_run(a, "a-1", "a", "{}", 5, NULL), 0);
    assert_int_equal(journal_begin_run(b, "a-1", "a", "{}", 5, &f), ERR_IO);
    assert_non_null(strstr(f.text, "UNIQUE"));
    journal_close(a);
    journal_close(b);
}

static void expect_refusal(bool writer, enum err err, const char *word)
{
    struct journal *j = NULL;
    struct fault f = {0};

    assert_int_equal(journal_open(dir, writer, 0, &j, &f), err);
    assert_null(j);
    if (!strstr(f.text, word))
        fail_msg("\"%s\" does not say \"%s\"", f.text, word);
    assert_non_null(strstr(f.text, "mltune.db"));
}

/* A locked journal is reported as such, with what to do. Nothing is lost, and
 * the next commit writes it. */
static void journal_locked_by_another_is_busy(void **state)
{
    struct journal *j = open_writer();
    struct fault f = {0};
    sqlite3 *other;

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    assert_int_equal(sqlite3_open(db, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL),
                     SQLITE_OK);
    append(j, "{\"x\":1}");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(journal_commit(j, true, &f), ERR_BUSY);
        assert_non_null(strstr(f.text, "another process"));
    }
    sqlite3_close(other);
    append(j, "{\"x\":2}"); /* and goes on when the lock is gone */
    assert_int_equal(journal_commit(j, true, NULL), 0);
    expect_records(j, "a-1", 0, "1:note:{\"x\":1} 2:note:{\"x\":2} ");
    journal_close(j);
}

/* Who has added records, and is stopped before they are committed, keeps nobody
 * waiting. */
static void journal_records_that_wait_lock_nobody_out(void **state)
{
    struct journal *j = open_writer(), *beside = open_writer();

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    assert_int_equal(journal_begin_run(beside, "b-1", "b", "{}", 5, NULL), 0);
    append(j, "{\"x\":1}");
    append(beside, "{\"x\":2}");
    assert_int_equal(journal_commit(beside, true, NULL), 0);
    append(j, "{\"x\":3}");
    journal_close(beside);
    journal_close(j); /* what was not committed is dropped */
    j = open_writer();
    expect_records(j, "a-1", 0, "");
    expect_records(j, "b-1", 0, "1:note:{\"x\":2} ");
    journal_close(j);
}

static enum err pass_by(void *ctx, const struct journal_record *record)
{
    (void)ctx;
    (void)record;
    return ERR_OK;
}

/* A run whose records cannot be asked for now is not one without records. */
static void journal_that_cannot_be_asked_is_an_error(void **state)
{
    enum { MANY = 1000 };
    struct journal *j = open_writer();
    struct journal_damage damage;
    struct fault f = {0};

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    for (int i = 0; i < MANY; i++) /* more than the page that is read first */
        append(j, "{\"x\":1}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    journal_close(j);
    assert_int_equal(journal_open(dir, false, 0, &j, NULL), 0);
    reads_fail = true;
    assert_int_equal(
        journal_each_whole(j, "a-1", 0, pass_by, NULL, &damage, &f), ERR_IO);
    reads_fail = false;
    assert_non_null(strstr(f.text, "mltune.db"));
    expect_records(j, "a-1", MANY - 1, "1000:note:{\"x\":1} ");
    journal_close(j);
}

static void write_at(long offset, const char *bytes, size_t n)
{
    int fd = open(db, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, offset), (ssize_t)n);
    close(fd);
}

/* A file that is no database at all is refused by name, for both. */
static void journal_of_garbage_is_refused(void **state)
{
    char garbage[8192];

    (void)state;
    memset(garbage, 'x', sizeof(garbage));
    write_at(0, garbage, sizeof(garbage));
    expect_refusal(true, ERR_FORMAT, "damaged");
    expect_refusal(false, ERR_FORMAT, "damaged");
}

/* Damage of the pages that everything is found by is reported at once. */
static void journal_with_a_damaged_page_is_refused(void **state)
{
    struct journal *j = open_writer();
    char garbage[3 * 4096];

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{\"x\":1}");
    assert_int_equal(journal_commit(j, true, NULL), 0);
    journal_close(j);
    memset(garbage, 'x', sizeof(garbage));
    write_at(4096, garbage, sizeof(garbage));
    expect_refusal(true, ERR_FORMAT, "move it away");
    expect_refusal(false, ERR_FORMAT, "move it away");
}

/* A database of somebody else is left alone. */
static void journal_of_another_program_is_refused(void **state)
{
    sqlite3 *other;

    (void)state;
    assert_int_equal(sqlite3_open(db, &other), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(other, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    expect_refusal(true, ERR_FORMAT, "another program");
}

static void drop_head(void)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/mltune.head", dir);
    assert_int_equal(unlink(path), 0);
}

/* A journal of a newer version is refused with both versions; the newer program
 * has dropped the copy of the head before. Where it is there the number is
 * damaged. */
static void journal_of_a_newer_version_is_refused(void **state)
{
    sqlite3 *other;

    (void)state;
    journal_close(open_writer());
    assert_int_equal(sqlite3_open(db, &other), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(other, "PRAGMA user_version = 99", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(other);
    expect_refusal(true, ERR_FORMAT, "damaged");
    drop_head();
    expect_refusal(true, ERR_VERSION, "99");
    expect_refusal(false, ERR_VERSION, "99");
}

/* A reader makes no journal where there is none. */
static void journal_reader_without_a_file_is_refused(void **state)
{
    struct stat st;

    (void)state;
    expect_refusal(false, ERR_IO, "open");
    assert_int_not_equal(stat(db, &st), 0);
}

/* Runs @body as a user without rights where this is root, in a child. */
static void as_ordinary_user(void (*body)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(99);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void read_only_body(void)
{
    struct journal *j;
    struct fault f = {0};
    struct seen seen = {.n = 0};

    if (journal_open(dir, true, 0, &j, &f) != ERR_IO ||
        !strstr(f.text, "permissions"))
        _exit(1);
    if (journal_open(dir, false, 0, &j, &f) != ERR_OK)
        _exit(2);
    if (journal_each_run(j, see_run, &seen, &f) != ERR_OK ||
        strcmp(seen.text, "a-1 a - - 0;") != 0)
        _exit(3);
    journal_close(j);
}

/* Without the right to write, a writer is refused with the reason, and a reader
 * still reads. */
static void journal_read_only_is_refused_to_writers(void **state)
{
    struct journal *j = open_writer();

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    journal_close(j);
    chmod(db, 0444);
    chmod(dir, 0555);
    as_ordinary_user(read_only_body);
    chmod(dir, 0700);
}

static void full_disk_body(void)
{
    struct journal *j;
    struct rlimit limit = {256 * 1024, 256 * 1024};
    char json[4096];
    struct fault f = {0};
    enum err err = ERR_OK;
    uint64_t committed = 0;

    signal(SIGXFSZ, SIG_IGN);
    if (journal_open(dir, true, 0, &j, NULL) != ERR_OK)
        _exit(2);
    journal_begin_run(j, "a-1", "a", "{}", 5, NULL);
    setrlimit(RLIMIT_FSIZE, &limit);
    memset(json, ' ', sizeof(json));
    json[0] = '{';
    json[sizeof(json) - 1] = '}';
    while (!err && committed < 10000) {
        err = journal_append(j, "note", json, sizeof(json), 7, &f);
        if (!err)
            err = journal_commit(j, true, &f);
        committed += !err;
    }
    if (err != ERR_IO || !strstr(f.text, "mltune.db") || committed < 5)
        _exit(1);
    journal_close(j);
}

/* A disk that fills up is an error with the reason; what was committed before
 * stays. */
static void journal_on_a_full_disk_reports_it(void **state)
{
    struct journal *j;
    struct seen seen = {.n = 0};
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        full_disk_body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    j = open_writer();
    assert_int_equal(journal_each_run(j, see_run, &seen, NULL), 0);
    assert_true(strncmp(seen.text, "a-1 a - - ", 10) == 0);
    assert_true(atoi(seen.text + 10) >= 5);
    journal_close(j);
}

/* Appends until something fails; returns how many records were acknowledged as
 * durable. */
static int write_until_it_fails(struct fault *f)
{
    struct journal *j = NULL;
    int durable = 0;
    enum err err = journal_open(dir, true, 0, &j, f);

    if (!err)
        err = journal_begin_run(j, "a-1", "a", "{}", 5, f);
    for (int i = 0; !err && i < 4; i++) {
        err = journal_append(j, "note", "{}", 2, 7, f);
        if (!err)
            err = journal_commit(j, i % 2 == 1, f);
        if (!err && i % 2 == 1)
            durable = i + 1;
    }
    if (!err)
        err = journal_end_run(j, "finished", "converged", NULL, 9, f);
    f->code = err;
    journal_close(j);
    return durable;
}

static enum err count_record(void *ctx, const struct journal_record *record)
{
    int *count = ctx;

    *count += 1;
    assert_int_equal(record->seq, *count);
    return ERR_OK;
}

/* Whatever write or flush fails, once or for ever: it is reported, and what was
 * acknowledged as durable is there when the journal is opened again. */
static void journal_each_failed_write_is_reported(void **state)
{
    int failures = 0;

    for (int nth = 0; nth < 400; nth++) {
        struct fault f = {0};
        struct journal *j;
        int durable, found = 0;
        bool failed;

        calls_left = nth / 2;
        fail_for_ever = nth % 2;
        durable = write_until_it_fails(&f);
        failed = fail_for_ever ? calls_left == 0 : calls_left < 0;
        calls_left = -1;
        failures += failed;
        /* A checkpoint at the close may fail unseen: nothing is lost by it. */
        assert_true(failed || f.code == ERR_OK);
        assert_true(f.code == ERR_OK || strstr(f.text, "mltune.db"));
        j = open_writer();
        assert_int_equal(
            journal_each_record(j, "a-1", 0, count_record, &found, NULL), 0);
        assert_true(found >= durable);
        journal_close(j);
        assert_int_equal(remove_dir(state), 0);
        assert_int_equal(make_dir(state), 0);
        if (!failed && fail_for_ever)
            break;
    }
    assert_true(failures > 20);
}

/* A commit that has to be durable flushes; others do not, and nothing is
 * flushed twice. */
static void journal_durable_commit_flushes_once(void **state)
{
    struct journal *j = open_writer();

    (void)state;
    assert_int_equal(journal_begin_run(j, "a-1", "a", "{}", 5, NULL), 0);
    append(j, "{}"); /* the first write to a new log flushes its header */
    assert_int_equal(journal_commit(j, true, NULL), 0);
    flushes = 0;
    append(j, "{}");
    assert_int_equal(journal_commit(j, false, NULL), 0);
    assert_int_equal(flushes, 0);
    assert_int_equal(journal_commit(j, true, NULL), 0);
    assert_int_equal(flushes, 1);
    assert_int_equal(journal_commit(j, true, NULL), 0);
    assert_int_equal(flushes, 1);
    journal_close(j);
}

/* Nothing leaks when an allocation fails, and nothing is left behind. */
static void journal_without_memory_leaks_nothing(void **state)
{
    int64_t before = mem_outstanding();
    struct journal *j = NULL;

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(journal_open(dir, true, 0, &j, NULL), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_null(j);
    assert_int_equal(mem_outstanding(), before);
    journal_close(NULL);
}

/* The file and what belongs to it are the owner's alone. */
static void journal_is_private(void **state)
{
    struct stat st;

    (void)state;
    journal_close(open_writer());
    assert_int_equal(stat(db, &st), 0);
    assert_int_equal(st.st_mode & 0077, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

struct some_ids {
    size_t n;
    char id[8][16];
};

static enum err take_some(void *ctx, const char *id)
{
    struct some_ids *some = ctx;

    snprintf(some->id[some->n++], sizeof(some->id[0]), "%s", id);
    return ERR_OK;
}

/* New records are told once, oldest first; the version changes with what other
 * connections write, and only then. */
static void journal_tells_what_is_new(void **state)
{
    struct journal *j = open_writer(), *reader = NULL;
    struct some_ids some = {0};
    int64_t after = 0, before, now;

    (void)state;
    assert_int_equal(journal_begin_run(j, "one", "n", "{}", 1, NULL), 0);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "two", "n", "{}", 2, NULL), 0);
    assert_int_equal(journal_open(dir, false, 0, &reader, NULL), 0);
    assert_int_equal(journal_version(reader, &before, NULL), 0);
    assert_int_equal(journal_each_new(reader, &after, take_some, &some, NULL),
                     0);
    assert_int_equal(some.n, 2);
    assert_string_equal(some.id[0], "one");
    assert_string_equal(some.id[1], "two");
    assert_int_equal(journal_each_new(reader, &after, take_some, &some, NULL),
                     0);
    assert_int_equal(some.n, 2);
    assert_int_equal(journal_version(reader, &now, NULL), 0);
    assert_int_equal(now, before);
    append(j, "{}");
    assert_int_equal(journal_version(reader, &now, NULL), 0);
    assert_int_equal(now, before);
    assert_int_equal(journal_commit(j, false, NULL), 0);
    assert_int_equal(journal_version(reader, &now, NULL), 0);
    assert_int_not_equal(now, before);
    journal_close(j);
    j = open_writer();
    assert_int_equal(journal_begin_run(j, "three", "n", "{}", 3, NULL), 0);
    assert_int_equal(journal_each_new(reader, &after, take_some, &some, NULL),
                     0);
    assert_int_equal(some.n, 3);
    assert_string_equal(some.id[2], "three");
    journal_close(reader);
    journal_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(journal_tells_what_is_new),
        CASE(journal_committed_records_are_read_back),
        CASE(journal_after_a_crash_holds_what_was_committed),
        CASE(journal_reader_beside_a_writer_sees_the_committed),
        CASE(journal_begun_by_many_at_once_serves_all),
        CASE(journal_continued_run_has_no_end_and_no_gap),
        CASE(journal_continued_run_takes_a_configuration),
        CASE(journal_end_and_configuration_change_together),
        CASE(journal_half_made_holds_no_runs),
        CASE(journal_killed_in_its_making_holds_no_runs),
        CASE(journal_two_runs_have_their_own_records),
        CASE(journal_removed_run_leaves_nothing),
        CASE(journal_find_knows_id_name_and_prefix),
        CASE(journal_after_a_failed_append_has_no_gap),
        CASE(journal_visitor_ends_the_walk),
        CASE(journal_same_id_twice_is_refused),
        CASE(journal_locked_by_another_is_busy),
        CASE(journal_records_that_wait_lock_nobody_out),
        CASE(journal_that_cannot_be_asked_is_an_error),
        CASE(journal_of_garbage_is_refused),
        CASE(journal_with_a_damaged_page_is_refused),
        CASE(journal_of_another_program_is_refused),
        CASE(journal_of_a_newer_version_is_refused),
        CASE(journal_reader_without_a_file_is_refused),
        CASE(journal_read_only_is_refused_to_writers),
        CASE(journal_on_a_full_disk_reports_it),
        CASE(journal_each_failed_write_is_reported),
        CASE(journal_durable_commit_flushes_once),
        CASE(journal_without_memory_leaks_nothing),
        CASE(journal_is_private),
    };

    umask(022);
    install_failing_disk();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
