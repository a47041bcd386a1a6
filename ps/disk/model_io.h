/* The model as .npy files: one a saved table, values without slots. */
#ifndef PS_MODEL_IO_H
#define PS_MODEL_IO_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "mltune/ps.h"

#include <stdint.h>

/* Writes every saved table of @branch as DIR/NAME.npy (values without slots,
 * shape [rows, width]); the folder exists. A file appears under its name only
 * when it is whole. Of several nodes each writes its rows into the same files,
 * which are whole when all have. @bytes (may be NULL): written. Errors: ERR_IO,
 * ERR_NOENT, ERR_NOMEM. */
enum err ps_save(struct mlt_ps *ps, branch_id branch, const char *dir,
                 uint64_t *bytes, struct fault *f);

/* Fills every saved table of the active branch from DIR/NAME.npy; slots become
 * zero. Errors: ERR_IO, ERR_FORMAT (damaged, other type or shape; both named
 * in @f), ERR_INVAL (a kept branch is active), ERR_NOMEM. After an error the
 * branch holds a mixture. */
enum err ps_load(struct mlt_ps *ps, const char *dir, struct fault *f);

#endif
