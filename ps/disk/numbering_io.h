/* A checkpoint's rows-W files (ps/disk/numbering.h). */
#ifndef PS_NUMBERING_IO_H
#define PS_NUMBERING_IO_H

#include "ps/disk/numbering.h"

/* Writes worker @worker's to @path, whole, flushed to the disk, or not at all;
 * its seal into @m. Errors: ERR_IO, ERR_NOMEM. */
enum err numbering_store(struct manifest *m, const struct table *table,
                         uint32_t worker, const char *path, struct fault *f);

/* Reads those of all workers of @m, the checkpoint in @dir, into a zeroed @n;
 * none where no table is placed. Errors: ERR_NOENT, ERR_IO, ERR_NOMEM, and
 * those of numbering_take; @n is to be freed all the same. */
enum err numbering_load(struct numbering *n, const struct manifest *m,
                        const char *dir, struct fault *f);

#endif
