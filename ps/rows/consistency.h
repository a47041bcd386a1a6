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

#include "base/fault.h"
#include "mltune/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of the worker status table (Soori et al., STAT). */
struct worker_status {
    int64_t clock;     /* clocks finished */
    bool available;    /* false: has finished its run; nobody waits for it */
    int64_t staleness; /* clocks behind the fastest; consistency_rank */
    double task_s;     /* mean work time of a clock; 0 where not known */
    bool busy;         /* false: waits for a predicate; of users' models */
};

/* Whom a reader of the model barrier waits for: so many workers must have come
 * within the staleness of its clock. Zeroed: half of them. */
struct barrier_rule {
    unsigned k;      /* at least so many; 0: not said */
    double fraction; /* at least this part of those that count; 0: not said */
    /* Workers whose mean work time is above that many times the median do not
     * count, nor does anybody wait for them; >= 1, or 0: all count. With
     * nothing else said all that count must have come. */
    double slower_than;
};

/* @rule with @k in place of what it says of how many, unless @k is 0. */
static inline struct barrier_rule barrier_rule_with(struct barrier_rule rule,
                                                    unsigned k)
{
    if (k)
        rule = (struct barrier_rule){k, 0, rule.slower_than};
    return rule;
}

/* Fills in every worker's staleness. */
void consistency_rank(struct worker_status worker[], unsigned workers);

struct consistency_view {
    const struct worker_status *worker; /* [workers] */
    unsigned workers;
    unsigned self;            /* the reader: worker[self].clock is its clock */
    unsigned staleness;       /* clocks a read may lag */
    struct barrier_rule rule; /* of the model barrier */

    /* Of users' models, which see clocks of the run: its first clock, and room
     * for what they are shown, [workers]. */
    int64_t base;
    struct mlt_worker_status *shown;
};

struct consistency_ops {
    const char *name;
    const char *summary; /* one line for help */

    /* true: clocks are barriers, where sums over all workers meet; reads in
     * between are in place and never ask. */
    bool barrier;
    bool uses_staleness; /* the tunable can act */
    bool uses_barrier_k; /* the same */

    /* Between nodes: rows that a node has read once are sent to it whenever
     * they have changed, before it is told of the clock they belong to. */
    bool pushes;

    /* Whether @v->self may read now. Pure; asked again after any worker's clock
     * moved. Once true it stays true until the reader's own clock moves (but of
     * a barrier that leaves slow workers out: one may be slow no more). The
     * slowest of those that run may always read, so somebody goes on. */
    bool (*may_read)(const struct consistency_view *v);

    /* holds() speaks of the updates of all workers: staleness is bounded. Else
     * it only says how long a copy is good. */
    bool bounds;

    /* A copy taken now holds every update of clocks below holds(v); a copy may
     * be read again as long as what it holds is at least needs(v). */
    int64_t (*holds)(const struct consistency_view *v);
    int64_t (*needs)(const struct consistency_view *v);

    /* Of a user's model: asked instead of may_read, with its argument; else
     * NULL. */
    const struct mlt_model_ops *user;
    void *arg;
};

/* As may_read, of a user's model too; may_begin, of built-in ones true. */
bool consistency_may_read(const struct consistency_ops *m,
                          const struct consistency_view *v);
bool consistency_may_begin(const struct consistency_ops *m,
                           const struct consistency_view *v);

/* A user's model; @ops and @arg borrowed. @file is what messages call it.
 * Errors: ERR_VERSION, ERR_INVAL (in words); @out untouched. */
enum err consistency_user(const struct mlt_model_ops *ops, void *arg,
                          const char *file, struct consistency_ops *out,
                          struct fault *f);

/* The model of that name, or NULL. */
const struct consistency_ops *consistency_find(const char *name);

/* Model number @i in order of listing, NULL after the last. */
const struct consistency_ops *consistency_at(size_t i);

/* A model with its rule as one text, `barrier?k=3&slower_than=2`, or a model's
 * name alone. @f says what was expected. Errors: ERR_INVAL; outputs untouched.
 */
enum err consistency_parse(const char *text, const struct consistency_ops **out,
                           struct barrier_rule *rule, struct fault *f);

/* The text of the model barrier with @rule, which consistency_parse reads back.
 */
enum { CONSISTENCY_TEXT_MAX = 128 };
void consistency_text(const struct barrier_rule *rule,
                      char out[CONSISTENCY_TEXT_MAX]);

/* Whether @rule can be kept by @workers in all. Errors: ERR_INVAL, naming what
 * never holds. */
enum err consistency_check(const struct barrier_rule *rule, unsigned workers,
                           struct fault *f);

/* "bsp, ssp, essp, async, barrier", for messages. */
const char *consistency_names(void);

#endif
