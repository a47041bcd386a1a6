/* Traces of the tuner in simulated runs, as one number a run: the CRC-32C of
 * its trace, every action with its numbers. A change that is meant to change no
 * decision leaves all lines as they were:
 *
 *     make bench B=sim_traces >before      SEEDS=3 by default
 *
 * Families are those of tests/sim/gates.h; each strategy runs undisturbed,
 * killed and resumed, with commands of a user, and with node and allocations
 * that fail.
 */
#include "base/crc32c.h"
#include "base/mem.h"
#include "tests/sim/gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void plain(struct sim_family *f, struct sim_options *o)
{
    (void)f;
    (void)o;
}

static void killed(struct sim_family *f, struct sim_options *o)
{
    static const uint64_t at[] = {40, 300, 900};

    (void)f;
    o->crash = at;
    o->crashes = 3;
}

static void steered(struct sim_family *f, struct sim_options *o)
{
    (void)o;
    f->command[0].at_s = 5;
    f->command[0].command = COMMAND_PAUSE;
    f->command[1].at_s = 6;
    f->command[1].command = COMMAND_CONTINUE;
    f->command[2].at_s = 20;
    f->command[2].command = COMMAND_RETUNE;
    f->command[3].at_s = 30;
    f->command[3].command = COMMAND_FORK;
    f->command[3].of = SIM_TIP;
    f->command[3].fork.epochs = 2;
    f->command[4].at_s = 60;
    f->command[4].command = COMMAND_PROMOTE;
    f->command[4].of = SIM_USER;
    f->command[5].at_s = 200;
    f->command[5].command = COMMAND_STOP;
}

static void faulty(struct sim_family *f, struct sim_options *o)
{
    f->lost_s = 15;
    f->branches_max = 5;
    o->restarts = true;
    o->damage = 0.2;
}

static const struct {
    const char *name;
    void (*set)(struct sim_family *f, struct sim_options *o);
} ways[] = {{"plain", plain},
            {"killed", killed},
            {"steered", steered},
            {"faulty", faulty}};

static const char *const strategies[] = {
    "mltuner", "fixed", "hyperband", "asha", "complete", "tupaq", "pbt"};

int main(void)
{
    const char *text = getenv("SEEDS");
    uint64_t seeds = text ? strtoull(text, NULL, 10) : 3;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < gates_families(); i++)
        for (size_t s = 0; s < sizeof(strategies) / sizeof(*strategies); s++)
            for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++)
                for (uint64_t seed = 1; seed <= seeds; seed++) {
                    struct gates_family g;
                    char *trace = NULL;
                    struct sim_options o = {.trace = &trace, .numbers = true};
                    struct sim_result r;

                    gates_family(i, &g);
                    g.f.strategy = strategies[s];
                    g.f.max_epochs = 15;
                    g.f.max_time_s = 3600;
                    ways[w].set(&g.f, &o);
                    sim_run(&g.f, seed, &o, &r);
                    printf("sim_traces family=%s strategy=%s way=%s "
                           "seed=%llu steps=%llu %08x crc32c\n",
                           g.f.name, strategies[s], ways[w].name,
                           (unsigned long long)seed,
                           (unsigned long long)r.steps,
                           crc32c(0, trace, trace ? strlen(trace) : 0));
                    mem_free(trace);
                }
    return 0;
}
