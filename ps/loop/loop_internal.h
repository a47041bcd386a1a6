/* A loop of a server, planned: what the room's files share. */
#ifndef PS_LOOP_INTERNAL_H
#define PS_LOOP_INTERNAL_H

#include "ps/loop/parts.h"
#include "ps/loop/schedule.h"
#include "ps/loop/trips.h"
#include "ps/server/lend.h"

#include <stdatomic.h>

enum { LOOP_LINE_BYTES = 64 };

/* A worker's place in a pass. */
struct loop_seat {
    _Alignas(LOOP_LINE_BYTES) const struct mlt_loop *loop;
    uint64_t first; /* iteration of the block that the body has */
    /* Of each touch of a table that is updated in place: chunks that were lent
     * in this pass, NULL before. Touches of one table have one array; owned. */
    unsigned char **chunk[MLT_LOOP_TOUCHES_MAX];
    double total[MLT_LOOP_TOTALS_MAX];
    /* What it shows the others, on a line of its own. */
    _Alignas(LOOP_LINE_BYTES) _Atomic unsigned ended; /* steps of this pass */
};

/* Fixed once it is planned, but for the seats (each its worker's) and the
 * results (worker 0's, read by others after a barrier). */
struct mlt_loop {
    struct mlt_ps *ps;
    char *name; /* owned */
    struct loop_nest nest;
    uint32_t *key; /* [iterations][dims] part after part; owned */
    void *value;   /* [iterations] of value_bytes, the same; owned, or NULL */
    size_t value_bytes;
    uint64_t *runs; /* of ps/loop/apart.h; owned, or NULL */
    struct loop_plan plan;
    struct loop_parts parts; /* `order` is gone */
    struct loop_schedule schedule;
    char *text; /* owned */

    uint64_t buffer;
    bool has_buffered;
    bool written[MLT_LOOP_TOUCHES_MAX]; /* its table is updated in place */
    bool waits[MLT_LOOP_TOUCHES_MAX];   /* it reads a shared table */
    struct lend_layout layout[MLT_LOOP_TOUCHES_MAX]; /* of those */
    unsigned first[MLT_LOOP_TOUCHES_MAX]; /* touch of the same table */
    struct lend_guard guard;
    unsigned tables; /* when it was planned; the server may have more by now */
    bool *declared;  /* [tables] owned; by a touch */
    char *table_name[MLT_LOOP_TOUCHES_MAX]; /* of each touch; owned */

    unsigned workers, own;  /* over all nodes; of this one */
    struct loop_seat *seat; /* [own] owned */
    struct mlt_total total[MLT_LOOP_TOTALS_MAX];
    unsigned totals;
    double result[MLT_LOOP_TOTALS_MAX];
    struct loop_travel *travel; /* owned; NULL on one node */
};

/* ---- loop_travel.c: over several nodes ----------------------------------- */

/* Once the loop is planned. Errors: in words. */
enum err travel_new(struct mlt_loop *l, struct fault *f);
void travel_free(struct mlt_loop *l);

/* Where a row of a written table lies that is of another node; NULL: it is of
 * this one. */
unsigned char *travel_visitor(const struct mlt_loop *l, unsigned touch,
                              uint64_t row);

/* A row of zeroes, for a body whose run has failed. */
const void *travel_spare(const struct mlt_loop *l);

/* What the passes of ps/loop/loop_pass.c do beside their own work: the first
 * worker of a node begins and ends, of steps @first .. @first + @n - 1. 0 or
 * the run's error. */
int travel_begin(struct mlt_loop *l, struct mlt_worker *w, unsigned first,
                 unsigned n);
int travel_await(const struct mlt_loop *l, struct mlt_worker *w, unsigned step);
int travel_end(struct mlt_loop *l, struct mlt_worker *w);

/* @total of all workers, in their order, once a pass has ended. */
double travel_total(const struct mlt_loop *l, unsigned worker, unsigned total);

#endif
