/* The client's side of the shards: what a node's workers keep of rows, and what
 * they still have to say to the shards.
 *
 * A state machine like the shard (ps/nodes/shard.h): frames of shards go in
 * (cache_step), frames for them come out when the caller asks for the next
 * (cache_next). Workers call cache_read, cache_end_clock and cache_drain; what
 * they wait for is a question that can be asked again after any step, so that a
 * shell parks them as it likes. Updates lie in the workers' own buffers
 * (ps/rows/update.h), summed, and are read from there when they are sent.
 *
 * - A copy belongs to a slice (and so to a branch) and has a clock: it holds
 *   every update of clocks below. It is read again as long as the consistency
 *   model has no need of a newer one. One that the shard pushes for is as new
 * as the shard's clock. A new slice makes all copies useless at once, since its
 *   clocks begin above all of the last one's.
 * - Copies lie by slots (ps/rows/slots.h), so that a node keeps what its
 * workers read and not the table. A row keeps its place within a slice.
 * - A row that is under way for a worker is not asked for again, unless by one
 *   that is behind it (and would be answered earlier); at most SHARD_READS_MAX
 *   rows are under way to a shard, and of one worker its part of them.
 * - A batch is rows that a worker will read later in its clock. They are asked
 *   for in order, as others of the worker's come, up to CACHE_BATCH_QUARTERS
 *   quarters of its part: so that a read that is waited for finds room, and
 *   leaves first.
 * - Of a table whose rule revises, rows come with versions, and a worker's sums
 *   leave with those that it read first in the clock, or first after a part of
 *   the sum had left early (none for a row that it did not read). So what it
 * adds in a clock should be computed on one copy; what was computed on a newer
 * one counts as if it came later than it did.
 * - A worker's clock ends by sending each shard its rows, then the clock: it is
 *   over when all have left, and under barriers when every shard has applied
 *   the clock of all workers.
 * - Under barriers the workers of an aligned block (ps/rows/sum_tree.h) send
 *   one sum a row: in the name of its first, by the one of them that is the
 *   last to tell the shard of its clock, before it does (or of its drain). Of
 *   large tables these are streams (ps/nodes/sum_stream.h): who sends one may
 *   have to wait for the shard; what others have to say to it leaves meanwhile.
 *
 * One owner; in a node with threads, its lock's. Pure.
 */
#ifndef PS_CACHE_H
#define PS_CACHE_H

#include "base/proto/branch.h"
#include "base/proto/staleness.h"
#include "ps/nodes/frame.h"
#include "ps/nodes/priority.h"
#include "ps/nodes/shard.h"
#include "ps/rows/consistency.h"
#include "ps/rows/update.h"

struct cache_options {
    uint32_t node, nodes, workers; /* as shard_options */
    const struct table *table;     /* [tables] */
    uint32_t tables;
    const struct consistency_ops *consistency;
    bool half; /* f32 values as FRAME_F16, both ways */
    /* Borrowed: what worker i of this node has added to table t since its clock
     * began is update[i][t], for every shared table. Not to be touched from
     * cache_end_clock until cache_sent says so; under barriers, until the
     * worker may go on after its clock of all tables, or drains. Rows that
     * leave early are taken out of it, by cache_next_early and nothing else. */
    const struct update *const *update;
    /* Under barriers: sums of this node's own part stay where they are, since
     * its shard reads them there (shard_options.own). */
    bool own_stay;
    /* As shard_options has it. */
    uint64_t stream_bytes;
    /* Copies of tables of at most so many bytes of values have room for all
     * rows at once, as update_init has it. */
    uint64_t dense_bytes;
    /* Rows under way to a shard, at most SHARD_READS_MAX; 0: as many. */
    uint32_t reads_max;
};

struct cache;

enum {
    CACHE_EARLY_ROWS = 4096,
    CACHE_BATCHES_MAX = MLT_GETS_MAX, /* of a worker */
    CACHE_BATCH_QUARTERS = 3
};

/* Errors: ERR_INVAL, ERR_NOMEM. */
enum err cache_new(const struct cache_options *opt, struct cache **out);
void cache_free(struct cache *c);

/* A slice begins: workers' clocks are @clock, above any before. All workers
 * have drained, and their drains were sent. Frames of the slice may have come
 * already. */
void cache_begin(struct cache *c, uint64_t slice, int64_t clock,
                 unsigned staleness);

