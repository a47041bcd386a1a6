/* mltune loops: serial loops over data, run by many workers as if by one.
 *
 * A program says over what it loops (an iteration space), which rows each
 * iteration touches (subscripts), and what an iteration does (a body). From the
 * subscripts follows which iterations depend on one another, and from that how
 * the loop can be split so that no two workers ever touch the same row at the
 * same time (Wei 2018, section 3.4). No update is lost or late: an unordered
 * loop gives what some serial order gives, an ordered one what the serial order
 * gives, to the last bit.
 *
 *     enum { USER, ITEM };
 *     struct mlt_touch touch[] = {
 *         {users, MLT_READS | MLT_UPDATES, {MLT_INDEX(0, 0)}},
 *         {items, MLT_READS | MLT_UPDATES, {MLT_INDEX(1, 0)}},
 *     };
 *     struct mlt_loop_options o = MLT_LOOP_OPTIONS;
 *     o.dims = 2, o.extent[0] = USERS, o.extent[1] = ITEMS;
 *     o.iterations = ratings, o.key = pairs;
 *     o.value = stars, o.value_bytes = sizeof(float);
 *     o.touch = touch, o.touches = 2;
 *     mlt_loop_new(ps, &o, &loop, &err);
 *     mlt_loop_run(loop, body, arg);      // one pass; as often as wanted
 *
 * Returns: 0 or a positive error code (mlt_error_text), as in mltune/ps.h.
 * docs/loops.md tells the whole.
 */
#ifndef MLTUNE_LOOP_H
#define MLTUNE_LOOP_H

#include "mltune/ps.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MLT_LOOP_DIMS_MAX = 4,
    MLT_LOOP_AXES_MAX = 4,
    MLT_LOOP_TOUCHES_MAX = 16,
    MLT_LOOP_TOTALS_MAX = 16,
    MLT_LOOP_PARTS_MAX = 4096, /* along one dimension */
    MLT_LOOP_APART_MAX = 64
};

/* ---- what an iteration touches ------------------------------------------- */

/* One subscript of a table: which of its rows, along one axis. */
enum mlt_subscript_kind {
    MLT_SUBSCRIPT_NONE,
    MLT_SUBSCRIPT_INDEX, /* index `dim` of the iteration, plus a constant */
    MLT_SUBSCRIPT_FIXED, /* always the same */
    MLT_SUBSCRIPT_DATA   /* depends on the data: the body says which */
};
struct mlt_subscript {
    enum mlt_subscript_kind kind;
    unsigned dim;
    int64_t plus;  /* the constant; of a fixed one: the place itself */
    uint64_t size; /* of the axis; 0: the table has this one axis, its rows */
};
/* clang-format off */
#define MLT_INDEX(dim, plus)       {MLT_SUBSCRIPT_INDEX, (dim), (plus), 0}
#define MLT_FIXED(row)             {MLT_SUBSCRIPT_FIXED, 0, (row), 0}
#define MLT_FROM_DATA              {MLT_SUBSCRIPT_DATA, 0, 0, 0}
#define MLT_INDEX_OF(size, dim, plus) {MLT_SUBSCRIPT_INDEX, (dim), (plus), (size)}
#define MLT_FIXED_OF(size, place)  {MLT_SUBSCRIPT_FIXED, 0, (place), (size)}
/* clang-format on */

/* Beside MLT_READS and MLT_UPDATES: the update may come late (see touch). */
enum { MLT_BUFFERED = 4 };

/* One touch of a table by the body. A touch's number is its place in the array.
 *
 * @touch: MLT_READS, MLT_UPDATES or both, of an exclusive table
 * (MLT_EXCLUSIVE), whose rows the body then reads and writes in place
 * (mlt_loop_row). Two touches of one table of which one updates make iterations
 * depend on each other. Those that only read may also be of a shared table.
 *
 * Over several nodes a table that one loop updates, and another reads within
 * the same clock, needs a clock between: the copies of it are old.
 *
 * MLT_UPDATES | MLT_BUFFERED: of a shared table; exempt from dependence. What
 * the body adds (mlt_loop_add) is summed for its worker and applied by the
 * table's rule at the end of each part, or after at most `buffer` iterations.
 *
 * @at: the row; several subscripts where the table's rows stand for more than
 * one axis, row-major (MLT_INDEX_OF, with the size of each axis). */
struct mlt_touch {
    mlt_table table;
    unsigned touch;
    struct mlt_subscript at[MLT_LOOP_AXES_MAX];
};

/* ---- a loop -------------------------------------------------------------- */

