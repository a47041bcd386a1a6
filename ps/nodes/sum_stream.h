/* Streams of sums: what a block of workers has added to one table in a clock,
 * on its way to a shard, under barriers.
 *
 * Sums leave in the order of rows, and each frame says below which row all have
 * left. So a shard applies a row as soon as every block has passed it, and
 * keeps only what the others are ahead of the slowest. How far that is, the
 * shard limits: of a stream at most sum_stream_rows sums may have left that it
 * has not said to have taken.
 *
 * Nobody waits for ever. Let a sender wait for the shard to take sums of a
 * table: that has taken all below the row that the slowest block has passed, so
 * it waits for that block. All of what that sent is taken, and said to be, as
 * half of the limit is (at least one): so its way is free. What may keep its
 * sender is another table of the same clock, before this one: all senders go
 * through the tables in one order, so with the first table that anybody waits
 * at, this ends. Reads and clocks of others pass a sender that waits. Two
 * things are not in that order. Tables with MLT_OWN_CLOCK, which workers may
 * end in any: they are no streams. And clocks of single tables without
 * (mlt_clock_table): these leave whatever the limit, and the shard that hears
 * of one limits nobody in that slice any more.
 *
 * This is a shard's end of one: a queue of sums, its room reserved as addresses
 * for a whole clock. One owner. Pure.
 */
#ifndef PS_SUM_STREAM_H
#define PS_SUM_STREAM_H

#include "base/err.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stdint.h>

/* A limit that costs little: of one block and table, in bytes of sums. */
#define SUM_STREAM_BYTES ((uint64_t)2 << 20)

/* Sums of a part of @count rows of @t that may be on their way or kept, of each
 * block; 0: as many as there are, since all of them take no more than @bytes,
 * @bytes is 0, or the table has a clock of its own. */
uint64_t sum_stream_rows(const struct table *t, uint64_t count, uint64_t bytes);

/* Bytes that a stream keeps at most within its limit, of @limit rows. */
uint64_t sum_stream_bytes(const struct table *t, uint64_t limit);

struct sum_stream {
    uint64_t *row;      /* [room], increasing from the first on */
    unsigned char *sum; /* [room * value_bytes] */
    uint64_t room, count;
    uint32_t value_bytes;
    /* A ring of so many, which grows to all the room where more come. */
    uint64_t ring, limit, head, n;
    uint64_t passed; /* all below have come, in the present clock */
    /* Sums that were taken since the start, and that were said to be. */
    uint64_t taken, told;
};

/* For rows 0 .. count - 1; @limit >= 1. Errors: ERR_NOMEM. */
enum err sum_stream_init(struct sum_stream *s, uint64_t count,
                         uint32_t value_bytes, uint64_t limit);
/* Accepts a zeroed one. */
void sum_stream_deinit(struct sum_stream *s);

/* The place for the next sum; of a row not passed and above the last. */
void *sum_stream_add(struct sum_stream *s, uint64_t row);

/* The row of the first sum; UINT64_MAX without any. */
static inline uint64_t sum_stream_row(const struct sum_stream *s)
{
    return s->n ? s->row[s->head] : UINT64_MAX;
}

/* Takes the first sum, which there is: where it lies until the next is added.
 */
void *sum_stream_take(struct sum_stream *s);

/* The clock has moved, or its slice has ended: what is left is dropped. */
void sum_stream_reset(struct sum_stream *s);

/* Whether the sender is to be told how many were taken; it is being told. */
bool sum_stream_owes(const struct sum_stream *s);
uint64_t sum_stream_tell(struct sum_stream *s);

#endif
