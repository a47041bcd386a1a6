/* A shard's inside: what shard.c (life, sending) and shard_step.c (taking
 * frames) share. */
#ifndef PS_SHARD_INTERNAL_H
#define PS_SHARD_INTERNAL_H

#include "ps/nodes/revision.h"
#include "ps/nodes/shard.h"
#include "ps/nodes/sum_stream.h"
#include "ps/rows/rowset.h"
#include "ps/rows/update.h"

/* A worker of any node, as its frames tell. */
struct shard_worker {
    int64_t all;    /* clocks of all tables, from the slice's first */
    int64_t *extra; /* [tables] clocks of that table alone; where the table has
                     * a clock of its own, 1 from its end to that of all */
    bool available; /* has not drained */
    double task_s;  /* mean work time of its clocks in this slice */
    uint64_t tasks;
    uint64_t *through; /* [tables] frames of rows that its node had when its
                        * last clock of the table ended */
    /* Under barriers, of one that begins a block of its node's, [tables]: the
     * block's sums that are not applied yet, by rows of this shard's part. None
     * elsewhere, for tables that are not shared, and of a node's own where they
     * stay with the workers. Of a table that has streams it is empty, and they
     * are in its stream. */
    struct update *sum;
    struct sum_stream *stream; /* [tables] beside `sum` */
};

struct shard_table {
    const struct table *t;
    bool shared;
    bool readable;         /* shared or exclusive */
    bool clocked;          /* shard_keeps_clock */
    bool own_clock;        /* MLT_OWN_CLOCK */
    uint64_t first, count; /* this node's rows */
    int64_t clock;
    /* Sums that a stream may be ahead, 0: none has a limit; and rows of the
     * present clock that are applied, those below by row - first. */
    uint64_t stream_rows, applied;
    struct rowset changed;     /* by row - first, since the clock last moved */
    struct revision *revision; /* of rows by row - first; NULL: no versions */
    /* Where rows may be pushed early: [count] how far each row has moved since
     * the clock last did; NULL elsewhere. */
    float *moved;
};

struct shard_read {
    uint32_t table, worker;
    uint64_t row;
};

struct shard_done {
    uint64_t op;
    uint32_t code;
};

/* A node's account: rows and clocks that it is still to be sent, and those that
 * it has. */
struct shard_node {
    struct shard_read *read; /* [reads] in order of arrival */
    uint32_t reads, reads_room;
    struct rowset *has; /* [tables] registered rows, by row - first */
    struct rowset *due; /* [tables] of those, changed and not pushed yet */
    /* [tables] sent since the clock last moved, and not changed since; only
     * where rows may be pushed early. */
    struct rowset *ahead;
    uint32_t early_table; /* where the next search for such rows begins */
    uint64_t *early_row;  /* [tables] */
    bool *clock_due;      /* [tables] */
    bool any_clock_due;
    bool taken_due;      /* it is to be told of sums that were taken */
    bool unlimited_due;  /* ... or that there is no limit now */
    bool half;           /* wants FRAME_F16 */
    uint64_t row_frames; /* FRAME_ROWS sent in this slice */
    /* UPDATE frames that were taken, since the start; and whether it waits to
     * hear of one: of a table whose sums it keeps until then. */
    uint64_t updates;
    bool applied_due;
};

struct shard {
    struct shard_options opt;
    struct shard_table *table; /* [opt.tables] */
    struct shard_worker *worker;
    uint32_t workers; /* over all nodes */
    struct shard_node *node;
    struct worker_status *status; /* [workers] scratch of a question */
    const struct update **buffer; /* scratch of a sum: [workers] */
    uint32_t *buffer_at;          /* ... and whose they are */
    struct sum_stream **stream;   /* the same of streams: [workers] */
    bool streams;                 /* some table has them */
    bool unlimited;               /* in this slice they have no limit */
    unsigned char *values;        /* scratch: RULE_ROW_BATCH widest rows */
    uint32_t value_bytes_max;
    bool notifies; /* nodes are told when a clock moves */

    /* Rows may be pushed early: the model's part in it, and this slice's; and
     * scratch: [RULE_ROW_BATCH + 1] rows, [SHARD_EARLY_ROWS]. */
    bool can_early, early;
    unsigned char *before;
    struct candidate *candidate;
    uint64_t random;

