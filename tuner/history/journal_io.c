#include "tuner/history/journal_io.h"

#include "base/bytes.h"
#include "base/clock_io.h"
#include "base/crc32c.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "tuner/history/journal_head_io.h"
#include "tuner/history/journal_internal_io.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <sqlite3.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    APPLICATION_ID = 0x6d6c746e, /* "mltn", in the file's header */
    OPEN_TRIES = 10, /* of a file that others put in place, or close */
    OPEN_AGAIN_MS = 5,
    REMOVED_AT_ONCE = 4096,     /* records in one transaction */
    REMOVAL_PAUSE_NS = 2000000, /* between two */
    FORGET_LEAST = 64,          /* records in one commit */
    FORGET_AT_ONCE = 1024       /* in one statement */
};

/* What a record takes in the file: what does not stand on a page with others
 * has pages of its own (SQLite's file format, 1.6: index b-trees of 4,096
 * bytes). */
#define RECORD_BYTES                                                           \
    "CASE WHEN length(json) < 950 THEN length(json) + 56"                      \
    " ELSE 540 + 4096 * ((length(json) + 3650) / 4092) END"

static uint64_t record_bytes(size_t len)
{
    return len < 950 ? len + 56 : 540 + 4096 * (((uint64_t)len + 3650) / 4092);
}

/* Statements of a writer, prepared once. */
static const char *const statement_text[STATEMENT_COUNT] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [APPEND] = "INSERT INTO records (run, seq, wall_ns, kind, json, sum)"
               " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [COMMIT] = "COMMIT",
    [END_RUN] = "UPDATE runs SET status = ?2, reason = ?3, result = ?4,"
                " ended_ns = ?5 WHERE key = ?1",
    [CONFIGURE] = "UPDATE runs SET config = ?2, sum = ?3 WHERE key = ?1",
    [WEIGH] = "SELECT coalesce(sum(" RECORD_BYTES "), 0) FROM records"
              " WHERE run = ?1 AND seq <= ?2",
    [FORGET] = "DELETE FROM records WHERE run = ?1 AND seq <= ?2",
};

/* The index: what is shown of runs that have ended (journal_list_io.h). */
#define LISTED                                                                 \
    "CREATE TABLE listed ("                                                    \
    " run INTEGER PRIMARY KEY REFERENCES runs (key), began_ns INTEGER NOT "    \
    "NULL,"                                                                    \
    " id TEXT NOT NULL, status TEXT NOT NULL, cells TEXT NOT NULL,"            \
    " json TEXT NOT NULL) STRICT;"

static const char schema[] =
    "CREATE TABLE runs ("
    " key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
    " config TEXT NOT NULL, began_ns INTEGER NOT NULL, status TEXT,"
    " reason TEXT, result TEXT, ended_ns INTEGER, sum INTEGER) STRICT;"
    "CREATE TABLE records ("
    " run INTEGER NOT NULL REFERENCES runs (key), seq INTEGER NOT NULL,"
    " wall_ns INTEGER NOT NULL, kind TEXT NOT NULL, json TEXT NOT NULL,"
    " sum INTEGER, PRIMARY KEY (run, seq)) STRICT, WITHOUT ROWID;" LISTED;

/* A journal of schema 1 becomes one of 2. What is there has no checksums. */
static const char upgrade[] =
    "ALTER TABLE runs ADD COLUMN sum INTEGER;"
    "ALTER TABLE records ADD COLUMN sum INTEGER;" LISTED
    "PRAGMA user_version = 2";

enum err journal_explain(struct journal *j, int code, const char *doing,
                         struct fault *f)
{
    const char *path = j->path;
    int system = j->db ? sqlite3_system_errno(j->db) : 0;

    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fault_set(f, ERR_BUSY,
                         "%s: %s: another process has held the lock for "
                         "%g s; end it, or use another --state",
                         path, doing, j->busy_ms / 1000.0);
    case SQLITE_FULL:
        return fault_set(f, ERR_IO,
                         "%s: %s: the disk is full; make room and start again",
                         path, doing);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return fault_set(f, ERR_IO,
                         "%s: %s: the file or its folder cannot be written; "
                         "check its permissions, or use another --state",
                         path, doing);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fault_set(f, ERR_FORMAT,
                         "%s: %s: damaged, or not a journal of mltune (%s); "
                         "mltune recover takes what is whole of its folder; "
                         "move it away to start afresh",
                         path, doing, sqlite3_errstr(code));
    case SQLITE_NOMEM:
        return fault_set(f, ERR_NOMEM, "%s: %s: out of memory", path, doing);
    default:
        if (system)
            return fault_errno(f, ERR_IO, system, "%s: %s", path, doing);
        return fault_set(f, ERR_IO, "%s: %s: %s", path, doing,
                         j->db ? sqlite3_errmsg(j->db) : sqlite3_errstr(code));
    }
}

