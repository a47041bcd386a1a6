/* The parameter server of one node, as node and command line see it.
 *
 * Everything in mltune/ps.h (declare tables, start, run, the calls inside a
 * worker) and, on top, what a training system that serves a tuner needs: forks
 * under given numbers and types, reads of any branch, statistics, snapshots,
 * the saved model.
 *
 * Calls come from one control thread and, unless a comment says otherwise, only
 * while no worker runs. Errors: `enum err`; where a fault is taken, NULL is
 * allowed. Table indices are those that mlt_ps_table gave.
 */
#ifndef PS_PS_H
#define PS_PS_H

#include "base/err.h"
#include "base/fault.h"
#include "base/proto/branch.h"
#include "base/proto/staleness.h"
#include "branches/store.h"
#include "mltune/ps.h"
#include "ps/nodes/traffic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- branches ------------------------------------------------------------ */

/* Forks @child from @parent in all shards or in none. Cost: microseconds.
 * Errors: ERR_LIMIT (nothing changed), ERR_NOENT, ERR_EXIST, ERR_NOMEM. */
enum err ps_fork(struct mlt_ps *ps, branch_id child, branch_id parent,
                 enum branch_type type);

/* Errors: ERR_NOENT; ERR_BUSY while a snapshot of @id is being written. */
enum err ps_drop(struct mlt_ps *ps, branch_id id);

/* The branch that the next run works on. A BRANCH_KEPT or BRANCH_TESTING branch
 * may be active for reading. Errors: ERR_NOENT. */
enum err ps_activate(struct mlt_ps *ps, branch_id id);

bool ps_has(const struct mlt_ps *ps, branch_id id);
branch_id ps_active(const struct mlt_ps *ps); /* BRANCH_NONE without one */

/* What acts in the next run. Learning rate: finite, >= 0; momentum: 0 <= m < 1;
 * staleness: 0 .. PS_STALENESS_MAX. Errors: ERR_INVAL. */
enum { PS_STALENESS_MAX = 1000000 };
enum err ps_set_learning_rate(struct mlt_ps *ps, double learning_rate);
enum err ps_set_momentum(struct mlt_ps *ps, double momentum);
enum err ps_set_staleness(struct mlt_ps *ps, unsigned staleness);

/* 0: no budget; else between the two. Acts between nodes. */
#define PS_BANDWIDTH_LEAST_MBPS 1e-3
#define PS_BANDWIDTH_MOST_MBPS 1e9
enum err ps_set_bandwidth(struct mlt_ps *ps, double mbps);

/* ---- sizes --------------------------------------------------------------- */

/* Worst case of one more branch over all shards, page tables included. After
 * mlt_ps_start. */
uint64_t ps_branch_bytes(const struct mlt_ps *ps);

/* The limit for all branches together: memory_limit less buffers and caches. */
uint64_t ps_limit_bytes(const struct mlt_ps *ps);

/* Complete branches that fit, up to what a store can hold: in every shard of
 * every node. After mlt_ps_start. */
unsigned ps_branches_max(const struct mlt_ps *ps);

/* ERR_LIMIT with all sizes in @f when fewer than @models complete branches fit
 * in every shard. After mlt_ps_start. `mltune run` asks for five. */
enum err ps_require_models(const struct mlt_ps *ps, unsigned models,
                           struct fault *f);

/* Sums over the shards; `branches` is the number of live ones. */
void ps_stats(const struct mlt_ps *ps, struct store_stats *out);

/* The live branches, in no order; what one of them holds in all shards. Control
 * thread, between runs. */
size_t ps_branches(const struct mlt_ps *ps);
branch_id ps_branch_at(const struct mlt_ps *ps, size_t index);
struct store_held ps_held(const struct mlt_ps *ps, branch_id id);

/* ---- runs ---------------------------------------------------------------- */

/* mlt_ps_run in three steps, for a control thread that listens meanwhile:
 * begin wakes the workers and returns; ps_run_fd is a descriptor that is
 * readable (poll, zmq_poll) once all are back; end waits for that and returns
 * the run's code. One run at a time. Nothing but ps_run_cancel, ps_run_fd and
 * the atomic counters may be called between begin and end.
 * Errors of begin: as mlt_ps_run's (no active branch, a failed one). */
enum err ps_run_begin(struct mlt_ps *ps, mlt_work *work, void *arg);
int ps_run_fd(const struct mlt_ps *ps);
int ps_run_end(struct mlt_ps *ps);

