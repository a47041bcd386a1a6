/* Own sums: what a node has sent to a shard and does not know to be applied, of
 * one table with MLT_READ_MY_WRITES, under a model without barriers.
 *
 * A sum that leaves is added to the node's copy of its row at once, so that its
 * workers read it. Before the shard sends rows, it says how many frames of this
 * node with sums (FRAME_UPDATE) it has applied (FRAME_APPLIED): a copy that
 * comes then holds these. Those that left later are added to it once more, from
 * here. The link keeps order, so each sum is in a copy once.
 *
 * What is applied is forgotten here, since all rows that come later hold it.
 * There is room for so many sums; with none left, sums do not leave until the
 * shard has said more. It never waits for anything before it does.
 *
 * A ring of sums in the order in which they left. Each names the one before of
 * its row; whoever keeps the rows' copies notes beside each the latest. Room is
 * reserved as addresses. One owner. Pure.
 */
#ifndef PS_OWN_SUMS_H
#define PS_OWN_SUMS_H

#include "base/err.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a table and shard, at most so many bytes of sums, or one. */
#define OWN_SUMS_BYTES ((uint64_t)256 << 10)

/* What else is kept of each. */
enum { OWN_SUMS_EACH = 2 * sizeof(uint64_t) + sizeof(uint32_t) };

/* Whether a node keeps its sums of @t, under a model with barriers or without.
 */
bool own_sums_are_kept(const struct table *t, bool barrier);

/* Sums that there is room for, of a shard's part of @count rows, in a node with
 * @workers: no more than all of them add to all rows in a clock. */
uint32_t own_sums_room(const struct table *t, uint64_t count, uint32_t workers);

/* Bytes that so many take at most. */
uint64_t own_sums_bytes(const struct table *t, uint64_t room);

struct own_sums {
    uint64_t *frame;  /* [room] number of the frame it left with: 1, 2, ... */
    uint64_t *row;    /* [room] */
    uint32_t *before; /* [room] the row's one before, plus 1, or older; or 0 */
    unsigned char *sum; /* [room * value_bytes] */
    uint32_t value_bytes;
    uint32_t room, head, n;
};

/* @room >= 1. Errors: ERR_NOMEM. */
enum err own_sums_init(struct own_sums *s, uint32_t room, uint32_t value_bytes);
/* Accepts a zeroed one. */
void own_sums_deinit(struct own_sums *s);

static inline uint32_t own_sums_free(const struct own_sums *s)
{
    return s->room - s->n;
}

/* A sum leaves with frame @frame, not below any before. There is room for it.
 * @last: the row's latest, as this gave it; 0: none. Returns the new one. */
uint32_t own_sums_add(struct own_sums *s, uint64_t frame, uint64_t row,
                      uint32_t last, const void *sum);

/* Frames up to @through are applied. */
void own_sums_applied(struct own_sums *s, uint64_t through);

/* Adds to a row's values what left in frames after @through, which are not
 * applied. @last as above; it may be long forgotten. */
void own_sums_put(const struct own_sums *s, const struct table *t, uint64_t row,
                  uint32_t last, uint64_t through, void *values);

#endif
