#include "tuner/history/journal_list_io.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "tuner/history/journal_internal_io.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- checksums ----------------------------------------------------------- */

/* Before a text stands its checksum, as eight digits and an end of line. The
 * tables stay as they are: their head is kept twice, and programs before this
 * one write to them. */
enum { SUM_LEN = 9 };

static void write_sum(const struct journal_listed *l, const char *text,
                      size_t len, char out[SUM_LEN + 1])
{
    uint32_t sum = crc32c(0, l->id, strlen(l->id) + 1);

    sum = crc32c(sum, l->status, strlen(l->status) + 1);
    snprintf(out, SUM_LEN + 1, "%08x\n", crc32c(sum, text, len));
}

/* @text with its checksum, the caller's; NULL: no memory. */
static char *with_sum(const struct journal_listed *l, const char *text)
{
    size_t len = strlen(text);
    char *out = mem_alloc(SUM_LEN + len + 1);

    if (!out)
        return NULL;
    write_sum(l, text, len, out);
    memcpy(out + SUM_LEN, text, len + 1);
    return out;
}

/* What follows the checksum of @text[@len]; NULL: it is another's. */
static const char *behind_sum(const struct journal_listed *l, const char *text,
                              size_t len)
{
    char sum[SUM_LEN + 1];

    if (len < SUM_LEN)
        return NULL;
    write_sum(l, text + SUM_LEN, len - SUM_LEN, sum);
    return memcmp(sum, text, SUM_LEN) == 0 ? text + SUM_LEN : NULL;
}

/* ---- entries ------------------------------------------------------------- */

/* False: no memory. */
static bool read_listed(sqlite3_stmt *s, struct journal_listed *l)
{
    *l = (struct journal_listed){.began_ns = sqlite3_column_int64(s, 3),
                                 .key = sqlite3_column_int64(s, 4)};
    if (!journal_text(s, 0, &l->id) || !journal_text(s, 1, &l->status) ||
        !journal_text(s, 2, &l->cells))
        return false;
    l->id = l->id ? l->id : "";
    l->status = l->status ? l->status : "";
    l->cells = l->cells ? behind_sum(l, l->cells, strlen(l->cells)) : NULL;
    l->damaged = !l->cells;
    return true;
}

enum err journal_list_put(struct journal *j,
                          const struct journal_listed *listed, struct fault *f)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO listed (run, began_ns, id, status, cells, json)"
        " SELECT key, began_ns, id, ?2, ?3, ?4 FROM runs"
        " WHERE id = ?1 AND status IS NOT NULL";
    char *cells = with_sum(listed, listed->cells);
    char *json = with_sum(listed, listed->json);
    const char *text[] = {listed->id, listed->status, cells, json};
    sqlite3_stmt *s = NULL;
    int code = cells && json ? sqlite3_prepare_v2(j->db, sql, -1, &s, NULL)
                             : SQLITE_NOMEM;

    assert(listed->id && listed->status && listed->cells && listed->json);
    for (int i = 0; code == SQLITE_OK && i < 4; i++)
        code = sqlite3_bind_text(s, i + 1, text[i], -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(s);
    sqlite3_finalize(s);
    mem_free(cells);
    mem_free(json);
    return code == SQLITE_DONE ? ERR_OK
                               : journal_explain(j, code, "list the run", f);
}

enum err journal_unlist(struct journal *j, const char *id, struct fault *f)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(
        j->db,
        "DELETE FROM listed WHERE run = (SELECT key FROM runs WHERE id = ?1)",
        -1, &s, NULL);

    assert(id);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(s);
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? ERR_OK
                               : journal_explain(j, code, "unlist the run", f);
}

