/* A checkpoint, opened by itself: a parameter server with the tables that its
 * manifest says, without the application that declared them. For who wants the
 * rows and does not train (`mltune save`).
 */
#ifndef PS_REOPEN_IO_H
#define PS_REOPEN_IO_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "mltune/ps.h"

/* A server of one node, of as many workers as wrote the checkpoint @dir over
 * all nodes, with that as its kept branch @id (not 0). *@out is the caller's
 * (mlt_ps_free). @limit_bytes: as mlt_ps_options.memory_limit. Errors: those of
 * ps_restore and of mlt_ps_table. */
enum err ps_reopen(const char *dir, branch_id id, uint64_t limit_bytes,
                   struct mlt_ps **out, struct fault *f);

#endif
