/* `mf` on four simulated nodes, a clock a data pass: passes to a fixed loss
 * with managed communication and without, in virtual time.
 *
 *     make bench B=sim_managed     RATES="0.01 0.02 0.04" RULE=sgd TARGET=0.03
 */
#include "tests/sim/managed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 3, PASSES = 40 };

static void measure(struct managed_options opt)
{
    double passes = 0;
    struct managed_result r;

    for (opt.seed = 1; opt.seed <= SEEDS; opt.seed++) {
        managed_run(&opt, &r);
        passes += (double)r.passes / SEEDS;
    }
    printf("sim_managed rule=%s rate=%g consistency=%s staleness=%u budget=%g "
           "priority=%s loss=%g sent_mbps=%.0f early=%llu pushed_early=%llu "
           "end_loss=%.4f %.1f passes\n",
           opt.rule, opt.rate, opt.consistency, opt.staleness, opt.mbps,
           opt.mbps > 0 ? priority_name(opt.priority) : "-", opt.target_loss,
           r.mbps, (unsigned long long)r.stats.early,
           (unsigned long long)r.stats.pushed_early, r.loss, passes);
}

static const char *text_of(const char *name, const char *fallback)
{
    const char *text = getenv(name);

    return text ? text : fallback;
}

int main(void)
{
    static const double budgets[] = {16, 200, 800};
    struct managed_options opt = {
        .consistency = "essp", .staleness = 2, .passes_max = PASSES};
    char rates[256], *rate, *rest = NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    opt.rule = text_of("RULE", "sgd");
    opt.target_loss = atof(text_of("TARGET", "0.03"));
    snprintf(rates, sizeof(rates), "%s",
             text_of("RATES", "0.01 0.02 0.03 0.04 0.06"));
    for (rate = strtok_r(rates, " ", &rest); rate;
         rate = strtok_r(NULL, " ", &rest)) {
        opt.rate = atof(rate);
        opt.mbps = 0;
        measure(opt);
        for (size_t b = 0; b < sizeof(budgets) / sizeof(*budgets); b++)
            for (int p = 0; p < PRIORITY_COUNT; p++) {
                opt.mbps = budgets[b];
                opt.priority = (enum priority)p;
                measure(opt);
            }
    }
    return 0;
}
