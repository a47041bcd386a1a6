#include "base/json/json.h"
#include "tuner/history/journal_internal_io.h"
#include "tuner/history/run_guess.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RUN_COLUMNS(sum)                                                       \
    "SELECT key, id, name, config, began_ns, status, reason, result,"          \
    " ended_ns, " sum " FROM runs "

/* ---- runs ---------------------------------------------------------------- */

bool journal_text(sqlite3_stmt *s, int column, const char **out)
{
    *out = (const char *)sqlite3_column_text(s, column);
    return *out || sqlite3_errcode(sqlite3_db_handle(s)) != SQLITE_NOMEM;
}

static void bind(sqlite3_stmt *s, int at, const char *text)
{
    sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

/* As journal_text, but "" for none. */
static bool text_or_empty(sqlite3_stmt *s, int column, const char **out)
{
    bool known = journal_text(s, column, out);

    *out = *out ? *out : "";
    return known;
}

/* Its last record, as far as that can be read. False: no memory. */
static bool read_last(struct journal *j, int64_t key, struct journal_run *run)
{
    static const char sql[] = "SELECT seq, wall_ns FROM records WHERE run = ?1"
                              " ORDER BY seq DESC LIMIT 1";
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);

    if (code == SQLITE_OK) {
        sqlite3_bind_int64(s, 1, key);
        code = sqlite3_step(s);
        if (code == SQLITE_ROW) {
            run->records = (uint64_t)sqlite3_column_int64(s, 0);
            run->last_ns = sqlite3_column_int64(s, 1);
        }
    }
    sqlite3_finalize(s);
    return code != SQLITE_NOMEM;
}

/* False: no memory. */
static bool read_run(struct journal *j, sqlite3_stmt *s,
                     struct journal_run *run)
{
    *run = (struct journal_run){.began_ns = sqlite3_column_int64(s, 4),
                                .ended_ns = sqlite3_column_int64(s, 8)};
    if (!text_or_empty(s, 1, &run->id) || !text_or_empty(s, 2, &run->name) ||
        !text_or_empty(s, 3, &run->config) ||
        !journal_text(s, 5, &run->status) ||
        !journal_text(s, 6, &run->reason) || !journal_text(s, 7, &run->result))
        return false;
    run->last_ns = run->began_ns;
    run->damaged =
        sqlite3_column_type(s, 9) == SQLITE_INTEGER &&
        sqlite3_column_int64(s, 9) != journal_run_sum(run->id, run->config);
    return read_last(j, sqlite3_column_int64(s, 0), run);
}

/* Visits the rows of a query over runs, which goes on @where; @word is bound if
 * not NULL. */
static enum err each_run(struct journal *j, const char *where, const char *word,
                         journal_run_visit *visit, void *ctx, struct fault *f)
{
    char sql[512];
    struct journal_run run;
    sqlite3_stmt *s = NULL;
    enum err err = ERR_OK;
    int code;

    snprintf(sql, sizeof(sql), "%s%s",
             j->schema < 2 ? RUN_COLUMNS("NULL") : RUN_COLUMNS("sum"), where);
    code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);
    if (code == SQLITE_OK && word)
        bind(s, 1, word);
    while (code == SQLITE_OK && !err) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        code = read_run(j, s, &run) ? SQLITE_OK : SQLITE_NOMEM;
        if (code == SQLITE_OK)
            err = visit(ctx, &run);
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read runs", f);
}

enum err journal_each_run(struct journal *j, journal_run_visit *visit,
                          void *ctx, struct fault *f)
{
    return each_run(j, "ORDER BY began_ns DESC, key DESC", NULL, visit, ctx, f);
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
    const char *id;
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
        code = text_or_empty(s, 1, &id) ? SQLITE_OK : SQLITE_NOMEM;
        if (code == SQLITE_OK)
            err = visit(ctx, id);
        if (code == SQLITE_OK && !err)
            *after = sqlite3_column_int64(s, 0);
    }
    sqlite3_finalize(s);
    if (err || code == SQLITE_DONE)
        return err;
    return journal_explain(j, code, "read runs", f);
}

