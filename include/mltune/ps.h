/* mltune parameter server: the client interface.
 *
 * Parameters are rows of fixed width in tables, addressed by (table, row) and
 * shared by worker threads. The same program text runs in one process or on
 * many nodes, with or without the tuner:
 *
 *     struct mlt_table_options rows = {
 *         .size = sizeof(rows), .name = "rows", .rows = 100, .width = 8};
 *     struct mlt_ps_options opt = MLT_PS_OPTIONS;
 *     struct mlt_error err;
 *     struct mlt_ps *ps;
 *     mlt_table table;
 *
 *     opt.workers = 2;
 *     if (mlt_ps_new(&opt, &ps, &err) ||
 *         mlt_ps_table(ps, &rows, &table, &err) || mlt_ps_start(ps, &err))
 *         errx(1, "%s", err.text);
 *     mlt_ps_run(ps, work, &table); // once in every worker
 *     mlt_ps_free(ps);
 *
 * Inside work(): read rows, add to rows, and end each clock with mlt_clock.
 *
 * Returns: 0 or a positive error code (mlt_error_text). Misuse (a row out of
 * range) is a programmer's error and aborts with a message. A worker's handle
 * is its thread's, for the length of work(): builds with -DMLT_DEBUG abort
 * where another thread reads or updates rows by it, others do not look, but for
 * mlt_clock and the pass of a loop, and rows may be torn. Unless a comment says
 * otherwise a function may be called by any thread, but by one at a time, and
 * only while no worker runs.
 *
 * No pointer that this interface returns survives the caller's next mlt_clock.
 */
#ifndef MLTUNE_PS_H
#define MLTUNE_PS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLT_PS_VERSION 1
#if defined(__GNUC__)
#define MLT_API __attribute__((visibility("default")))
#else
#define MLT_API
#endif

/* MLT_PS_VERSION of the library: who loads it at run time compares it with the
 * one that was compiled in, and goes no further where they differ. */
MLT_API unsigned mlt_ps_version(void);

/* Text of an error code; static storage. */
MLT_API const char *mlt_error_text(int error);

/* An error in words, for functions that take one (NULL is allowed). */
struct mlt_error {
    int code;
    char text[512];
};

/* ---- the parameter server ------------------------------------------------ */

struct mlt_ps;
struct mlt_worker;

struct mlt_ps_options {
    size_t size;             /* sizeof(struct mlt_ps_options) */
    unsigned workers;        /* worker threads; 0: one a core */
    uint64_t memory_limit;   /* bytes for everything; 0: half of what is free */
    const char *consistency; /* "bsp" (default), "ssp", "essp", "async",
                              * "barrier", or that with whom a read waits for:
                              * "barrier?k=3", "barrier?fraction=0.5",
                              * "barrier?k=3&slower_than=2" */
    unsigned staleness;      /* clocks a read may lag: ssp, essp, barrier */
    const char
        *update_rule;     /* of tables that name none: "sgd" (default), ... */
    double learning_rate; /* default 0.01; >= 0 */
    double momentum;      /* default 0; 0 <= m < 1 */
    uint64_t seed;

