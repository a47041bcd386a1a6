/* What simulated runs end with, and when: the loss above the floor and the
 * virtual time of runs that their own stop rules end, beside the best fixed
 * setting, known in advance, after the family's horizon.
 *
 *     make bench B=sim_ends         20 seeds of the development families
 *     SIM_SEEDS=100                 so many
 *     SIM_EPOCHS=40                 max_epochs; the family's horizon by default
 *     SIM_PATIENCE=3                plateau_epochs
 *     SIM_LONG=20                   plateau_samples, in epochs
 *     SIM_SETTINGS={"cooldown": 0}  settings of the strategy
 *     SIM_TIME=2                    max_time, in the time that the best fixed
 *                                   setting takes; instead of max_epochs
 *     SIM_HELD_OUT=1                all families, seeds from 10001 on
 */
#include "tests/sim/gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000 };
#define FLOOR 0.1

static unsigned number(const char *name, unsigned fallback)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : fallback;
}

static void set_end(struct sim_family *f, const struct gates_family *g,
                    const struct gates_oracle *o)
{
    const char *time = getenv("SIM_TIME");

    f->max_epochs = number("SIM_EPOCHS", (unsigned)g->horizon_epochs);
    f->plateau_epochs = number("SIM_PATIENCE", f->plateau_epochs);
    f->plateau_samples = number("SIM_LONG", 0) * f->samples;
    f->strategy_settings = getenv("SIM_SETTINGS");
    if (!time)
        return;
    f->max_epochs = 100000;
    f->max_time_s = strtod(time, NULL) * o->seconds;
}

static void measure(const struct gates_family *g, unsigned seeds, uint64_t from)
{
    static double excess[SEEDS_MAX], times[SEEDS_MAX], share[SEEDS_MAX],
        first[SEEDS_MAX];
    struct gates_oracle oracle[GATES_VARIANTS];
    unsigned converged = 0, searches = 0;

    for (unsigned v = 0; v < GATES_VARIANTS; v++)
        gates_oracle(g, v, 1, &oracle[v]);
    for (unsigned i = 0; i < seeds; i++) {
        uint64_t seed = from + i + 1;
        const struct gates_oracle *o = &oracle[seed % GATES_VARIANTS];
        struct sim_family f = g->f;
        static struct sim_result r;

        set_end(&f, g, o);
        sim_run(&f, seed, NULL, &r);
        excess[i] = (r.loss - FLOOR) / (o->target - FLOOR);
        times[i] = r.seconds / o->seconds;
        share[i] = r.tuning_s / r.seconds;
        first[i] = r.search[0].seconds / r.seconds;
        searches += r.searches;
        converged += strcmp(r.finish.reason, "converged") == 0;
    }
    printf("sim_ends family=%s excess_vs_best_fixed %.4g median\n", g->f.name,
           gates_median(excess, seeds));
    printf("sim_ends family=%s excess_vs_best_fixed %.4g p90\n", g->f.name,
           excess[seeds * 9 / 10]);
    printf("sim_ends family=%s time_vs_best_fixed %.4g median\n", g->f.name,
           gates_median(times, seeds));
    printf("sim_ends family=%s tuning_share %.4g median\n", g->f.name,
           gates_median(share, seeds));
    printf("sim_ends family=%s first_search_share %.4g median\n", g->f.name,
           gates_median(first, seeds));
    printf("sim_ends family=%s first_search_share %.4g p90\n", g->f.name,
           first[seeds * 9 / 10]);
    printf("sim_ends family=%s converged %.4g share\n", g->f.name,
           (double)converged / seeds);
    printf("sim_ends family=%s searches %.4g mean\n", g->f.name,
           (double)searches / seeds);
}

int main(void)
{
    unsigned seeds = number("SIM_SEEDS", 20);
    bool held_out = number("SIM_HELD_OUT", 0) > 0;

    for (size_t i = 0; i < gates_families(); i++) {
        struct gates_family g;

        gates_family(i, &g);
        if ((held_out || !g.held_out) && !g.drifts)
            measure(&g, seeds > SEEDS_MAX ? SEEDS_MAX : seeds,
                    held_out ? GATES_HELD_OUT_SEED : 0);
    }
    return 0;
}
