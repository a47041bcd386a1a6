/* What is whole of a damaged journal goes into a new one: for a new state
 * folder (mltune recover), or for the same one (mend.h).
 *
 * The checkpoint of a run and its records in the old journal are read together;
 * where the journal does not give a run, its last checkpoint does.
 */
#ifndef CLI_SALVAGE_H
#define CLI_SALVAGE_H

#include "cli/state/replay.h"

struct salvage {
    const char *from;    /* the state folder whose runs they are, absolute */
    struct journal *old; /* owned; NULL: it cannot be read */
    struct journal *new; /* owned */
    char (*id)[RUN_ID_MAX + 1]; /* [runs] owned; the newest first */
    size_t runs, capacity;
    unsigned losses; /* told so far */
    /* What is not whole is told. NULL: nobody hears it. */
    void (*tell)(void *ctx, const char *what);
    /* Changes a record, such as the places of files; NULL: none is changed.
     * Errors end the salvage. */
    enum err (*change)(void *ctx, const char *kind, json_t *record);
    void *ctx;
    unsigned pending; /* records that are not committed */
};

/* Something is not whole. */
void salvage_lose(struct salvage *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The folder @path could not be opened, with @error (errno). One that is not
 * there has nothing; one that cannot be read is told, and lost. Errors: where
 * it could be read another time, ERR_NOMEM (memory), ERR_IO (descriptors). */
enum err salvage_unlisted(struct salvage *s, const char *path, int error,
                          struct fault *f);

/* Lists the runs: those of s->old, which is closed where it cannot be read, and
 * those that have a folder only. Errors: ERR_NOMEM. */
enum err salvage_list(struct salvage *s, struct fault *f);

/* All that is known of run @id; the caller owns @out. Errors: ERR_NOENT nothing
 * is, which is told; ERR_NOMEM. */
enum err salvage_find(struct salvage *s, const char *id, struct replayed *out,
                      struct fault *f);

/* Opens the journal in the folder @to for the next run; a handle writes one. */
enum err salvage_open(struct salvage *s, const char *to, struct fault *f);

/* Run @run as it was, into s->new: its configuration @config, its records, its
 * end with @run's result. What the records came to is in its checkpoint; they
 * themselves are for who exports them. Errors: those of the journal. */
enum err salvage_run(struct salvage *s, const struct replayed *run,
                     const char *config, struct fault *f);

void salvage_deinit(struct salvage *s);

#endif
