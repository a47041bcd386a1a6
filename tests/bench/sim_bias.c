/* The short-horizon bias (Wu et al. 2018) on the noisy quadratic: what the
 * learning rate that is fastest over a short look is worth in the long run, and
 * what the tuner makes of it.
 *
 *     make bench B=sim_bias         SIM_SEEDS=16
 */
#include "tests/sim/gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATES = 200, LOOKS = 6, SEEDS_MAX = 1000 };

static double rate_at(int i)
{
    return pow(10, -3 + 4.0 * i / (RATES - 1));
}

/* Loss after @epochs more; INFINITY: diverged. */
static double after(const struct physics *p, struct state *x, double rate,
                    double epochs)
{
    struct knobs k = physics_knobs_default;

    k.lr = rate;
    if (!physics_run(p, x, &k, epochs * physics_epoch(p, &k), NULL))
        return INFINITY;
    return physics_loss(p, x);
}

/* The rate with the least loss after @epochs from @x. */
static double best_rate(const struct physics *p, const struct state *x,
                        double epochs, double *loss)
{
    double best = 0;

    *loss = INFINITY;
    for (int i = 0; i < RATES; i++) {
        struct state y = *x;
        double value = after(p, &y, rate_at(i), epochs);

        if (value < *loss) {
            *loss = value;
            best = rate_at(i);
        }
    }
    return best;
}

/* Chooses anew every @look epochs what is best over these. */
static double greedy(const struct physics *p, double look, double horizon)
{
    struct state x;
    double loss = NAN;

    physics_start(p, &x);
    for (double t = 0; t < horizon - 0.01; t += look)
        loss = after(p, &x, best_rate(p, &x, look, &loss), look);
    return loss;
}

static void looks(const struct gates_family *g, const struct physics *p)
{
    static const double look[LOOKS] = {0.16, 0.5, 1, 3, 10, 60};
    struct state start;
    double ignored, least;

    physics_start(p, &start);
    best_rate(p, &start, g->horizon_epochs, &least);
    for (int i = 0; i < LOOKS; i++) {
        struct state x = start;
        double rate = best_rate(p, &start, look[i], &ignored);
        double loss = after(p, &x, rate, g->horizon_epochs);

        printf("sim_bias look_epochs=%g rate=%.3g excess_at_%g=%.5f "
               "%.3g times_the_best\n",
               look[i], rate, g->horizon_epochs, loss - 0.1,
               (loss - 0.1) / (least - 0.1));
    }
    for (int i = 0; i < 4; i++)
        printf("sim_bias greedy_every=%g %.3g times_the_best\n", look[i],
               (greedy(p, look[i], g->horizon_epochs) - 0.1) / (least - 0.1));
}

/* A whole run of the tuner for the same time, search included or not. */
static void tuned(const struct gates_family *g, double least, unsigned seeds)
{
    static double excess[SEEDS_MAX], rate[SEEDS_MAX];
    static struct sim_result r;
    unsigned n = 0;

    for (unsigned i = 0; i < seeds; i++) {
        struct sim_family f = g->f;

        f.max_epochs = (uint32_t)g->horizon_epochs;
        f.plateau_epochs = 5;
        sim_run(&f, 3 + 8 * (uint64_t)i, NULL, &r); /* variant 3 */
        rate[n] = r.search[0].winner_value / r.best_rate;
        excess[n++] = (r.loss - 0.1) / least;
    }
    printf("sim_bias mltuner first_rate=%.3g seeds=%u %.3g times_the_best\n",
           gates_median(rate, n), n, gates_median(excess, n));
}

int main(void)
{
    const char *text = getenv("SIM_SEEDS");
    unsigned seeds = text ? (unsigned)strtoul(text, NULL, 10) : 16;
    struct gates_family g;
    struct physics p;
    struct state start;
    double least;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < gates_families(); i++) {
        gates_family(i, &g);
        if (strcmp(g.f.name, "parts") == 0)
            break;
    }
    physics_init(&p, &g.f, 1, 3);
    physics_start(&p, &start);
    looks(&g, &p);
    best_rate(&p, &start, g.horizon_epochs, &least);
    tuned(&g, least - 0.1, seeds < SEEDS_MAX ? seeds : SEEDS_MAX);
    return 0;
}
