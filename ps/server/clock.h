/* Clocks of the workers: when one ends, and who may read meanwhile. This is
 * where staleness is enforced in one process: a read waits in clock_wait_read
 * until the consistency model (ps/rows/consistency.h) grants it. */
#ifndef PS_CLOCK_H
#define PS_CLOCK_H

#include "ps/rows/consistency.h"
#include "ps/server/view.h"

/* Ends a clock of @table (or WORKER_ALL_TABLES). 0 or the run's error. */
int clock_end(struct mlt_worker *w, mlt_table table);

/* A batch of the worker's is over, waited for or not. */
void clock_end_batch(struct mlt_worker *w, const struct get_batch *b);

/* The worker's run is over. */
void clock_finish(struct mlt_worker *w);

/* Waits until the model lets @w read @v at its clock; 0 or the run's error. */
int clock_wait_read(struct mlt_worker *w, struct worker_view *v);

/* Clocks that @w has ended of @table, or of all tables (WORKER_ALL_TABLES). */
int64_t clock_of(const struct mlt_worker *w, mlt_table table);

/* All workers as they stand, by their clocks of @table: @out[workers]. */
void clock_status(const struct mlt_ps *ps, mlt_table table,
                  struct worker_status out[]);

/* @m has granted a read of @v by what @view says: what a copy then holds. */
void clock_grant(const struct consistency_ops *m,
                 const struct consistency_view *view, struct worker_view *v);

/* Between runs: forgets pending updates and granted reads, moves all clocks to
 * a number that no copy reaches. */
void clock_begin_run(struct mlt_ps *ps);

#endif