    /* Several nodes: processes, on one machine or many, each with `workers`
     * workers, that make the same calls in the same order. */
    unsigned nodes;     /* 0 or 1: this process alone */
    unsigned node;      /* this one's number, from 0 */
    const char *meet;   /* where they find each other, started in any order: a
                         * folder that all reach, new for this server, or
                         * "tcp://HOST:PORT" of node 0's machine */
    const char *listen; /* "tcp://ADDRESS:*": where the others reach this node;
                         * NULL: a Unix socket in that folder; with an address,
                         * any port of this machine's address */
    double meet_s;      /* longest wait for the others; 0: 60 */
    int float16;        /* f32 rows travel as 16-bit floats */
    const char *access; /* what is done with the knowledge of what each worker
                         * touches: "off", "gather" (default), "place": see
                         * mlt_clock_part, mlt_ps_expect */
    double bandwidth_mbps; /* megabits a second that a node may send, headers of
                            * the network included; 0: as it goes. While there
                            * is room, rows leave before their clock ends (ssp,
                            * essp, async, barrier), */
    const char *priority;  /* these first: "random", "round_robin", "absolute",
                            * "relative" (default, also for NULL) */
    double weight_decay;   /* default 0; >= 0: mlt_ps_set_weight_decay */
    int64_t ring_bytes;    /* nodes that meet in a folder and listen nowhere are
                            * on one machine, and talk through memory that each
                            * two share: so much a direction, 64 KiB to 64 MiB;
                            * 0: 1 MiB, with more than 5 nodes less, so that
                            * those to all others take 4 MiB; -1: none, they
                            * talk through sockets. Of two nodes the higher
                            * number's counts */
};
#define MLT_PS_OPTIONS                                                         \
    {                                                                          \
        sizeof(struct mlt_ps_options), 0, 0, "bsp", 0, "sgd", 0.01, 0.0, 1, 0, \
            0, NULL, NULL, 0, 0, "gather", 0.0, NULL, 0.0, 0                   \
    }

/* Errors: EINVAL-like code for an unknown name or a value out of range (@err
 * says which), out of memory. @opt is copied. */
MLT_API int mlt_ps_new(const struct mlt_ps_options *opt, struct mlt_ps **out,
                       struct mlt_error *err);

/* Joins all threads and releases everything. Accepts NULL. */
MLT_API void mlt_ps_free(struct mlt_ps *ps);

/* Workers over all nodes. */
MLT_API unsigned mlt_ps_workers(const struct mlt_ps *ps);

/* ---- tables -------------------------------------------------------------- */

typedef uint32_t mlt_table;

enum mlt_type { MLT_F32, MLT_I32, MLT_F64 };

enum mlt_access {
    /* Any worker reads and adds; updates meet at the shards under the
     * consistency model. */
    MLT_SHARED,
    /* Rows are partitioned among the workers (mlt_owned_rows); a row is read
     * and updated by its worker alone, in place, and its rule acts at once.
     * Others may read it after both have passed the same clock under bsp, and
     * in branches that nobody updates. */
    MLT_EXCLUSIVE,
    /* Every worker has a table of its own with this many rows, read and written
     * in place: worker-local state, forked with the branch. No rule. */
    MLT_LOCAL
};

enum {
    /* get_row sees all that this worker has added in this run, each update
     * once: of the running clock and of earlier ones, whatever the consistency
     * model has it see of others. (With options.float16 they may be rounded.)
     * Only tables with rule "add"; get_row then copies, valid until the next
     * get_row of the row. */
    MLT_READ_MY_WRITES = 1,
    /* Rule has no momentum term here: saves the velocity slot. */
    MLT_NO_MOMENTUM = 2,
    /* State of the training, not of the model: forked and put into snapshots,
     * left out of the saved model. MLT_LOCAL tables always are. */
    MLT_NOT_SAVED = 4,
    /* A shared table whose clock may end before the worker's (a layer whose
     * gradient is ready, say): mlt_clock_table ends it early and does not wait;
     * the next mlt_clock ends it where that was not called. */
    MLT_OWN_CLOCK = 8,
    /* A local table that holds the same in all workers whenever a run ends (a
     * cursor, say): a checkpoint can then be restored onto another number of
     * workers. */
    MLT_ALIKE = 16,
    /* A shared table whose rows belong to 64-bit keys: mlt_add_keys gives a key
     * its row, up to `rows` of them (fewer than 2^32 - 1). */
    MLT_KEYED = 32
};

