#include "ps/rows/acting.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static enum acting_reason rate(const struct acting_run *run)
{
    return run->uses_learning_rate ? ACTING : ACTING_RULE;
}

static enum acting_reason momentum(const struct acting_run *run)
{
    return run->uses_momentum ? ACTING : ACTING_RULE;
}

static enum acting_reason decay(const struct acting_run *run)
{
    return run->decays ? ACTING : ACTING_RULE;
}

static enum acting_reason choice(const struct acting_run *run)
{
    return run->chooses_rule ? ACTING : ACTING_RULE;
}

static enum acting_reason batch(const struct acting_run *run)
{
    return run->batch_clocks ? ACTING : ACTING_CLOCKS;
}

/* Of what bounds reads. */
static enum acting_reason waits(const struct acting_run *run, bool model_uses)
{
    return run->workers == 1 ? ACTING_ONE_WORKER
           : !model_uses     ? ACTING_CONSISTENCY
           : !run->shares    ? ACTING_UNSHARED
                             : ACTING;
}

static enum acting_reason staleness(const struct acting_run *run)
{
    return waits(run, run->uses_staleness);
}

static enum acting_reason barrier_k(const struct acting_run *run)
{
    return waits(run, run->uses_barrier_k);
}

static enum acting_reason bandwidth(const struct acting_run *run)
{
    return run->nodes == 1 ? ACTING_ONE_NODE : ACTING;
}

static const struct condition {
    const char *name;
    enum acting_reason (*why_not)(const struct acting_run *run);
    bool any_app; /* whether the application names it or not */
    bool yields;  /* to an application's own by that name */
} conditions[] = {
    {"learning_rate", rate, false, false},
    {"momentum", momentum, false, false},
    {"warmup", rate, false, false},
    {"weight_decay", decay, false, false},
    {"update_rule", choice, false, false},
    {"batch_size", batch, false, false},
    {"staleness", staleness, false, false},
    {"k", barrier_k, true, true},
    {"bandwidth_mbps", bandwidth, true, false},
};

enum acting_reason acting_why_not(const struct acting_run *run,
                                  const char *name, bool in_app)
{
    enum acting_reason why = ACTING;
    bool any_app = false;

    assert(run->nodes >= 1);
    assert(run->workers >= 1);
    for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++)
        if (strcmp(conditions[i].name, name) == 0 &&
            !(in_app && conditions[i].yields)) {
            why = conditions[i].why_not(run);
            any_app = conditions[i].any_app;
        }
    /* A part that the run lacks comes before the application, whose update rule
     * and clocks come after. */
    if (!any_app && !in_app && (why == ACTING || why > ACTING_APP))
        why = ACTING_APP;
    return why;
}
