/* Checkpoints, written: a folder with one file a shard and a manifest, by a
 * thread of its own while training goes on (read in ps/disk/restore_io.c).
 *
 * A node's folder is written as DIR.tmp and renamed when all its files are
 * whole and on the disk, its manifest last. Of several nodes each writes its
 * own folder in DIR; who then finds those of all others there joins their
 * manifests into the one of the checkpoint. The last one to finish finds them
 * all, so nobody waits for anybody; if two do, they write the same. What a
 * killed run left in DIR is no part of it: its owner replaces it.
 */
#ifndef PS_BACKUP_IO_H
#define PS_BACKUP_IO_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "mltune/ps.h"

#include <stdbool.h>
#include <stdint.h>

/* Numbers the next snapshot. Before anything of it that may fail on one node
 * alone, the fork above all: by number the nodes know what belongs together. */
void ps_snapshot_count(struct mlt_ps *ps);

/* Starts a background thread that writes the kept @branch into the new folder
 * @dir (of several nodes: @dir/node-K, in @dir that all share; one file a
 * shard; written as DIR.tmp and renamed: complete or not there) and returns.
 * The manifest in @dir comes last (ps/disk/manifest.h). Of several nodes @dir
 * may be there without a manifest: the part that a killed run left is replaced.
 * Training goes on; the branch cannot be dropped until ps_snapshot_end. One
 * snapshot at a time. Errors: ERR_BUSY, ERR_NOENT, ERR_INVAL (not kept),
 * ERR_EXIST (@dir; of several nodes: @dir/manifest.json, or this node's part of
 * this same run), ERR_IO, ERR_NOMEM. */
enum err ps_snapshot_begin(struct mlt_ps *ps, branch_id branch, const char *dir,
                           struct fault *f);

/* Any time, also during a run: whether the thread has finished. */
bool ps_snapshot_done(const struct mlt_ps *ps);

/* Readable (poll) once it has finished; -1 without a snapshot begun. */
int ps_snapshot_fd(const struct mlt_ps *ps);

/* Lets the thread end soon, with ERR_CANCELED and nothing left on the disk. Any
 * time; to be followed by ps_snapshot_end. mlt_ps_free does both. */
void ps_snapshot_cancel(struct mlt_ps *ps);

/* Waits for the thread and gives its result; also during a run. @bytes (may be
 * NULL): written. Errors: of the writing, in words in @f; ERR_NOENT without a
 * snapshot begun. */
enum err ps_snapshot_end(struct mlt_ps *ps, uint64_t *bytes, struct fault *f);

#endif
