/* The parameter server's inside: what server, client and runtime share.
 *
 *   struct mlt_ps      tables, branches, settings       control thread
 *   struct mlt_worker  one compute thread and its shard its own thread
 *   struct view        one table as one worker sees it  its own thread
 *
 * Threads: the control thread changes anything only while no worker runs. In a
 * run, a worker writes its own view and shard; what others read of it is atomic
 * (chunk pointers, clocks) or handed over at a barrier (update buffers).
 *
 * A pointer to a row's chunk is found in `view.chunk`, an array over all shards
 * (of a local table: the worker's own). Reads go through it; so a chunk that is
 * made private has its new place published there with release order.
 */
#ifndef PS_CORE_H
#define PS_CORE_H

#include "base/mem.h"
#include "branches/store.h"
#include "ps/nodes/placement.h"
#include "ps/rows/consistency.h"
#include "ps/rows/prefetch_list.h"
#include "ps/rows/rule.h"
#include "ps/rows/table.h"
#include "ps/rows/update.h"
#include "ps/server/park_io.h"
#include "ps/server/ps.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CORE_WORKERS_MAX = 256,
    CORE_LINE_BYTES = 64,
    CORE_STRIPES = 1024 /* locks of rows, over all tables */
};

typedef _Atomic(unsigned char *) chunk_slot;

/* One table as one worker sees it; hot members first. */
struct view {
    chunk_slot *chunk;
    uint64_t rows;
    uint64_t row_mask; /* rows in a chunk, less one */
    uint32_t row_shift;
    uint32_t stride;
    bool in_place;  /* get_row gives the row itself */
    bool updates;   /* shared: has an update buffer */
    bool own_clock; /* of MLT_OWN_CLOCK; `extra` then counts all its clocks */
    uint32_t value_bytes;
    struct update update;

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

    /* Copies under ssp, essp, async: a row, and what it held when taken (across
     * nodes: the worker's own clock when it last had the row;
     * ps/rows/prefetch_list.h).
     */
    unsigned char *copy; /* [rows * value_bytes] or NULL */
    int64_t *held;       /* [rows] */
    int64_t asked;       /* own clock, once a read at it was granted; or -1 */
    int64_t needs;       /* a copy that holds less is fetched anew */
    int64_t holds;       /* what a copy taken now holds */
    unsigned char *mine; /* read_my_writes: [rows * value_bytes] or NULL */
    unsigned char *seen; /* beside the copies, where the rule revises: the row's
                          * gradient sum as of the copy; else NULL */

    /* An own clock: since the last mlt_clock this worker has ended it; and has
     * applied its shard's part already (barriers only). */
    bool ended, applied;
};

struct mlt_worker {
    struct mlt_ps *ps;
    struct view *view; /* [tables] */
    struct store *store;
    unsigned index;  /* in this node */
    unsigned number; /* over all nodes */
    void *user;
    struct ps_counters counters;

    /* Across nodes: clocks that it has ended, over all runs; the first of this
     * run; when its clock began; one more than the table that has ended its
     * clock early and may not have left, or 0. */
    int64_t own_clock, slice_clock;
    uint64_t part; /* of its clocks, as mlt_clock_part says */
    uint64_t clock_ns, clock_wait_ns;
    mlt_table early;
    /* With a budget: there is room for rows that need not leave yet, set by
     * whoever sends; and the worker has pointers into its update buffers. */
    _Atomic bool offered;
    bool holds;
    uint64_t branch_bytes, fixed_bytes; /* this shard's */
    uint64_t spin_ns; /* before it sleeps in a wait of a run: see park_io.h; 0
                       * with more workers than processors */
    uint64_t clocks;  /* clocks of all tables that it has ended in this run */
    bool finished;    /* read by others between the phases of a barrier */
    mlt_table ends;   /* the clock it ends: a table's, or CORE_ALL_TABLES */

    /* Read by the others. */
    _Alignas(CORE_LINE_BYTES) _Atomic int64_t all; /* clocks of all tables */
    _Atomic int64_t *extra; /* [tables] clocks of that table alone; with a
                             * clock of its own: all its clocks */
    _Atomic bool available;
    struct stripe shard_lock; /* making this shard's chunks private */
};

#define CORE_ALL_TABLES UINT32_MAX

