#include "ps/space/budget.h"

#include <inttypes.h>

static const double mib = 1 << 20;

static uint64_t read_of(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

void budget_init(struct space_budget *b, uint64_t limit)
{
    *b = (struct space_budget){.limit = limit ? limit : UINT64_MAX};
}

static void raise_peak(struct space_budget *b, uint64_t used)
{
    uint64_t peak = read_of(&b->peak);

    while (peak < used &&
           !__atomic_compare_exchange_n(&b->peak, &peak, used, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

enum err budget_take(struct space_budget *b, uint64_t bytes, struct fault *f)
{
    uint64_t used = read_of(&b->used);

    do {
        if (used > b->limit || bytes > b->limit - used)
            return fault_set(f, ERR_LIMIT,
                             "%.1f MiB of the device's memory were asked for: "
                             "of the limit of %.1f MiB, %.1f MiB are in use; "
                             "raise the limit, or keep fewer branches at a "
                             "time",
                             (double)bytes / mib, (double)b->limit / mib,
                             (double)used / mib);
    } while (!__atomic_compare_exchange_n(&b->used, &used, used + bytes, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    raise_peak(b, used + bytes);
    return ERR_OK;
}

void budget_give(struct space_budget *b, uint64_t bytes)
{
    __atomic_fetch_sub(&b->used, bytes, __ATOMIC_RELAXED);
}

void budget_pin(struct space_budget *b, uint64_t bytes)
{
    __atomic_fetch_add(&b->pinned, bytes, __ATOMIC_RELAXED);
}

void budget_unpin(struct space_budget *b, uint64_t bytes)
{
    __atomic_fetch_sub(&b->pinned, bytes, __ATOMIC_RELAXED);
}

void budget_tell(const struct space_budget *b, struct space_memory *out)
{
    out->limit = b->limit;
    out->used = read_of(&b->used);
    out->peak = read_of(&b->peak);
    out->pinned = read_of(&b->pinned);
}

enum err budget_full(const struct space_memory *m, uint64_t bytes,
                     struct fault *f)
{
    return fault_set(f, ERR_LIMIT,
                     "%.1f MiB of the device's memory were asked for: of "
                     "%.1f MiB, %.1f MiB are free, and %.1f MiB are in use "
                     "here; end other programs on it, or keep fewer "
                     "branches at a time",
                     (double)bytes / mib, (double)m->total / mib,
                     (double)m->free / mib, (double)m->used / mib);
}