static enum err execute(struct journal *j, const char *sql, const char *doing,
                        struct fault *f)
{
    int code = sqlite3_exec(j->db, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? ERR_OK : journal_explain(j, code, doing, f);
}

enum err journal_ask_number(struct journal *j, const char *sql, int64_t *out,
                            struct fault *f)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(s);
    if (code == SQLITE_ROW)
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return code == SQLITE_ROW ? ERR_OK : journal_explain(j, code, "open", f);
}

/* An empty file becomes a journal; another process may be doing the same. */
static enum err create_schema(struct journal *j, struct fault *f)
{
    char pragma[96];
    int64_t tables = 0;
    enum err err = execute(j, "BEGIN IMMEDIATE", "create", f);

    if (err)
        return err;
    err =
        journal_ask_number(j, "SELECT count(*) FROM sqlite_schema", &tables, f);
    if (!err && tables == 0) {
        snprintf(pragma, sizeof(pragma),
                 "PRAGMA application_id = %d; PRAGMA user_version = %d",
                 APPLICATION_ID, JOURNAL_SCHEMA);
        err = execute(j, schema, "create", f);
        if (!err)
            err = execute(j, pragma, "create", f);
    }
    if (!err)
        err = execute(j, "COMMIT", "create", f);
    if (err)
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

static enum err check_schema(struct journal *j, struct fault *f)
{
    int64_t application = 0, version = 0;
    enum err err =
        journal_ask_number(j, "PRAGMA application_id", &application, f);

    if (!err)
        err = journal_ask_number(j, "PRAGMA user_version", &version, f);
    if (err)
        return err;
    if (application != APPLICATION_ID)
        return fault_set(f, ERR_FORMAT,
                         "%s is a database of another program; use another "
                         "--state",
                         j->path);
    if (version > JOURNAL_SCHEMA)
        return fault_set(f, ERR_VERSION,
                         "%s has schema version %lld, this mltune knows %d; "
                         "use a newer mltune or another --state",
                         j->path, (long long)version, JOURNAL_SCHEMA);
    j->schema = version;
    return ERR_OK;
}

/* Another process may be doing the same. */
static enum err upgrade_schema(struct journal *j, struct fault *f)
{
    enum err err;

    if (j->schema == JOURNAL_SCHEMA)
        return ERR_OK;
    err = execute(j, "BEGIN IMMEDIATE", "upgrade", f);
    if (err)
        return err;
    err = check_schema(j, f);
    if (!err && j->schema < JOURNAL_SCHEMA)
        err = execute(j, upgrade, "upgrade", f);
    if (!err)
        err = execute(j, "COMMIT", "upgrade", f);
    if (err)
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    else
        j->schema = JOURNAL_SCHEMA;
    return err;
}

/* SQLite would make the file readable for all; its log and index files take
 * the mode of this one. Only a new file is opened: closing a second handle of
 * an open one would drop the locks that SQLite holds on it. */
static void make_private(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd); /* else SQLite meets the same error and names it */
}

#define TEXT_OF(n) #n
#define LIMIT_OF(n) "PRAGMA journal_size_limit = " TEXT_OF(n) ";"
#define LOG_LIMIT LIMIT_OF(4194304)

/* Write-ahead mode, tables and all. Two processes that do this to one new file
 * at once both hold a shared lock and both want more; SQLite then refuses one
 * of them at once, without the time-out: only starting anew helps. */
static enum err prepare_writer(struct journal *j, const char *state,
                               struct fault *f)
{
    time_ns deadline = clock_monotonic() + (time_ns)j->busy_ms * 1000000;
    int64_t tables = 0;
    enum err err;

