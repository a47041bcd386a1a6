#include "tests/sim/managed.h"

#include "tests/sim/virtual_mf.h"

enum { NODES = 4, WORKERS = 2 };

/* Looks at the loss whenever the first worker begins a pass. */
struct watch {
    struct virtual_program inner;
    const struct managed_options *opt;
    const struct virtual_mf *mf;
    const struct virtual *v;
    int passes; /* to the target, or 0 */
};

static size_t plan(void *self, uint32_t worker, int clock,
                   const uint64_t **rows)
{
    struct watch *w = self;

    if (worker == 0 && !w->passes &&
        virtual_mf_loss(w->mf, w->v) <= w->opt->target_loss)
        w->passes = clock;
    return w->inner.plan(w->inner.self, worker, clock, rows);
}

static double visit(void *self, struct virtual *v, uint32_t worker, int clock,
                    size_t i, const void *values)
{
    struct watch *w = self;

    return w->inner.visit(w->inner.self, v, worker, clock, i, values);
}

void managed_run(const struct managed_options *opt, struct managed_result *out)
{
    struct virtual_mf_options data = {.users = 200,
                                      .items = 40,
                                      .ratings = 8000,
                                      .rank = 6,
                                      .workers = NODES * WORKERS,
                                      .parts = 1,
                                      .rounds = 8,
                                      .rule = opt->rule,
                                      .params = {(float)opt->rate, 0},
                                      .slow = 30,
                                      .seed = opt->seed};
    struct virtual_options v = {.nodes = NODES,
                                .workers = WORKERS,
                                .consistency = opt->consistency,
                                .staleness = opt->staleness,
                                .latency_s = 1e-4,
                                .bytes_s = 1.25e8, /* 1 Gbit/s */
                                .slow = 1,
                                .budget_bytes_s = opt->mbps * 1e6 / 8,
                                .priority = opt->priority,
                                .prefetch = true};
    struct watch watch = {.opt = opt, .mf = virtual_mf_new(&data)};
    struct virtual *world;

    virtual_mf_options((struct virtual_mf *)watch.mf, &v);
    watch.inner = v.program;
    v.program = (struct virtual_program){&watch, plan, visit};
    world = virtual_new(&v);
    watch.v = world;
    virtual_mf_init((struct virtual_mf *)watch.mf, world);
    virtual_run(world, opt->passes_max);
    *out = (struct managed_result){.passes = watch.passes ? watch.passes
                                                          : opt->passes_max + 1,
                                   .loss = virtual_mf_loss(watch.mf, world),
                                   .stats = virtual_stats(world)};
    out->mbps = (double)out->stats.bytes * 8e-6 / NODES / out->stats.time_s;
    virtual_free(world);
    virtual_mf_free((struct virtual_mf *)watch.mf);
}
