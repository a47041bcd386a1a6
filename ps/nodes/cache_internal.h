/* A cache's inside: what cache.c (what workers call) and cache_wire.c (frames)
 * share. */
#ifndef PS_CACHE_INTERNAL_H
#define PS_CACHE_INTERNAL_H

#include "ps/nodes/cache.h"
#include "ps/nodes/own_sums.h"
#include "ps/nodes/sum_stream.h"
#include "ps/rows/rowset.h"

struct cache_table {
    const struct table *t;
    bool shared;
    bool readable;       /* shared or exclusive */
    bool clocked;        /* shard_keeps_clock */
    bool own_clock;      /* MLT_OWN_CLOCK */
    bool in_place;       /* this node's rows are read where they are */
    bool early;          /* its sums may leave before the clock ends */
    struct slots slots;  /* of the rows that ever came; the arrays below are
                          * reserved for all */
    unsigned char *copy; /* [slot * value_bytes] */
    int64_t *held;       /* [slot] clock of the copy; below base: none */
    bool versions;       /* rows come with theirs (FRAME_VERSIONS) */
    uint32_t *version;   /* [slot] of the copies, where they do */
    bool keeps_own;      /* own_sums_are_kept */
    uint32_t *own;       /* [slot] where they are, the row's latest */
};

/* A worker's way through its updates of one shard, and to its drain. */
struct cache_cursor {
    bool busy;
    bool drain_due;
    bool begun; /* it has been asked for sums: it may have passed a table */
    bool said;  /* of `table`, a stream: the shard knows that all have left */
    uint32_t table;
    bool walking; /* `walk` is in `table` */
    bool found;   /* `row` is the walk's next and not sent yet */
    uint64_t row;
    struct update_walk walk;
};

/* Rows that the worker will read in this clock. */
struct cache_batch {
    uint64_t number;
    const uint64_t *row; /* [n] borrowed */
    size_t n;
    size_t *at; /* [nodes] of each shard, those before are here or asked for */
    uint32_t table;
};

struct cache_worker {
    int64_t all, *extra; /* clocks; extra[tables] */
    uint32_t ends;       /* what clock it is ending: a table's, or all */
    bool *ended;         /* [tables] but not this one's: it has ended before */
    uint32_t block, block_workers; /* its block's first, and how many */
    double seconds;
    uint32_t sending;            /* cursors that are busy */
    struct cache_cursor *cursor; /* [nodes] */
    /* Where the next search for rows that leave early begins: the table,
     * [nodes]; in each table the row, [nodes * tables]. */
    uint32_t *early_table;
    uint64_t *early_row;
    bool drained;
    uint64_t drain_slice; /* that it drained in */
    struct rowset *asked; /* [tables] its reads under way or about to be sent */
    uint32_t *asks;       /* [nodes] how many these are, of each shard */
    struct cache_batch batch[CACHE_BATCHES_MAX]; /* [batches] as they began */
    uint32_t batches;
    size_t *at; /* all of theirs */
    /* Where rows have versions, [tables]: rows that it has read in this clock,
     * those of them of which a sum has left early since, and [slot] the
     * versions that it read first. */
    struct rowset *read, *left;
    uint32_t **basis;
};

struct want {
    uint32_t table;
    uint16_t worker;
    uint16_t batch; /* the mark of that which it is of; 0: it is waited for */
    uint64_t row;
};

/* A stream to a shard: sums that left and that it has taken, since the start.
 */
struct cache_stream {
    uint64_t sent, taken;
};

struct cache_node {
    struct want *want; /* [wants] reads to be sent; room for all that may be */
    uint32_t wants;
    uint32_t passed;     /* frames of reads since the last of a batch, at most
                          * CACHE_PASSED_MAX */
    uint32_t asked;      /* rows under way or wanted, at most opt.reads_max */
    int64_t *clock;      /* [tables] what the shard has applied */
    uint64_t row_frames; /* FRAME_ROWS taken in this slice */
    uint32_t turn;       /* worker whose updates go next */
    /* [tables] of sum_stream_rows; [workers * tables], of a block's first; and
     * the slice in which the shard sets no limit. */
    uint64_t *stream_rows;
    struct cache_stream *stream;
    uint64_t unlimited;
    /* Since the start, UPDATE frames that left and that it is known to have
     * applied; [tables] those own sums that it is not known to have. */
    uint64_t updates, applied;
    struct own_sums *own;
};