enum err journal_each_ended(struct journal *j, journal_ended_visit *visit,
                            void *ctx, struct fault *f)
{
    sqlite3_stmt *s = NULL;
    enum err err = ERR_OK;
    int code = sqlite3_prepare_v2(
        j->db, "SELECT id, status, ended_ns FROM runs WHERE status IS NOT NULL",
        -1, &s, NULL);

    assert(visit);
    while (code == SQLITE_OK && !err) {
        struct journal_ended run;

        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        run = (struct journal_ended){.ended_ns = sqlite3_column_int64(s, 2)};
        code = text_or_empty(s, 0, &run.id) && text_or_empty(s, 1, &run.status)
                   ? SQLITE_OK
                   : SQLITE_NOMEM;
        if (code == SQLITE_OK)
            err = visit(ctx, &run);
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

/* No run is called @word: which may be meant, among the newest. */
static enum err find_none(struct journal *j, const char *word, struct fault *f)
{
    static const char sql[] =
        "SELECT id, name FROM runs WHERE substr(id, 1, length(?1)) = ?1"
        " UNION ALL SELECT * FROM (SELECT id, name FROM runs"
        " WHERE substr(id, 1, length(?1)) <> ?1"
        " ORDER BY began_ns DESC LIMIT 100)";
    struct run_guess guess = {.word = word};
    char where[sizeof(j->path) + 8];
    sqlite3_stmt *s = NULL;
    int code;

    if (!f)
        return ERR_NOENT;
    code = sqlite3_prepare_v2(j->db, sql, -1, &s, NULL);
    if (code == SQLITE_OK)
        bind(s, 1, word);
    while (code == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        const char *id, *name;

        if (text_or_empty(s, 0, &id) && text_or_empty(s, 1, &name))
            run_guess_add(&guess, id, name);
    }
    sqlite3_finalize(s);
    snprintf(where, sizeof(where), "in %s", j->path);
    return run_guess_fault(&guess, where, f);
}

enum err journal_find_run(struct journal *j, const char *word,
                          journal_run_visit *visit, void *ctx, struct fault *f)
{
    static const char by_id[] = "WHERE id = ?1";
    static const char by_name[] =
        "WHERE name = ?1 ORDER BY began_ns DESC, key DESC LIMIT 1";
    static const char by_start[] =
        "WHERE substr(id, 1, length(?1)) = ?1 LIMIT 2";
    struct first found = {visit, ctx, 0}, count = {count_only, NULL, 0};
    enum err err = each_run(j, by_id, word, visit_first, &found, f);

    if (!err && found.count == 0)
        err = each_run(j, by_name, word, visit_first, &found, f);
    if (err || found.count > 0)
        return err;
    err = each_run(j, by_start, word, visit_first, &count, f);
    if (err)
        return err;
    if (count.count > 1 && *word && !f)
        return ERR_INVAL;
    if (count.count != 1 || !*word)
        return find_none(j, word, f);
    return each_run(j, by_start, word, visit, ctx, f);
}

/* ---- records ------------------------------------------------------------- */

enum { PROBES_MAX = 4096 /* records looked for behind a damaged page */ };

struct record_walk {
    struct journal *j;
    const char *id;
    int64_t run;
    uint64_t last; /* number of the last record that was seen */
    journal_record_visit *visit;
    void *ctx;
    struct journal_damage *damage;
};

static bool is_damage(int code)
{
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

/* The run's key into *@key; 0: it is not there, or its page is damaged. Returns
 * what else kept SQLite from telling, such as a lock, or SQLITE_OK. */
static int find_key(struct journal *j, const char *id, int64_t *key)
{
    static const char *const ways[] = {"SELECT key FROM runs WHERE id = ?1",
                                       "SELECT key FROM runs WHERE +id = ?1"};
    *key = 0;
    for (int i = 0; i < 2 && *key == 0; i++) {
        sqlite3_stmt *s = NULL;
        int code = sqlite3_prepare_v2(j->db, ways[i], -1, &s, NULL);

        if (code == SQLITE_OK) {
            bind(s, 1, id);
            code = sqlite3_step(s);
            if (code == SQLITE_ROW)
                *key = sqlite3_column_int64(s, 0);
        }
        sqlite3_finalize(s);
        if (code != SQLITE_ROW && code != SQLITE_DONE && !is_damage(code))
            return code;
    }
    return SQLITE_OK;
}

static void add_damage(const struct record_walk *w, uint64_t seq, uint64_t n,
                       const char *what)
{
    struct journal_damage *d = w->damage;

    d->records += n;
    if (d->first)
        return;
    d->first = seq;
    snprintf(d->text, sizeof(d->text),
             "%.300s: record %llu of run %.64s %.100s", w->j->path,
             (unsigned long long)seq, w->id, what);
}

static bool is_text(sqlite3_stmt *s, int column)
{
    return sqlite3_column_type(s, column) == SQLITE_TEXT;
}

/* Where its text is no JSON it is known at which byte it is wrong. */
static void add_wrong(const struct record_walk *w,
                      const struct journal_record *r)
{
    char what[256] = "is damaged: it has not its checksum";
    struct fault f = {0};
    json_t *json = NULL;

    if (json_load(r->json, r->len, &json, NULL, &f))
        snprintf(what, sizeof(what), "is damaged: %.200s", f.text);
    json_decref(json);
    add_damage(w, r->seq, 1, what);
}

/* Returns SQLite's code; what the visitor says is *@err. */
static int take_row(struct record_walk *w, sqlite3_stmt *s, enum err *err)
{
    struct journal_record r = {.seq = (uint64_t)sqlite3_column_int64(s, 0),
                               .wall_ns = sqlite3_column_int64(s, 1)};

    if (r.seq <= w->last) { /* a page in another's place */
        add_damage(w, r.seq, 1, "is out of its order");
        return SQLITE_OK;
    }
    if (!is_text(s, 2) || !is_text(s, 3)) {
        add_damage(w, r.seq, 1, "is damaged: it has no text");
        w->last = r.seq;
        return SQLITE_OK;
    }
    if (!journal_text(s, 2, &r.kind) || !journal_text(s, 3, &r.json))
        return SQLITE_NOMEM;
    w->last = r.seq;
    r.len = (size_t)sqlite3_column_bytes(s, 3);
    if (sqlite3_column_type(s, 4) == SQLITE_INTEGER &&
        sqlite3_column_int64(s, 4) !=
            journal_sum(w->run, r.seq, r.wall_ns, r.kind, r.json, r.len)) {
        add_wrong(w, &r);
        return SQLITE_OK;
    }
    *err = w->visit(w->ctx, &r);
    return SQLITE_OK;
}

/* Records after w->last, until one cannot be read. */
static int walk_on(struct record_walk *w, enum err *err)
{
    static const char *const sql[] = {
        "SELECT seq, wall_ns, kind, json, NULL FROM records"
        " WHERE run = ?1 AND seq > ?2 ORDER BY seq",
        "SELECT seq, wall_ns, kind, json, sum FROM records"
        " WHERE run = ?1 AND seq > ?2 ORDER BY seq"};
    sqlite3_stmt *s = NULL;
    int code =
        sqlite3_prepare_v2(w->j->db, sql[w->j->schema >= 2], -1, &s, NULL);

    if (code == SQLITE_OK) {
        sqlite3_bind_int64(s, 1, w->run);
        sqlite3_bind_int64(s, 2, (int64_t)w->last);
    }
    while (code == SQLITE_OK && !*err) {
        code = sqlite3_step(s);
        if (code != SQLITE_ROW)
            break;
        code = take_row(w, s, err);
    }
    sqlite3_finalize(s);
    return code;
}

static int probe(const struct record_walk *w, sqlite3_stmt *s, uint64_t seq)
{
    int code;

    sqlite3_bind_int64(s, 1, w->run);
    sqlite3_bind_int64(s, 2, (int64_t)seq);
    code = sqlite3_step(s);
    sqlite3_reset(s);
    return code;
}

/* The page behind w->last cannot be read: the number before the next record
 * that can be becomes w->last. False: there is none. */
static bool pass_over(struct record_walk *w)
{
    static const char sql[] = "SELECT 1 FROM records WHERE run = ?1 AND"
                              " seq = ?2 AND length(json) > 0";
    uint64_t from = w->last + 1, seq = from;
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(w->j->db, sql, -1, &s, NULL);

    if (code == SQLITE_OK)
        for (; seq < from + PROBES_MAX && probe(w, s, seq) != SQLITE_ROW; seq++)
            ;
    sqlite3_finalize(s);
    if (code != SQLITE_OK || seq == from + PROBES_MAX) {
        add_damage(w, from, 1, "and others after it are on a damaged page");
        return false;
    }
    /* Where the very next one can be found it is the walk that cannot go on. */
    add_damage(w, from, seq == from ? 1 : seq - from, "is on a damaged page");
    w->last = seq == from ? from : seq - 1;
    return true;
}

enum err journal_each_whole(struct journal *j, const char *id, uint64_t after,
                            journal_record_visit *visit, void *ctx,
                            struct journal_damage *damage, struct fault *f)
{
    struct journal_damage own;
    struct record_walk w = {.j = j,
                            .id = id,
                            .last = after,
                            .visit = visit,
                            .ctx = ctx,
                            .damage = damage ? damage : &own};
    enum err err = ERR_OK;
    int code;

    assert(visit);
    *w.damage = (struct journal_damage){0};
    code = find_key(j, id, &w.run);
    if (code != SQLITE_OK)
        return journal_explain(j, code, "read records", f);
    if (w.run == 0)
        return ERR_OK;
    do
        code = walk_on(&w, &err);
    while (!err && is_damage(code) && pass_over(&w));
    if (err || code == SQLITE_DONE || is_damage(code))
        return err;
    return journal_explain(j, code, "read records", f);
}

enum err journal_each_record(struct journal *j, const char *id, uint64_t after,
                             journal_record_visit *visit, void *ctx,
                             struct fault *f)
{
    return journal_each_whole(j, id, after, visit, ctx, NULL, f);
}

uint64_t journal_log_bytes(const struct journal *j)
{
    char wal[FILE_PATH_MAX + 8];
    struct stat st;

    assert(j->path[0]);
    snprintf(wal, sizeof(wal), "%s-wal", j->path);
    return stat(wal, &st) == 0 ? (uint64_t)st.st_size : 0;
}
