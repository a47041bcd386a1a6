/* `mf` on four simulated nodes with delays: the loss that each update rule
 * reaches from each initial learning rate, in virtual time.
 *
 *     make bench B=sim_rates        RULES="adarevision adagrad sgd" PASSES=120
 */
#include "tests/sim/virtual_mf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4, RATES = 9 };

static void measure(const char *model, const char *rule, double rate,
                    int passes)
{
    struct virtual_mf_options data = {.users = 400,
                                      .items = 300,
                                      .ratings = 20000,
                                      .rank = 8,
                                      .workers = 8,
                                      .parts = PARTS,
                                      .rule = rule,
                                      .params = {(float)rate, 0},
                                      .seed = 7};
    struct virtual_options opt = {.nodes = 4,
                                  .workers = 2,
                                  .consistency = model,
                                  .staleness = 3,
                                  .latency_s = 1e-3,
                                  .bytes_s = 1e8,
                                  .slow = 2,
                                  .prefetch = true};
    struct virtual_mf *mf = virtual_mf_new(&data);
    struct virtual *v;

    virtual_mf_options(mf, &opt);
    v = virtual_new(&opt);
    virtual_mf_init(mf, v);
    virtual_run(v, PARTS * passes);
    printf("sim_rates consistency=%s rule=%s rate=%.3g passes=%d "
           "snapshots_a_row=%.1f missed=%llu %.4f loss\n",
           model, rule, rate, passes,
           (double)virtual_stats(v).snapshots_peak / data.items,
           (unsigned long long)virtual_stats(v).snapshots_missed,
           virtual_mf_loss(mf, v));
    virtual_free(v);
    virtual_mf_free(mf);
}

int main(void)
{
    static const char *const models[] = {"ssp", "essp"};
    const char *text = getenv("PASSES"), *rules = getenv("RULES");
    int passes = text ? atoi(text) : 120;
    char list[256], *rule, *rest = NULL;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int m = 0; m < 2; m++) {
        snprintf(list, sizeof(list), "%s",
                 rules ? rules : "adarevision adagrad sgd");
        for (rule = strtok_r(list, " ", &rest); rule;
             rule = strtok_r(NULL, " ", &rest))
            for (int i = 0; i < RATES; i++)
                measure(models[m], rule, pow(10, -3 + 0.5 * i), passes);
    }
    return 0;
}