struct mlt_table_options {
    size_t size; /* sizeof(struct mlt_table_options) */
    const char
        *name;      /* [a-z0-9_]{1,64}, unique; file name of the saved table */
    uint64_t rows;  /* >= 1 */
    uint32_t width; /* values a row, >= 1 */
    enum mlt_type type;
    enum mlt_access access;
    const char *rule; /* NULL: the rule of mlt_ps_options; "add"; ...; "any":
                       * mlt_ps_set_update_rule */
    unsigned flags;   /* MLT_READ_MY_WRITES | ... */
    uint32_t chunk_bytes; /* upper bound of a copy-on-write chunk; 0: 64 KiB */
    uint32_t undecayed;   /* so many of a row's values, the last ones, are left
                           * alone by weight decay (biases); at most width */
};

/* Declares a table; before mlt_ps_start. i32 tables and f64 tables know the
 * rule "add" only. Errors: invalid options, out of memory, too many tables. */
MLT_API int mlt_ps_table(struct mlt_ps *ps, const struct mlt_table_options *opt,
                         mlt_table *out, struct mlt_error *err);

/* Rows that a worker will touch, said before the start: a virtual iteration.
 * Optional; acts on several nodes, see options.access and mlt_clock_part.
 *
 * In each of its clocks of part @part (mlt_clock_part; 0 for a program without
 * parts), worker @worker (over all nodes) will read and update rows @rows[n] of
 * a shared table, @touch: MLT_READS, MLT_UPDATES or both. Rows come in the
 * order of first need, each once a part, in as many calls as it takes. A node
 * needs to be told of its own workers only; what it is told of others is
 * ignored, so that all may say the same. With access
 *
 *   "off"     nothing is done with it;
 *   "gather"  what is read is known before the first clock;
 *   "place"   besides, rows lie at the node that touches them most. A table
 *             whose rows all nodes are silent about stays as it is.
 *
 * It may be wrong in both directions: missing and superfluous rows cost speed.
 * All nodes must have the same options.access. Errors: out of memory. */
enum { MLT_READS = 1, MLT_UPDATES = 2 };
MLT_API int mlt_ps_expect(struct mlt_ps *ps, mlt_table table, unsigned worker,
                          uint64_t part, unsigned touch, size_t n,
                          const uint64_t rows[]);

/* The row that lies at place @place of a table, a permutation of its rows: the
 * places that mlt_owned_rows gives of a placed table are not its rows. A table
 * that is not placed, and any before mlt_ps_start: @place itself. */
MLT_API uint64_t mlt_row_at(const struct mlt_ps *ps, mlt_table table,
                            uint64_t place);

/* What this node takes of memory, in bytes. */
struct mlt_ps_memory {
    size_t size;      /* sizeof(struct mlt_ps_memory) */
    uint64_t branch;  /* a branch that differs in all rows: its part of the
                       * tables, slots of rules included */
    uint64_t fixed;   /* what all branches share, and rings: for each other
                       * node mlt_ps_options.ring_bytes */
    uint64_t updates; /* what its workers add in a clock */
    uint64_t caches;  /* rows that they read, and when they had them */
    uint64_t sums;    /* several nodes: of its rows, the sums of all other nodes
                       * under barriers, or what rows have moved (essp) */
    uint64_t access;  /* knowledge of what is touched */
    uint64_t frames;  /* on their way between nodes; not within the limit */
    uint64_t limit;   /* mlt_ps_options.memory_limit, or what stands for it */
};

/* What it will take, before or after the start: no node is waited for. The
 * tables are declared, out->size is set. @touched: share of a table's rows that
 * each worker reads and updates, 0 < touched <= 1. At 1 it is the most that can
 * be, and what mlt_ps_start wants within the limit: all parts but `frames`, and
 * one branch. A job that touches fewer rows takes less, yet not a larger table
 * in: nobody promises what it will touch, and no clock is to fail for memory.
 * (Not counted: mlt_clock_table of tables without MLT_OWN_CLOCK, under bsp.)
 * Errors: out of range, no table, another version of this header, out of
 * memory. */
MLT_API int mlt_ps_plan(const struct mlt_ps *ps, double touched,
                        struct mlt_ps_memory *out);