struct mlt_ps {
    struct table *table; /* [tables] */
    size_t tables, tables_room;
    chunk_slot **chunk; /* [tables] node-wide pointers; NULL for local tables */
    struct mlt_worker *worker; /* [workers] once started */
    unsigned workers;          /* of this node */
    uint32_t node, nodes;
    unsigned all_workers; /* of all nodes */
    char *meet, *listen;  /* owned; NULL: one node; a Unix socket */
    bool float16;
    bool gathers; /* what workers read is known for their next clocks */
    double bandwidth_mbps; /* of the next run; 0: no budget */
    enum priority priority;
    bool places;                 /* rows lie where they are touched */
    struct placement *placement; /* [tables] */
    size_t placement_room;
    double meet_s;
    struct comm *comm; /* NULL: one node */
    struct ps_cut cut;
    uint32_t own_fits, fits; /* branches that fit here; in every node */
    bool started;
    bool direct; /* one worker, or clocks are barriers: reads in place */
    const struct consistency_ops *consistency;
    const struct rule_ops *default_rule;
    struct rule_params params;
    unsigned staleness;
    uint64_t seed;
    uint64_t memory_limit;  /* for everything */
    uint64_t buffers_bytes; /* update buffers, copies, pointers */
    uint64_t branch_bytes;  /* worst case of one branch, all shards */
    uint64_t fixed_bytes;   /* of the stores before any branch */
    uint64_t store_limit;   /* for all shards */

    branch_id active; /* BRANCH_NONE without one */
    enum branch_type active_type;
    bool active_failed;          /* a run on it failed: not to be run again */
    branch_id next_id;           /* of mlt_ps_fork */
    struct branch_entry *branch; /* [branches] live ones */
    size_t branches, branches_room;

    struct stripe_line *stripe; /* [CORE_STRIPES] locks of rows */
    struct runtime *runtime;
    struct backup *backup; /* of the snapshot in progress, or NULL */
    uint64_t backups;      /* how many were begun */
    branch_id
        checkpoint;      /* fork that it is of, by mlt_ps_checkpoint; or NONE */
    struct mover *mover; /* [STORE_TABLES_MAX] of local tables, or NULL */
};

/* What takes a local table to another number of workers (mlt_ps_set_mover). */
struct mover {
    mlt_mover *move; /* NULL: nobody */
    void *arg;
};

struct branch_entry {
    branch_id id;
    enum branch_type type;
    branch_id of;    /* a kept one: what it holds the state of; else itself */
    uint64_t clocks; /* that it has run, and what it was forked from before */
};

struct stripe_line {
    _Alignas(CORE_LINE_BYTES) struct stripe lock;
};

/* ---- rows ---------------------------------------------------------------- */

/* The number of a row that an application names: what everything below it
 * speaks of. */
static inline uint64_t view_number(const struct view *v, uint64_t row)
{
    return __builtin_expect(v->number != NULL, 0) ? v->number[row] : row;
}

static inline unsigned char *view_row(const struct view *v, uint64_t row)
{
    unsigned char *chunk = atomic_load_explicit(&v->chunk[row >> v->row_shift],
                                                memory_order_acquire);

    return chunk + (row & v->row_mask) * v->stride;
}

/* The slow part of view_write: copies the chunk, publishes its new place. */
unsigned char *core_privatize(struct mlt_worker *shard, struct view *v,
                              uint64_t chunk, struct ps_counters *counters);

/* Row for writing in the shard whose view @v is; @row: its number in the whole
 * table. The caller is the shard's worker or, under the models without
 * barriers, holds the row's stripe. */
static inline unsigned char *view_write(struct mlt_worker *shard,
                                        struct view *v, uint64_t row,
                                        struct ps_counters *counters)
{
    const struct store_map *map = v->map;
    uint64_t local = row - v->first;
    uint64_t c = local >> v->row_shift;
    unsigned char *chunk;

    if (__builtin_expect(store_map_owns(map, c), 1))
        chunk = atomic_load_explicit(&map->chunk[c], memory_order_relaxed);
    else
        chunk = core_privatize(shard, v, c, counters);
    return chunk + (local & v->row_mask) * v->stride;
}

/* ---- between the files of ps/ -------------------------------------------- */