/* A number that each worker gathers and that is combined, in worker order, at
 * the end of a pass. Combining must be commutative and associative, and
 * @identity change nothing. */
struct mlt_total {
    double (*combine)(double a, double b); /* NULL: the sum */
    double identity;
};

struct mlt_loop_options {
    size_t size; /* sizeof(struct mlt_loop_options) */
    const char *name;
    unsigned dims;                      /* 1 .. MLT_LOOP_DIMS_MAX */
    uint64_t extent[MLT_LOOP_DIMS_MAX]; /* indices run from 0 to extent - 1 */

    /* A sparse space: its iterations. NULL: a dense one, all indices, the last
     * dimension fastest. Copied, in the order of the plan. */
    uint64_t iterations; /* at most 2^32 - 2 */
    const uint32_t *key; /* [iterations][dims] */
    /* [iterations] of value_bytes, or NULL. Nodes compare the bytes: no
     * pointers, no padding that is not set. */
    const void *value;
    size_t value_bytes;

    const struct mlt_touch *touch; /* [touches] */
    unsigned touches;
    const struct mlt_total *total; /* [totals]; NULL: all are sums */
    unsigned totals;

    /* 0: any serial order will do. 1: the result is that of the loop run
     * serially by ascending keys, the last dimension fastest. */
    int ordered;
    /* Deals the indices of the dimensions that are split to parts at random, by
     * this seed, where data is skewed. Not where the split needs their order.
     * 0: parts are ranges. */
    uint64_t shuffle;
    unsigned time_parts; /* a worker; 0: chosen. More: shorter waits */
    uint64_t buffer;     /* iterations that a buffered update waits; 0: a part*/
    /* For bodies that work on several iterations at once. A part's iterations
     * are put in an order in which, as often as can be, so many in a row,
     * counted from the part's first one, share no row of a table updated in
     * place; rows that the data choose are not looked at. mlt_loop_apart says
     * how many do not. 0: as given. At most MLT_LOOP_APART_MAX; not ordered. */
    unsigned apart;
};
/* clang-format off */
#define MLT_LOOP_OPTIONS                                                       \
    {sizeof(struct mlt_loop_options), "loop", 1, {0, 0, 0, 0}, 0, NULL, NULL,  \
     0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0}
/* clang-format on */

struct mlt_loop;

/* Plans the loop for the server's workers. Its tables are declared; it may be
 * started or not; tables that come later are not the loop's. @opt and what it
 * points to are copied.
 *
 * Memory: keys (4 bytes a dimension and iteration) and values; 8 bytes for each
 * part; with `apart` a bit an iteration; up to 2 MiB for each of the two
 * dimensions that are split; for each worker and table that is updated in place
 * 8 bytes a chunk. Besides, while it plans, 8 bytes an iteration, and of a
 * dense space the keys a second time. Over several nodes, where all have the
 * same loop, each has all of that; and the rows that visit it, 8 bytes a row
 * that leaves it in a pass or a step, and while the first one begins 24 bytes a
 * row of the tables updated in place.
 *
 * A loop that cannot be split is planned for one worker, and its text says what
 * is in the way.
 *
 * Errors, in words in @err, with the loop's name, touch, table and iteration:
 * a number out of range; a subscript that leaves its table; a key outside the
 * space; an updated table of the wrong access; over several nodes, rows of more
 * than 256 KiB or more than 64 nodes; more than 512 dependence vectors; out of
 * memory. */
MLT_API int mlt_loop_new(struct mlt_ps *ps, const struct mlt_loop_options *opt,
                         struct mlt_loop **out, struct mlt_error *err);

/* Accepts NULL. Before or after the server's end, while no worker runs. */
MLT_API void mlt_loop_free(struct mlt_loop *loop);

/* The plan in words and as a picture: which strategy, why, where it splits,
 * what is local, what goes from worker to worker, what is served, how much
 * moves. The loop's own; lines end with a newline. */
MLT_API const char *mlt_loop_text(const struct mlt_loop *loop);

/* ---- running it ---------------------------------------------------------- */

/* A run of iterations of one part: the body's argument. */
struct mlt_block {
    struct mlt_worker *worker;
    size_t n;            /* iterations, >= 1 */
    const uint32_t *key; /* [n][dims] */
    const void *value;   /* [n] of value_bytes; NULL without values */
    double *total;       /* [totals] this worker's, to be added to */
    void *inside;        /* of the library */
};

/* Carries out a block's iterations, in their order. Called in a worker's
 * thread. 0, or an error that ends the pass on all workers. */
typedef int mlt_loop_body(const struct mlt_block *block, void *arg);