    for (;;) {
        bool had = journal_head_kept(state); /* before it is asked for tables */

        err = journal_ask_number(j, "SELECT count(*) FROM sqlite_schema",
                                 &tables, f);
        if (!err)
            err = execute(j,
                          "PRAGMA journal_mode = WAL;"
                          "PRAGMA synchronous = NORMAL;" LOG_LIMIT
                          "PRAGMA foreign_keys = ON",
                          "open", f);
        if (!err && tables == 0 && had)
            return journal_explain(j, SQLITE_CORRUPT, "read the tables", f);
        if (!err && tables == 0)
            err = create_schema(j, f);
        if (err != ERR_BUSY || clock_monotonic() >= deadline)
            return err;
        sqlite3_sleep(5);
    }
}

/* NORMAL: a commit is not flushed; journal_commit does that where it is asked
 * to. Checkpoints are flushed in the right order all the same. */
static enum err open_writer(struct journal *j, const char *state,
                            struct fault *f)
{
    enum err err;
    int code;

    if (access(j->path, F_OK) != 0 && errno == ENOENT)
        journal_head_drop(state); /* of one that was moved away */
    make_private(j->path);
    code = sqlite3_open_v2(j->path, &j->db,
                           SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                               SQLITE_OPEN_NOFOLLOW,
                           NULL);
    if (code != SQLITE_OK)
        return journal_explain(j, code, "open", f);
    sqlite3_busy_timeout(j->db, j->busy_ms);
    err = prepare_writer(j, state, f);
    if (!err)
        err = journal_head_check(j, f);
    if (!err)
        err = check_schema(j, f);
    if (!err && j->schema != JOURNAL_SCHEMA)
        journal_head_drop(state);
    if (!err)
        err = upgrade_schema(j, f);
    for (int i = 0; !err && i < STATEMENT_COUNT; i++) {
        code = sqlite3_prepare_v3(j->db, statement_text[i], -1,
                                  SQLITE_PREPARE_PERSISTENT, &j->statement[i],
                                  NULL);
        if (code != SQLITE_OK)
            err = journal_explain(j, code, "open", f);
    }
    if (!err)
        journal_head_keep(j);
    return err;
}