/* Reserves memory, creates branch 0 with all rows zero, starts the workers'
 * threads (parked). Errors: memory limit or none left, with the sizes in @err.
 */
MLT_API int mlt_ps_start(struct mlt_ps *ps, struct mlt_error *err);

/* Calls @work once in every worker's thread and returns when all are back. The
 * first code that is not 0 is returned, and the others are released from any
 * wait (their mlt_clock returns an error; they should return). After an error
 * the active branch is to be dropped, for some of its rows have the last
 * updates and others not: it, and what is forked from it, is never run, saved
 * or checkpointed again. Switch to one that was forked before. */
typedef int mlt_work(struct mlt_worker *worker, void *arg);
MLT_API int mlt_ps_run(struct mlt_ps *ps, mlt_work *work, void *arg);

/* ---- branches (between two mlt_ps_run) ----------------------------------- */

/* Forks the state of @parent: microseconds, whatever its size. Errors: memory
 * limit (nothing changed), no such branch. Branch 0 exists after the start. */
MLT_API int mlt_ps_fork(struct mlt_ps *ps, uint32_t parent, uint32_t *child);
/* Drops a branch. It may be the active one; switch before the next run. */
MLT_API int mlt_ps_drop(struct mlt_ps *ps, uint32_t branch);
/* The branch that workers read and update from now on. */
MLT_API int mlt_ps_switch(struct mlt_ps *ps, uint32_t branch);

/* Clocks (of all tables) that this node's first worker has ended in @branch and
 * in what it was forked from. A checkpoint carries node 0's number: after its
 * restoring all nodes have that. Errors: no such branch. */
MLT_API int mlt_ps_clocks(const struct mlt_ps *ps, uint32_t branch,
                          uint64_t *out);

/* Settings that act from the next run on, in whatever branch: learning rate
 * (finite,
 * >= 0), momentum (0 <= m < 1), staleness in clocks (at most 1,000,000), weight
 * decay (finite, >= 0). The last is decoupled, as in AdamW: before each step of
 * a rule with a learning rate a row's values are multiplied by 1 - learning
 * rate
 * * weight decay, but for the table's `undecayed`. A step is what a rule does
 * with one sum: of all workers' updates of a clock under bsp, of one worker's
 * under the other models; a row that nobody updates is not decayed. All
 * nodes set the same. Errors: out of range; nothing changed. */
MLT_API int mlt_ps_set_learning_rate(struct mlt_ps *ps, double learning_rate);
MLT_API int mlt_ps_set_momentum(struct mlt_ps *ps, double momentum);
MLT_API int mlt_ps_set_weight_decay(struct mlt_ps *ps, double weight_decay);
/* The rule of tables whose rule is "any", from the next run on; "sgd" at first.
 * One of sgd, nesterov, adagrad, rmsprop, adadelta, adam, rpcs. A row whose
 * last step was another rule's begins anew: its slots are empty. All nodes set
 * the same. Errors: another name. */
MLT_API int mlt_ps_set_update_rule(struct mlt_ps *ps, const char *name);
MLT_API int mlt_ps_set_staleness(struct mlt_ps *ps, unsigned staleness);
/* As mlt_ps_options.bandwidth_mbps: 0, or 0.001 to 1e9; from the next run on.
 * Each node may have its own. */
MLT_API int mlt_ps_set_bandwidth(struct mlt_ps *ps, double mbps);

/* Writes every saved table of the active branch as DIR/NAME.npy (values without
 * slots, shape [rows, width]); the folder must exist. Complete or not at all: a
 * file appears under its name only when it is whole. A table with MLT_KEYED has
 * a second file, DIR/NAME.keys.npy: its keys in order and the row of each, as
 * 64-bit integers, shape [keys, 2]. Of several nodes each
 * writes its rows into the files, which are whole when all have returned.
 * Errors: no active branch, or one in which a run failed; input and output. */