    uint64_t slice; /* 0 before the first */
    bool running;   /* begun, and not all workers have drained */
    bool writable;
    unsigned staleness;
    struct barrier_rule rule;  /* opt.rule with the slice's own k */
    struct rule_params params; /* as the slice began */
    struct rule_params now;    /* of the clock of what is applied: warm-up */
    int64_t begun;             /* the slice's first clock */

    struct shard_done done[SHARD_OPS_MAX]; /* answers not sent yet */
    uint32_t dones;
    bool drained_due;
    struct shard_stats stats;
};

/* ---- shard_sums.c: under barriers, sums until they are applied ------------
 */

/* Whether sums come in frames in the name of this worker. */
bool shard_sums_come(const struct shard *s, uint32_t worker);

/* Why an update is none; NULL: it is one, as far as its worker, clock and table
 * go. */
const char *shard_sums_refused(const struct shard *s, const struct frame *f);

/* The same of its rows, which are this shard's: of a stream they come in order.
 */
bool shard_sums_in_order(const struct shard *s, const struct frame *f);

/* Keeps those of a frame, or applies what may be. */
void shard_sums_keep(struct shard *s, const struct frame *f);

/* Applies what all streams of the table have passed. */
void shard_sums_advance(struct shard *s, uint32_t table);

/* A worker has ended the clock of a single table without MLT_OWN_CLOCK. */
void shard_sums_lift(struct shard *s);

/* A slice begins. */
void shard_sums_begin(struct shard *s);

/* A frame that tells @n what was taken, which it is to be told. */
size_t shard_sums_tell(struct shard *s, struct shard_node *n,
                       unsigned char *bytes, size_t room);

/* The rule once a row, to the sum over all workers. Sums of the next clock
 * cannot have come yet, because nobody goes on before this shard has said that
 * it is done. */
void shard_sums_apply(struct shard *s, uint32_t table);

/* shard_step.c: applies sums of @n <= RULE_ROW_BATCH rows. @version: of the
 * rows that they were computed on; not under barriers. */
void shard_apply_batch(struct shard *s, uint32_t table, size_t n,
                       const uint64_t row[], const void *const sum[],
                       const uint32_t version[]);

/* ---- shard_versions.c: tables whose rule revises ------------------------- */

enum err shard_versions_init(const struct shard *s, struct shard_table *t);

/* A slice begins: nobody has any row. */
void shard_versions_begin(struct shard *s);

/* Whether the frame says versions where it must, and none that is to come. */
bool shard_versions_are_known(const struct shard *s, const struct frame *f);

/* Before sums are applied that were computed on @version[n]: what the gradient
 * sums of their rows were then, @seen[n]. */
void shard_versions_seen(struct shard *s, uint32_t table, size_t n,
                         const uint64_t row[], const uint32_t version[],
                         const void *seen[]);

/* A worker's clock has ended; or a worker of @node has drained. */
void shard_versions_clock(struct shard *s, const struct frame *f);
void shard_versions_drain(struct shard *s, uint32_t node);

void shard_versions_count(const struct shard *s, struct shard_stats *stats);

/* ---- shard_early.c: rows that are pushed before they have to be ---------- */

enum err shard_early_init(struct shard *s);
void shard_early_deinit(struct shard *s);
void shard_early_begin(struct shard *s);

/* Rows are about to change; have changed. */
void shard_early_before(struct shard *s, uint32_t table, size_t n,
                        const uint64_t row[]);
void shard_early_after(struct shard *s, uint32_t table, size_t n,
                       const uint64_t row[]);

/* @n has been given the row as it is. */
void shard_early_given(struct shard *s, struct shard_node *n, uint32_t table,
                       uint64_t row);

/* The table's clock has moved, and changed rows are due: not those that nodes
 * have. */
void shard_early_clock(struct shard *s, uint32_t table);

/* Flags of its frames of rows. */
unsigned shard_row_flags(const struct shard_table *t);

/* shard.c: begins a frame of rows; adds one, false where there is no room. */
void shard_begin_rows(const struct shard *s, struct shard_node *n,
                      uint32_t table, int64_t holds, uint32_t worker,
                      struct frame_writer *w, unsigned char *bytes,
                      size_t room);
bool shard_add_row(struct shard *s, struct shard_node *n, uint32_t table,
                   uint64_t row, struct frame_writer *w);

/* A table's clock of one worker. */
static inline int64_t shard_worker_clock(const struct shard_worker *w,
                                         uint32_t table)
{
    return w->all + w->extra[table];
}

#endif