static int open_readonly(struct journal *j, bool immutable)
{
    char uri[3 * FILE_PATH_MAX];
    size_t n = (size_t)snprintf(uri, sizeof(uri), "file:");
    int64_t tables = 0;
    int code;

    for (const char *p = j->path; *p; p++)
        n += (size_t)snprintf(uri + n, sizeof(uri) - n,
                              strchr("?#%", *p) ? "%%%02x" : "%c",
                              (unsigned char)*p);
    if (immutable)
        snprintf(uri + n, sizeof(uri) - n, "?immutable=1");
    code = sqlite3_open_v2(
        uri, &j->db,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_busy_timeout(j->db, j->busy_ms);
    if (journal_ask_number(j, "SELECT count(*) FROM sqlite_schema", &tables,
                           NULL))
        return sqlite3_errcode(j->db);
    return SQLITE_OK;
}

/* True where a write-ahead log holds changes that "immutable" would hide. */
static bool log_pending(struct journal *j)
{
    char wal[FILE_PATH_MAX + 8];
    struct stat st;

    snprintf(wal, sizeof(wal), "%s-wal", j->path);
    return stat(wal, &st) == 0 && st.st_size > 0;
}

/* Its maker is at it, or was killed before it was done. */
static bool is_empty(struct journal *j)
{
    int64_t tables = 1;

    return !journal_ask_number(j, "SELECT count(*) FROM sqlite_schema", &tables,
                               NULL) &&
           tables == 0;
}

/* Whether the folder can take SQLite's index: then one that could not be opened
 * just now (no file left, no memory) is no reason to see no change for ever. */
static bool can_be_written(const struct journal *j)
{
    char folder[FILE_PATH_MAX];

    snprintf(folder, sizeof(folder), "%s", j->path);
    *strrchr(folder, '/') = '\0';
    return access(folder, W_OK) == 0;
}

/* Its maker was killed before write-ahead mode was on: what had been begun is
 * undone first, which SQLite does for nobody who may only read. */
static int undo_and_open(struct journal *j)
{
    int64_t tables;

    sqlite3_close(j->db);
    j->db = NULL;
    if (sqlite3_open_v2(j->path, &j->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(j->db, j->busy_ms);
        journal_ask_number(j, "SELECT count(*) FROM sqlite_schema", &tables,
                           NULL);
    }
    sqlite3_close(j->db);
    j->db = NULL;
    return open_readonly(j, false);
}

static enum err open_reader(struct journal *j, const char *state,
                            struct fault *f)
{
    bool had = journal_head_kept(state); /* before it is asked for tables */
    int code = open_readonly(j, false);
    enum err err;

    if (code == SQLITE_READONLY && can_be_written(j))
        code = undo_and_open(j);
    /* Write-ahead mode wants to make its index file beside the database even
     * to read; on a read-only file system a closed database needs none. */
    if ((code == SQLITE_CANTOPEN || code == SQLITE_READONLY) &&
        !log_pending(j) && !can_be_written(j)) {
        sqlite3_close(j->db);
        j->db = NULL;
        code = open_readonly(j, true);
    }
    if (code != SQLITE_OK)
        return journal_explain(j, code, "open", f);
    if (is_empty(j))
        return had ? journal_explain(j, SQLITE_CORRUPT, "read the tables", f)
                   : fault_set(f, ERR_NOENT, "%s holds no runs", j->path);
    err = journal_head_check(j, f);
    return err ? err : check_schema(j, f);
}

/* Journals that this process has open. */
static atomic_int open_here;

bool journal_open_here(void)
{
    return atomic_load(&open_here) > 0;
}

/* Whoever mends the journal puts another file in its place: one that was opened
 * just before, and only now got its turn, is not the journal any more. */
static bool has_moved(const struct journal *j)
{
    int moved = 0;

    return sqlite3_file_control(j->db, "main", SQLITE_FCNTL_HAS_MOVED,
                                &moved) == SQLITE_OK &&
           moved;
}

/* Who closes the journal as the last one takes its log away; whoever opened it
 * at that moment has looked for the log and does not find it. */
static bool has_vanished(const struct journal *j)
{
    int code = j->db ? sqlite3_errcode(j->db) & 0xff : SQLITE_OK;

    return (code == SQLITE_CANTOPEN || code == SQLITE_IOERR) &&
           sqlite3_system_errno(j->db) == ENOENT && access(j->path, F_OK) == 0;
}

/* @again: it may be opened if that is tried again. */
static enum err open_once(const char *state, bool writer, int busy_ms,
                          struct journal **out, bool *again, struct fault *f)
{
    struct journal *j = mem_calloc(1, sizeof(*j));
    enum err err;

    if (!j)
        return fault_set(f, ERR_NOMEM, "journal: out of memory");
    assert(busy_ms >= 0);
    j->busy_ms = busy_ms;
    j->tail = &j->unwritten;
    err = file_join(j->path, state, "mltune.db", f);
    atomic_fetch_add(&open_here, 1); /* journal_close counts it out */
    if (!err)
        err = writer ? open_writer(j, state, f) : open_reader(j, state, f);
    *again = err == ERR_IO && has_vanished(j);
    if (!err && has_moved(j)) {
        *again = true;
        err = fault_set(f, ERR_BUSY, "%s is put in place again and again",
                        j->path);
    }
    if (err) {
        journal_close(j);
        return err;
    }
    *out = j;
    return ERR_OK;
}

enum err journal_open(const char *state, bool writer, int busy_ms,
                      struct journal **out, struct fault *f)
{
    bool again = false;
    enum err err = open_once(state, writer, busy_ms, out, &again, f);

    for (int i = 1; i < OPEN_TRIES && err && again; i++) {
        sqlite3_sleep(OPEN_AGAIN_MS);
        err = open_once(state, writer, busy_ms, out, &again, f);
    }
    return err;
}

static void drop_unwritten(struct journal *j)
{
    while (j->unwritten) {
        struct unwritten *u = j->unwritten;

        j->unwritten = u->next;
        mem_free(u);
    }
    j->tail = &j->unwritten;
}

void journal_close(struct journal *j)
{
    int code;

    if (!j)
        return;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(j->statement[i]);
    sqlite3_finalize(j->listed_json);
    code = sqlite3_close(j->db); /* an open transaction is rolled back */
    assert(code == SQLITE_OK);
    (void)code;
    atomic_fetch_sub(&open_here, 1);
    drop_unwritten(j);
    mem_free(j);
}

/* Runs a prepared statement whose arguments are bound. */
static enum err run_statement(struct journal *j, enum statement which,
                              const char *doing, struct fault *f)
{
    int code = sqlite3_step(j->statement[which]);
    enum err err = ERR_OK;

    if (code != SQLITE_DONE)
        err = journal_explain(j, code, doing, f);
    sqlite3_reset(j->statement[which]);
    sqlite3_clear_bindings(j->statement[which]);
    return err;
}

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

/* Flushes the write-ahead log, through SQLite's own handle: whether a commit
 * has to be durable is known only at its end, and `PRAGMA synchronous` has to
 * be set before its beginning. */
static enum err flush_log(struct journal *j, struct fault *f)
{
    sqlite3_file *log = NULL;
    int code =
        sqlite3_file_control(j->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);

    if (code == SQLITE_OK && log && log->pMethods)
        code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    if (code != SQLITE_OK)
        return journal_explain(j, code, "flush the records", f);
    j->durable = j->committed;
    return ERR_OK;
}

bool journal_has_run(const struct journal *j)
{
    return j->run > 0;
}

/* The same, and the names of the files: SQLite flushes the folder of a log that
 * it has made, but passes over a failure. */
static enum err flush_new_log(struct journal *j, struct fault *f)
{
    enum err err = flush_log(j, f);

    return err ? err : disk_flush_parent(NULL, j->path, f);
}

/* Once a flush has failed, what it was to write counts as clean, and a further
 * flush proves nothing: the process before this one may have ended of that. So
 * what is in the log is written anew, to the database, and the log begins
 * afresh. While others hold it, that waits; then they write it. */
static enum err fold_log(struct journal *j, const char *doing, struct fault *f)
{
    int code = sqlite3_wal_checkpoint_v2(
        j->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    if (code == SQLITE_OK || (code & 0xff) == SQLITE_BUSY ||
        (code & 0xff) == SQLITE_LOCKED)
        return ERR_OK;
    return journal_explain(j, code, doing, f);
}

enum err journal_fold_log(struct journal *j, struct fault *f)
{
    assert(!j->open);
    return fold_log(j, "fold the log", f);
}

enum err journal_begin_run(struct journal *j, const char *id, const char *name,
                           const char *config, int64_t wall_ns, struct fault *f)
{
    static const char sql[] = "INSERT INTO runs (id, name, config, began_ns,"
                              " sum) VALUES (?1, ?2, ?3, ?4, ?5)";
    sqlite3_stmt *s = NULL;
    enum err err;
    int code;

    assert(j->run == 0);
    err = fold_log(j, "register the run", f);
    if (err)
        return err;
    code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);
    if (code == SQLITE_OK) {
        bind_text(s, 1, id);
        bind_text(s, 2, name);
        bind_text(s, 3, config);
        sqlite3_bind_int64(s, 4, wall_ns);
        sqlite3_bind_int64(s, 5, journal_run_sum(id, config));
        code = sqlite3_step(s);
    }
    sqlite3_finalize(s);
    if (code != SQLITE_DONE)
        return journal_explain(j, code, "register the run", f);
    j->run = sqlite3_last_insert_rowid(j->db);
    j->first = 1;
    assert(j->run > 0);
    return flush_new_log(j, f);
}

uint32_t journal_sum(int64_t run, uint64_t seq, int64_t wall_ns,
                     const char *kind, const char *json, size_t len)
{
    unsigned char head[24];
    uint32_t sum;

    bytes_put64(head, (uint64_t)run);
    bytes_put64(head + 8, seq);
    bytes_put64(head + 16, (uint64_t)wall_ns);
    sum = crc32c(0, head, sizeof(head));
    if (kind) /* else SQLite refuses it */
        sum = crc32c(sum, kind, strlen(kind) + 1);
    return crc32c(sum, json, len);
}

uint32_t journal_run_sum(const char *id, const char *config)
{
    uint32_t sum = crc32c(0, id, strlen(id) + 1);

    return crc32c(sum, config, strlen(config));
}

/* What its records take. A page that cannot be read counts as nothing. */
static void weigh_all(struct journal *j)
{
    sqlite3_stmt *s = j->statement[WEIGH];

    sqlite3_bind_int64(s, 1, j->run);
    sqlite3_bind_int64(s, 2, INT64_MAX);
    if (sqlite3_step(s) == SQLITE_ROW)
        j->bytes = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
}

/* The run's key and the numbers of its first and last record. */
static int find_last(struct journal *j, const char *id)
{
    static const char sql[] =
        "SELECT key, (SELECT coalesce(max(seq), 0) FROM records WHERE run ="
        " key), (SELECT coalesce(min(seq), 1) FROM records WHERE run = key)"
        " FROM runs WHERE id = ?1";
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    if (code == SQLITE_OK) {
        bind_text(s, 1, id);
        code = sqlite3_step(s);
    }
    if (code == SQLITE_ROW) {
        j->run = sqlite3_column_int64(s, 0);
        j->seq = (uint64_t)sqlite3_column_int64(s, 1);
        j->first = (uint64_t)sqlite3_column_int64(s, 2);
        j->committed = j->durable = j->seq;
    }
    sqlite3_finalize(s);
    return code;
}

/* What was shown of it holds no more. */
static enum err unlist(struct journal *j, struct fault *f)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "DELETE FROM listed WHERE run = %lld",
             (long long)j->run);
    return execute(j, sql, "unlist the run", f);
}