struct cache {
    struct cache_options opt;
    struct cache_table *table;
    struct cache_worker *worker; /* [opt.workers] */
    struct cache_node *node;     /* [opt.nodes] */
    uint32_t value_bytes_max;
    uint64_t slice; /* that frames come for, or the latest that began here */
    uint64_t begun; /* the latest that began here */
    int64_t base;   /* the slice's first clock */
    unsigned staleness;
    unsigned char *values;        /* scratch: one row */
    struct candidate *candidate;  /* scratch: [CACHE_EARLY_ROWS] */
    const struct update **buffer; /* [tables * workers] opt.update by table */
    uint64_t random;
    struct cache_stats stats;
    struct staleness seen;
};

/* Gives up the reads that were under way; the shards have said nothing yet. */
void cache_enter_slice(struct cache *c, uint64_t slice);

/* The clock below which the copy of a row holds everything; below c->base:
 * there is none of this slice. */
int64_t cache_holds(const struct cache *c, uint32_t table, uint64_t row);

/* The oldest clock that a copy may have for this worker. */
int64_t cache_needed(const struct cache *c, uint32_t worker, uint32_t table);

/* ---- cache_reads.c: reads and batches of them -----------------------------
 */

enum { CACHE_PASSED_MAX = 3 };

/* Asks for a row unless that is asked for, or too many are. @batch: 0, or the
 * mark of the batch that it is of. */
void cache_ask(struct cache *c, uint32_t worker, uint32_t table, uint64_t row,
               uint16_t batch);

/* An answer of a shard has come: the worker's batches go on. */
void cache_fetch_more(struct cache *c, uint32_t worker, uint32_t node);

/* The row that is to be asked for next, of those that may be; n->wants: none.
 * One that is waited for goes ahead of those of batches; but after
 * CACHE_PASSED_MAX frames the oldest is next, until a batch has had its turn.
 */
uint32_t cache_first_want(const struct cache *c, uint32_t node);

/* Wanted row @first, and the others of its worker and table and, if it is of a
 * batch, of that. */
size_t cache_send_reads(struct cache *c, uint32_t node, uint32_t first,
                        unsigned char *bytes, size_t room);

static inline void cache_forget_read(struct cache_worker *w, uint32_t table)
{
    rowset_clear(&w->read[table]);
    rowset_clear(&w->left[table]);
}

/* ---- cache_sums.c: sums that leave when a clock ends ----------------------
 */

/* Errors: ERR_NOMEM. */
enum err cache_sums_init(struct cache *c);

void cache_sums_deinit(struct cache *c);

/* What a worker that ends a clock or drains has to say to a shard next. */
enum cache_next_sums {
    CACHE_SUMS,       /* sums, or that all of a stream have left */
    CACHE_NO_SUMS,    /* none: its clock or drain */
    CACHE_SUMS_WAIT,  /* nothing, until the shard has taken more */
    CACHE_SUMS_LATER, /* nothing, until another of its block has told its clock
                       */
};
enum cache_next_sums cache_find_sums(const struct cache *c, uint32_t worker,
                                     uint32_t node);

/* After CACHE_SUMS, the frame. */
size_t cache_send_sums(struct cache *c, uint32_t worker, uint32_t node,
                       unsigned char *bytes, size_t room);

/* A shard has taken sums of a stream. */
enum err cache_sums_taken(struct cache *c, const struct frame *f,
                          struct fault *fault);

/* A shard has applied so many update frames of this node; false: it cannot
 * have. */
bool cache_sums_applied(struct cache *c, const struct frame *f);

/* A worker's sum of a row into a frame, with the version that it was computed
 * on; false when there is no room. */
bool cache_add_sum(const struct cache *c, uint32_t worker, uint32_t table,
                   uint64_t row, struct frame_writer *w);

/* Flags of a table's frames of rows with values. */
unsigned cache_row_flags(const struct cache_table *t);

/* A frame for @node with a worker's sums of @table at @clock. */
void cache_begin_sums(struct cache *c, uint32_t worker, uint32_t node,
                      uint32_t table, int64_t clock, struct frame_writer *w,
                      unsigned char *bytes, size_t room);

/* Whether the clock that the worker ends is one of @table. */
static inline bool cache_ends(const struct cache_worker *w, uint32_t table)
{
    return w->ends == table ||
           (w->ends == FRAME_ALL_TABLES && !w->ended[table]);
}

/* The clock of the copy of a row, below that of any slice where there is none.
 */
static inline int64_t cache_held(const struct cache_table *t, uint64_t row)
{
    return slots_has(&t->slots, row) ? t->held[slots_of(&t->slots, row)] : 0;
}

static inline uint32_t cache_node_of(const struct cache *c, uint32_t table,
                                     uint64_t row)
{
    return shard_of(c->table[table].t, c->opt.nodes, c->opt.workers, row);
}

#endif
