/* Consistency models: may this worker read at this clock?
 *
 * A model is a plug-in, pure: it sees what each worker has published and says
 * whether a read may go on, or has to wait until somebody's clock moves. Clocks
 * count what a worker has finished: a worker at clock k computes its clock k
 * and has sent its updates of clocks < k.
 *
 * Sources: SSP, Ho et al. 2013; ESSP, Dai et al. 2015 (its pushes concern rows
 * of other nodes; without any it equals SSP); the predicate over a table of
 * worker status, Soori et al., listing 1.
 */
#ifndef PS_CONSISTENCY_H
#define PS_CONSISTENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of the worker status table (Soori et al., STAT). */
struct worker_status {
    int64_t clock;     /* clocks finished */
    bool available;    /* false: has finished its run; nobody waits for it */
    int64_t staleness; /* clocks behind the fastest; consistency_rank */
    double task_s;     /* mean work time of a clock; 0 where not known */
};

/* Fills in every worker's staleness. */
void consistency_rank(struct worker_status worker[], unsigned workers);

struct consistency_view {
    const struct worker_status *worker; /* [workers] */
    unsigned workers;
    unsigned self;      /* the reader: worker[self].clock is its clock */
    unsigned staleness; /* clocks a read may lag */
    unsigned quorum;    /* barrier: workers that must have come; 0: half */
};

struct consistency_ops {
    const char *name;
    const char *summary; /* one line for help */

    /* true: clocks are barriers, where sums over all workers meet; reads in
     * between are in place and never ask. */
    bool barrier;
    bool uses_staleness; /* the tunable can act */

    /* Between nodes: rows that a node has read once are sent to it whenever
     * they have changed, before it is told of the clock they belong to. */
    bool pushes;

    /* Whether @v->self may read now. Pure; asked again after any worker's clock
     * moved. Once true it stays true until the reader's own clock moves. */
    bool (*may_read)(const struct consistency_view *v);

    /* holds() speaks of the updates of all workers: staleness is bounded. Else
     * it only says how long a copy is good. */
    bool bounds;

    /* A copy taken now holds every update of clocks below holds(v); a copy may
     * be read again as long as what it holds is at least needs(v). */
    int64_t (*holds)(const struct consistency_view *v);
    int64_t (*needs)(const struct consistency_view *v);
};

/* The model of that name, or NULL. */
const struct consistency_ops *consistency_find(const char *name);

/* Model number @i in order of listing, NULL after the last. */
const struct consistency_ops *consistency_at(size_t i);

/* "bsp, ssp, essp, async, barrier", for messages. */
const char *consistency_names(void);

#endif
