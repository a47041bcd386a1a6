/* A glance: rows that are read while workers run.
 *
 * The control thread begins one; each worker reads those of the rows that its
 * shard has between two of its clocks, so that no row is torn and no worker
 * waits; when all have, a descriptor is readable. One at a time. No locks: what
 * is asked for is handed over by an atomic number, what was read by a count.
 *
 *   control   begin ──────────────────────► (readable) end
 *   worker 0  │ clock │ take │ clock │
 *   worker 1    │ clock    │ take │ clock
 */
#ifndef PS_GLANCE_IO_H
#define PS_GLANCE_IO_H

#include "base/fault.h"
#include "ps/server/ps.h"

#include <stdbool.h>

struct glance;

/* For @workers workers of one node. Errors: ERR_NOMEM, ERR_IO. */
enum err glance_open(unsigned workers, struct glance **out, struct fault *f);
/* Accepts NULL. */
void glance_close(struct glance *g);

/* ---- control thread ------------------------------------------------------ */

/* Workers run. @r (checked: ps_read_part would read it, or nulls of it are
 * other nodes') and @out[count * values] stay until glance_end. */
void glance_begin(struct glance *g, const struct ps_rows *r, double out[]);

/* Readable once all workers have read. */
int glance_fd(const struct glance *g);

/* All workers have read (true), or no worker runs any more and some have not
 * (false): what is in @out is then of no use. */
bool glance_end(struct glance *g);

/* ---- workers ------------------------------------------------------------- */

/* Between two clocks of @w. One load where nothing is asked for. */
void glance_take(struct glance *g, struct mlt_worker *w);

#endif
