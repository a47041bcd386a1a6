#include "ps/node/order.h"

#include "base/rng.h"

#include <assert.h>
#include <math.h>

/* Parts of the seed, so that what is derived from it is unrelated. */
enum { SEED_EPOCH = 1, SEED_CLOCK = 2 };

static const uint64_t whole_max = (uint64_t)1 << ORDER_WHOLE_MAX_BITS;

enum err order_init(struct order *o, const struct mlt_app_info *info,
                    unsigned workers, uint64_t seed, struct fault *f)
{
    assert(workers > 0);
    if (info->order != MLT_ORDER_SAMPLES && info->order != MLT_ORDER_PARTS)
        return fault_set(f, ERR_APP, "the application states no known order");
    if (info->samples < 1 || info->samples > whole_max / 2 ||
        info->validation_samples > whole_max / 2)
        return fault_set(f, ERR_APP,
                         "the application states %llu training samples, "
                         "expected at least one",
                         (unsigned long long)info->samples);
    if (info->order == MLT_ORDER_PARTS && info->parts < 1)
        return fault_set(f, ERR_APP,
                         "the application states no parts of a pass");
    if (info->parts > info->samples)
        return fault_set(
            f, ERR_APP, "a pass over %llu samples cannot have %llu clocks",
            (unsigned long long)info->samples, (unsigned long long)info->parts);
    *o = (struct order){
        .kind = info->order,
        .samples = info->samples,
        .validation_samples = info->validation_samples,
        .parts = info->parts,
        .seed = seed,
        .workers = workers,
    };
    return ERR_OK;
}

/* First sample of part @p, 0 <= p <= parts. */
static uint64_t part_begin(const struct order *o, uint64_t p)
{
    return (uint64_t)((unsigned __int128)p * o->samples / o->parts);
}

static void epoch_order(const struct order *o, uint64_t epoch, uint64_t n,
                        struct perm *out)
{
    perm_init(out, n, rng_mix(rng_mix(o->seed, SEED_EPOCH), epoch));
}

void order_clock_at(const struct order *o, const struct cursor *at,
                    uint64_t batch, struct order_clock *out)
{
    uint64_t position = (uint64_t)at->position;
    struct perm perm;

    assert(at->position >= 0 && at->epoch >= 0 && at->clock >= 0);
    assert(batch > 0);
    assert(position < (o->parts ? o->parts : o->samples));
    *out = (struct order_clock){.epoch = (uint64_t)at->epoch,
                                .clock = (uint64_t)at->clock};
    if (o->parts) {
        out->first = part_begin(o, position);
        out->count = part_begin(o, position + 1) - out->first;
    } else {
        uint64_t left = o->samples - position;

        out->first = position;
        out->count = batch > left / o->workers ? left : batch * o->workers;
    }
    if (o->kind == MLT_ORDER_PARTS) {
        epoch_order(o, out->epoch, o->parts, &perm);
        out->part = perm_at(&perm, position);
    }
}

uint64_t order_clocks(const struct order *o, double epochs, uint64_t batch)
{
    uint64_t most =
        batch > o->samples / o->workers ? o->samples : batch * o->workers;
    uint64_t each = o->parts ? o->parts : (o->samples + most - 1) / most;
    double n = ceil(epochs * (double)each);
    double end = (double)((UINT64_C(1) << ORDER_WHOLE_MAX_BITS) - 1);

    assert(epochs >= 0 && batch > 0);
    return (uint64_t)(n < end ? n : end);
}

void order_testing(const struct order *o, const struct cursor *at,
                   struct order_clock *out)
{
    *out = (struct order_clock){.epoch = (uint64_t)at->epoch,
                                .clock = (uint64_t)at->clock,
                                .count = o->validation_samples};
}

void order_advance(const struct order *o, const struct order_clock *clock,
                   struct cursor *at)
{
    at->clock += 1;
    at->position += o->parts ? 1 : (double)clock->count;
    if ((uint64_t)at->position == (o->parts ? o->parts : o->samples)) {
        at->position = 0;
        at->epoch += 1;
    }
}

void order_share(const struct order *o, const struct order_clock *clock,
                 unsigned index, uint64_t *first, uint64_t *count)
{
    uint64_t each = clock->count / o->workers, more = clock->count % o->workers;

    assert(index < o->workers);
    *count = each + (index < more);
    *first = clock->first + each * index + (index < more ? index : more);
}

void order_samples(const struct order *o, uint64_t epoch, uint64_t first,
                   uint64_t count, uint64_t out[])
{
    struct perm perm;
    uint64_t i;

    assert(o->kind == MLT_ORDER_SAMPLES);
    assert(first + count <= o->samples);
    epoch_order(o, epoch, o->samples, &perm);
    for (i = 0; i < count; i++)
        out[i] = perm_at(&perm, first + i);
}

uint64_t order_share_max(const struct order *o, uint64_t batch)
{
    uint64_t clock = o->samples;

    assert(batch > 0);
    if (o->parts)
        clock = (o->samples - 1) / o->parts + 1;
    else if (batch <= o->samples / o->workers)
        clock = batch * o->workers;
    return (clock - 1) / o->workers + 1;
}

uint64_t order_clock_seed(const struct order *o, uint64_t clock, unsigned index)
{
    return rng_mix(rng_mix(rng_mix(o->seed, SEED_CLOCK), clock), index);
}
