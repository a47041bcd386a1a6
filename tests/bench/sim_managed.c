/* `mf` on four simulated nodes, a clock a data pass: passes to a fixed loss
 * with managed communication and without, in virtual time; with few items, all
 * of which fit in a frame, and with many, whose rows compete for the budget.
 *
 *     make bench B=sim_managed     DATA=few|many RATES="0.01 0.02" TARGET=0.03
 *                                  BUDGETS="16 200" SEEDS=5 RULE=sgd
 */
#include "tests/sim/managed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 99, LIST_BYTES = 256 };

static const char *text_of(const char *name, const char *fallback)
{
    const char *text = getenv(name);

    return text ? text : fallback;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(size_t n, double x[])
{
    qsort(x, n, sizeof(*x), by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Passes are one more than the most where the median seed did not get there. */
static void measure(const char *data, size_t seeds, struct managed_options opt)
{
    double passes[SEEDS_MAX], time_s[SEEDS_MAX];
    unsigned reached = 0;
    struct managed_result r;

    for (size_t i = 0; i < seeds; i++) {
        opt.seed = i + 1;
        managed_run(&opt, &r);
        passes[i] = r.passes;
        time_s[i] = r.time_s;
        reached += r.passes <= opt.passes_max;
    }
    printf("sim_managed data=%s rule=%s rate=%g consistency=%s staleness=%u "
           "budget=%g priority=%s loss=%g sent_mbps=%.1f early=%llu "
           "pushed_early=%llu reached=%u/%zu median_time=%.0f ms "
           "median %g passes\n",
           data, opt.rule, opt.rate, opt.consistency, opt.staleness, opt.mbps,
           opt.mbps > 0 ? priority_name(opt.priority) : "-", opt.target_loss,
           r.mbps, (unsigned long long)r.stats.early,
           (unsigned long long)r.stats.pushed_early, reached, seeds,
           1e3 * median(seeds, time_s), median(seeds, passes));
}

static void measure_rate(const char *data, size_t seeds,
                         struct managed_options opt, const char *budgets)
{
    char list[LIST_BYTES], *budget, *rest = NULL;

    measure(data, seeds, opt);
    snprintf(list, sizeof(list), "%s", budgets);
    for (budget = strtok_r(list, " ", &rest); budget;
         budget = strtok_r(NULL, " ", &rest))
        for (int p = 0; p < PRIORITY_COUNT; p++) {
            opt.mbps = atof(budget);
            opt.priority = (enum priority)p;
            measure(data, seeds, opt);
        }
}

static void measure_data(const char *data, struct managed_options opt,
                         const char *rates, const char *budgets)
{
    char list[LIST_BYTES], *rate, *rest = NULL;
    size_t seeds = strtoul(text_of("SEEDS", "5"), NULL, 10);

    opt.rule = text_of("RULE", "sgd");
    seeds = seeds < 1 ? 1 : seeds < SEEDS_MAX ? seeds : SEEDS_MAX;
    snprintf(list, sizeof(list), "%s", text_of("RATES", rates));
    for (rate = strtok_r(list, " ", &rest); rate;
         rate = strtok_r(NULL, " ", &rest)) {
        opt.rate = atof(rate);
        measure_rate(data, seeds, opt, text_of("BUDGETS", budgets));
    }
}

int main(void)
{
    const char *data = text_of("DATA", "few many");
    struct managed_options opt = {.consistency = "essp", .staleness = 2};

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strstr(data, "few")) {
        opt.data = managed_few;
        opt.passes_max = 40;
        opt.target_loss = atof(text_of("TARGET", "0.03"));
        measure_data("few", opt, "0.01 0.02 0.03 0.04 0.06", "16 200 800");
    }
    if (strstr(data, "many")) {
        opt.data = managed_many;
        opt.frame_bytes = MANAGED_MANY_FRAME_BYTES;
        opt.passes_max = 16;
        opt.target_loss = atof(text_of("TARGET", "0.05"));
        measure_data("many", opt, "0.02", "6 8 12 32");
    }
    return 0;
}