MLT_API int mlt_ps_save(struct mlt_ps *ps, const char *dir,
                        struct mlt_error *err);

/* ---- checkpoints (between two mlt_ps_run) -------------------------------- */

/* Begins to write the whole state of the active branch, as it is now, into the
 * new folder @dir, and returns: a fork (microseconds), which a thread writes
 * while training goes on. The fork takes memory as it comes to differ, a model
 * at most. Of several nodes each writes its part into the same folder, which
 * all reach. The checkpoint is whole when mlt_ps_checkpoint_end has succeeded
 * on all nodes: then, and not before, the file manifest.json is there.
 *
 * Every table is in it, slots, local tables and keys included; the learning
 * rate and the like are not. One at a time. Of several nodes @dir may hold what
 * a killed run left of a checkpoint that never was whole (no manifest.json):
 * each node replaces its part. Errors: one is being written; @dir (of several
 * nodes: its manifest.json, or this node's part by this same run) is there
 * already; memory limit; no active branch, or one in which a run failed; input
 * and output. */
MLT_API int mlt_ps_checkpoint(struct mlt_ps *ps, const char *dir,
                              struct mlt_error *err);

/* 1: none is being written any more, mlt_ps_checkpoint_end will not wait. By
 * any thread, also while workers run, but not while mlt_ps_checkpoint or
 * mlt_ps_checkpoint_end does. */
MLT_API int mlt_ps_checkpoint_done(const struct mlt_ps *ps);

/* Waits until it is written and on the disk. On error nothing of this node is
 * left in the folder, nor a manifest.json, and earlier checkpoints are
 * untouched. Errors: input and output, with the file's name in @err; none was
 * begun. */
MLT_API int mlt_ps_checkpoint_end(struct mlt_ps *ps, struct mlt_error *err);

/* Reads a checkpoint as a new branch, to be switched to, of any number of nodes
 * and workers: shared and exclusive tables are then as they were, bit for bit,
 * slots included. The tables must be those it was written with (names, rows,
 * widths, types, accesses, rules; chunk_bytes may differ).
 *
 * Local tables: with as many workers over all nodes, each worker has its own
 * again. With another number, tables with MLT_ALIKE and those that have a mover
 * are taken over; any other refuses the whole.
 *
 * All files are checked on every node, so that all come to the same result. A
 * program whose nodes do not all succeed should end them all; one that does not
 * trust its newest checkpoint tries the one before. Blocks while it reads.
 * Errors: a damaged, missing or unfinished file, by name and place; other
 * tables, by name; a key, or a row, of a table with MLT_KEYED that was given
 * otherwise here; memory limit. Nothing changed then, but that some keys may
 * have got their rows where memory ended, or a file changed, as they were
 * taken. */
MLT_API int mlt_ps_restore(struct mlt_ps *ps, const char *dir, uint32_t *branch,
                           struct mlt_error *err);

/* A local table on its way to another number of workers. Worker numbers count
 * over all nodes. */
struct mlt_move {
    mlt_table table;
    unsigned workers_before, workers;
    uint64_t rows_before, rows; /* of each worker */
    void *inside;               /* of the library */
};

/* Fills the table's rows, all zero, of this node's workers. Called in the
 * thread that restores; 0, or an error that refuses the checkpoint. */
typedef int mlt_mover(const struct mlt_move *move, void *arg);

/* A row as worker @worker of before had it; as worker @worker is to have it:
 * NULL where that is another node's. For the length of the call. */
MLT_API const void *mlt_move_from(const struct mlt_move *move, unsigned worker,
                                  uint64_t row);
MLT_API void *mlt_move_to(const struct mlt_move *move, unsigned worker,
                          uint64_t row);

/* The mover of a local table; @arg is borrowed. Any time before a restore, once
 * it is declared. Errors: out of memory. */
MLT_API int mlt_ps_set_mover(struct mlt_ps *ps, mlt_table table,
                             mlt_mover *mover, void *arg);

