/* The start: memory planned and taken, one store a worker, the first branch.
 *
 * The limit covers everything whose size depends on the tables: update buffers,
 * copies, chunk pointers, and the stores. What the buffers leave is divided
 * among the shards so that each can hold as many branches as the others.
 */
#ifndef PS_START_H
#define PS_START_H

#include "mltune/ps.h"

/* Back to what was before mlt_ps_start. */
void start_undo(struct mlt_ps *ps);

#endif
