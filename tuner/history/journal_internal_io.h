/* The journal's own state: for its two files alone, the writer and what opens
 * it (journal_io.c), and the reader (journal_read_io.c).
 */
#ifndef TUNER_JOURNAL_INTERNAL_IO_H
#define TUNER_JOURNAL_INTERNAL_IO_H

#include "base/file_io.h"
#include "tuner/history/journal_io.h"

#include <sqlite3.h>

/* Statements of a writer, prepared once. */
enum statement { BEGIN, APPEND, COMMIT, END_RUN, CONFIGURE, STATEMENT_COUNT };

struct journal {
    sqlite3 *db;
    sqlite3_stmt *statement[STATEMENT_COUNT];
    int64_t run;        /* key of the run begun here; 0: none */
    uint64_t seq;       /* of its last record */
    uint64_t committed; /* of the last one that other processes see */
    uint64_t durable;   /* of the last one that is on the disk */
    int busy_ms;
    bool open; /* a transaction is open */
    char path[FILE_PATH_MAX];
};

/* The meaning of SQLite's @code for the user: what to do is part of the text.
 */
enum err journal_explain(struct journal *j, int code, const char *doing,
                         struct fault *f);

/* The single number that @sql yields. Errors: as journal_explain. */
enum err journal_ask_number(struct journal *j, const char *sql, int64_t *out,
                            struct fault *f);

#endif