/* ---- in a worker's thread ------------------------------------------------ */

/* Its number, from 0, and how many there are: over all nodes. */
MLT_API unsigned mlt_worker_index(const struct mlt_worker *w);
MLT_API unsigned mlt_worker_count(const struct mlt_worker *w);

/* Row of a shared or exclusive table, for reading: `width` values.
 *
 * An exclusive table: in place under every model; the pointer to a row of the
 * caller's own stays the row's place when the caller updates it.
 * bsp: in place, no copy; constant until the caller's next mlt_clock.
 * Else: the worker's cached copy. ssp, essp: at branch clock k it holds all
 * updates of branch clocks < k - staleness, and may hold newer ones. barrier:
 * those of as many workers as it says. async: whatever has come.
 * Blocks only where the consistency model has it wait; NULL if the run was
 * released by another worker's error while it waited. */
MLT_API const void *mlt_get_row(struct mlt_worker *w, mlt_table table,
                                uint64_t row);

/* Adds @delta[width] (the table's type) to the worker's update of the row. Rule
 * "add": the value changes by delta. Other rules: delta is a gradient, summed
 * over the clock, that the rule turns into a step. Copied. */
MLT_API void mlt_inc_row(struct mlt_worker *w, mlt_table table, uint64_t row,
                         const void *delta);

/* The worker's own update of a shared row for this clock, zeroed at its first
 * touch in the clock: add to it in place (saves inc_row its copy). Until the
 * clock ends or mlt_offer is called, nothing of the worker leaves early. */
MLT_API void *mlt_update_row(struct mlt_worker *w, mlt_table table,
                             uint64_t row);

/* The worker holds no pointer of mlt_update_row any more: with a bandwidth
 * budget, what it has added may leave before its clock ends. One that uses
 * mlt_inc_row alone need not call it. Costs a test where there is nothing to
 * send. */
MLT_API void mlt_offer(struct mlt_worker *w);

/* Batched forms. @rows[n]; get writes n pointers as mlt_get_row would return
 * them; inc takes n packed deltas of width values each. For an exclusive table
 * inc applies the rule at once, row after row.
 *
 * Get also sends for the rows' values, so that rows at random places come from
 * memory while the caller works on others: ask for the next batch before you
 * work on this one, 8 to 16 rows at a time. */
MLT_API int mlt_get_rows(struct mlt_worker *w, mlt_table table, size_t n,
                         const uint64_t rows[], const void *out[]);
MLT_API void mlt_inc_rows(struct mlt_worker *w, mlt_table table, size_t n,
                          const uint64_t rows[], const void *deltas);

/* The batched get in two steps: begin sends for the rows that have to be
 * fetched and returns at once; wait gives all n pointers, as mlt_get_rows would
 * now, and waits for what has not come. Between the two the worker does what it
 * likes; other reads go ahead of the batch. At most MLT_GETS_MAX batches of a
 * worker are under way; they may be waited for in any order.
 *
 * @rows[n], of a shared or exclusive table: copied. @batch: its number, never
 * the same twice. The end of the table's clock (of all, or its own), and of the
 * run, drops batches that were not waited for.
 *
 *     uint64_t batch[2];
 *
 *     mlt_get_rows_begin(w, t, N, first, &batch[0]);
 *     mlt_get_rows_begin(w, t, N, second, &batch[1]);
 *     prepare(samples);             // while they travel
 *     if (mlt_get_rows_wait(w, batch[0], row))
 *         return 1;
 *     learn(row);                   // while the others do
 *     if (mlt_get_rows_wait(w, batch[1], row))
 *         return 1;
 *
 * Errors of begin, with nothing begun: so many are under way, out of memory. Of
 * wait: no such batch, as it was waited for already or was dropped; those of
 * mlt_get_rows, and the batch is dropped then. */
