#include "tuner/history/journal_list_io.h"

#include "base/mem.h"
#include "tuner/history/journal_internal_io.h"

#include <assert.h>

static void bind(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

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
    l->cells = l->cells ? l->cells : "";
    return true;
}

enum err journal_list_put(struct journal *j,
                          const struct journal_listed *listed, struct fault *f)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO listed (run, began_ns, id, status, cells, json)"
        " SELECT key, began_ns, id, ?2, ?3, ?4 FROM runs"
        " WHERE id = ?1 AND status IS NOT NULL";
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    assert(listed->id && listed->status && listed->cells && listed->json);
    if (code == SQLITE_OK) {
        bind(s, 1, listed->id);
        bind(s, 2, listed->status);
        bind(s, 3, listed->cells);
        bind(s, 4, listed->json);
        code = sqlite3_step(s);
    }
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? ERR_OK
                               : journal_explain(j, code, "list the run", f);
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

enum err journal_listed_json(struct journal *j, int64_t key, char **out,
                             struct fault *f)
{
    sqlite3_stmt *s = NULL;
    const char *text = NULL;
    int code = sqlite3_prepare_v2(
        j->db, "SELECT json FROM listed WHERE run = ?1", -1, &s, NULL);

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
    return journal_explain(j, code, "read the index", f);
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
