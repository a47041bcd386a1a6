/* The journal: every run and every decision, on disk before it is acted on.
 *
 * One SQLite file STATE/mltune.db in write-ahead mode; a run's tuner is the
 * only writer of its records, several runs may share the file (writers wait for
 * each other, within limits). Records are appended in order and made
 * durable together by journal_commit: the control loop commits before it
 * performs what the records announce. Records are never changed. The oldest of
 * a run are deleted once a checkpoint (checkpoint_io.h) holds what they came
 * to, where they take more room than they may (journal_forget).
 *
 * Every record, and every run's configuration, has a checksum. A damaged record
 * is passed over and named (journal_damage); so is what stands on a page that
 * SQLite cannot read, while the rest is. Where the first pages are damaged the
 * journal does not open (ERR_FORMAT); cli/state/mend.h opens it all the same.
 *
 * One owner thread a journal. Every function that takes a fault says which
 * file, what SQLite found, and what to do about it.
 *
 * Errors of all: ERR_IO (disk full, read-only, failed write), ERR_BUSY (another
 * process holds the lock), ERR_FORMAT (damaged or not ours), ERR_VERSION
 * (written by a newer mltune), ERR_NOMEM.
 */
#ifndef TUNER_JOURNAL_IO_H
#define TUNER_JOURNAL_IO_H

#include "base/deadlines.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JOURNAL_SCHEMA = 2, /* user_version of the file; 1: without checksums
                         * and index, which a writer adds */
    JOURNAL_DAMAGE_MAX = 512,
    JOURNAL_BUSY_MS = DEADLINE_JOURNAL_BUSY_MS,
};

struct journal;

/* Opens STATE/mltune.db; for a writer it is made when missing. A reader changes
 * nothing, and also reads from a file system that cannot be written; an empty
 * file is ERR_NOENT for it: its maker was killed, or is not done yet.
 * @busy_ms: how long to wait for another writer, JOURNAL_BUSY_MS in programs.
 */
enum err journal_open(const char *state, bool writer, int busy_ms,
                      struct journal **out, struct fault *f);

/* Whether this process has a journal open. Closing any other descriptor of its
 * file would drop the locks that SQLite holds on it. */
bool journal_open_here(void);

/* Drops what is not committed. Accepts NULL. */
void journal_close(struct journal *j);

/* Registers run @id, durable on return; the records that follow are its own.
 * @config: JSON of the configuration in effect. Strings are copied. */
enum err journal_begin_run(struct journal *j, const char *id, const char *name,
                           const char *config, int64_t wall_ns,
                           struct fault *f);

/* Whether a run was begun, or goes on: also where that could not be flushed. */
bool journal_has_run(const struct journal *j);

/* Takes run @id up again, whose tuner is gone (the caller holds the lock of its
 * folder): the records that follow are its own. Errors: ERR_NOENT as well. */
enum err journal_take_run(struct journal *j, const char *id, struct fault *f);

/* Takes back the recorded end of run @id that was taken up, together with the
 * records since the last commit, and gives it the configuration @config (NULL:
 * it keeps its own), durable on return: either all of it is done, or nothing.
 */
enum err journal_reopen_run(struct journal *j, const char *id,
                            const char *config, struct fault *f);

/* Both; it keeps its configuration. */
enum err journal_continue_run(struct journal *j, const char *id,
                              struct fault *f);

/* Adds one record to the run begun here: @kind a short word, @json one object,
 * @len bytes. It is kept in memory until the commit, which writes all at once:
 * between the two nobody is kept waiting. Errors: ERR_NOMEM. */
enum err journal_append(struct journal *j, const char *kind, const char *json,
                        size_t len, int64_t wall_ns, struct fault *f);

/* Makes the records so far visible to readers and lets other writers in; with
 * @durable they are on the disk on return, whatever happens to the machine.
 * After ERR_BUSY they are there still, and the call may be repeated. After any
 * other error, here or in append, the records since the last commit are lost
 * and the run cannot go on. Cost: a flush where something is not durable yet.
 */
enum err journal_commit(struct journal *j, bool durable, struct fault *f);

/* The number of the last record of the run begun here. */
uint64_t journal_last(const struct journal *j);

/* The records that follow have larger numbers than @number: those up to it are
 * gone, or of no use. */
void journal_skip(struct journal *j, uint64_t number);

/* Bytes that the records of the run begun here take in the file, about. */
uint64_t journal_bytes(const struct journal *j);

/* Bytes of the write-ahead log, which all runs of the folder share: a few MiB,
 * unless somebody reads without end. 0: it has none, or cannot be looked at. */
