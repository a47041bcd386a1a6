/* The index of a journal: what is shown of runs that have ended, as it was
 * shown last, so that a list of many runs need not read what each of them did.
 *
 * An entry holds until the run goes on or is removed. A run without one is read
 * itself: one that lives, was killed, or ended before there was an index. So is
 * one whose entry is damaged: each text has a checksum with it.
 * Errors: those of the journal.
 */
#ifndef TUNER_JOURNAL_LIST_IO_H
#define TUNER_JOURNAL_LIST_IO_H

#include "tuner/history/journal_io.h"

/* Borrowed, valid during the visit. */
struct journal_listed {
    const char *id, *status;
    const char *cells; /* its row of `mltune ls`, separated by tabs */
    const char *json;  /* its line of `mltune ls --json`; NULL where visited */
    int64_t began_ns;
    int64_t key;  /* where visited: of journal_listed_json, journal_listed_id */
    bool damaged; /* where visited: only @began_ns and @key are known */
};

/* Run @listed->id, whose end is recorded, is shown so from now on. One that has
 * no end, or is not there, is left alone. Not durable: what is lost is made
 * anew. For a writer. */
enum err journal_list_put(struct journal *j,
                          const struct journal_listed *listed, struct fault *f);

/* What is known of run @id is wrong from now on. For a writer. */
enum err journal_unlist(struct journal *j, const char *id, struct fault *f);

/* All entries, newest first, without their JSON. */
typedef enum err journal_listed_visit(void *ctx,
                                      const struct journal_listed *listed);
enum err journal_each_listed(struct journal *j, journal_listed_visit *visit,
                             void *ctx, struct fault *f);

/* The JSON of entry @key: @out, the caller's. Errors: ERR_NOENT
 * it is gone, ERR_FORMAT it is damaged, of which nothing is said. Cost: a
 * look-up. */
enum err journal_listed_json(struct journal *j, int64_t key, char **out,
                             struct fault *f);

/* Id of the run of entry @key: @out, the caller's. Errors: ERR_NOENT, of which
 * nothing is said. */
enum err journal_listed_id(struct journal *j, int64_t key, char **out,
                           struct fault *f);

/* Ids of the runs without an entry, newest first. Cost: no read of entries
 * where all have one. */
enum err journal_each_unlisted(struct journal *j, journal_id_visit *visit,
                               void *ctx, struct fault *f);

#endif