enum { MLT_GETS_MAX = 8 };
MLT_API int mlt_get_rows_begin(struct mlt_worker *w, mlt_table table, size_t n,
                               const uint64_t rows[], uint64_t *batch);
MLT_API int mlt_get_rows_wait(struct mlt_worker *w, uint64_t batch,
                              const void *out[]);

/* Row for reading and writing in place. MLT_EXCLUSIVE: the caller owns it
 * (asserted). MLT_LOCAL: the caller's own. The chunk is made private first. */
MLT_API void *mlt_row(struct mlt_worker *w, mlt_table table, uint64_t row);

/* Many exclusive rows that the caller owns, looked up once. mlt_rows writes n
 * pointers as mlt_row would return them; nothing is fetched from memory, so
 * that the caller can prefetch when it suits (mlt_row_bytes). mlt_step_rows
 * applies the table's rule at once, row after row, to rows that mlt_rows gave
 * in this clock: n packed deltas of width values each. */
MLT_API void mlt_rows(struct mlt_worker *w, mlt_table table, size_t n,
                      const uint64_t rows[], void *out[]);
MLT_API void mlt_step_rows(struct mlt_worker *w, mlt_table table, size_t n,
                           void *const rows[], const void *deltas);

/* mlt_step_rows for gradients that need not be written anywhere: that of row i
 * is
 *
 *     own * row i + scale[i] * with[i]
 *
 * with the row's values as they are, rows different from each other. Rules that
 * have a loop for it ("sgd", "adagrad") read and write each row once; for
 * others the gradients go through @scratch[n * width], with the same result to
 * the last bit. f32 tables. */
struct mlt_mix {
    size_t n;
    void *const *rows; /* [n] as mlt_rows gave them */
    float own;
    const float *scale;       /* [n] */
    const float *const *with; /* [n] of width values, in no row's place */
};
MLT_API void mlt_step_rows_mix(struct mlt_worker *w, mlt_table table,
                               const struct mlt_mix *mix, float *scratch);

/* mlt_step_rows_mix of both rows of pairs, each with the other as it was:
 *
 *     row i of side 0:   own * row + scale[i] * the other
 *     row i of side 1:   the same
 *
 * so that neither need be copied. No row occurs twice, on either side; both
 * tables are of f32 and of one width. Rules that have a loop for it ("sgd",
 * "adagrad", where both tables have the same) read and write each row once;
 * for others the rows go through @scratch[2 * n * width], with the same result
 * to the last bit. */
struct mlt_cross {
    size_t n;
    mlt_table table[2];
    void *const *rows[2]; /* [n] as mlt_rows or mlt_loop_rows gave them */
    float own;
    const float *scale; /* [n] */
};
MLT_API void mlt_step_rows_cross(struct mlt_worker *w,
                                 const struct mlt_cross *cross, float *scratch);

/* Bytes from a row's first value to the end of what its rule remembers of it.
 * After mlt_ps_start. */
MLT_API uint32_t mlt_row_bytes(const struct mlt_worker *w, mlt_table table);

/* Rows first .. first + count - 1 of an exclusive table belong to worker @index
 * (also the part of a shared table whose shard it holds; where mlt_ps_expect
 * had it placed, these are places: mlt_row_at says which rows lie there). */
MLT_API void mlt_owned_rows(const struct mlt_ps *ps, mlt_table table,
                            unsigned index, uint64_t *first, uint64_t *count);

/* Writes a shared or exclusive row that the caller owns (mlt_owned_rows) before
 * training starts: initial values, bypassing the rule; slots stay zero. */
MLT_API void mlt_init_row(struct mlt_worker *w, mlt_table table, uint64_t row,
                          const void *values);

/* Ends the clock: all updates of this worker leave. bsp: waits for all workers
 * and returns when the sums are applied. ssp: returns at once; the wait comes
 * with a read. Returns 0, or an error when another worker failed.
 *
 * Updates after a worker's last mlt_clock of a run belong to no clock. Do not
 * count on them: they are dropped when the run ends, but with a bandwidth
 * budget between nodes and a model without barriers some may have left before
 * and are applied. */