static enum err each(struct journal *j, const char *sql,
                     journal_listed_visit *visit, void *ctx, struct fault *f)
{
    sqlite3_stmt *s = NULL;
    enum err err = ERR_OK;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    while (code == SQLITE_OK && !err) {
        struct journal_listed l;

        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        code = read_listed(s, &l) ? SQLITE_OK : SQLITE_NOMEM;
        if (code == SQLITE_OK)
            err = visit(ctx, &l);
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read the index", f);
}

enum err journal_each_listed(struct journal *j, journal_listed_visit *visit,
                             void *ctx, struct fault *f)
{
    assert(visit);
    if (j->schema < 2)
        return ERR_OK;
    return each(j,
                "SELECT id, status, cells, began_ns, run FROM listed"
                " ORDER BY began_ns DESC, run DESC",
                visit, ctx, f);
}

/* The entries are asked for one after the other: the statement is kept. */
static int step_to(struct journal *j, int64_t key, sqlite3_stmt **out)
{
    sqlite3_stmt **s = &j->listed_json;
    int code = SQLITE_OK;

    if (!*s)
        code = sqlite3_prepare_v3(j->db,
                                  "SELECT id, status, json FROM listed"
                                  " WHERE run = ?1",
                                  -1, SQLITE_PREPARE_PERSISTENT, s, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(*s, 1, key);
    *out = *s;
    return code == SQLITE_OK ? sqlite3_step(*s) : code;
}

static enum err copy_json(sqlite3_stmt *s, char **out)
{
    struct journal_listed l;
    const char *text;

    if (!journal_text(s, 0, &l.id) || !journal_text(s, 1, &l.status) ||
        !journal_text(s, 2, &text))
        return ERR_NOMEM;
    if (!l.id || !l.status || !text)
        return ERR_FORMAT;
    text = behind_sum(&l, text, strlen(text));
    if (!text)
        return ERR_FORMAT;
    *out = mem_strdup(text);
    return *out ? ERR_OK : ERR_NOMEM;
}

enum err journal_listed_json(struct journal *j, int64_t key, char **out,
                             struct fault *f)
{
    sqlite3_stmt *s;
    int code = step_to(j, key, &s);
    enum err err = ERR_NOENT;

    assert(out);
    *out = NULL;
    if (code == SQLITE_ROW)
        err = copy_json(s, out);
    sqlite3_reset(s);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? err
               : journal_explain(j, code, "read the index", f);
}

enum err journal_listed_id(struct journal *j, int64_t key, char **out,
                           struct fault *f)
{
    sqlite3_stmt *s = NULL;
    const char *text = NULL;
    int code = sqlite3_prepare_v2(j->db, "SELECT id FROM runs WHERE key = ?1",
                                  -1, &s, NULL);

    assert(out);
    *out = NULL;
    if (code == SQLITE_OK) {
        sqlite3_bind_int64(s, 1, key);
        code = sqlite3_step(s);
    }
    if (code == SQLITE_ROW && journal_text(s, 0, &text))
        *out = mem_strdup(text ? text : "");
    sqlite3_finalize(s);
    if (code == SQLITE_DONE)
        return ERR_NOENT;
    if (code == SQLITE_ROW)
        return *out ? ERR_OK : ERR_NOMEM;
    return journal_explain(j, code, "read runs", f);
}

enum err journal_each_unlisted(struct journal *j, journal_id_visit *visit,
                               void *ctx, struct fault *f)
{
    static const char count[] =
        "SELECT (SELECT count(*) FROM runs) - (SELECT count(*) FROM listed)";
    const char *sql =
        j->schema < 2 ? "SELECT id FROM runs ORDER BY began_ns DESC, key DESC"
                      : "SELECT id FROM runs WHERE key NOT IN (SELECT run"
                        " FROM listed) ORDER BY began_ns DESC, key DESC";
    sqlite3_stmt *s = NULL;
    int64_t without = 1;
    const char *id;
    enum err err = ERR_OK;
    int code;

    assert(visit);
    if (j->schema >= 2)
        err = journal_ask_number(j, count, &without, f);
    if (err || without == 0)
        return err;
    code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);
    while (code == SQLITE_OK && !err) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        code = journal_text(s, 0, &id) ? SQLITE_OK : SQLITE_NOMEM;
        if (code == SQLITE_OK)
            err = visit(ctx, id ? id : "");
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read runs", f);
}
