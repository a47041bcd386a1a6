/* A checkpoint: a run as of one of its records, in one block of bytes.
 *
 * It holds what a run begins with (a second copy of configuration and folders)
 * and the history up to a record, each under a checksum, so that either is read
 * where the other is damaged. Pure; its files are checkpoint_io.h's.
 *
 *   "mltunecp", version, then parts: tag, checksum of all that follows in it,
 *   length, bytes; numbers little-endian, of 32 bits, lengths of 64
 */
#ifndef TUNER_CHECKPOINT_H
#define TUNER_CHECKPOINT_H

#include "tuner/history/history_pack.h"

/* What a run begins with. Texts owned (mem_*); NULL: "". */
struct checkpoint_start {
    char *run, *name;
    char *config;     /* JSON, as in the journal */
    char *folder;     /* where the configuration's paths start */
    char *out;        /* of the model; "": the run's own folder */
    int64_t began_ns; /* wall clock, since the epoch */
};

struct checkpoint {
    struct checkpoint_start start; /* where has_start */
    struct history history;        /* where has_history */
    bool has_start, has_history;
};

/* Adds the bytes to @out. @h NULL: no history. Errors: ERR_NOMEM, ERR_INVAL. */
enum err checkpoint_encode(const struct checkpoint_start *start,
                           const struct history *h, enum history_pack_how how,
                           struct text *out);

/* What is whole of @data[@len]. On success, or ERR_FORMAT, the caller owns @out
 * (checkpoint_deinit). Errors: ERR_FORMAT (a part is damaged or missing; @f
 * says which, at which byte), ERR_VERSION, ERR_NOMEM. */
enum err checkpoint_decode(const void *data, size_t len, struct checkpoint *out,
                           struct fault *f);

/* Accept zeroed ones. */
void checkpoint_start_deinit(struct checkpoint_start *s);
void checkpoint_deinit(struct checkpoint *c);

#endif
