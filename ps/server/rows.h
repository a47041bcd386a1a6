/* Rows as the control thread sees them: of any branch, between runs; and, by
 * the workers that have them, in a run. (Public: ps_read_part and its like, in
 * ps/server/ps.h.) */
#ifndef PS_ROWS_H
#define PS_ROWS_H

#include "mltune/ps.h"
#include "ps/server/view.h"

#include <stdint.h>

/* Where a row of a shared or exclusive table lies; in this node. */
struct place {
    struct mlt_worker *shard;
    uint64_t chunk;  /* of the shard's store */
    uint64_t offset; /* bytes in the chunk */
};
struct place place_of(const struct mlt_ps *ps, mlt_table table, uint64_t row);

#endif
