#include "ps/rows/consistency.h"

#include <assert.h>
#include <string.h>

/* The clock that all have reached. The reader itself always counts. */
static int64_t slowest(const struct consistency_view *v)
{
    int64_t min = v->worker[v->self].clock;

    assert(v->self < v->workers);
    for (unsigned i = 0; i < v->workers; i++)
        if (v->worker[i].available && v->worker[i].clock < min)
            min = v->worker[i].clock;
    return min;
}

static int64_t own_clock(const struct consistency_view *v)
{
    return v->worker[v->self].clock;
}

/* A read at clock k sees all updates of clocks < k - staleness. */
static int64_t clock_less_staleness(const struct consistency_view *v)
{
    return own_clock(v) - (int64_t)v->staleness;
}

static bool all_reached_mine(const struct consistency_view *v)
{
    return slowest(v) >= own_clock(v);
}

static bool none_lags_too_far(const struct consistency_view *v)
{
    return slowest(v) >= clock_less_staleness(v);
}

static bool always(const struct consistency_view *v)
{
    (void)v;
    return true;
}

/* Soori et al., the bounded-staleness barrier of listing 1 with a part of the
 * workers: k of n must have come within the staleness of the reader. Who has
 * finished its run counts as one that came, so that an answer once yes stays
 * so. */
static bool k_of_n_have_come(const struct consistency_view *v)
{
    unsigned k = v->quorum ? v->quorum : (v->workers + 1) / 2, came = 0;

    if (k > v->workers)
        k = v->workers;
    for (unsigned i = 0; i < v->workers; i++)
        came += !v->worker[i].available ||
                v->worker[i].clock >= clock_less_staleness(v);
    return came >= k;
}

/* async and barrier promise nothing about every other; a copy is still fetched
 * anew each clock, so that what others did arrives: holds and needs are the own
 * clock. */
static const struct consistency_ops models[] = {
    {.name = "bsp",
     .summary = "all workers meet at every clock; exact and deterministic",
     .barrier = true,
     .pushes = true,
     .may_read = all_reached_mine,
     .bounds = true,
     .holds = slowest,
     .needs = own_clock},
    {.name = "ssp",
     .summary = "reads may lag `staleness` clocks behind the fastest worker",
     .uses_staleness = true,
     .may_read = none_lags_too_far,
     .bounds = true,
     .holds = slowest,
     .needs = clock_less_staleness},
    {.name = "essp",
     .summary = "as ssp, with updates of other nodes pushed before they are "
                "read",
     .uses_staleness = true,
     .pushes = true,
     .may_read = none_lags_too_far,
     .bounds = true,
     .holds = slowest,
     .needs = clock_less_staleness},
    {.name = "async",
     .summary = "nobody ever waits",
     .may_read = always,
     .holds = own_clock,
     .needs = own_clock},
    {.name = "barrier",
     .summary = "reads wait until half of the workers are within `staleness` "
                "clocks",
     .uses_staleness = true,
     .may_read = k_of_n_have_come,
     .holds = own_clock,
     .needs = own_clock},
};

enum { MODELS = sizeof(models) / sizeof(models[0]) };

void consistency_rank(struct worker_status worker[], unsigned workers)
{
    int64_t fastest = INT64_MIN;

    assert(workers > 0);
    for (unsigned i = 0; i < workers; i++)
        if (worker[i].clock > fastest)
            fastest = worker[i].clock;
    for (unsigned i = 0; i < workers; i++)
        worker[i].staleness = fastest - worker[i].clock;
}

const struct consistency_ops *consistency_at(size_t i)
{
    return i < MODELS ? &models[i] : NULL;
}

const struct consistency_ops *consistency_find(const char *name)
{
    assert(name);
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *consistency_names(void)
{
    return "bsp, ssp, essp, async, barrier";
}
