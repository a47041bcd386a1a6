/* The journal's own state: for its own files alone, the writer and what opens
 * it (journal_io.c), the readers (journal_read_io.c, journal_list_io.c), and
 * the copy of its head (journal_head_io.c).
 */
#ifndef TUNER_JOURNAL_INTERNAL_IO_H
#define TUNER_JOURNAL_INTERNAL_IO_H

#include "base/file_io.h"
#include "tuner/history/journal_io.h"

#include <sqlite3.h>

/* Statements of a writer, prepared once. */
enum statement {
    BEGIN,
    APPEND,
    COMMIT,
    END_RUN,
    CONFIGURE,
    WEIGH,
    FORGET,
    STATEMENT_COUNT
};

/* A record that the next commit writes. */
struct unwritten {
    struct unwritten *next;
    uint64_t seq;
    int64_t wall_ns;
    size_t len;       /* of the JSON, which lies behind it */
    const char *kind; /* behind that */
};

struct journal {
    sqlite3 *db;
    struct unwritten *unwritten; /* the first; what follows, in order */
    struct unwritten **tail;     /* where the next one is linked */
    sqlite3_stmt *statement[STATEMENT_COUNT];
    sqlite3_stmt *listed_json; /* of the index; NULL until it is asked */
    int64_t run;               /* key of the run begun here; 0: none */
    uint64_t seq;              /* of its last record */
    uint64_t committed;        /* of the last one that other processes see */
    uint64_t durable;          /* of the last one that is on the disk */
    uint64_t first;            /* of the oldest one that is there still */
    uint64_t surplus;          /* of the last one that is needed no more */
    uint64_t bytes, keep;      /* that the records take; that they may */
    uint64_t added;            /* of them since the last commit */
    int64_t schema;            /* of the file; a reader changes it not */
    int busy_ms;
    bool open; /* a transaction is open */
    char path[FILE_PATH_MAX];
};

/* The meaning of SQLite's @code for the user: what to do is part of the text.
 */
enum err journal_explain(struct journal *j, int code, const char *doing,
                         struct fault *f);

/* The text in @column of the row that @s is at into *@out, borrowed until its
 * next step; NULL: it has none. SQLite may need memory to join what lies on
 * several pages. False: it had none, and *@out is NULL. */
bool journal_text(sqlite3_stmt *s, int column, const char **out);

/* The checksum of a record, of a run's entry. */
uint32_t journal_sum(int64_t run, uint64_t seq, int64_t wall_ns,
                     const char *kind, const char *json, size_t len);
uint32_t journal_run_sum(const char *id, const char *config);

/* The single number that @sql yields. Errors: as journal_explain. */
enum err journal_ask_number(struct journal *j, const char *sql, int64_t *out,
                            struct fault *f);

#endif
