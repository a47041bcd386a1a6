/* Checkpoints, read: as a branch of any number of nodes and workers
 * (written in ps/disk/backup_io.c).
 *
 * Where workers, chunks and placement are those it was written with, a worker's
 * file is its shard. Elsewhere rows are taken one after the other by their
 * number in the table, or the row that it was where the table is placed: each
 * node reads the files that have rows of its own.
 */
#ifndef PS_RESTORE_IO_H
#define PS_RESTORE_IO_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "mltune/ps.h"

/* Reads a snapshot as the new kept branch @id, written by however many nodes
 * and workers: as mlt_ps_restore, but each node checks the files alone that it
 * has to read. Errors: ERR_FORMAT (any damage, by file and offset),
 * ERR_INVAL (it is of other tables), ERR_NOENT (a file that is not there),
 * ERR_UNSUPPORTED (a local table that nothing moves), ERR_IO, ERR_LIMIT,
 * ERR_EXIST, ERR_NOMEM; nothing changed. */
enum err ps_restore(struct mlt_ps *ps, branch_id id, const char *dir,
                    struct fault *f);

#endif