/* Programmer's error: says what in the log and aborts. */
_Noreturn void core_misuse(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* apply.c: sums become rows. The first takes what all workers' buffers hold for
 * rows of @w's shard, adds in the order of the workers, and applies the rule
 * once a row; no other worker may touch its buffer meanwhile. The second
 * applies @w's own buffer to all shards, row by row under their stripes. */
void apply_own_part(struct mlt_worker *w, mlt_table table);
void apply_everywhere(struct mlt_worker *w, mlt_table table);

/* Takes @w's copy of @row under its stripe: never torn, and of one moment with
 * the gradient sum where the rule revises. */
void apply_read(struct mlt_worker *w, struct view *v, uint64_t row);

/* The lock of a row of a shared table, @row its number, under the models
 * without barriers. */
struct stripe *apply_stripe(struct mlt_ps *ps, mlt_table table, uint64_t row);

/* clock.c: ends a clock of @table (or CORE_ALL_TABLES), and a worker's run. */
int clock_end(struct mlt_worker *w, mlt_table table);
void clock_finish(struct mlt_worker *w);

/* Waits until the model lets @w read @v at its clock; 0 or the run's error. */
int clock_wait_read(struct mlt_worker *w, struct view *v);

/* server.c: @f as the installed interface has it; returns its code. */
int core_give_error(struct mlt_error *out, const struct fault *f);

/* start.c: whether it remembers what each worker reads of @t. */
bool table_gathers(const struct mlt_ps *ps, const struct table *t);

/* start.c: back to what was before mlt_ps_start. */
void start_undo(struct mlt_ps *ps);

/* rows.c: where a row of a shared or exclusive table lies; in this node. */
struct place {
    struct mlt_worker *shard;
    uint64_t chunk;  /* of the shard's store */
    uint64_t offset; /* bytes in the chunk */
};
struct place place_of(const struct mlt_ps *ps, mlt_table table, uint64_t row);

/* forks.c: every worker's maps and pointers, from the stores' active branch. */
void core_refresh_maps(struct mlt_ps *ps);
const struct branch_entry *core_branch(const struct mlt_ps *ps, branch_id id);
/* The active branch has run @clocks more. */
void core_count_clocks(struct mlt_ps *ps, uint64_t clocks);
/* Room for one more entry (ERR_NOMEM), the entry, and the way back: drops @id
 * in the first @shards stores. */
enum err core_reserve_branch(struct mlt_ps *ps);
void core_add_branch(struct mlt_ps *ps, const struct branch_entry *entry);
void core_drop_in_first(struct mlt_ps *ps, unsigned shards, branch_id id);

/* backup_io.c: is @id being written; gives a snapshot in progress up. */
bool backup_uses(const struct mlt_ps *ps, branch_id id);
void backup_stop(struct mlt_ps *ps);

/* Between runs: forgets pending updates and granted reads, moves all clocks to
 * a number that no copy reaches. */
void core_begin_slice(struct mlt_ps *ps);

/* ---- runtime_io.c: threads and waits ------------------------------------- */

unsigned runtime_usable_cores(void);

/* Threads, parked. Errors: ERR_NOMEM, ERR_IO (no thread, no descriptor). */
enum err runtime_start(struct mlt_ps *ps, struct fault *f);
/* Joins the threads. Accepts a server that has none. */
void runtime_stop(struct mlt_ps *ps);

/* The error that ended the present run, 0 while there is none. Any thread. */
int runtime_failed(const struct mlt_ps *ps);

/* As ps_run_cancel, but tells no other node. */
void runtime_fail(struct mlt_ps *ps, int code);

/* A barrier of all workers. What a worker wrote before it meets, all can read
 * after it. Returns 0, to all of them; or ERR_CANCELED, to all, when the run
 * fails before all are there. */
int runtime_meet(struct mlt_worker *w);
/* The same where all are sure to come: not to be canceled. */
void runtime_meet_surely(struct mlt_worker *w);

/* For waits on others' clocks: take a ticket, look, wait for it to change.
 * runtime_progress tells that a clock changed. */
uint32_t runtime_ticket(struct mlt_ps *ps);
void runtime_wait(struct mlt_worker *w, uint32_t ticket);
void runtime_progress(struct mlt_ps *ps);

/* The worker whose work() runs in this thread, or NULL. */
const struct mlt_worker *runtime_self(void);

/* ---- memory_io.c --------------------------------------------------------- */

/* Bytes that a new process could use without swapping: what the machine has
 * available, or what its control group leaves, whichever is less. */
uint64_t memory_available(void);

#endif
