/* Acting tunables: which of the tunables with a meaning of their own can change
 * a run at all, and if not, why. The one place that decides it: the node asks
 * for what it tells the tuner, the command line for what it warns of.
 *
 *   learning_rate   an update rule that uses one, or an application that does
 *   warmup          the same
 *   momentum        an update rule that uses it
 *   weight_decay    an update rule that uses a learning rate
 *   update_rule     a rule that others can take the place of: none of the
 *                   user's own, and not adarevision
 *   batch_size      clocks that are mini-batches
 *   staleness       several workers, a shared table, and a consistency model
 *                   that bounds it
 *   k               the same with the consistency model barrier
 *   bandwidth_mbps  several nodes
 *
 * All but the last two need an application that has them, too, and so do the
 * application's own, which nothing else keeps from acting. Pure.
 */
#ifndef PS_ACTING_H
#define PS_ACTING_H

#include <stdbool.h>

/* Facts of a run. One that is not known is true: no reason not to act. */
struct acting_run {
    unsigned nodes;
    unsigned workers;        /* over all nodes */
    bool uses_learning_rate; /* some table's update rule does, or the
                              * application, which takes its steps itself */
    bool uses_momentum;
    bool chooses_rule;   /* each branch may have another update rule */
    bool decays;         /* some table's update rule uses a learning rate */
    bool uses_staleness; /* the consistency model does */
    bool uses_barrier_k;
    bool shares;       /* some table is: workers wait to read its rows */
    bool batch_clocks; /* a clock is a mini-batch */
};

/* Why a tunable cannot act. */
enum acting_reason {
    ACTING, /* it can */
    ACTING_ONE_NODE,
    ACTING_ONE_WORKER,
    ACTING_CONSISTENCY,
    ACTING_UNSHARED,
    ACTING_APP,
    ACTING_RULE,
    ACTING_CLOCKS
};

/* @in_app: the application has a tunable of that name. The first reason in the
 * order above. */
enum acting_reason acting_why_not(const struct acting_run *run,
                                  const char *name, bool in_app);

#endif
