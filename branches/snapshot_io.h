/* Snapshot files: one kept branch of one store, on disk.
 *
 * The owner forks a BRANCH_KEPT branch and makes a job of it; any other thread
 * writes the job while the owner trains on; the owner drops the branch when the
 * job is done. A file is written as PATH.tmp, flushed to the disk, and renamed,
 * the folder flushed too: under its name there is a whole file or the older
 * one. Chunks that nobody has written are left out.
 *
 * Everything read is checked before it is believed (the layout of a file is in
 * branches/snapshot_format.h): any damage, another byte order and other tables
 * are refused as ERR_FORMAT, another version as ERR_VERSION, with the file's
 * name and the offset of the byte or block in the fault.
 */
#ifndef BRANCHES_SNAPSHOT_IO_H
#define BRANCHES_SNAPSHOT_IO_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "branches/snapshot_format.h"
#include "branches/store.h"

#include <stddef.h>
#include <stdint.h>

struct disk_ops; /* base/disk_io.h */

/* ---- writing ------------------------------------------------------------- */

struct snapshot_job;

/* A job that writes @branch (BRANCH_KEPT, asserted) of @s with the rows
 * that its tables have now. Owner's thread; @labels copied. The branch must not
 * be dropped before the job is freed. Cost: its labels and a few words a table.
 * Errors: ERR_NOENT, ERR_NOMEM, ERR_INVAL (a label over SNAPSHOT_BLOB_MAX). */
enum err snapshot_job_new(const struct store *s, branch_id branch,
                          const struct snapshot_labels *labels,
                          struct snapshot_job **out);
void snapshot_job_free(struct snapshot_job *job);

/* Writes the job to @path. Any thread; blocks. On error no PATH.tmp is left and
 * what was under @path before is untouched, but for a folder that could not be
 * flushed: then the new file, whole, is under @path already. @ops NULL: the
 * system. @bytes (may be NULL): the file's length.
 * Errors: ERR_IO with operation, path and reason in @f; ERR_CANCELED;
 * ERR_NOMEM. */
enum err snapshot_job_write(struct snapshot_job *job, const char *path,
                            const struct disk_ops *ops, uint64_t *bytes,
                            struct fault *f);

/* The seal of the file that was written: see snapshot_seal. */
uint32_t snapshot_job_seal(const struct snapshot_job *job);

/* Lets a snapshot_job_write in another thread end soon (within a block) with
 * ERR_CANCELED. */
void snapshot_job_cancel(struct snapshot_job *job);

/* ---- reading ------------------------------------------------------------- */

struct snapshot_file;

/* Opens @path and checks its length, its header and its list of chunks; what is
 * allocated for them is in proportion to the file's own length. @ops NULL: the
 * system. Errors: ERR_NOENT, ERR_IO, ERR_NOMEM, ERR_FORMAT, ERR_VERSION. */
enum err snapshot_open(const char *path, const struct disk_ops *ops,
                       struct snapshot_file **out, struct fault *f);
void snapshot_close(struct snapshot_file *file);

/* Borrowed from the file; .run and .meta of the writer. */
const struct snapshot_labels *snapshot_labels(const struct snapshot_file *file);
uint32_t snapshot_tables(const struct snapshot_file *file);

/* Layout of table @t < snapshot_tables; initial_row is NULL. */
void snapshot_layout(const struct snapshot_file *file, uint32_t t,
                     struct store_layout *out);

/* Reads and checks the rest of the file. Errors: ERR_IO, ERR_FORMAT. Once for
 * each open file, as snapshot_restore. */
enum err snapshot_verify(struct snapshot_file *file, struct fault *f);

/* As snapshot_verify, and hands on each chunk that the file has: rows @first ..
 * @first + @rows - 1 of table @table, as they lie in a chunk; borrowed for the
 * call. Nothing may be believed before all of it is read: a block's checksum
 * comes after its chunks. What @take returns ends the reading, if it is not
 * ERR_OK. Errors: ERR_NOMEM, too. */
typedef enum err snapshot_take(void *arg, uint32_t table, uint64_t first,
                               uint64_t rows, const unsigned char *bytes);
enum err snapshot_read(struct snapshot_file *file, snapshot_take *take,
                       void *arg, struct fault *f);

/* The file's last checksum, which stands for all of it, since each is seeded
 * with the one before. After verify, read or restore. */
uint32_t snapshot_seal(const struct snapshot_file *file);

/* Makes the file's state the new BRANCH_TRAINING branch @id of @s, bit for bit
 * (store_seal then makes it a kept one). The tables of @s must be those of the
 * file, rows and initial rows included. Owner's thread; another branch may be
 * active and stays so. On error the store is as it was. Errors: ERR_FORMAT
 * (other tables, too), ERR_IO, and those of store_create. */
enum err snapshot_restore(struct snapshot_file *file, struct store *s,
                          branch_id id, struct fault *f);

#endif