/* Releases all workers from their waits with @code (an enum err, not ERR_OK)
 * and makes the run end with it. Any thread; a run that has failed already
 * keeps its first code. */
void ps_run_cancel(struct mlt_ps *ps, int code);

/* ---- across nodes -------------------------------------------------------- */

/* A server of several nodes (mlt_ps_options.nodes): the calls above concern
 * this node's part of branches and tables, and all nodes make the same ones in
 * the same order. A run ends when it has ended on all nodes, and fails on all
 * where it fails on one: there with the worker's code, elsewhere with
 * ERR_CANCELED; with ERR_NODE where a node is gone. */

uint32_t ps_nodes(const struct mlt_ps *ps);
uint32_t ps_node(const struct mlt_ps *ps);

/* Whether a row of a shared or exclusive table lies in this node. */
bool ps_is_here(const struct mlt_ps *ps, mlt_table table, uint64_t row);

/* Begins to listen, before anything slow: the others then know that this node
 * is coming. mlt_ps_start does it otherwise. Errors: in words. */
enum err ps_listen(struct mlt_ps *ps, struct fault *f);

/* Why no run is possible any more; ERR_OK while one is. Any thread. */
enum err ps_lost(struct mlt_ps *ps, struct fault *f);

/* How the end of a run is agreed on that is cut: `hold` lets no worker begin a
 * further clock of this run and says how many were begun; `release` says after
 * how many all are to stop. Called by any thread, under a lock: they must not
 * block. Between runs. */
struct ps_cut {
    uint64_t (*hold)(void *arg);
    void (*release)(void *arg, uint64_t clocks);
    void *arg;
};
void ps_set_cut(struct mlt_ps *ps, const struct ps_cut *cut);

/* Cuts the run on all nodes. Any thread, any time. */
void ps_cut(struct mlt_ps *ps);

/* For a worker that is held: take a ticket, look, wait for it to change. False:
 * the run has failed. */
uint32_t ps_ticket(struct mlt_ps *ps);
bool ps_await(struct mlt_worker *w, uint32_t ticket);

/* What went over the wires since the start; all 0 on one node. Any thread. */
void ps_traffic(struct mlt_ps *ps, struct ps_traffic *out);

/* How fresh what this node's workers read was, since the start; of reads under
 * models that bound it, with several nodes. Any thread. */
void ps_staleness(struct mlt_ps *ps, struct staleness *out);

/* ---- workers ------------------------------------------------------------- */

/* Number of @w in its node. */
unsigned ps_worker_local(const struct mlt_worker *w);

struct mlt_worker *ps_worker(struct mlt_ps *ps, unsigned index);

/* A pointer of the runtime's own for each worker (the clock context, say);
 * borrowed, NULL at the start. */
void ps_worker_set_user(struct mlt_worker *w, void *user);
void *ps_worker_user(const struct mlt_worker *w);

/* Running totals since the start, read by the worker itself, or by the control
 * thread between runs: take differences. wait_ns: barriers and waits of reads;
 * copy_ns: making chunks private. */
struct ps_counters {
    uint64_t wait_ns;
    uint64_t copy_ns;
};
struct ps_counters ps_worker_counters(const struct mlt_worker *w);

/* ---- tables and rows ----------------------------------------------------- */

struct ps_table_info {
    const char *name; /* borrowed */
    uint64_t rows;
    uint32_t width;
    enum mlt_type type;
    enum mlt_access access;
    const char *rule; /* "" for a local table */
    bool saved;       /* part of the model */
};

unsigned ps_tables(const struct mlt_ps *ps);
struct ps_table_info ps_table_info(const struct mlt_ps *ps, mlt_table table);

/* Errors: ERR_NOENT. */
enum err ps_table_find(const struct mlt_ps *ps, const char *name,
                       mlt_table *out);

/* Rows first .. first + count - 1 of a shared or exclusive table, of each the
 * values from .. from + values - 1. */
struct ps_rows {
    branch_id branch;
    mlt_table table;
    uint64_t first, count;
    uint32_t from, values;
};

/* Those values, without slots, as doubles: @out[count * values].
 * Errors: ERR_NOENT (branch), ERR_INVAL (no such rows or values),
 * ERR_UNSUPPORTED (a local table, or a row of another node). */
enum err ps_read_part(const struct mlt_ps *ps, const struct ps_rows *r,
                      double out[]);

