/* The files of a run's checkpoints: STATE/runs/ID/checkpoint, and the one
 * before it, checkpoint.old.
 *
 * One is written when a run begins, so that nothing without which it cannot
 * start is there once only; after each snapshot, so that what a resume needs is
 * beside the snapshot; whenever the journal has grown by a part of its limit,
 * and at the end. A reader takes the newest that is whole, and goes on with the
 * journal's records after it. The journal keeps those after the checkpoint
 * before the last, so that a damaged one costs nothing.
 *
 * A crash at any moment leaves one of them whole, and the records after it.
 */
#ifndef TUNER_CHECKPOINT_IO_H
#define TUNER_CHECKPOINT_IO_H

#include "base/file_io.h"
#include "tuner/history/checkpoint.h"

/* Writes the checkpoint of the run's folder @run_path, on the disk on return;
 * the one before it stays. *@bytes (may be NULL): how many it takes. Errors:
 * ERR_LIMIT, ERR_NOMEM, ERR_INVAL: both files are as they were. ERR_IO: the one
 * that was the newest can be read still, under either name, and the one before
 * it may be gone; or the new one is there, where its folder alone could not be
 * flushed. The next write is as any. */
enum err checkpoint_write(const char *run_path,
                          const struct checkpoint_start *start,
                          const struct history *h, enum history_pack_how how,
                          size_t *bytes, struct fault *f);

/* The same where the newest is damaged: the one before it stays, that is not
 * kept.
 */
enum err checkpoint_mend(const char *run_path,
                         const struct checkpoint_start *start,
                         const struct history *h, struct fault *f);

/* What is whole of the newest, each part of the one before where it is not; the
 * caller owns @out (checkpoint_deinit). Where a file is damaged @told (may be
 * NULL) names it, with the byte; "" else. Errors: ERR_NOENT (there is none, as
 * of runs that are older), ERR_FORMAT (of none any part is whole), ERR_VERSION,
 * ERR_IO, ERR_NOMEM. */
enum err checkpoint_read(const char *run_path, struct checkpoint *out,
                         struct fault *told, struct fault *f);

#endif