/* SQLite has rolled back by itself after some errors and not after others. */
static void roll_back(struct journal *j)
{
    if (!sqlite3_get_autocommit(j->db))
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    drop_unwritten(j);
    j->seq = j->committed;
    j->bytes -= j->added < j->bytes ? j->added : j->bytes;
    j->added = 0;
    j->open = false;
}

enum err journal_take_run(struct journal *j, const char *id, struct fault *f)
{
    int code;

    assert(j->run == 0);
    code = find_last(j, id);
    if (code == SQLITE_DONE)
        return fault_set(f, ERR_NOENT, "no run \"%s\" in %s", id, j->path);
    if (code != SQLITE_ROW)
        return journal_explain(j, code, "continue the run", f);
    weigh_all(j);
    return fold_log(j, "continue the run", f);
}

/* Whatever follows is of one transaction, until the commit. */
static enum err begin(struct journal *j, const char *doing, struct fault *f)
{
    enum err err = j->open ? ERR_OK : run_statement(j, BEGIN, doing, f);

    j->open = !err;
    return err;
}

static enum err configure(struct journal *j, const char *id, const char *config,
                          struct fault *f)
{
    sqlite3_stmt *s = j->statement[CONFIGURE];

    sqlite3_bind_int64(s, 1, j->run);
    bind_text(s, 2, config);
    sqlite3_bind_int64(s, 3, journal_run_sum(id, config));
    return run_statement(j, CONFIGURE, "change the configuration", f);
}

