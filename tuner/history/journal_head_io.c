#include "tuner/history/journal_head_io.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/disk_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/history/journal_internal_io.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEAD_BYTES_MAX = 65536,
    SUM_CHARS = 9, /* eight digits and a space before the JSON */
    PAGE_BYTES = 4096
};

/* Where SQLite's header has what is not of the schema (file format, 1.3). */
enum {
    VERSIONS_AT = 18,
    PAGES_AT = 28,
    TYPE_AT = 100, /* of the page behind the header (1.6) */
    WAL_VERSION = 2,
    LEAF_OF_A_TABLE = 13
};

static enum err head_path(const char *state, char out[FILE_PATH_MAX])
{
    return file_join(out, state, JOURNAL_HEAD, NULL);
}

/* The folder that the journal is in. */
static void state_of(const struct journal *j, char out[FILE_PATH_MAX])
{
    char *end;

    snprintf(out, FILE_PATH_MAX, "%s", j->path);
    end = strrchr(out, '/');
    assert(end);
    *end = '\0';
}

/* ---- as text ------------------------------------------------------------- */

/* A schema is ASCII; other bytes, of a damaged one, would be no JSON. */
static json_t *column(sqlite3_stmt *s, int at)
{
    const char *text;
    bool known = journal_text(s, at, &text);
    char *ascii = text ? mem_strdup(text) : NULL;
    json_t *o;

    for (char *p = ascii; p && *p; p++)
        if (*p & 0x80)
            *p = '?';
    o = ascii ? json_string(ascii) : text || !known ? NULL : json_null();
    mem_free(ascii);
    return o;
}

static json_t *row_to_json(sqlite3_stmt *s)
{
    return json_pack("[o, o, o, I, o]", column(s, 0), column(s, 1),
                     column(s, 2), (json_int_t)sqlite3_column_int64(s, 3),
                     column(s, 4));
}

/* The rows of the schema, in their order. */
static int read_schema(struct journal *j, json_t *rows)
{
    static const char sql[] = "SELECT type, name, tbl_name, rootpage, sql"
                              " FROM sqlite_schema ORDER BY rowid";
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    while (code == SQLITE_OK) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        code = json_array_append_new(rows, row_to_json(s)) == 0 ? SQLITE_OK
                                                                : SQLITE_NOMEM;
    }
    sqlite3_finalize(s);
    return code;
}

/* The head that @j has, as the line that its copy is; the caller's. */
static enum err head_of(struct journal *j, char **out, struct fault *f)
{
    int64_t application = 0, version = 0;
    json_t *rows = json_array(), *o = NULL;
    char *text = NULL;
    int code = rows ? read_schema(j, rows) : SQLITE_NOMEM;
    enum err err = code == SQLITE_DONE
                       ? ERR_OK
                       : journal_explain(j, code, "read the schema", f);

    if (!err)
        err = journal_ask_number(j, "PRAGMA application_id", &application, f);
    if (!err)
        err = journal_ask_number(j, "PRAGMA user_version", &version, f);
    if (!err)
        o = json_pack("{s:O, s:I, s:I}", "schema", rows, "application",
                      (json_int_t)application, "version", (json_int_t)version);
    text = o ? json_write(o, 0) : NULL;
    *out = text ? mem_alloc(strlen(text) + SUM_CHARS + 2) : NULL;
    if (*out)
        sprintf(*out, "%08x %s\n", crc32c(0, text, strlen(text)), text);
    else if (!err)
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", j->path);
    mem_free(text);
    json_decref(o);
    json_decref(rows);
    return err;
}

/* The copy, the caller's. Errors: ERR_NOENT there is none that is whole. */
static enum err read_copy(const char *state, char **out)
{
    char path[FILE_PATH_MAX], sum[SUM_CHARS];
    char *text = NULL;
    size_t len = 0;
    enum err err = head_path(state, path);

    if (!err)
        err = file_read(path, HEAD_BYTES_MAX, &text, &len, NULL);
    if (err)
        return err == ERR_NOMEM ? err : ERR_NOENT;
    if (len > SUM_CHARS && text[len - 1] == '\n')
        snprintf(sum, sizeof(sum), "%08x",
                 crc32c(0, text + SUM_CHARS, len - SUM_CHARS - 1));
    if (len <= SUM_CHARS || text[len - 1] != '\n' ||
        memcmp(text, sum, SUM_CHARS - 1) != 0) {
        mem_free(text);
        return ERR_NOENT;
    }
    *out = text;
    return ERR_OK;
}

/* ---- looked at ----------------------------------------------------------- */

/* Whether the tables have the columns that are asked for; an older journal, as
 * of a backup that was put back, those that it had. */
