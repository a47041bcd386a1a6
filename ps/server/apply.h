/* Updates applied in one process: sums of workers' buffers become rows. */
#ifndef PS_APPLY_H
#define PS_APPLY_H

#include "ps/server/view.h"

/* Takes what all workers' buffers hold for rows of @w's shard, adds in the
 * order of the workers, and applies the rule once a row; no other worker may
 * touch its buffer meanwhile. */
void apply_own_part(struct mlt_worker *w, mlt_table table);

/* Applies @w's own buffer to all shards, row by row under their stripes. */
void apply_everywhere(struct mlt_worker *w, mlt_table table);

/* Takes @w's copy of @row, to its slot, under its stripe: never torn, and of
 * one moment with the gradient sum where the rule revises. */
void apply_read(struct mlt_worker *w, struct worker_view *v, uint64_t row,
                uint64_t slot);

/* The lock of a row of a shared table, @row its number, under the models
 * without barriers. */
struct stripe *apply_stripe(struct mlt_ps *ps, mlt_table table, uint64_t row);

#endif