MLT_API int mlt_clock(struct mlt_worker *w);

/* Ends the clock of one table.
 *
 * With MLT_OWN_CLOCK: at most once between two mlt_clock, and until that
 * mlt_clock the worker neither reads the table nor updates it. Never waits: its
 * updates leave at once, so that they travel, and are applied, while it
 * computes. bsp: as soon as all workers have ended it, by each owner when it
 * next ends a clock; what is applied, and in which order, is the same as if
 * mlt_clock had done it, to the last bit.
 *
 * Without: for tables with fewer or more clocks than others. bsp: waits for all
 * workers, who must end that table's clock too; mlt_clock still ends one more
 * of every table. On several nodes shards then keep more of other nodes' sums
 * than mlt_ps_plan counts, in the worst case whole tables of them. */
MLT_API int mlt_clock_table(struct mlt_worker *w, mlt_table table);

/* ---- keys ---------------------------------------------------------------- */

/* Sparse keys: any 64-bit number, in a table with MLT_KEYED. A key that was
 * added has a row of the table, the same in all workers, nodes and branches and
 * for good: look it up once, and use the row's number in all calls above, in
 * later clocks and runs too. There is no order in rows, and none of them is to
 * be counted on: another run gives others. Keys are not taken back, by the drop
 * of a branch neither.
 *
 * A row reads as zeros in a branch in which nobody has updated it. A key that
 * nobody has added has no row, in place of which stands MLT_NO_ROW: that is not
 * to be read (it ends the process); take zeros for it. It takes no memory.
 *
 * mlt_find_keys looks for @keys[n] and writes @rows[n]; mlt_add_keys adds those
 * that are not there. Both take batches: keys of other nodes are asked for
 * all at once, and those of this node come from memory side by side. No
 * consistency model acts on them: a key that another worker has added is there
 * at once. Any worker, any time in a run.
 *
 * Memory: 15 to 18 bytes a key in the node that has it (mlt_ps_memory.fixed has
 * those of all rows).
 *
 * Errors, of mlt_add_keys: the rows of a key's node are all given
 * (mlt_error_text says that the limit is reached), out of memory; then @rows
 * has MLT_NO_ROW for those without, and others of the batch may have been
 * added. Of both: another worker failed, and the run ends (@rows is
 * written all the same). Over n nodes each has an n-th of
 * the rows, and keys fall to nodes by chance: leave some percent free. */
#define MLT_NO_ROW UINT64_MAX
MLT_API int mlt_find_keys(struct mlt_worker *w, mlt_table table, size_t n,
                          const uint64_t keys[], uint64_t rows[]);
MLT_API int mlt_add_keys(struct mlt_worker *w, mlt_table table, size_t n,
                         const uint64_t keys[], uint64_t rows[]);

/* Keys that this node has. After mlt_ps_start, between two runs. */
MLT_API uint64_t mlt_ps_keys(const struct mlt_ps *ps, mlt_table table);

/* ---- access knowledge ---------------------------------------------------- */

/* Access knowledge: with several nodes, and options.access other than "off",
 * the server remembers which rows of shared tables a worker reads in a clock.
 * In its next clock, the first read of a table whose rows have to be fetched
 * sends for all of them at once, those first that were needed first. A row that
 * is not known is fetched when it is read, and known from then on; one that was
 * fetched in vain a few times is forgotten. No value depends on any of it.
 *
 * Where not every clock reads the same rows, because a clock works on a part of
 * the data: says that this worker's clock, and those that follow, work on part
 * @part; what is known is known of a part. 0 until it is said. Call it before
 * the clock's first read. Parts from 65,536 on are taken, but nothing is known
 * of them. */
MLT_API void mlt_clock_part(struct mlt_worker *w, uint64_t part);

#ifdef __cplusplus
}
#endif
#endif