static bool has_columns(struct journal *j)
{
    static const char *const now[] = {
        ("SELECT key, id, name, config, began_ns, status, reason, result,"
         " ended_ns, sum FROM runs"),
        "SELECT run, seq, wall_ns, kind, json, sum FROM records",
        "SELECT run, began_ns, id, status, cells, json FROM listed"};
    static const char *const first[] = {
        ("SELECT key, id, name, config, began_ns, status, reason, result,"
         " ended_ns FROM runs"),
        "SELECT run, seq, wall_ns, kind, json FROM records"};
    int64_t version = 0;
    bool is_first =
        !journal_ask_number(j, "PRAGMA user_version", &version, NULL) &&
        version == 1;
    const char *const *sql = is_first ? first : now;
    int code = SQLITE_OK;

    for (int i = 0; i < (is_first ? 2 : 3) && code == SQLITE_OK; i++) {
        sqlite3_stmt *s = NULL;

        code = sqlite3_prepare_v2(j->db, sql[i], -1, &s, NULL);
        sqlite3_finalize(s);
    }
    return code == SQLITE_OK;
}

bool journal_head_sound(struct journal *j)
{
    sqlite3_stmt *s = NULL;
    const char *said = NULL;
    bool sound = has_columns(j) &&
                 sqlite3_prepare_v2(j->db, "PRAGMA quick_check(1)", -1, &s,
                                    NULL) == SQLITE_OK &&
                 sqlite3_step(s) == SQLITE_ROW && journal_text(s, 0, &said) &&
                 said && strcmp(said, "ok") == 0;

    sqlite3_finalize(s);
    return sound;
}

/* The first pages of the tables, which everything is found by. */
static enum err check_roots(struct journal *j, struct fault *f)
{
    static const char *const sql[] = {"SELECT key FROM runs LIMIT 1",
                                      "SELECT seq FROM records LIMIT 1"};

    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *s = NULL;
        int code = sqlite3_prepare_v2(j->db, sql[i], -1, &s, NULL);

        if (code == SQLITE_OK)
            code = sqlite3_step(s);
        sqlite3_finalize(s);
        if ((code & 0xff) == SQLITE_CORRUPT || code == SQLITE_NOTADB)
            return journal_explain(j, code, "read the tables", f);
    }
    return ERR_OK;
}

/* Of two heads with the same tables the numbers are the same, too: whoever
 * gives the file another version drops the copy first. */
static bool same_tables(const char *head, const char *copy)
{
    const char *end = strstr(head, "]]");
    size_t n = end ? (size_t)(end - head) : 0;

    return n > SUM_CHARS && strlen(copy) > n &&
           memcmp(head + SUM_CHARS, copy + SUM_CHARS, n - SUM_CHARS) == 0;
}

enum err journal_head_check(struct journal *j, struct fault *f)
{
    char state[FILE_PATH_MAX];
    char *copy = NULL, *head = NULL;
    bool fits = true;
    enum err err;

    state_of(j, state);
    err = read_copy(state, &copy);
    if (err == ERR_NOENT)
        return check_roots(j, f);
    if (err)
        return fault_set(f, err, "%s: out of memory", j->path);
    err = head_of(j, &head, f);
    if (!err && strcmp(head, copy) != 0)
        fits = !same_tables(head, copy) && journal_head_sound(j);
    mem_free(head);
    mem_free(copy);
    if (err)
        return err;
    return fits ? check_roots(j, f)
                : journal_explain(j, SQLITE_CORRUPT, "read the head", f);
}

void journal_head_keep(struct journal *j)
{
    char state[FILE_PATH_MAX], path[FILE_PATH_MAX];
    char *copy = NULL, *head = NULL;
    enum err err;

    state_of(j, state);
    err = head_path(state, path);
    if (!err)
        err = head_of(j, &head, NULL);
    if (!err)
        (void)read_copy(state, &copy);
    if (!err && (!copy || strcmp(head, copy) != 0))
        file_write(path, head, strlen(head), NULL);
    mem_free(head);
    mem_free(copy);
}

void journal_head_drop(const char *state)
{
    char path[FILE_PATH_MAX];

    if (head_path(state, path) == ERR_OK)
        file_remove(path);
}

bool journal_head_kept(const char *state)
{
    char *copy = NULL;
    bool kept = read_copy(state, &copy) == ERR_OK;

    mem_free(copy);
    return kept;
}

/* ---- restored ------------------------------------------------------------ */

