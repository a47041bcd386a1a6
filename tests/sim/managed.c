#include "tests/sim/managed.h"

#include "tests/sim/virtual_mf.h"

#include <math.h>

enum { NODES = 4, WORKERS = 2 };

const struct managed_data managed_few = {.users = 200,
                                         .items = 40,
                                         .ratings = 8000,
                                         .rank = 6,
                                         .rounds = 8,
                                         .slow = 30};
const struct managed_data managed_many = {.users = 200,
                                          .items = 400,
                                          .ratings = 24000,
                                          .rank = 8,
                                          .rounds = 4,
                                          .skew = 0.4,
                                          .slow = 30};

/* Looks at the loss whenever the first worker begins a pass. Nobody works any
 * more once the target is reached or never will be. */
struct watch {
    struct virtual_program inner;
    const struct managed_options *opt;
    const struct virtual_mf *mf;
    const struct virtual *v;
    bool done;
    int passes; /* to the target, or 0 */
    double time_s;
};

static void look(struct watch *w, int clock)
{
    double loss = virtual_mf_loss(w->mf, w->v);

    if (loss <= w->opt->target_loss) {
        w->passes = clock;
        w->time_s = virtual_stats(w->v).time_s;
    }
    w->done = w->passes > 0 || !isfinite(loss);
}

static size_t plan(void *self, uint32_t worker, int clock,
                   const uint64_t **rows)
{
    struct watch *w = self;

    if (worker == 0 && !w->done)
        look(w, clock);
    if (w->done)
        return 0;
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
    struct virtual_mf_options data = {.users = opt->data.users,
                                      .items = opt->data.items,
                                      .ratings = opt->data.ratings,
                                      .rank = opt->data.rank,
                                      .workers = NODES * WORKERS,
                                      .parts = 1,
                                      .rounds = opt->data.rounds,
                                      .skew = opt->data.skew,
                                      .rule = opt->rule,
                                      .params = {(float)opt->rate, 0, 0},
                                      .slow = opt->data.slow,
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
                                .frame_bytes = opt->frame_bytes,
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
    out->time_s = watch.passes ? watch.time_s : out->stats.time_s;
    out->mbps = (double)out->stats.bytes * 8e-6 / NODES / out->stats.time_s;
    virtual_free(world);
    virtual_mf_free((struct virtual_mf *)watch.mf);
}