/* The same while workers run: called by @w between two of its clocks, reads
 * those of the rows that its shard has, and leaves the rest of @out alone. @r
 * was checked. A row is whole, whatever the others do. */
void ps_read_own_part(struct mlt_worker *w, const struct ps_rows *r,
                      double out[]);

/* All values of rows first .. first + count - 1 of @branch: @out[count *
 * width]. Errors: as above; ERR_NOENT (table). */
enum err ps_read_rows(struct mlt_ps *ps, branch_id branch, const char *table,
                      uint64_t first, uint64_t count, double out[]);

/* Applies the table's rule, with the present learning rate and momentum, to
 * each row once: @delta[count * width]. i32 tables take whole numbers. Errors:
 * as above; ERR_INVAL (a kept branch; a number that the type cannot hold). */
enum err ps_inc_rows(struct mlt_ps *ps, branch_id branch, const char *table,
                     uint64_t first, uint64_t count, const double delta[]);

/* ---- the model ----------------------------------------------------------- */

/* Writes every saved table of @branch as DIR/NAME.npy (values without slots,
 * shape [rows, width]); the folder exists. A file appears under its name only
 * when it is whole. Of several nodes each writes its rows into the same files,
 * which are whole when all have. @bytes (may be NULL): written. Errors: ERR_IO,
 * ERR_NOENT, ERR_NOMEM. */
enum err ps_save(struct mlt_ps *ps, branch_id branch, const char *dir,
                 uint64_t *bytes, struct fault *f);

/* Fills every saved table of the active branch from DIR/NAME.npy; slots become
 * zero. Errors: ERR_IO, ERR_FORMAT (damaged, other type or shape; both named
 * in @f), ERR_INVAL (a kept branch is active), ERR_NOMEM. After an error the
 * branch holds a mixture. */
enum err ps_load(struct mlt_ps *ps, const char *dir, struct fault *f);

/* ---- snapshots ----------------------------------------------------------- */

/* Numbers the next snapshot. Before anything of it that may fail on one node
 * alone, the fork above all: by number the nodes know what belongs together. */
void ps_snapshot_count(struct mlt_ps *ps);

/* Starts a background thread that writes the kept @branch into the new folder
 * @dir (of several nodes: @dir/node-K, in @dir that all share; one file a
 * shard; written as DIR.tmp and renamed: complete or not there) and returns.
 * The manifest in @dir comes last (ps/disk/manifest.h). Of several nodes @dir
 * may be there without a manifest: the part that a killed run left is replaced.
 * Training goes on; the branch cannot be dropped until ps_snapshot_end. One
 * snapshot at a time. Errors: ERR_BUSY, ERR_NOENT, ERR_INVAL (not kept),
 * ERR_EXIST (@dir; of several nodes: @dir/manifest.json, or this node's part of
 * this same run), ERR_IO, ERR_NOMEM. */
enum err ps_snapshot_begin(struct mlt_ps *ps, branch_id branch, const char *dir,
                           struct fault *f);

/* Any time, also during a run: whether the thread has finished. */
bool ps_snapshot_done(const struct mlt_ps *ps);

/* Readable (poll) once it has finished; -1 without a snapshot begun. */
int ps_snapshot_fd(const struct mlt_ps *ps);

/* Lets the thread end soon, with ERR_CANCELED and nothing left on the disk. Any
 * time; to be followed by ps_snapshot_end. mlt_ps_free does both. */
void ps_snapshot_cancel(struct mlt_ps *ps);

/* Waits for the thread and gives its result; also during a run. @bytes (may be
 * NULL): written. Errors: of the writing, in words in @f; ERR_NOENT without a
 * snapshot begun. */
enum err ps_snapshot_end(struct mlt_ps *ps, uint64_t *bytes, struct fault *f);

/* Reads a snapshot as the new kept branch @id, written by however many nodes
 * and workers: as mlt_ps_restore, but each node checks the files alone that it
 * has to read. Errors: ERR_FORMAT (any damage, by file and offset; other
 * tables), ERR_NOENT (a file that is not there), ERR_UNSUPPORTED (a local
 * table that nothing moves), ERR_IO,
 * ERR_LIMIT, ERR_EXIST, ERR_NOMEM; nothing changed. */
enum err ps_restore(struct mlt_ps *ps, branch_id id, const char *dir,
                    struct fault *f);

#endif
