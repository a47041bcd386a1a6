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
#ifndef PS_LIVE_READ_IO_H
#define PS_LIVE_READ_IO_H

#include "base/fault.h"
#include "ps/server/ps.h"

#include <stdbool.h>

struct live_read;

/* For @workers workers of one node. Errors: ERR_NOMEM, ERR_IO. */
enum err live_read_open(unsigned workers, struct live_read **out,
                        struct fault *f);
/* Accepts NULL. */
void live_read_close(struct live_read *g);

/* ---- control thread ------------------------------------------------------ */

/* Workers run. @r (checked: ps_read_part would read it, or nulls of it are
 * other nodes') and @out[count * values] stay until live_read_end. */
void live_read_begin(struct live_read *g, const struct ps_rows *r,
                     double out[]);

/* Readable once all workers have read. */
int live_read_fd(const struct live_read *g);

/* All workers have read (true), or no worker runs any more and some have not
 * (false): what is in @out is then of no use. */
bool live_read_end(struct live_read *g);

/* ---- workers ------------------------------------------------------------- */

/* Between two clocks of @w. One load where nothing is asked for. */
void live_read_take(struct live_read *g, struct mlt_worker *w);

#endif
