/* Views and workers: one table as one worker sees it, and the way to a row.
 *
 *   struct mlt_worker  one compute thread and its shard  its own thread
 *   struct worker_view        one table as one worker sees it   its own thread
 *
 * In a run, a worker writes its own view and shard; what others read of it is
 * atomic (chunk pointers, clocks) or handed over at a barrier (update buffers).
 *
 * A pointer to a row's chunk is found in `view.chunk`, an array over all shards
 * (of a local table: the worker's own). Reads go through it; so a chunk that is
 * made private has its new place published there with release order.
 */
#ifndef PS_VIEW_H
#define PS_VIEW_H

#include "branches/store.h"
#include "ps/rows/prefetch_list.h"
#include "ps/rows/table.h"
#include "ps/rows/update.h"
#include "ps/server/batches.h"
#include "ps/server/ps.h"
#include "ps/server/stripe.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORKER_LINE_BYTES = 64, WORKERS_MAX = 256 };

#define WORKER_ALL_TABLES UINT32_MAX
#define WORKER_NO_CLOCK (UINT32_MAX - 1)

typedef _Atomic(unsigned char *) chunk_slot;

/* One table as one worker sees it; hot members first. */
struct worker_view {
    chunk_slot *chunk;
    uint64_t rows;
    uint64_t row_mask; /* rows in a chunk, less one */
    uint32_t row_shift;
    uint32_t stride;
    bool in_place;  /* get_row gives the row itself */
    bool updates;   /* shared: has an update buffer */
    bool on_device; /* leased, not read here (ps/server/device.h) */
    bool own_clock; /* of MLT_OWN_CLOCK; `extra` then counts all its clocks */
    uint32_t value_bytes;
    struct update update;
    struct versions *history; /* ps/server/versions.h; NULL: none is kept */
    struct keys *keys; /* ps/server/keys.h, of this node; NULL: it has none */

    /* The worker's own part: rows first .. first + count - 1 of the table are
     * rows 0 .. count - 1 of its store's. A local table: all rows. */
    uint64_t first, count;
    const struct store_map *map;
    const struct table *table;
    const uint32_t *number; /* of a placed table: as table.number; else NULL */
    mlt_table index;

    /* Across nodes: the node's part of the table; the rows that the worker is
     * known to read, where the server gathers that. */
    uint64_t node_first, node_count;
    struct prefetch_list *known; /* NULL: it does not */

    /* Copies under ssp, essp, async, by slots of the rows that the worker has
     * read: a row, and what it held when taken (across nodes: the worker's own
     * clock when it last had the row; ps/rows/prefetch_list.h).
     */
    struct slots slots;  /* where there is any of these arrays */
    unsigned char *copy; /* [slot * value_bytes] or NULL */
    int64_t *held;       /* [slot] */
    int64_t asked;       /* own clock, once a read at it was granted; or -1 */
    int64_t needs;       /* a copy that holds less is fetched anew */
    int64_t holds;       /* what a copy taken now holds */
    unsigned char *mine; /* read_my_writes: [slot * value_bytes] or NULL */
    unsigned char *seen; /* beside the copies, where the rule revises: the row's
                          * gradient sum as of the copy; else NULL */

    /* An own clock: since the last mlt_clock this worker has ended it; and has
     * applied its shard's part already (barriers only). */
    bool ended, applied;
};

struct mlt_worker {
    struct mlt_ps *ps;
    struct worker_view *view; /* [tables] */
    struct store *store;
    unsigned index;  /* in this node */
    unsigned number; /* over all nodes */
    void *user;
    const struct lend_guard *guard; /* debug builds ask it: ps/server/lend.h */
    struct ps_counters counters;