enum err journal_reopen_run(struct journal *j, const char *id,
                            const char *config, struct fault *f)
{
    enum err err;

    assert(j->run > 0);
    err = begin(j, "continue the run", f);
    if (err) {
        roll_back(j);
        return err;
    }
    /* The others are NULL. */
    sqlite3_bind_int64(j->statement[END_RUN], 1, j->run);
    err = run_statement(j, END_RUN, "continue the run", f);
    if (!err)
        err = unlist(j, f);
    if (!err && config)
        err = configure(j, id, config, f);
    if (!err)
        err = journal_commit(j, false, f);
    if (err) {
        roll_back(j);
        return err;
    }
    return flush_new_log(j, f);
}

enum err journal_continue_run(struct journal *j, const char *id,
                              struct fault *f)
{
    enum err err = journal_take_run(j, id, f);

    return err ? err : journal_reopen_run(j, id, NULL, f);
}

uint64_t journal_last(const struct journal *j)
{
    assert(j->run > 0);
    return j->seq;
}

void journal_skip(struct journal *j, uint64_t number)
{
    assert(j->run > 0);
    if (number <= j->seq)
        return;
    j->seq = number;
    if (!j->unwritten)
        j->committed = j->durable = number;
}

uint64_t journal_bytes(const struct journal *j)
{
    return j->bytes;
}

void journal_forget(struct journal *j, uint64_t number, uint64_t keep)
{
    assert(number <= j->committed);
    j->surplus = number;
    j->keep = keep;
}