uint64_t journal_log_bytes(const struct journal *j);

/* Makes the log empty, though others read one after another so that it never
 * gets free: who begins to read from here on is not waited for. Waits for the
 * others as for a writer (journal_open), with writers waiting; where one of
 * them still reads then, the log stays as it is, which is no error. */
enum err journal_fold_log(struct journal *j, struct fault *f);

/* Records up to @number are needed no more. From here on the commits that
 * follow delete the oldest of them, at least twice the bytes that they add,
 * while all take more than @keep bytes. */
void journal_forget(struct journal *j, uint64_t number, uint64_t keep);

/* The same at once, for who cannot wait for further commits; commits. Cost:
 * some 5 us a record. */
enum err journal_trim(struct journal *j, struct fault *f);

/* Records the run's end, durable on return. @result: the JSON of `run --json`,
 * or NULL. */
enum err journal_end_run(struct journal *j, const char *status,
                         const char *reason, const char *result,
                         int64_t wall_ns, struct fault *f);

/* Takes run @id and all its records out, durable on return; one that is not
 * there is fine. Nothing has begun here. The newest records go first, a few
 * thousand at a time, so that others who write never wait for long, and a run
 * of which a part is left can be read and removed still. Later runs have larger
 * numbers (journal_each_new) than *@newest (may be NULL), the largest left. */
enum err journal_remove_run(struct journal *j, const char *id, int64_t *newest,
                            struct fault *f);

/* One run as stored; borrowed, valid during the visit. */
struct journal_run {
    const char *id, *name, *config;
    int64_t began_ns;   /* wall clock, since the epoch */
    const char *status; /* NULL: no end was recorded */
    const char *reason; /* NULL with status */
    const char *result; /* NULL where there is none */
    int64_t ended_ns;   /* 0 with status */
    int64_t last_ns;    /* wall time of its last record, or began_ns */
    uint64_t records;   /* number of the last one */
    bool damaged;       /* id or configuration are not what was written */
};

struct journal_record {
    uint64_t seq; /* from 1; without gaps but for those deleted or damaged */
    int64_t wall_ns;
    const char *kind, *json;
    size_t len; /* of json */
};

/* Visitors end the walk by returning an error, which is passed on. */
typedef enum err journal_run_visit(void *ctx, const struct journal_run *run);
typedef enum err journal_record_visit(void *ctx,
                                      const struct journal_record *record);

/* All runs, newest first. */
enum err journal_each_run(struct journal *j, journal_run_visit *visit,
                          void *ctx, struct fault *f);

/* The run called @word: its id, else the newest of that name, else the only one
 * whose id begins so. ERR_NOENT none; ERR_INVAL more than one begins so. */
enum err journal_find_run(struct journal *j, const char *word,
                          journal_run_visit *visit, void *ctx, struct fault *f);

/* Ids of the runs that were registered after number *@after (0: all), oldest
 * first; *@after becomes the newest one's. */
typedef enum err journal_id_visit(void *ctx, const char *id);
enum err journal_each_new(struct journal *j, int64_t *after,
                          journal_id_visit *visit, void *ctx, struct fault *f);

/* A run whose end is recorded; borrowed, valid during the visit. */
struct journal_ended {
    const char *id, *status;
    int64_t ended_ns; /* wall clock, since the epoch */
};

/* All of them, in no order. Cost: no read of what they did, nor of their
 * configurations. */
typedef enum err journal_ended_visit(void *ctx,
                                     const struct journal_ended *run);
enum err journal_each_ended(struct journal *j, journal_ended_visit *visit,
                            void *ctx, struct fault *f);

/* A number that is another one whenever another connection has changed the
 * file since the last call. Cost: no read of the file but of its index. */
enum err journal_version(struct journal *j, int64_t *out, struct fault *f);

/* What a walk over records passed over. */
struct journal_damage {
    uint64_t records;              /* how many, at least */
    uint64_t first;                /* number of the first; 0: none */
    char text[JOURNAL_DAMAGE_MAX]; /* names it: file, record, byte; "" */
};

/* Records of run @id with seq > @after, in order, that are whole. @damage (may
 * be NULL) is about the others. */
enum err journal_each_whole(struct journal *j, const char *id, uint64_t after,
                            journal_record_visit *visit, void *ctx,
                            struct journal_damage *damage, struct fault *f);

/* The same, for who does not ask about the others. */
enum err journal_each_record(struct journal *j, const char *id, uint64_t after,
                             journal_record_visit *visit, void *ctx,
                             struct fault *f);

#endif
