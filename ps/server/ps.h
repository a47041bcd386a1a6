/* The parameter server of one node, as node and command line see it.
 *
 * Everything in mltune/ps.h (declare tables, start, run, the calls inside a
 * worker) and, on top, what a training system that serves a tuner needs: forks
 * under given numbers and types, reads of any branch, statistics. Snapshots and
 * the saved model are in ps/disk.
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

/* Takes from the system, and touches, the memory that @branches more complete
 * branches need: their first writes find it there (store_prepare). Control
 * thread, between runs. Errors: ERR_LIMIT, ERR_NOMEM; what was taken stays for
 * later forks. */
enum err ps_prepare(struct mlt_ps *ps, unsigned branches);

/* Errors: ERR_NOENT; ERR_BUSY while a snapshot of @id is being written
 * (ps/disk/backup_io.h). */
enum err ps_drop(struct mlt_ps *ps, branch_id id);

/* The branch that the next run works on. A BRANCH_KEPT or BRANCH_TESTING branch
 * may be active for reading. Errors: ERR_NOENT. */
enum err ps_activate(struct mlt_ps *ps, branch_id id);

bool ps_has(const struct mlt_ps *ps, branch_id id);
branch_id ps_active(const struct mlt_ps *ps); /* BRANCH_NONE without one */

/* Rates that act from the next run on. Learning rate: finite, >= 0; momentum: 0
 * <= m < 1; staleness: 0 .. PS_STALENESS_MAX. Errors: ERR_INVAL. */
enum { PS_STALENESS_MAX = 1000000 };
enum err ps_set_learning_rate(struct mlt_ps *ps, double learning_rate);
enum err ps_set_momentum(struct mlt_ps *ps, double momentum);
enum err ps_set_weight_decay(struct mlt_ps *ps, double decay);
/* @rule: rule_choice. Errors: ERR_INVAL. */
enum err ps_set_rule(struct mlt_ps *ps, uint32_t rule);
/* In the next run and those after it the learning rate rises, from clock to
 * clock, over @clocks clocks (0: it does not) of which @done were run before
 * that run: rule_params_at, with the run's own clocks counted from 0. What is
 * done within a clock has that clock's rate, whenever it is applied. Both are
 * below 2^53. */
void ps_set_warmup(struct mlt_ps *ps, uint64_t clocks, uint64_t done);
/* What the learning rate is multiplied with in the clock that @w is in. */
double ps_worker_warmth(const struct mlt_worker *w);
enum err ps_set_staleness(struct mlt_ps *ps, unsigned staleness);
/* Of the model barrier: @k workers must have come, whatever its rule says of
 * how many; more than there are: all. 0: as the rule says. Errors: ERR_INVAL
 * (above PS_QUORUM_MAX). */
enum { PS_QUORUM_MAX = 1000000 };
enum err ps_set_quorum(struct mlt_ps *ps, unsigned k);

/* Bytes that tables may take on a device (mltune/device.h), where whoever opens
 * it does not say; 0: what it has. Before mlt_ps_device. */
void ps_set_device_memory(struct mlt_ps *ps, uint64_t bytes);

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

/* Of the device that tables lie on: bytes taken by tables and whoever else
 * uses its space; what may be taken; what came and went since the start; leases
 * that found their table not on its way. */
struct ps_device_stats {
    uint64_t used, limit, in, out, waits;
};

/* False: there is no device, or it does not answer. Control thread, between
 * runs. */
bool ps_device_stats(const struct mlt_ps *ps, struct ps_device_stats *out);

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

/* The name of the user's consistency model; NULL: it is a built-in one. */
const char *ps_user_model(const struct mlt_ps *ps);

/* As mlt_ps_model_error. */
enum err ps_model_error(const struct mlt_ps *ps, struct fault *f);

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

/* Agreement on the end of a run that is cut: `hold` lets no worker begin a
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

/* Counts of what went over the wires since the start; all 0 on one node. Any
 * thread. */
void ps_traffic(struct mlt_ps *ps, struct ps_traffic *out);

/* Staleness of what this node's workers read, since the start; of reads under
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
    const char *rule;                       /* "" for a local table */
    bool rule_of_run;                       /* the application named none */
    bool uses_learning_rate, uses_momentum; /* that rule */
    bool saved;                             /* part of the model */
};

unsigned ps_tables(const struct mlt_ps *ps);
struct ps_table_info ps_table_info(const struct mlt_ps *ps, mlt_table table);

/* Declares a table of a stored state, whose rule may be a user's that is not
 * here: nothing can be applied to it then. @row_bytes: of its rows as they were
 * stored. Errors: as mlt_ps_table; ERR_FORMAT (bytes that no rule has). */
enum err ps_table_stored(struct mlt_ps *ps, const struct mlt_table_options *opt,
                         uint32_t row_bytes, struct fault *f);

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

/* Reads those values, without slots, as doubles: @out[count * values].
 * Errors: ERR_NOENT (branch), ERR_INVAL (no such rows or values),
 * ERR_UNSUPPORTED (a local table, or a row of another node). */
enum err ps_read_part(const struct mlt_ps *ps, const struct ps_rows *r,
                      double out[]);

/* Reads them while workers run: called by @w between two of its clocks, for
 * those of the rows that its shard has; leaves the rest of @out alone. @r
 * was checked. A row is whole, whatever the others do. */
void ps_read_own_part(struct mlt_worker *w, const struct ps_rows *r,
                      double out[]);

/* Applies the table's rule, with the present learning rate and momentum, to
 * each row once: @delta[count * width]. i32 tables take whole numbers. Errors:
 * as above; ERR_INVAL (a kept branch; a number that the type cannot hold). */
enum err ps_inc_rows(struct mlt_ps *ps, branch_id branch, const char *table,
                     uint64_t first, uint64_t count, const double delta[]);

#endif
