#include "tuner/history/journal_internal_io.h"

#include <assert.h>
#include <string.h>

#define RUN_COLUMNS                                                            \
    "SELECT id, name, config, began_ns, status, reason, result, ended_ns,"     \
    " (SELECT count(*) FROM records WHERE run = key),"                         \
    " (SELECT wall_ns FROM records WHERE run = key"                            \
    "  ORDER BY seq DESC LIMIT 1) FROM runs "

/* ---- runs ---------------------------------------------------------------- */

static const char *text_at(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

static void bind(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

static void read_run(sqlite3_stmt *s, struct journal_run *run)
{
    run->id = text_at(s, 0);
    run->name = text_at(s, 1);
    run->config = text_at(s, 2);
    run->began_ns = sqlite3_column_int64(s, 3);
    run->status = text_at(s, 4);
    run->reason = text_at(s, 5);
    run->result = text_at(s, 6);
    run->ended_ns = sqlite3_column_int64(s, 7);
    run->records = (uint64_t)sqlite3_column_int64(s, 8);
    run->last_ns = sqlite3_column_type(s, 9) == SQLITE_NULL
                       ? run->began_ns
                       : sqlite3_column_int64(s, 9);
}

/* Visits the rows of a query over runs; @word is bound if not NULL. */
static enum err each_run(struct journal *j, const char *sql, const char *word,
                         journal_run_visit *visit, void *ctx, struct fault *f)
{
    struct journal_run run;
    sqlite3_stmt *s = NULL;
    enum err err = ERR_OK;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    if (code == SQLITE_OK && word)
        bind(s, 1, word);
    while (code == SQLITE_OK && !err) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        read_run(s, &run);
        err = visit(ctx, &run);
        code = SQLITE_OK;
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read runs", f);
}

enum err journal_each_run(struct journal *j, journal_run_visit *visit,
                          void *ctx, struct fault *f)
{
    return each_run(j, RUN_COLUMNS "ORDER BY began_ns DESC, key DESC", NULL,
                    visit, ctx, f);
}

/* Hands on the first run only, and counts. */
struct first {
    journal_run_visit *visit;
    void *ctx;
    unsigned count;
};

static enum err visit_first(void *ctx, const struct journal_run *run)
{
    struct first *first = ctx;

    return first->count++ == 0 ? first->visit(first->ctx, run) : ERR_OK;
}

static enum err count_only(void *ctx, const struct journal_run *run)
{
    (void)ctx;
    (void)run;
    return ERR_OK;
}

enum err journal_each_new(struct journal *j, int64_t *after,
                          journal_id_visit *visit, void *ctx, struct fault *f)
{
    sqlite3_stmt *s = NULL;
    enum err err = ERR_OK;
    int code = sqlite3_prepare_v2(
        j->db, "SELECT key, id FROM runs WHERE key > ?1 ORDER BY key", -1, &s,
        NULL);

    assert(after);
    assert(visit);
    if (code == SQLITE_OK)
        sqlite3_bind_int64(s, 1, *after);
    while (code == SQLITE_OK && !err) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        err = visit(ctx, text_at(s, 1));
        if (!err)
            *after = sqlite3_column_int64(s, 0);
        code = SQLITE_OK;
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read runs", f);
}

enum err journal_version(struct journal *j, int64_t *out, struct fault *f)
{
    return journal_ask_number(j, "PRAGMA data_version", out, f);
}

enum err journal_find_run(struct journal *j, const char *word,
                          journal_run_visit *visit, void *ctx, struct fault *f)
{
    static const char by_id[] = RUN_COLUMNS "WHERE id = ?1";
    static const char by_name[] =
        RUN_COLUMNS "WHERE name = ?1 ORDER BY began_ns DESC, key DESC LIMIT 1";
    static const char by_start[] =
        RUN_COLUMNS "WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2";
    struct first found = {visit, ctx, 0}, count = {count_only, NULL, 0};
    enum err err = each_run(j, by_id, word, visit_first, &found, f);

    if (!err && found.count == 0)
        err = each_run(j, by_name, word, visit_first, &found, f);
    if (err || found.count > 0)
        return err;
    err = each_run(j, by_start, word, visit_first, &count, f);
    if (err)
        return err;
    if (count.count == 0 || !*word)
        return fault_set(f, ERR_NOENT, "no run \"%s\" in %s", word, j->path);
    if (count.count > 1)
        return fault_set(f, ERR_INVAL,
                         "several runs begin with \"%s\"; give more of the id",
                         word);
    return each_run(j, by_start, word, visit, ctx, f);
}

/* ---- records ------------------------------------------------------------- */

enum err journal_each_record(struct journal *j, const char *id, uint64_t after,
                             journal_record_visit *visit, void *ctx,
                             struct fault *f)
{
    static const char sql[] =
        "SELECT seq, wall_ns, kind, json FROM records WHERE seq > ?2 AND run ="
        " (SELECT key FROM runs WHERE id = ?1) ORDER BY seq";
    struct journal_record record;
    sqlite3_stmt *s = NULL;
    enum err err = ERR_OK;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    if (code == SQLITE_OK) {
        bind(s, 1, id);
        sqlite3_bind_int64(s, 2, (int64_t)after);
    }
    while (code == SQLITE_OK && !err) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        record.seq = (uint64_t)sqlite3_column_int64(s, 0);
        record.wall_ns = sqlite3_column_int64(s, 1);
        record.kind = text_at(s, 2);
        record.json = text_at(s, 3);
        record.len = (size_t)sqlite3_column_bytes(s, 3);
        err = visit(ctx, &record);
        code = SQLITE_OK;
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read records", f);
}
