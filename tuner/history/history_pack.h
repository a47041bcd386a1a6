/* A history as bytes, and back: the fold of a run's records up to one of them,
 * so that whoever goes on from there need not read those before.
 *
 * What is read back folds on to the same as what was written: bit for bit, but
 * for HISTORY_PACK_FEW. Members are written by name (base/json/fields_pack.h),
 * so that a later program reads them. The bytes have no checksum of their own
 * (checkpoint.h has). Pure.
 *
 * Cost: some 10 ms and 5 MB for the longest run (tuner/history/history.h bounds
 * it), 10 kB for a short one.
 */
#ifndef TUNER_HISTORY_PACK_H
#define TUNER_HISTORY_PACK_H

#include "base/text.h"
#include "tuner/history/history.h"

enum history_pack_how {
    HISTORY_PACK_ALL,
    HISTORY_PACK_FEW /* without the points of freed branches */
};

/* Adds the bytes of @h to @out. Errors: ERR_NOMEM, ERR_INVAL (a member is out
 * of its bounds). */
enum err history_pack(const struct history *h, enum history_pack_how how,
                      struct text *out);

/* The history of @data[@len]; on success the caller owns @out
 * (history_deinit). Errors: ERR_FORMAT (@f says at which byte), ERR_VERSION (a
 * later program's), ERR_NOMEM. */
enum err history_unpack(const void *data, size_t len, struct history *out,
                        struct fault *f);

#endif