/* Whether all shards have begun the slice: workers may start. */
bool cache_begun(const struct cache *c);

/* Worker @worker (of this node) reads. True: the values of @row are in @out
 * and *@clock, where not NULL, is the clock below which they hold everything.
 * A row of an exclusive table is read as it is at its shard when that answers.
 * False: it has to wait, and ask again after a step or a frame sent. */
bool cache_read(struct cache *c, uint32_t worker, uint32_t table, uint64_t row,
                void *out, int64_t *clock);

/* Where the cache has the row that cache_read gave (with @out NULL: without a
 * copy). Under barriers it stays as it is until the worker ends its clock. Any
 * thread may ask, while the owner takes other rows in. */
const void *cache_place(const struct cache *c, uint32_t table, uint64_t row);

/* Batch @batch begins, of rows that the worker may read now: as many as may be
 * are asked for, the others when answers come. The worker has fewer than
 * CACHE_BATCHES_MAX, and none of that number. @row[n]: as the application names
 * them (struct table.number), borrowed until cache_fetch_end. */
void cache_fetch(struct cache *c, uint32_t worker, uint64_t batch,
                 uint32_t table, size_t n, const uint64_t row[]);

/* No more of the batch is asked for; what is under way of it is a read like any
 * other. Before the worker ends the table's clock, or drains. */
void cache_fetch_end(struct cache *c, uint32_t worker, uint64_t batch);

/* Ends a clock of @table or of all (FRAME_ALL_TABLES); @seconds it took. Then
 * it waits for cache_sent, clears its buffers of those tables, and waits for
 * cache_may_go_on. A table with MLT_OWN_CLOCK: as mlt_clock_table says; until
 * cache_sent the worker may read and update other tables. */
void cache_end_clock(struct cache *c, uint32_t worker, uint32_t table,
                     double seconds);

/* Everything of the worker has left. */
bool cache_sent(const struct cache *c, uint32_t worker);

/* Under barriers, whether all shards have applied all clocks that the worker
 * has ended; else true. */
bool cache_may_go_on(const struct cache *c, uint32_t worker);

/* The worker is done with this slice; its buffers are empty. */
void cache_drain(struct cache *c, uint32_t worker);

/* All workers have drained, and their drains have left: another slice may
 * begin. */
bool cache_quiet(const struct cache *c);

/* Takes a frame of a shard. Errors, nothing changed: ERR_PROTO in words. A
 * frame of an earlier slice says nothing any more and is no error. */
enum err cache_step(struct cache *c, const struct frame *f,
                    struct fault *fault);

/* The next frame for the shard of @node into @bytes[room], complete but for the
 * stamp; 0 when there is none, or none that may leave. @room >=
 * cache_frame_bytes. */
size_t cache_next(struct cache *c, uint32_t node, unsigned char *bytes,
                  size_t room);
size_t cache_frame_bytes(const struct cache *c);

/* Whether cache_next has one. */
bool cache_has_next(const struct cache *c, uint32_t node);

/* Before it has to: an update frame for the shard of @node with rows of one
 * table that @worker has added to in its present clock, those of most priority
 * among at most CACHE_EARLY_ROWS (and 16 times what a frame holds), which are
 * tried in turn. They leave its buffer. 0 where there is none, under barriers
 * (whose sum is one), and while the worker ends a clock. Nothing of tables with
 * MLT_READ_MY_WRITES leaves early. While the worker does not touch its buffers:
 * called in its thread, or between two of its calls. */
size_t cache_next_early(struct cache *c, uint32_t worker, uint32_t node,
                        enum priority p, unsigned char *bytes, size_t room);

/* A worker's clock of all tables. */
int64_t cache_all_clock(const struct cache *c, uint32_t worker);

/* A worker's clock of @table. */
int64_t cache_clock(const struct cache *c, uint32_t worker, uint32_t table);

struct cache_stats {
    uint64_t hits;    /* reads from a copy that was there */
    uint64_t asked;   /* rows asked for */
    uint64_t answers; /* rows that came, pushes included */
    uint64_t updates; /* rows with sums that were sent */
    uint64_t early;   /* of those, before a clock's end */
    uint64_t waiting; /* rows under way now */
};
struct cache_stats cache_stats(const struct cache *c);

/* Staleness of what was read, since the start; empty under models that do not
 * bound it (consistency_ops.bounds). */
const struct staleness *cache_staleness(const struct cache *c);

#endif
