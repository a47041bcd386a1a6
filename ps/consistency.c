#include "ps/consistency.h"

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

/* A read at clock k sees all updates of clocks < k - staleness (DESIGN). */
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

/* async promises nothing about others; a copy is still fetched anew each clock,
 * so that what others did arrives: holds and needs are the own clock. */
static const struct consistency_ops models[] = {
    {"bsp", "all workers meet at every clock; exact and deterministic", true,
     false, true, all_reached_mine, slowest, own_clock},
    {"ssp", "reads may lag `staleness` clocks behind the fastest worker", false,
     true, false, none_lags_too_far, slowest, clock_less_staleness},
    {"essp", "as ssp, with updates of other nodes pushed before they are read",
     false, true, true, none_lags_too_far, slowest, clock_less_staleness},
    {"async", "nobody ever waits", false, false, false, always, own_clock,
     own_clock},
};

enum { MODELS = sizeof(models) / sizeof(models[0]) };

const struct consistency_ops *consistency_at(size_t i)
{
    return i < MODELS ? &models[i] : NULL;
}

const struct consistency_ops *consistency_find(const char *name)
{
    for (size_t i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *consistency_names(void)
{
    return "bsp, ssp, essp, async";
}