/* Nothing of it is in the file before the commit: who adds a record and is then
 * stopped (Ctrl-Z) must not hold the lock that all others wait for. */
enum err journal_append(struct journal *j, const char *kind, const char *json,
                        size_t len, int64_t wall_ns, struct fault *f)
{
    size_t kind_size = strlen(kind) + 1;
    struct unwritten *u = mem_alloc(sizeof(*u) + len + kind_size);
    char *text = (char *)(u + 1);

    assert(j->run > 0);
    assert(len > 0 && json[0] == '{');
    if (!u) {
        roll_back(j);
        return journal_explain(j, SQLITE_NOMEM, "write a record", f);
    }
    memcpy(text, json, len);
    memcpy(text + len, kind, kind_size);
    *u = (struct unwritten){
        .seq = ++j->seq, .wall_ns = wall_ns, .len = len, .kind = text + len};
    *j->tail = u;
    j->tail = &u->next;
    j->bytes += record_bytes(len);
    j->added += record_bytes(len);
    return ERR_OK;
}

static enum err write_record(struct journal *j, const struct unwritten *u,
                             struct fault *f)
{
    sqlite3_stmt *s = j->statement[APPEND];
    const char *json = (const char *)(u + 1);

    sqlite3_bind_int64(s, 1, j->run);
    sqlite3_bind_int64(s, 2, (int64_t)u->seq);
    sqlite3_bind_int64(s, 3, u->wall_ns);
    bind_text(s, 4, u->kind);
    sqlite3_bind_text64(s, 5, json, u->len, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(
        s, 6, journal_sum(j->run, u->seq, u->wall_ns, u->kind, json, u->len));
    return run_statement(j, APPEND, "write a record", f);
}

static int step_to(struct journal *j, enum statement which, uint64_t number,
                   uint64_t *out)
{
    sqlite3_stmt *s = j->statement[which];
    int code;

    sqlite3_bind_int64(s, 1, j->run);
    sqlite3_bind_int64(s, 2, (int64_t)number);
    code = sqlite3_step(s);
    if (code == SQLITE_ROW && out)
        *out = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return code;
}

/* Deletes the oldest record and the @records - 1 numbers after it, in the
 * transaction that is open. *@bytes: how much that was; false: they stay, and
 * none is tried any more. */
static bool forget(struct journal *j, uint64_t records, uint64_t *bytes,
                   int *code)
{
    uint64_t to = j->first - 1 + records;

    if (to > j->surplus)
        to = j->surplus;
    *bytes = 0;
    *code = step_to(j, WEIGH, to, bytes);
    if (*code == SQLITE_ROW)
        *code = step_to(j, FORGET, to, NULL);
    if (*code != SQLITE_DONE) {
        j->surplus = 0;
        return false;
    }
    j->first = to + 1;
    j->bytes -= *bytes < j->bytes ? *bytes : j->bytes;
    return true;
}

static bool has_surplus(const struct journal *j)
{
    return j->first <= j->surplus && j->bytes > j->keep;
}

/* Deletes twice the bytes that this transaction adds, so that it keeps up
 * whatever a commit brings, and costs as much as was written. Where that cannot
 * be done records stay, unless SQLite has given up the whole of it. */
static enum err drop_surplus(struct journal *j, struct fault *f)
{
    uint64_t least = FORGET_LEAST, dropped = 0, bytes;
    int code = SQLITE_DONE;

    while (has_surplus(j) && (least > 0 || dropped < 2 * j->added)) {
        if (!forget(j, least ? least : FORGET_AT_ONCE, &bytes, &code))
            break;
        dropped += bytes;
        least = 0;
    }
    return code != SQLITE_DONE && sqlite3_get_autocommit(j->db)
               ? journal_explain(j, code, "delete old records", f)
               : ERR_OK;
}

enum err journal_trim(struct journal *j, struct fault *f)
{
    enum err err = journal_commit(j, false, f);
    uint64_t bytes;
    int code = SQLITE_DONE;

    while (!err && has_surplus(j)) {
        err = begin(j, "delete old records", f);
        if (err)
            break;
        forget(j, FORGET_AT_ONCE, &bytes, &code);
        if (code != SQLITE_DONE && sqlite3_get_autocommit(j->db))
            err = journal_explain(j, code, "delete old records", f);
        else
            err = journal_commit(j, false, f);
    }
    return err;
}

/* What is not written, and what the open transaction holds already. */
static enum err write_all(struct journal *j, struct fault *f)
{
    enum err err = ERR_OK;