    /* Across nodes: clocks that it has ended, over all runs; the first of this
     * run; when its clock began; one more than the table that has ended its
     * clock early and may not have left, or 0. */
    int64_t own_clock, slice_clock;
    uint64_t part; /* of its clocks, as mlt_clock_part says */
    uint64_t clock_ns, clock_wait_ns; /* on one node too, without barriers */
    mlt_table early;
    /* With a budget: there is room for rows that need not leave yet, set by
     * whoever sends; and the worker has pointers into its update buffers. */
    _Atomic bool offered;
    bool holds;
    uint64_t branch_bytes, fixed_bytes; /* this shard's */
    uint64_t spin_ns; /* before it sleeps in a wait of a run: see park_io.h; 0
                       * with more workers than processors */
    uint64_t clocks;  /* clocks of all tables that it has ended in this run */
    uint64_t tasks;   /* those of which task_s is the mean */
    /* By the parity of the meeting that it comes to, and read after that one:
     * the clock that it ends: a table's, or WORKER_ALL_TABLES; WORKER_NO_CLOCK,
     * it has finished its run. */
    mlt_table ends[2];

    struct batches batches;

    /* Of users' models, under mlt_ps.asking: one more than the table that it
     * waits to read, or 0; it has begun its clock (its own thread resets it).
     */
    mlt_table asks;
    bool begun;

    /* Read by the others. */
    _Alignas(WORKER_LINE_BYTES) _Atomic int64_t all; /* clocks of all tables */
    _Atomic int64_t *extra; /* [tables] clocks of that table alone; with a
                             * clock of its own: all its clocks */
    _Atomic bool available;
    /* What it meets the others for: see runtime.h. */
    _Atomic uint64_t meets;
    _Atomic uint64_t ending; /* clocks that it has ended, or ends now; 0 where
                              * runtime_say_clock is not asked */
    _Atomic(const char *) pass;
    _Atomic uint64_t steps;   /* of it: first << 32 | how many */
    _Atomic double task_s;    /* mean work time of its clocks in this run, where
                               * somebody may ask; else 0 */
    struct stripe shard_lock; /* making this shard's chunks private */
};

/* The number of a row that an application names: what everything below it
 * speaks of. */
static inline uint64_t view_number(const struct worker_view *v, uint64_t row)
{
    return __builtin_expect(v->number != NULL, 0) ? v->number[row] : row;
}

static inline struct worker_view *view_of_worker(const struct mlt_worker *w,
                                                 mlt_table table)
{
    return &w->view[table];
}

static inline struct mlt_ps *view_server(const struct mlt_worker *w)
{
    return w->ps;
}

/* Bytes of the arrays that lie by the view's slots, a slot. */
static inline uint32_t view_slot_bytes(const struct worker_view *v)
{
    return (uint32_t)sizeof(int64_t) * !!v->held +
           v->value_bytes * (!!v->copy + !!v->mine + !!v->seen);
}

static inline unsigned char *view_row(const struct worker_view *v, uint64_t row)
{
    unsigned char *chunk = atomic_load_explicit(&v->chunk[row >> v->row_shift],
                                                memory_order_acquire);

    return chunk + (row & v->row_mask) * v->stride;
}

/* The slow part of view_write: copies the chunk, publishes its new place. */
unsigned char *view_privatize(struct mlt_worker *shard, struct worker_view *v,
                              uint64_t chunk, struct ps_counters *counters);

/* Row for writing in the shard whose view @v is; @row: its number in the whole
 * table. The caller is the shard's worker or, under the models without
 * barriers, holds the row's stripe. */
static inline unsigned char *view_write(struct mlt_worker *shard,
                                        struct worker_view *v, uint64_t row,
                                        struct ps_counters *counters)
{
    const struct store_map *map = v->map;
    uint64_t local = row - v->first;
    uint64_t c = local >> v->row_shift;
    unsigned char *chunk;

    if (__builtin_expect(store_map_owns(map, c), 1))
        chunk = atomic_load_explicit(&map->chunk[c], memory_order_relaxed);
    else
        chunk = view_privatize(shard, v, c, counters);
    return chunk + (local & v->row_mask) * v->stride;
}

#endif