/* One pass over all iterations, by all workers of the server; returns when all
 * rows are where they were: branches, checkpoints and saving know nothing of
 * loops. Of several nodes all call it, in the same order; a node whose loop is
 * another than the others' ends the run with ERR_NODE, and a word in the log.
 * Errors: the body's; those of mlt_ps_run. */
MLT_API int mlt_loop_run(struct mlt_loop *loop, mlt_loop_body *body, void *arg);

/* The same within mlt_ps_run, or an application's clock: called by all workers,
 * each with the same loop and body. Ends the clock (mlt_clock), with buffered
 * updates one or more a step. Where a worker does not come, but returns from
 * its work, ends its clock (bsp), or begins a pass of another loop: an error
 * for all, and mlt_ps_model_error names worker and loop, on the node that found
 * it. Without barriers a worker that goes on to later clocks instead is not
 * found before its work is over: one that then reads what waits for a worker in
 * the pass (ssp) waits for ever.
 */
MLT_API int mlt_loop_pass(struct mlt_worker *w, struct mlt_loop *loop,
                          mlt_loop_body *body, void *arg);

/* A pass in steps, for an application whose clocks are shorter than a pass: in
 * each step a worker has at most one part. Steps of a loop that is split in one
 * or two dimensions may come in any order, and all of them are a pass; those of
 * a wavefront come from 0 on. */
MLT_API unsigned mlt_loop_steps(const struct mlt_loop *loop);

/* A worker's part of a step, as its body gets it: iterations, keys and values,
 * in their order; the rest is NULL. For what a program keeps by iterations. The
 * number of them, 0 where the worker (over all nodes) has none in this step.
 * Any thread, at any time. Misuse: a step or worker that is none. */
MLT_API size_t mlt_loop_part(const struct mlt_loop *loop, unsigned worker,
                             unsigned step, struct mlt_block *out);

/* One step, called by all workers, each with the same loop, step and body. They
 * meet before and after it, and rows are where they were. Ends no clock: the
 * caller does, or the runtime after run_clock; buffered updates go with it.
 * Errors: as mlt_loop_pass. Misuse: a step that is none; `buffer`. */
MLT_API int mlt_loop_step(struct mlt_worker *w, struct mlt_loop *loop,
                          unsigned step, mlt_loop_body *body, void *arg);

/* The same as the last thing that a worker does in its clock: where they can,
 * workers meet when the clock ends (mlt_clock, the runtime after run_clock) and
 * not before, which saves a wait. Until then, others may be in the step, and no
 * row that the loop updates is to be read. */
MLT_API int mlt_loop_last_step(struct mlt_worker *w, struct mlt_loop *loop,
                               unsigned step, mlt_loop_body *body, void *arg);

/* A total after a pass, or after a step: of that alone; the identity before the
 * first. */
MLT_API double mlt_loop_total(const struct mlt_loop *loop, unsigned total);

/* ---- in a body ----------------------------------------------------------- */

/* The row that iteration @i of the block touches by touch @touch: `width`
 * values in place, valid until the body returns, never NULL: where the reads of
 * a shared table have to wait for other workers, the body is called after that.
 * Written only where the touch updates (mlt_step_rows applies the table's rule
 * to such rows). Not for subscripts that depend on the data, nor for buffered
 * touches. */
MLT_API void *mlt_loop_row(const struct mlt_block *block, unsigned touch,
                           size_t i);

/* The rows of iterations first .. first + n - 1; none is fetched from memory,
 * so that the caller can prefetch. */
MLT_API void mlt_loop_rows(const struct mlt_block *block, unsigned touch,
                           size_t first, size_t n, void *out[]);

/* Iterations of the block from @first on of which no two share a row of a table
 * that the loop updates in place, so that a body may compute them at once: at
 * least 1, at most `apart`, without which each is alone. Rows that the data
 * choose are not looked at. 0 at the block's end. */
MLT_API size_t mlt_loop_apart(const struct mlt_block *block, size_t first);

/* A row that the body chooses. Debug builds abort, and name loop, table and
 * row, where iteration @i did not declare it: a row other than the subscript's.
 * A shared table's row is for reading. Never NULL. */
MLT_API void *mlt_loop_row_at(const struct mlt_block *block, unsigned touch,
                              size_t i, uint64_t row);

/* Adds @delta [width] to a row of a buffered touch. Checked the same way. */
MLT_API void mlt_loop_add(const struct mlt_block *block, unsigned touch,
                          size_t i, uint64_t row, const void *delta);

#ifdef __cplusplus
}
#endif
#endif