static int run_sql(sqlite3 *db, const char *name, json_int_t value)
{
    char sql[96];

    snprintf(sql, sizeof(sql), "PRAGMA %s = %lld", name, (long long)value);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int insert_row(sqlite3 *db, const json_t *row)
{
    static const char sql[] =
        "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)"
        " VALUES (?1, ?2, ?3, ?4, ?5)";
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &s, NULL);

    for (int i = 0; code == SQLITE_OK && i < 5; i++) {
        const json_t *cell = json_array_get(row, (size_t)i);

        code = i == 3 ? sqlite3_bind_int64(s, i + 1, json_integer_value(cell))
                      : sqlite3_bind_text(s, i + 1, json_string_value(cell), -1,
                                          SQLITE_STATIC);
    }
    if (code == SQLITE_OK)
        code = sqlite3_step(s);
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* A database whose first page is the one that is wanted, at @path. */
static int make_head(const char *path, const json_t *head)
{
    const json_t *rows = json_object_get(head, "schema"), *row;
    sqlite3 *db = NULL;
    size_t i;
    int code = sqlite3_open_v2(
        path, &db,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

    if (code == SQLITE_OK)
        code = run_sql(db, "page_size", PAGE_BYTES);
    /* The table gives the file its format, then only its row is in the way. */
    if (code == SQLITE_OK)
        code = sqlite3_exec(db,
                            "PRAGMA writable_schema = ON; BEGIN;"
                            "CREATE TABLE format (a);"
                            "DELETE FROM sqlite_schema",
                            NULL, NULL, NULL);
    json_array_foreach(rows, i, row)
    {
        if (code == SQLITE_OK)
            code = insert_row(db, row);
    }
    if (code == SQLITE_OK)
        code =
            run_sql(db, "application_id",
                    json_integer_value(json_object_get(head, "application")));
    if (code == SQLITE_OK)
        code = run_sql(db, "user_version",
                       json_integer_value(json_object_get(head, "version")));
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    return code;
}

/* @page, of a database of its own, into that at @path, of as many pages as the
 * file has. Pages that were free are so no more: they lie idle. */
static enum err put_page(const char *path, unsigned char page[PAGE_BYTES],
                         struct fault *f)
{
    const struct disk_ops *ops = disk_system();
    uint64_t bytes = 0;
    uint32_t pages;
    int fd = ops->open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
    enum err err = ERR_OK;

    if (fd < 0 || ops->size(fd, &bytes) != 0)
        err = fault_errno(f, ERR_IO, errno, "%s", path);
    pages = (uint32_t)(bytes / PAGE_BYTES);
    pages = pages ? pages : 1;
    page[VERSIONS_AT] = page[VERSIONS_AT + 1] = WAL_VERSION;
    for (int i = 0; i < 4; i++) /* big-endian */
        page[PAGES_AT + i] = (unsigned char)(pages >> (24 - 8 * i));
    if (!err && (ops->write_at(fd, page, PAGE_BYTES, 0) != PAGE_BYTES ||
                 ops->fsync(fd) != 0))
        err = fault_errno(f, ERR_IO, errno, "write %s", path);
    if (fd >= 0)
        ops->close(fd);
    return err;
}

static enum err take_page(const char *state, const json_t *head,
                          struct fault *f)
{
    char path[FILE_PATH_MAX], small[FILE_PATH_MAX];
    char *page = NULL;
    size_t len = 0;
    int code;
    enum err err = file_join(path, state, "mltune.db", f);

    if (!err)
        err = file_join(small, state, "mltune.head.tmp", f);
    if (err)
        return err;
    file_remove(small);
    code = make_head(small, head);
    if (code == SQLITE_NOMEM)
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    else if (code != SQLITE_OK)
        err = fault_set(f, ERR_IO, "%s: %s", small, sqlite3_errstr(code));
    if (!err)
        err = file_read(small, HEAD_BYTES_MAX, &page, &len, f);
    if (!err && (len < PAGE_BYTES || page[TYPE_AT] != LEAF_OF_A_TABLE))
        err = fault_set(f, ERR_FORMAT, "%s is not one page", small);
    if (!err)
        err = put_page(path, (unsigned char *)page, f);
    mem_free(page);
    file_remove(small);
    return err;
}

enum err journal_head_restore(const char *state, struct fault *f)
{
    char *copy = NULL;
    json_t *head = NULL;
    enum err err = read_copy(state, &copy);

    assert(state[0] == '/');
    if (!err)
        err = json_load(copy + SUM_CHARS, strlen(copy) - SUM_CHARS, &head, NULL,
                        NULL);
    mem_free(copy);
    if (err)
        return fault_set(f, err == ERR_NOMEM ? err : ERR_NOENT,
                         "%s has no copy of its journal's head", state);
    err = take_page(state, head, f);
    json_decref(head);
    return err;
}
