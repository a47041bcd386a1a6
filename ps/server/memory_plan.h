/* What a node takes of memory, by part: for mlt_ps_plan, for the start, which
 * reserves it within memory_limit, and for the words of a refusal. Pure.
 */
#ifndef PS_MEMORY_PLAN_H
#define PS_MEMORY_PLAN_H

#include "mltune/ps.h"
#include "ps/rows/table.h"
#include "ps/server/shape.h"

#include <stdbool.h>
#include <stdint.h>

/* Bookkeeping of a chunk, rounded up. */
enum { MEMORY_CHUNK_EXTRA_BYTES = 128 };

/* Of rows that are touched, at most @touched of all, @row_bytes each: values
 * and index (ps/rows/slots.h); @small: dense from the start. */
uint64_t memory_of_rows(uint64_t rows, uint64_t row_bytes, double touched,
                        bool small);

/* Under barriers: what a shard keeps of the sums of all other nodes' blocks of
 * workers (ps/rows/sum_tree.h), for its part of the table. */
uint64_t memory_of_sums(const struct ps_shape *shape, const struct table *t,
                        double touched);

/* The only worker of one of several nodes reads the node's cache in place
 * where nothing is pushed: rows change there only when it asks anew. */
bool memory_has_copies(const struct mlt_ps *ps, const struct table *t);

/* Whether a worker notes of each row when it last had it; whether it keeps
 * anything of the rows that it reads. */
bool memory_notes_held(const struct mlt_ps *ps, const struct table *t);
bool memory_has_slots(const struct mlt_ps *ps, const struct table *t);

/* As mlt_ps_plan, without the branches: `branch` and the stores' part of
 * `fixed` are not filled in. */
void memory_plan_buffers(const struct mlt_ps *ps, double touched,
                         struct mlt_ps_memory *out);

/* Of what memory_plan_buffers fills in, what lies beside the stores. */
uint64_t memory_buffers(const struct mlt_ps_memory *m);

#endif