    for (const struct unwritten *u = j->unwritten; u && !err; u = u->next)
        err = write_record(j, u, f);
    if (!err)
        err = drop_surplus(j, f);
    if (!err)
        err = run_statement(j, COMMIT, "write the records", f);
    if (err) { /* dropped: that is not ERR_BUSY, after which they are there */
        roll_back(j);
        if (err == ERR_BUSY)
            err = ERR_IO;
        if (f)
            f->code = err;
        return err;
    }
    drop_unwritten(j);
    j->committed = j->seq;
    j->added = 0;
    j->open = false;
    return ERR_OK;
}

enum err journal_commit(struct journal *j, bool durable, struct fault *f)
{
    enum err err = ERR_OK;

    if (j->open || j->unwritten) {
        err = begin(j, "write the records", f);
        if (err == ERR_BUSY)
            return err; /* they may be tried again */
        if (err)
            roll_back(j);
        else
            err = write_all(j, f);
    }
    if (err || !durable || j->durable == j->committed)
        return err;
    return flush_log(j, f);
}

enum err journal_end_run(struct journal *j, const char *status,
                         const char *reason, const char *result,
                         int64_t wall_ns, struct fault *f)
{
    sqlite3_stmt *s = j->statement[END_RUN];
    enum err err = journal_commit(j, false, f);

    assert(j->run > 0);
    if (err)
        return err;
    sqlite3_bind_int64(s, 1, j->run);
    bind_text(s, 2, status);
    bind_text(s, 3, reason);
    bind_text(s, 4, result);
    sqlite3_bind_int64(s, 5, wall_ns);
    err = run_statement(j, END_RUN, "record the run's end", f);
    return err ? err : flush_log(j, f);
}

/* The newest records of run @id, durable by themselves or not at all. *@all:
 * there was none. */
static enum err remove_records(struct journal *j, const char *id, bool *all,
                               struct fault *f)
{
    char *sql = sqlite3_mprintf(
        "DELETE FROM records WHERE run = (SELECT key FROM runs WHERE id = %Q)"
        " AND seq > (SELECT coalesce(max(seq), 0) - %d FROM records WHERE run ="
        " (SELECT key FROM runs WHERE id = %Q))",
        id, REMOVED_AT_ONCE, id);
    enum err err;

    if (!sql)
        return fault_set(f, ERR_NOMEM, "%s: no memory", j->path);
    err = execute(j, sql, "remove records", f);
    sqlite3_free(sql);
    *all = !err && sqlite3_changes(j->db) == 0;
    return err;
}

/* The rest of it, and what number is the largest then. */
static enum err remove_entry(struct journal *j, const char *id, int64_t *newest,
                             struct fault *f)
{
    char *sql = sqlite3_mprintf(
        "BEGIN IMMEDIATE;"
        "DELETE FROM listed WHERE run IN (SELECT key FROM runs WHERE id = %Q);"
        "DELETE FROM runs WHERE id = %Q",
        id, id);
    enum err err;

    if (!sql)
        return fault_set(f, ERR_NOMEM, "%s: no memory", j->path);
    err = execute(j, sql, "remove the run", f);
    sqlite3_free(sql);
    if (!err)
        err = journal_ask_number(j, "SELECT coalesce(max(key), 0) FROM runs",
                                 newest, f);
    if (!err)
        err = execute(j, "COMMIT", "remove the run", f);
    if (err)
        roll_back(j);
    return err;
}

enum err journal_remove_run(struct journal *j, const char *id, int64_t *newest,
                            struct fault *f)
{
    static const struct timespec others = {.tv_nsec = REMOVAL_PAUSE_NS};
    int64_t left = 0;
    bool all = false;
    enum err err = ERR_OK;

    assert(j->run == 0 && !j->open);
    while (!err && !all) {
        err = remove_records(j, id, &all, f);
        if (!err && !all)
            nanosleep(&others, NULL); /* whoever waits gets the lock */
    }
    if (!err)
        err = remove_entry(j, id, &left, f);
    if (!err && newest)
        *newest = left;
    return err ? err : flush_log(j, f);
}
